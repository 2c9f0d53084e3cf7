//! The stages of an eviction policy on one shard: shadow, canary, in charge, standing by.

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::charge::{Charge, Stage};
use super::{Eviction, STEP_SLOTS};
use crate::cache::{PolicyState, ShadowLimits, ShadowPurpose, ShadowStatus, SwapStep};
use crate::config::{CANARY_GHOSTS_MAX, POLICY_STANDBY_MS, SHADOW_SAMPLE_DEFAULT};
use crate::error::Result;
use crate::governance::origin::Origin;
use crate::governance::report::PolicyReport;
use crate::governance::world::Stages;
use crate::policy::{Backoff, PolicyFailure, TrialVerdict};
use crate::runtime;

impl Stages for Eviction {
    fn load(&self) -> LocalBoxFuture<'_, ()> {
        self.load_kept().boxed_local()
    }

    fn switch<'a>(&'a self, next: &'a Origin) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let _change = self.change.lock().await;
            let note = self.replace_policy(next, true).await?;
            self.take_charge(next, Stage::InCharge, note);
            Ok(())
        }
        .boxed_local()
    }

    fn roll_back<'a>(&'a self, previous: &'a Origin) -> LocalBoxFuture<'a, Result<bool>> {
        async move {
            let _change = self.change.lock().await;
            self.parts.cache.deliver();
            let before = self.share_in_charge();
            self.bring_back(previous, before).await
        }
        .boxed_local()
    }

    fn drop_standby(&self, name: Option<&str>) {
        let standby = self.parts.cache.policy_status().standby;
        if standby.is_some_and(|standby| name.is_none_or(|name| standby.name == name)) {
            self.parts.cache.drop_standby_policy();
            self.charge.borrow_mut().standby_until_ns = None;
        }
    }

    fn begin_shadow<'a>(
        &'a self,
        origin: &'a Origin,
        sample: Option<u32>,
    ) -> LocalBoxFuture<'a, Result<u32>> {
        async move {
            let _change = self.change.lock().await;
            let limits = self.parts.cache.shadow_limits(sample.unwrap_or(SHADOW_SAMPLE_DEFAULT));
            self.run_shadow(origin, ShadowPurpose::Candidate, limits).await?;
            Ok(limits.rate)
        }
        .boxed_local()
    }

    fn end_shadow(&self, name: Option<&str>) {
        let shadow = self.parts.cache.policy_status().shadow;
        if shadow.is_some_and(|shadow| name.is_none_or(|name| shadow.identity.name == name)) {
            self.parts.cache.end_shadow();
        }
    }

    fn begin_canary<'a>(
        &'a self,
        next: &'a Origin,
        previous: &'a Origin,
    ) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let _change = self.change.lock().await;
            let note = self.replace_policy(next, true).await?;
            self.take_charge(next, Stage::Canary, note);
            let rate = self.parts.cache.slots_max().div_ceil(CANARY_GHOSTS_MAX);
            self.run_shadow(previous, ShadowPurpose::Baseline, self.parts.cache.shadow_limits(rate))
                .await
        }
        .boxed_local()
    }

    fn canary_verdict(&self) -> Option<TrialVerdict> {
        if self.charge.borrow().stage != Stage::Canary {
            return None;
        }
        if self.parts.cache.policy_state() == PolicyState::Failed {
            let status = self.parts.cache.policy_status();
            let failure = status.failures.last().map(|record| record.failure.to_string());
            return Some(TrialVerdict::RollsBack {
                reason: failure.unwrap_or_else(|| "it failed".into()),
            });
        }
        Some(self.parts.cache.trial_verdict())
    }

    fn confirm_canary(&self) -> LocalBoxFuture<'_, ()> {
        async move {
            let _change = self.change.lock().await;
            self.parts.cache.end_shadow();
            let mut charge = self.charge.borrow_mut();
            if charge.stage == Stage::Canary {
                charge.stage = Stage::InCharge;
                charge.standby_until_ns = Some(self.standby_end_ns());
            }
        }
        .boxed_local()
    }

    fn end_canary<'a>(
        &'a self,
        failure: PolicyFailure,
        previous: &'a Origin,
    ) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let _change = self.change.lock().await;
            if self.charge.borrow().stage != Stage::Canary {
                // It did not begin here.
                return Ok(());
            }
            self.parts.cache.end_shadow();
            self.parts.cache.deliver();
            let before = self.share_in_charge();
            if self.parts.cache.policy_state() == PolicyState::Active {
                self.parts.cache.end_policy(failure);
            }
            let brought_back = self.bring_back(previous, before).await;
            if brought_back.is_err() {
                // The native CLOCK governs until a retry succeeds.
                self.take_charge(previous, Stage::InCharge, "cold, after a failure".into());
            }
            self.drop_standby(None);
            brought_back.map(drop)
        }
        .boxed_local()
    }
}

