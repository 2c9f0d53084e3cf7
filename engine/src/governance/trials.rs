//! What is on trial: the canary and the shadow.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::origin::Origin;

/// A policy on trial.
pub(super) struct Canary {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) previous: Origin,
    /// It is in charge on the shards below this number.
    pub(super) shard_count: u32,
}

/// Policies that run for a trial.
#[derive(Default)]
pub(super) struct Trials {
    pub(super) canary: Option<Arc<Canary>>,
    /// Name of the policy that was started as a shadow.
    pub(super) shadow: Option<String>,
    /// What the last canary of each policy came to.
    pub(super) ended: BTreeMap<String, String>,
}
