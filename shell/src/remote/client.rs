//! The connection to a service, and its calls.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Action, FlightDescriptor, FlightInfo, HandshakeRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use prost::bytes::Bytes;
use tidegate_engine::Catalog;
use tidegate_engine::database::DEFAULT_KEYSPACE;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::place::{Identity, Place};
use super::wire::{NAMES, NAMES_PATIENCE, Names, Shape, error_of};
use crate::query::{
    CreatePolicy, ErrorKind, Outcome, QueryError, RowStream, Statement, create_policy,
};

/// A session at a service.
pub(crate) struct Remote {
    client: FlightServiceClient<Channel>,
    /// What says who calls.
    authorization: Option<MetadataValue<Ascii>>,
    address: String,
    known: Mutex<Known>,
}

/// Where the session is and what names there are, as of the last prompt.
struct Known {
    keyspace: String,
    catalog: Arc<Catalog>,
}

impl Remote {
    /// Connects, and logs in where a role is named.
    ///
    /// Errors: a sentence, with what may help.
    pub(crate) async fn connect(place: &Place) -> Result<Self, String> {
        let address = place.address.clone();
        let channel = place
            .endpoint()?
            .connect()
            .await
            .map_err(|error| format!("cannot connect to {address}: {}", reasons(&error)))?;
        let client = FlightServiceClient::new(channel)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let keyspace = DEFAULT_KEYSPACE.to_owned();
        let known = Mutex::new(Known { keyspace, catalog: Arc::new(Catalog::empty()) });
        let mut remote = Remote { client, authorization: None, address, known };
        let refused = |status: &Status| {
            let hint = match status.code() {
                Code::Unauthenticated => {
                    "; --user names a role, and TIDEGATE_PASSWORD has its password"
                }
                _ => "",
            };
            format!("{} refuses: {}{hint}", remote.address, status.message())
        };
        remote.authorization = match &place.identity {
            Identity::Unnamed => None,
            Identity::Role(role, password) => {
                Some(remote.log_in(role, password).await.map_err(|status| refused(&status))?)
            }
            Identity::Token(token) => Some(secret(&format!("Bearer {token}"))?),
        };
        remote.ask_names().await.map_err(|status| refused(&status))?;
        Ok(remote)
    }

    /// The header that the service knows the caller by from now on.
    async fn log_in(&self, role: &str, password: &str) -> Result<MetadataValue<Ascii>, Status> {
        let basic = format!("Basic {}", STANDARD.encode(format!("{role}:{password}")));
        let hello = stream::iter([HandshakeRequest::default()]);
        let mut request = Request::new(hello);
        let basic = secret(&basic).map_err(Status::invalid_argument)?;
        request.metadata_mut().insert("authorization", basic);
        let answer = self.client.clone().handshake(request).await?;
        let token = answer.metadata().get("authorization").cloned();
        token.ok_or_else(|| Status::internal("the handshake gave no token"))
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The keyspace of unqualified names.
    pub(super) fn keyspace(&self) -> String {
        self.known().keyspace.clone()
    }

    /// What names there are, as of the last prompt.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.known().catalog)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let headers = request.metadata_mut();
        if let Some(authorization) = &self.authorization {
            headers.insert("authorization", authorization.clone());
        }
        // One person reads one result: its rows come in one piece, in order.
        headers.insert("result.endpoints", MetadataValue::from_static("one"));
        request
    }

    /// Asks what names there are. Where nobody answers in time the old ones stay.
    pub(super) async fn refresh(&self) {
        let asked = tokio::time::timeout(NAMES_PATIENCE, self.ask_names()).await;
        if let Ok(Err(status)) = asked {
            tracing::debug!(%status, "the service does not say what names there are");
        }
    }

    async fn ask_names(&self) -> Result<(), Status> {
        let version = self.known().catalog.version().to_string();
        let body = self.act(NAMES, version.into()).await?;
        let names: Names = serde_json::from_slice(&body)
            .map_err(|error| Status::internal(format!("names that cannot be read: {error}")))?;
        let mut known = self.known();
        known.keyspace = names.keyspace;
        if let Some(catalog) = names.catalog {
            known.catalog = catalog;
        }
        Ok(())
    }

