//! Policies that decide one case at a time: cache admission and rate limits.
//!
//! As an eviction policy, each has a store of its own, a budget around every call and a record of
//! its failure; the calls are scalars, where an I/O or a refusal is certain anyway. Invariant:
//! after a failure the guest is never entered again; every call returns that failure.

use std::sync::Arc;

use wasmtime::Store;

use super::bindings::v0_1::{AdmissionGuest, Capabilities, RateGuest, WorldGuest};
use super::budget::Budget;
use super::component::CompiledPolicy;
use super::instance::{
    Instance, InstanceCounters, InstanceOptions, Started, arm, failure_of, shown, start,
};
use super::owned_store::OwnedStore;
use super::state::State;
use super::world::World;
use crate::policy::PolicyFailure;
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy};
use crate::policy::rate::{Excess, KeyLoad, PlannedRate, RatePolicy, Ruling};

/// What the policies of all worlds answer alike: what they call themselves, and their figures.
macro_rules! stated {
    () => {
        fn name(&self) -> &str {
            &self.capabilities.name
        }

        fn version(&self) -> &str {
            &self.capabilities.version
        }

        fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
            self.figures()
        }
    };
}

pub(super) use stated;

/// Limits that a plan may hold.
const PLANNED_MAX: usize = 64;

/// One instance of a policy that decides one case at a time, or makes plans.
pub struct WasmDecision<G> {
    store: OwnedStore,
    guest: G,
    pub(super) capabilities: Capabilities,
    budget: Budget,
    /// Fuel that earlier calls did not use.
    fuel_kept: u64,
    counters: InstanceCounters,
    failure: Option<PolicyFailure>,
    /// After the store: it keeps the epoch ticking for as long as there are instances.
    _compiled: Arc<CompiledPolicy>,
}

/// A cache-admission policy that runs as a Wasm component.
pub type WasmAdmissionPolicy = WasmDecision<AdmissionGuest>;
/// A rate-limiter policy that runs as a Wasm component.
pub type WasmRatePolicy = WasmDecision<RateGuest>;

impl<G: WorldGuest> WasmDecision<G> {
    /// Makes an instance: instantiate, `init`.
    ///
    /// Errors: the guest failed or refused; nothing of it is left.
    pub fn new(
        compiled: Arc<CompiledPolicy>,
        options: InstanceOptions,
    ) -> Result<Self, PolicyFailure> {
        let (Started { store, guest, capabilities }, options) = start(&compiled, options)?;
        Ok(WasmDecision {
            store,
            guest,
            capabilities,
            budget: options.budget,
            fuel_kept: 0,
            counters: InstanceCounters { calls: 1, ..InstanceCounters::default() },
            failure: None,
            _compiled: compiled,
        })
    }

    /// What was used so far.
    pub fn counters(&self) -> InstanceCounters {
        self.counters
    }

    /// Enters the guest with what one call and `words` words bring, and what earlier calls left.
    pub(super) fn enter<R>(
        &mut self,
        call: &'static str,
        words: usize,
        work: impl FnOnce(&G, &mut Store<State>) -> wasmtime::Result<R>,
    ) -> Result<R, PolicyFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let fuel = self.budget.apply_fuel(words, 0).saturating_add(self.fuel_kept);
        arm(&mut self.store, fuel, self.budget.epoch_ticks);
        let result = work(&self.guest, &mut self.store);
        let left = self.store.get_fuel().unwrap_or(0);
        self.counters.calls += 1;
        self.counters.fuel += fuel.saturating_sub(left);
        self.fuel_kept = left.min(self.budget.fuel_kept_max);
        result.map_err(|error| {
            let failure = failure_of(call, &error, self.store.data(), false);
            self.failure = Some(failure.clone());
            failure
        })
    }
}

impl<G: WorldGuest> WasmDecision<G> {
    /// Its own figures.
    ///
    /// Errors: the policy failed and must not be called again.
    pub(super) fn figures(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        // Rare, as calls are that walk all slots.
        let words = usize::try_from(self.budget.walk_fuel(0) / self.budget.event_fuel.max(1));
        let words = words.unwrap_or(usize::MAX);
        // Who looks at figures gives a policy nothing for its decisions.
        let kept = self.fuel_kept;
        let figures = self.enter("metrics", words, |guest, store| guest.metrics(store));
        self.fuel_kept = kept;
        figures.map(shown)
    }
}

impl<G: WorldGuest + Send + 'static> Instance for WasmDecision<G> {
    const WORLD: World = G::WORLD;

    fn make(
        compiled: Arc<CompiledPolicy>,
        options: InstanceOptions,
    ) -> Result<Self, PolicyFailure> {
        WasmDecision::new(compiled, options)
    }

    fn stated_version(&self) -> &str {
        &self.capabilities.version
    }
}

impl AdmissionPolicy for WasmAdmissionPolicy {
    stated!();

    fn wants_feedback(&self) -> bool {
        self.capabilities.wants_miss_events
    }

    fn admit(&mut self, candidate: &AdmissionCandidate) -> Result<bool, PolicyFailure> {
        let size_cost = u64::from(candidate.size_bytes) | u64::from(candidate.cost_us) << 32;
        let ctx = candidate.kind as u64
            | u64::from(candidate.has_room) << 4
            | u64::from(candidate.run) << 16
            | u64::from(candidate.table) << 32;
        let fingerprint = candidate.fingerprint;
        let answer =
            self.enter("admit", 3, |guest, store| guest.admit(store, fingerprint, size_cost, ctx))?;
        Ok(answer & 1 == 1)
    }

    fn feedback(&mut self, words: &[u64]) -> Result<(), PolicyFailure> {
        self.counters.events += words.len() as u64 / 2;
        self.enter("feedback", words.len(), |guest, store| guest.feedback(store, words))
    }
}

/// Operation and limit as one word.
fn class_op(operation: crate::policy::rate::Operation, limit: u32) -> u64 {
    operation as u64 | u64::from(limit) << 32
}

impl RatePolicy for WasmRatePolicy {
    stated!();

    fn exceeded(&mut self, excess: &Excess) -> Result<Ruling, PolicyFailure> {
        let class_op = class_op(excess.operation, excess.limit);
        let deficit_milli = u64::from(excess.count.saturating_sub(excess.limit)) * 1000;
        let answer = self.enter("exceeded", 3, |guest, store| {
            guest.exceeded(store, excess.key, class_op, deficit_milli)
        })?;
        Ok(Ruling { goes_through: answer & 1 == 1, holds_for: (answer >> 8) as u8 })
    }

    fn plan(
        &mut self,
        now_us: u64,
        loads: &[KeyLoad],
        planned: &mut Vec<PlannedRate>,
    ) -> Result<(), PolicyFailure> {
        let words: Vec<u64> = loads
            .iter()
            .flat_map(|load| {
                let class_op = class_op(load.operation, load.limit);
                [load.key, class_op, u64::from(load.exceeded), u64::from(load.refused)]
            })
            .collect();
        // A plan may walk all the keys that it holds.
        let words_max = words.len() + 3 * PLANNED_MAX;
        let plan =
            self.enter("plan", words_max, |guest, store| guest.plan(store, now_us, &words))?;
        let rates = plan.as_chunks::<3>().0.iter().take(PLANNED_MAX);
        planned.extend(rates.map(|[key, rate_milli, burst]| PlannedRate {
            key: *key,
            rate_milli: *rate_milli,
            burst: *burst,
        }));
        Ok(())
    }
}
