//! Policies beside that of eviction: who is let into the caches, who beyond a rate limit, how many
//! reads a shard takes on, what it sheds.
//!
//! As with eviction, an instance is made on every shard before any of them changes; a refusal
//! anywhere leaves all as they were. Not here: the eviction policy (`policies.rs`).

use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};

use super::catalog::Catalog;
use super::database::Database;
use super::policies::Origin;
use super::report::{IntakeReport, PolicyReport, RateReport};
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::intake::PlanStatus;
use crate::plugin::{
    Budget, CompiledPolicy, InstanceOptions, WasmAdmissionPolicy, WasmLoadSheddingPolicy,
    WasmRatePolicy, WasmReadAdmissionPolicy, World,
};
use crate::policy::PolicyFailure;
use crate::policy::admission::AdmissionPolicy;
use crate::policy::intake::{LoadSheddingPolicy, ReadAdmissionPolicy, WorkClass};
use crate::policy::rate::RatePolicy;
use crate::runtime;

/// Name of the rate policy that is always there.
const NATIVE_RATE: &str = "decaying";

impl Catalog {
    /// What a policy is in charge of, if of anything.
    pub(super) fn charge_of(&self, name: &str) -> Option<&'static str> {
        let is = |set: &Option<String>| set.as_deref() == Some(name);
        match () {
            () if is(&self.cache_policy) => Some("governs the cache"),
            () if is(&self.admission_policy) => Some("decides what the cache keeps"),
            () if is(&self.rate_policy) => Some("decides on rate limits"),
            () if is(&self.read_admission_policy) => Some("decides on read admission"),
            () if is(&self.load_shedding_policy) => Some("decides on load shedding"),
            () => None,
        }
    }
}

