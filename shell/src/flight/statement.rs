//! Which call runs a statement.
//!
//! | client's call                              | query                 | write or DDL              |
//! |--------------------------------------------|-----------------------|---------------------------|
//! | GetFlightInfo (statement or prepared)      | planned               | runs, once for each call  |
//! | GetSchema                                  | planned               | nothing                   |
//! | DoGet with the ticket of that FlightInfo   | runs, once for each   | hands out the kept count  |
//! | DoPut (update, statement or prepared)      | runs, rows are dropped| runs                      |
//! | DoExchange (prepared)                      | runs, once for each batch of parameters | likewise; no DDL |
//!
//! A client that only wants the effect of a write never calls DoGet, so a write cannot wait for it.
//! A write with IF is decided by the same call, and its ticket holds the answer, a row.
//! What the short path takes is planned by nobody, and what was prepared is planned once.
//! A query is planned with the parameters that are bound to it: types of its result may follow from
//! theirs. Its ticket holds all that was planned from, and the schema that the client was told;
//! where tables have changed since and the schema with them, the ticket is refused.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;

use super::error::{engine_status, invalid, status};
use super::incoming::{read_rows, read_schema};
use super::kept::{Sent, ipc};
use super::outgoing::{Endpoints, Form, keeps_promise};
use super::running::Rows;
use super::session::FlightSession;
use super::ticket::{Bound, Promise, Query, Ticket, Told, write_rows};
use crate::query::{
    self, Description, Outcome, OutcomeKind, QueryError, Statement, applied_count, count_schema,
    fit, split,
};

/// Rows a shard from which on a table is read in parts: below it a call more takes longer than it
/// saves.
const PART_ROWS_MIN: u64 = 8192;
/// Longest statement, with its parameters, whose result has parts, bytes: each ticket holds it.
const PARTS_BOUND_BYTES_MAX: usize = 16 << 10;

/// A statement that is ready for its DoGet.
pub(super) struct Planned {
    pub sent: Sent,
    /// One, or those of the parts of its result, which may be fetched side by side.
    pub tickets: Vec<Ticket>,
    /// Rows that a write has written.
    pub written: Option<i64>,
}

/// The one statement of a text.
pub(super) fn parse(text: &str) -> Result<Statement, Status> {
    let mut statements = split(text).map_err(|error| status(&error))?;
    match statements.len() {
        1 => Ok(statements.remove(0)),
        0 => Err(invalid("there is no statement in this text")),
        count => Err(invalid(format!("{count} statements at once: send them one by one"))),
    }
}

/// The statement of a text, as it was read before; those with parameters are kept.
fn prepared(session: &FlightSession, bound: &Bound) -> Result<Arc<query::Prepared>, Status> {
    let (query, plans) = (&session.query, &session.kept.plans);
    if let Some(known) = plans.get(query, &bound.text, &bound.keyspace) {
        return Ok(known);
    }
    let statement = parse(&bound.text)?;
    Ok(match statement.parameter_count() {
        0 => Arc::new(query.prepare(statement, &bound.keyspace)),
        _ => plans.keep(query, &bound.text, statement, &bound.keyspace),
    })
}

/// What a statement would give and take, with the rows that were bound to it. They fit: `bind` made
/// them.
async fn describe(
    session: &FlightSession,
    prepared: &query::Prepared,
    rows: Option<&RecordBatch>,
) -> Result<Description, Status> {
    let description = session.query.describe_prepared(prepared, rows).await;
    description.map_err(|error| status(&error))
}

/// The rows that are bound to a statement, if it takes any.
fn bound_rows(
    session: &FlightSession,
    bound: &Bound,
    statement: &Statement,
) -> Result<Option<RecordBatch>, Status> {
    match statement.parameter_count() {
        0 => Ok(None),
        _ => session.kept.rows(bound),
    }
}

