//! Texts that name something, such as UUIDs and addresses, alone or within lists, sets, maps and
//! tuples: what they name, where they stand, and their one form.
//!
//! Which texts within a value name something is known by the metadata of its field, where the
//! column's type stands. Fields of user types are text: their types do not stand there. Not here:
//! what that means to operators (`alone`, `within`).

use std::net::IpAddr;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_engine::schema::DataType as CqlType;
use tidegate_engine::schema::value::{format_uuid, parse_uuid};

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

/// What a text names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Uuid,
    TimeUuid,
    Inet,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Uuid, Kind::TimeUuid, Kind::Inet];

    /// What values of a column's type are; `None` for any other type.
    pub fn of_type(ty: &CqlType) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.data_type() == *ty)
    }

    /// The type of columns that hold such values.
    pub fn data_type(self) -> CqlType {
        match self {
            Kind::Uuid => CqlType::Uuid,
            Kind::TimeUuid => CqlType::TimeUuid,
            Kind::Inet => CqlType::Inet,
        }
    }

    /// A field of such texts.
    pub fn field(self, name: &str) -> FieldRef {
        let metadata = [("tidegate.type".to_owned(), self.data_type().sql_name())];
        Arc::new(Field::new(name, DataType::Utf8, true).with_metadata(metadata.into()))
    }

    /// What the texts of a field name; `None` for any other field.
    pub fn of(field: &Field) -> Option<Self> {
        if !field.data_type().is_string() {
            return None;
        }
        Kind::named(field.metadata().get("tidegate.type")?)
    }

    /// What the values of the type of that name are; `None` for any other type.
    pub fn named(ty: &str) -> Option<Self> {
        match ty {
            "uuid" => Some(Kind::Uuid),
            "timeuuid" => Some(Kind::TimeUuid),
            "inet" => Some(Kind::Inet),
            _ => None,
        }
    }

    /// The one form of a text; `None` where it names nothing of the kind.
    pub fn canonical(self, text: &str) -> Option<String> {
        match self {
            Kind::Uuid | Kind::TimeUuid => parse_uuid(text).map(|uuid| format_uuid(&uuid)),
            Kind::Inet => {
                text.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string())
            }
        }
    }
}

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
    /// That of the values of a field.
    pub fn of(field: &Field) -> Option<Self> {
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

/// A value whose texts are in the one form of what they name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Canonical {
    shape: Shape,
    signature: Signature,
}

impl Canonical {
    pub fn new(shape: Shape) -> Self {
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
