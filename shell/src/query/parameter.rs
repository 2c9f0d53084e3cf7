//! Parameters of a statement: which types it wants, and rows of a client made to fit these.
//!
//! Invariant: a value is changed only where nothing of it is lost; one that is too large for the
//! wanted type is refused, anything else that does not fit is left for the planner to judge.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, IntervalMonthDayNanoArray, MapArray, RecordBatch,
    StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{
    CastOptions, can_cast_types, cast, cast_with_options, interleave,
};
use datafusion::arrow::datatypes::{
    DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float64Type, IntervalMonthDayNano, IntervalUnit, Schema, TimeUnit,
};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Cast, Placeholder, TryCast};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::error::{QueryError, Result};
use super::parse::PARTITION_LIMIT;
use super::parse::statement::Statement;

/// Most rows of parameters that a query takes at once.
pub(super) const QUERY_ROWS_MAX: usize = 10_000;
/// Functions whose arguments are of one type.
const ALIKE: [&str; 6] = ["coalesce", "nvl", "ifnull", "nullif", "greatest", "least"];

/// Errors: `Invalid` when `parameters` has another number of columns than the statement parameters.
pub(super) fn check_count(statement: &Statement, parameters: &RecordBatch) -> Result<()> {
    if parameters.num_columns() == statement.parameter_count() {
        return Ok(());
    }
    Err(QueryError::invalid(format!(
        "the statement has {} parameters, {} were given",
        statement.parameter_count(),
        parameters.num_columns()
    )))
}

/// The values of one row.
pub(super) fn row_of(parameters: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>> {
    let value = |column: &ArrayRef| Ok(ScalarValue::try_from_array(column, row)?);
    parameters.columns().iter().map(value).collect()
}

/// The types of a plan's parameters by their names `$n`, of those that have one.
pub(super) fn types(plan: &LogicalPlan) -> Result<HashMap<String, DataType>> {
    let mut found: HashMap<String, DataType> = HashMap::new();
    for (name, field) in plan.get_parameter_fields()? {
        if let Some(field) = field {
            found.insert(name, field.data_type().clone());
        }
    }
    // What the planner leaves open: the operand of a cast, and arguments beside others.
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for count in [&limit.skip, &limit.fetch].into_iter().flatten() {
                if let Expr::Placeholder(parameter) = &**count {
                    found.entry(parameter.id.clone()).or_insert(DataType::Int64);
                }
            }
        }
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                for (parameter, ty) in wanted(expr, &schema) {
                    found.entry(parameter.id.clone()).or_insert(ty);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// The parameters right below an expression that follow from it, with their types.
fn wanted<'a>(
    expr: &'a Expr,
    schema: &datafusion::common::DFSchema,
) -> Vec<(&'a Placeholder, DataType)> {
    let open = |expr: &'a Expr| match expr {
        Expr::Placeholder(parameter) if parameter.field.is_none() => Some(parameter),
        _ => None,
    };
    match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            open(expr).map(|parameter| (parameter, field.data_type().clone())).into_iter().collect()
        }
        Expr::ScalarFunction(call) if call.name() == PARTITION_LIMIT => {
            call.args.iter().filter_map(open).map(|rows| (rows, DataType::Int64)).collect()
        }
        Expr::ScalarFunction(call) if ALIKE.contains(&call.name()) => {
            let known = call.args.iter().filter(|argument| open(argument).is_none());
            let ty = known.filter_map(|argument| argument.get_type(schema).ok()).next();
            let Some(ty) = ty.filter(|ty| *ty != DataType::Null) else { return Vec::new() };
            call.args.iter().filter_map(open).map(|parameter| (parameter, ty.clone())).collect()
        }
        _ => Vec::new(),
    }
}

/// The columns of `batch` as the fields of `wanted` want them, by place. Of type `Null` are fields
/// that want nothing.
///
/// Errors: `Invalid` naming the field and the value that is out of its range.
pub fn fit(batch: &RecordBatch, wanted: &Schema) -> Result<RecordBatch> {
    if fits(batch, wanted) {
        return Ok(batch.clone());
    }
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (n, (field, column)) in batch.schema_ref().fields().iter().zip(batch.columns()).enumerate()
    {
        let column = match wanted.fields().get(n) {
            Some(wanted) => fit_array(column, wanted.data_type())
                .map_err(|message| QueryError::invalid(format!("{}: {message}", wanted.name())))?,
            None => Arc::clone(column),
        };
        let nullable = field.is_nullable() || column.null_count() > 0;
        let field = field.as_ref().clone().with_data_type(column.data_type().clone());
        fields.push(field.with_nullable(nullable));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| QueryError::invalid(error.to_string()))
}

