//! The table `system.hot_partitions`: the partitions that were asked most of late.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::datatypes::Field;
use tidegate_engine::{Error as EngineError, HotReport};

use super::columns::{count, counts, shard, text, texts};
use crate::query::engine::Engine;
use crate::query::types::literal::partition_text;

type CountOf = fn(&HotReport) -> u64;

/// What is counted of each.
const COUNTS: [(&str, CountOf); 4] = [
    ("reads", |report| report.hot.reads),
    ("writes", |report| report.hot.writes),
    ("rejected", |report| report.hot.refused),
    ("missed_max", |report| report.hot.missed_max),
];

pub fn fields() -> Vec<Field> {
    let mut fields = vec![text("keyspace_name"), text("table_name"), text("partition"), shard()];
    fields.extend(COUNTS.iter().map(|(name, _)| count(name)));
    fields
}

pub async fn columns(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.hot_partitions().await?;
    let mut columns: Vec<ArrayRef> = vec![
        texts(all.iter().map(|report| report.schema.keyspace.as_str())),
        texts(all.iter().map(|report| report.schema.name.as_str())),
        texts(all.iter().map(|report| partition_text(&report.schema, &report.hot.key))),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|report| report.shard))),
    ];
    columns.extend(COUNTS.iter().map(|(_, of)| counts(all.iter().map(of))));
    Ok(columns)
}
