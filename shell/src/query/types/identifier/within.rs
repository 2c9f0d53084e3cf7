//! Compares UUIDs and addresses within lists, sets, maps and tuples by value. Runs after `alone`,
//! which handles those that stand alone.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Case, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF,
};

use super::alone;
use super::shape::{Canonical, Shape, shape};
use crate::query::types::instant::is_comparison;

/// Functions that look for their second argument among the elements of the first.
const SEEKING: [&str; 6] = [
    "array_has",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_n",
    "array_remove_all",
];
/// Functions that look for the elements of one list in another.
const MATCHING: [&str; 5] =
    ["array_has_all", "array_has_any", "array_intersect", "array_union", "array_except"];

/// Brings values beside one with such texts into the one form; goes before operands get a common
/// type.
pub fn compare_all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
            let is_changed = bring_alike((&mut *left, schema), (&mut *right, schema));
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(expr, is_changed)
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let mut shapes = std::iter::once(&*expr).chain(&list);
            let found = shapes.find_map(|part| within(part, schema));
            if let Some(found) = &found {
                let parts = std::iter::once(&mut *expr).chain(&mut list);
                parts.for_each(|part| bring(part, found, schema));
            }
            let expr = Expr::InList(InList { expr, list, negated });
            Transformed::new_transformed(expr, found.is_some())
        }
        Expr::InSubquery(within) => in_subquery(within, schema)?,
        Expr::Case(Case { expr: Some(base), mut when_then_expr, else_expr }) => {
            let found = within(&base, schema);
            for (when, _) in &mut when_then_expr {
                found.iter().for_each(|shape| bring(when, shape, schema));
            }
            let case = Case { expr: Some(base), when_then_expr, else_expr };
            Transformed::new_transformed(Expr::Case(case), found.is_some())
        }
        Expr::ScalarFunction(mut call) => {
            let is_changed = arguments(&mut call, schema);
            Transformed::new_transformed(Expr::ScalarFunction(call), is_changed)
        }
        other => Transformed::no(other),
    })
}

/// Keys of joins, that are no part of an expression; goes before operands get a common type.
pub fn of_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    let mut is_changed = false;
    let (left, right) = (join.left.schema(), join.right.schema());
    for (a, b) in &mut join.on {
        is_changed |= bring_alike((a, &**left), (b, &**right));
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
}

/// Brings one of two values into the form of the other; whether there are such texts in just one.
fn bring_alike(left: (&mut Expr, &DFSchema), right: (&mut Expr, &DFSchema)) -> bool {
    match (within(left.0, left.1), within(right.0, right.1)) {
        (Some(shape), None) => bring(right.0, &shape, right.1),
        (None, Some(shape)) => bring(left.0, &shape, left.1),
        _ => return false,
    }
    true
}

/// As [`shape`], of values that hold others.
fn within(expr: &Expr, schema: &DFSchema) -> Option<Shape> {
    shape(expr, schema).filter(|shape| !matches!(shape, Shape::Text(_)))
}

fn in_subquery(mut within_query: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let inner_schema = Arc::clone(within_query.subquery.subquery.schema());
    let inner = inner_schema.fields().first().and_then(|field| Shape::of(field));
    let inner = inner.filter(|shape| !matches!(shape, Shape::Text(_)));
    let is_changed = match (within(&within_query.expr, schema), inner) {
        (Some(shape), None) => {
            let (qualifier, field) = inner_schema.qualified_field(0);
            let name = field.name().clone();
            let mut column = Expr::Column((qualifier, field).into());
            bring(&mut column, &shape, &inner_schema);
            let plan = Arc::unwrap_or_clone(within_query.subquery.subquery);
            let plan = LogicalPlanBuilder::from(plan).project([column.alias(name)])?;
            within_query.subquery.subquery = Arc::new(plan.build()?);
            true
        }
        (None, Some(shape)) => {
            bring(&mut within_query.expr, &shape, schema);
            true
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(Expr::InSubquery(within_query), is_changed))
}

/// Brings what a function looks for into the form of where it looks; whether there was any.
fn arguments(call: &mut ScalarFunction, schema: &DFSchema) -> bool {
    let name = call.func.name().to_owned();
    let name = name.as_str();
    if MATCHING.contains(&name) {
        let Some(found) = call.args.iter().find_map(|part| within(part, schema)) else {
            return false;
        };
        call.args.iter_mut().for_each(|part| bring(part, &found, schema));
        return true;
    }
    let is_key = matches!(name, "get_field" | "map_extract");
    if !is_key && !SEEKING.contains(&name) {
        return false;
    }
    let [first, sought, ..] = &mut call.args[..] else { return false };
    let wanted = match (shape(first, schema), is_key) {
        (Some(Shape::Map(Some(key), _)), true) => *key,
        (Some(Shape::List(element)), false) => *element,
        _ => return false,
    };
    bring(sought, &wanted, schema);
    true
}

/// Brings the texts of a value into the one form of what they name.
fn bring(expr: &mut Expr, wanted: &Shape, schema: &DFSchema) {
    if let Shape::Text(kind) = wanted {
        return alone::bring(expr, *kind, schema);
    }
    let is_nested = expr.get_type(schema).is_ok_and(|ty| ty.is_nested());
    if !is_nested || shape(expr, schema).is_some() {
        return;
    }
    let function = Arc::new(ScalarUDF::from(Canonical::new(wanted.clone())));
    let args = vec![std::mem::take(expr)];
    *expr = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
}
