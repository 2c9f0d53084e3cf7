//! The table `system.reads`: the reads under way.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::{Error as EngineError, ReadReport};

use super::columns::{count, counts, shard, text, texts};
use crate::query::engine::Engine;

pub fn fields() -> Vec<Field> {
    vec![
        count("number"),
        text("table_name"),
        text("service_level"),
        text("class"),
        text("state"),
        Field::new("age_ms", DataType::Float64, false),
        count("memory_bytes"),
        shard(),
    ]
}

pub async fn columns(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.reads_report().await?;
    let told = |of: fn(&ReadReport) -> &str| texts(all.iter().map(of));
    let age = |read: &ReadReport| read.status.age_us as f64 / 1000.0;
    Ok(vec![
        counts(all.iter().map(|read| read.number)),
        told(|read| &read.status.table),
        told(|read| &read.service_level),
        told(|read| read.status.class),
        told(|read| read.status.state.as_str()),
        Arc::new(Float64Array::from_iter_values(all.iter().map(age))),
        counts(all.iter().map(|read| read.status.memory_bytes)),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|read| read.shard))),
    ])
}
