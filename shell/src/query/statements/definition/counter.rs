//! Which tables may count: as in Cassandra, all columns beside the key are counters, or none is.

use tidegate_engine::{Column, DataType};

use crate::query::error::{QueryError, Result};

/// Checks the columns of a table whose rows live so many seconds; 0 is for ever.
///
/// Errors: `Invalid` for counters beside other columns, and for counters that would expire.
pub fn check<'a>(columns: impl IntoIterator<Item = &'a Column>, time_to_live: i32) -> Result<()> {
    let (counters, others): (Vec<&Column>, Vec<&Column>) = columns
        .into_iter()
        .filter(|column| !column.is_key() && !column.is_dropped())
        .partition(|column| column.ty == DataType::Counter);
    match (counters.first(), others.first()) {
        (Some(counter), Some(other)) => {
            let message = format!(
                "column '{}' is a counter, and column '{}' is none: beside its key a table has \
                 counters alone, or none",
                counter.name, other.name
            );
            Err(QueryError::invalid(message)
                .with_help("keep the other columns in a table of their own, with the same key"))
        }
        (Some(counter), None) if time_to_live != 0 => {
            let message =
                format!("counter '{}' would expire, and a counter does not", counter.name);
            Err(QueryError::invalid(message)
                .with_help("leave default_time_to_live out, or set it to 0"))
        }
        _ => Ok(()),
    }
}
