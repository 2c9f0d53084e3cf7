//! Partition keys and clustering keys.
//!
//! A partition key is kept as Cassandra serialises it, with its token in front. A clustering key
//! is kept in its order-preserving form (`order.rs`), so comparing keys is comparing bytes.

use std::cmp::Ordering;
use std::fmt;

use super::key_bytes::KeyBytes;
use super::order::{Plain, decode_component, encode_component, is_null};
use super::table_schema::{ClusteringOrder, Column, TableSchema};
use super::token::Token;
use super::types::DataType;
use super::value::Value;
use crate::config::{CLUSTERING_VALUE_BYTES_MAX, PARTITION_KEY_BYTES_MAX};
use crate::error::{Error, Result};
use crate::hex::Hex;

/// Token and serialised bytes of a partition key; ordered by token, then bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    token: Token,
    bytes: KeyBytes,
}

impl PartitionKey {
    /// Bytes of memory that it takes beside itself.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }

    /// From the serialised form.
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        PartitionKey { token: Token::of(bytes), bytes: KeyBytes::new(bytes) }
    }

    /// From the values of the partition-key columns, in key order.
    ///
    /// Errors: `Invalid` for a wrong number or type of values, or a key over 65,535 bytes.
    pub fn from_values(schema: &TableSchema, values: &[Value]) -> Result<Self> {
        let columns: Vec<&Column> = schema.partition_key().collect();
        check_values(schema, &columns, values)?;
        if values.len() != columns.len() {
            return Err(Error::invalid(format!(
                "the partition key of {} has {} columns, {} values given",
                schema.name,
                columns.len(),
                values.len()
            )));
        }
        PartitionKey::of_values(values)
    }

    /// From values of the types of the partition-key columns, in key order.
    ///
    /// Errors: `Invalid` for a key of no bytes, or one over 65,535 bytes.
    pub fn of_values(values: &[Value]) -> Result<Self> {
        let mut bytes = Vec::new();
        if let [value] = values {
            value.encode(&mut bytes);
        } else {
            for value in values {
                let component = value.to_bytes();
                let length = u16::try_from(component.len())
                    .map_err(|_| Error::invalid("a partition-key value is over 65,535 bytes"))?;
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(&component);
                bytes.push(0);
            }
        }
        if bytes.is_empty() {
            return Err(Error::invalid("the partition key may not be empty"));
        }
        if bytes.len() > PARTITION_KEY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the partition key takes {} bytes, at most {PARTITION_KEY_BYTES_MAX} are possible",
                bytes.len()
            )));
        }
        Ok(PartitionKey::from_bytes(bytes))
    }

    /// The key that an INSERT of the same values writes; `None` where that is this one. Other
    /// products keep values as they were given: 1.5 and 1.50 are two keys there, and so are two
    /// NaN.
    ///
    /// Errors: `Invalid` when the bytes are no key of `schema`.
    pub fn as_inserted(&self, schema: &TableSchema) -> Result<Option<Self>> {
        let columns: Vec<&Column> = schema.partition_key().collect();
        if !columns.iter().any(|column| column.ty.has_several_forms()) {
            return Ok(None);
        }
        let stored = self.components(schema)?;
        let mut values = Vec::with_capacity(columns.len());
        for (column, stored) in columns.iter().zip(stored) {
            // What is no value of its type, such as a number of too many digits, stays as it is.
            let Ok(value) = Value::decode(&column.ty, stored) else { return Ok(None) };
            values.push(value.as_inserted(&column.ty));
        }
        let key = PartitionKey::from_values(schema, &values)?;
        Ok((key != *self).then_some(key))
    }

    /// The least key with this token; a bound for searches, never a stored key.
    pub fn first_of(token: Token) -> Self {
        PartitionKey { token, bytes: KeyBytes::default() }
    }

    pub fn token(&self) -> Token {
        self.token
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What shares the limits of the rate with it: its own token, or that of the column by which
    /// the rate of its table is limited.
    ///
    /// Errors: `Invalid` when the bytes are no key of `schema`.
    pub fn rate_token(&self, schema: &TableSchema) -> Result<Token> {
        let Some(name) = &schema.options.rate_limit_by else { return Ok(self.token) };
        let components = self.components(schema)?;
        let at = schema.partition_key().position(|column| column.name == *name);
        let value = at.and_then(|at| components.get(at));
        Ok(value.map_or(self.token, |value| Token::of(value)))
    }

    /// The serialised value of each partition-key column.
    ///
    /// Errors: `Invalid` when the bytes are no key of `schema`.
    pub fn components(&self, schema: &TableSchema) -> Result<Vec<&[u8]>> {
        let count = schema.partition_key().count();
        if count == 1 {
            return Ok(vec![&self.bytes]);
        }
        let wrong = || Error::invalid("bytes are no composite partition key");
        let mut rest: &[u8] = &self.bytes;
        let mut components = Vec::with_capacity(count);
        while !rest.is_empty() {
            let (length, tail) = rest.split_first_chunk::<2>().ok_or_else(wrong)?;
            let length = usize::from(u16::from_be_bytes(*length));
            components.push(tail.get(..length).ok_or_else(wrong)?);
            rest = tail.get(length + 1..).ok_or_else(wrong)?;
        }
        if components.len() == count { Ok(components) } else { Err(wrong()) }
    }
}

