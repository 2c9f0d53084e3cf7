//! SHOW: each form stands for a query on tables of `system`, but for SHOW WARNINGS.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as SqlStatement;

use super::{OwnStatement, Read};
use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::limit::Warning;
use crate::query::outcome::{Outcome, batch, text_schema};
use crate::query::parse::statement::synthetic;
use crate::query::parse::{self, Cursor};
use crate::query::session::Session;

pub const KEYSPACES: &str = "SELECT schema_name AS keyspace_name FROM information_schema.schemata \
     WHERE schema_name <> 'information_schema' ORDER BY schema_name";

pub const TABLES: &str = "SELECT keyspace_name, table_name, 'TABLE' AS type, primary_key FROM system.tables \
     UNION ALL SELECT keyspace_name, view_name, 'VIEW', '' FROM system.views \
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

pub const SERVICE_LEVELS: &str = "SELECT name, timeout_ms, workload_type, shares, running, queued, refused, killed \
     FROM system.service_levels";

pub const ROLES: &str = "SELECT role, login, superuser, has_password, roles, service_level \
     FROM system.roles ORDER BY role";

/// Reads under way, those that came first at the top.
pub const READS: &str = "SELECT number, table_name, service_level, class, state, \
     CAST(round(age_ms) AS BIGINT) AS age_ms, memory_bytes FROM system.reads ORDER BY age_ms DESC";

/// Statements that run, those that began first at the top.
pub const QUERIES: &str = "SELECT number, session, role, state, \
     CAST(round(age_ms) AS BIGINT) AS age_ms, rows, statement FROM system.queries \
     ORDER BY started_at, number";

/// Sessions, those that began first at the top.
pub const SESSIONS: &str = "SELECT number, session, role, peer, service_level, last_call_at, \
     statements, connections FROM system.sessions ORDER BY started_at, number";

/// The partitions that are asked most, of all shards.
pub const HOT_PARTITIONS: &str = "SELECT keyspace_name || '.' || table_name AS table_name, \
     partition, reads, writes, rejected FROM system.hot_partitions \
     ORDER BY reads + writes DESC, table_name, partition LIMIT 20";

/// The nodes of the cluster, and whether they answer.
pub const NODES: &str =
    "SELECT node, address, is_this, round(share, 3) AS share, answers, problem FROM system.nodes";

/// Those that run.
pub const COMPACTIONS: &str = "SELECT number, keyspace_name, table_name, shard, reason, \
     input_sstables, input_bytes, done_percent, bytes_per_second, seconds_left \
     FROM system.compactions WHERE is_running ORDER BY number";

/// One measure of all classes of I/O, as a row: five columns fit 80 characters, ten would not.
macro_rules! io_measure {
    ($place:literal, $name:literal, $value:literal) => {
        concat!(
            "SELECT ",
            $place,
            " AS place, '",
            $name,
            "' AS measure, ",
            "max(CASE class WHEN 'query' THEN ",
            $value,
            " END) AS query, ",
            "max(CASE class WHEN 'commitlog' THEN ",
            $value,
            " END) AS commitlog, ",
            "max(CASE class WHEN 'flush' THEN ",
            $value,
            " END) AS flush, ",
            "max(CASE class WHEN 'compaction' THEN ",
            $value,
            " END) AS compaction, ",
            "max(CASE class WHEN 'maintenance' THEN ",
            $value,
            " END) AS maintenance FROM io"
        )
    };
}

/// The classes of I/O, of all shards together. Means weigh each shard by its requests.
pub const IO: &str = concat!(
    "WITH io AS (SELECT class, CAST(max(shares) AS DOUBLE) AS shares, \
            CAST(max(bandwidth) AS DOUBLE) AS bandwidth, CAST(sum(queued) AS DOUBLE) AS queued, \
            CAST(sum(in_disk) AS DOUBLE) AS in_disk, sum(per_second) AS per_second, \
            sum(delay_us * per_second) / nullif(sum(per_second), 0) AS delay, \
            sum(execution_us * per_second) / nullif(sum(per_second), 0) AS execution, \
            sum(disk_share) AS disk_share, sum(starved_s) AS starved FROM system.io GROUP BY class) \
     SELECT measure, query, commitlog, flush, compaction, maintenance FROM (",
    io_measure!(1, "shares", "shares"),
    " UNION ALL ",
    io_measure!(2, "bandwidth B/s", "bandwidth"),
    " UNION ALL ",
    io_measure!(3, "queued", "queued"),
    " UNION ALL ",
    io_measure!(4, "in the disk", "in_disk"),
    " UNION ALL ",
    io_measure!(5, "requests/s", "round(per_second)"),
    " UNION ALL ",
    io_measure!(6, "delay µs", "round(delay)"),
    " UNION ALL ",
    io_measure!(7, "execution µs", "round(execution)"),
    " UNION ALL ",
    io_measure!(8, "disk-s/s", "round(disk_share, 3)"),
    " UNION ALL ",
    io_measure!(9, "starved s", "round(starved, 3)"),
    ") ORDER BY place"
);

/// What is held in memory, of all shards together; parts of a pool stand below it.
pub const MEMORY: &str = "SELECT CASE part_of WHEN 'resident' THEN '' ELSE '  ' END || pool AS pool, \
            bytes, limit_bytes, round(100.0 * bytes / limit_bytes, 1) AS percent FROM ( \
     SELECT place, pool, coalesce(part_of, 'resident') AS part_of, sum(bytes) AS bytes, \
            sum(limit_bytes) AS limit_bytes FROM system.memory GROUP BY place, pool, part_of \
     ) ORDER BY place";

/// The newest first.
pub const SLOW_QUERIES: &str = "SELECT started_at, session, duration_us, rows, rows_read, \
     disk_reads, statement FROM system.slow_queries ORDER BY number DESC";

pub const STALLS: &str = "SELECT * FROM system.stalls ORDER BY longest_us DESC, shard";

/// SHOW WARNINGS: those of the session.
#[derive(Debug)]
pub struct ShowWarnings;

impl Read for ShowWarnings {
    fn read(_cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(ShowWarnings)
    }
}

fn warnings_schema() -> SchemaRef {
    text_schema(&["statement", "warning", "count"])
}

impl OwnStatement for ShowWarnings {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let all = session.warnings.all();
        let texts = |of: fn(&Warning) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(all.iter().map(of)))
        };
        let columns = vec![
            texts(|warning| warning.shape.clone()),
            texts(|warning| warning.text.clone()),
            texts(|warning| warning.count.to_string()),
        ];
        let rows = batch(warnings_schema(), columns)?;
        Ok(Outcome::batches(warnings_schema(), vec![rows]))
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(warnings_schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}

/// A SHOW, by the query that it stands for.
#[derive(Debug)]
pub struct Show(pub &'static str);

impl Show {
    fn sql(&self) -> Result<SqlStatement> {
        parse::sql(&synthetic(self.0)?)
    }
}

impl OwnStatement for Show {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

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
