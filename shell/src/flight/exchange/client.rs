//! The other end: a prepared statement that a Rust program executes over one stream.
//!
//! Calls may be many at once; the service answers them in their order, so that each answer finds
//! its call without a tag.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandPreparedStatementQuery, ProstMessageExt,
};
use arrow_flight::utils::flight_data_to_arrow_batch;
use arrow_flight::{Action, FlightData, FlightDescriptor, SchemaAsIpc};
use futures::stream;
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::super::error::invalid;
use super::super::stream::Encoder;
use super::answer::Answer;

/// Messages that wait to be sent; then callers wait.
const MESSAGES_MAX: usize = 64;

/// A prepared statement on a stream of its own. Dropping it ends the stream.
pub struct Exchange {
    requests: mpsc::Sender<FlightData>,
    calls: Arc<Calls>,
    schema: SchemaRef,
    /// The schema of the parameters, which the first call sends.
    parameters: Mutex<Option<SchemaRef>>,
}

/// Who waits for which answer, in the order of the calls.
#[derive(Default)]
struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Why there are no more answers.
    end: Option<Status>,
}

struct Waiting {
    rows: Vec<RecordBatch>,
    done: oneshot::Sender<Result<Vec<RecordBatch>, Status>>,
}

impl Exchange {
    /// Prepares `text`, one query or write with `?` or `$1` for values, and opens a stream for it.
    ///
    /// Errors: those of the statement, and UNAVAILABLE without a connection.
    pub async fn prepare(
        client: &mut FlightServiceClient<Channel>,
        text: &str,
    ) -> Result<Self, Status> {
        let handle = prepare(client, text).await?;
        Exchange::open(client, handle).await
    }

    /// Opens a stream for the handle of a prepared statement.
    ///
    /// Errors: INVALID_ARGUMENT for a handle of no query and no write, and UNAVAILABLE without a
    /// connection.
    pub async fn open(
        client: &mut FlightServiceClient<Channel>,
        handle: Bytes,
    ) -> Result<Self, Status> {
        let command = CommandPreparedStatementQuery { prepared_statement_handle: handle };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let (requests, mut queue) = mpsc::channel(MESSAGES_MAX);
        let first = FlightData::new().with_descriptor(descriptor);
        requests.try_send(first).map_err(|_| Status::internal("a new queue is full"))?;
        let sent = stream::poll_fn(move |context| queue.poll_recv(context));
        let mut answers = client.do_exchange(sent).await?.into_inner();
        let first = answers.message().await?.ok_or_else(|| ended("before it has begun"))?;
        let schema = Schema::try_from(&first).map_err(|error| {
            Status::internal(format!("the answer begins without a schema: {error}"))
        })?;
        let (schema, calls) = (Arc::new(schema), Arc::new(Calls::default()));
        tokio::spawn(read(answers, Arc::clone(&schema), Arc::clone(&calls)));
        Ok(Exchange { requests, calls, schema, parameters: Mutex::default() })
    }

    /// The columns of what an execution gives.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Executes the statement with these rows of parameters, one column a parameter, and returns
    /// the rows that it gives: of a write one row with its count. All calls of one exchange send
    /// columns of the same types.
    ///
    /// Errors: those of the statement, after which the exchange goes on; UNAVAILABLE when the
    /// stream has ended.
    pub async fn execute(&self, parameters: &RecordBatch) -> Result<Vec<RecordBatch>, Status> {
        let message = Encoder::default().message(parameters)?;
        // Room for both messages of a first call.
        let room = self.requests.reserve_many(2).await;
        let mut room = room.map_err(|_| self.calls.end())?;
        let (done, answered) = oneshot::channel();
        {
            // What is sent and who waits for it stay in one order.
            let mut known = lock(&self.parameters);
            match &*known {
                Some(known) if types(known).eq(types(&parameters.schema())) => {}
                Some(known) => {
                    let told = |schema: &Schema| {
                        let types: Vec<_> = types(schema).map(DataType::to_string).collect();
                        types.join(", ")
                    };
                    return Err(invalid(format!(
                        "the parameters of this exchange are of types {}, not {}",
                        told(known),
                        told(&parameters.schema())
                    )));
                }
                None => {
                    let schema = nullable(&parameters.schema());
                    let options = IpcWriteOptions::default();
                    let message = FlightData::from(SchemaAsIpc::new(&schema, &options));
                    send(&mut room, message);
                    *known = Some(schema);
                }
            }
            let mut state = lock(&self.calls.0);
            if let Some(end) = &state.end {
                return Err(end.clone());
            }
            state.waiting.push_back(Waiting { rows: Vec::new(), done });
            send(&mut room, message);
        }
        drop(room);
        answered.await.map_err(|_| self.calls.end())?
    }
}

/// The handle of a prepared statement.
///
/// Errors: those of the statement, and UNAVAILABLE without a connection.
pub async fn prepare(
    client: &mut FlightServiceClient<Channel>,
    text: &str,
) -> Result<Bytes, Status> {
    let request =
        ActionCreatePreparedStatementRequest { query: text.to_owned(), transaction_id: None };
    let action = Action::new("CreatePreparedStatement", request.as_any().encode_to_vec());
    let mut answer = client.do_action(action).await?.into_inner();
    let unreadable = || Status::internal("the service answers with no prepared statement");
    let body = answer.message().await?.ok_or_else(unreadable)?.body;
    let any = Any::decode(&*body).map_err(|_| unreadable())?;
    let prepared: ActionCreatePreparedStatementResult =
        any.unpack().ok().flatten().ok_or_else(unreadable)?;
    Ok(prepared.prepared_statement_handle)
}

fn types(schema: &Schema) -> impl Iterator<Item = &DataType> {
    schema.fields().iter().map(|field| field.data_type())
}

