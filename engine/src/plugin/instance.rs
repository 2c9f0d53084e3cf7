//! One policy of one shard: a store of its own, budgets around every call, a record of its failure.
//!
//! Invariant: after a failure the guest is never entered again; every call returns that failure.

use std::sync::Arc;

use wasmtime::{Store, Trap, WasmBacktrace};

use super::bindings::v0_1::{Capabilities, Guest, WorldGuest};
use super::budget::{Budget, START_TICKS};
use super::component::CompiledPolicy;
use super::host::BACKTRACE_FRAMES_MAX;
use super::owned_store::OwnedStore;
use super::state::{State, printable};
use super::world::World;
use crate::clock::Clock;
use crate::config::POLICY_MEMORY_BYTES_MAX;
use crate::policy::{EvictionPolicy, FailureKind, PolicyFailure, PolicyUsage, Slot};

/// Bytes of a policy's own name and of its version.
const LABEL_BYTES_MAX: usize = 64;
/// Figures that a policy may show.
const METRICS_MAX: usize = 64;
/// Events kept for the record of a failure.
const LAST_EVENTS_MAX: usize = 64;

/// How an instance is made.
#[derive(Debug, Clone, Default)]
pub struct InstanceOptions {
    /// `name = value` of the statement that made the policy; each name once.
    pub params: Vec<(String, String)>,
    pub max_slots: u32,
    pub capacity_bytes: u64,
    pub shard: u32,
    pub seed: u64,
    pub budget: Budget,
    /// Measures the time of calls; without one, `InstanceCounters::ns` stays 0.
    pub clock: Option<Arc<dyn Clock>>,
}

/// What an instance has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InstanceCounters {
    /// Calls into the guest, of any kind.
    pub calls: u64,
    pub events: u64,
    pub victims: u64,
    /// Time inside calls, ns.
    pub ns: u64,
    /// Instructions executed.
    pub fuel: u64,
    /// Of both, what `apply` took.
    pub apply_ns: u64,
    pub apply_fuel: u64,
    /// Events and fuel of the last `apply`.
    pub last_events: u64,
    pub last_fuel: u64,
    pub log_lines: u64,
    pub log_lines_dropped: u64,
}

/// An instance of some world: what all of them have in common.
pub trait Instance: Sized + Send + 'static {
    /// The decision that it takes.
    const WORLD: World;

    /// Makes an instance of a component of this world.
    ///
    /// Errors: the guest failed or refused; nothing of it is left.
    fn make(compiled: Arc<CompiledPolicy>, options: InstanceOptions)
    -> Result<Self, PolicyFailure>;

    /// Version as the policy states it.
    fn stated_version(&self) -> &str;
}

/// An eviction policy that runs as a Wasm component.
pub struct WasmEvictionPolicy {
    store: OwnedStore,
    guest: Guest,
    capabilities: Capabilities,
    budget: Budget,
    max_slots: u32,
    /// Fuel that earlier calls did not use.
    fuel_kept: u64,
    clock: Option<Arc<dyn Clock>>,
    counters: InstanceCounters,
    failure: Option<PolicyFailure>,
    last_events: Vec<u64>,
    /// After the store: it keeps the epoch ticking for as long as there are instances.
    compiled: Arc<CompiledPolicy>,
}

impl WasmEvictionPolicy {
    /// Makes an instance: instantiate, `init`, `resize`.
    ///
    /// Errors: the guest failed or refused; nothing of it is left.
    pub fn new(
        compiled: Arc<CompiledPolicy>,
        options: InstanceOptions,
    ) -> Result<Self, PolicyFailure> {
        let (Started { store, guest, capabilities }, options) = start(&compiled, options)?;
        let InstanceOptions { max_slots, capacity_bytes, budget, clock, .. } = options;
        let fuel = budget.walk_fuel(max_slots) - store.get_fuel().unwrap_or(0);
        let counters = InstanceCounters { calls: 1, fuel, ..InstanceCounters::default() };
        let mut instance = WasmEvictionPolicy {
            store,
            guest,
            capabilities,
            budget: Budget { epoch_ticks: budget.epoch_ticks.max(START_TICKS), ..budget },
            max_slots,
            fuel_kept: 0,
            clock,
            counters,
            failure: None,
            last_events: Vec::new(),
            compiled,
        };
        instance.resize(capacity_bytes, max_slots)?;
        instance.budget = budget;
        Ok(instance)
    }

