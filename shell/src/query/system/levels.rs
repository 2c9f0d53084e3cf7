//! The table `system.service_levels`: what is set of each service level.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::Workload;

use super::columns::texts;
use crate::query::engine::Engine;

pub fn fields() -> Vec<Field> {
    vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("timeout_ms", DataType::UInt64, true),
        Field::new("workload_type", DataType::Utf8, true),
        Field::new("shares", DataType::UInt32, false),
    ]
}

pub fn columns(database: &Engine) -> Vec<ArrayRef> {
    let catalog = database.catalog();
    let options = || catalog.service_levels().map(|(_, level)| level.options);
    let workloads = options().map(|options| options.workload.map(Workload::name));
    vec![
        texts(catalog.service_levels().map(|(name, _)| name)),
        Arc::new(options().map(|options| options.timeout_ms).collect::<UInt64Array>()),
        Arc::new(workloads.collect::<StringArray>()),
        Arc::new(UInt32Array::from_iter_values(options().map(|options| options.shares()))),
    ]
}
