//! Comparisons of timestamps and dates with instants that are finer than they: exact.
//!
//! DataFusion takes `CAST(ts AS Timestamp(ns)) >= x` for `ts >= CAST(x AS Timestamp(ms))`, although
//! the second cast cuts digits off (`try_cast_literal_to_type` says so of itself), and reads a text
//! beside a timestamp in that timestamp's unit. So a text is read in nanoseconds here, the cast of
//! a column is hidden in a function while constants are computed, and then the comparison is turned
//! into one in the column's own unit: `ts >= 00.0005` is `ts > 00.000`, and `ts = 00.0005` is never
//! true.
//!
//! Nanoseconds reach from 1678 to 2261 only, and a column holds instants far beyond. So what makes
//! instants of nanoseconds makes them of microseconds here, where that loses nothing.

use std::sync::Arc;

use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::rewrite::expressions_of;

/// The function that says what time it is.
const CLOCK: &str = "now";

/// Makes instants of microseconds where the planner would make them of nanoseconds: of dates, of
/// coarser timestamps and of the clock. A date beside a timestamp becomes one of its unit. A
/// BETWEEN whose bounds have different units becomes two comparisons. Goes before operands get a
/// common type.
pub fn coarsen(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let type_of = |expr: &Expr| expr.get_type(schema).ok();
    Ok(match expr {
        Expr::Cast(mut cast) => {
            let DataType::Timestamp(TimeUnit::Nanosecond, zone) = cast.field.data_type() else {
                return Ok(Transformed::no(Expr::Cast(cast)));
            };
            let is_coarser = match type_of(&cast.expr) {
                Some(DataType::Timestamp(unit, _)) => unit != TimeUnit::Nanosecond,
                Some(DataType::Date32) => true,
                _ => false,
            };
            if is_coarser {
                let microseconds = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                let field = (*cast.field).clone().with_data_type(microseconds);
                cast.field = Arc::new(field);
            }
            Transformed::new_transformed(Expr::Cast(cast), is_coarser)
        }
        Expr::ScalarFunction(call) if call.func.name() == CLOCK => {
            let now = Expr::ScalarFunction(call);
            match type_of(&now) {
                Some(DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                    Transformed::yes(cast(now, DataType::Timestamp(TimeUnit::Microsecond, zone)))
                }
                _ => Transformed::no(now),
            }
        }
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
            let types = (type_of(&left), type_of(&right));
            let is_changed = beside(&mut left, types.0.as_ref(), types.1.as_ref())
                || beside(&mut right, types.1.as_ref(), types.0.as_ref());
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(expr, is_changed)
        }
        Expr::Between(between) => within(between, schema),
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let (own, mut is_changed) = (type_of(&expr), false);
            let types: Vec<_> = list.iter().map(type_of).collect();
            for (item, ty) in list.iter_mut().zip(&types) {
                is_changed |= beside(item, ty.as_ref(), own.as_ref());
            }
            if let Some(first) = types.first().filter(|first| types.iter().all(|ty| ty == *first)) {
                is_changed |= beside(&mut expr, own.as_ref(), first.as_ref());
            }
            let expr = Expr::InList(InList { expr, list, negated });
            Transformed::new_transformed(expr, is_changed)
        }
        other => Transformed::no(other),
    })
}

/// A BETWEEN of instants; see [`coarsen`].
fn within(between: Between, schema: &DFSchema) -> Transformed<Expr> {
    let Between { mut expr, negated, mut low, mut high } = between;
    let type_of = |expr: &Expr| expr.get_type(schema).ok();
    let types = (type_of(&expr), type_of(&low), type_of(&high));
    let unit = |ty: &Option<DataType>| match ty {
        Some(DataType::Timestamp(unit, _)) => Some(*unit),
        _ => None,
    };
    let is_mixed = match (unit(&types.1), unit(&types.2)) {
        (Some(low), Some(high)) => low != high && !expr.is_volatile(),
        _ => false,
    };
    if is_mixed {
        let sides = match negated {
            false => (*expr).clone().gt_eq(*low).and((*expr).lt_eq(*high)),
            true => (*expr).clone().lt(*low).or((*expr).gt(*high)),
        };
        return Transformed::yes(sides);
    }
    let mut is_changed = beside(&mut low, types.1.as_ref(), types.0.as_ref());
    is_changed |= beside(&mut high, types.2.as_ref(), types.0.as_ref());
    if unit(&types.1).is_some() && unit(&types.1) == unit(&types.2) {
        is_changed |= beside(&mut expr, types.0.as_ref(), types.1.as_ref());
    }
    let between = Between::new(expr, negated, low, high);
    Transformed::new_transformed(Expr::Between(between), is_changed)
}