    /// The component this is an instance of.
    pub fn compiled(&self) -> &Arc<CompiledPolicy> {
        &self.compiled
    }

    /// Whether equal events give equal victims, by the policy's own word.
    pub fn is_deterministic(&self) -> bool {
        self.capabilities.deterministic
    }

    /// Whether MISS events are to be delivered.
    pub fn wants_miss_events(&self) -> bool {
        self.capabilities.wants_miss_events
    }

    /// What was used so far.
    pub fn counters(&self) -> InstanceCounters {
        let state = self.store.data();
        InstanceCounters {
            log_lines: state.log_lines,
            log_lines_dropped: state.log_lines_dropped,
            ..self.counters
        }
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&PolicyFailure> {
        self.failure.as_ref()
    }

    /// The last events, at most 64, of the call that failed; empty while nothing failed.
    pub fn failed_events(&self) -> &[u64] {
        &self.last_events
    }

    /// The last call; a policy that failed is not called.
    ///
    /// Errors: the policy failed now.
    pub fn finish(mut self) -> Result<(), PolicyFailure> {
        match self.failure {
            Some(_) => Ok(()),
            None => self.walk("fini", |guest, store| guest.finish(store)),
        }
    }

    /// A rare call, which may walk all slots.
    fn walk<R>(
        &mut self,
        call: &'static str,
        work: impl FnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<R>,
    ) -> Result<R, PolicyFailure> {
        let fuel = self.budget.walk_fuel(self.max_slots);
        let ticks = self.budget.walk_ticks(self.max_slots);
        let (result, _) = self.enter(call, fuel, ticks, work)?;
        Ok(result)
    }

    /// Enters the guest with a budget; returns its answer and the fuel left.
    fn enter<R>(
        &mut self,
        call: &'static str,
        fuel: u64,
        ticks: u64,
        work: impl FnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<R>,
    ) -> Result<(R, u64), PolicyFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        arm(&mut self.store, fuel, ticks);
        let start_ns = self.clock.as_ref().map(|clock| clock.monotonic_ns());
        let result = work(&self.guest, &mut self.store);
        if let (Some(clock), Some(start_ns)) = (&self.clock, start_ns) {
            self.counters.ns += clock.monotonic_ns().saturating_sub(start_ns);
        }
        let left = self.store.get_fuel().unwrap_or(0);
        self.counters.calls += 1;
        self.counters.fuel += fuel.saturating_sub(left);
        match result {
            Ok(answer) => Ok((answer, left)),
            Err(error) => Err(self.fail(failure_of(call, &error, self.store.data(), false))),
        }
    }

    fn fail(&mut self, failure: PolicyFailure) -> PolicyFailure {
        self.failure = Some(failure.clone());
        failure
    }

    fn too_many(&mut self, call: &str, got: usize, most: u32) -> PolicyFailure {
        let message = format!("{call}: returned {got} slots, the most was {most}");
        self.fail(PolicyFailure {
            kind: FailureKind::ResultTooLarge,
            message,
            backtrace: Vec::new(),
        })
    }
}

impl Instance for WasmEvictionPolicy {
    const WORLD: World = World::Eviction;

    fn make(
        compiled: Arc<CompiledPolicy>,
        options: InstanceOptions,
    ) -> Result<Self, PolicyFailure> {
        WasmEvictionPolicy::new(compiled, options)
    }

    fn stated_version(&self) -> &str {
        &self.capabilities.version
    }
}

impl EvictionPolicy for WasmEvictionPolicy {
    fn name(&self) -> &str {
        &self.capabilities.name
    }

