//! A canary: a policy that is active on some shards first, and later on all or none.
//!
//! On the shards of the canary, the previous policy runs as a shadow. The rule `policy::Trial`
//! compares windows of look-ups and decides whether the canary goes on. Invariant: the wishes name
//! the previous policy until the canary has reached all shards, so a restart forgets the canary.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::governance::{Governance, Inner};
use super::origin::{NATIVE, ended};
use super::shard::ShardPolicies;
use super::trials::Canary;
use crate::config::CANARY_SHARDS_ONE_IN;
use crate::error::{Error, Result};
use crate::policy::{FailureKind, PolicyFailure, TrialVerdict, WINDOWS_JUDGED};
use crate::runtime;

/// Time between two looks at the evidence.
const LOOK: Duration = Duration::from_millis(100);

impl Governance {
    /// Puts a policy in charge on one shard in eight, at least one, and compares it there with the
    /// policy before: a gain of half a point over ten windows lets it go on to all shards; five
    /// windows in a row that are worse by two points, a failure, or sixty windows without a gain
    /// roll it back. Returns the number of shards it begins on.
    ///
    /// Errors: `NotFound`; `Invalid` for the policy that is in charge; `Policy` when an instance
    /// fails: the policy before stays in charge.
    pub async fn canary(&self, name: &str) -> Result<u32> {
        if self.governing().as_deref().unwrap_or(NATIVE) == name {
            return Err(Error::invalid(format!("policy '{name}' is in charge already")));
        }
        let origin = self.origin(Some(name).filter(|name| *name != NATIVE)).await?;
        let previous = self.present().await?;
        let earlier = self.trials().canary.clone();
        if let Some(earlier) = earlier {
            let failure = ended(FailureKind::Operator, "another canary took its place");
            self.abandon_canary(&earlier, failure).await?;
        }
        self.end_shadow_unless(name).await?;
        let shard_count = self.inner.shards.count().div_ceil(CANARY_SHARDS_ONE_IN);
        let canary = Canary { name: name.to_owned(), origin, previous, shard_count };
        self.begin_canary(Arc::new(canary)).await?;
        Ok(shard_count)
    }

    /// A shadow of the canary itself has what it learnt to hand over; any other makes room for the
    /// policy before.
    async fn end_shadow_unless(&self, name: &str) -> Result<()> {
        let shadow = self.trials().shadow.clone();
        match shadow {
            Some(shadow) if shadow != name => self.end_shadow(Some(&shadow)).await,
            _ => Ok(()),
        }
    }

