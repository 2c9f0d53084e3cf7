//! A column by its name, and what is written to it.

use datafusion::common::ScalarValue;
use tidegate_engine::batch::value_at;
use tidegate_engine::{Column, ColumnId, DataType, TableSchema, Value};

use crate::query::error::{QueryError, Result};
use crate::query::parse::Name;
use crate::query::types::assign;

/// A constant as a value of type `ty`; `None` is null.
///
/// Errors: `Invalid` when it is no such value.
pub fn scalar_value(scalar: &ScalarValue, ty: &DataType) -> Result<Option<Value>> {
    if scalar.is_null() {
        return Ok(None);
    }
    let scalar = assign::scalar(scalar, ty).map_err(QueryError::invalid)?;
    Ok(value_at(&scalar.to_array()?, 0, ty)?)
}

/// Finds a named column.
///
/// Errors: `NotFound` at the name.
pub fn find_column<'a>(schema: &'a TableSchema, name: &Name) -> Result<(ColumnId, &'a Column)> {
    schema.find(&name.value).ok_or_else(|| {
        let known = schema.present_columns().map(|column| column.name.as_str());
        QueryError::not_found("column", &name.value, known).at(name.span)
    })
}