    fn version(&self) -> &str {
        &self.capabilities.version
    }

    fn apply(
        &mut self,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let fresh = self.budget.apply_fuel(events.len(), want_entries);
        let fuel = fresh.saturating_add(self.fuel_kept);
        let ns_before = self.counters.ns;
        let mut entered = self.enter("apply", fuel, self.budget.epoch_ticks, |guest, store| {
            guest.apply(store, events, attributes, want_entries, want_bytes)
        });
        if let Ok((found, _)) = &entered
            && found.len() > want_entries as usize
        {
            entered = Err(self.too_many("apply", found.len(), want_entries));
        }
        let (found, left) = entered.inspect_err(|_| {
            let tail = events.len().saturating_sub(LAST_EVENTS_MAX);
            self.last_events = events[tail..].to_vec();
        })?;
        self.fuel_kept = left.min(self.budget.fuel_kept_max);
        self.counters.events += events.len() as u64;
        self.counters.victims += found.len() as u64;
        self.counters.last_events = events.len() as u64;
        self.counters.last_fuel = fuel.saturating_sub(left);
        self.counters.apply_fuel += fuel.saturating_sub(left);
        self.counters.apply_ns += self.counters.ns - ns_before;
        victims.extend_from_slice(&found);
        Ok(())
    }

    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        let page =
            self.walk("drain-order", |guest, store| guest.drain_order(store, cursor, max))?;
        if page.len() > max as usize {
            return Err(self.too_many("drain-order", page.len(), max));
        }
        slots.extend_from_slice(&page);
        Ok(())
    }

    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        let needed = memory_claim(&self.capabilities, max_slots);
        if needed > POLICY_MEMORY_BYTES_MAX as u64 {
            let message = format!("resize: {max_slots} slots need {needed} bytes of memory");
            let kind = FailureKind::OutOfMemory;
            return Err(self.fail(PolicyFailure { kind, message, backtrace: Vec::new() }));
        }
        self.max_slots = self.max_slots.max(max_slots);
        self.walk("resize", |guest, store| guest.resize(store, capacity_bytes, max_slots))?;
        self.max_slots = max_slots;
        Ok(())
    }

    fn wants_ticks_ms(&self) -> u32 {
        self.capabilities.wants_ticks_ms
    }

    fn tick(&mut self, now_us: u64) -> Result<(), PolicyFailure> {
        self.walk("tick", |guest, store| guest.tick(store, now_us))
    }

    fn state_schema(&self) -> u32 {
        self.capabilities.state_schema
    }

    fn snapshot(&mut self) -> Result<Vec<u8>, PolicyFailure> {
        if self.capabilities.state_schema == 0 {
            return Ok(Vec::new());
        }
        self.walk("snapshot", |guest, store| guest.snapshot(store))
    }

    fn restore(&mut self, schema: u32, state: &[u8]) -> Result<Result<(), String>, PolicyFailure> {
        let answer = self.walk("restore", |guest, store| guest.restore(store, schema, state))?;
        Ok(answer.map_err(|reason| printable(&reason)))
    }

    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(shown(self.walk("metrics", |guest, store| guest.metrics(store))?))
    }

    fn usage(&self) -> PolicyUsage {
        PolicyUsage { ns: self.counters.apply_ns, fuel: self.counters.apply_fuel }
    }
}

/// Figures as people may see them.
pub(super) fn shown(mut metrics: Vec<(String, f64)>) -> Vec<(String, f64)> {
    metrics.truncate(METRICS_MAX);
    metrics.into_iter().map(|(name, value)| (printable(&name), value)).collect()
}

/// A guest after `init`.
pub(super) struct Started<G> {
    pub(super) store: OwnedStore,
    pub(super) guest: G,
    pub(super) capabilities: Capabilities,
}

