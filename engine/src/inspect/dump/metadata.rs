//! `Statistics.db` and `Scylla.db` for people and programs.

use std::fmt::Write as _;

use super::index::StoredSummary;
use crate::error::Result;
use crate::hex::Hex;
use crate::inspect::files::Inspector;
use crate::inspect::json::Json;
use crate::inspect::metadata::{LogPosition, Metadata, Sketch};
use crate::inspect::rows::StoredLayout;
use crate::inspect::types::{KeyType, StoredType};
use crate::inspect::value;
use crate::schema::PartitionKey;
use crate::schema::value::format_uuid;
use crate::sstable::format::component::Component;
use crate::sstable::format::layout::Header;
use crate::sstable::format::scylla::{
    LargeKind, LargeRecord, ScyllaMetadata, ScyllaSchema, TokenBound,
};

/// Width of the bars of a histogram.
const BAR_MAX: i64 = 30;

/// What is printed of `Statistics.db` besides its own content.
struct Around {
    metadata: Metadata,
    compressor: Option<String>,
    /// Token and text of the first and the last key.
    ends: Option<[(i64, String); 2]>,
}

async fn around(sstable: &Inspector) -> Result<Around> {
    let metadata = sstable.metadata().await?;
    let mut compressor = None;
    if sstable.has(Component::CompressionInfo) {
        let content = sstable.read(Component::CompressionInfo).await?;
        let length = content.first_chunk::<2>().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        let class = content.get(2..2 + usize::from(length)).unwrap_or_default();
        compressor = Some(String::from_utf8_lossy(class).into_owned());
    }
    let mut ends = None;
    // The keys stand in the summary; without it, or when it is damaged, they are left out.
    if sstable.has(Component::Summary) {
        let layout = sstable.layout(&metadata).await;
        let summary = StoredSummary::decode(&sstable.read(Component::Summary).await?);
        if let (Ok(layout), Ok(summary)) = (layout, summary) {
            ends = end_texts(&layout, &summary);
        }
    }
    Ok(Around { metadata, compressor, ends })
}

fn end_texts(layout: &StoredLayout, summary: &StoredSummary) -> Option<[(i64, String); 2]> {
    let text = |key: &[u8]| {
        let texts = super::data::key_texts(&layout.partition_key, key).ok()?;
        Some((PartitionKey::from_bytes(key).token().0, texts.join(":")))
    };
    Some([text(&summary.first)?, text(&summary.last)?])
}

/// `Statistics.db` as text, in the order and words of `sstablemetadata`. Times are UTC.
///
/// Errors: `Io`, `Corrupt`.
pub async fn dump_statistics(sstable: &Inspector) -> Result<String> {
    let Around { metadata, compressor, ends } = around(sstable).await?;
    let mut out = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(out, "{name}: {value}");
    };
    line("SSTable", &sstable.directory().join(sstable.name().prefix()).display());
    line("Partitioner", &metadata.partitioner);
    line("Bloom Filter FP chance", &metadata.bloom_fp_chance);
    line("Minimum timestamp", &micros(metadata.min_timestamp));
    line("Maximum timestamp", &micros(metadata.max_timestamp));
    line("SSTable min local deletion time", &seconds(metadata.min_deletion_time));
    line("SSTable max local deletion time", &seconds(metadata.max_deletion_time));
    // Files hold the short name.
    let class = compressor.as_deref().map_or_else(
        || "-".to_owned(),
        |name| match name.contains('.') {
            true => name.to_owned(),
            false => format!("org.apache.cassandra.io.compress.{name}"),
        },
    );
    line("Compressor", &class);
    if compressor.is_some() {
        line("Compression ratio", &metadata.compression_ratio);
    }
    line("TTL min", &days(metadata.min_ttl));
    line("TTL max", &days(metadata.max_ttl));
    if let Some([first, last]) = &ends {
        line("First token", &format_args!("{} ({})", first.0, first.1));
        line("Last token", &format_args!("{} ({})", last.0, last.1));
    }
    line("Covered clusterings", &clusterings(&metadata));
    line("SSTable Level", &metadata.level);
    line("Repaired at", &metadata.repaired_at);
    line("Originating host id", &uuid_or_dash(metadata.host));
    line("Pending repair", &uuid_or_dash(metadata.pending_repair));
    line("Replay positions covered", &intervals(&metadata.log_intervals));
    line("totalColumnsSet", &metadata.columns_count);
    line("totalRows", &metadata.rows_count);
    out.push_str("Estimated tombstone drop times:\n");
    let drop_times: Vec<(String, i64)> = metadata
        .drop_times
        .iter()
        .map(|(second, count)| (seconds(*second as i32), *count))
        .collect();
    histogram(("Drop Time", &drop_times), &mut out);
    let sizes = counted(&metadata.partition_sizes, |size| format!("{size} ({})", bytes(size)));
    out.push_str("Partition Size:\n");
    histogram(("Size (bytes)", &sizes), &mut out);
    out.push_str("Column Count:\n");
    let cells = counted(&metadata.cells_per_partition, |count| count.to_string());
    histogram(("Columns", &cells), &mut out);
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(out, "{name}: {value}");
    };
    match metadata.keys_estimate() {
        Some(estimate) => line("Estimated cardinality", &estimate),
        None => line("Estimated cardinality", &unknown(&metadata.sketch)),
    }
    header_lines(&metadata.header, &mut line);
    line("IsTransient", &metadata.is_transient);
    Ok(out)
}

