//! Policies of a database: created from components, put in charge of the caches, reported.
//!
//! A policy is compiled once, off the shards, and instantiated on each. Replacing one prepares an
//! instance on every shard before any of them switches; a refusal anywhere leaves all as they were.

use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::catalog::check_name;
use super::database::Database;
use super::report::{CacheReport, PolicyInfo, PolicyReport};
use super::shard::Shard;
use crate::cache::{PolicyIdentity, PolicyState, PolicyStatus, SwapStep};
use crate::config::POLICY_RING_EVENTS_MAX;
use crate::disk::{read_file, remove_if_there, write_file_atomically};
use crate::error::{Error, Result};
use crate::plugin::{Budget, CompiledPolicy, InstanceOptions, WasmEvictionPolicy};
use crate::policy::event::EntryKind;
use crate::policy::{EvictionPolicy, Lru};
use crate::runtime;

/// Name of the policy that is always there.
pub(super) const NATIVE: &str = "lru";
const NATIVE_VERSION: &str = "native";

/// Where a shard gets an instance of a policy from.
#[derive(Clone)]
pub(super) enum Origin {
    Native,
    Component { compiled: Arc<CompiledPolicy>, info: PolicyInfo },
}

impl Origin {
    fn identity(&self) -> PolicyIdentity {
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
            let compiled = database.compile(name, component.clone()).await?;
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
            // A first instance shows that it starts with these parameters, and what it calls itself.
            let probe = Origin::Component { compiled: compiled.clone(), info: info.clone() };
            let path = database.inner.layout.policy(&info.digest);
            info.version = database
                .handle(0)
                .call("try policy", move |shard| {
                    async move {
                        let version = shard.try_policy(&probe)?;
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
            Ok(info)
        };
        self.uninterrupted(change)
    }

    /// Compiles on a thread of its own: it takes tens of milliseconds.
    async fn compile(&self, name: &str, component: Arc<Vec<u8>>) -> Result<Arc<CompiledPolicy>> {
        let components = self.inner.components.clone();
        let (sender, compiled) = oneshot::channel();
        let owned = name.to_owned();
        std::thread::Builder::new()
            .name("policy compiler".into())
            .spawn(move || {
                // Nobody waits any more when the statement was cancelled.
                let _ = sender.send(components.compile(&owned, &component));
            })
            .map_err(|error| Error::Unavailable(format!("no thread for compiling: {error}")))?;
        compiled.await.map_err(|_| Error::Policy {
            name: name.into(),
            message: "the compiler stopped".into(),
        })?
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
            if let Some(charge) = catalog.charge_of(name).filter(|_| is_there) {
                return Err(Error::invalid(format!(
                    "policy '{name}' {charge}: put another in charge first"
                )));
            }
            let digest = info.digest.clone();
            let mut changed = catalog.changed();
            changed.policies.remove(name);
            // One that is still in charge could not be restored: the native one governs in its place.
            let wishes = [
                &mut changed.cache_policy,
                &mut changed.admission_policy,
                &mut changed.rate_policy,
            ];
            for wish in wishes {
                wish.take_if(|wanted| wanted == name);
            }
            let is_last = changed.policies.values().all(|other| other.digest != digest);
            database.publish(changed).await?;
            components.mark_available(name);
            if !is_last {
                return Ok(());
            }
            components.forget(&digest);
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

    /// Puts a policy in charge of the caches of all shards, `None` the native one. Reads go on
    /// meanwhile.
    ///
    /// Errors: `NotFound`; `Policy` when an instance fails: the policy before stays in charge.
    pub fn set_cache_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let name = name.map(str::to_owned);
        let change = async move {
            let name = name.as_deref();
            let catalog = database.catalog();
            let name = name.filter(|name| *name != NATIVE);
            let origin = database.origin(&catalog, name).await?;
            database.switch(origin).await?;
            if let Some(name) = name {
                database.inner.components.mark_available(name);
            }
            let mut changed = catalog.changed();
            changed.cache_policy = name.map(str::to_owned);
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }

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
                let component = self
                    .handle(0)
                    .call("read policy", move |shard| {
                        async move { read_file(&*shard.context.disk, &read).await }.boxed_local()
                    })
                    .await??;
                let compiled = self.compile(name, Arc::new(component)).await?;
                if compiled.digest_hex() != info.digest {
                    return Err(Error::corrupt(path, 0, &info.digest, compiled.digest_hex()));
                }
                self.inner.components.keep(compiled.clone());
                compiled
            }
        };
        Ok(Origin::Component { compiled, info })
    }

