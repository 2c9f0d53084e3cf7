//! Endpoints that are renewed, queries that are cancelled and sessions that are closed, by a clock
//! that is moved by hand.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_engine::clock::{Clock, SimulatedClock};
use tonic::Code;

use super::*;
use crate::flight::connections::{Connection, Link};
use crate::flight::outgoing::{Compression, Endpoints, Form, OPTIONS};
use crate::flight::session::option::{ErrorValue, OptionValue, SessionOptionValue};
use crate::flight::session::tests::database_by;
use crate::flight::ticket::Told;
use crate::memory::MemoryWishes;

/// How long a ticket holds.
const LIFE: Duration = Duration::from_secs(3600);
/// The least that a ticket knows of time.
const SECOND: Duration = Duration::from_secs(1);

/// A service of a new database, with this clock.
pub(in crate::flight) async fn started(directory: &Path, clock: &Arc<SimulatedClock>) -> Service {
    advertised_as(None, directory, clock).await
}

/// The same, which says of its results that they are at this place.
async fn advertised_as(
    place: Option<&str>,
    directory: &Path,
    clock: &Arc<SimulatedClock>,
) -> Service {
    let database = database_by(clock, directory).await;
    let memory = MemoryPlan::new(MemoryWishes::default(), 1, None).unwrap();
    let advertised = place.map(str::to_owned);
    let offer = Offer { ticket_key: [1; 32], snapshots: None, advertised, cluster: None };
    Service::new(database, &memory, offer).unwrap()
}

fn query() -> Sealed {
    let bound = Bound { text: "SELECT 1".into(), keyspace: "default".into(), parameters: None };
    Sealed::query(bound, Told::Schema(Bytes::new()), Form::default()).unwrap()
}

fn id_of(ticket: &Sealed) -> Bytes {
    match &ticket.promise {
        Some(Promise::Query(query)) => query.id.clone(),
        other => panic!("no query: {other:?}"),
    }
}

fn endpoint_of(service: &Service, ticket: &Sealed) -> FlightEndpoint {
    let statement_handle = ticket.close(service.0.seal()).unwrap();
    endpoint(&TicketStatementQuery { statement_handle })
}

