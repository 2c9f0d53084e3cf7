//! What is dead for good is left out of what is written: tombstones, and cells past their time.
//!
//! A tombstone goes under two conditions: its grace has passed, and nothing that it covers is in
//! any other source of the partition. A cell past its time covers older values of itself, so it
//! goes under the same conditions; while only its grace keeps it, it becomes a tombstone and its
//! value goes.
//!
//! Invariant: a reader sees the same with what was left out and without it, whatever other sources
//! hold at this moment. Only a write that comes later and is older than what went would tell.
//!
//! Not here: what tombstones of the same stream cover (`reader::Uncovered`, which comes before).

use std::rc::Rc;

use crate::mutation::{
    Cell, CellState, FlatState, Fragment, Liveness, MultiCell, Row, RowView, Tombstone, ViewRoom,
};
use crate::schema::{ColumnId, DataType, PartitionKey, TableSchema};

/// The sources that a merge does not take in: other SSTables, memtables, logs to be replayed.
pub trait Others {
    /// No timestamp that they have of the partition is less; `i64::MAX` when they have nothing.
    fn oldest(&self, key: &PartitionKey) -> i64;
}

/// What was left out so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Tombstones of all kinds, and cells and marks past their time.
    pub count: u64,
    /// Cells past their time that are tombstones now.
    pub converted: u64,
    /// Timestamp of the newest of both.
    pub newest: Option<i64>,
}

/// Looks at the fragments of a forward stream one after another.
pub struct Purge<O> {
    others: O,
    /// Seconds since the epoch: what expires until then has expired.
    now: i32,
    /// Tombstones of before then are past their grace.
    before: i32,
    /// Columns in which a deletion stands whatever its timestamp.
    counters: Vec<ColumnId>,
    key: Option<Rc<PartitionKey>>,
    /// What `others` say of the partition, once they were asked.
    oldest: Option<i64>,
    /// The range tombstone in force that was let through.
    range: Option<Tombstone>,
    purged: Purged,
    room: ViewRoom,
}

impl<O: Others> Purge<O> {
    /// A purge as of `now`, seconds since the epoch, of tombstones older than `grace` seconds.
    pub fn new(schema: &TableSchema, others: O, now: i32, grace: i32) -> Self {
        let counts = |id: &ColumnId| schema.column(*id).ty == DataType::Counter;
        Purge {
            others,
            now,
            before: now.saturating_sub(grace),
            counters: schema.ids().filter(counts).collect(),
            key: None,
            oldest: None,
            range: None,
            purged: Purged::default(),
            room: ViewRoom::default(),
        }
    }

    pub fn purged(&self) -> Purged {
        self.purged
    }

    /// The range tombstone that is in force in what was let through.
    pub(super) fn range(&self) -> Option<Tombstone> {
        self.range
    }

    /// Of a row what is dead: deletions, marks that expire, and cells past their time as deletions.
    pub(super) fn dead_of(&self, row: &Row) -> Row {
        let dead_cell = |cell: &Cell| match cell.state {
            CellState::Deleted { .. } => Some(cell.clone()),
            CellState::Expiring { expiry, .. } if expiry <= self.now => {
                Some(Cell::deleted(cell.timestamp, expiry))
            }
            _ => None,
        };
        let multi = row.multi.iter().map(|(column, multi)| {
            let cells = multi.cells.iter();
            let cells = cells.filter_map(|(path, cell)| Some((path.clone(), dead_cell(cell)?)));
            (*column, MultiCell { deletion: multi.deletion, cells: cells.collect() })
        });
        let cells = row.cells.iter();
        Row {
            liveness: row.liveness.filter(|live| live.ttl != 0),
            deletion: row.deletion,
            cells: cells.filter_map(|(id, cell)| Some((*id, dead_cell(cell)?))).collect(),
            multi: multi.filter(|(_, multi)| !multi.is_empty()).collect(),
        }
    }

