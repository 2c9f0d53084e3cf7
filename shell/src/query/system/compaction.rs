//! Tables of `system` about SSTables and their merges.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, StringArray, TimestampMicrosecondArray, UInt32Array,
    UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use tidegate_engine::{
    CompactionEnd, CompactionRecord, CompactionReport, Error as EngineError, SstableReport,
};

use super::columns::{counts, texts};
use crate::query::engine::Engine;

fn field(name: &str, ty: DataType) -> Field {
    Field::new(name, ty, false)
}

fn optional(name: &str, ty: DataType) -> Field {
    Field::new(name, ty, true)
}

fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A row for each SSTable.
pub(in crate::query) fn sstable_fields() -> Vec<Field> {
    vec![
        field("keyspace_name", DataType::Utf8),
        field("table_name", DataType::Utf8),
        field("shard", DataType::UInt32),
        field("number", DataType::UInt64),
        field("run", DataType::UInt64),
        field("level", DataType::UInt32),
        field("bytes", DataType::UInt64),
        field("partitions", DataType::UInt64),
        field("rows", DataType::UInt64),
        field("min_timestamp", DataType::Int64),
        field("max_timestamp", DataType::Int64),
        field("droppable", DataType::Float64),
        field("state", DataType::Utf8),
    ]
}

pub(in crate::query) async fn sstables(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.sstable_report().await?;
    let numbers = |of: fn(&SstableReport) -> u64| -> ArrayRef { counts(all.iter().map(of)) };
    let small = |of: fn(&SstableReport) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(all.iter().map(of)))
    };
    let timestamps = |of: fn(&SstableReport) -> i64| -> ArrayRef {
        Arc::new(datafusion::arrow::array::Int64Array::from_iter_values(all.iter().map(of)))
    };
    let state = |report: &SstableReport| match &report.status {
        status if status.is_set_aside => "set aside",
        status if status.is_input => "being merged",
        status if status.is_shared => "of another shard count",
        _ => "live",
    };
    let droppable = all.iter().map(|report| rounded(report.status.droppable));
    Ok(vec![
        texts(all.iter().map(|report| report.keyspace.as_str())),
        texts(all.iter().map(|report| report.table.as_str())),
        small(|report| report.shard),
        numbers(|report| report.status.info.generation),
        numbers(|report| report.status.run),
        small(|report| report.status.info.level),
        numbers(|report| report.status.info.data_bytes),
        numbers(|report| report.status.info.partitions),
        numbers(|report| report.status.info.rows),
        timestamps(|report| report.status.info.min_timestamp),
        timestamps(|report| report.status.info.max_timestamp),
        Arc::new(Float64Array::from_iter_values(droppable)),
        texts(all.iter().map(state)),
    ])
}

/// A row for each compaction: those that run, and the latest that have ended.
pub(in crate::query) fn compaction_fields() -> Vec<Field> {
    vec![
        field("number", DataType::UInt64),
        field("keyspace_name", DataType::Utf8),
        field("table_name", DataType::Utf8),
        field("shard", DataType::UInt32),
        field("reason", DataType::Utf8),
        field("state", DataType::Utf8),
        field("is_running", DataType::Boolean),
        field("started_at", moment()),
        optional("ended_at", moment()),
        field("input_sstables", DataType::UInt64),
        field("input_bytes", DataType::UInt64),
        optional("output_sstables", DataType::UInt64),
        field("output_bytes", DataType::UInt64),
        field("done_percent", DataType::Float64),
        optional("bytes_per_second", DataType::UInt64),
        optional("seconds_left", DataType::Float64),
        optional("purged", DataType::UInt64),
        optional("error", DataType::Utf8),
    ]
}

/// What both kinds of compactions are shown as.
struct Shown {
    number: u64,
    keyspace: String,
    table: String,
    shard: u32,
    reason: &'static str,
    state: &'static str,
    started_us: i64,
    ended_us: Option<i64>,
    input_sstables: u64,
    input_bytes: u64,
    output_sstables: Option<u64>,
    output_bytes: u64,
    done_percent: f64,
    bytes_per_second: Option<u64>,
    seconds_left: Option<f64>,
    purged: Option<u64>,
    error: Option<String>,
}

