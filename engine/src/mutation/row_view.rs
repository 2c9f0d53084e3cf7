//! A row that is looked at where it lies, in either of its forms.
//!
//! Invariant: that of a [`Row`]: cells and multi-cell columns are sorted by column, one a column.

use super::cell::Cell;
use super::flat::{FlatCell, FlatRow, FlatState};
use super::multi_cell::MultiCell;
use super::row::{Liveness, Row};
use super::tombstone::Tombstone;
use crate::schema::ColumnId;

/// See the head of this file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowView<'a> {
    pub(crate) liveness: Option<Liveness>,
    pub(crate) deletion: Option<Tombstone>,
    /// Those of single-cell columns.
    pub(crate) cells: &'a [FlatCell<'a>],
    pub(crate) multi: &'a [(ColumnId, MultiCell)],
}

impl RowView<'_> {
    /// A row of nothing.
    pub(crate) const EMPTY: RowView<'static> =
        RowView { liveness: None, deletion: None, cells: &[], multi: &[] };

    pub(crate) fn is_empty(&self) -> bool {
        self.liveness.is_none()
            && self.deletion.is_none()
            && self.cells.is_empty()
            && self.multi.is_empty()
    }

    /// The states of all cells, of those of multi-cell columns too.
    fn states(&self) -> impl Iterator<Item = FlatState<'_>> {
        let multi = self.multi.iter().flat_map(|(_, multi)| &multi.cells);
        let multi = multi.map(|(_, cell)| FlatState::of(cell));
        self.cells.iter().map(|cell| cell.state).chain(multi)
    }

    /// Bytes of the values of single-cell columns: no file has the row in less.
    pub(crate) fn value_bytes(&self) -> usize {
        self.cells.iter().map(|cell| cell.state.value().len()).sum()
    }

    /// Whether `tombstone` covers something of the row, but for its own deletion.
    pub(crate) fn is_touched_by(&self, tombstone: Tombstone) -> bool {
        self.liveness.is_some_and(|live| tombstone.covers(live.timestamp))
            || self.cells.iter().any(|cell| tombstone.covers(cell.timestamp))
            || self.multi.iter().any(|(_, multi)| multi.is_touched_by(tombstone))
    }

    /// Whether the row holds nothing that its own tombstone covers.
    pub(crate) fn is_compacted(&self) -> bool {
        self.deletion.is_none_or(|own| !self.is_touched_by(own))
    }

    /// Whether the row has nothing but tombstones.
    pub(crate) fn is_dead(&self) -> bool {
        let is_live = |state: FlatState<'_>| !matches!(state, FlatState::Deleted { .. });
        self.liveness.is_none() && !self.states().any(is_live)
    }

    /// Whether there is a cell, of any column, of which `is_such` says so.
    pub(crate) fn has_cell(&self, is_such: impl Fn(FlatState<'_>) -> bool) -> bool {
        self.states().any(is_such)
    }

    /// A copy of the row.
    pub(crate) fn to_row(self) -> Row {
        let cells = self.cells.iter().map(|cell| (cell.column, cell.thaw())).collect();
        let RowView { liveness, deletion, multi, .. } = self;
        let row = Row { liveness, deletion, cells, multi: multi.to_vec() };
        debug_assert_eq!(row.is_empty(), self.is_empty(), "a copy of another row: {row:?}");
        row.check_order();
        row
    }
}

impl<'a> FlatState<'a> {
    /// That of a cell.
    pub(crate) fn of(cell: &'a Cell) -> Self {
        FlatCell::of(super::flat::NO_COLUMN, cell).state
    }

    /// The value, or what stands in its place; nothing of a deletion.
    pub(crate) fn value(self) -> &'a [u8] {
        match self {
            FlatState::Live(value) | FlatState::Expiring { value, .. } => value,
            FlatState::Counter(context) => context,
            FlatState::Deleted { .. } => &[],
        }
    }
}

