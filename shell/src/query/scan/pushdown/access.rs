//! What is read, as it is decided.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use tidegate_engine::mutation::ClusteringRange;
use tidegate_engine::schema::{ClusteringKey, ColumnId, PartitionKey, Token};

/// Partitions with the same slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// In ring order, each once.
    pub keys: Vec<PartitionKey>,
    /// In natural order, disjoint.
    pub ranges: Vec<ClusteringRange>,
    /// The full clustering keys when the conditions fix every clustering column; each once.
    pub rows: Option<Vec<ClusteringKey>>,
}

impl Part {
    /// The same of other partitions.
    pub fn of(&self, keys: Vec<PartitionKey>) -> Self {
        Part { keys, ranges: self.ranges.clone(), rows: self.rows.clone() }
    }

    /// Whether the clustering ranges are the whole partition.
    pub fn is_whole_partition(&self) -> bool {
        self.ranges == [ClusteringRange::full()]
    }
}

/// What to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// In ring order, each once; `None` means all partitions.
    pub keys: Option<Vec<PartitionKey>>,
    /// Of all partitions those between two tokens, both included; `None` for the whole ring.
    pub tokens: Option<(Token, Token)>,
    /// In natural order, disjoint; none means that no row can match.
    pub ranges: Vec<ClusteringRange>,
    /// Where partitions have slices of their own: all of them in ring order. Then `ranges` are
    /// those of all together, and `rows` are none.
    pub apart: Option<Vec<Part>>,
    /// The full clustering keys when the conditions fix every clustering column; each once.
    pub rows: Option<Vec<ClusteringKey>>,
    /// Columns that have one value in everything that is read.
    pub fixed: Vec<ColumnId>,
    /// Those of them whose value a condition names, with that value in SQL.
    pub named: Vec<(ColumnId, ScalarValue)>,
    /// Conditions that keys and ranges do not say.
    pub residual: Vec<Expr>,
}

impl Access {
    /// Everything.
    pub fn full() -> Self {
        Access {
            keys: None,
            tokens: None,
            ranges: vec![ClusteringRange::full()],
            apart: None,
            rows: None,
            fixed: Vec::new(),
            named: Vec::new(),
            residual: Vec::new(),
        }
    }

    /// Whether no row can match.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
            || self.keys.as_ref().is_some_and(Vec::is_empty)
            || self.tokens.is_some_and(|(min, max)| min > max)
    }

    /// The named partitions with what is read of each; none where all partitions are read.
    pub fn parts(&self) -> Vec<Part> {
        match (&self.apart, &self.keys) {
            (Some(parts), _) => parts.clone(),
            (None, Some(keys)) => {
                let (ranges, rows) = (self.ranges.clone(), self.rows.clone());
                vec![Part { keys: keys.clone(), ranges, rows }]
            }
            (None, None) => Vec::new(),
        }
    }

    /// Whether the clustering ranges are the whole partition.
    pub fn is_whole_partition(&self) -> bool {
        self.ranges == [ClusteringRange::full()]
    }
}

/// Whose partition keys are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Those that statements write.
    Own,
    /// Those of other products, which keep decimals with the scale that they were given with.
    Foreign,
    /// Just the one that is named: an UPDATE makes the row, so of two zeros it must not take both.
    Named,
}
