//! Bulk ingest: Arrow batches of a client straight into mutations, without SQL.
//!
//! Invariant: rows that were acknowledged are written; a failure in the middle leaves the batches
//! before it written. Of a write that fails, those that were at work with it may be written too.
//! Rows are upserts, so an ingest may be sent again as a whole. Where an ingest replaces a table,
//! the old one stays until the rows have ended and each of them was accepted.

mod checked_rows;
mod new_table;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType as ArrowType, Field, Schema};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::{Stream, StreamExt};
use tidegate_engine::batch::{WriteOptions, arrow_type, mutations};
use tidegate_engine::mutation::Mutation;
use tidegate_engine::{Database, Permission, Resource, SchemaRef, TableSchema};
use tonic::Status;

use self::checked_rows::CheckedRows;
use self::new_table::new_table;
use super::error::{engine_status, invalid, status};
use super::session::FlightSession;
use super::session::option::CATALOG;
use crate::query::assign::convert;
use crate::query::stamp::stamp;
use crate::query::{InFlight, Need, fit, parts_of};

/// Rows handed to the engine at once.
const ROWS_AT_ONCE_MAX: usize = 8192;

/// Writes the batches of `rows` and returns how many rows they had.
pub(super) async fn ingest(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: impl Stream<Item = Result<RecordBatch, Status>> + Send + Unpin,
) -> Result<i64, Status> {
    if command.temporary {
        return Err(Status::unimplemented("there are no temporary tables"));
    }
    // An empty id is none, as with statements.
    if command.transaction_id.as_ref().is_some_and(|id| !id.is_empty()) {
        return Err(Status::unimplemented("there are no transactions"));
    }
    if let Some(catalog) = command.catalog.as_ref().filter(|name| *name != CATALOG) {
        return Err(Status::not_found(format!("catalog '{catalog}' does not exist")));
    }
    allow(session, command)?;
    let rows = match is_replace(session, command) {
        true => checked(session, command, rows).await?.into_stream()?.left_stream(),
        false => rows.right_stream(),
    };
    let mut writes = InFlight::new();
    let written = write_all(session, command, rows, &mut writes).await;
    // What was begun is ended, also behind an error: then the client knows what to expect.
    let ended = writes.end().await.map_err(engine_status);
    written.and_then(|count| ended.map(|()| count))
}

/// Begins the writes of all rows, and returns how many rows there are.
async fn write_all(
    session: &FlightSession,
    command: &CommandStatementIngest,
    mut rows: impl Stream<Item = Result<RecordBatch, Status>> + Send + Unpin,
    writes: &mut InFlight,
) -> Result<i64, Status> {
    let database = session.query.database();
    let terms = session.query.ingest_terms().map_err(|error| status(&error))?;
    let mut target: Option<SchemaRef> = None;
    let mut count = 0_i64;
    while let Some(batch) = writes.while_waiting_for(rows.next()).await.map_err(engine_status)? {
        let batch = batch?;
        let table = match &target {
            Some(table) => Arc::clone(table),
            None => target.insert(open_table(session, command, &batch.schema()).await?).clone(),
        };
        let bytes_of_row = batch.get_array_memory_size() / batch.num_rows().max(1);
        for part in parts_of(&batch, ROWS_AT_ONCE_MAX) {
            let mut accepted = accept(database, &table, &part, count)?;
            stamp(database, &mut accepted);
            let write = database.under(terms).apply_many(accepted);
            let bytes = bytes_of_row * part.num_rows();
            writes.begin(write, bytes).await.map_err(engine_status)?;
            count += part.num_rows() as i64;
        }
    }
    Ok(count)
}

/// Errors: PERMISSION_DENIED where the caller may not make, replace or write the table.
fn allow(session: &FlightSession, command: &CommandStatementIngest) -> Result<(), Status> {
    let keyspace = keyspace(session, command);
    let is_there = session.query.database().catalog().table(&keyspace, &command.table).is_some();
    let table = Resource::table(&keyspace, &command.table);
    let needs = match (is_there, is_replace(session, command)) {
        (true, false) => vec![Need::new(Permission::Modify, table)],
        (true, true) => vec![
            Need::new(Permission::Drop, table),
            Need::new(Permission::Create, Resource::Keyspace(keyspace)),
        ],
        (false, _) => vec![Need::new(Permission::Create, Resource::Keyspace(keyspace))],
    };
    session.query.allow(&needs).map_err(|error| status(&error))
}

