//! UUIDs and addresses, which are text in SQL: compared by what they name, not by how it is
//! written, and ordered as keys are (`order.rs`).
//!
//! Columns give one form (lower case with hyphens; an address as short as it gets). So whatever
//! stands beside such a column is brought into that form, and an order becomes one of
//! `uuid_order(…)` and its like, a text that sorts as Cassandra sorts them. Which text is a UUID is
//! known by the metadata of its field, so a computed text (`lower(id)`) is text. What CASE,
//! `coalesce` and their like choose among UUIDs is one; an outer query that names it sees a text.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, InList, InSubquery, ScalarFunction, Sort, WindowFunction,
};
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ScalarUDF, cast, lit,
};

use super::order::{Best, Order, order_of};
use super::shape::{Kind, Shape, shape};
use super::time_uuid::{Bound, Canonical};
use crate::query::types::choice;
use crate::query::types::instant::is_comparison;

/// Orders, and keys of joins, that are no part of an expression; goes before operands get a common
/// type.
pub fn of_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            let is_changed = by_order(&mut sort.expr, &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
        }
        // It becomes an aggregate with this order only later.
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            let order = on.sort_expr.as_deref_mut().unwrap_or_default();
            let mut is_changed = by_order(order, &schema);
            // What is sorted first must be what is distinct.
            for expr in &mut on.on_expr {
                is_changed |= to_order(expr, &schema);
            }
            let plan = LogicalPlan::Distinct(Distinct::On(on));
            Ok(Transformed::new_transformed(plan, is_changed))
        }
        LogicalPlan::Join(mut join) => {
            let mut is_changed = false;
            let (left, right) = (join.left.schema(), join.right.schema());
            for (a, b) in &mut join.on {
                let kinds = (kind(a, left), kind(b, right));
                is_changed |= kinds.0.is_some() != kinds.1.is_some();
                match kinds {
                    (Some(kind), None) => bring(b, kind, right),
                    (None, Some(kind)) => bring(a, kind, left),
                    _ => {}
                }
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn kind(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
    if let Some(choices) = choice::of(expr) {
        return kind_of_choices(choices, schema);
    }
    match expr {
        Expr::Alias(alias) => kind(&alias.expr, schema),
        // A field has the text of its expression for a name: that of others would be long, and
        // vain.
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::Cast(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => Kind::of(&expr.to_field(schema).ok()?.1),
        Expr::ScalarFunction(_) => match shape(expr, schema) {
            Some(Shape::Text(kind)) => Some(kind),
            Some(_) => None,
            None => Kind::of(&expr.to_field(schema).ok()?.1),
        },
        _ => None,
    }
}

/// What all the texts name, of which one is given; literals are what the others are.
fn kind_of_choices(choices: Vec<&Expr>, schema: &DFSchema) -> Option<Kind> {
    let mut found = None;
    for choice in choices {
        match kind(choice, schema) {
            Some(kind) if found.is_none_or(|found| found == kind) => found = Some(kind),
            None if matches!(choice, Expr::Literal(..)) => {}
            _ => return None,
        }
    }
    found
}

/// Brings the literals among texts, of which one is given, into the form of the others.
fn bring_choices(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let found = kind(&expr, schema);
    let (Some(found), Some(choices)) = (found, choice::of_mut(&mut expr)) else {
        return Transformed::no(expr);
    };
    choices.into_iter().for_each(|choice| bring(choice, found, schema));
    if let Expr::ScalarFunction(call) = &mut expr
        && matches!(call.func.name(), "greatest" | "least")
    {
        call.func = Arc::new(Best::function(found, call.func.name() == "greatest"));
    }
    Transformed::yes(expr)
}

/// Sorts such values by their order; whether there are any.
fn by_order(order: &mut [Sort], schema: &DFSchema) -> bool {
    let mut is_changed = false;
    for sort in order {
        is_changed |= to_order(&mut sort.expr, schema);
    }
    is_changed
}

/// Makes a value what sorts by its order; whether it is one.
fn to_order(expr: &mut Expr, schema: &DFSchema) -> bool {
    let found = kind(expr, schema);
    if let Some(kind) = found {
        *expr = ordered(kind, std::mem::take(expr));
    }
    found.is_some()
}

/// Comparisons and orders within an expression; goes before operands get a common type.
pub fn compare_all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    bring_choices(expr, schema).transform_data(|expr| rewrite(expr, schema))
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => compare(binary, schema)?,
        Expr::Between(part) => between(part, schema)?,
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let kinds = std::iter::once(&*expr).chain(&list).map(|part| kind(part, schema));
            let Some(kind) = kinds.fold(None, Option::or) else {
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            };
            list.iter_mut().for_each(|item| bring(item, kind, schema));
            bring(&mut expr, kind, schema);
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::InSubquery(part) => in_subquery(part, schema)?,
        Expr::Case(Case { expr: Some(base), mut when_then_expr, else_expr }) => {
            let found = kind(&base, schema);
            for (when, _) in &mut when_then_expr {
                found.iter().for_each(|kind| bring(when, *kind, schema));
            }
            let case = Case { expr: Some(base), when_then_expr, else_expr };
            Transformed::new_transformed(Expr::Case(case), found.is_some())
        }
        Expr::WindowFunction(mut window) => {
            let WindowFunction { params, .. } = &mut *window;
            let is_changed = by_order(&mut params.order_by, schema);
            Transformed::new_transformed(Expr::WindowFunction(window), is_changed)
        }
        Expr::AggregateFunction(mut function) => {
            let AggregateFunction { params, .. } = &mut function;
            let is_changed = by_order(&mut params.order_by, schema);
            Transformed::new_transformed(Expr::AggregateFunction(function), is_changed)
        }
        other => Transformed::no(other),
    })
}

