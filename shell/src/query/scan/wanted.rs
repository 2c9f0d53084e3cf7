//! Partitions that a join asks for: the side of the join that is read first tells their keys, and
//! the scan on its other side reads these instead of the ring.
//!
//! Invariant: whoever waits is answered. A side that ends early, or brings too many keys, makes the
//! scan read all partitions; what it reads too much finds no partner in the join.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::Result;
use tidegate_engine::batch::{arrow_type, value_at};
use tidegate_engine::schema::table_schema::SchemaRef;
use tidegate_engine::schema::{PartitionKey, Value};
use tokio::sync::watch;

use super::pushdown::is_plain;

/// Most keys that are collected; a scan of all partitions takes more from then on.
const KEYS_MAX: usize = 1 << 16;

/// What is known of the keys.
#[derive(Debug, Clone)]
enum Known {
    /// Rows may still come.
    Waits,
    These(Arc<BTreeSet<PartitionKey>>),
    /// Too many, or nobody knows.
    All,
}

#[derive(Debug)]
struct State {
    /// Streams of the telling side that have begun, and ended.
    begun: usize,
    ended: usize,
    keys: BTreeSet<PartitionKey>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct WantedKeys {
    table: SchemaRef,
    /// Streams that tell keys.
    streams: usize,
    state: Mutex<State>,
    known: watch::Sender<Known>,
}

impl WantedKeys {
    /// Keys of `table` that so many streams tell. The types of its partition key must be such that
    /// equal values are one key ([`is_plain`]).
    pub fn new(table: SchemaRef, streams: usize) -> Self {
        debug_assert!(table.partition_key().all(|column| is_plain(&column.ty)));
        let state = State { begun: 0, ended: 0, keys: BTreeSet::new() };
        let known = watch::Sender::new(Known::Waits);
        WantedKeys { table, streams, state: Mutex::new(state), known }
    }

    /// A stream that tells keys begins. One that begins anew may tell others: then all are read.
    pub fn begin(&self) {
        let mut state = self.state();
        state.begun += 1;
        if state.begun > self.streams {
            self.known.send_replace(Known::All);
        }
    }

    /// Adds the keys of rows, given a column for each column of the partition key. A row with a
    /// null wants nothing.
    ///
    /// Errors: those of a cast between types that have none.
    pub fn add(&self, columns: &[ArrayRef]) -> Result<()> {
        if !matches!(*self.known.borrow(), Known::Waits) {
            return Ok(());
        }
        // A number out of range is null then, and in no partition.
        let safe = CastOptions { safe: true, ..CastOptions::default() };
        let parts: Vec<_> = self.table.partition_key().collect();
        let columns = columns.iter().zip(&parts).map(|(column, part)| {
            let wanted = arrow_type(&part.ty);
            match *column.data_type() == wanted {
                true => Ok(Arc::clone(column)),
                false => cast_with_options(column, &wanted, &safe),
            }
        });
        let columns: Vec<ArrayRef> = columns.collect::<std::result::Result<_, _>>()?;
        let rows = columns.first().map_or(0, |column| column.len());
        let mut state = self.state();
        for row in 0..rows {
            let values = columns.iter().zip(&parts);
            let values: Option<Vec<Value>> = values
                .map(|(column, part)| value_at(column, row, &part.ty).ok().flatten())
                .collect();
            // Values that make no key (too long, empty) are in no partition.
            let key =
                values.and_then(|values| PartitionKey::from_values(&self.table, &values).ok());
            state.keys.extend(key);
            if state.keys.len() > KEYS_MAX {
                state.keys.clear();
                self.known.send_replace(Known::All);
                break;
            }
        }
        Ok(())
    }

    /// A stream that tells keys ends, with all its rows told or not.
    pub fn end(&self, is_whole: bool) {
        let mut state = self.state();
        state.ended += 1;
        if !is_whole {
            self.known.send_replace(Known::All);
        } else if state.ended == self.streams && state.begun == self.streams {
            let keys = Arc::new(std::mem::take(&mut state.keys));
            self.known.send_modify(|known| {
                if matches!(known, Known::Waits) {
                    *known = Known::These(keys);
                }
            });
        }
    }

    /// The keys in ring order once all are told; `None` where all partitions are to be read.
    pub async fn wait(&self) -> Option<Arc<BTreeSet<PartitionKey>>> {
        let mut known = self.known.subscribe();
        // The sender is `self`, so it is there.
        let known = known.wait_for(|known| !matches!(known, Known::Waits)).await;
        match known.as_deref() {
            Ok(Known::These(keys)) => Some(Arc::clone(keys)),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, but for want of memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