    /// The first answer of an action.
    async fn act(&self, action: &str, body: Bytes) -> Result<Bytes, Status> {
        let action = Action { r#type: action.to_owned(), body };
        let mut answers = self.client.clone().do_action(self.request(action)).await?.into_inner();
        let answer = answers.message().await?;
        answer.map(|answer| answer.body).ok_or_else(|| Status::internal("an action without answer"))
    }

    /// Runs a statement there.
    pub(super) async fn run(&self, statement: &Statement) -> Result<Outcome, QueryError> {
        match create_policy(statement) {
            Some(policy) => self.upload(policy).await,
            None => self.send(statement).await,
        }
    }

    async fn send(&self, statement: &Statement) -> Result<Outcome, QueryError> {
        let text = statement.with_passwords().to_owned();
        let command = CommandStatementQuery { query: text, transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let info = self.client.clone().get_flight_info(self.request(descriptor)).await;
        let info = info.map_err(|status| error_of(&status))?.into_inner();
        match Shape::of(&info.app_metadata) {
            Shape::Count => Ok(Outcome::count(u64::try_from(info.total_records).unwrap_or(0))),
            Shape::Rows => {
                let schema = schema_of(&info)?;
                Ok(Outcome::rows(schema, self.rows(info)))
            }
            Shape::Decided => match self.all(info).await?.pop() {
                Some(answers) => Ok(Outcome::decided(answers)),
                None => Err(QueryError::new(ErrorKind::Internal, "a write with IF without answer")),
            },
            Shape::Message => {
                let batches = self.all(info).await?;
                let texts = batches.iter().flat_map(|batch| batch.columns().first());
                let texts: Vec<String> = texts.flat_map(lines).collect();
                Ok(Outcome::message(texts.join("\n")))
            }
        }
    }

    async fn all(&self, info: FlightInfo) -> Result<Vec<RecordBatch>, QueryError> {
        self.rows(info).try_collect().await
    }

    /// The rows of all endpoints, one after the other. Dropping them cancels the query.
    fn rows(&self, info: FlightInfo) -> RowStream {
        let tickets = info.endpoint.into_iter().filter_map(|endpoint| endpoint.ticket);
        let calls: Vec<_> = tickets.map(|ticket| self.request(ticket)).collect();
        let client = self.client.clone();
        let each = stream::iter(calls).then(move |call| {
            let mut client = client.clone();
            async move {
                let data = client.do_get(call).await.map_err(FlightError::from)?.into_inner();
                let data = data.map_err(FlightError::from);
                Ok::<_, FlightError>(FlightRecordBatchStream::new_from_flight_data(data))
            }
        });
        each.try_flatten().map_err(|error| of_flight(&error)).boxed()
    }

    /// Sends the component that a CREATE POLICY names: its file is on this machine.
    async fn upload(&self, policy: CreatePolicy) -> Result<Outcome, QueryError> {
        self.refresh().await;
        if let Some(said) = policy.nothing_to_do(&self.catalog()) {
            return Ok(Outcome::message(said));
        }
        let component = crate::query::read_component(Path::new(&policy.file));
        let component = component.map_err(|error| error.at(policy.file_span))?;
        let body = upload_row(&policy, component).map_err(|error| {
            QueryError::new(ErrorKind::Internal, format!("the policy cannot be sent: {error}"))
        })?;
        let said = self.act("UploadPolicy", body.into()).await;
        let said = said.map_err(|status| error_of(&status).at(policy.name.span))?;
        Ok(Outcome::message(String::from_utf8_lossy(&said).into_owned()))
    }
}

/// A row of Arrow as an IPC stream, which the action takes.
fn upload_row(
    policy: &CreatePolicy,
    component: Vec<u8>,
) -> Result<Vec<u8>, arrow::error::ArrowError> {
    let text = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let mut columns = vec![
        ("name", text(&policy.name.value)),
        ("component", Arc::new(BinaryArray::from_vec(vec![&component])) as ArrayRef),
    ];
    if let Some(sha256) = &policy.sha256 {
        columns.push(("sha256", text(sha256)));
    }
    if !policy.parameters.is_empty() {
        let fields = policy
            .parameters
            .iter()
            .map(|(name, value)| (Arc::new(Field::new(name, DataType::Utf8, false)), text(value)));
        let fields: Vec<_> = fields.collect();
        columns.push(("parameters", Arc::new(StructArray::from(fields)) as ArrayRef));
    }
    let row = RecordBatch::try_from_iter(columns)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &row.schema())?;
    writer.write(&row)?;
    writer.into_inner()
}

fn schema_of(info: &FlightInfo) -> Result<SchemaRef, QueryError> {
    let schema = info.clone().try_decode_schema();
    schema.map(Arc::new).map_err(|error| {
        QueryError::new(ErrorKind::Internal, format!("a schema that cannot be read: {error}"))
    })
}

/// The values of a column of text.
fn lines(column: &ArrayRef) -> Vec<String> {
    let texts = column.as_any().downcast_ref::<StringArray>();
    texts.into_iter().flatten().flatten().map(str::to_owned).collect()
}

fn of_flight(error: &FlightError) -> QueryError {
    match error {
        FlightError::Tonic(status) => error_of(status),
        other => QueryError::new(ErrorKind::Internal, other.to_string()),
    }
}

/// A header that no log shows.
fn secret(text: &str) -> Result<MetadataValue<Ascii>, String> {
    let value: Result<MetadataValue<Ascii>, _> = text.parse();
    let mut value = value.map_err(|_| "a token has only printable ASCII characters".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error with what it comes from: the outer ones say little.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}
