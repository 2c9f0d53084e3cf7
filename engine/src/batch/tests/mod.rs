//! Values to Arrow and back, and what an INSERT of each writes.

mod arrays;
mod flat;
mod select;
mod stored;

use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::config::{CELL_BYTES_MAX, LOCAL_DELETION_TIME_MAX, TTL_SECONDS_MAX};
use crate::mutation::{CellState, Mutation, Row};
use crate::reader::{LiveContent, LiveRows};
use crate::schema::table_schema::SchemaRef;
use crate::schema::varint::parse_varint;
use crate::schema::{
    ClusteringKey, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableId, TableOptions,
    TableSchema, UserType, Value,
};

const OPTIONS: WriteOptions = WriteOptions { timestamp: 1_000_000, ttl: None, now_seconds: 50 };

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn ints(ints: &[i32]) -> Vec<Value> {
    ints.iter().map(|int| Value::Int(*int)).collect()
}

fn user() -> DataType {
    let tags = DataType::set_of(DataType::Text);
    let fields = [("street", DataType::Text), ("zip", DataType::Int), ("tags", tags)];
    DataType::User(Box::new(UserType::new("ks", "addr", fields.map(|(n, ty)| (n.to_owned(), ty)))))
}

/// A type and values of it.
fn samples() -> Vec<(DataType, Vec<Value>)> {
    let varint = |text: &str| Value::Varint(parse_varint(text).unwrap());
    let decimal = |unscaled, scale| Value::Decimal { unscaled, scale };
    let list = DataType::list_of(DataType::Int);
    let map = DataType::map_of(DataType::Text, DataType::Int);
    let nested = DataType::map_of(DataType::Int, DataType::list_of(DataType::Text));
    let tags = Value::set_of(&DataType::Text, vec![text("b"), text("a")]).unwrap();
    let address = Value::Tuple(vec![Some(text("s")), None, Some(tags.clone())]);
    vec![
        (DataType::Varint, vec![varint("-1"), varint(&"9".repeat(76)), varint("0")]),
        (
            DataType::DECIMAL_WIDE,
            vec![
                decimal(10i128.pow(20), 0),
                decimal(1, 20),
                decimal(-15, 1),
                decimal(200, 0),
                decimal(0, 0),
            ],
        ),
        (DataType::Decimal { precision: 5, scale: 2 }, vec![decimal(-12345, 2)]),
        (DataType::Duration, vec![Value::Duration { months: -14, days: 3, nanoseconds: 7 }]),
        (list.clone(), vec![Value::List(ints(&[3, 1, 3]))]),
        (list.frozen(), vec![Value::List(ints(&[3, 1, 3])), Value::List(vec![])]),
        (DataType::set_of(DataType::Text), vec![tags.clone()]),
        (DataType::set_of(DataType::Text).frozen(), vec![tags, Value::Set(vec![])]),
        (map, vec![Value::Map(vec![(text(""), Value::Int(1)), (text("k"), Value::Int(2))])]),
        (nested, vec![Value::Map(vec![(Value::Int(1), Value::List(vec![text("x")]))])]),
        (
            DataType::tuple_of([DataType::Int, DataType::Text]),
            vec![Value::Tuple(vec![Some(Value::Int(1)), None]), Value::Tuple(vec![None, None])],
        ),
        (user(), vec![address.clone()]),
        (user().frozen(), vec![address, Value::Tuple(vec![None, None, None])]),
        (
            DataType::list_of(user()),
            vec![Value::List(vec![Value::Tuple(vec![None, Some(Value::Int(9)), None])])],
        ),
    ]
}

/// `pk int PRIMARY KEY, v <ty>`
pub(super) fn table(ty: &DataType) -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let schema = TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("v", ty.clone(), ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    };
    schema.validate().unwrap();
    Arc::new(schema)
}

fn insert(schema: &TableSchema, value: Option<&Value>, expiry: Option<Expiry>) -> Row {
    let mut row =
        Row { liveness: Some(crate::mutation::Liveness::at(1_000_000)), ..Row::default() };
    let column = schema.column(ColumnId(1));
    put_value(&mut row, ColumnId(1), column, value, &OPTIONS, expiry).unwrap();
    row
}

