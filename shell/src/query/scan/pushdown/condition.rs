//! What one condition says of one key column.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};
use tidegate_engine::batch::{arrow_type, value_at};
use tidegate_engine::schema::{Column, ColumnId, DataType, TableSchema, Value};

use crate::query::types::collection::EQUAL_WITHIN;
use crate::query::types::identifier::{Kind, ordered_by, value_of_order};

/// One condition on one key column.
pub(super) enum Condition {
    /// The column is one of these.
    OneOf(Vec<Value>),
    /// The column is on one side of a value.
    Bound(Operator, Value),
    /// The text of the column begins so.
    Begins {
        prefix: String,
        /// Whether that is the whole condition.
        is_all: bool,
    },
}

/// A condition on one key column that keys or ranges can say; values are as they were named.
pub(super) fn condition(schema: &TableSchema, expr: &Expr) -> Option<(ColumnId, Condition)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            // What never holds adds no row: DataFusion makes such of the null in a list.
            if never_holds(left) {
                return condition(schema, right);
            }
            if never_holds(right) {
                return condition(schema, left);
            }
            let (left_column, left) = condition(schema, left)?;
            let (right_column, right) = condition(schema, right)?;
            match (left, right) {
                (Condition::OneOf(mut values), Condition::OneOf(more))
                    if left_column == right_column =>
                {
                    values.extend(more);
                    Some((left_column, Condition::OneOf(values)))
                }
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (key, constant, op) = match (key_column(schema, left), key_column(schema, right)) {
                (Some(key), None) => (key, key.constant(right)?, *op),
                (None, Some(key)) => (key, key.constant(left)?, op.swap()?),
                _ => return None,
            };
            compared(key, op, constant).map(|condition| (key.id, condition))
        }
        Expr::ScalarFunction(call) if call.func.name() == EQUAL_WITHIN => {
            let [left, right] = &call.args[..] else { return None };
            let (key, constant) = match (key_column(schema, left), key_column(schema, right)) {
                (Some(key), None) => (key, key.constant(right)?),
                (None, Some(key)) => (key, key.constant(left)?),
                _ => return None,
            };
            let Constant::Value(value) = constant else { return None };
            Some((key.id, Condition::OneOf(vec![value])))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let key = key_column(schema, expr)?;
            let mut values = Vec::with_capacity(list.len());
            for item in list {
                // What no value of the column equals adds no row.
                if let Constant::Value(value) = key.constant(item)? {
                    values.push(value);
                }
            }
            Some((key.id, Condition::OneOf(values)))
        }
        Expr::Like(like) => begins(schema, like),
        // A boolean column is its own condition.
        Expr::Column(_) => boolean(schema, expr, true),
        Expr::Not(inner) => boolean(schema, inner, false),
        _ => None,
    }
}

fn never_holds(expr: &Expr) -> bool {
    let Expr::Literal(scalar, _) = expr else { return false };
    scalar.is_null() || *scalar == ScalarValue::Boolean(Some(false))
}

/// What comparing a key column with a constant says of the column; `None` where it is no condition
/// that keys or ranges can say, or always holds.
fn compared(key: KeyColumn<'_>, op: Operator, constant: Constant) -> Option<Condition> {
    let never = Some(Condition::OneOf(Vec::new()));
    match (op, constant) {
        (Operator::Eq, Constant::Value(value)) => Some(Condition::OneOf(vec![value])),
        (Operator::Eq, _) => never,
        (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq, Constant::Null) => never,
        (Operator::Lt | Operator::LtEq, Constant::Below) => never,
        (Operator::Gt | Operator::GtEq, Constant::Above) => never,
        (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq, Constant::Value(value))
            if key.ordered.is_some() || is_ordered_alike(&key.column.ty) =>
        {
            let is_outside = matches!(op, Operator::LtEq | Operator::Gt);
            Some(Condition::Bound(op, zero_at_end(value, is_outside)))
        }
        _ => None,
    }
}

