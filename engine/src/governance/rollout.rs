//! Changes the policy of all shards: activation, rollback, shadow, restoration.
//!
//! Invariant: if one shard refuses a change, the earlier shards undo it, and if the wishes cannot
//! be stored all shards do, so all shards follow the wishes. A canary is the one exception
//! (`canary.rs`). Not here: the work of one shard (`eviction/`, `direct.rs`).

use std::ops::Range;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::governance::Governance;
use super::origin::{NATIVE, Origin, ended};
use super::shard::ShardPolicies;
use super::worlds::{Served, WORLDS};
use crate::error::{Error, Result};
use crate::plugin;
use crate::policy::FailureKind;

/// What a rollback brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Name of the policy that is in charge again.
    pub policy: String,
    /// Whether the instances of before were kept up to date on every shard, so that it took one
    /// exchange each; else new ones were shown the residents.
    pub was_kept: bool,
}

impl Governance {
    /// Activates a policy of a world on all shards; `None` is the engine's own. In a world with
    /// stages, the new policy takes over the state of the previous one or of its own shadow. A
    /// canary of the same policy spreads to all shards, and another one ends.
    ///
    /// Errors: `NotFound`; `Policy` when it is of another world or an instance fails: the policy
    /// before stays in charge.
    pub async fn put_in_charge(&self, world: plugin::World, name: Option<&str>) -> Result<()> {
        let served = Served::find(world);
        let name = name.filter(|name| !served.is_native(name));
        if served.in_stages {
            return self.promote(name).await;
        }
        self.exchange(world, name).await?;
        let mut wishes = self.inner.keeper.wishes();
        let before = wishes.wanted(world).map(str::to_owned);
        wishes.want(world, name);
        let Err(error) = self.inner.keeper.keep(wishes).await else { return Ok(()) };
        if let Err(error) = self.exchange(world, before.as_deref()).await {
            tracing::warn!(%world, %error, "shards keep a policy that was not stored");
        }
        Err(error)
    }

