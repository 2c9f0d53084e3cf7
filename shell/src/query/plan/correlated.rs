//! Conditions on an outer query that stand in a query of FROM, as in
//! `EXISTS (SELECT 1 FROM (SELECT a FROM t WHERE t.b > outer.b) x)`.
//!
//! DataFusion 55.2 makes joins of subqueries by taking such conditions out of them. Of a condition
//! below the alias of a query in FROM it then looks for the columns where that query does not give
//! them. So a condition goes above the alias here, first, and what it needs goes along as columns
//! with names of our own. Only what gives rows one by one is gone through; groups, limits and
//! DISTINCT say something else with another condition.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, Sort, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;

use crate::query::conjunction::all_of;

/// What names of columns that go along begin with.
const ALONG: &str = "__along_";

/// See the head of this file; goes before all other rules.
#[derive(Debug)]
pub struct LiftCorrelated;

impl AnalyzerRule for LiftCorrelated {
    fn name(&self) -> &str {
        "lift_correlated"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_wanted(&plan)? {
            return Ok(plan);
        }
        let mut along = 0;
        let step = |node: LogicalPlan| {
            // What is below may give more columns than it did.
            let node = match node.inputs().is_empty() {
                true => node,
                false => node.recompute_schema()?,
            };
            // DataFusion joins by the conditions of one filter: those above an alias go along.
            if !matches!(node, LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_)) {
                return Ok(Transformed::yes(node));
            }
            let (node, conditions) = lift(node, &mut along)?;
            Ok(Transformed::yes(match all_of(conditions) {
                Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(node))?),
                None => node,
            }))
        };
        plan.transform_up_with_subqueries(step).data()
    }
}

/// Whether there is such a condition below an alias.
fn is_wanted(plan: &LogicalPlan) -> Result<bool> {
    let mut is_wanted = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::SubqueryAlias(alias) = node {
            alias.input.apply(|below| {
                is_wanted |= matches!(below, LogicalPlan::Filter(filter)
                    if filter.predicate.contains_outer());
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(if is_wanted { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_wanted)
}

/// Takes the conditions on outer queries out of a plan. They are over the columns of the plan that
/// is left, which may be more than there were.
fn lift(plan: LogicalPlan, along: &mut usize) -> Result<(LogicalPlan, Vec<Expr>)> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let (input, mut lifted) = lift(Arc::unwrap_or_clone(filter.input), along)?;
            let mut kept = Vec::new();
            for condition in split_conjunction_owned(filter.predicate) {
                match is_liftable(&condition)? {
                    true => lifted.push(condition),
                    false => kept.push(condition),
                }
            }
            let plan = match all_of(kept) {
                Some(kept) => LogicalPlan::Filter(Filter::try_new(kept, Arc::new(input))?),
                None => input,
            };
            Ok((plan, lifted))
        }
        LogicalPlan::Projection(projection) => {
            let (input, lifted) = lift(Arc::unwrap_or_clone(projection.input), along)?;
            let mut exprs = projection.expr;
            let mut conditions = Vec::with_capacity(lifted.len());
            for condition in lifted {
                conditions.push(through(condition, |column| {
                    let name = format!("{ALONG}{along}");
                    *along += 1;
                    exprs.push(Expr::Column(column).alias(&name));
                    Ok(Column::new_unqualified(name))
                })?);
            }
            let plan = Projection::try_new(exprs, Arc::new(input))?;
            Ok((LogicalPlan::Projection(plan), conditions))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let (input, lifted) = lift(Arc::unwrap_or_clone(alias.input), along)?;
            let below = Arc::clone(input.schema());
            let plan = SubqueryAlias::try_new(Arc::new(input), alias.alias)?;
            let mut conditions = Vec::with_capacity(lifted.len());
            for condition in lifted {
                conditions.push(through(condition, |column| {
                    Ok(Column::from(plan.schema.qualified_field(below.index_of_column(&column)?)))
                })?);
            }
            Ok((LogicalPlan::SubqueryAlias(plan), conditions))
        }
        LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner => {
            let (left, mut lifted) = lift(Arc::unwrap_or_clone(join.left), along)?;
            let (right, more) = lift(Arc::unwrap_or_clone(join.right), along)?;
            (join.left, join.right) = (Arc::new(left), Arc::new(right));
            lifted.extend(more);
            Ok((LogicalPlan::Join(join).recompute_schema()?, lifted))
        }
        LogicalPlan::Sort(mut sort) if sort.fetch.is_none() => {
            let none = Arc::new(LogicalPlan::default());
            let input = std::mem::replace(&mut sort.input, none);
            let (input, lifted) = lift(Arc::unwrap_or_clone(input), along)?;
            let plan = LogicalPlan::Sort(Sort { input: Arc::new(input), ..sort });
            Ok((plan, lifted))
        }
        other => Ok((other, Vec::new())),
    }
}

/// Whether a condition names an outer query, and no query stands within it.
fn is_liftable(condition: &Expr) -> Result<bool> {
    let has_query = condition.exists(|part| Ok(is_query(part)))?;
    Ok(condition.contains_outer() && !condition.is_volatile() && !has_query)
}

/// Whether an expression is a query itself; its parts are not looked at.
pub(super) fn is_query(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
    )
}

/// A condition with other columns for those of the plan that it was over.
fn through(condition: Expr, mut other: impl FnMut(Column) -> Result<Column>) -> Result<Expr> {
    let replace = |part| match part {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(other(column)?))),
        part => Ok(Transformed::no(part)),
    };
    condition.transform(replace).data()
}
