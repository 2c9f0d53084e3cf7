//! Bulk ingest: Arrow batches of a client straight into mutations, without SQL.
//!
//! Invariant: rows that were acknowledged are written; a failure in the middle leaves the batches
//! before it written. Rows are upserts, so an ingest may be sent again as a whole.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType as ArrowType, IntervalUnit, Schema};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::{Stream, StreamExt};
use tidegate_engine::batch::{WriteOptions, arrow_type, mutations};
use tidegate_engine::{
    ClusteringOrder, Column, ColumnKind, DataType, Database, SchemaRef, TableId, TableOptions,
    TableSchema,
};
use tonic::Status;

use super::error::{engine_status, invalid};
use super::session::FlightSession;
use super::session_option::{CATALOG, PRIMARY_KEY};
use crate::query::assign::convert;
use crate::query::stamp::stamp;

/// Rows handed to the engine at once.
const ROWS_AT_ONCE_MAX: usize = 8192;
/// Key of the Arrow schema's metadata that names the primary key.
const PRIMARY_KEY_METADATA: &str = "tidegate.primary_key";

/// Writes the batches of `rows` and returns how many rows they had.
pub(super) async fn ingest(
    session: &FlightSession,
    command: &CommandStatementIngest,
    mut rows: impl Stream<Item = Result<RecordBatch, Status>> + Send + Unpin,
) -> Result<i64, Status> {
    if command.temporary {
        return Err(Status::unimplemented("there are no temporary tables"));
    }
    if command.transaction_id.is_some() {
        return Err(Status::unimplemented("there are no transactions"));
    }
    if let Some(catalog) = command.catalog.as_ref().filter(|name| *name != CATALOG) {
        return Err(Status::not_found(format!("catalog '{catalog}' does not exist")));
    }
    let database = session.query.database();
    let mut target: Option<SchemaRef> = None;
    let mut count = 0_i64;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let table = match &target {
            Some(table) => Arc::clone(table),
            None => target.insert(open_table(session, command, &batch.schema()).await?).clone(),
        };
        for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE_MAX) {
            let part = batch.slice(start, ROWS_AT_ONCE_MAX.min(batch.num_rows() - start));
            write(database, &table, &part, count).await?;
            count += part.num_rows() as i64;
        }
    }
    Ok(count)
}

/// The table to write to, made first where the client wants that.
async fn open_table(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: &Schema,
) -> Result<SchemaRef, Status> {
    let database = session.query.database();
    let keyspace = command.schema.clone().unwrap_or_else(|| session.query.keyspace());
    let options = command.table_definition_options.unwrap_or_default();
    let existing = database.catalog().table(&keyspace, &command.table).cloned();
    if let Some(table) = existing {
        match options.if_exists() {
            TableExistsOption::Append => return Ok(table),
            TableExistsOption::Replace => {
                // The new table is checked before the old one goes.
                let schema = new_table(session, command, keyspace.clone(), rows)?;
                database
                    .drop_table(&keyspace, &command.table, true)
                    .await
                    .map_err(engine_status)?;
                return database.create_table(schema, false).await.map_err(engine_status);
            }
            TableExistsOption::Fail | TableExistsOption::Unspecified => {
                return Err(Status::already_exists(format!(
                    "table '{}' exists already",
                    table.full_name()
                )));
            }
        }
    }
    if options.if_not_exist() != TableNotExistOption::Create {
        return Err(Status::not_found(format!(
            "table '{keyspace}.{}' does not exist",
            command.table
        )));
    }
    let schema = new_table(session, command, keyspace, rows)?;
    database.create_table(schema, false).await.map_err(engine_status)
}

