//! Bulk ingest: Arrow batches of a client straight into mutations, without SQL.
//!
//! Invariant: rows that were acknowledged are written; a failure in the middle leaves the batches
//! before it written. Rows are upserts, so an ingest may be sent again as a whole.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit, Schema};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::{Stream, StreamExt, stream};
use tidegate_engine::batch::{WriteOptions, arrow_type, mutations};
use tidegate_engine::mutation::Mutation;
use tidegate_engine::{
    ClusteringOrder, Column, ColumnKind, DataType, Database, SchemaRef, TableId, TableOptions,
    TableSchema,
};
use tonic::Status;

use super::error::{engine_status, invalid, status};
use super::session::FlightSession;
use super::session_option::{CATALOG, PRIMARY_KEY};
use crate::query::assign::convert;
use crate::query::fit;
use crate::query::stamp::stamp;

/// Rows handed to the engine at once.
const ROWS_AT_ONCE_MAX: usize = 8192;
/// Memory of rows that are checked before they replace a table; what comes after them is checked
/// as it is written.
const CHECKED_BYTES_MAX: usize = 64 << 20;
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
    let first = match is_replace(session, command) {
        true => checked(session, command, &mut rows).await?,
        false => Vec::new(),
    };
    let mut rows = stream::iter(first.into_iter().map(Ok)).chain(rows);
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

/// Whether a table is there that is to go.
fn is_replace(session: &FlightSession, command: &CommandStatementIngest) -> bool {
    let options = command.table_definition_options.unwrap_or_default();
    let keyspace = keyspace(session, command);
    options.if_exists() == TableExistsOption::Replace
        && session.query.database().catalog().table(&keyspace, &command.table).is_some()
}

fn keyspace(session: &FlightSession, command: &CommandStatementIngest) -> String {
    command.schema.clone().unwrap_or_else(|| session.query.keyspace())
}

/// Takes the rows of a replace up to [`CHECKED_BYTES_MAX`], and checks each before the old table
/// goes: what a client sends wrongly must not cost what it had.
///
/// Errors: as of writing them.
async fn checked(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: &mut (impl Stream<Item = Result<RecordBatch, Status>> + Unpin),
) -> Result<Vec<RecordBatch>, Status> {
    let database = session.query.database();
    let keyspace = keyspace(session, command);
    let before = database.catalog().table(&keyspace, &command.table).cloned();
    let mut table: Option<SchemaRef> = None;
    let (mut first, mut bytes, mut count) = (Vec::new(), 0, 0);
    while bytes < CHECKED_BYTES_MAX
        && let Some(batch) = rows.next().await
    {
        let batch = batch?;
        let table = match &table {
            Some(table) => Arc::clone(table),
            None => {
                let (rows, keyspace) = (batch.schema(), keyspace.clone());
                let new = new_table(session, command, keyspace, &rows, before.as_deref())?;
                table.insert(Arc::new(new)).clone()
            }
        };
        for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE_MAX) {
            let part = batch.slice(start, ROWS_AT_ONCE_MAX.min(batch.num_rows() - start));
            accept(database, &table, &part, count)?;
            count += part.num_rows() as i64;
        }
        bytes += batch.get_array_memory_size();
        first.push(batch);
    }
    Ok(first)
}

