//! The policy administration of one database: its parts and its reports.

use std::sync::{Arc, Mutex, MutexGuard};

use futures::FutureExt;

use super::components::Components;
use super::files::PolicyFiles;
use super::origin::NATIVE_VERSION;
use super::report::{PolicyExit, PolicyReport};
use super::shard::Shards;
use super::trials::Trials;
use super::wishes::Keeper;
use super::worlds::WORLDS;
use crate::error::{Error, Result};
use crate::plugin::{self, CompilerCommand, HostOptions};
use crate::policy::NATIVES;

/// Instances of policies that a shard has at one time: of the world with stages the active one, a
/// candidate, the one kept for a rollback and a shadow; of each other world the active one and the
/// next; one being tried.
const INSTANCES_PER_SHARD: u32 = 4 + 2 * (WORLDS.len() as u32 - 1) + 1;

/// What governance is given by the database that it serves.
pub struct Setting {
    pub shards: Shards,
    pub keeper: Arc<dyn Keeper>,
    pub files: PolicyFiles,
    /// Compiles components in a process of its own; in this process where absent.
    pub compiler: Option<CompilerCommand>,
    /// Machine code is kept in files.
    pub keeps_code: bool,
}

/// Clones are the same. What changes something is run within `Keeper::uninterrupted`, one change
/// after another.
#[derive(Clone)]
pub struct Governance {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) shards: Shards,
    pub(super) keeper: Arc<dyn Keeper>,
    pub(super) files: PolicyFiles,
    pub(super) components: Arc<Components>,
    trials: Mutex<Trials>,
}

impl Governance {
    /// Starts nothing; `restore` activates the policies that the wishes name.
    pub fn new(setting: Setting) -> Self {
        let Setting { shards, keeper, files, compiler, keeps_code } = setting;
        let instances_max = INSTANCES_PER_SHARD * shards.count();
        let host = HostOptions { instances_max, compiler };
        let components = Arc::new(Components::new(host, keeps_code));
        let trials = Mutex::default();
        Governance { inner: Arc::new(Inner { shards, keeper, files, components, trials }) }
    }

    #[cfg(test)]
    pub(crate) fn components(&self) -> &Components {
        &self.inner.components
    }

    pub(super) fn trials(&self) -> MutexGuard<'_, Trials> {
        self.inner.trials.lock().expect("no holder of this lock panics")
    }

    /// The native policies and all that were created, with what they did while in charge.
    ///
    /// Errors: `Closed`.
    pub async fn policies(&self) -> Result<Vec<PolicyReport>> {
        let wishes = self.inner.keeper.wishes();
        let natives = NATIVES.iter().filter(|native| wishes.policy(native.name).is_none());
        let natives = natives.map(|native| PolicyReport {
            name: native.name.into(),
            version: NATIVE_VERSION.into(),
            world: plugin::World::Eviction.as_str().into(),
            state: "loaded".into(),
            ..PolicyReport::default()
        });
        let created = wishes.policies().map(|info| {
            let failure = self.inner.components.why_unavailable(&info.name);
            PolicyReport {
                name: info.name.clone(),
                version: info.version.clone(),
                digest: info.digest.clone(),
                world: info.world.clone(),
                params: info.params.clone(),
                state: if failure.is_some() { "unavailable" } else { "loaded" }.into(),
                last_failure: failure,
                ..PolicyReport::default()
            }
        });
        let mut reports: Vec<PolicyReport> = natives.chain(created).collect();
        let shards = &self.inner.shards;
        let shares =
            shards.each("policy report", |policies| async move { policies.shares() }.boxed_local());
        for share in shares.await?.into_iter().flatten() {
            if let Some(report) = reports.iter_mut().find(|report| report.name == share.name) {
                report.add(&share);
            }
        }
        let trials = self.trials();
        for report in &mut reports {
            report.trial_ended = trials.ended.get(&report.name).cloned();
        }
        Ok(reports)
    }

    /// A policy with its own figures, each with the number of the shard.
    ///
    /// Errors: `NotFound`, `Closed`.
    pub async fn explain(&self, name: &str) -> Result<PolicyReport> {
        let reports = self.policies().await?;
        let report = reports.into_iter().find(|report| report.name == name);
        let mut report =
            report.ok_or_else(|| Error::NotFound { kind: "policy", name: name.to_owned() })?;
        let name = name.to_owned();
        let metrics = self.inner.shards.each("policy metrics", |policies| {
            async move { policies.metrics(&name) }.boxed_local()
        });
        for (shard, metrics) in (0..).zip(metrics.await?) {
            let of_shard = metrics.into_iter().map(|(name, value)| (shard, name, value));
            report.metrics.extend(of_shard);
        }
        Ok(report)
    }

    /// Policies that left a shard by a failure, oldest first: the last sixteen of each shard.
    ///
    /// Errors: `Closed`.
    pub async fn exits(&self) -> Result<Vec<PolicyExit>> {
        let exits = self
            .inner
            .shards
            .each("policy exits", |policies| async move { policies.exits() }.boxed_local());
        let mut exits: Vec<PolicyExit> = exits.await?.into_iter().flatten().collect();
        exits.sort_by_key(|exit| (exit.at_us, exit.shard));
        Ok(exits)
    }
}