fn between(part: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let kinds = [&part.expr, &part.low, &part.high].map(|part| kind(part, schema));
    if kinds.iter().all(Option::is_none) {
        return Ok(Transformed::no(Expr::Between(part)));
    }
    let Between { expr, negated, low, high } = part;
    let side = |left: &Expr, op, right: Box<Expr>| {
        let left = Box::new(left.clone());
        Ok::<_, DataFusionError>(compare(BinaryExpr { left, op, right }, schema)?.data)
    };
    Ok(Transformed::yes(match negated {
        true => side(&expr, Operator::Lt, low)?.or(side(&expr, Operator::Gt, high)?),
        false => side(&expr, Operator::GtEq, low)?.and(side(&expr, Operator::LtEq, high)?),
    }))
}

fn in_subquery(part: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InSubquery { mut expr, mut subquery, negated } = part;
    let inner_schema = Arc::clone(subquery.subquery.schema());
    let inner = Kind::of(inner_schema.field(0));
    let is_changed = match (kind(&expr, schema), inner) {
        (Some(kind), None) => {
            let (qualifier, field) = inner_schema.qualified_field(0);
            let name = field.name().clone();
            let mut column = Expr::Column((qualifier, field).into());
            bring(&mut column, kind, &inner_schema);
            let plan = Arc::unwrap_or_clone(subquery.subquery);
            let plan = LogicalPlanBuilder::from(plan).project([column.alias(name)])?;
            subquery.subquery = Arc::new(plan.build()?);
            true
        }
        (None, Some(kind)) => {
            bring(&mut expr, kind, schema);
            true
        }
        _ => false,
    };
    let expr = Expr::InSubquery(InSubquery { expr, subquery, negated });
    Ok(Transformed::new_transformed(expr, is_changed))
}

fn compare(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { mut left, op, mut right } = binary;
    let kinds = (kind(&left, schema), kind(&right, schema));
    let Some(mut found) = kinds.0.or(kinds.1) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    let is_order = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    if is_order {
        if kinds.0 != kinds.1 && kinds.0.is_some() && kinds.1.is_some() {
            // Time UUIDs are UUIDs as well.
            found = Kind::Uuid;
        }
        if found == Kind::TimeUuid {
            // A time UUID that is later than an instant is later than all of that instant.
            let is_end = |of_right: bool| matches!(op, Operator::Gt | Operator::LtEq) == of_right;
            left = Box::new(moment(*left, is_end(false), schema));
            right = Box::new(moment(*right, is_end(true), schema));
        }
        for side in [&left, &right] {
            check_name(side, found)?;
        }
        left = Box::new(ordered(found, *left));
        right = Box::new(ordered(found, *right));
    } else {
        bring(&mut left, found, schema);
        bring(&mut right, found, schema);
    }
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}

/// Errors: `Plan` for a text literal that names nothing of the kind, and so has no order.
fn check_name(expr: &Expr, kind: Kind) -> Result<()> {
    let Expr::Literal(scalar, _) = expr else { return Ok(()) };
    match scalar.try_as_str().flatten() {
        Some(text) if order_of(kind, text).is_none() => {
            plan_err!("'{text}' is no {}", kind.data_type().sql_name())
        }
        _ => Ok(()),
    }
}

/// An instant as the first or last time UUID of its millisecond; anything else as it is.
fn moment(expr: Expr, is_end: bool, schema: &DFSchema) -> Expr {
    let is_instant = matches!(
        expr.get_type(schema),
        Ok(DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
    );
    if !is_instant {
        return expr;
    }
    call(ScalarUDF::from(Bound::new(is_end)), expr)
}

/// Brings a text into the one form of what it names.
pub fn bring(expr: &mut Expr, wanted: Kind, schema: &DFSchema) {
    let is_text = expr.get_type(schema).is_ok_and(|ty| ty.is_string());
    if kind(expr, schema).is_some() || !is_text {
        return;
    }
    if let Expr::Literal(scalar, _) = expr {
        let text = scalar.try_as_str().flatten();
        if let Some(text) = text.and_then(|text| wanted.canonical(text)) {
            *expr = lit(ScalarValue::Utf8(Some(text)));
        }
        return;
    }
    let text = cast(std::mem::take(expr), DataType::Utf8);
    *expr = call(ScalarUDF::from(Canonical::new(wanted)), text);
}

fn ordered(kind: Kind, expr: Expr) -> Expr {
    call(Order::function(kind), expr)
}

fn call(function: ScalarUDF, argument: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![argument]))
}
