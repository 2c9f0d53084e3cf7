//! DoExchange: a client executes one prepared statement many times over one stream.
//!
//! The first message names the statement: a descriptor with a `CommandPreparedStatementQuery` or a
//! `CommandPreparedStatementUpdate`. Then every batch of parameters is one execution, and its
//! `app_metadata` is a tag of the client's choice. The service answers with the schema of the
//! result, then with rows in the order of the executions; `answer` says which rows belong to which.
//! An execution that fails is told so, and the next ones run.
//!
//! Invariant: at most [`AT_ONCE`] executions run at once, and results are pulled as fast as the
//! client reads. What the client sends beyond that waits in its connection. Executions of a query
//! by the key of a row, which may have come together, run together; each is answered for itself.
//!
//! `answer` says what a message holds beside rows, `together` lets answers leave at once that come
//! at once, `client` is the other end.

mod answer;
pub mod client;
mod together;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Any, CommandPreparedStatementQuery, CommandPreparedStatementUpdate};
use futures::future::Either;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use prost::bytes::Bytes;
use tonic::{Request, Response, Status, Streaming};

use self::answer::{Answer, check_tag};
use self::together::Together;
use super::error::invalid;
use super::incoming;
use super::planning::Size;
use super::running::Rows;
use super::service::{Service, State};
use super::session::Held;
use super::statement::{self, Repeated};
use super::stream::{DoGet, Encoder, pieces};
use super::ticket::Bound;

/// Executions of one stream that run at once.
const AT_ONCE: usize = 16;

/// A statement that one stream executes.
struct Exchange {
    state: Arc<dyn State>,
    session: Arc<Held>,
    statement: Repeated,
    /// Of the statement's text.
    size: Size,
}

/// Parameters of one execution.
struct Parameters {
    rows: RecordBatch,
    tag: Bytes,
}

/// Serves the stream of one client, see the head of this file.
///
/// Errors: INVALID_ARGUMENT for a first message that names no prepared statement, and for a
/// statement that neither reads nor writes rows; those of preparing it. The stream ends with
/// INTERNAL at rows that cannot be encoded.
pub(super) async fn exchange(
    service: &Service,
    request: Request<Streaming<FlightData>>,
) -> Result<Response<DoGet>, Status> {
    let session = service.session(&request)?;
    let form = session.form(request.metadata());
    let mut encoder = Encoder::new(session.compression(request.metadata()));
    let state = Arc::clone(service.state());
    let mut data = request.into_inner();
    let first = data.message().await?.ok_or_else(unnamed)?;
    let bound = Bound::open(state.seal(), &handle(&first)?)?;
    let (size, own) = (Size::of(&bound.text), Arc::clone(&session));
    let work = async move { statement::repeated(&own, bound, form).await };
    let statement = state.planning().run(size, work).await?;
    let schema = statement.sent.message.clone();
    let exchange = Arc::new(Exchange { state, session, statement, size });
    let parameters = parameters(first, data);
    let parts = match exchange.statement.is_of_a_row {
        true => exchange.answers_of_rows(parameters),
        false => exchange.answers(parameters),
    };
    let messages = Together::new(parts)
        .map(move |part| messages(part?, &mut encoder))
        .map_ok(|messages| stream::iter(messages).map(Ok))
        .try_flatten();
    Ok(Response::new(stream::iter([Ok(schema)]).chain(messages).boxed()))
}

/// The handle in the descriptor of the first message.
fn handle(first: &FlightData) -> Result<Bytes, Status> {
    let descriptor = first.flight_descriptor.as_ref().ok_or_else(unnamed)?;
    let any = Any::decode(&*descriptor.cmd).map_err(|_| unnamed())?;
    if let Ok(Some(query)) = any.unpack::<CommandPreparedStatementQuery>() {
        return Ok(query.prepared_statement_handle);
    }
    match any.unpack::<CommandPreparedStatementUpdate>() {
        Ok(Some(update)) => Ok(update.prepared_statement_handle),
        _ => Err(unnamed()),
    }
}

fn unnamed() -> Status {
    invalid(
        "an exchange begins with a descriptor of a CommandPreparedStatementQuery: prepare the \
         statement first, and send its handle",
    )
}

/// Batches of parameters as they come. The first message may hold their schema too.
fn parameters(
    first: FlightData,
    rest: Streaming<FlightData>,
) -> impl Stream<Item = Result<Parameters, Status>> {
    let data = stream::iter([Ok(first)]).chain(rest);
    incoming::batches(data.map_err(FlightError::from)).and_then(async |(rows, tag)| {
        check_tag(&tag)?;
        Ok(Parameters { rows, tag })
    })
}

