//! `max(ck)` and `min(ck)` of a partition: the row at one of its ends.
//!
//! The aggregate gets `ORDER BY ck DESC LIMIT 1` of its input, or the ascending one. A scan of one
//! partition has both orders, so that it reads a row instead of the partition. Conditions that no
//! slice can say are checked by the scan, before it stops.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, TableScan,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::query::scan::TideTable;
use crate::query::scan::pushdown::is_plain;

/// See the head of this file. Goes after conditions have come to the tables.
#[derive(Debug)]
pub struct ExtremeRow;

impl OptimizerRule for ExtremeRow {
    fn name(&self) -> &str {
        "extreme_row"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        let Some((column, is_max)) =
            extreme(aggregate).filter(|(column, _)| is_ordered_by(&aggregate.input, column))
        else {
            return Ok(Transformed::no(plan));
        };
        let input = LogicalPlanBuilder::from(Arc::clone(&aggregate.input))
            .sort([SortExpr::new(Expr::Column(column), !is_max, false)])?
            .limit(0, Some(1))?
            .build()?;
        let (group, aggregates) = (Vec::new(), aggregate.aggr_expr.clone());
        let schema = Arc::clone(&aggregate.schema);
        let one = Aggregate::try_new_with_schema(Arc::new(input), group, aggregates, schema)?;
        Ok(Transformed::yes(LogicalPlan::Aggregate(one)))
    }
}

/// The column whose greatest or least value is all that an aggregate gives, and whether it is the
/// greatest.
fn extreme(aggregate: &Aggregate) -> Option<(Column, bool)> {
    let [Expr::AggregateFunction(call)] = &aggregate.aggr_expr[..] else { return None };
    let params = &call.params;
    let is_plain = aggregate.group_expr.is_empty()
        && params.filter.is_none()
        && params.order_by.is_empty()
        && params.null_treatment.is_none();
    let is_max = match call.func.name() {
        "max" => true,
        "min" => false,
        _ => return None,
    };
    match &params.args[..] {
        [Expr::Column(column)] if is_plain => Some((column.clone(), is_max)),
        _ => None,
    }
}

/// Whether rows can be read in the order of a column: those of one partition, by the clustering
/// column that comes first.
fn is_ordered_by(plan: &LogicalPlan, column: &Column) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let place = alias.schema.maybe_index_of_column(column);
            place.is_some_and(|at| {
                is_ordered_by(&alias.input, &Column::from(alias.input.schema().qualified_field(at)))
            })
        }
        LogicalPlan::Projection(projection) => {
            let place = projection.schema.maybe_index_of_column(column);
            let mut expr = place.map(|at| &projection.expr[at]);
            while let Some(Expr::Alias(alias)) = expr {
                expr = Some(&alias.expr);
            }
            matches!(expr, Some(Expr::Column(inner)) if is_ordered_by(&projection.input, inner))
        }
        LogicalPlan::TableScan(scan) => is_scanned_by(scan, &column.name),
        _ => false,
    }
}

fn is_scanned_by(scan: &TableScan, name: &str) -> bool {
    let Ok(provider) = source_as_provider(&scan.source) else { return false };
    let Some(table) = provider.downcast_ref::<TideTable>() else { return false };
    if scan.fetch.is_some() || table.partition_limit().is_some() {
        return false;
    }
    let access = table.access(&scan.filters);
    let schema = table.table();
    let mut open = schema.clustering_key_ids().into_iter().filter(|id| !access.fixed.contains(id));
    let is_first = open.next().is_some_and(|id| schema.column(id).name == name);
    let is_alike = schema.find(name).is_some_and(|(_, column)| is_plain(&column.ty));
    let is_one = access.keys.as_ref().is_some_and(|keys| keys.len() == 1);
    is_first && is_alike && is_one
}
