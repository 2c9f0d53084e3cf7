//! Scans in an order that a reader wants.
//!
//! SQL has no name for the order of partitions but `token(…)`, so a stream of several claims none
//! by itself. Two kinds of readers make use of that order all the same:
//!
//! - A sort by the token: see [`TideScan::turned`].
//! - Groups and windows within partitions, which need to have together what belongs together, and
//!   not in which order: see [`TideScan::by_partitions`].

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_expr::{
    EquivalenceProperties, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr,
};
use tidegate_engine::mutation::Direction;
use tidegate_engine::schema::DataType;

use super::order::{Scope, clustering_order, equivalence, output_column};
use super::pushdown::is_plain;
use super::scan::TideScan;
use super::source::Source;
use super::token;
use crate::query::types::identifier::{Kind, ordered_by};

impl TideScan {
    /// An order with columns for the orders of what they name; `None` where a UUID or address is to
    /// be ordered as text.
    fn by_columns(&self, order: &[PhysicalSortExpr]) -> Option<Vec<PhysicalSortExpr>> {
        let type_of = |expr: &Arc<dyn PhysicalExpr>| {
            let column = expr.downcast_ref::<PhysicalColumn>();
            let id = column.and_then(|column| self.selection.output().get(column.index()))?;
            Some(&self.table.column(*id).ty)
        };
        let is_named = |ty: &DataType| Kind::of_type(ty).is_some();
        let by_order = |sort: &PhysicalSortExpr| {
            let call = sort.expr.downcast_ref::<ScalarFunctionExpr>()?;
            let (kind, argument) = (ordered_by(call.name())?, call.args().first()?);
            (type_of(argument) == Some(&kind.data_type())).then(|| Arc::clone(argument))
        };
        let by_column = |sort: &PhysicalSortExpr| match by_order(sort) {
            Some(expr) => Some(PhysicalSortExpr { expr, options: sort.options }),
            None => (!type_of(&sort.expr).is_some_and(is_named)).then(|| sort.clone()),
        };
        order.iter().map(by_column).collect()
    }

    /// A scan that claims an order which each of its streams has.
    fn with_order(self, order: &[PhysicalSortExpr]) -> Self {
        let properties = (*self.properties).clone();
        let mut known = properties.eq_properties.clone();
        known.add_ordering(order.iter().cloned());
        TideScan { properties: Arc::new(properties.with_eq_properties(known)), ..self }
    }

    /// A scan whose streams have an order; `None` where no direction of reading gives it.
    ///
    /// A stream of a shard is in ring order. Of two keys with one token the less comes first, byte
    /// by byte, which is the order of SQL for keys of one text or blob.
    ///
    /// Errors: those of DataFusion where it finds no plan for the expressions.
    pub fn turned(&self, order: &[PhysicalSortExpr]) -> Result<Option<Self>> {
        // A limit that is in place counts rows from the end that is read first now.
        if self.limit.is_some() {
            return Ok(None);
        }
        let Some(by_columns) = self.by_columns(order) else { return Ok(None) };
        let token = self.token_in(order);
        for direction in self.directions() {
            let mut in_stream = self.known(direction, Scope::Stream);
            if let Some(token) = &token {
                in_stream.add_ordering(self.ring_order(token, direction));
            }
            if in_stream.ordering_satisfy(by_columns.iter().cloned())? {
                return Ok(Some(self.with_direction(direction).with_order(order)));
            }
        }
        Ok(None)
    }

    /// A scan for operators that need rows of a partition together, and partitions in any order:
    /// it claims to be sorted by the columns of the partition key. Only what keeps equal keys
    /// together may stand above it. Of the orders that are wanted within partitions, it has as many
    /// as one direction of reading gives.
    ///
    /// `None` where a partition may be read in pieces, where SQL may take two partition keys for
    /// one, and where streams are of one partition each: their order is one that others may know.
    ///
    /// Errors: those of DataFusion where it finds no plan for the expressions.
    pub fn by_partitions(&self, wanted: &[Vec<PhysicalSortExpr>]) -> Result<Option<Self>> {
        let Some(key) = self.key_columns().filter(|_| self.has_whole_partitions()) else {
            return Ok(None);
        };
        let mut best = (Direction::Forward, Vec::new());
        for (at, direction) in self.directions().into_iter().enumerate() {
            let known = self.known(direction, Scope::Partition);
            let mut given = Vec::new();
            for order in wanted {
                if let Some(by_columns) = self.by_columns(order)
                    && known.ordering_satisfy(by_columns)?
                {
                    given.push(order);
                }
            }
            if at == 0 || given.len() > best.1.len() {
                best = (direction, given);
            }
        }
        let (direction, given) = best;
        let physical = |id| output_column(&self.table, &self.selection, id);
        let natural = clustering_order(&self.table, &self.access, direction, Scope::Plan, physical);
        let key = key.into_iter().map(PhysicalSortExpr::new_default);
        let key: Vec<PhysicalSortExpr> = key.collect();
        let mut scan = self.with_direction(direction);
        for order in given.into_iter().chain([&natural]) {
            scan = scan.with_order(&[&key[..], order].concat());
        }
        Ok(Some(scan))
    }

