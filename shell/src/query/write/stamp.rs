//! Timestamps of the rows of one write: of two rows with one key the later wins whole.
//!
//! Rows of one timestamp would be merged cell by cell, the greater value winning, into a row that
//! nobody wrote. So each row gets a timestamp of its own. Where the statement fixes the timestamp,
//! only the last of the VALUES with a key is written; of a SELECT, whose rows may be more than
//! memory holds, two with one key that differ are refused.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_engine::mutation::CellState;
use tidegate_engine::{Database, Mutation, Row};

use crate::query::error::{QueryError, Result};

/// Bytes of an entry of [`Written`]: three hashes, and the room that a hash table leaves.
const ENTRY_BYTES: usize = 32;
/// Entries of the smallest [`Written`]: what a table of 1024 buckets holds.
const ENTRIES_MIN: usize = 896;

/// How the rows of one INSERT with the same key are told apart.
pub(in crate::query) enum Repeats {
    /// Each has a timestamp of its own.
    Stamp,
    /// Only the last is written.
    KeepLast,
    /// Two that differ are refused.
    Refuse(Written),
}

impl Repeats {
    /// `memory` is what [`Written`] may take.
    pub fn new(is_timestamp_fixed: bool, is_list: bool, memory: &Arc<dyn MemoryPool>) -> Self {
        match (is_timestamp_fixed, is_list) {
            (false, _) => Repeats::Stamp,
            (true, true) => Repeats::KeepLast,
            (true, false) => Repeats::Refuse(Written::new(memory)),
        }
    }
}

/// What a statement has written so far: a hash of each row, by a hash of its key.
pub(in crate::query) struct Written {
    /// 128 bits of the key: no two keys of one statement will ever share them.
    rows: HashMap<[u64; 2], u64>,
    memory: MemoryReservation,
}

/// A row that has the key of an earlier one and says something else.
pub(in crate::query) struct Contradiction {
    /// Its place among the mutations.
    pub row: usize,
    /// Whether it is about the static columns of the partition.
    pub is_static: bool,
}

impl Written {
    fn new(memory: &Arc<dyn MemoryPool>) -> Self {
        let memory = MemoryConsumer::new("the keys of an INSERT").register(memory);
        Written { rows: HashMap::new(), memory }
    }

    /// Takes rows in, up to the first that contradicts an earlier one. Equal rows do not.
    ///
    /// Errors: `Overloaded` when there are more than memory holds.
    pub fn add(&mut self, mutations: &[Mutation]) -> Result<Option<Contradiction>> {
        for (row, mutation) in mutations.iter().enumerate() {
            let fixed = mutation.static_row.iter().map(|content| (None, content));
            let rows = mutation.rows.iter().map(|(key, content)| (Some(key), content));
            for (clustering, content) in fixed.chain(rows) {
                self.make_room()?;
                let key = [0u8, 1].map(|seed| hash(&(seed, &mutation.key, clustering)));
                let content = content_hash(content);
                if *self.rows.entry(key).or_insert(content) != content {
                    return Ok(Some(Contradiction { row, is_static: clustering.is_none() }));
                }
            }
        }
        Ok(None)
    }

    fn make_room(&mut self) -> Result<()> {
        if self.rows.len() < self.rows.capacity() {
            return Ok(());
        }
        let more = self.rows.len().max(ENTRIES_MIN);
        self.memory.try_grow(more * ENTRY_BYTES).map_err(|error| {
            QueryError::from(error).with_help(format!(
                "a SELECT written with USING TIMESTAMP takes {ENTRY_BYTES} bytes a row to find keys \
                 that repeat: select fewer rows at a time"
            ))
        })?;
        self.rows.reserve(more);
        Ok(())
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Of the values alone, elements of collections included: timestamp and time to live are those of
/// the statement.
fn content_hash(row: &Row) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (column, cell) in &row.cells {
        (column.0, cell.value_at(i32::MIN)).hash(&mut hasher);
    }
    for (column, multi) in &row.multi {
        (column.0, multi.cells.len()).hash(&mut hasher);
        for (path, cell) in &multi.cells {
            (path, cell.value_at(i32::MIN)).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Gives rows rising timestamps, in their order.
pub(crate) fn stamp(database: &Database, mutations: &mut [Mutation]) {
    for mutation in mutations {
        let timestamp = database.timestamp_us();
        let rows = mutation.rows.iter_mut().map(|(_, row)| row);
        for row in rows.chain(&mut mutation.static_row) {
            row.restamp(timestamp);
        }
    }
}

/// Leaves the last row of each key, and the last static row of each partition.
pub(in crate::query) fn keep_last(mutations: &mut Vec<Mutation>) {
    let (mut rows, mut fixed) = (BTreeSet::new(), BTreeSet::new());
    for mutation in mutations.iter_mut().rev() {
        let key = &mutation.key;
        mutation.rows.retain(|(clustering, _)| rows.insert((key.clone(), clustering.clone())));
        if mutation.static_row.is_some() && !fixed.insert(key.clone()) {
            mutation.static_row = None;
        }
    }
    mutations.retain(|mutation| !mutation.rows.is_empty() || mutation.static_row.is_some());
}

/// Takes the tombstones of nulls out: their columns stay unset.
pub(in crate::query) fn drop_nulls(mutation: &mut Mutation) {
    let drop = |row: &mut Row| {
        row.cells.retain(|(_, cell)| !matches!(cell.state, CellState::Deleted { .. }));
        row.multi.retain(|(_, multi)| !multi.cells.is_empty());
    };
    mutation.rows.iter_mut().for_each(|(_, row)| drop(row));
    mutation.static_row.iter_mut().for_each(drop);
    mutation.static_row.take_if(|row| row.is_empty());
}
