//! Options of tables as `WITH` takes them.

use tidegate_engine::schema::table_schema::RateLimit;
use tidegate_engine::{
    CompactionOptions, Compression, LargeDataOptions, OnCorruption, TableOptions,
};

/// Names of all options with their values as `WITH` takes them.
pub fn options(options: &TableOptions) -> Vec<(&'static str, String)> {
    // Every field is named, so that a new one cannot be forgotten here.
    let TableOptions {
        default_time_to_live,
        gc_grace_seconds,
        column_index_bytes,
        comment,
        per_partition_rate_limit,
        rate_limit_by,
        large_data,
        on_corruption,
        compression,
        compaction,
        // Found out when files are attached; no statement sets it.
        has_partial_keys: _,
    } = options;
    let on_corruption = match on_corruption {
        OnCorruption::Fail => "fail",
        OnCorruption::Skip => "skip",
    };
    vec![
        ("column_index_size_in_kb", (column_index_bytes / 1024).to_string()),
        ("comment", quoted(comment)),
        ("compaction", compaction_map(compaction)),
        ("compression", compression_map(compression.as_ref())),
        ("default_time_to_live", default_time_to_live.to_string()),
        ("gc_grace_seconds", gc_grace_seconds.to_string()),
        ("large_data", large_data_map(large_data)),
        ("on_corruption", quoted(on_corruption)),
        ("per_partition_rate_limit", rate_map(per_partition_rate_limit)),
        ("rate_limit_by", quoted(rate_limit_by.as_deref().unwrap_or_default())),
    ]
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn map(entries: Vec<(&str, String)>) -> String {
    let entries = entries.into_iter().map(|(name, value)| format!("'{name}': {value}"));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

fn compression_map(compression: Option<&Compression>) -> String {
    let Some(Compression { compressor, chunk_bytes, level, .. }) = compression else {
        return "{'enabled': false}".to_owned();
    };
    let mut entries = vec![
        ("class", quoted(compressor.class())),
        ("chunk_length_in_kb", (chunk_bytes / 1024).to_string()),
    ];
    entries.extend(level.map(|level| ("compression_level", level.to_string())));
    map(entries)
}

/// The strategy, and what differs from its options in a new table.
fn compaction_map(options: &CompactionOptions) -> String {
    let class = ("class", quoted(options.class.class()));
    let usual = compaction_entries(&CompactionOptions::of_class(options.class));
    let entries = compaction_entries(options).into_iter();
    let differing = entries.filter(|entry| !usual.contains(entry));
    map([class].into_iter().chain(differing).collect())
}

/// Every option but the class.
fn compaction_entries(options: &CompactionOptions) -> Vec<(&'static str, String)> {
    let goal = options.space_amplification_goal;
    let mut entries = vec![
        ("enabled", options.is_enabled.to_string()),
        ("min_threshold", options.min_threshold.to_string()),
        ("max_threshold", options.max_threshold.to_string()),
        ("bucket_low", options.bucket_low.to_string()),
        ("bucket_high", options.bucket_high.to_string()),
        ("min_sstable_size", options.min_sstable_bytes.to_string()),
        ("sstable_size_in_mb", (options.sstable_bytes >> 20).to_string()),
        ("fanout_size", options.fanout.to_string()),
        ("compaction_window_unit", quoted(options.window_unit.name())),
        ("compaction_window_size", options.window_size.to_string()),
        ("tombstone_threshold", options.tombstone_threshold.to_string()),
        ("tombstone_compaction_interval", options.tombstone_interval_seconds.to_string()),
    ];
    entries.extend(goal.map(|goal| ("space_amplification_goal", goal.to_string())));
    entries
}

fn large_data_map(thresholds: &LargeDataOptions) -> String {
    let all = [
        ("partition_bytes", thresholds.partition_bytes),
        ("row_bytes", thresholds.row_bytes),
        ("cell_bytes", thresholds.cell_bytes),
        ("partition_rows", thresholds.partition_rows),
        ("collection_elements", thresholds.collection_elements),
    ];
    let set = all.into_iter().filter_map(|(name, most)| Some((name, most?.to_string())));
    map(set.collect())
}

fn rate_map(limit: &RateLimit) -> String {
    let reads = limit.max_reads_per_second.map(|rate| ("max_reads_per_second", rate.to_string()));
    let writes =
        limit.max_writes_per_second.map(|rate| ("max_writes_per_second", rate.to_string()));
    map(reads.into_iter().chain(writes).collect())
}
