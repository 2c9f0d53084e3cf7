//! `tidegate:policy@0.1.0`: the only code that knows its types.

use wasmtime::component::{HasSelf, InstancePre, Linker};
use wasmtime::{Result, Store};

use super::super::state::State;

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "eviction-policy",
    });
}

use generated::exports::tidegate::policy::lifecycle;

/// What a component of this version may import.
pub const IMPORTS: [&str; 1] = ["tidegate:policy/host@0.1.0"];
/// What it must export to be an eviction policy.
pub const EXPORTS: [&str; 2] =
    ["tidegate:policy/lifecycle@0.1.0", "tidegate:policy/eviction@0.1.0"];
/// The version itself.
pub const VERSION: &str = "0.1.0";

/// What a policy says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub is_eviction: bool,
    pub name: String,
    pub version: String,
    pub deterministic: bool,
    pub wants_miss_events: bool,
    pub wants_ticks_ms: u32,
    pub state_schema: u32,
    pub bytes_per_slot: u32,
}

impl generated::tidegate::policy::host::Host for State {
    fn log(&mut self, level: u8, msg: String) {
        State::log(self, level, &msg);
    }
}

/// Gives components the one thing they may import.
pub fn link(linker: &mut Linker<State>) -> Result<()> {
    generated::tidegate::policy::host::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// A linked component whose exports have the types of this version.
pub struct Prepared(generated::EvictionPolicyPre<State>);

impl Prepared {
    /// Checks the types of all exports.
    pub fn new(component: InstancePre<State>) -> Result<Self> {
        generated::EvictionPolicyPre::new(component).map(Prepared)
    }

    /// Makes an instance; start functions run here.
    pub fn instantiate(&self, store: &mut Store<State>) -> Result<Guest> {
        self.0.instantiate(store).map(Guest)
    }
}

/// The exports of one instance. Fuel, epoch and limits are the caller's.
pub struct Guest(generated::EvictionPolicy);

impl Guest {
    /// `lifecycle.init`; the inner error is the policy's own refusal.
    pub fn init(
        &self,
        store: &mut Store<State>,
        params: Vec<(String, String)>,
        max_slots: u32,
        shard: u32,
        seed: u64,
    ) -> Result<std::result::Result<Capabilities, String>> {
        let params: Vec<lifecycle::Param> =
            params.into_iter().map(|(name, value)| lifecycle::Param { name, value }).collect();
        let exports = self.0.tidegate_policy_lifecycle();
        let answer = exports.call_init(store, &params, max_slots, shard, seed)?;
        Ok(answer.map(|caps| Capabilities {
            is_eviction: caps.hook == lifecycle::Hook::Eviction,
            name: caps.name,
            version: caps.version,
            deterministic: caps.deterministic,
            wants_miss_events: caps.wants_miss_events,
            wants_ticks_ms: caps.wants_ticks_ms,
            state_schema: caps.state_schema,
            bytes_per_slot: caps.bytes_per_slot,
        }))
    }

    /// `lifecycle.tick`.
    pub fn tick(&self, store: &mut Store<State>, now_us: u64) -> Result<()> {
        self.0.tidegate_policy_lifecycle().call_tick(store, now_us)
    }

    /// `lifecycle.snapshot`.
    pub fn snapshot(&self, store: &mut Store<State>) -> Result<Vec<u8>> {
        self.0.tidegate_policy_lifecycle().call_snapshot(store)
    }

    /// `lifecycle.restore`; the inner error is the policy's own refusal.
    pub fn restore(
        &self,
        store: &mut Store<State>,
        schema: u32,
        state: &[u8],
    ) -> Result<std::result::Result<(), String>> {
        self.0.tidegate_policy_lifecycle().call_restore(store, schema, state)
    }

    /// `lifecycle.metrics`.
    pub fn metrics(&self, store: &mut Store<State>) -> Result<Vec<(String, f64)>> {
        let metrics = self.0.tidegate_policy_lifecycle().call_metrics(store)?;
        Ok(metrics.into_iter().map(|metric| (metric.name, metric.value)).collect())
    }

    /// `lifecycle.fini`.
    pub fn finish(&self, store: &mut Store<State>) -> Result<()> {
        self.0.tidegate_policy_lifecycle().call_fini(store)
    }

    /// `eviction.apply`; the lists cross as flat memory.
    pub fn apply(
        &self,
        store: &mut Store<State>,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
    ) -> Result<Vec<u32>> {
        let exports = self.0.tidegate_policy_eviction();
        exports.call_apply(store, events, attributes, want_entries, want_bytes)
    }

    /// `eviction.drain-order`.
    pub fn drain_order(&self, store: &mut Store<State>, cursor: u32, max: u32) -> Result<Vec<u32>> {
        self.0.tidegate_policy_eviction().call_drain_order(store, cursor, max)
    }

    /// `eviction.resize`.
    pub fn resize(
        &self,
        store: &mut Store<State>,
        capacity_bytes: u64,
        max_slots: u32,
    ) -> Result<()> {
        self.0.tidegate_policy_eviction().call_resize(store, capacity_bytes, max_slots)
    }
}