fn batch_of(schema: &SchemaRef, rows: Vec<Row>, now: i32) -> RecordBatch {
    let mut builder = BatchBuilder::new(schema.clone(), &[ColumnId(0), ColumnId(1)], now);
    for (pk, row) in (0..).zip(rows) {
        let key = PartitionKey::from_values(schema, &[Value::Int(pk)]).unwrap();
        let content = LiveContent::Row { key: &ClusteringKey::empty(), row: &row };
        builder.push(LiveRows { partition: &Rc::new(key), content, static_row: None }).unwrap();
    }
    builder.finish().unwrap()
}

/// As a clock shows it that has no smaller unit, before 1970 too.
#[test]
fn a_time_in_a_finer_unit_is_rounded_down() {
    use arrow::array::{Array, TimestampMicrosecondArray, TimestampNanosecondArray};
    let micros = [1001_i64, 999, 0, -1, -999, -1000, -1001];
    let wanted = [1, 0, 0, -1, -1, -1, -2].map(|ms| Some(Value::Timestamp(ms)));
    let nanos = micros.map(|micros| micros * 1000);
    let nanos = TimestampNanosecondArray::from(nanos.to_vec());
    let micros = TimestampMicrosecondArray::from(micros.to_vec());
    for column in [&micros as &dyn Array, &nanos] {
        let found = |row| value_at(column, row, &DataType::Timestamp).unwrap();
        let found: Vec<Option<Value>> = (0..column.len()).map(found).collect();
        assert_eq!(found, wanted, "{}", column.data_type());
    }
}

#[test]
fn what_a_batch_holds_is_counted_in_every_kind_of_column() {
    const BYTES: usize = 10_000;
    let blob = Value::Blob(vec![7; BYTES]);
    let set = DataType::set_of(DataType::Blob);
    let (plain, multi) = ((DataType::Blob, blob.clone()), (set, Value::Set(vec![blob])));
    for (kind, (ty, value)) in [ColumnKind::Regular, ColumnKind::Static]
        .into_iter()
        .flat_map(|kind| [(kind, plain.clone()), (kind, multi.clone())])
    {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let schema = Arc::new(TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
                column("v", ty.clone(), kind),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        });
        let row = insert(&schema, Some(&value), None);
        let partition = Rc::new(PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap());
        let mut builder = BatchBuilder::new(schema, &[ColumnId(1)], 0);
        for rows in 1..4 {
            let content = LiveContent::Row { key: &ClusteringKey::empty(), row: &row };
            let live = LiveRows { partition: &partition, content, static_row: Some(&row) };
            builder.push(live).unwrap();
            let bytes = builder.bytes();
            let fits = rows * BYTES..rows * (BYTES + 500);
            assert!(fits.contains(&bytes), "{kind:?} {ty:?}: {rows} rows of {BYTES}: {bytes}");
        }
        builder.finish().unwrap();
        assert_eq!(builder.bytes(), 0);
    }
}

#[test]
fn every_value_comes_back_from_arrow_and_from_the_row_it_was_written_to() {
    for (ty, values) in samples() {
        let schema = table(&ty);
        let mut rows: Vec<Row> =
            values.iter().map(|value| insert(&schema, Some(value), None)).collect();
        rows.push(insert(&schema, None, None));
        let batch = batch_of(&schema, rows.clone(), 50);
        assert_eq!(*batch.column(1).data_type(), arrow_type(&ty));
        for (row, value) in values.iter().enumerate() {
            let found = value_at(batch.column(1), row, &ty).unwrap();
            assert_eq!(found.as_ref(), Some(value), "{}", ty.sql_name());
        }
        assert_eq!(value_at(batch.column(1), values.len(), &ty).unwrap(), None);
        let written = mutations(&schema, &batch, &OPTIONS).unwrap();
        for (written, row) in written.into_iter().zip(rows) {
            let Mutation { rows, .. } = written.unwrap();
            assert_eq!(rows, [(ClusteringKey::empty(), row)], "{}", ty.sql_name());
        }
        // The builder begins anew after a batch.
        let one = batch_of(&schema, vec![insert(&schema, values.first(), None)], 50);
        assert_eq!(value_at(one.column(1), 0, &ty).unwrap().as_ref(), values.first());
    }
}

