//! fjall: leveled, LZ4, blocks of 4 KiB, its own filters and defaults.

use std::path::Path;

use ::fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions};

use super::{CACHE_BYTES, MEMTABLE_BYTES, Order, Store, key};
use crate::work::{Place, ROWS_PER_PARTITION, VALUE_BYTES, value};

pub struct Fjall {
    database: Database,
    rows: Keyspace,
}

fn is_row(guard: Guard) -> bool {
    guard.value().expect("a read").len() == VALUE_BYTES
}

impl Store for Fjall {
    const NAME: &'static str = "fjall";

    fn open(folder: &Path) -> Self {
        let database = Database::builder(folder).cache_size(CACHE_BYTES as u64).open();
        let database = database.expect("an empty folder");
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES as u64);
        let rows = database.keyspace("rows", options).expect("a new keyspace");
        Fjall { database, rows }
    }

    fn write_partition(&self, pk: i64) {
        let mut batch = self.database.batch();
        for ck in 0..ROWS_PER_PARTITION {
            batch.insert(&self.rows, key((pk, ck)), value((pk, ck)));
        }
        batch.commit().expect("a write");
    }

    fn flush(&self) {
        self.rows.rotate_memtable_and_wait().expect("a flush");
    }

    fn settle(&self) {
        self.rows.major_compact().expect("a compaction");
    }

    fn points(&self, places: &[Place]) -> usize {
        let is_found = |place: &&Place| {
            let value = self.rows.get(key(**place)).expect("a read");
            value.is_some_and(|value| value.len() == VALUE_BYTES)
        };
        places.iter().filter(is_found).count()
    }

    fn slices(&self, partitions: &[i64], order: Order) -> usize {
        let rows_of = |pk: &i64| {
            let rows = self.rows.range(key((*pk, 0))..key((*pk, ROWS_PER_PARTITION)));
            match order {
                Order::Forward => rows.filter_map(|row| is_row(row).then_some(())).count(),
                Order::Reversed => rows.rev().filter_map(|row| is_row(row).then_some(())).count(),
            }
        };
        partitions.iter().map(rows_of).sum()
    }

    fn scan(&self) -> usize {
        self.rows.iter().filter_map(|row| is_row(row).then_some(())).count()
    }

    fn writes(&self, places: &[Place]) {
        for place in places {
            self.rows.insert(key(*place), value(*place)).expect("a write");
        }
    }

    fn close(self) {}
}