/// A batch of an answer, or why there is none.
struct Part {
    tag: Bytes,
    rows: Result<RecordBatch, Status>,
    /// Whether the answer ends with it.
    is_last: bool,
}

/// An answer that is on its way.
struct Answering {
    tag: Bytes,
    rows: Rows,
    /// What comes next.
    next: Option<Result<RecordBatch, Status>>,
}

/// What answers executions, in their order. What cannot be read ends it, behind the answers to what
/// came before.
type Parts = BoxStream<'static, Result<Part, Status>>;

impl Exchange {
    /// Answers executions one by one, of which several run at once.
    fn answers(
        self: Arc<Self>,
        all: impl Stream<Item = Result<Parameters, Status>> + Send + 'static,
    ) -> Parts {
        let one = move |parameters| {
            let own = Arc::clone(&self);
            async move { Ok::<_, Status>(own.answer(parameters?).await) }.boxed()
        };
        all.map(one).buffered(AT_ONCE).try_flatten().boxed()
    }

    /// Answers executions of a query by the key of a row. Those that came together run together.
    fn answers_of_rows(
        self: Arc<Self>,
        all: impl Stream<Item = Result<Parameters, Status>> + Send + 'static,
    ) -> Parts {
        let some = move |came: Vec<Result<Parameters, Status>>| {
            let own = Arc::clone(&self);
            async move { own.answer_together(came).await }.boxed()
        };
        // While some run, others come.
        let some = all.ready_chunks(AT_ONCE / 2).map(some).buffered(2);
        some.flatten().boxed()
    }

    /// What answers executions that came together.
    async fn answer_together(self: Arc<Self>, came: Vec<Result<Parameters, Status>>) -> Parts {
        let (mut all, mut tags, mut end) = (Vec::new(), Vec::new(), None);
        for parameters in came {
            match parameters {
                Ok(Parameters { rows, tag }) => {
                    all.push(rows);
                    tags.push(tag);
                }
                Err(status) => {
                    end = Some(status);
                    break;
                }
            }
        }
        let (own, rows) = (Arc::clone(&self), all.clone());
        let work =
            async move { Ok(statement::execute_rows(&own.session, &own.statement, &rows).await) };
        let found = match self.state.planning().run(self.size, work).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                let all = all.into_iter().zip(tags).map(|(rows, tag)| Ok(Parameters { rows, tag }));
                return self.answers(stream::iter(all.chain(end.map(Err))));
            }
            Err(status) => vec![Err(status); all.len()],
        };
        let part = |(tag, rows)| Ok(Part { tag, rows, is_last: true });
        let parts: Vec<_> = tags.into_iter().zip(found).map(part).chain(end.map(Err)).collect();
        stream::iter(parts).boxed()
    }

    /// What answers one execution. When it is there the execution runs, and its first rows have
    /// come. An execution that fails has a part that says so.
    async fn answer(
        self: Arc<Self>,
        parameters: Parameters,
    ) -> impl Stream<Item = Result<Part, Status>> + Send + use<> {
        let Parameters { rows, tag } = parameters;
        let own = Arc::clone(&self);
        let work = async move { statement::execute(&own.session, &own.statement, rows).await };
        let rows = match self.state.planning().run(self.size, work).await {
            Ok(rows) => rows,
            Err(status) => stream::iter([Err(status)]).boxed(),
        };
        let mut answering = Answering { tag, rows, next: None };
        answering.next = answering.rows.next().await;
        if answering.next.is_none() {
            let schema = Arc::clone(&self.statement.sent.schema);
            answering.next = Some(Ok(RecordBatch::new_empty(schema)));
        }
        let first = answering.part().await;
        if answering.next.is_none() {
            return Either::Left(stream::iter(first.map(Ok)));
        }
        let rest = stream::unfold(Some(answering), |answering| async {
            let mut answering = answering?;
            let part = answering.part().await?;
            let answering = (!part.is_last).then_some(answering);
            Some((Ok(part), answering))
        });
        Either::Right(stream::iter(first.map(Ok)).chain(rest).boxed())
    }
}

impl Answering {
    /// The next part, if there is one. It is known by then whether another follows.
    async fn part(&mut self) -> Option<Part> {
        let rows = self.next.take()?;
        if rows.is_ok() {
            self.next = self.rows.next().await;
        }
        Some(Part { tag: self.tag.clone(), rows, is_last: self.next.is_none() })
    }
}

