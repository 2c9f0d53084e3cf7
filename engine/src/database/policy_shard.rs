//! The policies of one shard: made, put in charge, watched, tried again after a failure.
//!
//! Invariant: a shard changes its policy for one reason at a time, a statement or a retry, and
//! whatever becomes of a policy, its cache has one in charge or the native CLOCK. Not here: what
//! all shards do together (`policies.rs`, `policy_change.rs`, `canary.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use super::policies::Origin;
use super::report::{PolicyExit, PolicyReport, ShadowReport};
use super::shard::Shard;
use crate::cache::{
    ExitRecord, PolicyState, PolicyStatus, ShadowLimits, ShadowPurpose, ShadowStatus, SwapStep,
};
use crate::config::{
    CANARY_GHOSTS_MAX, POLICY_RING_EVENTS_MAX, POLICY_STANDBY_MS, SHADOW_SAMPLE_DEFAULT,
};
use crate::disk::{read_file, write_file_atomically};
use crate::error::{Error, Result};
use crate::plugin::{Budget, InstanceOptions, WasmEvictionPolicy};
use crate::policy::{
    AfterFailure, Backoff, EvictionPolicy, FailureKind, Lru, PolicyFailure, PolicySnapshot,
    SNAPSHOT_FILE_BYTES_MAX, TrialVerdict,
};
use crate::runtime;

/// Residents that a candidate or a shadow is shown between two looks at the task's quota.
const STEP_SLOTS: u32 = POLICY_RING_EVENTS_MAX as u32;

/// How the policy that is wanted in charge fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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

/// The policy that is wanted in charge.
struct Charge {
    origin: Origin,
    stage: Stage,
    backoff: Backoff,
    /// When the policy before is dropped.
    standby_until_ns: Option<u64>,
    /// Where its state came from.
    state_note: String,
}

/// What a shard keeps of its policies beside what its cache knows.
pub(super) struct ShardPolicies {
    /// Held while the policy changes.
    change: tokio::sync::Mutex<()>,
    charge: RefCell<Charge>,
    /// What policies did that governed the cache earlier.
    retired: RefCell<Vec<PolicyReport>>,
    /// What the policy of the last run left, until one takes charge in this; or why it is no good.
    kept: RefCell<Option<std::result::Result<PolicySnapshot, String>>>,
}

impl Default for ShardPolicies {
    /// The native policy is in charge.
    fn default() -> Self {
        let charge = Charge {
            origin: Origin::Native,
            stage: Stage::InCharge,
            backoff: Backoff::default(),
            standby_until_ns: None,
            state_note: String::new(),
        };
        ShardPolicies {
            change: tokio::sync::Mutex::default(),
            charge: RefCell::new(charge),
            retired: RefCell::default(),
            kept: RefCell::default(),
        }
    }
}

impl Shard {
    /// A new instance for a cache, or a ghost directory, of these limits. One of a component is
    /// made on another thread: its memory for a million slots takes milliseconds to fill.
    async fn instantiate(
        &self,
        origin: &Origin,
        max_slots: u32,
        capacity_bytes: u64,
    ) -> Result<Box<dyn EvictionPolicy>> {
        match origin {
            Origin::Native => Ok(Box::new(Lru::default())),
            Origin::Component { compiled, info } => {
                let options = InstanceOptions {
                    params: info.params.clone(),
                    max_slots,
                    capacity_bytes,
                    shard: self.context.shard,
                    seed: self.context.random.borrow_mut().next_u64(),
                    budget: Budget::default(),
                    clock: Some(self.context.clock.clone()),
                };
                let compiled = compiled.clone();
                let make = move || WasmEvictionPolicy::new(compiled, options);
                let policy = runtime::aside("maker of a policy's instance", make).await?;
                Ok(Box::new(policy.map_err(|failure| refused(origin, &failure.to_string()))?))
            }
        }
    }

    /// An instance as the cache would have it.
    pub(super) async fn instantiate_for_cache(
        &self,
        origin: &Origin,
    ) -> Result<Box<dyn EvictionPolicy>> {
        self.instantiate(origin, self.cache.slots_max(), self.cache.stats().capacity_bytes).await
    }