/// Whether all columns are as they are wanted, and as their own fields say.
fn fits(batch: &RecordBatch, wanted: &Schema) -> bool {
    let schema = batch.schema_ref();
    let own = schema.fields().iter().zip(batch.columns());
    // What a client says of all columns together goes into no handle.
    let is_plain = batch.num_columns() > 0 && schema.metadata().is_empty();
    is_plain
        && own.enumerate().all(|(n, (field, column))| {
            let wanted = wanted.fields().get(n).map(|wanted| wanted.data_type());
            wanted.is_none_or(|ty| ty == column.data_type() || *ty == DataType::Null)
                && (field.is_nullable() || column.null_count() == 0)
        })
}

/// `array` as an array of type `wanted` where that loses nothing, else as it is.
///
/// Errors: a sentence about the value that is out of range.
fn fit_array(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, String> {
    use DataType as T;
    let own = array.data_type();
    let same = || Ok(Arc::clone(array));
    if own == wanted || matches!(wanted, T::Null) {
        return same();
    }
    match (own, wanted) {
        (T::Dictionary(_, values), _) => {
            let plain = cast(array, values).map_err(|error| error.to_string())?;
            fit_array(&plain, wanted)
        }
        (own, wanted) if own.is_integer() && wanted.is_integer() => in_range(array, wanted),
        (T::Float64 | T::Float32 | T::Float16, T::Float32) => float(array),
        (own, wanted)
            if own.is_numeric()
                && wanted.is_numeric()
                && !own.is_decimal()
                && !wanted.is_decimal() =>
        {
            Ok(exact(array, wanted).unwrap_or_else(|| Arc::clone(array)))
        }
        (T::Time32(_) | T::Time64(_), T::Time64(TimeUnit::Nanosecond)) => in_range(array, wanted),
        (T::Date64, T::Date32) => Ok(exact(array, wanted).unwrap_or_else(|| Arc::clone(array))),
        (T::Duration(unit), T::Interval(IntervalUnit::MonthDayNano)) => duration(array, *unit),
        (T::Struct(_), T::Map(..)) => entries(array.as_struct(), wanted),
        (T::List(_) | T::LargeList(_) | T::FixedSizeList(..), T::List(element)) => {
            list(array, element)
        }
        (T::LargeUtf8 | T::Utf8View, T::Utf8)
        | (T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_), T::Binary)
        | (T::Null | T::Map(..), _)
            if can_cast_types(own, wanted) =>
        {
            in_range(array, wanted)
        }
        _ => same(),
    }
}

/// A cast that refuses values out of range.
fn in_range(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, wanted, &options).map_err(|_| {
        // Which value it is, is found by a cast that makes null of it.
        let nulled = cast(array, wanted).ok();
        let row = nulled.and_then(|nulled| {
            (0..array.len()).find(|row| array.is_valid(*row) && nulled.is_null(*row))
        });
        let value = row.and_then(|row| ScalarValue::try_from_array(array, row).ok());
        let value = value.map_or_else(|| "a value".to_owned(), |value| value.to_string());
        format!("{value} is out of range for {}", name_of(wanted))
    })
}

/// What a column of numbers of that type is called.
fn name_of(ty: &DataType) -> String {
    match ty {
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "float".to_owned(),
        other => other.to_string(),
    }
}

/// Floats as narrow ones, rounded.
fn float(array: &ArrayRef) -> Result<ArrayRef, String> {
    let wide = cast(array, &DataType::Float64).map_err(|error| error.to_string())?;
    let narrow: Float32Array = wide
        .as_primitive::<Float64Type>()
        .iter()
        .map(|value| match value {
            Some(value) if value.is_finite() && !(value as f32).is_finite() => {
                Err(format!("{value:?} is out of range for float"))
            }
            value => Ok(value.map(|value| value as f32)),
        })
        .collect::<Result<_, String>>()?;
    Ok(Arc::new(narrow))
}

/// A cast of which the way back gives what was there; `None` where it does not.
fn exact(array: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let there = cast_with_options(array, wanted, &options).ok()?;
    let back = cast_with_options(&there, array.data_type(), &options).ok()?;
    (&back == array).then_some(there)
}

