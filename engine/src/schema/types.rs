//! Column types and the length rules of their serialised form (Cassandra's).
//!
//! Normal form: `Frozen` stands only outermost, and only around a type that would have a cell per
//! element without it. What is inside another type is always one value, so it is not wrapped. The
//! constructors below keep to it; `TableSchema::validate` refuses what does not.

use serde::{Deserialize, Serialize};

use super::scalar::Scalar;
use crate::error::{Error, Result};

/// Most levels of types within types.
pub const TYPE_DEPTH_MAX: usize = 16;
/// Most digits of a decimal that SQL shows.
pub const DECIMAL_DIGITS_MAX: u8 = 76;

/// A CQL type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// Arbitrary precision on disk; `precision` and `scale` bound what SQL takes and shows.
    Decimal {
        precision: u8,
        scale: i8,
    },
    /// An integer of any length.
    Varint,
    Text,
    Blob,
    /// Days; stored as u32 with 2^31 = 1970-01-01.
    Date,
    /// Nanoseconds since midnight.
    Time,
    /// Milliseconds since the Unix epoch, UTC.
    Timestamp,
    /// Months, days and nanoseconds, each by itself.
    Duration,
    Uuid,
    TimeUuid,
    Inet,
    /// A sum of what nodes counted; read, never written by a statement.
    Counter,
    List(Box<DataType>),
    Set(Box<DataType>),
    /// Type of the keys and of the values.
    Map(Box<DataType>, Box<DataType>),
    /// Always one value.
    Tuple(Vec<DataType>),
    User(Box<UserType>),
    /// A collection or user type that is one cell: written whole, and possible in a key.
    Frozen(Box<DataType>),
}

/// A type with named fields, made by `CREATE TYPE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserType {
    pub keyspace: String,
    pub name: String,
    /// In the order of their definition, which is that of their values.
    pub fields: Vec<(String, DataType)>,
}

impl UserType {
    /// A user type of these fields, whose types lose their outer `Frozen`.
    pub fn new(
        keyspace: impl Into<String>,
        name: impl Into<String>,
        fields: impl IntoIterator<Item = (String, DataType)>,
    ) -> Self {
        UserType {
            keyspace: keyspace.into(),
            name: name.into(),
            fields: fields.into_iter().map(|(name, ty)| (name, ty.thawed())).collect(),
        }
    }
}

impl DataType {
    /// A decimal as wide as SQL can show one: Cassandra's `decimal` of unknown digits.
    pub const DECIMAL_WIDE: DataType =
        DataType::Decimal { precision: DECIMAL_DIGITS_MAX, scale: 38 };

    /// A list with a cell an element.
    pub fn list_of(element: DataType) -> Self {
        DataType::List(Box::new(element.thawed()))
    }

    /// A set with a cell an element.
    pub fn set_of(element: DataType) -> Self {
        DataType::Set(Box::new(element.thawed()))
    }

    /// A map with a cell an entry.
    pub fn map_of(key: DataType, value: DataType) -> Self {
        DataType::Map(Box::new(key.thawed()), Box::new(value.thawed()))
    }

    pub fn tuple_of(fields: impl IntoIterator<Item = DataType>) -> Self {
        DataType::Tuple(fields.into_iter().map(DataType::thawed).collect())
    }

    /// This type as one cell; itself where it is one anyway.
    pub fn frozen(self) -> Self {
        if self.is_multi_cell() { DataType::Frozen(Box::new(self)) } else { self }
    }

    fn thawed(self) -> Self {
        match self {
            DataType::Frozen(inner) => *inner,
            other => other,
        }
    }

    /// What is frozen; itself where nothing is.
    pub fn unfrozen(&self) -> &DataType {
        match self {
            DataType::Frozen(inner) => inner,
            other => other,
        }
    }

    /// Whether a column of this type has a cell for each element.
    pub fn is_multi_cell(&self) -> bool {
        matches!(self, DataType::List(_) | DataType::Set(_) | DataType::Map(..) | DataType::User(_))
    }

