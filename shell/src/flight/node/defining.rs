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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_engine::clock::SimulatedClock;
    use tonic::Code;

    use super::*;
    use crate::flight::session::tests::database_by;
    use crate::query::SessionOptions;

    struct World {
        clock: Arc<SimulatedClock>,
        definitions: Definitions,
        _directory: tempfile::TempDir,
    }

    impl World {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let clock = SimulatedClock::new(1_700_000_000_000_000);
            let database = database_by(&clock, directory.path()).await;
            let session = Session::new(database, SessionOptions::default()).unwrap();
            World { clock, definitions: Definitions::new(session), _directory: directory }
        }

        async fn step(
            &self,
            lease: u8,
            text: Option<&str>,
            is_last: bool,
        ) -> Result<DefineReply, Status> {
            let request = DefineRequest {
                lease: vec![lease],
                text: text.map(str::to_owned),
                keyspace: "default".to_owned(),
                is_last,
                role: None,
            };
            self.definitions.step(request).await
        }

        async fn begin(&self, lease: u8) -> Result<DefineReply, Status> {
            self.step(lease, None, false).await
        }

        async fn run(&self, lease: u8, text: &str) -> Result<DefineReply, Status> {
            self.step(lease, Some(text), false).await
        }

        async fn end(&self, lease: u8) -> Result<DefineReply, Status> {
            self.step(lease, None, true).await
        }

        /// What a step is refused with.
        fn refusal(step: Result<DefineReply, Status>) -> String {
            let refused = step.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused}");
            refused.message().to_owned()
        }

        fn has(&self, table: &str) -> bool {
            let catalog = self.definitions.session.database().catalog();
            catalog.table("default", table).is_some()
        }
    }

    const CREATE: &str = "CREATE TABLE t (k int PRIMARY KEY)";
    const BUSY: &str = "another statement is changing definitions";
    const OVER: &str = "the time for this statement was over";

    /// The answer to the first one may have been lost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_statement_that_comes_again_under_its_lease_is_run_once() {
        let world = World::new().await;
        world.begin(1).await.unwrap();
        let done = world.run(1, CREATE).await.unwrap();
        for _ in 0..2 {
            assert_eq!(world.run(1, CREATE).await.unwrap(), done);
        }
        world.run(1, "DROP TABLE t").await.unwrap();
        assert!(!world.has("t"), "another one is run");
        world.run(1, CREATE).await.unwrap();
        assert!(world.has("t"));
        world.end(1).await.unwrap();
        // Under another lease it is another statement, and one that failed is run again.
        world.begin(2).await.unwrap();
        for _ in 0..2 {
            assert_eq!(world.run(2, CREATE).await.unwrap_err().code(), Code::AlreadyExists);
        }
        world.run(2, "CREATE TABLE u (k int PRIMARY KEY)").await.unwrap();
        assert!(world.has("u"), "the lease goes on behind a failure");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lease_keeps_others_out_until_it_ends_or_has_been_silent_for_its_time() {
        let world = World::new().await;
        let moment = Duration::from_micros(1);
        world.begin(1).await.unwrap();
        assert!(World::refusal(world.begin(2).await).contains(BUSY));
        assert!(World::refusal(world.run(2, CREATE).await).contains(BUSY));
        assert!(World::refusal(world.end(2).await).contains(BUSY), "it is not theirs to end");
        // Each step holds it anew.
        world.clock.advance(LEASE - moment);
        world.run(1, "CREATE TABLE u (k int PRIMARY KEY)").await.unwrap();
        world.clock.advance(LEASE - moment);
        assert!(World::refusal(world.begin(2).await).contains(BUSY));
        world.clock.advance(moment);
        world.begin(2).await.unwrap();
        assert!(World::refusal(world.run(1, CREATE).await).contains(BUSY));
        world.end(2).await.unwrap();
        assert!(World::refusal(world.run(1, CREATE).await).contains(OVER));
        assert!(!world.has("t"), "nobody ran it");
        // Nobody waits for one that has ended.
        world.begin(3).await.unwrap();
        world.run(3, CREATE).await.unwrap();
        assert!(world.has("t"));
    }

    /// Names without a keyspace mean that of the session, which is at the other node.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_statement_has_the_keyspace_and_the_rights_that_come_with_it() {
        const DENIED: Result<(), Code> = Err(Code::PermissionDenied);
        let world = World::new().await;
        let owner = &world.definitions.session;
        for text in ["CREATE KEYSPACE k2", "CREATE ROLE ann", "CREATE ROLE bob"] {
            owner.execute(text).await.unwrap();
        }
        world.begin(1).await.unwrap();
        let run = async |keyspace: &str, role: Option<&str>, text: &str| {
            let request = DefineRequest {
                lease: vec![1],
                text: Some(text.to_owned()),
                keyspace: keyspace.to_owned(),
                is_last: false,
                role: role.map(str::to_owned),
            };
            world.definitions.step(request).await.map(drop).map_err(|refused| refused.code())
        };
        let has = |keyspace: &str| owner.database().catalog().table(keyspace, "t").is_some();
        assert_eq!(run("k2", Some("ann"), CREATE).await, DENIED);
        owner.execute("GRANT CREATE ON KEYSPACE k2 TO ann").await.unwrap();
        assert_eq!(run("default", Some("ann"), CREATE).await, DENIED);
        assert!(!has("k2") && !has("default"));
        assert_eq!(run("k2", Some("ann"), CREATE).await, Ok(()));
        assert!(has("k2") && !has("default"));
        // Who made it may do everything with it, and nobody else.
        let drop_it = "DROP TABLE t";
        assert_eq!(run("k2", Some("bob"), drop_it).await, DENIED);
        assert!(has("k2"));
        assert_eq!(run("k2", Some("ann"), drop_it).await, Ok(()));
        assert!(!has("k2"));
        // Without a role it is the owner.
        assert_eq!(run("default", None, CREATE).await, Ok(()));
        assert!(has("default") && !has("k2"));
    }

    /// A coordinator changes nothing where two nodes do not tell the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_nodes_compare_tells_each_definition_and_nothing_of_one_that_is_gone() {
        let world = World::new().await;
        world.begin(1).await.unwrap();
        let mut before = world.run(1, CREATE).await.unwrap();
        for (create, drop) in [
            ("CREATE KEYSPACE k", "DROP KEYSPACE k"),
            ("CREATE TYPE point (x int, y int)", "DROP TYPE point"),
            ("CREATE TABLE u (k int PRIMARY KEY)", "DROP TABLE u"),
            ("CREATE VIEW v AS SELECT k FROM t", "DROP VIEW v"),
        ] {
            assert_ne!(world.run(1, create).await.unwrap(), before, "{create}");
            assert_eq!(world.run(1, drop).await.unwrap(), before, "{drop}");
        }
        let views = ["SELECT k FROM t", "SELECT k + 1 AS k FROM t"];
        for (number, text) in views.into_iter().enumerate() {
            let create = format!("CREATE OR REPLACE VIEW v AS {text}");
            let after = world.run(1, &create).await.unwrap();
            assert_ne!(after, before, "view {number}");
            before = after;
        }
    }
}
