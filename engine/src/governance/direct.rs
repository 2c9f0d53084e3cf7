//! Worlds with a direct swap: cache admission, rate limits, read admission, load shedding, I/O
//! priority and compaction.
//!
//! Invariant: every shard makes its instance before any of them changes, so one refusal leaves all
//! shards as they were. Not here: the order of the shards (`rollout.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::origin::{Component, Origin};
use super::report::PolicyReport;
use super::world::{AtOnce, Limits, Parts, Post, World};
use crate::admission::Admission;
use crate::admission::rate::Limiter;
use crate::cache::PageCache;
use crate::error::Result;
use crate::io::IoQueue;
use crate::plugin::{
    Instance, WasmAdmissionPolicy, WasmCompactionPolicy, WasmIoPriorityPolicy,
    WasmLoadSheddingPolicy, WasmRatePolicy, WasmReadAdmissionPolicy,
};
use crate::policy::compaction::Chooser;
use crate::policy::{PlanStatus, PolicyFailure};

/// Name of the rate policy that is always there.
pub const NATIVE_RATE: &str = "decaying";

/// A world whose policies are exchanged at once, as one shard has it.
pub(super) trait Direct: World + 'static {
    /// How large the thing is that it decides for.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Lets a policy decide under the name of its statement; `None` what the engine has itself.
    fn install(&self, policy: Option<(String, Box<Self::Policy>)>);

    /// What the policy that was installed did; `None` where the engine decides by itself.
    fn status(&self) -> Option<Status>;

    /// Its own figures.
    fn metrics(&self) -> Vec<(String, f64)>;
}

/// What a policy did since it was installed.
pub(super) struct Status {
    name: String,
    calls: u64,
    events: u64,
    /// Answers that were not legal, and why the last one was not.
    invalid: u64,
    last_invalid: Option<String>,
    /// Why it does not decide any more.
    failure: Option<PolicyFailure>,
}

impl Status {
    fn of_plans(status: PlanStatus) -> Option<Status> {
        let PlanStatus { name, asked, failure } = status;
        name.map(|name| Status { failure, ..Status::of_calls(name, asked, 0) })
    }

    fn of_calls(name: String, calls: u64, events: u64) -> Status {
        Status { name, calls, events, invalid: 0, last_invalid: None, failure: None }
    }
}

/// The post of such a world.
struct DirectPost<W: Direct> {
    world: W,
    parts: Parts,
    /// What was made and does not decide yet; inside, `None` is what the engine has itself.
    prepared: RefCell<Option<Prepared<W>>>,
}

type Prepared<W> = Option<(String, Box<<W as World>::Policy>)>;

fn post<W: Direct>(parts: &Parts, world: W) -> Rc<dyn Post> {
    Rc::new(DirectPost { world, parts: parts.clone(), prepared: RefCell::default() })
}

impl<W: Direct> Post for DirectPost<W> {
    fn try_out<'a>(&'a self, component: &'a Component) -> LocalBoxFuture<'a, Result<String>> {
        async move {
            let policy: W::Policy = self.parts.instance(component, self.world.limits()).await?;
            Ok(policy.stated_version().to_owned())
        }
        .boxed_local()
    }

    fn shares(&self) -> Vec<PolicyReport> {
        let share = |Status { name, calls, events, invalid, last_invalid, failure }| PolicyReport {
            name,
            invalid_victims: invalid,
            state_note: last_invalid.unwrap_or_default(),
            world: W::Policy::WORLD.as_str().into(),
            state: if failure.is_some() { "failed" } else { "active" }.into(),
            shards: 1,
            calls,
            events,
            last_failure: failure.as_ref().map(PolicyFailure::to_string),
            ..PolicyReport::default()
        };
        self.world.status().map(share).into_iter().collect()
    }

    fn metrics(&self, name: &str) -> Vec<(String, f64)> {
        match self.world.status() {
            Some(status) if status.name == name => self.world.metrics(),
            _ => Vec::new(),
        }
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        Some(self)
    }
}

impl<W: Direct> AtOnce for DirectPost<W> {
    fn prepare<'a>(&'a self, origin: &'a Origin) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let policy = match origin {
                // No native policy decides in these worlds: it stands for none.
                Origin::Native(_) => None,
                Origin::Component(component) => {
                    let policy = self.parts.instance(component, self.world.limits()).await?;
                    Some((component.info.name.clone(), Box::new(policy)))
                }
            };
            *self.prepared.borrow_mut() = Some(policy);
            Ok(())
        }
        .boxed_local()
    }

    fn commit(&self) {
        let prepared = self.prepared.borrow_mut().take();
        self.world.install(prepared.expect("a commit follows a preparation"));
    }
}

/// What the caches keep of what was read on a miss.
pub(super) struct CacheAdmission(Rc<PageCache>);

impl World for CacheAdmission {
    type Policy = WasmAdmissionPolicy;
    const KEY: &'static str = "admission_policy";
    const CHARGE: &'static str = "decides what the cache keeps";

    fn post(parts: &Parts) -> Rc<dyn Post> {
        post(parts, CacheAdmission(parts.cache.clone()))
    }
}