impl Ord for PartitionKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token.cmp(&other.token).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for PartitionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionKey({} {})", self.token.0, Hex(&self.bytes))
    }
}

/// Ordered form of a clustering key or of a prefix of one. Byte order is key order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusteringKey(KeyBytes);

impl ClusteringKey {
    /// The key of a table without clustering columns, and the prefix of everything.
    pub fn empty() -> Self {
        ClusteringKey::default()
    }

    /// From bytes in the ordered form.
    #[inline]
    pub fn from_ordered(bytes: impl AsRef<[u8]>) -> Self {
        ClusteringKey(KeyBytes::new(bytes.as_ref()))
    }

    /// From the values of the first `values.len()` clustering columns.
    ///
    /// Errors: `Invalid` for too many values, a wrong type, or a value that is too long.
    pub fn from_values(schema: &TableSchema, values: &[Value]) -> Result<Self> {
        let columns: Vec<&Column> = schema.clustering_key().collect();
        check_values(schema, &columns, values)?;
        let mut out = Vec::new();
        let mut stored = Vec::new();
        for (column, value) in columns.iter().zip(values) {
            stored.clear();
            value.encode(&mut stored);
            if stored.len() > CLUSTERING_VALUE_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "clustering column '{}' takes {} bytes, at most {CLUSTERING_VALUE_BYTES_MAX} are possible",
                    column.name,
                    stored.len()
                )));
            }
            encode_component(&column.ty, column.clustering_order(), &stored, &mut out)?;
        }
        Ok(ClusteringKey::from_ordered(out))
    }

    /// From the stored bytes of the first clustering columns.
    ///
    /// Errors: `Invalid` when a value's bytes do not fit its column.
    pub fn from_stored<'a>(
        schema: &TableSchema,
        stored: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self> {
        let mut out = Vec::new();
        let mut columns = schema.clustering_key();
        for value in stored {
            let column = columns.next().ok_or_else(|| {
                Error::invalid(format!("too many clustering values for {}", schema.name))
            })?;
            encode_component(&column.ty, column.clustering_order(), value, &mut out)?;
        }
        Ok(ClusteringKey::from_ordered(out))
    }

    pub fn as_ordered(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The least byte string above every key that starts with this prefix. The prefix must not be
    /// empty: nothing is above everything.
    pub fn after_all_extensions(&self) -> ClusteringKey {
        let mut bytes = self.0.to_vec();
        while let Some(last) = bytes.pop() {
            if last < 0xff {
                bytes.push(last + 1);
                return ClusteringKey::from_ordered(bytes);
            }
        }
        unreachable!("a component never consists of 0xff alone")
    }

    /// The first clustering column of which this key or prefix lacks the value.
    ///
    /// Errors: `Invalid` when the bytes are no key of `schema`.
    pub fn first_null<'s>(&self, schema: &'s TableSchema) -> Result<Option<&'s Column>> {
        let mut rest: &[u8] = &self.0;
        let mut stored = Vec::new();
        for column in schema.clustering_key() {
            let order = column.clustering_order();
            if rest.is_empty() {
                break;
            }
            if is_null(order, rest) {
                return Ok(Some(column));
            }
            stored.clear();
            rest = &rest[decode_component(&column.ty, order, rest, &mut stored)?..];
        }
        Ok(None)
    }

    /// The stored bytes of each clustering column present in this key or prefix; none where it is
    /// null.
    ///
    /// Errors: `Invalid` when the bytes are no key of `schema`.
    pub fn stored(&self, schema: &TableSchema) -> Result<Vec<Vec<u8>>> {
        let mut rest: &[u8] = &self.0;
        let mut components = Vec::new();
        for column in schema.clustering_key() {
            if rest.is_empty() {
                break;
            }
            let mut stored = Vec::new();
            let taken = decode_component(&column.ty, column.clustering_order(), rest, &mut stored)?;
            components.push(stored);
            rest = &rest[taken..];
        }
        if rest.is_empty() {
            Ok(components)
        } else {
            Err(Error::invalid(format!("bytes are no clustering key of {}", schema.name)))
        }
    }
}