fn header_lines(header: &Header, line: &mut impl FnMut(&str, &dyn std::fmt::Display)) {
    line("EncodingStats minTTL", &days(header.bases.min_ttl));
    line("EncodingStats minLocalDeletionTime", &seconds(header.bases.min_deletion_time));
    line("EncodingStats minTimestamp", &micros(header.bases.min_timestamp));
    line("KeyType", &header.partition_key);
    line("ClusteringTypes", &format_args!("[{}]", header.clustering.join(", ")));
    let columns = |named: &[(Vec<u8>, String)]| {
        let column =
            |(name, ty): &(Vec<u8>, String)| format!("{}:{ty}", String::from_utf8_lossy(name));
        named.iter().map(column).collect::<Vec<_>>().join(", ")
    };
    line("StaticColumns", &columns(&header.statics));
    line("RegularColumns", &columns(&header.regulars));
}

/// Why there is no estimate of the number of keys.
fn unknown(sketch: &Sketch) -> String {
    match sketch {
        Sketch::Other { bytes, what } => {
            format!("unknown ({what}: 0x{})", Hex(bytes))
        }
        _ => "unknown".to_owned(),
    }
}

/// `Statistics.db` as JSON.
///
/// Errors: `Io`, `Corrupt`.
pub async fn dump_statistics_json(sstable: &Inspector) -> Result<String> {
    let Around { metadata, compressor, ends } = around(sstable).await?;
    let key_json = |(token, text): &(i64, String)| {
        Json::Object(vec![("token", Json::number(token)), ("key", Json::text(text))])
    };
    let buckets = |buckets: &[(i64, i64)], name: &'static str| {
        let full = counted(buckets, |offset| offset.to_string());
        let bucket = |(offset, count): (String, i64)| {
            Json::Object(vec![(name, Json::Raw(offset)), ("count", Json::number(count))])
        };
        Json::List(full.into_iter().map(bucket).collect())
    };
    let drop_times = metadata.drop_times.iter().map(|(second, count)| {
        let members = vec![("second", Json::number(second)), ("count", Json::number(count))];
        Json::Object(members)
    });
    let position = |(segment, offset): LogPosition| {
        Json::Object(vec![("segment", Json::number(segment)), ("position", Json::number(offset))])
    };
    let intervals = metadata.log_intervals.iter().map(|(lower, upper)| {
        Json::Object(vec![("from", position(*lower)), ("to", position(*upper))])
    });
    let uuid = |uuid: Option<[u8; 16]>| Json::optional(uuid.map(|u| Json::text(format_uuid(&u))));
    let bound = |values: &[Vec<u8>]| Json::List(bound_texts(&metadata, values));
    let document = Json::Object(vec![
        (
            "sstable",
            Json::text(sstable.directory().join(sstable.name().prefix()).display().to_string()),
        ),
        ("version", Json::text(sstable.name().version().name())),
        ("partitioner", Json::text(&metadata.partitioner)),
        ("bloom_fp_chance", Json::number(metadata.bloom_fp_chance)),
        ("min_timestamp", Json::number(metadata.min_timestamp)),
        ("max_timestamp", Json::number(metadata.max_timestamp)),
        ("min_local_deletion_time", Json::number(metadata.min_deletion_time)),
        ("max_local_deletion_time", Json::number(metadata.max_deletion_time)),
        ("compressor", Json::optional(compressor.map(Json::Text))),
        ("compression_ratio", Json::number(metadata.compression_ratio)),
        ("min_ttl", Json::number(metadata.min_ttl)),
        ("max_ttl", Json::number(metadata.max_ttl)),
        ("first", Json::optional(ends.as_ref().map(|ends| key_json(&ends[0])))),
        ("last", Json::optional(ends.as_ref().map(|ends| key_json(&ends[1])))),
        ("min_clustering", bound(&metadata.min_clustering)),
        ("max_clustering", bound(&metadata.max_clustering)),
        ("level", Json::number(metadata.level)),
        ("repaired_at", Json::number(metadata.repaired_at)),
        ("originating_host_id", uuid(metadata.host)),
        ("pending_repair", uuid(metadata.pending_repair)),
        ("is_transient", Json::number(metadata.is_transient)),
        ("has_legacy_counter_shards", Json::number(metadata.has_legacy_counters)),
        ("replay_positions", Json::List(intervals.collect())),
        ("partitions", Json::number(metadata.partitions())),
        ("columns_set", Json::number(metadata.columns_count)),
        ("rows", Json::number(metadata.rows_count)),
        ("keys_estimate", Json::optional(metadata.keys_estimate().map(Json::number))),
        ("drop_times", Json::List(drop_times.collect())),
        ("partition_sizes", buckets(&metadata.partition_sizes, "bytes")),
        ("cells_per_partition", buckets(&metadata.cells_per_partition, "cells")),
        ("serialization_header", header_json(&metadata.header)),
    ]);
    Ok(document.to_string())
}

