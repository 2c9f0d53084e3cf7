//! The tables of keyspace `system`: what the engine knows about itself, made when it is read.

use std::panic::Location;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, StringArray, TimestampMicrosecondArray, UInt32Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::Expr;
use tidegate_engine::admission::ClassStatus;
use tidegate_engine::cache::RowCacheStats;
use tidegate_engine::policy::event::describe;
use tidegate_engine::runtime::{Stall, Stretch};
use tidegate_engine::{
    ClusteringOrder, ColumnKind, CommitlogReport, Error as EngineError, PolicyReport,
};

use super::access::Access;
use super::columns::{count, counts, moment, optional, shard, text, texts};
use super::compaction;
use super::files::{Large, corruption, corruption_fields};
use super::under_way::UnderWay;
use super::{fragments, hot, io, levels, memory, views, watch};
use crate::query::distributed::nodes;
use crate::query::engine::Engine;
use crate::query::roster::Member;

/// The tables of `system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemTable {
    Tables,
    Views,
    Columns,
    Policies,
    PolicyExits,
    Cache,
    RowCache,
    Metrics,
    Fragments,
    RateLimits,
    Large(Large),
    Corruption,
    Admission,
    Stalls,
    Sstables,
    Compactions,
    Io,
    Memory,
    ServiceLevels,
    Traces,
    SlowQueries,
    LongWaits,
    UnderWay(UnderWay),
    HotPartitions,
    Nodes,
    Access(Access),
}

impl SystemTable {
    pub const ALL: [SystemTable; 33] = [
        SystemTable::Tables,
        SystemTable::Views,
        SystemTable::Columns,
        SystemTable::Policies,
        SystemTable::PolicyExits,
        SystemTable::Cache,
        SystemTable::RowCache,
        SystemTable::Metrics,
        SystemTable::Fragments,
        SystemTable::RateLimits,
        SystemTable::Large(Large::Partitions),
        SystemTable::Large(Large::Rows),
        SystemTable::Large(Large::Cells),
        SystemTable::Corruption,
        SystemTable::Admission,
        SystemTable::Stalls,
        SystemTable::Sstables,
        SystemTable::Compactions,
        SystemTable::Io,
        SystemTable::Memory,
        SystemTable::ServiceLevels,
        SystemTable::Traces,
        SystemTable::SlowQueries,
        SystemTable::LongWaits,
        SystemTable::UnderWay(UnderWay::Reads),
        SystemTable::UnderWay(UnderWay::Queries),
        SystemTable::UnderWay(UnderWay::Sessions),
        SystemTable::HotPartitions,
        SystemTable::Nodes,
        SystemTable::Access(Access::Roles),
        SystemTable::Access(Access::Permissions),
        SystemTable::Access(Access::Tokens),
        SystemTable::Access(Access::Audit),
    ];