/// A row in one form or the other. Who looks at it wants the flat one without multi-cell columns.
#[derive(Clone, Copy)]
pub(crate) enum RowForm<'a> {
    Row(&'a Row),
    Flat(&'a FlatRow),
}

impl RowForm<'_> {
    /// The row with this key, in one piece of memory: its own where it has that.
    pub(crate) fn to_flat(self, key: &[u8]) -> FlatRow {
        match self {
            RowForm::Row(row) => FlatRow::row(key, row),
            RowForm::Flat(flat) => {
                debug_assert_eq!(flat.key(), key, "a row gets another key");
                flat.clone()
            }
        }
    }

    /// Timestamp of the newest thing in the row; `None` of an empty one.
    pub(crate) fn newest_timestamp(self) -> Option<i64> {
        match self {
            RowForm::Row(row) => row.newest_timestamp(),
            RowForm::Flat(flat) if flat.has_multi() => flat.thaw().newest_timestamp(),
            RowForm::Flat(flat) => {
                let (liveness, deletion, cells) = flat.parts();
                let own = liveness.map(|live| live.timestamp);
                let deletion = deletion.map(|deletion| deletion.timestamp);
                own.max(deletion).max(cells.map(|cell| cell.timestamp).max())
            }
        }
    }

    /// Whether the row holds nothing that its own tombstone covers.
    pub(crate) fn is_compacted(self) -> bool {
        match self {
            RowForm::Row(row) => row.is_compacted(),
            RowForm::Flat(flat) if flat.has_multi() => flat.thaw().is_compacted(),
            RowForm::Flat(flat) => flat.deletion().is_none_or(|own| !flat.is_touched_by(own)),
        }
    }
}

