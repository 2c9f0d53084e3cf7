//! DoExchange: a client executes one prepared statement many times over one stream.
//!
//! The first message names the statement: a descriptor with a `CommandPreparedStatementQuery` or a
//! `CommandPreparedStatementUpdate`. Then every batch of parameters is one execution, and its
//! `app_metadata` is a tag of the client's choice. The service answers with the schema of the
//! result, then with rows in the order of the executions; `answer` says which rows belong to which.
//! An execution that fails is told so, and the next ones run.
//!
//! Invariant: at most [`AT_ONCE`] executions run at once, and results are pulled as fast as the
//! client reads. What the client sends beyond that waits in its connection.

mod answer;
pub mod client;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::ipc::writer::IpcWriteContext;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Any, CommandPreparedStatementQuery, CommandPreparedStatementUpdate};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tonic::{Request, Response, Status, Streaming};

use self::answer::{Answer, check_tag};
use super::error::invalid;
use super::kept::Sent;
use super::outgoing::Form;
use super::planning::Size;
use super::running::Rows;
use super::service::{Service, State};
use super::session::Held;
use super::statement;
use super::stream::{DoGet, encode_piece, is_bare, no_rows, pieces};
use super::ticket::Bound;

/// Executions of one stream that run at once.
const AT_ONCE: usize = 16;

/// A statement that one stream executes.
struct Exchange {
    state: Arc<dyn State>,
    session: Arc<Held>,
    bound: Bound,
    form: Form,
    sent: Sent,
}

/// Parameters of one execution.
struct Parameters {
    rows: RecordBatch,
    tag: Bytes,
}

/// Serves the stream of one client, see the head of this file.
///
/// Errors: INVALID_ARGUMENT for a first message that names no prepared statement, and for a
/// statement that neither reads nor writes rows; those of preparing it.
pub(super) async fn exchange(
    service: &Service,
    request: Request<Streaming<FlightData>>,
) -> Result<Response<DoGet>, Status> {
    let session = service.session(&request)?;
    let form = session.form(request.metadata());
    let state = Arc::clone(service.state());
    let mut data = request.into_inner();
    let first = data.message().await?.ok_or_else(unnamed)?;
    let bound = Bound::open(state.seal(), &handle(&first)?)?;
    let (size, own, text) = (Size::of(&bound.text), Arc::clone(&session), bound.clone());
    let work = async move { statement::told(&own, &text, form).await };
    let sent = state.planning().run(size, work).await?;
    let schema = sent.message.clone();
    let exchange = Arc::new(Exchange { state, session, bound, form, sent });
    let answers = parameters(first, data)
        .map(move |parameters| {
            // What cannot be read ends the stream, behind the answers to what came before.
            let exchange = Arc::clone(&exchange);
            async move { exchange.answer(parameters?).await }
        })
        .buffered(AT_ONCE)
        .try_flatten();
    Ok(Response::new(stream::iter([Ok(schema)]).chain(answers).boxed()))
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
    let data = data.map_err(FlightError::from).filter(|data| std::future::ready(!is_bare(data)));
    FlightDataDecoder::new(data).map_err(no_rows).try_filter_map(async |decoded| {
        let tag = decoded.inner.app_metadata;
        check_tag(&tag)?;
        Ok(match decoded.payload {
            DecodedPayload::RecordBatch(rows) => Some(Parameters { rows, tag }),
            DecodedPayload::Schema(_) | DecodedPayload::None => None,
        })
    })
}

impl Exchange {
    /// The messages that answer one execution. When it is there the execution runs, and its first
    /// rows have come.
    ///
    /// Errors: none; a refusal is an answer.
    async fn answer(
        self: Arc<Self>,
        parameters: Parameters,
    ) -> Result<BoxStream<'static, Result<FlightData, Status>>, Status> {
        let Parameters { rows, tag } = parameters;
        let (own, size) = (Arc::clone(&self), Size::of(&self.bound.text));
        let work = async move {
            let Exchange { session, bound, form, sent, .. } = &*own;
            statement::execute(session, bound, *form, &sent.schema, rows).await
        };
        let answers = match self.state.planning().run(size, work).await {
            Ok(rows) => in_turn(rows, tag, self.no_rows()).boxed(),
            Err(status) => stream::iter([vec![refusal(tag, status)]]).boxed(),
        };
        let (first, rest) = answers.into_future().await;
        Ok(stream::iter(first).chain(rest).flat_map(stream::iter).map(Ok).boxed())
    }

    fn no_rows(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.sent.schema))
    }
}

/// The messages of each batch of an answer; the last one says that it is. Without any rows,
/// `nothing` is the answer.
fn in_turn(rows: Rows, tag: Bytes, nothing: RecordBatch) -> impl Stream<Item = Vec<FlightData>> {
    let begin = (Some(rows.peekable()), Some(nothing), tag);
    stream::unfold(begin, |(rows, nothing, tag)| async move {
        let mut rows = rows?;
        let batch = match rows.next().await {
            Some(batch) => batch,
            None => Ok(nothing?),
        };
        let is_last = batch.is_err() || std::pin::Pin::new(&mut rows).peek().await.is_none();
        let (messages, is_last) = match batch.and_then(|batch| messages(&batch, &tag, is_last)) {
            Ok(messages) => (messages, is_last),
            Err(status) => (vec![refusal(tag.clone(), status)], true),
        };
        Some((messages, ((!is_last).then_some(rows), None, tag)))
    })
}

/// The messages of a batch, which is the last of its answer or not.
///
/// Errors: INTERNAL for rows that cannot be encoded.
fn messages(batch: &RecordBatch, tag: &Bytes, is_last: bool) -> Result<Vec<FlightData>, Status> {
    let pieces = pieces(batch);
    let mut context = IpcWriteContext::default();
    let end = pieces.len();
    let message = |(number, piece): (usize, &RecordBatch)| {
        let answer = if is_last && number == end { Answer::Last } else { Answer::More };
        Ok(FlightData {
            app_metadata: answer(tag.clone()).encode(),
            ..encode_piece(piece, &mut context)?
        })
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

    use super::*;

    /// A batch that goes in several messages ends with the last of them.
    #[test]
    fn only_the_last_message_of_the_last_batch_ends_an_answer() {
        let long = StringArray::from(vec!["x".repeat(1 << 20); 8]);
        let batch = RecordBatch::try_from_iter([("v", Arc::new(long) as _)]).unwrap();
        let tag = Bytes::from_static(b"t");
        for is_last in [false, true] {
            let sent = messages(&batch, &tag, is_last).unwrap();
            assert!(sent.len() > 2, "{} messages of 8 MiB", sent.len());
            let ends: Vec<bool> = sent
                .iter()
                .map(|message| message.app_metadata == Answer::Last(tag.clone()).encode())
                .collect();
            let (end, before) = ends.split_last().unwrap();
            assert!(*end == is_last && before.iter().all(|end| !end), "{ends:?}");
        }
    }
}
