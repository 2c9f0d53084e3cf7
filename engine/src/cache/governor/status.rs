//! What the shell shows of a cache's policies.

use super::{ExitRecord, Governor, PolicyCounters, PolicyIdentity, Second};

/// Who orders evictions now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyState {
    /// The native CLOCK, because nothing else was asked for.
    Native,
    Active,
    /// The native CLOCK, because the named policy failed.
    Failed,
}

impl PolicyState {
    /// The state as `system.policies` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyState::Native => "native",
            PolicyState::Active => "active",
            PolicyState::Failed => "failed",
        }
    }
}

/// What there is to know about the policies of one cache of one shard.
#[derive(Debug, Clone)]
pub struct PolicyStatus {
    /// The active policy, the one that failed last, or the native CLOCK.
    pub identity: PolicyIdentity,
    pub state: PolicyState,
    /// Of the active policy.
    pub counters: PolicyCounters,
    /// Since the last change of policy, as the next two.
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    /// Residents now.
    pub entries: u32,
    /// The candidate being prepared.
    pub candidate: Option<PolicyIdentity>,
    /// What a rollback would bring back.
    pub standby: Option<PolicyIdentity>,
    /// Oldest first, a bounded number.
    pub failures: Vec<ExitRecord>,
}

impl PolicyStatus {
    /// Hits among lookups since the last change of policy; 0 before the first.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

fn native_identity() -> PolicyIdentity {
    PolicyIdentity { name: "clock".into(), version: "native".into(), digest: String::new() }
}

impl Governor {
    /// What there is to know now.
    pub fn status(&self) -> PolicyStatus {
        let (identity, state) = match (&self.active, &self.failed) {
            (Some(seat), _) => (seat.identity.clone(), PolicyState::Active),
            (None, Some(failed)) => (failed.clone(), PolicyState::Failed),
            (None, None) => (native_identity(), PolicyState::Native),
        };
        let (candidate, standby) = match &self.second {
            Second::Nothing => (None, None),
            Second::Candidate { seat, .. } => (Some(seat.identity.clone()), None),
            Second::Standby(Some(seat)) => (None, Some(seat.identity.clone())),
            Second::Standby(None) => (None, Some(native_identity())),
        };
        PolicyStatus {
            identity,
            state,
            counters: self.active.as_ref().map_or_else(Default::default, |seat| seat.counters),
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
            entries: self.table.resident_count(),
            candidate,
            standby,
            failures: self.records.iter().cloned().collect(),
        }
    }
}
