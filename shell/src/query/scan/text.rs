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

#[cfg(test)]
mod tests {
    use tidegate_engine::mutation::Position;
    use tidegate_engine::schema::ClusteringOrder;
    use tidegate_engine::{Column, ColumnKind, DataType, TableId, TableOptions, Value};

    use super::*;

    /// `pk int | a int, b int`
    fn table() -> TableSchema {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        let order = ClusteringOrder::Ascending;
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", ColumnKind::PartitionKey { position: 0 }),
                column("a", ColumnKind::ClusteringKey { position: 0, order }),
                column("b", ColumnKind::ClusteringKey { position: 1, order }),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn key(values: &[i32]) -> ClusteringKey {
        let values: Vec<Value> = values.iter().map(|value| Value::Int(*value)).collect();
        ClusteringKey::from_values(&table(), &values).unwrap()
    }

    #[test]
    fn a_slice_says_which_of_its_ends_are_part_of_it() {
        let before = |values: &[i32]| Position::before(key(values));
        let after = |values: &[i32]| Position::after(key(values));
        for (start, end, wanted) in [
            (Position::start(), Position::end(), "[..]"),
            (before(&[5]), Position::end(), "[5..]"),
            (after(&[5]), Position::end(), "(5..]"),
            (Position::start(), before(&[5]), "[..5)"),
            (Position::start(), after(&[5]), "[..5]"),
            (before(&[5]), before(&[9]), "[5..9)"),
            (before(&[5]), after(&[9]), "[5..9]"),
            (after(&[5]), before(&[9]), "(5..9)"),
            (after(&[5]), after(&[9]), "(5..9]"),
            (before(&[5]), after(&[5]), "[5]"),
            (before(&[5, -6]), after(&[5, -6]), "[5, -6]"),
            (after(&[5, 6]), after(&[5]), "(5, 6..5]"),
            (before(&[5]), before(&[5, 6]), "[5..5, 6)"),
        ] {
            let range = ClusteringRange { start, end };
            assert_eq!(slices_text(&table(), std::slice::from_ref(&range)), wanted);
            let text = (wanted != "[..]").then(|| format!("slices={wanted}"));
            assert_eq!(ranges_text(&table(), &[range]), text, "{wanted}");
        }
    }

    #[test]
    fn the_first_slices_are_written_out_and_further_ones_counted() {
        for (count, wanted) in [
            (0, ""),
            (1, "[0]"),
            (2, "[0] [1]"),
            (3, "[0] [1] [2]"),
            (4, "[0] [1] [2] … 4 in all"),
            (5, "[0] [1] [2] … 5 in all"),
        ] {
            let range = |number| ClusteringRange::prefix(key(&[number]));
            let ranges: Vec<ClusteringRange> = (0..count).map(range).collect();
            assert_eq!(slices_text(&table(), &ranges), wanted, "{count} slices");
        }
        let keys = |count: u8| {
            let keys = (0..count).map(|number| PartitionKey::from_bytes([number]));
            keys_text(&keys.collect::<Vec<_>>())
        };
        assert_eq!([0, 1, 2, 20].map(keys), ["0 keys", "1 key", "2 keys", "20 keys"]);
    }

    #[test]
    fn a_read_is_told_with_all_that_it_asks_for_and_no_more() {
        let table = table();
        let plain = || ReadText {
            table: &table,
            partitions: "all".to_owned(),
            slices: None,
            direction: Direction::Forward,
            limit: None,
            partition_limit: None,
            joined: Vec::new(),
            past_cache: false,
        };
        let text = |read: ReadText<'_>| {
            let mut text = String::new();
            read.write(&mut text, "; ").unwrap();
            text
        };
        let start = "table=ks.t; partitions=all; direction=forward";
        assert_eq!(text(plain()), start);
        let slices = Some("slices=[5]".to_owned());
        let reversed = ReadText { slices, direction: Direction::Reversed, ..plain() };
        assert_eq!(text(reversed), "table=ks.t; partitions=all; slices=[5]; direction=reversed");
        for (read, wanted) in [
            (ReadText { limit: Some(7), ..plain() }, "limit=7"),
            (ReadText { partition_limit: Some(2), ..plain() }, "limit per partition=2"),
            (ReadText { joined: vec!["a", "b"], ..plain() }, "dynamic filter=[a, b]"),
            (ReadText { past_cache: true, ..plain() }, "cache=bypassed"),
        ] {
            assert_eq!(text(read), format!("{start}; {wanted}"));
        }
    }
}
