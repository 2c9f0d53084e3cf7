//! Governance over shards that only write down what they are asked for, with no database.

mod canary;
mod report;
mod rollout;
mod wishes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use tokio::task::LocalSet;

use super::PolicyFiles;
use super::governance::{Governance, Setting};
use super::origin::{Component, Origin};
use super::report::{PolicyExit, PolicyReport};
use super::shard::{Governed, ShardPolicies, Shards};
use super::wishes::{Keeper, Wishes};
use super::world::{AtOnce, Parts, Post, Stages};
use crate::admission::rate::{Limiter, PublishedRates};
use crate::admission::{Admission, FailFast, ReadMemory};
use crate::cache::PageCache;
use crate::clock::SimulatedClock;
use crate::disk::SimulatedDisk;
use crate::error::{Error, Result};
use crate::plugin::World;
use crate::plugin::tests::guest::{Guest, io_priority, load_shedding};
use crate::policy::{NATIVES, PolicyFailure, TrialVerdict};
use crate::runtime::{ShardContext, ShardHandle, SimulatedTimer, Timer, start_local};

const SHARDS: u32 = 3;
const FOLDER: &str = "/db/policies";
/// Longer than the time between two looks at a canary's evidence.
const LOOK: Duration = Duration::from_millis(150);

/// What all posts of a test have in common.
#[derive(Default)]
struct Script {
    /// Steps as they came: `<shard> <step> <policy>`.
    steps: RefCell<Vec<String>>,
    /// The shard and the step that fails.
    refuses: Cell<Option<(u32, &'static str)>>,
    /// What each shard says of a canary.
    verdict: RefCell<Option<TrialVerdict>>,
    /// What single shards say of it instead.
    verdicts: RefCell<BTreeMap<u32, TrialVerdict>>,
    /// Policies that left shards by a failure.
    exits: RefCell<Vec<PolicyExit>>,
}

/// A post that writes down what it is asked for.
struct Scripted {
    shard: u32,
    world: World,
    script: Rc<Script>,
    prepared: RefCell<String>,
}

impl Scripted {
    fn note(&self, step: &'static str, policy: &str) -> Result<()> {
        self.script.steps.borrow_mut().push(format!("{} {step} {policy}", self.shard));
        match self.script.refuses.get() == Some((self.shard, step)) {
            true => Err(Error::Policy { name: policy.to_owned(), message: format!("no {step}") }),
            false => Ok(()),
        }
    }

    fn noted(&self, step: &'static str, origin: &Origin) -> LocalBoxFuture<'static, Result<()>> {
        std::future::ready(self.note(step, &origin.identity().name)).boxed_local()
    }
}

impl Post for Scripted {
    fn try_out<'a>(&'a self, component: &'a Component) -> LocalBoxFuture<'a, Result<String>> {
        let tried = self.note("try", &component.info.name);
        async move { tried.map(|()| "9.9".to_owned()) }.boxed_local()
    }

    fn shares(&self) -> Vec<PolicyReport> {
        Vec::new()
    }

    fn metrics(&self, name: &str) -> Vec<(String, f64)> {
        match self.world {
            World::Eviction => vec![(format!("figure of {name}"), f64::from(self.shard))],
            _ => Vec::new(),
        }
    }

    fn exits(&self) -> Vec<PolicyExit> {
        let exits = self.script.exits.borrow();
        let is_own = |exit: &&PolicyExit| self.world == World::Eviction && exit.shard == self.shard;
        exits.iter().filter(is_own).cloned().collect()
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        Some(self)
    }

    fn stages(&self) -> Option<&dyn Stages> {
        Some(self)
    }
}

impl AtOnce for Scripted {
    fn prepare<'a>(&'a self, origin: &'a Origin) -> LocalBoxFuture<'a, Result<()>> {
        *self.prepared.borrow_mut() = origin.identity().name;
        self.noted("prepare", origin)
    }

    fn commit(&self) {
        self.note("commit", &self.prepared.borrow()).expect("no script refuses a commit");
    }
}

impl Stages for Scripted {
    fn load(&self) -> LocalBoxFuture<'_, ()> {
        self.note("load", "").expect("no script refuses a load");
        std::future::ready(()).boxed_local()
    }

    fn switch<'a>(&'a self, next: &'a Origin) -> LocalBoxFuture<'a, Result<()>> {
        self.noted("switch", next)
    }

    fn roll_back<'a>(&'a self, previous: &'a Origin) -> LocalBoxFuture<'a, Result<bool>> {
        self.noted("roll back", previous).map(|noted| noted.map(|()| true)).boxed_local()
    }

    fn drop_standby(&self, name: Option<&str>) {
        self.note("drop standby", name.unwrap_or_default()).expect("no script refuses this");
    }

    fn begin_shadow<'a>(
        &'a self,
        origin: &'a Origin,
        sample: Option<u32>,
    ) -> LocalBoxFuture<'a, Result<u32>> {
        let rate = sample.unwrap_or(64);
        self.noted("shadow", origin).map(move |noted| noted.map(|()| rate)).boxed_local()
    }

    fn end_shadow(&self, name: Option<&str>) {
        self.note("end shadow", name.unwrap_or_default()).expect("no script refuses this");
    }

    fn begin_canary<'a>(
        &'a self,
        next: &'a Origin,
        _previous: &'a Origin,
    ) -> LocalBoxFuture<'a, Result<()>> {
        self.noted("canary", next)
    }

    fn canary_verdict(&self) -> Option<TrialVerdict> {
        let own = self.script.verdicts.borrow().get(&self.shard).cloned();
        own.or_else(|| self.script.verdict.borrow().clone())
    }

    fn confirm_canary(&self) -> LocalBoxFuture<'_, ()> {
        self.note("confirm", "").expect("no script refuses a confirmation");
        std::future::ready(()).boxed_local()
    }

    fn end_canary<'a>(
        &'a self,
        failure: PolicyFailure,
        previous: &'a Origin,
    ) -> LocalBoxFuture<'a, Result<()>> {
        assert!(!failure.message.is_empty());
        self.noted("end canary", previous)
    }
}