/// Makes a table on all nodes, in the place of the one before where there is one. Its maker may do
/// everything with it.
async fn make(
    session: &FlightSession,
    schema: TableSchema,
    before: Option<SchemaRef>,
) -> Result<SchemaRef, Status> {
    session.query.make_for_ingest(schema, before).await.map_err(|error| status(&error))
}

/// Whether a table is there that is to go.
fn is_replace(session: &FlightSession, command: &CommandStatementIngest) -> bool {
    let options = command.table_definition_options.unwrap_or_default();
    let keyspace = keyspace(session, command);
    options.if_exists() == TableExistsOption::Replace
        && session.query.database().catalog().table(&keyspace, &command.table).is_some()
}

pub(super) fn keyspace(session: &FlightSession, command: &CommandStatementIngest) -> String {
    command.schema.clone().unwrap_or_else(|| session.query.keyspace())
}

/// Takes all rows of a replace, and checks each before the old table goes: what a client sends
/// wrongly must not cost what it had.
///
/// Errors: as of writing them, and as of [`CheckedRows::push`].
async fn checked(
    session: &FlightSession,
    command: &CommandStatementIngest,
    mut rows: impl Stream<Item = Result<RecordBatch, Status>> + Unpin,
) -> Result<CheckedRows, Status> {
    let database = session.query.database();
    let keyspace = keyspace(session, command);
    let before = database.catalog().table(&keyspace, &command.table).cloned();
    let mut table: Option<SchemaRef> = None;
    let mut checked = CheckedRows::new(database.directory());
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let table = match &table {
            Some(table) => Arc::clone(table),
            None => {
                let (rows, keyspace) = (batch.schema(), keyspace.clone());
                let new = new_table(session, command, keyspace, &rows, before.as_deref())?;
                table.insert(Arc::new(new)).clone()
            }
        };
        for part in parts_of(&batch, ROWS_AT_ONCE_MAX) {
            accept(database, &table, &part, count)?;
            count += part.num_rows() as i64;
        }
        checked.push(batch).await?;
    }
    Ok(checked)
}

