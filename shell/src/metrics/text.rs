//! Rows as metrics in Prometheus' text format (version 0.0.4).
//!
//! Text columns and `shard` are labels, other columns values. All lines of a metric stand together,
//! as the format wants it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::query::arrow::array::{Array, AsArray, RecordBatch};
use crate::query::arrow::compute::cast;
use crate::query::arrow::datatypes::{DataType, Float64Type};

/// Ends of the names of what only grows; all else is a gauge.
const COUNTERS: [&str; 25] = [
    "_hits",
    "_misses",
    "_evictions",
    "_refused",
    "_reads",
    "_gaps_read",
    "_insertions",
    "_rows_merged",
    "_rows_dropped",
    "_mispopulations",
    "_slowed_writes",
    "_stopped_writes",
    "_stalls",
    "_read_bytes",
    "_writes",
    "_written_bytes",
    "_split",
    "_cancelled",
    "_waited_s",
    "_executed_s",
    "_starved_s",
    "_disk_s",
    "_arrived",
    "_admitted",
    "_shed",
];

/// Metrics by name, each with its lines.
#[derive(Default)]
pub(super) struct Exposition(BTreeMap<String, String>);

impl Exposition {
    /// Rows of a name, labels and a `value`.
    pub(super) fn add_named(&mut self, rows: &RecordBatch) {
        let (labels, values) = parts(rows);
        let [(_, names), labels @ ..] = &labels[..] else { return };
        for (_, value) in values {
            for row in 0..rows.num_rows() {
                if let (Some(name), Some(value)) = (&names[row], value[row]) {
                    self.add(name, labels, row, value);
                }
            }
        }
    }

    /// Rows of labels and values: each column of values is a metric.
    pub(super) fn add_columns(&mut self, prefix: &str, rows: &RecordBatch) {
        let (labels, values) = parts(rows);
        for (name, values) in values {
            for (row, value) in values.into_iter().enumerate() {
                if let Some(value) = value {
                    self.add(&format!("{prefix}_{name}"), &labels, row, value);
                }
            }
        }
    }

    fn add(&mut self, name: &str, labels: &[Labels], row: usize, value: f64) {
        let is_counter = COUNTERS.iter().any(|end| format!("_{name}").ends_with(end));
        let (kind, end) = if is_counter { ("counter", "_total") } else { ("gauge", "") };
        let name = format!("tidegate_{name}{end}");
        let lines = self.0.entry(name.clone()).or_insert_with(|| format!("# TYPE {name} {kind}\n"));
        let labels = labels.iter().filter_map(|(label, texts)| {
            texts[row].as_ref().map(|text| format!("{label}=\"{}\"", escaped(text)))
        });
        let labels: Vec<String> = labels.collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name}{labels} {value}");
    }

    pub(super) fn finish(self) -> String {
        self.0.into_values().collect()
    }
}

/// A column of labels, with its name.
type Labels = (String, Vec<Option<String>>);
/// A column of values, with its name.
type Values = (String, Vec<Option<f64>>);

/// The columns of rows, as labels and as values.
fn parts(rows: &RecordBatch) -> (Vec<Labels>, Vec<Values>) {
    let (mut labels, mut values) = (Vec::new(), Vec::new());
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        let name = field.name().clone();
        let is_label = field.name() == "shard" || !field.data_type().is_numeric();
        let wanted = if is_label { DataType::Utf8 } else { DataType::Float64 };
        let Ok(column) = cast(column, &wanted) else { continue };
        match is_label {
            true => {
                let texts = column.as_string::<i32>().iter();
                labels.push((name, texts.map(|text| text.map(str::to_owned)).collect()));
            }
            false => values.push((name, column.as_primitive::<Float64Type>().iter().collect())),
        }
        debug_assert_eq!(column.len(), rows.num_rows());
    }
    (labels, values)
}

