//! Names of column types.
//!
//! Names of user types are looked up where the statement runs: only there it is known what there
//! is.

use sqlparser::tokenizer::Token;
use tidegate_engine::schema::types::{DECIMAL_DIGITS_MAX, TYPE_DEPTH_MAX};
use tidegate_engine::schema::{DataType, Scalar, UserType};

use super::ast::{Name, TableName};
use super::cursor::Cursor;
use crate::query::error::{QueryError, Result, nearest};

/// Other names of types without parameters.
const ALIASES: [(&str, Scalar); 6] = [
    ("bool", Scalar::Boolean),
    ("integer", Scalar::Int),
    ("real", Scalar::Float),
    ("numeric", Scalar::Decimal),
    ("varchar", Scalar::Text),
    ("string", Scalar::Text),
];

/// Names of types with parameters.
const CONTAINERS: [&str; 5] = ["list", "set", "map", "tuple", "frozen"];

/// `decimal` without precision and scale.
const DECIMAL: DataType = DataType::Decimal { precision: 38, scale: 10 };

/// The types of columns that have no parameters.
fn scalars() -> impl Iterator<Item = Scalar> {
    Scalar::all().filter(|scalar| DataType::of_scalar(*scalar).is_some())
}

/// The names of a type, that of CQL first.
fn names<'a>(scalar: Scalar) -> impl Iterator<Item = &'a str> {
    let others = ALIASES.into_iter().filter(move |(_, named)| *named == scalar);
    std::iter::once(scalar.cql()).chain(others.map(|(name, _)| name))
}

/// The type of this name that has no parameters.
fn scalar(name: &str) -> Option<DataType> {
    match scalars().find(|scalar| names(*scalar).any(|known| known == name))? {
        Scalar::Decimal => Some(DECIMAL),
        scalar => DataType::of_scalar(scalar),
    }
}

/// A type as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    Plain(DataType),
    User(TableName),
    List(Box<TypeName>),
    Set(Box<TypeName>),
    Map(Box<TypeName>, Box<TypeName>),
    Tuple(Vec<TypeName>),
    Frozen(Box<TypeName>),
}

impl TypeName {
    /// The type, user types found by `find`. What stands inside another type is one value, whether
    /// `frozen` is written or not.
    ///
    /// Errors: those of `find`.
    pub fn resolve(&self, find: &dyn Fn(&TableName) -> Result<UserType>) -> Result<DataType> {
        Ok(match self {
            TypeName::Plain(ty) => ty.clone(),
            TypeName::User(name) => DataType::User(Box::new(find(name)?)),
            TypeName::List(element) => DataType::list_of(element.resolve(find)?),
            TypeName::Set(element) => DataType::set_of(element.resolve(find)?),
            TypeName::Map(key, value) => DataType::map_of(key.resolve(find)?, value.resolve(find)?),
            TypeName::Tuple(fields) => {
                let fields: Result<Vec<DataType>> =
                    fields.iter().map(|ty| ty.resolve(find)).collect();
                DataType::tuple_of(fields?)
            }
            TypeName::Frozen(inner) => inner.resolve(find)?.frozen(),
        })
    }
}

/// Reads a type.
///
/// Errors: `Syntax`; `Invalid` at a type that does not take the arguments given, or is too deep.
pub fn type_name(cursor: &mut Cursor<'_>) -> Result<TypeName> {
    let mut parser = Parser { cursor, is_half: false };
    let ty = parser.type_name(0)?;
    if parser.is_half { Err(cursor.expected("one '>'")) } else { Ok(ty) }
}

struct Parser<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    /// Of the token `>>` at hand the first half is taken.
    is_half: bool,
}