impl fmt::Debug for ClusteringKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusteringKey({})", Hex(&self.0))
    }
}

/// Tells whole clustering keys of a table from prefixes of them.
#[derive(Debug)]
pub struct ClusteringShape {
    columns: Vec<(DataType, ClusteringOrder, Option<Plain>)>,
}

impl ClusteringShape {
    pub fn of(schema: &TableSchema) -> Self {
        let shape = |column: &Column| {
            let (ty, order) = (column.ty.clone(), column.clustering_order());
            let plain = Plain::of(&ty, order);
            (ty, order, plain)
        };
        ClusteringShape { columns: schema.clustering_key().map(shape).collect() }
    }

    /// Checks that a key has a value for each clustering column, and that an SSTable can hold it.
    ///
    /// Errors: in words, what is wrong.
    pub fn check_whole(&self, key: &ClusteringKey) -> Result<(), String> {
        if self.is_plain(key) {
            return Ok(());
        }
        let (values, wanted) = (self.check_prefix(key)?, self.columns.len());
        if values == wanted {
            return Ok(());
        }
        Err(format!("it has {values} of {wanted} values"))
    }

    /// Checks that a key has values for the first clustering columns, and that an SSTable can hold
    /// it; returns for how many.
    ///
    /// Errors: in words, what is wrong.
    pub fn check_prefix(&self, key: &ClusteringKey) -> Result<usize, String> {
        let mut rest = key.as_ordered();
        let mut stored = Vec::new();
        for (at, (ty, order, _)) in self.columns.iter().enumerate() {
            if rest.is_empty() {
                return Ok(at);
            }
            if is_null(*order, rest) {
                return Err(format!("value {} is null", at + 1));
            }
            stored.clear();
            let taken = decode_component(ty, *order, rest, &mut stored);
            let taken = taken.map_err(|error| error.to_string())?;
            if stored.len() > CLUSTERING_VALUE_BYTES_MAX {
                let bytes = stored.len();
                let most = CLUSTERING_VALUE_BYTES_MAX;
                return Err(format!("a value has {bytes} bytes, at most {most} are possible"));
            }
            rest = &rest[taken..];
        }
        match rest.len() {
            0 => Ok(self.columns.len()),
            more => Err(format!("{more} bytes stand behind its last value")),
        }
    }

    /// Whether the key has a value of a short form for each clustering column, none of them null,
    /// and nothing else.
    fn is_plain(&self, key: &ClusteringKey) -> bool {
        let mut rest = key.as_ordered();
        for (_, _, plain) in &self.columns {
            let mut value = [0; 8];
            let decoded = plain.as_ref().and_then(|plain| plain.decode(rest, &mut value));
            let Some((_, taken)) = decoded else { return false };
            rest = &rest[taken..];
        }
        rest.is_empty()
    }

    /// Whether the key has a value, or null, for each clustering column, and nothing else.
    pub fn is_whole(&self, key: &ClusteringKey) -> bool {
        let mut rest = key.as_ordered();
        for (ty, order, plain) in &self.columns {
            let plain = plain
                .as_ref()
                .and_then(|plain| plain.decode(rest, &mut [0; 8]).map(|(_, taken)| taken));
            let decoded = || decode_component(ty, *order, rest, &mut Vec::new()).ok();
            let Some(taken) = plain.or_else(decoded) else { return false };
            rest = &rest[taken..];
        }
        rest.is_empty()
    }
}

