//! What conditions that must all hold say of keys and ranges.

use std::collections::BTreeSet;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::batch::arrow_type;
use tidegate_engine::mutation::slice::normalise;
use tidegate_engine::mutation::{ClusteringRange, Position};
use tidegate_engine::schema::{
    ClusteringKey, ClusteringOrder, ColumnId, PartitionKey, TableSchema, Value,
};

use super::access::{Access, Keys};
use super::condition::{Condition, after_all_with, condition, scalar};
use super::values::{all_of, equal, product, scales};

struct Found {
    column: ColumnId,
    condition: Condition,
    expr: Expr,
    taken: bool,
}

/// Decides by conditions that are taken as they are: one with OR is about one column, or residual.
pub(super) fn decide_conjuncts(schema: &TableSchema, conjuncts: &[&Expr], whose: Keys) -> Access {
    let mut access = Access::full();
    let mut found = Vec::new();
    for filter in conjuncts.iter().copied() {
        if let Expr::Literal(ScalarValue::Boolean(holds), _) = filter {
            if *holds != Some(true) {
                return nothing(access);
            }
            continue;
        }
        let condition = condition(schema, filter).and_then(|(column, condition)| {
            Some(match condition {
                Condition::OneOf(values) if whose != Keys::Named => {
                    (column, Condition::OneOf(all_of(values, &equal)?))
                }
                other => (column, other),
            })
        });
        match condition {
            Some((_, Condition::OneOf(values))) if values.is_empty() => return nothing(access),
            Some((column, condition)) => {
                found.push(Found { column, condition, expr: filter.clone(), taken: false });
            }
            None => access.residual.push(filter.clone()),
        }
    }
    decide_keys(schema, &mut found, &mut access, whose);
    decide_ranges(schema, &mut found, &mut access);
    access.named = access.fixed.iter().filter_map(|id| named(schema, &found, *id)).collect();
    access.residual.extend(found.into_iter().filter(|found| !found.taken).map(|found| found.expr));
    access
}

/// No row can match.
fn nothing(mut access: Access) -> Access {
    access.ranges.clear();
    access.rows = Some(Vec::new());
    access
}

/// All partition-key columns must be fixed; otherwise the ring is read from its start to its end.
fn decide_keys(schema: &TableSchema, found: &mut [Found], access: &mut Access, whose: Keys) {
    let ids = schema.partition_key_ids();
    let sets = ids.iter().map(|id| value_set(found, *id));
    let Some(sets) = sets.collect::<Option<Vec<Vec<Value>>>>() else { return };
    let sets: Vec<Vec<Value>> = match whose {
        Keys::Own | Keys::Named => sets,
        Keys::Foreign => {
            let sets = sets.into_iter().map(|set| all_of(set, &scales));
            let Some(sets) = sets.collect::<Option<_>>() else { return };
            sets
        }
    };
    let Some(products) = product(vec![Vec::new()], &sets) else { return };
    // Values that make no key (too long, empty) are in no partition.
    let keys: BTreeSet<PartitionKey> = products
        .iter()
        .filter_map(|values| PartitionKey::from_values(schema, values).ok())
        .collect();
    access.fixed.extend(ids.iter().zip(&sets).filter(|(_, set)| set.len() == 1).map(|(id, _)| *id));
    access.keys = Some(keys.into_iter().collect());
    for found in found {
        if ids.contains(&found.column) && matches!(found.condition, Condition::OneOf(_)) {
            found.taken = true;
        }
    }
}

/// Clustering columns from the first on: value lists multiply prefixes, then one column may have
/// bounds; what follows stays residual.
fn decide_ranges(schema: &TableSchema, found: &mut [Found], access: &mut Access) {
    let ids = schema.clustering_key_ids();
    let mut prefixes = vec![Vec::new()];
    let mut depth = 0;
    for id in &ids {
        let Some(set) = value_set(found, *id) else { break };
        let Some(longer) = product(prefixes.clone(), std::slice::from_ref(&set)) else { break };
        prefixes = longer;
        depth += 1;
        if set.len() == 1 {
            access.fixed.push(*id);
        }
        for found in found.iter_mut().filter(|found| found.column == *id) {
            found.taken |= matches!(found.condition, Condition::OneOf(_));
        }
    }
    let mut ranges = Vec::with_capacity(prefixes.len());
    for prefix in &prefixes {
        // A value that cannot be encoded cannot have been stored.
        let Ok(key) = ClusteringKey::from_values(schema, prefix) else { continue };
        ranges.push((prefix, ClusteringRange::prefix(key)));
    }
    // Bounds of columns that have lists of values take values off the lists.
    for (at, id) in ids.iter().enumerate().take(depth + 1) {
        for found in found.iter_mut().filter(|found| found.column == *id) {
            let bounds = bounds(&found.condition);
            let narrowed = ranges.iter().map(|(prefix, range)| {
                Some((*prefix, within(schema, range, &prefix[..at], *id, &bounds)?))
            });
            if let Some(narrowed) = narrowed.collect::<Option<Vec<_>>>() {
                ranges = narrowed;
                // A range to the least value has the rows, too, that lack one.
                found.taken |= match found.condition {
                    Condition::OneOf(_) => false,
                    Condition::Bound(..) | Condition::Begins { is_all: true, .. } => {
                        at < depth || !schema.may_lack(*id)
                    }
                    Condition::Begins { is_all: false, .. } => false,
                };
            }
        }
    }
    ranges.retain(|(_, range)| !range.is_empty());
    if depth == ids.len() {
        let key = |(prefix, _): &(&Vec<Value>, _)| ClusteringKey::from_values(schema, prefix).ok();
        let keys: BTreeSet<ClusteringKey> = ranges.iter().filter_map(key).collect();
        access.rows = Some(keys.into_iter().collect());
    }
    access.ranges = normalise(ranges.into_iter().map(|(_, range)| range).collect());
}

