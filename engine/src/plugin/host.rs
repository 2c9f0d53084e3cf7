//! The Wasm runtime of a database: its configuration, its pool of instances, its epoch thread.

use std::num::NonZeroUsize;
use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use super::bindings::v0_1;
use super::component::{self, CompiledPolicy};
use super::epoch::Ticker;
use super::state::{State, TABLE_ELEMENTS_MAX, TABLES_MAX};
use crate::config::POLICY_MEMORY_BYTES_MAX;
use crate::error::{Error, Result};

/// Stack of a guest, bytes.
const STACK_BYTES_MAX: usize = 128 << 10;
/// Frames kept of a trap.
pub(super) const BACKTRACE_FRAMES_MAX: usize = 16;
/// Core instances in one component: the policy, and what wraps it to reach the host.
const CORE_INSTANCES_MAX: u32 = 8;

/// Sizes of the runtime.
#[derive(Debug, Clone, Copy)]
pub struct HostOptions {
    /// Instances at one time: shards × (active + candidate + the one kept for a rollback).
    pub instances_max: u32,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions { instances_max: 64 }
    }
}

/// Compiles policies; one per database, shared by all shards.
pub struct PolicyHost {
    engine: Engine,
    linker: Linker<State>,
    ticker: Arc<Ticker>,
}

impl PolicyHost {
    /// Starts the runtime.
    ///
    /// Errors: `Unavailable` when the machine cannot run compiled Wasm.
    pub fn new(options: HostOptions) -> Result<Self> {
        let engine = start(options)?;
        let mut linker = Linker::new(&engine);
        v0_1::link(&mut linker).map_err(|error| unavailable(&error))?;
        let ticker = Ticker::start(engine.clone())?;
        Ok(PolicyHost { engine, linker, ticker })
    }

    /// Checks a component of any world that is served and compiles it. Takes tens of milliseconds,
    /// so it does not belong on a shard.
    ///
    /// Errors: `Policy` with what is wrong with the component, in words for its author.
    pub fn compile(&self, name: &str, bytes: &[u8]) -> Result<Arc<CompiledPolicy>> {
        component::compile(&self.engine, &self.linker, &self.ticker, name, bytes)
    }

    #[cfg(test)]
    pub(super) fn loaded(&self) -> usize {
        self.ticker.policies()
    }
}

fn unavailable(error: &wasmtime::Error) -> Error {
    Error::Unavailable(format!("starting the policy runtime: {error:#}"))
}

/// The engine with its pool; without one where the address space is too small for it.
fn start(options: HostOptions) -> Result<Engine> {
    let mut config = configuration();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options)));
    Engine::new(&config).or_else(|pooled| {
        tracing::warn!("no pool of policy instances, using memory on demand: {pooled:#}");
        Engine::new(&configuration()).map_err(|error| unavailable(&error))
    })
}

fn configuration() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).consume_fuel(true);
    config.cranelift_opt_level(OptLevel::Speed);
    config.max_wasm_stack(STACK_BYTES_MAX);
    config.wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES_MAX));
    // Calls take four times as long with it, and no policy may wait for anything.
    config.concurrency_support(false);
    // Equal events must give equal victims on every machine.
    config.cranelift_nan_canonicalization(true).wasm_relaxed_simd(false);
    // Nothing that a policy needs; each would be one more thing to get right.
    config.wasm_memory64(false).wasm_multi_memory(false);
    config
}

fn pool(options: HostOptions) -> PoolingAllocationConfig {
    let instances = options.instances_max;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_MAX))
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .total_memories(instances)
        .max_memories_per_component(1)
        .max_memory_size(POLICY_MEMORY_BYTES_MAX)
        .total_tables(instances.saturating_mul(TABLES_MAX as u32))
        .max_tables_per_component(TABLES_MAX as u32)
        .table_elements(TABLE_ELEMENTS_MAX);
    pool
}
