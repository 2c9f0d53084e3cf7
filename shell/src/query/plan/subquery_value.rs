//! `EXISTS (query)` and `x IN (query)` as values, such as in a select list.
//!
//! DataFusion 55 answers them in conditions only. Among the values of a projection whether there is
//! a row becomes a count of rows, which is a value of its own, and IN becomes such counts: of the
//! rows that are the same, and of those that are null.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::AnalyzerRule;

use super::row_in::{as_outer, subquery};
use crate::query::types::rewrite::expressions_of;

/// Name of the query's column, beside what is looked for.
const VALUE: &str = "__value";
/// Name of whether there is one.
const FOUND: &str = "__found";

/// See the head of this file. Goes before operands get a common type.
#[derive(Debug)]
pub(super) struct AsCounts;

impl AnalyzerRule for AsCounts {
    fn name(&self) -> &str {
        "subqueries_as_counts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Projection(_) => expressions_of(node, &counted),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn counted(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Exists(Exists { subquery, negated }) => {
            let plan = Arc::unwrap_or_clone(subquery.subquery);
            Transformed::yes(if negated { !has_rows(plan)? } else { has_rows(plan)? })
        }
        Expr::InSubquery(within) => Transformed::yes(is_among(within, schema)?),
        other => Transformed::no(other),
    })
}

/// Whether a query has rows.
fn has_rows(plan: LogicalPlan) -> Result<Expr> {
    // What refers to rows around it has no limit of its own.
    let is_free = plan.all_out_ref_exprs().is_empty();
    let mut plan = LogicalPlanBuilder::from(plan);
    if is_free {
        plan = plan.limit(0, Some(1))?;
    }
    let plan = plan.aggregate(Vec::<Expr>::new(), [count(lit(1_i64))])?;
    let rows = Expr::Column(plan.schema().columns().swap_remove(0));
    let has_any = rows.gt(lit(0_i64));
    Ok(Expr::ScalarSubquery(subquery(plan.project([has_any.alias(FOUND)])?.build()?)))
}

fn is_among(within: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery { expr: sought, subquery, negated } = within;
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let column = Expr::Column(plan.schema().columns().swap_remove(0));
    let plan = LogicalPlanBuilder::from(plan).project([column.alias(VALUE)])?.build()?;
    let value = || Expr::Column(Column::new_unqualified(VALUE));
    let of = |condition: Expr| LogicalPlanBuilder::from(plan.clone()).filter(condition)?.build();
    let null = || Box::new(lit(ScalarValue::Boolean(None)));
    let mut cases: Vec<(Box<Expr>, Box<Expr>)> = Vec::new();
    if sought.nullable(schema).unwrap_or(true) {
        let is_unknown = (*sought).clone().is_null().and(has_rows(plan.clone())?);
        cases.push((Box::new(is_unknown), null()));
    }
    let same = of(value().eq(as_outer(*sought, schema)?))?;
    cases.push((Box::new(has_rows(same)?), Box::new(lit(true))));
    if plan.schema().field(0).is_nullable() {
        cases.push((Box::new(has_rows(of(value().is_null())?)?), null()));
    }
    let among = Expr::Case(Case::new(None, cases, Some(Box::new(lit(false)))));
    Ok(if negated { !among } else { among })
}
