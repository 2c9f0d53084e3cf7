//! What clients reach: the calls of Flight that Flight SQL's own dispatch leaves out, and its
//! errors in words.
//!
//! Invariant: what [`Front`] does not answer itself it hands on as it came. `list_actions` names
//! what works and nothing else.

use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::FlightSqlService;
use arrow_flight::sql::{
    Any, CommandPreparedStatementQuery, CommandStatementQuery, ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, PollInfo, SchemaResult, Ticket,
};
use futures::{StreamExt, stream};
use prost::Message;
use tidegate_engine::schema::in_quotes;
use tonic::{Code, Request, Response, Status, Streaming};

use super::administration;
use super::error::invalid;
use super::exchange::exchange;
use super::service::Service;
use super::session::option::CATALOG;
use crate::remote::wire::NAMES;

/// What `DoAction` does, with what it takes and gives; those of operators are beside them.
const ACTIONS: [(&str, &str); 9] = [
    (
        "CreatePreparedStatement",
        "Prepares a statement: ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult",
    ),
    ("ClosePreparedStatement", "Forgets a prepared statement: ActionClosePreparedStatementRequest"),
    ("CancelQuery", "Cancels a query: ActionCancelQueryRequest, ActionCancelQueryResult"),
    ("CancelFlightInfo", "Cancels a query: CancelFlightInfoRequest, CancelFlightInfoResult"),
    ("RenewFlightEndpoint", "Gives a ticket more time: RenewFlightEndpointRequest, FlightEndpoint"),
    (
        "SetSessionOptions",
        "Sets options of the session: schema, service_level, ingest.primary_key, result.timestamp, \
         result.varint, result.duration, result.endpoints, result.compression",
    ),
    ("GetSessionOptions", "Gives the options of the session"),
    ("CloseSession", "Ends the session"),
    (
        NAMES,
        "Gives the keyspace of the session, and the catalog unless its version is the one in the \
         body: JSON",
    ),
];

/// The service as clients see it.
pub(super) struct Front(pub Service);

#[tonic::async_trait]
impl FlightService for Front {
    type HandshakeStream = <Service as FlightService>::HandshakeStream;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = <Service as FlightService>::DoGetStream;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        self.0.handshake(request).await
    }

    /// Every table and view that the caller may read, or those of the keyspace that the expression
    /// names.
    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        let keyspace = String::from_utf8(request.get_ref().expression.to_vec())
            .map_err(|_| invalid("the expression of ListFlights is the name of a keyspace"))?;
        let catalog = self.0.state().database().catalog();
        if !keyspace.is_empty() && !catalog.has_keyspace(&keyspace) {
            return Err(Status::not_found(format!("keyspace '{keyspace}' does not exist")));
        }
        let tables = catalog.all_tables().map(|table| (&table.keyspace, &table.name));
        let views = catalog.all_views().map(|view| (&view.keyspace, &view.name));
        let tables: Vec<FlightDescriptor> = tables
            .chain(views)
            .filter(|(of, _)| keyspace.is_empty() || **of == keyspace)
            .map(|(of, name)| FlightDescriptor::new_path(vec![of.clone(), name.clone()]))
            .collect();
        let (metadata, extensions, _) = request.into_parts();
        let service = self.0.clone();
        let infos = stream::iter(tables).filter_map(move |table| {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), table);
            let service = service.clone();
            async move {
                match of_table(&service, request).await {
                    Ok(info) => Some(Ok(info.into_inner())),
                    // Dropped since the list was made, or for others.
                    Err(error)
                        if matches!(error.code(), Code::NotFound | Code::PermissionDenied) =>
                    {
                        None
                    }
                    Err(error) => Some(Err(error)),
                }
            }
        });
        Ok(Response::new(infos.boxed()))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        match request.get_ref().r#type() {
            DescriptorType::Path => of_table(&self.0, request).await,
            _ => self.0.get_flight_info(request).await.map_err(in_words),
        }
    }

    /// A statement is planned, or a write done, when its FlightInfo is there: one poll is enough.
    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let info = self.get_flight_info(request).await?.into_inner();
        let expiration_time = info.endpoint.first().and_then(|endpoint| endpoint.expiration_time);
        let info = Some(info);
        Ok(Response::new(PollInfo {
            info,
            flight_descriptor: None,
            progress: Some(1.0),
            expiration_time,
        }))
    }

    /// The schema that GetFlightInfo would tell; a write is not done.
    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let schema = match request.get_ref().r#type() {
            DescriptorType::Path => None,
            _ => {
                let command = Any::decode(&*request.get_ref().cmd).map_err(|_| undecodable())?;
                if command.is::<CommandStatementQuery>() {
                    let command: CommandStatementQuery = unpack(&command)?;
                    Some(self.0.schema_of_statement(command.query, &request).await?)
                } else if command.is::<CommandPreparedStatementQuery>() {
                    let command: CommandPreparedStatementQuery = unpack(&command)?;
                    let handle = command.prepared_statement_handle;
                    Some(self.0.schema_of_prepared(&handle, &request).await?)
                } else {
                    None
                }
            }
        };
        let schema = match schema {
            Some(schema) => schema,
            // Of everything else the FlightInfo changes nothing.
            None => self.get_flight_info(request).await?.into_inner().schema,
        };
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        self.0.do_get(request).await.map_err(in_words)
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.0.do_put(request).await.map_err(in_words)
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        self.0.do_action(request).await.map_err(in_words)
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions = ACTIONS.into_iter().chain(administration::ACTIONS);
        let actions = actions.map(|(name, description)| {
            Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() })
        });
        Ok(Response::new(stream::iter(actions).boxed()))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        exchange(&self.0, request).await
    }
}

