//! One cell: a value or its absence, with the timestamp that decides between versions.

use std::cmp::Ordering;

use crate::schema::counter;

/// A cell of a regular or static column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    pub state: CellState,
}

/// What the cell says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellState {
    /// A value that stays. Bytes as Cassandra serialises them.
    Live { value: Box<[u8]> },
    /// A value that is gone from `expiry` (seconds since the epoch) on; `ttl` is what was asked.
    Expiring { value: Box<[u8]>, ttl: i32, expiry: i32 },
    /// Deleted, or written as null, at `deletion_time` (seconds since the epoch).
    Deleted { deletion_time: i32 },
    /// What nodes have counted, as Cassandra serialises it; see `schema::counter`.
    Counter { context: Box<[u8]> },
}

impl Cell {
    pub fn live(timestamp: i64, value: impl Into<Box<[u8]>>) -> Self {
        Cell { timestamp, state: CellState::Live { value: value.into() } }
    }

    pub fn expiring(timestamp: i64, value: impl Into<Box<[u8]>>, ttl: i32, expiry: i32) -> Self {
        Cell { timestamp, state: CellState::Expiring { value: value.into(), ttl, expiry } }
    }

    pub fn deleted(timestamp: i64, deletion_time: i32) -> Self {
        Cell { timestamp, state: CellState::Deleted { deletion_time } }
    }

    pub fn counter(timestamp: i64, context: impl Into<Box<[u8]>>) -> Self {
        Cell { timestamp, state: CellState::Counter { context: context.into() } }
    }

    /// The value a reader sees at `now` (seconds), if any.
    pub fn value_at(&self, now: i32) -> Option<&[u8]> {
        match &self.state {
            CellState::Live { value } => Some(value),
            CellState::Expiring { value, expiry, .. } if *expiry > now => Some(value),
            CellState::Counter { context } => Some(context),
            CellState::Expiring { .. } | CellState::Deleted { .. } => None,
        }
    }

    /// Heap bytes held beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.state {
            CellState::Live { value } | CellState::Expiring { value, .. } => value.len(),
            CellState::Counter { context } => context.len(),
            CellState::Deleted { .. } => 0,
        }
    }

    /// Merges another version of this cell into it; the result does not depend on the order.
    pub fn merge(&mut self, other: Cell) {
        debug_assert_eq!(
            self.reconcile(&other),
            other.reconcile(self).reverse(),
            "which of two cells stands depends on the order: {self:?}, {other:?}"
        );
        if let (CellState::Counter { context: a }, CellState::Counter { context: b }) =
            (&self.state, &other.state)
            && let Some(both) = counter::merge(a, b)
        {
            *self = Cell::counter(self.timestamp.max(other.timestamp), both);
        } else if other.reconcile(self).is_gt() {
            *self = other;
        }
    }

    /// Which of two versions of one cell stands: `Greater` when `self` does. Of two that end
    /// together the one with the shorter life does, before values are compared: it was written
    /// later. ScyllaDB has it so; Cassandra goes on to the values at once.
    fn reconcile(&self, other: &Cell) -> Ordering {
        // A counter that was deleted does not come back, whatever the timestamps.
        match (&self.state, &other.state) {
            (CellState::Deleted { .. }, CellState::Counter { .. }) => return Ordering::Greater,
            (CellState::Counter { .. }, CellState::Deleted { .. }) => return Ordering::Less,
            _ => {}
        }
        let rank = |cell: &Cell| match cell.state {
            CellState::Deleted { .. } => 2,
            CellState::Expiring { .. } => 1,
            CellState::Live { .. } | CellState::Counter { .. } => 0,
        };
        let tie = || match (&self.state, &other.state) {
            (
                CellState::Expiring { value: a, expiry: ea, ttl: ta },
                CellState::Expiring { value: b, expiry: eb, ttl: tb },
            ) => ea.cmp(eb).then_with(|| tb.cmp(ta)).then_with(|| a.cmp(b)),
            (
                CellState::Live { value: a } | CellState::Counter { context: a },
                CellState::Live { value: b } | CellState::Counter { context: b },
            ) => a.cmp(b),
            (CellState::Deleted { deletion_time: a }, CellState::Deleted { deletion_time: b }) => {
                a.cmp(b)
            }
            _ => Ordering::Equal,
        };
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| rank(self).cmp(&rank(other)))
            .then_with(tie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciliation_is_cassandras_and_scylladbs() {
        let wins = |a: &Cell, b: &Cell| {
            assert_eq!(a.reconcile(b), Ordering::Greater, "{a:?} over {b:?}");
            assert_eq!(b.reconcile(a), Ordering::Less);
        };
        wins(&Cell::live(2, *b"a"), &Cell::live(1, *b"z"));
        wins(&Cell::live(1, *b"b"), &Cell::live(1, *b"a"));
        wins(&Cell::deleted(1, 0), &Cell::live(1, *b"z"));
        wins(&Cell::deleted(1, 0), &Cell::expiring(1, *b"z", 5, 10));
        wins(&Cell::expiring(1, *b"a", 5, 10), &Cell::live(1, *b"z"));
        wins(&Cell::expiring(1, *b"a", 5, 11), &Cell::expiring(1, *b"z", 5, 10));
        wins(&Cell::expiring(1, *b"a", 4, 10), &Cell::expiring(1, *b"z", 5, 10));
        wins(&Cell::expiring(1, *b"z", 5, 10), &Cell::expiring(1, *b"a", 5, 10));
        wins(&Cell::deleted(1, 1), &Cell::deleted(1, 0));
        wins(&Cell::live(2, *b"a"), &Cell::deleted(1, 0));
    }

    #[test]
    fn counters_add_up_and_stay_deleted() {
        let shard = |id: u8, clock: i64, count: i64| {
            let mut context = vec![0, 1, 0x80, 0];
            context.extend_from_slice(&[id; 16]);
            context.extend_from_slice(&clock.to_be_bytes());
            context.extend_from_slice(&count.to_be_bytes());
            context
        };
        let (a, b) = (Cell::counter(5, shard(1, 1, 7)), Cell::counter(3, shard(2, 1, 4)));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(b.clone());
        ba.merge(a.clone());
        assert_eq!(ab, ba);
        assert_eq!((ab.timestamp, counter::total(ab.value_at(0).unwrap())), (5, Some(11)));
        let deleted = Cell::deleted(1, 9);
        for (mut first, second) in [(a.clone(), deleted.clone()), (deleted.clone(), a)] {
            first.merge(second);
            assert_eq!(first, deleted);
        }
    }

    #[test]
    fn an_expired_cell_has_no_value() {
        let cell = Cell::expiring(1, *b"v", 5, 10);
        assert_eq!(cell.value_at(9), Some(&b"v"[..]));
        assert_eq!(cell.value_at(10), None);
    }
}
