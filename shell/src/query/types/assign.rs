//! Assigns values to a column: exactly the written value, or an error.
//!
//! The planner casts what is inserted to the column's type, and a cast changes what does not fit:
//! 3.7 becomes 3. So this module removes its casts and converts values itself. What may change: a
//! double that becomes a float, a decimal that becomes a float (to the nearest one), and an
//! instant, of which milliseconds are kept, as drivers of CQL do it. For any other change, the
//! statement needs CAST.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StructArray, new_empty_array,
    new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::{CastOptions, cast_with_options, concat};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Field, FieldRef, Float64Type, Int64Type, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tidegate_engine::batch::arrow_type;
use tidegate_engine::{Column, DataType};

use super::literal;
use super::number::{self, ASSIGN};

/// How far a double may be from the decimal that it stands for, in parts of it: some units in its
/// last place.
const DOUBLE_ERROR: f64 = 1e-14;

/// An expression that gives what is written to a column.
pub fn to_column(value: Expr, column: &Column) -> Expr {
    // There is a double −0.0, and no decimal.
    let double = match column.ty {
        DataType::Float | DataType::Double => number::double(&value),
        _ => None,
    };
    let value = double.unwrap_or(value);
    let assign = Assign {
        column: column.name.clone(),
        ty: column.ty.clone(),
        signature: Signature::any(1, Volatility::Immutable),
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(assign)), vec![value]))
}

/// A constant as SQL holds values of type `ty`.
///
/// Errors: why it is none.
pub fn scalar(value: &ScalarValue, ty: &DataType) -> Result<ScalarValue, String> {
    let array = value.to_array().map_err(|error| error.strip_backtrace())?;
    let array = convert(&array, ty)?;
    ScalarValue::try_from_array(&array, 0).map_err(|error| error.strip_backtrace())
}

/// The function that stands where the planner's cast stood.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Assign {
    column: String,
    ty: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Assign {
    fn name(&self) -> &str {
        ASSIGN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> Result<ArrowType> {
        Ok(arrow_type(&self.ty))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), arrow_type(&self.ty), is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_column = |reason: String| format!("column '{}': {reason}", self.column);
        match &args.args[0] {
            ColumnarValue::Scalar(value) => match scalar(value, &self.ty) {
                Ok(value) => Ok(ColumnarValue::Scalar(value)),
                Err(reason) => exec_err!("{}", of_column(reason)),
            },
            ColumnarValue::Array(array) => match convert(array, &self.ty) {
                Ok(array) => Ok(ColumnarValue::Array(array)),
                Err(reason) => exec_err!("{}", of_column(reason)),
            },
        }
    }
}

