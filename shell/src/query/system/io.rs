//! The table `system.io`: classes of requests to the disk, on each shard.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::io::ClassStats;
use tidegate_engine::{Error as EngineError, IoReport};

use super::columns::{counts, texts};
use crate::query::engine::Engine;

type CountOf = fn(&ClassStats) -> u64;
type NumberOf = fn(&ClassStats) -> f64;

/// What there is now.
const PRESENT: [(&str, CountOf); 2] =
    [("queued", |stats| stats.queued), ("in_disk", |stats| stats.in_disk)];

/// Of the last second: requests, and means of one.
const RECENT: [(&str, NumberOf); 3] = [
    ("per_second", |stats| stats.recent_requests),
    ("delay_us", |stats| stats.recent_delay_us),
    ("execution_us", |stats| stats.recent_execution_us),
];

/// Of a measured disk: disk-seconds of the last second, and since the start.
const OF_DISK: [(&str, NumberOf); 2] =
    [("disk_share", |stats| stats.recent_disk_share), ("disk_s", |stats| stats.disk_seconds)];

/// Since the start.
const COUNTS: [(&str, CountOf); 6] = [
    ("reads", |stats| stats.reads),
    ("read_bytes", |stats| stats.read_bytes),
    ("writes", |stats| stats.writes),
    ("written_bytes", |stats| stats.written_bytes),
    ("split", |stats| stats.split),
    ("cancelled", |stats| stats.cancelled),
];
const TIMES: [(&str, NumberOf); 3] = [
    ("waited_s", |stats| stats.delay_ns as f64 / 1e9),
    ("executed_s", |stats| stats.execution_ns as f64 / 1e9),
    ("starved_s", |stats| stats.starved_ns as f64 / 1e9),
];

pub fn fields() -> Vec<Field> {
    let number = |name: &str, ty: DataType| Field::new(name, ty, false);
    let mut fields = vec![
        number("shard", DataType::UInt32),
        number("class", DataType::Utf8),
        number("place", DataType::UInt32),
        number("shares", DataType::UInt32),
        Field::new("bandwidth", DataType::UInt64, true),
    ];
    let plain = |name: &&str| number(name, DataType::UInt64);
    let decimal = |name: &&str| number(name, DataType::Float64);
    fields.extend(PRESENT.iter().map(|(name, _)| plain(name)));
    fields.extend(RECENT.iter().map(|(name, _)| decimal(name)));
    fields.extend(OF_DISK.iter().map(|(name, _)| Field::new(*name, DataType::Float64, true)));
    fields.extend(COUNTS.iter().map(|(name, _)| plain(name)));
    fields.extend(TIMES.iter().map(|(name, _)| decimal(name)));
    fields
}

pub async fn columns(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.io_report().await?;
    let small = |of: fn(&IoReport) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(all.iter().map(of)))
    };
    let bandwidths = all.iter().map(|class| class.settings.bandwidth);
    let mut columns: Vec<ArrayRef> = vec![
        small(|class| class.shard),
        texts(all.iter().map(|class| class.class.name())),
        small(|class| class.class.index() as u32),
        small(|class| class.settings.shares),
        Arc::new(bandwidths.collect::<UInt64Array>()),
    ];
    let count = |of: CountOf| counts(all.iter().map(|class| of(&class.stats)));
    let number = |of: NumberOf| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(all.iter().map(|class| of(&class.stats))))
    };
    let of_disk = |of: NumberOf| -> ArrayRef {
        let known = all.iter().map(|class| class.is_measured.then(|| of(&class.stats)));
        Arc::new(known.collect::<Float64Array>())
    };
    columns.extend(PRESENT.iter().map(|(_, of)| count(*of)));
    columns.extend(RECENT.iter().map(|(_, of)| number(*of)));
    columns.extend(OF_DISK.iter().map(|(_, of)| of_disk(*of)));
    columns.extend(COUNTS.iter().map(|(_, of)| count(*of)));
    columns.extend(TIMES.iter().map(|(_, of)| number(*of)));
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_a_class_has_its_own_name_and_the_unit_of_that() {
        let stats = ClassStats {
            queued: 1,
            in_disk: 2,
            reads: 3,
            read_bytes: 4,
            writes: 5,
            written_bytes: 6,
            split: 7,
            cancelled: 8,
            delay_ns: 9_500_000_000,
            execution_ns: 10_500_000_000,
            starved_ns: 11_500_000_000,
            disk_seconds: 12.5,
            recent_requests: 13.5,
            recent_delay_us: 14.5,
            recent_execution_us: 15.5,
            recent_disk_share: 16.5,
        };
        let count = |(name, of): &(&str, CountOf)| format!("{name}={}", of(&stats));
        let number = |(name, of): &(&str, NumberOf)| format!("{name}={}", of(&stats));
        let counts = PRESENT.iter().chain(&COUNTS).map(count);
        let numbers = RECENT.iter().chain(&OF_DISK).chain(&TIMES).map(number);
        assert_eq!(
            counts.chain(numbers).collect::<Vec<_>>().join(" "),
            "queued=1 in_disk=2 reads=3 read_bytes=4 writes=5 written_bytes=6 split=7 cancelled=8 \
             per_second=13.5 delay_us=14.5 execution_us=15.5 disk_share=16.5 disk_s=12.5 \
             waited_s=9.5 executed_s=10.5 starved_s=11.5"
        );
    }
}