/// The table to write to, made first where the client wants that.
async fn open_table(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: &Schema,
) -> Result<SchemaRef, Status> {
    let database = session.query.database();
    let keyspace = keyspace(session, command);
    let options = command.table_definition_options.unwrap_or_default();
    let existing = database.catalog().table(&keyspace, &command.table).cloned();
    if let Some(table) = existing {
        match options.if_exists() {
            TableExistsOption::Append => return Ok(table),
            TableExistsOption::Replace => {
                // The new table is checked before the old one goes.
                let schema = new_table(session, command, keyspace.clone(), rows, Some(&table))?;
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
    let dropped = session.dropped(&keyspace, &command.table);
    let schema = new_table(session, command, keyspace, rows, dropped.as_deref())?;
    database.create_table(schema, false).await.map_err(engine_status)
}

/// The primary key of a table: its partition columns, and its clustering columns with their order.
struct Key {
    partition: Vec<String>,
    clustering: Vec<(String, ClusteringOrder)>,
}

impl Key {
    /// Reads `partition, columns; clustering, columns`.
    fn parse(text: &str) -> Self {
        let names = |part: &str| -> Vec<String> {
            part.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect()
        };
        let (partition, clustering) = text.split_once(';').unwrap_or((text, ""));
        let ascending = |name| (name, ClusteringOrder::Ascending);
        let clustering = names(clustering).into_iter().map(ascending).collect();
        Key { partition: names(partition), clustering }
    }

    /// The key that a table has.
    fn of(table: &TableSchema) -> Self {
        let order = |column: &Column| match column.kind {
            ColumnKind::ClusteringKey { order, .. } => order,
            _ => ClusteringOrder::Ascending,
        };
        Key {
            partition: table.partition_key().map(|column| column.name.clone()).collect(),
            clustering: table
                .clustering_key()
                .map(|column| (column.name.clone(), order(column)))
                .collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.partition.iter().chain(self.clustering.iter().map(|(name, _)| name))
    }

    /// What a column is in a table with this key.
    fn kind(&self, name: &str) -> ColumnKind {
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        if let Some(at) = self.partition.iter().position(|key| key == name) {
            return ColumnKind::PartitionKey { position: place(at) };
        }
        match self.clustering.iter().position(|(key, _)| key == name) {
            Some(at) => {
                ColumnKind::ClusteringKey { position: place(at), order: self.clustering[at].1 }
            }
            None => ColumnKind::Regular,
        }
    }
}

/// The key of a new table: what the client says, else that of the table `before` it, which was
/// dropped or is about to be replaced. A key that is guessed would merge rows.
fn new_key(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: &Schema,
    before: Option<&TableSchema>,
) -> Result<Key, Status> {
    let option = session.options.lock().ok().and_then(|all| all.get(PRIMARY_KEY).cloned());
    let said = command
        .options
        .get("primary_key")
        .or_else(|| rows.metadata().get(PRIMARY_KEY_METADATA))
        .cloned()
        .or(option);
    let is_column = |name: &String| rows.fields().iter().any(|field| field.name() == name);
    let ways = format!(
        "set the session option '{PRIMARY_KEY}' (with ADBC the connection option \
         'adbc.flight.sql.session.option.{PRIMARY_KEY}'), or '{PRIMARY_KEY_METADATA}' in the metadata \
         of the Arrow schema, to 'partition, columns; clustering, columns', or create the table first"
    );
    let key = match (said, before) {
        (Some(text), _) => Key::parse(&text),
        (None, Some(table)) => {
            let key = Key::of(table);
            if let Some(name) = key.names().find(|name| !is_column(name)) {
                return Err(invalid(format!(
                    "the rows have no column '{name}', which was in the primary key of '{}': {ways}",
                    table.full_name()
                )));
            }
            key
        }
        (None, None) => return Err(invalid(format!("a new table needs a primary key: {ways}"))),
    };
    if let Some(name) = key.names().find(|name| !is_column(name)) {
        return Err(invalid(format!(
            "the primary key names '{name}', which is no column of the rows"
        )));
    }
    Ok(key)
}

/// A schema for rows like these.
///
/// Errors: INVALID_ARGUMENT for rows that no table can hold.
fn new_table(
    session: &FlightSession,
    command: &CommandStatementIngest,
    keyspace: String,
    rows: &Schema,
    before: Option<&TableSchema>,
) -> Result<TableSchema, Status> {
    let key = new_key(session, command, rows, before)?;
    let columns = rows.fields().iter().map(|field| {
        let ty = column_type(field.data_type()).ok_or_else(|| {
            invalid(format!(
                "column '{}' has type {}, which no table can hold",
                field.name(),
                field.data_type()
            ))
        })?;
        let kind = key.kind(field.name());
        Ok(Column { name: field.name().clone(), ty: whole(ty), kind })
    });
    let table = TableSchema {
        id: TableId(0),
        keyspace,
        name: command.table.clone(),
        columns: columns.collect::<Result<_, Status>>()?,
        options: TableOptions::default(),
    };
    table.validate().map_err(engine_status)?;
    Ok(table)
}

/// A list or map as one cell: so an empty one is told from none, as it is in Arrow.
fn whole(ty: DataType) -> DataType {
    match ty {
        DataType::List(_) | DataType::Set(_) | DataType::Map(..) => DataType::Frozen(Box::new(ty)),
        other => other,
    }
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
        ArrowType::Interval(IntervalUnit::MonthDayNano) | ArrowType::Duration(_) => {
            DataType::Duration
        }
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
    let mut accepted = accept(database, table, batch, before)?;
    stamp(database, &mut accepted);
    database.apply_many(accepted).await.map_err(engine_status)
}

/// Turns rows into what is written; `before` rows of the ingest came earlier.
///
/// Errors: INVALID_ARGUMENT at the first row that no table like this holds.
fn accept(
    database: &Database,
    table: &SchemaRef,
    batch: &RecordBatch,
    before: i64,
) -> Result<Vec<Mutation>, Status> {
    let options = WriteOptions {
        timestamp: database.timestamp_us(),
        ttl: None,
        now_seconds: i32::try_from(database.clock().wall_seconds()).unwrap_or(i32::MAX),
    };
    let rows = mutations(table, &fit_batch(table, batch)?, &options).map_err(engine_status)?;
    let mut accepted = Vec::with_capacity(rows.len());
    for row in rows {
        accepted.push(row.map_err(|error| {
            let column = error.column.map(|name| format!(", column '{name}'")).unwrap_or_default();
            let row = before + error.row as i64 + 1;
            invalid(format!("row {row}{column}: {}", error.message))
        })?);
    }
    Ok(accepted)
}

/// Converts columns whose Arrow type is not the table's: large text, other time units, what Python
/// makes of a `dict` or a `timedelta`, and the like. A value that would be changed is refused.
fn fit_batch(table: &TableSchema, batch: &RecordBatch) -> Result<RecordBatch, Status> {
    let of_table = |name: &str| table.columns.iter().find(|column| column.name == name);
    // What no cast does.
    let shape = |field: &Field| {
        let wanted = of_table(field.name()).map(|column| arrow_type(&column.ty));
        match (field.data_type(), wanted) {
            (ArrowType::Struct(_), Some(wanted @ ArrowType::Map(..)))
            | (ArrowType::Duration(_), Some(wanted @ ArrowType::Interval(_))) => wanted,
            _ => ArrowType::Null,
        }
    };
    let fields = batch.schema_ref().fields();
    let shapes: Vec<Field> =
        fields.iter().map(|field| Field::new(field.name(), shape(field.as_ref()), true)).collect();
    let batch = fit(batch, &Schema::new(shapes)).map_err(|error| status(&error))?;
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let cast = match of_table(field.name()) {
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

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;
    use arrow_flight::sql::TableDefinitionOptions;
    use tidegate_engine::Options;

    use super::*;
    use crate::query::{OutcomeKind, Session, SessionOptions};

    fn rows(keys: Vec<Option<i32>>) -> RecordBatch {
        let values = Int32Array::from_iter_values(keys.iter().map(|key| key.unwrap_or(0)));
        let keys = Arc::new(Int32Array::from(keys)) as ArrayRef;
        RecordBatch::try_from_iter([("k", keys), ("v", Arc::new(values) as ArrayRef)]).unwrap()
    }

    async fn count(session: &FlightSession) -> usize {
        let outcome = session.query.execute("SELECT k FROM t").await.unwrap();
        assert!(matches!(outcome.kind, OutcomeKind::Rows(_)));
        let batches = outcome.collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_that_are_refused_replace_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        query.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        query.execute("INSERT INTO t VALUES (9, 9)").await.unwrap();
        let session = FlightSession::new(query, 0);
        let command = CommandStatementIngest {
            table: "t".to_owned(),
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Fail.into(),
                if_exists: TableExistsOption::Replace.into(),
            }),
            ..CommandStatementIngest::default()
        };
        let good = rows(vec![Some(1), Some(2), Some(3)]);
        let bad = rows(vec![Some(4), None]);
        let torn = Err(Status::cancelled("the client is gone"));
        for (batches, wanted) in [
            (vec![Ok(bad.clone())], "row 2"),
            (vec![Ok(good.clone()), Ok(bad)], "row 5"),
            (vec![Ok(good.clone()), torn], "gone"),
        ] {
            let error = ingest(&session, &command, stream::iter(batches)).await.unwrap_err();
            assert!(error.message().contains(wanted), "{error}");
            assert_eq!(count(&session).await, 1);
        }
        let batches = stream::iter([Ok(good.clone()), Ok(rows(vec![Some(4)]))]);
        assert_eq!(ingest(&session, &command, batches).await.unwrap(), 4);
        assert_eq!(count(&session).await, 4);
    }
}
