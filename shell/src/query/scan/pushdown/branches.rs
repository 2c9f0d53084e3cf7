//! Conditions with OR about several key columns: each branch reads partitions and ranges of its
//! own, and what is read is what any of them reads.
//!
//! `(pk = 1 AND a = 2) OR (pk = 3 AND a > 4)` reads two slices. `(a, b) > (1, 2)`, which stands as
//! `a > 1 OR (a = 1 AND b > 2)` here, is one range.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::mutation::ClusteringRange;
use tidegate_engine::mutation::slice::normalise;
use tidegate_engine::schema::{ClusteringKey, PartitionKey, TableSchema};

use super::access::{Access, Keys, Part};
use super::condition::condition;
use super::conjuncts::decide_conjuncts;

/// Most branches that conditions may multiply to; beyond, they are checked row by row.
const BRANCHES_MAX: usize = 4096;

/// Decides by the branches of those conditions that `plain`, which is decided without branches, has
/// left; `None` where branches read no less.
pub(super) fn decide(
    schema: &TableSchema,
    conjuncts: &[&Expr],
    whose: Keys,
    plain: &Access,
) -> Option<Access> {
    let (mut shared, mut branched) = (Vec::new(), Vec::new());
    for conjunct in conjuncts.iter().copied() {
        match branches_of(schema, conjunct).filter(|_| plain.residual.contains(conjunct)) {
            Some(branches) => branched.push((conjunct, branches)),
            None => shared.push(conjunct),
        }
    }
    if branched.is_empty() {
        return None;
    }
    let mut all = vec![shared.clone()];
    for (_, branches) in &branched {
        all = multiplied(&all, branches)?;
    }
    let accesses = all.iter().map(|branch| decide_conjuncts(schema, branch, whose));
    let accesses: Vec<Access> = accesses.filter(|access| !access.is_empty()).collect();
    let is_left = |expr: &&Expr| accesses.iter().any(|access| access.residual.contains(expr));
    let mut residual: Vec<Expr> = shared.iter().copied().filter(is_left).cloned().collect();
    residual.extend(
        branched
            .iter()
            .filter(|(_, branches)| branches.iter().flatten().any(&is_left))
            .map(|(expr, _)| (*expr).clone()),
    );
    let access = Access { residual, ..united(accesses, plain)? };
    let is_narrower =
        access.keys != plain.keys || access.ranges != plain.ranges || access.apart.is_some();
    is_narrower.then_some(access)
}

/// The branches of a condition, each as what must hold in it; `None` where it is no OR, or a branch
/// says nothing of keys.
fn branches_of<'a>(schema: &TableSchema, expr: &'a Expr) -> Option<Vec<Vec<&'a Expr>>> {
    if !matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. })) {
        return None;
    }
    let branches = alternatives(expr)?;
    let says_a_key = |branch: &Vec<&Expr>| branch.iter().any(|e| condition(schema, e).is_some());
    branches.iter().all(says_a_key).then_some(branches)
}

/// A condition as alternatives of conditions that must all hold; `None` when that is too many.
fn alternatives(expr: &Expr) -> Option<Vec<Vec<&Expr>>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = alternatives(left)?;
            all.extend(alternatives(right)?);
            (all.len() <= BRANCHES_MAX).then_some(all)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            multiplied(&alternatives(left)?, &alternatives(right)?)
        }
        other => Some(vec![vec![other]]),
    }
}

/// Each of `left` together with each of `right`; `None` when that is too many.
fn multiplied<'a>(left: &[Vec<&'a Expr>], right: &[Vec<&'a Expr>]) -> Option<Vec<Vec<&'a Expr>>> {
    if left.len().checked_mul(right.len())? > BRANCHES_MAX {
        return None;
    }
    let both = |left: &Vec<&'a Expr>| {
        let left = left.clone();
        right.iter().map(move |right| left.iter().chain(right).copied().collect())
    };
    Some(left.iter().flat_map(both).collect())
}

/// What any of these reads, without conditions; `None` where some name partitions and others do
/// not. What is constant is what is constant in `plain`.
fn united(accesses: Vec<Access>, plain: &Access) -> Option<Access> {
    let ranges = accesses.iter().flat_map(|access| access.ranges.iter().cloned());
    let mut all = Access {
        keys: None,
        ranges: normalise(ranges.collect()),
        rows: all_rows(accesses.iter().map(|access| access.rows.as_deref())),
        residual: Vec::new(),
        ..plain.clone()
    };
    if accesses.iter().all(|access| access.keys.is_none()) {
        return Some(all);
    }
    let mut own: BTreeMap<PartitionKey, Vec<usize>> = BTreeMap::new();
    for (n, access) in accesses.iter().enumerate() {
        for key in access.keys.as_ref()? {
            own.entry(key.clone()).or_default().push(n);
        }
    }
    all.keys = Some(own.keys().cloned().collect());
    let mut parts: Vec<Part> = Vec::new();
    for (key, branches) in own {
        let of_key = || branches.iter().map(|n| &accesses[*n]);
        let ranges: Vec<ClusteringRange> =
            normalise(of_key().flat_map(|access| access.ranges.iter().cloned()).collect());
        match parts.last_mut().filter(|part| part.ranges == ranges) {
            Some(part) => part.keys.push(key),
            None => {
                let rows = all_rows(of_key().map(|access| access.rows.as_deref()));
                parts.push(Part { keys: vec![key], ranges, rows });
            }
        }
    }
    if parts.len() > 1 {
        all.rows = None;
        all.apart = Some(parts);
    }
    Some(all)
}

/// The rows of all; `None` where one reads what no keys say.
fn all_rows<'a>(
    mut rows: impl Iterator<Item = Option<&'a [ClusteringKey]>>,
) -> Option<Vec<ClusteringKey>> {
    let all = rows.try_fold(BTreeSet::new(), |mut all, rows| {
        all.extend(rows?.iter().cloned());
        Some(all)
    });
    all.map(|all| all.into_iter().collect())
}
