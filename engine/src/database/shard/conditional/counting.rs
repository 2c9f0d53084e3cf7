//! Steps of counters: what a counter holds is read and becomes what it holds then.
//!
//! Invariant: a step is no part of a write that reaches a commitlog. What reaches it is the state
//! after the step, with a clock, so a replay counts nothing twice.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::mutation::{Cell, CellState, Mutation, Row};
use crate::reader::{RowCondition, RowState};
use crate::schema::{ClusteringKey, ColumnId, TableSchema, counter};

/// What counters hold, by the row, none for static ones, and the column.
pub(super) type Stored = BTreeMap<(Option<ClusteringKey>, ColumnId), Vec<u8>>;

/// What the counters hold that a write steps; the states are those of the rows that the conditions
/// name.
pub(super) fn stored(
    mutation: &Mutation,
    conditions: &[RowCondition],
    states: &[RowState],
) -> Stored {
    let mut all = Stored::new();
    for (at, row) in rows(mutation) {
        let named = conditions.iter().zip(states).find(|(named, _)| named.row.as_ref() == at);
        let values = named.and_then(|(_, state)| state.values.as_ref());
        for (id, _) in steps(row) {
            let held = values.and_then(|values| values.stored(id)).unwrap_or_default();
            all.insert((at.cloned(), id), held.to_vec());
        }
    }
    all
}

/// Replaces the steps of a write by what their counters hold afterwards, at a time in µs.
///
/// Errors: `Invalid` for a step that leaves the range of a bigint, and for one of a row that was
/// not read.
pub(super) fn take_steps(
    schema: &TableSchema,
    mutation: &mut Mutation,
    (stored, at_us): (&Stored, i64),
) -> Result<()> {
    let id_of_table = schema.id.0.to_be_bytes();
    let Mutation { static_row, rows, .. } = mutation;
    let fixed = static_row.iter_mut().map(|row| (None, row));
    for (at, row) in fixed.chain(rows.iter_mut().map(|(key, row)| (Some(key.clone()), row))) {
        for (id, cell) in &mut row.cells {
            let CellState::Counter { context } = &cell.state else { continue };
            let Some(by) = counter::step_by(context) else { continue };
            let held = stored.get(&(at.clone(), *id));
            let counted = held.and_then(|held| counter::counted(held, id_of_table, at_us, by));
            let Some(counted) = counted else {
                let name = &schema.column(*id).name;
                return Err(Error::invalid(format!(
                    "counter '{name}' of {} cannot take a step of {by}: it counts from {} to {}",
                    schema.full_name(),
                    i64::MIN,
                    i64::MAX
                )));
            };
            *cell = Cell::counter(cell.timestamp, counted);
        }
    }
    Ok(())
}

/// The rows of a write, the static one without a key.
pub(in crate::database) fn rows(
    mutation: &Mutation,
) -> impl Iterator<Item = (Option<&ClusteringKey>, &Row)> {
    let fixed = mutation.static_row.iter().map(|row| (None, row));
    fixed.chain(mutation.rows.iter().map(|(key, row)| (Some(key), row)))
}

/// The counters of a row that take a step, and how far.
pub(in crate::database) fn steps(row: &Row) -> impl Iterator<Item = (ColumnId, i64)> {
    row.cells.iter().filter_map(|(id, cell)| match &cell.state {
        CellState::Counter { context } => Some((*id, counter::step_by(context)?)),
        _ => None,
    })
}