    /// Exchanges a policy directly: every shard makes its instance before any of them decides.
    async fn exchange(&self, world: plugin::World, name: Option<&str>) -> Result<()> {
        let origin = self.origin(name).await?;
        if name.is_some() && origin.world() != world {
            let message = format!("it decides on {}, not on {world}", origin.world());
            return Err(origin.refused(message));
        }
        let shards = &self.inner.shards;
        for shard in 0..shards.count() {
            let origin = origin.clone();
            let prepare = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
                async move { policies.at_once(world).prepare(&origin).await }.boxed_local()
            };
            shards.call(shard, "prepare policy", prepare).await??;
        }
        let commit = move |policies: Rc<ShardPolicies>| {
            async move { policies.at_once(world).commit() }.boxed_local()
        };
        shards.each("switch policy", commit).await.map(drop)
    }

    async fn promote(&self, name: Option<&str>) -> Result<()> {
        let canary = self.trials().canary.clone();
        if let Some(canary) = canary {
            if Some(canary.name.as_str()) == name {
                return self.complete_canary(&canary, "by statement").await;
            }
            let failure = ended(FailureKind::Operator, "another policy was put in charge");
            self.abandon_canary(&canary, failure).await?;
        }
        let origin = self.origin(name).await?;
        let before = self.present().await?;
        self.switch(&origin, 0, &before).await?;
        self.follows_or_goes_back(name, 0, &before).await
    }

    /// Name of the policy that the wishes name and that could be restored; `None` is the native
    /// one.
    pub(super) fn governing(&self) -> Option<String> {
        let wishes = self.inner.keeper.wishes();
        let name = wishes.wanted(Served::staged().world)?.to_owned();
        self.inner.components.why_unavailable(&name).is_none().then_some(name)
    }

    /// The policy in charge, to bring it back if the next one is refused.
    pub(super) async fn present(&self) -> Result<Origin> {
        self.origin(self.governing().as_deref()).await
    }

    /// Records what the shards from number `first` on have changed to. Where that cannot be stored
    /// they go back to `before`.
    ///
    /// Errors: those of storing the wishes.
    pub(super) async fn follows_or_goes_back(
        &self,
        name: Option<&str>,
        first: u32,
        before: &Origin,
    ) -> Result<()> {
        let Err(error) = self.follows(name).await else { return Ok(()) };
        self.undo(first..self.inner.shards.count(), before).await;
        Err(error)
    }

    /// Records the active and the previous policy in the wishes.
    async fn follows(&self, name: Option<&str>) -> Result<()> {
        let mut wishes = self.inner.keeper.wishes();
        let before = self.governing();
        if before.as_deref() != name {
            wishes.previous = Some(before.unwrap_or_else(|| NATIVE.into()));
        }
        wishes.want(Served::staged().world, name);
        self.inner.keeper.keep(wishes).await?;
        if let Some(name) = name {
            self.inner.components.mark_available(name);
        }
        if self.trials().shadow.as_deref() == name {
            self.trials().shadow = None;
        }
        Ok(())
    }

    /// Switches the shards from number `first` on; a refusal brings `before` back on those before
    /// it.
    pub(super) async fn switch(&self, origin: &Origin, first: u32, before: &Origin) -> Result<()> {
        let shards = &self.inner.shards;
        for shard in first..shards.count() {
            let next = origin.clone();
            let switch = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
                async move { policies.stages().switch(&next).await }.boxed_local()
            };
            let switched = shards.call(shard, "switch policy", switch).await.flatten();
            if let Err(error) = switched {
                self.undo(first..shard, before).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Brings a policy back on shards that made a change which is refused. The caller tells why it
    /// is; a shard that cannot go back is told of in the log.
    async fn undo(&self, shards: Range<u32>, before: &Origin) {
        for shard in shards {
            if let Err(error) = self.bring_back(shard..shard + 1, before).await {
                tracing::warn!(shard, %error, "the policy before could not be brought back");
            }
        }
    }

    /// Undoes a change on the shards that made it. Returns whether their instances had been kept.
    async fn bring_back(&self, shards: Range<u32>, policy: &Origin) -> Result<bool> {
        let mut was_kept = true;
        for shard in shards {
            let policy = policy.clone();
            let roll_back = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
                async move { policies.stages().roll_back(&policy).await }.boxed_local()
            };
            was_kept &= self.inner.shards.call(shard, "roll back policy", roll_back).await??;
        }
        Ok(was_kept)
    }

    /// Brings back the policy that was in charge before the last change; a canary ends. Within a
    /// minute of the change its instances are still there and up to date: then it is one exchange
    /// at a batch boundary. A second rollback goes forward again.
    ///
    /// Errors: `Invalid` when there was none before; `Policy` when a new instance fails: the
    /// present policy stays in charge.
    pub async fn roll_back(&self) -> Result<RolledBack> {
        let canary = self.trials().canary.clone();
        if let Some(canary) = canary {
            let failure = ended(FailureKind::Operator, "rolled back by statement");
            self.abandon_canary(&canary, failure).await?;
            let policy = self.governing().unwrap_or_else(|| NATIVE.into());
            return Ok(RolledBack { policy, was_kept: true });
        }
        let Some(policy) = self.inner.keeper.wishes().previous else {
            return Err(Error::invalid("no policy was in charge before: nothing to roll back"));
        };
        let name = Some(policy.as_str()).filter(|name| *name != NATIVE);
        let previous = self.origin(name).await?;
        let present = self.present().await?;
        let was_kept = self.roll_back_to(&previous, &present).await?;
        self.follows_or_goes_back(name, 0, &present).await?;
        Ok(RolledBack { policy, was_kept })
    }

    async fn roll_back_to(&self, previous: &Origin, present: &Origin) -> Result<bool> {
        let mut was_kept = true;
        for shard in 0..self.inner.shards.count() {
            match self.bring_back(shard..shard + 1, previous).await {
                Ok(is_kept) => was_kept &= is_kept,
                Err(error) => {
                    self.undo(0..shard, present).await;
                    return Err(error);
                }
            }
        }
        Ok(was_kept)
    }

    /// Runs a policy beside the one in charge, on ids alone: it sees one key in `sample` (64 where
    /// absent; more of small caches) and evicts nothing real. `None` ends the shadow. Returns the
    /// rate at which keys are seen.
    ///
    /// Errors: `NotFound`; `Policy` when an instance fails; `Invalid` during a canary, and for a
    /// `sample` of 0.
    pub async fn shadow(&self, name: Option<&str>, sample: Option<u32>) -> Result<u32> {
        if self.trials().canary.is_some() {
            return Err(Error::invalid(
                "a canary runs, and the policy before is its shadow: wait, or ROLLBACK POLICY",
            ));
        }
        if sample == Some(0) {
            return Err(Error::invalid("a shadow sees one key in 1 or more"));
        }
        let Some(name) = name else {
            self.end_shadow(None).await?;
            return Ok(0);
        };
        let origin = self.origin(Some(name).filter(|name| *name != NATIVE)).await?;
        let shards = &self.inner.shards;
        let mut rate = 1;
        for shard in 0..shards.count() {
            let origin = origin.clone();
            let begin = move |policies: Rc<ShardPolicies>| -> LocalBoxFuture<'static, _> {
                async move { policies.stages().begin_shadow(&origin, sample).await }.boxed_local()
            };
            match shards.call(shard, "begin shadow", begin).await.flatten() {
                Ok(seen) => rate = seen,
                Err(error) => {
                    self.end_shadow(None).await?;
                    return Err(error);
                }
            }
        }
        self.trials().shadow = Some(name.to_owned());
        Ok(rate)
    }

    /// Ends the shadow, whichever it is, or the one of this name.
    pub(super) async fn end_shadow(&self, name: Option<&str>) -> Result<()> {
        let owned = name.map(str::to_owned);
        let end = move |policies: Rc<ShardPolicies>| {
            async move { policies.stages().end_shadow(owned.as_deref()) }.boxed_local()
        };
        self.inner.shards.each("end shadow", end).await?;
        let mut trials = self.trials();
        if name.is_none() || trials.shadow.as_deref() == name {
            trials.shadow = None;
        }
        Ok(())
    }

    /// Brings back who is wanted in charge where policies are exchanged at once. One that fails now
    /// is logged: the database opens all the same.
    pub async fn restore_direct(&self) {
        let wishes = self.inner.keeper.wishes();
        for &Served { world, .. } in WORLDS.iter().filter(|served| !served.in_stages) {
            if let Some(name) = wishes.wanted(world)
                && let Err(error) = self.exchange(world, Some(name)).await
            {
                tracing::error!(policy = name, %world, %error, "policy not restored");
            }
        }
    }

    /// Brings back who is wanted in charge of the caches, whose size must be as it will be. One
    /// that fails now is logged, reported as unavailable and leaves the native one in charge: the
    /// database opens all the same.
    pub async fn restore_staged(&self) {
        let wishes = self.inner.keeper.wishes();
        let Some(name) = wishes.wanted(Served::staged().world) else { return };
        let restored = match self.origin(Some(name)).await {
            Ok(origin) => self.take_up(&origin).await,
            Err(error) => Err(error),
        };
        if let Err(error) = restored {
            tracing::error!(policy = name, %error, "policy not restored; native LRU governs");
            self.inner.components.mark_unavailable(name, error.to_string());
        }
    }

    /// Puts the policy of the last run in charge, with what it left of its state.
    async fn take_up(&self, origin: &Origin) -> Result<()> {
        let load = |policies: Rc<ShardPolicies>| {
            async move { policies.stages().load().await }.boxed_local()
        };
        self.inner.shards.each("load policy state", load).await?;
        self.switch(origin, 0, &Origin::default()).await?;
        // Nothing was cached under the native one.
        let drop_standby = |policies: Rc<ShardPolicies>| {
            async move { policies.stages().drop_standby(None) }.boxed_local()
        };
        self.inner.shards.each("drop standby", drop_standby).await.map(drop)
    }
}
