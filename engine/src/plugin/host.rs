//! The Wasm runtime of a database: its configuration, its pool of instances, its epoch thread.

use std::num::NonZeroUsize;
use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use super::artifact;
use super::bindings::v0_1;
use super::compiler::CompilerCommand;
use super::component::{self, CompiledPolicy, Loaded};
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
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Instances at one time: shards × (active + candidate + the one kept for a rollback).
    pub instances_max: u32,
    /// Compiles in a process of its own; without one, policies are compiled in this process, with
    /// no limit but those on their structure.
    pub compiler: Option<CompilerCommand>,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions { instances_max: 64, compiler: None }
    }
}

/// Compiles policies; one per database, shared by all shards.
pub struct PolicyHost {
    engine: Engine,
    linker: Linker<State>,
    ticker: Arc<Ticker>,
    compiler: Option<CompilerCommand>,
}

impl PolicyHost {
    /// Starts the runtime.
    ///
    /// Errors: `Unavailable` when the machine cannot run compiled Wasm.
    pub fn new(options: HostOptions) -> Result<Self> {
        let engine = start(options.instances_max)?;
        let mut linker = Linker::new(&engine);
        v0_1::link(&mut linker).map_err(|error| unavailable(&error))?;
        let ticker = Ticker::start(engine.clone())?;
        Ok(PolicyHost { engine, linker, ticker, compiler: options.compiler })
    }

    /// Checks a component of any world that is served and compiles it. Takes tens of milliseconds,
    /// so it does not belong on a shard.
    ///
    /// Errors: `Policy` with what is wrong with the component, in words for its author.
    pub fn compile(&self, name: &str, bytes: &[u8]) -> Result<Arc<CompiledPolicy>> {
        self.load(name, bytes, None).map(|loaded| loaded.compiled)
    }

    /// As `compile`, from the machine code that was kept of it. Code that is damaged, or of another
    /// component or build, is compiled anew.
    ///
    /// `kept` must come from a file that nobody could write but this user: code cannot be checked.
    ///
    /// Errors: as `compile`.
    pub fn load(&self, name: &str, bytes: &[u8], kept: Option<&[u8]>) -> Result<Loaded> {
        let compiler = self.compiler.as_ref();
        component::compile(&self.engine, &self.linker, &self.ticker, compiler, name, bytes, kept)
    }

    /// What machine code of this runtime depends on: a part of the name of its files.
    pub fn code_compatibility(&self) -> u64 {
        artifact::compatibility(&self.engine)
    }

    /// Lets so many milliseconds pass, as far as deadlines of calls know.
    #[cfg(test)]
    pub(crate) fn pass_ms(&self, ms: u64) {
        (0..ms).for_each(|_| self.engine.increment_epoch());
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
fn start(instances_max: u32) -> Result<Engine> {
    let mut config = configuration();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(instances_max)));
    Engine::new(&config).or_else(|pooled| {
        tracing::warn!("no pool of policy instances, using memory on demand: {pooled:#}");
        Engine::new(&configuration()).map_err(|error| unavailable(&error))
    })
}

/// Machine code of a component, for an engine that `start` made.
pub(super) fn precompile(component: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let mut config = configuration();
    // Threads would only make the limits of this process harder to say.
    config.parallel_compilation(false);
    Engine::new(&config)?.precompile_component(component)
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

fn pool(instances: u32) -> PoolingAllocationConfig {
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
