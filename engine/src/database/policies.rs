//! Policies of a database: created from components, dropped, brought back, reported.
//!
//! A policy is compiled once, off the shards, and instantiated on each. Not here: who is in charge
//! (`policy_change.rs`, `canary.rs`), what a shard does for its policy (`policy_shard.rs`).

use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::catalog::check_name;
use super::database::Database;
use super::layout::is_code_of;
use super::report::{CacheReport, PolicyExit, PolicyInfo, PolicyReport};
use super::shard::Shard;
use crate::cache::PolicyIdentity;
use crate::disk::{read_file, remove_if_there, write_file_atomically};
use crate::error::{Error, Result};
use crate::plugin::{CompiledPolicy, Loaded};
use crate::policy::event::EntryKind;
use crate::runtime;

/// Name of the policy that is always there.
pub(super) const NATIVE: &str = "lru";
const NATIVE_VERSION: &str = "native";
/// The one world so far.
const WORLD: &str = "eviction";

/// Where a shard gets an instance of a policy from.
#[derive(Clone)]
pub(super) enum Origin {
    Native,
    Component { compiled: Arc<CompiledPolicy>, info: PolicyInfo },
}

impl Origin {
    pub(super) fn identity(&self) -> PolicyIdentity {
        match self {
            Origin::Native => PolicyIdentity {
                name: NATIVE.into(),
                version: NATIVE_VERSION.into(),
                digest: String::new(),
            },
            Origin::Component { info, .. } => PolicyIdentity {
                name: info.name.clone(),
                version: info.version.clone(),
                digest: info.digest.clone(),
            },
        }
    }
}

