//! Types as Cassandra names them in `Statistics.db`, all of them, as a tree.
//!
//! The engine's own types (`schema`) are those that a table may have here; these are those that a file
//! may hold. A class that is not known is kept by its name: its values are bytes without an order.

use std::fmt;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";
/// Most levels of types within types.
const DEPTH_MAX: usize = 32;

/// A type of a stored column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Empty,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarInt,
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
        match Class::parse_all(name) {
            Some(class) if class.name == "CompositeType" => {
                class.parameters.iter().map(|parameter| parameter.stored_type(0).ty).collect()
            }
            _ => vec![StoredType::parse(name)],
        }
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
            StoredType::Empty => Some(0),
            StoredType::Boolean => Some(1),
            StoredType::Int | StoredType::Float => Some(4),
            StoredType::BigInt | StoredType::Double | StoredType::Timestamp => Some(8),
            StoredType::Uuid | StoredType::TimeUuid => Some(16),
            StoredType::Vector(element, count) => element.fixed_bytes()?.checked_mul(*count),
            StoredType::Frozen(inner) => inner.fixed_bytes(),
            _ => None,
        }
    }

    /// Type of the paths of a multi-cell column's cells, as they are printed.
    pub(super) fn path_type(&self) -> StoredType {
        match self {
            StoredType::List(_) => StoredType::TimeUuid,
            StoredType::Set(element) => (**element).clone(),
            StoredType::Map(key, _) => (**key).clone(),
            _ => StoredType::SmallInt,
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

    /// As it stands inside another type: what is there is always frozen.
    fn fmt_inner(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_multi_cell() { write!(f, "frozen<{self}>") } else { write!(f, "{self}") }
    }
}

/// The name in CQL.
impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |ty: &'_ StoredType| Inner(ty.clone());
        match self {
            StoredType::Ascii => f.write_str("ascii"),
            StoredType::BigInt => f.write_str("bigint"),
            StoredType::Blob => f.write_str("blob"),
            StoredType::Boolean => f.write_str("boolean"),
            StoredType::Counter => f.write_str("counter"),
            StoredType::Date => f.write_str("date"),
            StoredType::Decimal => f.write_str("decimal"),
            StoredType::Double => f.write_str("double"),
            StoredType::Duration => f.write_str("duration"),
            StoredType::Empty => f.write_str("empty"),
            StoredType::Float => f.write_str("float"),
            StoredType::Inet => f.write_str("inet"),
            StoredType::Int => f.write_str("int"),
            StoredType::SmallInt => f.write_str("smallint"),
            StoredType::Text => f.write_str("text"),
            StoredType::Time => f.write_str("time"),
            StoredType::Timestamp => f.write_str("timestamp"),
            StoredType::TimeUuid => f.write_str("timeuuid"),
            StoredType::TinyInt => f.write_str("tinyint"),
            StoredType::Uuid => f.write_str("uuid"),
            StoredType::VarInt => f.write_str("varint"),
            StoredType::List(element) => write!(f, "list<{}>", inner(element)),
            StoredType::Set(element) => write!(f, "set<{}>", inner(element)),
            StoredType::Map(key, value) => write!(f, "map<{}, {}>", inner(key), inner(value)),
            StoredType::Tuple(fields) => {
                f.write_str("tuple<")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, inner(field))?;
                }
                f.write_str(">")
            }
            StoredType::User(user) => f.write_str(&super::schema::identifier(&user.name)),
            StoredType::Vector(element, count) => write!(f, "vector<{}, {count}>", inner(element)),
            StoredType::Frozen(ty) if ty.is_multi_cell() => write!(f, "frozen<{ty}>"),
            StoredType::Frozen(ty) => write!(f, "{ty}"),
            StoredType::Other(class) => write!(f, "'{class}'"),
        }
    }
}

/// A type inside another.
struct Inner(StoredType);

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_inner(f)
    }
}

impl KeyType {
    pub fn parse(name: &str) -> KeyType {
        let other = || KeyType { ty: StoredType::Other(name.to_owned()), is_descending: false };
        Class::parse_all(name).map_or_else(other, |class| class.stored_type(0))
    }
}

/// The name of a class with its parameters; `alias` is what stands before a colon.
#[derive(Debug)]
struct Class<'a> {
    alias: Option<&'a str>,
    name: &'a str,
    parameters: Vec<Class<'a>>,
    /// As it was written.
    text: &'a str,
}