/// The values of an array as a column of type `ty` takes them.
///
/// Errors: which value is none, and why.
pub(crate) fn convert(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef, String> {
    let wanted = arrow_type(ty);
    if *array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    if array.logical_null_count() == array.len() {
        return Ok(new_null_array(&wanted, array.len()));
    }
    match ty.unfrozen() {
        DataType::List(element) | DataType::Set(element) => list(array, element, &wanted),
        DataType::Map(key, value) => map(array, key, value, &wanted),
        DataType::Tuple(_) | DataType::User(_) => fields(array, ty.unfrozen(), &wanted),
        ty => single(array, ty, &wanted),
    }
}

fn is_list(ty: &ArrowType) -> bool {
    matches!(
        ty,
        ArrowType::List(_)
            | ArrowType::LargeList(_)
            | ArrowType::FixedSizeList(..)
            | ArrowType::ListView(_)
            | ArrowType::LargeListView(_)
    )
}

/// Each row's elements, as one array each; `None` is null.
fn rows_of(array: &ArrayRef) -> Result<Vec<Option<ArrayRef>>, String> {
    let ArrowType::List(element) = array.data_type() else {
        let element = match array.data_type() {
            ArrowType::LargeList(element)
            | ArrowType::FixedSizeList(element, _)
            | ArrowType::ListView(element)
            | ArrowType::LargeListView(element) => Arc::clone(element),
            other => return Err(format!("{other} is no list")),
        };
        return rows_of(&cast(array, &ArrowType::List(element))?);
    };
    debug_assert!(!element.name().is_empty());
    Ok(array.as_list::<i32>().iter().collect())
}

fn list(array: &ArrayRef, element: &DataType, wanted: &ArrowType) -> Result<ArrayRef, String> {
    let ArrowType::List(field) = wanted else { return Err(format!("{wanted} is no list")) };
    if !is_list(array.data_type()) {
        return single(array, element, wanted);
    }
    let rows = rows_of(array)?;
    let (values, lengths) = joined(&rows, field.data_type(), |part| convert(part, element))?;
    let nulls = rows.iter().map(Option::is_some).collect::<Vec<bool>>().into();
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(Arc::clone(field), offsets, values, Some(nulls))
        .map(|list| Arc::new(list) as ArrayRef)
        .map_err(|error| error.to_string())
}

/// All parts one after the other, converted at once, and how long each is.
fn joined(
    rows: &[Option<ArrayRef>],
    ty: &ArrowType,
    convert: impl Fn(&ArrayRef) -> Result<ArrayRef, String>,
) -> Result<(ArrayRef, Vec<usize>), String> {
    let lengths = rows.iter().map(|row| row.as_ref().map_or(0, |row| row.len())).collect();
    let parts: Vec<&dyn Array> =
        rows.iter().flatten().filter(|part| !part.is_empty()).map(|part| &**part).collect();
    let values = match parts.is_empty() {
        true => new_empty_array(ty),
        false => convert(&concat(&parts).map_err(|error| error.to_string())?)?,
    };
    Ok((values, lengths))
}

fn map(
    array: &ArrayRef,
    key: &DataType,
    value: &DataType,
    wanted: &ArrowType,
) -> Result<ArrayRef, String> {
    let ArrowType::Map(entries, _) = wanted else { return Err(format!("{wanted} is no map")) };
    let (rows, nulls): (Vec<Option<ArrayRef>>, Vec<bool>) = match array.data_type() {
        ArrowType::Map(..) => {
            let map = array.as_map();
            let row = |row: usize| map.is_valid(row).then(|| Arc::new(map.value(row)) as ArrayRef);
            (
                (0..map.len()).map(row).collect(),
                (0..map.len()).map(|row| map.is_valid(row)).collect(),
            )
        }
        // `{}` says nothing of what it is.
        ty if is_list(ty) => {
            let rows = rows_of(array)?;
            if rows.iter().flatten().any(|row| !row.is_empty()) {
                return Err("a list or set is no map: write {key: value, …}".to_owned());
            }
            (vec![None; rows.len()], rows.iter().map(Option::is_some).collect())
        }
        other => return Err(format!("{other} is no map")),
    };
    let part = |at: usize, ty: &DataType| {
        let columns: Vec<Option<ArrayRef>> = rows
            .iter()
            .map(|row| row.as_ref().map(|row| Arc::clone(row.as_struct().column(at))))
            .collect();
        joined(&columns, &arrow_type(ty), |part| convert(part, ty))
    };
    let ((keys, lengths), (values, _)) = (part(0, key)?, part(1, value)?);
    let ArrowType::Struct(types) = entries.data_type() else {
        return Err(format!("{} has no entries", entries.data_type()));
    };
    if keys.null_count() > 0 {
        return Err("a key of a map must not be null".to_owned());
    }
    let made = StructArray::try_new(types.clone(), vec![keys, values], None).and_then(|made| {
        let offsets = OffsetBuffer::from_lengths(lengths);
        MapArray::try_new(Arc::clone(entries), offsets, made, Some(nulls.into()), false)
    });
    made.map(|map| Arc::new(map) as ArrayRef).map_err(|error| error.to_string())
}

/// A tuple's fields by their places, those of a user type by their names.
fn fields(array: &ArrayRef, ty: &DataType, wanted: &ArrowType) -> Result<ArrayRef, String> {
    let ArrowType::Struct(types) = wanted else { return Err(format!("{wanted} has no fields")) };
    let Some(found) = array.as_struct_opt() else {
        return Err(format!("{} is no {}", array.data_type(), ty.sql_name()));
    };
    let columns: Result<Vec<ArrayRef>, String> = match ty {
        DataType::Tuple(parts) => {
            if found.num_columns() != parts.len() {
                let (wanted, found) = (parts.len(), found.num_columns());
                return Err(format!("{} has {wanted} fields, not {found}", ty.sql_name()));
            }
            found.columns().iter().zip(parts).map(|(part, ty)| convert(part, ty)).collect()
        }
        DataType::User(user) => {
            let is_known = |name: &&str| user.fields.iter().any(|(field, _)| field == name);
            if let Some(name) = found.column_names().into_iter().find(|name| !is_known(name)) {
                return Err(format!("{} has no field '{name}'", ty.sql_name()));
            }
            let part = |(name, ty): &(String, DataType)| match found.column_by_name(name) {
                Some(part) => {
                    convert(part, ty).map_err(|reason| format!("field '{name}': {reason}"))
                }
                None => Ok(new_null_array(&arrow_type(ty), found.len())),
            };
            user.fields.iter().map(part).collect()
        }
        other => return Err(format!("{} has no fields", other.sql_name())),
    };
    StructArray::try_new(types.clone(), columns?, found.nulls().cloned())
        .map(|made| Arc::new(made) as ArrayRef)
        .map_err(|error| error.to_string())
}

/// Values that hold no others.
fn single(array: &ArrayRef, ty: &DataType, wanted: &ArrowType) -> Result<ArrayRef, String> {
    let found = array.data_type();
    if found.is_string() && is_read_from_text(ty) {
        return from_text(array, ty, wanted);
    }
    if let (ArrowType::Timestamp(..), DataType::Time) = (found, ty) {
        return Err("a timestamp is no time, its date would be lost: write CAST(… AS time)".into());
    }
    if let (ArrowType::Timestamp(unit, zone), ArrowType::Timestamp(TimeUnit::Millisecond, _)) =
        (found, wanted)
        && *unit != TimeUnit::Second
    {
        // A cast cuts towards 1970, not towards the past.
        let parts = match unit {
            TimeUnit::Nanosecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            _ => 1,
        };
        let numbers = cast(array, &ArrowType::Int64)?;
        let millis =
            numbers.as_primitive::<Int64Type>().unary::<_, Int64Type>(|n| n.div_euclid(parts));
        let own = ArrowType::Timestamp(TimeUnit::Millisecond, zone.clone());
        let millis = cast(&(Arc::new(millis) as ArrayRef), &own)?;
        return cast(&millis, wanted);
    }
    // By way of text a decimal becomes the nearest float.
    let source = match found.is_decimal() && wanted.is_floating() {
        true => &cast(array, &ArrowType::Utf8)?,
        false => array,
    };
    let result = cast(source, wanted)?;
    check(array, &result, ty)?;
    Ok(result)
}

/// Whether text of the type is read by `literal`, which cuts nothing off.
fn is_read_from_text(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Decimal { .. }
            | DataType::Float
            | DataType::Double
            | DataType::Varint
            | DataType::Date
            | DataType::Time
    )
}

