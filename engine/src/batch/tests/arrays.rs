//! Arrow arrays of every kind that gives values of a column, and rows that do not fit.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, FixedSizeListArray, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, StringArray, StringViewArray,
    StructArray,
};
use arrow::datatypes::{DataType as ArrowType, Decimal256Type, Field, Int32Type, i256};

use super::*;
use crate::batch::column::ColumnBuilder;
use crate::batch::wide;
use crate::error::Error;
use crate::schema::ClusteringOrder;
use crate::schema::value::format_uuid;

/// `pk int, ck int, s int static, v int, PRIMARY KEY (pk, ck)`
fn table_with_statics() -> SchemaRef {
    let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
    let order = ClusteringOrder::Ascending;
    let schema = TableSchema {
        columns: vec![
            column("pk", ColumnKind::PartitionKey { position: 0 }),
            column("ck", ColumnKind::ClusteringKey { position: 0, order }),
            column("s", ColumnKind::Static),
            column("v", ColumnKind::Regular),
        ],
        ..TableSchema::clone(&table(&DataType::Int))
    };
    schema.validate().unwrap();
    Arc::new(schema)
}

/// A batch of two rows.
fn batch(columns: &[(&str, [Option<i32>; 2])]) -> RecordBatch {
    let columns = columns.iter().map(|(name, values)| {
        let array: ArrayRef = Arc::new(Int32Array::from(values.to_vec()));
        (*name, array)
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn a_list_is_taken_from_every_kind_of_list() {
    let rows = || [Some([Some(3), Some(1)]), None, Some([Some(2), Some(2)]), Some([Some(1), None])];
    let arrays: [Box<dyn Array>; 3] = [
        Box::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows())),
        Box::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows())),
        Box::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows(), 2)),
    ];
    let (list, set) = (DataType::list_of(DataType::Int), DataType::set_of(DataType::Int));
    for array in &arrays {
        let kind = array.data_type();
        let found = |row: usize, ty: &DataType| value_at(&**array, row, ty);
        assert_eq!(found(0, &list).unwrap(), Some(Value::List(ints(&[3, 1]))), "{kind}");
        assert_eq!(found(0, &set).unwrap(), Some(Value::Set(ints(&[1, 3]))), "{kind}");
        assert_eq!(found(1, &list).unwrap(), None, "{kind}");
        assert_eq!(found(2, &list).unwrap(), Some(Value::List(ints(&[2, 2]))), "{kind}");
        assert_eq!(found(2, &set).unwrap(), Some(Value::Set(ints(&[2]))), "{kind}");
        let refused = found(3, &list).unwrap_err().to_string();
        assert_eq!(refused, "a collection holds no nulls", "{kind}");
    }
}

#[test]
fn a_uuid_is_taken_from_its_bytes_and_from_its_text() {
    let mut timed = [7_u8; 16];
    timed[6] = 0x17;
    let mut random = timed;
    random[6] = 0x47;
    let both = [timed, random];
    let texts = both.map(|uuid| format_uuid(&uuid));
    let arrays: [Box<dyn Array>; 7] = [
        Box::new(BinaryArray::from_iter_values(both)),
        Box::new(LargeBinaryArray::from_iter_values(both)),
        Box::new(BinaryViewArray::from_iter_values(both)),
        Box::new(FixedSizeBinaryArray::try_from_iter(both.iter()).unwrap()),
        Box::new(StringArray::from_iter_values(&texts)),
        Box::new(LargeStringArray::from_iter_values(&texts)),
        Box::new(StringViewArray::from_iter_values(&texts)),
    ];
    for (number, array) in arrays.iter().enumerate() {
        let kind = array.data_type();
        let found = |row: usize, ty: &DataType| value_at(&**array, row, ty);
        for (row, uuid) in both.into_iter().enumerate() {
            assert_eq!(found(row, &DataType::Uuid).unwrap(), Some(Value::Uuid(uuid)), "{kind}");
        }
        let of_time = found(0, &DataType::TimeUuid).unwrap();
        assert_eq!(of_time, Some(Value::TimeUuid(timed)), "{kind}");
        let refused = found(1, &DataType::TimeUuid).unwrap_err().to_string();
        assert_eq!(refused, "a timeuuid must be a version 1 UUID", "{kind}");
        let (ty, wanted) = match number {
            ..4 => (DataType::Blob, Value::Blob(timed.to_vec())),
            _ => (DataType::Text, text(&texts[0])),
        };
        assert_eq!(found(0, &ty).unwrap(), Some(wanted), "{kind}");
    }
    let short = BinaryArray::from_iter_values([[1_u8; 15]]);
    assert!(value_at(&short, 0, &DataType::Uuid).is_err(), "a byte is missing");
    let word = StringArray::from_iter_values(["no"]);
    let refused = value_at(&word, 0, &DataType::Uuid).unwrap_err().to_string();
    assert_eq!(refused, "'no' is no uuid");
}

