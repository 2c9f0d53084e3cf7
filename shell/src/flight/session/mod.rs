//! Sessions of clients: one for every token that a handshake gave out, and one for every connection
//! and user that come without one.
//!
//! Invariant: at most [`SESSIONS_MAX`] sessions and [`SESSIONS_PER_USER_MAX`] of one user. A
//! session whose calls or results are still running is never ended, nor is one that its client
//! still uses on an open connection ended for another's sake: then a new one is refused. That of a
//! connection in which nothing was set may go, for its next call gets one that is the same.
//! Sessions of tokens end [`IDLE_SECONDS_MAX`] after their last call, or [`ORPHAN_SECONDS_MAX`]
//! where no connection that they were used on is open any more; those of connections end with
//! these. A session belongs to the caller that it began with, and no other gets it. Not here: who
//! calls (`access`). Where nobody is asked, names only keep clients apart.

pub(super) mod option;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tidegate_engine::clock::Clock;
use tidegate_engine::database::DEFAULT_KEYSPACE;
use tidegate_engine::hex::Hex;
use tidegate_engine::{Database, SchemaRef};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use super::access::{Identity, KnownToken};
use super::connections::{Connection, Link};
use super::error::{refusal, status};
use super::kept::Kept;
use super::outgoing::{Endpoints, Form};
use super::seal::{Mark, random};
use crate::cluster::Cluster;
use crate::password::Passwords;
use crate::query::{self, AuditEvent, Caller, QueryMemory, SessionOptions, Statement};
use crate::token;

/// Sessions kept.
const SESSIONS_MAX: usize = 4096;
/// Sessions kept of one user.
const SESSIONS_PER_USER_MAX: usize = 512;
/// How long a session is kept without a call.
const IDLE_SECONDS_MAX: u64 = 8 * 3600;
/// The same once every connection that it was used on is closed.
const ORPHAN_SECONDS_MAX: u64 = 600;
/// When to come again where too many sessions are in use.
const RETRY: Duration = Duration::from_secs(10);
/// Dropped tables of a session whose keys are remembered.
const DROPPED_MAX: usize = 64;
/// Credentials of a connection that were right and are remembered.
const MARKS_MAX: usize = 8;
/// Base 64 of credentials. Clients in Go leave out what fills it up.
const BASIC: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Who comes without a name.
const NOBODY: &str = "";

/// One client's session.
pub(super) struct FlightSession {
    pub query: query::Session,
    /// Of all sessions.
    pub kept: Arc<Kept>,
    /// Options by name, other than `catalog` and `schema`.
    pub options: Mutex<BTreeMap<String, String>>,
    /// Tables that this session dropped: one made again without a key gets theirs.
    dropped: Mutex<VecDeque<SchemaRef>>,
    last_call_ns: AtomicU64,
}

impl FlightSession {
    pub(super) fn new(query: query::Session, kept: Arc<Kept>, now_ns: u64) -> Self {
        FlightSession {
            query,
            kept,
            options: Mutex::default(),
            dropped: Mutex::default(),
            last_call_ns: AtomicU64::new(now_ns),
        }
    }

    /// How values leave in a call with these headers.
    pub(super) fn form(&self, headers: &MetadataMap) -> Form {
        Form::of(headers, |name| lock(&self.options).get(name).cloned())
    }

    /// In how many parts a result leaves that a call with these headers asks for.
    pub(super) fn endpoints(&self, headers: &MetadataMap) -> Endpoints {
        Endpoints::of(headers, |name| lock(&self.options).get(name).cloned())
    }

    /// Remembers the table that `statement` is about to drop.
    pub(super) fn note_drop(&self, statement: &Statement, keyspace: &str) {
        let Some(table) = self.query.table_to_drop(statement, keyspace) else { return };
        let mut dropped = lock(&self.dropped);
        dropped.retain(|known| known.keyspace != table.keyspace || known.name != table.name);
        dropped.push_back(table);
        if dropped.len() > DROPPED_MAX {
            dropped.pop_front();
        }
    }