    pub fn name(self) -> &'static str {
        match self {
            SystemTable::Tables => "tables",
            SystemTable::Views => "views",
            SystemTable::Columns => "columns",
            SystemTable::Policies => "policies",
            SystemTable::PolicyExits => "policy_exits",
            SystemTable::Cache => "cache",
            SystemTable::RowCache => "row_cache",
            SystemTable::Metrics => "metrics",
            SystemTable::Fragments => "fragments",
            SystemTable::RateLimits => "rate_limits",
            SystemTable::Large(Large::Partitions) => "large_partitions",
            SystemTable::Large(Large::Rows) => "large_rows",
            SystemTable::Large(Large::Cells) => "large_cells",
            SystemTable::Corruption => "corruption",
            SystemTable::Admission => "admission",
            SystemTable::Stalls => "stalls",
            SystemTable::Sstables => "sstables",
            SystemTable::Compactions => "compactions",
            SystemTable::Io => "io",
            SystemTable::Memory => "memory",
            SystemTable::ServiceLevels => "service_levels",
            SystemTable::Traces => "traces",
            SystemTable::SlowQueries => "slow_queries",
            SystemTable::LongWaits => "long_waits",
            SystemTable::UnderWay(what) => what.name(),
            SystemTable::HotPartitions => "hot_partitions",
            SystemTable::Nodes => "nodes",
            SystemTable::Access(what) => what.name(),
        }
    }

    pub fn schema(self) -> SchemaRef {
        let fields = match self {
            SystemTable::Large(what) => what.fields(),
            SystemTable::Corruption => corruption_fields(),
            SystemTable::Tables => table_fields(),
            SystemTable::Views => views::fields(),
            SystemTable::Columns => column_fields(),
            SystemTable::Policies => policy_fields(),
            SystemTable::PolicyExits => policy_exit_fields(),
            SystemTable::Cache => cache_fields(),
            SystemTable::RowCache => row_cache_fields(),
            SystemTable::Metrics => metric_fields(),
            SystemTable::Fragments => fragments::fields(),
            SystemTable::RateLimits => rate_limit_fields(),
            SystemTable::Admission => admission_fields(),
            SystemTable::Stalls => stall_fields(),
            SystemTable::Sstables => compaction::sstable_fields(),
            SystemTable::Compactions => compaction::compaction_fields(),
            SystemTable::Io => io::fields(),
            SystemTable::Memory => memory::fields(),
            SystemTable::ServiceLevels => levels::fields(),
            SystemTable::Traces => watch::trace_fields(),
            SystemTable::SlowQueries => watch::slow_fields(),
            SystemTable::LongWaits => watch::wait_fields(),
            SystemTable::UnderWay(what) => what.fields(),
            SystemTable::HotPartitions => hot::fields(),
            SystemTable::Nodes => nodes::fields(),
            SystemTable::Access(what) => what.fields(),
        };
        Arc::new(Schema::new(fields))
    }

    pub async fn columns(
        self,
        database: &Engine,
        (filters, queries, viewer): (&[Expr], &Arc<dyn MemoryPool>, Option<&Member>),
    ) -> Result<Vec<ArrayRef>, EngineError> {
        match self {
            SystemTable::Tables => tables(database).await,
            SystemTable::Views => Ok(views::columns(database)),
            SystemTable::Columns => Ok(columns(database)),
            SystemTable::Policies => policies(database).await,
            SystemTable::PolicyExits => policy_exits(database).await,
            SystemTable::Cache => cache(database).await,
            SystemTable::RowCache => row_cache(database).await,
            SystemTable::Metrics => metrics(database).await,
            SystemTable::Fragments => fragments::columns(database, filters).await,
            SystemTable::RateLimits => rate_limits(database).await,
            SystemTable::Large(what) => what.columns(database).await,
            SystemTable::Corruption => corruption(database).await,
            SystemTable::Admission => admission(database).await,
            SystemTable::Stalls => Ok(stalls(database)),
            SystemTable::Sstables => compaction::sstables(database).await,
            SystemTable::Compactions => compaction::compactions(database).await,
            SystemTable::Io => io::columns(database).await,
            SystemTable::Memory => memory::columns(database, queries).await,
            SystemTable::ServiceLevels => levels::columns(database).await,
            SystemTable::UnderWay(what) => what.columns(database, viewer).await,
            SystemTable::HotPartitions => hot::columns(database).await,
            SystemTable::Nodes => nodes::columns(database).await,
            SystemTable::Traces => Ok(watch::traces(database)),
            SystemTable::SlowQueries => Ok(watch::slow_queries(database)),
            SystemTable::LongWaits => watch::long_waits(database).await,
            SystemTable::Access(what) => Ok(what.columns(database)),
        }
    }
}

fn table_fields() -> Vec<Field> {
    vec![
        text("keyspace_name"),
        text("table_name"),
        text("primary_key"),
        count("memtable_rows"),
        count("memtable_bytes"),
        count("sstables"),
        count("sstable_rows"),
        count("sstable_bytes"),
        text("comment"),
        optional("problem", DataType::Utf8),
    ]
}

async fn tables(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let reports = database.table_report().await?;
    let catalog = database.catalog();
    let tables: Vec<_> = catalog.all_tables().collect();
    let sum = |size: fn(&tidegate_engine::TableReport) -> u64| -> ArrayRef {
        counts(tables.iter().map(|table| {
            reports
                .iter()
                .filter(|report| report.keyspace == table.keyspace && report.table == table.name)
                .map(size)
                .sum::<u64>()
        }))
    };
    Ok(vec![
        texts(tables.iter().map(|table| table.keyspace.as_str())),
        texts(tables.iter().map(|table| table.name.as_str())),
        texts(tables.iter().map(|table| primary_key(table))),
        sum(|report| report.memtable_rows),
        sum(|report| report.memtable_bytes),
        sum(|report| report.sstables),
        sum(|report| report.sstable_rows),
        sum(|report| report.sstable_bytes),
        texts(tables.iter().map(|table| table.options.comment.as_str())),
        Arc::new(tables.iter().map(|table| problem(&reports, table)).collect::<StringArray>()),
    ])
}

