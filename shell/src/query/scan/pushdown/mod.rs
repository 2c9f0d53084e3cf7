//! Turns conditions into partitions and clustering ranges to read: pure decisions.
//!
//! Invariant: a row satisfies all conditions exactly if it lies in a part of what is read and
//! satisfies every condition of `residual`. Not here: who reads (`scan.rs`), order (`scan.rs`).

mod access;
mod branches;
mod compared;
mod condition;
mod conjuncts;
mod ring;
#[cfg(test)]
mod tests;
mod values;

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::schema::TableSchema;

pub use access::{Access, Keys, Part};
pub use compared::comparisons;
pub use condition::{is_ordered_alike, is_plain, is_single, is_wider_integer};
use conjuncts::decide_conjuncts;

/// Decides what `filters` (all of which must hold) let a read of an own table leave out.
#[cfg(test)]
fn decide(schema: &TableSchema, filters: &[Expr]) -> Access {
    decide_for(schema, filters, Keys::Own)
}

/// As [`decide`], for partition keys of that kind. All partitions get the same slice.
pub fn decide_for(schema: &TableSchema, filters: &[Expr], whose: Keys) -> Access {
    let conjuncts: Vec<&Expr> = filters.iter().flat_map(conjuncts).collect();
    let plain = decide_conjuncts(schema, &conjuncts, whose);
    let branched = branches::decide(schema, &conjuncts, whose, &plain);
    branched.filter(|access| access.apart.is_none()).unwrap_or(plain)
}

/// As [`decide_for`], where partitions may have slices of their own, and conditions on their
/// tokens count.
pub fn decide_apart(schema: &TableSchema, filters: &[Expr], whose: Keys) -> Access {
    let conjuncts: Vec<&Expr> = filters.iter().flat_map(conjuncts).collect();
    let plain = decide_conjuncts(schema, &conjuncts, whose);
    let access = branches::decide(schema, &conjuncts, whose, &plain).unwrap_or(plain);
    ring::decide(schema, access)
}

/// Takes `a AND b` apart.
fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let mut all = conjuncts(left);
            all.extend(conjuncts(right));
            all
        }
        // Bounds of a BETWEEN are two conditions, but one expression.
        other => vec![other],
    }
}