fn running(report: CompactionReport) -> Shown {
    let rate = report.bytes_per_second().map(|rate| rate as u64);
    let seconds_left = report.seconds_left().map(|left| (left * 10.0).round() / 10.0);
    Shown {
        number: report.number,
        keyspace: report.keyspace,
        table: report.table,
        shard: report.shard,
        reason: report.reason.name(),
        state: "running",
        started_us: report.started_us,
        ended_us: None,
        input_sstables: report.input_files,
        input_bytes: report.input_bytes,
        output_sstables: None,
        output_bytes: report.output_bytes,
        done_percent: (report.done * 1000.0).round() / 10.0,
        bytes_per_second: rate,
        seconds_left,
        purged: None,
        error: None,
    }
}

fn ended(record: CompactionRecord) -> Shown {
    // How much of its input one that was stopped has merged is not known.
    let is_whole = record.end == CompactionEnd::Done;
    let (state, done_percent, error) = match record.end {
        CompactionEnd::Done => ("done", 100.0, None),
        CompactionEnd::Cancelled => ("cancelled", 0.0, None),
        CompactionEnd::Failed(why) => ("failed", 0.0, Some(why)),
    };
    let took_us = u64::try_from(record.ended_us - record.started_us).unwrap_or(0);
    let rate = record.input_bytes.saturating_mul(1_000_000).checked_div(took_us);
    Shown {
        number: record.number,
        keyspace: record.keyspace,
        table: record.table,
        shard: record.shard,
        reason: record.reason.name(),
        state,
        started_us: record.started_us,
        ended_us: Some(record.ended_us),
        input_sstables: record.inputs.len() as u64,
        input_bytes: record.input_bytes,
        output_sstables: Some(record.outputs.len() as u64),
        output_bytes: record.output_bytes,
        done_percent,
        bytes_per_second: rate.filter(|_| is_whole),
        seconds_left: None,
        purged: Some(record.purged.count),
        error,
    }
}

pub(in crate::query) async fn compactions(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    // Those that end meanwhile are among the ended ones, and not twice.
    let history = database.compaction_history().await?;
    let ended_numbers: Vec<u64> = history.iter().map(|record| record.number).collect();
    let reports = database.compactions().await?.into_iter();
    let reports = reports.filter(|report| !ended_numbers.contains(&report.number));
    let mut all: Vec<Shown> = reports.map(running).chain(history.into_iter().map(ended)).collect();
    all.sort_by_key(|shown| shown.number);
    let numbers = |of: fn(&Shown) -> u64| -> ArrayRef { counts(all.iter().map(of)) };
    let optional_numbers = |of: fn(&Shown) -> Option<u64>| -> ArrayRef {
        Arc::new(all.iter().map(of).collect::<UInt64Array>())
    };
    let moments = |of: fn(&Shown) -> Option<i64>| -> ArrayRef {
        let moments = all.iter().map(of).collect::<TimestampMicrosecondArray>();
        Arc::new(moments.with_timezone("UTC"))
    };
    Ok(vec![
        numbers(|shown| shown.number),
        texts(all.iter().map(|shown| shown.keyspace.as_str())),
        texts(all.iter().map(|shown| shown.table.as_str())),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|shown| shown.shard))),
        texts(all.iter().map(|shown| shown.reason)),
        texts(all.iter().map(|shown| shown.state)),
        Arc::new(all.iter().map(|shown| Some(shown.ended_us.is_none())).collect::<BooleanArray>()),
        moments(|shown| Some(shown.started_us)),
        moments(|shown| shown.ended_us),
        numbers(|shown| shown.input_sstables),
        numbers(|shown| shown.input_bytes),
        optional_numbers(|shown| shown.output_sstables),
        numbers(|shown| shown.output_bytes),
        Arc::new(Float64Array::from_iter_values(all.iter().map(|shown| shown.done_percent))),
        optional_numbers(|shown| shown.bytes_per_second),
        Arc::new(all.iter().map(|shown| shown.seconds_left).collect::<Float64Array>()),
        optional_numbers(|shown| shown.purged),
        Arc::new(all.iter().map(|shown| shown.error.as_deref()).collect::<StringArray>()),
    ])
}