    /// The table of this name that the session dropped last.
    pub(super) fn dropped(&self, keyspace: &str, name: &str) -> Option<SchemaRef> {
        let dropped = lock(&self.dropped);
        dropped.iter().find(|table| table.keyspace == keyspace && table.name == name).cloned()
    }
}

/// A session that a call or a result in the making uses.
pub(super) struct Held {
    session: Arc<FlightSession>,
    clock: Arc<dyn Clock>,
}

impl Deref for Held {
    type Target = FlightSession;

    fn deref(&self) -> &FlightSession {
        &self.session
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.session.last_call_ns.store(self.clock.monotonic_ns(), Ordering::Relaxed);
    }
}

/// What names a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Token(String),
    Connection(Connection, String),
}

struct Entry {
    session: Arc<FlightSession>,
    user: String,
    /// Open connections that it was used on.
    connections: BTreeSet<Connection>,
    /// Whether a call came after the handshake.
    was_used: bool,
    /// Counts the sessions.
    number: u64,
}

impl Entry {
    /// Calls and results hold the session as well.
    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.session) > 1
    }

    /// Whether it may go for another's sake: its client is gone, has never used it, or would not
    /// notice.
    fn is_spare(&self, name: &Name, template: &query::Session) -> bool {
        if self.is_busy() {
            return false;
        }
        let is_plain = || {
            let session = &self.session;
            matches!(name, Name::Connection(..))
                && session.query.is_plain(template, DEFAULT_KEYSPACE)
                && lock(&session.options).is_empty()
                && lock(&session.dropped).is_empty()
        };
        self.connections.is_empty() || !self.was_used || is_plain()
    }

    fn unused_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.session.last_call_ns.load(Ordering::Relaxed))
    }

    fn is_over(&self, name: &Name, now_ns: u64) -> bool {
        let seconds = match (self.connections.is_empty(), name) {
            (true, _) => ORPHAN_SECONDS_MAX,
            (false, Name::Token(_)) => IDLE_SECONDS_MAX,
            // It ends with its connection: a client must not lose its keyspace unawares.
            (false, Name::Connection(..)) => return false,
        };
        !self.is_busy() && self.unused_ns(now_ns) > seconds * 1_000_000_000
    }
}

/// All sessions of the service.
pub(super) struct Sessions {
    /// What every session begins as.
    template: query::Session,
    kept: Arc<Kept>,
    all: Mutex<All>,
}

/// Credentials that were right, and the token that they are, if they are one.
type Right = (Mark, Option<Arc<KnownToken>>);

#[derive(Default)]
struct All {
    entries: BTreeMap<Name, Entry>,
    /// Connections that are open, with the credentials that were right on them.
    open: BTreeMap<Connection, Vec<Right>>,
    /// Sessions that ever were.
    count: u64,
}

impl All {
    /// Credentials that were right on this connection.
    fn right(&self, connection: Connection) -> &[Right] {
        self.open.get(&connection).map_or(&[], Vec::as_slice)
    }

    /// The connection as a set, which is empty when it is closed already.
    fn if_open(&self, connection: Connection) -> BTreeSet<Connection> {
        self.open.contains_key(&connection).then_some(connection).into_iter().collect()
    }
}

impl Sessions {
    /// No session yet.
    pub(super) fn new(
        database: Database,
        memory: QueryMemory,
        cluster: Option<Arc<Cluster>>,
    ) -> Result<Self, Status> {
        // Files belong to whoever runs the service, not to its clients.
        let options =
            SessionOptions { local_files: false, memory, cluster, ..SessionOptions::default() };
        let template = query::Session::new(database, options).map_err(|error| status(&error))?;
        Ok(Sessions { template, kept: Arc::new(Kept::new()), all: Mutex::default() })
    }