    /// The columns of the partition key in the output; `None` where one is missing.
    pub fn key_columns(&self) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
        let column = |id| output_column(&self.table, &self.selection, id);
        self.table.partition_key_ids().into_iter().map(column).collect()
    }

    /// Whether each partition is in one stream, without another's rows among its own, different
    /// partitions have different keys in SQL, and streams are of several of them.
    fn has_whole_partitions(&self) -> bool {
        let mut seen = HashSet::new();
        let mut is_new = |source: &Source| match source {
            Source::Shard { .. } => true,
            Source::Parts(parts) => {
                parts.iter().flat_map(|part| &part.keys).all(|key| seen.insert(key.clone()))
            }
            // Another node reads its shards side by side.
            Source::Node { .. } => false,
        };
        // Any byte but zero is a true boolean in files of others.
        let is_told_apart = |ty: &DataType| match ty {
            DataType::Uuid | DataType::TimeUuid => true,
            DataType::Boolean => false,
            other => is_plain(other),
        };
        self.table.partition_key().all(|column| is_told_apart(&column.ty))
            && !self.sources.iter().all(Source::is_one_partition)
            && self.sources.iter().all(&mut is_new)
    }

    /// The directions in which partitions may be read: which rows come is decided where there are
    /// limits.
    fn directions(&self) -> Vec<Direction> {
        match self.limit.or(self.partition_limit) {
            None => vec![Direction::Forward, Direction::Reversed],
            Some(_) => vec![self.direction],
        }
    }

    fn known(&self, direction: Direction, scope: Scope) -> EquivalenceProperties {
        let (table, access, sources) = (&self.table, &self.access, &self.sources);
        equivalence(table, access, &self.selection, sources, direction, scope)
    }

    /// Whether an order begins with the token of the partition key, and streams are in that order.
    pub fn begins_with_token(&self, order: &[PhysicalSortExpr]) -> bool {
        self.token_in(order).is_some()
    }

    /// The call with which an order begins, if it is that of the token of the partition key, and if
    /// the streams are those of shards.
    fn token_in(&self, order: &[PhysicalSortExpr]) -> Option<PhysicalSortExpr> {
        let is_of_shard = |source: &Source| matches!(source, Source::Shard { .. });
        let first = order.first().filter(|first| !first.options.descending)?;
        // Others may write a key otherwise than `token(…)` does of its value.
        let is_own = !self.database.catalog().is_attached(&self.table.keyspace, &self.table.name);
        let is_on_ring = is_own && self.sources.iter().all(is_of_shard);
        let key = self.key_columns().filter(|_| is_on_ring)?;
        let is_of_key = token::call(&first.expr)?.iter().eq(&key);
        is_of_key.then(|| first.clone())
    }

    /// The order of a stream of a shard.
    fn ring_order(&self, token: &PhysicalSortExpr, direction: Direction) -> Vec<PhysicalSortExpr> {
        let mut order = vec![token.clone()];
        let mut types = self.table.partition_key().map(|column| &column.ty);
        let is_sorted = matches!(types.next(), Some(DataType::Text | DataType::Blob));
        if is_sorted && types.next().is_none() {
            let key = self.key_columns().into_iter().flatten();
            order.extend(key.map(PhysicalSortExpr::new_default));
            let physical = |id| output_column(&self.table, &self.selection, id);
            let (table, access) = (&self.table, &self.access);
            order.extend(clustering_order(table, access, direction, Scope::Stream, physical));
        }
        order
    }
}
