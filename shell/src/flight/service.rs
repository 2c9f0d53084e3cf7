//! The calls of Flight SQL, each handed to the module that answers it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, ActionCreatePreparedSubstraitPlanRequest,
    ActionEndSavepointRequest, ActionEndTransactionRequest, Any, Command, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementSubstraitPlan,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, RenewFlightEndpointRequest,
    Ticket,
};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use prost::Message;
use prost::bytes::Bytes;
use prost_types::Timestamp;
use tidegate_engine::Database;
use tidegate_engine::schema::in_quotes;
use tonic::{Request, Response, Status, Streaming};

use super::error::{invalid, status};
use super::kept::ipc;
use super::planning::{Planning, Size};
use super::running::Running;
use super::seal::{Purpose, Seal};
use super::session::option::{self, CloseSessionResult, CloseStatus, SetSessionOptionsRequest};
use super::session::{Held, Sessions};
use super::statement::{self, Planned, Prepared};
use super::stream::{DoGet, Encoder, decode, decode_parameters, encode, encode_batch, hold};
use super::ticket::{Bound, Promise, Ticket as Sealed};
use super::{administration, ingest, metadata, outgoing, sql_info};
use crate::cluster::Cluster;
use crate::memory::MemoryPlan;
use crate::query::{Outcome, QueryMemory};
use crate::remote::wire::{NAMES, Names, Shape};

/// The service; one for all connections.
///
/// Behind the trait object are types of which the compiler takes seconds to prove that threads may
/// share them (syntax trees, plans). It is proved once, where a service is made; of `Service`
/// itself, of which every call must know it, it is plain.
#[derive(Clone)]
pub struct Service(Arc<dyn State>);

/// What the calls work on.
pub(super) trait State: Send + Sync {
    fn database(&self) -> &Database;
    fn sessions(&self) -> &Sessions;
    fn seal(&self) -> &Seal;
    fn planning(&self) -> &Planning;
    fn running(&self) -> &Arc<Running>;
    /// The folder that takes snapshots which clients ask for.
    fn snapshots(&self) -> Option<&Path>;
    /// Where endpoints say that they are.
    fn advertised(&self) -> Option<&str>;
}

/// What a service offers besides its database.
pub(super) struct Offer {
    /// The key of tickets, which nobody else may know.
    pub ticket_key: [u8; 32],
    /// The folder that takes snapshots which clients ask for.
    pub snapshots: Option<PathBuf>,
    /// Where endpoints say that they are; `None` where a client asked.
    pub advertised: Option<String>,
    /// The other nodes, in a cluster.
    pub cluster: Option<Arc<Cluster>>,
}

struct Own {
    database: Database,
    sessions: Sessions,
    seal: Seal,
    planning: Planning,
    running: Arc<Running>,
    snapshots: Option<PathBuf>,
    advertised: Option<String>,
}

impl State for Own {
    fn database(&self) -> &Database {
        &self.database
    }

    fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn seal(&self) -> &Seal {
        &self.seal
    }

    fn planning(&self) -> &Planning {
        &self.planning
    }

    fn running(&self) -> &Arc<Running> {
        &self.running
    }

    fn snapshots(&self) -> Option<&Path> {
        self.snapshots.as_deref()
    }

    fn advertised(&self) -> Option<&str> {
        self.advertised.as_deref()
    }
}

type Info = Result<Response<FlightInfo>, Status>;
type Rows = Result<Response<DoGet>, Status>;

impl Service {
    /// A service of `database` without any session.
    pub(super) fn new(
        database: Database,
        memory: &MemoryPlan,
        offer: Offer,
    ) -> Result<Self, Status> {
        let queries = QueryMemory::new(Some(memory.queries));
        let sessions = Sessions::new(database.clone(), queries, offer.cluster)?;
        let seal = Seal::new(offer.ticket_key, Arc::clone(database.clock()), memory.tickets);
        let (planning, running) = (Planning::of_machine(), Arc::default());
        let Offer { snapshots, advertised, .. } = offer;
        Ok(Service(Arc::new(Own {
            database,
            sessions,
            seal,
            planning,
            running,
            snapshots,
            advertised,
        })))
    }

    pub(super) fn state(&self) -> &Arc<dyn State> {
        &self.0
    }