#[test]
fn an_address_of_ipv4_is_the_same_within_one_of_ipv6() {
    let texts = StringArray::from_iter_values(["10.0.0.1", "::ffff:10.0.0.1", "::1", "10.0.0"]);
    let found = |row: usize| value_at(&texts, row, &DataType::Inet);
    for (row, wanted) in ["10.0.0.1", "10.0.0.1", "::1"].into_iter().enumerate() {
        assert_eq!(found(row).unwrap(), Some(Value::Inet(wanted.parse().unwrap())), "{row}");
    }
    assert_eq!(found(3).unwrap_err().to_string(), "'10.0.0' is no inet address");
}

#[test]
fn a_number_that_gets_another_type_keeps_its_value_or_is_refused() {
    let decimals = Decimal128Array::from(vec![2000_i128, 1500, -2500]);
    let decimals = decimals.with_precision_and_scale(38, 3).unwrap();
    for (row, wanted) in [2.0, 1.5, -2.5].into_iter().enumerate() {
        let found = value_at(&decimals, row, &DataType::Double).unwrap();
        assert_eq!(found, Some(Value::Double(wanted)));
        let found = value_at(&decimals, row, &DataType::Float).unwrap();
        assert_eq!(found, Some(Value::Float(wanted as f32)));
    }
    let varint = |text: &str| Some(Value::Varint(parse_varint(text).unwrap()));
    assert_eq!(value_at(&decimals, 0, &DataType::Varint).unwrap(), varint("2"));
    let refused = value_at(&decimals, 1, &DataType::Varint).unwrap_err().to_string();
    assert!(refused.contains("is no whole number"), "{refused}");
    let whole = Int64Array::from(vec![-3_i64]);
    assert_eq!(value_at(&whole, 0, &DataType::Varint).unwrap(), varint("-3"));
    assert_eq!(value_at(&whole, 0, &DataType::Double).unwrap(), Some(Value::Double(-3.0)));
    // Two NaN would be two keys.
    let nans = Float64Array::from(vec![-f64::NAN, f64::NAN]);
    for row in 0..2 {
        for (ty, wanted) in
            [(DataType::Double, Value::Double(f64::NAN)), (DataType::Float, Value::Float(f32::NAN))]
        {
            let found = value_at(&nans, row, &ty).unwrap().expect("it is not null");
            assert_eq!(found.to_bytes(), wanted.to_bytes(), "{ty:?}");
        }
    }
}

#[test]
fn fields_are_found_by_their_names_and_those_that_are_missing_are_null() {
    let field = |name: &str, ty| Arc::new(Field::new(name, ty, true));
    let zips: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    let streets: ArrayRef = Arc::new(StringArray::from(vec![Some("s"), Some("t")]));
    let turned = StructArray::from(vec![
        (field("zip", ArrowType::Int32), zips),
        (field("street", ArrowType::Utf8), streets),
    ]);
    let wanted = [[Some(text("s")), Some(Value::Int(7)), None], [Some(text("t")), None, None]];
    for (row, wanted) in wanted.into_iter().enumerate() {
        let found = value_at(&turned, row, &user()).unwrap();
        assert_eq!(found, Some(Value::Tuple(wanted.to_vec())), "row {row}");
    }
}

/// A column of two numbers.
type Pair<'a> = (&'a str, [Option<i32>; 2]);

