//! Policies as Wasm components: the one place that names the Wasm runtime.
//!
//! ```text
//! bytes ── component::check ──> CompiledPolicy ── per shard ──> Wasm…Policy, one of each world
//!          size, world, imports   shared, Send       one store each, budgets per call
//! ```
//! Invariant: whatever a component does, a call ends within its budget with an answer or a
//! `PolicyFailure`, and an instance that failed is never entered again. Not here: which victims
//! are legal (`cache/`), what follows a failure and where components are stored (`governance/`).

mod artifact;
mod bindings;
mod budget;
mod compiler;
mod compiler_process;
mod component;
mod epoch;
mod host;
mod inspect;
mod instance;
mod owned_store;
mod plans;
mod scalar;
mod state;
mod world;

#[cfg(test)]
pub(crate) mod tests;

pub use budget::Budget;
pub use compiler::{CompileLimits, CompilerCommand};
pub use compiler_process::compile_stdin;
pub use component::{CompiledPolicy, Loaded};
pub use host::{HostOptions, PolicyHost};
pub use inspect::{Inspection, inspect};
pub use instance::{Instance, InstanceCounters, InstanceOptions, WasmEvictionPolicy};
pub use plans::{
    WasmCompactionPolicy, WasmIoPriorityPolicy, WasmLoadSheddingPolicy, WasmReadAdmissionPolicy,
};
pub use scalar::{WasmAdmissionPolicy, WasmRatePolicy};
pub use state::instance_bytes;
pub use world::World;
