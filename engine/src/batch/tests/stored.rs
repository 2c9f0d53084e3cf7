//! What is stored becomes Arrow, one batch after another; what is no value is refused by name.

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int32Array,
    IntervalMonthDayNanoArray, ListArray, NullArray, StringArray, Time64NanosecondArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{Int32Type, IntervalMonthDayNano};

use super::*;
use crate::error::Result;
use crate::mutation::{Cell, CellPath, FlatRow, Liveness, MultiCell};
use crate::reader::{RowKey, RowValues};

const V: ColumnId = ColumnId(1);

/// As `samples`, of the types without parameters.
fn scalars() -> Vec<(DataType, Vec<Value>)> {
    vec![
        (DataType::Boolean, vec![Value::Boolean(true), Value::Boolean(false)]),
        (DataType::TinyInt, vec![Value::TinyInt(i8::MIN), Value::TinyInt(1)]),
        (DataType::SmallInt, vec![Value::SmallInt(i16::MIN), Value::SmallInt(1)]),
        (DataType::Int, vec![Value::Int(i32::MIN), Value::Int(1)]),
        (DataType::BigInt, vec![Value::BigInt(i64::MIN), Value::BigInt(1)]),
        (DataType::Float, vec![Value::Float(-0.5), Value::Float(f32::INFINITY)]),
        (DataType::Double, vec![Value::Double(-0.5), Value::Double(f64::INFINITY)]),
        (DataType::Text, vec![text(""), text("a"), text("äöü")]),
        (DataType::Blob, vec![Value::Blob(vec![]), Value::Blob(vec![0, 255])]),
        (DataType::Date, vec![Value::Date(i32::MIN), Value::Date(1)]),
        (DataType::Time, vec![Value::Time(0), Value::Time(86_399_999_999_999)]),
        (DataType::Timestamp, vec![Value::Timestamp(-1), Value::Timestamp(1)]),
        (DataType::Uuid, vec![Value::Uuid([0xab; 16])]),
        (DataType::TimeUuid, vec![Value::TimeUuid([0x1a; 16])]),
        (DataType::Inet, vec![Value::Inet([10, 0, 0, 1].into())]),
    ]
}

fn push(builder: &mut BatchBuilder, row: &Row) -> Result<()> {
    let partition = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
    let content = LiveContent::Row { key: &ClusteringKey::empty(), row };
    builder.push(LiveRows { partition: &partition, content, static_row: None })
}

/// Nothing of a batch is in the next one: no nulls, no places where lists end, no bytes.
#[test]
fn a_builder_begins_anew_after_each_batch() {
    for (ty, values) in samples().into_iter().chain(scalars()) {
        let (schema, name) = (table(&ty), ty.sql_name());
        let some: Vec<Option<&Value>> = values.iter().map(Some).collect();
        let null: &[Option<&Value>] = &[None];
        let around = [null, some.as_slice(), null].concat();
        let batches: [&[Option<&Value>]; 6] = [&around, &some, &[], null, &around, &some];
        let mut builder = BatchBuilder::new(schema.clone(), &[V], 50);
        for (number, batch) in batches.into_iter().enumerate() {
            for value in batch {
                push(&mut builder, &insert(&schema, *value, None)).unwrap();
            }
            assert_eq!(builder.rows(), batch.len(), "{name}, batch {number}");
            let built = builder.finish().unwrap();
            assert_eq!((builder.rows(), builder.bytes()), (0, 0), "{name}, batch {number}");
            assert_eq!(built.num_rows(), batch.len(), "{name}, batch {number}");
            let nulls = batch.iter().filter(|value| value.is_none()).count();
            assert_eq!(built.column(0).null_count(), nulls, "{name}, batch {number}");
            for (row, wanted) in batch.iter().enumerate() {
                let found = value_at(built.column(0), row, &ty).unwrap();
                assert_eq!(found.as_ref(), *wanted, "{name}, batch {number}, row {row}");
            }
        }
    }
}