/// What is wrong with a table, with the first shard that says so.
fn problem(
    reports: &[tidegate_engine::TableReport],
    table: &tidegate_engine::TableSchema,
) -> Option<String> {
    let of_table = |report: &&tidegate_engine::TableReport| {
        report.keyspace == table.keyspace && report.table == table.name
    };
    reports.iter().filter(of_table).find_map(|report| {
        let problem = report.problem.as_ref()?;
        Some(format!("shard {}: {problem}", report.shard))
    })
}

/// `((a, b), c)`
fn primary_key(table: &tidegate_engine::TableSchema) -> String {
    let partition: Vec<&str> = table.partition_key().map(|column| column.name.as_str()).collect();
    let mut parts = vec![format!("({})", partition.join(", "))];
    parts.extend(table.clustering_key().map(|column| column.name.clone()));
    format!("({})", parts.join(", "))
}

fn column_fields() -> Vec<Field> {
    vec![
        text("keyspace_name"),
        text("table_name"),
        text("column_name"),
        Field::new("position", DataType::UInt32, false),
        text("type"),
        text("kind"),
        optional("clustering_order", DataType::Utf8),
    ]
}

fn columns(database: &Engine) -> Vec<ArrayRef> {
    let catalog = database.catalog();
    let all: Vec<_> = catalog
        .all_tables()
        .flat_map(|table| {
            table.present_columns().enumerate().map(move |(place, column)| (table, place, column))
        })
        .collect();
    let order = |kind: &ColumnKind| match kind {
        ColumnKind::ClusteringKey { order: ClusteringOrder::Ascending, .. } => Some("asc"),
        ColumnKind::ClusteringKey { order: ClusteringOrder::Descending, .. } => Some("desc"),
        _ => None,
    };
    let kind = |kind: &ColumnKind| match kind {
        ColumnKind::PartitionKey { .. } => "partition_key",
        ColumnKind::ClusteringKey { .. } => "clustering_key",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
        ColumnKind::Dropped { .. } => "dropped",
    };
    vec![
        texts(all.iter().map(|(table, ..)| table.keyspace.as_str())),
        texts(all.iter().map(|(table, ..)| table.name.as_str())),
        texts(all.iter().map(|(.., column)| column.name.as_str())),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|(_, place, _)| *place as u32))),
        texts(all.iter().map(|(.., column)| column.ty.sql_name())),
        texts(all.iter().map(|(.., column)| kind(&column.kind))),
        Arc::new(all.iter().map(|(.., column)| order(&column.kind)).collect::<StringArray>()),
    ]
}

/// Ratios with the digits that people read.
fn ratios(values: impl IntoIterator<Item = Option<f64>>) -> ArrayRef {
    let values = values.into_iter().map(|ratio| ratio.map(rounded));
    Arc::new(values.collect::<Float64Array>())
}

fn policy_fields() -> Vec<Field> {
    vec![
        text("name"),
        text("version"),
        text("world"),
        text("state"),
        text("digest"),
        count("calls"),
        count("events"),
        count("hits"),
        count("misses"),
        optional("hit_ratio", DataType::Float64),
        optional("byte_hit_ratio", DataType::Float64),
        optional("active_hit_ratio", DataType::Float64),
        optional("sample", DataType::Utf8),
        optional("canary", DataType::Utf8),
        count("evictions"),
        count("invalid_victims"),
        count("shortfalls"),
        optional("last_failure", DataType::Utf8),
    ]
}

