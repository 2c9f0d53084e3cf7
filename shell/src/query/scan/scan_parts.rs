//! Parts of a scan, for other nodes.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use tidegate_engine::mutation::Direction;
use tidegate_engine::{Catalog, SchemaRef, Terms};

use super::metrics::ScanMetrics;
use super::order::properties;
use super::pushdown::Access;
use super::scan::TideScan;
use super::selection::Selection;
use super::source::{Source, of_tasks};
use crate::query::engine::Engine;

/// What a scan is made of, but for what joins tell it while they run.
#[derive(Debug, Clone)]
pub struct ScanParts {
    pub table: SchemaRef,
    pub access: Arc<Access>,
    pub sources: Arc<[Source]>,
    pub selection: Arc<Selection>,
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    pub direction: Direction,
    pub limit: Option<usize>,
    pub partition_limit: Option<usize>,
    pub past_cache: bool,
    pub terms: Option<Terms>,
}

impl TideScan {
    pub fn parts(&self) -> ScanParts {
        ScanParts {
            table: Arc::clone(&self.table),
            access: Arc::clone(&self.access),
            sources: Arc::clone(&self.sources),
            selection: Arc::clone(&self.selection),
            predicate: self.predicate.clone(),
            direction: self.direction,
            limit: self.limit,
            partition_limit: self.partition_limit,
            past_cache: self.past_cache,
            terms: self.terms,
        }
    }

    /// The scan of these parts.
    pub fn of_parts(database: Engine, parts: ScanParts) -> Self {
        let ScanParts { table, access, sources, selection, predicate, direction, limit, .. } =
            parts;
        let properties = properties(&table, &access, &selection, &sources, direction);
        TideScan {
            database,
            table,
            access,
            sources,
            selection,
            predicate,
            row_filter: None,
            direction,
            limit,
            partition_limit: parts.partition_limit,
            past_cache: parts.past_cache,
            wanted: None,
            joined: Vec::new(),
            table_rows: None,
            properties: Arc::new(properties),
            metrics: ScanMetrics::default(),
            terms: parts.terms,
            is_sent: true,
        }
    }

    /// A scan that nodes may send to each other.
    pub fn sent(&self) -> Self {
        TideScan { is_sent: true, metrics: ScanMetrics::default(), ..self.clone() }
    }

    /// Whether they may.
    pub fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// The node that alone is read, in a cluster.
    pub(super) fn only_node(&self) -> Option<Arc<str>> {
        let mut nodes = self.sources.iter().map(|source| match source {
            Source::Node { node, .. } => Some(*node),
            _ => None,
        });
        let first = nodes.next()??;
        let is_only = nodes.all(|node| node == Some(first));
        let ring = self.database.ring().filter(|_| is_only);
        ring.map(|ring| Arc::clone(ring.name(first)))
    }

    /// The catalog of this node.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.database.catalog()
    }

    /// The scans of so many tasks, on these terms; see [`of_tasks`].
    pub fn of_tasks(&self, count: usize, terms: Terms) -> Vec<Self> {
        let of_sources = |sources: Vec<Source>| {
            let parts = ScanParts { sources: sources.into(), terms: Some(terms), ..self.parts() };
            TideScan::of_parts(self.database.clone(), parts)
        };
        of_tasks(&self.database, &self.sources, count).into_iter().map(of_sources).collect()
    }
}