fn from_text(array: &ArrayRef, ty: &DataType, wanted: &ArrowType) -> Result<ArrayRef, String> {
    let texts = cast(array, &ArrowType::Utf8)?;
    let texts = texts.as_string::<i32>();
    texts.iter().flatten().try_for_each(|text| literal::parse(ty, text).map(|_| ()))?;
    let trimmed: StringArray = texts.iter().map(|text| text.map(str::trim)).collect();
    let trimmed = Arc::new(trimmed) as ArrayRef;
    cast(&trimmed, wanted).map_err(|error| {
        let is_refused = |row: &usize| cast(&trimmed.slice(*row, 1), wanted).is_err();
        let row = (0..trimmed.len()).find(is_refused);
        row.map_or(error, |row| format!("'{}' is no {}", texts.value(row), ty.sql_name()))
    })
}

fn cast(array: &ArrayRef, ty: &ArrowType) -> Result<ArrayRef, String> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, ty, &options).map_err(|error| match error {
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::InvalidArgumentError(text) => text,
        other => other.to_string(),
    })
}

/// Errors: the first value that is another one after the cast.
fn check(before: &ArrayRef, after: &ArrayRef, ty: &DataType) -> Result<(), String> {
    let (from, to) = (before.data_type(), after.data_type());
    if from.is_string() || to.is_string() || to.is_binary() {
        return Ok(());
    }
    let changed = if to.is_floating() {
        // Rounding is what floats do; becoming infinite is not.
        let (before, after) = (doubles(before)?, doubles(after)?);
        first(&before, &after, |a, b| a.is_finite() == b.is_finite())
    } else if from.is_floating() {
        let (before, after) = (doubles(before)?, doubles(after)?);
        let error = if to.is_decimal() { DOUBLE_ERROR } else { 0.0 };
        first(&before, &after, |a, b| (a - b).abs() <= a.abs() * error)
    } else {
        let Ok(back) = cast(after, from) else { return Ok(()) };
        let differs = distinct(&back, before);
        // Types that have no order have no cast that changes them either.
        differs.ok().and_then(|differs| (0..before.len()).find(|row| differs.value(*row)))
    };
    let Some(row) = changed else { return Ok(()) };
    let shown = |array: &ArrayRef| array_value_to_string(array, row).unwrap_or_default();
    Err(format!(
        "{} is no {} and would become {}: write the value that is meant, or CAST(… AS {})",
        shown(before),
        ty.sql_name(),
        shown(after),
        ty.sql_name()
    ))
}