async fn policies(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.policies().await?;
    let shadow = |policy: &PolicyReport| policy.shadow.clone().filter(|_| policy.state == "shadow");
    Ok(vec![
        texts(all.iter().map(|policy| policy.name.as_str())),
        texts(all.iter().map(|policy| policy.version.as_str())),
        texts(all.iter().map(|policy| policy.world.as_str())),
        texts(all.iter().map(|policy| policy.state.as_str())),
        texts(all.iter().map(|policy| policy.digest.as_str())),
        counts(all.iter().map(|policy| policy.calls)),
        counts(all.iter().map(|policy| policy.events)),
        counts(all.iter().map(|policy| policy.judged().hits)),
        counts(all.iter().map(|policy| policy.judged().misses)),
        ratios(all.iter().map(|policy| policy.judged().hit_ratio())),
        ratios(all.iter().map(|policy| policy.judged().byte_hit_ratio())),
        ratios(all.iter().map(|policy| shadow(policy)?.active.hit_ratio())),
        Arc::new(
            all.iter()
                .map(|policy| Some(format!("1/{}", shadow(policy)?.rate)))
                .collect::<StringArray>(),
        ),
        Arc::new(all.iter().map(PolicyReport::trial_text).collect::<StringArray>()),
        counts(all.iter().map(|policy| policy.evictions)),
        counts(all.iter().map(|policy| policy.invalid_victims)),
        counts(all.iter().map(|policy| policy.shortfalls)),
        Arc::new(all.iter().map(|policy| policy.last_failure.as_deref()).collect::<StringArray>()),
    ])
}

fn policy_exit_fields() -> Vec<Field> {
    vec![
        text("policy"),
        text("version"),
        text("digest"),
        shard(),
        Field::new("at", moment(), false),
        text("role"),
        text("kind"),
        text("message"),
        count("calls"),
        count("events"),
        count("victims"),
        count("invalid_victims"),
        count("shortfalls"),
        text("backtrace"),
        text("last_events"),
    ]
}

async fn policy_exits(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.policy_exits().await?;
    let events = |words: &[u64]| words.iter().copied().map(describe).collect::<Vec<_>>().join(", ");
    Ok(vec![
        texts(all.iter().map(|exit| exit.policy.as_str())),
        texts(all.iter().map(|exit| exit.version.as_str())),
        texts(all.iter().map(|exit| exit.digest.as_str())),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|exit| exit.shard))),
        Arc::new(
            TimestampMicrosecondArray::from_iter_values(all.iter().map(|exit| exit.at_us))
                .with_timezone("UTC"),
        ),
        texts(all.iter().map(|exit| exit.role)),
        texts(all.iter().map(|exit| exit.kind)),
        texts(all.iter().map(|exit| exit.message.as_str())),
        counts(all.iter().map(|exit| exit.calls)),
        counts(all.iter().map(|exit| exit.events)),
        counts(all.iter().map(|exit| exit.victims)),
        counts(all.iter().map(|exit| exit.invalid_victims)),
        counts(all.iter().map(|exit| exit.shortfalls)),
        texts(all.iter().map(|exit| exit.backtrace.join("; "))),
        texts(all.iter().map(|exit| events(&exit.last_events))),
    ])
}

fn cache_fields() -> Vec<Field> {
    vec![
        shard(),
        count("capacity_bytes"),
        count("bytes"),
        count("pages"),
        count("entries"),
        count("row_bytes"),
        count("index_bytes"),
        count("data_bytes"),
        count("hits"),
        count("misses"),
        optional("hit_ratio", DataType::Float64),
        count("evictions"),
        count("refused"),
    ]
}

async fn cache(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.cache_report().await?;
    let ratio =
        |hits: u64, misses: u64| (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64);
    Ok(vec![
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|cache| cache.shard))),
        counts(all.iter().map(|cache| cache.capacity_bytes)),
        counts(all.iter().map(|cache| cache.bytes)),
        counts(all.iter().map(|cache| cache.pages)),
        counts(all.iter().map(|cache| cache.entries)),
        counts(all.iter().map(|cache| cache.row_bytes)),
        counts(all.iter().map(|cache| cache.index_bytes)),
        counts(all.iter().map(|cache| cache.data_bytes)),
        counts(all.iter().map(|cache| cache.hits)),
        counts(all.iter().map(|cache| cache.misses)),
        Arc::new(
            all.iter()
                .map(|cache| ratio(cache.hits, cache.misses).map(rounded))
                .collect::<Float64Array>(),
        ),
        counts(all.iter().map(|cache| cache.evictions)),
        counts(all.iter().map(|cache| cache.refused)),
    ])
}

type CountOf = fn(&RowCacheStats) -> u64;