/// The table to write to, made first where the client wants that.
async fn open_table(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: &Schema,
) -> Result<SchemaRef, Status> {
    // Rows may have taken long to come.
    allow(session, command)?;
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
                return make(session, schema, Some(table)).await;
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
    make(session, schema, None).await
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
    let of_table = |name: &str| table.present_columns().find(|column| column.name == name);
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
    use arrow::array::{
        Array, DurationSecondArray, Float64Array, Int32Array, Int64Array, LargeStringArray,
        NullArray, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
        TimestampSecondArray,
    };
    use arrow::compute::cast;
    use arrow::util::display::array_value_to_string;
    use arrow_flight::sql::TableDefinitionOptions;
    use futures::stream;
    use tidegate_engine::{ClusteringOrder, ColumnKind, Options};
    use tonic::Code;

    use super::*;
    use crate::flight::kept::Kept;
    use crate::flight::session::option::PRIMARY_KEY;
    use crate::query::{Caller, OutcomeKind, Session, SessionOptions, split};

    fn rows(keys: Vec<Option<i32>>) -> RecordBatch {
        let values = Int32Array::from_iter_values(keys.iter().map(|key| key.unwrap_or(0)));
        let keys = Arc::new(Int32Array::from(keys)) as ArrayRef;
        RecordBatch::try_from_iter([("k", keys), ("v", Arc::new(values) as ArrayRef)]).unwrap()
    }

    /// An ingest that replaces `t`.
    fn replace() -> CommandStatementIngest {
        CommandStatementIngest {
            table: "t".to_owned(),
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Fail.into(),
                if_exists: TableExistsOption::Replace.into(),
            }),
            ..CommandStatementIngest::default()
        }
    }

    /// An ingest that appends to `t`.
    fn append() -> CommandStatementIngest {
        CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Fail.into(),
                if_exists: TableExistsOption::Append.into(),
            }),
            ..replace()
        }
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
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let command = replace();
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

    /// Of rows with one key the last one stands, whatever its values.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_rows_with_one_key_the_last_one_stands() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        query.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let column = |numbers: Vec<i32>| Arc::new(Int32Array::from(numbers)) as ArrayRef;
        let (keys, values) = (column(vec![1, 2, 1, 1]), column(vec![9, 5, 7, 3]));
        let twice = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
        ingest(&session, &replace(), stream::iter([Ok(twice)])).await.unwrap();
        let outcome = session.query.execute("SELECT v FROM t WHERE k IN (1, 2)").await.unwrap();
        let batches = outcome.collect().await.unwrap();
        let found = batches.iter().flat_map(|batch| {
            let column = batch.column(0).as_any().downcast_ref::<Int32Array>().unwrap();
            column.values().to_vec()
        });
        let mut found: Vec<i32> = found.collect();
        found.sort_unstable();
        assert_eq!(found, [3, 5]);
    }

    /// Rows are counted over batches and over the parts that a batch is written in.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_refused_row_is_named_by_its_place_among_all() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        query.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let append = append();
        let most = ROWS_AT_ONCE_MAX as i32;
        let keys = |count: i32, bad: i32| (1..=count).map(|n| (n != bad).then_some(n)).collect();
        for bad in [1, most, most + 1, most + 3] {
            let batches = || stream::iter([Ok(rows(keys(5, 0))), Ok(rows(keys(most + 3, bad)))]);
            let wanted = format!("row {}, column 'k': ", bad + 5);
            // A replace checks all rows first; an append keeps the parts before.
            let error = ingest(&session, &replace(), batches()).await.unwrap_err();
            assert!(error.message().starts_with(&wanted), "{error}");
            let error = ingest(&session, &append, batches()).await.unwrap_err();
            assert!(error.message().starts_with(&wanted), "{error}");
            let written = if bad > most { most as usize } else { 5 };
            assert_eq!(count(&session).await, written, "row {bad} is wrong");
            session.query.execute("DROP TABLE t").await.unwrap();
            session.query.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        }
        let all = stream::iter([Ok(rows(keys(5, 0))), Ok(rows(keys(2 * most, 0)))]);
        assert_eq!(ingest(&session, &append, all).await.unwrap(), i64::from(2 * most) + 5);
        assert_eq!(count(&session).await, 2 * most as usize);
    }

    /// Behind 64 MiB of good rows a refused one costs the old table nothing either.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_that_are_refused_late_replace_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        query.execute("CREATE TABLE t (k int PRIMARY KEY, v text)").await.unwrap();
        query.execute("INSERT INTO t VALUES (9, 'old')").await.unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let long = |key: Option<i32>| {
            let key = Arc::new(Int32Array::from(vec![key])) as ArrayRef;
            let value = Arc::new(StringArray::from(vec!["x".repeat(12 << 20)])) as ArrayRef;
            RecordBatch::try_from_iter([("k", key), ("v", value)]).unwrap()
        };
        let good = || (0..7).map(|key| Ok(long(Some(key))));
        let bad = good().chain([Ok(long(None))]);
        let error = ingest(&session, &replace(), stream::iter(bad)).await.unwrap_err();
        assert!(error.message().contains("row 8"), "{error}");
        assert_eq!(count(&session).await, 1);
        assert_eq!(ingest(&session, &replace(), stream::iter(good())).await.unwrap(), 7);
        assert_eq!(count(&session).await, 7);
    }

    /// Who replaces a table drops it and makes another.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_replace_needs_the_rights_of_a_drop_and_a_create() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let owner = Session::new(database, SessionOptions::default()).unwrap();
        for text in [
            "CREATE TABLE t (k int PRIMARY KEY, v int)",
            "INSERT INTO t VALUES (9, 9)",
            "CREATE ROLE ann",
            "GRANT MODIFY ON t TO ann",
        ] {
            owner.execute(text).await.unwrap();
        }
        let ann = owner.apart("default", "ann").of_caller(Caller::Role("ann".into()));
        let session = FlightSession::new(ann, Arc::new(Kept::new()), 0);
        let own = FlightSession::new(owner.apart("default", "owner"), Arc::new(Kept::new()), 0);
        let some = || stream::iter([Ok(rows(vec![Some(1), Some(2)]))]);
        let rights = ["DROP ON t", "CREATE ON KEYSPACE default"];
        for (other, missing) in [(rights[0], rights[1]), (rights[1], rights[0])] {
            own.query.execute(&format!("GRANT {other} TO ann")).await.unwrap();
            let refused = ingest(&session, &replace(), some()).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "without {missing}");
            assert_eq!(count(&own).await, 1, "without {missing}");
            own.query.execute(&format!("REVOKE {other} FROM ann")).await.unwrap();
        }
        for right in rights {
            own.query.execute(&format!("GRANT {right} TO ann")).await.unwrap();
        }
        assert_eq!(ingest(&session, &replace(), some()).await.unwrap(), 2);
        assert_eq!(count(&own).await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_ingest_has_the_service_level_of_its_session() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        query.execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
        query.execute("CREATE SERVICE LEVEL bulk WITH timeout = 1ms").await.unwrap();
        query.execute("SET tidegate.service_level = bulk").await.unwrap();
        let terms = query.ingest_terms().unwrap();
        let level = query.database().catalog().service_level("bulk").unwrap().id;
        assert_eq!((terms.level, terms.deadline), (level, None));
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let some = || stream::iter([Ok(rows(vec![Some(1)]))]);
        assert_eq!(ingest(&session, &replace(), some()).await.unwrap(), 1);
        session.query.execute("DROP SERVICE LEVEL bulk").await.unwrap();
        let error = ingest(&session, &replace(), some()).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::NotFound);
        session.query.execute("SET tidegate.service_level = default").await.unwrap();
        assert_eq!(count(&session).await, 1, "the table is as it was");
    }

    /// When its rows end, its last writes are still at work.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_ingest_whose_last_writes_fail_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        let table = "CREATE TABLE t (k int PRIMARY KEY, v int) \
                     WITH per_partition_rate_limit = {'max_writes_per_second': 1}";
        query.execute(table).await.unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let one_partition = rows(vec![Some(1); 500]);
        let ended = ingest(&session, &append(), stream::iter([Ok(one_partition)])).await;
        let error = ended.unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted, "{error}");
        assert!(error.message().contains("too many writes"), "{error}");
    }

    /// Who reads the latest rows first goes on doing so.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_replaced_table_keeps_its_key_and_the_order_of_its_rows() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        let table = "CREATE TABLE t (a int, b int, c int, d int, v int, \
                     PRIMARY KEY ((b, a), d, c)) WITH CLUSTERING ORDER BY (d DESC, c ASC)";
        query.execute(table).await.unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let column = |numbers: [i32; 4]| Arc::new(Int32Array::from(numbers.to_vec())) as ArrayRef;
        let columns = [
            ("v", column([0, 1, 2, 3])),
            ("a", column([1; 4])),
            ("b", column([2; 4])),
            ("c", column([1, 1, 2, 2])),
            ("d", column([5, 6, 5, 6])),
        ];
        let some = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!(ingest(&session, &replace(), stream::iter([Ok(some)])).await.unwrap(), 4);
        let catalog = session.query.database().catalog();
        let table = catalog.table("default", "t").unwrap();
        let partition = table.partition_key().map(|column| column.name.as_str());
        assert_eq!(partition.collect::<Vec<_>>(), ["b", "a"]);
        let outcome = session.query.execute("SELECT v FROM t WHERE a = 1 AND b = 2").await.unwrap();
        let batches = outcome.collect().await.unwrap();
        let found = batches.iter().flat_map(|batch| {
            let column = batch.column(0).as_any().downcast_ref::<Int32Array>().unwrap();
            column.values().to_vec()
        });
        assert_eq!(found.collect::<Vec<i32>>(), [1, 3, 0, 2]);
    }

    /// What the client says of the table decides, and what it cannot have is refused.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_ingest_makes_or_takes_its_table_as_it_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let create = || CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Create.into(),
                if_exists: TableExistsOption::Fail.into(),
            }),
            options: [("primary_key".to_owned(), "k".to_owned())].into(),
            ..replace()
        };
        let ended = async |command: CommandStatementIngest, keys: Vec<Option<i32>>| {
            let ended = ingest(&session, &command, stream::iter([Ok(rows(keys))])).await;
            ended.map_err(|refused| refused.code())
        };
        let some = || vec![Some(1), Some(2)];
        for absent in [append(), replace()] {
            assert_eq!(ended(absent, some()).await, Err(Code::NotFound));
        }
        let keyless = CommandStatementIngest { options: [].into(), ..create() };
        assert_eq!(ended(keyless, some()).await, Err(Code::InvalidArgument), "no key is guessed");
        assert_eq!(ended(create(), some()).await, Ok(2));
        assert_eq!(ended(create(), vec![Some(3)]).await, Err(Code::AlreadyExists));
        assert_eq!(count(&session).await, 2);
        let catalog = |name: &str| Some(name.to_owned());
        let own = CommandStatementIngest { catalog: catalog(CATALOG), ..append() };
        assert_eq!(ended(own, vec![Some(3)]).await, Ok(1));
        let none = CommandStatementIngest { transaction_id: Some(Vec::new().into()), ..append() };
        assert_eq!(ended(none, vec![Some(5)]).await, Ok(1));
        let transaction_id = Some(b"1".to_vec().into());
        for (command, code) in [
            (CommandStatementIngest { catalog: catalog("other"), ..append() }, Code::NotFound),
            (CommandStatementIngest { temporary: true, ..append() }, Code::Unimplemented),
            (CommandStatementIngest { transaction_id, ..append() }, Code::Unimplemented),
        ] {
            assert_eq!(ended(command, vec![Some(4)]).await, Err(code));
        }
        assert_eq!(count(&session).await, 4);
    }

    /// The command before the metadata of the rows, and these before the option of the session.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_key_of_a_new_table_is_the_one_that_is_said_nearest_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        session.options.lock().unwrap().insert(PRIMARY_KEY.to_owned(), "k".to_owned());
        let metadata = [("tidegate.primary_key".to_owned(), "v ; k".to_owned())].into();
        let bare = rows(vec![Some(1)]);
        let schema = bare.schema().as_ref().clone().with_metadata(metadata);
        let named = RecordBatch::try_new(Arc::new(schema), bare.columns().to_vec()).unwrap();
        for (rows, said, partition, clustering) in [
            (&bare, None, "k", None),
            (&named, None, "v", Some("k")),
            (&named, Some("k, v"), "k,v", None),
        ] {
            let said = said.map(|key: &str| ("primary_key".to_owned(), key.to_owned()));
            let command = CommandStatementIngest {
                table_definition_options: Some(TableDefinitionOptions {
                    if_not_exist: TableNotExistOption::Create.into(),
                    if_exists: TableExistsOption::Fail.into(),
                }),
                options: said.into_iter().collect(),
                ..replace()
            };
            let some = stream::iter([Ok(rows.clone())]);
            assert_eq!(ingest(&session, &command, some).await.unwrap(), 1);
            let catalog = session.query.database().catalog();
            let table = catalog.table("default", "t").unwrap();
            let found: Vec<&str> = table.partition_key().map(|key| key.name.as_str()).collect();
            assert_eq!(found.join(","), partition);
            let found = table.clustering_key().map(|key| key.name.as_str()).next();
            assert_eq!(found, clustering, "{partition}");
            session.query.execute("DROP TABLE t").await.unwrap();
        }
    }

    /// Two keyspaces have a table of the name.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_go_to_the_keyspace_that_is_named_or_else_to_that_of_the_session() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        for text in [
            "CREATE KEYSPACE k2",
            "CREATE TABLE t (k int PRIMARY KEY, v int)",
            "CREATE TABLE k2.t (k int PRIMARY KEY, v int)",
        ] {
            query.execute(text).await.unwrap();
        }
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let count_of = async |table: &str| {
            let text = format!("SELECT k FROM {table}");
            let batches = session.query.execute(&text).await.unwrap().collect().await.unwrap();
            batches.iter().map(RecordBatch::num_rows).sum::<usize>()
        };
        for (own, named, command, keys, wanted) in [
            ("default", None, append(), 0..1, (1, 0)),
            ("default", Some("k2"), append(), 0..2, (1, 2)),
            ("default", Some("default"), append(), 0..3, (3, 2)),
            ("default", Some("k2"), replace(), 7..8, (3, 1)),
            ("k2", None, append(), 0..3, (3, 4)),
            ("k2", Some("default"), replace(), 5..7, (2, 4)),
            ("k2", None, replace(), 0..5, (2, 5)),
        ] {
            session.query.set_keyspace(own).unwrap();
            let command = CommandStatementIngest { schema: named.map(str::to_owned), ..command };
            let some = stream::iter([Ok(rows(keys.map(Some).collect()))]);
            ingest(&session, &command, some).await.unwrap();
            let found = (count_of("default.t").await, count_of("k2.t").await);
            assert_eq!(found, wanted, "in {own}, to {named:?}");
        }
        session.query.execute("DROP TABLE k2.t").await.unwrap();
        for (named, command) in
            [("k2", append()), ("k2", replace()), ("absent", append()), ("absent", replace())]
        {
            let command = CommandStatementIngest { schema: Some(named.to_owned()), ..command };
            let some = stream::iter([Ok(rows(vec![Some(1)]))]);
            let refused = ingest(&session, &command, some).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{named}: {refused}");
        }
        assert_eq!(count_of("default.t").await, 2);
    }

    /// Tools drop a table and make it again, and know nothing of keys.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_table_that_its_session_dropped_is_made_again_with_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        let text = "CREATE TABLE t (v int, k int, w int, PRIMARY KEY (v, k)) \
                    WITH CLUSTERING ORDER BY (k DESC)";
        query.execute(text).await.unwrap();
        let other = query.apart("default", "other");
        let other = FlightSession::new(other, Arc::new(Kept::new()), 0);
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        session.note_drop(&split("DROP TABLE t").unwrap()[0], "default");
        session.query.execute("DROP TABLE t").await.unwrap();
        let create = |key: Option<&str>| CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Create.into(),
                if_exists: TableExistsOption::Fail.into(),
            }),
            options: key
                .map(|key| ("primary_key".to_owned(), key.to_owned()))
                .into_iter()
                .collect(),
            ..replace()
        };
        let some = || rows(vec![Some(1), Some(3), Some(2)]);
        let keys_alone = some().project(&[0]).unwrap();
        for (of, key, batch, says) in [
            (&other, None, some(), "a new table needs a primary key"),
            (&session, None, keys_alone, "no column 'v', which was in the primary key of"),
            (&session, Some("k; w"), some(), "names 'w', which is no column of the rows"),
        ] {
            let refused = ingest(of, &create(key), stream::iter([Ok(batch)])).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
            assert!(refused.message().contains(says), "{refused}");
        }
        for (key, partition, order) in [
            (None, "v", Some(ClusteringOrder::Descending)),
            (Some("v; k"), "v", Some(ClusteringOrder::Ascending)),
            (Some("k"), "k", None),
        ] {
            let made = ingest(&session, &create(key), stream::iter([Ok(some())])).await;
            assert_eq!(made.unwrap(), 3, "{key:?}");
            let catalog = session.query.database().catalog();
            let table = catalog.table("default", "t").unwrap();
            let found: Vec<&str> = table.partition_key().map(|key| key.name.as_str()).collect();
            assert_eq!(found, [partition], "{key:?}");
            let found = table.clustering_key().next().map(|column| match column.kind {
                ColumnKind::ClusteringKey { order, .. } => order,
                other => panic!("{other:?}"),
            });
            assert_eq!(found, order, "{key:?}");
            session.query.execute("DROP TABLE t").await.unwrap();
        }
    }

    /// A column, what a client sends for it, and how it is read or why it is refused.
    type Conversion = (&'static str, ArrayRef, Result<&'static str, &'static str>);

    fn conversions() -> [Conversion; 15] {
        let field = |name: &str| Arc::new(Field::new(name, ArrowType::Int64, false));
        let pair = StructArray::from(vec![
            (field("a"), Arc::new(Int64Array::from(vec![1])) as ArrayRef),
            (field("b"), Arc::new(Int64Array::from(vec![2])) as ArrayRef),
        ]);
        [
            ("b", Arc::new(Int32Array::from(vec![7])), Ok("7")),
            ("s", Arc::new(Int64Array::from(vec![-32_768])), Ok("-32768")),
            ("s", Arc::new(Int64Array::from(vec![32_768])), Err("column 's': ")),
            ("s", Arc::new(Float64Array::from(vec![2.5])), Err("column 's': ")),
            ("f", Arc::new(Float64Array::from(vec![0.5])), Ok("0.5")),
            ("f", Arc::new(Float64Array::from(vec![1e300])), Err("column 'f': ")),
            ("x", Arc::new(LargeStringArray::from(vec!["long"])), Ok("long")),
            ("x", Arc::new(StringViewArray::from(vec!["view"])), Ok("view")),
            ("x", Arc::new(NullArray::new(1)), Ok("")),
            ("b", Arc::new(NullArray::new(1)), Ok("")),
            ("m", Arc::new(TimestampSecondArray::from(vec![-3])), Ok("-3000")),
            ("m", Arc::new(TimestampMicrosecondArray::from(vec![1_500_000])), Ok("1500")),
            ("d", Arc::new(DurationSecondArray::from(vec![5])), Ok("5.000000000 secs")),
            ("p", Arc::new(pair), Ok("{a: 1, b: 2}")),
            ("absent", Arc::new(Int32Array::from(vec![7])), Err("absent")),
        ]
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_column_of_another_type_is_converted_and_a_value_that_would_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        let text = "CREATE TABLE t (k int PRIMARY KEY, b bigint, s smallint, f float, x text, \
                    m timestamp, d duration, p frozen<map<text, int>>)";
        query.execute(text).await.unwrap();
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        for (number, (name, column, wanted)) in (0..).zip(conversions()) {
            let sent = column.data_type().clone();
            let key = Arc::new(Int64Array::from(vec![number])) as ArrayRef;
            let columns = [("k", key, true), (name, column, true)];
            let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
            let written = ingest(&session, &append(), stream::iter([Ok(batch)])).await;
            let says = match wanted {
                Ok(shown) => {
                    assert_eq!(written.unwrap(), 1, "{name} of {sent}");
                    let text = format!("SELECT {name} FROM t WHERE k = {number}");
                    let rows = session.query.execute(&text).await.unwrap().collect().await.unwrap();
                    // Of an instant the number, of the rest what is shown.
                    let found = match rows[0].column(0).data_type() {
                        ArrowType::Timestamp(..) => {
                            cast(rows[0].column(0), &ArrowType::Int64).unwrap()
                        }
                        _ => Arc::clone(rows[0].column(0)),
                    };
                    let found = array_value_to_string(&found, 0).unwrap();
                    assert_eq!(found, shown, "{name} of {sent}");
                    continue;
                }
                Err(says) => says,
            };
            let refused = written.unwrap_err();
            assert!(refused.message().contains(says), "{name} of {sent}: {refused}");
            let code = if says == "absent" { Code::NotFound } else { Code::InvalidArgument };
            assert_eq!(refused.code(), code, "{name} of {sent}: {refused}");
            let text = format!("SELECT k FROM t WHERE k = {number}");
            let rows = session.query.execute(&text).await.unwrap().collect().await.unwrap();
            assert!(rows.iter().all(|rows| rows.num_rows() == 0), "{name} of {sent}");
        }
        let keyless = rows(vec![Some(1)]).project(&[1]).unwrap();
        let renamed = keyless.schema().field(0).clone().with_name("b");
        let schema = Arc::new(Schema::new(vec![renamed]));
        let keyless = RecordBatch::try_new(schema, keyless.columns().to_vec()).unwrap();
        let refused = ingest(&session, &append(), stream::iter([Ok(keyless)])).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("key column 'k'"), "{refused}");
    }
}
