//! The table `system.memory`: what is held in memory, by what it is for.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool as QueryPool};
use tidegate_engine::os;
use tidegate_engine::{Error as EngineError, MemoryPool, MemoryReport};

use super::columns::texts;
use crate::query::engine::Engine;

/// All of the process that is in RAM.
const RESIDENT: &str = "resident";
/// What of it nobody counts: `docs/memory-and-limits.md` names it.
const NOT_COUNTED: &str = "not counted";
const QUERIES: &str = "queries";

/// The order in which people see pools: parts behind their whole.
const ORDER: [&str; 19] = [
    "memtables",
    "active memtables",
    "sealed memtables",
    "cache",
    "row cache",
    "data pages",
    "index pages",
    "index entries",
    "filters",
    "summaries",
    "checksums",
    "commitlog buffers",
    "I/O buffers",
    "batches of reads",
    QUERIES,
    "policies",
    "rate limits",
    NOT_COUNTED,
    RESIDENT,
];

/// A row.
struct Pool {
    shard: Option<u32>,
    name: &'static str,
    part_of: Option<&'static str>,
    bytes: u64,
    limit_bytes: Option<u64>,
}

impl From<MemoryReport> for Pool {
    fn from(report: MemoryReport) -> Self {
        let MemoryReport { shard, pool, bytes, limit_bytes } = report;
        let part_of = Some(pool.whole().map_or(RESIDENT, MemoryPool::name));
        Pool { shard, name: pool.name(), part_of, bytes, limit_bytes }
    }
}

pub fn fields() -> Vec<Field> {
    let field = Field::new;
    vec![
        field("shard", DataType::UInt32, true),
        field("pool", DataType::Utf8, false),
        field("place", DataType::UInt32, false),
        field("part_of", DataType::Utf8, true),
        field("bytes", DataType::UInt64, false),
        field("limit_bytes", DataType::UInt64, true),
    ]
}

/// `queries` is the pool of all queries.
pub async fn columns(
    database: &Engine,
    queries: &Arc<dyn QueryPool>,
) -> Result<Vec<ArrayRef>, EngineError> {
    let reports = database.memory_report().await?;
    let mut pools: Vec<Pool> = reports.into_iter().map(Pool::from).collect();
    let limit_bytes = match queries.memory_limit() {
        MemoryLimit::Finite(bytes) => Some(bytes as u64),
        MemoryLimit::Infinite | MemoryLimit::Unknown => None,
    };
    let of_process =
        |name, part_of, bytes, limit_bytes| Pool { shard: None, name, part_of, bytes, limit_bytes };
    pools.push(of_process(QUERIES, Some(RESIDENT), queries.reserved() as u64, limit_bytes));
    // What the kernel does not tell is left out.
    if let Ok(resident) = os::process_rss_bytes() {
        let parts = pools.iter().filter(|pool| pool.part_of == Some(RESIDENT));
        let counted: u64 = parts.map(|pool| pool.bytes).sum();
        let rest = resident.saturating_sub(counted);
        let most = os::memory_limit().map(|(bytes, _)| bytes);
        pools.push(of_process(NOT_COUNTED, Some(RESIDENT), rest, None));
        pools.push(of_process(RESIDENT, None, resident, most));
    }
    let place = |pool: &Pool| {
        let place = ORDER.iter().position(|name| *name == pool.name);
        place.map_or(ORDER.len() as u32, |place| place as u32)
    };
    pools.sort_by_key(|pool| (place(pool), pool.shard));
    let part_of = pools.iter().map(|pool| pool.part_of);
    Ok(vec![
        Arc::new(pools.iter().map(|pool| pool.shard).collect::<UInt32Array>()),
        texts(pools.iter().map(|pool| pool.name)),
        Arc::new(UInt32Array::from_iter_values(pools.iter().map(place))),
        Arc::new(part_of.collect::<StringArray>()),
        Arc::new(UInt64Array::from_iter_values(pools.iter().map(|pool| pool.bytes))),
        Arc::new(pools.iter().map(|pool| pool.limit_bytes).collect::<UInt64Array>()),
    ])
}
