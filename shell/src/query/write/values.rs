//! Checks values of an INSERT as written: an error names the column and the place.
//!
//! This module refuses only what is certainly wrong; the planner judges the rest.

use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast::{self, Spanned as _, Visit as _, Visitor};
use tidegate_engine::batch::arrow_type;
use tidegate_engine::{Column, DataType, TableSchema};

use crate::query::error::{QueryError, Result, Span};
use crate::query::parse::statement::span_of;

/// Checks the rows of INSERT … VALUES against the columns `names`.
///
/// Errors: `Invalid` at the value: a row that is too wide or too narrow, null for a key column, a
/// text that is no value of the column's type.
pub fn check(statement: &SqlStatement, table: &TableSchema, names: &[String]) -> Result<()> {
    let Some(values) = list(statement) else { return Ok(()) };
    for row in &values.rows {
        let row = &row.content;
        if row.len() != names.len() {
            let excess = row.get(names.len()).or(row.last());
            let message = format!(
                "the row has {} values for {} columns: {}",
                row.len(),
                names.len(),
                names.join(", ")
            );
            return Err(at(QueryError::invalid(message), excess.and_then(place)));
        }
        for (value, name) in row.iter().zip(names) {
            let Some((_, column)) = table.find(name) else { continue };
            if let Some(reason) = refusal(value, column) {
                let error = QueryError::invalid(format!("column '{name}': {reason}"));
                return Err(at(error, place(value)));
            }
        }
    }
    Ok(())
}

/// The rows of INSERT … VALUES; `None` for any other statement.
pub fn list(statement: &SqlStatement) -> Option<&ast::Values> {
    let SqlStatement::Statement(inner) = statement else { return None };
    let ast::Statement::Insert(insert) = &**inner else { return None };
    match &*insert.source.as_ref()?.body {
        ast::SetExpr::Values(values) => Some(values),
        _ => None,
    }
}

/// Whether a statement is an INSERT of VALUES without a SELECT in it.
pub fn is_without_query(statement: &SqlStatement) -> bool {
    list(statement).is_some_and(|values| values.visit(&mut Queries).is_continue())
}

/// Ends at the first query.
struct Queries;

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

fn at(error: QueryError, span: Option<Span>) -> QueryError {
    match span {
        Some(span) => error.at(span),
        None => error,
    }
}

fn place(value: &ast::Expr) -> Option<Span> {
    let span = value.span();
    (span.start.line > 0).then(|| span_of(&span))
}

/// Why a value cannot be written to a column, where that is seen without planning.
fn refusal(value: &ast::Expr, column: &Column) -> Option<String> {
    let ast::Expr::Value(value) = value else { return None };
    match &value.value {
        ast::Value::Null if column.is_key() => Some("a key column must not be null".to_owned()),
        ast::Value::SingleQuotedString(text) if column.ty != DataType::Blob => {
            let scalar = ScalarValue::Utf8(Some(text.clone()));
            let is_wrong = scalar.cast_to(&arrow_type(&column.ty)).is_err();
            is_wrong.then(|| format!("'{text}' is no {}", column.ty.sql_name()))
        }
        ast::Value::Number(text, _) => {
            let bits = match column.ty {
                DataType::TinyInt => 7,
                DataType::SmallInt => 15,
                DataType::Int => 31,
                DataType::BigInt => 63,
                _ => return None,
            };
            let is_over = text.parse::<u128>().is_ok_and(|number| number >= 1 << bits);
            is_over.then(|| format!("{text} is out of range for {}", column.ty.sql_name()))
        }
        _ => None,
    }
}

/// Names the column of the table where the planner names one of its own: `column1` is the first.
pub fn rename(mut error: QueryError, names: &[String]) -> QueryError {
    let number = error
        .message
        .split_once("Column 'column")
        .and_then(|(_, rest)| rest.split_once("' is declared as non-nullable"))
        .and_then(|(number, _)| number.parse::<usize>().ok());
    if let Some(name) = number.and_then(|number| names.get(number.checked_sub(1)?)) {
        error.message = format!("column '{name}': a key column must not be null");
    }
    error
}
