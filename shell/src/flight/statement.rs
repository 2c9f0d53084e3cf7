//! Which call runs a statement, and the tickets between the calls.
//!
//! | client's call                              | query                 | write or DDL              |
//! |--------------------------------------------|-----------------------|---------------------------|
//! | GetFlightInfo (statement or prepared)      | planned               | runs, once for each call  |
//! | DoGet with the ticket of that FlightInfo   | runs, once for each   | hands out the kept count  |
//! | DoPut (update, statement or prepared)      | runs, rows are dropped| runs                      |
//!
//! A client that only wants the effect of a write never calls DoGet, so a write cannot wait for
//! it. A ticket holds all it needs: the text of a query, or the count of a write that is done.
//! Tickets can be used again, and after the service was started anew.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tonic::Status;

use super::error::{invalid, status};
use super::session::{FlightSession, Prepared};
use crate::query::{Outcome, OutcomeKind, RowStream, Statement, split};

/// What a ticket stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ticket {
    /// Run this text.
    Query(String),
    /// A write of so many rows was done.
    Count(u64),
    /// DDL was done.
    Message(String),
}

impl Ticket {
    /// The bytes that a client carries.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Ticket::Query(text) => format!("Q{text}"),
            Ticket::Count(count) => format!("C{count}"),
            Ticket::Message(message) => format!("M{message}"),
        }
        .into_bytes()
    }

    /// Errors: INVALID_ARGUMENT for bytes that no ticket of ours has.
    pub(super) fn decode(bytes: &[u8]) -> Result<Ticket, Status> {
        let text = std::str::from_utf8(bytes).ok();
        let decoded = text.and_then(|text| match text.split_at_checked(1)? {
            ("Q", rest) => Some(Ticket::Query(rest.to_owned())),
            ("C", rest) => rest.parse().ok().map(Ticket::Count),
            ("M", rest) => Some(Ticket::Message(rest.to_owned())),
            _ => None,
        });
        decoded.ok_or_else(|| invalid("this is no ticket of this service"))
    }
}

/// A statement that is ready for its DoGet.
pub(super) struct Planned {
    pub schema: SchemaRef,
    /// None = the query of a prepared statement, which its handle names.
    pub ticket: Option<Ticket>,
    /// Rows of the result where they are known.
    pub rows: Option<i64>,
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

/// Plans a query, runs anything else.
pub(super) async fn plan(session: &FlightSession, text: &str) -> Result<Planned, Status> {
    let statement = parse(text)?;
    let description = session.query.describe(&statement).await.map_err(|error| status(&error))?;
    if description.returns_rows {
        let ticket = Some(Ticket::Query(text.to_owned()));
        return Ok(Planned { schema: description.schema, ticket, rows: None });
    }
    done(session.query.run(&statement).await.map_err(|error| status(&error))?)
}

/// Plans a prepared query, runs anything else with the rows bound to it.
pub(super) async fn plan_prepared(
    session: &FlightSession,
    prepared: &Prepared,
) -> Result<Planned, Status> {
    if prepared.description.returns_rows {
        let schema = prepared.description.schema.clone();
        return Ok(Planned { schema, ticket: None, rows: None });
    }
    done(run_prepared(session, prepared, prepared.parameters.as_ref()).await?)
}

fn done(outcome: Outcome) -> Result<Planned, Status> {
    let ticket = match outcome.kind {
        OutcomeKind::Count(count) => Ticket::Count(count),
        OutcomeKind::Message(message) => Ticket::Message(message),
        OutcomeKind::Rows(_) => {
            return Err(Status::internal("a statement without rows in its plan gave rows"));
        }
    };
    Ok(Planned { schema: outcome.schema, ticket: Some(ticket), rows: Some(1) })
}

/// Runs a prepared statement with `parameters`.
pub(super) async fn run_prepared(
    session: &FlightSession,
    prepared: &Prepared,
    parameters: Option<&RecordBatch>,
) -> Result<Outcome, Status> {
    let statement = &prepared.statement;
    let outcome = match parameters {
        Some(parameters) if statement.parameter_count() > 0 => {
            session.query.run_with(statement, parameters).await
        }
        _ if statement.parameter_count() > 0 => {
            return Err(invalid(format!(
                "the statement has {} parameters and none were bound",
                statement.parameter_count()
            )));
        }
        _ => session.query.run(statement).await,
    };
    outcome.map_err(|error| status(&error))
}

/// The rows that a ticket stands for.
pub(super) async fn redeem(
    session: &FlightSession,
    ticket: Ticket,
) -> Result<(SchemaRef, RowStream), Status> {
    let outcome = match ticket {
        Ticket::Query(text) => {
            let statement = parse(&text)?;
            session.query.run(&statement).await.map_err(|error| status(&error))?
        }
        Ticket::Count(count) => Outcome::count(count),
        Ticket::Message(message) => Outcome::message(message),
    };
    outcome.into_rows().map_err(|error| status(&error))
}

/// Rows written by a statement that ran for its effect; the rows of a query are dropped.
pub(super) fn written(outcome: Outcome) -> i64 {
    match outcome.kind {
        OutcomeKind::Count(count) => i64::try_from(count).unwrap_or(i64::MAX),
        OutcomeKind::Message(_) => 0,
        OutcomeKind::Rows(_) => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_come_back_as_they_went() {
        for ticket in [
            Ticket::Query("SELECT 'a&b;ü' -- \n".into()),
            Ticket::Count(u64::MAX),
            Ticket::Message(String::new()),
        ] {
            assert_eq!(Ticket::decode(&ticket.encode()).unwrap(), ticket);
        }
        for wrong in [b"".as_slice(), b"X", b"C-1", b"\xff"] {
            assert!(Ticket::decode(wrong).is_err());
        }
    }
}