    /// Puts the native policy in charge of a new cache.
    pub(super) fn start_native_policy(&self) {
        let policy = Box::new(Lru::default());
        self.cache
            .begin_policy(policy, Origin::Native.identity())
            .expect("the native policy has no way to fail");
        while self.cache.step_policy_swap(STEP_SLOTS) == SwapStep::Working {}
        self.cache.drop_standby_policy();
    }

    /// Puts a policy in charge; the one before stands by for a while.
    ///
    /// Errors: `Policy` when the instance fails; the policy before stays in charge.
    pub(super) async fn switch_policy(&self, origin: &Origin) -> Result<()> {
        let _change = self.policies.change.lock().await;
        let note = self.replace_policy(origin, true).await?;
        self.take_charge(origin, Stage::InCharge, note);
        Ok(())
    }

    /// Puts a policy in charge for a trial, the one before as a shadow to compare it with.
    ///
    /// Errors: as `switch_policy`.
    pub(super) async fn begin_canary(&self, origin: &Origin, previous: &Origin) -> Result<()> {
        let _change = self.policies.change.lock().await;
        let note = self.replace_policy(origin, true).await?;
        self.take_charge(origin, Stage::Canary, note);
        let rate = self.cache.slots_max().div_ceil(CANARY_GHOSTS_MAX);
        self.run_shadow(previous, ShadowPurpose::Baseline, self.cache.shadow_limits(rate)).await
    }

    /// What is known of the canary's worth here; `None` when there is none.
    pub(super) fn canary_verdict(&self) -> Option<TrialVerdict> {
        if self.policies.charge.borrow().stage != Stage::Canary {
            return None;
        }
        if self.cache.policy_state() == PolicyState::Failed {
            let status = self.cache.policy_status();
            let failure = status.failures.last().map(|record| record.failure.to_string());
            return Some(TrialVerdict::RollsBack {
                reason: failure.unwrap_or_else(|| "it failed".into()),
            });
        }
        Some(self.cache.trial_verdict())
    }

    /// The canary is in charge for good.
    pub(super) async fn confirm_canary(&self) {
        let _change = self.policies.change.lock().await;
        self.cache.end_shadow();
        let mut charge = self.policies.charge.borrow_mut();
        if charge.stage == Stage::Canary {
            charge.stage = Stage::InCharge;
            charge.standby_until_ns = Some(self.standby_end_ns());
        }
    }

    /// Ends a trial: the policy before is in charge again.
    ///
    /// Errors: `Policy` when it has to be made anew and fails.
    pub(super) async fn end_canary(&self, failure: PolicyFailure, previous: &Origin) -> Result<()> {
        let _change = self.policies.change.lock().await;
        if self.policies.charge.borrow().stage != Stage::Canary {
            // It did not begin here.
            return Ok(());
        }
        self.cache.end_shadow();
        self.cache.deliver();
        let before = self.share_in_charge();
        if self.cache.policy_state() == PolicyState::Active {
            self.cache.end_policy(failure);
        }
        let brought_back = self.bring_back(previous, before).await;
        if brought_back.is_err() {
            // The native CLOCK governs until a retry succeeds.
            self.take_charge(previous, Stage::InCharge, "cold, after a failure".into());
        }
        self.drop_standby(None);
        brought_back.map(drop)
    }

    /// Brings the policy before back: the instance that stood by, in one exchange at a batch
    /// boundary, else a new one. True when it was the former.
    ///
    /// Errors: `Policy` when a new one fails; the present one stays in charge.
    pub(super) async fn roll_back_policy(&self, previous: &Origin) -> Result<bool> {
        let _change = self.policies.change.lock().await;
        self.cache.deliver();
        let before = self.share_in_charge();
        self.bring_back(previous, before).await
    }