/// Names and counts of the row caches, in the order of the columns.
const ROW_CACHE_COUNTS: [(&str, CountOf); 15] = [
    ("partitions", |stats| stats.partitions),
    ("rows", |stats| stats.rows),
    ("dummies", |stats| stats.dummies),
    ("bytes", |stats| stats.bytes),
    ("reads", |stats| stats.reads),
    ("partition_hits", |stats| stats.partition_hits),
    ("partition_misses", |stats| stats.partition_misses),
    ("row_hits", |stats| stats.row_hits),
    ("gaps_read", |stats| stats.gaps_read),
    ("insertions", |stats| stats.insertions),
    ("rows_merged", |stats| stats.rows_merged),
    ("rows_dropped", |stats| stats.rows_dropped),
    ("evictions", |stats| stats.evictions),
    ("partition_evictions", |stats| stats.partition_evictions),
    ("mispopulations", |stats| stats.mispopulations),
];

fn row_cache_fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let mut fields = vec![text("keyspace_name"), text("table_name"), shard()];
    let counts = ROW_CACHE_COUNTS.iter();
    fields.extend(counts.map(|(name, _)| Field::new(*name, DataType::UInt64, false)));
    fields.push(Field::new("continuity", DataType::Float64, true));
    fields
}

async fn row_cache(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.row_cache_report().await?;
    let mut columns = vec![
        texts(all.iter().map(|cache| cache.keyspace.as_str())),
        texts(all.iter().map(|cache| cache.table.as_str())),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|cache| cache.shard))) as ArrayRef,
    ];
    let of = |count: CountOf| counts(all.iter().map(|cache| count(&cache.stats)));
    columns.extend(ROW_CACHE_COUNTS.iter().map(|(_, count)| of(*count)));
    let share = |(known, seen): (u64, u64)| (seen > 0).then(|| known as f64 / seen as f64);
    let continuity = all.iter().map(|cache| share(cache.continuity).map(rounded));
    columns.push(Arc::new(continuity.collect::<Float64Array>()));
    Ok(columns)
}

/// Name, shard, keyspace and table (where it is one table's), value.
type Metric<'a> = (String, u32, Option<(&'a str, &'a str)>, f64);

fn metric_fields() -> Vec<Field> {
    vec![
        text("name"),
        shard(),
        optional("keyspace_name", DataType::Utf8),
        optional("table_name", DataType::Utf8),
        Field::new("value", DataType::Float64, false),
    ]
}

fn log_figures(log: &CommitlogReport) -> [(&'static str, u64); 4] {
    [
        ("commitlog_bytes", log.bytes),
        ("commitlog_limit_bytes", log.limit_bytes),
        ("commitlog_slowed_writes", log.slowed),
        ("commitlog_stopped_writes", log.stopped),
    ]
}

/// What is counted of the caches and stalls, a figure a row: those of a shard, and of its tables.
async fn metrics(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let (caches, rows) = (database.cache_report().await?, database.row_cache_report().await?);
    let mut all: Vec<Metric<'_>> = Vec::new();
    for cache in &caches {
        let figures = [
            ("capacity_bytes", cache.capacity_bytes),
            ("bytes", cache.bytes),
            ("row_bytes", cache.row_bytes),
            ("index_bytes", cache.index_bytes),
            ("data_bytes", cache.data_bytes),
            ("pages", cache.pages),
            ("entries", cache.entries),
            ("hits", cache.hits),
            ("misses", cache.misses),
            ("evictions", cache.evictions),
            ("refused", cache.refused),
        ];
        let named =
            figures.map(|(name, value)| (format!("cache_{name}"), cache.shard, None, value as f64));
        all.extend(named);
    }
    for cache in &rows {
        let table = Some((cache.keyspace.as_str(), cache.table.as_str()));
        let named = ROW_CACHE_COUNTS.iter().map(|(name, count)| {
            (format!("row_cache_{name}"), cache.shard, table, count(&cache.stats) as f64)
        });
        all.extend(named);
        let (known, seen) = cache.continuity;
        if seen > 0 {
            let share = known as f64 / seen as f64;
            all.push(("row_cache_continuity".to_owned(), cache.shard, table, share));
        }
    }
    let logs = database.commitlog_report().await?;
    for log in &logs {
        all.extend(
            log_figures(log).map(|(name, value)| (name.to_owned(), log.shard, None, value as f64)),
        );
        if let Some((keyspace, table)) = &log.oldest_pin {
            let table = Some((keyspace.as_str(), table.as_str()));
            all.push(("commitlog_pins_oldest".to_owned(), log.shard, table, 1.0));
        }
    }
    for (shard, bytes) in (0..).zip(database.compaction_backlog().await?) {
        all.push(("compaction_backlog_bytes".to_owned(), shard, None, bytes as f64));
    }
    let stalls = database.stalls();
    for cache in &caches {
        let (count, longest_ns) = stalls_of(&stalls, cache.shard);
        all.push(("stalls".to_owned(), cache.shard, None, count as f64));
        all.push(("stall_longest_us".to_owned(), cache.shard, None, (longest_ns / 1000) as f64));
    }
    let table = |at: fn((&str, &str)) -> String| {
        let names = all.iter().map(|(_, _, table, _)| table.map(at));
        Arc::new(names.collect::<StringArray>()) as ArrayRef
    };
    Ok(vec![
        texts(all.iter().map(|(name, ..)| name.as_str())),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|(_, shard, ..)| *shard))),
        table(|(keyspace, _)| keyspace.to_owned()),
        table(|(_, table)| table.to_owned()),
        Arc::new(Float64Array::from_iter_values(all.iter().map(|(.., value)| *value))),
    ])
}

