//! The parts of a table on one shard, and what a read of it merges.

use std::cell::RefCell;
use std::rc::Rc;

use crate::memtable::Memtable;
use crate::mutation::{FragmentSource, PartitionRange, Slice};
use crate::schema::table_schema::SchemaRef;

/// See the head of this file.
pub struct Table {
    pub(super) schema: SchemaRef,
    pub(super) active: RefCell<Rc<Memtable>>,
}

/// Sizes of a table on one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    pub memtable_rows: u64,
    pub memtable_bytes: u64,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub sstable_rows: u64,
}

impl Table {
    pub fn new(schema: SchemaRef) -> Rc<Self> {
        Rc::new(Table { schema, active: RefCell::new(Memtable::new()) })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The memtable that takes writes now.
    pub fn active(&self) -> Rc<Memtable> {
        self.active.borrow().clone()
    }

    pub fn stats(&self) -> TableStats {
        let stats = self.active().stats();
        TableStats {
            memtable_rows: stats.rows as u64,
            memtable_bytes: stats.bytes as u64,
            ..TableStats::default()
        }
    }

    pub fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        self.active().read(range, slice)
    }
}
