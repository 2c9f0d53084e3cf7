//! The table `system.reads`: the reads under way.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::{Error as EngineError, ReadReport};

use super::columns::{counts, texts};
use crate::query::engine::Engine;

pub fn fields() -> Vec<Field> {
    [
        ("number", DataType::UInt64),
        ("table_name", DataType::Utf8),
        ("service_level", DataType::Utf8),
        ("class", DataType::Utf8),
        ("state", DataType::Utf8),
        ("age_ms", DataType::Float64),
        ("memory_bytes", DataType::UInt64),
        ("shard", DataType::UInt32),
    ]
    .map(|(name, ty)| Field::new(name, ty, false))
    .to_vec()
}

pub async fn columns(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.reads_report().await?;
    let text = |of: fn(&ReadReport) -> &str| texts(all.iter().map(of));
    let age = |read: &ReadReport| read.status.age_us as f64 / 1000.0;
    Ok(vec![
        counts(all.iter().map(|read| read.number)),
        text(|read| &read.status.table),
        text(|read| &read.service_level),
        text(|read| read.status.class),
        text(|read| read.status.state.as_str()),
        Arc::new(Float64Array::from_iter_values(all.iter().map(age))),
        counts(all.iter().map(|read| read.status.memory_bytes)),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|read| read.shard))),
    ])
}
