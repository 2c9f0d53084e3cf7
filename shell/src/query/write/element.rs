//! Changes of single elements of collections and of fields of user types: which they are, by the
//! table's columns.
//!
//! A write does not read, but for steps of counters, which the engine takes. What needs to know a
//! list's elements (`l[0] = …`, `l = l - […]`) is refused.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use tidegate_engine::batch::{ElementChange, arrow_type};
use tidegate_engine::{Column, ColumnId, DataType, TableSchema, Value};

use super::column::{find_column, scalar_value};
use crate::query::error::{QueryError, Result};
use crate::query::parse::{ElementHow, ElementWrite, Elements, Name, Operand};

/// The changes of one statement.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub list: Vec<(ColumnId, ElementChange)>,
    /// When elements of lists were added, µs.
    pub place_us: i64,
}

impl Changes {
    pub fn columns(&self) -> impl Iterator<Item = &ColumnId> {
        self.list.iter().map(|(id, _)| id)
    }
}

/// Whether a write steps counters.
pub fn is_counting(schema: &TableSchema, elements: &Elements) -> bool {
    elements.changes.iter().any(|change| {
        let column = schema.find(&change.column.value);
        column.is_some_and(|(_, column)| column.ty == DataType::Counter)
    })
}

/// The changes that a statement asks for; `operands` has one row, a column an operand.
///
/// Errors: `NotFound`, `Invalid` and `Unsupported` at the column or the operand.
pub fn resolve(
    schema: &TableSchema,
    elements: &Elements,
    operands: Option<&RecordBatch>,
    place_us: i64,
) -> Result<Changes> {
    let value_of = |number: usize, ty: &DataType| {
        let batch = operands.expect("changes with operands have a SELECT");
        let scalar = ScalarValue::try_from_array(batch.column(number), 0)?;
        let value = scalar_value(&scalar, ty);
        value.map_err(|error| match error.span {
            Some(_) => error,
            None => error.at(elements.operands.list[number].span),
        })
    };
    let mut changes = Changes { list: Vec::new(), place_us };
    for element in &elements.changes {
        let (id, column) = find_column(schema, &element.column)?;
        let wanted = wanted(column, element)?;
        let present = |number: usize, ty: &DataType| {
            value_of(number, ty)?.ok_or_else(|| {
                QueryError::invalid("null is no element").at(elements.operands.list[number].span)
            })
        };
        let change = match (wanted, &element.how) {
            (Wanted::Step, ElementHow::Add(x) | ElementHow::Prepend(x)) => {
                step(&present(*x, &DataType::BigInt)?, false)?
            }
            (Wanted::Step, ElementHow::Remove(x)) => step(&present(*x, &DataType::BigInt)?, true)?,
            (Wanted::Whole(ty), ElementHow::Add(x)) => ElementChange::Add(present(*x, &ty)?),
            (Wanted::Whole(ty), ElementHow::Prepend(x)) => {
                ElementChange::Prepend(present(*x, &ty)?)
            }
            (Wanted::Whole(ty), ElementHow::Remove(x)) => match present(*x, &ty)? {
                Value::Set(paths) => ElementChange::Remove(paths),
                other => unreachable!("a set was asked for, not {}", other.type_name()),
            },
            (Wanted::Entry(key_type, value_type), ElementHow::Put { key, value }) => {
                let key = present(*key, &key_type)?;
                match value_of(*value, &value_type)? {
                    Some(value) => ElementChange::Add(Value::Map(vec![(key, value)])),
                    None => ElementChange::Remove(vec![key]),
                }
            }
            (Wanted::Key(ty), ElementHow::Delete { key }) => {
                ElementChange::Remove(vec![present(*key, &ty)?])
            }
            (Wanted::Field { number, count, ty }, ElementHow::PutField { value, .. }) => {
                match value_of(*value, &ty)? {
                    Some(value) => {
                        let mut fields = vec![None; count];
                        fields[usize::from(number.unsigned_abs())] = Some(value);
                        ElementChange::Add(Value::Tuple(fields))
                    }
                    None => ElementChange::Remove(vec![Value::SmallInt(number)]),
                }
            }
            (Wanted::Field { number, .. }, ElementHow::DeleteField { .. }) => {
                ElementChange::Remove(vec![Value::SmallInt(number)])
            }
            (_, how) => unreachable!("what is wanted follows from {how:?}"),
        };
        changes.list.push((id, change));
    }
    Ok(changes)
}

/// A step of a counter, perhaps a step back.
///
/// Errors: `Invalid` for one that has no opposite.
fn step(by: &Value, is_back: bool) -> Result<ElementChange> {
    let Value::BigInt(by) = by else { unreachable!("a bigint was asked for, not {by:?}") };
    let by = if is_back { by.checked_neg() } else { Some(*by) };
    let too_long = || QueryError::invalid("the step of a counter is too long for a bigint");
    by.map(ElementChange::Count).ok_or_else(too_long)
}

