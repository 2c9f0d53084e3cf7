//! What a scan claims of the order of its rows, and what else is true of it.
//!
//! A stream that reads one partition is in clustering order, forward or reversed. A stream that
//! reads more has partition after partition, each as a whole and in clustering order. What is
//! constant in one stream only is claimed nowhere: it helps to find out whether a wanted order
//! holds in each stream, and then that order is claimed as it was asked for (`turned.rs`).

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{Partitioning, PlanProperties};
use tidegate_engine::mutation::Direction;
use tidegate_engine::schema::table_schema::SchemaRef;
use tidegate_engine::schema::{ClusteringOrder, ColumnId, TableSchema};

use super::pushdown::{Access, is_ordered_alike};
use super::selection::Selection;
use super::source::Source;
use crate::query::types::identifier::Kind;

/// A column of the table in the output of a scan.
pub(super) fn output_column(
    table: &TableSchema,
    selection: &Selection,
    id: ColumnId,
) -> Option<Arc<dyn PhysicalExpr>> {
    let at = selection.output().iter().position(|column| *column == id)?;
    Some(Arc::new(PhysicalColumn::new(&table.column(id).name, at)))
}

pub(super) fn properties(
    table: &SchemaRef,
    access: &Access,
    selection: &Selection,
    sources: &[Source],
    direction: Direction,
) -> PlanProperties {
    let equivalence = equivalence(table, access, selection, sources, direction, Scope::Plan);
    PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(sources.len()),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
    .with_scheduling_type(SchedulingType::Cooperative)
}

/// Where equivalences are to hold.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scope {
    /// In all streams together: what the plan claims.
    ///
    /// Constants are claimed with their values only: DataFusion 55.2 takes two columns of which it
    /// knows no more than that they are constant for equal to each other, and a join forgets them.
    ///
    /// DataFusion takes a sort key that is constant in each stream out of sorts and merges alike,
    /// although it differs between streams, and shares a TopK's filter on what is left among them:
    /// <https://github.com/apache/datafusion/pull/23528>. So such constants are not claimed.
    Plan,
    /// In each stream by itself.
    Stream,
    /// Of one partition after another in each stream.
    Partition,
}

/// Which output columns are constant and in what order rows come.
pub(super) fn equivalence(
    table: &TableSchema,
    access: &Access,
    selection: &Selection,
    sources: &[Source],
    direction: Direction,
    scope: Scope,
) -> EquivalenceProperties {
    let physical = |id| output_column(table, selection, id);
    let mut properties = EquivalenceProperties::new(selection.schema(table));
    let is_alone = scope == Scope::Partition || sources.iter().all(Source::is_one_partition);
    let mut constants = Vec::new();
    if scope != Scope::Plan {
        for id in &access.fixed {
            if let Some(column) = physical(*id) {
                constants.push(ConstExpr::new(column, AcrossPartitions::Uniform(None)));
            }
        }
    }
    if is_alone && scope != Scope::Plan {
        for id in table.partition_key_ids() {
            if !access.fixed.contains(&id)
                && let Some(column) = physical(id)
            {
                constants.push(ConstExpr::new(column, AcrossPartitions::Heterogeneous));
            }
        }
    }
    // Constants of an empty set of expressions cannot fail to be added.
    let _ = properties.add_constants(constants);
    for (id, value) in &access.named {
        if let Some(column) = physical(*id) {
            // Nor can what is equal, before there is an order.
            let _ = properties.add_equal_conditions(column, Arc::new(Literal::new(value.clone())));
        }
    }
    if is_alone {
        properties.add_ordering(clustering_order(table, access, direction, scope, physical));
    }
    properties
}

/// The clustering columns in the order of a read, as far as SQL can see that order.
pub(super) fn clustering_order(
    table: &TableSchema,
    access: &Access,
    direction: Direction,
    scope: Scope,
    physical: impl Fn(ColumnId) -> Option<Arc<dyn PhysicalExpr>>,
) -> Vec<PhysicalSortExpr> {
    let mut order = Vec::new();
    for id in table.clustering_key_ids() {
        if access.fixed.contains(&id) {
            continue;
        }
        let column = table.column(id);
        // Whoever asks in a narrower scope has brought what is named into its order.
        let is_alike = is_ordered_alike(&column.ty)
            || scope != Scope::Plan && Kind::of_type(&column.ty).is_some();
        let (Some(expr), true) = (physical(id), is_alike) else { break };
        let is_natural_descending = column.clustering_order() == ClusteringOrder::Descending;
        let descending = is_natural_descending != direction.is_reversed();
        // What a row lacks stands before all values; elsewhere there are no nulls.
        let nulls_first = descending != table.may_lack(id);
        order.push(PhysicalSortExpr::new(expr, SortOptions { descending, nulls_first }));
    }
    order
}