    /// A session of this name, which shares the memory of all.
    pub(super) fn named(&self, name: &str) -> query::Session {
        self.template.apart(DEFAULT_KEYSPACE, name)
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.template.database().clock()
    }

    /// Who hashes passwords.
    pub(super) fn passwords(&self) -> &Arc<Passwords> {
        self.template.passwords()
    }

    /// Notes what concerns all.
    pub(super) fn audit(&self, event: AuditEvent, who: &str, what: &str) {
        self.template.audit(event, who, what);
    }

    /// Starts a session and returns its token.
    ///
    /// Errors: RESOURCE_EXHAUSTED when there are too many that cannot be ended; UNAUTHENTICATED for
    /// a caller whom nobody asked who it is.
    pub(super) fn start<T>(&self, request: &Request<T>) -> Result<String, Status> {
        let token = Hex(&random::<16>()?).to_string();
        let caller = self.caller(request)?;
        let user = user_of(&caller, request.metadata());
        let name = Name::Token(token.clone());
        self.insert(&mut lock(&self.all), name, (user, caller), connection(request), false)?;
        Ok(token)
    }

    /// Who calls.
    ///
    /// Errors: UNAUTHENTICATED where nobody asked, though roles may log in.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        match request.extensions().get::<Identity>() {
            Some(Identity(caller)) => Ok(caller.clone()),
            None if self.template.database().catalog().roles().has_logins() => {
                Err(Status::unauthenticated("this call asks nobody who they are"))
            }
            None => Ok(Caller::Owner),
        }
    }

    /// The role whose session has this token.
    ///
    /// Errors: UNAUTHENTICATED for a token that is not known (any more), and for one from before
    /// anybody was asked who they are.
    pub(super) fn role_of(&self, token: &str) -> Result<Arc<str>, Status> {
        let all = lock(&self.all);
        let entry = all.entries.get(&Name::Token(token.to_owned())).ok_or_else(closed)?;
        match entry.session.query.caller() {
            Caller::Role(role) => Ok(Arc::clone(role)),
            Caller::Owner => Err(closed()),
        }
    }

    /// Whether these credentials were right on this connection.
    pub(super) fn is_marked(&self, connection: Connection, mark: &Mark) -> bool {
        let all = lock(&self.all);
        all.right(connection).iter().any(|(known, _)| known == mark)
    }

    /// The token that was told on this connection and has this mark.
    pub(super) fn known_token(
        &self,
        connection: Connection,
        mark: &Mark,
    ) -> Option<Arc<KnownToken>> {
        let all = lock(&self.all);
        let (_, token) = all.right(connection).iter().find(|(known, _)| known == mark)?;
        token.clone()
    }

    /// Remembers credentials that were right, until the connection is closed.
    pub(super) fn mark(&self, connection: Connection, right: Right) {
        if let Some(known) = lock(&self.all).open.get_mut(&connection) {
            known.retain(|(mark, _)| *mark != right.0);
            if known.len() >= MARKS_MAX {
                known.remove(0);
            }
            known.push(right);
        }
    }

    fn insert(
        &self,
        all: &mut All,
        name: Name,
        (user, caller): (String, Caller),
        connection: Connection,
        was_used: bool,
    ) -> Result<Arc<FlightSession>, Status> {
        let now_ns = self.clock().monotonic_ns();
        let connections = all.if_open(connection);
        all.count += 1;
        let number = all.count;
        let all = &mut all.entries;
        all.retain(|name, entry| !entry.is_over(name, now_ns));
        let may_go = |name: &Name, entry: &Entry| entry.is_spare(name, &self.template);
        let of_user = |entry: &Entry| entry.user == user;
        make_room(all, (SESSIONS_PER_USER_MAX, now_ns), of_user, may_go).map_err(|()| {
            let most = SESSIONS_PER_USER_MAX;
            let text = format!("user '{user}' has {most} sessions in use: close some first");
            refusal(text, RETRY)
        })?;
        make_room(all, (SESSIONS_MAX, now_ns), |_| true, may_go).map_err(|()| {
            refusal(format!("{SESSIONS_MAX} sessions are in use: try later"), RETRY)
        })?;
        let query = self.named(&format!("{user}#{number}")).of_caller(caller);
        let session = Arc::new(FlightSession::new(query, Arc::clone(&self.kept), now_ns));
        let entry = Entry { session: Arc::clone(&session), user, connections, was_used, number };
        all.insert(name, entry);
        Ok(session)
    }

    /// The session of a request: that of its token, else that of its connection and user.
    ///
    /// Errors: UNAUTHENTICATED for a token that is not known (any more), or is another caller's;
    /// RESOURCE_EXHAUSTED when there are too many sessions.
    pub(super) fn of<T>(&self, request: &Request<T>) -> Result<Held, Status> {
        let (caller, connection) = (self.caller(request)?, connection(request));
        let name = name(request, &caller);
        let mut all = lock(&self.all);
        let connections = all.if_open(connection);
        let own = all.entries.get_mut(&name);
        let session = match own.filter(|entry| *entry.session.query.caller() == caller) {
            Some(entry) => {
                entry.connections.extend(connections);
                entry.was_used = true;
                Arc::clone(&entry.session)
            }
            None => match &name {
                Name::Token(_) => return Err(closed()),
                Name::Connection(_, user) => {
                    let user = (user.clone(), caller);
                    self.insert(&mut all, name, user, connection, true)?
                }
            },
        };
        session.last_call_ns.store(self.clock().monotonic_ns(), Ordering::Relaxed);
        Ok(Held { session, clock: Arc::clone(self.clock()) })
    }

    /// Ends the session of a request; false when it has none, or another caller's.
    pub(super) fn end<T>(&self, request: &Request<T>) -> bool {
        let Ok(caller) = self.caller(request) else { return false };
        let name = name(request, &caller);
        let mut all = lock(&self.all);
        let own = all.entries.get(&name);
        let is_own = own.is_some_and(|entry| *entry.session.query.caller() == caller);
        is_own && all.entries.remove(&name).is_some()
    }

    /// A connection is open from now on.
    pub(super) fn connection_opened(&self, connection: Connection) {
        lock(&self.all).open.insert(connection, Vec::new());
    }

    /// A connection is closed: its own sessions end.
    pub(super) fn connection_closed(&self, connection: Connection) {
        let mut all = lock(&self.all);
        all.open.remove(&connection);
        all.entries.retain(|name, entry| {
            entry.connections.remove(&connection);
            !matches!(name, Name::Connection(own, _) if *own == connection)
        });
    }
}