/// Types of the operands that are nothing but a parameter, by the parameter's number.
///
/// Errors: as [`resolve`], as far as types tell.
pub fn parameters(schema: &TableSchema, elements: &Elements) -> Result<Vec<(usize, ArrowType)>> {
    let mut found = Vec::new();
    let mut add = |operand: &Operand, ty: &DataType| {
        found.extend(operand.parameter.map(|number| (number, arrow_type(ty))));
    };
    for element in &elements.changes {
        let (_, column) = find_column(schema, &element.column)?;
        let operand = |number: &usize| &elements.operands.list[*number];
        match (wanted(column, element)?, &element.how) {
            (
                Wanted::Whole(ty),
                ElementHow::Add(x) | ElementHow::Prepend(x) | ElementHow::Remove(x),
            ) => add(operand(x), &ty),
            (Wanted::Step, ElementHow::Add(x) | ElementHow::Prepend(x) | ElementHow::Remove(x)) => {
                add(operand(x), &DataType::BigInt)
            }
            (Wanted::Entry(key_type, value_type), ElementHow::Put { key, value }) => {
                add(operand(key), &key_type);
                add(operand(value), &value_type);
            }
            (Wanted::Key(ty), ElementHow::Delete { key }) => add(operand(key), &ty),
            (Wanted::Field { ty, .. }, ElementHow::PutField { value, .. }) => {
                add(operand(value), &ty);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// What the operands of a change are.
enum Wanted {
    /// A collection of this type.
    Whole(DataType),
    /// Key and value of a map.
    Entry(DataType, DataType),
    /// An element of a set or a key of a map.
    Key(DataType),
    /// How far a counter counts on.
    Step,
    /// A field of a user type.
    Field { number: i16, count: usize, ty: DataType },
}

fn wanted(column: &Column, element: &ElementWrite) -> Result<Wanted> {
    let ty = &column.ty;
    let name = &element.column;
    let refuse = |message: String, help: &str| {
        Err(QueryError::unsupported(message).at(name.span).with_help(help))
    };
    let whole = "assign the whole value";
    if *ty == DataType::Counter {
        return match element.how {
            ElementHow::Add(_) | ElementHow::Prepend(_) | ElementHow::Remove(_) => Ok(Wanted::Step),
            _ => refuse(format!("'{}' is a counter", name.value), "SET c = c + 1"),
        };
    }
    if !ty.is_multi_cell() {
        let message = match element.how {
            // As any other expression over columns.
            ElementHow::Add(_) | ElementHow::Prepend(_) | ElementHow::Remove(_) => {
                format!("the new value of '{}' is not a constant", name.value)
            }
            _ => format!(
                "'{}' is {}: its parts are not written one by one",
                name.value,
                ty.sql_name()
            ),
        };
        return refuse(message, "UPDATE writes without reading: assign the whole value");
    }
    Ok(match (&element.how, ty) {
        (ElementHow::Add(_), DataType::List(_) | DataType::Set(_) | DataType::Map(..))
        | (ElementHow::Prepend(_), DataType::List(_))
        | (ElementHow::Remove(_), DataType::Set(_)) => Wanted::Whole(ty.clone()),
        (ElementHow::Remove(_), DataType::Map(key, _)) => Wanted::Whole(DataType::Set(key.clone())),
        (ElementHow::Put { .. }, DataType::Map(key, value)) => {
            Wanted::Entry((**key).clone(), (**value).clone())
        }
        (ElementHow::Delete { .. }, DataType::Map(key, _) | DataType::Set(key)) => {
            Wanted::Key((**key).clone())
        }
        (
            ElementHow::PutField { name: field, .. } | ElementHow::DeleteField { name: field },
            DataType::User(user),
        ) => field_of(ty, &user.fields, field)?,
        (
            ElementHow::Remove(_) | ElementHow::Put { .. } | ElementHow::Delete { .. },
            DataType::List(_),
        ) => {
            return refuse(
                format!("which elements '{}' has is not known to a write", name.value),
                "a write does not read: assign the whole list, or add to its front or end",
            );
        }
        _ => {
            let message =
                format!("'{}' is {}, which has no such elements", name.value, ty.sql_name());
            return refuse(message, whole);
        }
    })
}

fn field_of(ty: &DataType, fields: &[(String, DataType)], name: &Name) -> Result<Wanted> {
    let at = fields.iter().position(|(field, _)| *field == name.value);
    let (Some(at), true) = (at, fields.len() <= usize::from(i16::MAX.unsigned_abs())) else {
        let known = fields.iter().map(|(field, _)| field.as_str());
        let kind = format!("field of {}", ty.sql_name());
        return Err(QueryError::not_found(&kind, &name.value, known).at(name.span));
    };
    Ok(Wanted::Field { number: at as i16, count: fields.len(), ty: fields[at].1.clone() })
}
