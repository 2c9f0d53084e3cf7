//! Types as Cassandra names them in `Statistics.db`, all of them, as a tree.
//!
//! The engine's own types (`schema`) are those that a table may have here; these are those that a
//! file may hold. A class that is not known is kept by its name: its values are bytes without an
//! order.

use std::fmt;

use crate::schema::{Scalar, in_quotes, named};
use crate::sstable::format::class_name::{ClassName, text_of_hex};

/// A type of a stored column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredType {
    Scalar(Scalar),
    List(Box<StoredType>),
    Set(Box<StoredType>),
    Map(Box<StoredType>, Box<StoredType>),
    Tuple(Vec<StoredType>),
    User(UserType),
    Vector(Box<StoredType>, usize),
    Frozen(Box<StoredType>),
    /// A class of which nothing else is known.
    Other(String),
}

/// A type that a user made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserType {
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, StoredType)>,
}

/// The type of a column of a key, and whether its order is turned round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyType {
    pub ty: StoredType,
    pub is_descending: bool,
}

impl StoredType {
    /// From the name of its class with parameters.
    pub fn parse(name: &str) -> StoredType {
        KeyType::parse(name).ty
    }

    /// Columns of the partition key from the name of its type.
    pub fn parse_partition_key(name: &str) -> Vec<StoredType> {
        match ClassName::parse(name) {
            Some(name) if name.class == "CompositeType" => {
                name.parameters.iter().map(StoredType::of).collect()
            }
            _ => vec![StoredType::parse(name)],
        }
    }

    fn of(name: &ClassName<'_>) -> StoredType {
        KeyType::of(name).ty
    }

    fn boxed(name: &ClassName<'_>) -> Box<StoredType> {
        Box::new(StoredType::of(name))
    }

    /// Whether a row may have many cells of such a column, each with a path.
    pub fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            StoredType::List(_) | StoredType::Set(_) | StoredType::Map(..) | StoredType::User(_)
        )
    }

    /// The type itself, frozen or not.
    pub fn thawed(&self) -> &StoredType {
        match self {
            StoredType::Frozen(inner) => inner.thawed(),
            other => other,
        }
    }

    /// Length of every value that is not empty; `None` where a length is written.
    pub fn fixed_bytes(&self) -> Option<usize> {
        match self {
            StoredType::Scalar(scalar) => scalar.fixed_bytes(),
            StoredType::Vector(element, count) => element.fixed_bytes()?.checked_mul(*count),
            StoredType::Frozen(inner) => inner.fixed_bytes(),
            _ => None,
        }
    }

    /// Type of the paths of a multi-cell column's cells, as they are printed.
    pub(super) fn path_type(&self) -> StoredType {
        match self {
            StoredType::List(_) => StoredType::Scalar(Scalar::TimeUuid),
            StoredType::Set(element) => (**element).clone(),
            StoredType::Map(key, _) => (**key).clone(),
            _ => StoredType::Scalar(Scalar::SmallInt),
        }
    }

    /// User types within this one, those that others need first.
    pub(super) fn user_types<'a>(&'a self, out: &mut Vec<&'a UserType>) {
        match self {
            StoredType::List(inner)
            | StoredType::Set(inner)
            | StoredType::Frozen(inner)
            | StoredType::Vector(inner, _) => inner.user_types(out),
            StoredType::Map(key, value) => {
                key.user_types(out);
                value.user_types(out);
            }
            StoredType::Tuple(fields) => fields.iter().for_each(|field| field.user_types(out)),
            StoredType::User(user) => {
                user.fields.iter().for_each(|(_, field)| field.user_types(out));
                if !out.iter().any(|known| known.name == user.name) {
                    out.push(user);
                }
            }
            _ => {}
        }
    }
}

/// The name in CQL.
impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredType::Scalar(scalar) => f.write_str(scalar.cql()),
            StoredType::List(element) => write!(f, "list<{}>", Inner(element)),
            StoredType::Set(element) => write!(f, "set<{}>", Inner(element)),
            StoredType::Map(key, value) => write!(f, "map<{}, {}>", Inner(key), Inner(value)),
            StoredType::Tuple(fields) => {
                f.write_str("tuple<")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, Inner(field))?;
                }
                f.write_str(">")
            }
            StoredType::User(user) => f.write_str(&identifier(&user.name)),
            StoredType::Vector(element, count) => write!(f, "vector<{}, {count}>", Inner(element)),
            StoredType::Frozen(ty) if ty.is_multi_cell() => write!(f, "frozen<{ty}>"),
            StoredType::Frozen(ty) => write!(f, "{ty}"),
            StoredType::Other(class) => write!(f, "'{class}'"),
        }
    }
}

/// A type inside another: what is there is always frozen.
struct Inner<'a>(&'a StoredType);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner(ty) = self;
        if ty.is_multi_cell() { write!(f, "frozen<{ty}>") } else { write!(f, "{ty}") }
    }
}