    /// The FlightInfo of a statement: with a ticket that holds for a while.
    fn promise(&self, planned: Planned, descriptor: FlightDescriptor) -> Info {
        let Planned { sent, tickets, written } = planned;
        let seal = self.0.seal();
        let expires = Timestamp { seconds: seal.expires_at(Purpose::Ticket), nanos: 0 };
        let mut info = FlightInfo::new().with_descriptor(descriptor);
        // Parts have no order among them.
        info.ordered = tickets.len() == 1;
        info.app_metadata = tickets.first().map_or(Shape::Rows, Sealed::shape).name().into();
        for ticket in tickets {
            let mut endpoint =
                endpoint(&TicketStatementQuery { statement_handle: ticket.close(seal)? });
            endpoint.expiration_time = Some(expires);
            if let Some(uri) = self.0.advertised() {
                endpoint = endpoint.with_location(uri);
            }
            info.endpoint.push(endpoint);
        }
        // Of a write the rows that it wrote: what drivers call the affected rows. DDL has none.
        info.total_records = written.unwrap_or(-1);
        Ok(Response::new(FlightInfo { schema: sent.bytes, ..info }))
    }

    /// Plans a statement, or runs it where it is no query.
    fn plan<T>(
        &self,
        session: Arc<Held>,
        bound: Bound,
        request: &Request<T>,
    ) -> BoxFuture<'_, Result<Planned, Status>> {
        let (headers, size) = (request.metadata(), Size::of(&bound.text));
        let wanted = (session.form(headers), session.endpoints(headers));
        let work = async move { statement::plan(&session, bound, wanted).await };
        self.0.planning().run(size, work)
    }

    /// Runs a statement for its effect.
    fn update(
        &self,
        session: Arc<Held>,
        bound: Bound,
        rows: Option<RecordBatch>,
    ) -> BoxFuture<'_, Result<i64, Status>> {
        let size = Size::of(&bound.text);
        let work = async move { statement::update(&session, bound, rows).await };
        self.0.planning().run(size, work)
    }

    fn schema_of<T>(
        &self,
        session: Arc<Held>,
        bound: Bound,
        request: &Request<T>,
    ) -> BoxFuture<'_, Result<Bytes, Status>> {
        let (form, size) = (session.form(request.metadata()), Size::of(&bound.text));
        let work = async move { statement::schema(&session, &bound, form).await };
        self.0.planning().run(size, work)
    }

    /// What GetSchema tells of a statement, as an IPC message.
    pub(super) async fn schema_of_statement<T>(
        &self,
        text: String,
        request: &Request<T>,
    ) -> Result<Bytes, Status> {
        let session = self.session(request)?;
        let bound = Self::bound(&session, text);
        self.schema_of(session, bound, request).await
    }

    /// What GetSchema tells of a prepared statement, as an IPC message.
    pub(super) async fn schema_of_prepared<T>(
        &self,
        handle: &Bytes,
        request: &Request<T>,
    ) -> Result<Bytes, Status> {
        let session = self.session(request)?;
        let bound = Bound::open(self.0.seal(), handle)?;
        self.schema_of(session, bound, request).await
    }

    pub(super) fn session<T>(&self, request: &Request<T>) -> Result<Arc<Held>, Status> {
        outgoing::check(request.metadata())?;
        self.0.sessions().of(request).map(Arc::new)
    }

    /// Cancels the queries of a FlightInfo.
    fn cancel(&self, info: &FlightInfo) -> Result<CancelStatus, Status> {
        let mut status = CancelStatus::NotCancellable;
        for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
            if let Some(Promise::Query(query)) = self.promised(ticket)? {
                let now = self.0.database().clock().wall_seconds();
                let expires = self.0.seal().expires_at(Purpose::Ticket);
                self.0.running().cancel(&query.id, now, expires);
                status = CancelStatus::Cancelled;
            }
        }
        Ok(status)
    }

    /// The same endpoint with a ticket that holds longer.
    fn renew(&self, mut endpoint: FlightEndpoint) -> Result<FlightEndpoint, Status> {
        let ticket =
            endpoint.ticket.as_ref().ok_or_else(|| invalid("no endpoint with a ticket"))?;
        // What the other tickets stand for holds for ever.
        if let Some(promise) = self.promised(ticket)? {
            let seal = self.0.seal();
            let statement_handle = Sealed::done(promise).close(seal)?;
            let renewed = TicketStatementQuery { statement_handle };
            endpoint.ticket = Some(Ticket::new(renewed.as_any().encode_to_vec()));
            let seconds = seal.expires_at(Purpose::Ticket);
            endpoint.expiration_time = Some(Timestamp { seconds, nanos: 0 });
        }
        Ok(endpoint)
    }

    /// What the ticket of a statement promises; None for other tickets.
    fn promised(&self, ticket: &Ticket) -> Result<Option<Promise>, Status> {
        let any = Any::decode(&*ticket.ticket).map_err(|_| invalid("these bytes are no ticket"))?;
        match any.unpack::<TicketStatementQuery>() {
            Ok(Some(ticket)) => Sealed::open(self.0.seal(), &ticket.statement_handle).map(Some),
            Ok(None) => Ok(None),
            Err(_) => Err(invalid("these bytes are no ticket")),
        }
    }

    /// A statement without parameters, for the keyspace that its session has now.
    fn bound(session: &Held, text: String) -> Bound {
        Bound { text, keyspace: session.query.keyspace(), parameters: None }
    }
}

