//! Rows that were read by their keys, as Arrow columns.

use arrow::array::ArrayRef;

use super::column::ColumnBuilder;
use crate::error::{Error, Result};
use crate::reader::RowValues;
use crate::schema::{ColumnId, TableSchema};

/// The named columns of rows of a table, in that order; null where there is no row.
///
/// Errors: `Invalid` when stored bytes are no value of their column's type.
pub fn columns_of(
    schema: &TableSchema,
    columns: &[ColumnId],
    rows: &[Option<RowValues>],
) -> Result<Vec<ArrayRef>> {
    let array = |id: &ColumnId| {
        let column = schema.column(*id);
        let mut builder = ColumnBuilder::new(&column.ty);
        let wrong = |wanted: &str| {
            let (table, ty) = (schema.full_name(), column.ty.sql_name());
            Error::invalid(format!(
                "a stored value of {table}.{} is no {ty}: {wanted}",
                column.name
            ))
        };
        for row in rows {
            let stored = row.as_ref().map(|row| row.stored_of(*id)).transpose()?.flatten();
            builder.push(stored.as_deref()).map_err(wrong)?;
        }
        let array = builder.finish().map_err(wrong)?;
        assert_eq!(array.len(), rows.len(), "a column of {} has another length", schema.name);
        Ok(array)
    };
    columns.iter().map(array).collect()
}