/// Plans a query, runs anything else.
pub(super) async fn plan(
    session: &FlightSession,
    bound: Bound,
    (form, endpoints): (Form, Endpoints),
) -> Result<Planned, Status> {
    let prepared = prepared(session, &bound)?;
    let rows = bound_rows(session, &bound, prepared.statement())?;
    let made = session.query.made(&prepared);
    if let Some(short) = made.short() {
        session.query.allow_made(&made).map_err(|error| status(&error))?;
        match short.rows_schema() {
            Some(schema) if short.takes(rows.as_ref()) => {
                let sent = session.kept.sent(form, schema)?;
                let told = Told::Digest(sent.digest.clone());
                let tickets = vec![Ticket::query(bound, told, form)?];
                return Ok(Planned { sent, tickets, written: None });
            }
            Some(_) => {}
            // A write needs no plan to be told from a query.
            None => {
                let outcome = run(session, &bound, &prepared, rows.as_ref()).await?;
                return match &outcome.kind {
                    OutcomeKind::Decided(_) => decided(outcome, form),
                    _ => done(outcome),
                };
            }
        }
    }
    let description = describe(session, &prepared, rows.as_ref()).await?;
    if !description.is_query {
        if description.is_conditional {
            let outcome = run(session, &bound, &prepared, rows.as_ref()).await?;
            return decided(outcome, form);
        }
        if description.returns_rows {
            return Err(Status::unimplemented(
                "this statement changes something and gives rows: run it in the shell",
            ));
        }
        return done(run(session, &bound, &prepared, rows.as_ref()).await?);
    }
    check_bound(prepared.statement(), rows.as_ref())?;
    let sent = session.kept.sent(form, &description.schema)?;
    let parts = parts(session, &description, &bound, endpoints).await?;
    let ticket = Ticket::query(bound, Told::Schema(sent.bytes.clone()), form)?;
    let tickets = if parts > 1 { ticket.parts(parts) } else { vec![ticket] };
    Ok(Planned { sent, tickets, written: None })
}

/// In how many parts the result of a query leaves.
async fn parts(
    session: &FlightSession,
    description: &Description,
    bound: &Bound,
    endpoints: Endpoints,
) -> Result<u32, Status> {
    let database = session.query.database();
    let Some(table) = &description.divided else { return Ok(1) };
    let is_long = bound.encoded_len() > PARTS_BOUND_BYTES_MAX;
    if endpoints == Endpoints::One || is_long || database.shard_count() == 1 {
        return Ok(1);
    }
    if endpoints == Endpoints::Auto {
        let rows = database.rows_about(table).await.map_err(engine_status)?;
        if rows < u64::from(database.shard_count()) * PART_ROWS_MIN {
            return Ok(1);
        }
    }
    Ok(database.shard_count())
}

/// The schema of what a statement would give, as it is sent; nothing is run.
pub(super) async fn schema(
    session: &FlightSession,
    bound: &Bound,
    form: Form,
) -> Result<Bytes, Status> {
    let prepared = prepared(session, bound)?;
    let rows = bound_rows(session, bound, prepared.statement())?;
    let description = describe(session, &prepared, rows.as_ref()).await?;
    match description.returns_rows {
        true => session.kept.sent(form, &description.schema).map(|sent| sent.bytes),
        false => ipc(&count_schema()),
    }
}

/// A statement that one client executes many times.
pub(super) struct Repeated {
    bound: Bound,
    form: Form,
    /// The schema of the rows of each execution: those of a query, the answer of a write with IF,
    /// the count of another write.
    pub sent: Sent,
    /// Whether it is a query by the key of a row, as far as is known before it runs.
    pub is_of_a_row: bool,
}

/// Errors: INVALID_ARGUMENT for a statement that neither reads nor writes rows.
pub(super) async fn repeated(
    session: &FlightSession,
    bound: Bound,
    form: Form,
) -> Result<Repeated, Status> {
    let prepared = prepared(session, &bound)?;
    let description = describe(session, &prepared, None).await?;
    let sent = if description.is_query || description.is_conditional {
        session.kept.sent(form, &description.schema)?
    } else if prepared.statement().is_write() {
        Sent::of(form.schema(&count_schema()))?
    } else {
        return Err(invalid(
            "an exchange executes a query or a write: send this statement by GetFlightInfo or DoPut",
        ));
    };
    let is_of_a_row = session.query.is_of_a_row(&prepared);
    Ok(Repeated { bound, form, sent, is_of_a_row })
}

/// Executes a statement with these rows of parameters. What it gives leaves under the schema that
/// was sent.
///
/// Errors: FAILED_PRECONDITION when the rows have other columns by now; those of the statement.
pub(super) async fn execute(
    session: &FlightSession,
    repeated: &Repeated,
    rows: RecordBatch,
) -> Result<Rows, Status> {
    let Repeated { bound, form, sent, .. } = repeated;
    // Looked up each time: what an idle stream would keep has no bound.
    let prepared = prepared(session, bound)?;
    let rows = fitting(session, &prepared, rows).await?;
    let outcome = run(session, bound, &prepared, rows.as_ref()).await?;
    let found = match &outcome.kind {
        OutcomeKind::Rows(_) => session.kept.sent(*form, &outcome.schema)?.schema,
        _ => form.schema(&outcome.schema),
    };
    if !Arc::ptr_eq(&found, &sent.schema) && !keeps_promise(&sent.schema, &found) {
        return Err(has_changed());
    }
    sent_rows(outcome, *form, Arc::clone(&sent.schema))
}

