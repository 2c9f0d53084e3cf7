//! The policy that should govern a cache: its state, and the time of its next retry.

use crate::governance::origin::Origin;
use crate::policy::Backoff;

/// The state of the policy that should govern the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    InCharge,
    /// In charge here for a trial; its failure is for all shards to judge.
    Canary,
    /// It failed and is tried again at this time.
    Suspended {
        retry_at_ns: u64,
    },
    Retrying,
    /// It failed too often.
    Ejected,
}

/// The policy that should govern the cache.
pub(super) struct Charge {
    pub(super) origin: Origin,
    pub(super) stage: Stage,
    pub(super) backoff: Backoff,
    /// When the policy before is dropped.
    pub(super) standby_until_ns: Option<u64>,
    /// Where its state came from.
    pub(super) state_note: String,
}

impl Default for Charge {
    /// The native policy is in charge.
    fn default() -> Self {
        Charge {
            origin: Origin::default(),
            stage: Stage::InCharge,
            backoff: Backoff::default(),
            standby_until_ns: None,
            state_note: String::new(),
        }
    }
}