/// How many stalls a shard had, and the nanoseconds of its longest one.
fn stalls_of(stalls: &[(u32, Stall)], shard: u32) -> (u64, u64) {
    let own = stalls.iter().filter(|(of, _)| *of == shard).map(|(_, stall)| stall);
    own.fold((0, 0), |(count, most), stall| (count + stall.count, most.max(stall.longest_ns)))
}

fn rate_limit_fields() -> Vec<Field> {
    vec![
        shard(),
        text("policy"),
        count("reads"),
        count("reads_refused"),
        count("writes"),
        count("writes_refused"),
        count("asked"),
        count("not_counted"),
        optional("last_failure", DataType::Utf8),
    ]
}

async fn rate_limits(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.rate_report().await?;
    Ok(vec![
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|limiter| limiter.shard))),
        texts(all.iter().map(|limiter| limiter.policy.as_str())),
        counts(all.iter().map(|limiter| limiter.reads)),
        counts(all.iter().map(|limiter| limiter.reads_refused)),
        counts(all.iter().map(|limiter| limiter.writes)),
        counts(all.iter().map(|limiter| limiter.writes_refused)),
        counts(all.iter().map(|limiter| limiter.asked)),
        counts(all.iter().map(|limiter| limiter.not_counted)),
        Arc::new(
            all.iter().map(|limiter| limiter.last_failure.as_deref()).collect::<StringArray>(),
        ),
    ])
}

type AdmissionCount = fn(&ClassStatus) -> u64;

const ADMISSION_COUNTS: [(&str, AdmissionCount); 16] = [
    ("running", |class| class.running.into()),
    ("queued", |class| class.queued.into()),
    ("aside", |class| class.aside.into()),
    ("memory_bytes", |class| class.memory_bytes),
    ("running_max", |class| class.running_max.into()),
    ("memory_bytes_max", |class| class.memory_bytes_max),
    ("queued_max", |class| class.queued_max.into()),
    ("wait_us_max", |class| class.wait_us_max),
    ("shed_per_mille", |class| class.shedding.per_mille.into()),
    ("shed_wait_ms", |class| class.shedding.wait_ms_max.into()),
    ("arrived", |class| class.arrived),
    ("admitted", |class| class.admitted),
    ("refused", |class| class.refused),
    ("shed", |class| class.shed),
    ("p50_us", |class| class.p50_us),
    ("p99_us", |class| class.p99_us),
];

fn admission_fields() -> Vec<Field> {
    let mut fields = vec![shard(), text("class")];
    fields.extend(ADMISSION_COUNTS.iter().map(|(name, _)| count(name)));
    fields
}

async fn admission(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.admission_report().await?;
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|class| class.shard))),
        texts(all.iter().map(|class| class.class)),
    ];
    let of = |count: AdmissionCount| counts(all.iter().map(|class| count(&class.status)));
    columns.extend(ADMISSION_COUNTS.iter().map(|(_, count)| of(*count)));
    Ok(columns)
}

fn stall_fields() -> Vec<Field> {
    vec![
        shard(),
        text("task"),
        optional("after", DataType::Utf8),
        optional("before", DataType::Utf8),
        count("count"),
        count("longest_us"),
        count("total_us"),
        count("off_cpu_us"),
    ]
}