    async fn bring_back(&self, previous: &Origin, before: PolicyReport) -> Result<bool> {
        let stands_by = self.cache.policy_status().standby == Some(previous.identity());
        let is_kept = stands_by && self.cache.rollback_policy();
        let note = match is_kept {
            true => {
                self.retire(before);
                "the instance that stood by".into()
            }
            false => self.replace_policy(previous, true).await?,
        };
        self.take_charge(previous, Stage::InCharge, note);
        Ok(is_kept)
    }

    /// Makes an instance, hands the state over, shows it the residents and switches to it. Returns
    /// where its state came from.
    async fn replace_policy(&self, origin: &Origin, hand_over: bool) -> Result<String> {
        let mut policy = self.instantiate_for_cache(origin).await?;
        self.cache.deliver();
        let mut note = String::from("cold, after a failure");
        if hand_over {
            note = self.hand_over(origin, &mut policy).await?;
        }
        let before = self.share_in_charge();
        self.cache
            .begin_policy(policy, origin.identity())
            .map_err(|failure| refused(origin, &failure.to_string()))?;
        loop {
            match self.cache.step_policy_swap(STEP_SLOTS) {
                SwapStep::Working => runtime::maybe_yield().await,
                SwapStep::Switched => break,
                SwapStep::Failed | SwapStep::Idle => {
                    let status = self.cache.policy_status();
                    let message = status
                        .failures
                        .last()
                        .map_or_else(|| "gave up".into(), |record| record.failure.to_string());
                    return Err(refused(origin, &message));
                }
            }
        }
        self.retire(before);
        Ok(note)
    }

    /// Hands over what a policy of the same name and schema learnt: its own shadow, the one in
    /// charge, or that of the last run. A state that is refused means a cold start, never an error.
    async fn hand_over(
        &self,
        origin: &Origin,
        policy: &mut Box<dyn EvictionPolicy>,
    ) -> Result<String> {
        let (kept, bad) = match self.policies.kept.borrow_mut().take() {
            Some(Ok(kept)) => (Some(kept), None),
            Some(Err(reason)) => (None, Some(reason)),
            None => (None, None),
        };
        let schema = policy.state_schema();
        if schema == 0 {
            return Ok("none, it keeps no state".into());
        }
        let fits = |snapshot: &PolicySnapshot| snapshot.fits(policy.name(), schema);
        let shadow = self.cache.policy_status().shadow;
        let is_promoted = shadow.is_some_and(|shadow| shadow.identity == origin.identity());
        let of_shadow = || is_promoted.then(|| self.cache.snapshot_shadow()).flatten();
        let found = kept
            .filter(fits)
            .map(|kept| (kept, "the last run"))
            .or_else(|| of_shadow().filter(fits).map(|found| (found, "its shadow")))
            .or_else(|| {
                let found = self.cache.snapshot_policy().filter(fits);
                found.map(|found| (found, "the policy before"))
            });
        let Some((snapshot, source)) = found else {
            return Ok(match bad {
                Some(reason) => format!("cold, the file of the last run was no good: {reason}"),
                None => "cold, there was none of its name and schema".into(),
            });
        };
        let bytes = snapshot.state.len();
        let refusal = match policy.restore(schema, &snapshot.state) {
            Ok(Ok(())) => return Ok(format!("{bytes} bytes of {source}")),
            Ok(Err(reason)) => reason,
            Err(failure) => failure.to_string(),
        };
        // Whatever it took in is gone with the instance.
        *policy = self.instantiate_for_cache(origin).await?;
        let (shard, policy) = (self.context.shard, origin.identity().name);
        tracing::warn!(shard, policy, reason = refusal, "state of {source} refused: a cold start");
        Ok(format!("cold, {bytes} bytes of {source} were refused: {refusal}"))
    }

    fn standby_end_ns(&self) -> u64 {
        self.context.clock.monotonic_ns().saturating_add(POLICY_STANDBY_MS * 1_000_000)
    }