/// What each of three ways to Arrow says of these bytes as a value of the column: a row in either
/// form, and one that was read by its key.
fn told(ty: &DataType, stored: &[u8]) -> [Result<ArrayRef, String>; 3] {
    let schema = table(ty);
    let row = Row {
        liveness: Some(Liveness::at(1)),
        cells: vec![(V, Cell::live(1, stored))],
        ..Row::default()
    };
    let flat = FlatRow::row(&[], &row);
    let (partition, flats) = (Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes())), [&flat]);
    let key = ClusteringKey::empty();
    let contents = [LiveContent::Row { key: &key, row: &row }, LiveContent::Flat(&flats)];
    let [thawed, flat] = contents.map(|content| {
        let mut builder = BatchBuilder::new(schema.clone(), &[V], 0);
        builder.push(LiveRows { partition: &partition, content, static_row: None })?;
        builder.finish().map(|batch| batch.column(0).clone())
    });
    let key = RowKey { partition: PartitionKey::from_bytes(1_i32.to_be_bytes()), clustering: key };
    let values = RowValues::of_stored(schema.clone(), key, &[(V, stored.to_vec())]);
    let by_key = columns_of(&schema, &[V], &[Some(values)]).map(|mut columns| columns.remove(0));
    [thawed, flat, by_key].map(|array| array.map_err(|error| error.to_string()))
}

#[test]
fn stored_bytes_that_are_no_value_are_refused_by_the_name_of_their_column() {
    const LENGTH: &str = "wrong length";
    let narrow = DataType::Decimal { precision: 5, scale: 2 };
    let list = DataType::list_of(DataType::Int).frozen();
    let map = DataType::map_of(DataType::Int, DataType::Int).frozen();
    let pair = DataType::tuple_of([DataType::Int, DataType::Int]);
    let wrong: [(DataType, &[u8], &str); 29] = [
        (DataType::Boolean, &[1, 2], LENGTH),
        (DataType::TinyInt, &[0; 2], LENGTH),
        (DataType::SmallInt, &[0; 1], LENGTH),
        (DataType::Int, &[0; 3], LENGTH),
        (DataType::BigInt, &[0; 7], LENGTH),
        (DataType::Float, &[0; 5], LENGTH),
        (DataType::Double, &[0; 9], LENGTH),
        (DataType::Date, &[0; 3], LENGTH),
        (DataType::Time, &[0; 7], LENGTH),
        (DataType::Timestamp, &[0; 9], LENGTH),
        (DataType::Uuid, &[0; 15], LENGTH),
        (DataType::TimeUuid, &[0; 17], LENGTH),
        (DataType::Inet, &[0; 5], LENGTH),
        (DataType::Text, &[0xff], "not UTF-8"),
        (DataType::Duration, &[0], "not three numbers"),
        (DataType::Varint, &[0x7f; 33], "over 76 digits"),
        (narrow.clone(), &[0; 3], LENGTH),
        (narrow.clone(), &[0, 0, 0, 2], LENGTH),
        (narrow.clone(), &[0, 0, 0, 3, 1], "does not fit the column's scale"),
        (narrow, &[0, 0, 0, 2, 1, 0x86, 0xa0], "does not fit the column's precision"),
        (DataType::DECIMAL_WIDE, &[0; 3], LENGTH),
        (DataType::DECIMAL_WIDE, &[0, 0, 0, 39, 1], "does not fit the column's digits"),
        (DataType::Counter, &[0], "no shards"),
        (list.clone(), &[0, 0, 0, 1], "not a count and its elements"),
        (list, &[0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0], LENGTH),
        (map.clone(), &[0, 0, 0, 1, 0, 0, 0, 0], "not a count and its entries"),
        (map.clone(), &[0, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0, 0], "a null key"),
        (map, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "a key without bytes"),
        (pair, &[255; 12], "not its fields"),
    ];
    for (ty, stored, why) in wrong {
        let wanted = format!("a stored value of ks.t.v is no {}: {why}", ty.sql_name());
        for (way, told) in told(&ty, stored).into_iter().enumerate() {
            let told = told.expect_err(&wanted);
            assert!(told.starts_with(&wanted), "way {way}: {told}, and not: {wanted}");
        }
    }
}

/// Of all types, as Cassandra shows them.
#[test]
fn no_bytes_are_null_but_where_a_type_has_an_empty_value() {
    for (ty, _) in samples().into_iter().chain(scalars()).filter(|(ty, _)| !ty.is_multi_cell()) {
        let wanted = match ty {
            DataType::Text => Some(text("")),
            DataType::Blob => Some(Value::Blob(Vec::new())),
            _ => None,
        };
        for (way, array) in told(&ty, &[]).into_iter().enumerate() {
            let (array, name) = (array.unwrap(), ty.sql_name());
            assert_eq!(array.len(), 1, "{name}, way {way}");
            assert_eq!(value_at(&array, 0, &ty).unwrap(), wanted, "{name}, way {way}");
        }
    }
}

