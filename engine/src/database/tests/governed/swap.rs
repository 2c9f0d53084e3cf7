//! The mind of a running engine changed: shadow, promotion, canary, rollback, back-off, hand-over.
//!
//! On the simulated disk with simulated time, while readers and writers go on; what must survive a
//! restart is tried there too.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use tokio::task::LocalSet;

use super::*;
use crate::clock::{Clock, Random, SimulatedClock};
use crate::disk::{Faults, SimulatedDisk};
use crate::governance::PolicyReport;
use crate::plugin::tests::guest::{Guest, heirloom, saboteur};
use crate::runtime::{ShardContext, SimulatedTimer};

const SHARDS: u32 = 2;
/// Turns that tasks get between two steps of simulated time.
const TURNS_PER_MS: usize = 20;
const PARTITIONS: u64 = 240;
/// Twice the time between two looks at a canary's evidence.
const CANARY_LOOK: Duration = Duration::from_millis(200);

/// A database on a simulated disk, and what moves its time.
pub(super) struct World {
    disk: SimulatedDisk,
    clock: Arc<SimulatedClock>,
}

impl World {
    pub(super) fn new() -> Self {
        let disk = SimulatedDisk::new(1);
        disk.set_faults(Faults { delay_turns_max: 3, ..Faults::default() });
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        World { disk, clock }
    }

    /// One life of the database, to its closing.
    pub(super) fn live(&self, life: impl AsyncFnOnce(Life)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (timer, mover) = SimulatedTimer::passing(self.clock.clone(), TURNS_PER_MS);
            let contexts = (0..SHARDS).map(|shard| {
                let (clock, timer) = (self.clock.clone(), Rc::new(timer.clone()));
                ShardContext::new((shard, SHARDS), self.disk.shared(), clock, timer, 5)
            });
            let options = Options {
                cache_bytes: 64 << 10,
                commitlog_segment_bytes: 1 << 20,
                clock: self.clock.clone(),
                ..Options::new(Path::new("/db"))
            };
            let database = Database::open_local(options, contexts.collect()).await.unwrap();
            let life_of = Life { database: database.clone(), clock: self.clock.clone() };
            life(life_of).await;
            database.close().await.unwrap();
            mover.abort();
        });
    }
}

#[derive(Clone)]
pub(super) struct Life {
    pub(super) database: Database,
    clock: Arc<SimulatedClock>,
}

/// What partition `p` holds.
fn value(partition: u64) -> i64 {
    partition as i64 * 7
}

impl Life {
    /// A table whose rows are about four times the cache; those of partition `p` hold `value(p)`.
    pub(super) async fn fill(&self) -> SchemaRef {
        let schema = self.database.create_table(definition(), false).await.unwrap();
        for partition in 0..PARTITIONS {
            let name = format!("p{partition}");
            let writes = (0..8).map(|at| insert(&schema, &name, at, value(partition), 1));
            self.database.apply_many(writes.collect()).await.unwrap();
        }
        self.database.flush(None).await.unwrap();
        schema
    }

    fn schema(&self) -> SchemaRef {
        self.database.catalog().table("default", "t").unwrap().clone()
    }

    /// Reads one partition and checks what it holds.
    async fn read(&self, partition: u64) {
        let schema = self.schema();
        let slice = Slice::full(Direction::Forward);
        let command = read_of(&schema, &format!("p{partition}"), slice, Some(1));
        let batches: Vec<RecordBatch> = self.database.read(command).try_collect().await.unwrap();
        let found: Vec<_> = batches
            .iter()
            .map(|batch| crate::batch::value_at(batch.column(0), 0, &DataType::BigInt).unwrap())
            .collect();
        assert_eq!(found, [Some(Value::BigInt(value(partition)))], "partition {partition}");
    }

    pub(super) async fn read_some(&self, random: &mut Random, count: u64) {
        for _ in 0..count {
            // Few are hot.
            let bound = 1 + random.below(PARTITIONS);
            self.read(random.below(bound)).await;
        }
    }

    async fn report(&self, name: &str) -> PolicyReport {
        let reports = self.database.policies().await.unwrap();
        reports.into_iter().find(|report| report.name == name).unwrap()
    }

    pub(super) async fn state(&self, name: &str) -> String {
        self.report(name).await.state
    }

