//! The stages of a policy on one shard, of the native one: what is told of it, who stands by.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;

use super::*;
use crate::cache::{PageCache, PagedFile};
use crate::clock::SimulatedClock;
use crate::config::{PAGE_BYTES, POLICY_STANDBY_MS};
use crate::disk::{OpenOptions, SimulatedDisk, write_file_atomically};
use crate::governance::origin::ended;
use crate::governance::tests::parts;
use crate::policy::{FailureKind, TrialVerdict};
use crate::runtime::{ShardContext, SimulatedTimer};

/// Pages of the file that is read.
const PAGES: u64 = 8;
const STANDBY: Duration = Duration::from_millis(POLICY_STANDBY_MS);

/// A post over a cache, and a file that is read through it.
struct Life {
    post: Rc<dyn Post>,
    cache: Rc<PageCache>,
    file: PagedFile,
    clock: Arc<SimulatedClock>,
}

impl Life {
    fn stages(&self) -> &dyn Stages {
        self.post.stages().expect("it is rolled out in stages")
    }

    /// Reads the first pages of the file.
    async fn read(&self, pages: u64) {
        for number in 0..pages {
            self.file.page(number).await.unwrap();
        }
    }

    /// Time passes, and the shard ticks.
    fn pass(&self, by: Duration) {
        self.clock.advance(by);
        self.post.clone().tick();
    }

    fn states(&self) -> Vec<String> {
        self.post.shares().into_iter().map(|share| share.state).collect()
    }

    /// The report of who is in charge.
    fn in_charge(&self) -> PolicyReport {
        let is_in_charge = |share: &PolicyReport| matches!(&*share.state, "active" | "canary");
        self.post.shares().into_iter().find(is_in_charge).expect("somebody is in charge")
    }

    /// Look-ups and events of all that policies did so far.
    fn told(&self) -> (u64, u64) {
        let shares = self.post.shares();
        let lookups = shares.iter().map(|share| share.lookups.lookups()).sum();
        (lookups, shares.iter().map(|share| share.events).sum())
    }
}

fn live(life: impl AsyncFnOnce(&Life)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let disk = SimulatedDisk::new(1).shared();
        let (folder, path) = (Path::new("/db"), Path::new("/db/file"));
        disk.create_directories(folder).await.unwrap();
        let content = vec![7_u8; PAGES as usize * PAGE_BYTES];
        write_file_atomically(&*disk, path, &content).await.unwrap();
        let file = disk.open(path, OpenOptions::READ).await.unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let timer = Rc::new(SimulatedTimer::new(clock.clone()));
        let parts = parts(ShardContext::new((0, 1), disk, clock.clone(), timer, 5));
        let cache = parts.cache.clone();
        let file = PagedFile::new(cache.clone(), file).await.unwrap();
        life(&Life { post: Eviction::post(&parts), cache, file, clock }).await;
    });
}

#[test]
fn what_a_policy_did_stays_counted_when_another_follows_or_the_one_before_comes_back() {
    live(async |life| {
        let stages = life.stages();
        assert_eq!(life.states(), ["active"]);
        life.read(8).await;
        stages.switch(&Origin::default()).await.unwrap();
        assert_eq!(life.states(), ["loaded", "active", "standby"]);
        assert_eq!(life.told(), (8, 8));

        life.read(5).await;
        assert!(stages.roll_back(&Origin::default()).await.unwrap(), "it stood by");
        assert_eq!(life.in_charge().state_note, "the instance that stood by");
        assert_eq!(life.states(), ["loaded", "active", "standby"]);
        assert_eq!(life.told(), (13, 13));

        life.read(3).await;
        stages.drop_standby(None);
        assert_eq!(life.states(), ["loaded", "active"]);
        assert!(!stages.roll_back(&Origin::default()).await.unwrap(), "it is a new instance");
        assert_eq!(life.in_charge().state_note, "none, it keeps no state");
        assert_eq!(life.told(), (16, 16));
    });
}

#[test]
fn a_canary_that_ends_leaves_the_policy_before_in_charge_and_no_shadow() {
    live(async |life| {
        let stages = life.stages();
        let failure = ended(FailureKind::Operator, "enough");
        life.read(8).await;
        stages.end_canary(failure.clone(), &Origin::default()).await.unwrap();
        assert_eq!(life.states(), ["active"], "none began here");
        assert_eq!((life.in_charge().trial, stages.canary_verdict()), (None, None));

        stages.begin_canary(&Origin::default(), &Origin::default()).await.unwrap();
        assert_eq!(life.states(), ["loaded", "canary", "standby"]);
        assert_eq!(life.in_charge().trial, Some((0, None)));
        assert_eq!(stages.canary_verdict(), Some(TrialVerdict::Waits));
        life.read(5).await;
        stages.end_canary(failure, &Origin::default()).await.unwrap();
        assert_eq!(life.states(), ["loaded", "active", "loaded"], "the last one is the failure");
        assert_eq!((life.in_charge().trial, stages.canary_verdict()), (None, None));
        assert!(life.cache.policy_status().shadow.is_none());
        assert_eq!(life.told(), (13, 13));
        let exits = life.post.exits();
        assert_eq!(exits.len(), 1);
        assert_eq!((exits[0].role, &*exits[0].message, exits[0].events), ("active", "enough", 5));
    });
}

#[test]
fn a_canary_that_is_confirmed_governs_and_the_one_before_stands_by_for_a_while() {
    live(async |life| {
        let stages = life.stages();
        stages.begin_canary(&Origin::default(), &Origin::default()).await.unwrap();
        life.pass(2 * STANDBY);
        assert_eq!(life.states(), ["loaded", "canary", "standby"], "until there is a verdict");
        stages.confirm_canary().await;
        assert_eq!((life.in_charge().trial, stages.canary_verdict()), (None, None));
        life.pass(STANDBY - Duration::from_millis(1));
        assert_eq!(life.states(), ["loaded", "active", "standby"]);
        life.pass(Duration::from_millis(1));
        assert_eq!(life.states(), ["loaded", "active"]);
        // One that was not on trial is not confirmed.
        stages.confirm_canary().await;
        assert_eq!(life.states(), ["loaded", "active"]);
    });
}