/// Makes a guest of a world: a store with its limits, the instance, `init`, a look at what it says
/// of itself. Hands back the options without the parameters. Must not run on a shard: the clock
/// gives each call a minute.
///
/// Errors: the guest failed or refused; nothing of it is left.
pub(super) fn start<G: WorldGuest>(
    compiled: &CompiledPolicy,
    mut options: InstanceOptions,
) -> Result<(Started<G>, InstanceOptions), PolicyFailure> {
    let mut params = std::mem::take(&mut options.params);
    params.sort();
    if let Some(twice) = params.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(refused(format!("parameter '{}' is given twice", twice[0].0)));
    }
    let (budget, max_slots, shard) = (&options.budget, options.max_slots, options.shard);
    let ticker = compiled.ticking.ticker();
    // Those before may still take up the pool.
    ticker.settle();
    let store = Store::new(&compiled.engine, State::new(compiled.name(), shard));
    let mut store = OwnedStore::new(store, ticker.clone());
    store.limiter(|state| state);
    store.set_hostcall_fuel(budget.result_bytes_max);
    let ticks = budget.walk_ticks(max_slots).max(START_TICKS);
    arm(&mut store, budget.walk_fuel(max_slots), ticks);

    let guest = G::instantiate(&compiled.prepared, &mut store);
    let guest = guest.map_err(|error| failure_of("instantiate", &error, store.data(), true))?;
    let answer = guest.init(&mut store, params, max_slots, shard, options.seed);
    let answer = answer.map_err(|error| failure_of("init", &error, store.data(), true))?;
    let capabilities = answer.map_err(|reason| refused(format!("init: {reason}")))?;
    check_capabilities(&capabilities, G::WORLD, max_slots).map_err(refused)?;
    Ok((Started { store, guest, capabilities }, options))
}

/// Gives the next entry its budget.
pub(super) fn arm(store: &mut Store<State>, fuel: u64, ticks: u64) {
    store.data_mut().start_call();
    store.set_epoch_deadline(ticks);
    store.set_fuel(fuel).expect("fuel is switched on for every engine");
}

fn memory_claim(capabilities: &Capabilities, max_slots: u32) -> u64 {
    u64::from(capabilities.bytes_per_slot) * u64::from(max_slots)
}

fn check_capabilities(
    capabilities: &Capabilities,
    world: World,
    max_slots: u32,
) -> Result<(), String> {
    if capabilities.world != world {
        return Err(format!("init: the policy says that it is not for {world}"));
    }
    for (what, text) in [("name", &capabilities.name), ("version", &capabilities.version)] {
        let fits = (1..=LABEL_BYTES_MAX).contains(&text.len());
        if !fits || text.chars().any(char::is_control) {
            return Err(format!("init: {what} must be 1 to {LABEL_BYTES_MAX} printable bytes"));
        }
    }
    let needed = memory_claim(capabilities, max_slots);
    if needed > POLICY_MEMORY_BYTES_MAX as u64 {
        return Err(format!(
            "{max_slots} slots of {} bytes need {needed} bytes of memory, the most is \
             {POLICY_MEMORY_BYTES_MAX}",
            capabilities.bytes_per_slot
        ));
    }
    Ok(())
}

fn refused(reason: String) -> PolicyFailure {
    PolicyFailure {
        kind: FailureKind::InitError,
        message: printable(&reason),
        backtrace: Vec::new(),
    }
}

/// The record of an error of the runtime. While loading, what is no trap is an `InitError`.
pub(super) fn failure_of(
    call: &str,
    error: &wasmtime::Error,
    state: &State,
    loading: bool,
) -> PolicyFailure {
    let trap = error.downcast_ref::<Trap>();
    let cause = trap.map_or_else(|| error.root_cause().to_string(), Trap::to_string);
    let kind = match trap {
        _ if state.memory_refused => FailureKind::OutOfMemory,
        Some(Trap::OutOfFuel) => FailureKind::Fuel,
        Some(Trap::Interrupt) => FailureKind::Epoch,
        Some(_) => FailureKind::Trap,
        // The runtime has no type for this one; a test holds its text.
        None if cause.contains("fuel allocated for hostcalls") => FailureKind::ResultTooLarge,
        None if loading => FailureKind::InitError,
        None => FailureKind::Trap,
    };
    let message = match &state.last_error {
        Some(said) => format!("{call}: {cause}; it said: {said}"),
        None => format!("{call}: {cause}"),
    };
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    PolicyFailure {
        kind,
        message: printable(&message),
        backtrace: frames.iter().take(BACKTRACE_FRAMES_MAX).map(frame_text).collect(),
    }
}