impl Eviction {
    async fn bring_back(&self, previous: &Origin, before: PolicyReport) -> Result<bool> {
        let stands_by = self.parts.cache.policy_status().standby == Some(previous.identity());
        let is_kept = stands_by && self.parts.cache.rollback_policy();
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
    pub(super) async fn replace_policy(&self, origin: &Origin, hand_over: bool) -> Result<String> {
        let mut policy = self.instantiate_for_cache(origin).await?;
        self.parts.cache.deliver();
        let mut note = String::from("cold, after a failure");
        if hand_over {
            note = self.hand_over(origin, &mut policy).await?;
        }
        let before = self.share_in_charge();
        self.parts
            .cache
            .begin_policy(policy, origin.identity())
            .map_err(|failure| origin.refused(failure.to_string()))?;
        loop {
            match self.parts.cache.step_policy_swap(STEP_SLOTS) {
                SwapStep::Working => runtime::maybe_yield().await,
                SwapStep::Switched => break,
                SwapStep::Failed | SwapStep::Idle => {
                    let status = self.parts.cache.policy_status();
                    let message = status
                        .failures
                        .last()
                        .map_or_else(|| "gave up".into(), |record| record.failure.to_string());
                    return Err(origin.refused(message));
                }
            }
        }
        self.retire(before);
        Ok(note)
    }

    fn take_charge(&self, origin: &Origin, stage: Stage, state_note: String) {
        let status = self.parts.cache.policy_status();
        let is_promoted = |shadow: &ShadowStatus| shadow.identity == origin.identity();
        if status.shadow.as_ref().is_some_and(is_promoted) {
            self.parts.cache.end_shadow();
        }
        *self.charge.borrow_mut() = Charge {
            origin: origin.clone(),
            stage,
            backoff: Backoff::default(),
            // A canary's predecessor stands by until the verdict.
            standby_until_ns: (stage == Stage::InCharge).then(|| self.standby_end_ns()),
            state_note,
        };
    }

    fn standby_end_ns(&self) -> u64 {
        self.parts.context.clock.monotonic_ns().saturating_add(POLICY_STANDBY_MS * 1_000_000)
    }

    async fn run_shadow(
        &self,
        origin: &Origin,
        purpose: ShadowPurpose,
        limits: ShadowLimits,
    ) -> Result<()> {
        let policy = self.instantiate(origin, limits.slots_max, limits.capacity_bytes).await?;
        self.parts
            .cache
            .begin_shadow(policy, origin.identity(), purpose, limits)
            .map_err(|failure| origin.refused(failure.to_string()))?;
        while self.parts.cache.step_shadow(STEP_SLOTS) {
            runtime::maybe_yield().await;
        }
        let status = self.parts.cache.policy_status();
        match status.shadow {
            Some(_) => Ok(()),
            None => {
                let message = status.failures.last().map(|record| record.failure.to_string());
                Err(origin.refused(message.unwrap_or_else(|| "it was ended".into())))
            }
        }
    }
}
