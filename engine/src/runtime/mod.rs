//! One thread per shard: how work gets there, takes turns and ends.
//!
//! `executor.rs` starts a shard and carries calls to it; `mail.rs` is what waits for it in
//! `mailbox.rs`; `request.rs` answers short calls without a task; `lease.rs` lets a caller answer
//! its own short call while the shard's thread sleeps; `preempt.rs` makes long tasks yield and
//! counts those that do not; `shares.rs` divides turns among groups of tasks; `pace.rs` has work in
//! the background rest between turns; `timer.rs` sleeps by the shard's clock; `gate.rs` waits for
//! work to end; `aside.rs` does on another thread what would hold a shard up; `stats.rs` is what an
//! onlooker may read. Invariant: a shard's state is touched by one thread at a time, which has its
//! lease, and everything that crosses to another is `Send`. Not here: what a shard does (`shard/`),
//! the disk (`disk/`).

mod aside;
mod executor;
mod gate;
mod lease;
mod mail;
mod mailbox;
mod pace;
mod preempt;
mod request;
mod shares;
mod stats;
mod timer;

#[cfg(test)]
mod tests;

pub use aside::aside;
pub use executor::{ExecutorOptions, ShardContext, ShardHandle, start, start_local};
pub use gate::{Gate, GateGuard};
pub use pace::Pace;
#[cfg(test)]
pub(crate) use preempt::EachTurn;
pub use preempt::{
    Request, is_on_shard, maybe_yield, need_preempt, spawn_detached, spawn_local, spawn_request,
    yield_now,
};
pub use request::{Answering, Ask, Asking, wait};
pub use shares::{charge_group, in_group, set_groups};
pub use stats::{RuntimeStats, Stall, Stretch};
pub use timer::{RealTimer, SimulatedTimer, Timer};
