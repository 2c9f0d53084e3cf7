//! Order of stored values and clustering prefixes, as Cassandra's comparators have it.
//!
//! Works on the stored bytes of every type and shares nothing with the ordered form of `schema`, so
//! that what is verified here is not verified by itself. Values must have been checked before.

use std::cmp::Ordering;

use super::types::{KeyType, StoredType};
use super::value::{elements, fields, integer, vector_elements};
use crate::schema::Scalar;
use crate::sstable::format::prefix::KIND_ROW;

/// Order of two values of one type; the empty value comes first.
pub(super) fn compare(ty: &StoredType, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    match ty {
        StoredType::Frozen(inner) => compare(inner, a, b),
        StoredType::Scalar(scalar) => match scalar {
            Scalar::TinyInt
            | Scalar::SmallInt
            | Scalar::Int
            | Scalar::BigInt
            | Scalar::Timestamp => signed(a).cmp(&signed(b)),
            Scalar::Float => float(a).total_cmp(&float(b)),
            Scalar::Double => double(a).total_cmp(&double(b)),
            Scalar::VarInt => integers(&integer(a), &integer(b)),
            Scalar::Decimal => decimals(a, b),
            Scalar::TimeUuid => time_uuids(a, b),
            Scalar::Uuid => uuids(a, b),
            _ => a.cmp(b),
        },
        StoredType::List(element) | StoredType::Set(element) => collections(a, b, |_| element, 1),
        StoredType::Map(key, value) => {
            collections(a, b, |i| if i % 2 == 0 { key } else { value }, 2)
        }
        StoredType::Tuple(types) => tuples(a, b, &types.iter().collect::<Vec<_>>()),
        StoredType::User(user) => {
            tuples(a, b, &user.fields.iter().map(|(_, ty)| ty).collect::<Vec<_>>())
        }
        StoredType::Vector(element, count) => vectors(a, b, element, *count),
        _ => a.cmp(b),
    }
}

fn signed(bytes: &[u8]) -> i64 {
    let start = if bytes[0] >= 0x80 { -1 } else { 0 };
    bytes.iter().fold(start, |sum, byte| sum << 8 | i64::from(*byte))
}

/// NaN is one value, the greatest, in Java.
fn float(bytes: &[u8]) -> f32 {
    let number = bytes.try_into().map_or(0.0, f32::from_be_bytes);
    if number.is_nan() { f32::NAN.abs() } else { number }
}

fn double(bytes: &[u8]) -> f64 {
    let number = bytes.try_into().map_or(0.0, f64::from_be_bytes);
    if number.is_nan() { f64::NAN.abs() } else { number }
}

/// Order of two whole numbers in decimal.
fn integers(a: &str, b: &str) -> Ordering {
    let magnitude = |a: &str, b: &str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (Some(a), Some(b)) => magnitude(b, a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => magnitude(a, b),
    }
}

fn decimals(a: &[u8], b: &[u8]) -> Ordering {
    let parts = |bytes: &[u8]| {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        Some((i64::from(i32::from_be_bytes(*scale)), integer(unscaled)))
    };
    let (Some((a_scale, a)), Some((b_scale, b))) = (parts(a), parts(b)) else {
        return a.cmp(b);
    };
    let sign = |digits: &str| match digits {
        "0" => 0,
        digits => {
            if digits.starts_with('-') {
                -1
            } else {
                1
            }
        }
    };
    let by_sign = sign(&a).cmp(&sign(&b));
    if by_sign.is_ne() || a == "0" {
        return by_sign;
    }
    let is_negative = a.starts_with('-');
    let (a, b) = (a.trim_start_matches('-'), b.trim_start_matches('-'));
    // Digits before the point, then the digits themselves from the front.
    let magnitude = (a.len() as i64 - a_scale)
        .cmp(&(b.len() as i64 - b_scale))
        .then_with(|| a.trim_end_matches('0').cmp(b.trim_end_matches('0')));
    if is_negative { magnitude.reverse() } else { magnitude }
}

/// The time of a version 1 UUID with its version on top.
fn time(uuid: &[u8]) -> [u8; 8] {
    [uuid[6], uuid[7], uuid[4], uuid[5], uuid[0], uuid[1], uuid[2], uuid[3]]
}

