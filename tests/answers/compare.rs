//! Arrow batches as rows of the model, and whether they are the answer.

use std::collections::HashMap;

use tidegate::query::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use tidegate::query::arrow::datatypes::*;

use super::ast::{Aggregate, Body, Expr, Function, Query, Source, Summary, Unary, WindowFunction};
use super::evaluate::{Answer, Row, compare_keys};
use super::value::Value;

/// All rows of a result.
pub fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let row = |batch: &RecordBatch, at: usize| {
        batch.columns().iter().map(|column| value(column, at)).collect()
    };
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<Row>>())
        .collect()
}

fn value(array: &ArrayRef, at: usize) -> Value {
    macro_rules! number {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(at)
        };
    }
    if array.is_null(at) || *array.data_type() == DataType::Null {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(at)),
        DataType::Int8 => Value::Int(number!(Int8Type).into()),
        DataType::Int16 => Value::Int(number!(Int16Type).into()),
        DataType::Int32 => Value::Int(number!(Int32Type).into()),
        DataType::Int64 => Value::Int(number!(Int64Type).into()),
        DataType::UInt8 => Value::Int(number!(UInt8Type).into()),
        DataType::UInt16 => Value::Int(number!(UInt16Type).into()),
        DataType::UInt32 => Value::Int(number!(UInt32Type).into()),
        DataType::UInt64 => Value::Int(number!(UInt64Type).into()),
        DataType::Float32 => Value::Float(number!(Float32Type).into()),
        DataType::Float64 => Value::Float(number!(Float64Type)),
        DataType::Decimal128(_, scale) => {
            Value::Decimal(number!(Decimal128Type), u8::try_from(*scale).expect("a scale"))
        }
        DataType::Decimal256(_, scale) => {
            let unscaled = number!(Decimal256Type).to_i128().expect("a number of 38 digits");
            Value::Decimal(unscaled, u8::try_from(*scale).expect("a scale"))
        }
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(at).to_owned()),
        DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(at).to_owned()),
        DataType::Utf8View => Value::Text(array.as_string_view().value(at).to_owned()),
        DataType::Binary => Value::Blob(array.as_binary::<i32>().value(at).to_vec()),
        DataType::LargeBinary => Value::Blob(array.as_binary::<i64>().value(at).to_vec()),
        DataType::BinaryView => Value::Blob(array.as_binary_view().value(at).to_vec()),
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(at);
            Value::Set(elements.as_primitive::<Int32Type>().values().iter().map(whole).collect())
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(at);
            let keys = entries.column(0).as_string::<i32>().iter().flatten().map(str::to_owned);
            let values = entries.column(1).as_primitive::<Int32Type>().values().iter().map(whole);
            Value::Map(keys.zip(values).collect())
        }
        DataType::Date32 => Value::Date(number!(Date32Type)),
        DataType::Time64(TimeUnit::Nanosecond) => Value::Time(number!(Time64NanosecondType)),
        DataType::Timestamp(unit, _) => Value::Timestamp(match unit {
            TimeUnit::Second => number!(TimestampSecondType) * 1_000_000_000,
            TimeUnit::Millisecond => number!(TimestampMillisecondType) * 1_000_000,
            TimeUnit::Microsecond => number!(TimestampMicrosecondType) * 1_000,
            TimeUnit::Nanosecond => number!(TimestampNanosecondType),
        }),
        other => panic!("the test does not read {other}"),
    }
}

fn whole(int: &i32) -> i128 {
    i128::from(*int)
}

/// Whether a query hands out columns of a table as they are, the sign of a zero included.
fn is_plain(query: &Query) -> bool {
    match &query.body {
        Body::Select(select) => {
            matches!(select.source, Some(Source::Table(..)))
                && !select.distinct
                && !select.is_grouped
                && select.items.iter().all(|(expr, _)| matches!(expr, Expr::Column(..)))
                && query.with.is_empty()
        }
        _ => false,
    }
}

/// Whether nothing spares an engine the evaluation of all that a query selects, of every row or
/// group: there are no conditions, and no parts that are skipped where others decide.
pub fn is_bare(query: &Query) -> bool {
    let Body::Select(select) = &query.body else { return false };
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(..));
    matches!(select.source, None | Some(Source::Table(..)))
        && query.with.is_empty()
        && query.order.is_empty()
        && (query.limit, query.offset) == (None, 0)
        && (&select.condition, &select.having) == (&None, &None)
        && select.group.iter().all(is_column)
        && select.items.iter().all(|(expr, _)| is_strict(expr))
}

/// Whether an expression has no value unless all its parts have one.
fn is_strict(expr: &Expr) -> bool {
    let all = |exprs: &[Expr]| exprs.iter().all(is_strict);
    let of_summary = |summary| !matches!(summary, Summary::Count | Summary::CountRows);
    match expr {
        Expr::Column(..) | Expr::Literal(_) => true,
        Expr::Unary(Unary::Minus, inner) => is_strict(inner),
        Expr::Binary(binary, left, right, _) => {
            binary.is_arithmetic() && is_strict(left) && is_strict(right)
        }
        Expr::Cast(inner, _, is_try) => !is_try && is_strict(inner),
        Expr::Call(function, arguments) => {
            !matches!(function, Function::Coalesce | Function::NullIf) && all(arguments)
        }
        Expr::Aggregate(Aggregate { summary, argument, filter: None, .. }) => {
            of_summary(*summary) && argument.as_deref().is_none_or(is_strict)
        }
        Expr::Window(window) => {
            let of_function = match &window.function {
                WindowFunction::Over(summary, argument) => {
                    of_summary(*summary) && argument.as_deref().is_none_or(is_strict)
                }
                _ => false,
            };
            of_function
                && window
                    .partition
                    .iter()
                    .chain(window.order.iter().map(|order| &order.expr))
                    .all(|expr| matches!(expr, Expr::Column(..)))
        }
        _ => false,
    }
}

/// Checks rows that were found against the answer of the model. Of rows that sort alike any may
/// come first, and before a LIMIT ends any of them may come at all.
///
/// Errors: what differs.
pub fn check(query: &Query, answer: &Answer, found: &[Row]) -> Result<(), String> {
    let strict = is_plain(query);
    let start = query.offset.min(answer.rows.len());
    let end = query
        .limit
        .map_or(answer.rows.len(), |limit| answer.rows.len().min(start.saturating_add(limit)));
    if found.len() != end - start {
        return Err(format!("{} rows, and not {}", found.len(), end - start));
    }
    let mut at = 0;
    while at < answer.rows.len() {
        let keys = &answer.rows[at].1;
        let alike = answer.rows[at..]
            .iter()
            .take_while(|(_, other)| compare_keys(&answer.order, keys, other).is_eq());
        let alike = alike.count();
        let (from, to) = (at.clamp(start, end), (at + alike).clamp(start, end));
        let form = |row: &Row| -> Vec<String> { row.iter().map(|v| v.form(strict)).collect() };
        let mut expected: HashMap<Vec<String>, Vec<&Row>> = HashMap::new();
        for (row, _) in &answer.rows[at..at + alike] {
            expected.entry(form(row)).or_default().push(row);
        }
        for (place, row) in (from - start..).zip(&found[from - start..to - start]) {
            if expected.get_mut(&form(row)).and_then(Vec::pop).is_none() {
                let left: Vec<&Row> = expected.into_values().flatten().collect();
                return Err(format!("row {place} is {row:?}, none of {left:?}"));
            }
        }
        at += alike;
    }
    Ok(())
}
