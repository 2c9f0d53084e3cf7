//! What SSTables say of one row: the answer to the commonest read, without a stream around it.

use std::rc::Rc;

use super::flat::FlatRow;
use super::row::Row;
use super::tombstone::{Tombstone, strongest};

/// A row of a partition that exists, as one SSTable has it, or several of them together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PointRead {
    /// The deletion of the partition and its static row; nobody may rely on them who did not ask
    /// for them.
    pub deletion: Option<Tombstone>,
    pub static_row: Option<Rc<Row>>,
    /// The range tombstone in force at the row; the row is as it is stored, whatever that covers.
    pub tombstone: Option<Tombstone>,
    /// `None` where no such row is stored.
    pub row: Option<FlatRow>,
}

impl PointRead {
    /// Takes in what another SSTable says.
    pub fn merge(&mut self, other: PointRead) {
        self.deletion = strongest(self.deletion, other.deletion);
        self.tombstone = strongest(self.tombstone, other.tombstone);
        match (&mut self.static_row, other.static_row) {
            (Some(own), Some(other)) => Rc::make_mut(own).merge(&other),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
        match (&mut self.row, other.row) {
            (Some(own), Some(other)) => {
                debug_assert_eq!(own.key(), other.key(), "rows of two places are merged");
                let mut row = own.thaw();
                row.merge(&other.thaw());
                *own = FlatRow::row(own.key(), &row);
            }
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }
}
