//! Turns conditions into partitions and clustering ranges to read: pure decisions.
//!
//! Invariant: a row satisfies all conditions exactly if it lies in `keys` and `ranges` and
//! satisfies every condition of `residual`. Not here: who reads (`scan.rs`), order (`scan.rs`).

use std::collections::BTreeSet;

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::batch::{arrow_type, value_at};
use tidegate_engine::mutation::slice::normalise;
use tidegate_engine::mutation::{ClusteringRange, Position};
use tidegate_engine::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, DataType, PartitionKey, TableSchema, Value,
};

use crate::query::types::collection::EQUAL_WITHIN;
use crate::query::types::identifier::{Kind, ordered_by, value_of_order};

/// Most partition keys, and most clustering prefixes, that value lists may multiply to; beyond,
/// conditions are checked row by row.
const PRODUCTS_MAX: usize = 4096;

/// Most digits of a decimal, and most behind its point, that are looked for in keys of other
/// products.
const DIGITS_MAX: u32 = 38;
const SCALE_MAX: i32 = 38;

/// What to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// In ring order, each once; `None` means all partitions.
    pub keys: Option<Vec<PartitionKey>>,
    /// In natural order, disjoint; none means that no row can match.
    pub ranges: Vec<ClusteringRange>,
    /// The full clustering keys when the conditions fix every clustering column; each once.
    pub rows: Option<Vec<ClusteringKey>>,
    /// Columns that have one value in everything that is read.
    pub fixed: Vec<ColumnId>,
    /// Those of them whose value a condition names, with that value in SQL.
    pub named: Vec<(ColumnId, ScalarValue)>,
    /// Conditions that keys and ranges do not say.
    pub residual: Vec<Expr>,
}

impl Access {
    /// Everything.
    pub fn full() -> Self {
        Access {
            keys: None,
            ranges: vec![ClusteringRange::full()],
            rows: None,
            fixed: Vec::new(),
            named: Vec::new(),
            residual: Vec::new(),
        }
    }

    /// Whether no row can match.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() || self.keys.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether the clustering ranges are the whole partition.
    pub fn is_whole_partition(&self) -> bool {
        self.ranges == [ClusteringRange::full()]
    }
}

/// One condition on one key column, or not.
enum Condition {
    /// The column is one of these.
    OneOf(Vec<Value>),
    /// The column is on one side of a value.
    Bound(Operator, Value),
}

struct Found {
    column: ColumnId,
    condition: Condition,
    expr: Expr,
    taken: bool,
}

/// Whose partition keys are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Those that statements write.
    Own,
    /// Those of other products, which keep decimals with the scale that they were given with.
    Foreign,
    /// Just the one that is named: an UPDATE makes the row, so of two zeros it must not take both.
    Named,
}

/// Decides what `filters` (all of which must hold) let a read of an own table leave out.
#[cfg(test)]
fn decide(schema: &TableSchema, filters: &[Expr]) -> Access {
    decide_for(schema, filters, Keys::Own)
}

