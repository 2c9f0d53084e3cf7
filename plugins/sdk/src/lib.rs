//! Write a Tidegate policy: implement [`EvictionPolicy`], call [`export_eviction!`], build for
//! `wasm32-unknown-unknown`.
//!
//! What a policy may rely on and what it owes is in `wit/v0.1/eviction.wit`. Here is the Rust side
//! of it: [`event`] decodes the words, [`SlotList`] is an intrusive list over slot arrays,
//! [`Driver`] turns batches into calls of the trait, the same code in the guest and natively, and
//! [`replay`] runs a policy on a recorded trace without Wasm.
//!
//! Invariant: nothing here reads a clock, draws a random number or iterates a hash map.

pub mod driver;
pub mod event;
mod export;
#[cfg(target_arch = "wasm32")]
pub mod guest;
pub mod list;
pub mod replay;

pub use driver::Driver;
pub use event::{Attributes, Event, Op};
pub use list::SlotList;
pub use replay::{Outcome, Replay, replay};

/// Place of an entry in the cache's slot table, `0..max_slots`.
pub type Slot = u32;

/// What a policy is told when it starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// `name = value` pairs of `CREATE POLICY … WITH (…)`, ascending, names once each.
    pub params: Vec<(String, String)>,
    /// Slots are below this number.
    pub max_slots: u32,
    pub shard: u32,
    /// The only source of randomness.
    pub seed: u64,
}

impl Setup {
    /// The value of a numeric parameter, or `default` where it is not given.
    ///
    /// Errors: the value is not a whole number.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some((_, value)) = self.params.iter().find(|(given, _)| given == name) else {
            return Ok(default);
        };
        value.parse().map_err(|_| format!("parameter {name}: '{value}' is not a whole number"))
    }

    /// Refuses parameters that the policy does not have.
    ///
    /// Errors: a parameter is not in `known`.
    pub fn allow_params(&self, known: &[&str]) -> Result<(), String> {
        match self.params.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => {
                Err(format!("unknown parameter '{name}'; this policy has none"))
            }
            Some((name, _)) => Err(format!("unknown parameter '{name}'; known: {known:?}")),
        }
    }
}

/// A policy that decides which entries of a cache leave first.
///
/// Methods are called with slots below `max_slots`. They must tolerate events of slots that they do
/// not hold: an access may follow after the slot was returned as a victim.
pub trait EvictionPolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;
    /// Memory per slot, bytes, checked against the host's cap at load.
    const BYTES_PER_SLOT: u32;
    /// Number of the format that `snapshot` writes; 0 = no snapshot.
    const STATE_SCHEMA: u32 = 0;
    /// Whether MISS events are wanted.
    const WANTS_MISS_EVENTS: bool = false;
    /// How often `tick` is wanted, milliseconds; 0 = never.
    const WANTS_TICKS_MS: u32 = 0;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// Takes in one event; `attributes` are there for INSERT, RESTORE and MISS.
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>);

    /// Called before the victims of one request are asked for, for example to start a work budget.
    fn before_victims(&mut self, _want_entries: u32, _want_bytes: u64) {}

    /// Takes out the best victim, or `None` when there is none or none could be found cheaply.
    fn next_victim(&mut self) -> Option<Slot>;

    /// Appends resident slots from coldest to hottest.
    fn order(&self, slots: &mut Vec<Slot>);

    /// New limits of the cache; also called once after `new`.
    fn resize(&mut self, capacity_bytes: u64, max_slots: u32);

    /// Time passed, µs since an arbitrary start.
    fn tick(&mut self, _now_us: u64) {}

    /// State for a successor with the same `STATE_SCHEMA`.
    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes over what `snapshot` returned.
    ///
    /// Errors: the schema or the bytes are not this policy's.
    fn restore(&mut self, schema: u32, _state: &[u8]) -> Result<(), String> {
        Err(format!("{} keeps no state, so it cannot restore schema {schema}", Self::NAME))
    }

    /// Figures for `EXPLAIN POLICY`.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
