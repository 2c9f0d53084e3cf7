//! UUIDs and addresses within lists, sets, maps and tuples: compared by what they name, as those
//! that stand alone (`identifier`).
//!
//! Which texts within a value name something is known by the metadata of its field, where the
//! column's type stands. Fields of user types are text: their types do not stand there.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::identifier::{self, Kind};
use super::instant::is_comparison;

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
/// Functions that give an element of a list.
const PICKING: [&str; 5] =
    ["array_element", "array_first", "array_any_value", "array_max", "array_min"];
/// Functions that give some elements of a list, or all in another order.
const KEEPING: [&str; 6] = [
    "array_slice",
    "array_distinct",
    "array_sort",
    "array_reverse",
    "array_pop_front",
    "array_pop_back",
];

/// Where in a value there are texts that name something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The value itself is such a text.
    Text(Kind),
    List(Box<Shape>),
    /// Keys and values.
    Map(Option<Box<Shape>>, Option<Box<Shape>>),
    /// By place.
    Fields(Vec<Option<Shape>>),
}

impl Shape {
    fn of(field: &Field) -> Option<Self> {
        if !field.data_type().is_nested() {
            return Kind::of(field).map(Shape::Text);
        }
        Shape::parse(field.metadata().get("tidegate.type")?)
    }

    /// Reads the name of a type.
    fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        let Some((outer, rest)) = name.split_once('<') else {
            return Kind::named(name).map(Shape::Text);
        };
        let inner = rest.strip_suffix('>')?;
        match outer {
            "frozen" => Shape::parse(inner),
            "list" | "set" => Shape::parse(inner).map(|shape| Shape::List(Box::new(shape))),
            "map" | "tuple" => {
                let mut parts: Vec<_> = parts(inner).into_iter().map(Shape::parse).collect();
                if parts.iter().all(Option::is_none) {
                    return None;
                }
                if outer == "tuple" {
                    return Some(Shape::Fields(parts));
                }
                let (value, key) = (parts.pop()?, parts.pop()?);
                Some(Shape::Map(key.map(Box::new), value.map(Box::new)))
            }
            _ => None,
        }
    }
}

/// The parts between commas that stand outside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_end = |character: char| {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    };
    text.split(is_end).collect()
}

/// Where there are such texts in what an expression gives.
pub fn shape(expr: &Expr, schema: &DFSchema) -> Option<Shape> {
    match expr {
        Expr::Alias(alias) => shape(&alias.expr, schema),
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::Cast(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => Shape::of(&expr.to_field(schema).ok()?.1),
        Expr::ScalarFunction(call) => of_call(call, schema),
        _ => None,
    }
}

fn of_call(call: &ScalarFunction, schema: &DFSchema) -> Option<Shape> {
    if let Some(canonical) = call.func.inner().downcast_ref::<Canonical>() {
        return Some(canonical.shape.clone());
    }
    let name = call.func.name();
    let first = call.args.first()?;
    let of_first = || shape(first, schema);
    if PICKING.contains(&name) {
        let Some(Shape::List(element)) = of_first() else { return None };
        return Some(*element);
    }
    if KEEPING.contains(&name) {
        return of_first();
    }
    match (name, call.args.get(1)) {
        ("map_keys", _) => match of_first()? {
            Shape::Map(Some(key), _) => Some(Shape::List(key)),
            _ => None,
        },
        ("map_values", _) => match of_first()? {
            Shape::Map(_, Some(value)) => Some(Shape::List(value)),
            _ => None,
        },
        ("get_field", Some(Expr::Literal(name, _))) if call.args.len() == 2 => match of_first()? {
            Shape::Map(_, value) => value.map(|shape| *shape),
            Shape::Fields(mut shapes) => {
                let ty = first.get_type(schema).ok()?;
                let DataType::Struct(fields) = ty else { return None };
                let (place, _) = fields.find(name.try_as_str().flatten()?)?;
                (place < shapes.len()).then(|| shapes.swap_remove(place)).flatten()
            }
            _ => None,
        },
        _ => None,
    }
}

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

/// Brings one of two values into the form of the other; whether there are such texts in just one.
pub fn bring_alike(left: (&mut Expr, &DFSchema), right: (&mut Expr, &DFSchema)) -> bool {
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
        return identifier::bring(expr, *kind, schema);
    }
    let is_nested = expr.get_type(schema).is_ok_and(|ty| ty.is_nested());
    if !is_nested || shape(expr, schema).is_some() {
        return;
    }
    let function = Arc::new(ScalarUDF::from(Canonical::new(wanted.clone())));
    let args = vec![std::mem::take(expr)];
    *expr = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
}