/// A value of a label, as it stands between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::query::arrow::array::{ArrayRef, Float64Array, StringArray, UInt32Array};

    fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    }

    #[test]
    fn lines_of_a_metric_stand_together_with_their_kind() {
        let names: ArrayRef =
            Arc::new(StringArray::from(vec!["cache_hits", "bytes", "cache_hits"]));
        let shards: ArrayRef = Arc::new(UInt32Array::from(vec![0, 0, 1]));
        let tables: ArrayRef =
            Arc::new(StringArray::from(vec![None, Some("a\"b\\c\nd"), None::<&str>]));
        let values: ArrayRef = Arc::new(Float64Array::from(vec![7.0, 0.5, 3e9]));
        let mut exposition = Exposition::default();
        exposition.add_named(&rows(vec![
            ("name", names),
            ("shard", shards.clone()),
            ("table_name", tables),
            ("value", values),
        ]));
        let limits: ArrayRef = Arc::new(UInt32Array::from(vec![Some(9), None, None]));
        exposition.add_columns("memory", &rows(vec![("shard", shards), ("limit", limits)]));
        assert_eq!(
            exposition.finish(),
            "# TYPE tidegate_bytes gauge\n\
             tidegate_bytes{shard=\"0\",table_name=\"a\\\"b\\\\c\\nd\"} 0.5\n\
             # TYPE tidegate_cache_hits_total counter\n\
             tidegate_cache_hits_total{shard=\"0\"} 7\n\
             tidegate_cache_hits_total{shard=\"1\"} 3000000000\n\
             # TYPE tidegate_memory_limit gauge\n\
             tidegate_memory_limit{shard=\"0\"} 9\n"
        );
    }

    /// Whoever asks for the rate of a gauge gets nonsense, and the other way round.
    #[test]
    fn what_only_grows_is_a_counter_and_all_else_a_gauge() {
        let counters = "io_reads io_read_bytes io_writes io_written_bytes io_split io_cancelled \
                        io_waited_s io_executed_s io_starved_s io_disk_s admission_arrived \
                        admission_admitted admission_refused admission_shed cache_hits \
                        cache_misses cache_evictions cache_refused row_cache_reads \
                        row_cache_row_hits row_cache_partition_misses row_cache_gaps_read \
                        row_cache_insertions row_cache_rows_merged row_cache_rows_dropped \
                        row_cache_partition_evictions row_cache_mispopulations \
                        commitlog_slowed_writes commitlog_stopped_writes stalls";
        let gauges = "io_shares io_bandwidth io_queued io_in_disk io_per_second io_delay_us \
                      io_execution_us io_disk_share admission_running admission_queued \
                      admission_aside admission_memory_bytes admission_wait_us_max \
                      admission_shed_per_mille admission_shed_wait_ms admission_p99_us \
                      cache_bytes cache_pages cache_entries cache_row_bytes cache_capacity_bytes \
                      row_cache_rows row_cache_bytes row_cache_continuity commitlog_bytes \
                      commitlog_limit_bytes commitlog_pins_oldest compaction_backlog_bytes \
                      stall_longest_us memory_bytes memory_limit_bytes table_memtable_rows \
                      table_sstables table_sstable_bytes";
        for (names, kind, end) in [(counters, "counter", "_total"), (gauges, "gauge", "")] {
            for name in names.split_whitespace() {
                let named: ArrayRef = Arc::new(StringArray::from(vec![name]));
                let value: ArrayRef = Arc::new(UInt32Array::from(vec![3]));
                let shard: ArrayRef = Arc::new(UInt32Array::from(vec![None::<u32>]));
                let mut exposition = Exposition::default();
                let columns = vec![("name", named), ("shard", shard), ("value", value.clone())];
                exposition.add_named(&rows(columns));
                let full = format!("tidegate_{name}{end}");
                let wanted = format!("# TYPE {full} {kind}\n{full} 3\n");
                assert_eq!(exposition.finish(), wanted);
                // A column of a table has the same name, behind that of the table.
                let Some((table, column)) = name.split_once('_') else { continue };
                let mut exposition = Exposition::default();
                exposition.add_columns(table, &rows(vec![(column, value)]));
                assert_eq!(exposition.finish(), wanted);
            }
        }
    }
}