/// Ends the spare session that was unused longest, if there are `entries_max` of those that
/// `is_one`.
fn make_room(
    all: &mut BTreeMap<Name, Entry>,
    (entries_max, now_ns): (usize, u64),
    is_one: impl Fn(&Entry) -> bool,
    may_go: impl Fn(&Name, &Entry) -> bool,
) -> Result<(), ()> {
    if all.values().filter(|entry| is_one(entry)).count() < entries_max {
        return Ok(());
    }
    let spare = all.iter().filter(|(name, entry)| is_one(entry) && may_go(name, entry));
    let spare = spare.max_by_key(|(_, entry)| (entry.unused_ns(now_ns), Reverse(entry.number)));
    let name = spare.map(|(name, _)| name.clone()).ok_or(())?;
    all.remove(&name);
    Ok(())
}

fn connection<T>(request: &Request<T>) -> Connection {
    Link::of(request).connection
}

/// The session that a request is for.
fn name<T>(request: &Request<T>, caller: &Caller) -> Name {
    match authorization(request.metadata()) {
        Some(("bearer", token)) if !token::is_one(token) => Name::Token(token.to_owned()),
        _ => Name::Connection(connection(request), user_of(caller, request.metadata())),
    }
}

/// What a client of this caller is called.
fn user_of(caller: &Caller, headers: &MetadataMap) -> String {
    caller.role().map_or_else(|| user(headers), str::to_owned)
}

