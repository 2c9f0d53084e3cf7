//! `tidegate:policy@0.1.0`: the only code that knows its types.
//!
//! One module a world, because each makes types of its own for the same records; a macro turns what
//! they have in common into the host's words.

use wasmtime::component::{HasSelf, InstancePre, Linker};
use wasmtime::{Result, Store};

use super::super::state::State;
use super::super::world::World;
use crate::policy::compaction::{Pick, SstableFacts, TableFacts, TableStrategy, WantedMerge};

mod eviction {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "eviction-policy",
    });
}

mod admission {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "cache-admission-policy",
    });
}

mod rate {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "rate-limiter-policy",
    });
}

mod read_admission {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "read-admission-policy",
    });
}

mod load_shedding {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "load-shedding-policy",
    });
}

mod io_priority {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "io-priority-policy",
    });
}

mod compaction {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1",
        world: "compaction-policy",
    });
}

/// What a component of this version may import.
pub const IMPORTS: [&str; 1] = ["tidegate:policy/host@0.1.0"];
/// What every policy exports besides its decision.
pub const LIFECYCLE: &str = "tidegate:policy/lifecycle@0.1.0";
/// The version itself.
pub const VERSION: &str = "0.1.0";

/// What a policy of this world exports besides `lifecycle`.
pub fn export_of(world: World) -> &'static str {
    match world {
        World::Eviction => "tidegate:policy/eviction@0.1.0",
        World::CacheAdmission => "tidegate:policy/cache-admission@0.1.0",
        World::RateLimiter => "tidegate:policy/rate-limiter@0.1.0",
        World::ReadAdmission => "tidegate:policy/read-admission@0.1.0",
        World::LoadShedding => "tidegate:policy/load-shedding@0.1.0",
        World::IoPriority => "tidegate:policy/io-priority@0.1.0",
        World::Compaction => "tidegate:policy/compaction@0.1.0",
    }
}

/// What a policy says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The decision that it says it takes.
    pub world: World,
    pub name: String,
    pub version: String,
    pub deterministic: bool,
    pub wants_miss_events: bool,
    pub wants_ticks_ms: u32,
    pub state_schema: u32,
    pub bytes_per_slot: u32,
}

impl eviction::tidegate::policy::host::Host for State {
    fn log(&mut self, level: u8, msg: String) {
        State::log(self, level, &msg);
    }
}