/// Makes a date beside a timestamp one of its unit; whether it is one.
fn beside(expr: &mut Expr, own: Option<&DataType>, other: Option<&DataType>) -> bool {
    let (Some(DataType::Date32), Some(timestamp)) = (own, other) else { return false };
    let is_one = match timestamp {
        DataType::Timestamp(_, zone) => zone.as_ref().is_none_or(is_utc),
        _ => false,
    };
    if is_one {
        *expr = cast(std::mem::take(expr), timestamp.clone());
    }
    is_one
}

/// Reads a text beside a timestamp or a date in nanoseconds where its unit would cut the text, or
/// in microseconds where nanoseconds do not reach it; goes before operands get a common type.
pub fn refine(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let column_type = |expr: &Expr| match expr.get_type(schema) {
        Ok(ty @ DataType::Timestamp(unit, _)) if unit != TimeUnit::Nanosecond => Some(ty),
        Ok(DataType::Date32) => Some(DataType::Date32),
        _ => None,
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left_type, right_type) = (column_type(&left), column_type(&right));
            let left = refined(*left, right_type.as_ref(), false);
            let right = refined(*right, left_type.as_ref(), false);
            let is_changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(expr, is_changed)
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let ty = column_type(&expr);
            let has_far = [&low, &high].into_iter().any(|bound| is_far(bound));
            let low = refined(*low, ty.as_ref(), has_far);
            let high = refined(*high, ty.as_ref(), has_far);
            let is_changed = low.transformed || high.transformed;
            let between = Between::new(expr, negated, Box::new(low.data), Box::new(high.data));
            Transformed::new_transformed(Expr::Between(between), is_changed)
        }
        Expr::InList(InList { expr, list, negated }) => {
            let ty = column_type(&expr);
            let has_far = list.iter().any(is_far);
            let mut is_changed = false;
            let list = list.into_iter().map(|item| {
                let item = refined(item, ty.as_ref(), has_far);
                is_changed |= item.transformed;
                item.data
            });
            let list = list.collect();
            let expr = Expr::InList(InList { expr, list, negated });
            Transformed::new_transformed(expr, is_changed)
        }
        other => Transformed::no(other),
    })
}

/// A text that says more than a value of type `beside` holds, as an instant in nanoseconds. One
/// that nanoseconds do not reach, or that stands beside such a one, is one in microseconds.
fn refined(expr: Expr, beside: Option<&DataType>, has_far: bool) -> Transformed<Expr> {
    let (parts, zone) = match beside {
        Some(DataType::Timestamp(unit, zone)) => {
            (ticks(TimeUnit::Nanosecond) / ticks(*unit), zone.clone())
        }
        Some(DataType::Date32) => (86_400 * ticks(TimeUnit::Nanosecond), None),
        _ => return Transformed::no(expr),
    };
    let text = text_of(&expr);
    let instant = text.and_then(|text| TimestampNanosecondType::parse(text.trim()));
    let is_in_microseconds = instant.is_none_or(|instant| has_far && instant % 1_000 == 0);
    match instant {
        _ if zone.is_some() && is_in_microseconds => {
            match text.and_then(|text| in_microseconds(text, zone)) {
                Some(instant) => Transformed::yes(lit(instant)),
                None => Transformed::no(expr),
            }
        }
        Some(instant) if instant % parts != 0 => {
            Transformed::yes(lit(ScalarValue::TimestampNanosecond(Some(instant), zone)))
        }
        _ => Transformed::no(expr),
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(scalar, _) => scalar.try_as_str().flatten(),
        _ => None,
    }
}

