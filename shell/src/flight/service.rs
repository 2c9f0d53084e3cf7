//! The calls of Flight SQL, each handed to the module that answers it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, Any, CommandGetCatalogs, CommandGetCrossReference,
    CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys,
    CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt,
    SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use prost::Message;
use prost::bytes::Bytes;
use tidegate_engine::Database;
use tonic::{Request, Response, Status, Streaming};

use super::error::{invalid, status};
use super::session::{Prepared, Sessions};
use super::session_option::{self, CloseSessionResult, CloseStatus, SetSessionOptionsRequest};
use super::statement::{self, Planned};
use super::stream::{DoGet, decode, decode_parameters, encode, encode_batch};
use super::{ingest, metadata, sql_info};
use crate::query::QueryMemory;

/// The service; one for all connections.
///
/// Behind the trait object are types of which the compiler takes seconds to prove that threads may
/// share them (syntax trees, plans). It is proved once, where a service is made; of `Service` itself,
/// of which every call must know it, it is plain.
pub struct Service(Arc<dyn State>);

/// What the calls work on.
trait State: Send + Sync {
    fn database(&self) -> &Database;
    fn sessions(&self) -> &Sessions;
}

struct Own {
    database: Database,
    sessions: Sessions,
}

impl State for Own {
    fn database(&self) -> &Database {
        &self.database
    }

    fn sessions(&self) -> &Sessions {
        &self.sessions
    }
}

type Info = Result<Response<FlightInfo>, Status>;
type Rows = Result<Response<DoGet>, Status>;

impl Service {
    /// A service of `database` without any session.
    pub(super) fn new(database: Database, memory: QueryMemory) -> Result<Self, Status> {
        let sessions = Sessions::new(database.clone(), memory)?;
        Ok(Service(Arc::new(Own { database, sessions })))
    }
}

/// A FlightInfo with one endpoint at this very service.
fn info(
    schema: &Schema,
    ticket: &impl ProstMessageExt,
    rows: Option<i64>,
    request: Request<FlightDescriptor>,
) -> Info {
    let ticket = Ticket::new(ticket.as_any().encode_to_vec());
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(|error| Status::internal(error.to_string()))?
        .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
        .with_descriptor(request.into_inner())
        .with_total_records(rows.unwrap_or(-1))
        .with_ordered(true);
    Ok(Response::new(info))
}

/// A FlightInfo of an answer that DoGet will make again from the same command.
fn metadata_info(
    answer: Result<RecordBatch, Status>,
    command: &impl ProstMessageExt,
    request: Request<FlightDescriptor>,
) -> Info {
    info(&answer?.schema(), command, None, request)
}

fn ipc(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options)
        .try_into()
        .map_err(|error: arrow::error::ArrowError| Status::internal(error.to_string()))?;
    Ok(bytes)
}