/// As [`decide`], for partition keys of that kind.
pub fn decide_for(schema: &TableSchema, filters: &[Expr], whose: Keys) -> Access {
    let mut access = Access::full();
    let mut found = Vec::new();
    for filter in filters.iter().flat_map(conjuncts) {
        if let Expr::Literal(ScalarValue::Boolean(holds), _) = filter {
            if *holds != Some(true) {
                access.ranges.clear();
                access.rows = Some(Vec::new());
                return access;
            }
            continue;
        }
        match condition(schema, filter) {
            Some((column, condition)) => {
                let condition = match condition {
                    Condition::OneOf(values) if whose != Keys::Named => {
                        all_of(values, &equal).map(Condition::OneOf)
                    }
                    other => Some(other),
                };
                match condition {
                    Some(condition) => {
                        found.push(Found { column, condition, expr: filter.clone(), taken: false });
                    }
                    None => access.residual.push(filter.clone()),
                }
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
    let mut keys = BTreeSet::new();
    for prefix in &prefixes {
        // A value that cannot be encoded cannot have been stored.
        let Ok(key) = ClusteringKey::from_values(schema, prefix) else { continue };
        keys.insert(key.clone());
        ranges.push((prefix, ClusteringRange::prefix(key)));
    }
    if let Some(id) = ids.get(depth) {
        for found in found.iter_mut().filter(|found| found.column == *id) {
            let Condition::Bound(operator, value) = &found.condition else { continue };
            let order = schema.column(*id).clustering_order();
            let narrowed: Option<Vec<_>> = ranges
                .iter()
                .map(|(prefix, range)| {
                    let mut values = (*prefix).clone();
                    values.push(value.clone());
                    let key = ClusteringKey::from_values(schema, &values).ok()?;
                    Some((*prefix, narrow(range, *operator, order, key)))
                })
                .collect();
            if let Some(narrowed) = narrowed {
                ranges = narrowed;
                // A range to the least value has the rows, too, that lack one.
                found.taken = !schema.may_lack(*id);
            }
        }
    }
    access.ranges = normalise(ranges.into_iter().map(|(_, range)| range).collect());
    if depth == ids.len() {
        access.rows = Some(keys.into_iter().collect());
    }
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
            Condition::Bound(..) => None,
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

/// Every prefix followed by every combination of `sets`; `None` when that is too many.
fn product(prefixes: Vec<Vec<Value>>, sets: &[Vec<Value>]) -> Option<Vec<Vec<Value>>> {
    let mut all = prefixes;
    for set in sets {
        if all.len().checked_mul(set.len())? > PRODUCTS_MAX {
            return None;
        }
        all = all
            .iter()
            .flat_map(|prefix| {
                set.iter().map(|value| {
                    let mut longer = prefix.clone();
                    longer.push(value.clone());
                    longer
                })
            })
            .collect();
    }
    Some(all)
}

/// Whether SQL compares values of the type as the engine orders them. UUIDs and addresses are text
/// in SQL, and what holds other values has an order of its own there, or none. The former are
/// ordered alike by `uuid_order(…)` and its like.
pub fn is_ordered_alike(ty: &DataType) -> bool {
    !matches!(ty, DataType::Uuid | DataType::TimeUuid | DataType::Inet) && is_single(ty)
}

/// Whether values hold no others.
pub fn is_single(ty: &DataType) -> bool {
    !matches!(
        ty.unfrozen(),
        DataType::List(_)
            | DataType::Set(_)
            | DataType::Map(..)
            | DataType::Tuple(_)
            | DataType::User(_)
    )
}

/// Whether SQL takes two values for equal exactly when the engine has them as one key. Constants
/// beside sets and maps are in the order that a column gives. Fields of rows may be null.
fn is_equal_alike(ty: &DataType) -> bool {
    match ty.unfrozen() {
        DataType::List(element) | DataType::Set(element) => is_single(element),
        DataType::Map(key, value) => is_single(key) && is_single(value),
        other => is_single(other),
    }
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

/// A condition on one key column that keys or ranges can say; values are as they were named.
fn condition(schema: &TableSchema, expr: &Expr) -> Option<(ColumnId, Condition)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left_column, left) = condition(schema, left)?;
            let (right_column, right) = condition(schema, right)?;
            match (left, right) {
                (Condition::OneOf(mut values), Condition::OneOf(more))
                    if left_column == right_column =>
                {
                    values.extend(more);
                    Some((left_column, Condition::OneOf(values)))
                }
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (key, value, op) = match (key_column(schema, left), key_column(schema, right)) {
                (Some(key), None) => (key, key.literal(right)?, *op),
                (None, Some(key)) => (key, key.literal(left)?, op.swap()?),
                _ => return None,
            };
            match op {
                Operator::Eq => Some((key.id, Condition::OneOf(vec![value]))),
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
                    if key.ordered.is_some() || is_ordered_alike(&key.column.ty) =>
                {
                    let is_outside = matches!(op, Operator::LtEq | Operator::Gt);
                    Some((key.id, Condition::Bound(op, zero_at_end(value, is_outside))))
                }
                _ => None,
            }
        }
        Expr::ScalarFunction(call) if call.func.name() == EQUAL_WITHIN => {
            let [left, right] = &call.args[..] else { return None };
            let (key, value) = match (key_column(schema, left), key_column(schema, right)) {
                (Some(key), None) => (key, key.literal(right)?),
                (None, Some(key)) => (key, key.literal(left)?),
                _ => return None,
            };
            Some((key.id, Condition::OneOf(vec![value])))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let key = key_column(schema, expr)?;
            let values: Option<Vec<Value>> = list.iter().map(|item| key.literal(item)).collect();
            Some((key.id, Condition::OneOf(values?)))
        }
        // A boolean column is its own condition.
        Expr::Column(_) => boolean(schema, expr, true),
        Expr::Not(inner) => boolean(schema, inner, false),
        _ => None,
    }
}

fn boolean(schema: &TableSchema, expr: &Expr, value: bool) -> Option<(ColumnId, Condition)> {
    let KeyColumn { id, column, .. } = key_column(schema, expr)?;
    (column.ty == DataType::Boolean).then(|| (id, Condition::OneOf(vec![Value::Boolean(value)])))
}

/// All values that are the same as one of these, within lists, sets and maps as well; `same` knows
/// them of a value that holds no others. `None` when that is too many.
fn all_of(values: Vec<Value>, same: &impl Fn(Value) -> Vec<Value>) -> Option<Vec<Value>> {
    let mut all = Vec::new();
    for value in values {
        all.extend(all_within(value, same)?);
        if all.len() > PRODUCTS_MAX {
            return None;
        }
    }
    Some(all)
}

fn all_within(value: Value, same: &impl Fn(Value) -> Vec<Value>) -> Option<Vec<Value>> {
    let products = |values: Vec<Value>| {
        let sets: Option<Vec<_>> =
            values.into_iter().map(|value| all_within(value, same)).collect();
        product(vec![Vec::new()], &sets?)
    };
    Some(match value {
        Value::List(values) => products(values)?.into_iter().map(Value::List).collect(),
        Value::Set(values) => products(values)?.into_iter().map(Value::Set).collect(),
        Value::Map(entries) => {
            let parts = entries.into_iter().flat_map(|(key, value)| [key, value]).collect();
            let map = |parts: Vec<Value>| {
                let mut parts = parts.into_iter();
                let entries = std::iter::from_fn(|| parts.next().zip(parts.next()));
                Value::Map(entries.collect())
            };
            products(parts)?.into_iter().map(map).collect()
        }
        single => same(single),
    })
}

/// The values that SQL takes for equal to this one: there are two zeros among floats.
fn equal(value: Value) -> Vec<Value> {
    match value {
        Value::Float(0.0) => vec![Value::Float(-0.0), Value::Float(0.0)],
        Value::Double(0.0) => vec![Value::Double(-0.0), Value::Double(0.0)],
        other => vec![other],
    }
}

/// A decimal in every scale that other products may have kept it with; anything else as it is.
fn scales(value: Value) -> Vec<Value> {
    let Value::Decimal { mut unscaled, mut scale } = value else { return vec![value] };
    if unscaled == 0 {
        return (0..=SCALE_MAX).map(|scale| Value::Decimal { unscaled, scale }).collect();
    }
    while unscaled % 10 == 0 {
        (unscaled, scale) = (unscaled / 10, scale - 1);
    }
    let mut all = Vec::new();
    while scale <= SCALE_MAX && unscaled.unsigned_abs() < 10u128.pow(DIGITS_MAX) {
        all.push(Value::Decimal { unscaled, scale });
        let Some(next) = unscaled.checked_mul(10) else { break };
        (unscaled, scale) = (next, scale + 1);
    }
    all
}

/// Of the zeros, which the engine orders, the greater or the less.
fn zero_at_end(value: Value, is_greater: bool) -> Value {
    match value {
        Value::Float(0.0) => Value::Float(if is_greater { 0.0 } else { -0.0 }),
        Value::Double(0.0) => Value::Double(if is_greater { 0.0 } else { -0.0 }),
        other => other,
    }
}

/// A key column, and how it is compared.
#[derive(Clone, Copy)]
struct KeyColumn<'a> {
    id: ColumnId,
    column: &'a Column,
    /// What it names, where it is compared by the order of that.
    ordered: Option<Kind>,
}

impl KeyColumn<'_> {
    /// The constant beside the column as a value of it; `None` unless it has just that type.
    fn literal(&self, expr: &Expr) -> Option<Value> {
        let Some(kind) = self.ordered else { return literal(self.column, expr) };
        let Expr::Literal(scalar, _) = expr else { return None };
        value_of_order(kind, scalar.try_as_str().flatten()?)
    }
}