/// A ratio with the digits that people read.
fn rounded(ratio: f64) -> f64 {
    (ratio * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use tidegate_engine::compaction::{Purged, Reason};

    use super::*;

    /// Two files of 4,000 bytes that became one of 3,000 within so many microseconds.
    fn record(took_us: i64, end: CompactionEnd) -> CompactionRecord {
        CompactionRecord {
            number: 7,
            keyspace: "ks".into(),
            table: "t".into(),
            shard: 1,
            reason: Reason::Tier,
            started_us: 1_000_000,
            ended_us: 1_000_000 + took_us,
            inputs: vec![3, 4],
            input_bytes: 4000,
            outputs: vec![5],
            output_bytes: 3000,
            purged: Purged { count: 6, converted: 8, newest: Some(9) },
            end,
        }
    }

    #[test]
    fn a_compaction_that_has_ended_says_how_and_at_what_rate() {
        let shown = ended(record(2_000_000, CompactionEnd::Done));
        assert_eq!((shown.number, shown.shard, shown.reason), (7, 1, "tier"));
        assert_eq!((shown.started_us, shown.ended_us), (1_000_000, Some(3_000_000)));
        assert_eq!((shown.input_sstables, shown.output_sstables), (2, Some(1)));
        assert_eq!((shown.input_bytes, shown.output_bytes), (4000, 3000));
        assert_eq!((shown.state, shown.done_percent, shown.error), ("done", 100.0, None));
        assert_eq!((shown.bytes_per_second, shown.seconds_left), (Some(2000), None));
        assert_eq!(shown.purged, Some(6), "cells that are tombstones now are still there");
        // A wall clock may stand still, or be set back.
        for took_us in [0, -5] {
            let shown = ended(record(took_us, CompactionEnd::Done));
            assert_eq!(shown.bytes_per_second, None, "{took_us}");
        }
        let shown = ended(record(2_000_000, CompactionEnd::Cancelled));
        assert_eq!((shown.state, shown.done_percent, shown.error), ("cancelled", 0.0, None));
        assert_eq!(shown.bytes_per_second, None, "it has not merged all of that");
        let shown = ended(record(2_000_000, CompactionEnd::Failed("no room".into())));
        assert_eq!((shown.state, shown.done_percent), ("failed", 0.0));
        assert_eq!((shown.error.as_deref(), shown.bytes_per_second), (Some("no room"), None));
    }

    #[test]
    fn a_compaction_that_runs_says_how_far_it_is_and_how_long_it_takes_yet() {
        let report = |done, seconds| CompactionReport {
            number: 7,
            keyspace: "ks".into(),
            table: "t".into(),
            shard: 1,
            reason: Reason::Asked,
            started_us: 5,
            input_files: 2,
            input_bytes: 8000,
            output_bytes: 1500,
            done,
            seconds,
        };
        let shown = running(report(0.25, 2.0));
        assert_eq!((shown.state, shown.ended_us, shown.purged), ("running", None, None));
        assert_eq!((shown.input_sstables, shown.output_sstables), (2, None));
        assert_eq!((shown.input_bytes, shown.output_bytes), (8000, 1500));
        assert_eq!((shown.done_percent, shown.bytes_per_second), (25.0, Some(1000)));
        assert_eq!(shown.seconds_left, Some(6.0));
        let begun = running(report(0.0, 0.0));
        assert_eq!((begun.done_percent, begun.bytes_per_second), (0.0, None));
        assert_eq!(begun.seconds_left, None);
    }
}
