//! Collections, tuples and user types as one value.
//!
//! ```text
//! list, set := i32 n, n x (i32 length, bytes)      map := i32 n, n x (key, value), each with length
//! tuple     := (i32 length or -1 for null, bytes)*  the last fields may be missing: they are null
//! ```

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
}
