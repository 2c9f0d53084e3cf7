//! What clients carry: tickets of results, and handles of prepared statements.
//!
//! Invariant: either holds all that its call needs, keyspace and parameters included, so that any
//! connection can use it, whatever its own session says. A ticket stands for a query or for a write
//! that is done: redeeming it changes nothing.
//!
//! `row` writes a row of parameters.

mod row;

use arrow::array::RecordBatch;
use arrow::ipc::writer::StreamWriter;
use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;

use super::error::invalid;
use super::incoming::{caught, no_rows, read_rows};
use super::outgoing::Form;
use super::seal::{Purpose, Seal, random};
use crate::remote::wire::Shape;

/// A statement and what belongs to it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bound {
    /// One statement.
    #[prost(string, tag = "1")]
    pub text: String,
    /// Keyspace of unqualified names.
    #[prost(string, tag = "2")]
    pub keyspace: String,
    /// Rows of parameters.
    #[prost(oneof = "Parameters", tags = "3, 4")]
    pub parameters: Option<Parameters>,
}

/// Rows of parameters as they are carried.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub(super) enum Parameters {
    /// An IPC stream.
    #[prost(bytes = "bytes", tag = "3")]
    Stream(Bytes),
    /// One row, see [`row`].
    #[prost(bytes = "bytes", tag = "4")]
    Row(Bytes),
}

impl Parameters {
    fn of(rows: &RecordBatch) -> Result<Self, Status> {
        match row::write(rows) {
            Some(row) => Ok(Parameters::Row(row.into())),
            None => write_rows(rows).map(Parameters::Stream),
        }
    }

    fn rows(&self) -> Result<Option<RecordBatch>, Status> {
        match self {
            Parameters::Stream(rows) => read_rows(rows),
            Parameters::Row(bytes) => caught(|| row::read(bytes))?.map(Some).map_err(no_rows),
        }
    }

    /// Bytes that are carried.
    pub(super) fn len(&self) -> usize {
        let (Parameters::Stream(bytes) | Parameters::Row(bytes)) = self;
        bytes.len()
    }
}

impl Bound {
    /// The rows of parameters.
    pub(super) fn rows(&self) -> Result<Option<RecordBatch>, Status> {
        self.parameters.as_ref().map_or(Ok(None), Parameters::rows)
    }

    /// The same statement with these rows.
    pub(super) fn with_rows(self, rows: &RecordBatch) -> Result<Self, Status> {
        Ok(Bound { parameters: Some(Parameters::of(rows)?), ..self })
    }

    /// The handle of a prepared statement.
    pub(super) fn close(&self, seal: &Seal) -> Result<Bytes, Status> {
        seal.close(Purpose::Statement, self.encode_to_vec())
    }

    /// The prepared statement of a handle.
    ///
    /// Errors: as [`Seal::open`].
    pub(super) fn open(seal: &Seal, handle: &[u8]) -> Result<Self, Status> {
        decode(&seal.open(Purpose::Statement, handle)?)
    }
}

/// A result that can be fetched.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Ticket {
    #[prost(oneof = "Promise", tags = "1, 2, 3, 4")]
    pub promise: Option<Promise>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Promise {
    /// Run this query.
    #[prost(message, tag = "1")]
    Query(Query),
    /// A write of so many rows was done.
    #[prost(uint64, tag = "2")]
    Count(u64),
    /// DDL was done.
    #[prost(string, tag = "3")]
    Message(String),
    /// A write with IF was decided: its answers, as an IPC stream.
    #[prost(bytes = "bytes", tag = "4")]
    Decided(Bytes),
}

/// A query that was planned, and what its client was told of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Query {
    #[prost(message, required, tag = "1")]
    pub bound: Bound,
    /// Schema of the rows.
    #[prost(oneof = "Told", tags = "2, 7")]
    pub schema: Option<Told>,
    /// How values leave.
    #[prost(message, required, tag = "3")]
    pub form: Form,
    /// Names this query for a cancellation.
    #[prost(bytes = "bytes", tag = "4")]
    pub id: Bytes,
    /// The shard that is read, where this is one part of several.
    #[prost(uint32, optional, tag = "5")]
    pub shard: Option<u32>,
    /// How many parts there are then.
    #[prost(uint32, tag = "6")]
    pub parts: u32,
}

/// What a client was told of the columns.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Told {
    /// The schema, as an IPC message.
    #[prost(bytes = "bytes", tag = "2")]
    Schema(Bytes),
    /// The digest of that message, where only another catalog makes another of the statement.
    #[prost(bytes = "bytes", tag = "7")]
    Digest(Bytes),
}

impl Ticket {
    /// A ticket of a query.
    ///
    /// Errors: UNAVAILABLE without randomness.
    pub(super) fn query(bound: Bound, schema: Told, form: Form) -> Result<Self, Status> {
        let id = Bytes::copy_from_slice(&random::<16>()?);
        let query = Query { bound, schema: Some(schema), form, id, shard: None, parts: 0 };
        Ok(Ticket { promise: Some(Promise::Query(query)) })
    }

