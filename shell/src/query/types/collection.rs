//! Collections and rows beside constants: `s = {3, 1}`, `m IN ({'a': 1}, {})`, `l = [0.1]`.
//!
//! A column gives the elements of a set and the keys of a map in the order of their type, each
//! once. So a constant that is compared with such a column is made a value of the column's type
//! first: `{3, 1, 3}` is the set `{1, 3}`, and its numbers are as wide as the column's. A constant
//! that is no such value stays as it is, and SQL compares it with its own means.
//!
//! Fields of user types stay, too: the name of a type does not say what is in it.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use tidegate_engine::batch::value_at;
use tidegate_engine::schema::order::encode_component;
use tidegate_engine::schema::{ClusteringOrder, DataType, UserType};

use super::assign;
use super::instant::is_comparison;
use super::number::holds;
use crate::query::error::{QueryError, Result as QueryResult};
use crate::query::parse::statement::synthetic;
use crate::query::parse::{Cursor, TableName, type_name};

/// Name of the function that compares values which hold floats (`plan/zero.rs`).
pub const EQUAL_WITHIN: &str = "equal_within";

/// Makes constants beside columns values of them; goes before operands get a common type.
pub fn compare_all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
            let is_changed = match (type_of(&left, schema), type_of(&right, schema)) {
                (Some(ty), None) => bring(&mut right, &ty, schema)?,
                (None, Some(ty)) => bring(&mut left, &ty, schema)?,
                _ => false,
            };
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Transformed::new_transformed(expr, is_changed)
        }
        Expr::InList(InList { expr, mut list, negated }) => {
            let mut is_changed = false;
            if let Some(ty) = type_of(&expr, schema) {
                for item in &mut list {
                    is_changed |= bring(item, &ty, schema)?;
                }
            }
            let expr = Expr::InList(InList { expr, list, negated });
            Transformed::new_transformed(expr, is_changed)
        }
        other => Transformed::no(other),
    })
}

/// The type of a column that holds other values; `None` for all else, and where it is not known.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let column = match expr {
        Expr::Alias(alias) => return type_of(&alias.expr, schema),
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => expr,
        _ => return None,
    };
    let field = column.to_field(schema).ok()?.1;
    if !field.data_type().is_nested() {
        return None;
    }
    named_type(&field)
}

/// The type of a column of a table, as its field says it; none of a user type.
pub fn named_type(field: &Field) -> Option<DataType> {
    named_type_among(field, &|_| Err(QueryError::invalid("a user type")))
}

/// As [`named_type`], user types found by `find`.
pub fn named_type_among(
    field: &Field,
    find: &dyn Fn(&TableName) -> QueryResult<UserType>,
) -> Option<DataType> {
    let tokens = synthetic(field.metadata().get("tidegate.type")?).ok()?;
    type_name(&mut Cursor::new(&tokens)).ok()?.resolve(find).ok()
}

