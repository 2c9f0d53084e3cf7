//! Rows as the cache keeps them give the batches that the same rows give in their other form,
//! however many are handed over at once and wherever a turn ends.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use futures::executor::block_on;
use futures::future::{LocalBoxFuture, ready};

use super::*;
use crate::clock::Random;
use crate::error::Result;
use crate::mutation::fragment::drop_partition;
use crate::mutation::{
    Cell, Filled, FlatRow, Fragment, FragmentSink, FragmentSource, Liveness, Position, Tombstone,
};
use crate::reader::QueryReader;
use crate::schema::ClusteringOrder;

/// Cells expire before and after it.
const NOW_SECONDS: i32 = 100;

/// `pk int, a bigint, b text, s text static, v int, w blob, tags set<int>`, the newest first
fn wide_table() -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let clustering = |position, order| ColumnKind::ClusteringKey { position, order };
    let schema = TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("a", DataType::BigInt, clustering(0, ClusteringOrder::Descending)),
            column("b", DataType::Text, clustering(1, ClusteringOrder::Ascending)),
            column("s", DataType::Text, ColumnKind::Static),
            column("v", DataType::Int, ColumnKind::Regular),
            column("w", DataType::Blob, ColumnKind::Regular),
            column("tags", DataType::set_of(DataType::Int), ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    };
    schema.validate().unwrap();
    Arc::new(schema)
}

/// Where a source takes its fragments from, in one form or the other.
struct Given {
    fragments: VecDeque<Fragment>,
    /// Rows are handed over as the cache does it, up to so many at once.
    run_max: Option<usize>,
}

impl FragmentSource for Given {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        if self.run_max.is_none() {
            out.extend(self.fragments.drain(..self.fragments.len().min(7)));
        }
        Box::pin(ready(Ok(())))
    }

    fn skip_partition(&mut self) {
        assert!(drop_partition(&mut self.fragments), "a partition has an end");
    }

    fn pass_now(&mut self, sink: &mut dyn FragmentSink) -> Filled {
        let Some(run_max) = self.run_max else { return Filled::Waits };
        loop {
            let rows = self.fragments.iter().map_while(|fragment| match fragment {
                Fragment::FlatRow(flat) => Some(flat),
                _ => None,
            });
            let rows: Vec<&FlatRow> = rows.take(run_max).collect();
            let (taken, wants_more) = match rows.as_slice() {
                [] => match self.fragments.pop_front() {
                    Some(fragment) => (0, sink.fragment(fragment)),
                    None => return Filled::End,
                },
                [only] => (1, sink.row(only)),
                rows => match sink.rows(rows) {
                    ControlFlow::Continue(()) => (rows.len(), true),
                    ControlFlow::Break(taken) => (taken, false),
                },
            };
            self.fragments.drain(..taken);
            if !wants_more {
                return Filled::Some;
            }
        }
    }
}

fn tombstone(random: &mut Random) -> Option<Tombstone> {
    let timestamp = random.below(10) as i64;
    random.one_in(3).then_some(Tombstone { timestamp, deletion_time: 1 })
}

fn row(random: &mut Random) -> Row {
    let column = |random: &mut Random, bytes: Vec<u8>| {
        let timestamp = random.below(10) as i64;
        match random.below(4) {
            0 => Cell::deleted(timestamp, 50),
            1 => Cell::expiring(timestamp, bytes, 10, 99 + random.below(4) as i32),
            _ => Cell::live(timestamp, bytes),
        }
    };
    let mut row = Row::default();
    let timestamp = random.below(10) as i64;
    row.liveness = match random.below(4) {
        0 => None,
        1 => Some(Liveness::expiring(timestamp, 10, 99 + random.below(4) as i32)),
        _ => Some(Liveness::at(timestamp)),
    };
    row.deletion = if random.one_in(6) { tombstone(random) } else { None };
    if !random.one_in(4) {
        let bytes = (random.next_u64() as i32).to_be_bytes().to_vec();
        row.put(ColumnId(4), column(random, bytes));
    }
    if !random.one_in(4) {
        let length = random.below(300) as usize;
        row.put(ColumnId(5), column(random, vec![b'w'; length]));
    }
    if random.one_in(8) {
        let tags = Value::Set(ints(&[1, 2]));
        let options = WriteOptions { timestamp: random.below(10) as i64, ..OPTIONS };
        let ty = DataType::set_of(DataType::Int);
        let of_type = Column { name: "tags".into(), ty, kind: ColumnKind::Regular };
        put_value(&mut row, ColumnId(6), &of_type, Some(&tags), &options, None).unwrap();
    }
    row
}

