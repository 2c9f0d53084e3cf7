//! Literals of CQL, told by the column that they are for: `{}` is an empty set or an empty map,
//! `{'a': 1}` a map or a value of a user type, and `now()` the time UUID of this moment.

use datafusion::arrow::array::{Array, MapArray, new_empty_array};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast::{
    self, AssignmentTarget, DictionaryField, Expr, Function, FunctionArguments, Ident, ObjectName,
    SetExpr,
};
use tidegate_engine::{DataType, TableSchema};

use crate::query::parse::dialect::text_of;

/// What stands for an empty map.
const EMPTY_MAP: &str = "empty_map";

/// The functions that literals are written as.
pub fn functions() -> Vec<ScalarUDF> {
    let empty_map = EmptyMap { signature: Signature::nullary(Volatility::Immutable) };
    vec![ScalarUDF::from(empty_map)]
}

/// Tells the literals of an INSERT or UPDATE of `table`; `names` are the columns of VALUES, `now`
/// makes a time UUID.
pub fn tell(
    statement: &mut SqlStatement,
    table: &TableSchema,
    names: &[String],
    now: &dyn Fn() -> String,
) {
    let SqlStatement::Statement(inner) = statement else { return };
    let type_of = |name: &str| table.find(name).map(|(_, column)| &column.ty);
    match &mut **inner {
        ast::Statement::Insert(insert) => {
            let Some(source) = &mut insert.source else { return };
            let SetExpr::Values(values) = &mut *source.body else { return };
            for row in &mut values.rows {
                for (value, name) in row.content.iter_mut().zip(names) {
                    type_of(name).into_iter().for_each(|ty| tell_one(value, ty, now));
                }
            }
        }
        ast::Statement::Update(update) => {
            for assignment in &mut update.assignments {
                let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
                let name = name.0.last().and_then(|part| part.as_ident());
                let ty = name.and_then(|name| type_of(&name.value));
                ty.into_iter().for_each(|ty| tell_one(&mut assignment.value, ty, now));
            }
        }
        _ => {}
    }
}

fn tell_one(expr: &mut Expr, ty: &DataType, now: &dyn Fn() -> String) {
    match (&mut *expr, ty.unfrozen()) {
        (Expr::Nested(inner), ty) => tell_one(inner, ty, now),
        (Expr::Array(array), DataType::Map(..)) if array.elem.is_empty() => {
            *expr = call(EMPTY_MAP);
        }
        (Expr::Array(array), DataType::List(element) | DataType::Set(element)) => {
            array.elem.iter_mut().for_each(|item| tell_one(item, element, now));
        }
        (Expr::Map(map), DataType::Map(key, value)) => {
            for entry in &mut map.entries {
                tell_one(&mut entry.key, key, now);
                tell_one(&mut entry.value, value, now);
            }
        }
        (Expr::Map(map), DataType::User(_)) => {
            let fields: Option<Vec<DictionaryField>> = map
                .entries
                .iter()
                .map(|entry| {
                    let key = Ident::with_quote('"', text_of(&entry.key)?);
                    Some(DictionaryField { key, value: entry.value.clone() })
                })
                .collect();
            if let Some(fields) = fields {
                *expr = Expr::Dictionary(fields);
                tell_one(expr, ty, now);
            }
        }
        (Expr::Dictionary(fields), DataType::User(user)) => {
            for field in fields {
                if field.key.quote_style.is_none() {
                    field.key.value = field.key.value.to_lowercase();
                }
                let found = user.fields.iter().find(|(name, _)| *name == field.key.value);
                found.into_iter().for_each(|(_, ty)| tell_one(&mut field.value, ty, now));
            }
        }
        (Expr::Tuple(parts), DataType::Tuple(types)) => {
            parts.iter_mut().zip(types).for_each(|(part, ty)| tell_one(part, ty, now));
        }
        (Expr::Function(function), DataType::TimeUuid) if is_now(function) => {
            *expr = Expr::value(ast::Value::SingleQuotedString(now()));
        }
        _ => {}
    }
}

fn is_now(function: &Function) -> bool {
    let name = match &function.name.0[..] {
        [part] => part.as_ident(),
        _ => None,
    };
    name.is_some_and(|name| name.value.eq_ignore_ascii_case("now"))
}

fn call(name: &str) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: Vec::new(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A map without entries, which any map can be cast from.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EmptyMap {
    signature: Signature,
}

impl ScalarUDFImpl for EmptyMap {
    fn name(&self) -> &str {
        EMPTY_MAP
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> Result<ArrowType> {
        let part = |name: &str, nullable| Field::new(name, ArrowType::Utf8, nullable);
        let entries = vec![part("key", false), part("value", true)];
        let entries = Field::new("entries", ArrowType::Struct(entries.into()), false);
        Ok(ArrowType::Map(entries.into(), false))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ArrowType::Map(field, _) = args.return_type() else {
            return datafusion::common::internal_err!("{EMPTY_MAP} gives a map");
        };
        let entries = new_empty_array(field.data_type());
        let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([0]);
        let none = entries.to_data().into();
        let map = MapArray::try_new(field.clone(), offsets, none, None, false)?;
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&map, 0)?))
    }
}
