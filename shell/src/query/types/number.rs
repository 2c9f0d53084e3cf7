//! What a number with a point is: exactly what was written, unless it stands beside a float.
//!
//! The planner reads `123.45` as a decimal, so that it reaches decimal columns unharmed, and would
//! then compare floats as decimals too, which is slow and fails for large ones.
//!
//! Invariant: a constant decimal that is an operand beside a float, an argument of a function
//! without a decimal column, or cast to a float, is the double nearest to its text. In a list or a
//! row it stays what was written, unless a float stands beside it in the list: it may be for a
//! column of decimals.

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};

/// Name of the function that brings a value into its column (`assign.rs`).
pub const ASSIGN: &str = "assign";
/// Names of the functions that average and add up.
const AVERAGE: &str = "avg";
const SUM: &str = "sum";
/// Functions that make a list of their arguments.
const LISTS: [&str; 1] = ["make_array"];
/// Functions that make another value of their arguments.
const ROWS: [&str; 5] = ["struct", "row", "named_struct", "map", "make_map"];

/// Makes such a number a double; goes before operands get a common type, and before all others.
pub fn beside_float(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::Cast(to) = &expr
        && to.field.data_type().is_floating()
        && let Some(double) = double(&to.expr)
    {
        return Ok(Transformed::yes(cast(double, to.field.data_type().clone())));
    }
    let name = match &expr {
        Expr::ScalarFunction(call) => call.func.name(),
        _ => "",
    };
    let (is_list, is_row) = (LISTS.contains(&name), ROWS.contains(&name));
    let is_function = match &expr {
        // What is written to a column is what the statement says.
        Expr::ScalarFunction(_) => name != ASSIGN && !is_list && !is_row,
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => true,
        _ => false,
    };
    let is_operator =
        matches!(expr, Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::Case(_));
    if is_row {
        return expr.map_children(|child| {
            let double = if is_negative_zero(&child) { double(&child) } else { None };
            let is_changed = double.is_some();
            Ok(Transformed::new_transformed(double.unwrap_or(child), is_changed))
        });
    }
    if !is_function && !is_operator && !is_list {
        return Ok(Transformed::no(expr));
    }
    let (mut has_float, mut has_decimal, mut has_number) = (false, false, false);
    expr.apply_children(|child| {
        // What has no type yet is the planner's to refuse.
        let Ok(ty) = child.get_type(schema) else { return Ok(TreeNodeRecursion::Continue) };
        let is_number = is_number(child, &ty);
        has_number |= is_number;
        has_float |= ty.is_floating() || is_list && is_negative_zero(child);
        has_decimal |= holds(&ty, &DataType::is_decimal) && !is_number;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_number || !(has_float || is_function && !has_decimal) {
        return Ok(Transformed::no(expr));
    }
    expr.map_children(|child| {
        let is_number = child.get_type(schema).is_ok_and(|ty| is_number(&child, &ty));
        if !is_number {
            return Ok(Transformed::no(child));
        }
        let double = double(&child);
        Ok(Transformed::yes(double.unwrap_or_else(|| cast(child, DataType::Float64))))
    })
}

/// NULL that is averaged or added up, as a number: DataFusion 55.2 plans such an average and then
/// has no way to compute it. Goes before operands get a common type.
pub fn fold_of_null(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (name, args) = match &mut expr {
        Expr::AggregateFunction(function) => {
            (function.func.name().to_owned(), &mut function.params.args)
        }
        Expr::WindowFunction(window) => (window.fun.name().to_owned(), &mut window.params.args),
        _ => return Transformed::no(expr),
    };
    let ty = match name.as_str() {
        AVERAGE => DataType::Float64,
        SUM => DataType::Int64,
        _ => return Transformed::no(expr),
    };
    let mut is_changed = false;
    for arg in args {
        if arg.get_type(schema).is_ok_and(|ty| ty.is_null()) {
            *arg = cast(std::mem::take(arg), ty.clone());
            is_changed = true;
        }
    }
    Transformed::new_transformed(expr, is_changed)
}

/// A decimal literal, with a sign or without, as a double; −0.0 is one of these only.
pub fn double(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(scalar, _) => nearest_double(scalar).map(lit),
        Expr::Negative(inner) => match &**inner {
            Expr::Literal(scalar, _) => nearest_double(scalar).map(|double| lit(-double)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a type is, or holds, one that `is_wanted`.
pub fn holds(ty: &DataType, is_wanted: &dyn Fn(&DataType) -> bool) -> bool {
    match ty {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => holds(field.data_type(), is_wanted),
        DataType::Struct(fields) => fields.iter().any(|field| holds(field.data_type(), is_wanted)),
        other => is_wanted(other),
    }
}

/// Whether a number is written as a zero with a sign, which only floats have.
fn is_negative_zero(expr: &Expr) -> bool {
    let zero = |double: f64| double == 0.0 && double.is_sign_negative();
    matches!(double(expr), Some(Expr::Literal(ScalarValue::Float64(Some(value)), _)) if zero(value))
}

/// Whether an expression is a decimal made of literals alone.
fn is_number(expr: &Expr, ty: &DataType) -> bool {
    let is_constant =
        |expr: &Expr| matches!(expr, Expr::Literal(..) | Expr::BinaryExpr(_) | Expr::Negative(_));
    ty.is_decimal() && expr.exists(|part| Ok(!is_constant(part))).is_ok_and(|other| !other)
}

/// By way of text: a quotient of two doubles may be the second nearest.
fn nearest_double(scalar: &ScalarValue) -> Option<f64> {
    let text = match scalar {
        ScalarValue::Decimal128(Some(value), precision, scale) => {
            Decimal128Type::format_decimal(*value, *precision, *scale)
        }
        ScalarValue::Decimal256(Some(value), precision, scale) => {
            Decimal256Type::format_decimal(*value, *precision, *scale)
        }
        _ => return None,
    };
    text.parse().ok()
}
