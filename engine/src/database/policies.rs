//! The public API of policies, and the reports of rate limits and admission.
//!
//! Not here: how it is done (`governance`).

use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::catalog::check_name;
use super::database::Database;
use super::report::{AdmissionReport, HotReport, RateReport, ReadReport};
use super::shard::Shard;
use crate::admission::rate::HotPartition;
use crate::admission::{LevelId, LongWait, ReadStatus};
use crate::error::{Error, Result};
use crate::governance::{
    Governance, NATIVE_RATE, PolicyExit, PolicyInfo, PolicyReport, RolledBack,
};
use crate::plugin::World;
use crate::policy::PolicyFailure;
use crate::policy::admission::WorkClass;
use crate::schema::TableId;
use crate::schema::table_schema::SchemaRef;

impl Database {
    /// Runs a change of policies after those of the catalog before it and to its end.
    fn govern<T: Send + 'static, F>(
        &self,
        change: impl FnOnce(Governance) -> F,
    ) -> BoxFuture<'static, Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.uninterrupted(change(self.inner.governance.clone()))
    }

    /// Brings back what the catalog says of the caches and of policies.
    ///
    /// Errors: `Closed`. A policy that fails is logged: the database opens all the same.
    pub(super) async fn restore_policies(&self) -> Result<()> {
        self.inner.governance.restore_direct().await;
        if let Some(bytes) = self.catalog().cache_bytes {
            self.apply_cache_bytes(bytes).await?;
        }
        self.inner.governance.restore_staged().await;
        Ok(())
    }

    fn put_in_charge(&self, world: World, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        let name = name.map(str::to_owned);
        self.govern(
            |governance| async move { governance.put_in_charge(world, name.as_deref()).await },
        )
    }

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
        let name = name.to_owned();
        self.govern(|governance| async move {
            check_name("policy", &name)?;
            governance.create(&name, component, params, sha256).await
        })
    }

    /// Forgets a policy, also one that could not be brought back or whose file is gone.
    ///
    /// Errors: `NotFound`; `Invalid` while it governs the caches.
    pub fn drop_policy(&self, name: &str, if_exists: bool) -> BoxFuture<'static, Result<()>> {
        let name = name.to_owned();
        self.govern(|governance| async move { governance.drop_policy(&name, if_exists).await })
    }

    /// A policy that was created, and the bytes of its component. Replays compile it on a host of
    /// their own: they must not take instances from the shards.
    ///
    /// Errors: `NotFound`, `Io`.
    pub fn policy_component(
        &self,
        name: &str,
    ) -> BoxFuture<'static, Result<(PolicyInfo, Vec<u8>)>> {
        let (governance, name) = (self.inner.governance.clone(), name.to_owned());
        async move { governance.component(&name).await }.boxed()
    }

    /// Puts a policy in charge of the caches of all shards, `None` the native one. Reads go on
    /// meanwhile. What it may know of the policy before, or of its own shadow, is handed over; a
    /// canary of the same policy goes on to all shards, another one ends.
    ///
    /// Errors: `NotFound`; `Policy` when an instance fails: the policy before stays in charge.
    pub fn set_cache_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::Eviction, name)
    }

    /// Puts a policy of world `cache-admission` before the caches of all shards; `None` keeps all
    /// that is read.
    ///
    /// Errors: `NotFound`; `Policy` when it is of another world or an instance fails.
    pub fn set_admission_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::CacheAdmission, name)
    }

    /// Lets a policy of world `rate-limiter` decide beyond the limits of tables; `None` the native
    /// one.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_rate_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::RateLimiter, name)
    }

    /// Lets a policy of world `read-admission` limit the reads of each shard; `None` the native
    /// limits.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_read_admission_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::ReadAdmission, name)
    }

    /// Lets a policy of world `load-shedding` refuse what is too much; `None` refuses nothing.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_load_shedding_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::LoadShedding, name)
    }

    /// Lets a policy of world `io-priority` plan the shares of classes of I/O; `None` the shares
    /// that are set.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_io_priority_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::IoPriority, name)
    }

    /// Lets a policy of world `compaction` choose which SSTables are merged; `None` the strategies
    /// of tables.
    ///
    /// Errors: as `set_admission_policy`.
    pub fn set_compaction_policy(&self, name: Option<&str>) -> BoxFuture<'static, Result<()>> {
        self.put_in_charge(World::Compaction, name)
    }

    /// Runs a policy beside the one in charge of the caches, on ids alone: it sees one key in
    /// `sample` (64 where absent; more of small caches) and evicts nothing real. `None` ends the
    /// shadow. Returns the rate at which keys are seen.
    ///
    /// Errors: `NotFound`; `Policy` when an instance fails; `Invalid` during a canary, and for a
    /// `sample` of 0.
    pub fn shadow_cache_policy(
        &self,
        name: Option<&str>,
        sample: Option<u32>,
    ) -> BoxFuture<'static, Result<u32>> {
        let name = name.map(str::to_owned);
        self.govern(|governance| async move { governance.shadow(name.as_deref(), sample).await })
    }

    /// Puts a policy in charge on one shard in eight, at least one, and compares it there with the
    /// policy before: a gain of half a point over ten windows lets it go on to all shards; five
    /// windows in a row that are worse by two points, a failure, or sixty windows without a gain
    /// roll it back. Returns the number of shards it begins on.
    ///
    /// Errors: `NotFound`; `Invalid` for the policy that is in charge; `Policy` when an instance
    /// fails: the policy before stays in charge.
    pub fn canary_cache_policy(&self, name: &str) -> BoxFuture<'static, Result<u32>> {
        let name = name.to_owned();
        self.govern(|governance| async move { governance.canary(&name).await })
    }

    /// Brings back the policy that was in charge of the caches before the last change; a canary
    /// ends. Within a minute of the change its instances are still there and up to date: then it is
    /// one exchange at a batch boundary. A second rollback goes forward again.
    ///
    /// Errors: `Invalid` when there was none before; `Policy` when a new instance fails: the
    /// present policy stays in charge.
    pub fn roll_back_cache_policy(&self) -> BoxFuture<'static, Result<RolledBack>> {
        self.govern(|governance| async move { governance.roll_back().await })
    }

    /// The native policy and all that were created, with what they did while in charge.
    ///
    /// Errors: `Closed`.
    pub fn policies(&self) -> BoxFuture<'_, Result<Vec<PolicyReport>>> {
        self.inner.governance.policies().boxed()
    }

    /// A policy with its own figures, each with the number of the shard.
    ///
    /// Errors: `NotFound`, `Closed`.
    pub fn explain_policy(&self, name: &str) -> BoxFuture<'_, Result<PolicyReport>> {
        let name = name.to_owned();
        async move { self.inner.governance.explain(&name).await }.boxed()
    }

    /// Policies that left a shard by a failure, oldest first: the last sixteen of each shard.
    ///
    /// Errors: `Closed`.
    pub fn policy_exits(&self) -> BoxFuture<'_, Result<Vec<PolicyExit>>> {
        self.inner.governance.exits().boxed()
    }

    /// What enters each shard: one row a class of requests.
    ///
    /// Errors: `Closed`.
    pub fn admission_report(&self) -> BoxFuture<'_, Result<Vec<AdmissionReport>>> {
        async move {
            let mut reports = Vec::new();
            let of_shard = |shard: &Shard| {
                let admission = &shard.admission;
                [WorkClass::Keys, WorkClass::Scan, WorkClass::Write]
                    .map(|class| (class.as_str(), admission.status(class)))
            };
            let all = self.of_shards("admission report", of_shard).await?;
            for (shard, classes) in (0..).zip(all) {
                let rows = classes.map(|(class, status)| AdmissionReport { shard, class, status });
                reports.extend(rows);
            }
            Ok(reports)
        }
        .boxed()
    }

    /// The last reads of each shard that waited long for their turn, with their shard.
    ///
    /// Errors: `Closed`.
    pub fn long_waits(&self) -> BoxFuture<'_, Result<Vec<(u32, LongWait)>>> {
        async move {
            let all = self.of_shards("long waits", |shard| shard.admission.long_waits()).await?;
            let of_shard = |(shard, waits): (u32, Vec<LongWait>)| {
                waits.into_iter().map(move |wait| (shard, wait))
            };
            Ok((0..).zip(all).flat_map(of_shard).collect())
        }
        .boxed()
    }

    /// The partitions that were asked most of late, those with most operations first; those of
    /// dropped tables are left out.
    ///
    /// Errors: `Closed`.
    pub fn hot_partitions(&self) -> BoxFuture<'_, Result<Vec<HotReport>>> {
        async move {
            let catalog = self.catalog();
            let tables: BTreeMap<TableId, &SchemaRef> =
                catalog.all_tables().map(|schema| (schema.id, schema)).collect();
            let all = self
                .of_shards("hot partitions", |shard| {
                    shard.take_refused();
                    shard.hot.borrow().all()
                })
                .await?;
            let of_shard = |(shard, hot): (u32, Vec<HotPartition>)| {
                let report = |hot: HotPartition| {
                    let schema = SchemaRef::clone(tables.get(&hot.table)?);
                    Some(HotReport { shard, schema, hot })
                };
                hot.into_iter().filter_map(report).collect::<Vec<_>>()
            };
            let mut reports: Vec<HotReport> = (0..).zip(all).flat_map(of_shard).collect();
            reports.sort_by_key(|report| std::cmp::Reverse(report.hot.reads + report.hot.writes));
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
            let of_shard = |shard: &Shard| {
                shard.take_refused();
                let limiter = shard.limiter.borrow();
                let policy = match limiter.name() {
                    Some(name) if limiter.failure().is_none() => name.to_owned(),
                    _ => NATIVE_RATE.to_owned(),
                };
                let failure = limiter.failure().map(PolicyFailure::to_string);
                (limiter.stats(), policy, failure)
            };
            let all = self.of_shards("rate report", of_shard).await?;
            for (shard, (stats, policy, last_failure)) in (0..).zip(all) {
                reports.push(RateReport {
                    shard,
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

    /// The reads under way on all shards, in the order in which they came. Reads of single rows are
    /// not among them.
    ///
    /// Errors: `Closed`.
    pub async fn reads_report(&self) -> Result<Vec<ReadReport>> {
        let (catalog, count) = (self.catalog(), u64::from(self.shard_count()));
        let name = |level: LevelId| {
            let found = catalog.service_levels().find(|(_, known)| known.id == level);
            found.map_or_else(|| "dropped".to_owned(), |(name, _)| name.to_owned())
        };
        let all = self.of_shards("reads", |shard| shard.admission.reads()).await?;
        let mut reports = Vec::new();
        for (shard, reads) in (0..).zip(all) {
            let report = |read: ReadStatus| ReadReport {
                number: read.number * count + u64::from(shard),
                shard,
                service_level: name(read.level),
                status: read,
            };
            reports.extend(reads.into_iter().map(report));
        }
        reports.sort_by_key(|report| std::cmp::Reverse(report.status.age_us));
        Ok(reports)
    }

    /// Ends a read, by its number among [`reads_report`](Self::reads_report). Its client gets
    /// `Unavailable`, and others get its turn and its memory.
    ///
    /// Errors: `NotFound` for a read that is over; `Closed`.
    pub async fn kill_read(&self, number: u64) -> Result<()> {
        let count = u64::from(self.shard_count());
        let kill =
            move |shard: Rc<Shard>| ready(shard.admission.kill(number / count)).boxed_local();
        // Less than the number of shards, which is one.
        let shard = u32::try_from(number % count).unwrap_or(0);
        match self.handle(shard).call("kill read", kill).await? {
            true => Ok(()),
            false => Err(Error::NotFound { kind: "read", name: number.to_string() }),
        }
    }
}
