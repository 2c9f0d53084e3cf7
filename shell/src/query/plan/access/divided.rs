//! Parts of a query: where it reads one table row by row, the rows of each shard together are its
//! result.
//!
//! A part is a shard and no stretch of the ring: each shard owns thousands of stretches. Invariant:
//! every row of the result is in exactly one part. So a query has parts only where no operator
//! sees two rows at once, and nothing in it depends on when or how often it is computed.

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};
use tidegate_engine::SchemaRef;

use crate::query::scan::TideTable;

/// The table whose shards are the parts of a query; `None` where it has no parts, and where the
/// conditions name the partitions: those are few.
///
/// Optimising makes values of functions such as `now()`, so the plan from before that counts too.
pub fn divided(plan: &LogicalPlan, optimised: &LogicalPlan) -> Result<Option<SchemaRef>> {
    let mut is_fixed = true;
    plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            is_fixed &= !expr.exists(|part| Ok(!is_fixed_function(part)))?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_fixed {
        return Ok(None);
    }
    let mut node = optimised;
    loop {
        for expr in node.expressions() {
            if expr.exists(|part| Ok(!is_of_its_row(part)))? {
                return Ok(None);
            }
        }
        node = match node {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::TableScan(scan) => return Ok(whole_table(scan)),
            _ => return Ok(None),
        };
    }
}

/// Whether a call gives one value for its arguments, whenever and wherever it is computed; true for
/// all that is no call.
fn is_fixed_function(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, .. }) => {
            func.signature().volatility == Volatility::Immutable
        }
        _ => true,
    }
}

/// Whether an expression needs no more than its row, as far as its parts do not say otherwise.
fn is_of_its_row(expr: &Expr) -> bool {
    match expr {
        Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::ScalarSubquery(_)
        | Expr::SetComparison(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::Unnest(_) => false,
        other => is_fixed_function(other),
    }
}

/// The table of a scan that reads all its partitions.
fn whole_table(scan: &TableScan) -> Option<SchemaRef> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<TideTable>()?;
    let access = table.access(&scan.filters);
    let is_whole = scan.fetch.is_none() && access.keys.is_none() && !access.is_empty();
    is_whole.then(|| table.table().clone())
}
