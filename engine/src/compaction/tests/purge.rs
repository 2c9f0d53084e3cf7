//! A tombstone goes when its grace has passed and nothing that it covers is elsewhere.

use std::rc::Rc;
use std::sync::Arc;

use crate::compaction::{Others, Purge, Purged};
use crate::mutation::CellPath;
use crate::mutation::{Cell, Fragment, Liveness, MultiCell, Position, Row, Tombstone};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableId,
    TableOptions, TableSchema,
};

pub(super) const NOW: i32 = 1000;
pub(super) const GRACE: i32 = 100;
/// A deletion then is past its grace, and one a second later is not.
pub(super) const PAST: i32 = NOW - GRACE - 1;
pub(super) const VALUE: ColumnId = ColumnId(2);
const MAP: ColumnId = ColumnId(3);
const COUNTER: ColumnId = ColumnId(4);

/// Sources whose oldest write is of this timestamp.
pub(super) struct Since(pub(super) i64);

impl Others for Since {
    fn oldest(&self, _key: &PartitionKey) -> i64 {
        self.0
    }
}

pub(super) fn schema() -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let clustering = ColumnKind::ClusteringKey { position: 0, order: ClusteringOrder::Ascending };
    Arc::new(TableSchema {
        id: TableId(1),
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("c", DataType::Int, clustering),
            column("v", DataType::Blob, ColumnKind::Regular),
            column("m", DataType::map_of(DataType::Int, DataType::Blob), ColumnKind::Regular),
            column("n", DataType::Counter, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    })
}

pub(super) fn key() -> Rc<ClusteringKey> {
    Rc::new(ClusteringKey::from_ordered([7]))
}

pub(super) fn at(timestamp: i64, deletion_time: i32) -> Tombstone {
    Tombstone { timestamp, deletion_time }
}

/// What is left of a partition beside sources whose oldest write is of `others`.
fn left(others: i64, deletion: Option<Tombstone>, body: Vec<Fragment>) -> (Vec<Fragment>, Purged) {
    let mut purge = Purge::new(&schema(), Since(others), NOW, GRACE);
    let key = Rc::new(PartitionKey::from_bytes(*b"k"));
    let start = Fragment::PartitionStart { key, deletion };
    let all = [vec![start], body, vec![Fragment::PartitionEnd]].concat();
    let left = all.into_iter().filter_map(|fragment| purge.pass(fragment)).collect();
    (left, purge.purged())
}

