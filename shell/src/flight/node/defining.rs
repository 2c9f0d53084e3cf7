//! Steps of statements that all nodes run, as one node takes them.
//!
//! Invariant: between the first step of a lease and its last no other lease begins, unless this
//! one has been silent for [`LEASE`]. A statement that comes again under its lease is not run
//! again.

use std::time::Duration;

use tokio::sync::Mutex;
use tonic::Status;

use super::super::error::status;
use crate::cluster::digest;
use crate::cluster::wire::{DefineReply, DefineRequest};
use crate::query::{Caller, OutcomeKind, Session};

/// How long a lease may be silent before another begins: its node may be gone.
const LEASE: Duration = Duration::from_secs(30);

/// See the head of this file.
pub(super) struct Definitions {
    session: Session,
    held: Mutex<Option<Held>>,
}

struct Held {
    lease: Vec<u8>,
    until_ns: u64,
    /// The statement that was run last.
    done: Option<String>,
}

impl Definitions {
    pub fn new(session: Session) -> Self {
        Definitions { session, held: Mutex::default() }
    }

    /// Takes a step.
    ///
    /// Errors: UNAVAILABLE while another lease is held, and for a statement whose lease is over;
    /// those of the statement.
    pub async fn step(&self, request: DefineRequest) -> Result<DefineReply, Status> {
        let database = self.session.database();
        let mut held = self.held.lock().await;
        let now_ns = database.clock().monotonic_ns();
        let own = held.as_ref().is_some_and(|held| held.lease == request.lease);
        match &*held {
            Some(other) if !own && now_ns < other.until_ns => {
                return Err(Status::unavailable(
                    "another statement is changing definitions: run this one again",
                ));
            }
            _ => {}
        }
        if request.is_last {
            if own {
                *held = None;
            }
            return Ok(DefineReply::default());
        }
        let until_ns = now_ns + LEASE.as_nanos() as u64;
        match (&request.text, own) {
            (None, _) => *held = Some(Held { lease: request.lease, until_ns, done: None }),
            (Some(_), false) => {
                return Err(Status::unavailable("the time for this statement was over"));
            }
            (Some(text), true) => {
                let held = held.as_mut().expect("its lease is held");
                held.until_ns = until_ns;
                if held.done.as_ref() != Some(text) {
                    self.run(text, &request.keyspace, request.role.as_deref()).await?;
                    held.done = Some(text.clone());
                }
            }
        }
        Ok(DefineReply { digest: digest::of_catalog(&database.catalog()).to_vec() })
    }

    async fn run(&self, text: &str, keyspace: &str, role: Option<&str>) -> Result<(), Status> {
        let caller = role.map_or(Caller::Owner, |role| Caller::Role(role.into()));
        let session = self.session.at(keyspace).of_caller(caller);
        session.stay_alone();
        let outcome = session.execute(text).await.map_err(|error| status(&error))?;
        debug_assert!(!matches!(outcome.kind, OutcomeKind::Rows(_)), "definitions have no rows");
        Ok(())
    }
}