impl Parser<'_, '_> {
    fn type_name(&mut self, depth: usize) -> Result<TypeName> {
        let name = self.cursor.name("a type")?;
        if depth > TYPE_DEPTH_MAX {
            return Err(QueryError::invalid("the type is too deep").at(name.span));
        }
        if self.cursor.peek() == Some(&Token::Lt) && CONTAINERS.contains(&name.value.as_str()) {
            return self.container(&name, depth);
        }
        if self.cursor.peek() == Some(&Token::Period) {
            self.cursor.take(&Token::Period);
            let table = self.cursor.name("the name of a type")?;
            return Ok(TypeName::User(TableName { keyspace: Some(name), table }));
        }
        let Some(ty) = scalar(&name.value) else {
            return match CONTAINERS.contains(&name.value.as_str()) {
                true => Err(self.cursor.expected("'<'")),
                false => Ok(TypeName::User(TableName { keyspace: None, table: name })),
            };
        };
        Ok(TypeName::Plain(plain(self.cursor, &name, &ty)?))
    }

    fn container(&mut self, name: &Name, depth: usize) -> Result<TypeName> {
        self.cursor.expect(&Token::Lt)?;
        let mut inner = vec![self.type_name(depth + 1)?];
        while !self.is_half && self.cursor.take(&Token::Comma) {
            inner.push(self.type_name(depth + 1)?);
        }
        self.close()?;
        let mut parts = inner.into_iter().map(Box::new);
        Ok(match (name.value.as_str(), parts.next(), parts.next(), parts.next()) {
            ("list", Some(element), None, _) => TypeName::List(element),
            ("set", Some(element), None, _) => TypeName::Set(element),
            ("frozen", Some(inner), None, _) => TypeName::Frozen(inner),
            ("map", Some(key), Some(value), None) => TypeName::Map(key, value),
            ("tuple", first, second, third) => {
                let front = [first, second, third].into_iter().flatten();
                TypeName::Tuple(front.chain(parts).map(|ty| *ty).collect())
            }
            _ => {
                let message = format!("type {} does not take these arguments", name.value);
                return Err(QueryError::invalid(message).at(name.span));
            }
        })
    }

    /// Takes a `>`, which may be half of a token.
    fn close(&mut self) -> Result<()> {
        if self.is_half {
            self.is_half = false;
            return self.cursor.expect(&Token::ShiftRight);
        }
        if self.cursor.peek() == Some(&Token::ShiftRight) {
            self.is_half = true;
            return Ok(());
        }
        self.cursor.expect(&Token::Gt)
    }
}

/// A type without inner types, and its arguments.
fn plain(cursor: &mut Cursor<'_>, name: &Name, ty: &DataType) -> Result<DataType> {
    if *ty == DataType::Double {
        cursor.take_word("precision");
    }
    if cursor.peek() != Some(&Token::LParen) {
        return Ok(ty.clone());
    }
    let span = cursor.span();
    let arguments = cursor.parenthesised(|cursor| cursor.number("a number"))?;
    match (ty, arguments.as_slice()) {
        (DataType::Decimal { .. }, [precision]) => decimal(*precision, 0),
        (DataType::Decimal { .. }, [precision, scale]) => decimal(*precision, *scale),
        // varchar(n): the length is not enforced, as in Cassandra there is none.
        (DataType::Text, [_]) => Some(DataType::Text),
        _ => None,
    }
    .ok_or_else(|| {
        QueryError::invalid(format!("type {} does not take these arguments", name.value)).at(span)
    })
}

fn decimal(precision: i64, scale: i64) -> Option<DataType> {
    let digits = i64::from(DECIMAL_DIGITS_MAX);
    if !(1..=digits).contains(&precision) || !(0..=precision).contains(&scale) {
        return None;
    }
    let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    Some(DataType::Decimal { precision, scale })
}

/// No type has this name.
pub fn unknown<'a>(name: &Name, known: impl IntoIterator<Item = &'a str>) -> QueryError {
    let error = QueryError::invalid(format!("'{}' is no type", name.value)).at(name.span);
    let all = scalars().flat_map(names).chain(CONTAINERS);
    match nearest(&name.value, all.chain(known)) {
        Some(near) => error.with_help(format!("did you mean '{near}'?")),
        None => error.with_help(
            "types are boolean, tinyint, smallint, int, bigint, varint, float, double, \
             decimal(p, s), text, blob, date, time, timestamp, duration, uuid, timeuuid, inet, \
             list<t>, set<t>, map<k, v>, tuple<t, …>, frozen<t>, counter, and those of CREATE TYPE",
        ),
    }
}