/// A schema for rows like these.
fn new_table(
    session: &FlightSession,
    command: &CommandStatementIngest,
    keyspace: String,
    rows: &Schema,
) -> Result<TableSchema, Status> {
    let option = session.options.lock().ok().and_then(|all| all.get(PRIMARY_KEY).cloned());
    let key = command
        .options
        .get("primary_key")
        .or_else(|| rows.metadata().get(PRIMARY_KEY_METADATA))
        .cloned()
        .or(option)
        .ok_or_else(|| {
            invalid(format!(
                "a new table needs a primary key: set '{PRIMARY_KEY_METADATA}' in the metadata of \
                 the Arrow schema, or the session option '{PRIMARY_KEY}', to \
                 'partition, columns; clustering, columns', or create the table first"
            ))
        })?;
    let names = |part: &str| -> Vec<String> {
        part.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect()
    };
    let (partition, clustering) = key.split_once(';').unwrap_or((&key, ""));
    let (partition, clustering) = (names(partition), names(clustering));
    if let Some(name) = partition
        .iter()
        .chain(&clustering)
        .find(|name| rows.fields().iter().all(|field| field.name() != *name))
    {
        return Err(invalid(format!("the primary key names '{name}', which is no column")));
    }
    let place = |names: &[String], name: &str| {
        names.iter().position(|key| key == name).and_then(|at| u16::try_from(at).ok())
    };
    let columns = rows.fields().iter().map(|field| {
        let kind = if let Some(position) = place(&partition, field.name()) {
            ColumnKind::PartitionKey { position }
        } else if let Some(position) = place(&clustering, field.name()) {
            ColumnKind::ClusteringKey { position, order: ClusteringOrder::Ascending }
        } else {
            ColumnKind::Regular
        };
        let ty = column_type(field.data_type()).ok_or_else(|| {
            invalid(format!(
                "column '{}' has type {}, which no table can hold",
                field.name(),
                field.data_type()
            ))
        })?;
        Ok(Column { name: field.name().clone(), ty, kind })
    });
    Ok(TableSchema {
        id: TableId(0),
        keyspace,
        name: command.table.clone(),
        columns: columns.collect::<Result<_, Status>>()?,
        options: TableOptions::default(),
    })
}

/// The narrowest column type that holds every value of an Arrow type.
fn column_type(ty: &ArrowType) -> Option<DataType> {
    Some(match ty {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 => DataType::TinyInt,
        ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt,
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Int,
        ArrowType::Int64 | ArrowType::UInt32 => DataType::BigInt,
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: *scale }
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => DataType::Blob,
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
        ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::Time,
        ArrowType::Timestamp(..) => DataType::Timestamp,
        ArrowType::Decimal256(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: *scale }
        }
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::Duration,
        ArrowType::Dictionary(_, values) => return column_type(values),
        ArrowType::List(element)
        | ArrowType::LargeList(element)
        | ArrowType::FixedSizeList(element, _) => {
            DataType::list_of(column_type(element.data_type())?)
        }
        ArrowType::Map(entries, _) => {
            let ArrowType::Struct(fields) = entries.data_type() else { return None };
            let [key, value] = &**fields else { return None };
            DataType::map_of(column_type(key.data_type())?, column_type(value.data_type())?)
        }
        _ => return None,
    })
}

/// Writes one batch; `before` rows of the ingest came earlier.
async fn write(
    database: &Database,
    table: &SchemaRef,
    batch: &RecordBatch,
    before: i64,
) -> Result<(), Status> {
    let options = WriteOptions {
        timestamp: database.timestamp_us(),
        ttl: None,
        now_seconds: i32::try_from(database.clock().wall_seconds()).unwrap_or(i32::MAX),
    };
    let rows = mutations(table, &fit(table, batch)?, &options).map_err(engine_status)?;
    let mut accepted = Vec::with_capacity(rows.len());
    for row in rows {
        accepted.push(row.map_err(|error| {
            let column = error.column.map(|name| format!(", column '{name}'")).unwrap_or_default();
            let row = before + error.row as i64 + 1;
            invalid(format!("row {row}{column}: {}", error.message))
        })?);
    }
    stamp(database, &mut accepted);
    database.apply_many(accepted).await.map_err(engine_status)
}

/// Converts columns whose Arrow type is not the table's: large text, other time units and the like. A
/// value that would be changed is refused.
fn fit(table: &TableSchema, batch: &RecordBatch) -> Result<RecordBatch, Status> {
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let wanted = table.columns.iter().find(|c| c.name == *field.name());
        let cast = match wanted {
            Some(wanted) if can_cast_types(column.data_type(), &arrow_type(&wanted.ty)) => {
                convert(column, &wanted.ty)
                    .map_err(|reason| invalid(format!("column '{}': {reason}", field.name())))?
            }
            _ => Arc::clone(column),
        };
        fields.push(field.as_ref().clone().with_data_type(cast.data_type().clone()));
        columns.push(cast);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| invalid(error.to_string()))
}