/// An endpoint at this very service.
fn endpoint(ticket: &impl ProstMessageExt) -> FlightEndpoint {
    FlightEndpoint::new().with_ticket(Ticket::new(ticket.as_any().encode_to_vec()))
}

/// A FlightInfo with one endpoint.
fn info(schema: Bytes, ticket: &impl ProstMessageExt, descriptor: FlightDescriptor) -> FlightInfo {
    let info = FlightInfo::new()
        .with_endpoint(endpoint(ticket))
        .with_descriptor(descriptor)
        .with_ordered(true);
    FlightInfo { schema, ..info }
}

/// A FlightInfo of an answer that DoGet will make again from the same command.
fn metadata_info(
    answer: Result<RecordBatch, Status>,
    command: &impl ProstMessageExt,
    request: Request<FlightDescriptor>,
) -> Info {
    let schema = ipc(&answer?.schema())?;
    Ok(Response::new(info(schema, command, request.into_inner())))
}

/// The answer of an action: a single message.
fn one_message<T: Message>(
    message: &T,
) -> Response<BoxStream<'static, Result<arrow_flight::Result, Status>>> {
    one_body(message.encode_to_vec().into())
}

/// The answer of an action: a single body.
fn one_body(body: Bytes) -> Response<BoxStream<'static, Result<arrow_flight::Result, Status>>> {
    let body = arrow_flight::Result { body };
    Response::new(stream::iter([Ok(body)]).boxed())
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    /// Gives a session to whom the guard has let in.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<BoxStream<'static, Result<HandshakeResponse, Status>>>, Status> {
        let token = self.0.sessions().start(&request)?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into() };
        let mut response: Response<BoxStream<'static, _>> =
            Response::new(stream::iter([Ok(answer)]).boxed());
        let header = format!("Bearer {token}")
            .parse()
            .map_err(|_| Status::internal("a token is no header"))?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    // Statements.

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let session = self.session(&request)?;
        no_transaction(query.transaction_id.as_ref())?;
        let bound = Self::bound(&session, query.query);
        let planned = self.plan(session, bound, &request).await?;
        self.promise(planned, request.into_inner())
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Rows {
        let session = self.session(&request)?;
        let encoder = Encoder::new(session.compression(request.metadata()));
        let query = match Sealed::open(self.0.seal(), &ticket.statement_handle)? {
            Promise::Query(query) => query,
            Promise::Count(count) => return done(Outcome::count(count), encoder),
            Promise::Message(message) => return done(Outcome::message(message), encoder),
            Promise::Decided(answers) => return done(statement::answers(&answers)?, encoder),
        };
        let fetch = self.0.running().begin(query.id.clone())?;
        let (size, own) = (Size::of(&query.bound.text), Arc::clone(&session));
        let work = async move { statement::redeem(&own, query).await };
        let planned = fetch.unless_cancelled(self.0.planning().run(size, work));
        let (sent, rows) = planned.await?;
        Ok(encode(sent, hold(fetch.rows(rows), session), encoder))
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.session(&request)?;
        no_transaction(command.transaction_id.as_ref())?;
        let bound = Self::bound(&session, command.query);
        self.update(session, bound, None).await
    }

    // Prepared statements.

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let session = self.session(&request)?;
        no_transaction(query.transaction_id.as_ref())?;
        let (form, bound) = (session.form(request.metadata()), Self::bound(&session, query.query));
        let size = Size::of(&bound.text);
        let work = async move { statement::prepare(&session, bound, form).await };
        let Prepared { bound, schema, parameters } = self.0.planning().run(size, work).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: bound.close(self.0.seal())?,
            // Drivers take a statement without a dataset schema for an update.
            dataset_schema: schema,
            parameter_schema: ipc(&parameters)?,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        _: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        // A handle holds all that there is of its statement.
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let session = self.session(&request)?;
        let handle = query.prepared_statement_handle;
        let bound = Bound::open(self.0.seal(), &handle)?;
        let Some(rows) = decode_parameters(request.into_inner()).await? else {
            return Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) });
        };
        let size = Size::of(&bound.text);
        let work = async move { statement::bind(&session, bound, rows).await };
        let updated = self.0.planning().run(size, work).await?.close(self.0.seal())?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(updated) })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let session = self.session(&request)?;
        let bound = Bound::open(self.0.seal(), &query.prepared_statement_handle)?;
        let planned = self.plan(session, bound, &request).await?;
        self.promise(planned, request.into_inner())
    }

    /// The tickets of prepared statements are those of statements: they hold what was bound.
    async fn do_get_prepared_statement(
        &self,
        _: CommandPreparedStatementQuery,
        _: Request<Ticket>,
    ) -> Rows {
        Err(invalid("a prepared statement is no ticket: ask for GetFlightInfo, and redeem its own"))
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.session(&request)?;
        let bound = Bound::open(self.0.seal(), &query.prepared_statement_handle)?;
        let rows = decode_parameters(request.into_inner()).await?;
        self.update(session, bound, rows).await
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.session(&request)?;
        let keyspace = ingest::keyspace(&session, &command);
        let text = format!("INGEST INTO {}", in_quotes(&command.table));
        let work = ingest::ingest(&session, &command, decode(request.into_inner()));
        let ended = session.query.attend_work(text, keyspace, work).await;
        ended.map_err(|error| status(&error))?
    }

    // What there is.

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(metadata::catalogs(query), &query, request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, _: Request<Ticket>) -> Rows {
        metadata::catalogs(query).map(encode_batch)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let answer = metadata::schemas(query.clone(), &self.0.database().catalog());
        metadata_info(answer, &query, request)
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, _: Request<Ticket>) -> Rows {
        metadata::schemas(query, &self.0.database().catalog()).map(encode_batch)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let session = self.session(&request)?;
        let form = session.form(request.metadata());
        let answer = metadata::tables(query.clone(), &session.query, form).await;
        metadata_info(answer, &query, request)
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> Rows {
        let session = self.session(&request)?;
        let form = session.form(request.metadata());
        metadata::tables(query, &session.query, form).await.map(encode_batch)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(metadata::table_types(query), &query, request)
    }

    async fn do_get_table_types(&self, query: CommandGetTableTypes, _: Request<Ticket>) -> Rows {
        metadata::table_types(query).map(encode_batch)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(sql_info::answer(query.clone()), &query, request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, _: Request<Ticket>) -> Rows {
        sql_info::answer(query).map(encode_batch)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let answer = metadata::primary_keys(&query, &self.0.database().catalog());
        metadata_info(answer, &query, request)
    }

    async fn do_get_primary_keys(&self, query: CommandGetPrimaryKeys, _: Request<Ticket>) -> Rows {
        metadata::primary_keys(&query, &self.0.database().catalog()).map(encode_batch)
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(Ok(metadata::foreign_keys()), &query, request)
    }

    async fn do_get_exported_keys(&self, _: CommandGetExportedKeys, _: Request<Ticket>) -> Rows {
        Ok(encode_batch(metadata::foreign_keys()))
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(Ok(metadata::foreign_keys()), &query, request)
    }

    async fn do_get_imported_keys(&self, _: CommandGetImportedKeys, _: Request<Ticket>) -> Rows {
        Ok(encode_batch(metadata::foreign_keys()))
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(Ok(metadata::foreign_keys()), &query, request)
    }

    async fn do_get_cross_reference(
        &self,
        _: CommandGetCrossReference,
        _: Request<Ticket>,
    ) -> Rows {
        Ok(encode_batch(metadata::foreign_keys()))
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Info {
        metadata_info(metadata::type_info(query), &query, request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _: Request<Ticket>,
    ) -> Rows {
        metadata::type_info(query).map(encode_batch)
    }

    // What there is not.

    async fn get_flight_info_fallback(
        &self,
        command: Command,
        _: Request<FlightDescriptor>,
    ) -> Info {
        Err(not_offered(command.type_url()))
    }

    async fn get_flight_info_substrait_plan(
        &self,
        _: CommandStatementSubstraitPlan,
        _: Request<FlightDescriptor>,
    ) -> Info {
        Err(no_substrait())
    }

    async fn do_get_fallback(&self, _: Request<Ticket>, message: Any) -> Rows {
        Err(not_offered(&message.type_url))
    }

    async fn do_put_fallback(
        &self,
        _: Request<PeekableFlightDataStream>,
        message: Any,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(not_offered(&message.type_url))
    }

    async fn do_put_error_callback(
        &self,
        _: Request<PeekableFlightDataStream>,
        _: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(invalid("the first message of a DoPut has a descriptor with a command"))
    }

    async fn do_put_substrait_plan(
        &self,
        _: CommandStatementSubstraitPlan,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(no_substrait())
    }

    async fn do_action_create_prepared_substrait_plan(
        &self,
        _: ActionCreatePreparedSubstraitPlanRequest,
        _: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        Err(no_substrait())
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        _: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        Err(no_transactions())
    }

    async fn do_action_end_transaction(
        &self,
        _: ActionEndTransactionRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        Err(no_transactions())
    }

    async fn do_action_begin_savepoint(
        &self,
        _: ActionBeginSavepointRequest,
        _: Request<Action>,
    ) -> Result<ActionBeginSavepointResult, Status> {
        Err(no_transactions())
    }

    async fn do_action_end_savepoint(
        &self,
        _: ActionEndSavepointRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        Err(no_transactions())
    }

    // Sessions, and queries at work.

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        _: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let info = FlightInfo::decode(&*query.info)
            .map_err(|error| invalid(format!("no FlightInfo: {error}")))?;
        // The numbers of this older call are those of the newer one.
        Ok(ActionCancelQueryResult { result: self.cancel(&info)? as i32 })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let session = self.session(&request)?;
        let action = request.get_ref();
        match action.r#type.as_str() {
            "SetSessionOptions" => {
                let wanted = SetSessionOptionsRequest::decode(action.body.clone())
                    .map_err(|error| invalid(error.to_string()))?;
                Ok(one_message(&option::set(&session, wanted)))
            }
            "GetSessionOptions" => Ok(one_message(&option::get(&session))),
            NAMES => {
                let (keyspace, catalog) = (session.query.keyspace(), self.0.database().catalog());
                Ok(one_body(Names::encode(keyspace, &catalog, &action.body).into()))
            }
            "CloseSession" => {
                let closed = self.0.sessions().end(&request);
                let status = if closed { CloseStatus::Closed } else { CloseStatus::NotCloseable };
                Ok(one_message(&CloseSessionResult { status: status as i32 }))
            }
            "CancelFlightInfo" => {
                let wanted = CancelFlightInfoRequest::decode(action.body.clone())
                    .map_err(|error| invalid(error.to_string()))?;
                let info =
                    wanted.info.ok_or_else(|| invalid("there is no FlightInfo to cancel"))?;
                Ok(one_message(&CancelFlightInfoResult { status: self.cancel(&info)? as i32 }))
            }
            "RenewFlightEndpoint" => {
                let wanted = RenewFlightEndpointRequest::decode(action.body.clone())
                    .map_err(|error| invalid(error.to_string()))?;
                let endpoint =
                    wanted.endpoint.ok_or_else(|| invalid("there is no endpoint to renew"))?;
                Ok(one_message(&self.renew(endpoint)?))
            }
            other => {
                let action = (other, &action.body);
                match administration::act(&session, self.0.snapshots(), action).await? {
                    Some(said) => Ok(one_body(said.into())),
                    None => Err(Status::unimplemented(format!("no action '{other}'"))),
                }
            }
        }
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

fn no_transaction(id: Option<&Bytes>) -> Result<(), Status> {
    match id {
        Some(id) if !id.is_empty() => Err(no_transactions()),
        _ => Ok(()),
    }
}

fn no_transactions() -> Status {
    Status::unimplemented(
        "there are no transactions and no savepoints: every statement takes effect by itself; leave \
         autocommit on",
    )
}

fn no_substrait() -> Status {
    Status::unimplemented("plans of Substrait are not offered: send SQL")
}

fn not_offered(type_url: &str) -> Status {
    match type_url.rsplit_once("/arrow.flight.protocol.sql.") {
        Some((_, name)) => Status::unimplemented(format!("this call takes no {name}")),
        None => invalid("these bytes are no command of Flight SQL"),
    }
}

/// The rows of something that is done.
fn done(outcome: Outcome, encoder: Encoder) -> Rows {
    let (sent, rows) = statement::result(outcome)?;
    Ok(encode(sent, rows, encoder))
}

#[cfg(test)]
pub(super) mod tests;