impl Direct for CacheAdmission {
    fn limits(&self) -> Limits {
        Limits { slots_max: self.0.slots_max(), ..Limits::default() }
    }

    fn install(&self, policy: Option<(String, Box<WasmAdmissionPolicy>)>) {
        self.0.set_admission(policy.map(|(name, policy)| (name, policy as _)));
    }

    fn status(&self) -> Option<Status> {
        let status = self.0.admission_status()?;
        let (calls, events) = (status.stats.asked, status.stats.fates);
        Some(Status { failure: status.failure, ..Status::of_calls(status.name, calls, events) })
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        self.0.admission_metrics()
    }
}

/// Which operations on a partition go through beyond its limit.
pub(super) struct RateLimiter(Rc<RefCell<Limiter>>);

impl World for RateLimiter {
    type Policy = WasmRatePolicy;
    const KEY: &'static str = "rate_policy";
    const CHARGE: &'static str = "decides on rate limits";
    const NATIVE: Option<&'static str> = Some(NATIVE_RATE);

    fn post(parts: &Parts) -> Rc<dyn Post> {
        post(parts, RateLimiter(parts.limiter.clone()))
    }
}

impl Direct for RateLimiter {
    fn install(&self, policy: Option<(String, Box<WasmRatePolicy>)>) {
        let policy = policy.map(|(name, policy)| (name, policy as _));
        self.0.borrow_mut().set_policy(policy);
    }

    fn status(&self) -> Option<Status> {
        let limiter = self.0.borrow();
        let name = limiter.name()?.to_owned();
        let (calls, failure) = (limiter.stats().asked, limiter.failure().cloned());
        Some(Status { failure, ..Status::of_calls(name, calls, 0) })
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        self.0.borrow_mut().metrics()
    }
}

/// How many reads run at once, and wait.
pub(super) struct ReadAdmission(Rc<Admission>);

impl World for ReadAdmission {
    type Policy = WasmReadAdmissionPolicy;
    const KEY: &'static str = "read_admission_policy";
    const CHARGE: &'static str = "decides on read admission";

    fn post(parts: &Parts) -> Rc<dyn Post> {
        post(parts, ReadAdmission(parts.admission.clone()))
    }
}

impl Direct for ReadAdmission {
    fn install(&self, policy: Option<(String, Box<WasmReadAdmissionPolicy>)>) {
        self.0.set_admission(policy.map(|(name, policy)| (name, policy as _)));
    }

    fn status(&self) -> Option<Status> {
        Status::of_plans(self.0.admission_status())
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        self.0.admission_metrics()
    }
}

/// What is refused under load.
pub(super) struct LoadShedding(Rc<Admission>);

impl World for LoadShedding {
    type Policy = WasmLoadSheddingPolicy;
    const KEY: &'static str = "load_shedding_policy";
    const CHARGE: &'static str = "decides on load shedding";

    fn post(parts: &Parts) -> Rc<dyn Post> {
        post(parts, LoadShedding(parts.admission.clone()))
    }
}

impl Direct for LoadShedding {
    fn install(&self, policy: Option<(String, Box<WasmLoadSheddingPolicy>)>) {
        self.0.set_shedding(policy.map(|(name, policy)| (name, policy as _)));
    }

    fn status(&self) -> Option<Status> {
        Status::of_plans(self.0.shedding_status())
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        self.0.shedding_metrics()
    }
}

/// How classes of I/O share the disk.
pub(super) struct IoPriority(Rc<IoQueue>);

impl World for IoPriority {
    type Policy = WasmIoPriorityPolicy;
    const KEY: &'static str = "io_priority_policy";
    const CHARGE: &'static str = "decides on shares of I/O";

    fn post(parts: &Parts) -> Rc<dyn Post> {
        post(parts, IoPriority(parts.context.io.clone()))
    }
}

impl Direct for IoPriority {
    fn install(&self, policy: Option<(String, Box<WasmIoPriorityPolicy>)>) {
        self.0.set_policy(policy.map(|(name, policy)| (name, policy as _)));
    }

    fn status(&self) -> Option<Status> {
        Status::of_plans(self.0.policy_status())
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        self.0.policy_metrics()
    }
}

/// Which SSTables are merged.
pub(super) struct Compaction(Rc<Chooser>);

impl World for Compaction {
    type Policy = WasmCompactionPolicy;
    const KEY: &'static str = "compaction_policy";
    const CHARGE: &'static str = "decides on compactions";

    fn post(parts: &Parts) -> Rc<dyn Post> {
        post(parts, Compaction(parts.compactions.clone()))
    }
}

impl Direct for Compaction {
    fn install(&self, policy: Option<(String, Box<WasmCompactionPolicy>)>) {
        self.0.set(policy.map(|(name, policy)| (name, policy as _)));
    }

    fn status(&self) -> Option<Status> {
        let status = self.0.status();
        Some(Status {
            invalid: status.refused,
            last_invalid: status.last_refused,
            failure: status.failure,
            ..Status::of_calls(status.name?, status.asked, status.merges)
        })
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        self.0.metrics()
    }
}
