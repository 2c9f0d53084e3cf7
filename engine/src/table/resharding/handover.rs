//! What the shards of a table tell each other of SSTables that were written under another number of
//! shards: which of them need each no more. When none does, its files may go.
//!
//! Invariant: a shard says that only when its own manifest cannot lose it any more, so the board
//! holds nothing that a start would not find again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::schema::TableId;

/// A board that all shards of a database share. See the head of this file.
#[derive(Debug)]
pub struct Handovers {
    shard_count: u32,
    tables: Mutex<BTreeMap<TableId, Handover>>,
}

/// The SSTables of one table.
#[derive(Debug, Default)]
struct Handover {
    /// Shards that need an SSTable no more, by its number.
    done: BTreeMap<u64, BTreeSet<u32>>,
    /// Shards that have said what they find at their start.
    begun: BTreeSet<u32>,
    /// SSTables of which somebody needs a part, or whose files are there.
    count: u64,
}

impl Handovers {
    pub fn new(shard_count: u32) -> Arc<Self> {
        assert!(shard_count > 0, "a database has at least one shard");
        Arc::new(Handovers { shard_count, tables: Mutex::default() })
    }

    fn with<T>(&self, table: TableId, change: impl FnOnce(&mut Handover) -> T) -> T {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        change(tables.entry(table).or_default())
    }

    /// A shard has opened a table, and has to see to it that so many SSTables go.
    pub(in crate::table) fn begin(&self, table: TableId, shard: u32, count: u64) {
        assert!(shard < self.shard_count, "shard {shard} of {}", self.shard_count);
        self.with(table, |handover| {
            let is_new = handover.begun.insert(shard);
            assert!(is_new, "shard {shard} begins twice with table {}", table.hex());
            handover.count += count;
        });
    }

    /// A shard needs an SSTable no more.
    pub(in crate::table) fn leave(&self, table: TableId, shard: u32, number: u64) {
        assert!(shard < self.shard_count, "shard {shard} of {}", self.shard_count);
        self.with(table, |handover| {
            let is_new = handover.done.entry(number).or_default().insert(shard);
            assert!(is_new, "shard {shard} needs SSTable {number} no more, for the second time");
        });
    }

    /// SSTables that no shard needs.
    pub(in crate::table) fn unneeded(&self, table: TableId) -> Vec<u64> {
        self.with(table, |handover| {
            let shards = self.shard_count as usize;
            let is_unneeded = |(_, done): &(&u64, &BTreeSet<u32>)| done.len() == shards;
            handover.done.iter().filter(is_unneeded).map(|(number, _)| *number).collect()
        })
    }

    /// The files of an SSTable are gone. Whether they were the last of the table.
    pub(in crate::table) fn end(&self, table: TableId, number: u64) -> bool {
        self.with(table, |handover| {
            // Nothing is known of a table that another shard has dropped meanwhile.
            let Some(done) = handover.done.remove(&number) else { return false };
            let shards = self.shard_count as usize;
            assert_eq!(done.len(), shards, "SSTable {number} is gone too early");
            handover.count -= 1;
            handover.count == 0 && handover.begun.len() == self.shard_count as usize
        })
    }

    /// The table is dropped.
    pub fn forget(&self, table: TableId) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).remove(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sstable_goes_when_no_shard_needs_it() {
        let (board, table) = (Handovers::new(2), TableId(7));
        board.begin(table, 0, 1);
        board.leave(table, 0, 5);
        board.leave(table, 0, 6);
        assert_eq!(board.unneeded(table), [0; 0]);
        board.begin(table, 1, 1);
        board.leave(table, 1, 6);
        assert_eq!(board.unneeded(table), [6]);
        assert!(!board.end(table, 6), "one is left");
        board.leave(table, 1, 5);
        assert_eq!(board.unneeded(table), [5]);
        assert!(board.end(table, 5));
        board.leave(table, 0, 8);
        board.leave(table, 1, 8);
        board.forget(table);
        assert_eq!(board.unneeded(table), [0; 0]);
        assert!(!board.end(table, 8), "the table is gone");
    }
}
