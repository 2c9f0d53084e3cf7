//! Types without parameters: what CQL and Cassandra's classes call them, and how long values are.
//!
//! This is the one table of these names. What else a name may mean stands where it is read.

/// A type without parameters, as CQL and the classes of Cassandra have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    Decimal,
    VarInt,
    Text,
    Ascii,
    Blob,
    Date,
    Time,
    Timestamp,
    Duration,
    Uuid,
    TimeUuid,
    Inet,
    Counter,
    /// Has one value, of no bytes.
    Empty,
}

/// One row of the table.
struct Facts {
    scalar: Scalar,
    cql: &'static str,
    class: &'static str,
    fixed_bytes: Option<usize>,
}

const fn facts(
    scalar: Scalar,
    (cql, class): (&'static str, &'static str),
    fixed_bytes: Option<usize>,
) -> Facts {
    Facts { scalar, cql, class, fixed_bytes }
}

/// In the order of the variants.
static SCALARS: [Facts; 21] = [
    facts(Scalar::Boolean, ("boolean", "BooleanType"), Some(1)),
    facts(Scalar::TinyInt, ("tinyint", "ByteType"), None),
    facts(Scalar::SmallInt, ("smallint", "ShortType"), None),
    facts(Scalar::Int, ("int", "Int32Type"), Some(4)),
    facts(Scalar::BigInt, ("bigint", "LongType"), Some(8)),
    facts(Scalar::Float, ("float", "FloatType"), Some(4)),
    facts(Scalar::Double, ("double", "DoubleType"), Some(8)),
    facts(Scalar::Decimal, ("decimal", "DecimalType"), None),
    facts(Scalar::VarInt, ("varint", "IntegerType"), None),
    facts(Scalar::Text, ("text", "UTF8Type"), None),
    facts(Scalar::Ascii, ("ascii", "AsciiType"), None),
    facts(Scalar::Blob, ("blob", "BytesType"), None),
    facts(Scalar::Date, ("date", "SimpleDateType"), None),
    facts(Scalar::Time, ("time", "TimeType"), None),
    facts(Scalar::Timestamp, ("timestamp", "TimestampType"), Some(8)),
    facts(Scalar::Duration, ("duration", "DurationType"), None),
    facts(Scalar::Uuid, ("uuid", "UUIDType"), Some(16)),
    facts(Scalar::TimeUuid, ("timeuuid", "TimeUUIDType"), Some(16)),
    facts(Scalar::Inet, ("inet", "InetAddressType"), None),
    facts(Scalar::Counter, ("counter", "CounterColumnType"), None),
    facts(Scalar::Empty, ("empty", "EmptyType"), Some(0)),
];

impl Scalar {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Scalar> {
        SCALARS.iter().map(|facts| facts.scalar)
    }

    /// The type that CQL calls so, in lower case; of the empty type no column can be made.
    pub fn of_cql(name: &str) -> Option<Scalar> {
        Scalar::all().find(|scalar| scalar.cql() == name && *scalar != Scalar::Empty)
    }

    /// The type of a class of Cassandra, named without its package.
    pub fn of_class(class: &str) -> Option<Scalar> {
        Scalar::all().find(|scalar| scalar.class() == class)
    }

    /// The name in CQL.
    pub fn cql(self) -> &'static str {
        self.facts().cql
    }

    /// The class in Cassandra, without its package.
    pub fn class(self) -> &'static str {
        self.facts().class
    }

    /// Length of every value that is not empty; `None` where a length is written.
    pub fn fixed_bytes(self) -> Option<usize> {
        self.facts().fixed_bytes
    }

    fn facts(self) -> &'static Facts {
        &SCALARS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_row_and_is_found_by_its_names() {
        for (at, scalar) in Scalar::all().enumerate() {
            assert_eq!(scalar as usize, at, "{scalar:?}");
            assert_eq!(Scalar::of_class(scalar.class()), Some(scalar));
            assert_eq!(Scalar::of_cql(scalar.cql()), (scalar != Scalar::Empty).then_some(scalar));
        }
    }
}