/// The FlightInfo of the table that a path names: `[keyspace, table]`, with the catalog before it
/// where a client wants that, or `[table]` of the session's keyspace.
async fn of_table(
    service: &Service,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>, Status> {
    let path = &request.get_ref().path;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let table = match path.as_slice() {
        [table] => in_quotes(table),
        [keyspace, table] | [CATALOG, keyspace, table] => {
            format!("{}.{}", in_quotes(keyspace), in_quotes(table))
        }
        _ => return Err(invalid("a path is [keyspace, table] or [table]")),
    };
    let query =
        CommandStatementQuery { query: format!("SELECT * FROM {table}"), transaction_id: None };
    service.get_flight_info_statement(query, request).await
}

fn unpack<M: ProstMessageExt>(command: &Any) -> Result<M, Status> {
    command.unpack().ok().flatten().ok_or_else(undecodable)
}

fn undecodable() -> Status {
    invalid("these bytes are no command of Flight SQL")
}

/// The dispatch of Flight SQL tells of what it cannot decode as it tells a programmer, and partly
/// as if it were a fault of the service; it is one of the request.
fn in_words(error: Status) -> Status {
    let from_dispatch = match error.code() {
        Code::InvalidArgument => error.message().starts_with("DecodeError {"),
        Code::Internal => error.message().starts_with("ParseError(\""),
        _ => false,
    };
    if from_dispatch { undecodable() } else { error }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use arrow_flight::IpcMessage;
    use arrow_flight::sql::ActionCreatePreparedStatementRequest;
    use futures::TryStreamExt;
    use tidegate_engine::clock::SimulatedClock;

    use super::*;
    use crate::flight::service::tests::started;
    use crate::query::Session;

    #[test]
    fn what_cannot_be_decoded_is_the_requests_fault() {
        let garbage = Any::decode(&b"\xff\xff"[..]).unwrap_err();
        for error in [
            Status::invalid_argument(format!("{garbage:?}")),
            Status::internal("ParseError(\"Unable to decode Any value: x\")"),
        ] {
            let error = in_words(error);
            assert_eq!(error.code(), Code::InvalidArgument);
            assert_eq!(error.message(), "these bytes are no command of Flight SQL");
        }
        let own = in_words(Status::internal("a bug"));
        assert_eq!((own.code(), own.message()), (Code::Internal, "a bug"));
    }

    /// A front, and a session that may do everything.
    async fn front(directory: &tempfile::TempDir) -> (Front, Session) {
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let front = Front(started(directory.path(), &clock).await);
        let session = front.0.state().sessions().named("shell");
        for text in [
            "CREATE KEYSPACE k2",
            "CREATE TABLE t (a int PRIMARY KEY)",
            "CREATE TABLE k2.t (b int PRIMARY KEY)",
            "CREATE TABLE k2.\"Select\" (c int PRIMARY KEY)",
            "CREATE VIEW k2.w AS SELECT b AS d FROM k2.t",
        ] {
            session.execute(text).await.unwrap();
        }
        (front, session)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_path_names_a_table_or_a_view_by_its_exact_name() {
        let directory = tempfile::tempdir().unwrap();
        let (front, _) = front(&directory).await;
        for (path, wanted) in [
            (&["t"][..], Ok("a")),
            (&["default", "t"], Ok("a")),
            (&["k2", "t"], Ok("b")),
            (&[CATALOG, "k2", "t"], Ok("b")),
            (&["k2", "Select"], Ok("c")),
            (&["k2", "w"], Ok("d")),
            (&["k2", "T"], Err(Code::NotFound)),
            (&["k2", "select"], Err(Code::NotFound)),
            (&["K2", "t"], Err(Code::NotFound)),
            (&["other", "k2", "t"], Err(Code::InvalidArgument)),
            (&[], Err(Code::InvalidArgument)),
        ] {
            let names = path.iter().map(|name| (*name).to_owned()).collect();
            let request = Request::new(FlightDescriptor::new_path(names));
            let told = front.get_schema(request).await.map(|answer| {
                let SchemaResult { schema } = answer.into_inner();
                let schema = Schema::try_from(IpcMessage(schema)).unwrap();
                schema.field(0).name().clone()
            });
            let told = told.as_deref().map_err(|refused| refused.code());
            assert_eq!(told, wanted, "{path:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tables_and_views_are_listed_of_all_keyspaces_or_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let (front, session) = front(&directory).await;
        let listed = async |keyspace: &'static str| {
            let criteria = Criteria { expression: keyspace.into() };
            let infos = front.list_flights(Request::new(criteria)).await;
            let infos = infos.map_err(|refused| refused.code())?.into_inner();
            let infos: Vec<FlightInfo> = infos.try_collect().await.unwrap();
            let name = |info: &FlightInfo| info.flight_descriptor.as_ref().unwrap().path.join(".");
            let mut names: Vec<String> = infos.iter().map(name).collect();
            names.sort();
            Ok::<_, Code>(names)
        };
        let of_k2 = ["k2.Select", "k2.t", "k2.w"];
        assert_eq!(listed("k2").await.unwrap(), of_k2);
        assert_eq!(listed("").await.unwrap(), [&["default.t"][..], &of_k2].concat());
        assert_eq!(listed("k3").await, Err(Code::NotFound));
        session.execute("CREATE KEYSPACE k3").await.unwrap();
        assert_eq!(listed("k3").await, Ok(Vec::new()));
    }

    /// As those of the same text that nobody prepared.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_columns_of_a_prepared_statement_are_told_and_it_is_not_run() {
        let directory = tempfile::tempdir().unwrap();
        let (front, session) = front(&directory).await;
        let schema_of = async |command: Any| {
            let descriptor = FlightDescriptor::new_cmd(command.encode_to_vec());
            let told = front.get_schema(Request::new(descriptor)).await;
            let SchemaResult { schema } = told.unwrap().into_inner();
            let schema = Schema::try_from(IpcMessage(schema)).unwrap();
            schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<String>>()
        };
        for (text, wanted) in [
            ("SELECT a AS x, a + 1 AS y FROM t", &["x", "y"][..]),
            ("SELECT a FROM t WHERE a = ?", &["a"]),
            ("SELECT b FROM k2.t WHERE b + 0 = ?", &["b"]),
            ("INSERT INTO t (a) VALUES (1)", &["count"]),
            ("INSERT INTO t (a) VALUES (1) IF NOT EXISTS", &["[applied]", "a"]),
            ("DROP TABLE t", &["count"]),
        ] {
            let query = text.to_owned();
            let create =
                ActionCreatePreparedStatementRequest { query: query.clone(), transaction_id: None };
            let action = Request::new(Action::new("CreatePreparedStatement", ""));
            let made = front.0.do_action_create_prepared_statement(create, action).await.unwrap();
            let prepared_statement_handle = made.prepared_statement_handle;
            let prepared = CommandPreparedStatementQuery { prepared_statement_handle };
            assert_eq!(schema_of(prepared.as_any()).await, wanted, "{text}");
            // Parameters have no values yet.
            let bare = CommandStatementQuery { query, transaction_id: None };
            assert_eq!(schema_of(bare.as_any()).await, wanted, "{text}");
        }
        let rows = session.execute("SELECT a FROM t").await.unwrap().collect().await.unwrap();
        assert!(rows.iter().all(|rows| rows.num_rows() == 0), "nothing was written");
        let forged = CommandPreparedStatementQuery { prepared_statement_handle: "x".into() };
        let descriptor = FlightDescriptor::new_cmd(forged.as_any().encode_to_vec());
        let refused = front.get_schema(Request::new(descriptor)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
}