    fn take_charge(&self, origin: &Origin, stage: Stage, state_note: String) {
        let status = self.cache.policy_status();
        let is_promoted = |shadow: &ShadowStatus| shadow.identity == origin.identity();
        if status.shadow.as_ref().is_some_and(is_promoted) {
            self.cache.end_shadow();
        }
        *self.policies.charge.borrow_mut() = Charge {
            origin: origin.clone(),
            stage,
            backoff: Backoff::default(),
            // A canary's predecessor stands by until the verdict.
            standby_until_ns: (stage == Stage::InCharge).then(|| self.standby_end_ns()),
            state_note,
        };
    }

    /// Ends the possibility of an exchange: of any policy, or of the one of this name.
    pub(super) fn drop_standby(&self, name: Option<&str>) {
        let standby = self.cache.policy_status().standby;
        if standby.is_some_and(|standby| name.is_none_or(|name| standby.name == name)) {
            self.cache.drop_standby_policy();
            self.policies.charge.borrow_mut().standby_until_ns = None;
        }
    }

    /// Runs a policy as a shadow. Returns the rate at which it sees keys.
    ///
    /// Errors: `Policy` when it fails at once or while it is shown the residents.
    pub(super) async fn begin_shadow(&self, origin: &Origin, sample: Option<u32>) -> Result<u32> {
        let _change = self.policies.change.lock().await;
        let limits = self.cache.shadow_limits(sample.unwrap_or(SHADOW_SAMPLE_DEFAULT));
        self.run_shadow(origin, ShadowPurpose::Candidate, limits).await?;
        Ok(limits.rate)
    }

    async fn run_shadow(
        &self,
        origin: &Origin,
        purpose: ShadowPurpose,
        limits: ShadowLimits,
    ) -> Result<()> {
        let policy = self.instantiate(origin, limits.slots_max, limits.capacity_bytes).await?;
        self.cache
            .begin_shadow(policy, origin.identity(), purpose, limits)
            .map_err(|failure| refused(origin, &failure.to_string()))?;
        while self.cache.step_shadow(STEP_SLOTS) {
            runtime::maybe_yield().await;
        }
        let status = self.cache.policy_status();
        match status.shadow {
            Some(_) => Ok(()),
            None => {
                let message = status.failures.last().map(|record| record.failure.to_string());
                Err(refused(origin, &message.unwrap_or_else(|| "it was ended".into())))
            }
        }
    }

    /// Ends the shadow, whichever it is, or the one of this name.
    pub(super) fn end_shadow(&self, name: Option<&str>) {
        let shadow = self.cache.policy_status().shadow;
        if shadow.is_some_and(|shadow| name.is_none_or(|name| shadow.identity.name == name)) {
            self.cache.end_shadow();
        }
    }

    /// Looks after the policy in charge: one that failed is tried again after a pause, the one that
    /// stands by goes when its time is over. Called at every tick.
    pub(super) fn watch_policies(self: &Rc<Self>) {
        let now = self.context.clock.monotonic_ns();
        let Ok(_unchanged) = self.policies.change.try_lock() else { return };
        let mut charge = self.policies.charge.borrow_mut();
        if charge.standby_until_ns.is_some_and(|end| now >= end) {
            charge.standby_until_ns = None;
            self.cache.drop_standby_policy();
        }
        if self.cache.policy_state() != PolicyState::Failed {
            return;
        }
        match charge.stage {
            Stage::InCharge => self.suspend(&mut charge, now),
            Stage::Suspended { retry_at_ns } if now >= retry_at_ns => {
                charge.stage = Stage::Retrying;
                let shard = self.clone();
                runtime::spawn_local("retry policy", async move { shard.retry_policy().await });
            }
            _ => {}
        }
    }

    fn suspend(&self, charge: &mut Charge, now: u64) {
        let (shard, policy) = (self.context.shard, charge.origin.identity().name);
        let records = self.cache.policy_status().failures;
        let of_it = records.iter().rev().find(|record| record.identity.name == policy);
        let reason = of_it.map_or_else(|| "unknown".into(), |record| record.failure.to_string());
        charge.stage = match charge.backoff.fail(now) {
            AfterFailure::RetryAt { ns } => {
                let pause_ms = (ns - now) / 1_000_000;
                tracing::warn!(
                    shard,
                    policy,
                    pause_ms,
                    reason,
                    "policy suspended; native CLOCK governs"
                );
                Stage::Suspended { retry_at_ns: ns }
            }
            AfterFailure::Ejected => {
                let failures = charge.backoff.failures();
                tracing::error!(
                    shard,
                    policy,
                    failures,
                    reason,
                    "policy ejected; native CLOCK governs"
                );
                Stage::Ejected
            }
        };
    }