    /// What is left of a fragment.
    pub fn pass(&mut self, fragment: Fragment) -> Option<Fragment> {
        Some(match fragment {
            Fragment::PartitionStart { key, deletion } => {
                (self.key, self.oldest, self.range) = (Some(key.clone()), None, None);
                let deletion = self.left_of_tombstone(deletion);
                Fragment::PartitionStart { key, deletion }
            }
            Fragment::StaticRow(row) => Fragment::StaticRow(self.left_of_row(row)?),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let tombstone = self.left_of_tombstone(tombstone);
                if tombstone == self.range {
                    return None;
                }
                self.range = tombstone;
                Fragment::RangeTombstoneChange { position, tombstone }
            }
            Fragment::Row { key, row } => Fragment::Row { key, row: self.left_of_row(row)? },
            Fragment::FlatRow(_) => return self.pass(fragment.thawed()),
            Fragment::PartitionEnd => fragment,
        })
    }

    /// Whether nothing that something of this timestamp covers is in another source.
    fn covers_nothing_else(&mut self, timestamp: i64) -> bool {
        timestamp < self.oldest_of_others()
    }

    fn oldest_of_others(&mut self) -> i64 {
        let key = self.key.as_ref().expect("fragments come within a partition");
        *self.oldest.get_or_insert_with(|| self.others.oldest(key))
    }

    /// Counts something that goes, or changes.
    fn note(&mut self, timestamp: i64, is_converted: bool) {
        let counted =
            if is_converted { &mut self.purged.converted } else { &mut self.purged.count };
        *counted += 1;
        self.purged.newest = self.purged.newest.max(Some(timestamp));
    }

    /// Whether a deletion of then can go.
    fn may_go(&mut self, timestamp: i64, deletion_time: i32) -> bool {
        let may_go = deletion_time < self.before && self.covers_nothing_else(timestamp);
        if may_go {
            self.note(timestamp, false);
        }
        may_go
    }

    fn left_of_tombstone(&mut self, tombstone: Option<Tombstone>) -> Option<Tombstone> {
        tombstone.filter(|own| !self.may_go(own.timestamp, own.deletion_time))
    }

    /// Whether there is anything in a row that this may change.
    pub(super) fn concerns(&self, row: &RowView<'_>) -> bool {
        let is_dead = |state: FlatState<'_>| match state {
            FlatState::Deleted { deletion_time } => deletion_time < self.before,
            FlatState::Expiring { expiry, .. } => expiry <= self.now,
            FlatState::Live(_) | FlatState::Counter(_) => false,
        };
        let is_past = |own: Tombstone| own.deletion_time < self.before;
        row.deletion.is_some_and(is_past)
            || row.liveness.is_some_and(|live| live.ttl != 0 && live.expiry < self.before)
            || row.multi.iter().any(|(_, multi)| multi.deletion.is_some_and(is_past))
            || row.has_cell(is_dead)
    }

    /// `None` when nothing is left.
    fn left_of_row(&mut self, mut row: Rc<Row>) -> Option<Rc<Row>> {
        let mut room = std::mem::take(&mut self.room);
        let is_concerned = room.of_row(&row, |row| self.concerns(&row));
        self.room = room;
        if is_concerned {
            let own = Rc::make_mut(&mut row);
            own.deletion = self.left_of_tombstone(own.deletion);
            own.liveness = own.liveness.filter(|live| !self.has_passed(*live));
            let cells = std::mem::take(&mut own.cells).into_iter();
            own.cells = cells
                .filter_map(|(column, cell)| Some((column, self.left_of_cell(column, cell)?)))
                .collect();
            let multi = std::mem::take(&mut own.multi).into_iter();
            own.multi = multi
                .map(|(column, multi)| (column, self.left_of_multi(column, multi)))
                .filter(|(_, multi)| !multi.is_empty())
                .collect();
        }
        (!row.is_empty()).then_some(row)
    }

    /// Whether a mark is past its time and can go.
    fn has_passed(&mut self, live: Liveness) -> bool {
        live.ttl != 0 && self.may_go(live.timestamp, live.expiry)
    }

    fn left_of_multi(&mut self, column: ColumnId, multi: MultiCell) -> MultiCell {
        let deletion = self.left_of_tombstone(multi.deletion);
        let cells = multi.cells.into_iter();
        let cells = cells.filter_map(|(path, cell)| Some((path, self.left_of_cell(column, cell)?)));
        MultiCell { deletion, cells: cells.collect() }
    }

    fn left_of_cell(&mut self, column: ColumnId, cell: Cell) -> Option<Cell> {
        match cell.state {
            CellState::Deleted { deletion_time } => {
                // A counter that is newer than its deletion is deleted as well.
                let is_last =
                    !self.counters.contains(&column) || self.oldest_of_others() == i64::MAX;
                (!(is_last && self.may_go(cell.timestamp, deletion_time))).then_some(cell)
            }
            CellState::Expiring { expiry, .. } if expiry <= self.now => {
                if self.may_go(cell.timestamp, expiry) {
                    return None;
                }
                // A deletion is stronger than another write of the same moment that lives longer.
                if !self.covers_nothing_else(cell.timestamp) {
                    return Some(cell);
                }
                self.note(cell.timestamp, true);
                Some(Cell::deleted(cell.timestamp, expiry))
            }
            _ => Some(cell),
        }
    }
}
