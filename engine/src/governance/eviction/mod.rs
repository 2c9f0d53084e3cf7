//! The post of the eviction policy on one shard: creation, activation, supervision, retries.
//!
//! `stages.rs` activates policies and rolls them back; `watch.rs` supervises the active one;
//! `state.rs` hands over learnt state; `shares.rs` reports what policies did. Invariant: a post
//! changes its policy for one reason at a time, a statement or a retry. Whatever happens to a
//! policy, the cache has an active one or the native CLOCK. Not here: what all shards do together
//! (`rollout.rs`, `canary.rs`).

mod charge;
mod shares;
mod stages;
mod state;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::RefCell;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use self::charge::Charge;
use super::origin::{Component, NATIVE, Origin};
use super::report::{PolicyExit, PolicyReport};
use super::world::{Limits, Parts, Post, Stages, World};
use crate::cache::SwapStep;
use crate::config::POLICY_RING_EVENTS_MAX;
use crate::error::Result;
use crate::plugin::WasmEvictionPolicy;
use crate::policy::{EvictionPolicy, LRU, PolicySnapshot};

/// Residents that a candidate or a shadow is shown between two looks at the task's quota.
const STEP_SLOTS: u32 = POLICY_RING_EVENTS_MAX as u32;

/// Which entries leave a cache: what a post keeps beside what its cache knows.
pub(super) struct Eviction {
    parts: Parts,
    /// Held while the policy changes.
    change: tokio::sync::Mutex<()>,
    charge: RefCell<Charge>,
    /// What policies did that governed the cache earlier.
    retired: RefCell<Vec<PolicyReport>>,
    /// The state that the policy of the last run left, until one takes charge in this run; or why
    /// it is unusable.
    kept: RefCell<Option<std::result::Result<PolicySnapshot, String>>>,
}

impl World for Eviction {
    type Policy = WasmEvictionPolicy;
    const KEY: &'static str = "cache_policy";
    const CHARGE: &'static str = "governs the cache";
    const NATIVE: Option<&'static str> = Some(NATIVE);
    const IN_STAGES: bool = true;

    fn post(parts: &Parts) -> Rc<dyn Post> {
        let eviction = Eviction {
            parts: parts.clone(),
            change: tokio::sync::Mutex::default(),
            charge: RefCell::default(),
            retired: RefCell::default(),
            kept: RefCell::default(),
        };
        eviction.start_native();
        Rc::new(eviction)
    }
}

impl Post for Eviction {
    fn try_out<'a>(&'a self, component: &'a Component) -> LocalBoxFuture<'a, Result<String>> {
        let origin = Origin::Component(component.clone());
        async move { Ok(self.instantiate_for_cache(&origin).await?.version().to_owned()) }
            .boxed_local()
    }

    fn shares(&self) -> Vec<PolicyReport> {
        self.policy_shares()
    }

    fn metrics(&self, name: &str) -> Vec<(String, f64)> {
        self.policy_metrics(name)
    }

    fn exits(&self) -> Vec<PolicyExit> {
        self.policy_exits()
    }

    fn tick(self: Rc<Self>) {
        self.watch();
    }

    fn close(&self) -> LocalBoxFuture<'_, ()> {
        self.store().boxed_local()
    }

    fn stages(&self) -> Option<&dyn Stages> {
        Some(self)
    }
}

impl Eviction {
    /// Puts the native policy in charge of a new cache.
    fn start_native(&self) {
        self.parts
            .cache
            .begin_policy(LRU.make(), Origin::Native(LRU).identity())
            .expect("the native policy has no way to fail");
        while self.parts.cache.step_policy_swap(STEP_SLOTS) == SwapStep::Working {}
        self.parts.cache.drop_standby_policy();
    }

    /// A new instance for a cache, or a ghost directory, of these limits.
    async fn instantiate(
        &self,
        origin: &Origin,
        slots_max: u32,
        capacity_bytes: u64,
    ) -> Result<Box<dyn EvictionPolicy>> {
        match origin {
            Origin::Native(native) => Ok(native.make()),
            Origin::Component(component) => {
                let limits = Limits { slots_max, capacity_bytes, is_timed: true };
                let policy: WasmEvictionPolicy = self.parts.instance(component, limits).await?;
                Ok(Box::new(policy))
            }
        }
    }

    /// An instance as the cache would have it.
    async fn instantiate_for_cache(&self, origin: &Origin) -> Result<Box<dyn EvictionPolicy>> {
        self.instantiate(
            origin,
            self.parts.cache.slots_max(),
            self.parts.cache.stats().capacity_bytes,
        )
        .await
    }
}
