//! Comparisons of numbers of different kinds: `=`, `IN`, `BETWEEN` and `CASE x WHEN y` agree.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlanBuilder, cast, lit};

use super::choice::is_small;
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
        Expr::InSubquery(part) => in_query(part, schema)?,
        other => Transformed::no(other),
    })
}

/// A decimal among the doubles of a query, or a double among its decimals: both as doubles.
fn in_query(part: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let inner = Arc::clone(part.subquery.subquery.schema());
    let types = (part.expr.get_type(schema), inner.field(0).data_type());
    let is_mixed = match &types {
        (Ok(sought), found) => {
            sought.is_decimal() && found.is_floating() || sought.is_floating() && found.is_decimal()
        }
        _ => false,
    };
    if !is_mixed {
        return Ok(Transformed::no(Expr::InSubquery(part)));
    }
    let InSubquery { expr, mut subquery, negated } = part;
    let (qualifier, field) = inner.qualified_field(0);
    let column = Expr::Column((qualifier, field).into());
    let column = cast(column, DataType::Float64).alias(field.name());
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    subquery.subquery = Arc::new(LogicalPlanBuilder::from(plan).project([column])?.build()?);
    let expr = Box::new(cast(*expr, DataType::Float64));
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

/// `CASE x WHEN y` as `CASE WHEN x = y`: DataFusion compares such values by their bits, in types
/// that it does not choose as for `=`. Integers and texts stay, which are compared alike.
/// `of_equality` makes of a comparison what it makes of any. Goes before operands get a common
/// type.
pub fn simple_case(
    expr: Expr,
    schema: &DFSchema,
    of_equality: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let (base, case) = match expr {
        // The value stands several times then, and must be one.
        Expr::Case(mut case) => {
            match case.expr.take_if(|base| !base.is_volatile() && is_small(base)) {
                Some(base) => (base, case),
                None => return Ok(Transformed::no(Expr::Case(case))),
            }
        }
        other => return Ok(Transformed::no(other)),
    };
    let whens = case.when_then_expr.iter().map(|(when, _)| &**when);
    let types = std::iter::once(&*base).chain(whens).map(|part| part.get_type(schema));
    let mut types = types.filter(|ty| !matches!(ty, Ok(DataType::Null)));
    let is_alike = match types.next() {
        Some(Ok(first)) if first.is_integer() => types.all(|ty| ty.is_ok_and(|ty| ty.is_integer())),
        Some(Ok(first)) if first.is_string() || first == DataType::Boolean => {
            types.all(|ty| ty.is_ok_and(|ty| ty == first))
        }
        // What has no type yet is the planner's to refuse.
        Some(Err(_)) => true,
        _ => false,
    };
    if is_alike {
        let case = Case { expr: Some(base), ..case };
        return Ok(Transformed::no(Expr::Case(case)));
    }
    let mut cases = Vec::with_capacity(case.when_then_expr.len());
    for (when, then) in case.when_then_expr {
        let equality = of_equality((*base).clone().eq(*when))?.data;
        cases.push((Box::new(equality), then));
    }
    Ok(Transformed::yes(Expr::Case(Case::new(None, cases, case.else_expr))))
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
            [value, other]
                if !value.is_volatile()
                    && is_small(value)
                    && (is_float(value) || is_float(other)) =>
            {
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
