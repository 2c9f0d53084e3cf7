//! Aggregates over the rows of a group.

use std::cmp::Ordering;
use std::slice::from_ref;

use super::ast::{Aggregate, Summary};
use super::evaluate::{Model, Outcome, Place, Row, Scope, is_equal_row};
use super::value::{Value, compare, power, to_double};

/// Digits that the average of decimals has more than they have.
const AVERAGE_DIGITS: u8 = 4;

/// An aggregate over the rows of `group`.
pub fn aggregate(
    model: &Model,
    of: &Aggregate,
    group: &[Row],
    place: &Place<'_>,
) -> Outcome<Value> {
    let mut values: Vec<Value> = Vec::new();
    for row in group {
        let scope = Scope { row, ..place.scope };
        let place = Place { scope, group: None, window: None };
        let is_taken = match &of.filter {
            Some(filter) => model.value(filter, &place)? == Value::Bool(true),
            None => true,
        };
        if !is_taken {
            continue;
        }
        let value = match &of.argument {
            Some(argument) => model.value(argument, &place)?,
            None => Value::Bool(true),
        };
        let is_new = || !values.iter().any(|known| is_equal_row(from_ref(known), from_ref(&value)));
        if !of.distinct || is_new() {
            values.push(value);
        }
    }
    summarise(of.summary, values)
}

/// What a function says of values; nulls do not count, except as rows.
pub fn summarise(summary: Summary, values: Vec<Value>) -> Outcome<Value> {
    if summary == Summary::CountRows {
        return Ok(Value::Int(values.len() as i128));
    }
    let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
    if summary == Summary::Count {
        return Ok(Value::Int(values.len() as i128));
    }
    if values.is_empty() {
        return Ok(Value::Null);
    }
    let best = |wanted: Ordering| {
        let better = |a: Value, b: &Value| {
            if compare(b, &a) == Some(wanted) { b.clone() } else { a }
        };
        values.iter().fold(values[0].clone(), better)
    };
    let is_true = |value: &Value| *value == Value::Bool(true);
    Ok(match summary {
        Summary::Min => best(Ordering::Less),
        Summary::Max => best(Ordering::Greater),
        Summary::All => Value::Bool(values.iter().all(is_true)),
        Summary::Any => Value::Bool(values.iter().any(is_true)),
        Summary::Sum => sum(&values)?,
        Summary::Average => average(&values),
        Summary::CountRows | Summary::Count => unreachable!("counted above"),
    })
}

fn sum(values: &[Value]) -> Outcome<Value> {
    Ok(match &values[0] {
        Value::Int(_) => {
            let ints = values.iter().map(|value| match value {
                Value::Int(int) => *int,
                other => panic!("{other:?} among integers"),
            });
            let sum: i128 = ints.sum();
            match i64::try_from(sum) {
                Ok(_) => Value::Int(sum),
                Err(_) => return Err("the sum is no bigint".into()),
            }
        }
        Value::Decimal(_, scale) => Value::Decimal(unscaled_sum(values), *scale),
        _ => Value::Float(values.iter().map(to_double).sum()),
    })
}

fn unscaled_sum(values: &[Value]) -> i128 {
    let unscaled = values.iter().map(|value| match value {
        Value::Decimal(unscaled, _) => *unscaled,
        other => panic!("{other:?} among decimals"),
    });
    unscaled.sum()
}

fn average(values: &[Value]) -> Value {
    let count = values.len() as i128;
    match &values[0] {
        Value::Decimal(_, scale) => {
            let sum = unscaled_sum(values) * power(AVERAGE_DIGITS);
            // Half away from zero.
            let rounded = (sum.abs() * 2 + count) / (count * 2) * sum.signum();
            Value::Decimal(rounded, scale + AVERAGE_DIGITS)
        }
        Value::Int(_) => {
            let sum: i128 = values
                .iter()
                .map(|value| match value {
                    Value::Int(int) => *int,
                    other => panic!("{other:?} among integers"),
                })
                .sum();
            match sum.abs() <= 1 << 53 {
                true => Value::Float(sum as f64 / count as f64),
                // Its fraction would be lost.
                false => Value::Float((sum / count) as f64 + (sum % count) as f64 / count as f64),
            }
        }
        _ => Value::Float(values.iter().map(to_double).sum::<f64>() / count as f64),
    }
}
