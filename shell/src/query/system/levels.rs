//! The table `system.service_levels`: what is set of each service level, and how its reads stand.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::admission::LevelStatus;
use tidegate_engine::{Error as EngineError, Workload};

use super::columns::{count, counts, optional, text, texts};
use crate::query::engine::Engine;

type CountOf = fn(&LevelStatus) -> u64;

/// Of all shards together: what there is now, then since the start.
const COUNTS: [(&str, CountOf); 7] = [
    ("running", |status| status.running),
    ("queued", |status| status.queued),
    ("aside", |status| status.aside),
    ("memory_bytes", |status| status.memory_bytes),
    ("admitted", |status| status.admitted),
    ("refused", |status| status.refused),
    ("killed", |status| status.killed),
];

pub fn fields() -> Vec<Field> {
    let mut fields = vec![
        text("name"),
        optional("timeout_ms", DataType::UInt64),
        optional("workload_type", DataType::Utf8),
        Field::new("shares", DataType::UInt32, false),
    ];
    fields.extend(COUNTS.iter().map(|(name, _)| count(name)));
    fields
}

pub async fn columns(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.service_level_report().await?;
    let options = || all.iter().map(|(_, options, _)| options);
    let workloads = options().map(|options| options.workload.map(Workload::name));
    let mut columns: Vec<ArrayRef> = vec![
        texts(all.iter().map(|(name, ..)| name.as_str())),
        Arc::new(options().map(|options| options.timeout_ms).collect::<UInt64Array>()),
        Arc::new(workloads.collect::<StringArray>()),
        Arc::new(UInt32Array::from_iter_values(options().map(|options| options.shares()))),
    ];
    let column = |of: &CountOf| counts(all.iter().map(|(.., status)| of(status)));
    columns.extend(COUNTS.iter().map(|(_, of)| column(of)));
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_of_a_service_level_has_its_own_name() {
        let status = LevelStatus {
            running: 1,
            queued: 2,
            aside: 3,
            memory_bytes: 4,
            admitted: 5,
            refused: 6,
            killed: 7,
        };
        let told = COUNTS.map(|(name, of)| format!("{name}={}", of(&status))).join(" ");
        let wanted = "running=1 queued=2 aside=3 memory_bytes=4 admitted=5 refused=6 killed=7";
        assert_eq!(told, wanted);
    }
}