/// What a pattern says of the beginning of a text column.
fn begins(schema: &TableSchema, like: &Like) -> Option<(ColumnId, Condition)> {
    let Like { negated: false, expr, pattern, escape_char: None, case_insensitive: false } = like
    else {
        return None;
    };
    let key = key_column(schema, expr)?;
    let Expr::Literal(pattern, _) = &**pattern else { return None };
    let pattern = pattern.try_as_str().flatten()?;
    if key.column.ty != DataType::Text || key.is_widened || pattern.contains('\\') {
        return None;
    }
    let at = pattern.find(['%', '_']).filter(|at| *at > 0)?;
    let is_all = &pattern[at..] == "%";
    Some((key.id, Condition::Begins { prefix: pattern[..at].to_owned(), is_all }))
}

/// The least text that is greater than all that begin with `prefix`; `None` where there is none.
pub(super) fn after_all_with(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        // Between the two halves of the range of characters stand code points that are none.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn boolean(schema: &TableSchema, expr: &Expr, value: bool) -> Option<(ColumnId, Condition)> {
    let KeyColumn { id, column, .. } = key_column(schema, expr)?;
    (column.ty == DataType::Boolean).then(|| (id, Condition::OneOf(vec![Value::Boolean(value)])))
}

/// Whether SQL compares values of the type as the engine orders them. UUIDs and addresses are text
/// in SQL, and what holds other values has an order of its own there, or none. The former are
/// ordered alike by `uuid_order(…)` and its like.
pub fn is_ordered_alike(ty: &DataType) -> bool {
    !matches!(ty, DataType::Uuid | DataType::TimeUuid | DataType::Inet) && is_single(ty)
}

/// Whether SQL and the engine have the same values of the type equal, and in the same order,
/// without a rule of ours in between.
pub fn is_plain(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Boolean
            | DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Text
            | DataType::Blob
            | DataType::Date
            | DataType::Timestamp
    )
}

/// Whether values hold no others.
pub fn is_single(ty: &DataType) -> bool {
    !matches!(
        ty.unfrozen(),
        DataType::List(_)
            | DataType::Set(_)
            | DataType::Map(..)
            | DataType::Tuple(_)
            | DataType::User(_)
    )
}

/// Whether SQL takes two values for equal exactly when the engine has them as one key. Constants
/// beside sets and maps are in the order that a column gives. Fields of rows may be null.
fn is_equal_alike(ty: &DataType) -> bool {
    match ty.unfrozen() {
        DataType::List(element) | DataType::Set(element) => is_single(element),
        DataType::Map(key, value) => is_single(key) && is_single(value),
        other => is_single(other),
    }
}

/// Of the zeros, which the engine orders, the greater or the less.
fn zero_at_end(value: Value, is_greater: bool) -> Value {
    match value {
        Value::Float(0.0) => Value::Float(if is_greater { 0.0 } else { -0.0 }),
        Value::Double(0.0) => Value::Double(if is_greater { 0.0 } else { -0.0 }),
        other => other,
    }
}

/// A constant as it stands to the values of a column.
enum Constant {
    Value(Value),
    /// Less than every value that the column can have.
    Below,
    /// Greater than every value that the column can have.
    Above,
    /// No comparison with it holds.
    Null,
}

/// A key column, and how it is compared.
#[derive(Clone, Copy)]
struct KeyColumn<'a> {
    id: ColumnId,
    column: &'a Column,
    /// What it names, where it is compared by the order of that.
    ordered: Option<Kind>,
    /// Whether its integers are compared as wider ones.
    is_widened: bool,
}

impl KeyColumn<'_> {
    /// The constant beside the column; `None` unless it is one and has just the column's type.
    fn constant(&self, expr: &Expr) -> Option<Constant> {
        let Expr::Literal(scalar, _) = expr else { return None };
        if scalar.is_null() {
            return Some(Constant::Null);
        }
        if self.is_widened {
            return narrowed(&self.column.ty, scalar);
        }
        let value = match self.ordered {
            None => literal(self.column, expr),
            Some(kind) => value_of_order(kind, scalar.try_as_str().flatten()?),
        };
        value.map(Constant::Value)
    }
}

