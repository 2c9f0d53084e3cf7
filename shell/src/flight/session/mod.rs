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
use std::net::IpAddr;
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
        let from = connection(request);
        self.insert(&mut lock(&self.all), name, (user, caller), from, false)?;
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
        (connection, peer): (Connection, Option<IpAddr>),
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
        let query = self.named(&format!("{user}#{number}")).of_caller(caller).listed(number, peer);
        query.member().set_connections(connections.len() as u64);
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
        let (caller, from) = (self.caller(request)?, connection(request));
        let (connection, peer) = from;
        let now_ns = self.clock().monotonic_ns();
        let name = name(request, &caller);
        let mut all = lock(&self.all);
        let connections = all.if_open(connection);
        let own = all.entries.get_mut(&name);
        let session = match own.filter(|entry| *entry.session.query.caller() == caller) {
            Some(entry) => {
                entry.connections.extend(connections);
                entry.was_used = true;
                let open = entry.connections.len() as u64;
                entry.session.query.member().call(now_ns, peer, open);
                Arc::clone(&entry.session)
            }
            None => match &name {
                Name::Token(_) => return Err(closed()),
                Name::Connection(_, user) => {
                    let user = (user.clone(), caller);
                    self.insert(&mut all, name, user, from, true)?
                }
            },
        };
        session.last_call_ns.store(now_ns, Ordering::Relaxed);
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
            if entry.connections.remove(&connection) {
                let open = entry.connections.len() as u64;
                entry.session.query.member().set_connections(open);
            }
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

/// The connection of a request, and where it comes from.
fn connection<T>(request: &Request<T>) -> (Connection, Option<IpAddr>) {
    let link = Link::of(request);
    (link.connection, link.peer)
}

/// The session that a request is for.
fn name<T>(request: &Request<T>, caller: &Caller) -> Name {
    match authorization(request.metadata()) {
        Some(("bearer", token)) if !token::is_one(token) => Name::Token(token.to_owned()),
        _ => Name::Connection(connection(request).0, user_of(caller, request.metadata())),
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
pub(in crate::flight) mod tests;