    async fn begin_canary(&self, canary: Arc<Canary>) -> Result<()> {
        let shards = &self.inner.shards;
        for shard in 0..canary.shard_count {
            let next = canary.clone();
            let begin = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
                async move { policies.stages().begin_canary(&next.origin, &next.previous).await }
                    .boxed_local()
            };
            if let Err(error) = shards.call(shard, "begin canary", begin).await.flatten() {
                let failure = ended(FailureKind::Operator, "the canary did not begin everywhere");
                // The shard that refused may have switched before its shadow failed.
                self.end_canary(&canary, shard + 1, &failure).await?;
                return Err(error);
            }
        }
        self.end_shadow_elsewhere(&canary).await?;
        self.trials().canary = Some(canary.clone());
        let inner = Arc::downgrade(&self.inner);
        let watch = move |policies: Rc<ShardPolicies>| {
            let context = policies.parts.context.clone();
            let watch = async move {
                loop {
                    context.sleep(LOOK).await;
                    if look(&inner, &canary).await {
                        return;
                    }
                }
            };
            async move { runtime::spawn_local("canary", watch) }.boxed_local()
        };
        shards.call(0, "watch canary", watch).await
    }

    /// On the other shards the canary's own shadow has no more use.
    async fn end_shadow_elsewhere(&self, canary: &Canary) -> Result<()> {
        let shards = &self.inner.shards;
        for shard in canary.shard_count..shards.count() {
            let end = |policies: Rc<ShardPolicies>| {
                async move { policies.stages().end_shadow(None) }.boxed_local()
            };
            shards.call(shard, "end shadow", end).await?;
        }
        self.trials().shadow = None;
        Ok(())
    }

    /// What the shards of the canary say together.
    async fn canary_verdict(&self, canary: &Canary) -> Result<TrialVerdict> {
        let mut gains = Vec::new();
        for shard in 0..canary.shard_count {
            let ask = |policies: Rc<ShardPolicies>| {
                async move { policies.stages().canary_verdict() }.boxed_local()
            };
            match self.inner.shards.call(shard, "canary verdict", ask).await? {
                Some(TrialVerdict::GoesOn { gain }) => gains.push(gain),
                Some(TrialVerdict::RollsBack { reason }) => {
                    return Ok(TrialVerdict::RollsBack { reason });
                }
                Some(TrialVerdict::Waits) | None => {}
            }
        }
        if gains.len() < canary.shard_count as usize {
            return Ok(TrialVerdict::Waits);
        }
        Ok(TrialVerdict::GoesOn { gain: gains.iter().sum::<f64>() / gains.len() as f64 })
    }

    fn is_on_trial(&self, canary: &Arc<Canary>) -> bool {
        self.trials().canary.as_ref().is_some_and(|current| Arc::ptr_eq(current, canary))
    }

    /// Does what the verdict says, as a change like any other.
    async fn conclude_canary(&self, canary: Arc<Canary>, verdict: TrialVerdict) -> Result<()> {
        let governance = self.clone();
        let change = async move { governance.follow_verdict(&canary, verdict).await };
        self.inner.keeper.uninterrupted(change.boxed()).await
    }

    async fn follow_verdict(&self, canary: &Arc<Canary>, verdict: TrialVerdict) -> Result<()> {
        // A statement may have come first.
        if !self.is_on_trial(canary) {
            return Ok(());
        }
        let policy = &canary.name;
        match verdict {
            TrialVerdict::Waits => Ok(()),
            TrialVerdict::GoesOn { gain } => {
                let why = format!("a gain of {gain:.2} points over {WINDOWS_JUDGED} windows");
                let completed = self.complete_canary(canary, &why).await;
                match &completed {
                    // As grave as going back: another policy governs, and nobody said so now.
                    Ok(()) => tracing::warn!(policy, why, "the canary took over on all shards"),
                    Err(error) => {
                        tracing::warn!(policy, %error, "the canary could not take over");
                        let failure = ended(FailureKind::Canary, error.to_string());
                        self.abandon_canary(canary, failure).await?;
                    }
                }
                completed
            }
            TrialVerdict::RollsBack { reason } => {
                tracing::warn!(policy, reason, "the canary was rolled back");
                self.abandon_canary(canary, ended(FailureKind::Canary, reason)).await
            }
        }
    }

    /// Puts the canary in charge on all shards; `why` is for people.
    pub(super) async fn complete_canary(&self, canary: &Canary, why: &str) -> Result<()> {
        let (first, previous) = (canary.shard_count, &canary.previous);
        self.switch(&canary.origin, first, previous).await?;
        let name = Some(canary.name.as_str()).filter(|name| *name != NATIVE);
        self.follows_or_goes_back(name, first, previous).await?;
        let confirm = |policies: Rc<ShardPolicies>| {
            async move { policies.stages().confirm_canary().await }.boxed_local()
        };
        self.inner.shards.first(canary.shard_count, "confirm canary", confirm).await?;
        self.end_trial(canary, format!("took over: {why}"));
        Ok(())
    }

    /// Ends the canary: the policy before is in charge everywhere.
    pub(super) async fn abandon_canary(
        &self,
        canary: &Canary,
        failure: PolicyFailure,
    ) -> Result<()> {
        self.end_trial(canary, format!("went back: {failure}"));
        self.end_canary(canary, canary.shard_count, &failure).await
    }

    fn end_trial(&self, canary: &Canary, came_to: String) {
        let mut trials = self.trials();
        trials.canary = None;
        trials.ended.insert(canary.name.clone(), came_to);
    }

    async fn end_canary(
        &self,
        canary: &Canary,
        shards: u32,
        failure: &PolicyFailure,
    ) -> Result<()> {
        let mut result = Ok(());
        for shard in 0..shards {
            let (failure, previous) = (failure.clone(), canary.previous.clone());
            let end = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
                async move { policies.stages().end_canary(failure, &previous).await }.boxed_local()
            };
            let ended = self.inner.shards.call(shard, "end canary", end).await.flatten();
            // Every shard is brought back; the first error is returned.
            result = result.and(ended);
        }
        result
    }
}

/// One look at the evidence; true when there is nothing more to look at.
async fn look(inner: &Weak<Inner>, canary: &Arc<Canary>) -> bool {
    let Some(inner) = inner.upgrade() else { return true };
    let governance = Governance { inner };
    if !governance.is_on_trial(canary) {
        return true;
    }
    let concluded = match governance.canary_verdict(canary).await {
        Ok(TrialVerdict::Waits) => return false,
        Ok(verdict) => governance.conclude_canary(canary.clone(), verdict).await,
        Err(error) => Err(error),
    };
    match concluded {
        Ok(()) => true,
        Err(Error::Closed) => true,
        Err(error) => {
            tracing::error!(policy = canary.name, %error, "canary not concluded");
            !governance.is_on_trial(canary)
        }
    }
}