fn doubles(array: &ArrayRef) -> Result<ArrayRef, String> {
    cast(array, &ArrowType::Float64)
}

fn first(before: &ArrayRef, after: &ArrayRef, is_same: impl Fn(f64, f64) -> bool) -> Option<usize> {
    let (before, after) =
        (before.as_primitive::<Float64Type>(), after.as_primitive::<Float64Type>());
    (0..before.len()).find(|row| {
        before.is_valid(*row)
            && (after.is_null(*row) || !is_same(before.value(*row), after.value(*row)))
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        FixedSizeListArray, Int64Array, Int64Builder, LargeListArray, LargeListViewArray,
        ListViewArray, MapBuilder, StringBuilder,
    };
    use tidegate_engine::UserType;

    use super::*;

    fn converted(value: ScalarValue, ty: DataType) -> Result<String, String> {
        scalar(&value, &ty).map(|scalar| scalar.to_string())
    }

    #[test]
    fn values_stay_what_they_are_or_are_refused() {
        let decimal = |unscaled, scale| ScalarValue::Decimal128(Some(unscaled), 20, scale);
        let money = DataType::Decimal { precision: 5, scale: 2 };
        let double = |value| ScalarValue::Float64(Some(value));
        let bigint = |value| ScalarValue::Int64(Some(value));
        assert_eq!(converted(decimal(37, 1), DataType::Int).ok(), None);
        assert_eq!(converted(decimal(30, 1), DataType::Int), Ok("3".into()));
        assert_eq!(converted(double(3.7), DataType::Int).ok(), None);
        assert_eq!(converted(double(3.0), DataType::BigInt), Ok("3".into()));
        assert_eq!(converted(double(f64::NAN), DataType::Int).ok(), None);
        assert_eq!(converted(bigint(300), DataType::TinyInt).ok(), None);
        assert_eq!(converted(bigint(-128), DataType::TinyInt), Ok("-128".into()));
        assert_eq!(converted(double(1e300), DataType::Float).ok(), None);
        assert_eq!(converted(double(0.1), DataType::Float), Ok("0.1".into()));
        assert_eq!(converted(double(f64::INFINITY), DataType::Float), Ok("inf".into()));
        assert_eq!(converted(decimal(1005, 3), money.clone()).ok(), None);
        assert_eq!(converted(double(1.1 * 3.0), money.clone()), Ok("3.30".into()));
        assert_eq!(converted(double(0.125), money.clone()).ok(), None);
        assert_eq!(converted(bigint(1000), money.clone()).ok(), None);
        let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
        assert_eq!(converted(text("1.005"), money.clone()).ok(), None);
        assert_eq!(converted(text("1.50"), money), Ok("1.50".into()));
        assert_eq!(converted(text("3.7"), DataType::Int).ok(), None);
        assert_eq!(converted(text("1e300"), DataType::Float).ok(), None);
        assert_eq!(converted(bigint(5), DataType::Boolean).ok(), None);
        let instant = |ns| ScalarValue::TimestampNanosecond(Some(ns), None);
        let at = scalar(&instant(-1), &DataType::Timestamp);
        assert_eq!(at, Ok(ScalarValue::TimestampMillisecond(Some(-1), Some("UTC".into()))));
        assert_eq!(converted(instant(86_400_000_000_001), DataType::Date).ok(), None);
    }

    #[test]
    fn parts_of_collections_are_converted_alike() {
        let int_list = DataType::list_of(DataType::Int);
        let decimals = [37, 30].map(|n| ScalarValue::Decimal128(Some(n), 2, 1));
        let list = |values: &[ScalarValue]| {
            ScalarValue::List(ScalarValue::new_list_nullable(values, &values[0].data_type()))
        };
        assert!(scalar(&list(&decimals), &int_list).is_err());
        assert!(scalar(&list(&decimals[1..]), &int_list).is_ok());
        let nothing = ScalarValue::List(ScalarValue::new_list_nullable(&[], &ArrowType::Int64));
        let map = DataType::map_of(DataType::Text, DataType::Int);
        assert!(!scalar(&nothing, &map).unwrap().is_null());
        assert!(scalar(&list(&decimals[1..]), &map).is_err());
        assert!(scalar(&ScalarValue::Null, &map).unwrap().is_null());
        assert!(scalar(&ScalarValue::Null, &int_list).unwrap().is_null());
    }

    fn texts(array: &ArrayRef) -> Vec<String> {
        (0..array.len()).map(|row| array_value_to_string(array, row).unwrap()).collect()
    }

    /// The rows of an array, and some of them, as a column of that type has them.
    fn check_rows(array: &ArrayRef, ty: &DataType, wanted: &[&str]) {
        for start in 0..=wanted.len() {
            for end in start..=wanted.len() {
                let what = format!("{start} to {end} of {}", array.data_type());
                let found = convert(&array.slice(start, end - start), ty).unwrap();
                assert_eq!(*found.data_type(), arrow_type(ty), "{what}");
                assert_eq!(texts(&found), wanted[start..end], "{what}");
            }
        }
    }

    #[test]
    fn lists_of_every_kind_keep_their_rows() {
        let rows = || [Some(vec![Some(1), Some(2)]), None, Some(vec![]), Some(vec![Some(3)])];
        let wanted = ["[1, 2]", "", "[]", "[3]"];
        let lists: [ArrayRef; 4] = [
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows())),
            Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(rows())),
            Arc::new(ListViewArray::from_iter_primitive::<Int64Type, _, _>(rows())),
            Arc::new(LargeListViewArray::from_iter_primitive::<Int64Type, _, _>(rows())),
        ];
        let list = DataType::list_of(DataType::Int);
        let types = [list.clone(), list.frozen(), DataType::set_of(DataType::Int)];
        for array in &lists {
            types.iter().for_each(|ty| check_rows(array, ty, &wanted));
        }
        let rows = [Some([Some(1), Some(2)]), None, Some([Some(3), Some(4)])];
        let fixed = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(rows, 2);
        let fixed = Arc::new(fixed) as ArrayRef;
        types.iter().for_each(|ty| check_rows(&fixed, ty, &["[1, 2]", "", "[3, 4]"]));
        let too_great = [Some(vec![Some(1)]), Some(vec![Some(1 << 40)])];
        let array = LargeListArray::from_iter_primitive::<Int64Type, _, _>(too_great);
        let array = Arc::new(array) as ArrayRef;
        assert!(types.iter().all(|ty| convert(&array, ty).is_err()));
        let number = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
        let map = DataType::map_of(DataType::Int, DataType::Int);
        assert_eq!(convert(&number, &map).unwrap_err(), "Int64 is no map");
    }

    #[test]
    fn maps_keep_their_rows_and_both_of_their_sides() {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for (entries, is_there) in
            [(&[("a", 1), ("b", 2)][..], true), (&[], false), (&[], true), (&[("c", 300)], true)]
        {
            for (key, value) in entries {
                maps.keys().append_value(key);
                maps.values().append_value(*value);
            }
            maps.append(is_there).unwrap();
        }
        let maps = Arc::new(maps.finish()) as ArrayRef;
        let map = |value| DataType::map_of(DataType::Text, value);
        let wanted = ["{a: 1, b: 2}", "", "{}", "{c: 300}"];
        check_rows(&maps, &map(DataType::SmallInt), &wanted);
        check_rows(&maps, &map(DataType::Int).frozen(), &wanted);
        assert!(convert(&maps, &map(DataType::TinyInt)).is_err(), "300 is too great");
        assert!(convert(&maps, &DataType::map_of(DataType::Int, DataType::Int)).is_err());
    }

    #[test]
    fn fields_are_those_of_their_place_in_a_tuple_and_of_their_name_in_a_user_type() {
        let row = |fields: &[(&str, ScalarValue)]| {
            let parts = fields.iter().map(|(name, value)| {
                let field = Field::new(*name, value.data_type(), true);
                (Arc::new(field), value.to_array().unwrap())
            });
            ScalarValue::Struct(Arc::new(StructArray::from(parts.collect::<Vec<_>>())))
        };
        let number = |number| ScalarValue::Int64(Some(number));
        let text = || ScalarValue::from("x");
        let fields = [("a".to_owned(), DataType::Int), ("b".to_owned(), DataType::Text)];
        let user = DataType::User(Box::new(UserType::new("k", "u", fields)));
        let tuple = DataType::tuple_of([DataType::Int, DataType::Text]);
        let shown = |value: &ScalarValue, ty: &DataType| {
            let found = scalar(value, ty)?.to_array().map_err(|error| error.to_string())?;
            let parts = found.as_struct().columns().iter().map(|part| texts(part).join(" "));
            Ok::<_, String>(parts.collect::<Vec<_>>().join(", "))
        };
        for (value, ty, wanted) in [
            (row(&[("c0", number(5)), ("c1", text())]), &tuple, "5, x"),
            (row(&[("b", number(5)), ("a", text())]), &tuple, "5, x"),
            (row(&[("a", number(5)), ("b", text())]), &user, "5, x"),
            (row(&[("b", text()), ("a", number(5))]), &user, "5, x"),
            (row(&[("b", text())]), &user, ", x"),
            (row(&[("a", number(5))]), &user, "5, "),
        ] {
            assert_eq!(shown(&value, ty).as_deref(), Ok(wanted), "{value} of {}", ty.sql_name());
        }
        for (value, ty, reason) in [
            (row(&[("c0", number(5))]), &tuple, "has 2 fields, not 1"),
            (row(&[("a", number(5)), ("b", text()), ("c", text())]), &tuple, "2 fields, not 3"),
            (row(&[("a", number(1 << 40)), ("b", text())]), &tuple, ""),
            (row(&[("a", number(5)), ("c", text())]), &user, "has no field 'c'"),
            (row(&[("A", number(5))]), &user, "has no field 'A'"),
            (row(&[("b", text()), ("a", number(1 << 40))]), &user, "field 'a': "),
            (number(5), &tuple, "Int64 is no "),
        ] {
            let found = shown(&value, ty);
            let is_told = found.as_ref().is_err_and(|error| error.contains(reason));
            assert!(is_told, "{value}: {found:?}");
        }
    }

    /// What a millisecond does not hold is cut off towards the past, in each unit and zone.
    #[test]
    fn an_instant_is_in_the_millisecond_that_it_falls_into() {
        use ScalarValue::{
            TimestampMicrosecond as Us, TimestampMillisecond as Ms, TimestampNanosecond as Ns,
            TimestampSecond as S,
        };
        for zone in [None, Some("UTC"), Some("+02:00")] {
            let zone: Option<Arc<str>> = zone.map(Arc::from);
            let instant = |make: fn(Option<i64>, Option<Arc<str>>) -> ScalarValue, at: i64| {
                make(Some(at), zone.clone())
            };
            for (value, wanted) in [
                (instant(S, -1), -1_000),
                (instant(S, 1), 1_000),
                (instant(Ms, -1), -1),
                (instant(Ms, 1), 1),
                (instant(Us, -1), -1),
                (instant(Us, -1_000), -1),
                (instant(Us, -1_001), -2),
                (instant(Us, 999), 0),
                (instant(Us, 1_000), 1),
                (instant(Ns, -1), -1),
                (instant(Ns, -1_000_000), -1),
                (instant(Ns, -1_000_001), -2),
                (instant(Ns, 999_999), 0),
                (instant(Ns, 1_999_999), 1),
            ] {
                let wanted = ScalarValue::TimestampMillisecond(Some(wanted), Some("UTC".into()));
                assert_eq!(scalar(&value, &DataType::Timestamp), Ok(wanted), "{value:?}");
                assert!(scalar(&value, &DataType::Time).is_err(), "{value:?} has a date");
            }
        }
    }
}
