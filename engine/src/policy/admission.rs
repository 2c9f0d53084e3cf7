//! The worlds of read admission and of load shedding: limits of what enters a shard.
//!
//! Policies return parameters; `admission` obeys them. Nothing here is called for a single request.

use super::eviction::PolicyFailure;

/// What a read reads, as far as admission tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum ReadClass {
    /// Partitions that are named.
    Keys = 0,
    /// Everything that a shard has.
    Scan = 1,
}

impl ReadClass {
    pub const ALL: [ReadClass; 2] = [ReadClass::Keys, ReadClass::Scan];
    pub const COUNT: usize = Self::ALL.len();
}

/// What became of the reads of a class since the last plan, and what there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadLoad {
    pub arrived: u64,
    pub admitted: u64,
    /// Reads that wait now.
    pub queued: u32,
    /// Most reads that ran at once.
    pub running_most: u32,
    pub refused: u64,
    /// Bytes that reads are charged with now.
    pub memory_bytes: u64,
    /// From admission to the first batch, or to the end where there was none.
    pub p50_us: u64,
    pub p99_us: u64,
    /// Time that the shard computed for them.
    pub busy_us: u64,
}

/// Limits of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Reads that run at once, at least 1.
    pub running_max: u32,
    /// Bytes that they are charged with.
    pub memory_bytes_max: u64,
    /// Reads that wait.
    pub queued_max: u32,
    /// Time after which a read that waits is refused; 0 never.
    pub wait_us_max: u64,
}

/// Limits of all classes.
pub type ReadPlan = [ReadLimits; ReadClass::COUNT];

/// A read-admission policy.
pub trait ReadAdmissionPolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Its own figures, for people.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// Called at intervals while there are reads; changes the limits that are to hold from now on.
    ///
    /// Errors: the policy failed and must not be called again; the plan is as it was.
    fn plan(
        &mut self,
        now_us: u64,
        memory_free_bytes: u64,
        loads: &[ReadLoad; ReadClass::COUNT],
        plan: &mut ReadPlan,
    ) -> Result<(), PolicyFailure>;
}

/// What a request is, as far as shedding tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum WorkClass {
    Keys = 0,
    Scan = 1,
    Write = 2,
}

impl WorkClass {
    pub const COUNT: usize = 3;

    /// The class as reports show it.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkClass::Keys => "keys",
            WorkClass::Scan => "scan",
            WorkClass::Write => "write",
        }
    }
}

impl From<ReadClass> for WorkClass {
    fn from(class: ReadClass) -> Self {
        match class {
            ReadClass::Keys => WorkClass::Keys,
            ReadClass::Scan => WorkClass::Scan,
        }
    }
}

/// Requests of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkLoad {
    /// Since the last plan.
    pub arrived: u64,
    /// Now.
    pub waiting: u32,
    /// For which the first of them waits.
    pub waited_us: u64,
    /// For the plan, since the last.
    pub shed: u64,
}

/// What a shard has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadSignals {
    /// Since the last plan.
    pub elapsed_us: u64,
    /// Of it, what the shard computed for reads.
    pub busy_us: u64,
    /// Memtables that are not flushed, and how much of them makes writes wait.
    pub memtable_bytes: u64,
    pub memtable_bytes_max: u64,
    pub classes: [WorkLoad; WorkClass::COUNT],
}

/// What is refused of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shedding {
    /// Of a thousand arrivals.
    pub per_mille: u32,
    /// Age at which a request that waits is refused, milliseconds; 0 none.
    pub wait_ms_max: u32,
}

/// Shedding of all classes.
pub type SheddingPlan = [Shedding; WorkClass::COUNT];

/// A load-shedding policy.
pub trait LoadSheddingPolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Its own figures, for people.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// Called at intervals while there are requests; changes what is refused from now on.
    ///
    /// Errors: the policy failed and must not be called again; the plan is as it was.
    fn plan(
        &mut self,
        now_us: u64,
        signals: &LoadSignals,
        plan: &mut SheddingPlan,
    ) -> Result<(), PolicyFailure>;
}