#[test]
fn an_insert_replaces_a_collection_and_a_later_one_shadows_it() {
    let schema = table(&DataType::list_of(DataType::Int));
    let id = ColumnId(1);
    let mut row = insert(&schema, Some(&Value::List(ints(&[1, 2, 3]))), None);
    let multi = row.multi_cell(id).unwrap();
    assert_eq!(multi.deletion.unwrap().timestamp, 999_999);
    assert_eq!(multi.cells.len(), 3);
    // The same write again is no other one.
    row.merge(&insert(&schema, Some(&Value::List(ints(&[1, 2, 3]))), None));
    assert_eq!(row.multi_cell(id).unwrap().cells.len(), 3);
    let later = WriteOptions { timestamp: 1_000_001, ..OPTIONS };
    let column = schema.column(id);
    put_value(&mut row, id, column, Some(&Value::List(ints(&[9]))), &later, None).unwrap();
    let batch = batch_of(&schema, vec![row.clone()], 50);
    let found = value_at(batch.column(1), 0, &column.ty).unwrap();
    assert_eq!(found, Some(Value::List(ints(&[9]))));
    put_value(&mut row, id, column, None, &WriteOptions { timestamp: 2_000_000, ..OPTIONS }, None)
        .unwrap();
    assert!(row.multi_cell(id).unwrap().cells.is_empty());
}

#[test]
fn elements_expire_by_themselves() {
    let ty = DataType::set_of(DataType::Int);
    let schema = table(&ty);
    let mut row = insert(&schema, Some(&Value::Set(ints(&[1]))), Some(Expiry { ttl: 10, at: 60 }));
    let kept = insert(&schema, Some(&Value::Set(ints(&[2]))), None);
    row.merge(&kept);
    let seen = |now| value_at(batch_of(&schema, vec![row.clone()], now).column(1), 0, &ty).unwrap();
    assert_eq!(seen(59), Some(Value::Set(ints(&[1, 2]))));
    assert_eq!(seen(60), Some(Value::Set(ints(&[2]))));
    assert!(matches!(
        row.multi_cell(ColumnId(1)).unwrap().cells[0].1.state,
        CellState::Expiring { ttl: 10, expiry: 60, .. }
    ));
}

#[test]
fn a_time_to_live_may_end_in_the_last_second_that_files_can_say() {
    let schema = table(&DataType::Int);
    let ends = |ttl, now_seconds| {
        expiry(&schema, &WriteOptions { ttl: Some(ttl), now_seconds, ..OPTIONS })
    };
    let last = LOCAL_DELETION_TIME_MAX;
    assert_eq!(ends(10, last - 10).unwrap(), Some(Expiry { ttl: 10, at: last }));
    assert!(ends(10, last - 9).is_err() && ends(10, i32::MAX).is_err());
    assert_eq!(ends(0, last).unwrap(), None);
    let mut expiring = TableSchema::clone(&schema);
    expiring.options.default_time_to_live = 10;
    let asked = |ttl| expiry(&expiring, &WriteOptions { ttl, now_seconds: 5, ..OPTIONS }).unwrap();
    assert_eq!(asked(None), Some(Expiry { ttl: 10, at: 15 }));
    assert_eq!(asked(Some(0)), None, "whoever asks for none has none");
    assert!(ends(TTL_SECONDS_MAX, 50).is_ok() && ends(TTL_SECONDS_MAX + 1, 50).is_err());
    assert!(ends(-1, 50).is_err());
}

#[test]
fn a_long_list_keeps_its_order() {
    let schema = table(&DataType::list_of(DataType::Int));
    // More than fit into the places' last two bytes.
    let wanted: Vec<i32> = (0..(1 << 14) + 100).rev().collect();
    let row = insert(&schema, Some(&Value::List(ints(&wanted))), None);
    let found = row.multi[0].1.live_cells(0).map(|(_, value)| value.to_vec());
    let wanted: Vec<Vec<u8>> = wanted.iter().map(|value| value.to_be_bytes().to_vec()).collect();
    assert!(found.eq(wanted.iter().cloned()), "elements share places, or changed them");
}

