//! What the shell shows of a cache's policies.

use super::policy_slot::PolicySlot;
use super::{ExitRecord, Governor, PolicyCounters, PolicyIdentity, Second, ShadowStatus};
use crate::policy::Tally;

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
    /// Look-ups since the last change of policy, as `evictions`.
    pub tally: Tally,
    pub evictions: u64,
    /// Residents now.
    pub entries: u32,
    /// The candidate being prepared.
    pub candidate: Option<PolicyIdentity>,
    /// What a rollback would bring back.
    pub standby: Option<PolicyIdentity>,
    /// The policy that runs beside, and how it would do.
    pub shadow: Option<ShadowStatus>,
    /// Oldest first, a bounded number.
    pub failures: Vec<ExitRecord>,
}

fn native_identity() -> PolicyIdentity {
    PolicyIdentity { name: "clock".into(), version: "native".into(), digest: String::new() }
}

impl Governor {
    /// Who orders evictions now.
    pub fn state(&self) -> PolicyState {
        match (&self.active, &self.failed) {
            (Some(_), _) => PolicyState::Active,
            (None, Some(_)) => PolicyState::Failed,
            (None, None) => PolicyState::Native,
        }
    }

    /// What there is to know now.
    pub fn status(&self) -> PolicyStatus {
        let identity = match (&self.active, &self.failed) {
            (Some(policy_slot), _) => policy_slot.identity.clone(),
            (None, Some(failed)) => failed.clone(),
            (None, None) => native_identity(),
        };
        let (candidate, standby) = match &self.second {
            Second::Nothing => (None, None),
            Second::Candidate { policy_slot, .. } => (Some(policy_slot.identity.clone()), None),
            Second::Standby(Some(policy_slot)) => (None, Some(policy_slot.identity.clone())),
            Second::Standby(None) => (None, Some(native_identity())),
        };
        PolicyStatus {
            identity,
            state: self.state(),
            counters: self.active.as_ref().map(PolicySlot::counters).unwrap_or_default(),
            tally: self.tally,
            evictions: self.evictions,
            entries: self.table.resident_count(),
            candidate,
            standby,
            shadow: self.shadow.as_ref().map(|shadow| shadow.status(&self.tally)),
            failures: self.records.iter().cloned().collect(),
        }
    }
}