/// The sides of values that a condition names.
fn bounds(condition: &Condition) -> Vec<(Operator, Value)> {
    match condition {
        Condition::OneOf(_) => Vec::new(),
        Condition::Bound(operator, value) => vec![(*operator, value.clone())],
        Condition::Begins { prefix, .. } => {
            let least = (Operator::GtEq, Value::Text(prefix.clone()));
            let end = after_all_with(prefix).map(|end| (Operator::Lt, Value::Text(end)));
            [Some(least), end].into_iter().flatten().collect()
        }
    }
}

/// The part of `range` where the column behind `prefix` keeps to all bounds; `None` where a value
/// of a bound cannot be encoded.
fn within(
    schema: &TableSchema,
    range: &ClusteringRange,
    prefix: &[Value],
    id: ColumnId,
    bounds: &[(Operator, Value)],
) -> Option<ClusteringRange> {
    let order = schema.column(id).clustering_order();
    bounds.iter().try_fold(range.clone(), |range, (operator, value)| {
        let values = [prefix, std::slice::from_ref(value)].concat();
        let key = ClusteringKey::from_values(schema, &values).ok()?;
        Some(narrow(&range, *operator, order, key))
    })
}

/// The part of `range` on one side of `key`, a prefix that ends with the bound's value.
fn narrow(
    range: &ClusteringRange,
    operator: Operator,
    order: ClusteringOrder,
    key: ClusteringKey,
) -> ClusteringRange {
    // In a descending column greater values come first.
    let operator = match order {
        ClusteringOrder::Ascending => operator,
        ClusteringOrder::Descending => operator.swap().unwrap_or(operator),
    };
    let mut range = range.clone();
    match operator {
        Operator::Gt => range.start = range.start.max(Position::after(key)),
        Operator::GtEq => range.start = range.start.max(Position::before(key)),
        Operator::Lt => range.end = range.end.min(Position::before(key)),
        Operator::LtEq => range.end = range.end.min(Position::after(key)),
        other => unreachable!("{other} is no bound"),
    }
    range
}

/// The values that all value lists on `column` share; `None` without such a list.
fn value_set(found: &[Found], column: ColumnId) -> Option<Vec<Value>> {
    let mut sets = found.iter().filter(|found| found.column == column).filter_map(|found| {
        match &found.condition {
            Condition::OneOf(values) => Some(values),
            Condition::Bound(..) | Condition::Begins { .. } => None,
        }
    });
    let mut shared: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    for value in sets.next()? {
        // Values compare by their bytes: NaN equals itself here, as it does in Arrow.
        if seen.insert(value.to_bytes()) {
            shared.push(value.clone());
        }
    }
    for set in sets {
        let bytes: BTreeSet<Vec<u8>> = set.iter().map(Value::to_bytes).collect();
        shared.retain(|value| bytes.contains(&value.to_bytes()));
    }
    Some(shared)
}

/// The one value of a column as a condition names it: `column = value`, or the other way round.
fn named(schema: &TableSchema, found: &[Found], id: ColumnId) -> Option<(ColumnId, ScalarValue)> {
    let column = schema.column(id);
    let wanted = arrow_type(&column.ty);
    let of = |found: &Found| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = &found.expr else {
            return None;
        };
        let scalar = match (&**left, &**right) {
            (Expr::Column(_), value) | (value, Expr::Column(_)) => scalar(column, value)?,
            _ => return None,
        };
        (scalar.data_type() == wanted).then_some(scalar)
    };
    found.iter().filter(|found| found.column == id).find_map(of).map(|value| (id, value))
}