/// Minutes apart, and months: every part of their times tells them apart.
#[test]
fn elements_of_a_list_stand_in_the_order_in_which_they_came() {
    const FIRST_US: i64 = 1_700_000_000_000_000;
    let schema = table(&DataType::list_of(DataType::Int));
    let column = schema.column(ColumnId(1));
    let options = WriteOptions { timestamp: FIRST_US, ..OPTIONS };
    let seconds = (1..20_i64).map(|step| step * 300);
    let seconds = seconds.chain((1..20_i64).map(|step| step * 10_000_000));
    let (mut row, mut wanted) = (Row::default(), Vec::<i32>::new());
    for (number, seconds) in (1..).zip(seconds) {
        let place_us = FIRST_US + seconds * 1_000_000;
        let (before, behind) = ([-number, -1000 - number], [number, 1000 + number]);
        let changes = [
            ElementChange::Prepend(Value::List(ints(&before))),
            ElementChange::Add(Value::List(ints(&behind))),
        ];
        for change in &changes {
            change_elements(&mut row, ColumnId(1), column, change, &options, None, place_us)
                .unwrap();
        }
        wanted = [&before[..], &wanted[..], &behind[..]].concat();
    }
    let batch = batch_of(&schema, vec![row], 50);
    let found = value_at(batch.column(1), 0, &column.ty).unwrap();
    assert_eq!(found, Some(Value::List(ints(&wanted))));
}

#[test]
fn a_decimal_has_just_the_digits_of_its_column() {
    let ty = DataType::Decimal { precision: 5, scale: 2 };
    let found = |unscaled: i128, scale: i8| {
        let array = arrow::array::Decimal128Array::from(vec![unscaled]);
        let array = array.with_precision_and_scale(38, scale).unwrap();
        value_at(&array, 0, &ty).ok().flatten()
    };
    let decimal = |unscaled| Some(Value::Decimal { unscaled, scale: 2 });
    for sign in [1, -1] {
        assert_eq!(found(sign * 99_999, 2), decimal(sign * 99_999));
        assert_eq!(found(sign * 100_000, 2), None);
        assert_eq!(found(sign * 999, 0), decimal(sign * 99_900));
        assert_eq!(found(sign * 1000, 0), None);
        assert_eq!(found(sign * 12_300, 4), decimal(sign * 123));
    }
}

#[test]
fn what_a_column_cannot_hold_is_refused() {
    let put = |ty: &DataType, value: Option<&Value>| {
        let schema = table(ty);
        let column = schema.column(ColumnId(1));
        put_value(&mut Row::default(), ColumnId(1), column, value, &OPTIONS, None)
            .unwrap_err()
            .to_string()
    };
    assert!(put(&DataType::Counter, None).contains("a counter takes steps"));
    let list = DataType::list_of(DataType::Int);
    assert_eq!(put(&list, Some(&text("x"))), "wanted list<int>, found text");
    assert!(put(&list, Some(&Value::List(vec![text("x")]))).contains("wanted list<int>"));
    // The longest value is taken, alone and as an element.
    for ty in [DataType::Blob, DataType::list_of(DataType::Blob)] {
        let schema = table(&ty);
        let value = |bytes| match ty {
            DataType::Blob => Value::Blob(vec![0; bytes]),
            _ => Value::List(vec![Value::Blob(vec![0; bytes])]),
        };
        insert(&schema, Some(&value(CELL_BYTES_MAX)), None);
        let refused = put(&ty, Some(&value(CELL_BYTES_MAX + 1)));
        let wanted = format!("takes {} bytes, at most {CELL_BYTES_MAX} are", CELL_BYTES_MAX + 1);
        assert!(refused.contains(&wanted), "{refused}");
    }

    // An integer that SQL cannot show is an error that names the column, not another number.
    let schema = table(&DataType::Varint);
    let huge = Value::Varint(parse_varint(&"9".repeat(77)).unwrap());
    let row = insert(&schema, Some(&huge), None);
    let mut builder = BatchBuilder::new(schema.clone(), &[ColumnId(1)], 0);
    let partition = Rc::new(PartitionKey::from_values(&schema, &[Value::Int(0)]).unwrap());
    let key = ClusteringKey::empty();
    let content = LiveContent::Row { key: &key, row: &row };
    let live = LiveRows { partition: &partition, content, static_row: None };
    let error = builder.push(live).unwrap_err().to_string();
    assert!(error.contains("ks.t.v") && error.contains("76 digits"), "{error}");

    // Arrays whose type gives no such value.
    let lists = table(&list);
    let batch = batch_of(&lists, vec![insert(&lists, Some(&Value::List(ints(&[1]))), None)], 0);
    for ty in [DataType::Int, DataType::map_of(DataType::Int, DataType::Int), user()] {
        assert!(value_at(batch.column(1), 0, &ty).is_err(), "{ty:?}");
    }
    let pairs = DataType::tuple_of([DataType::Int, DataType::Int]);
    let pair = table(&pairs);
    let value = Value::Tuple(vec![Some(Value::Int(1)), None]);
    let batch = batch_of(&pair, vec![insert(&pair, Some(&value), None)], 0);
    assert!(value_at(batch.column(1), 0, &DataType::tuple_of([DataType::Int])).is_err());
    assert!(value_at(batch.column(1), 0, &user()).unwrap_err().to_string().contains("'c0'"));
}

