//! Sessions of clients: one for every token that a handshake gave out, and one for those without.
//!
//! Invariant: at most [`SESSIONS_MAX`] sessions, each with at most [`PREPARED_MAX`] prepared
//! statements; whoever was used longest ago goes first. Not here: users. Everyone who reaches the
//! address may do everything, which is why it must be a loopback address.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::RecordBatch;
use tidegate_engine::Database;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::error::status;
use crate::query::{self, Description, QueryMemory, SessionOptions, Statement};

/// Sessions kept.
const SESSIONS_MAX: usize = 1024;
/// Prepared statements kept in a session.
const PREPARED_MAX: usize = 1024;

/// A prepared statement.
#[derive(Clone)]
pub(super) struct Prepared {
    pub statement: Statement,
    pub description: Description,
    /// Rows that were bound last.
    pub parameters: Option<RecordBatch>,
}

/// One client's session.
pub(super) struct FlightSession {
    pub query: query::Session,
    /// Options by name, other than `catalog` and `schema`.
    pub options: Mutex<BTreeMap<String, String>>,
    prepared: Mutex<Aged<Prepared>>,
}

impl FlightSession {
    fn new(database: Database, memory: QueryMemory) -> Result<Self, Status> {
        // Files belong to whoever runs the service, not to its clients.
        let options = SessionOptions { local_files: false, memory, ..SessionOptions::default() };
        let query = query::Session::new(database, options).map_err(|error| status(&error))?;
        Ok(FlightSession { query, options: Mutex::default(), prepared: Mutex::default() })
    }

    /// Keeps a statement and returns its handle.
    pub(super) fn prepare(&self, prepared: Prepared) -> String {
        let handle = fresh_token();
        lock(&self.prepared).insert(handle.clone(), prepared, PREPARED_MAX);
        handle
    }

    /// The statement of a handle.
    ///
    /// Errors: NOT_FOUND when it was closed or never existed.
    pub(super) fn prepared(&self, handle: &[u8]) -> Result<Prepared, Status> {
        let name = String::from_utf8_lossy(handle);
        lock(&self.prepared)
            .get(&name)
            .cloned()
            .ok_or_else(|| Status::not_found("this prepared statement is closed"))
    }

    /// Keeps the rows bound to a statement.
    pub(super) fn bind(&self, handle: &[u8], parameters: RecordBatch) -> Result<(), Status> {
        let name = String::from_utf8_lossy(handle);
        match lock(&self.prepared).get(&name) {
            Some(prepared) => {
                prepared.parameters = Some(parameters);
                Ok(())
            }
            None => Err(Status::not_found("this prepared statement is closed")),
        }
    }

    /// Forgets a statement; closing twice is no error.
    pub(super) fn close(&self, handle: &[u8]) {
        lock(&self.prepared).remove(&String::from_utf8_lossy(handle));
    }
}

/// All sessions of the service.
pub(super) struct Sessions {
    database: Database,
    memory: QueryMemory,
    /// For clients that made no handshake.
    anonymous: Arc<FlightSession>,
    by_token: Mutex<Aged<Arc<FlightSession>>>,
}

impl Sessions {
    pub(super) fn new(database: Database, memory: QueryMemory) -> Result<Self, Status> {
        let anonymous = Arc::new(FlightSession::new(database.clone(), memory.clone())?);
        Ok(Sessions { database, memory, anonymous, by_token: Mutex::default() })
    }

    /// Starts a session and returns its token.
    pub(super) fn start(&self) -> Result<String, Status> {
        let token = fresh_token();
        let session = Arc::new(FlightSession::new(self.database.clone(), self.memory.clone())?);
        lock(&self.by_token).insert(token.clone(), session, SESSIONS_MAX);
        Ok(token)
    }

    /// The session of a request: that of its token, else the anonymous one.
    ///
    /// Errors: UNAUTHENTICATED for a token that is not known (any more).
    pub(super) fn of(&self, headers: &MetadataMap) -> Result<Arc<FlightSession>, Status> {
        let Some(token) = token(headers) else { return Ok(Arc::clone(&self.anonymous)) };
        lock(&self.by_token).get(token).map(|session| Arc::clone(session)).ok_or_else(|| {
            Status::unauthenticated("the session of this token is closed: connect again")
        })
    }

    /// Ends the session of a request; false when it has none of its own.
    pub(super) fn end(&self, headers: &MetadataMap) -> bool {
        token(headers).is_some_and(|token| lock(&self.by_token).remove(token).is_some())
    }

    /// Whether the request has a session of its own.
    pub(super) fn is_own(&self, headers: &MetadataMap) -> bool {
        token(headers).is_some()
    }
}

/// The bearer token of a request. Basic credentials are no token: some clients send them with
/// every call.
fn token(headers: &MetadataMap) -> Option<&str> {
    let value = headers.get("authorization")?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// 128 bits that no client guesses by accident, hex. They keep clients apart; they guard nothing.
fn fresh_token() -> String {
    let random = || RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", random(), random())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no one panics while holding a session's lock")
}

/// A bounded map that forgets what was used longest ago.
struct Aged<T> {
    entries: BTreeMap<String, (u64, T)>,
    uses: u64,
}

impl<T> Default for Aged<T> {
    fn default() -> Self {
        Aged { entries: BTreeMap::new(), uses: 0 }
    }
}

impl<T> Aged<T> {
    fn insert(&mut self, name: String, value: T, entries_max: usize) {
        self.uses += 1;
        self.entries.insert(name, (self.uses, value));
        if self.entries.len() > entries_max {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.entries.remove(&name);
            }
        }
    }

    fn get(&mut self, name: &str) -> Option<&mut T> {
        self.uses += 1;
        let (used, value) = self.entries.get_mut(name)?;
        *used = self.uses;
        Some(value)
    }

    fn remove(&mut self, name: &str) -> Option<T> {
        self.entries.remove(name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut aged = Aged::default();
        for name in ["a", "b", "c"] {
            aged.insert(name.to_owned(), name, 3);
        }
        assert!(aged.get("a").is_some());
        aged.insert("d".to_owned(), "d", 3);
        assert!(aged.get("b").is_none() && aged.get("a").is_some());
        assert!(aged.remove("c").is_some() && aged.remove("c").is_none());
    }

    #[test]
    fn only_a_bearer_token_names_a_session() {
        let mut headers = MetadataMap::new();
        assert_eq!(token(&headers), None);
        headers.insert("authorization", "Basic dTpw".parse().unwrap());
        assert_eq!(token(&headers), None);
        headers.insert("authorization", "Bearer abc".parse().unwrap());
        assert_eq!(token(&headers), Some("abc"));
        assert_ne!(fresh_token(), fresh_token());
    }
}