    /// The tickets of the parts of a query, one for each of so many shards. They are one query for
    /// a cancellation.
    pub(super) fn parts(self, shards: u32) -> Vec<Self> {
        let Some(Promise::Query(query)) = self.promise else { return vec![self] };
        let part = |shard| Query { shard: Some(shard), parts: shards, ..query.clone() };
        let parts = (0..shards).map(part);
        parts.map(|part| Ticket { promise: Some(Promise::Query(part)) }).collect()
    }

    /// What shape the result has that it promises.
    pub(super) fn shape(&self) -> Shape {
        match &self.promise {
            Some(Promise::Count(_)) => Shape::Count,
            Some(Promise::Message(_)) => Shape::Message,
            Some(Promise::Decided(_)) => Shape::Decided,
            Some(Promise::Query(_)) | None => Shape::Rows,
        }
    }

    /// A ticket of something that is done.
    pub(super) fn done(promise: Promise) -> Self {
        Ticket { promise: Some(promise) }
    }

    /// The bytes that a client carries.
    pub(super) fn close(&self, seal: &Seal) -> Result<Bytes, Status> {
        seal.close(Purpose::Ticket, self.encode_to_vec())
    }

    /// What a ticket promises.
    ///
    /// Errors: as [`Seal::open`].
    pub(super) fn open(seal: &Seal, bytes: &[u8]) -> Result<Promise, Status> {
        let ticket: Ticket = decode(&seal.open(Purpose::Ticket, bytes)?)?;
        ticket.promise.ok_or_else(|| Status::internal("a ticket that promises nothing"))
    }
}

/// Rows as an IPC stream.
pub(super) fn write_rows(rows: &RecordBatch) -> Result<Bytes, Status> {
    let wrong = |error: arrow::error::ArrowError| invalid(error.to_string());
    let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref()).map_err(wrong)?;
    writer.write(rows).map_err(wrong)?;
    Ok(writer.into_inner().map_err(wrong)?.into())
}

/// Decodes what this service encoded itself.
fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, Status> {
    T::decode(bytes).map_err(|error| Status::internal(format!("a sealed content: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use tidegate_engine::clock::SimulatedClock;

    use super::*;

    #[test]
    fn tickets_and_handles_come_back_as_they_went() {
        let seal = Seal::new([3; 32], SimulatedClock::new(0), 1 << 20);
        let column = Arc::new(Int64Array::from(vec![Some(1), None])) as _;
        let rows = RecordBatch::try_from_iter([("$1", column)]).unwrap();
        let text = "SELECT 'a&b;ü' -- \n".to_owned();
        let bound = Bound { text, keyspace: "k".into(), parameters: None };
        assert_eq!(bound.rows().unwrap(), None);
        let bound = bound.with_rows(&rows).unwrap();
        assert_eq!(Bound::open(&seal, &bound.close(&seal).unwrap()).unwrap(), bound);
        assert_eq!(bound.rows().unwrap().unwrap(), rows);
        let one = bound.clone().with_rows(&rows.slice(0, 1)).unwrap();
        assert_eq!(Bound::open(&seal, &one.close(&seal).unwrap()).unwrap(), one);
        assert_eq!(one.rows().unwrap().unwrap().columns(), rows.slice(0, 1).columns());
        let bytes = |bound: &Bound| bound.parameters.as_ref().unwrap().len();
        assert!(bytes(&one) < 20 && bytes(&bound) > 200, "{} of one row", bytes(&one));

        let told = Bytes::from_static(b"s");
        let query = |told| Ticket::query(bound.clone(), told, Form::default()).unwrap();
        for ticket in [
            query(Told::Schema(told.clone())),
            query(Told::Digest(told)),
            Ticket::done(Promise::Count(u64::MAX)),
            Ticket::done(Promise::Message(String::new())),
            Ticket::done(Promise::Decided(write_rows(&rows).unwrap())),
        ] {
            let promise = Ticket::open(&seal, &ticket.close(&seal).unwrap()).unwrap();
            assert_eq!(Some(promise), ticket.promise);
        }
        let bound = Bound { text: "SELECT * FROM t".into(), ..Bound::default() };
        let whole = Ticket::query(bound, Told::Schema(Bytes::new()), Form::default()).unwrap();
        let opened = |ticket: Ticket| Ticket::open(&seal, &ticket.close(&seal).unwrap()).unwrap();
        let Promise::Query(query) = opened(whole.clone()) else { panic!("it is one of a query") };
        assert_eq!(query.shard, None);
        for (wanted, part) in (0..).zip(whole.parts(3)) {
            let part = opened(part);
            assert_eq!(
                part,
                Promise::Query(Query { shard: Some(wanted), parts: 3, ..query.clone() })
            );
        }
        let count = Ticket::done(Promise::Count(1));
        assert_eq!(count.clone().parts(3), [count]);
        let handle = Ticket::done(Promise::Count(1)).close(&seal).unwrap();
        assert!(Bound::open(&seal, &handle).is_err(), "a ticket is no prepared statement");
    }
}
