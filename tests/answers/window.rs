//! Window functions, a row at a time.

use std::cmp::Ordering;

use super::aggregate::summarise;
use super::ast::{Expr, Frame, Window, WindowFunction};
use super::evaluate::{Model, Outcome, Place, Row, Scope, compare_keys, is_equal_row};
use super::value::Value;

/// The value of a window function for row `at` of `rows`.
pub fn window(
    model: &Model,
    of: &Window,
    (rows, at): (&[Row], usize),
    place: &Place<'_>,
) -> Outcome<Value> {
    let of_row = |row: &Row, exprs: &mut dyn Iterator<Item = &Expr>| -> Outcome<Row> {
        let scope = Scope { row, ..place.scope };
        let place = Place { scope, group: None, window: None };
        exprs.map(|expr| model.value(expr, &place)).collect()
    };
    let own = of_row(&rows[at], &mut of.partition.iter())?;
    // Rows of the same partition with their keys, in order, and where this one is among them.
    let mut partition: Vec<(Row, usize)> = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        if is_equal_row(&of_row(row, &mut of.partition.iter())?, &own) {
            partition.push((of_row(row, &mut of.order.iter().map(|order| &order.expr))?, n));
        }
    }
    partition.sort_by(|(a, _), (b, _)| compare_keys(&of.order, a, b));
    let here = partition.iter().position(|(_, n)| *n == at).expect("the row is in its partition");
    let order = |other: &Row| compare_keys(&of.order, other, &partition[here].0);
    let value = |n: usize, expr: &Expr| -> Outcome<Value> {
        Ok(of_row(&rows[partition[n].1], &mut std::iter::once(expr))?.remove(0))
    };
    let frame = match of.frame {
        // All rows that sort like this one are within.
        Frame::Default => 0..partition.iter().filter(|(key, _)| order(key).is_le()).count(),
        Frame::Rows(before, after) => {
            let end = after.map_or(partition.len(), |after| partition.len().min(here + after + 1));
            before.map_or(0, |before| here.saturating_sub(before))..end
        }
    };
    let at = |n: Option<usize>, expr: &Expr| match n {
        Some(n) if n < partition.len() => value(n, expr),
        _ => Ok(Value::Null),
    };
    Ok(match &of.function {
        WindowFunction::RowNumber => Value::Int(here as i128 + 1),
        WindowFunction::Rank => {
            let before = partition.iter().filter(|(key, _)| order(key) == Ordering::Less);
            Value::Int(before.count() as i128 + 1)
        }
        WindowFunction::DenseRank => {
            let mut before: Vec<&Row> = Vec::new();
            for (key, _) in partition.iter().filter(|(key, _)| order(key) == Ordering::Less) {
                if !before.iter().any(|known| is_equal_row(known, key)) {
                    before.push(key);
                }
            }
            Value::Int(before.len() as i128 + 1)
        }
        WindowFunction::Lag(expr, by) => at(here.checked_sub(*by), expr)?,
        WindowFunction::Lead(expr, by) => at(here.checked_add(*by), expr)?,
        WindowFunction::FirstValue(expr) => value(frame.start, expr)?,
        WindowFunction::LastValue(expr) => value(frame.end - 1, expr)?,
        WindowFunction::NthValue(expr, nth) => at(frame.clone().nth(nth - 1), expr)?,
        WindowFunction::Over(summary, expr) => {
            let values: Outcome<Vec<Value>> = frame
                .map(|n| expr.as_ref().map_or(Ok(Value::Bool(true)), |expr| value(n, expr)))
                .collect();
            summarise(*summary, values?)?
        }
    })
}