impl Database {
    /// Puts a policy of world `cache-admission` before the caches of all shards; `None` keeps all
    /// that is read.
    ///
    /// Errors: `NotFound`; `Policy` when it is of another world or an instance fails.
    pub fn set_admission_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.set_scalar(name, World::CacheAdmission)
    }

    /// Lets a policy of world `rate-limiter` decide beyond the limits of tables; `None` the native
    /// one.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_rate_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.set_scalar(name.filter(|name| *name != NATIVE_RATE), World::RateLimiter)
    }

    /// Lets a policy of world `read-admission` limit the reads of each shard; `None` the native
    /// limits.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_read_admission_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.set_scalar(name, World::ReadAdmission)
    }

    /// Lets a policy of world `load-shedding` refuse what is too much; `None` refuses nothing.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_load_shedding_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.set_scalar(name, World::LoadShedding)
    }

    fn set_scalar(&self, name: Option<&str>, world: World) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let name = name.map(str::to_owned);
        let change = async move {
            let catalog = database.catalog();
            database.switch_scalar(&catalog, name.as_deref(), world).await?;
            let mut changed = catalog.changed();
            match world {
                World::RateLimiter => changed.rate_policy = name,
                World::CacheAdmission => changed.admission_policy = name,
                World::ReadAdmission => changed.read_admission_policy = name,
                World::LoadShedding => changed.load_shedding_policy = name,
                World::Eviction => panic!("eviction policies are switched elsewhere"),
            }
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }

    async fn switch_scalar(
        &self,
        catalog: &Catalog,
        name: Option<&str>,
        world: World,
    ) -> Result<()> {
        let origin = self.origin(catalog, name).await?;
        if let Origin::Component { compiled, info } = &origin
            && compiled.world() != world
        {
            let message = format!("it decides on {}, not on {world}", compiled.world());
            return Err(Error::Policy { name: info.name.clone(), message });
        }
        // All instances are made before any of them decides.
        for shard in &self.inner.shards {
            let origin = origin.clone();
            let prepare = move |shard: std::rc::Rc<Shard>| -> LocalBoxFuture<'static, Result<()>> {
                async move { shard.prepare_scalar(&origin).await }.boxed_local()
            };
            shard.call("prepare policy", prepare).await??;
        }
        for shard in &self.inner.shards {
            let commit = move |shard: std::rc::Rc<Shard>| -> LocalBoxFuture<'static, ()> {
                async move { shard.commit_scalar(world) }.boxed_local()
            };
            shard.call("switch policy", commit).await?;
        }
        Ok(())
    }

    /// Brings back what the catalog says. A policy that fails now is logged: the database opens all
    /// the same.
    pub(super) async fn restore_scalar_policies(&self, catalog: &Catalog) {
        let set = [
            (catalog.admission_policy.as_deref(), World::CacheAdmission),
            (catalog.rate_policy.as_deref(), World::RateLimiter),
            (catalog.read_admission_policy.as_deref(), World::ReadAdmission),
            (catalog.load_shedding_policy.as_deref(), World::LoadShedding),
        ];
        for (name, world) in set {
            if let Some(name) = name
                && let Err(error) = self.switch_scalar(catalog, Some(name), world).await
            {
                tracing::error!(policy = name, %world, %error, "policy not restored");
            }
        }
    }

    /// What enters each shard: one row a class of requests.
    ///
    /// Errors: `Closed`.
    pub fn intake_report(&self) -> BoxFuture<'_, Result<Vec<IntakeReport>>> {
        async move {
            let mut reports = Vec::new();
            for (number, shard) in self.inner.shards.iter().enumerate() {
                let classes = shard
                    .call("intake report", |shard| {
                        async move {
                            let intake = &shard.intake;
                            [WorkClass::Keys, WorkClass::Scan, WorkClass::Write]
                                .map(|class| (class.as_str(), intake.status(class)))
                        }
                        .boxed_local()
                    })
                    .await?;
                let shard = number as u32;
                let rows = classes.map(|(class, status)| IntakeReport { shard, class, status });
                reports.extend(rows);
            }
            Ok(reports)
        }
        .boxed()
    }

    /// What the rate limiters of all shards did.
    ///
    /// Errors: `Closed`.
    pub fn rate_report(&self) -> BoxFuture<'_, Result<Vec<RateReport>>> {
        async move {
            let mut reports = Vec::new();
            for (number, shard) in self.inner.shards.iter().enumerate() {
                let report = shard
                    .call("rate report", |shard| {
                        async move {
                            let limiter = shard.limiter.borrow();
                            let policy = match limiter.name() {
                                Some(name) if limiter.failure().is_none() => name.to_owned(),
                                _ => NATIVE_RATE.to_owned(),
                            };
                            let failure = limiter.failure().map(PolicyFailure::to_string);
                            (limiter.stats(), policy, failure)
                        }
                        .boxed_local()
                    })
                    .await?;
                let (stats, policy, last_failure) = report;
                reports.push(RateReport {
                    shard: number as u32,
                    policy,
                    reads: stats.reads_counted,
                    reads_refused: stats.reads_refused,
                    writes: stats.writes_counted,
                    writes_refused: stats.writes_refused,
                    asked: stats.asked,
                    not_counted: stats.counters.not_counted,
                    last_failure,
                });
            }
            Ok(reports)
        }
        .boxed()
    }
}

/// An instance that was made and does not decide yet.
pub(super) enum Prepared {
    /// What decides where there is no component.
    Native,
    Admission(String, Box<WasmAdmissionPolicy>),
    Rate(String, Box<WasmRatePolicy>),
    ReadAdmission(String, Box<WasmReadAdmissionPolicy>),
    LoadShedding(String, Box<WasmLoadSheddingPolicy>),
}

impl Prepared {
    /// Version as the policy states it; empty for the native one.
    fn version(&self) -> &str {
        match self {
            Prepared::Native => "",
            Prepared::Admission(_, policy) => policy.version(),
            Prepared::Rate(_, policy) => policy.version(),
            Prepared::ReadAdmission(_, policy) => policy.version(),
            Prepared::LoadShedding(_, policy) => policy.version(),
        }
    }
}

impl Shard {
    /// Makes an instance of any world, and says what the policy calls its version.
    pub(super) async fn try_policy(&self, origin: &Origin) -> Result<String> {
        match origin {
            Origin::Component { compiled, info } if compiled.world() != World::Eviction => {
                let prepared = self.scalar(compiled, &info.name, &info.params).await?;
                Ok(prepared.version().to_owned())
            }
            origin => Ok(self.instantiate_for_cache(origin).await?.version().to_owned()),
        }
    }