/// An integer of a wider type beside a column of a narrower one.
fn narrowed(ty: &DataType, wide: &ScalarValue) -> Option<Constant> {
    let wide = match wide {
        ScalarValue::Int16(Some(wide)) => i64::from(*wide),
        ScalarValue::Int32(Some(wide)) => i64::from(*wide),
        ScalarValue::Int64(Some(wide)) => *wide,
        _ => return None,
    };
    let value = match ty {
        DataType::TinyInt => i8::try_from(wide).ok().map(Value::TinyInt),
        DataType::SmallInt => i16::try_from(wide).ok().map(Value::SmallInt),
        DataType::Int => i32::try_from(wide).ok().map(Value::Int),
        _ => return None,
    };
    Some(match value {
        Some(value) => Constant::Value(value),
        None if wide < 0 => Constant::Below,
        None => Constant::Above,
    })
}

/// The key column that an expression is. A float, an integer, or a list of integers, which SQL
/// widens to compare it, is still itself; so is a UUID in the form that is compared by its order.
fn key_column<'a>(schema: &'a TableSchema, expr: &Expr) -> Option<KeyColumn<'a>> {
    let (expr, widened, ordered) = match expr {
        Expr::Cast(cast) => (&*cast.expr, Some(cast.field.data_type()), None),
        Expr::ScalarFunction(call) => {
            (call.args.first()?, None, Some(ordered_by(call.func.name())?))
        }
        other => (other, None, None),
    };
    let Expr::Column(column) = expr else { return None };
    let (id, column) = schema.find(&column.name).filter(|(_, column)| column.is_key())?;
    let is_widened = widened.is_some_and(|ty| is_wider_integer(ty, &arrow_type(&column.ty)));
    let is_same = match widened {
        None => ordered.is_none_or(|kind| column.ty == kind.data_type()),
        Some(ty) => {
            is_widened
                || (column.ty == DataType::Float && *ty == arrow_type(&DataType::Double))
                || is_wider_list(ty, &arrow_type(&column.ty))
        }
    };
    is_same.then_some(KeyColumn { id, column, ordered, is_widened })
}

/// Whether both are integers with a sign, `wide` with more bits.
pub fn is_wider_integer(wide: &ArrowType, own: &ArrowType) -> bool {
    let is_signed = own.is_signed_integer() && wide.is_signed_integer();
    is_signed && wide.primitive_width() > own.primitive_width()
}

/// Whether both are lists of integers, `wide` of wider ones: their values compare as numbers.
pub(super) fn is_wider_list(wide: &ArrowType, own: &ArrowType) -> bool {
    let (ArrowType::List(wide), ArrowType::List(own)) = (wide, own) else { return false };
    let is_signed = own.data_type().is_signed_integer() && wide.data_type().is_signed_integer();
    is_signed && wide.data_type().primitive_width() >= own.data_type().primitive_width()
}

/// The literal as a value of the column, if it has just the column's type in SQL and is not null.
pub(super) fn literal(column: &Column, expr: &Expr) -> Option<Value> {
    let scalar = scalar(column, expr)?;
    let (own, wanted) = (scalar.data_type(), arrow_type(&column.ty));
    if (own != wanted && !is_wider_list(&own, &wanted)) || !is_equal_alike(&column.ty) {
        return None;
    }
    value_at(&scalar.to_array().ok()?, 0, &column.ty).ok()?
}

/// A literal in the Arrow type that columns of its type in SQL have.
pub(super) fn scalar(column: &Column, expr: &Expr) -> Option<ScalarValue> {
    let Expr::Literal(scalar, _) = expr else { return None };
    Some(match scalar {
        ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            ScalarValue::Utf8(text.clone())
        }
        ScalarValue::BinaryView(bytes) | ScalarValue::LargeBinary(bytes) => {
            ScalarValue::Binary(bytes.clone())
        }
        // Only what a float holds exactly compares alike in both widths.
        ScalarValue::Float64(Some(wide))
            if column.ty == DataType::Float && f64::from(*wide as f32) == *wide =>
        {
            ScalarValue::Float32(Some(*wide as f32))
        }
        other => other.clone(),
    })
}