/// Executes a query by the key of a row for each of these batches, of a row of parameters each, at
/// once: what each gives, in their order, under the schema that was sent. `None` means that nothing
/// was done, and that each wants [`execute`].
pub(super) async fn execute_rows(
    session: &FlightSession,
    repeated: &Repeated,
    all: &[RecordBatch],
) -> Option<Vec<Result<RecordBatch, Status>>> {
    let Repeated { bound, form, sent, .. } = repeated;
    let prepared = prepared(session, bound).ok()?;
    let made = session.query.made(&prepared);
    let schema = made.short()?.rows_schema()?;
    let found = session.kept.sent(*form, schema).ok()?.schema;
    if !Arc::ptr_eq(&found, &sent.schema) && !keeps_promise(&sent.schema, &found) {
        return None;
    }
    let wanted = session.query.parameters_of(&prepared).await.ok()?;
    let fitting: Vec<_> =
        all.iter().map(|rows| fit(rows, &wanted)).collect::<Result<_, _>>().ok()?;
    match session.query.run_rows_prepared(&prepared, &fitting).await {
        Ok(None) => None,
        Ok(Some(found)) => {
            let row = |row: Result<RecordBatch, QueryError>| {
                let row = row.map_err(|error| status(&error))?;
                form.batch(&row, &sent.schema).map_err(unsendable)
            };
            Some(found.into_iter().map(row).collect())
        }
        Err(error) => Some(all.iter().map(|_| Err(status(&error))).collect()),
    }
}

fn done(outcome: Outcome) -> Result<Planned, Status> {
    let (promise, written) = match outcome.kind {
        OutcomeKind::Count(count) => (Promise::Count(count), i64::try_from(count).ok()),
        OutcomeKind::Message(message) => (Promise::Message(message), None),
        OutcomeKind::Rows(_) | OutcomeKind::Decided(_) => {
            return Err(Status::internal("a statement without rows in its plan gave rows"));
        }
    };
    Ok(Planned { sent: Sent::of(outcome.schema)?, tickets: vec![Ticket::done(promise)], written })
}

/// The ticket of a write with IF, which holds its answers in the form that the client wants.
fn decided(outcome: Outcome, form: Form) -> Result<Planned, Status> {
    let OutcomeKind::Decided(answers) = outcome.kind else {
        return Err(Status::internal("a write with IF gave no answer"));
    };
    let written = i64::try_from(applied_count(&answers)).ok();
    let sent = Sent::of(form.schema(&outcome.schema))?;
    let answers = form.batch(&answers, &sent.schema);
    let answers = answers.map_err(|error| Status::internal(error.to_string()))?;
    let tickets = vec![Ticket::done(Promise::Decided(write_rows(&answers)?))];
    Ok(Planned { sent, tickets, written })
}

/// A prepared statement: what its client is told.
pub(super) struct Prepared {
    pub bound: Bound,
    /// Schema of the rows as an IPC message; empty for a statement that is run for its effect.
    pub schema: Bytes,
    /// The types that parameters are best sent in.
    pub parameters: SchemaRef,
}

/// Plans a statement without its parameters, and keeps the plan.
pub(super) async fn prepare(
    session: &FlightSession,
    bound: Bound,
    form: Form,
) -> Result<Prepared, Status> {
    let (query, plans) = (&session.query, &session.kept.plans);
    let prepared = match plans.get(query, &bound.text, &bound.keyspace) {
        Some(known) => known,
        None => plans.keep(query, &bound.text, parse(&bound.text)?, &bound.keyspace),
    };
    let description = describe(session, &prepared, None).await?;
    let schema = match description.returns_rows {
        true => session.kept.sent(form, &description.schema)?.bytes,
        false => Bytes::new(),
    };
    Ok(Prepared { bound, schema, parameters: advertised(&description.parameters) })
}

/// Binds rows to a prepared statement.
pub(super) async fn bind(
    session: &FlightSession,
    bound: Bound,
    rows: RecordBatch,
) -> Result<Bound, Status> {
    let prepared = prepared(session, &bound)?;
    match fitting(session, &prepared, rows).await? {
        Some(rows) => session.kept.bind(bound, &rows),
        None => Ok(bound),
    }
}

