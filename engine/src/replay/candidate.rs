//! What can be run on a trace: the native policies, and components that decide on eviction, or on
//! admission before the native LRU.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::capacity::Capacity;
use super::driver::{self, Outcome, Settings, Stopped, slots_of};
use super::optimal;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::plugin::{
    Budget, CompiledPolicy, InstanceOptions, WasmAdmissionPolicy, WasmEvictionPolicy, World,
};
#[cfg(test)]
use crate::policy::EvictionPolicy;
use crate::policy::{LRU, Lru, NATIVES, Native};
use crate::trace::Trace;

/// Name of the bound of all policies.
const OPTIMAL: &str = "optimal";

/// A policy to run on traces.
#[derive(Debug, Clone)]
pub enum Candidate {
    /// One of the engine itself.
    Native(Native),
    /// The bound of all policies, see `optimal.rs`.
    Optimal,
    Component {
        compiled: Arc<CompiledPolicy>,
        params: Vec<(String, String)>,
    },
}

impl Candidate {
    /// The native LRU.
    pub const LRU: Candidate = Candidate::Native(LRU);

    /// What needs no component, by its name.
    pub fn native(name: &str) -> Option<Candidate> {
        match name {
            OPTIMAL => Some(Candidate::Optimal),
            _ => Native::find(name).map(Candidate::Native),
        }
    }

    /// Names that need no component.
    pub fn native_names() -> impl Iterator<Item = &'static str> {
        NATIVES.iter().map(|native| native.name).chain([OPTIMAL])
    }

    pub fn name(&self) -> &str {
        match self {
            Candidate::Native(native) => native.name,
            Candidate::Optimal => OPTIMAL,
            Candidate::Component { compiled, .. } => compiled.name(),
        }
    }

    /// Runs a trace. Takes from milliseconds to minutes, so it does not belong on a shard. `None`
    /// when `cancelled` became true meanwhile.
    ///
    /// Errors: `Policy` when the policy failed, with the request at which it did; `Invalid` for a
    /// capacity that cannot be.
    pub fn run(
        &self,
        trace: &Trace,
        settings: &Settings,
        clock: &dyn Clock,
        cancelled: &AtomicBool,
    ) -> Result<Option<Outcome>> {
        let settings = Settings { capacity: settings.capacity.resolve(trace)?, ..*settings };
        match self {
            Candidate::Native(native) => {
                let mut policy = native.make();
                self.outcome(driver::run(&mut *policy, None, trace, &settings, clock, cancelled))
            }
            Candidate::Optimal => match settings.capacity {
                Capacity::Entries(entries) => Ok(optimal::run(trace, entries, cancelled)),
                _ => Err(Error::invalid("the optimum is known for entries only, not for bytes")),
            },
            Candidate::Component { compiled, params }
                if compiled.world() == World::CacheAdmission =>
            {
                let slots = slots_of(settings.capacity, trace);
                let options = instance_options(params, slots, settings.seed);
                let filter = WasmAdmissionPolicy::new(compiled.clone(), options);
                let mut filter = filter.map_err(|failure| self.failed(failure.to_string()))?;
                let mut lru = Lru::default();
                let ended =
                    driver::run(&mut lru, Some(&mut filter), trace, &settings, clock, cancelled);
                let outcome = self.outcome(ended)?;
                let fuel = Some(filter.counters().fuel);
                Ok(outcome.map(|outcome| Outcome { fuel, ..outcome }))
            }
            Candidate::Component { .. } => {
                let mut policy = self.instance(trace, &settings)?;
                let ended = driver::run(&mut policy, None, trace, &settings, clock, cancelled);
                let outcome = self.outcome(ended)?;
                let fuel = Some(policy.counters().fuel);
                Ok(outcome.map(|outcome| Outcome { fuel, ..outcome }))
            }
        }
    }

    /// A fresh instance of a component, for a cache of these settings.
    pub(super) fn instance(
        &self,
        trace: &Trace,
        settings: &Settings,
    ) -> Result<WasmEvictionPolicy> {
        let Candidate::Component { compiled, params } = self else {
            panic!("only a component has instances");
        };
        let max_slots = slots_of(settings.capacity, trace);
        let capacity_bytes = match settings.capacity {
            Capacity::Bytes(bytes) => bytes,
            _ => u64::from(max_slots),
        };
        let options = InstanceOptions {
            capacity_bytes,
            ..instance_options(params, max_slots, settings.seed)
        };
        WasmEvictionPolicy::new(compiled.clone(), options)
            .map_err(|failure| self.failed(failure.to_string()))
    }

    fn outcome(&self, ended: Result<Outcome, Stopped>) -> Result<Option<Outcome>> {
        match ended {
            Ok(outcome) => Ok(Some(outcome)),
            Err(Stopped::Cancelled) => Ok(None),
            Err(Stopped::Failed { request, failure }) => {
                Err(self.failed(format!("at request {request}: {failure}")))
            }
        }
    }

    fn failed(&self, message: String) -> Error {
        Error::Policy { name: self.name().to_owned(), message }
    }
}

/// How every instance of replays and trials is made: fuel decides when it has used too much,
/// whatever else the machine does.
pub(super) fn instance_options(
    params: &[(String, String)],
    max_slots: u32,
    seed: u64,
) -> InstanceOptions {
    let budget = Budget::offline();
    InstanceOptions {
        params: params.to_vec(),
        max_slots,
        seed,
        budget,
        ..InstanceOptions::default()
    }
}

/// Runs any policy on a trace, for comparing two forms of one.
///
/// Errors: `Policy` when it failed.
#[cfg(test)]
pub(super) fn run_policy(
    policy: &mut dyn EvictionPolicy,
    trace: &Trace,
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<Outcome> {
    let ended = driver::run(policy, None, trace, settings, clock, &AtomicBool::new(false));
    let outcome = Candidate::LRU.outcome(ended)?;
    Ok(outcome.expect("nobody cancelled it"))
}