/// Gives components the one thing they may import.
pub fn link(linker: &mut Linker<State>) -> Result<()> {
    eviction::tidegate::policy::host::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// A linked component whose exports have the types of this version.
pub enum Prepared {
    Eviction(eviction::EvictionPolicyPre<State>),
    CacheAdmission(admission::CacheAdmissionPolicyPre<State>),
    RateLimiter(rate::RateLimiterPolicyPre<State>),
    ReadAdmission(read_admission::ReadAdmissionPolicyPre<State>),
    LoadShedding(load_shedding::LoadSheddingPolicyPre<State>),
    IoPriority(io_priority::IoPriorityPolicyPre<State>),
    Compaction(compaction::CompactionPolicyPre<State>),
}

impl Prepared {
    /// Checks the types of all exports of a world.
    pub fn new(world: World, component: InstancePre<State>) -> Result<Self> {
        Ok(match world {
            World::Eviction => Prepared::Eviction(eviction::EvictionPolicyPre::new(component)?),
            World::CacheAdmission => {
                Prepared::CacheAdmission(admission::CacheAdmissionPolicyPre::new(component)?)
            }
            World::RateLimiter => {
                Prepared::RateLimiter(rate::RateLimiterPolicyPre::new(component)?)
            }
            World::ReadAdmission => {
                let component = read_admission::ReadAdmissionPolicyPre::new(component)?;
                Prepared::ReadAdmission(component)
            }
            World::LoadShedding => {
                Prepared::LoadShedding(load_shedding::LoadSheddingPolicyPre::new(component)?)
            }
            World::IoPriority => {
                Prepared::IoPriority(io_priority::IoPriorityPolicyPre::new(component)?)
            }
            World::Compaction => {
                Prepared::Compaction(compaction::CompactionPolicyPre::new(component)?)
            }
        })
    }

    pub fn world(&self) -> World {
        match self {
            Prepared::Eviction(_) => World::Eviction,
            Prepared::CacheAdmission(_) => World::CacheAdmission,
            Prepared::RateLimiter(_) => World::RateLimiter,
            Prepared::ReadAdmission(_) => World::ReadAdmission,
            Prepared::LoadShedding(_) => World::LoadShedding,
            Prepared::IoPriority(_) => World::IoPriority,
            Prepared::Compaction(_) => World::Compaction,
        }
    }

    fn other_world(&self, wanted: World) -> wasmtime::Error {
        let message = format!("the policy decides on {}, not on {wanted}", self.world());
        wasmtime::Error::msg(message)
    }
}

/// The exports of one instance of a policy. Fuel, epoch and limits are the caller's.
pub trait WorldGuest: Sized {
    /// What the policy decides.
    const WORLD: World;

    /// Makes an instance; start functions run here. Fails for a policy of another world.
    fn instantiate(prepared: &Prepared, store: &mut Store<State>) -> Result<Self>;

    /// `lifecycle.init`; the inner error is the policy's own refusal.
    fn init(
        &self,
        store: &mut Store<State>,
        params: Vec<(String, String)>,
        max_slots: u32,
        shard: u32,
        seed: u64,
    ) -> Result<std::result::Result<Capabilities, String>>;

    /// `lifecycle.metrics`.
    fn metrics(&self, store: &mut Store<State>) -> Result<Vec<(String, f64)>>;
}

/// What the guests of all worlds have in common, in the host's words.
macro_rules! world_guest {
    ($guest:ident, $module:ident, $world:ident) => {
        impl WorldGuest for $guest {
            const WORLD: World = World::$world;

            fn instantiate(prepared: &Prepared, store: &mut Store<State>) -> Result<Self> {
                match prepared {
                    Prepared::$world(policy) => policy.instantiate(store).map($guest),
                    _ => Err(prepared.other_world(Self::WORLD)),
                }
            }

            fn init(
                &self,
                store: &mut Store<State>,
                params: Vec<(String, String)>,
                max_slots: u32,
                shard: u32,
                seed: u64,
            ) -> Result<std::result::Result<Capabilities, String>> {
                use $module::exports::tidegate::policy::lifecycle::{Hook, Param};
                let params: Vec<Param> =
                    params.into_iter().map(|(name, value)| Param { name, value }).collect();
                let exports = self.0.tidegate_policy_lifecycle();
                let answer = exports.call_init(store, &params, max_slots, shard, seed)?;
                Ok(answer.map(|caps| Capabilities {
                    world: match caps.hook {
                        Hook::Eviction => World::Eviction,
                        Hook::CacheAdmission => World::CacheAdmission,
                        Hook::RateLimiter => World::RateLimiter,
                        Hook::ReadAdmission => World::ReadAdmission,
                        Hook::LoadShedding => World::LoadShedding,
                        Hook::IoPriority => World::IoPriority,
                        Hook::Compaction => World::Compaction,
                    },
                    name: caps.name,
                    version: caps.version,
                    deterministic: caps.deterministic,
                    wants_miss_events: caps.wants_miss_events,
                    wants_ticks_ms: caps.wants_ticks_ms,
                    state_schema: caps.state_schema,
                    bytes_per_slot: caps.bytes_per_slot,
                }))
            }

            fn metrics(&self, store: &mut Store<State>) -> Result<Vec<(String, f64)>> {
                let metrics = self.0.tidegate_policy_lifecycle().call_metrics(store)?;
                Ok(metrics.into_iter().map(|metric| (metric.name, metric.value)).collect())
            }
        }
    };
}

/// The exports of one instance of an eviction policy.
pub struct Guest(eviction::EvictionPolicy);

world_guest!(Guest, eviction, Eviction);

impl Guest {
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

/// The exports of one instance of a cache-admission policy.
pub struct AdmissionGuest(admission::CacheAdmissionPolicy);

world_guest!(AdmissionGuest, admission, CacheAdmission);

impl AdmissionGuest {
    /// `cache-admission.admit`.
    pub fn admit(
        &self,
        store: &mut Store<State>,
        fingerprint: u64,
        size_cost: u64,
        ctx: u64,
    ) -> Result<u32> {
        self.0.tidegate_policy_cache_admission().call_admit(store, fingerprint, size_cost, ctx)
    }

    /// `cache-admission.feedback`.
    pub fn feedback(&self, store: &mut Store<State>, words: &[u64]) -> Result<()> {
        self.0.tidegate_policy_cache_admission().call_feedback(store, words)
    }
}

/// The exports of one instance of a rate-limiter policy.
pub struct RateGuest(rate::RateLimiterPolicy);

world_guest!(RateGuest, rate, RateLimiter);

impl RateGuest {
    /// `rate-limiter.plan`.
    pub fn plan(&self, store: &mut Store<State>, now_us: u64, stats: &[u64]) -> Result<Vec<u64>> {
        self.0.tidegate_policy_rate_limiter().call_plan(store, now_us, stats)
    }

    /// `rate-limiter.exceeded`.
    pub fn exceeded(
        &self,
        store: &mut Store<State>,
        key: u64,
        class_op: u64,
        deficit_milli: u64,
    ) -> Result<u32> {
        let exports = self.0.tidegate_policy_rate_limiter();
        exports.call_exceeded(store, key, class_op, deficit_milli)
    }
}

/// The exports of one instance of a read-admission policy.
pub struct ReadAdmissionGuest(read_admission::ReadAdmissionPolicy);

world_guest!(ReadAdmissionGuest, read_admission, ReadAdmission);

impl ReadAdmissionGuest {
    /// `read-admission.plan`.
    pub fn plan(
        &self,
        store: &mut Store<State>,
        now_us: u64,
        memory_free: u64,
        stats: &[u64],
    ) -> Result<Vec<u64>> {
        let exports = self.0.tidegate_policy_read_admission();
        exports.call_plan(store, now_us, memory_free, stats)
    }
}

/// The exports of one instance of a load-shedding policy.
pub struct LoadSheddingGuest(load_shedding::LoadSheddingPolicy);

world_guest!(LoadSheddingGuest, load_shedding, LoadShedding);

impl LoadSheddingGuest {
    /// `load-shedding.plan`.
    pub fn plan(&self, store: &mut Store<State>, now_us: u64, signals: &[u64]) -> Result<Vec<u32>> {
        self.0.tidegate_policy_load_shedding().call_plan(store, now_us, signals)
    }
}

/// The exports of one instance of an I/O-priority policy.
pub struct IoPriorityGuest(io_priority::IoPriorityPolicy);

world_guest!(IoPriorityGuest, io_priority, IoPriority);

impl IoPriorityGuest {
    /// `io-priority.plan`.
    pub fn plan(
        &self,
        store: &mut Store<State>,
        now_us: u64,
        disk: &[u64],
        classes: &[u64],
    ) -> Result<Vec<u32>> {
        self.0.tidegate_policy_io_priority().call_plan(store, now_us, disk, classes)
    }
}

/// The exports of one instance of a compaction policy.
pub struct CompactionGuest(compaction::CompactionPolicy);

world_guest!(CompactionGuest, compaction, Compaction);

impl CompactionGuest {
    /// `compaction.pick`.
    pub fn pick(
        &self,
        store: &mut Store<State>,
        table: &TableFacts,
        sstables: &[SstableFacts],
    ) -> Result<Pick> {
        use compaction::exports::tidegate::policy::compaction::{Choice, Sstable, Strategy, Table};
        let table = Table {
            name: table.name.clone(),
            now_seconds: table.now_seconds,
            strategy: match table.strategy {
                TableStrategy::SizeTiered => Strategy::SizeTiered,
                TableStrategy::Leveled => Strategy::Leveled,
                TableStrategy::TimeWindow => Strategy::TimeWindow,
                TableStrategy::Incremental => Strategy::Incremental,
            },
            min_threshold: table.min_threshold,
            max_threshold: table.max_threshold,
            sstable_bytes: table.sstable_bytes,
        };
        let sstable = |facts: &SstableFacts| Sstable {
            id: facts.number,
            run: facts.run,
            level: facts.level,
            bytes: facts.bytes,
            partitions: facts.partitions,
            rows: facts.rows,
            first_token: facts.first_token,
            last_token: facts.last_token,
            min_timestamp: facts.min_timestamp,
            max_timestamp: facts.max_timestamp,
            droppable_per_mille: facts.droppable_per_mille,
            age_seconds: facts.age_seconds,
        };
        let sstables: Vec<Sstable> = sstables.iter().map(sstable).collect();
        let exports = self.0.tidegate_policy_compaction();
        Ok(match exports.call_pick(store, &table, &sstables)? {
            Choice::Nothing => Pick::Nothing,
            Choice::Strategy => Pick::Strategy,
            Choice::Merge(job) => Pick::Merge(WantedMerge {
                inputs: job.inputs,
                level: job.level,
                split_bytes: job.split_bytes,
                is_incremental: job.incremental,
            }),
        })
    }
}