/// The same columns; any of them may have nulls in a later call.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn send(room: &mut mpsc::PermitIterator<'_, FlightData>, message: FlightData) {
    room.next().expect("there is room for two messages").send(message);
}

impl Calls {
    fn end(&self) -> Status {
        lock(&self.0).end.clone().unwrap_or_else(|| ended("while a call waits"))
    }

    /// Takes what an answer holds to the call that waits longest.
    fn take(&self, data: &FlightData, schema: &SchemaRef) -> Result<(), Status> {
        let answer = Answer::decode(&data.app_metadata)?;
        let mut state = lock(&self.0);
        let unasked = || Status::internal("the service answers a call that nobody made");
        if let Answer::Refused(_, status) = answer {
            let waiting = state.waiting.pop_front().ok_or_else(unasked)?;
            // An error means that the caller is gone.
            let _ = waiting.done.send(Err(status));
            return Ok(());
        }
        let rows = flight_data_to_arrow_batch(data, Arc::clone(schema), &Default::default())
            .map_err(|error| Status::internal(format!("the answer holds no rows: {error}")))?;
        let waiting = state.waiting.front_mut().ok_or_else(unasked)?;
        waiting.rows.push(rows);
        if let Answer::Last(_) = answer
            && let Some(Waiting { rows, done }) = state.waiting.pop_front()
        {
            let _ = done.send(Ok(rows));
        }
        Ok(())
    }

    /// There are no more answers.
    fn finish(&self, end: Status) {
        let mut state = lock(&self.0);
        for waiting in state.waiting.drain(..) {
            let _ = waiting.done.send(Err(end.clone()));
        }
        state.end = Some(end);
    }
}

/// Takes answers to their calls until the stream ends.
async fn read(mut answers: Streaming<FlightData>, schema: SchemaRef, calls: Arc<Calls>) {
    let end = loop {
        match answers.message().await {
            Ok(Some(data)) => {
                if let Err(error) = calls.take(&data, &schema) {
                    break error;
                }
            }
            Ok(None) => break ended("by the service"),
            Err(status) => break status,
        }
    };
    calls.finish(end);
}

fn ended(how: &str) -> Status {
    Status::unavailable(format!("the exchange ended {how}: open another"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no one panics while holding the calls of an exchange")
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use tonic::Code;

    use super::*;

    type Answered = oneshot::Receiver<Result<Vec<RecordBatch>, Status>>;

    /// So many calls that wait.
    fn waiting(count: usize) -> (Calls, Vec<Answered>) {
        let calls = Calls::default();
        let call = |_| {
            let (done, answered) = oneshot::channel();
            lock(&calls.0).waiting.push_back(Waiting { rows: Vec::new(), done });
            answered
        };
        let answered = (0..count).map(call).collect();
        (calls, answered)
    }

    fn rows(number: i64) -> RecordBatch {
        let column = Arc::new(Int64Array::from(vec![number])) as _;
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    /// A message with a row, or without where it tells of a failure.
    fn message(answer: &Answer, number: i64) -> FlightData {
        let app_metadata = answer.encode();
        match answer {
            Answer::Refused(..) => FlightData { app_metadata, ..FlightData::new() },
            _ => {
                let rows = Encoder::default().message(&rows(number)).unwrap();
                FlightData { app_metadata, ..rows }
            }
        }
    }

    /// The numbers that a call was answered with, or the code that it was refused with.
    fn told(answered: &mut Answered) -> Result<Vec<i64>, Code> {
        let answer = answered.try_recv().expect("it is answered").map_err(|error| error.code())?;
        let numbers = answer.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>());
        Ok(numbers.flatten().collect())
    }

    #[test]
    fn answers_go_to_the_calls_in_their_order_and_a_refusal_to_its_own() {
        let (calls, mut answered) = waiting(4);
        let schema = rows(0).schema();
        let tag = Bytes::new;
        let refused = || Answer::Refused(tag(), Status::not_found("x"));
        for (answer, number) in [
            (Answer::More(tag()), 1),
            (Answer::Last(tag()), 2),
            (refused(), 0),
            // Rows that came before a failure are not all: the call has none.
            (Answer::More(tag()), 3),
            (refused(), 0),
        ] {
            assert!(answered[3].try_recv().is_err(), "its turn has not come");
            calls.take(&message(&answer, number), &schema).unwrap();
        }
        assert_eq!(told(&mut answered[0]), Ok(vec![1, 2]));
        assert_eq!(told(&mut answered[1]), Err(Code::NotFound));
        assert_eq!(told(&mut answered[2]), Err(Code::NotFound));
        calls.take(&message(&Answer::Last(tag()), 4), &schema).unwrap();
        assert_eq!(told(&mut answered[3]), Ok(vec![4]));
        // There are no more calls.
        for answer in [Answer::More(tag()), Answer::Last(tag()), refused()] {
            let unasked = calls.take(&message(&answer, 5), &schema).unwrap_err();
            assert_eq!(unasked.code(), Code::Internal, "{unasked}");
        }
    }

    #[test]
    fn when_the_stream_ends_all_calls_are_told_why() {
        let (calls, mut answered) = waiting(3);
        let schema = rows(0).schema();
        calls.take(&message(&Answer::Last(Bytes::new()), 1), &schema).unwrap();
        calls.take(&message(&Answer::More(Bytes::new()), 2), &schema).unwrap();
        assert_eq!(calls.end().code(), Code::Unavailable, "nobody has said why");
        calls.finish(Status::data_loss("x"));
        let told = answered.iter_mut().map(told).collect::<Vec<_>>();
        assert_eq!(told, [Ok(vec![1]), Err(Code::DataLoss), Err(Code::DataLoss)]);
        assert_eq!(calls.end().code(), Code::DataLoss);
    }
}
