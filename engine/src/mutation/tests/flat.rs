//! Rows come back as they were, whatever they hold.

use super::*;

fn rows() -> Vec<Row> {
    let deletion = Tombstone { timestamp: -7, deletion_time: 3 };
    let mut full = Row {
        liveness: Some(Liveness::expiring(9, 60, 70)),
        deletion: Some(deletion),
        ..Row::default()
    };
    full.put(ColumnId(1), Cell::live(9, vec![5; 300]));
    full.put(ColumnId(2), Cell::expiring(8, *b"e", 5, 100));
    full.put(ColumnId(3), Cell::deleted(i64::MIN, 4));
    full.put(ColumnId(200), Cell::counter(9, *b"c"));
    let mut cells = MultiCell { deletion: Some(deletion), cells: vec![] };
    cells.put(CellPath::from_ordered(*b"p"), Cell::live(9, *b"x"));
    cells.put(CellPath::from_ordered(*b"q"), Cell::deleted(10, 4));
    full.put_multi(ColumnId(4), cells);
    full.put_multi(ColumnId(5), MultiCell::deleted(deletion));
    let mut bare = Row { liveness: None, ..full.clone() };
    bare.multi.clear();
    let marker = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    let ends = Row { liveness: Some(Liveness { timestamp: 1, ttl: 0, expiry: 5 }), ..full.clone() };
    let marker_at = |timestamp| Row { liveness: Some(Liveness::at(timestamp)), ..bare.clone() };
    let mut rows = vec![Row::default(), marker, bare.clone(), ends, full];
    // Where a timestamp needs a byte more, and at the ends.
    let bounds = [0, 1 << 55, -(1 << 55), 1 << 56, i64::MIN, i64::MAX];
    rows.extend(bounds.map(marker_at));
    rows.extend(bounds.map(|bound| marker_at(bound.saturating_sub(1))));
    rows.extend(bounds.map(|bound| Row {
        liveness: Some(Liveness::expiring(bound, i32::MAX, i32::MIN)),
        ..Row::default()
    }));
    // Where the number of cells and the columns do not fit into the flags any more.
    for count in [1, 14, 15, 16, 30, 31, 32, 127, 128, 300] {
        let mut row = Row { liveness: Some(Liveness::at(9)), ..Row::default() };
        for column in 0..count {
            let cell = match column % 4 {
                0 => Cell::live(9, *b"v"),
                1 => Cell::live(i64::from(column), vec![0; usize::from(column)]),
                2 => Cell::deleted(-9, 4),
                _ => Cell::expiring(9, *b"", i32::MIN, i32::MAX),
            };
            row.put(ColumnId(column), cell);
        }
        rows.push(row);
    }
    let mut last = Row::default();
    last.put(ColumnId(u16::MAX), Cell::live(i64::MAX, *b""));
    rows.push(last);
    rows
}

#[test]
fn rows_come_back_as_they_were() {
    for row in rows() {
        for key in [&b""[..], b"k", &[7; 70]] {
            let flat = FlatRow::row(key, &row);
            assert_eq!((flat.key(), flat.weight(), flat.has_row()), (key, Weight::At, true));
            assert_eq!(flat.thaw(), row);
            let plain = Row { multi: vec![], ..row.clone() };
            assert_eq!(flat.has_multi(), !row.multi.is_empty());
            for now in [0, 69, 70, 99, 100] {
                assert_eq!(flat.is_live_at(now), plain.is_live_at(now), "{row:?} at {now}");
            }
            for timestamp in [i64::MIN, -8, 0, 7, 8, 9] {
                let tombstone = Tombstone { timestamp, deletion_time: 0 };
                assert_eq!(flat.is_touched_by(tombstone), plain.is_touched_by(tombstone));
            }
            for now in [5, 99, 100] {
                let cells = row.cells.iter().map(|(id, cell)| (*id, cell.value_at(now)));
                let wanted: Vec<_> = cells.collect();
                assert_eq!(flat.values(now).collect::<Vec<_>>(), wanted);
            }
        }
    }
}

#[test]
fn keys_and_contents_of_any_length_come_back() {
    let mut value_bytes = vec![0, 1, 127, 128];
    // With the key, the flags and all else around the limit of a short row.
    value_bytes.extend((1 << 16) - 300..(1 << 16) + 20);
    for key_bytes in [0, 1, 254, 255, 256, 70_000] {
        let key = vec![3; key_bytes];
        let is_wide = key_bytes > 255;
        let place = FlatRow::place(&key, Weight::After);
        assert_eq!(
            (place.key(), place.weight(), place.has_row()),
            (&key[..], Weight::After, false)
        );
        assert_eq!(place.memory_bytes(), key_bytes + if is_wide { 16 } else { 8 });
        for value_bytes in &value_bytes {
            let mut row = Row { liveness: Some(Liveness::at(1 << 50)), ..Row::default() };
            row.put(ColumnId(2), Cell::live(1 << 50, vec![7; *value_bytes]));
            let flat = FlatRow::row(&key, &row);
            assert_eq!((flat.key(), flat.weight()), (&key[..], Weight::At));
            assert_eq!(flat.thaw(), row);
            assert!(flat.has_row() && flat == flat.clone() && flat != place);
            // The last value has no length of its own.
            let content_bytes = key_bytes + 9 + value_bytes;
            let is_wide = is_wide || content_bytes > 65_535;
            let head_bytes = if is_wide { 16 } else { 8 };
            assert_eq!(flat.memory_bytes(), head_bytes + content_bytes);
        }
    }
}

#[test]
fn a_place_has_no_row_and_the_memory_is_one_piece_for_all_holders() {
    for weight in [Weight::Before, Weight::At, Weight::After] {
        let place = FlatRow::place(b"ab", weight);
        assert!(!place.has_row() && !place.has_multi());
        let wanted = Position { prefix: ClusteringKey::from_ordered(*b"ab"), weight };
        assert_eq!((place.position(), place.memory_bytes()), (wanted, 10));
        let other = place.clone();
        assert_eq!(other.key().as_ptr(), place.key().as_ptr());
        drop(place);
        assert_eq!(other, FlatRow::place(b"ab", weight));
    }
    assert_ne!(FlatRow::place(b"ab", Weight::At), FlatRow::place(b"ab", Weight::After));
}

#[test]
fn a_row_ends_in_the_second_in_which_its_other_form_ends() {
    let marker = Row { liveness: Some(Liveness::expiring(1, 60, 100)), ..Row::default() };
    let mut cell = Row::default();
    cell.put(ColumnId(1), Cell::expiring(1, *b"v", 60, 100));
    for row in [marker, cell] {
        let flat = FlatRow::row(b"c", &row);
        for (now, is_live) in [(99, true), (100, false), (101, false)] {
            assert_eq!(flat.is_live_at(now), is_live, "at {now}: {row:?}");
            assert_eq!(row.is_live_at(now), is_live, "at {now}: {row:?}");
        }
    }
}