    async fn create(&self, name: &str, component: Vec<u8>) {
        self.database.create_policy(name, component, vec![], None).await.unwrap();
    }

    async fn create_dist(&self, name: &str) {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist");
        self.create(name, std::fs::read(dist.join(format!("{name}.wasm"))).unwrap()).await;
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        let until = self.clock.wall_us() + duration.as_micros() as i64;
        while self.clock.wall_us() < until {
            tokio::task::yield_now().await;
        }
    }

    /// Reads and writes that go on until told to stop; each is checked, none may fail. Returns how
    /// many there were.
    fn load(&self, stop: &Rc<Cell<bool>>) -> LocalBoxFuture<'static, u64> {
        let (life, stop) = (self.clone(), stop.clone());
        Box::pin(async move {
            let schema = life.schema();
            let mut random = Random::new(3);
            let mut done = 0;
            while !stop.get() {
                life.read_some(&mut random, 3).await;
                let partition = random.below(PARTITIONS);
                let write = insert(&schema, &format!("p{partition}"), 0, value(partition), 2);
                life.database.apply(write).await.unwrap();
                done += 4;
            }
            done
        })
    }
}

#[test]
fn a_shadow_is_promoted_and_rolled_back_under_load() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create_dist("s3_fifo").await;
        let stop = Rc::new(Cell::new(false));
        let loads: Vec<_> = (0..4).map(|_| tokio::task::spawn_local(life.load(&stop))).collect();

        let rate = database.shadow_cache_policy(Some("s3_fifo"), Some(64)).await.unwrap();
        assert_eq!(rate, 1, "some hundred entries are too few to be sampled");
        life.sleep(Duration::from_millis(300)).await;
        let report = life.report("s3_fifo").await;
        assert_eq!((report.state.as_str(), report.shards), ("shadow", SHARDS));
        let shadow = report.shadow.clone().unwrap();
        assert!(shadow.sampled_lookups > 100 && shadow.entries > 0, "{shadow:?}");
        assert_eq!(shadow.estimate.lookups(), shadow.active.lookups());
        assert!(report.judged().hit_ratio().unwrap() > 0.1, "{report:?}");
        assert!(report.calls > 0 && report.usage.fuel > 0, "{report:?}");
        assert!(report.victims > 0 && report.evictions == 0, "a shadow evicts nothing: {report:?}");
        assert_eq!(life.state("lru").await, "active");

        database.set_cache_policy(Some("s3_fifo")).await.unwrap();
        life.sleep(Duration::from_millis(100)).await;
        let report = life.report("s3_fifo").await;
        assert_eq!((report.state.as_str(), report.shadow), ("active", None));
        assert!(report.lookups.hits > 0 && report.evictions > 0);
        assert_eq!(life.state("lru").await, "standby");

        let back = database.roll_back_cache_policy().await.unwrap();
        assert_eq!((back.policy.as_str(), back.was_kept), ("lru", true));
        assert_eq!(life.state("lru").await, "active");
        assert_eq!(life.state("s3_fifo").await, "standby");
        let forward = database.roll_back_cache_policy().await.unwrap();
        assert_eq!((forward.policy.as_str(), forward.was_kept), ("s3_fifo", true));

        // After a minute the instance is gone, the way back is not.
        life.clock.advance(Duration::from_secs(61));
        life.sleep(Duration::from_millis(200)).await;
        assert_eq!(life.state("lru").await, "loaded");
        let back = database.roll_back_cache_policy().await.unwrap();
        assert_eq!((back.policy.as_str(), back.was_kept), ("lru", false));
        assert_eq!(life.state("s3_fifo").await, "standby");
        stop.set(true);
        for load in loads {
            assert!(load.await.unwrap() > 0);
        }
        assert_eq!(database.policy_exits().await.unwrap(), []);
        database.drop_policy("s3_fifo", false).await.unwrap();
        let nothing = database.roll_back_cache_policy().await.unwrap_err();
        assert!(nothing.to_string().contains("nothing to roll back"), "{nothing}");
    });
}