impl Database {
    /// Compiles and checks a policy of any world and stores its bytes in the data directory. It
    /// governs nothing yet.
    ///
    /// Errors: `Exists`; `Policy` saying why the component is refused.
    pub fn create_policy(
        &self,
        name: &str,
        component: Vec<u8>,
        params: Vec<(String, String)>,
        sha256: Option<String>,
    ) -> BoxFuture<'static, Result<PolicyInfo>> {
        let database = self.clone();
        let name = name.to_owned();
        let change = async move {
            let name = name.as_str();
            check_name("policy", name)?;
            let catalog = database.catalog();
            if name == NATIVE || catalog.policies.contains_key(name) {
                return Err(Error::Exists { kind: "policy", name: name.into() });
            }
            let component = Arc::new(component);
            let Loaded { compiled, artifact } =
                database.load_component(name, component.clone(), None).await?;
            let digest = compiled.digest_hex();
            if sha256.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&digest)) {
                return Err(Error::Policy {
                    name: name.into(),
                    message: format!("the component's SHA-256 is {digest}, another was wanted"),
                });
            }
            let world = compiled.world().as_str().to_owned();
            let version = String::new();
            let mut info = PolicyInfo { name: name.into(), version, digest, params, world };
            // A first instance shows that it starts with these parameters, and what it calls
            // itself.
            let probe = Origin::Component { compiled: compiled.clone(), info: info.clone() };
            let path = database.inner.layout.policy(&info.digest);
            info.version = database
                .handle(0)
                .call("try policy", move |shard| {
                    async move {
                        let version = shard.try_policy(&probe).await?;
                        write_file_atomically(&*shard.context.disk, &path, &component).await?;
                        Ok::<_, Error>(version)
                    }
                    .boxed_local()
                })
                .await??;
            let mut changed = catalog.changed();
            changed.policies.insert(name.into(), info.clone());
            database.publish(changed).await?;
            database.inner.components.keep(compiled);
            database.store_code(&info.digest, artifact).await;
            Ok(info)
        };
        self.uninterrupted(change)
    }

    /// Compiles on a thread of its own: it takes tens of milliseconds. Less than one where machine
    /// code was kept.
    async fn load_component(
        &self,
        name: &str,
        component: Arc<Vec<u8>>,
        kept: Option<Vec<u8>>,
    ) -> Result<Loaded> {
        let components = self.inner.components.clone();
        let owned = name.to_owned();
        let load = move || components.load(&owned, &component, kept.as_deref());
        runtime::aside("policy compiler", load).await?
    }

    /// Keeps machine code for the next start, in the place of what other builds made. A failure
    /// costs that start a compilation and is logged.
    async fn store_code(&self, digest: &str, artifact: Option<Vec<u8>>) {
        let Some(artifact) = artifact else { return };
        let stored = async {
            let Some(compatibility) = self.inner.components.code_compatibility()? else {
                return Ok(());
            };
            let path = self.inner.layout.policy_code(digest, compatibility);
            self.remove_code(digest).await?;
            let store = move |shard: Rc<Shard>| {
                let disk = shard.context.disk.clone();
                async move { write_file_atomically(&*disk, &path, &artifact).await }.boxed_local()
            };
            self.handle(0).call("store machine code", store).await?
        };
        if let Err(error) = stored.await {
            tracing::warn!(digest, %error, "machine code of a policy is not kept");
        }
    }

    /// Removes what was kept of a component's machine code.
    async fn remove_code(&self, digest: &str) -> Result<()> {
        let (folder, digest) = (self.inner.layout.policies(), digest.to_owned());
        let remove = move |shard: Rc<Shard>| {
            let disk = shard.context.disk.clone();
            async move {
                for entry in disk.list(&folder).await? {
                    if is_code_of(&entry.name, &digest) {
                        remove_if_there(&*disk, &folder.join(&entry.name)).await?;
                    }
                }
                Ok(())
            }
            .boxed_local()
        };
        self.handle(0).call("remove machine code", remove).await?
    }

    /// Forgets a policy, also one that could not be brought back or whose file is gone.
    ///
    /// Errors: `NotFound`; `Invalid` while it governs the caches.
    pub fn drop_policy(&self, name: &str, if_exists: bool) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let name = name.to_owned();
        let change = async move {
            let name = name.as_str();
            let catalog = database.catalog();
            let Some(info) = catalog.policies.get(name) else {
                return match (if_exists, name) {
                    (_, NATIVE) => Err(Error::invalid("the native policy cannot be dropped")),
                    (true, _) => Ok(()),
                    (false, _) => Err(Error::NotFound { kind: "policy", name: name.into() }),
                };
            };
            let components = &database.inner.components;
            let is_there = components.why_unavailable(name).is_none();
            let is_canary =
                database.trials().canary.as_ref().is_some_and(|canary| canary.name == name);
            if is_canary {
                return Err(Error::invalid(format!(
                    "policy '{name}' is a canary: ROLLBACK POLICY ends it"
                )));
            }
            if let Some(charge) = catalog.charge_of(name).filter(|_| is_there) {
                return Err(Error::invalid(format!(
                    "policy '{name}' {charge}: put another in charge first"
                )));
            }
            let digest = info.digest.clone();
            database.trials().ended.remove(name);
            let mut changed = catalog.changed();
            changed.policies.remove(name);
            // One that is still in charge could not be restored: the native one governs in its
            // place.
            let wishes = [
                &mut changed.cache_policy,
                &mut changed.admission_policy,
                &mut changed.rate_policy,
                &mut changed.read_admission_policy,
                &mut changed.load_shedding_policy,
            ];
            for wish in wishes {
                wish.take_if(|wanted| wanted == name);
            }
            if changed.previous_policy.as_deref() == Some(name) {
                changed.previous_policy = None;
            }
            let is_last = changed.policies.values().all(|other| other.digest != digest);
            database.publish(changed).await?;
            components.mark_available(name);
            database.forget_instances(name).await?;
            if !is_last {
                return Ok(());
            }
            components.forget(&digest);
            database.remove_code(&digest).await?;
            let path = database.inner.layout.policy(&digest);
            // The file may have been removed by somebody before.
            let remove = move |shard: Rc<Shard>| {
                let disk = shard.context.disk.clone();
                async move { remove_if_there(&*disk, &path).await }.boxed_local()
            };
            database.handle(0).call("remove policy", remove).await?
        };
        self.uninterrupted(change)
    }

    /// Ends the shadow and the standby of a policy that is dropped.
    async fn forget_instances(&self, name: &str) -> Result<()> {
        self.end_shadow(Some(name)).await?;
        for shard in &self.inner.shards {
            let name = name.to_owned();
            shard
                .call("drop standby", move |shard| {
                    async move { shard.drop_standby(Some(&name)) }.boxed_local()
                })
                .await?;
        }
        Ok(())
    }

    /// The policy of this name, compiled; `None` is the native one.
    ///
    /// Errors: `NotFound`; `Policy`, `Corrupt` and `Io` when its component is no good any more.
    pub(super) async fn origin(
        &self,
        catalog: &super::Catalog,
        name: Option<&str>,
    ) -> Result<Origin> {
        let Some(name) = name else { return Ok(Origin::Native) };
        let info = catalog
            .policies
            .get(name)
            .cloned()
            .ok_or_else(|| Error::NotFound { kind: "policy", name: name.into() })?;
        let compiled = match self.inner.components.find(&info.digest) {
            Some(compiled) => compiled,
            None => {
                let path = self.inner.layout.policy(&info.digest);
                let read = path.clone();
                let compatibility = self.inner.components.code_compatibility()?;
                let code =
                    compatibility.map(|build| self.inner.layout.policy_code(&info.digest, build));
                let (component, kept) = self
                    .handle(0)
                    .call("read policy", move |shard| {
                        async move {
                            let disk = &*shard.context.disk;
                            let component = read_file(disk, &read).await?;
                            let kept = match code {
                                // What cannot be read is made anew.
                                Some(code) => read_file(disk, &code).await.ok(),
                                None => None,
                            };
                            Ok::<_, Error>((component, kept))
                        }
                        .boxed_local()
                    })
                    .await??;
                let Loaded { compiled, artifact } =
                    self.load_component(name, Arc::new(component), kept).await?;
                if compiled.digest_hex() != info.digest {
                    return Err(Error::corrupt(path, 0, &info.digest, compiled.digest_hex()));
                }
                self.inner.components.keep(compiled.clone());
                self.store_code(&info.digest, artifact).await;
                compiled
            }
        };
        Ok(Origin::Component { compiled, info })
    }

    /// Brings back what the catalog says of the caches. A policy that fails now is logged, reported
    /// as unavailable and leaves the native one in charge: the database opens all the same.
    pub(super) async fn restore_policies(&self) -> Result<()> {
        let catalog = self.catalog();
        self.restore_scalar_policies(&catalog).await;
        if let Some(bytes) = catalog.cache_bytes {
            self.apply_cache_bytes(bytes).await?;
        }
        if let Some(name) = catalog.cache_policy.as_deref() {
            let restored = match self.origin(&catalog, Some(name)).await {
                Ok(origin) => self.take_up(&origin).await,
                Err(error) => Err(error),
            };
            if let Err(error) = restored {
                tracing::error!(policy = name, %error, "policy not restored; native LRU governs");
                self.inner.components.mark_unavailable(name, error.to_string());
            }
        }
        Ok(())
    }

    /// Puts the policy of the last run in charge, with what it left of its state.
    async fn take_up(&self, origin: &Origin) -> Result<()> {
        for shard in &self.inner.shards {
            shard
                .call("load policy state", |shard| {
                    async move { shard.load_policy_state().await }.boxed_local()
                })
                .await?;
        }
        self.switch(origin, 0, &Origin::Native).await?;
        for shard in &self.inner.shards {
            // Nothing was cached under the native one.
            shard
                .call("drop standby", |shard| async move { shard.drop_standby(None) }.boxed_local())
                .await?;
        }
        Ok(())
    }

    /// Sets the capacity of the page cache of each shard.
    ///
    /// Errors: `Invalid` below 64 KiB, `Io`.
    pub fn set_cache_bytes(&self, bytes_per_shard: usize) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let change = async move {
            if bytes_per_shard < 64 << 10 {
                return Err(Error::invalid("a cache of less than 64 KiB a shard is of no use"));
            }
            database.apply_cache_bytes(bytes_per_shard).await?;
            let mut changed = database.catalog().changed();
            changed.cache_bytes = Some(bytes_per_shard);
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }

    async fn apply_cache_bytes(&self, bytes: usize) -> Result<()> {
        for shard in &self.inner.shards {
            shard
                .call("set cache capacity", move |shard| {
                    async move {
                        shard.cache.set_capacity_bytes(bytes);
                        while shard.cache.trim() {
                            runtime::maybe_yield().await;
                        }
                    }
                    .boxed_local()
                })
                .await?;
        }
        Ok(())
    }

    /// The native policy and all that were created, with what they did while in charge.
    ///
    /// Errors: `Closed`.
    pub fn policies(&self) -> BoxFuture<'_, Result<Vec<PolicyReport>>> {
        async move {
            let catalog = self.catalog();
            let native = PolicyReport {
                name: NATIVE.into(),
                version: NATIVE_VERSION.into(),
                world: WORLD.into(),
                state: "loaded".into(),
                ..PolicyReport::default()
            };
            let created = catalog.policies().map(|info| {
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
            let mut reports: Vec<PolicyReport> = [native].into_iter().chain(created).collect();
            for shard in &self.inner.shards {
                let shares = shard
                    .call("policy report", |shard| {
                        async move { shard.policy_shares() }.boxed_local()
                    })
                    .await?;
                for share in shares {
                    if let Some(report) = reports.iter_mut().find(|r| r.name == share.name) {
                        report.add(&share);
                    }
                }
            }
            let trials = self.trials();
            for report in &mut reports {
                report.trial_ended = trials.ended.get(&report.name).cloned();
            }
            Ok(reports)
        }
        .boxed()
    }

    /// A policy with its own figures, each with the number of the shard.
    ///
    /// Errors: `NotFound`, `Closed`.
    pub fn explain_policy(&self, name: &str) -> BoxFuture<'_, Result<PolicyReport>> {
        let name = name.to_owned();
        async move {
            let reports = self.policies().await?;
            let report = reports.into_iter().find(|report| report.name == name);
            let mut report =
                report.ok_or_else(|| Error::NotFound { kind: "policy", name: name.clone() })?;
            for (number, shard) in self.inner.shards.iter().enumerate() {
                let name = name.clone();
                let metrics = shard
                    .call("policy metrics", move |shard| {
                        async move { shard.policy_metrics(&name) }.boxed_local()
                    })
                    .await?;
                let of_shard =
                    metrics.into_iter().map(|(name, value)| (number as u32, name, value));
                report.metrics.extend(of_shard);
            }
            Ok(report)
        }
        .boxed()
    }

    /// Policies that left a shard by a failure, oldest first: the last sixteen of each shard.
    ///
    /// Errors: `Closed`.
    pub fn policy_exits(&self) -> BoxFuture<'_, Result<Vec<PolicyExit>>> {
        async move {
            let mut exits = Vec::new();
            for shard in &self.inner.shards {
                exits.extend(
                    shard
                        .call("policy exits", |shard| {
                            async move { shard.policy_exits() }.boxed_local()
                        })
                        .await?,
                );
            }
            exits.sort_by_key(|exit| (exit.at_us, exit.shard));
            Ok(exits)
        }
        .boxed()
    }

    /// The cache of each shard.
    ///
    /// Errors: `Closed`.
    pub fn cache_report(&self) -> BoxFuture<'_, Result<Vec<CacheReport>>> {
        async move {
            let mut reports = Vec::new();
            for (number, shard) in self.inner.shards.iter().enumerate() {
                let stats = shard
                    .call("cache report", |shard| async move { shard.cache.stats() }.boxed_local())
                    .await?;
                let is_of_rows = |kind: &EntryKind| {
                    matches!(kind, EntryKind::Row | EntryKind::Dummy | EntryKind::PartitionHeader)
                };
                let of_rows = stats.kinds.iter().filter(|(kind, _)| is_of_rows(kind));
                let (entries, row_bytes) = of_rows.fold((0, 0), |(entries, bytes), (_, counts)| {
                    (entries + counts.pages, bytes + counts.bytes)
                });
                let of_data = stats.kinds.iter().filter(|(kind, _)| *kind == EntryKind::DataPage);
                let data_bytes = of_data.map(|(_, counts)| counts.bytes).sum();
                reports.push(CacheReport {
                    shard: number as u32,
                    capacity_bytes: stats.capacity_bytes,
                    bytes: stats.bytes,
                    pages: stats.total.pages - entries,
                    entries,
                    row_bytes,
                    index_bytes: stats.bytes - row_bytes - data_bytes,
                    data_bytes,
                    hits: stats.total.hits,
                    misses: stats.total.misses,
                    evictions: stats.total.evictions,
                    refused: stats.total.refused,
                });
            }
            Ok(reports)
        }
        .boxed()
    }
}
