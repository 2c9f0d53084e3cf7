//! Joins: what the planner may take for known of their rows.
//!
//! DataFusion 55.2 errs in what it concludes from a join's inputs (`join_equivalence_properties`):
//!
//! - A column that is constant in an input is so in the output, too, where an outer join puts nulls
//!   into it. It is left out of sorts, and the nulls stand anywhere.
//! - A constant of the right input is forgotten, unless its value stands beside it. But sorts by it
//!   were left out before, and the plan is refused.
//! - The output of a hash join is ordered as the right input, and then as the left one. That does
//!   not hold where rows of the right input are equal: each brings its partners anew.
//!   <https://github.com/apache/datafusion/issues/25052>
//!
//! So a [`Curtain`] hangs before such inputs. It hangs for good: what a join concludes is asked for
//! again whenever something above it changes, and operators are fitted to the order of its rows.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{AcrossPartitions, EquivalenceProperties};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use super::union::{Changed, Curtain, Told, View};

/// Goes before sorts are planned.
pub fn hang_curtains(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    let Some((join_type, is_hashed)) = join(&plan) else { return Ok(Transformed::no(plan)) };
    let mut is_changed = false;
    let mut inputs = Vec::with_capacity(2);
    for (at, input) in plan.children().into_iter().enumerate() {
        let view = view(input.equivalence_properties(), join_type, is_hashed, at == 0);
        inputs.push(match view {
            Some(view) => Curtain::hang(Arc::clone(input), Told::Equivalences(view), true)?,
            None => Arc::clone(input),
        });
        is_changed |= view.is_some();
    }
    match is_changed {
        true => Ok(Transformed::yes(replace_children_if_necessary(plan, inputs)?)),
        false => Ok(Transformed::no(plan)),
    }
}

/// The type of a join, and whether it hashes its left input.
fn join(plan: &Arc<dyn ExecutionPlan>) -> Option<(JoinType, bool)> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Some((*join.join_type(), true));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return Some((*join.join_type(), false));
    }
    let join = plan.downcast_ref::<SortMergeJoinExec>()?;
    Some((join.join_type(), false))
}

/// How an input is to be seen; `None` where it may be seen as it is.
fn view(
    known: &EquivalenceProperties,
    join_type: JoinType,
    is_hashed: bool,
    is_left: bool,
) -> Option<View> {
    let gets_nulls = match join_type {
        JoinType::Left => !is_left,
        JoinType::Right => is_left,
        JoinType::Full => true,
        _ => false,
    };
    let goes_on = !matches!(
        join_type,
        JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::RightMark
    );
    if gets_nulls && !known.constants().is_empty() {
        return Some(without_constants);
    }
    if is_left && is_hashed && goes_on && !known.oeq_class().is_empty() {
        return Some(without_order);
    }
    (!is_left && goes_on && untold(known).next().is_some()).then_some(with_values)
}

/// Only what is equal to what: an input into which nulls come keeps no order.
fn without_constants(known: &EquivalenceProperties) -> Result<EquivalenceProperties> {
    let mut told = EquivalenceProperties::new(Arc::clone(known.schema()));
    for class in known.eq_group().iter() {
        let Some(first) = class.canonical_expr() else { continue };
        if known.is_expr_constant(first).is_some() {
            continue;
        }
        for other in class.iter().skip(1) {
            told.add_equal_conditions(Arc::clone(first), Arc::clone(other))?;
        }
    }
    Ok(told)
}

fn without_order(known: &EquivalenceProperties) -> Result<EquivalenceProperties> {
    let mut told = known.clone();
    told.clear_orderings();
    Ok(told)
}

fn with_values(known: &EquivalenceProperties) -> Result<EquivalenceProperties> {
    let mut told = known.clone();
    for (expr, value) in untold(known) {
        told.add_equal_conditions(expr, value)?;
    }
    Ok(told)
}

type Expr = Arc<dyn datafusion::physical_expr::PhysicalExpr>;

/// Constants beside which their values do not stand, and those values.
fn untold(known: &EquivalenceProperties) -> impl Iterator<Item = (Expr, Expr)> {
    known.constants().into_iter().filter_map(|constant| {
        let AcrossPartitions::Uniform(Some(value)) = constant.across_partitions else {
            return None;
        };
        let class = known.eq_group().get_equivalence_class(&constant.expr)?;
        let is_told = class.iter().any(|expr| expr.is::<Literal>());
        (!is_told).then(|| (constant.expr, Arc::new(Literal::new(value)) as Expr))
    })
}