/// Whether an expression is the text of an instant that nanoseconds do not reach.
fn is_far(expr: &Expr) -> bool {
    let is_far = |text: &str| {
        TimestampNanosecondType::parse(text.trim()).is_none()
            && in_microseconds(text, None).is_some()
    };
    text_of(expr).is_some_and(is_far)
}

/// The instant of a text in microseconds; `None` for a text that is none.
fn in_microseconds(text: &str, zone: Option<Arc<str>>) -> Option<ScalarValue> {
    let ty = DataType::Timestamp(TimeUnit::Microsecond, zone);
    ScalarValue::from(text.trim()).cast_to(&ty).ok().filter(|instant| !instant.is_null())
}

/// Hides a cast of a timestamp or date to a finer timestamp that is compared with constants; goes
/// after operands got a common type.
pub fn hide(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right) = match (is_constant(&left), is_constant(&right)) {
                (false, true) => (hidden(*left, schema), Transformed::no(*right)),
                (true, false) => (Transformed::no(*left), hidden(*right, schema)),
                _ => (Transformed::no(*left), Transformed::no(*right)),
            };
            let is_changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(expr, is_changed)
        }
        Expr::Between(Between { expr, negated, low, high })
            if is_constant(&low) && is_constant(&high) =>
        {
            hidden(*expr, schema).update_data(|expr| {
                Expr::Between(Between { expr: Box::new(expr), negated, low, high })
            })
        }
        Expr::InList(InList { expr, list, negated }) if list.iter().all(is_constant) => {
            hidden(*expr, schema)
                .update_data(|expr| Expr::InList(InList { expr: Box::new(expr), list, negated }))
        }
        other => Transformed::no(other),
    })
}

fn hidden(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Cast(cast) = &expr else { return Transformed::no(expr) };
    let is_finer =
        cast.expr.get_type(schema).is_ok_and(|from| ratio(&from, cast.field.data_type()).is_some());
    let Expr::Cast(cast) = expr else { unreachable!("a cast was found") };
    if !is_finer {
        return Transformed::no(Expr::Cast(cast));
    }
    let widen = Widen::new(cast.field.data_type().clone());
    let function = ScalarFunction::new_udf(Arc::new(ScalarUDF::from(widen)), vec![*cast.expr]);
    Transformed::yes(Expr::ScalarFunction(function))
}

/// Turns comparisons with hidden casts into comparisons in the unit of what was cast; goes after
/// constants were computed.
#[derive(Debug)]
pub struct CompareExactly;

impl OptimizerRule for CompareExactly {
    fn name(&self) -> &str {
        "compare_instants_exactly"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        expressions_of(plan, &exact)
    }
}

fn exact(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let found = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            match (widened(left), widened(right)) {
                (Some(inner), None) => compared(inner, *op, right, schema),
                (None, Some(inner)) => op.swap().and_then(|op| compared(inner, op, left, schema)),
                _ => None,
            }
        }
        Expr::InList(InList { expr, list, negated }) => widened(expr).and_then(|inner| {
            // Each item that the column can hold; the others are never equal to it.
            let mut kept = Vec::new();
            let mut has_null = false;
            for item in list {
                match &compared(inner, Operator::Eq, item, schema)? {
                    Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, right, .. }) => {
                        kept.push((**right).clone());
                    }
                    Expr::Literal(..) => has_null = true,
                    _ => {}
                }
            }
            if has_null {
                return None;
            }
            Some(match kept.is_empty() {
                true if *negated => always(inner),
                true => never(inner),
                false => inner.clone().in_list(kept, *negated),
            })
        }),
        _ => None,
    };
    Ok(match found {
        Some(expr) => Transformed::yes(expr),
        None => Transformed::no(expr),
    })
}

/// What a hidden cast casts.
fn widened(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<Widen>() => call.args.first(),
        _ => None,
    }
}

