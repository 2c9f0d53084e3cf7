//! Expressions that give one of several others as it is: CASE, `coalesce` and their like.

use datafusion::logical_expr::Expr;

/// Functions that give one of their arguments.
const CHOOSING: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

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
