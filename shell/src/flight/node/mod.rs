//! What a node answers to others of its ring.
//!
//! | call | what |
//! |---|---|
//! | `Read` | rows of partitions of this node |
//! | `Write`, `Decide` | writes to them |
//! | `Define` | a step of a statement that all nodes run |
//!
//! Invariant: a call without the key of the ring, or with another version of it, is refused before
//! its message is read. Rights are not asked: the node that a client spoke to has asked.

mod defining;

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, select_all};
use futures::{FutureExt, StreamExt, TryStreamExt};
use tidegate_engine::Database;
use tidegate_engine::batch::read_schema;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use self::defining::Definitions;
use super::connections::Link;
use crate::cluster::Cluster;
use crate::cluster::error::status;
use crate::cluster::wire::{
    DECIDE, DEFINE, DecideReply, DecideRequest, DefineReply, DefineRequest, PING, READ,
    ReadRequest, SERVICE, WRITE, WriteReply, WriteRequest,
};
use crate::query::Session;

/// See the head of this file.
#[derive(Clone)]
pub(super) struct Node(Arc<Own>);

struct Own {
    database: Database,
    definitions: Definitions,
}

impl Node {
    /// A node; `session` runs what others have all nodes run. It stands behind [`ForNodes`].
    pub(super) fn new(session: Session) -> Self {
        let database = session.database().clone();
        let definitions = Definitions::new(session);
        Node(Arc::new(Own { database, definitions }))
    }
}

impl NamedService for Node {
    const NAME: &'static str = SERVICE;
}

/// Lets in whom the cluster knows.
///
/// Errors: those of [`Cluster::check`].
fn let_in(cluster: &Cluster, headers: &MetadataMap, link: Option<&Link>) -> Result<(), Status> {
    cluster.check(headers)?;
    if let Some(activity) = link.and_then(|link| link.activity.as_ref()) {
        activity.let_in();
    }
    Ok(())
}

impl Service<http::Request<Body>> for Node {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = Arc::clone(&self.0);
        match request.uri().path() {
            READ => async move {
                let codec = ProstCodec::<FlightData, ReadRequest>::default();
                let mut grpc = Grpc::new(codec).max_decoding_message_size(usize::MAX);
                Ok(grpc.server_streaming(Reading(own), request).await)
            }
            .boxed(),
            WRITE => async move {
                let codec = ProstCodec::<WriteReply, WriteRequest>::default();
                let mut grpc = Grpc::new(codec).max_decoding_message_size(usize::MAX);
                Ok(grpc.unary(Writing(own), request).await)
            }
            .boxed(),
            DECIDE => async move {
                let codec = ProstCodec::<DecideReply, DecideRequest>::default();
                let mut grpc = Grpc::new(codec).max_decoding_message_size(usize::MAX);
                Ok(grpc.unary(Deciding(own), request).await)
            }
            .boxed(),
            PING => async move {
                let codec = ProstCodec::<WriteReply, WriteReply>::default();
                Ok(Grpc::new(codec).unary(Here, request).await)
            }
            .boxed(),
            DEFINE => async move {
                let codec = ProstCodec::<DefineReply, DefineRequest>::default();
                Ok(Grpc::new(codec).unary(Defining(own), request).await)
            }
            .boxed(),
            path => {
                let refusal = Status::unimplemented(format!("nodes do not call {path}"));
                ready(Ok(refusal.into_http())).boxed()
            }
        }
    }
}

/// A service that answers nodes of the ring alone.
#[derive(Clone)]
pub(super) struct ForNodes<S> {
    inner: S,
    cluster: Arc<Cluster>,
}

impl<S> ForNodes<S> {
    pub(super) fn new(inner: S, cluster: Arc<Cluster>) -> Self {
        ForNodes { inner, cluster }
    }
}

impl<S: NamedService> NamedService for ForNodes<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for ForNodes<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let headers = MetadataMap::from_headers(request.headers().clone());
        match let_in(&self.cluster, &headers, request.extensions().get::<Link>()) {
            Ok(()) => self.inner.call(request).boxed(),
            Err(refusal) => ready(Ok(refusal.into_http())).boxed(),
        }
    }
}

type Answer<T> = BoxFuture<'static, Result<Response<T>, Status>>;

struct Reading(Arc<Own>);

impl ServerStreamingService<ReadRequest> for Reading {
    type Response = FlightData;
    type ResponseStream = BoxStream<'static, Result<FlightData, Status>>;
    type Future = Answer<Self::ResponseStream>;

    fn call(&mut self, request: Request<ReadRequest>) -> Self::Future {
        let own = Arc::clone(&self.0);
        ready(own.read(request.get_ref())).boxed()
    }
}

/// It is there.
struct Here;

impl UnaryService<WriteReply> for Here {
    type Response = WriteReply;
    type Future = Answer<WriteReply>;

    fn call(&mut self, _: Request<WriteReply>) -> Self::Future {
        ready(Ok(Response::new(WriteReply {}))).boxed()
    }
}

struct Writing(Arc<Own>);

impl UnaryService<WriteRequest> for Writing {
    type Response = WriteReply;
    type Future = Answer<WriteReply>;

    fn call(&mut self, request: Request<WriteRequest>) -> Self::Future {
        let own = Arc::clone(&self.0);
        async move { own.write(request.get_ref()).await }.boxed()
    }
}

struct Deciding(Arc<Own>);

impl UnaryService<DecideRequest> for Deciding {
    type Response = DecideReply;
    type Future = Answer<DecideReply>;

    fn call(&mut self, request: Request<DecideRequest>) -> Self::Future {
        let own = Arc::clone(&self.0);
        async move { own.decide(request.get_ref()).await }.boxed()
    }
}

struct Defining(Arc<Own>);

impl UnaryService<DefineRequest> for Defining {
    type Response = DefineReply;
    type Future = Answer<DefineReply>;

    fn call(&mut self, request: Request<DefineRequest>) -> Self::Future {
        let own = Arc::clone(&self.0);
        async move { own.definitions.step(request.into_inner()).await.map(Response::new) }.boxed()
    }
}

impl Own {
    fn read(
        &self,
        request: &ReadRequest,
    ) -> Result<Response<BoxStream<'static, Result<FlightData, Status>>>, Status> {
        let (catalog, clock) = (self.database.catalog(), self.database.clock());
        let command = request.command(&catalog, &**clock).map_err(|error| status(&error))?;
        let schema = read_schema(&command.schema, &command.columns, &command.stamps);
        let batches = self.database.read_here(command).map_err(|error| status(&error))?;
        let batches = select_all(batches).map_err(|error| FlightError::from(status(&error)));
        let encoded = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
        Ok(Response::new(encoded.map_err(Status::from).boxed()))
    }

    async fn write(&self, request: &WriteRequest) -> Result<Response<WriteReply>, Status> {
        let (catalog, clock) = (self.database.catalog(), self.database.clock());
        let (writes, taking) =
            request.writes(&catalog, &**clock).map_err(|error| status(&error))?;
        self.database.apply_here(writes, taking).await.map_err(|error| status(&error))?;
        Ok(Response::new(WriteReply {}))
    }

    async fn decide(&self, request: &DecideRequest) -> Result<Response<DecideReply>, Status> {
        let (catalog, clock) = (self.database.catalog(), self.database.clock());
        let (write, terms) = request.write(&catalog, &**clock).map_err(|error| status(&error))?;
        let deciding = self.database.write_if_here(write, terms);
        let deciding = deciding.map_err(|error| status(&error))?;
        let decision = deciding.await.map_err(|error| status(&error))?;
        Ok(Response::new(DecideReply::of(&decision)))
    }
}
