//! An engine under measurement.

mod fjall;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tidegate;

use std::path::Path;

use tidegate_engine::clock::Random;

pub use self::fjall::Fjall;
#[cfg(feature = "rocksdb")]
pub use self::rocksdb::{RocksDb, options as rocksdb_options};
pub use self::tidegate::{Tidegate, definition, insert};

use crate::work::Place;

/// Memory for blocks or rows: more than all of the data.
const CACHE_BYTES: usize = 1 << 30;
/// Memory for writes before a flush.
const MEMTABLE_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Forward,
    Reversed,
}

/// One table of wide partitions. Every method stops the benchmark where it fails.
pub trait Store {
    const NAME: &'static str;
    /// Names of the reads of the hot set and of those over all rows.
    const POINT_NAMES: [&'static str; 2] = ["point read, hot set", "point read, random"];
    const POINT_CALLS_NAME: Option<&'static str> = None;
    const WRITE_NAME: &'static str = "unsynced write";
    const WRITE_CALLS_NAME: Option<&'static str> = None;

    fn open(folder: &Path) -> Self;

    /// Writes all rows of one partition together.
    fn write_partition(&self, pk: i64);

    /// Returns when all rows are in data files.
    fn flush(&self);

    /// Lets work in the background end, and brings the files into their final form.
    fn settle(&self);

    /// Looks up one row after the other; how many were found.
    fn points(&self, places: &[Place]) -> usize;

    /// The same, with one call to another thread for each.
    fn point_calls(&self, places: &[Place]) -> usize {
        self.points(places)
    }

    /// Reads whole partitions; how many rows they have.
    fn slices(&self, partitions: &[i64], order: Order) -> usize;

    /// Reads everything; how many rows there are.
    fn scan(&self) -> usize;

    /// Overwrites one row after the other. Each is in the log's file or buffer when the next
    /// begins.
    fn writes(&self, places: &[Place]);

    /// The same, with one call to another thread for each.
    fn write_calls(&self, places: &[Place]) {
        self.writes(places);
    }

    fn close(self);
}

/// Key of a row in an engine that knows bytes only: a hash that spreads partitions as tokens do,
/// the partition key, the clustering key.
pub fn key((pk, ck): Place) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&hash(pk).to_be_bytes());
    key[8..16].copy_from_slice(&pk.to_be_bytes());
    key[16..].copy_from_slice(&ck.to_be_bytes());
    key
}

fn hash(pk: i64) -> u64 {
    Random::new(pk as u64).below(u64::MAX)
}