impl KeyType {
    pub fn parse(name: &str) -> KeyType {
        let other = || KeyType { ty: StoredType::Other(name.to_owned()), is_descending: false };
        ClassName::parse(name).map_or_else(other, |name| KeyType::of(&name))
    }

    fn of(name: &ClassName<'_>) -> KeyType {
        let other = || StoredType::Other(name.text.to_owned());
        let ty = match (name.class, name.parameters.as_slice()) {
            ("ReversedType", [inner]) => {
                return KeyType { ty: StoredType::of(inner), is_descending: true };
            }
            ("DateType", []) => StoredType::Scalar(Scalar::Timestamp),
            ("ListType", [element]) => StoredType::List(StoredType::boxed(element)),
            ("SetType", [element]) => StoredType::Set(StoredType::boxed(element)),
            ("MapType", [key, value]) => {
                StoredType::Map(StoredType::boxed(key), StoredType::boxed(value))
            }
            ("TupleType", fields) => StoredType::Tuple(fields.iter().map(StoredType::of).collect()),
            ("FrozenType", [inner]) => StoredType::Frozen(StoredType::boxed(inner)),
            ("UserType", [keyspace, name, fields @ ..]) => {
                UserType::of(keyspace, name, fields).map_or_else(other, StoredType::User)
            }
            ("VectorType", [element, count]) => match count.class.parse() {
                Ok(count) => StoredType::Vector(StoredType::boxed(element), count),
                Err(_) => other(),
            },
            (class, []) => Scalar::of_class(class).map_or_else(other, StoredType::Scalar),
            _ => other(),
        };
        KeyType { ty, is_descending: false }
    }
}

impl UserType {
    fn of(
        keyspace: &ClassName<'_>,
        name: &ClassName<'_>,
        fields: &[ClassName<'_>],
    ) -> Option<Self> {
        let field =
            |field: &ClassName<'_>| Some((text_of_hex(field.label?)?, StoredType::of(field)));
        Some(UserType {
            keyspace: keyspace.class.to_owned(),
            name: text_of_hex(name.class)?,
            fields: fields.iter().map(field).collect::<Option<_>>()?,
        })
    }
}

/// A name as CQL takes it, in quotes where it needs them.
pub(super) fn identifier(name: &str) -> String {
    // Our own statements also take a plain name that begins with this.
    if name.starts_with('_') { in_quotes(name) } else { named(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_types_and_types_have_names_in_cql() {
        let user = "org.apache.cassandra.db.marshal.UserType(fx,61646472,\
                    737472656574:org.apache.cassandra.db.marshal.UTF8Type,\
                    74616773:org.apache.cassandra.db.marshal.FrozenType(\
                    org.apache.cassandra.db.marshal.SetType(org.apache.cassandra.db.marshal.UTF8Type)))";
        let cases = [
            ("org.apache.cassandra.db.marshal.Int32Type", "int", false),
            ("MapType(UTF8Type,Int32Type)", "map<text, int>", true),
            ("FrozenType(ListType(SetType(UUIDType)))", "frozen<list<frozen<set<uuid>>>>", false),
            ("TupleType(Int32Type,ListType(UTF8Type))", "tuple<int, frozen<list<text>>>", false),
            ("VectorType(FloatType , 3)", "vector<float, 3>", false),
            (user, "addr", true),
            (&format!("FrozenType({user})"), "frozen<addr>", false),
            ("com.example.Odd(Int32Type)", "'com.example.Odd(Int32Type)'", false),
        ];
        for (name, cql, is_multi_cell) in cases {
            let ty = StoredType::parse(name);
            assert_eq!((ty.to_string().as_str(), ty.is_multi_cell()), (cql, is_multi_cell));
        }
        let key = KeyType::parse("ReversedType(FrozenType(ListType(Int32Type)))");
        assert!(key.is_descending && key.ty.to_string() == "frozen<list<int>>");
        let StoredType::User(addr) = StoredType::parse(user) else { panic!("a user type") };
        assert_eq!((addr.keyspace.as_str(), addr.fields[1].0.as_str()), ("fx", "tags"));
        let composite = StoredType::parse_partition_key("CompositeType(Int32Type,UTF8Type)");
        assert_eq!(composite, [Scalar::Int, Scalar::Text].map(StoredType::Scalar));
    }

    #[test]
    fn odd_names_are_kept() {
        let deep = "ListType(".repeat(1000);
        for name in ["", "(", "ListType(", "UserType(a,zz)", "VectorType(FloatType,x)", &deep] {
            assert_eq!(StoredType::parse(name), StoredType::Other(name.to_owned()), "{name}");
        }
        assert_eq!(
            StoredType::parse("VectorType(FloatType, 18446744073709551615)").fixed_bytes(),
            None
        );
    }
}