/// `inner op literal` in the unit of `inner`; a null literal stands for a comparison with null.
fn compared(inner: &Expr, op: Operator, literal: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Literal(scalar, _) = literal else { return None };
    let from = inner.get_type(schema).ok()?;
    let ratio = ratio(&from, &scalar.data_type())?;
    let Some(value) = instant(scalar) else {
        let distinct = matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        return (!distinct).then(|| lit(ScalarValue::Boolean(None)));
    };
    let floor = own(&from, value.div_euclid(ratio))?;
    let compare = |op| {
        Expr::BinaryExpr(BinaryExpr {
            left: Box::new(inner.clone()),
            op,
            right: Box::new(lit(floor.clone())),
        })
    };
    if value.rem_euclid(ratio) == 0 {
        return Some(compare(op));
    }
    Some(match op {
        Operator::Eq => never(inner),
        Operator::NotEq => always(inner),
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        Operator::Lt | Operator::LtEq => compare(Operator::LtEq),
        Operator::Gt | Operator::GtEq => compare(Operator::Gt),
        _ => return None,
    })
}

/// False, or null where `expr` is null.
fn never(expr: &Expr) -> Expr {
    expr.clone().is_null().and(lit(ScalarValue::Boolean(None)))
}

/// True, or null where `expr` is null.
fn always(expr: &Expr) -> Expr {
    expr.clone().is_not_null().or(lit(ScalarValue::Boolean(None)))
}

fn instant(scalar: &ScalarValue) -> Option<i64> {
    match scalar {
        ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => *value,
        _ => None,
    }
}

fn own(ty: &DataType, value: i64) -> Option<ScalarValue> {
    Some(match ty {
        DataType::Date32 => ScalarValue::Date32(Some(i32::try_from(value).ok()?)),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(Some(value), zone),
                TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(value), zone),
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(value), zone),
                TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(value), zone),
            }
        }
        _ => return None,
    })
}

/// How many of `to`'s units one of `from` has, where a cast changes nothing else: an instant stays
/// the same instant, a date becomes its midnight in UTC.
fn ratio(from: &DataType, to: &DataType) -> Option<i64> {
    let is_utc = |zone: &Option<Arc<str>>| zone.as_ref().is_none_or(is_utc);
    let DataType::Timestamp(to_unit, to_zone) = to else { return None };
    match from {
        DataType::Date32 => is_utc(to_zone).then(|| 86_400 * ticks(*to_unit)),
        DataType::Timestamp(unit, zone) => {
            let is_same =
                (is_utc(zone) && is_utc(to_zone)) || (zone.is_some() && to_zone.is_some());
            (is_same && ticks(*unit) < ticks(*to_unit)).then(|| ticks(*to_unit) / ticks(*unit))
        }
        _ => None,
    }
}

fn is_utc(zone: &Arc<str>) -> bool {
    matches!(&**zone, "UTC" | "+00:00" | "Z")
}

/// Units of a second.
fn ticks(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Whether an operator compares two values.
pub fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Whether no column is in it, also none of an outer query.
fn is_constant(expr: &Expr) -> bool {
    let is_variable = |expr: &Expr| {
        let is_variable = matches!(
            expr,
            Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_)
        );
        Ok(is_variable)
    };
    expr.exists(is_variable).is_ok_and(|found| !found)
}

/// A cast that the planner does not see through.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Widen {
    to: DataType,
    signature: Signature,
}

impl Widen {
    fn new(to: DataType) -> Self {
        Widen { to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

/// The cast as another node finds it, by its name.
pub fn sent() -> ScalarUDF {
    ScalarUDF::from(Widen::new(DataType::Null))
}

/// Whether a function is that, of any type.
pub fn is_sent(function: &ScalarUDF) -> bool {
    function.inner().is::<Widen>()
}

impl ScalarUDFImpl for Widen {
    fn name(&self) -> &str {
        "instant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Where another node has planned it, its type came with the expression.
        args.args[0].cast_to(args.return_field.data_type(), None)
    }
}
