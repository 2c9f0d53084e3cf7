//! Plans of statements with queries deep within conditions of one another.
//!
//! DataFusion 55 checks such a query again for each query around it: `check_subquery_expr` looks at
//! all that is below it, and is called for each of these once more. That takes twice as long with
//! each level. For statements that go deep the same rules run here in the same order, and each
//! query is checked once.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::{
    Explain, Extension, InvariantLevel, LogicalPlan, Subquery, assert_expected_schema,
    check_subquery_expr,
};
use datafusion::logical_expr::{Expr, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;

/// Queries within conditions of one another that DataFusion is left alone with.
const USUAL_DEPTH: usize = 6;

/// As [`SessionState::optimize`].
///
/// Errors: what the rules refuse, and queries that stand where they cannot.
pub(in crate::query) fn optimise(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    if depth(plan) <= USUAL_DEPTH {
        return state.optimize(plan);
    }
    match plan {
        LogicalPlan::Explain(explain) => Ok(LogicalPlan::Explain(Explain {
            plan: Arc::new(optimise(state, &explain.plan)?),
            logical_optimization_succeeded: true,
            ..explain.clone()
        })),
        plan => apply_rules(state, analyse(state, plan.clone())?),
    }
}

/// As [`SessionState::create_physical_plan`].
///
/// Errors: as of [`optimise`], and what no operator does.
pub(in crate::query) async fn physical(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = optimise(state, plan)?;
    state.query_planner().create_physical_plan(&plan, state).await
}

/// The query in an expression.
fn query_in(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}

/// Calls `visit` with each operator of a plan that has a query in an expression, with that
/// expression and with the query. What is within that query is left out.
fn each_query(
    plan: &LogicalPlan,
    mut visit: impl FnMut(&LogicalPlan, &Expr, &LogicalPlan) -> Result<()>,
) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Some(query) = query_in(expr) {
                    visit(node, expr, &query.subquery)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(|_| ())
}

/// How many queries are within conditions or values of one another.
fn depth(plan: &LogicalPlan) -> usize {
    let mut deepest = 0;
    let visited = each_query(plan, |_, _, query| {
        deepest = deepest.max(1 + depth(query));
        Ok(())
    });
    visited.expect("nothing above fails");
    deepest
}

/// As [`LogicalPlan::check_invariants`] of executable plans.
fn check(plan: &LogicalPlan) -> Result<()> {
    plan.check_invariants(InvariantLevel::Always)?;
    plan.apply(|node| {
        if let LogicalPlan::Extension(Extension { node }) = node {
            node.check_invariants(InvariantLevel::Executable)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    each_query(plan, |node, expr, query| {
        check_subquery_expr(node, &without_queries(query)?, expr)?;
        check(query)
    })
}

/// A plan with nulls for the queries in its expressions.
fn without_queries(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let replace = |expr: Expr| match query_in(&expr) {
        Some(_) => Ok(Transformed::new(lit(ScalarValue::Null), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(expr)),
    };
    plan.clone()
        .transform_down(|node| node.map_expressions(|expr| expr.transform_down(replace)))
        .data()
}

fn analyse(state: &SessionState, mut plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.check_invariants(InvariantLevel::Always)?;
    for rule in &state.analyzer().rules {
        plan = rule.analyze(plan, state.config_options()).map_err(|e| e.context(rule.name()))?;
    }
    check(&plan)?;
    Ok(plan)
}

/// One rule of the optimiser on each operator, those of queries within conditions too.
struct Application<'a> {
    rule: &'a dyn OptimizerRule,
    order: ApplyOrder,
    state: &'a SessionState,
}

impl Application<'_> {
    fn apply(&self, node: LogicalPlan, is_down: bool) -> Result<Transformed<LogicalPlan>> {
        if matches!(self.order, ApplyOrder::TopDown) == is_down {
            self.rule.rewrite(node, self.state)
        } else {
            Ok(Transformed::no(node))
        }
    }
}

impl TreeNodeRewriter for Application<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.apply(node, true)
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.apply(node, false)
    }
}

fn apply_rules(state: &SessionState, mut plan: LogicalPlan) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let mut seen = HashSet::from([fingerprint(&plan)]);
    for _ in 0..state.config_options().optimizer.max_passes {
        for rule in &state.optimizer().rules {
            let named = |error: DataFusionError| error.context(rule.name());
            plan = match rule.apply_order() {
                Some(order) => {
                    let mut rule = Application { rule: &**rule, order, state };
                    plan.rewrite_with_subqueries(&mut rule)
                }
                None => rule.rewrite(plan, state),
            }
            .data()
            .and_then(|plan| assert_expected_schema(&schema, &plan).map(|()| plan))
            .map_err(named)?;
        }
        if !seen.insert(fingerprint(&plan)) {
            break;
        }
    }
    check(&plan)?;
    Ok(plan)
}

/// Tells plans apart, to see whether another pass changed anything.
fn fingerprint(plan: &LogicalPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    hasher.finish()
}
