//! Changing the policy of all shards: put in charge, roll back, run as a shadow.
//!
//! Invariant: a change that one shard refuses is undone on those before it, so all shards follow
//! what the catalog says; a canary is the one exception (`canary.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::canary::Canary;
use super::database::Database;
use super::policies::{NATIVE, Origin};
use super::policy_shard::ended;
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::policy::FailureKind;
use crate::runtime::ShardHandle;

/// Policies that run for a trial, as the database knows them.
#[derive(Default)]
pub(super) struct Trials {
    pub(super) canary: Option<Arc<Canary>>,
    /// Name of the policy that was started as a shadow.
    pub(super) shadow: Option<String>,
    /// What the last canary of each policy came to.
    pub(super) ended: BTreeMap<String, String>,
}

/// What a rollback brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Name of the policy that is in charge again.
    pub policy: String,
    /// Whether the instances of before were kept up to date on every shard, so that it took one
    /// exchange each; else new ones were shown the residents.
    pub was_kept: bool,
}

impl Database {
    pub(super) fn trials(&self) -> MutexGuard<'_, Trials> {
        self.inner.trials.lock().expect("no holder of this lock panics")
    }

    /// Puts a policy in charge of the caches of all shards, `None` the native one. Reads go on
    /// meanwhile. What it may know of the policy before, or of its own shadow, is handed over; a
    /// canary of the same policy goes on to all shards, another one ends.
    ///
    /// Errors: `NotFound`; `Policy` when an instance fails: the policy before stays in charge.
    pub fn set_cache_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let name = name.map(str::to_owned);
        let change = async move {
            let name = name.as_deref().filter(|name| *name != NATIVE);
            let canary = database.trials().canary.clone();
            if let Some(canary) = canary {
                if Some(canary.name.as_str()) == name {
                    return database.complete_canary(&canary, "by statement").await;
                }
                let message = "another policy was put in charge";
                let failure = ended(FailureKind::Operator, message);
                database.abandon_canary(&canary, failure).await?;
            }
            let origin = database.origin(&database.catalog(), name).await?;
            let before = database.present().await?;
            database.switch(&origin, 0, &before).await?;
            database.follows(name).await
        };
        self.uninterrupted(change)
    }

    /// Name of the policy that is wanted in charge and could be brought back; `None` is the native
    /// one.
    pub(super) fn governing(&self) -> Option<String> {
        let name = self.catalog().cache_policy.clone()?;
        self.inner.components.why_unavailable(&name).is_none().then_some(name)
    }

    /// The policy in charge, to bring it back if the next one is refused.
    pub(super) async fn present(&self) -> Result<Origin> {
        self.origin(&self.catalog(), self.governing().as_deref()).await
    }

    /// Says in the catalog who is in charge, and who was.
    pub(super) async fn follows(&self, name: Option<&str>) -> Result<()> {
        let mut changed = self.catalog().changed();
        let before = self.governing();
        if before.as_deref() != name {
            changed.previous_policy = Some(before.unwrap_or_else(|| NATIVE.into()));
        }
        changed.cache_policy = name.map(str::to_owned);
        if let Some(name) = name {
            self.inner.components.mark_available(name);
        }
        if self.trials().shadow.as_deref() == name {
            self.trials().shadow = None;
        }
        self.publish(changed).await
    }

    /// Switches the shards from number `first` on; a refusal brings `before` back on those before
    /// it.
    pub(super) async fn switch(&self, origin: &Origin, first: u32, before: &Origin) -> Result<()> {
        let shards = &self.inner.shards[first as usize..];
        for (switched, shard) in shards.iter().enumerate() {
            let next = origin.clone();
            let result = shard
                .call("switch policy", move |shard| {
                    async move { shard.switch_policy(&next).await }.boxed_local()
                })
                .await
                .flatten();
            if let Err(error) = result {
                bring_back(&shards[..switched], before).await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Brings back the policy that was in charge before the last change; a canary ends. Within a
    /// minute of the change its instances are still there and up to date: then it is one exchange
    /// at a batch boundary. A second rollback goes forward again.
    ///
    /// Errors: `Invalid` when there was none before; `Policy` when a new instance fails: the
    /// present policy stays in charge.
    pub fn roll_back_cache_policy(&self) -> BoxFuture<'static, Result<RolledBack>> {
        let database = self.clone();
        let change = async move {
            let catalog = database.catalog();
            let canary = database.trials().canary.clone();
            if let Some(canary) = canary {
                let failure = ended(FailureKind::Operator, "rolled back by statement");
                database.abandon_canary(&canary, failure).await?;
                let policy = database.governing().unwrap_or_else(|| NATIVE.into());
                return Ok(RolledBack { policy, was_kept: true });
            }
            let Some(policy) = catalog.previous_policy.clone() else {
                return Err(Error::invalid("no policy was in charge before: nothing to roll back"));
            };
            let name = Some(policy.as_str()).filter(|name| *name != NATIVE);
            let previous = database.origin(&catalog, name).await?;
            let present = database.present().await?;
            let was_kept = database.roll_back(&previous, &present).await?;
            database.follows(name).await?;
            Ok(RolledBack { policy, was_kept })
        };
        self.uninterrupted(change)
    }

    async fn roll_back(&self, previous: &Origin, present: &Origin) -> Result<bool> {
        let mut was_kept = true;
        let shards = &self.inner.shards;
        for done in 0..shards.len() {
            match bring_back(&shards[done..=done], previous).await {
                Ok(is_kept) => was_kept &= is_kept,
                Err(error) => {
                    bring_back(&shards[..done], present).await?;
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
    pub fn shadow_cache_policy(
        &self,
        name: Option<&str>,
        sample: Option<u32>,
    ) -> BoxFuture<'static, Result<u32>> {
        let database = self.clone();
        let name = name.map(str::to_owned);
        let change = async move {
            if database.trials().canary.is_some() {
                return Err(Error::invalid(
                    "a canary runs, and the policy before is its shadow: wait, or ROLLBACK POLICY",
                ));
            }
            if sample == Some(0) {
                return Err(Error::invalid("a shadow sees one key in 1 or more"));
            }
            let Some(name) = name else {
                database.end_shadow(None).await?;
                return Ok(0);
            };
            let component = Some(name.as_str()).filter(|name| *name != NATIVE);
            let origin = database.origin(&database.catalog(), component).await?;
            let mut rate = 1;
            for shard in &database.inner.shards {
                let origin = origin.clone();
                let begun = shard
                    .call("begin shadow", move |shard| {
                        async move { shard.begin_shadow(&origin, sample).await }.boxed_local()
                    })
                    .await
                    .flatten();
                match begun {
                    Ok(seen) => rate = seen,
                    Err(error) => {
                        database.end_shadow(None).await?;
                        return Err(error);
                    }
                }
            }
            database.trials().shadow = Some(name);
            Ok(rate)
        };
        self.uninterrupted(change)
    }

    /// Ends the shadow, whichever it is, or the one of this name.
    pub(super) async fn end_shadow(&self, name: Option<&str>) -> Result<()> {
        for shard in &self.inner.shards {
            let name = name.map(str::to_owned);
            shard
                .call("end shadow", move |shard| {
                    async move { shard.end_shadow(name.as_deref()) }.boxed_local()
                })
                .await?;
        }
        let mut trials = self.trials();
        if name.is_none() || trials.shadow.as_deref() == name {
            trials.shadow = None;
        }
        Ok(())
    }
}

/// Undoes a change on the shards that made it. Returns whether their instances had been kept.
async fn bring_back(shards: &[ShardHandle<Shard>], policy: &Origin) -> Result<bool> {
    let mut was_kept = true;
    for shard in shards {
        let policy = policy.clone();
        was_kept &= shard
            .call("roll back policy", move |shard| {
                async move { shard.roll_back_policy(&policy).await }.boxed_local()
            })
            .await??;
    }
    Ok(was_kept)
}
