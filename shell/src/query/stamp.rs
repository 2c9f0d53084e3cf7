//! Timestamps of the rows of one write: of two rows with one key the later wins whole.
//!
//! Rows of one timestamp would be merged cell by cell, the greater value winning, into a row that
//! nobody wrote. So each row gets a timestamp of its own, or, where the statement fixes the
//! timestamp, only the last of its rows with a key is written.

use std::collections::BTreeSet;

use tidegate_engine::mutation::CellState;
use tidegate_engine::{Database, Mutation, Row};

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
pub(super) fn keep_last(mutations: &mut Vec<Mutation>) {
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
pub(super) fn drop_nulls(mutation: &mut Mutation) {
    let drop = |row: &mut Row| {
        row.cells.retain(|(_, cell)| !matches!(cell.state, CellState::Deleted { .. }));
        row.multi.retain(|(_, multi)| !multi.cells.is_empty());
    };
    mutation.rows.iter_mut().for_each(|(_, row)| drop(row));
    mutation.static_row.iter_mut().for_each(drop);
    mutation.static_row.take_if(|row| row.is_empty());
}