#[test]
fn a_shadow_that_fails_leaves_a_record_and_nothing_else() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create("bad", saboteur(6).component()).await;
        database.shadow_cache_policy(Some("bad"), None).await.unwrap();
        let mut random = Random::new(4);
        life.read_some(&mut random, 400).await;
        let report = life.report("bad").await;
        assert_eq!((report.state.as_str(), report.shadow), ("loaded", None));
        assert!(report.last_failure.unwrap().contains("unreachable"));
        assert_eq!(life.state("lru").await, "active");
        let exits = database.policy_exits().await.unwrap();
        assert_eq!(exits.len(), SHARDS as usize);
        for exit in &exits {
            assert_eq!((exit.role, exit.kind, exit.policy.as_str()), ("shadow", "trap", "bad"));
            assert!(exit.calls == 7 && exit.events > 0 && !exit.last_events.is_empty());
            assert!((1_700_000_000_000_000..=life.clock.wall_us()).contains(&exit.at_us));
        }
        // None is needed to be shown, and one that is dropped ends.
        life.create_dist("sieve").await;
        database.shadow_cache_policy(Some("sieve"), Some(1)).await.unwrap();
        database.drop_policy("sieve", false).await.unwrap();
        assert_eq!(database.shadow_cache_policy(None, None).await.unwrap(), 0);
        let unknown = database.shadow_cache_policy(Some("sieve"), None).await.unwrap_err();
        assert_eq!(unknown.to_string(), "policy 'sieve' does not exist");
        assert!(database.shadow_cache_policy(Some("lru"), Some(0)).await.is_err());
    });
}

#[test]
fn a_policy_that_fails_is_tried_again_twice_and_then_ejected() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create("bad", saboteur(30).component()).await;
        database.set_cache_policy(Some("bad")).await.unwrap();
        let mut random = Random::new(5);
        let mut states = Vec::new();
        for _ in 0..400 {
            life.read_some(&mut random, 20).await;
            let state = life.state("bad").await;
            if states.last() != Some(&state) {
                states.push(state.clone());
            }
            if state == "ejected" && database.policy_exits().await.unwrap().len() == 6 {
                break;
            }
            life.sleep(Duration::from_millis(100)).await;
        }
        assert!(states.iter().any(|state| state == "suspended"), "{states:?}");
        assert_eq!(states.last().map(String::as_str), Some("ejected"), "{states:?}");
        let exits = database.policy_exits().await.unwrap();
        assert_eq!(exits.len(), 6, "three on each shard, then no more");
        let of_first: Vec<i64> =
            exits.iter().filter(|exit| exit.shard == 0).map(|exit| exit.at_us).collect();
        assert!(of_first[1] - of_first[0] >= 900_000, "a pause of a second: {of_first:?}");
        assert!(of_first[2] - of_first[1] >= 1_900_000, "then of two: {of_first:?}");
        life.sleep(Duration::from_secs(5)).await;
        life.read_some(&mut random, 50).await;
        assert_eq!(life.state("bad").await, "ejected");
        assert_eq!(database.policy_exits().await.unwrap().len(), 6);

        let back = database.roll_back_cache_policy().await.unwrap();
        assert_eq!(back.policy, "lru");
        assert_eq!(life.state("lru").await, "active");
        assert_eq!(life.state("bad").await, "loaded");
        life.read_some(&mut random, 50).await;
    });
}

#[test]
fn a_failure_right_after_a_switch_is_rolled_back_in_one_exchange() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create_dist("sieve").await;
        life.create("bad", saboteur(5).component()).await;
        database.set_cache_policy(Some("sieve")).await.unwrap();
        let mut random = Random::new(6);
        life.read_some(&mut random, 100).await;
        database.set_cache_policy(Some("bad")).await.unwrap();
        for _ in 0..40 {
            life.read_some(&mut random, 5).await;
            if life.report("bad").await.shards == SHARDS && life.state("bad").await == "suspended" {
                break;
            }
        }
        assert_eq!(life.state("bad").await, "suspended");
        assert_eq!(life.state("sieve").await, "standby");
        let back = database.roll_back_cache_policy().await.unwrap();
        assert_eq!((back.policy.as_str(), back.was_kept), ("sieve", true));
        assert_eq!(life.state("sieve").await, "active");
    });
}

/// Partitions that live on a shard.
fn partitions_of(life: &Life, shard: u32) -> Vec<u64> {
    let schema = life.schema();
    let is_here =
        |partition: &u64| life.database.shard_of(&key(&schema, &format!("p{partition}"))) == shard;
    (0..PARTITIONS).filter(is_here).collect()
}