/// The messages of a part of an answer; all of a stream have one `encoder`.
///
/// Errors: INTERNAL for rows that cannot be encoded.
fn messages(part: Part, encoder: &mut Encoder) -> Result<Vec<FlightData>, Status> {
    let Part { tag, rows, is_last } = part;
    let pieces = match rows {
        Ok(batch) => pieces(&batch),
        Err(status) => return Ok(vec![refusal(tag, status)]),
    };
    let end = pieces.len();
    let message = |(number, piece): (usize, &RecordBatch)| {
        let answer = if is_last && number == end { Answer::Last } else { Answer::More };
        Ok(FlightData { app_metadata: answer(tag.clone()).encode(), ..encoder.message(piece)? })
    };
    (1..).zip(&pieces).map(message).collect()
}

fn refusal(tag: Bytes, status: Status) -> FlightData {
    FlightData::new().with_app_metadata(Answer::Refused(tag, status).encode())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use arrow_flight::FlightDescriptor;
    use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
    use tonic::Code;

    use super::*;

    /// A batch that goes in several messages ends with the last of them.
    #[test]
    fn only_the_last_message_of_the_last_batch_ends_an_answer() {
        let long = StringArray::from(vec!["x".repeat(1 << 20); 8]);
        let batch = RecordBatch::try_from_iter([("v", Arc::new(long) as _)]).unwrap();
        let tag = Bytes::from_static(b"t");
        for is_last in [false, true] {
            let part = Part { tag: tag.clone(), rows: Ok(batch.clone()), is_last };
            let sent = messages(part, &mut Encoder::default()).unwrap();
            assert!(sent.len() > 2, "{} messages of 8 MiB", sent.len());
            let ends: Vec<bool> = sent
                .iter()
                .map(|message| message.app_metadata == Answer::Last(tag.clone()).encode())
                .collect();
            let (end, before) = ends.split_last().unwrap();
            assert!(*end == is_last && before.iter().all(|end| !end), "{ends:?}");
        }
    }

    /// A client must not take the rows before an error for all of them.
    #[tokio::test]
    async fn an_execution_that_fails_behind_its_first_rows_ends_with_why() {
        let rows = |count| {
            let column = StringArray::from(vec!["x"; count]);
            Ok(RecordBatch::try_from_iter([("v", Arc::new(column) as _)]).unwrap())
        };
        let torn = || Err(Status::data_loss("a file is damaged"));
        let parts = async |rows: Vec<Result<RecordBatch, Status>>| {
            let tag = Bytes::from_static(b"t");
            let mut answering = Answering { tag, rows: stream::iter(rows).boxed(), next: None };
            answering.next = answering.rows.next().await;
            let mut parts = Vec::new();
            while let Some(Part { rows, is_last, .. }) = answering.part().await {
                let rows = rows.map(|rows| rows.num_rows()).map_err(|error| error.code());
                parts.push((rows, is_last));
            }
            parts
        };
        assert_eq!(parts(vec![rows(1), rows(2)]).await, [(Ok(1), false), (Ok(2), true)]);
        let failed = parts(vec![rows(1), rows(2), torn(), rows(3)]).await;
        assert_eq!(failed, [(Ok(1), false), (Ok(2), false), (Err(Code::DataLoss), true)]);
        assert_eq!(parts(vec![torn(), rows(3)]).await, [(Err(Code::DataLoss), true)]);
    }

    #[test]
    fn an_exchange_begins_with_the_handle_of_a_query_or_of_an_update() {
        let named = || Bytes::from_static(b"h");
        let first = |command: Vec<u8>| {
            FlightData::new().with_descriptor(FlightDescriptor::new_cmd(command))
        };
        let query = CommandPreparedStatementQuery { prepared_statement_handle: named() };
        let update = CommandPreparedStatementUpdate { prepared_statement_handle: named() };
        for command in [query.as_any(), update.as_any()] {
            assert_eq!(handle(&first(command.encode_to_vec())).unwrap(), named());
        }
        let ticket = TicketStatementQuery { statement_handle: named() };
        for unnamed in [
            FlightData::new(),
            first(Vec::new()),
            first(vec![0xff]),
            first(ticket.as_any().encode_to_vec()),
        ] {
            let refused = handle(&unnamed).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert!(refused.message().contains("prepare the statement first"), "{refused}");
        }
    }
}