/// What the ticket of an endpoint promises now, or the code that it is refused with.
fn promised(service: &Service, endpoint: &FlightEndpoint) -> Result<Option<Promise>, Code> {
    let ticket = endpoint.ticket.as_ref().unwrap();
    service.promised(ticket).map_err(|refused| refused.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_endpoint_holds_for_as_long_as_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    for ticket in [
        query(),
        Sealed::done(Promise::Count(3)),
        Sealed::done(Promise::Message("Table t dropped.".into())),
    ] {
        let first = endpoint_of(&service, &ticket);
        clock.advance(LIFE / 2);
        let renewed = service.renew(first.clone()).unwrap();
        let expires = renewed.expiration_time.as_ref().map(|time| time.seconds);
        assert_eq!(expires, Some(clock.wall_seconds() + LIFE.as_secs() as i64));
        clock.advance(LIFE / 2 + SECOND);
        assert_eq!(promised(&service, &first), Err(Code::Unauthenticated), "it is as it was");
        let late = service.renew(first).unwrap_err();
        assert_eq!(late.code(), Code::Unauthenticated, "{late}");
        clock.advance(LIFE / 2 - SECOND);
        assert_eq!(promised(&service, &renewed), Ok(ticket.promise), "until the last second");
        clock.advance(SECOND);
        assert_eq!(promised(&service, &renewed), Err(Code::Unauthenticated));
    }
    // What stands for no statement never expires, and comes back as it is.
    let other = endpoint(&CommandGetCatalogs {});
    clock.advance(100 * LIFE);
    assert_eq!(service.renew(other.clone()).unwrap(), other);
    let none = service.renew(FlightEndpoint::new()).unwrap_err();
    assert_eq!(none.code(), Code::InvalidArgument, "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_of_an_info_are_cancelled_and_what_is_done_stays_done() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let info = |tickets: &[&Sealed]| {
        let endpoint = tickets.iter().map(|ticket| endpoint_of(&service, ticket)).collect();
        FlightInfo { endpoint, ..FlightInfo::new() }
    };
    let done = Sealed::done(Promise::Count(3));
    let [one, other, last] = [(); 3].map(|()| query());
    for nothing in [info(&[]), info(&[&done])] {
        assert_eq!(service.cancel(&nothing).unwrap(), CancelStatus::NotCancellable);
    }
    let both = info(&[&one, &done, &other]);
    for _ in 0..2 {
        assert_eq!(service.cancel(&both).unwrap(), CancelStatus::Cancelled);
    }
    let begin = |ticket: &Sealed| service.0.running().begin(id_of(ticket)).err();
    for cancelled in [&one, &other] {
        assert_eq!(begin(cancelled).map(|refused| refused.code()), Some(Code::Cancelled));
    }
    assert!(begin(&last).is_none(), "nobody has cancelled it");
    // A ticket that has expired names no query.
    let late = info(&[&last]);
    clock.advance(LIFE + SECOND);
    assert_eq!(service.cancel(&late).unwrap_err().code(), Code::Unauthenticated);
    assert!(begin(&last).is_none());
}

/// A call on a connection, with the token of a session where it has one.
fn call<T>(connection: u64, token: Option<&str>, body: T) -> Request<T> {
    let mut request = Request::new(body);
    let connection = Connection(connection);
    request.extensions_mut().insert(Link { connection, ..Link::default() });
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    request
}

/// The answer of an action, or the code that it is refused with.
async fn act<M: Message + Default>(
    service: &Service,
    (connection, token): (u64, Option<&str>),
    (action, body): (&str, Vec<u8>),
) -> Result<M, Code> {
    let request = call(connection, token, Action::new(action, body));
    let answer = service.do_action_fallback(request).await.map_err(|refused| refused.code())?;
    let mut bodies = answer.into_inner();
    let first = bodies.next().await.expect("an answer has a body").unwrap();
    assert!(bodies.next().await.is_none(), "one body");
    Ok(M::decode(first.body).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_closed_is_gone_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let sessions = service.0.sessions();
    (1..=2).for_each(|connection| sessions.connection_opened(Connection(connection)));
    let tokens = [(); 2].map(|()| sessions.start(&call(1, None, ())).unwrap());
    let [one, other] = tokens.each_ref().map(String::as_str);
    let keyspace = |connection, token: Option<&str>| {
        let session = service.session(&call(connection, token, ()));
        session.map(|session| session.query.keyspace()).map_err(|refused| refused.code())
    };
    let places = [(1, None), (2, None), (1, Some(one)), (2, Some(other))];
    for (connection, token) in places {
        let session = service.session(&call(connection, token, ())).unwrap();
        session.query.execute("USE system").await.unwrap();
    }
    let close = async |place: (u64, Option<&str>)| {
        let closed = act::<CloseSessionResult>(&service, place, ("CloseSession", Vec::new())).await;
        closed.map(|closed| closed.status)
    };
    // By whichever connection the token comes.
    assert_eq!(close((2, Some(one))).await, Ok(CloseStatus::Closed as i32));
    assert_eq!(keyspace(1, Some(one)), Err(Code::Unauthenticated));
    assert_eq!(close((1, Some(one))).await, Err(Code::Unauthenticated));
    for (connection, token) in [places[0], places[1], places[3]] {
        assert_eq!(keyspace(connection, token).as_deref(), Ok("system"), "{connection}");
    }
    // That of a connection begins anew with its next call.
    assert_eq!(close((1, None)).await, Ok(CloseStatus::Closed as i32));
    assert_eq!(keyspace(1, None).as_deref(), Ok("default"));
    assert_eq!(keyspace(2, None).as_deref(), Ok("system"));
    assert_eq!(keyspace(1, Some(other)).as_deref(), Ok("system"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_options_those_that_cannot_be_set_are_told_with_why_and_the_others_are_set() {
    use OptionValue::{Boolean, Float, Integer, Text};
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let text = |text: &str| Some(Text(text.to_owned()));
    let set = async |options: Vec<(&str, Option<OptionValue>)>| {
        let value = |option_value| SessionOptionValue { option_value };
        let options = options.into_iter().map(|(name, of)| (name.to_owned(), value(of)));
        let body = SetSessionOptionsRequest { session_options: options.collect() };
        let body = ("SetSessionOptions", body.encode_to_vec());
        let told = act::<option::SetSessionOptionsResult>(&service, (1, None), body).await;
        let mut errors: Vec<(String, i32)> =
            told.unwrap().errors.into_iter().map(|(name, error)| (name, error.value)).collect();
        errors.sort();
        errors
    };
    for (name, value, wanted) in [
        ("catalog", text("other"), ErrorValue::InvalidValue),
        ("catalog", None, ErrorValue::InvalidValue),
        ("schema", text("absent"), ErrorValue::InvalidValue),
        ("schema", None, ErrorValue::InvalidValue),
        ("schema", Some(Boolean(true)), ErrorValue::InvalidValue),
        ("service_level", text("absent"), ErrorValue::InvalidValue),
        ("service_level", Some(Integer(1)), ErrorValue::InvalidValue),
        ("result.timestamp", text("Naive"), ErrorValue::InvalidValue),
        ("result.varint", text("interval"), ErrorValue::InvalidValue),
        ("result.duration", text("decimal"), ErrorValue::InvalidValue),
        ("result.endpoints", text("2"), ErrorValue::InvalidValue),
        ("result.endpoints", Some(Float(1.0)), ErrorValue::InvalidValue),
        ("result", text("naive"), ErrorValue::InvalidName),
        ("Schema", text("system"), ErrorValue::InvalidName),
    ] {
        let told = set(vec![(name, value), ("ingest.primary_key", text(name))]).await;
        assert_eq!(told, [(name.to_owned(), wanted as i32)], "{name}");
        let get = ("GetSessionOptions", Vec::new());
        let got = act::<option::GetSessionOptionsResult>(&service, (1, None), get).await.unwrap();
        let found = |name: &str| got.session_options.get(name).map(|of| of.option_value.clone());
        assert_eq!(found("ingest.primary_key"), Some(text(name)), "beside {name}");
        assert_eq!(found("catalog"), Some(text("tidegate")), "{name}");
        assert_eq!(found("schema"), Some(text("default")), "{name}");
        assert_eq!(found("service_level"), Some(text("default")), "{name}");
        assert_eq!(got.session_options.len(), 4, "{name}");
    }
    for (name, values) in OPTIONS {
        for value in values.iter().copied() {
            assert!(set(vec![(name, text(value))]).await.is_empty(), "{name} = {value}");
        }
        assert!(set(vec![(name, None)]).await.is_empty(), "{name}");
    }
}

/// What a client is told that asks for a statement.
async fn told(service: &Service, text: &str) -> Result<FlightInfo, Status> {
    let command = CommandStatementQuery { query: text.to_owned(), transaction_id: None };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let info = service.get_flight_info_statement(command, call(1, None, descriptor)).await;
    info.map(Response::into_inner)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_info_says_what_was_written_where_its_result_is_and_until_when() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    for place in [None, Some("grpc://10.0.0.1:31337")] {
        let directory = tempfile::tempdir().unwrap();
        let service = advertised_as(place, directory.path(), &clock).await;
        for (text, written) in [
            ("CREATE TABLE t (k int PRIMARY KEY, v int)", -1),
            ("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", 3),
            ("INSERT INTO t (k, v) VALUES (4, 4)", 1),
            ("UPDATE t SET v = 5 WHERE k = 4", 1),
            ("INSERT INTO t (k, v) VALUES (4, 4) IF NOT EXISTS", 0),
            ("UPDATE t SET v = 6 WHERE k = 4 IF v = 5", 1),
            ("SELECT v FROM t WHERE k = 1", -1),
            ("SELECT v FROM t", -1),
            ("DROP TABLE t", -1),
        ] {
            let info = told(&service, text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
            let [endpoint] = info.endpoint.as_slice() else { panic!("{text}: {info:?}") };
            assert_eq!((info.total_records, info.ordered), (written, true), "{text}");
            let expires = endpoint.expiration_time.as_ref().map(|time| time.seconds);
            assert_eq!(expires, Some(clock.wall_seconds() + LIFE.as_secs() as i64), "{text}");
            let places = endpoint.location.iter().map(|place| place.uri.as_str());
            assert_eq!(places.collect::<Vec<_>>(), Vec::from_iter(place), "{text}");
            clock.advance(SECOND);
            let renewed = service.renew(endpoint.clone()).unwrap();
            assert_eq!(renewed.location, endpoint.location, "{text}");
            assert_eq!(promised(&service, &renewed), promised(&service, endpoint), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_tells_the_rows_that_it_wrote_and_of_a_query_that_there_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let session = service.session(&call(1, None, ())).unwrap();
    for (text, written) in [
        ("CREATE TABLE t (k int PRIMARY KEY, v int)", 0),
        ("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", 3),
        ("INSERT INTO t (k, v) VALUES (4, 4)", 1),
        ("INSERT INTO t (k, v) VALUES (4, 4) IF NOT EXISTS", 0),
        ("INSERT INTO t (k, v) VALUES (5, 5) IF NOT EXISTS", 1),
        ("UPDATE t SET v = 6 WHERE k = 4 IF v = 5", 0),
        ("BEGIN BATCH INSERT INTO t (k) VALUES (6); INSERT INTO t (k) VALUES (7); APPLY BATCH", 2),
        ("SELECT v FROM t WHERE k = 1", -1),
        ("SELECT v FROM t WHERE v > 1", -1),
        ("USE system", 0),
    ] {
        let bound = Service::bound(&session, text.to_owned());
        let found = service.update(Arc::clone(&session), bound, None).await;
        assert_eq!(found.unwrap_or_else(|error| panic!("{text}: {error}")), written, "{text}");
    }
    assert_eq!(session.query.keyspace(), "system");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_parameters_nobody_bound_is_refused_and_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    told(&service, "CREATE TABLE t (k int PRIMARY KEY, v int)").await.unwrap();
    let session = service.session(&call(1, None, ())).unwrap();
    for (text, count) in [
        ("SELECT v FROM t WHERE k = ?", 1),
        ("SELECT v FROM t WHERE v + ? = ?", 2),
        ("INSERT INTO t (k, v) VALUES (?, 1)", 1),
        ("INSERT INTO t (k, v) VALUES (1, ?) IF NOT EXISTS", 1),
        ("UPDATE t SET v = ? WHERE k = ?", 2),
        ("DELETE FROM t WHERE k = ?", 1),
    ] {
        let bound = Service::bound(&session, text.to_owned());
        let updated = service.update(Arc::clone(&session), bound, None).await.map(drop);
        for refused in [told(&service, text).await.map(drop), updated] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{text}: {refused}");
            let says = format!("has {count} parameters and none were bound");
            assert!(refused.message().contains(&says), "{text}: {refused}");
        }
    }
    let rows = session.query.execute("SELECT k FROM t").await.unwrap().collect().await.unwrap();
    assert!(rows.iter().all(|rows| rows.num_rows() == 0));
}

/// Drivers of before ask by the older call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_call_cancels_as_the_newer_one_and_other_actions_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let cancel = async |info: Bytes| {
        let action = call(1, None, Action::new("CancelQuery", ""));
        let told = service.do_action_cancel_query(ActionCancelQueryRequest { info }, action).await;
        told.map(|told| told.result).map_err(|refused| refused.code())
    };
    let info = |ticket: &Sealed| {
        let endpoint = vec![endpoint_of(&service, ticket)];
        Bytes::from(FlightInfo { endpoint, ..FlightInfo::new() }.encode_to_vec())
    };
    let one = query();
    let done = info(&Sealed::done(Promise::Count(3)));
    assert_eq!(cancel(done).await, Ok(CancelStatus::NotCancellable as i32));
    assert!(service.0.running().begin(id_of(&one)).is_ok());
    assert_eq!(cancel(info(&one)).await, Ok(CancelStatus::Cancelled as i32));
    let refused = service.0.running().begin(id_of(&one)).err().map(|refused| refused.code());
    assert_eq!(refused, Some(Code::Cancelled));
    assert_eq!(cancel(Bytes::from_static(b"\xff")).await, Err(Code::InvalidArgument));
    for (action, code) in [
        ("CancelFlightInfo", Code::InvalidArgument),
        ("RenewFlightEndpoint", Code::InvalidArgument),
        ("closeSession", Code::Unimplemented),
        ("GETSESSIONOPTIONS", Code::Unimplemented),
        ("", Code::Unimplemented),
    ] {
        let told = act::<CloseSessionResult>(&service, (1, None), (action, Vec::new())).await;
        assert_eq!(told, Err(code), "'{action}'");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_that_are_set_are_shown_and_hold_in_their_session_alone() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let service = started(directory.path(), &clock).await;
    let sessions = [1, 2].map(|connection| service.session(&call(connection, None, ())).unwrap());
    sessions[0].query.execute("CREATE SERVICE LEVEL gold").await.unwrap();
    let wanted = [
        ("catalog", "tidegate"),
        ("schema", "system"),
        ("service_level", "gold"),
        ("ingest.primary_key", "a; b"),
        ("result.timestamp", "naive"),
        ("result.varint", "text"),
        ("result.duration", "text"),
        ("result.endpoints", "shards"),
        ("result.compression", "zstd"),
    ];
    let value =
        |text: &str| SessionOptionValue { option_value: Some(OptionValue::Text(text.to_owned())) };
    let options = HashMap::from(wanted.map(|(name, text)| (name.to_owned(), value(text))));
    let body = SetSessionOptionsRequest { session_options: options.clone() };
    let body = ("SetSessionOptions", body.encode_to_vec());
    let told = act::<option::SetSessionOptionsResult>(&service, (1, None), body).await.unwrap();
    assert!(told.errors.is_empty(), "{told:?}");
    let get = || ("GetSessionOptions", Vec::new());
    let shown = act::<option::GetSessionOptionsResult>(&service, (1, None), get()).await.unwrap();
    assert_eq!(shown.session_options, options);
    let other = act::<option::GetSessionOptionsResult>(&service, (2, None), get()).await.unwrap();
    let plain = [("catalog", "tidegate"), ("schema", "default"), ("service_level", "default")];
    let plain = HashMap::from(plain.map(|(name, text)| (name.to_owned(), value(text))));
    assert_eq!(other.session_options, plain);
    let headers = tonic::metadata::MetadataMap::new();
    let all = Form { without_zone: true, wide_as_text: true, duration_as_text: true };
    let found = sessions.map(|session| {
        (session.form(&headers), session.endpoints(&headers), session.compression(&headers))
    });
    let wanted = (all, Endpoints::Shards, Compression::Zstd);
    let plain = (Form::default(), Endpoints::Auto, Compression::None);
    assert_eq!(found, [wanted, plain]);
}