/// A frame as `system.policies` shows it; guests without names show numbers and offsets.
fn frame_text(frame: &wasmtime::FrameInfo) -> String {
    let offset = frame.module_offset().map_or(String::new(), |offset| format!(" at {offset:#x}"));
    match frame.func_name() {
        Some(name) => printable(&format!("{name}{offset}")),
        None => format!("function {}{offset}", frame.func_index()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: &str, version: &str, bytes_per_slot: u32) -> Capabilities {
        Capabilities {
            world: World::Eviction,
            name: name.to_owned(),
            version: version.to_owned(),
            deterministic: true,
            wants_miss_events: false,
            wants_ticks_ms: 0,
            state_schema: 0,
            bytes_per_slot,
        }
    }

    #[test]
    fn the_name_and_the_version_of_a_policy_have_1_to_64_printable_bytes() {
        let (full, long) = ("x".repeat(64), "x".repeat(65));
        let (wide, too_wide) = ("\u{e4}".repeat(32), "\u{e4}".repeat(33));
        for (text, fits) in [
            ("", false),
            ("x", true),
            (full.as_str(), true),
            (long.as_str(), false),
            (wide.as_str(), true),
            (too_wide.as_str(), false),
            ("two words", true),
            ("two\nlines", false),
            ("\0", false),
            ("\u{7f}", false),
            ("\u{9b}2J", false),
        ] {
            for (what, said) in [("name", says(text, "1", 0)), ("version", says("x", text, 0))] {
                let wanted = match fits {
                    true => Ok(()),
                    false => Err(format!("init: {what} must be 1 to 64 printable bytes")),
                };
                assert_eq!(check_capabilities(&said, World::Eviction, 1), wanted, "{text:?}");
            }
        }
    }

    #[test]
    fn a_policy_is_of_its_own_world_and_claims_no_more_memory_than_it_may_have() {
        for world in World::ALL {
            let said = Capabilities { world, ..says("x", "1", 0) };
            for asked in World::ALL {
                let told = check_capabilities(&said, asked, 1);
                assert_eq!(told.is_ok(), world == asked, "{world} as {asked}: {told:?}");
                let named = |text: String| text.ends_with(&format!("it is not for {asked}"));
                assert!(told.err().is_none_or(named), "{world} as {asked}");
            }
        }
        // The most are 64 MiB.
        for (bytes_per_slot, max_slots, fits) in [
            (0, u32::MAX, true),
            (u32::MAX, 0, true),
            (64, 1 << 20, true),
            (64, (1 << 20) + 1, false),
            (65, 1 << 20, false),
            (64 << 20, 1, true),
            ((64 << 20) + 1, 1, false),
            // In 32 bits these would be nothing, and one.
            (1 << 16, 1 << 16, false),
            (u32::MAX, u32::MAX, false),
        ] {
            let said = says("x", "1", bytes_per_slot);
            let told = check_capabilities(&said, World::Eviction, max_slots);
            assert_eq!(told.is_ok(), fits, "{max_slots} of {bytes_per_slot}: {told:?}");
        }
    }

    #[test]
    fn of_the_figures_of_a_policy_the_first_64_are_shown_on_one_line_each() {
        for (count, wanted) in [(0_u32, 0), (63, 63), (64, 64), (65, 64), (1000, 64)] {
            let all = (0..count).map(|number| (format!("m\n{number}"), f64::from(number)));
            let found = shown(all.collect());
            assert_eq!(found.len(), wanted, "of {count}");
            for (number, figure) in (0_u32..).zip(found) {
                assert_eq!(figure, (format!("m {number}"), f64::from(number)));
            }
        }
    }
}
