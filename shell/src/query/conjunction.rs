//! Conditions that must all hold, as trees of little depth.
//!
//! DataFusion 55.2 makes `((a AND b) AND c) AND …` of many conditions: `conjunction`, and
//! `split_eq_and_noneq_join_predicate` by itself. Such a tree is as deep as there are conditions.
//! Copying, comparing and evaluating it overflow the stack, and each level asks for the type of all
//! that is below it. So each rule's outcome is made shallow before anyone else looks at it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// How many conditions may be taken off the right of a tree, one below the other.
const SPINE_MAX: usize = 64;
/// How many operators that a rule makes at once are above one another: a filter, what it went
/// through in part, and a filter.
const RULE_LEVELS: usize = 3;

/// All conditions, in their order; `None` without any.
pub fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => left.and(right),
                None => left,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}

/// A rule whose outcome has no deep conditions.
#[derive(Debug)]
pub struct Shallow(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Shallow {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        self.0.rewrite(plan, config)?.transform_data(make_shallow)
    }
}

/// Makes the conditions shallow that a rule has written anew.
fn make_shallow(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_deep(&plan, RULE_LEVELS) {
        return Ok(Transformed::no(plan));
    }
    plan.transform_down(|mut plan| {
        let condition = condition_of(&mut plan).filter(|condition| is_deep(condition));
        let is_changed = condition.map(flatten).is_some();
        Ok(Transformed::new_transformed(plan, is_changed))
    })
}

fn has_deep(plan: &LogicalPlan, levels: usize) -> bool {
    let condition = match plan {
        LogicalPlan::Filter(filter) => Some(&filter.predicate),
        LogicalPlan::Join(join) => join.filter.as_ref(),
        _ => None,
    };
    condition.is_some_and(is_deep)
        || levels > 1 && plan.inputs().iter().any(|input| has_deep(input, levels - 1))
}

fn condition_of(plan: &mut LogicalPlan) -> Option<&mut Expr> {
    match plan {
        LogicalPlan::Filter(filter) => Some(&mut filter.predicate),
        LogicalPlan::Join(join) => join.filter.as_mut(),
        _ => None,
    }
}

fn is_deep(condition: &Expr) -> bool {
    let mut rest = condition;
    for _ in 0..SPINE_MAX {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, .. }) = rest else {
            return false;
        };
        rest = left;
    }
    true
}

/// Takes conditions off the right, one after another, without recursion.
fn flatten(condition: &mut Expr) {
    let mut conditions = Vec::new();
    let mut rest = std::mem::take(condition);
    while let Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) = rest {
        conditions.push(*right);
        rest = *left;
    }
    conditions.push(rest);
    conditions.reverse();
    if let Some(shallow) = all_of(conditions) {
        *condition = shallow;
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::utils::{conjunction, iter_conjunction, split_conjunction};
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};

    use super::*;

    /// Levels of AND above one another.
    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                1 + depth(left).max(depth(right))
            }
            _ => 0,
        }
    }

    #[test]
    fn many_conditions_are_few_levels_in_their_order() {
        assert_eq!(all_of(Vec::new()), None);
        for count in [1, 2, 3, 7, 64, 1000] {
            let conditions: Vec<Expr> = (0..count).map(lit).collect();
            let all = all_of(conditions.clone()).unwrap();
            assert!(split_conjunction(&all).into_iter().eq(&conditions));
            assert!(depth(&all) <= 10, "{count}: {}", depth(&all));
        }
    }

    #[test]
    fn what_a_rule_writes_is_made_shallow_where_it_is_deep() {
        let plan = |count: i32| {
            let condition = conjunction((0..count).map(lit)).unwrap();
            let empty = LogicalPlanBuilder::empty(false);
            let filtered = empty.filter(condition).unwrap();
            filtered.project([lit(1)]).unwrap().build().unwrap()
        };
        assert!(!make_shallow(plan(SPINE_MAX as i32)).unwrap().transformed);
        let shallow = make_shallow(plan(1000)).unwrap();
        assert!(shallow.transformed);
        let LogicalPlan::Filter(filter) = shallow.data.inputs()[0] else { unreachable!() };
        assert!(depth(&filter.predicate) <= 11);
        assert_eq!(iter_conjunction(&filter.predicate).count(), 1000);
    }
}
