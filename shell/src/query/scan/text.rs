//! What a read asks for, as EXPLAIN writes it.

use std::fmt;

use tidegate_engine::mutation::{ClusteringRange, Direction, Weight};
use tidegate_engine::schema::{ClusteringKey, PartitionKey, TableSchema};

use crate::query::types::literal::prefix_text;

/// Ranges that EXPLAIN writes out.
const RANGES_SHOWN_MAX: usize = 3;

/// See the head of this file.
pub struct ReadText<'a> {
    pub table: &'a TableSchema,
    pub partitions: String,
    /// Which rows of them; `None` for all.
    pub slices: Option<String>,
    pub direction: Direction,
    pub limit: Option<usize>,
    pub partition_limit: Option<usize>,
    /// Columns by whose values a join leaves rows out.
    pub joined: Vec<&'a str>,
    pub past_cache: bool,
}

impl ReadText<'_> {
    /// Writes it, with `separator` between its parts.
    pub fn write(&self, f: &mut dyn fmt::Write, separator: &str) -> fmt::Result {
        write!(f, "table={}", self.table.full_name())?;
        write!(f, "{separator}partitions={}", self.partitions)?;
        if let Some(slices) = &self.slices {
            write!(f, "{separator}{slices}")?;
        }
        let direction = if self.direction.is_reversed() { "reversed" } else { "forward" };
        write!(f, "{separator}direction={direction}")?;
        if let Some(limit) = self.limit {
            write!(f, "{separator}limit={limit}")?;
        }
        if let Some(rows) = self.partition_limit {
            write!(f, "{separator}limit per partition={rows}")?;
        }
        if !self.joined.is_empty() {
            write!(f, "{separator}dynamic filter=[{}]", self.joined.join(", "))?;
        }
        if self.past_cache {
            write!(f, "{separator}cache=bypassed")?;
        }
        Ok(())
    }
}

/// How many partitions are named.
pub fn keys_text(keys: &[PartitionKey]) -> String {
    match keys.len() {
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    }
}

/// Ranges of each partition; `None` for all of it.
pub fn ranges_text(table: &TableSchema, ranges: &[ClusteringRange]) -> Option<String> {
    let is_whole = ranges == [ClusteringRange::full()];
    (!is_whole).then(|| format!("slices={}", slices_text(table, ranges)))
}

/// Ranges as intervals of clustering values: `[(1, 2)..(5))`.
pub fn slices_text(table: &TableSchema, ranges: &[ClusteringRange]) -> String {
    let mut texts: Vec<String> =
        ranges.iter().take(RANGES_SHOWN_MAX).map(|range| range_text(table, range)).collect();
    if ranges.len() > RANGES_SHOWN_MAX {
        texts.push(format!("… {} in all", ranges.len()));
    }
    texts.join(" ")
}

fn range_text(table: &TableSchema, range: &ClusteringRange) -> String {
    let prefix = |key: &ClusteringKey| prefix_text(table, key);
    if range.start.prefix == range.end.prefix && !range.start.prefix.is_empty() {
        return format!("[{}]", prefix(&range.start.prefix));
    }
    let start = match range.start.weight {
        _ if range.start.prefix.is_empty() => "[".to_owned(),
        Weight::After => format!("({}", prefix(&range.start.prefix)),
        Weight::Before | Weight::At => format!("[{}", prefix(&range.start.prefix)),
    };
    let end = match range.end.weight {
        _ if range.end.prefix.is_empty() => "]".to_owned(),
        Weight::Before => format!("{})", prefix(&range.end.prefix)),
        Weight::After | Weight::At => format!("{}]", prefix(&range.end.prefix)),
    };
    format!("{start}..{end}")
}