    /// Type of the paths of a multi-cell column's cells: time UUIDs in a list, elements of a set,
    /// keys of a map, numbers of fields of a user type.
    pub fn path_type(&self) -> Option<DataType> {
        match self {
            DataType::List(_) => Some(DataType::TimeUuid),
            DataType::Set(element) => Some((**element).clone()),
            DataType::Map(key, _) => Some((**key).clone()),
            DataType::User(_) => Some(DataType::SmallInt),
            _ => None,
        }
    }

    /// Types directly inside this one.
    fn parts(&self) -> Vec<&DataType> {
        match self {
            DataType::List(inner) | DataType::Set(inner) | DataType::Frozen(inner) => vec![inner],
            DataType::Map(key, value) => vec![key, value],
            DataType::Tuple(fields) => fields.iter().collect(),
            DataType::User(user) => user.fields.iter().map(|(_, ty)| ty).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether this is or holds the user type of that name.
    pub fn uses(&self, keyspace: &str, name: &str) -> bool {
        let is_it =
            matches!(self, DataType::User(user) if user.keyspace == keyspace && user.name == name);
        is_it || self.parts().into_iter().any(|part| part.uses(keyspace, name))
    }

    /// Whether one value may have several stored forms, of which an INSERT writes one: decimals of
    /// any scale, NaN of any bits, addresses of IPv4 within IPv6.
    pub fn has_several_forms(&self) -> bool {
        let own = matches!(
            self,
            DataType::Decimal { .. } | DataType::Float | DataType::Double | DataType::Inet
        );
        own || self.parts().into_iter().any(DataType::has_several_forms)
    }

    /// Whether values have an order: durations and counters have none, nor has what holds them.
    pub fn has_order(&self) -> bool {
        !matches!(self, DataType::Duration | DataType::Counter)
            && self.parts().into_iter().all(DataType::has_order)
    }

    /// Whether this may be the type of a key column.
    pub fn is_key_type(&self) -> bool {
        !self.is_multi_cell() && self.has_order()
    }

    /// Checks the normal form, digits and what keys of maps and elements of sets may be.
    ///
    /// Errors: `Invalid` naming the rule that is broken.
    pub fn validate(&self) -> Result<()> {
        self.check(0)
    }

    fn check(&self, depth: usize) -> Result<()> {
        let refuse = |why: &str| Err(Error::invalid(format!("type {}: {why}", self.sql_name())));
        if depth > TYPE_DEPTH_MAX {
            return Err(Error::invalid(format!("a type has over {TYPE_DEPTH_MAX} levels")));
        }
        match self {
            DataType::Decimal { precision, .. }
                if !(1..=DECIMAL_DIGITS_MAX).contains(precision) =>
            {
                return refuse("a decimal has 1 to 76 digits");
            }
            DataType::Counter if depth > 0 => return refuse("a counter stands by itself"),
            DataType::Frozen(inner) if depth > 0 || !inner.is_multi_cell() => {
                return refuse("only a column's collection or user type is frozen");
            }
            DataType::Set(ordered) | DataType::Map(ordered, _) if !ordered.has_order() => {
                return refuse("elements of sets and keys of maps need an order");
            }
            DataType::Tuple(fields) if fields.is_empty() => return refuse("it has no fields"),
            DataType::User(user) => {
                if user.fields.is_empty() {
                    return refuse("it has no fields");
                }
                if user.fields.len() > i16::MAX as usize {
                    return refuse("it has over 32,767 fields");
                }
                for (i, (name, _)) in user.fields.iter().enumerate() {
                    if name.is_empty() || user.fields[..i].iter().any(|(other, _)| other == name) {
                        return refuse(&format!("field '{name}' is there twice or has no name"));
                    }
                }
            }
            _ => {}
        }
        // What is frozen is still the column's own type.
        let inner = if matches!(self, DataType::Frozen(_)) { depth } else { depth + 1 };
        self.parts().into_iter().try_for_each(|part| part.check(inner))
    }

    /// Length of every non-empty value as stored, or `None` where it varies or the format
    /// writes a length all the same (tinyint, smallint, date, time).
    pub fn fixed_bytes(&self) -> Option<usize> {
        match self {
            DataType::Boolean => Some(1),
            DataType::Int | DataType::Float => Some(4),
            DataType::BigInt | DataType::Double | DataType::Timestamp => Some(8),
            DataType::Uuid | DataType::TimeUuid => Some(16),
            _ => None,
        }
    }

    /// The type of columns that hold values of this one without parameters; a decimal is as wide as
    /// SQL shows one. Of the empty type there is no column.
    pub fn of_scalar(scalar: Scalar) -> Option<DataType> {
        Some(match scalar {
            Scalar::Boolean => DataType::Boolean,
            Scalar::TinyInt => DataType::TinyInt,
            Scalar::SmallInt => DataType::SmallInt,
            Scalar::Int => DataType::Int,
            Scalar::BigInt => DataType::BigInt,
            Scalar::Float => DataType::Float,
            Scalar::Double => DataType::Double,
            Scalar::Decimal => DataType::DECIMAL_WIDE,
            Scalar::VarInt => DataType::Varint,
            // ASCII is a subset of UTF-8 with the same order.
            Scalar::Text | Scalar::Ascii => DataType::Text,
            Scalar::Blob => DataType::Blob,
            Scalar::Date => DataType::Date,
            Scalar::Time => DataType::Time,
            Scalar::Timestamp => DataType::Timestamp,
            Scalar::Duration => DataType::Duration,
            Scalar::Uuid => DataType::Uuid,
            Scalar::TimeUuid => DataType::TimeUuid,
            Scalar::Inet => DataType::Inet,
            Scalar::Counter => DataType::Counter,
            Scalar::Empty => return None,
        })
    }

    /// The same among the types without parameters; `None` where it has some.
    pub fn scalar(&self) -> Option<Scalar> {
        Some(match self {
            DataType::Boolean => Scalar::Boolean,
            DataType::TinyInt => Scalar::TinyInt,
            DataType::SmallInt => Scalar::SmallInt,
            DataType::Int => Scalar::Int,
            DataType::BigInt => Scalar::BigInt,
            DataType::Float => Scalar::Float,
            DataType::Double => Scalar::Double,
            DataType::Decimal { .. } => Scalar::Decimal,
            DataType::Varint => Scalar::VarInt,
            DataType::Text => Scalar::Text,
            DataType::Blob => Scalar::Blob,
            DataType::Date => Scalar::Date,
            DataType::Time => Scalar::Time,
            DataType::Timestamp => Scalar::Timestamp,
            DataType::Duration => Scalar::Duration,
            DataType::Uuid => Scalar::Uuid,
            DataType::TimeUuid => Scalar::TimeUuid,
            DataType::Inet => Scalar::Inet,
            DataType::Counter => Scalar::Counter,
            DataType::List(_)
            | DataType::Set(_)
            | DataType::Map(..)
            | DataType::Tuple(_)
            | DataType::User(_)
            | DataType::Frozen(_) => return None,
        })
    }

    /// The type's name in SQL, lower case.
    pub fn sql_name(&self) -> String {
        match self {
            DataType::Frozen(inner) => format!("frozen<{}>", inner.bare_name(false)),
            other => other.bare_name(true),
        }
    }

    /// The name without an outer `frozen`; types inside a multi-cell one are shown frozen.
    fn bare_name(&self, shows_frozen: bool) -> String {
        let inner = |ty: &DataType| match ty {
            ty if shows_frozen && ty.is_multi_cell() => format!("frozen<{}>", ty.bare_name(false)),
            ty => ty.bare_name(shows_frozen),
        };
        match self {
            DataType::Decimal { precision, scale } => format!("decimal({precision}, {scale})"),
            DataType::List(element) => format!("list<{}>", inner(element)),
            DataType::Set(element) => format!("set<{}>", inner(element)),
            DataType::Map(key, value) => format!("map<{}, {}>", inner(key), inner(value)),
            DataType::Tuple(fields) => {
                // A tuple is frozen, and so is what it holds.
                let fields: Vec<String> = fields.iter().map(|ty| ty.bare_name(false)).collect();
                format!("tuple<{}>", fields.join(", "))
            }
            DataType::User(user) => {
                format!("{}.{}", named(&user.keyspace), named(&user.name))
            }
            DataType::Frozen(inner) => inner.bare_name(shows_frozen),
            plain => plain.scalar().expect("all others have parameters").cql().to_owned(),
        }
    }
}

/// `name` as it must be written: in quotes unless it is plain and in lower case.
pub fn named(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { in_quotes(name) }
}

/// `name` in quotes.
pub fn in_quotes(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Value;

    fn address() -> DataType {
        let tags = DataType::set_of(DataType::Text).frozen();
        let fields = [("zip".to_owned(), DataType::Int), ("tags".to_owned(), tags)];
        DataType::User(Box::new(UserType::new("fx", "addr", fields)))
    }

    #[test]
    fn names_that_would_be_read_otherwise_stand_in_quotes() {
        for (name, wanted) in [
            ("origin", "origin"),
            ("_a1", "_a1"),
            ("Origin", "\"Origin\""),
            ("1a", "\"1a\""),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\"\"b\""),
            ("größe", "\"größe\""),
            ("", "\"\""),
        ] {
            assert_eq!(named(name), wanted);
        }
    }

    #[test]
    fn constructors_give_the_normal_form_and_names_say_it() {
        let cases = [
            (DataType::list_of(DataType::Int), "list<int>", true),
            (DataType::list_of(DataType::Int).frozen(), "frozen<list<int>>", false),
            (DataType::list_of(address().frozen()), "list<frozen<fx.addr>>", true),
            (address(), "fx.addr", true),
            (address().frozen().frozen(), "frozen<fx.addr>", false),
            (
                DataType::User(Box::new(UserType::new(
                    "Fx",
                    "a\"b",
                    [("n".to_owned(), DataType::Int)],
                ))),
                "\"Fx\".\"a\"\"b\"",
                true,
            ),
            (
                DataType::map_of(
                    DataType::list_of(DataType::Int).frozen(),
                    DataType::tuple_of([DataType::set_of(DataType::Int), DataType::Text]),
                ),
                "map<frozen<list<int>>, tuple<set<int>, text>>",
                true,
            ),
            (DataType::tuple_of([DataType::Int]).frozen(), "tuple<int>", false),
            (
                DataType::list_of(DataType::list_of(DataType::Int)).frozen(),
                "frozen<list<list<int>>>",
                false,
            ),
        ];
        for (ty, name, is_multi_cell) in cases {
            assert_eq!((ty.sql_name().as_str(), ty.is_multi_cell()), (name, is_multi_cell));
            ty.validate().unwrap();
            let json = serde_json::to_string(&ty).unwrap();
            assert_eq!(serde_json::from_str::<DataType>(&json).unwrap(), ty);
        }
        assert_eq!(serde_json::to_string(&DataType::Int).unwrap(), "\"int\"");
    }

    #[test]
    fn types_without_parameters_are_those_of_the_table() {
        for scalar in Scalar::all() {
            let Some(ty) = DataType::of_scalar(scalar) else {
                assert_eq!(scalar, Scalar::Empty);
                continue;
            };
            let same = if scalar == Scalar::Ascii { Scalar::Text } else { scalar };
            assert_eq!(ty.scalar(), Some(same));
            assert_eq!(ty.fixed_bytes(), scalar.fixed_bytes());
        }
    }

    #[test]
    fn types_that_break_a_rule_are_refused() {
        let boxed = |ty: DataType| Box::new(ty);
        let deep = (0..20).fold(DataType::Int, |ty, _| DataType::list_of(ty));
        let wrong = [
            DataType::Frozen(boxed(DataType::Int)),
            DataType::List(boxed(DataType::list_of(DataType::Int).frozen())),
            DataType::set_of(DataType::Duration),
            DataType::map_of(DataType::tuple_of([DataType::Duration]), DataType::Int),
            DataType::list_of(DataType::Counter),
            DataType::tuple_of([]),
            DataType::User(Box::new(UserType::new("k", "u", []))),
            DataType::Decimal { precision: 77, scale: 0 },
            DataType::Decimal { precision: 0, scale: 0 },
            deep,
        ];
        for ty in wrong {
            assert!(ty.validate().is_err(), "{ty:?}");
        }
        for precision in [1, 76] {
            DataType::Decimal { precision, scale: 0 }.validate().unwrap();
        }
        // Being frozen is no level.
        let nested = |levels| (0..levels).fold(DataType::Int, |ty, _| DataType::list_of(ty));
        nested(TYPE_DEPTH_MAX).validate().unwrap();
        nested(TYPE_DEPTH_MAX).frozen().validate().unwrap();
        assert!(nested(TYPE_DEPTH_MAX + 1).validate().is_err());
        assert!(nested(TYPE_DEPTH_MAX + 1).frozen().validate().is_err());
        assert!(!DataType::list_of(DataType::Int).is_key_type());
        assert!(DataType::list_of(DataType::Int).frozen().is_key_type());
        assert!(!DataType::list_of(DataType::Duration).frozen().is_key_type());
    }

    /// A value of each type without parameters, and a decimal.
    fn scalars() -> Vec<(DataType, Value)> {
        vec![
            (DataType::Boolean, Value::Boolean(true)),
            (DataType::TinyInt, Value::TinyInt(1)),
            (DataType::SmallInt, Value::SmallInt(1)),
            (DataType::Int, Value::Int(1)),
            (DataType::BigInt, Value::BigInt(1)),
            (DataType::Float, Value::Float(1.0)),
            (DataType::Double, Value::Double(1.0)),
            (
                DataType::Decimal { precision: 5, scale: 2 },
                Value::Decimal { unscaled: 100, scale: 2 },
            ),
            (DataType::Varint, Value::Varint(vec![1])),
            (DataType::Text, Value::Text("1".into())),
            (DataType::Blob, Value::Blob(vec![1])),
            (DataType::Date, Value::Date(1)),
            (DataType::Time, Value::Time(1)),
            (DataType::Timestamp, Value::Timestamp(1)),
            (DataType::Duration, Value::Duration { months: 1, days: 1, nanoseconds: 1 }),
            (DataType::Uuid, Value::Uuid([1; 16])),
            (DataType::TimeUuid, Value::TimeUuid([1; 16])),
            (DataType::Inet, Value::Inet([1, 1, 1, 1].into())),
            (DataType::Counter, Value::Counter(1)),
        ]
    }

    #[test]
    fn a_value_fits_its_own_type_alone_and_says_its_name() {
        let all = scalars();
        for (at, (own, value)) in all.iter().enumerate() {
            let name = own.sql_name();
            assert_eq!(name.split('(').next(), Some(value.type_name()));
            for (other, (ty, _)) in all.iter().enumerate() {
                let wanted = at == other;
                let case = format!("{name} in {}", ty.sql_name());
                assert_eq!(value.fits(ty), wanted, "{case}");
                let list = Value::List(vec![value.clone()]);
                assert_eq!(list.fits(&DataType::list_of(ty.clone())), wanted, "{case}");
                assert_eq!(list.fits(&DataType::list_of(ty.clone()).frozen()), wanted, "{case}");
                let set = Value::Set(vec![value.clone()]);
                assert_eq!(set.fits(&DataType::set_of(ty.clone())), wanted, "{case}");
                assert!(!list.fits(&DataType::set_of(ty.clone())), "{case}");
                assert!(!set.fits(&DataType::list_of(ty.clone())), "{case}");
                let fields = Value::Tuple(vec![None, Some(value.clone())]);
                let tuple = DataType::tuple_of([DataType::Int, ty.clone()]);
                assert_eq!(fields.fits(&tuple), wanted, "{case}");
                assert!(!Value::Tuple(vec![None]).fits(&tuple), "a field is missing");
            }
        }
    }

    /// What holds a type, in each way that a type may.
    fn within() -> [fn(DataType) -> DataType; 8] {
        [
            |ty| ty,
            DataType::frozen,
            DataType::list_of,
            DataType::set_of,
            |ty| DataType::map_of(ty, DataType::Int),
            |ty| DataType::map_of(DataType::Int, ty),
            |ty| DataType::tuple_of([DataType::Int, ty]),
            |ty| {
                let fields = [("a".to_owned(), DataType::Int), ("b".to_owned(), ty)];
                DataType::User(Box::new(UserType::new("fx", "outer", fields)))
            },
        ]
    }

    #[test]
    fn a_type_has_what_is_in_it_at_any_depth() {
        for outer in within() {
            for inner in within() {
                let ty = outer(inner(address()));
                assert!(ty.uses("fx", "addr"), "{ty:?}");
                for (keyspace, name) in [("fx", "add"), ("fx", "addrs"), ("f", "addr")] {
                    assert!(!ty.uses(keyspace, name), "{ty:?} and {keyspace}.{name}");
                }
                for (leaf, _) in scalars() {
                    let has_order = !matches!(leaf, DataType::Duration | DataType::Counter);
                    let has_forms = matches!(
                        leaf,
                        DataType::Decimal { .. }
                            | DataType::Float
                            | DataType::Double
                            | DataType::Inet
                    );
                    let ty = outer(inner(leaf));
                    let found = (ty.has_order(), ty.has_several_forms(), ty.uses("fx", "addr"));
                    assert_eq!(found, (has_order, has_forms, false), "{ty:?}");
                }
            }
        }
    }

    #[test]
    fn a_type_that_is_refused_names_the_rule_that_it_breaks() {
        let user = |names: Vec<String>| {
            let fields = names.into_iter().map(|name| (name, DataType::Int));
            DataType::User(Box::new(UserType::new("k", "u", fields)))
        };
        let field = |name: &str| name.to_owned();
        let many = (0..=i16::MAX as usize).map(|at| format!("f{at}")).collect();
        let deep = (0..=TYPE_DEPTH_MAX).fold(DataType::Int, |ty, _| DataType::list_of(ty));
        let order = "elements of sets and keys of maps need an order";
        let refused = [
            (DataType::Frozen(Box::new(DataType::Int)), "only a column's collection or user"),
            (DataType::set_of(DataType::Duration), order),
            (DataType::map_of(DataType::Duration, DataType::Int), order),
            (DataType::list_of(DataType::Counter), "type counter: a counter stands by itself"),
            (DataType::tuple_of([]), "type tuple<>: it has no fields"),
            (user(Vec::new()), "type k.u: it has no fields"),
            (user(many), "type k.u: it has over 32,767 fields"),
            (user(vec![field("a"), field("b"), field("a")]), "field 'a' is there twice"),
            (user(vec![field("a"), field("")]), "field '' is there twice or has no name"),
            (DataType::Decimal { precision: 77, scale: 3 }, "type decimal(77, 3): a decimal has"),
            (deep, "a type has over 16 levels"),
        ];
        for (ty, wanted) in refused {
            let told = ty.validate().unwrap_err().to_string();
            assert!(told.contains(wanted), "{told}, and not: {wanted}");
        }
        // Values of a map need none.
        DataType::map_of(DataType::Int, DataType::Duration).validate().unwrap();
        user(vec![field("a"), field("A")]).validate().unwrap();
        DataType::Counter.validate().unwrap();
    }
}
