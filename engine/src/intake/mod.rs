//! What enters a shard: reads get their turn, and what is too much is refused.
//!
//! ```text
//! read ── shed? ── room? ──> Permit: a turn and a charge of memory ──> rows ──> client
//!           │        └─ no ─> queue, first come first served ──┘         │
//!           └─ yes ─> Overloaded          (full, or too old: Overloaded) │
//!                     the turn is given back while the client takes nothing
//! write ── shed? ──> memory? ──> …
//! ```
//! Invariant: never more turns than the plan says, one at least; a read that has its turn is never
//! stopped for the load; who went first in a class gets the next turn first. Policies return plans
//! at intervals (`policy::intake`); without them the native limits hold and nothing is shed. Not
//! here: limits of single partitions (`rate`), what a read does (`table`).

mod class;
mod governed;
mod latency;
mod memory;
mod point;
mod write;

#[cfg(test)]
mod tests;

pub use governed::PlanStatus;
pub use memory::{BatchCharge, ReadMemory, ReadMemoryStatus};
pub use point::{ClassStatus, Intake, Permit};
pub use write::WaitingWrite;