fn header_json(header: &Header) -> Json {
    let columns = |named: &[(Vec<u8>, String)]| {
        let column = |(name, ty): &(Vec<u8>, String)| {
            Json::Object(vec![
                ("name", Json::text(String::from_utf8_lossy(name))),
                ("type", Json::text(StoredType::parse(ty).to_string())),
                ("class", Json::text(ty)),
            ])
        };
        Json::List(named.iter().map(column).collect())
    };
    Json::Object(vec![
        ("min_timestamp", Json::number(header.bases.min_timestamp)),
        ("min_local_deletion_time", Json::number(header.bases.min_deletion_time)),
        ("min_ttl", Json::number(header.bases.min_ttl)),
        ("partition_key", Json::text(&header.partition_key)),
        ("clustering", Json::List(header.clustering.iter().map(Json::text).collect())),
        ("static_columns", columns(&header.statics)),
        ("regular_columns", columns(&header.regulars)),
    ])
}

fn micros(timestamp: i64) -> String {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        return format!("none ({timestamp})");
    }
    let (second, micros) = (timestamp.div_euclid(1_000_000), timestamp.rem_euclid(1_000_000));
    format!("{}.{micros:06} ({timestamp})", date(second))
}

fn seconds(second: i32) -> String {
    match second {
        i32::MAX => "no tombstones".to_owned(),
        second => format!("{} ({second})", date(i64::from(second))),
    }
}

fn date(second: i64) -> String {
    let (day, within) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    format!("{} {}", value::civil(day), value::clock(within))
}

