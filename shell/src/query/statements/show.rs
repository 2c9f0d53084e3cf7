//! SHOW: each form stands for a query on tables of `system`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as SqlStatement;

use super::OwnStatement;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse;
use crate::query::parse::statement::synthetic;
use crate::query::session::Session;

pub const KEYSPACES: &str = "SELECT schema_name AS keyspace_name FROM information_schema.schemata \
     WHERE schema_name <> 'information_schema' ORDER BY schema_name";

pub const TABLES: &str = "SELECT keyspace_name, table_name, primary_key FROM system.tables \
     ORDER BY keyspace_name, table_name";

pub const POLICIES: &str = "SELECT name, version, world, state, sample, canary, calls, hit_ratio, \
     active_hit_ratio, evictions, invalid_victims, shortfalls, last_failure FROM system.policies";

pub const POLICY_EXITS: &str = "SELECT * FROM system.policy_exits ORDER BY at, shard";

pub const CORRUPTION: &str =
    "SELECT * FROM system.corruption ORDER BY keyspace_name, table_name, file, offset";

/// Of each shard its tables, then its files, then all together.
pub const CACHE: &str = "SELECT shard, what, capacity_bytes, bytes, partitions, rows, hits, misses, \
            insertions, evictions, mispopulations, continuity FROM ( \
     SELECT shard, 0 AS place, keyspace_name || '.' || table_name AS what, \
            NULL AS capacity_bytes, bytes, partitions, rows, row_hits AS hits, \
            partition_misses + gaps_read AS misses, insertions, evictions, \
            mispopulations, continuity FROM system.row_cache \
     UNION ALL SELECT shard, 1, 'data pages', NULL, data_bytes, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL, NULL FROM system.cache \
     UNION ALL SELECT shard, 2, 'index pages', NULL, index_bytes, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL, NULL FROM system.cache \
     UNION ALL SELECT shard, 3, 'total', capacity_bytes, bytes, NULL, NULL, hits, misses, \
            NULL, evictions, NULL, NULL FROM system.cache \
     ) ORDER BY shard, place, what";

/// The row cache of each table.
pub const ROW_CACHE: &str =
    "SELECT * FROM system.row_cache ORDER BY keyspace_name, table_name, shard";

/// Those that run.
pub const COMPACTIONS: &str = "SELECT number, keyspace_name, table_name, shard, reason, \
     input_sstables, input_bytes, done_percent, bytes_per_second, seconds_left \
     FROM system.compactions WHERE is_running ORDER BY number";

/// The classes of I/O, of all shards together.
pub const IO: &str = "SELECT class, max(shares) AS shares, max(bandwidth) AS bandwidth, \
            sum(queued) AS queued, sum(in_disk) AS in_disk, round(sum(per_second)) AS per_second, \
            CASE WHEN sum(per_second) > 0 \
                 THEN round(sum(delay_us * per_second) / sum(per_second)) END AS delay_us, \
            CASE WHEN sum(per_second) > 0 \
                 THEN round(sum(execution_us * per_second) / sum(per_second)) END AS execution_us, \
            round(sum(disk_share), 3) AS disk_share, round(sum(starved_s), 3) AS starved_s \
     FROM system.io GROUP BY class, place ORDER BY place";

pub const STALLS: &str = "SELECT * FROM system.stalls ORDER BY longest_us DESC, shard";

/// A SHOW, by the query that it stands for.
#[derive(Debug)]
pub struct Show(pub &'static str);

impl Show {
    fn sql(&self) -> Result<SqlStatement> {
        parse::sql(&synthetic(self.0)?)
    }
}

#[async_trait]
impl OwnStatement for Show {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        session.query(self.sql()?, &[]).await
    }

    async fn schema(&self, session: &Session) -> Result<SchemaRef> {
        let plan = session.plan(self.sql()?).await?;
        Ok(Arc::clone(plan.schema().inner()))
    }

    fn is_query(&self) -> bool {
        true
    }
}
