//! RocksDB: leveled, LZ4, blocks of 4 KiB, Bloom filters of 10 bits, a HyperClock cache.

use std::path::Path;

use ::rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch,
};

use super::{CACHE_BYTES, MEMTABLE_BYTES, Order, Store, key};
use crate::work::{Place, ROWS_PER_PARTITION, VALUE_BYTES, value};

const BLOCK_BYTES: usize = 4 << 10;
const FILTER_BITS: f64 = 10.0;

pub struct RocksDb(DB);

/// What all work has in common.
pub fn options() -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_hyper_clock_cache(CACHE_BYTES, BLOCK_BYTES));
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_bloom_filter(FILTER_BITS, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

impl Store for RocksDb {
    const NAME: &'static str = "RocksDB";

    fn open(folder: &Path) -> Self {
        let mut options = options();
        options.set_write_buffer_size(MEMTABLE_BYTES);
        RocksDb(DB::open(&options, folder).expect("an empty folder"))
    }

    fn write_partition(&self, pk: i64) {
        let mut batch = WriteBatch::default();
        for ck in 0..ROWS_PER_PARTITION {
            batch.put(key((pk, ck)), value((pk, ck)));
        }
        self.0.write(batch).expect("a write");
    }

    fn flush(&self) {
        self.0.flush().expect("a flush");
    }

    fn settle(&self) {
        self.0.compact_range(None::<&[u8]>, None::<&[u8]>);
        self.0.wait_for_compact(&WaitForCompactOptions::default()).expect("a compaction");
    }

    fn points(&self, places: &[Place]) -> usize {
        let is_found = |place: &&Place| {
            let value = self.0.get_pinned(key(**place)).expect("a read");
            value.is_some_and(|value| value.len() == VALUE_BYTES)
        };
        places.iter().filter(is_found).count()
    }

    fn slices(&self, partitions: &[i64], order: Order) -> usize {
        let mut rows = 0;
        for pk in partitions {
            let mut options = ReadOptions::default();
            options.set_iterate_lower_bound(key((*pk, 0)));
            options.set_iterate_upper_bound(key((*pk, ROWS_PER_PARTITION)));
            let mut at = self.0.raw_iterator_opt(options);
            match order {
                Order::Forward => at.seek_to_first(),
                Order::Reversed => at.seek_to_last(),
            }
            while let Some(value) = at.value() {
                rows += usize::from(value.len() == VALUE_BYTES);
                match order {
                    Order::Forward => at.next(),
                    Order::Reversed => at.prev(),
                }
            }
            at.status().expect("a read");
        }
        rows
    }

    fn scan(&self) -> usize {
        let mut at = self.0.raw_iterator();
        let mut rows = 0;
        at.seek_to_first();
        while let Some(value) = at.value() {
            rows += usize::from(value.len() == VALUE_BYTES);
            at.next();
        }
        at.status().expect("a read");
        rows
    }

    fn writes(&self, places: &[Place]) {
        for place in places {
            self.0.put(key(*place), value(*place)).expect("a write");
        }
    }

    fn close(self) {
        self.0.cancel_all_background_work(true);
    }
}