    async fn switch(&self, origin: Origin) -> Result<()> {
        for (switched, shard) in self.inner.shards.iter().enumerate() {
            let origin = origin.clone();
            let result = shard
                .call("switch policy", move |shard| {
                    async move { shard.switch_policy(&origin).await }.boxed_local()
                })
                .await
                .flatten();
            if let Err(error) = result {
                for shard in &self.inner.shards[..switched] {
                    shard
                        .call("roll back policy", |shard| {
                            async move { shard.cache.rollback_policy() }.boxed_local()
                        })
                        .await?;
                }
                return Err(error);
            }
        }
        for shard in &self.inner.shards {
            shard
                .call("keep policy", |shard| {
                    async move { shard.cache.drop_standby_policy() }.boxed_local()
                })
                .await?;
        }
        Ok(())
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
                Ok(origin) => self.switch(origin).await,
                Err(error) => Err(error),
            };
            if let Err(error) = restored {
                tracing::error!(policy = name, %error, "policy not restored; native LRU governs");
                self.inner.components.mark_unavailable(name, error.to_string());
            }
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
                world: "eviction".into(),
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
            Ok(reports)
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
                let entries = of_rows.map(|(_, counts)| counts.pages).sum();
                reports.push(CacheReport {
                    shard: number as u32,
                    capacity_bytes: stats.capacity_bytes,
                    bytes: stats.bytes,
                    pages: stats.total.pages - entries,
                    entries,
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

impl Shard {
    pub(super) fn instantiate(&self, origin: &Origin) -> Result<Box<dyn EvictionPolicy>> {
        let slots_max = self.cache.slots_max();
        match origin {
            Origin::Native => Ok(Box::new(Lru::new(slots_max))),
            Origin::Component { compiled, info } => {
                let seed = self.context.random.borrow_mut().next_u64();
                let options = InstanceOptions {
                    params: info.params.clone(),
                    max_slots: slots_max,
                    capacity_bytes: self.cache.stats().capacity_bytes,
                    shard: self.context.shard,
                    seed,
                    budget: Budget::default(),
                    clock: Some(self.context.clock.clone()),
                };
                let policy = WasmEvictionPolicy::new(compiled.clone(), options);
                let policy = policy.map_err(|failure| Error::Policy {
                    name: info.name.clone(),
                    message: failure.to_string(),
                })?;
                Ok(Box::new(policy))
            }
        }
    }

    /// Puts the native policy in charge of a new cache.
    pub(super) fn start_native_policy(&self) {
        let native = Origin::Native;
        let policy = self.instantiate(&native).expect("the native policy has no way to fail");
        self.cache
            .begin_policy(policy, native.identity())
            .expect("the native policy has no way to fail");
        while self.cache.step_policy_swap(POLICY_RING_EVENTS_MAX as u32) == SwapStep::Working {}
    }

    async fn switch_policy(&self, origin: &Origin) -> Result<()> {
        let identity = origin.identity();
        let refused = |message: String| Error::Policy { name: identity.name.clone(), message };
        let policy = self.instantiate(origin)?;
        self.cache.deliver();
        let before = share_of(&self.cache.policy_status());
        self.cache
            .begin_policy(policy, identity.clone())
            .map_err(|failure| refused(failure.to_string()))?;
        loop {
            match self.cache.step_policy_swap(POLICY_RING_EVENTS_MAX as u32) {
                SwapStep::Working => runtime::maybe_yield().await,
                SwapStep::Switched => break,
                SwapStep::Failed | SwapStep::Idle => {
                    let status = self.cache.policy_status();
                    let message = status
                        .failures
                        .last()
                        .map_or_else(|| "gave up".into(), |record| record.failure.to_string());
                    return Err(refused(message));
                }
            }
        }
        let mut retired = self.retired.borrow_mut();
        match retired.iter_mut().find(|share| share.name == before.name) {
            Some(share) => share.add(&before),
            None => retired.push(before),
        }
        Ok(())
    }

    /// What each policy did on this shard: those of the past, and the one in charge.
    fn policy_shares(&self) -> Vec<PolicyReport> {
        self.cache.deliver();
        let mut shares = self.retired.borrow().clone();
        for share in &mut shares {
            share.state = "loaded".into();
        }
        shares.push(share_of(&self.cache.policy_status()));
        shares.extend(self.scalar_shares());
        shares
    }
}

/// A governor's view as a report.
fn share_of(status: &PolicyStatus) -> PolicyReport {
    let failed = status.failures.iter().rev().find(|record| record.identity == status.identity);
    let counters = match (status.state, failed) {
        (PolicyState::Failed, Some(record)) => record.counters,
        _ => status.counters,
    };
    PolicyReport {
        name: status.identity.name.clone(),
        version: status.identity.version.clone(),
        digest: status.identity.digest.clone(),
        world: "eviction".into(),
        state: match status.state {
            PolicyState::Active | PolicyState::Native => "active".into(),
            PolicyState::Failed => "failed".into(),
        },
        calls: counters.calls,
        events: counters.events,
        hits: status.hits,
        misses: status.misses,
        evictions: status.evictions,
        invalid_victims: counters.invalid_victims,
        shortfalls: counters.shortfalls,
        last_failure: failed.map(|record| record.failure.to_string()),
    }
}

impl PolicyReport {
    /// Adds what the same policy did elsewhere or earlier.
    fn add(&mut self, other: &PolicyReport) {
        if other.state == "failed" || self.state != "failed" && other.state == "active" {
            self.state.clone_from(&other.state);
        }
        self.calls += other.calls;
        self.events += other.events;
        self.hits += other.hits;
        self.misses += other.misses;
        self.evictions += other.evictions;
        self.invalid_victims += other.invalid_victims;
        self.shortfalls += other.shortfalls;
        if other.last_failure.is_some() {
            self.last_failure.clone_from(&other.last_failure);
        }
    }
}