/// Rows in the types of the parameters of a statement; `None` where it has none.
async fn fitting(
    session: &FlightSession,
    prepared: &query::Prepared,
    rows: RecordBatch,
) -> Result<Option<RecordBatch>, Status> {
    if prepared.statement().parameter_count() == 0 {
        return Ok(None);
    }
    let text = |error: QueryError| status(&error);
    let wanted = session.query.parameters_of(prepared).await.map_err(text)?;
    fit(&rows, &wanted).map(Some).map_err(text)
}

/// Parameters in types that every client can send. Many take these types as they are told them and
/// have no others than long integers and doubles; what is sent is narrowed with a check. Times of
/// day are milliseconds, which is what JDBC sends whatever the type says.
fn advertised(parameters: &Schema) -> SchemaRef {
    let wide = |ty: &DataType| match ty {
        ty if ty.is_integer() => DataType::Int64,
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        DataType::Time64(_) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Null | DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other.clone(),
    };
    let field = |field: &Field| field.clone().with_data_type(wide(field.data_type()));
    Arc::new(Schema::new(parameters.fields().iter().map(|own| field(own)).collect::<Vec<_>>()))
}

/// Runs a statement for its effect, with the rows of its parameters where there are any.
pub(super) async fn update(
    session: &FlightSession,
    bound: Bound,
    rows: Option<RecordBatch>,
) -> Result<i64, Status> {
    let prepared = prepared(session, &bound)?;
    let rows = match rows {
        Some(rows) => fitting(session, &prepared, rows).await?,
        None => bound_rows(session, &bound, prepared.statement())?,
    };
    let outcome = run(session, &bound, &prepared, rows.as_ref()).await?;
    Ok(match outcome.kind {
        OutcomeKind::Count(count) => i64::try_from(count).unwrap_or(i64::MAX),
        OutcomeKind::Message(_) => 0,
        OutcomeKind::Decided(answers) => i64::try_from(applied_count(&answers)).unwrap_or(i64::MAX),
        OutcomeKind::Rows(mut rows) => {
            while let Some(batch) = rows.next().await {
                batch.map_err(|error| status(&error))?;
            }
            -1
        }
    })
}

/// Runs any statement: what changes the session in the session itself, the rest in the keyspace
/// that the statement was written for.
async fn run(
    session: &FlightSession,
    bound: &Bound,
    prepared: &query::Prepared,
    rows: Option<&RecordBatch>,
) -> Result<Outcome, Status> {
    let (query, statement) = (&session.query, prepared.statement());
    check_bound(statement, rows)?;
    session.note_drop(statement, &bound.keyspace);
    let outcome = match (prepared.changes_session(), rows) {
        (false, rows) => query.run_prepared(prepared, rows).await,
        (true, Some(rows)) => query.run_with(statement, rows).await,
        (true, None) => query.run(statement).await,
    };
    outcome.map_err(|error| status(&error))
}

fn check_bound(statement: &Statement, rows: Option<&RecordBatch>) -> Result<(), Status> {
    match (statement.parameter_count(), rows) {
        (0, _) | (_, Some(_)) => Ok(()),
        (count, None) => {
            Err(invalid(format!("the statement has {count} parameters and none were bound")))
        }
    }
}

/// What the ticket of a write with IF stands for.
pub(super) fn answers(bytes: &Bytes) -> Result<Outcome, Status> {
    let rows = read_rows(bytes)?.ok_or_else(|| Status::internal("a ticket without an answer"))?;
    Ok(Outcome::decided(rows))
}

/// What a ticket of something that is done stands for: a row that says so.
pub(super) fn result(outcome: Outcome) -> Result<(Sent, Rows), Status> {
    let (schema, rows) = rows_of(outcome)?;
    Ok((Sent::of(schema)?, rows))
}

fn rows_of(outcome: Outcome) -> Result<(SchemaRef, Rows), Status> {
    let (schema, rows) = outcome.into_rows().map_err(|error| status(&error))?;
    Ok((schema, rows.map_err(|error| status(&error)).boxed()))
}