#[test]
fn a_time_in_any_unit_is_that_of_its_column() {
    use arrow::array::{
        Array, Date32Array, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray,
        Time64NanosecondArray, TimestampMillisecondArray, TimestampSecondArray,
    };
    // Two in the morning, and a day before 1970.
    let times: [Box<dyn Array>; 4] = [
        Box::new(Time32SecondArray::from(vec![7200])),
        Box::new(Time32MillisecondArray::from(vec![7_200_000])),
        Box::new(Time64MicrosecondArray::from(vec![7_200_000_000])),
        Box::new(Time64NanosecondArray::from(vec![7_200_000_000_000])),
    ];
    for array in times {
        let found = value_at(&*array, 0, &DataType::Time).unwrap();
        assert_eq!(found, Some(Value::Time(7_200_000_000_000)), "{}", array.data_type());
    }
    let instants: [Box<dyn Array>; 3] = [
        Box::new(TimestampSecondArray::from(vec![-86_400])),
        Box::new(TimestampMillisecondArray::from(vec![-86_400_000])),
        Box::new(Date32Array::from(vec![-1])),
    ];
    for array in instants {
        let found = value_at(&*array, 0, &DataType::Timestamp).unwrap();
        assert_eq!(found, Some(Value::Timestamp(-86_400_000)), "{}", array.data_type());
    }
    // What does not fit is no other time.
    let too_late = TimestampSecondArray::from(vec![i64::MAX / 1000 + 1]);
    assert!(value_at(&too_late, 0, &DataType::Timestamp).is_err());
    let too_long = Time64MicrosecondArray::from(vec![i64::MAX / 1000 + 1]);
    assert!(value_at(&too_long, 0, &DataType::Time).is_err());
}

#[test]
fn a_number_is_taken_from_any_type_as_far_as_its_column_goes() {
    use arrow::array::{Float64Array, Int64Array, UInt64Array};
    let shown = |found: crate::error::Result<Option<Value>>| match found {
        Ok(found) => found.expect("it is not null").to_string(),
        Err(error) => error.to_string(),
    };
    for (ty, least, most) in [
        (DataType::TinyInt, i64::from(i8::MIN), i64::from(i8::MAX)),
        (DataType::SmallInt, i64::from(i16::MIN), i64::from(i16::MAX)),
        (DataType::Int, i64::from(i32::MIN), i64::from(i32::MAX)),
    ] {
        let found = |number| shown(value_at(&Int64Array::from(vec![number]), 0, &ty));
        for number in [least, most] {
            assert_eq!(found(number), number.to_string());
        }
        for number in [least - 1, most + 1] {
            assert_eq!(found(number), format!("{number} is out of range for {}", ty.sql_name()));
        }
    }
    let unsigned = UInt64Array::from(vec![i64::MAX as u64, i64::MAX as u64 + 1]);
    let found = |row| shown(value_at(&unsigned, row, &DataType::BigInt));
    assert_eq!(found(0), i64::MAX.to_string());
    assert_eq!(found(1), "9223372036854775808 is out of range for bigint");
    let wide = Float64Array::from(vec![0.5, f64::INFINITY, 1e39]);
    let found = |row| shown(value_at(&wide, row, &DataType::Float));
    assert_eq!([found(0), found(1), found(2)], ["0.5", "inf", "1e39 is out of range for float"]);
}

