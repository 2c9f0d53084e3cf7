//! `SELECT DISTINCT pk`: one row of each partition says it.
//!
//! Where rows are grouped by columns that are constant in a partition, and nothing is computed of
//! the groups, all rows of a partition are one. So the scan goes on at the next partition after the
//! first row. Static columns are constant as well.

use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, TableScan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use tidegate_engine::{ColumnKind, Direction};

use super::below::column_below;
use crate::query::scan::{PartitionLimit, TideTable};

/// See the head of this file. Goes after conditions have come to the tables.
#[derive(Debug)]
pub struct OneRow;

impl OptimizerRule for OneRow {
    fn name(&self) -> &str {
        "one_row_of_each_partition"
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
        let key = |expr: &Expr| expr.clone().unalias().try_as_col().cloned();
        let keys = aggregate.group_expr.iter().map(key);
        let Some(keys) = keys.collect::<Option<Vec<Column>>>() else {
            return Ok(Transformed::no(plan));
        };
        if keys.is_empty() || !aggregate.aggr_expr.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let Some(input) = limited(&aggregate.input, &keys) else {
            return Ok(Transformed::no(plan));
        };
        let (group, schema) = (aggregate.group_expr.clone(), Arc::clone(&aggregate.schema));
        let one = Aggregate::try_new_with_schema(Arc::new(input), group, Vec::new(), schema)?;
        Ok(Transformed::yes(LogicalPlan::Aggregate(one)))
    }
}

/// The same plan with a scan of one row of each partition, where these columns of it are constant
/// in a partition; `None` where they are not, and where that is known already.
fn limited(plan: &LogicalPlan, keys: &[Column]) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::TableScan(scan) => return limited_scan(scan, keys),
        LogicalPlan::Projection(projection) if projection.expr.iter().any(Expr::is_volatile) => {
            return None;
        }
        _ => {}
    }
    let below = keys.iter().map(|key| column_below(plan, key)).collect::<Option<Vec<Column>>>()?;
    let inputs = plan.inputs();
    let limited = limited(inputs.first()?, &below)?;
    let replaced = plan.clone().map_children(|_| Ok(Transformed::yes(limited.clone())));
    replaced.data().ok()
}

fn limited_scan(scan: &TableScan, keys: &[Column]) -> Option<LogicalPlan> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<TideTable>()?;
    if scan.fetch.is_some() || table.partition_limit().is_some() {
        return None;
    }
    let is_constant = |key: &Column| {
        let found = table.table().find(&key.name);
        found.is_some_and(|(_, column)| {
            matches!(column.kind, ColumnKind::PartitionKey { .. } | ColumnKind::Static)
        })
    };
    // A table whose rows are partitions has no rest to leave out.
    if !keys.iter().all(is_constant) || table.table().clustering_key_ids().is_empty() {
        return None;
    }
    let limit = PartitionLimit { rows: 1, direction: Direction::Forward };
    let source = provider_as_source(Arc::new(table.limited(limit)));
    Some(LogicalPlan::TableScan(TableScan { source, ..scan.clone() }))
}