fn check_values(schema: &TableSchema, columns: &[&Column], values: &[Value]) -> Result<()> {
    if values.len() > columns.len() {
        return Err(Error::invalid(format!(
            "{} values for {} key columns of {}",
            values.len(),
            columns.len(),
            schema.name
        )));
    }
    for (column, value) in columns.iter().zip(values) {
        if !value.fits(&column.ty) {
            return Err(Error::invalid(format!(
                "column '{}' is {}, the value {value} is {}",
                column.name,
                column.ty.sql_name(),
                value.type_name()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ClusteringOrder, ColumnKind, DataType, TableId, TableOptions};

    /// Text columns: so many of the partition key, then one of the clustering key.
    fn table(partition_columns: u16) -> TableSchema {
        let column = |name: String, kind| Column { name, ty: DataType::Text, kind };
        let partition = (0..partition_columns)
            .map(|position| column(format!("p{position}"), ColumnKind::PartitionKey { position }));
        let order = ClusteringOrder::Ascending;
        let clustering = column("c".into(), ColumnKind::ClusteringKey { position: 0, order });
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: partition.chain([clustering]).collect(),
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn text(bytes: usize) -> Value {
        Value::Text("x".repeat(bytes))
    }

    #[test]
    fn a_composite_key_has_just_the_parts_of_its_columns() {
        let key = PartitionKey::from_values(&table(2), &[text(1), text(2)]).unwrap();
        for columns in [2, 3, 4] {
            let parts = key.components(&table(columns)).map(|parts| parts.len());
            assert_eq!(parts.ok(), (columns == 2).then_some(2), "{columns} columns");
        }
        let three = PartitionKey::from_values(&table(3), &[text(1), text(2), text(3)]).unwrap();
        assert!(three.components(&table(2)).is_err(), "it has one part too many");
        for end in 1..key.as_bytes().len() {
            let cut = PartitionKey::from_bytes(&key.as_bytes()[..end]);
            assert!(cut.components(&table(2)).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn keys_end_where_they_say() {
        let one = table(1);
        let key = PartitionKey::from_values(&one, &[text(PARTITION_KEY_BYTES_MAX)]).unwrap();
        assert_eq!(key.as_bytes().len(), PARTITION_KEY_BYTES_MAX);
        let refused = PartitionKey::from_values(&one, &[text(PARTITION_KEY_BYTES_MAX + 1)]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("takes 65536 bytes, at most 65535"), "{refused}");
        assert!(PartitionKey::from_values(&one, &[text(0)]).is_err(), "it is empty");

        // Of several columns each has its length before it, and a byte behind it.
        let two = table(2);
        let longest = PARTITION_KEY_BYTES_MAX - 6;
        let key = PartitionKey::from_values(&two, &[text(0), text(longest)]).unwrap();
        assert_eq!(key.as_bytes().len(), PARTITION_KEY_BYTES_MAX);
        let parts: Vec<usize> =
            key.components(&two).unwrap().iter().map(|part| part.len()).collect();
        assert_eq!(parts, [0, longest]);
        for too_long in [longest + 1, usize::from(u16::MAX) + 1] {
            assert!(PartitionKey::from_values(&two, &[text(0), text(too_long)]).is_err());
        }

        let longest = ClusteringKey::from_values(&one, &[text(CLUSTERING_VALUE_BYTES_MAX)]);
        ClusteringShape::of(&one).check_whole(&longest.unwrap()).unwrap();
        let stored = vec![b'x'; CLUSTERING_VALUE_BYTES_MAX + 1];
        let too_long = ClusteringKey::from_stored(&one, [&*stored]).unwrap();
        let told = ClusteringShape::of(&one).check_whole(&too_long).unwrap_err();
        assert_eq!(told, "a value has 65536 bytes, at most 65535 are possible");
        let refused = ClusteringKey::from_values(&one, &[text(CLUSTERING_VALUE_BYTES_MAX + 1)]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("'c' takes 65536 bytes, at most 65535"), "{refused}");
    }

    #[test]
    fn what_follows_a_prefix_is_behind_all_keys_that_begin_with_it() {
        for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
            let mut schema = table(1);
            schema.columns[1].kind = ColumnKind::ClusteringKey { position: 0, order };
            let kind = ColumnKind::ClusteringKey { position: 1, order };
            schema.columns.push(Column { name: "d".into(), ty: DataType::Text, kind });
            let texts = ["", "\0", "a", "a\0", "a\u{10ffff}", "b"].map(|t| Value::Text(t.into()));
            let key = |values: &[Value]| ClusteringKey::from_values(&schema, values).unwrap();
            let mut prefixes = texts.each_ref().map(|text| (key(std::slice::from_ref(text)), text));
            prefixes.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (at, (prefix, first)) in prefixes.iter().enumerate() {
                let behind = prefix.after_all_extensions();
                for second in &texts {
                    let whole = key(&[(*first).clone(), second.clone()]);
                    assert!(*prefix < whole && whole < behind, "{order:?} {first} {second}");
                    let next = prefixes.get(at + 1);
                    let next = next.map(|(_, next)| key(&[(*next).clone(), second.clone()]));
                    assert!(next.is_none_or(|next| next >= behind), "{order:?} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn a_key_in_another_form_is_the_one_that_an_insert_would_write() {
        let mut schema = table(2);
        schema.columns[0].ty = DataType::Decimal { precision: 9, scale: 2 };
        let key = |unscaled, scale| {
            let values = [Value::Decimal { unscaled, scale }, text(1)];
            PartitionKey::from_values(&schema, &values).unwrap()
        };
        let inserted = |key: PartitionKey| key.as_inserted(&schema).unwrap();
        assert_eq!(inserted(key(15, 1)), Some(key(150, 2)));
        assert_eq!(inserted(key(1500, 3)), Some(key(150, 2)));
        assert_eq!(inserted(key(150, 2)), None, "it is in that form");
        let no_number = PartitionKey::from_bytes(*b"\0\x02ab\0\0\x01x\0");
        assert_eq!(inserted(no_number), None, "what is no number stays");
        assert!(PartitionKey::from_bytes(*b"\0").as_inserted(&schema).is_err());
        // Texts have one form, and are not even taken apart.
        assert_eq!(PartitionKey::from_bytes(*b"\0").as_inserted(&table(2)).unwrap(), None);
    }

    #[test]
    fn partitions_share_limits_by_the_column_that_says_so() {
        let mut schema = table(3);
        // The order of the key is not that of the table.
        schema.columns.swap(0, 2);
        let key = PartitionKey::from_values(&schema, &[text(1), text(2), text(3)]).unwrap();
        let cut = PartitionKey::from_bytes(*b"\0");
        for key in [&key, &cut] {
            assert_eq!(key.rate_token(&schema).unwrap(), key.token(), "each by itself");
        }
        for (column, bytes) in [("p0", 1), ("p1", 2), ("p2", 3)] {
            schema.options.rate_limit_by = Some(column.into());
            let wanted = Token::of("x".repeat(bytes).as_bytes());
            assert_eq!(key.rate_token(&schema).unwrap(), wanted, "{column}");
            let mut values = [text(4), text(5), text(6)];
            let place = bytes - 1;
            values[place] = text(bytes);
            let other = PartitionKey::from_values(&schema, &values).unwrap();
            assert_eq!(other.rate_token(&schema).unwrap(), wanted, "{column} of another partition");
            assert!(cut.rate_token(&schema).is_err(), "it is no key");
        }
        let mut one = table(1);
        one.options.rate_limit_by = Some("p0".into());
        let key = PartitionKey::from_values(&one, &[text(9)]).unwrap();
        assert_eq!(key.rate_token(&one).unwrap(), key.token());
    }

    #[test]
    fn keys_of_other_columns_are_refused_with_what_is_wrong() {
        let two = table(2);
        let partition = |values: &[Value]| PartitionKey::from_values(&two, values).map(drop);
        let clustering = |values: &[Value]| ClusteringKey::from_values(&two, values).map(drop);
        let int = || Value::Int(1);
        let many = || [text(1), text(1), text(1)];
        for (made, wanted) in [
            (partition(&[text(1)]), "the partition key of t has 2 columns, 1 values given"),
            (partition(&many()), "3 values for 2 key columns of t"),
            (partition(&[text(1), int()]), "column 'p1' is text, the value 1 is int"),
            (clustering(&many()), "3 values for 1 key columns of t"),
            (clustering(&[int()]), "column 'c' is text, the value 1 is int"),
            (
                partition(&[text(1), text(usize::from(u16::MAX) + 1)]),
                "a partition-key value is over 65,535 bytes",
            ),
            (PartitionKey::of_values(&[text(0)]).map(drop), "the partition key may not be empty"),
        ] {
            let told = made.unwrap_err().to_string();
            assert!(told.contains(wanted), "{told}, and not: {wanted}");
        }
        let stored: [&[u8]; 2] = [b"a", b"b"];
        let told = ClusteringKey::from_stored(&two, stored).unwrap_err().to_string();
        assert!(told.contains("too many clustering values for t"), "{told}");
        // A key may have fewer values than there are columns: it is a prefix then.
        assert!(clustering(&[]).is_ok());
        assert!(ClusteringKey::from_stored(&two, []).unwrap().is_empty());
    }
}
