//! Expressions that return one of several others unchanged: CASE, `coalesce` and similar.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::functions::core::coalesce;
use datafusion::logical_expr::Expr;

/// Functions that give one of their arguments.
const CHOOSING: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// Functions that give the first of their arguments that is not null.
const FIRST: [&str; 2] = ["coalesce", "nvl"];
/// Most parts of a value that is written twice to be looked at and given.
const TWICE_MAX: usize = 4096;

/// `coalesce(coalesce(a, b), c)` as `coalesce(a, b, c)`. DataFusion 55.2 writes each argument
/// twice, and so the innermost of n calls 2^n times. Goes before operands get a common type.
pub fn flat(expr: Expr) -> Transformed<Expr> {
    let mut call = match expr {
        Expr::ScalarFunction(call) if FIRST.contains(&call.func.name()) => call,
        other => return Transformed::no(other),
    };
    let is_inner = |arg: &Expr| match arg {
        Expr::ScalarFunction(inner) => FIRST.contains(&inner.func.name()),
        _ => false,
    };
    if !call.args.iter().any(is_inner) {
        return Transformed::no(Expr::ScalarFunction(call));
    }
    let args = std::mem::take(&mut call.args).into_iter().flat_map(|arg| match arg {
        Expr::ScalarFunction(inner) if FIRST.contains(&inner.func.name()) => inner.args,
        other => vec![other],
    });
    call.args = args.collect();
    call.func = Arc::clone(&coalesce());
    Transformed::yes(Expr::ScalarFunction(call))
}

/// Whether a value may stand twice where it stood once: values within values that do would take
/// all memory.
pub fn is_small(expr: &Expr) -> bool {
    let mut parts = 0;
    let counted = expr.apply(|_| {
        parts += 1;
        Ok(if parts > TWICE_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    counted.is_ok() && parts <= TWICE_MAX
}

/// What an expression chooses from; `None` where it computes what it gives.
pub fn of(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| &**then);
            Some(results.chain(case.else_expr.as_deref()).collect())
        }
        Expr::ScalarFunction(call) if CHOOSING.contains(&call.func.name()) => {
            Some(call.args.iter().collect())
        }
        _ => None,
    }
}

/// As [`of`].
pub fn of_mut(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
            Some(results.chain(case.else_expr.as_deref_mut()).collect())
        }
        Expr::ScalarFunction(call) if CHOOSING.contains(&call.func.name()) => {
            Some(call.args.iter_mut().collect())
        }
        _ => None,
    }
}
