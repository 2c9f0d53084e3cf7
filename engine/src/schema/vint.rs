//! Integers of varying length as Cassandra writes them into values and files.
//!
//! A `vint` has as many leading one-bits in its first byte as bytes follow; an `svint` is a
//! zigzagged vint.

/// Appends an unsigned vint in its shortest form.
#[inline]
pub fn put_vint(out: &mut Vec<u8>, value: u64) {
    // Most are lengths, flags and small differences.
    match value {
        0..0x80 => out.push(value as u8),
        0x80..0x4000 => out.extend_from_slice(&(0x8000 | value as u16).to_be_bytes()),
        _ => put_long_vint(out, value),
    }
}

fn put_long_vint(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    if bits > 56 {
        out.push(0xff);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    let length = bits.div_ceil(7);
    let mut bytes = value.to_be_bytes();
    let first = 8 - length;
    bytes[first] |= (0xff00_u16 >> (length - 1)) as u8;
    out.extend_from_slice(&bytes[first..]);
}

/// Appends a signed vint.
pub fn put_svint(out: &mut Vec<u8>, value: i64) {
    put_vint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The number whose first byte is `first` and whose other bytes are `tail`.
pub fn vint_of(first: u8, tail: &[u8]) -> u64 {
    let start = if tail.len() >= 8 { 0 } else { u64::from(first & (0xff >> tail.len())) };
    tail.iter().fold(start, |value, byte| value << 8 | u64::from(*byte))
}

/// Undoes the zigzag of a signed vint.
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes a signed vint from the front of `bytes`.
pub fn take_svint(bytes: &mut &[u8]) -> Option<i64> {
    let (&first, rest) = bytes.split_first()?;
    let length = first.leading_ones() as usize;
    let tail = rest.get(..length)?;
    *bytes = &rest[length..];
    Some(unzigzag(vint_of(first, tail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length, as bits that stand in order behind as many ones as bytes follow.
    #[test]
    fn the_shortest_form_is_written() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) - 1, u64::MAX >> bits, (1 << bits) + 1] {
                let mut out = vec![7];
                put_vint(&mut out, value);
                assert_eq!(out.remove(0), 7, "what was there before");
                let used = 64 - value.leading_zeros() as usize;
                let length = if used > 56 { 9 } else { used.max(1).div_ceil(7) };
                assert_eq!(out.len(), length, "{value:#x}");
                assert_eq!(out[0].leading_ones() as usize, length - 1, "{value:#x}");
                assert_eq!(vint_of(out[0], &out[1..]), value);
            }
        }
    }

    #[test]
    fn signed_numbers_survive_and_truncations_are_noticed() {
        for bit in 0..63 {
            for value in [1i64 << bit, -(1i64 << bit), i64::MAX >> bit, i64::MIN >> bit] {
                let mut out = Vec::new();
                put_svint(&mut out, value);
                assert_eq!(take_svint(&mut out.as_slice()), Some(value));
                for length in 0..out.len() {
                    assert_eq!(take_svint(&mut &out[..length]), None);
                }
            }
        }
    }
}