/// Makes a constant a value of type `ty`; whether it is one now.
///
/// Errors: `Plan` where a map is wanted and the constant is none of its type: maps of other types
/// are not compared.
fn bring(expr: &mut Expr, ty: &DataType, schema: &DFSchema) -> Result<bool> {
    let is_variable = |part: &Expr| {
        let is_constant = matches!(
            part,
            Expr::Literal(..)
                | Expr::ScalarFunction(_)
                | Expr::Cast(_)
                | Expr::Negative(_)
                | Expr::BinaryExpr(_)
                | Expr::Alias(_)
        );
        Ok(!is_constant || part.is_volatile_node())
    };
    if expr.exists(is_variable)? || !expr.get_type(schema).is_ok_and(|ty| ty.is_nested()) {
        return Ok(false);
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let constant = simplifier
        .coerce(expr.clone(), &DFSchema::empty())
        .and_then(|constant| simplifier.simplify(constant));
    // What cannot be worked out is for the planner to refuse.
    let Ok(Expr::Literal(constant, _)) = constant else { return Ok(false) };
    match value(&constant, ty) {
        Ok(Some(value)) => *expr = lit(value),
        Ok(None) => return Ok(false),
        Err(reason) if matches!(ty.unfrozen(), DataType::Map(..)) => return plan_err!("{reason}"),
        Err(_) => return Ok(false),
    }
    Ok(true)
}

/// A constant as a value of type `ty`; `None` where it would be changed by that.
fn value(constant: &ScalarValue, ty: &DataType) -> Result<Option<ScalarValue>, String> {
    let text = |error: datafusion::common::DataFusionError| error.strip_backtrace();
    let converted = assign::scalar(constant, ty)?;
    // A column keeps less of a double or an instant than was written.
    let own = constant.data_type();
    if holds(&own, &|ty| {
        matches!(ty, ArrowType::Float64)
            || matches!(ty, ArrowType::Timestamp(unit, _) if *unit != TimeUnit::Second)
    }) {
        let array = constant.to_array().map_err(text)?;
        let back = converted.to_array().and_then(|converted| Ok(cast(&converted, &own)?));
        if !back.is_ok_and(|back| *back == *array) {
            return Ok(None);
        }
    }
    let sorted = sorted(&converted.to_array().map_err(text)?, ty)?;
    ScalarValue::try_from_array(&sorted, 0).map(Some).map_err(text)
}

/// Values of type `ty` with sets and maps in their order.
fn sorted(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef, String> {
    let text = |error: datafusion::arrow::error::ArrowError| error.to_string();
    Ok(match ty.unfrozen() {
        DataType::List(element) => {
            let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = sorted(&values, element)?;
            Arc::new(ListArray::try_new(field, offsets, values, nulls).map_err(text)?)
        }
        DataType::Set(element) => {
            let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = sorted(&values, element)?;
            let (places, offsets) = places(&offsets, &values, element)?;
            let values = take(&values, &places, None).map_err(text)?;
            Arc::new(ListArray::try_new(field, offsets, values, nulls).map_err(text)?)
        }
        DataType::Map(key, value) => {
            let (field, offsets, entries, nulls, is_sorted) = array.as_map().clone().into_parts();
            let keys = sorted(entries.column(0), key)?;
            let values = sorted(entries.column(1), value)?;
            let (places, offsets) = places(&offsets, &keys, key)?;
            let columns = [keys, values].map(|column| take(&column, &places, None));
            let columns = columns.into_iter().collect::<Result<_, _>>().map_err(text)?;
            let entries =
                StructArray::try_new(entries.fields().clone(), columns, None).map_err(text)?;
            Arc::new(MapArray::try_new(field, offsets, entries, nulls, is_sorted).map_err(text)?)
        }
        DataType::Tuple(types) => {
            let fields = array.as_struct();
            let columns = fields.columns().iter().zip(types).map(|(part, ty)| sorted(part, ty));
            let columns = columns.collect::<Result<_, _>>()?;
            let made =
                StructArray::try_new(fields.fields().clone(), columns, fields.nulls().cloned());
            Arc::new(made.map_err(text)?)
        }
        _ => Arc::clone(array),
    })
}

/// Where the elements of each row stand, in their order; of those that are the same the last.
fn places(
    offsets: &OffsetBuffer<i32>,
    elements: &ArrayRef,
    ty: &DataType,
) -> Result<(UInt32Array, OffsetBuffer<i32>), String> {
    let (mut places, mut lengths) = (Vec::new(), Vec::new());
    for pair in offsets.windows(2) {
        let mut ranked = Vec::new();
        for place in pair[0]..pair[1] {
            let value =
                value_at(elements, place as usize, ty).map_err(|error| error.to_string())?;
            let Some(value) = value else { return Err("a collection holds no nulls".to_owned()) };
            let mut rank = Vec::new();
            encode_component(ty, ClusteringOrder::Ascending, &value.to_bytes(), &mut rank)
                .map_err(|error| error.to_string())?;
            ranked.push((rank, std::cmp::Reverse(place)));
        }
        ranked.sort();
        ranked.dedup_by(|(a, _), (b, _)| a == b);
        lengths.push(ranked.len());
        places.extend(ranked.into_iter().map(|(_, place)| place.0 as u32));
    }
    Ok((UInt32Array::from(places), OffsetBuffer::from_lengths(lengths)))
}
