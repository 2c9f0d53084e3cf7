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
//! Turns and memory of a class of reads belong to service levels, half of them by shares and half
//! to whoever needs them. Of the reads of a level few compute at once (`semaphore.rs`). Callers
//! refuse by themselves what the shard would refuse, where it has told them so (`fail_fast.rs`).
//!
//! Invariant: never more turns than the plan says, one at least for each level; who went first in a
//! level gets the next turn first; a read that has its turn is stopped only when the reads of its
//! level hold many times what they may, or when somebody kills it. Policies return plans at
//! intervals (`policy::admission`); without them the native limits hold and nothing is shed. Not
//! here: what a read does (`table`).

mod account;
mod admission;
mod class;
mod diagnosis;
mod fail_fast;
mod lane;
mod level;
mod memory;
mod permit;
pub mod rate;
mod semaphore;
mod write;

#[cfg(test)]
mod tests;

pub use account::{Account, BufferCharge, set_yields};
pub use admission::Admission;
pub use class::ClassStatus;
pub use diagnosis::{LongWait, NotedRead, ReadState, ReadStatus};
pub use fail_fast::{FailFast, QueuePlace};
pub use level::{DEFAULT_LEVEL, LevelId, LevelOptions, LevelStatus, ServiceLevel, Terms, Workload};
pub use memory::{BatchCharge, ReadMemory, ReadMemoryStatus};
pub use permit::Permit;
pub use write::WaitingWrite;