/// Reads on shard 0 where LRU is much better than FIFO, until a policy is no canary any more:
/// between two reads of a hot partition about 40 KiB of the cache's 64 are touched, rows of the hot
/// ones and rows and pages of a cold one. LRU keeps the hot rows; FIFO loses each of them every few
/// turns.
async fn try_canary(life: &Life, name: &str) {
    let here = partitions_of(life, 0);
    let (hot, cold) = here.split_at(8);
    let mut cold = cold.iter().cycle();
    for round in 0..400 {
        for _ in 0..20 {
            let reads = hot.iter().map(|hot| life.read(*hot));
            futures::future::join_all(reads).await;
            let cold = cold.next().expect("a cycle has no end");
            life.read(*cold).await;
        }
        if round % 5 == 4 {
            // The evidence is looked at once a while.
            life.sleep(CANARY_LOOK).await;
            if life.state(name).await != "canary" {
                return;
            }
        }
    }
    panic!("no verdict: {:?}", life.report(name).await);
}

#[test]
fn a_canary_that_is_better_goes_on_to_all_shards() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create_dist("fifo").await;
        database.set_cache_policy(Some("fifo")).await.unwrap();
        assert_eq!(database.canary_cache_policy("lru").await.unwrap(), 1, "of two shards");
        assert_eq!(life.report("lru").await.state, "canary");
        assert_eq!(
            (life.state("fifo").await, life.report("fifo").await.shards),
            ("active".into(), 1)
        );
        let refused = database.shadow_cache_policy(Some("fifo"), None).await.unwrap_err();
        assert!(refused.to_string().contains("canary"), "{refused}");
        let first = life.report("lru").await.trial_text();
        assert_eq!(first.as_deref(), Some("no gain known after 0 of 10 to 60 windows"));
        try_canary(&life, "lru").await;
        let report = life.report("lru").await;
        assert_eq!((report.state.as_str(), report.shards), ("active", SHARDS), "{report:?}");
        assert_eq!(report.trial, None, "the policy before is a shadow no more");
        assert_eq!(life.state("fifo").await, "standby");
        let came_to = report.trial_text().unwrap();
        assert!(came_to.starts_with("took over: a gain of "), "{came_to}");
        assert_eq!(database.policy_exits().await.unwrap(), []);
        // It goes after a minute, also where the new one was tried first.
        life.clock.advance(Duration::from_secs(61));
        life.sleep(Duration::from_millis(200)).await;
        assert_eq!(life.state("fifo").await, "loaded");
        let back = database.roll_back_cache_policy().await.unwrap();
        assert_eq!((back.policy.as_str(), back.was_kept), ("fifo", false));
    });
}

#[test]
fn a_canary_that_is_worse_is_rolled_back() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create_dist("fifo").await;
        assert_eq!(database.canary_cache_policy("fifo").await.unwrap(), 1);
        try_canary(&life, "fifo").await;
        assert_eq!(life.state("fifo").await, "loaded");
        let came_to = life.report("fifo").await.trial_text().unwrap();
        assert!(came_to.starts_with("went back: canary: worse by"), "{came_to}");
        let lru = life.report("lru").await;
        assert_eq!((lru.state.as_str(), lru.shards), ("active", SHARDS));
        let exits = database.policy_exits().await.unwrap();
        let [exit] = &exits[..] else { panic!("{exits:?}") };
        assert_eq!((exit.kind, exit.role, exit.shard), ("canary", "active", 0));
        assert!(exit.message.contains("windows in a row"), "{}", exit.message);
    });
}