fn closed() -> Status {
    Status::unauthenticated("the session of this token is closed: connect again")
}

/// Scheme, in lower case, and value of the header `authorization`.
pub(super) fn authorization(headers: &MetadataMap) -> Option<(&'static str, &str)> {
    let (scheme, value) = headers.get("authorization")?.to_str().ok()?.split_once(' ')?;
    let known = ["bearer", "basic"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
    Some((known, value.trim()))
}

/// The user of Basic credentials, which some clients send with every call.
fn user(headers: &MetadataMap) -> String {
    let Some(("basic", encoded)) = authorization(headers) else { return NOBODY.to_owned() };
    credentials(encoded).map_or(NOBODY.to_owned(), |(user, _)| user)
}

/// User and password of Basic credentials.
pub(super) fn credentials(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(BASIC.decode(encoded).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no one panics while holding a session's lock")
}

#[cfg(test)]
pub(in crate::flight) mod tests {
    use std::path::Path;

    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::{Backend, Options};
    use tonic::Code;

    use super::*;

    /// A new database of one shard, with this clock.
    pub(in crate::flight) async fn database_by(
        clock: &Arc<SimulatedClock>,
        directory: &Path,
    ) -> Database {
        let mut options = Options::new(directory);
        options.clock = Arc::clone(clock) as _;
        options.backend = Backend::Blocking;
        options.shards = Some(1);
        Database::open(options).await.unwrap()
    }

    struct World {
        clock: Arc<SimulatedClock>,
        sessions: Sessions,
        _directory: tempfile::TempDir,
    }

    impl World {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let clock = SimulatedClock::new(1_700_000_000_000_000);
            let database = database_by(&clock, directory.path()).await;
            let sessions = Sessions::new(database, QueryMemory::new(None), None).unwrap();
            World { clock, sessions, _directory: directory }
        }

        /// A request on a connection, which is open, with a header `authorization`.
        fn request(&self, connection: u64, authorization: &str) -> Request<()> {
            let connection = Connection(connection);
            self.sessions.connection_opened(connection);
            let mut request = Request::new(());
            request.extensions_mut().insert(Link { connection, ..Link::default() });
            if !authorization.is_empty() {
                request.metadata_mut().insert("authorization", authorization.parse().unwrap());
            }
            request
        }

        fn basic(&self, connection: u64, user: &str) -> Request<()> {
            let encoded = BASIC.encode(format!("{user}:password"));
            self.request(connection, &format!("Basic {encoded}"))
        }

        fn bearer(&self, connection: u64, token: &str) -> Request<()> {
            self.request(connection, &format!("Bearer {token}"))
        }

        fn is_same(&self, a: &Request<()>, b: &Request<()>) -> bool {
            let (a, b) = (self.sessions.of(a).unwrap(), self.sessions.of(b).unwrap());
            Arc::ptr_eq(&a.session, &b.session)
        }
    }

    /// Makes a session one that can be told from a new one.
    fn mark(session: &FlightSession) {
        lock(&session.options).insert("mark".to_owned(), "set".to_owned());
    }

    fn is_marked(session: &FlightSession) -> bool {
        lock(&session.options).contains_key("mark")
    }

    #[test]
    fn credentials_are_read_with_what_fills_them_up_and_without() {
        for (encoded, wanted) in [
            ("YTpi", Some(("a", "b"))),
            ("YTpiYw==", Some(("a", "bc"))),
            ("YTpiYw", Some(("a", "bc"))),
            ("YTpiOmM=", Some(("a", "b:c"))),
            ("YQ==", None),
            ("a:b", None),
            ("/////w==", None),
            ("", None),
        ] {
            let found = credentials(encoded);
            let found = found.as_ref().map(|(user, word)| (user.as_str(), word.as_str()));
            assert_eq!(found, wanted, "{encoded}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clients_without_a_token_have_a_session_for_each_connection_and_user() {
        let world = World::new().await;
        let (nobody, other) = (world.request(1, ""), world.request(2, ""));
        assert!(world.is_same(&nobody, &world.request(1, "")));
        assert!(!world.is_same(&nobody, &other));
        assert!(world.is_same(&world.basic(1, "a"), &world.basic(1, "a")));
        assert!(!world.is_same(&world.basic(1, "a"), &world.basic(1, "b")));
        assert!(!world.is_same(&world.basic(1, "a"), &world.basic(2, "a")));
        mark(&world.sessions.of(&nobody).unwrap());
        world.sessions.connection_closed(Connection(1));
        let again = world.sessions.of(&world.request(1, "")).unwrap();
        assert!(!is_marked(&again), "a new connection has a new session");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_tables_of_one_name_the_one_that_was_dropped_last_is_remembered() {
        let world = World::new().await;
        let session = world.sessions.of(&world.request(1, "")).unwrap();
        let query = &session.query;
        let make_and_drop = async |name: &str, column: &str| {
            let text = format!("CREATE TABLE {name} ({column} int PRIMARY KEY)");
            query.execute(&text).await.unwrap();
            let text = format!("DROP TABLE {name}");
            session.note_drop(&query::split(&text).unwrap()[0], &query.keyspace());
            query.execute(&text).await.unwrap();
        };
        let key = |keyspace: &str, name: &str| {
            session.dropped(keyspace, name).map(|table| table.columns[0].name.clone())
        };
        query.execute("CREATE KEYSPACE other").await.unwrap();
        make_and_drop("t", "a").await;
        make_and_drop("u", "b").await;
        make_and_drop("other.t", "c").await;
        make_and_drop("t", "d").await;
        assert_eq!(key("default", "t").as_deref(), Some("d"));
        assert_eq!(key("default", "u").as_deref(), Some("b"));
        assert_eq!(key("other", "t").as_deref(), Some("c"));
        assert_eq!((key("other", "u"), lock(&session.dropped).len()), (None, 3));
        // Those that were dropped longest ago are forgotten; the last one of a name counts.
        for number in 0..DROPPED_MAX - 1 {
            make_and_drop(&format!("t{number}"), "a").await;
        }
        assert_eq!((key("default", "u"), key("other", "t")), (None, None));
        assert_eq!(key("default", "t").as_deref(), Some("d"));
        assert_eq!(lock(&session.dropped).len(), DROPPED_MAX);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_ends_the_session_of_another_caller() {
        let world = World::new().await;
        let token = world.sessions.start(&world.basic(1, "a")).unwrap();
        let mut other = world.bearer(1, &token);
        other.extensions_mut().insert(Identity(Caller::Role("b".into())));
        assert!(!world.sessions.end(&other) && world.sessions.end(&world.bearer(1, &token)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_option_is_set_and_unset() {
        let world = World::new().await;
        let session = world.sessions.of(&world.request(1, "")).unwrap();
        let set = |name: &str, text: Option<&str>| {
            let value = text.map(|text| option::OptionValue::Text(text.to_owned()));
            let value = option::SessionOptionValue { option_value: value };
            let session_options = [(name.to_owned(), value)].into();
            let result =
                option::set(&session, option::SetSessionOptionsRequest { session_options });
            result.errors.is_empty()
        };
        let is_set = |name: &str| option::get(&session).session_options.contains_key(name);
        for (name, text) in [("result.varint", "text"), (option::PRIMARY_KEY, "id")] {
            assert!(!is_set(name) && set(name, Some(text)) && is_set(name), "{name}");
            assert!(set(name, None) && !is_set(name), "{name}");
        }
        session.query.execute("CREATE SERVICE LEVEL gold").await.unwrap();
        assert!(set("service_level", Some("gold")) && session.query.service_level() == "gold");
        assert!(!set("service_level", Some("golf")) && session.query.service_level() == "gold");
        assert!(set("service_level", None) && session.query.service_level() == "default");
        assert!(!set("result.varint", Some("nothing")) && !is_set("result.varint"));
        assert!(!set("nothing", Some("x")) && !set("schema", None) && is_set("schema"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn handshakes_end_no_session_that_is_in_use() {
        let world = World::new().await;
        let live = world.sessions.start(&world.basic(1, "a")).unwrap();
        world.sessions.of(&world.bearer(1, &live)).unwrap();
        let mut tokens = Vec::new();
        for _ in 0..2 * SESSIONS_PER_USER_MAX {
            tokens.push(world.sessions.start(&world.basic(2, "a")).unwrap());
        }
        assert!(world.sessions.of(&world.bearer(1, &live)).is_ok());
        let gone = world.sessions.of(&world.bearer(2, &tokens[0])).err().unwrap();
        assert_eq!(gone.code(), Code::Unauthenticated);
        // All in use: the next one is refused, and another user's is not.
        let last = tokens.split_off(tokens.len() - (SESSIONS_PER_USER_MAX - 1));
        for token in &last {
            world.sessions.of(&world.bearer(2, token)).unwrap();
        }
        let refused = world.sessions.start(&world.basic(3, "a")).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(world.sessions.start(&world.basic(3, "b")).is_ok());
        // Those whose connection is closed make room.
        world.sessions.connection_closed(Connection(2));
        assert!(world.sessions.start(&world.basic(3, "a")).is_ok());
        assert!(world.sessions.of(&world.bearer(1, &live)).is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_keeps_its_session_when_there_are_too_many() {
        let world = World::new().await;
        let first = world.request(1, "");
        mark(&world.sessions.of(&first).unwrap());
        for connection in 2..=SESSIONS_PER_USER_MAX as u64 {
            mark(&world.sessions.of(&world.request(connection, "")).unwrap());
        }
        let refused = world.sessions.of(&world.request(100_000, "")).err().unwrap();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(is_marked(&world.sessions.of(&first).unwrap()));
        world.sessions.connection_closed(Connection(2));
        assert!(world.sessions.of(&world.request(100_000, "")).is_ok());
    }

    /// Thousands of connections hold still, none of which has set anything.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_session_that_nobody_would_miss_makes_room() {
        let world = World::new().await;
        let first = world.request(1, "");
        mark(&world.sessions.of(&first).unwrap());
        for (connection, text) in
            [(2, "USE system"), (3, "SET tidegate.short_path = false"), (4, "TRACING ON")]
        {
            let session = world.sessions.of(&world.request(connection, "")).unwrap();
            session.query.execute(text).await.unwrap();
        }
        for connection in 5..=3 * SESSIONS_PER_USER_MAX as u64 {
            world.sessions.of(&world.request(connection, "")).unwrap();
        }
        assert!(is_marked(&world.sessions.of(&first).unwrap()));
        let of = |connection| world.sessions.of(&world.request(connection, "")).unwrap();
        assert_eq!(of(2).query.keyspace(), "system");
        assert!(!of(3).query.is_plain(&world.sessions.template, "default"));
        assert!(!of(4).query.is_plain(&world.sessions.template, "default"));
        assert!(of(5).query.is_plain(&world.sessions.template, "default"), "it has a new one");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn idle_sessions_end_and_busy_ones_do_not() {
        let world = World::new().await;
        let (idle, busy) = (world.basic(1, "a"), world.basic(1, "b"));
        let idle = world.sessions.start(&idle).unwrap();
        let busy = world.sessions.start(&busy).unwrap();
        let held = world.sessions.of(&world.bearer(1, &busy)).unwrap();
        world.clock.advance(Duration::from_secs(IDLE_SECONDS_MAX + 1));
        world.sessions.start(&world.basic(1, "c")).unwrap();
        assert!(world.sessions.of(&world.bearer(1, &idle)).is_err());
        assert!(world.sessions.of(&world.bearer(1, &busy)).is_ok());
        drop(held);
        world.sessions.connection_closed(Connection(1));
        world.clock.advance(Duration::from_secs(ORPHAN_SECONDS_MAX + 1));
        world.sessions.start(&world.basic(2, "c")).unwrap();
        assert!(world.sessions.of(&world.bearer(2, &busy)).is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_session_that_was_unused_longest_makes_room() {
        let world = World::new().await;
        let mut tokens = Vec::new();
        for _ in 0..SESSIONS_PER_USER_MAX {
            tokens.push(world.sessions.start(&world.basic(1, "a")).unwrap());
            world.clock.advance(Duration::from_millis(1));
        }
        for token in &tokens {
            world.sessions.of(&world.bearer(1, token)).unwrap();
        }
        // The first one is used last, and only then does the client go.
        world.clock.advance(Duration::from_millis(1));
        drop(world.sessions.of(&world.bearer(1, &tokens[0])).unwrap());
        world.sessions.connection_closed(Connection(1));
        world.sessions.start(&world.basic(2, "a")).unwrap();
        let is_there = |at: usize| world.sessions.of(&world.bearer(2, &tokens[at])).is_ok();
        assert!(is_there(0) && !is_there(1) && is_there(2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_sessions_that_are_unused_as_long_the_first_makes_room() {
        let world = World::new().await;
        let mut tokens = Vec::new();
        for _ in 0..SESSIONS_PER_USER_MAX + 2 {
            tokens.push(world.sessions.start(&world.basic(1, "a")).unwrap());
        }
        let is_there = |at: usize| world.sessions.of(&world.bearer(1, &tokens[at])).is_ok();
        assert_eq!([0, 1, 2, SESSIONS_PER_USER_MAX].map(is_there), [false, false, true, true]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_session_is_idle_from_the_end_of_its_last_call() {
        let world = World::new().await;
        let token = world.sessions.start(&world.basic(1, "a")).unwrap();
        world.sessions.of(&world.bearer(1, &token)).unwrap();
        // Used on a second connection, it outlives the first one.
        world.sessions.of(&world.bearer(2, &token)).unwrap();
        world.sessions.connection_closed(Connection(1));
        world.clock.advance(Duration::from_secs(ORPHAN_SECONDS_MAX + 1));
        world.sessions.start(&world.basic(3, "b")).unwrap();
        let held = world.sessions.of(&world.bearer(2, &token)).unwrap();
        world.clock.advance(Duration::from_secs(IDLE_SECONDS_MAX + 1));
        drop(held);
        world.sessions.start(&world.basic(3, "b")).unwrap();
        assert!(world.sessions.of(&world.bearer(2, &token)).is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn credentials_that_were_right_are_known_on_their_connection_while_it_is_open() {
        let world = World::new().await;
        let sessions = &world.sessions;
        let seal = crate::flight::seal::Seal::new([1; 32], Arc::clone(&world.clock) as _, 0);
        let mark = |n: usize| seal.mark(&[n.to_string().as_str()]);
        let say = |n| sessions.mark(Connection(1), (mark(n), None));
        let knows = |connection, n| sessions.is_marked(Connection(connection), &mark(n));
        (1..=2).for_each(|connection| sessions.connection_opened(Connection(connection)));
        say(0);
        assert!(knows(1, 0) && !knows(1, 1) && !knows(2, 0));
        (1..=MARKS_MAX).for_each(say);
        assert!(!knows(1, 0) && (1..=MARKS_MAX).all(|n| knows(1, n)));
        // What was said last goes last.
        [1, 0].into_iter().for_each(say);
        assert!(knows(1, 0) && knows(1, 1) && !knows(1, 2) && knows(1, 3));
        sessions.connection_closed(Connection(1));
        assert!(!knows(1, 0));
        say(0);
        assert!(!knows(1, 0), "nobody comes by a closed connection");
        sessions.connection_opened(Connection(1));
        assert!(!knows(1, 0) && !knows(1, 1));
    }
}