/// A value whose texts are in the one form of what they name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    shape: Shape,
    signature: Signature,
}

impl Canonical {
    fn new(shape: Shape) -> Self {
        Canonical { shape, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        "canonical_within"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(canonical(array, &self.shape)?),
            ColumnarValue::Scalar(scalar) => {
                let array = canonical(&scalar.to_array()?, &self.shape)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}

fn canonical(array: &ArrayRef, shape: &Shape) -> Result<ArrayRef> {
    let own = array.data_type();
    Ok(match (shape, own) {
        (Shape::Text(kind), ty) if ty.is_string() => {
            let texts = cast(array, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter().map(|text| {
                text.map(|text| kind.canonical(text).unwrap_or_else(|| text.to_owned()))
            });
            let texts: datafusion::arrow::array::StringArray = texts.collect();
            cast(&texts, ty)?
        }
        (Shape::List(element), DataType::List(_)) => {
            let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = canonical(&values, element)?;
            Arc::new(ListArray::try_new(field, offsets, values, nulls)?)
        }
        (Shape::List(_), DataType::LargeList(field) | DataType::FixedSizeList(field, _)) => {
            let plain = cast(array, &DataType::List(Arc::clone(field)))?;
            cast(&canonical(&plain, shape)?, own)?
        }
        (Shape::Map(key, value), DataType::Map(..)) => {
            let (field, offsets, entries, nulls, sorted) = array.as_map().clone().into_parts();
            let entries = fields(&entries, &[key.as_deref(), value.as_deref()])?;
            Arc::new(MapArray::try_new(field, offsets, entries, nulls, sorted)?)
        }
        (Shape::Fields(shapes), DataType::Struct(_)) => {
            let shapes: Vec<_> = shapes.iter().map(Option::as_ref).collect();
            Arc::new(fields(array.as_struct(), &shapes)?)
        }
        _ => Arc::clone(array),
    })
}

fn fields(array: &StructArray, shapes: &[Option<&Shape>]) -> Result<StructArray> {
    let part = |(place, column): (usize, &ArrayRef)| match shapes.get(place).copied().flatten() {
        Some(shape) => canonical(column, shape),
        None => Ok(Arc::clone(column)),
    };
    let columns: Vec<ArrayRef> =
        array.columns().iter().enumerate().map(part).collect::<Result<_>>()?;
    Ok(StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_from_names_of_types() {
        let uuid = || Some(Shape::Text(Kind::Uuid));
        let list = |element| Shape::List(Box::new(element));
        for (name, wanted) in [
            ("frozen<list<uuid>>", Some(list(Shape::Text(Kind::Uuid)))),
            ("set<frozen<set<inet>>>", Some(list(list(Shape::Text(Kind::Inet))))),
            ("map<uuid, int>", Some(Shape::Map(uuid().map(Box::new), None))),
            (
                "map<decimal(9, 2), frozen<tuple<int, uuid>>>",
                Some(Shape::Map(None, Some(Box::new(Shape::Fields(vec![None, uuid()]))))),
            ),
            ("tuple<map<int, text>, int>", None),
            ("list<ks.address>", None),
            ("uuid", uuid()),
        ] {
            assert_eq!(Shape::parse(name), wanted, "{name}");
        }
    }
}