/// What is left of a row, if anything.
fn row_left(others: i64, row: Row) -> Option<Row> {
    let (mut left, _) = left(others, None, vec![Fragment::Row { key: key(), row: Rc::new(row) }]);
    assert_eq!(left.pop(), Some(Fragment::PartitionEnd));
    left.remove(0);
    match left.pop() {
        Some(Fragment::Row { row, .. }) => Some((*row).clone()),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn of_cell(column: ColumnId, cell: Cell) -> Row {
    Row { cells: vec![(column, cell)], ..Row::default() }
}

#[test]
fn both_conditions_must_hold() {
    let deleted = |deletion_time| of_cell(VALUE, Cell::deleted(10, deletion_time));
    let table = [
        ("past its grace, nothing older elsewhere", 11, PAST, true),
        ("past its grace, nothing elsewhere", i64::MAX, PAST, true),
        ("within its grace", 11, PAST + 1, false),
        ("within its grace, nothing elsewhere", i64::MAX, PAST + 1, false),
        ("something of the same moment elsewhere", 10, PAST, false),
        ("something older elsewhere", 9, PAST, false),
        ("something elsewhere of which nothing is known", i64::MIN, PAST, false),
    ];
    for (what, others, deletion_time, goes) in table {
        let row = deleted(deletion_time);
        assert_eq!(row_left(others, row.clone()), (!goes).then_some(row), "{what}");
        let row = Row { deletion: Some(at(10, deletion_time)), ..Row::default() };
        assert_eq!(row_left(others, row.clone()), (!goes).then_some(row), "a row, {what}");
        let multi = MultiCell::deleted(at(10, deletion_time));
        let row = Row { multi: vec![(MAP, multi)], ..Row::default() };
        assert_eq!(row_left(others, row.clone()), (!goes).then_some(row), "a map, {what}");
        let (left, _) = left(others, Some(at(10, deletion_time)), Vec::new());
        let Fragment::PartitionStart { deletion, .. } = &left[0] else { panic!("{left:?}") };
        assert_eq!(deletion.is_none(), goes, "a partition, {what}");
    }
}

#[test]
fn what_lives_stays_beside_what_goes() {
    let path = |byte: u8| CellPath::from_ordered([byte]);
    let live = (path(1), Cell::live(20, *b"v"));
    let multi = MultiCell {
        deletion: Some(at(5, PAST)),
        cells: vec![live.clone(), (path(2), Cell::deleted(6, PAST))],
    };
    let row = Row {
        liveness: Some(Liveness::at(8)),
        deletion: Some(at(7, PAST)),
        cells: vec![(VALUE, Cell::live(9, *b"w"))],
        multi: vec![(MAP, multi)],
    };
    let wanted = Row {
        deletion: None,
        multi: vec![(MAP, MultiCell { deletion: None, cells: vec![live] })],
        ..row.clone()
    };
    assert_eq!(row_left(i64::MAX, row.clone()), Some(wanted));
    // Of older ones elsewhere each is asked by itself.
    let Some(part) = row_left(7, row.clone()) else { panic!("nothing is left") };
    assert_eq!(part.deletion, row.deletion);
    assert_eq!(part.multi[0].1.deletion, None);
}

#[test]
fn what_is_past_its_time_becomes_a_tombstone_and_then_goes() {
    let expired = |expiry| of_cell(VALUE, Cell::expiring(10, *b"v", 50, expiry));
    assert_eq!(row_left(11, expired(PAST)), None);
    let wanted = of_cell(VALUE, Cell::deleted(10, NOW));
    assert_eq!(row_left(11, expired(NOW)), Some(wanted), "its grace begins");
    assert_eq!(row_left(11, expired(NOW + 1)), Some(expired(NOW + 1)), "it lives");
    // Another write of that moment may live longer, and would fall to a tombstone.
    assert_eq!(row_left(10, expired(NOW)), Some(expired(NOW)));
    assert_eq!(row_left(10, expired(PAST)), Some(expired(PAST)));
    let mark =
        |expiry| Row { liveness: Some(Liveness::expiring(10, 50, expiry)), ..Row::default() };
    assert_eq!(row_left(11, mark(PAST)), None);
    assert_eq!(row_left(11, mark(PAST + 1)), Some(mark(PAST + 1)));
    assert_eq!(row_left(10, mark(PAST)), Some(mark(PAST)), "an older mark would show");
}

#[test]
fn a_deleted_counter_stays_while_anything_else_is_there() {
    let row = of_cell(COUNTER, Cell::deleted(10, PAST));
    assert_eq!(row_left(1000, row.clone()), Some(row.clone()));
    assert_eq!(row_left(i64::MAX, row), None);
}

/// Each partition is asked for by itself: what is elsewhere of one says nothing of the next.
#[test]
fn what_goes_of_a_partition_is_decided_by_its_own_others() {
    struct ByKey([(&'static [u8], i64); 3]);

    impl Others for ByKey {
        fn oldest(&self, key: &PartitionKey) -> i64 {
            self.0.iter().find(|(own, _)| *own == key.as_bytes()).unwrap().1
        }
    }

    for (oldest, wanted) in
        [([i64::MAX, 10, 11], [false, true, false]), ([5, i64::MAX, 10], [true, false, true])]
    {
        let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
        let others = ByKey([(keys[0], oldest[0]), (keys[1], oldest[1]), (keys[2], oldest[2])]);
        let mut purge = Purge::new(&schema(), others, NOW, GRACE);
        for (bytes, stays) in keys.into_iter().zip(wanted) {
            let (key, deletion) = (Rc::new(PartitionKey::from_bytes(bytes)), Some(at(10, PAST)));
            let Some(Fragment::PartitionStart { deletion, .. }) =
                purge.pass(Fragment::PartitionStart { key, deletion })
            else {
                panic!("a partition begins")
            };
            assert_eq!(deletion.is_some(), stays, "{bytes:?} of {oldest:?}");
            assert_eq!(purge.pass(Fragment::PartitionEnd), Some(Fragment::PartitionEnd));
        }
    }
}

#[test]
fn range_tombstones_that_go_leave_no_change() {
    let change = |byte: u8, tombstone: Option<Tombstone>| Fragment::RangeTombstoneChange {
        position: Position::before(ClusteringKey::from_ordered([byte])),
        tombstone,
    };
    let (old, young) = (at(10, PAST), at(12, NOW));
    let body = vec![
        change(1, Some(old)),
        change(2, Some(young)),
        change(3, Some(old)),
        change(4, None),
        change(5, Some(old)),
        change(6, None),
    ];
    let (found, purged) = left(11, None, body.clone());
    assert_eq!(found[1..3], [change(2, Some(young)), change(3, None)]);
    assert_eq!(found.len(), 4);
    assert_eq!((purged.count, purged.converted, purged.newest), (3, 0, Some(10)));
    let (kept, purged) = left(10, None, body.clone());
    assert_eq!(kept[1..7], body);
    assert_eq!(purged, Purged::default());
}

/// An element of a map is a cell, and a static row is a row.
#[test]
fn elements_of_a_map_and_static_rows_go_as_cells_of_rows_do() {
    let path = |byte: u8| CellPath::from_ordered([byte]);
    let expiring = |expiry| Cell::expiring(10, *b"v", 50, expiry);
    let map = |cells| {
        let multi = vec![(MAP, MultiCell { deletion: None, cells })];
        Row { multi, ..Row::default() }
    };
    let [gone, ends, lives] = [PAST, NOW, NOW + 1].map(expiring);
    let row = map(vec![(path(1), gone.clone()), (path(2), ends), (path(3), lives.clone())]);
    let wanted = map(vec![(path(2), Cell::deleted(10, NOW)), (path(3), lives)]);
    assert_eq!(row_left(11, row.clone()), Some(wanted.clone()));
    assert_eq!(row_left(10, row.clone()), Some(row.clone()), "another write of that moment");
    let all_gone = map(vec![(path(1), gone)]);
    assert_eq!(row_left(11, all_gone.clone()), None);
    let of_static = |row: Row| left(11, None, vec![Fragment::StaticRow(Rc::new(row))]).0;
    let rest = [Fragment::StaticRow(Rc::new(wanted)), Fragment::PartitionEnd];
    assert_eq!(of_static(row)[1..], rest);
    assert_eq!(of_static(all_gone)[1..], rest[1..]);
}

#[test]
fn what_goes_and_what_becomes_a_tombstone_is_counted_with_the_newest_of_both() {
    let row = Row {
        liveness: Some(Liveness::expiring(25, 50, PAST)),
        deletion: Some(at(20, PAST)),
        cells: vec![(VALUE, Cell::expiring(30, *b"v", 50, NOW))],
        multi: Vec::new(),
    };
    let change = |byte: u8, tombstone: Option<Tombstone>| Fragment::RangeTombstoneChange {
        position: Position::before(ClusteringKey::from_ordered([byte])),
        tombstone,
    };
    let row = Fragment::Row { key: key(), row: Rc::new(row) };
    let body = vec![row, change(8, Some(at(5, PAST))), change(9, None)];
    let (_, purged) = left(i64::MAX, Some(at(15, PAST)), body.clone());
    assert_eq!(purged, Purged { count: 4, converted: 1, newest: Some(30) });
    // What others may need stays: only what is of 20 and before goes.
    let (_, purged) = left(21, Some(at(15, PAST)), body);
    assert_eq!(purged, Purged { count: 3, converted: 0, newest: Some(20) });
}