#[test]
fn a_batch_without_a_key_is_refused_and_else_only_the_rows_that_do_not_fit() {
    let schema = table_with_statics();
    let (keys, values) = ([Some(1), Some(2)], [Some(5), None]);
    let refused = |columns: &[Pair<'_>]| mutations(&schema, &batch(columns), &OPTIONS).unwrap_err();
    let cases: [(&[Pair<'_>], &str); 4] = [
        (&[("ck", keys), ("v", values)], "key column 'pk' of ks.t is missing"),
        (&[("s", values)], "key column 'pk' of ks.t is missing"),
        (&[("pk", keys)], "key column 'ck' of ks.t is missing"),
        // What is static is not alone here.
        (&[("pk", keys), ("s", values), ("v", values)], "key column 'ck' of ks.t is missing"),
    ];
    for (columns, wanted) in cases {
        let error = refused(columns).to_string();
        assert!(error.contains(wanted), "{error}, and not: {wanted}");
    }
    let error = refused(&[("pk", keys), ("ck", keys), ("w", values)]);
    assert!(matches!(&error, Error::NotFound { kind: "column", name } if name == "t.w"), "{error}");
    for (name, pk, ck) in [("pk", [Some(1), None], keys), ("ck", keys, [Some(1), None])] {
        let rows = batch(&[("pk", pk), ("ck", ck), ("v", values)]);
        let rows = mutations(&schema, &rows, &OPTIONS).unwrap();
        let [Ok(first), Err(second)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(first.rows.len(), 1);
        let message = "a key column must not be null".to_owned();
        assert_eq!(*second, RowError { row: 1, column: Some(name.into()), message });
    }
}

#[test]
fn static_columns_alone_are_written_without_a_row() {
    let schema = table_with_statics();
    let (keys, values) = ([Some(1), Some(2)], [Some(5), None]);
    let written = |columns: &[Pair<'_>]| {
        let written = mutations(&schema, &batch(columns), &OPTIONS).unwrap();
        written.into_iter().map(|written| written.unwrap()).collect::<Vec<Mutation>>()
    };
    let ids = |row: &Row| row.cells.iter().map(|(id, _)| id.0).collect::<Vec<u16>>();
    for mutation in written(&[("s", values), ("pk", keys)]) {
        let statics = mutation.static_row.expect("a static row");
        assert_eq!((statics.liveness, ids(&statics)), (None, vec![2]));
        assert!(mutation.rows.is_empty(), "{:?}", mutation.rows);
    }
    for mutation in written(&[("v", values), ("s", values), ("ck", keys), ("pk", keys)]) {
        let statics = mutation.static_row.expect("a static row");
        assert_eq!((statics.liveness, ids(&statics)), (None, vec![2]));
        let [(_, row)] = &mutation.rows[..] else { panic!("{:?}", mutation.rows) };
        assert_eq!((row.liveness.is_some(), ids(row)), (true, vec![3]));
    }
    for mutation in written(&[("pk", keys), ("ck", keys)]) {
        assert_eq!((mutation.static_row, mutation.rows.len()), (None, 1), "a row of keys alone");
    }
}

#[test]
fn a_wide_number_has_just_the_digits_of_its_column_on_both_sides_of_zero() {
    let ty = DataType::Decimal { precision: 40, scale: 2 };
    let power = |exponent: u32| i256::from_i128(10).wrapping_pow(exponent);
    let shown = |ty: &DataType, stored: &[u8]| {
        let mut column = ColumnBuilder::new(ty);
        let shown = column.push(Some(stored)).and_then(|()| column.finish()).ok()?;
        Some(shown.as_primitive::<Decimal256Type>().value(0))
    };
    // In the column the first of each pair has 40 digits, and the other one 41.
    for (exponent, scale, fits) in [
        (39, 2, true),
        (40, 2, false),
        (37, 0, true),
        (38, 0, false),
        (41, 4, true),
        (42, 4, false),
    ] {
        for sign in [1, -1] {
            let signed = |number: i256| if sign < 0 { number.wrapping_neg() } else { number };
            let (number, case) = (signed(power(exponent)), format!("{sign}e{exponent}, {scale}"));
            let array = Decimal256Array::from_iter_values([number]);
            let array = array.with_precision_and_scale(76, scale).unwrap();
            let wanted = fits.then(|| Value::Decimal { unscaled: sign * 10i128.pow(37), scale: 0 });
            assert_eq!(value_at(&array, 0, &ty).ok().flatten(), wanted, "{case}");
            let mut stored = i32::from(scale).to_be_bytes().to_vec();
            stored.extend(wide::to_bytes(number));
            assert_eq!(shown(&ty, &stored), fits.then(|| signed(power(39))), "{case}");
        }
    }
    let most = power(76).wrapping_sub(i256::ONE);
    for (number, fits) in [(most, true), (power(76), false)] {
        for number in [number, number.wrapping_neg()] {
            let found = shown(&DataType::Varint, &wide::to_bytes(number));
            assert_eq!(found, fits.then_some(number), "{number} as a varint");
        }
    }
}