    async fn retry_policy(&self) {
        let _change = self.policies.change.lock().await;
        // A statement may have come first.
        if self.policies.charge.borrow().stage != Stage::Retrying {
            return;
        }
        let origin = self.policies.charge.borrow().origin.clone();
        // Its state may be what it failed of.
        let retried = self.replace_policy(&origin, false).await;
        let mut charge = self.policies.charge.borrow_mut();
        match retried {
            Ok(note) => {
                (charge.stage, charge.state_note) = (Stage::InCharge, note);
                // What stands by is the CLOCK, which needs no events.
                self.cache.drop_standby_policy();
            }
            Err(error) => {
                let (shard, policy) = (self.context.shard, origin.identity().name);
                tracing::warn!(shard, policy, %error, "policy failed when it was tried again");
                self.suspend(&mut charge, self.context.clock.monotonic_ns());
            }
        }
    }

    /// Takes up what the policy of the last run left, if the file is good. It is used once.
    pub(super) async fn load_policy_state(&self) {
        let (shard, count) = (self.context.shard, self.context.shard_count);
        let path = self.options.layout.policy_state(shard, count);
        let read = match self.context.disk.list(&self.options.layout.policies()).await {
            Ok(entries) => {
                let name = path.file_name().and_then(|name| name.to_str());
                let is_there = entries.iter().any(|entry| Some(entry.name.as_str()) == name);
                if !is_there {
                    return;
                }
                read_file(&*self.context.disk, &path).await
            }
            Err(error) => Err(error),
        };
        let kept = match read {
            Ok(file) => PolicySnapshot::decode(&file),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = &kept {
            let path = path.display();
            tracing::warn!(shard, %path, reason, "a policy's state is no good: a cold start");
        }
        *self.policies.kept.borrow_mut() = Some(kept);
        if let Err(error) = self.context.disk.remove(&path).await {
            tracing::warn!(shard, %error, "a policy's state was used and stays on disk");
        }
    }

    /// Leaves what the policy in charge learnt for the next run. A failure costs a cold start.
    pub(super) async fn store_policy_state(&self) {
        let Some(snapshot) = self.cache.snapshot_policy() else { return };
        let (shard, count) = (self.context.shard, self.context.shard_count);
        let path = self.options.layout.policy_state(shard, count);
        let file = snapshot.encode();
        if file.len() > SNAPSHOT_FILE_BYTES_MAX {
            tracing::warn!(shard, bytes = file.len(), "a policy's state is too large to keep");
            return;
        }
        if let Err(error) = write_file_atomically(&*self.context.disk, &path, &file).await {
            tracing::warn!(shard, %error, "a policy's state was not kept");
        }
    }

    fn retire(&self, mut share: PolicyReport) {
        share.state = "loaded".into();
        let mut retired = self.policies.retired.borrow_mut();
        match retired.iter_mut().find(|other| other.name == share.name) {
            Some(other) => other.add(&share),
            None => retired.push(share),
        }
    }

    fn share_in_charge(&self) -> PolicyReport {
        let status = self.cache.policy_status();
        let charge = self.policies.charge.borrow();
        let mut share = share_of(&status);
        share.state = match (status.state, charge.stage) {
            // One that failed is about to be rolled back.
            (_, Stage::Canary) => "canary",
            (PolicyState::Active | PolicyState::Native, _) => "active",
            (PolicyState::Failed, Stage::Ejected) => "ejected",
            (PolicyState::Failed, _) => "suspended",
        }
        .into();
        share.state_note = charge.state_note.clone();
        share.trial = status.shadow.and_then(|shadow| shadow.trial);
        share
    }

    /// What each policy did on this shard: those of the past, the one in charge, the one that
    /// stands by, the shadow.
    pub(super) fn policy_shares(&self) -> Vec<PolicyReport> {
        self.cache.deliver();
        let status = self.cache.policy_status();
        let mut shares = self.policies.retired.borrow().clone();
        shares.push(self.share_in_charge());
        let named = |name: &str, state: &str| PolicyReport {
            name: name.into(),
            state: state.into(),
            shards: 1,
            ..PolicyReport::default()
        };
        if let Some(standby) = &status.standby {
            shares.push(named(&standby.name, "standby"));
        }
        if let Some(shadow) = status.shadow
            && shadow.purpose == ShadowPurpose::Candidate
        {
            let mut share = named(&shadow.identity.name, "shadow");
            share.count(shadow.counters);
            share.shadow = Some(ShadowReport {
                rate: shadow.rate,
                entries: u64::from(shadow.entries),
                sampled_lookups: shadow.sampled_lookups,
                estimate: shadow.estimate,
                active: shadow.active,
            });
            shares.push(share);
        }
        for record in &status.failures {
            let mut share = named(&record.identity.name, "loaded");
            (share.shards, share.last_failure) = (0, Some(record.failure.to_string()));
            shares.push(share);
        }
        shares.extend(self.scalar_shares());
        shares
    }

    /// The own figures of the policy of this name, in charge or as a shadow.
    pub(super) fn policy_metrics(&self, name: &str) -> Vec<(String, f64)> {
        let status = self.cache.policy_status();
        if status.state == PolicyState::Active && status.identity.name == name {
            return self.cache.policy_metrics();
        }
        match status.shadow {
            Some(shadow) if shadow.identity.name == name => self.cache.shadow_metrics(),
            _ => Vec::new(),
        }
    }

    /// Policies that left this shard by a failure, oldest first, a bounded number.
    pub(super) fn policy_exits(&self) -> Vec<PolicyExit> {
        let clock = &self.context.clock;
        let (wall_us, now_ns) = (clock.wall_us(), clock.monotonic_ns());
        let exit = |record: ExitRecord| {
            let ago_us = now_ns.saturating_sub(record.at_ns) / 1000;
            PolicyExit {
                policy: record.identity.name,
                version: record.identity.version,
                digest: record.identity.digest,
                shard: self.context.shard,
                at_us: wall_us.saturating_sub_unsigned(ago_us),
                role: record.role.as_str(),
                kind: record.failure.kind.as_str(),
                message: record.failure.message,
                backtrace: record.failure.backtrace,
                calls: record.counters.calls,
                events: record.counters.events,
                victims: record.counters.victims,
                invalid_victims: record.counters.invalid_victims,
                shortfalls: record.counters.shortfalls,
                last_events: record.events,
            }
        };
        self.cache.policy_status().failures.into_iter().map(exit).collect()
    }
}

pub(super) fn refused(origin: &Origin, message: &str) -> Error {
    Error::Policy { name: origin.identity().name, message: message.into() }
}

/// The record of an end that a person or a rule decided.
pub(super) fn ended(kind: FailureKind, message: impl Into<String>) -> PolicyFailure {
    PolicyFailure { kind, message: message.into(), backtrace: Vec::new() }
}

/// A governor's view of the policy in charge as a report.
fn share_of(status: &PolicyStatus) -> PolicyReport {
    let failed = status.failures.iter().rev().find(|record| record.identity == status.identity);
    let counters = match (status.state, failed) {
        (PolicyState::Failed, Some(record)) => record.counters,
        _ => status.counters,
    };
    let mut share = PolicyReport {
        name: status.identity.name.clone(),
        version: status.identity.version.clone(),
        digest: status.identity.digest.clone(),
        world: "eviction".into(),
        shards: 1,
        lookups: status.tally,
        evictions: status.evictions,
        ..PolicyReport::default()
    };
    share.count(counters);
    share
}