#[test]
fn a_change_of_elements_leaves_the_others_as_they_are() {
    let ty = DataType::set_of(DataType::Int);
    let schema = table(&ty);
    let column = schema.column(ColumnId(1));
    let mut row = insert(&schema, Some(&Value::Set(ints(&[1, 2, 3]))), None);
    let later = WriteOptions { timestamp: 1_000_001, now_seconds: 77, ..OPTIONS };
    let expiry = Some(Expiry { ttl: 10, at: 87 });
    let changes =
        [ElementChange::Remove(ints(&[1, 9])), ElementChange::Add(Value::Set(ints(&[2, 4])))];
    for change in &changes {
        change_elements(&mut row, ColumnId(1), column, change, &later, expiry, 5).unwrap();
    }
    let multi = row.multi_cell(ColumnId(1)).unwrap();
    assert_eq!(multi.deletion.unwrap().timestamp, 999_999);
    let is_deleted = |state: &CellState| matches!(state, CellState::Deleted { deletion_time: 77 });
    let deleted: Vec<bool> = multi.cells.iter().map(|(_, cell)| is_deleted(&cell.state)).collect();
    assert_eq!(deleted, [true, false, false, false, true], "of 1, 2, 3, 4 and 9");
    let seen = |now| value_at(batch_of(&schema, vec![row.clone()], now).column(1), 0, &ty).unwrap();
    assert_eq!(seen(86), Some(Value::Set(ints(&[2, 3, 4]))));
    assert_eq!(seen(87), Some(Value::Set(ints(&[3]))));

    // A field goes by its number.
    let schema = table(&user());
    let address = Value::Tuple(vec![Some(text("s")), Some(Value::Int(5)), None]);
    let mut row = insert(&schema, Some(&address), None);
    let (column, change) =
        (schema.column(ColumnId(1)), ElementChange::Remove(vec![Value::SmallInt(1)]));
    change_elements(&mut row, ColumnId(1), column, &change, &later, None, 5).unwrap();
    let found = value_at(batch_of(&schema, vec![row], 80).column(1), 0, &user()).unwrap();
    assert_eq!(found, Some(Value::Tuple(vec![Some(text("s")), None, None])));
}

#[test]
fn changes_of_elements_that_a_column_cannot_take_are_refused() {
    let list = || DataType::list_of(DataType::Int);
    let set = || DataType::set_of(DataType::Int);
    let one = || ints(&[1]);
    let refused = [
        (set(), ElementChange::Prepend(Value::Set(one())), "set<int> has no front"),
        (set(), ElementChange::Add(Value::List(one())), "wanted set<int>, found list"),
        (set(), ElementChange::Remove(vec![text("x")]), "wanted int, found text"),
        (list(), ElementChange::Prepend(Value::List(vec![text("x")])), "wanted list<int>"),
        (list(), ElementChange::Remove(one()), "which elements a list has"),
        (list(), ElementChange::Count(1), "list<int> does not count"),
        (list().frozen(), ElementChange::Add(Value::List(one())), "frozen<list<int>> has no"),
        (DataType::Int, ElementChange::Count(1), "int has no elements"),
        (DataType::Counter, ElementChange::Add(Value::BigInt(1)), "counter has no elements"),
    ];
    for (ty, change, wanted) in refused {
        let schema = table(&ty);
        let (mut row, column) = (Row::default(), schema.column(ColumnId(1)));
        let error = change_elements(&mut row, ColumnId(1), column, &change, &OPTIONS, None, 5);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}, and not: {wanted}");
        assert_eq!(row, Row::default());
    }
}