fn days(ttl: i32) -> String {
    match ttl {
        0 => "0".to_owned(),
        ttl => format!("{ttl} ({} days)", ttl / 86_400),
    }
}

fn uuid_or_dash(uuid: Option<[u8; 16]>) -> String {
    uuid.map_or_else(|| "--".to_owned(), |uuid| format_uuid(&uuid))
}

fn intervals(intervals: &[(LogPosition, LogPosition)]) -> String {
    let text = |(lower, upper): &(LogPosition, LogPosition)| {
        format!("{}:{} to {}:{}", lower.0, lower.1, upper.0, upper.1)
    };
    match intervals {
        [] => "none".to_owned(),
        intervals => intervals.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

/// The stored values of a clustering bound as JSON; bytes where they are none of their type.
fn bound_texts(metadata: &Metadata, values: &[Vec<u8>]) -> Vec<Json> {
    let types = metadata.header.clustering.iter().map(|name| KeyType::parse(name));
    let text = |(value, key): (&Vec<u8>, KeyType)| {
        let mut out = String::new();
        match value::json(&key.ty, value, &mut out) {
            Ok(()) => Json::Raw(out),
            Err(_) => Json::Text(format!("0x{}", Hex(value))),
        }
    };
    values.iter().zip(types).map(text).collect()
}

fn clusterings(metadata: &Metadata) -> String {
    let text = |values: &[Vec<u8>]| {
        let texts = bound_texts(metadata, values);
        match texts.len() {
            0 => "unbounded".to_owned(),
            _ => texts.iter().map(Json::to_string).collect::<Vec<_>>().join(", "),
        }
    };
    format!("{} to {}", text(&metadata.min_clustering), text(&metadata.max_clustering))
}

/// Buckets that hold something.
fn counted(buckets: &[(i64, i64)], text: impl Fn(i64) -> String) -> Vec<(String, i64)> {
    // Every bucket names the offset before it; the first repeats the first.
    let offset = |i: usize| buckets.get(i + 1).map_or(i64::MAX, |(offset, _)| *offset);
    let full = buckets.iter().enumerate().filter(|(_, (_, count))| *count != 0);
    full.map(|(i, (_, count))| (text(offset(i)), *count)).collect()
}

fn bytes(size: i64) -> String {
    match size {
        ..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{:.1} kB", size as f64 / 1024.0),
        _ => format!("{:.1} MB", size as f64 / 1_048_576.0),
    }
}

fn histogram((title, rows): (&str, &[(String, i64)]), out: &mut String) {
    let sum: i64 = rows.iter().fold(0i64, |sum, (_, count)| sum.saturating_add(*count)).max(1);
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let width = rows.iter().map(|(text, _)| text.len()).max().unwrap_or(0).max(title.len());
    let _ = writeln!(out, "   {title:width$} | Count  (%)  Histogram");
    for (text, count) in rows {
        let share = (i128::from(*count) * 100 / i128::from(sum)) as i64;
        let length = (i128::from(*count) * i128::from(BAR_MAX) / i128::from(most)).max(0) as usize;
        let bar = "O".repeat(length.max(1));
        let _ = writeln!(out, "   {text:width$} | {count:5} ({share:3}) {bar}");
    }
}

/// `Scylla.db` as JSON; `None` when there is none.
///
/// Errors: `Io`, `Corrupt`.
pub async fn dump_scylla(sstable: &Inspector) -> Result<Option<String>> {
    let Some(scylla) = sstable.scylla().await? else { return Ok(None) };
    Ok(Some(scylla_json(&scylla).to_string()))
}

const FEATURES: [&str; 7] = [
    "NonCompoundPIEntries",
    "NonCompoundRangeTombstones",
    "ShadowableTombstones",
    "CorrectStaticCompact",
    "CorrectEmptyCounters",
    "CorrectUDTsInCollections",
    "CorrectLastPiBlockWidth",
];

pub(super) fn scylla_json(scylla: &ScyllaMetadata) -> Json {
    let mut members = Vec::new();
    members.extend(scylla.sharding.as_deref().map(|ranges| ("sharding", sharding_json(ranges))));
    members.extend(scylla.features.map(|bits| ("features", features_json(bits))));
    if let Some(attributes) = &scylla.attributes {
        let pair = |(key, value): &(String, String)| {
            Json::Object(vec![("key", Json::text(key)), ("value", Json::text(value))])
        };
        members.push(("extension_attributes", Json::List(attributes.iter().map(pair).collect())));
    }
    members.extend(scylla.run.map(|run| ("run_identifier", uuid_json(run))));
    if let Some(large) = &scylla.large_data {
        let entry = large.iter().map(|entry| {
            Json::Object(vec![
                ("kind", Json::Text(kind_name(entry.kind))),
                ("max_value", Json::number(entry.max)),
                ("threshold", Json::number(entry.threshold)),
                ("above_threshold", Json::number(entry.above_count)),
            ])
        });
        members.push(("large_data_stats", Json::List(entry.collect())));
    }
    let texts = [
        ("sstable_origin", &scylla.origin),
        ("scylla_build_id", &scylla.build_id),
        ("scylla_version", &scylla.version),
    ];
    for (name, text) in texts {
        members.extend(text.as_ref().map(|text| (name, Json::text(text))));
    }
    if let Some(timestamps) = &scylla.timestamps {
        let entries = timestamps.iter().map(timestamp_json).collect();
        members.push(("ext_timestamp_stats", Json::List(entries)));
    }
    members.extend(scylla.identity.map(|id| ("sstable_identifier", uuid_json(id))));
    members.extend(scylla.schema.as_ref().map(|schema| ("schema", schema_json(schema))));
    if let Some(digests) = &scylla.digests {
        let entry = digests.iter().map(|(component, crc)| {
            Json::Object(vec![
                ("component", Json::text(component_name(*component))),
                ("crc32", Json::text(format!("{crc:08x}"))),
            ])
        });
        members.push(("component_digests", Json::List(entry.collect())));
    }
    if let Some(records) = &scylla.records {
        let entries = records.iter().map(record_json).collect();
        members.push(("large_data_records", Json::List(entries)));
    }
    if !scylla.other.is_empty() {
        let entry = scylla.other.iter().map(|(tag, body)| {
            Json::Object(vec![("tag", Json::number(tag)), ("body", hex_json(body))])
        });
        members.push(("other", Json::List(entry.collect())));
    }
    Json::Object(members)
}

fn uuid_json(uuid: u128) -> Json {
    Json::text(format_uuid(&uuid.to_be_bytes()))
}

fn hex_json(bytes: &[u8]) -> Json {
    Json::Text(Hex(bytes).to_string())
}

fn sharding_json(ranges: &[(TokenBound, TokenBound)]) -> Json {
    let bound = |bound: &TokenBound| {
        let token = match <[u8; 8]>::try_from(bound.token.as_slice()) {
            Ok(bytes) => Json::number(i64::from_be_bytes(bytes)),
            Err(_) => hex_json(&bound.token),
        };
        Json::Object(vec![("exclusive", Json::number(bound.is_exclusive)), ("token", token)])
    };
    let range = |(left, right): &(TokenBound, TokenBound)| {
        Json::Object(vec![("left", bound(left)), ("right", bound(right))])
    };
    Json::List(ranges.iter().map(range).collect())
}

fn features_json(bits: u64) -> Json {
    let names = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| {
        Json::Text(FEATURES.get(bit).map_or_else(|| format!("bit {bit}"), |n| (*n).to_owned()))
    });
    Json::Object(vec![("mask", Json::number(bits)), ("features", Json::List(names.collect()))])
}

fn timestamp_json((kind, micros): &(u32, i64)) -> Json {
    let kind = match kind {
        1 => "min_live_timestamp".to_owned(),
        2 => "min_live_row_marker_timestamp".to_owned(),
        other => other.to_string(),
    };
    Json::Object(vec![("kind", Json::Text(kind)), ("timestamp", Json::number(micros))])
}

fn schema_json(schema: &ScyllaSchema) -> Json {
    let kinds = ["partition_key", "clustering_key", "static", "regular"];
    let column = schema.columns.iter().map(|column| {
        let kind = usize::from(column.kind).checked_sub(1).and_then(|kind| kinds.get(kind));
        let kind = kind.map_or_else(|| column.kind.to_string(), |kind| (*kind).to_owned());
        Json::Object(vec![
            ("name", Json::text(&column.name)),
            ("kind", Json::Text(kind)),
            ("type", Json::text(StoredType::parse(&column.ty).to_string())),
            ("class", Json::text(&column.ty)),
        ])
    });
    Json::Object(vec![
        ("id", uuid_json(schema.table)),
        ("version", uuid_json(schema.version)),
        ("keyspace_name", Json::text(&schema.keyspace)),
        ("table_name", Json::text(&schema.name)),
        ("columns", Json::List(column.collect())),
    ])
}

fn record_json(record: &LargeRecord) -> Json {
    Json::Object(vec![
        ("kind", Json::Text(kind_name(record.kind))),
        ("partition_key", hex_json(&record.partition_key)),
        ("clustering_key", hex_json(&record.clustering_key)),
        ("column", Json::text(&record.column)),
        ("value", Json::number(record.bytes)),
        ("elements", Json::number(record.elements)),
        ("range_tombstones", Json::number(record.range_tombstones)),
        ("dead_rows", Json::number(record.dead_rows)),
    ])
}

fn kind_name(kind: u32) -> String {
    LargeKind::of_number(kind).map_or_else(|| kind.to_string(), |kind| kind.name().to_owned())
}

/// The component that a number in `Scylla.db` stands for, where it is known.
fn component_name(number: u32) -> String {
    match number {
        1 => Component::CompressionInfo.suffix().to_owned(),
        7 => Component::Filter.suffix().to_owned(),
        8 => Component::Statistics.suffix().to_owned(),
        other => format!("component {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::format::layout::Bases;
    use crate::sstable::format::scylla::{LargeData, ScyllaColumn};

    fn with_every_part() -> ScyllaMetadata {
        let bound = |token: &[u8]| TokenBound { is_exclusive: true, token: token.into() };
        ScyllaMetadata {
            sharding: Some(vec![(bound(&(-5i64).to_be_bytes()), bound(b"x"))]),
            features: Some(0x141),
            attributes: Some(vec![("k".into(), "v\"".into())]),
            run: Some(1),
            large_data: Some(vec![LargeData { kind: 2, max: 900, threshold: 10, above_count: 3 }]),
            origin: Some("memtable".into()),
            build_id: Some("b".into()),
            version: Some("2026.1".into()),
            timestamps: Some(vec![(1, 77), (9, 78)]),
            identity: Some(u128::MAX),
            schema: Some(ScyllaSchema {
                table: 2,
                version: 3,
                keyspace: "ks".into(),
                name: "t".into(),
                columns: vec![ScyllaColumn { kind: 2, name: "ck".into(), ty: "Int32Type".into() }],
            }),
            digests: Some(vec![(7, 0xabc), (99, 1)]),
            records: Some(vec![LargeRecord {
                kind: 3,
                partition_key: vec![7],
                column: "v".into(),
                bytes: 900,
                ..LargeRecord::default()
            }]),
            other: vec![(13, vec![1, 0xff])],
        }
    }

    #[test]
    fn each_kind_of_column_has_its_name() {
        let column = |kind| ScyllaColumn { kind, name: "c".into(), ty: "Int32Type".into() };
        let columns = (0..6).map(column).collect();
        let schema =
            ScyllaSchema { table: 2, version: 3, keyspace: "k".into(), name: "t".into(), columns };
        let json: serde_json::Value =
            serde_json::from_str(&schema_json(&schema).to_string()).unwrap();
        let kinds: Vec<&str> = json["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["0", "partition_key", "clustering_key", "static", "regular", "5"]);
    }

    #[test]
    fn each_base_of_a_header_is_its_own() {
        let bases = Bases { min_timestamp: 11, min_deletion_time: 12, min_ttl: 13 };
        let column = |name: &str| (name.as_bytes().to_vec(), "Int32Type".to_owned());
        let header = Header {
            bases,
            partition_key: "UTF8Type".into(),
            clustering: vec!["Int32Type".into()],
            statics: vec![column("s")],
            regulars: vec![column("r"), column("v")],
        };
        let json: serde_json::Value =
            serde_json::from_str(&header_json(&header).to_string()).unwrap();
        let found = ["min_timestamp", "min_local_deletion_time", "min_ttl"].map(|name| &json[name]);
        assert_eq!(found, [11, 12, 13]);
        assert_eq!(
            (&json["partition_key"], &json["clustering"][0]),
            (&"UTF8Type".into(), &"Int32Type".into())
        );
        let names = |columns: &str| -> Vec<String> {
            let columns = json[columns].as_array().unwrap().iter();
            columns.map(|column| column["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            (names("static_columns"), names("regular_columns")),
            (vec!["s".into()], vec!["r".into(), "v".into()])
        );
    }

    #[test]
    fn every_part_of_scylla_db_is_printed() {
        let json: serde_json::Value =
            serde_json::from_str(&scylla_json(&with_every_part()).to_string()).unwrap();
        let wanted = serde_json::json!({
            "sharding": [{
                "left": { "exclusive": true, "token": -5 },
                "right": { "exclusive": true, "token": "78" },
            }],
            "features": {
                "mask": 0x141,
                "features": ["NonCompoundPIEntries", "CorrectLastPiBlockWidth", "bit 8"],
            },
            "extension_attributes": [{ "key": "k", "value": "v\"" }],
            "run_identifier": "00000000-0000-0000-0000-000000000001",
            "large_data_stats":
                [{ "kind": "row", "max_value": 900, "threshold": 10, "above_threshold": 3 }],
            "sstable_origin": "memtable",
            "scylla_build_id": "b",
            "scylla_version": "2026.1",
            "ext_timestamp_stats": [
                { "kind": "min_live_timestamp", "timestamp": 77 },
                { "kind": "9", "timestamp": 78 },
            ],
            "sstable_identifier": "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "schema": {
                "id": "00000000-0000-0000-0000-000000000002",
                "version": "00000000-0000-0000-0000-000000000003",
                "keyspace_name": "ks",
                "table_name": "t",
                "columns":
                    [{ "name": "ck", "kind": "clustering_key", "type": "int", "class": "Int32Type" }],
            },
            "component_digests": [
                { "component": "Filter.db", "crc32": "00000abc" },
                { "component": "component 99", "crc32": "00000001" },
            ],
            "large_data_records": [{
                "kind": "cell",
                "partition_key": "07",
                "clustering_key": "",
                "column": "v",
                "value": 900,
                "elements": 0,
                "range_tombstones": 0,
                "dead_rows": 0,
            }],
            "other": [{ "tag": 13, "body": "01ff" }],
        });
        assert_eq!(json, wanted);
    }

    #[test]
    fn moments_and_times_to_live_stand_before_the_number_that_is_stored() {
        for (timestamp, wanted) in [
            (0, "1970-01-01 00:00:00.000000 (0)"),
            (-1, "1969-12-31 23:59:59.999999 (-1)"),
            (61_000_001, "1970-01-01 00:01:01.000001 (61000001)"),
            (86_399_999_999, "1970-01-01 23:59:59.999999 (86399999999)"),
            (86_400_000_000, "1970-01-02 00:00:00.000000 (86400000000)"),
            (i64::MIN, "none (-9223372036854775808)"),
            (i64::MAX, "none (9223372036854775807)"),
        ] {
            assert_eq!(micros(timestamp), wanted);
        }
        for (second, wanted) in [
            (0, "1970-01-01 00:00:00 (0)"),
            (-1, "1969-12-31 23:59:59 (-1)"),
            (86_400, "1970-01-02 00:00:00 (86400)"),
            (i32::MAX - 1, "2038-01-19 03:14:06 (2147483646)"),
            (i32::MAX, "no tombstones"),
        ] {
            assert_eq!(seconds(second), wanted);
        }
        for (ttl, wanted) in [
            (0, "0"),
            (1, "1 (0 days)"),
            (86_399, "86399 (0 days)"),
            (86_400, "86400 (1 days)"),
            (172_799, "172799 (1 days)"),
        ] {
            assert_eq!(days(ttl), wanted);
        }
    }

    #[test]
    fn sizes_change_their_unit_and_buckets_are_named_by_their_upper_end() {
        for (size, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 kB"),
            (1536, "1.5 kB"),
            (1_048_575, "1024.0 kB"),
            (1_048_576, "1.0 MB"),
            (10_485_760, "10.0 MB"),
        ] {
            assert_eq!(bytes(size), wanted);
        }
        let full = counted(&[(1, 2), (1, 0), (2, 5), (4, 7)], |offset| offset.to_string());
        let bucket = |offset: i64, count: i64| (offset.to_string(), count);
        assert_eq!(full, [bucket(1, 2), bucket(4, 5), bucket(i64::MAX, 7)]);
        let mut out = String::new();
        histogram(("Size", &[bucket(4, 1), bucket(100, 99)]), &mut out);
        let wanted = format!(
            "   Size | Count  (%)  Histogram\n   4    |     1 (  1) O\n   100  |    99 ( 99) {}\n",
            "O".repeat(30)
        );
        assert_eq!(out, wanted, "the least bar has one letter");
        out.clear();
        histogram(("Size", &[]), &mut out);
        assert_eq!(out, "   Size | Count  (%)  Histogram\n");
        assert_eq!(intervals(&[]), "none");
        assert_eq!(intervals(&[((1, 2), (3, 4))]), "1:2 to 3:4");
        assert_eq!(intervals(&[((1, 2), (3, 4)), ((-1, 0), (7, 8))]), "1:2 to 3:4, -1:0 to 7:8");
        assert_eq!(uuid_or_dash(None), "--");
    }

    #[test]
    fn each_number_of_scylla_db_has_its_name_and_an_unknown_one_stands_as_it_is() {
        let parsed =
            |json: Json| -> serde_json::Value { serde_json::from_str(&json.to_string()).unwrap() };
        for (bit, name) in [
            (0, "NonCompoundPIEntries"),
            (1, "NonCompoundRangeTombstones"),
            (2, "ShadowableTombstones"),
            (3, "CorrectStaticCompact"),
            (4, "CorrectEmptyCounters"),
            (5, "CorrectUDTsInCollections"),
            (6, "CorrectLastPiBlockWidth"),
            (7, "bit 7"),
            (63, "bit 63"),
        ] {
            let wanted = serde_json::json!({ "mask": 1_u64 << bit, "features": [name] });
            assert_eq!(parsed(features_json(1 << bit)), wanted);
        }
        for (kind, name) in
            [(0, "0"), (1, "min_live_timestamp"), (2, "min_live_row_marker_timestamp"), (3, "3")]
        {
            let wanted = serde_json::json!({ "kind": name, "timestamp": -5 });
            assert_eq!(parsed(timestamp_json(&(kind, -5))), wanted);
        }
        let components = [0, 1, 7, 8, 9].map(component_name);
        let unknown = |number: u32| format!("component {number}");
        let known = ["CompressionInfo.db", "Filter.db", "Statistics.db"].map(str::to_owned);
        let [info, filter, statistics] = known;
        assert_eq!(components, [unknown(0), info, filter, statistics, unknown(9)]);
        let kinds = [0, 1, 2, 3, 4, 5, 6].map(kind_name);
        let wanted =
            ["0", "partition", "row", "cell", "rows_in_partition", "elements_in_collection", "6"];
        assert_eq!(kinds, wanted);
    }
}