struct TestShard(Rc<ShardPolicies>);

impl Governed for TestShard {
    fn policies(&self) -> &Rc<ShardPolicies> {
        &self.0
    }
}

/// Wishes in memory.
#[derive(Default)]
struct Memory {
    wishes: Mutex<Wishes>,
    is_full: AtomicBool,
}

impl Keeper for Memory {
    fn wishes(&self) -> Wishes {
        self.wishes.lock().unwrap().clone()
    }

    fn keep(&self, wishes: Wishes) -> BoxFuture<'_, Result<()>> {
        let kept = match self.is_full.load(Ordering::Relaxed) {
            true => Err(Error::invalid("no room for wishes")),
            false => {
                *self.wishes.lock().unwrap() = wishes;
                Ok(())
            }
        };
        std::future::ready(kept).boxed()
    }

    fn uninterrupted(
        &self,
        change: BoxFuture<'static, Result<()>>,
    ) -> BoxFuture<'static, Result<()>> {
        change
    }
}

/// What a test has.
struct Life {
    governance: Governance,
    keeper: Arc<Memory>,
    script: Rc<Script>,
    shards: Vec<ShardHandle<TestShard>>,
    timer: Rc<SimulatedTimer>,
    disk: SimulatedDisk,
}

impl Life {
    /// What was asked for since the last time.
    fn steps(&self) -> Vec<String> {
        std::mem::take(&mut *self.script.steps.borrow_mut())
    }

    fn refuse(&self, shard: u32, step: &'static str) {
        self.script.refuses.set(Some((shard, step)));
    }

    /// What one shard says of the canary from now on.
    fn says(&self, shard: u32, verdict: TrialVerdict) {
        self.script.verdicts.borrow_mut().insert(shard, verdict);
    }

    async fn create(&self, name: &str, component: Vec<u8>) {
        let info = self.governance.create(name, component, Vec::new(), None).await.unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str()), (name, "9.9"));
        assert_eq!(self.steps(), [format!("0 try {name}")]);
    }

    fn wanted(&self, world: World) -> Option<String> {
        self.keeper.wishes().wanted(world).map(str::to_owned)
    }

    async fn has_file(&self, name: &str) -> bool {
        let entries = self.disk.shared().list(Path::new(FOLDER)).await.unwrap();
        entries.iter().any(|entry| entry.name == name)
    }

    async fn came_to(&self, name: &str) -> Option<String> {
        let reports = self.governance.policies().await.unwrap();
        reports.into_iter().find(|report| report.name == name).unwrap().trial_ended
    }
}

fn shard(context: Rc<ShardContext>, script: Rc<Script>) -> Rc<TestShard> {
    let posts = World::ALL.map(|world| {
        let post = Scripted {
            shard: context.shard,
            world,
            script: script.clone(),
            prepared: RefCell::default(),
        };
        (world, Rc::new(post) as Rc<dyn Post>)
    });
    Rc::new(TestShard(ShardPolicies::with_posts(parts(context), posts.to_vec())))
}

/// The parts of a shard without a database.
pub(super) fn parts(context: Rc<ShardContext>) -> Parts {
    let memory = ReadMemory::new(1 << 20);
    Parts {
        cache: PageCache::new(1 << 20, 1),
        limiter: Rc::new(RefCell::new(Limiter::new(1, Arc::new(PublishedRates::new(1))))),
        admission: Rc::new(Admission::new(context.clock.clone(), memory, FailFast::new(1))),
        compactions: Rc::default(),
        files: PolicyFiles::new(PathBuf::from(FOLDER)),
        context,
    }
}

fn live(life: impl AsyncFnOnce(&Life)) {
    live_on(SHARDS, life);
}

/// As `live`, on so many shards.
fn live_on(shard_count: u32, life: impl AsyncFnOnce(&Life)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let disk = SimulatedDisk::new(1);
        disk.shared().create_directories(Path::new(FOLDER)).await.unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let (timer, mover) = SimulatedTimer::passing(clock.clone(), 20);
        let script = Rc::new(Script::default());
        let mut shards = Vec::new();
        for number in 0..shard_count {
            let timer = Rc::new(timer.clone());
            let place = (number, shard_count);
            let context = ShardContext::new(place, disk.shared(), clock.clone(), timer, 5);
            let script = script.clone();
            let init = |context| async move { Ok(shard(context, script)) }.boxed_local();
            shards.push(start_local(context, init).await.unwrap());
        }
        let keeper = Arc::new(Memory::default());
        let governance = Governance::new(Setting {
            shards: Shards::new(&shards),
            keeper: keeper.clone(),
            files: PolicyFiles::new(PathBuf::from(FOLDER)),
            compiler: None,
            keeps_code: false,
        });
        let given = Life { governance, keeper, script, shards, timer, disk };
        life(&given).await;
        for shard in &given.shards {
            shard.stop().await.unwrap();
        }
        mover.abort();
    });
}
