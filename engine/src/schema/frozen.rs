//! Collections, tuples and user types as one value.
//!
//! ```text
//! list, set := i32 n, n x (i32 length, bytes)      map := i32 n, n x (key, value), each with length
//! tuple     := (i32 length or -1 for null, bytes)*  the last fields may be missing: they are null
//! ```

use super::order::encode_component;
use super::table_schema::ClusteringOrder;
use super::types::DataType;
use super::value::Value;
use crate::error::Result;

/// Takes one element with its length off the front; `None` inside is null.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = i32::from_be_bytes(*length);
    if length < 0 {
        *bytes = rest;
        return Some(None);
    }
    let (element, rest) = rest.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(Some(element))
}

/// Elements of a frozen list or set, or keys and values of a map in turn (`per_entry` 2); `None`
/// when the bytes are none.
pub fn elements(bytes: &[u8], per_entry: usize) -> Option<Vec<Option<&[u8]>>> {
    let (count, mut rest) = bytes.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?.checked_mul(per_entry)?;
    if count > rest.len() / 4 {
        return None;
    }
    let elements: Option<Vec<_>> = (0..count).map(|_| take(&mut rest)).collect();
    elements.filter(|_| rest.is_empty())
}

/// The fields of a tuple or user type of `count` fields; `None` when the bytes are none.
pub fn fields(mut bytes: &[u8], count: usize) -> Option<Vec<Option<&[u8]>>> {
    let mut fields = Vec::with_capacity(count);
    while !bytes.is_empty() {
        if fields.len() == count {
            return None;
        }
        fields.push(take(&mut bytes)?);
    }
    fields.resize(count, None);
    Some(fields)
}

/// Appends one element with its length.
pub fn put(element: Option<&[u8]>, out: &mut Vec<u8>) {
    let length = element
        .map_or(-1, |bytes| i32::try_from(bytes.len()).expect("a value is far shorter than 2 GiB"));
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(element.unwrap_or_default());
}

/// Appends a whole collection of `count` entries.
pub fn put_all<'a>(
    count: usize,
    elements: impl IntoIterator<Item = Option<&'a [u8]>>,
    out: &mut Vec<u8>,
) {
    let count = i32::try_from(count).expect("a value is far shorter than 2 GiB");
    out.extend_from_slice(&count.to_be_bytes());
    elements.into_iter().for_each(|element| put(element, out));
}

/// The ordered form of a value of type `ty`.
fn rank(ty: &DataType, value: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode_component(ty, ClusteringOrder::Ascending, &value.to_bytes(), &mut out)?;
    Ok(out)
}

/// A set of these elements: in their order, each once.
///
/// Errors: `Invalid` for a value that is none of type `element`.
pub fn set_of(element: &DataType, values: Vec<Value>) -> Result<Value> {
    let mut ranked = Vec::with_capacity(values.len());
    for value in values {
        ranked.push((rank(element, &value)?, value));
    }
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    ranked.dedup_by(|(a, _), (b, _)| a == b);
    Ok(Value::Set(ranked.into_iter().map(|(_, value)| value).collect()))
}

/// A map of these entries: in the order of their keys, of two with one key the last.
///
/// Errors: `Invalid` for a key that is none of type `key`.
pub fn map_of(key: &DataType, entries: Vec<(Value, Value)>) -> Result<Value> {
    let mut ranked = Vec::with_capacity(entries.len());
    for (place, entry) in entries.into_iter().enumerate() {
        ranked.push((rank(key, &entry.0)?, std::cmp::Reverse(place), entry));
    }
    ranked.sort_by(|(a, p, _), (b, q, _)| (a, p).cmp(&(b, q)));
    ranked.dedup_by(|(a, ..), (b, ..)| a == b);
    Ok(Value::Map(ranked.into_iter().map(|(_, _, entry)| entry).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_values_are_refused_without_allocating() {
        assert_eq!(elements(&[0, 0, 0, 0], 1), Some(vec![]));
        assert_eq!(elements(&[0, 0, 0, 0, 9], 1), None);
        assert_eq!(elements(&[0x7f, 0xff, 0xff, 0xff], 2), None);
        assert_eq!(elements(&[0xff, 0xff, 0xff, 0xff], 1), None);
        assert_eq!(elements(&[0, 0, 0, 1, 0, 0, 0, 2, 7], 1), None);
        assert_eq!(fields(&[], 2), Some(vec![None, None]));
        assert_eq!(fields(&[0, 0, 0, 1, 7], 2), Some(vec![Some(&[7][..]), None]));
        assert_eq!(fields(&[0xff; 8], 1), None);
        assert_eq!(fields(&[0, 0], 1), None);
    }

    #[test]
    fn sets_and_maps_are_put_in_order() {
        let ints = |ints: &[i32]| ints.iter().map(|i| Value::Int(*i)).collect::<Vec<_>>();
        let set = set_of(&DataType::Int, ints(&[3, -1, 3, 2])).unwrap();
        assert_eq!(set, Value::Set(ints(&[-1, 2, 3])));
        let text = |text: &str| Value::Text(text.into());
        let entries = vec![
            (text("b"), Value::Int(1)),
            (text("a"), Value::Int(2)),
            (text("b"), Value::Int(3)),
        ];
        let map = map_of(&DataType::Text, entries).unwrap();
        assert_eq!(map, Value::Map(vec![(text("a"), Value::Int(2)), (text("b"), Value::Int(3))]));
    }
}
