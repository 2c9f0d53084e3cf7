//! What a purge leaves out stands in a stream of its own, whole partitions with all that is dead.

use std::rc::Rc;

use super::purge::{GRACE, NOW, PAST, Since, VALUE, at, key, schema};
use crate::compaction::Purge;
use crate::compaction::remnant::Remnants;
use crate::mutation::{Cell, CellPath, Fragment, Liveness, MultiCell, Position, Row, Tombstone};
use crate::schema::{ClusteringKey, ColumnId, PartitionKey};

/// What is told of fragments that are purged beside sources whose oldest write is of `others`.
fn told(others: i64, fragments: Vec<Fragment>) -> Vec<Fragment> {
    let mut purge = Purge::new(&schema(), Since(others), NOW, GRACE);
    let mut remnants = Remnants::default();
    let mut all = Vec::new();
    for fragment in fragments {
        let before = purge.purged();
        let left = purge.pass(fragment.clone());
        let has_purged = purge.purged() != before;
        all.extend(remnants.of(fragment, left.as_ref(), (&purge, has_purged)));
    }
    all
}

fn start(name: u8, deletion: Option<Tombstone>) -> Fragment {
    Fragment::PartitionStart { key: Rc::new(PartitionKey::from_bytes([name])), deletion }
}

fn of_cell(cell: Cell) -> Row {
    Row { cells: vec![(VALUE, cell)], ..Row::default() }
}

fn row(row: Row) -> Fragment {
    Fragment::Row { key: key(), row: Rc::new(row) }
}

#[test]
fn only_partitions_of_which_something_goes_are_told_of() {
    let end = Fragment::PartitionEnd;
    let dead = of_cell(Cell::deleted(10, PAST));
    let part = Row { liveness: Some(Liveness::at(9)), ..dead.clone() };
    let live = || row(of_cell(Cell::live(9, *b"v")));
    let (goes, stays) = (Some(at(10, PAST)), Some(at(50, PAST)));
    let found = told(
        11,
        [
            vec![start(1, None), live(), end.clone()],
            vec![start(2, goes), live(), end.clone()],
            vec![start(3, stays), live(), end.clone()],
            vec![start(4, stays), row(part), live(), end.clone()],
            vec![start(5, None), Fragment::StaticRow(Rc::new(dead.clone())), end.clone()],
            vec![start(6, None), live(), end.clone()],
        ]
        .concat(),
    );
    let wanted = [
        vec![start(2, goes), end.clone()],
        // The deletion that was let through is not told again.
        vec![start(4, None), row(dead.clone()), end.clone()],
        vec![start(5, None), Fragment::StaticRow(Rc::new(dead)), end],
    ];
    assert_eq!(found, wanted.concat());
}

#[test]
fn a_range_that_goes_is_told_from_its_beginning_to_its_end() {
    let change = |byte: u8, tombstone: Option<Tombstone>| Fragment::RangeTombstoneChange {
        position: Position::before(ClusteringKey::from_ordered([byte])),
        tombstone,
    };
    let (old, young) = (Some(at(10, PAST)), Some(at(12, NOW)));
    let body = vec![
        start(1, None),
        change(1, old),
        change(2, young),
        change(3, old),
        change(4, None),
        change(5, young),
        change(6, None),
        Fragment::PartitionEnd,
    ];
    let wanted = [
        start(1, None),
        change(1, old),
        change(2, None),
        change(3, old),
        change(4, None),
        Fragment::PartitionEnd,
    ];
    assert_eq!(told(11, body.clone()), wanted);
    assert_eq!(told(10, body), [], "others may need it");
}

/// More than what goes does no harm, and what lives would come back with it.
#[test]
fn of_a_row_of_which_something_goes_all_that_is_dead_is_told_and_nothing_that_lives() {
    let path = |byte: u8| CellPath::from_ordered([byte]);
    let expiring = |expiry| Cell::expiring(10, *b"v", 50, expiry);
    let map = |cells| vec![(ColumnId(3), MultiCell { deletion: Some(at(5, NOW)), cells })];
    let marks = [None, Some(Liveness::at(9)), Some(Liveness::expiring(9, 50, NOW + 1))];
    for (liveness, told_mark) in marks.into_iter().zip([None, None, marks[2]]) {
        let whole = Row {
            liveness,
            deletion: Some(at(7, NOW)),
            cells: vec![(VALUE, Cell::deleted(10, PAST))],
            multi: map(vec![
                (path(1), Cell::live(9, *b"v")),
                (path(2), Cell::deleted(9, NOW)),
                (path(3), expiring(NOW + 1)),
                (path(4), expiring(NOW)),
            ]),
        };
        let dead = Row {
            liveness: told_mark,
            multi: map(vec![(path(2), Cell::deleted(9, NOW)), (path(4), Cell::deleted(10, NOW))]),
            ..whole.clone()
        };
        let end = Fragment::PartitionEnd;
        let found = told(11, vec![start(1, None), row(whole.clone()), end.clone()]);
        assert_eq!(found, [start(1, None), row(dead.clone()), end.clone()], "{liveness:?}");
        // Of a static row as well.
        let of_static = |row: Row| Fragment::StaticRow(Rc::new(row));
        let found = told(11, vec![start(1, None), of_static(whole), end.clone()]);
        assert_eq!(found, [start(1, None), of_static(dead), end], "{liveness:?}");
    }
}
