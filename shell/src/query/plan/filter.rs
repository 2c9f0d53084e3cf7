//! Conditions of a filter in the one form that DataFusion merges rightly.
//!
//! DataFusion 55.2 takes the conditions on a column together by how they are written. So it finds
//! that `x = 4 AND 4 = x` cannot hold, nor `x = 0.0 AND x = -0.0`, and of `x >= 0.0 AND x > -0.0`
//! it keeps the weaker one. <https://github.com/apache/datafusion/pull/24763> mends the first in a
//! later release. Other rules may write such conditions anew, so it is done where they are merged.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::utils::{split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, lit};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::query::conjunction::all_of;
use crate::query::types::instant::is_comparison;

/// A rule that merges conditions, and sees each filter in form.
#[derive(Debug)]
pub struct InForm(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for InForm {
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
        let plan = in_form(plan);
        let rewritten = self.0.rewrite(plan.data, config)?;
        Ok(Transformed { transformed: rewritten.transformed || plan.transformed, ..rewritten })
    }
}

/// A filter together with those right below it, as their conditions are taken together.
fn in_form(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    let mut filter = match plan {
        LogicalPlan::Filter(filter) if !is_in_form(&filter) => filter,
        plan => return Transformed::no(plan),
    };
    let mut is_changed = false;
    let mut conditions = split_conjunction_owned(filter.predicate.clone());
    while let LogicalPlan::Filter(inner) = &*filter.input {
        let mut all = split_conjunction_owned(inner.predicate.clone());
        all.append(&mut conditions);
        conditions = all;
        filter.input = Arc::clone(&inner.input);
        is_changed = true;
    }
    for condition in &mut conditions {
        is_changed |= constant_to_right(condition);
    }
    is_changed |= one_zero(&mut conditions);
    if is_changed && let Some(predicate) = all_of(conditions) {
        filter.predicate = predicate;
    }
    Transformed::new_transformed(LogicalPlan::Filter(filter), is_changed)
}

/// Whether a look is enough: conditions may be lists of megabytes.
fn is_in_form(filter: &Filter) -> bool {
    let may_change = |condition: &&Expr| {
        is_turned(condition) || matches!(beside_zero(condition), Some((_, Some(_))))
    };
    !matches!(*filter.input, LogicalPlan::Filter(_))
        && !split_conjunction(&filter.predicate).iter().any(may_change)
}

/// Whether a comparison has its constant on the left.
fn is_turned(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return false };
    let is_constant = |side: &Expr| matches!(side, Expr::Literal(..));
    is_comparison(*op) && op.swap().is_some() && is_constant(left) && !is_constant(right)
}

/// Swaps the sides of a comparison whose constant is on the left; whether it is one.
fn constant_to_right(condition: &mut Expr) -> bool {
    let is_turned = is_turned(condition);
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition
        && is_turned
    {
        std::mem::swap(left, right);
        *op = op.swap().unwrap_or(*op);
    }
    is_turned
}

/// Writes 0.0 for -0.0 where one expression is compared with zero twice; whether any is. Alone it
/// stays as it was written: an UPDATE makes the row with that key.
fn one_zero(conditions: &mut [Expr]) -> bool {
    let mut is_changed = false;
    for at in 0..conditions.len() {
        let Some((left, Some(zero))) = beside_zero(&conditions[at]) else { continue };
        let of_same = |other: &&Expr| beside_zero(other).is_some_and(|(other, _)| other == left);
        if conditions.iter().filter(of_same).count() < 2 {
            continue;
        }
        if let Expr::BinaryExpr(comparison) = &mut conditions[at] {
            *comparison.right = lit(zero);
            is_changed = true;
        }
    }
    is_changed
}

/// What is compared with a zero, and the other zero where that is negative.
fn beside_zero(condition: &Expr) -> Option<(&Expr, Option<ScalarValue>)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let Expr::Literal(scalar, _) = &**right else { return None };
    let (is_negative, zero) = match scalar {
        ScalarValue::Float32(Some(value)) if *value == 0.0 => {
            (value.is_sign_negative(), ScalarValue::Float32(Some(0.0)))
        }
        ScalarValue::Float64(Some(value)) if *value == 0.0 => {
            (value.is_sign_negative(), ScalarValue::Float64(Some(0.0)))
        }
        _ => return None,
    };
    is_comparison(*op).then_some((&**left, is_negative.then_some(zero)))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::col;

    use super::*;

    /// Zeros of both widths: the negative one and the other.
    fn zeros() -> [(ScalarValue, ScalarValue); 2] {
        [
            (ScalarValue::Float64(Some(-0.0)), ScalarValue::Float64(Some(0.0))),
            (ScalarValue::Float32(Some(-0.0)), ScalarValue::Float32(Some(0.0))),
        ]
    }

    /// Equal values of floats may differ in their sign: their texts do not.
    fn shown(conditions: &[Expr]) -> Vec<String> {
        conditions.iter().map(|condition| format!("{condition:?}")).collect()
    }

    #[test]
    fn one_expression_is_compared_with_one_zero_and_one_that_stands_alone_keeps_its_sign() {
        for (negative, zero) in zeros() {
            let (minus, plus) = (|| lit(negative.clone()), || lit(zero.clone()));
            for (conditions, wanted) in [
                (vec![col("a").eq(minus())], None),
                (vec![col("a").eq(minus()), col("b").eq(minus())], None),
                (vec![col("a").eq(plus()), col("a").gt(plus())], None),
                (vec![col("a").eq(minus()), col("a").gt(lit(1.0))], None),
                (
                    vec![col("a").eq(minus()), col("a").gt(plus())],
                    Some(vec![col("a").eq(plus()), col("a").gt(plus())]),
                ),
                (
                    vec![col("a").lt_eq(minus()), col("b").eq(minus()), col("a").eq(minus())],
                    Some(vec![col("a").lt_eq(plus()), col("b").eq(minus()), col("a").eq(plus())]),
                ),
            ] {
                let mut found = conditions.clone();
                assert_eq!(one_zero(&mut found), wanted.is_some(), "{conditions:?}");
                assert_eq!(shown(&found), shown(&wanted.unwrap_or(conditions)));
            }
        }
    }

    #[test]
    fn a_constant_goes_to_the_right_with_the_operator_turned_round() {
        for (condition, wanted) in [
            (lit(1).eq(col("a")), Some(col("a").eq(lit(1)))),
            (lit(1).not_eq(col("a")), Some(col("a").not_eq(lit(1)))),
            (lit(1).lt(col("a")), Some(col("a").gt(lit(1)))),
            (lit(1).lt_eq(col("a")), Some(col("a").gt_eq(lit(1)))),
            (lit(1).gt(col("a")), Some(col("a").lt(lit(1)))),
            (lit(1).gt_eq(col("a")), Some(col("a").lt_eq(lit(1)))),
            (col("a").lt(lit(1)), None),
            (lit(1).lt(lit(2)), None),
            (col("a").lt(col("b")), None),
            (lit(1) + col("a"), None),
            (lit(true).and(col("a")), None),
        ] {
            let mut found = condition.clone();
            assert_eq!(constant_to_right(&mut found), wanted.is_some(), "{condition}");
            assert_eq!(found, wanted.unwrap_or(condition));
        }
    }
}