#[test]
fn elements_that_are_none_of_their_column_are_refused_by_its_name() {
    let path = |bytes: &[u8]| CellPath::from_ordered(bytes);
    let field =
        |number: i16| CellPath::from_stored(&DataType::SmallInt, &number.to_be_bytes()).unwrap();
    let set = || DataType::set_of(DataType::Int);
    let map = || DataType::map_of(DataType::Int, DataType::Int);
    for (ty, place, wanted) in [
        (set(), path(&[9]), "the path of a cell"),
        (map(), path(&[9]), "the path of a cell"),
        (user(), path(&[9]), "the path of a cell"),
        (user(), field(3), "it has a field that the type lacks"),
        (user(), field(-1), "it has a field that the type lacks"),
    ] {
        let schema = table(&ty);
        let wanted = format!("a stored value of ks.t.v is no {}: {wanted}", ty.sql_name());
        let mut multi = MultiCell::default();
        multi.put(place, Cell::live(1, 7_i32.to_be_bytes()));
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        row.put_multi(V, multi);
        let mut builder = BatchBuilder::new(schema.clone(), &[V], 0);
        assert_eq!(push(&mut builder, &row).unwrap_err().to_string(), wanted);
        let (partition, clustering) =
            (PartitionKey::from_bytes(1_i32.to_be_bytes()), ClusteringKey::empty());
        let content = LiveContent::Row { key: &clustering, row: &row };
        let shared = Rc::new(partition.clone());
        let live = LiveRows { partition: &shared, content, static_row: None };
        let key = RowKey { partition, clustering: clustering.clone() };
        let refused = RowValues::of(schema.clone(), key, live, 0).unwrap_err();
        assert_eq!(refused.to_string(), wanted);
    }
}

/// Each kind of array, and the types that it gives values of; of any other column it is refused.
#[test]
fn what_an_array_cannot_give_is_refused_by_both_names() {
    let integers = ["tinyint", "smallint", "int", "bigint", "varint"];
    let others = ["float", "double", "decimal(5, 2)", "decimal(76, 38)"];
    let numbers = [&integers[..], &others].concat();
    let interval = IntervalMonthDayNano::new(1, 2, 3);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let arrays: [(ArrayRef, &[&str]); 10] = [
        (Arc::new(BooleanArray::from(vec![true])), &["boolean"]),
        (Arc::new(Int32Array::from(vec![1])), &numbers),
        (Arc::new(Float64Array::from(vec![1.0])), &["float", "double"]),
        (Arc::new(StringArray::from(vec![uuid])), &["text", "uuid", "timeuuid"]),
        (Arc::new(BinaryArray::from_iter_values([b"ab"])), &["blob"]),
        (Arc::new(Date32Array::from(vec![1])), &["date", "timestamp"]),
        (Arc::new(Time64NanosecondArray::from(vec![1])), &["time"]),
        (Arc::new(TimestampMillisecondArray::from(vec![1])), &["timestamp"]),
        (Arc::new(IntervalMonthDayNanoArray::from(vec![interval])), &["duration"]),
        (Arc::new(list), &["list<int>", "frozen<list<int>>"]),
    ];
    let types = samples().into_iter().chain(scalars()).map(|(ty, _)| ty);
    let types: Vec<DataType> = types.collect();
    for (array, gives) in &arrays {
        let nothing = NullArray::new(1);
        for ty in &types {
            let (name, kind) = (ty.sql_name(), array.data_type());
            assert_eq!(value_at(&nothing, 0, ty).unwrap(), None, "{name}");
            // Whether text is one of these is looked at in the text.
            let is_parsed = *ty == DataType::Inet && kind.is_string();
            match value_at(array, 0, ty) {
                Ok(found) => {
                    assert!(gives.contains(&name.as_str()), "{name} of {kind}: {found:?}");
                    assert!(found.is_some_and(|value| value.fits(ty)), "{name} of {kind}");
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(!gives.contains(&name.as_str()), "{name} of {kind}: {told}");
                    let says_both = told.starts_with("wanted ") && told.contains(", found ");
                    assert!(says_both != is_parsed, "{name} of {kind}: {told}");
                }
            }
        }
    }
}