fn time_uuids(a: &[u8], b: &[u8]) -> Ordering {
    if a.len() != 16 || b.len() != 16 {
        return a.cmp(b);
    }
    let low = |uuid: &[u8]| -> Vec<i8> { uuid[8..].iter().map(|byte| *byte as i8).collect() };
    time(a).cmp(&time(b)).then_with(|| low(a).cmp(&low(b)))
}

fn uuids(a: &[u8], b: &[u8]) -> Ordering {
    if a.len() != 16 || b.len() != 16 {
        return a.cmp(b);
    }
    let version = |uuid: &[u8]| uuid[6] >> 4;
    version(a).cmp(&version(b)).then_with(|| match version(a) {
        1 => time(a).cmp(&time(b)).then_with(|| a[8..].cmp(&b[8..])),
        _ => a.cmp(b),
    })
}

fn collections<'a>(
    a: &[u8],
    b: &[u8],
    ty: impl Fn(usize) -> &'a StoredType,
    width: u64,
) -> Ordering {
    let (Ok(a), Ok(b)) = (elements(a, width), elements(b, width)) else { return a.cmp(b) };
    let differ = a.iter().zip(&b).enumerate().map(|(i, (a, b))| optional(ty(i), *a, *b));
    differ.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
}

/// Element by element; all have as many.
fn vectors(a: &[u8], b: &[u8], element: &StoredType, count: usize) -> Ordering {
    let of = |bytes| vector_elements(element, count, bytes);
    let (Ok(a_values), Ok(b_values)) = (of(a), of(b)) else { return a.cmp(b) };
    let mut differ = a_values.iter().zip(&b_values).map(|(a, b)| compare(element, a, b));
    differ.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn tuples(a: &[u8], b: &[u8], types: &[&StoredType]) -> Ordering {
    let (Ok(a), Ok(b)) = (fields(a, types.len()), fields(b, types.len())) else {
        return a.cmp(b);
    };
    let values = a.into_iter().zip(b);
    let mut differ = types.iter().zip(values).map(|(ty, (a, b))| optional(ty, a, b));
    differ.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Null comes before everything.
fn optional(ty: &StoredType, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(ty, a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Order of two values of a clustering column.
pub(super) fn compare_key(key: &KeyType, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    let order = optional(&key.ty, a, b);
    if key.is_descending { order.reverse() } else { order }
}

/// A clustering key or bound as stored: what it is, and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prefix {
    /// [`KIND_ROW`] or the kind of a bound.
    pub(super) kind: u8,
    /// `None` is a null of an old table.
    pub(super) values: Vec<Option<Vec<u8>>>,
}

impl Prefix {
    /// Order in a partition.
    pub(super) fn compare(&self, other: &Prefix, keys: &[KeyType]) -> Ordering {
        let pairs = self.values.iter().zip(&other.values).zip(keys);
        for ((a, b), key) in pairs {
            let order = compare_key(key, a.as_deref(), b.as_deref());
            if order.is_ne() {
                return order;
            }
        }
        // A shorter prefix stands before or after all that it is a prefix of.
        let side = |prefix: &Prefix| match prefix.kind {
            0..=2 => Ordering::Less,
            _ => Ordering::Greater,
        };
        match self.values.len().cmp(&other.values.len()) {
            Ordering::Less => side(self),
            Ordering::Greater => side(other).reverse(),
            Ordering::Equal => weight(self.kind).cmp(&weight(other.kind)),
        }
    }
}

fn weight(kind: u8) -> u8 {
    match kind {
        0..=2 => 0,
        KIND_ROW => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_order_as_numbers_do() {
        let decimal = |scale: i32, unscaled: &[u8]| [&scale.to_be_bytes()[..], unscaled].concat();
        let ladders = [
            (
                StoredType::Scalar(Scalar::Int),
                vec![vec![0x80, 0, 0, 0], vec![0xff; 4], vec![0; 4], vec![0, 0, 1, 0]],
            ),
            (
                StoredType::Scalar(Scalar::VarInt),
                vec![vec![0x80, 0], vec![0xff], vec![0], vec![1], vec![0, 0x80]],
            ),
            (
                StoredType::Scalar(Scalar::Decimal),
                vec![
                    decimal(0, &[0xf6]),
                    decimal(1, &[0xff]),
                    decimal(0, &[0]),
                    decimal(1, &[5]),
                    decimal(0, &[1]),
                    decimal(-1, &[1]),
                ],
            ),
            (
                StoredType::Scalar(Scalar::Double),
                [f64::NEG_INFINITY, -0.0, 0.0, 1.0, f64::INFINITY, -f64::NAN]
                    .map(|number| number.to_be_bytes().to_vec())
                    .to_vec(),
            ),
            (
                StoredType::Tuple(vec![StoredType::Scalar(Scalar::Int)]),
                vec![
                    vec![0xff; 4],
                    vec![0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff],
                    vec![0, 0, 0, 4, 0, 0, 0, 0],
                ],
            ),
        ];
        for (ty, ladder) in ladders {
            for (i, a) in ladder.iter().enumerate() {
                for (j, b) in ladder.iter().enumerate() {
                    assert_eq!(compare(&ty, a, b), i.cmp(&j), "{ty} {a:?} {b:?}");
                }
            }
        }
        let one = decimal(0, &[1]);
        assert_eq!(
            compare(&StoredType::Scalar(Scalar::Decimal), &one, &decimal(2, &[100])),
            Ordering::Equal
        );
    }

    #[test]
    fn bounds_stand_around_what_they_are_a_prefix_of() {
        let key = |is_descending| KeyType { ty: StoredType::Scalar(Scalar::Int), is_descending };
        let value = |number: i32| Some(number.to_be_bytes().to_vec());
        let prefix = |kind, numbers: &[i32]| Prefix {
            kind,
            values: numbers.iter().map(|number| value(*number)).collect(),
        };
        let ladder = [
            prefix(1, &[]),
            prefix(1, &[2]),
            prefix(0, &[2, 5]),
            prefix(KIND_ROW, &[2, 5]),
            prefix(7, &[2, 5]),
            prefix(KIND_ROW, &[2, 4]),
            prefix(6, &[2]),
            prefix(KIND_ROW, &[3, 9]),
            prefix(6, &[]),
        ];
        let keys = [key(false), key(true)];
        for (i, a) in ladder.iter().enumerate() {
            for (j, b) in ladder.iter().enumerate() {
                assert_eq!(a.compare(b, &keys), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    /// Bytes of a list, set or map of so many elements with these items.
    fn collection(count: i32, items: &[&[u8]]) -> Vec<u8> {
        let mut bytes = count.to_be_bytes().to_vec();
        for item in items {
            bytes.extend((item.len() as i32).to_be_bytes());
            bytes.extend(*item);
        }
        bytes
    }

    /// A UUID of this time, with the version on top.
    fn uuid(time: u64, low: [u8; 8]) -> Vec<u8> {
        let [a, b, c, d, e, f, g, h] = time.to_be_bytes();
        [[e, f, g, h, c, d, a, b], low].concat()
    }

    #[test]
    fn ids_and_collections_order_as_those_of_cassandra_do() {
        let scalar = StoredType::Scalar;
        let int = || Box::new(scalar(Scalar::Int));
        let [less, one, two] = [-1_i32, 1, 2].map(i32::to_be_bytes);
        let (a, e) = ("a".as_bytes(), "é".as_bytes());
        let (early, late) = (0x1000_0000_ffff_ffff, 0x1000_0001_0000_0000);
        let ladders = [
            (scalar(Scalar::TinyInt), vec![vec![0x80], vec![0xff], vec![0], vec![0x7f]]),
            (scalar(Scalar::Text), vec![b"B".to_vec(), b"a".to_vec(), e.to_vec()]),
            (
                scalar(Scalar::Float),
                [f32::NEG_INFINITY, -1.5, -0.0, 0.0, 1.0, f32::INFINITY, -f32::NAN]
                    .map(|number| number.to_be_bytes().to_vec())
                    .to_vec(),
            ),
            (
                // The second half is of signed bytes.
                scalar(Scalar::TimeUuid),
                vec![
                    uuid(early, [0x7f; 8]),
                    uuid(late, [0x80, 0, 0, 0, 0, 0, 0, 0]),
                    uuid(late, [0xff; 8]),
                    uuid(late, [0; 8]),
                    uuid(late, [0x7f; 8]),
                    uuid(0x1001_0000_0000_0000, [0x80; 8]),
                ],
            ),
            (
                // By version; only those of version 1 have a time.
                scalar(Scalar::Uuid),
                vec![
                    uuid(early, [0xff; 8]),
                    uuid(late, [0; 8]),
                    uuid(late, [0x80; 8]),
                    uuid(0x1001_0000_0000_0000, [0; 8]),
                    uuid(0x4000_0000_0000_0000, [0xff; 8]),
                    uuid(0x4000_ffff_0000_0001, [0; 8]),
                    uuid(0x4000_0000_0000_0002, [0; 8]),
                ],
            ),
            (
                StoredType::Frozen(Box::new(StoredType::List(int()))),
                vec![
                    collection(0, &[]),
                    collection(1, &[&less]),
                    collection(2, &[&less, &less]),
                    collection(2, &[&less, &one]),
                    collection(1, &[&one]),
                ],
            ),
            (
                StoredType::Map(int(), Box::new(scalar(Scalar::Text))),
                vec![
                    collection(1, &[&less, e]),
                    collection(1, &[&one, a]),
                    collection(2, &[&one, a, &two, a]),
                    collection(1, &[&one, e]),
                    collection(1, &[&two, a]),
                ],
            ),
        ];
        for (ty, ladder) in ladders {
            for (i, a) in ladder.iter().enumerate() {
                for (j, b) in ladder.iter().enumerate() {
                    assert_eq!(compare(&ty, a, b), i.cmp(&j), "{ty} {a:?} {b:?}");
                }
            }
        }
    }

    /// A sign is that of the whole, whatever the scales are.
    #[test]
    fn numbers_below_zero_order_by_their_magnitude_the_other_way() {
        let decimal = |scale: i32, unscaled: i16| {
            [&scale.to_be_bytes()[..], &unscaled.to_be_bytes()].concat()
        };
        let rising = [
            vec![decimal(1, 5), decimal(2, 50), decimal(4, 5000)],
            vec![decimal(2, 51)],
            vec![decimal(0, 1), decimal(3, 1000)],
            vec![decimal(1, 19)],
            vec![decimal(0, 2)],
            vec![decimal(-1, 1), decimal(0, 10)],
            vec![decimal(0, 123)],
            vec![decimal(-3, 1)],
        ];
        let negated = |bytes: &Vec<u8>| {
            let (scale, number) = bytes.split_first_chunk::<4>().unwrap();
            let number = i16::from_be_bytes(number.try_into().unwrap());
            decimal(i32::from_be_bytes(*scale), -number)
        };
        let of = |equal: &Vec<Vec<u8>>| equal.iter().map(negated).collect::<Vec<_>>();
        let falling = rising.iter().rev().map(of);
        let zero = vec![decimal(0, 0), decimal(7, 0), decimal(-7, 0)];
        let ladder: Vec<Vec<Vec<u8>>> = falling.chain([zero]).chain(rising.clone()).collect();
        let ty = StoredType::Scalar(Scalar::Decimal);
        let mut steps: Vec<(usize, &[u8])> = Vec::new();
        for (i, equal) in ladder.iter().enumerate() {
            steps.extend(equal.iter().map(|number| (i, &number[..])));
        }
        for (i, a) in &steps {
            for (j, b) in &steps {
                assert_eq!(compare(&ty, a, b), i.cmp(j), "{a:?} {b:?}");
            }
        }
        let numbers = [i128::MIN, -1 << 64, -256, -129, -128, -10, -9, -1, 0, 9, 10, 1 << 64];
        for a in numbers {
            for b in numbers {
                let ty = StoredType::Scalar(Scalar::VarInt);
                let found = compare(&ty, &a.to_be_bytes(), &b.to_be_bytes());
                assert_eq!(found, a.cmp(&b), "{a} {b}");
            }
        }
    }

    #[test]
    fn a_descending_column_turns_round_nulls_and_empty_values_as_well() {
        let ladder: [Option<&[u8]>; 4] = [None, Some(&[]), Some(&[0xff; 4]), Some(&[0, 0, 0, 1])];
        for is_descending in [false, true] {
            let key = KeyType { ty: StoredType::Scalar(Scalar::Int), is_descending };
            for (i, a) in ladder.into_iter().enumerate() {
                for (j, b) in ladder.into_iter().enumerate() {
                    let wanted = if is_descending { j.cmp(&i) } else { i.cmp(&j) };
                    assert_eq!(compare_key(&key, a, b), wanted, "{a:?} {b:?} {is_descending}");
                }
            }
        }
    }
}