/// Room for the cells of one row after another.
#[derive(Debug, Default)]
pub(crate) struct ViewRoom(Vec<FlatCell<'static>>);

impl ViewRoom {
    /// What `look` makes of a row.
    pub(crate) fn of<T>(&mut self, form: RowForm<'_>, look: impl FnOnce(RowView<'_>) -> T) -> T {
        match form {
            RowForm::Row(row) => self.of_row(row, look),
            RowForm::Flat(flat) => self.of_flat(flat, look),
        }
    }

    /// What `look` makes of a row.
    pub(crate) fn of_row<T>(&mut self, row: &Row, look: impl FnOnce(RowView<'_>) -> T) -> T {
        row.check_order();
        let Row { liveness, deletion, multi, .. } = row;
        let cells = row.cells.iter().map(|(column, cell)| FlatCell::of(*column, cell));
        self.fill(((*liveness, *deletion), multi), cells, look)
    }

    /// What `look` makes of a row without multi-cell columns. There must be a row.
    pub(crate) fn of_flat<T>(&mut self, flat: &FlatRow, look: impl FnOnce(RowView<'_>) -> T) -> T {
        assert!(!flat.has_multi(), "a row with multi-cell columns is looked at as one without");
        let (liveness, deletion, cells) = flat.parts();
        self.fill(((liveness, deletion), &[]), cells, look)
    }

    fn fill<'a, T>(
        &mut self,
        ((liveness, deletion), multi): (Front, &'a [(ColumnId, MultiCell)]),
        from: impl Iterator<Item = FlatCell<'a>>,
        look: impl FnOnce(RowView<'_>) -> T,
    ) -> T {
        let mut cells: Vec<FlatCell<'a>> = std::mem::take(&mut self.0);
        debug_assert!(cells.is_empty(), "the room was left with cells");
        cells.extend(from);
        debug_assert!(cells.is_sorted_by_key(|cell| cell.column), "not in order: {cells:?}");
        let made = look(RowView { liveness, deletion, cells: &cells, multi });
        cells.clear();
        // The memory of nothing: it may outlive what it held.
        self.0 = cells.into_iter().map(|_| unreachable!("it was cleared")).collect();
        made
    }
}

type Front = (Option<Liveness>, Option<Tombstone>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::CellPath;

    fn row() -> Row {
        let cells = vec![
            (ColumnId(1), Cell::live(5, *b"value")),
            (ColumnId(3), Cell::deleted(6, 70)),
            (ColumnId(40), Cell::expiring(7, *b"gone", 10, 90)),
        ];
        Row { liveness: Some(Liveness::at(5)), deletion: None, cells, multi: Vec::new() }
    }

    /// Both forms show the same, one after another in the same room.
    #[test]
    fn a_view_has_all_of_a_row_in_either_form() {
        let mut room = ViewRoom::default();
        let row = row();
        let flat = FlatRow::row(b"key", &row);
        for _ in 0..2 {
            assert_eq!(room.of_row(&row, |view| view.to_row()), row);
            assert_eq!(room.of_flat(&flat, |view| view.to_row()), row);
            assert_eq!(room.of_row(&row, |view| view.value_bytes()), 9);
        }
        let nothing = Row::default();
        assert_eq!(room.of_row(&nothing, |view| view.to_row()), RowView::EMPTY.to_row());
        assert!(room.0.capacity() >= row.cells.len(), "the room is kept");
    }

    #[test]
    fn both_forms_of_a_row_say_the_same() {
        let own = |timestamp| Some(Tombstone { timestamp, deletion_time: 1 });
        let older = Row { deletion: own(4), ..row() };
        let cases =
            [(row(), Some(7)), (Row { deletion: own(9), ..row() }, Some(9)), (older, Some(7))];
        let multi =
            vec![(ColumnId(9), MultiCell::deleted(Tombstone { timestamp: 8, deletion_time: 1 }))];
        let with_multi = Row { multi, deletion: own(8), ..row() };
        let others = [(Row::default(), None), (with_multi, Some(8))];
        for (row, newest) in cases.into_iter().chain(others) {
            let flat = FlatRow::row(b"key", &row);
            for form in [RowForm::Row(&row), RowForm::Flat(&flat)] {
                assert_eq!(form.to_flat(b"key"), flat);
                assert_eq!(form.newest_timestamp(), newest, "{row:?}");
                assert_eq!(form.is_compacted(), row.is_compacted(), "{row:?}");
            }
        }
        let flat = FlatRow::row(b"key", &row());
        let kept = RowForm::Flat(&flat).to_flat(b"key");
        assert_eq!(kept.key().as_ptr(), flat.key().as_ptr(), "a copy was made");
        drop(flat);
        assert_eq!(kept.thaw(), row(), "it outlives the one that it shares its memory with");
    }

    #[test]
    fn a_view_knows_elements_as_well_as_cells() {
        let mut room = ViewRoom::default();
        let element = |cell| {
            let cells = vec![(CellPath::from_ordered(*b"a"), cell)];
            let multi = vec![(ColumnId(7), MultiCell { deletion: None, cells })];
            Row { multi, ..Row::default() }
        };
        let (live, dead) = (element(Cell::live(5, *b"v")), element(Cell::deleted(5, 1)));
        let is_deleted = |state: FlatState<'_>| matches!(state, FlatState::Deleted { .. });
        for (row, wanted) in [(&live, false), (&dead, true)] {
            assert_eq!(room.of_row(row, |view| view.is_dead()), wanted);
            assert_eq!(room.of_row(row, |view| view.has_cell(is_deleted)), wanted);
            let covering = |timestamp| Tombstone { timestamp, deletion_time: 1 };
            assert!(room.of_row(row, |view| view.is_touched_by(covering(5))));
            assert!(!room.of_row(row, |view| view.is_touched_by(covering(4))));
        }
        let own = |timestamp| Row {
            deletion: Some(Tombstone { timestamp, deletion_time: 1 }),
            ..live.clone()
        };
        assert!(!room.of_row(&own(5), |view| view.is_compacted()));
        assert!(room.of_row(&own(4), |view| view.is_compacted()));
        assert!(room.of_row(&row(), |view| view.has_cell(is_deleted) && !view.is_dead()));
    }
}