    /// Made on another thread, as those of eviction are.
    async fn scalar(
        &self,
        compiled: &std::sync::Arc<CompiledPolicy>,
        name: &str,
        params: &[(String, String)],
    ) -> Result<Prepared> {
        let world = compiled.world();
        let options = InstanceOptions {
            params: params.to_vec(),
            max_slots: if world == World::CacheAdmission { self.cache.slots_max() } else { 0 },
            capacity_bytes: 0,
            shard: self.context.shard,
            seed: self.context.random.borrow_mut().next_u64(),
            budget: Budget::default(),
            clock: None,
        };
        let (compiled, owned) = (compiled.clone(), name.to_owned());
        let make = move || match world {
            World::CacheAdmission => WasmAdmissionPolicy::new(compiled, options)
                .map(|policy| Prepared::Admission(owned, Box::new(policy))),
            World::RateLimiter => WasmRatePolicy::new(compiled, options)
                .map(|policy| Prepared::Rate(owned, Box::new(policy))),
            World::ReadAdmission => WasmReadAdmissionPolicy::new(compiled, options)
                .map(|policy| Prepared::ReadAdmission(owned, Box::new(policy))),
            World::LoadShedding => WasmLoadSheddingPolicy::new(compiled, options)
                .map(|policy| Prepared::LoadShedding(owned, Box::new(policy))),
            World::Eviction => panic!("eviction policies are made elsewhere"),
        };
        let made = runtime::aside("maker of a policy's instance", make).await?;
        made.map_err(|failure| Error::Policy {
            name: name.to_owned(),
            message: failure.to_string(),
        })
    }

    async fn prepare_scalar(&self, origin: &Origin) -> Result<()> {
        let prepared = match origin {
            Origin::Native => Prepared::Native,
            Origin::Component { compiled, info } => {
                self.scalar(compiled, &info.name, &info.params).await?
            }
        };
        *self.prepared.borrow_mut() = Some(prepared);
        Ok(())
    }

    fn commit_scalar(&self, world: World) {
        let prepared = self.prepared.borrow_mut().take();
        match (prepared.expect("a commit follows a preparation"), world) {
            (Prepared::Admission(name, policy), _) => {
                self.cache.set_admission(Some((name, policy)));
            }
            (Prepared::Rate(name, policy), _) => {
                self.limiter.borrow_mut().set_policy(Some((name, policy)));
            }
            (Prepared::ReadAdmission(name, policy), _) => {
                self.intake.set_admission(Some((name, policy)));
            }
            (Prepared::LoadShedding(name, policy), _) => {
                self.intake.set_shedding(Some((name, policy)));
            }
            (Prepared::Native, World::CacheAdmission) => self.cache.set_admission(None),
            (Prepared::Native, World::ReadAdmission) => self.intake.set_admission(None),
            (Prepared::Native, World::LoadShedding) => self.intake.set_shedding(None),
            (Prepared::Native, World::RateLimiter | World::Eviction) => {
                self.limiter.borrow_mut().set_policy(None);
            }
        }
    }

    /// What policies of these worlds did on this shard.
    pub(super) fn scalar_shares(&self) -> Vec<PolicyReport> {
        let share = |name: String, world: World, failure: Option<&PolicyFailure>| PolicyReport {
            name,
            world: world.as_str().into(),
            state: if failure.is_some() { "failed" } else { "active" }.into(),
            last_failure: failure.map(PolicyFailure::to_string),
            ..PolicyReport::default()
        };
        let mut shares = Vec::new();
        if let Some(status) = self.cache.admission_status() {
            let share = share(status.name, World::CacheAdmission, status.failure.as_ref());
            let (calls, events) = (status.stats.asked, status.stats.fates);
            shares.push(PolicyReport { calls, events, ..share });
        }
        let limiter = self.limiter.borrow();
        if let Some(name) = limiter.name() {
            let share = share(name.to_owned(), World::RateLimiter, limiter.failure());
            shares.push(PolicyReport { calls: limiter.stats().asked, ..share });
        }
        let plans = [
            (self.intake.admission_status(), World::ReadAdmission),
            (self.intake.shedding_status(), World::LoadShedding),
        ];
        for (PlanStatus { name, asked, failure }, world) in plans {
            if let Some(name) = name {
                let share = share(name, world, failure.as_ref());
                shares.push(PolicyReport { calls: asked, ..share });
            }
        }
        shares
    }
}
