//! Admission control: what enters a shard. Reads get their turn, and what is too much is refused.
//!
//! ```text
//! read ── shed? ── rate? ── room? ──> Permit: a turn and a charge of memory ──> rows ──> client
//!           │        │        └─ no ─> queue, first come first served ──┘         │
//!           │        │                 (full, or too old: Overloaded)             │
//!           │        │         the turn is given back while the client takes nothing
//!           │        └─ beyond the limit of its partition ─> RateLimited (`rate`)
//!           └─ yes ─> Overloaded
//! write ── shed? ── rate? ──> memory? ──> …
//! ```
//! Invariant: never more turns than the plan says, one at least; a read that has its turn is never
//! stopped for the load; who went first in a class gets the next turn first. Policies return plans
//! at intervals (`policy::admission`); without them the native limits hold and nothing is shed. Not
//! here: what a read does (`table`).

mod admission;
mod class;
mod governed;
mod latency;
mod level;
mod long_wait;
mod memory;
pub mod rate;
mod write;

#[cfg(test)]
mod tests;

pub use admission::{Admission, ClassStatus, Permit};
pub use governed::PlanStatus;
pub use level::{LevelId, LevelOptions, ServiceLevel, Workload};
pub use long_wait::LongWait;
pub use memory::{BatchCharge, ReadMemory, ReadMemoryStatus};
pub use write::WaitingWrite;