/// The rows of a query that was planned.
///
/// Errors: FAILED_PRECONDITION when the schema is no longer what the client was told, and where the
/// rows are in other parts.
pub(super) async fn redeem(session: &FlightSession, query: Query) -> Result<(Sent, Rows), Status> {
    let text = |error: QueryError| status(&error);
    let Query { bound, schema, form, shard, parts, .. } = query;
    let shards = session.query.database().shard_count();
    if shard.is_some() && parts != shards {
        return Err(Status::failed_precondition(format!(
            "this ticket is of one part of {parts}, and the database has {shards} shards now: ask \
             for GetFlightInfo again"
        )));
    }
    let prepared = prepared(session, &bound)?;
    let rows = bound_rows(session, &bound, prepared.statement())?;
    let outcome = match shard {
        None => session.query.query_prepared(&prepared, rows.as_ref()).await,
        Some(shard) => session.query.query_part(&prepared, rows.as_ref(), shard).await,
    };
    let outcome = outcome.map_err(text)?;
    let sent = session.kept.sent(form, &outcome.schema)?;
    let promised = match schema {
        Some(Told::Schema(told)) if told != sent.bytes => Sent::of(promised(&told, &sent.schema)?)?,
        Some(Told::Digest(told)) if told != sent.digest => return Err(has_changed()),
        _ => sent,
    };
    let rows = sent_rows(outcome, form, Arc::clone(&promised.schema))?;
    Ok((promised, rows))
}

/// The rows of an outcome under the schema that its client was told.
fn sent_rows(outcome: Outcome, form: Form, told: SchemaRef) -> Result<Rows, Status> {
    let (_, rows) = rows_of(outcome)?;
    let rows = rows.map(move |batch| form.batch(&batch?, &told).map_err(unsendable));
    Ok(rows.boxed())
}

fn unsendable(error: ArrowError) -> Status {
    match error {
        // A value that the type which is sent does not hold.
        ArrowError::CastError(text) => invalid(text),
        other => Status::internal(other.to_string()),
    }
}

/// The schema that a client was told, if rows of `found` can be sent under it.
fn promised(told: &[u8], found: &Schema) -> Result<SchemaRef, Status> {
    let promised = read_schema(told)?;
    if !keeps_promise(&promised, found) {
        return Err(has_changed());
    }
    Ok(Arc::new(promised))
}

fn has_changed() -> Status {
    Status::failed_precondition(
        "the result has other columns than its client was told: a table was changed meanwhile; ask \
         for GetFlightInfo again, or prepare the statement again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_advertised_in_types_that_every_client_has() {
        let field = |ty| Field::new("$1", ty, true);
        for (own, wanted) in [
            (DataType::Int8, DataType::Int64),
            (DataType::Int16, DataType::Int64),
            (DataType::Int32, DataType::Int64),
            (DataType::Int64, DataType::Int64),
            (DataType::UInt8, DataType::Int64),
            (DataType::UInt64, DataType::Int64),
            (DataType::Float16, DataType::Float64),
            (DataType::Float32, DataType::Float64),
            (DataType::Float64, DataType::Float64),
            (DataType::Time64(TimeUnit::Nanosecond), DataType::Time32(TimeUnit::Millisecond)),
            (DataType::Time64(TimeUnit::Microsecond), DataType::Time32(TimeUnit::Millisecond)),
            (DataType::Null, DataType::Utf8),
            (DataType::Utf8, DataType::Utf8),
            (DataType::Utf8View, DataType::Utf8),
            (DataType::LargeUtf8, DataType::Utf8),
            (DataType::Binary, DataType::Binary),
            (DataType::BinaryView, DataType::Binary),
            (DataType::LargeBinary, DataType::Binary),
            (DataType::Boolean, DataType::Boolean),
            (DataType::Date32, DataType::Date32),
            (DataType::Decimal128(38, 2), DataType::Decimal128(38, 2)),
        ] {
            let schema = advertised(&Schema::new(vec![field(own)]));
            assert_eq!(*schema.field(0).data_type(), wanted);
        }
        let both = [("$2", DataType::Utf8, false), ("$1", DataType::Int8, true)];
        let both = both.map(|(name, ty, is_nullable)| Field::new(name, ty, is_nullable));
        let told = advertised(&Schema::new(both.to_vec()));
        let told = told.fields().iter().map(|field| (field.name().as_str(), field.is_nullable()));
        assert_eq!(told.collect::<Vec<_>>(), [("$2", false), ("$1", true)]);
    }

    #[test]
    fn a_text_is_one_statement() {
        assert_eq!(parse("SELECT 1;").unwrap().text(), "SELECT 1");
        for text in ["", "-- nothing", "SELECT 1; SELECT 2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