/// The messages of one action: a single body.
fn one_body<T: Message>(
    message: &T,
) -> Response<BoxStream<'static, Result<arrow_flight::Result, Status>>> {
    let body = arrow_flight::Result { body: message.encode_to_vec().into() };
    Response::new(stream::iter([Ok(body)]).boxed())
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    /// Takes any credentials or none and gives a session: only this machine can connect.
    async fn do_handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<BoxStream<'static, Result<HandshakeResponse, Status>>>, Status> {
        let token = self.0.sessions().start()?;
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
        let session = self.0.sessions().of(request.metadata())?;
        no_transaction(query.transaction_id.as_ref())?;
        let Planned { schema, ticket, rows } = statement::plan(&session, &query.query).await?;
        let ticket = ticket.ok_or_else(|| Status::internal("a statement without a ticket"))?;
        let ticket = TicketStatementQuery { statement_handle: ticket.encode().into() };
        info(&schema, &ticket, rows, request)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Rows {
        let session = self.0.sessions().of(request.metadata())?;
        let ticket = statement::Ticket::decode(&ticket.statement_handle)?;
        let (schema, rows) = statement::redeem(&session, ticket).await?;
        Ok(encode(schema, rows))
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.0.sessions().of(request.metadata())?;
        no_transaction(command.transaction_id.as_ref())?;
        let statement = statement::parse(&command.query)?;
        let outcome = session.query.run(&statement).await.map_err(|error| status(&error))?;
        Ok(statement::written(outcome))
    }

    // Prepared statements.

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let session = self.0.sessions().of(request.metadata())?;
        no_transaction(query.transaction_id.as_ref())?;
        let statement = statement::parse(&query.query)?;
        let description =
            session.query.describe(&statement).await.map_err(|error| status(&error))?;
        // Drivers take a statement without a dataset schema for an update.
        let dataset_schema =
            if description.returns_rows { ipc(&description.schema)? } else { Bytes::new() };
        let parameter_schema = ipc(&description.parameters)?;
        let prepared = Prepared { statement, description, parameters: None };
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: session.prepare(prepared).into(),
            dataset_schema,
            parameter_schema,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        // A statement of a session that is closed is closed too.
        if let Ok(session) = self.0.sessions().of(request.metadata()) {
            session.close(&query.prepared_statement_handle);
        }
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let session = self.0.sessions().of(request.metadata())?;
        let handle = query.prepared_statement_handle;
        if let Some(parameters) = decode_parameters(request.into_inner()).await? {
            session.bind(&handle, parameters)?;
        }
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let session = self.0.sessions().of(request.metadata())?;
        let prepared = session.prepared(&query.prepared_statement_handle)?;
        let Planned { schema, ticket, rows } =
            statement::plan_prepared(&session, &prepared).await?;
        match ticket {
            None => info(&schema, &query, rows, request),
            Some(ticket) => {
                let ticket = TicketStatementQuery { statement_handle: ticket.encode().into() };
                info(&schema, &ticket, rows, request)
            }
        }
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Rows {
        let session = self.0.sessions().of(request.metadata())?;
        let prepared = session.prepared(&query.prepared_statement_handle)?;
        let outcome =
            statement::run_prepared(&session, &prepared, prepared.parameters.as_ref()).await?;
        let (schema, rows) = outcome.into_rows().map_err(|error| status(&error))?;
        Ok(encode(schema, rows))
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.0.sessions().of(request.metadata())?;
        let prepared = session.prepared(&query.prepared_statement_handle)?;
        let sent = decode_parameters(request.into_inner()).await?;
        let parameters = sent.as_ref().or(prepared.parameters.as_ref());
        let outcome = statement::run_prepared(&session, &prepared, parameters).await?;
        Ok(statement::written(outcome))
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.0.sessions().of(request.metadata())?;
        ingest::ingest(&session, &command, decode(request.into_inner())).await
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
        let answer = metadata::tables(query.clone(), &self.0.database().catalog());
        metadata_info(answer, &query, request)
    }

    async fn do_get_tables(&self, query: CommandGetTables, _: Request<Ticket>) -> Rows {
        metadata::tables(query, &self.0.database().catalog()).map(encode_batch)
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

    async fn do_get_fallback(&self, _: Request<Ticket>, message: Any) -> Rows {
        Err(Status::unimplemented(format!("no answer to {}", message.type_url)))
    }

    // Sessions.

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let action = |name: &str, description: &str| {
            Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() })
        };
        Some(vec![
            action("SetSessionOptions", "Sets options of the session: schema, ingest.primary_key"),
            action("GetSessionOptions", "Gives the options of the session"),
            action("CloseSession", "Ends the session and its prepared statements"),
        ])
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let session = self.0.sessions().of(request.metadata())?;
        let own = self.0.sessions().is_own(request.metadata());
        let action = request.get_ref();
        match action.r#type.as_str() {
            "SetSessionOptions" if !own => Err(Status::failed_precondition(
                "options need a session of their own: connect with any user name",
            )),
            "SetSessionOptions" => {
                let wanted = SetSessionOptionsRequest::decode(action.body.clone())
                    .map_err(|error| invalid(error.to_string()))?;
                Ok(one_body(&session_option::set(&session, wanted)))
            }
            "GetSessionOptions" => Ok(one_body(&session_option::get(&session))),
            "CloseSession" => {
                let closed = self.0.sessions().end(request.metadata());
                let status = if closed { CloseStatus::Closed } else { CloseStatus::NotCloseable };
                Ok(one_body(&CloseSessionResult { status: status as i32 }))
            }
            other => Err(Status::unimplemented(format!("no action '{other}'"))),
        }
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

fn no_transaction(id: Option<&Bytes>) -> Result<(), Status> {
    match id {
        Some(id) if !id.is_empty() => Err(Status::unimplemented("there are no transactions")),
        _ => Ok(()),
    }
}