/// The key column that an expression is. A float, or a list of integers, which SQL widens to
/// compare it, is still itself; so is a UUID in the form that is compared by its order.
fn key_column<'a>(schema: &'a TableSchema, expr: &Expr) -> Option<KeyColumn<'a>> {
    let (expr, widened, ordered) = match expr {
        Expr::Cast(cast) => (&*cast.expr, Some(cast.field.data_type()), None),
        Expr::ScalarFunction(call) => {
            (call.args.first()?, None, Some(ordered_by(call.func.name())?))
        }
        other => (other, None, None),
    };
    let Expr::Column(column) = expr else { return None };
    let (id, column) = schema.find(&column.name).filter(|(_, column)| column.is_key())?;
    let is_same = match widened {
        None => ordered.is_none_or(|kind| column.ty == kind.data_type()),
        Some(ty) => {
            (column.ty == DataType::Float && *ty == arrow_type(&DataType::Double))
                || is_wider_list(ty, &arrow_type(&column.ty))
        }
    };
    is_same.then_some(KeyColumn { id, column, ordered })
}

/// Whether both are lists of integers, `wide` of wider ones: their values compare as numbers.
fn is_wider_list(wide: &ArrowType, own: &ArrowType) -> bool {
    let (ArrowType::List(wide), ArrowType::List(own)) = (wide, own) else { return false };
    let is_signed = own.data_type().is_signed_integer() && wide.data_type().is_signed_integer();
    is_signed && wide.data_type().primitive_width() >= own.data_type().primitive_width()
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

/// The literal as a value of the column, if it has just the column's type in SQL and is not null.
fn literal(column: &Column, expr: &Expr) -> Option<Value> {
    let scalar = scalar(column, expr)?;
    let (own, wanted) = (scalar.data_type(), arrow_type(&column.ty));
    if (own != wanted && !is_wider_list(&own, &wanted)) || !is_equal_alike(&column.ty) {
        return None;
    }
    value_at(&scalar.to_array().ok()?, 0, &column.ty).ok()?
}

/// A literal in the Arrow type that columns of its type in SQL have.
fn scalar(column: &Column, expr: &Expr) -> Option<ScalarValue> {
    let Expr::Literal(scalar, _) = expr else { return None };
    Some(match scalar {
        ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            ScalarValue::Utf8(text.clone())
        }
        ScalarValue::BinaryView(bytes) | ScalarValue::LargeBinary(bytes) => {
            ScalarValue::Binary(bytes.clone())
        }
        // Only what a float holds exactly compares alike in both widths.
        ScalarValue::Float64(Some(wide))
            if column.ty == DataType::Float && f64::from(*wide as f32) == *wide =>
        {
            ScalarValue::Float32(Some(*wide as f32))
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};
    use tidegate_engine::{ColumnKind, TableId, TableOptions};

    use super::*;

    /// `pk int, qk text | a int, b int desc | v int`
    fn table() -> TableSchema {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let clustering = |position, order| ColumnKind::ClusteringKey { position, order };
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
                column("qk", DataType::Text, ColumnKind::PartitionKey { position: 1 }),
                column("a", DataType::Int, clustering(0, ClusteringOrder::Ascending)),
                column("b", DataType::Int, clustering(1, ClusteringOrder::Descending)),
                column("v", DataType::Int, ColumnKind::Regular),
            ],
            options: TableOptions::default(),
        }
    }

    /// Keys found, ranges as text, conditions left.
    fn decided(filters: &[Expr]) -> (Option<usize>, String, usize) {
        let table = table();
        let access = decide(&table, filters);
        let ranges = crate::query::scan::slices_text(&table, &access.ranges);
        (access.keys.map(|keys| keys.len()), ranges, access.residual.len())
    }

    #[test]
    fn conditions_become_keys_and_slices() {
        let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
        let none = "[..]".to_owned();
        let cases = [
            (vec![], None, none.clone(), 0),
            (vec![col("pk").eq(lit(1))], None, none.clone(), 1),
            (vec![pk()], Some(1), none.clone(), 0),
            (vec![pk(), col("v").eq(lit(1))], Some(1), none.clone(), 1),
            (vec![pk(), col("a").eq(lit(5))], Some(1), "[5]".into(), 0),
            (vec![pk(), col("a").eq(lit(5)), col("b").eq(lit(6))], Some(1), "[5, 6]".into(), 0),
            (vec![pk(), col("a").gt(lit(5))], Some(1), "(5..]".into(), 0),
            (vec![pk(), lit(5).gt(col("a"))], Some(1), "[..5)".into(), 0),
            (vec![pk(), col("a").gt_eq(lit(5)), col("a").lt(lit(9))], Some(1), "[5..9)".into(), 0),
            // A tighter bound wins, whatever the order.
            (vec![pk(), col("a").gt(lit(1)), col("a").gt(lit(5))], Some(1), "(5..]".into(), 0),
            // In a descending column the greater value is the start.
            (vec![pk(), col("a").eq(lit(5)), col("b").gt(lit(6))], Some(1), "[5..5, 6)".into(), 0),
            (
                vec![pk(), col("a").eq(lit(5)), col("b").lt_eq(lit(6))],
                Some(1),
                "[5, 6..5]".into(),
                0,
            ),
            // A gap in the prefix leaves the rest to the scan.
            (vec![pk(), col("b").eq(lit(6))], Some(1), none.clone(), 1),
            (vec![pk(), col("a").gt(lit(5)), col("b").eq(lit(6))], Some(1), "(5..]".into(), 1),
            (
                vec![pk(), col("a").in_list(vec![lit(7), lit(2)], false)],
                Some(1),
                "[2] [7]".into(),
                0,
            ),
            (vec![pk(), col("a").eq(lit(7)).or(col("a").eq(lit(2)))], Some(1), "[2] [7]".into(), 0),
            (vec![pk(), col("a").eq(lit(7)).or(col("b").eq(lit(2)))], Some(1), none.clone(), 1),
            (vec![pk(), col("a").in_list(vec![lit(7)], true)], Some(1), none.clone(), 1),
            // A literal of another type is compared row by row.
            (vec![pk(), col("a").eq(lit(7i64))], Some(1), none.clone(), 1),
            (
                vec![
                    col("pk").in_list(vec![lit(1), lit(2), lit(1)], false),
                    col("qk").eq(lit("x")),
                ],
                Some(2),
                none,
                0,
            ),
        ];
        for (filters, keys, ranges, residual) in cases {
            assert_eq!(decided(&filters), (keys, ranges, residual), "{filters:?}");
        }
    }

    #[test]
    fn a_widened_float_is_found_by_values_that_it_holds() {
        let mut table = table();
        table.columns[2].ty = DataType::Float;
        let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
        let wide = || datafusion::prelude::cast(col("a"), arrow_type(&DataType::Double));
        for (condition, residual) in
            [(wide().eq(lit(1.5)), 0), (wide().gt(lit(-0.25)), 0), (wide().gt(lit(0.1)), 1)]
        {
            let access = decide(&table, &[pk(), condition.clone()]);
            assert_eq!(access.residual.len(), residual, "{condition}");
        }
    }

    #[test]
    fn both_zeros_stand_on_the_same_side_of_a_bound() {
        for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
            let mut table = table();
            let kind = ColumnKind::ClusteringKey { position: 0, order };
            table.columns[2] = Column { name: "a".into(), ty: DataType::Double, kind };
            let key = |zero| ClusteringKey::from_values(&table, &[Value::Double(zero)]).unwrap();
            for (operator, holds) in [
                (Operator::Lt, false),
                (Operator::LtEq, true),
                (Operator::Gt, false),
                (Operator::GtEq, true),
            ] {
                for (bound, zero) in [(0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)] {
                    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
                    let (left, right) = (Box::new(col("a")), Box::new(lit(bound)));
                    let bounded = Expr::BinaryExpr(BinaryExpr::new(left, operator, right));
                    let access = decide(&table, &[pk(), bounded]);
                    assert!(access.residual.is_empty(), "{operator}");
                    let is_read = access.ranges.iter().any(|range| range.contains(&key(zero)));
                    assert_eq!(is_read, holds, "{zero} {operator} {bound}, {order:?}");
                }
            }
        }
    }

    #[test]
    fn contradictions_read_nothing() {
        let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
        for filters in [
            vec![pk(), col("pk").eq(lit(2))],
            vec![pk(), col("a").eq(lit(1)), col("a").eq(lit(2))],
            vec![pk(), col("a").gt(lit(5)), col("a").lt(lit(5))],
            vec![lit(false)],
        ] {
            assert!(decide(&table(), &filters).is_empty(), "{filters:?}");
        }
    }

    #[test]
    fn full_keys_are_rows_and_fixed_columns_are_constant() {
        let filters = [
            col("pk").eq(lit(1)),
            col("qk").eq(lit("x")),
            col("a").in_list(vec![lit(1), lit(2)], false),
            col("b").eq(lit(3)),
        ];
        let access = decide(&table(), &filters);
        assert_eq!(access.rows.map(|rows| rows.len()), Some(2));
        assert_eq!(access.fixed, [ColumnId(0), ColumnId(1), ColumnId(3)]);
        assert!(decide(&table(), &filters[..3]).rows.is_none());
    }

    #[test]
    fn bounds_of_columns_that_rows_may_lack_are_checked_again() {
        let mut table = table();
        let filters = [
            col("pk").eq(lit(1)),
            col("qk").eq(lit("x")),
            col("a").eq(lit(1)),
            col("b").lt(lit(5)),
        ];
        assert_eq!(decide(&table, &filters).residual.len(), 0);
        let ranges = decide(&table, &filters).ranges;
        table.options.has_partial_keys = true;
        let access = decide(&table, &filters);
        assert_eq!((access.residual, access.ranges), (filters[3..].to_vec(), ranges));
        // The first column is always there.
        assert_eq!(decide(&table, &[col("a").lt(lit(5))]).residual.len(), 0);
    }

    #[test]
    fn too_many_combinations_are_left_to_the_scan() {
        let many = |n: i32| (0..n).map(lit).collect::<Vec<_>>();
        let filters = [
            col("pk").eq(lit(1)),
            col("qk").eq(lit("x")),
            col("a").in_list(many(100), false),
            col("b").in_list(many(100), false),
        ];
        let access = decide(&table(), &filters);
        assert_eq!((access.ranges.len(), access.residual.len()), (100, 1));
    }
}