/// Where tasks held a shard's thread for longer than the task quota.
fn stalls(database: &Engine) -> Vec<ArrayRef> {
    let all = database.stalls();
    let place = |at: fn(Stretch) -> Option<&'static Location<'static>>| {
        let places = all.iter().map(|(_, stall)| at(stall.stretch));
        let texts = places.map(|place| place.map(|at| format!("{}:{}", at.file(), at.line())));
        Arc::new(texts.collect::<StringArray>()) as ArrayRef
    };
    let micros = |ns: fn(&Stall) -> u64| counts(all.iter().map(|(_, stall)| ns(stall) / 1000));
    vec![
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|(shard, _)| *shard))),
        texts(all.iter().map(|(_, stall)| stall.task)),
        place(|stretch| stretch.after),
        place(|stretch| stretch.before),
        counts(all.iter().map(|(_, stall)| stall.count)),
        micros(|stall| stall.longest_ns),
        micros(|stall| stall.total_ns),
        micros(|stall| stall.off_cpu_ns),
    ]
}

/// A ratio with the digits that people read.
fn rounded(ratio: f64) -> f64 {
    (ratio * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use tidegate_engine::policy::admission::Shedding;

    use super::*;

    #[test]
    fn a_shard_has_the_longest_of_its_own_stalls() {
        let stall = |count, longest_ns| {
            let (task, stretch) = ("t", Stretch::default());
            Stall { task, stretch, count, total_ns: 90, longest_ns, off_cpu_ns: 0 }
        };
        let all = [(0, stall(1, 10)), (1, stall(2, 70)), (1, stall(3, 20)), (2, stall(4, 80))];
        assert_eq!(stalls_of(&all, 0), (1, 10));
        assert_eq!(stalls_of(&all, 1), (5, 70));
        assert_eq!(stalls_of(&all, 3), (0, 0));
    }

    /// Counts stand side by side, all of one type.
    #[test]
    fn each_count_of_a_row_cache_has_its_own_name() {
        let stats = RowCacheStats {
            partitions: 1,
            rows: 2,
            dummies: 3,
            bytes: 4,
            reads: 5,
            partition_hits: 6,
            partition_misses: 7,
            row_hits: 8,
            gaps_read: 9,
            insertions: 10,
            rows_merged: 11,
            rows_dropped: 12,
            evictions: 13,
            partition_evictions: 14,
            mispopulations: 15,
        };
        let told = ROW_CACHE_COUNTS.map(|(name, of)| format!("{name}={}", of(&stats))).join(" ");
        assert_eq!(
            told,
            "partitions=1 rows=2 dummies=3 bytes=4 reads=5 partition_hits=6 partition_misses=7 \
             row_hits=8 gaps_read=9 insertions=10 rows_merged=11 rows_dropped=12 evictions=13 \
             partition_evictions=14 mispopulations=15"
        );
    }

    /// Writes that were only slowed must not look like writes that were stopped.
    #[test]
    fn each_figure_of_a_commitlog_has_its_own_name() {
        let oldest_pin = None;
        let log = CommitlogReport {
            shard: 0,
            bytes: 1,
            limit_bytes: 2,
            slowed: 3,
            stopped: 4,
            oldest_pin,
        };
        let wanted = [
            ("commitlog_bytes", 1),
            ("commitlog_limit_bytes", 2),
            ("commitlog_slowed_writes", 3),
            ("commitlog_stopped_writes", 4),
        ];
        assert_eq!(log_figures(&log), wanted);
    }

    #[test]
    fn each_count_of_a_class_of_work_has_its_own_name() {
        let shedding = Shedding { per_mille: 9, wait_ms_max: 10 };
        let status = ClassStatus {
            running: 1,
            queued: 2,
            aside: 3,
            memory_bytes: 4,
            running_max: 5,
            memory_bytes_max: 6,
            queued_max: 7,
            wait_us_max: 8,
            shedding,
            arrived: 11,
            admitted: 12,
            refused: 13,
            shed: 14,
            p50_us: 15,
            p99_us: 16,
        };
        let told = ADMISSION_COUNTS.map(|(name, of)| format!("{name}={}", of(&status))).join(" ");
        assert_eq!(
            told,
            "running=1 queued=2 aside=3 memory_bytes=4 running_max=5 memory_bytes_max=6 \
             queued_max=7 wait_us_max=8 shed_per_mille=9 shed_wait_ms=10 arrived=11 admitted=12 \
             refused=13 shed=14 p50_us=15 p99_us=16"
        );
    }
}
