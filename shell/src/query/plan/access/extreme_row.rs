//! `max(ck)` and `min(ck)` of a partition: the rows at its ends.
//!
//! The aggregate gets `ORDER BY ck DESC LIMIT 1` of its input, or the ascending one. A scan of one
//! partition has both orders, so that it reads a row instead of the partition. Several of them in
//! one query become as many reads of a row, side by side. Conditions that no slice can say are
//! checked by the scan, before it stops.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, TableScan,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::below::column_below;
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
        if !aggregate.group_expr.is_empty() || aggregate.aggr_expr.len() > EXTREMES_MAX {
            return Ok(Transformed::no(plan));
        }
        let extreme = |expr: &Expr| {
            let (column, is_max) = extreme(expr)?;
            let may_lack = ordered_by(&aggregate.input, &column)?;
            Some(Extreme { column, is_max, may_lack })
        };
        let extremes = aggregate.aggr_expr.iter().map(extreme).collect::<Option<Vec<_>>>();
        let Some(extremes) = extremes.filter(|extremes| !extremes.is_empty()) else {
            return Ok(Transformed::no(plan));
        };
        let ones = extremes.into_iter().enumerate();
        let ones = ones.map(|(at, extreme)| of_one_row(aggregate, at, extreme));
        let mut ones = ones.collect::<Result<Vec<_>>>()?.into_iter();
        let first = ones.next().expect("there is an extreme");
        let joined = ones.try_fold(LogicalPlanBuilder::from(first), |all, one| all.cross_join(one));
        Ok(Transformed::yes(joined?.build()?))
    }
}

/// Most extremes that are looked for side by side.
const EXTREMES_MAX: usize = 8;

/// What is looked for at an end of a partition.
struct Extreme {
    column: Column,
    is_max: bool,
    /// Rows without a value may stand before those with one. Elsewhere a row without is the only
    /// one, of static columns, so that either order of nulls is right; the scan has this one.
    may_lack: bool,
}

/// An aggregate of the expression at a place, over the row that has the extreme.
fn of_one_row(
    aggregate: &Aggregate,
    at: usize,
    Extreme { column, is_max, may_lack }: Extreme,
) -> Result<LogicalPlan> {
    let input = LogicalPlanBuilder::from(Arc::clone(&aggregate.input))
        .sort([SortExpr::new(Expr::Column(column), !is_max, is_max && !may_lack)])?
        .limit(0, Some(1))?
        .build()?;
    let (qualifier, field) = aggregate.schema.qualified_field(at);
    let field = (qualifier.cloned(), Arc::clone(field));
    let schema = DFSchema::new_with_metadata(vec![field], Default::default())?;
    let (input, aggregates) = (Arc::new(input), vec![aggregate.aggr_expr[at].clone()]);
    let one = Aggregate::try_new_with_schema(input, Vec::new(), aggregates, Arc::new(schema))?;
    Ok(LogicalPlan::Aggregate(one))
}

/// The column whose greatest or least value an aggregate gives, and whether it is the greatest.
fn extreme(expr: &Expr) -> Option<(Column, bool)> {
    let Expr::AggregateFunction(call) = expr else { return None };
    let params = &call.params;
    let is_plain =
        params.filter.is_none() && params.order_by.is_empty() && params.null_treatment.is_none();
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

/// Where rows can be read in the order of a column, whether they may lack it. These are rows of one
/// partition, and the clustering column that comes first.
fn ordered_by(plan: &LogicalPlan, column: &Column) -> Option<bool> {
    match plan {
        LogicalPlan::TableScan(scan) => scanned_by(scan, &column.name),
        _ => {
            let below = column_below(plan, column)?;
            ordered_by(plan.inputs().first()?, &below)
        }
    }
}

fn scanned_by(scan: &TableScan, name: &str) -> Option<bool> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<TideTable>()?;
    if scan.fetch.is_some() || table.partition_limit().is_some() {
        return None;
    }
    let access = table.access(&scan.filters);
    let schema = table.table();
    let mut open = schema.clustering_key_ids().into_iter().filter(|id| !access.fixed.contains(id));
    let first = open.next().filter(|id| schema.column(*id).name == name)?;
    let is_alike = is_plain(&schema.column(first).ty);
    let is_one = access.keys.as_ref().is_some_and(|keys| keys.len() == 1);
    (is_alike && is_one).then(|| schema.may_lack(first))
}
