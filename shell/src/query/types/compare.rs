//! Comparisons of numbers of different kinds: `=`, `IN` and `BETWEEN` agree.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, cast, lit};

use super::instant::is_comparison;

/// A decimal and a float are compared as doubles. DataFusion would make a decimal of the float, of
/// one precision beside `=` and of another in a list. Goes before operands get a common type.
pub fn as_doubles(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_mixed = |parts: &[&Expr]| {
        let types = || parts.iter().filter_map(|part| part.get_type(schema).ok());
        types().any(|ty| ty.is_decimal()) && types().any(|ty| ty.is_floating())
    };
    let double = |expr: Box<Expr>| Box::new(cast(*expr, DataType::Float64));
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && is_mixed(&[&left, &right]) =>
        {
            let (left, right) = (double(left), double(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_mixed(&[&expr, &low, &high]) => {
            let between = Between::new(double(expr), negated, double(low), double(high));
            Transformed::yes(Expr::Between(between))
        }
        Expr::InList(InList { expr, list, negated })
            if is_mixed(&std::iter::once(&*expr).chain(&list).collect::<Vec<_>>()) =>
        {
            let list = list.into_iter().map(|item| cast(item, DataType::Float64)).collect();
            Transformed::yes(Expr::InList(InList { expr: double(expr), list, negated }))
        }
        other => Transformed::no(other),
    })
}

/// `nullif` of floats as a CASE over `=`: DataFusion's function tells both zeros apart, and its `=`
/// does not. `of_equality` makes of that comparison what it makes of any. Goes before operands get
/// a common type.
pub fn nullif(
    expr: Expr,
    schema: &DFSchema,
    of_equality: impl FnOnce(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| ty.is_floating());
    let (value, other) = match &expr {
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => match &call.args[..] {
            // The value stands twice then, and must be one.
            [value, other] if !value.is_volatile() && (is_float(value) || is_float(other)) => {
                (value, other)
            }
            _ => return Ok(Transformed::no(expr)),
        },
        _ => return Ok(Transformed::no(expr)),
    };
    let equality = of_equality(value.clone().eq(other.clone()))?.data;
    let null = Box::new(lit(ScalarValue::Null));
    let cases = vec![(Box::new(equality), null)];
    Ok(Transformed::yes(Expr::Case(Case::new(None, cases, Some(Box::new(value.clone()))))))
}

/// Lists of floats with a zero have both zeros: DataFusion looks longer lists up by their bits, and
/// compares shorter ones by value. Goes after operands got a common type.
pub fn both_zeros(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr, mut list, negated }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let zeros = match expr.get_type(schema) {
        Ok(DataType::Float32) => [0.0, -0.0].map(|zero| ScalarValue::Float32(Some(zero))),
        Ok(DataType::Float64) => [0.0, -0.0].map(|zero| ScalarValue::Float64(Some(zero))),
        _ => return Ok(Transformed::no(Expr::InList(InList { expr, list, negated }))),
    };
    let has_zero = list.iter().any(is_zero);
    if has_zero {
        list.extend(zeros.map(lit));
    }
    let expr = Expr::InList(InList { expr, list, negated });
    Ok(Transformed::new_transformed(expr, has_zero))
}

/// Whether an item is written as a zero, of whatever type and sign.
fn is_zero(item: &Expr) -> bool {
    match item {
        Expr::Cast(cast) => is_zero(&cast.expr),
        Expr::Negative(inner) => is_zero(inner),
        Expr::Literal(scalar, _) => matches!(
            scalar.cast_to(&DataType::Float64),
            Ok(ScalarValue::Float64(Some(value))) if value == 0.0
        ),
        _ => false,
    }
}