/// Partitions with rows in order, as a merge of sources gives them.
fn fragments(schema: &SchemaRef, random: &mut Random) -> Vec<Fragment> {
    let mut out = Vec::new();
    for pk in 0..1 + random.below(4) as i32 {
        let key = Rc::new(PartitionKey::from_values(schema, &[Value::Int(pk)]).unwrap());
        let deletion = if random.one_in(4) { tombstone(random) } else { None };
        out.push(Fragment::PartitionStart { key, deletion });
        if random.one_in(2) {
            let mut row = Row::default();
            row.put(ColumnId(3), Cell::live(random.below(10) as i64, *b"static"));
            out.push(Fragment::StaticRow(Rc::new(row)));
        }
        let mut in_force = None;
        let has_ranges = random.one_in(2);
        for number in (0..random.below(90) as i64).rev() {
            let values = [Value::BigInt(number - 40), text(&"b".repeat(number as usize % 5))];
            let values = if random.one_in(20) { &values[..1] } else { &values[..] };
            let key = ClusteringKey::from_values(schema, values).unwrap();
            if has_ranges && random.one_in(5) {
                in_force = tombstone(random);
                let position = Position::before(key.clone());
                out.push(Fragment::RangeTombstoneChange { position, tombstone: in_force });
            }
            out.push(Fragment::Row { key: Rc::new(key), row: Rc::new(row(random)) });
        }
        if in_force.is_some() {
            let position = Position::end();
            out.push(Fragment::RangeTombstoneChange { position, tombstone: None });
        }
        out.push(Fragment::PartitionEnd);
    }
    out
}

/// The form in which the cache has a row.
fn flattened(fragment: Fragment) -> Fragment {
    match fragment {
        Fragment::Row { key, row } => Fragment::FlatRow(FlatRow::row(key.as_ordered(), &row)),
        other => other,
    }
}

/// Of a static and of regular columns.
const STAMPS: [Stamp; 4] = [
    Stamp { column: ColumnId(5), kind: StampKind::TimeToLive },
    Stamp { column: ColumnId(3), kind: StampKind::WriteTime },
    Stamp { column: ColumnId(4), kind: StampKind::WriteTime },
    Stamp { column: ColumnId(4), kind: StampKind::TimeToLive },
];

/// All rows in batches of up to `batch_rows`, made with one builder; columns that are wanted twice
/// and in any order, and stamps.
fn read(
    schema: &SchemaRef,
    given: Given,
    columns: &[ColumnId],
    batch_rows: usize,
) -> Vec<RecordBatch> {
    let mut reader = QueryReader::new(Box::new(given), NOW_SECONDS, true);
    let selected = (columns, &STAMPS[..]);
    let mut builder = BatchBuilder::with_stamps(schema.clone(), selected, NOW_SECONDS);
    let mut batches = Vec::new();
    loop {
        let wanted = batch_rows - builder.rows();
        let pulled = reader.pull(wanted, &mut |rows| builder.push(rows).map(|()| true)).unwrap();
        assert!(builder.rows() <= batch_rows);
        if builder.rows() == batch_rows {
            batches.push(builder.finish().unwrap());
        }
        let is_end = pulled == Filled::End;
        if is_end || pulled == Filled::Waits && !block_on(reader.refill()).unwrap() {
            break;
        }
    }
    batches.push(builder.finish().unwrap());
    batches
}

#[test]
fn rows_of_the_cache_make_the_same_batches() {
    let schema = wide_table();
    let (mut rows, mut nulls) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let whole = fragments(&schema, &mut random);
        let ids = |ids: &[u16]| ids.iter().copied().map(ColumnId).collect::<Vec<_>>();
        for columns in [ids(&[0, 1, 2, 3, 4, 5, 6]), ids(&[5, 1]), ids(&[2, 4, 4, 0]), ids(&[])] {
            let given = Given { fragments: whole.clone().into(), run_max: None };
            let batch_rows = 1 + random.below(100) as usize;
            let wanted = read(&schema, given, &columns, batch_rows);
            for run_max in [1, 2, 3, 32, 1000] {
                let fragments = whole.iter().cloned().map(flattened).collect();
                let given = Given { fragments, run_max: Some(run_max) };
                let found = read(&schema, given, &columns, batch_rows);
                assert_eq!(found, wanted, "seed {seed}, {columns:?}, {run_max} at once");
            }
            rows += wanted.iter().map(RecordBatch::num_rows).sum::<usize>();
            let columns = wanted.iter().flat_map(RecordBatch::columns);
            nulls += columns.map(|column| column.null_count()).sum::<usize>();
        }
    }
    assert!(rows > 10_000 && nulls > 5_000, "{rows} rows, {nulls} nulls");
}

#[test]
fn a_turn_ends_where_rows_are_large() {
    let schema = wide_table();
    let key = |number: i64| ClusteringKey::from_values(&schema, &[Value::BigInt(-number)]).unwrap();
    let pk = Rc::new(PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap());
    let mut fragments = VecDeque::from([Fragment::PartitionStart { key: pk, deletion: None }]);
    for number in 0..20 {
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        row.put(ColumnId(5), Cell::live(1, vec![7; crate::config::PASS_BYTES_MAX / 4]));
        fragments.push_back(Fragment::FlatRow(FlatRow::row(key(number).as_ordered(), &row)));
    }
    fragments.push_back(Fragment::PartitionEnd);
    let given = Given { fragments, run_max: Some(1000) };
    let mut reader = QueryReader::new(Box::new(given), NOW_SECONDS, true);
    let mut turns = Vec::new();
    loop {
        let mut rows = 0;
        let pulled = reader.pull(usize::MAX, &mut |live| {
            let LiveContent::Flat(flats) = live.content else { panic!("rows of the cache") };
            rows += flats.len();
            Ok(true)
        });
        turns.push(rows);
        if pulled.unwrap() == Filled::End {
            break;
        }
    }
    // With its key and head each row is a little more than a fourth of what one turn may take.
    assert_eq!(turns, [4, 4, 4, 4, 4, 0]);
}