impl<'a> Class<'a> {
    fn parse_all(text: &'a str) -> Option<Class<'a>> {
        let mut rest = text.trim();
        let class = Class::parse(&mut rest, 0)?;
        rest.trim().is_empty().then_some(class)
    }

    fn parse(text: &mut &'a str, depth: usize) -> Option<Class<'a>> {
        let whole = *text;
        let end = text.find(['(', ')', ',', ' ']).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let (alias, name) = match name.split_once(':') {
            Some((alias, name)) => (Some(alias), name),
            None => (None, name),
        };
        if name.is_empty() || depth > DEPTH_MAX {
            return None;
        }
        let mut parameters = Vec::new();
        if let Some(inner) = rest.strip_prefix('(') {
            rest = inner;
            loop {
                rest = rest.trim_start_matches([',', ' ']);
                if let Some(after) = rest.strip_prefix(')') {
                    rest = after;
                    break;
                }
                parameters.push(Class::parse(&mut rest, depth + 1)?);
            }
        }
        *text = rest;
        let text = &whole[..whole.len() - rest.len()];
        let name = name.strip_prefix(PACKAGE).unwrap_or(name);
        Some(Class { alias, name, parameters, text })
    }

    fn plain(&self, depth: usize) -> StoredType {
        self.stored_type(depth).ty
    }

    fn stored_type(&self, depth: usize) -> KeyType {
        let ty = match (self.name, self.parameters.as_slice()) {
            ("ReversedType", [inner]) => {
                return KeyType { ty: inner.plain(depth + 1), is_descending: true };
            }
            ("AsciiType", []) => StoredType::Ascii,
            ("LongType", []) => StoredType::BigInt,
            ("BytesType", []) => StoredType::Blob,
            ("BooleanType", []) => StoredType::Boolean,
            ("CounterColumnType", []) => StoredType::Counter,
            ("SimpleDateType", []) => StoredType::Date,
            ("DecimalType", []) => StoredType::Decimal,
            ("DoubleType", []) => StoredType::Double,
            ("DurationType", []) => StoredType::Duration,
            ("EmptyType", []) => StoredType::Empty,
            ("FloatType", []) => StoredType::Float,
            ("InetAddressType", []) => StoredType::Inet,
            ("Int32Type", []) => StoredType::Int,
            ("ShortType", []) => StoredType::SmallInt,
            ("UTF8Type", []) => StoredType::Text,
            ("TimeType", []) => StoredType::Time,
            ("TimestampType" | "DateType", []) => StoredType::Timestamp,
            ("TimeUUIDType", []) => StoredType::TimeUuid,
            ("ByteType", []) => StoredType::TinyInt,
            ("UUIDType", []) => StoredType::Uuid,
            ("IntegerType", []) => StoredType::VarInt,
            ("ListType", [element]) => StoredType::List(Box::new(element.plain(depth + 1))),
            ("SetType", [element]) => StoredType::Set(Box::new(element.plain(depth + 1))),
            ("MapType", [key, value]) => {
                StoredType::Map(Box::new(key.plain(depth + 1)), Box::new(value.plain(depth + 1)))
            }
            ("TupleType", fields) => {
                StoredType::Tuple(fields.iter().map(|field| field.plain(depth + 1)).collect())
            }
            ("FrozenType", [inner]) => StoredType::Frozen(Box::new(inner.plain(depth + 1))),
            ("UserType", [keyspace, name, fields @ ..]) => self
                .user_type(keyspace, name, fields, depth)
                .map_or_else(|| StoredType::Other(self.text.to_owned()), StoredType::User),
            ("VectorType", [element, count]) => match count.name.parse() {
                Ok(count) => StoredType::Vector(Box::new(element.plain(depth + 1)), count),
                Err(_) => StoredType::Other(self.text.to_owned()),
            },
            _ => StoredType::Other(self.text.to_owned()),
        };
        KeyType { ty, is_descending: false }
    }

    fn user_type(
        &self,
        keyspace: &Class<'_>,
        name: &Class<'_>,
        fields: &[Class<'_>],
        depth: usize,
    ) -> Option<UserType> {
        let field = |field: &Class<'_>| Some((unhex(field.alias?)?, field.plain(depth + 1)));
        Some(UserType {
            keyspace: keyspace.name.to_owned(),
            name: unhex(name.name)?,
            fields: fields.iter().map(field).collect::<Option<_>>()?,
        })
    }
}

/// Text from hex digits of its bytes.
fn unhex(digits: &str) -> Option<String> {
    if !digits.is_ascii() || digits.len() % 2 == 1 {
        return None;
    }
    let bytes: Option<Vec<u8>> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
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
        assert_eq!(composite, [StoredType::Int, StoredType::Text]);
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
