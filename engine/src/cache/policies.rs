//! The interface of operators to a shard's cache: replace, watch and try policies, and record
//! reads.
//!
//! Each call borrows the cache until it returns: no caller holds the governor while it calls
//! anything else. Not here: policies of all shards (`governance`).

use super::budget::{
    AdmissionFilterStatus, PolicyIdentity, PolicyState, PolicyStatus, ShadowLimits, ShadowPurpose,
    SwapStep,
};
use super::shard_cache::{PageCache, State};
use crate::policy::cache_admission::AdmissionPolicy;
use crate::policy::{EvictionPolicy, PolicyFailure, PolicySnapshot, TrialVerdict};
use crate::trace::{Recorder, Request};

impl PageCache {
    /// Most entries that a policy may be told of.
    pub fn slots_max(&self) -> u32 {
        self.state.borrow().budget.slots_max()
    }

    /// Tells the time (a monotonic clock, ns) to the policy; the shard calls it between tasks.
    pub fn tick(&self, now_ns: u64) {
        self.state().budget.governor().tick(now_ns);
    }

    /// Tells the policies every event that waits, so that their counters are those of now.
    pub fn deliver(&self) {
        let mut state = self.state();
        let governor = state.budget.governor();
        governor.deliver();
        governor.deliver_shadow();
    }

    /// Starts to replace the eviction policy; [`step_policy_swap`](Self::step_policy_swap) goes on.
    ///
    /// Errors: the candidate failed at once; nothing changed.
    pub fn begin_policy(
        &self,
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
    ) -> Result<(), PolicyFailure> {
        let State { budget, owners, .. } = &mut *self.state();
        budget.governor().begin_replace(policy, identity, owners)
    }

    /// Shows the candidate up to `max` entries more; see
    /// [`Governor::step_replace`](super::Governor::step_replace).
    pub fn step_policy_swap(&self, max: u32) -> SwapStep {
        let State { budget, owners, .. } = &mut *self.state();
        budget.governor().step_replace(max, owners)
    }

    /// Exchanges the active policy and the one before; false when there is none.
    pub fn rollback_policy(&self) -> bool {
        self.state().budget.governor().rollback()
    }

    /// Ends the possibility of a rollback and its cost.
    pub fn drop_standby_policy(&self) {
        self.state().budget.governor().drop_standby();
    }

    /// Ends the active policy, leaving `failure` on record; the native CLOCK goes on.
    pub fn end_policy(&self, failure: PolicyFailure) {
        self.state().budget.governor().detach(failure);
    }

    /// The directory that a shadow gets which sees one key in `sample`, or more where that is few.
    pub fn shadow_limits(&self, sample: u32) -> ShadowLimits {
        self.state.borrow().budget.shadow_limits(sample)
    }

    /// Starts a shadow; [`step_shadow`](Self::step_shadow) goes on.
    ///
    /// Errors: the policy failed at once; there is no shadow then.
    pub fn begin_shadow(
        &self,
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
        purpose: ShadowPurpose,
        limits: ShadowLimits,
    ) -> Result<(), PolicyFailure> {
        self.state().budget.governor().begin_shadow(policy, identity, purpose, limits)
    }

    /// Shows the shadow up to `max` residents; true while more are left.
    pub fn step_shadow(&self, max: u32) -> bool {
        let State { budget, owners, .. } = &mut *self.state();
        budget.governor().step_shadow(max, owners)
    }

    /// Ends the shadow; false when there is none.
    pub fn end_shadow(&self) -> bool {
        self.state().budget.governor().end_shadow()
    }

    /// What is to happen with the active policy as a canary.
    pub fn trial_verdict(&self) -> TrialVerdict {
        self.state().budget.governor().trial_verdict()
    }

    /// What the active policy learnt, where it keeps something.
    pub fn snapshot_policy(&self) -> Option<PolicySnapshot> {
        self.state().budget.governor().snapshot()
    }

    /// What the shadow learnt, where it keeps something and saw every key.
    pub fn snapshot_shadow(&self) -> Option<PolicySnapshot> {
        self.state().budget.governor().snapshot_shadow()
    }

    /// The active policy's own figures.
    pub fn policy_metrics(&self) -> Vec<(String, f64)> {
        self.state().budget.governor().metrics()
    }

    /// The shadow policy's own figures.
    pub fn shadow_metrics(&self) -> Vec<(String, f64)> {
        self.state().budget.governor().shadow_metrics()
    }

    /// Who orders evictions now.
    pub fn policy_state(&self) -> PolicyState {
        self.state().budget.governor().state()
    }

    /// What there is to know of the policies.
    pub fn policy_status(&self) -> PolicyStatus {
        self.state().budget.governor().status()
    }

    /// Puts an admission policy before the cache, `None` to keep all that is read. `name` is the
    /// one under which it was created.
    pub fn set_admission(&self, policy: Option<(String, Box<dyn AdmissionPolicy>)>) {
        self.state().budget.set_admission(policy);
    }

    /// What there is to know of the admission policy.
    pub fn admission_status(&self) -> Option<AdmissionFilterStatus> {
        self.state().budget.admission_status()
    }

    /// Its own figures.
    pub fn admission_metrics(&self) -> Vec<(String, f64)> {
        self.state().budget.admission_metrics()
    }

    /// Takes down every read from now on; whoever records calls
    /// [`take_recorded`](Self::take_recorded) before the ring is full.
    pub fn start_recording(&self, recorder: Recorder) {
        self.state().budget.set_recorder(Some(recorder));
    }

    /// What was recorded since the last call and how many reads were lost; nothing when no trace is
    /// recorded. `empty` becomes the ring.
    pub fn take_recorded(&self, empty: Vec<Request>) -> (Vec<Request>, u64) {
        self.state().budget.take_recorded(empty)
    }

    /// Ends recording; what was not taken is gone.
    pub fn stop_recording(&self) {
        self.state().budget.set_recorder(None);
    }
}
