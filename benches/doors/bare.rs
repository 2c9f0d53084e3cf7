//! A bare tonic service: it answers the calls of a prepared query, and an exchange, from memory,
//! with the messages that the real service gave before. What it costs is what gRPC costs.

use std::path::Path;
use std::process::ExitCode;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, Streaming};

/// The first argument of a child that is this service.
pub const CHILD: &str = "child-bare";

/// What was answered to each call of one execution.
#[derive(Clone, PartialEq, Message)]
pub struct Answers {
    #[prost(message, required, tag = "1")]
    pub put: PutResult,
    #[prost(message, required, tag = "2")]
    pub info: FlightInfo,
    #[prost(message, repeated, tag = "3")]
    pub rows: Vec<FlightData>,
    /// Of an exchange: the schema, then the answer to each execution.
    #[prost(message, repeated, tag = "4")]
    pub exchange: Vec<FlightData>,
    /// How many times more the last of the rows is sent.
    #[prost(uint32, tag = "5")]
    pub more: u32,
}

/// Messages of an exchange before its first execution: the statement, the schema of parameters.
const BEFORE_EXECUTIONS: usize = 2;

struct Bare(Answers);

type Answer<T> = Result<Response<T>, Status>;
type Messages<T> = BoxStream<'static, Result<T, Status>>;

fn not_offered<T>() -> Answer<T> {
    Err(Status::unimplemented("this service answers the calls of a prepared query"))
}

#[tonic::async_trait]
impl FlightService for Bare {
    type HandshakeStream = Messages<HandshakeResponse>;
    type ListFlightsStream = Messages<FlightInfo>;
    type DoGetStream = Messages<FlightData>;
    type DoPutStream = Messages<PutResult>;
    type DoExchangeStream = Messages<FlightData>;
    type DoActionStream = Messages<arrow_flight::Result>;
    type ListActionsStream = Messages<ActionType>;

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Messages<PutResult>> {
        let mut sent = request.into_inner();
        while sent.try_next().await?.is_some() {}
        Ok(Response::new(stream::iter([Ok(self.0.put.clone())]).boxed()))
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        Ok(Response::new(self.0.info.clone()))
    }

    async fn do_get(&self, _: Request<Ticket>) -> Answer<Messages<FlightData>> {
        let Answers { rows, more, .. } = &self.0;
        let more = stream::iter(rows.last().cloned()).cycle().take(*more as usize);
        Ok(Response::new(stream::iter(rows.clone()).chain(more).map(Ok).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Messages<HandshakeResponse>> {
        not_offered()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Messages<FlightInfo>> {
        not_offered()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        not_offered()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        not_offered()
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Messages<FlightData>> {
        let [schema, answer] = &self.0.exchange[..] else { return not_offered() };
        let answer = answer.clone();
        let sent = request.into_inner().skip(BEFORE_EXECUTIONS);
        let answers = sent.map_ok(move |_| answer.clone());
        Ok(Response::new(stream::iter([Ok(schema.clone())]).chain(answers).boxed()))
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<Messages<arrow_flight::Result>> {
        not_offered()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Messages<ActionType>> {
        not_offered()
    }
}

/// What the child does, with the answers of a file, until it is killed.
pub fn run(answers: &Path) -> ExitCode {
    let answers = Answers::decode(&*std::fs::read(answers).unwrap()).unwrap();
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    threads.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = stream::unfold(listener, |listener| async move {
            let stream = listener.accept().await.map(|(stream, _)| {
                stream.set_nodelay(true).unwrap();
                stream
            });
            Some((stream, listener))
        });
        eprintln!("listening on {address}");
        let service = FlightServiceServer::new(Bare(answers));
        let server = tonic::transport::Server::builder().add_service(service);
        server.serve_with_incoming(incoming).await.unwrap();
    });
    ExitCode::SUCCESS
}