#[test]
fn a_canary_that_fails_is_rolled_back_and_people_decide_before_it_does() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create_dist("fifo").await;
        life.create("bad", saboteur(30).component()).await;
        database.canary_cache_policy("bad").await.unwrap();
        let busy = database.drop_policy("bad", false).await.unwrap_err();
        assert!(busy.to_string().contains("canary"), "{busy}");
        try_canary(&life, "bad").await;
        assert_eq!(life.state("bad").await, "loaded");
        let exits = database.policy_exits().await.unwrap();
        assert_eq!((exits.len(), exits[0].kind), (1, "trap"), "{exits:?}");
        assert_eq!(life.report("lru").await.shards, SHARDS);

        // A person may decide before the windows do, either way.
        database.canary_cache_policy("fifo").await.unwrap();
        assert_eq!(database.roll_back_cache_policy().await.unwrap().policy, "lru");
        assert_eq!(life.state("fifo").await, "loaded");
        database.canary_cache_policy("fifo").await.unwrap();
        database.set_cache_policy(Some("fifo")).await.unwrap();
        let report = life.report("fifo").await;
        assert_eq!(report.shards, SHARDS);
        assert_eq!(report.trial_text().as_deref(), Some("took over: by statement"));
        let governs = database.canary_cache_policy("fifo").await.unwrap_err();
        assert!(governs.to_string().contains("in charge already"), "{governs}");
    });
}

#[test]
fn state_goes_to_a_successor_of_the_same_kind_and_over_a_restart() {
    let world = World::new();
    let note = async |life: &Life, name: &str| life.report(name).await.state_note;
    world.live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create("first", heirloom(3).component()).await;
        let second = Guest { pages: 3, ..heirloom(3) };
        life.create("second", second.component()).await;
        life.create("other", heirloom(4).component()).await;
        database.set_cache_policy(Some("first")).await.unwrap();
        assert_eq!(note(&life, "first").await, "cold, there was none of its name and schema");
        database.set_cache_policy(Some("second")).await.unwrap();
        assert_eq!(note(&life, "second").await, "1 bytes of the policy before");
        database.set_cache_policy(Some("other")).await.unwrap();
        assert!(note(&life, "other").await.starts_with("cold"), "another schema");
        database.set_cache_policy(Some("first")).await.unwrap();
        database.shadow_cache_policy(Some("second"), Some(1)).await.unwrap();
        database.set_cache_policy(Some("second")).await.unwrap();
        assert_eq!(note(&life, "second").await, "1 bytes of its shadow");
    });
    world.live(async |life| {
        assert_eq!(life.state("second").await, "active");
        assert_eq!(note(&life, "second").await, "1 bytes of the last run");
        // It serves once: after a crash it would be of a time long gone.
        let files = world.disk.files();
        let left = files.iter().find(|(path, _)| path.extension() == Some("state".as_ref()));
        assert_eq!(left, None);
    });
    // Damage means a cold start with a note, and nothing worse.
    for shard in 0..SHARDS {
        let file = format!("/db/policies/{shard}-of-{SHARDS}.state");
        world.disk.corrupt(Path::new(&file), 40, 0xFF);
    }
    world.live(async |life| {
        assert_eq!(life.state("second").await, "active");
        let noted = note(&life, "second").await;
        assert!(noted.starts_with("cold") && noted.contains("unusable: crc"), "{noted}");
        let explained = life.database.explain_policy("second").await.unwrap();
        assert_eq!(explained.state_note, noted);
        life.read_some(&mut Random::new(1), 20).await;
        let files = world.disk.files();
        let mut left = files.iter().filter(|(path, _)| path.extension() == Some("state".as_ref()));
        assert_eq!(left.next(), None, "what is unusable is not looked at again");
    });
}

#[test]
fn a_state_that_is_refused_is_a_cold_start() {
    World::new().live(async |life| {
        life.fill().await;
        let database = &life.database;
        life.create("first", heirloom(3).component()).await;
        let traps = Guest { restore: "unreachable".into(), ..heirloom(3) };
        life.create("traps", traps.component()).await;
        let refuses = Guest {
            restore: "(i32.store8 (i32.const 280) (i32.const 1))
                      (i32.store (i32.const 284) (i32.const 512))
                      (i32.store (i32.const 288) (i32.const 4))
                      i32.const 280"
                .into(),
            ..heirloom(3)
        };
        life.create("refuses", refuses.component()).await;
        for (name, reason) in [("traps", "unreachable"), ("refuses", "test")] {
            database.set_cache_policy(Some("first")).await.unwrap();
            database.set_cache_policy(Some(name)).await.unwrap();
            let report = life.report(name).await;
            assert_eq!(report.state, "active");
            let note = report.state_note;
            assert!(note.starts_with("cold") && note.contains(reason), "{note}");
        }
        life.read_some(&mut Random::new(1), 100).await;
        assert_eq!(database.policy_exits().await.unwrap(), []);
    });
}
