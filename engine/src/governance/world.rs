//! What a world is: one kind of decision that a policy can take, and its post on a shard.
//!
//! Adding a world is an implementation of [`World`] and one line in [`WORLDS`]. A world whose
//! policies are exchanged at once implements [`Direct`](super::direct::Direct) and takes its post
//! from there; one that is rolled out in stages implements [`Post`] and [`Stages`].

use std::cell::RefCell;
use std::future::ready;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::files::PolicyFiles;
use super::origin::{Component, Origin};
use super::report::{PolicyExit, PolicyReport};
use crate::admission::Admission;
use crate::admission::rate::Limiter;
use crate::cache::PageCache;
use crate::error::Result;
use crate::plugin::{Budget, Instance, InstanceOptions};
use crate::policy::compaction::Chooser;
use crate::policy::{PolicyFailure, TrialVerdict};
use crate::runtime::{self, ShardContext};

/// One kind of policy.
pub(super) trait World {
    /// An instance of a component.
    type Policy: Instance;
    /// The catalog's field for the name of the policy that should be active.
    const KEY: &'static str;
    /// What a policy in charge does, for people: it follows the policy's name.
    const CHARGE: &'static str;
    /// Name that stands for what decides without a component, where there is one.
    const NATIVE: Option<&'static str> = None;
    /// Its policies are rolled out in stages; at most one world has them.
    const IN_STAGES: bool = false;

    /// The place of such a policy on a shard with these parts.
    fn post(parts: &Parts) -> Rc<dyn Post>;
}

/// The parts of a shard that policies decide for.
#[derive(Clone)]
pub struct Parts {
    pub context: Rc<ShardContext>,
    pub cache: Rc<PageCache>,
    pub limiter: Rc<RefCell<Limiter>>,
    pub admission: Rc<Admission>,
    pub compactions: Rc<Chooser>,
    pub files: PolicyFiles,
}

impl Parts {
    /// Makes an instance on another thread: its memory for a million slots takes milliseconds to
    /// fill.
    ///
    /// Errors: `Policy` when the component fails or refuses.
    pub(super) async fn instance<P: Instance>(
        &self,
        component: &Component,
        limits: Limits,
    ) -> Result<P> {
        let options = InstanceOptions {
            params: component.info.params.clone(),
            max_slots: limits.slots_max,
            capacity_bytes: limits.capacity_bytes,
            shard: self.context.shard,
            seed: self.context.random.borrow_mut().next_u64(),
            budget: Budget::default(),
            clock: limits.is_timed.then(|| self.context.clock.clone()),
        };
        let compiled = component.compiled.clone();
        let make = move || P::make(compiled, options);
        let made = runtime::aside("maker of a policy's instance", make).await?;
        made.map_err(|failure| component.refused(failure.to_string()))
    }
}

/// How large the thing is that an instance decides for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) slots_max: u32,
    pub(super) capacity_bytes: u64,
    /// Its calls are timed.
    pub(super) is_timed: bool,
}

/// The place of a world's policy on one shard.
pub(super) trait Post {
    /// Makes an instance that decides nothing, and says what the policy calls its version.
    ///
    /// Errors: `Policy`.
    fn try_out<'a>(&'a self, component: &'a Component) -> LocalBoxFuture<'a, Result<String>>;

    /// What each policy of this world did here.
    fn shares(&self) -> Vec<PolicyReport>;

    /// The own figures of the policy of this name.
    fn metrics(&self, _name: &str) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// Policies that left by a failure, oldest first, a bounded number.
    fn exits(&self) -> Vec<PolicyExit> {
        Vec::new()
    }

    /// Looks after what time brings.
    fn tick(self: Rc<Self>) {}

    /// Leaves what its policy learnt for the next run.
    fn close(&self) -> LocalBoxFuture<'_, ()> {
        ready(()).boxed_local()
    }

    /// How its policies are exchanged, if that is at once.
    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    /// How its policies are rolled out, if that is in stages.
    fn stages(&self) -> Option<&dyn Stages> {
        None
    }
}

/// A post whose policy is exchanged at once.
pub(super) trait AtOnce {
    /// Makes an instance that decides nothing yet, in the place of one that was made before.
    ///
    /// Errors: `Policy`.
    fn prepare<'a>(&'a self, origin: &'a Origin) -> LocalBoxFuture<'a, Result<()>>;

    /// Lets it decide.
    fn commit(&self);
}

/// A post whose policy is rolled out in stages: beside the one in charge on ids alone, in charge
/// for a trial, in charge for good with the one before standing by.
///
/// Errors of all steps: `Policy` when an instance fails; who was in charge stays it.
pub(super) trait Stages {
    /// Takes up what the policy of the last run left.
    fn load(&self) -> LocalBoxFuture<'_, ()>;

    /// Puts a policy in charge; the one before stands by for a while.
    fn switch<'a>(&'a self, next: &'a Origin) -> LocalBoxFuture<'a, Result<()>>;

    /// Brings the policy before back: the instance that stood by, else a new one. True when it was
    /// the former.
    fn roll_back<'a>(&'a self, previous: &'a Origin) -> LocalBoxFuture<'a, Result<bool>>;

    /// Ends the possibility of an exchange: with any policy, or with the one of this name.
    fn drop_standby(&self, name: Option<&str>);

    /// Runs a policy as a shadow. Returns the rate at which it sees keys.
    fn begin_shadow<'a>(
        &'a self,
        origin: &'a Origin,
        sample: Option<u32>,
    ) -> LocalBoxFuture<'a, Result<u32>>;

    /// Ends the shadow, whichever it is, or the one of this name.
    fn end_shadow(&self, name: Option<&str>);

    /// Puts a policy in charge for a trial, the one before as a shadow to compare it with.
    fn begin_canary<'a>(
        &'a self,
        next: &'a Origin,
        previous: &'a Origin,
    ) -> LocalBoxFuture<'a, Result<()>>;

    /// What is known of the canary's worth here; `None` when there is none.
    fn canary_verdict(&self) -> Option<TrialVerdict>;

    /// The canary is in charge for good.
    fn confirm_canary(&self) -> LocalBoxFuture<'_, ()>;

    /// Ends a trial: the policy before is in charge again.
    fn end_canary<'a>(
        &'a self,
        failure: PolicyFailure,
        previous: &'a Origin,
    ) -> LocalBoxFuture<'a, Result<()>>;
}
