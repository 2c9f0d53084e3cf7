//! The caches of a database: size, contents, counters, invalidation and inspection; also the length
//! of its commitlogs and the sizes of its tables.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::database::Database;
use super::report::{CacheReport, CommitlogReport, RowCacheReport, TableReport};
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::runtime::{self, Stall};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{PartitionKey, TableId};
use crate::table::{FragmentReport, Table};

/// Gaps that one report of a cache looks at.
const CONTINUITY_GAPS_MAX: usize = 4096;

impl Database {
    /// Sets the capacity of the page cache of each shard.
    ///
    /// Errors: `Invalid` below 64 KiB, `Io`.
    pub fn set_cache_bytes(&self, bytes_per_shard: usize) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let change = async move {
            if bytes_per_shard < 64 << 10 {
                return Err(Error::invalid("the cache of a shard needs at least 64 KiB"));
            }
            let mut changed = database.catalog().changed();
            changed.cache_bytes = Some(bytes_per_shard);
            database.publish(changed).await?;
            database.apply_cache_bytes(bytes_per_shard).await
        };
        self.uninterrupted(change)
    }

    pub(super) async fn apply_cache_bytes(&self, bytes: usize) -> Result<()> {
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

    /// The cache of each shard.
    ///
    /// Errors: `Closed`.
    pub fn cache_report(&self) -> BoxFuture<'_, Result<Vec<CacheReport>>> {
        async move {
            let mut reports = Vec::new();
            let all = self.of_shards("cache report", |shard| shard.cache.stats()).await?;
            for (shard, stats) in (0..).zip(all) {
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
                    shard,
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

    /// The row caches: one row a table and shard, by name.
    ///
    /// Errors: `Closed`.
    pub fn row_cache_report(&self) -> BoxFuture<'_, Result<Vec<RowCacheReport>>> {
        async move {
            let of_shard = |shard: &Shard| {
                let number = shard.context.shard;
                let tables = shard.tables();
                tables.iter().map(|table| report(number, table)).collect::<Vec<_>>()
            };
            let all = self.of_shards("row cache report", of_shard).await?;
            let mut reports: Vec<RowCacheReport> = all.into_iter().flatten().collect();
            reports.sort_by(|a, b| {
                (&a.keyspace, &a.table, a.shard).cmp(&(&b.keyspace, &b.table, b.shard))
            });
            Ok(reports)
        }
        .boxed()
    }

    /// The commitlog of each shard.
    ///
    /// Errors: `Closed`.
    pub fn commitlog_report(&self) -> BoxFuture<'_, Result<Vec<CommitlogReport>>> {
        self.of_shards("commitlog", Shard::commitlog_report).boxed()
    }

    /// Sizes of every table on every shard.
    ///
    /// Errors: `Closed`.
    pub fn table_report(&self) -> BoxFuture<'_, Result<Vec<TableReport>>> {
        async move {
            let mut rows = Vec::new();
            let catalog = self.catalog();
            let schemas: BTreeMap<TableId, &SchemaRef> =
                catalog.all_tables().map(|schema| (schema.id, schema)).collect();
            let told = self.of_shards("table report", Shard::report_tables).await?;
            for (number, report) in (0..).zip(told) {
                for (id, stats, problem) in report {
                    // What is gone meanwhile, or not there yet, is left out.
                    rows.extend(schemas.get(&id).map(|schema| TableReport {
                        keyspace: schema.keyspace.clone(),
                        table: schema.name.clone(),
                        shard: number,
                        memtable_rows: stats.memtable_rows,
                        memtable_bytes: stats.memtable_bytes,
                        sstables: stats.sstables,
                        sstable_bytes: stats.sstable_bytes,
                        sstable_rows: stats.sstable_rows,
                        problem,
                    }));
                }
            }
            let key = |row: &TableReport| (row.keyspace.clone(), row.table.clone(), row.shard);
            rows.sort_by_cached_key(key);
            Ok(rows)
        }
        .boxed()
    }

    /// Forgets the cached rows of one table, or of all; pages of files stay. Reads that run go on.
    ///
    /// Errors: `NotFound`, `Closed`.
    pub fn invalidate_cache(&self, table: Option<TableId>) -> BoxFuture<'_, Result<()>> {
        async move {
            let calls = self.inner.shards.iter().map(|shard| async move {
                let invalidate = move |shard: Rc<Shard>| {
                    async move {
                        let tables = match table {
                            Some(id) => vec![shard.table(id)?],
                            None => shard.tables(),
                        };
                        for table in tables {
                            table.rows().invalidate();
                            table.free_rows().await;
                        }
                        Ok::<_, Error>(())
                    }
                    .boxed_local()
                };
                shard.call("invalidate cache", invalidate).await?
            });
            join_all(calls).await.into_iter().collect()
        }
        .boxed()
    }

    /// Polls of tasks that held a shard's thread longer than the task quota, with the shard's
    /// number.
    pub fn stalls(&self) -> Vec<(u32, Stall)> {
        let shards = (0..).zip(&self.inner.shards);
        shards
            .flat_map(|(number, shard)| {
                shard.stats().stalls().into_iter().map(move |stall| (number, stall))
            })
            .collect()
    }

    /// What each source of a table holds of a partition, up to `max` parts of each, and the shard
    /// that owns it.
    ///
    /// Errors: `NotFound`, `Io`, `Corrupt`, `Closed`.
    pub fn fragments(
        &self,
        table: TableId,
        key: PartitionKey,
        max: usize,
    ) -> BoxFuture<'_, Result<(u32, Vec<FragmentReport>)>> {
        async move {
            let number = self.shard_of(&key);
            let look = move |shard: Rc<Shard>| {
                async move { shard.table(table)?.fragments(&key, max).await }.boxed_local()
            };
            let parts = self.handle(number).call("fragments", look).await??;
            Ok((number, parts))
        }
        .boxed()
    }
}

fn report(shard: u32, table: &Table) -> RowCacheReport {
    let (schema, rows) = (table.schema(), table.rows());
    RowCacheReport {
        keyspace: schema.keyspace.clone(),
        table: schema.name.clone(),
        shard,
        stats: rows.stats(),
        continuity: rows.continuity(CONTINUITY_GAPS_MAX),
    }
}