/// Lengths of time as intervals without months and days.
fn duration(array: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef, String> {
    let (values, scale): (Vec<Option<i64>>, i64) = match unit {
        TimeUnit::Second => {
            (array.as_primitive::<DurationSecondType>().iter().collect(), 1_000_000_000)
        }
        TimeUnit::Millisecond => {
            (array.as_primitive::<DurationMillisecondType>().iter().collect(), 1_000_000)
        }
        TimeUnit::Microsecond => {
            (array.as_primitive::<DurationMicrosecondType>().iter().collect(), 1000)
        }
        TimeUnit::Nanosecond => {
            (array.as_primitive::<DurationNanosecondType>().iter().collect(), 1)
        }
    };
    let interval = |value: Option<i64>| match value {
        None => Ok(None),
        Some(value) => match value.checked_mul(scale) {
            Some(nanoseconds) => Ok(Some(IntervalMonthDayNano::new(0, 0, nanoseconds))),
            None => Err(format!("{value} {unit:?}s are out of range for a duration")),
        },
    };
    let intervals: IntervalMonthDayNanoArray =
        values.into_iter().map(interval).collect::<Result<_, String>>()?;
    Ok(Arc::new(intervals))
}

/// Lists with elements of another type.
fn list(
    array: &ArrayRef,
    element: &Arc<datafusion::arrow::datatypes::Field>,
) -> Result<ArrayRef, String> {
    let plain = DataType::List(match array.data_type() {
        DataType::List(own) | DataType::LargeList(own) | DataType::FixedSizeList(own, _) => {
            Arc::clone(own)
        }
        _ => return Ok(Arc::clone(array)),
    });
    let plain = cast(array, &plain).map_err(|error| error.to_string())?;
    let (_, offsets, values, nulls) = plain.as_list::<i32>().clone().into_parts();
    let values = fit_array(&values, element.data_type())?;
    let field = element.as_ref().clone().with_data_type(values.data_type().clone());
    let field = Arc::new(field.with_nullable(true));
    let lists = datafusion::arrow::array::ListArray::try_new(field, offsets, values, nulls);
    Ok(Arc::new(lists.map_err(|error| error.to_string())?))
}

/// Structs as maps from the names of their fields to these: what Python's clients make of a `dict`.
/// A field that is null is no entry, for the fields of a column are those of all its rows together.
fn entries(array: &StructArray, wanted: &DataType) -> Result<ArrayRef, String> {
    let text = |error: datafusion::arrow::error::ArrowError| error.to_string();
    let DataType::Map(entries, sorted) = wanted else { unreachable!("called for maps") };
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(format!("{wanted} is no map"));
    };
    let [key, value] = &**fields else { return Err(format!("{wanted} is no map")) };
    let (rows, count) = (array.len(), array.num_columns());
    let names: datafusion::arrow::array::StringArray =
        array.column_names().into_iter().map(Some).collect();
    let keys = cast_with_options(
        &names,
        key.data_type(),
        &CastOptions { safe: false, ..CastOptions::default() },
    )
    .map_err(|_| format!("the keys of this map are {}, not texts", key.data_type()))?;
    let columns: Vec<ArrayRef> = array
        .columns()
        .iter()
        .map(|column| {
            let column = fit_array(column, value.data_type())?;
            cast(&column, value.data_type()).map_err(text)
        })
        .collect::<Result<_, String>>()?;
    let places: Vec<(usize, usize)> =
        (0..rows).flat_map(|row| (0..count).map(move |field| (field, row))).collect();
    let is_entry =
        |(field, row): &(usize, usize)| array.is_valid(*row) && columns[*field].is_valid(*row);
    let mut lengths = vec![0_usize; rows];
    for place in places.iter().filter(|place| is_entry(place)) {
        lengths[place.1] += 1;
    }
    let kept: Vec<(usize, usize)> = places.into_iter().filter(is_entry).collect();
    let parts: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let values = match parts.is_empty() {
        true => datafusion::arrow::array::new_empty_array(value.data_type()),
        false => interleave(&parts, &kept).map_err(text)?,
    };
    let picked: Vec<(usize, usize)> = kept.iter().map(|(field, _)| (0, *field)).collect();
    let keys = match picked.is_empty() {
        true => datafusion::arrow::array::new_empty_array(key.data_type()),
        false => interleave(&[keys.as_ref()], &picked).map_err(text)?,
    };
    let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(text)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = array.nulls().cloned();
    let maps = MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted);
    Ok(Arc::new(maps.map_err(text)?))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        DurationMicrosecondArray, Float64Array, Int64Array, ListArray, StringArray,
        Time32MillisecondArray, Time64MicrosecondArray, UInt64Array,
    };
    use datafusion::arrow::datatypes::{Field, Int32Type, IntervalMonthDayNanoType};

    use super::*;

    fn one(array: impl Array + 'static, wanted: DataType) -> Result<ArrayRef> {
        let batch = RecordBatch::try_from_iter([("x", Arc::new(array) as ArrayRef)]).unwrap();
        let fitted = fit(&batch, &Schema::new(vec![Field::new("$1", wanted, true)]))?;
        Ok(Arc::clone(fitted.column(0)))
    }

    #[test]
    fn rows_that_fit_stay_and_what_a_client_says_of_them_goes() {
        let wanted = Schema::new(vec![Field::new("$1", DataType::Int64, true)]);
        let plain = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![7])) as _)]);
        let plain = plain.unwrap();
        let fitted = fit(&plain, &wanted).unwrap();
        assert!(Arc::ptr_eq(fitted.schema_ref(), plain.schema_ref()));
        let said = HashMap::from([("pandas".to_owned(), "{}".to_owned())]);
        let schema = plain.schema().as_ref().clone().with_metadata(said);
        let rows = plain.clone().with_schema(Arc::new(schema)).unwrap();
        assert_eq!(fit(&rows, &wanted).unwrap(), plain);
        let narrow = Schema::new(vec![Field::new("$1", DataType::Int8, true)]);
        assert_ne!(fit(&plain, &narrow).unwrap().schema(), plain.schema());
    }

    #[test]
    fn numbers_are_narrowed_with_a_check() {
        let fitted = one(Int64Array::from(vec![Some(-5), None]), DataType::Int8).unwrap();
        assert_eq!(fitted.data_type(), &DataType::Int8);
        assert_eq!(fitted.null_count(), 1);
        let error = one(Int64Array::from(vec![5, 300]), DataType::Int8).unwrap_err();
        assert_eq!(error.message, "$1: 300 is out of range for tinyint");
        let fitted = one(Float64Array::from(vec![0.1, f64::NAN]), DataType::Float32).unwrap();
        assert_eq!(fitted.data_type(), &DataType::Float32);
        assert!(one(Float64Array::from(vec![1e300]), DataType::Float32).is_err());
        // What would lose something stays: the planner says what it means.
        let fitted = one(Float64Array::from(vec![3.7]), DataType::Int32).unwrap();
        assert_eq!(fitted.data_type(), &DataType::Float64);
        let fitted = one(Float64Array::from(vec![3.0]), DataType::Int32).unwrap();
        assert_eq!(fitted.data_type(), &DataType::Int32);
        let fitted = one(Int64Array::from(vec![(1 << 53) + 1]), DataType::Float64).unwrap();
        assert_eq!(fitted.data_type(), &DataType::Int64);
        let untyped = one(Int64Array::from(vec![1]), DataType::Null).unwrap();
        assert_eq!(untyped.data_type(), &DataType::Int64);
    }

    #[test]
    fn times_and_lengths_of_time_change_their_unit() {
        let nanoseconds = DataType::Time64(TimeUnit::Nanosecond);
        for array in [
            one(Time64MicrosecondArray::from(vec![1_000_000]), nanoseconds.clone()).unwrap(),
            one(Time32MillisecondArray::from(vec![1000]), nanoseconds.clone()).unwrap(),
        ] {
            assert_eq!(array.data_type(), &nanoseconds);
            assert_eq!(ScalarValue::try_from_array(&array, 0).unwrap().to_string(), "1000000000");
        }
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let fitted = one(DurationMicrosecondArray::from(vec![Some(3), None]), interval.clone());
        let fitted = fitted.unwrap();
        let values = fitted.as_primitive::<IntervalMonthDayNanoType>();
        assert_eq!(values.value(0), IntervalMonthDayNano::new(0, 0, 3000));
        assert!(values.is_null(1));
        assert!(one(DurationMicrosecondArray::from(vec![i64::MAX]), interval).is_err());
    }

    #[test]
    fn structs_become_maps_and_lists_get_their_elements_type() {
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
        let columns: Vec<(Arc<Field>, ArrayRef)> = vec![
            (field("a"), Arc::new(Int64Array::from(vec![Some(1), None, None]))),
            (field("b"), Arc::new(Int64Array::from(vec![Some(2), Some(3), None]))),
        ];
        let fields = Field::new(
            "entries",
            DataType::Struct(
                vec![
                    Field::new("key", DataType::Utf8, false),
                    Field::new("value", DataType::Int32, true),
                ]
                .into(),
            ),
            false,
        );
        let wanted = DataType::Map(Arc::new(fields), false);
        let fitted = one(StructArray::from(columns), wanted.clone()).unwrap();
        assert_eq!(fitted.data_type(), &wanted);
        let maps = fitted.as_map();
        let lengths: Vec<usize> = (0..3).map(|row| maps.value(row).len()).collect();
        assert_eq!(lengths, [2, 1, 0]);
        assert_eq!(
            maps.keys().as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
            ["a", "b", "b"]
        );
        assert_eq!(maps.values().as_primitive::<Int32Type>().values(), &[1, 2, 3]);

        let element = Arc::new(Field::new_list_field(DataType::Int32, true));
        let lists =
            ListArray::from_iter_primitive::<datafusion::arrow::datatypes::Int64Type, _, _>([
                Some(vec![Some(1)]),
                Some(vec![]),
                None,
            ]);
        let fitted = one(lists, DataType::List(Arc::clone(&element))).unwrap();
        assert_eq!(fitted.data_type(), &DataType::List(element));
        assert_eq!((fitted.as_list::<i32>().value(1).len(), fitted.null_count()), (0, 1));
        let same = one(StringArray::from(vec!["7"]), DataType::Int32).unwrap();
        assert_eq!(same.data_type(), &DataType::Utf8);
    }

    /// A column of numbers of some integer type.
    fn integers(value: i128, ty: &DataType) -> ArrayRef {
        let wide = match i64::try_from(value) {
            Ok(value) => Arc::new(Int64Array::from(vec![value])) as ArrayRef,
            Err(_) => Arc::new(UInt64Array::from(vec![u64::try_from(value).unwrap()])) as ArrayRef,
        };
        cast(&wide, ty).unwrap()
    }

    #[test]
    fn an_integer_fits_exactly_where_the_wanted_type_holds_it() {
        let ends = |bits: u32| (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1);
        let all = [
            (DataType::Int8, ends(8)),
            (DataType::Int16, ends(16)),
            (DataType::Int32, ends(32)),
            (DataType::Int64, ends(64)),
            (DataType::UInt8, (0, (1 << 8) - 1)),
            (DataType::UInt16, (0, (1 << 16) - 1)),
            (DataType::UInt32, (0, (1 << 32) - 1)),
            (DataType::UInt64, (0, (1 << 64) - 1)),
        ];
        for (own, (own_min, own_max)) in &all {
            for (wanted, (min, max)) in &all {
                for value in [min - 1, *min, 0, *max, max + 1] {
                    if !(*own_min..=*own_max).contains(&value) {
                        continue;
                    }
                    let what = format!("{value} of {own} as {wanted}");
                    match one(integers(value, own), wanted.clone()) {
                        Ok(fitted) => {
                            assert!((*min..=*max).contains(&value), "{what}");
                            assert_eq!(fitted.data_type(), wanted, "{what}");
                            let found = ScalarValue::try_from_array(&fitted, 0).unwrap();
                            assert_eq!(found.to_string(), value.to_string(), "{what}");
                        }
                        Err(error) => {
                            assert!(!(*min..=*max).contains(&value), "{what}");
                            let said = format!("$1: {value} is out of range for ");
                            assert!(error.message.starts_with(&said), "{what}: {error}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_of_time_of_each_unit_fit_as_far_as_nanoseconds_reach() {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        for (unit, scale) in [
            (TimeUnit::Second, 1_000_000_000),
            (TimeUnit::Millisecond, 1_000_000),
            (TimeUnit::Microsecond, 1000),
            (TimeUnit::Nanosecond, 1),
        ] {
            let most = i64::MAX / scale;
            let lengths = |values: Vec<Option<i64>>| {
                let numbers = Arc::new(Int64Array::from(values)) as ArrayRef;
                cast(&numbers, &DataType::Duration(unit)).unwrap()
            };
            let values = vec![Some(3), None, Some(-3), Some(0), Some(most), Some(-most)];
            let fitted = one(lengths(values.clone()), interval.clone()).unwrap();
            let found = fitted.as_primitive::<IntervalMonthDayNanoType>().iter();
            let wanted = values.into_iter().map(|value| {
                value.map(|value: i64| IntervalMonthDayNano::new(0, 0, value * scale))
            });
            assert!(found.eq(wanted), "{unit:?}");
            for beyond in [most.checked_add(1), (-most).checked_sub(2)].into_iter().flatten() {
                if scale > 1 {
                    let error = one(lengths(vec![Some(1), Some(beyond)]), interval.clone());
                    let said = format!("$1: {beyond} {unit:?}s are out of range for a duration");
                    assert_eq!(error.unwrap_err().message, said);
                }
            }
        }
    }
}
