//! Numbers and byte strings of the SSTable format, written and read.
//!
//! All integers are big-endian. A `vint` has as many leading one-bits in its first byte as bytes
//! follow; an `svint` is a zigzagged vint. Reading trusts nothing: it checks a length against the
//! available bytes before it uses it, and returns a [`Fault`] instead of a panic.

use std::path::Path;

use crate::error::Error;
pub(crate) use crate::schema::vint::{put_svint, put_vint};
use crate::schema::vint::{unzigzag, vint_of};

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The input ends too early; it needs at least `needed` bytes, counted from its start.
    Short { needed: u64 },
    /// Byte `at` of the input is not what must stand there. Boxed, for what is read byte by byte
    /// has a fault in its result each time.
    Bad { at: u64, what: Box<Misfit> },
}

const _: () = assert!(size_of::<Parsed<u64>>() <= 24);

/// What must stand in a place, and what does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) wanted: String,
    pub(crate) found: String,
}

pub(crate) type Parsed<T> = std::result::Result<T, Fault>;

impl Fault {
    /// Byte `at` of the input is not what must stand there.
    #[cold]
    pub(crate) fn bad(at: u64, wanted: impl Into<String>, found: impl ToString) -> Self {
        let what = Misfit { wanted: wanted.into(), found: found.to_string() };
        Fault::Bad { at, what: Box::new(what) }
    }

    /// A fault within a part of `size` bytes at `base`, as one of the whole: the part cannot be
    /// made longer, and `wanted` says how many bytes it must have.
    pub(crate) fn within(self, (base, size): (u64, u64), wanted: impl Fn(u64) -> String) -> Self {
        match self {
            Fault::Short { needed } => Fault::bad(base, wanted(needed), format!("{size} bytes")),
            Fault::Bad { at, what } => Fault::Bad { at: base + at, what },
        }
    }

    /// The error for an input that started at `base` of `file` and cannot be made longer.
    pub(crate) fn into_error(self, file: &Path, base: u64) -> Error {
        match self {
            Fault::Short { needed } => {
                Error::corrupt(file, base, format!("{needed} bytes"), "the end of what is stored")
            }
            Fault::Bad { at, what } => {
                Error::corrupt(file, base.saturating_add(at), what.wanted, what.found)
            }
        }
    }
}

/// Appends a byte string with a vint length.
pub(super) fn put_vbytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_vint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a byte string with a u16 length. Panics over 65,535 bytes: the caller has checked.
pub(crate) fn put_bytes16(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("the caller keeps to 65,535 bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a byte string with an i32 length. Panics over 2 GiB: the caller has checked.
pub(crate) fn put_bytes32(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = i32::try_from(bytes.len()).expect("the caller keeps to 2 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A place in bytes that are being read.
#[derive(Debug, Clone)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes not yet read.
    pub(crate) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// A fault at the place reached.
    pub(crate) fn bad(&self, wanted: impl Into<String>, found: impl ToString) -> Fault {
        Fault::bad(self.at(), wanted, found)
    }

    #[inline]
    pub(crate) fn take(&mut self, length: u64) -> Parsed<&'a [u8]> {
        if length > self.remaining() {
            return Err(Fault::Short { needed: self.at().saturating_add(length) });
        }
        let taken = &self.bytes[self.at..self.at + length as usize];
        self.at += length as usize;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        Ok(self.take(N as u64)?.try_into().expect("take gives the length asked for"))
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Parsed<u8> {
        let Some(byte) = self.bytes.get(self.at) else {
            return Err(Fault::Short { needed: self.at() + 1 });
        };
        self.at += 1;
        Ok(*byte)
    }

    pub(crate) fn u16(&mut self) -> Parsed<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Parsed<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Parsed<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Parsed<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Parsed<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn vint(&mut self) -> Parsed<u64> {
        let first = self.u8()?;
        // Most are short.
        if first < 0x80 { Ok(u64::from(first)) } else { self.long_vint(first) }
    }

    fn long_vint(&mut self, first: u8) -> Parsed<u64> {
        let extra = u64::from(first.leading_ones());
        debug_assert!(extra > 0, "{first:#04x} begins a short vint");
        Ok(vint_of(first, self.take(extra)?))
    }

    pub(crate) fn svint(&mut self) -> Parsed<i64> {
        Ok(unzigzag(self.vint()?))
    }

    pub(crate) fn bytes16(&mut self) -> Parsed<&'a [u8]> {
        let length = self.u16()?;
        self.take(u64::from(length))
    }

    pub(crate) fn bytes32(&mut self) -> Parsed<&'a [u8]> {
        let length = self.count32()?;
        self.take(length)
    }

    pub(crate) fn vbytes(&mut self) -> Parsed<&'a [u8]> {
        let length = self.vint()?;
        self.take(length)
    }

    /// An i32 that counts something.
    pub(crate) fn count32(&mut self) -> Parsed<u64> {
        let at = self.at();
        let count = self.i32()?;
        u64::try_from(count).map_err(|_| Fault::bad(at, "a count", count))
    }

    /// Reads `count` items of at least `item_bytes` bytes each; the count is checked against what
    /// is left before anything is allocated.
    pub(crate) fn items<T>(
        &mut self,
        count: u64,
        item_bytes: u64,
        mut read: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let wanted = count.saturating_mul(item_bytes);
        if wanted > self.remaining() {
            return Err(Fault::Short { needed: self.at().saturating_add(wanted) });
        }
        let mut items = Vec::with_capacity(count as usize);
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vints_have_the_known_bytes() {
        let cases: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16383, &[0xbf, 0xff]),
            (16384, &[0xc0, 0x40, 0]),
            ((1 << 56) - 1, &[0xfe, 255, 255, 255, 255, 255, 255, 255]),
            (1 << 56, &[0xff, 1, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            put_vint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(Input::new(bytes).vint(), Ok(value));
        }
        for (value, bytes) in [(-1, &[1][..]), (1, &[2]), (-61440, &[0xc1, 0xdf, 0xff])] {
            let mut out = Vec::new();
            put_svint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(Input::new(bytes).svint(), Ok(value));
        }
    }

    #[test]
    fn every_width_of_vint_survives_and_every_truncation_is_short() {
        for bit in 0..64 {
            for value in [1u64 << bit, (1u64 << bit) - 1, u64::MAX >> bit] {
                let mut out = Vec::new();
                put_vint(&mut out, value);
                assert_eq!(Input::new(&out).vint(), Ok(value));
                for length in 0..out.len() {
                    assert!(matches!(Input::new(&out[..length]).vint(), Err(Fault::Short { .. })));
                }
            }
        }
    }

    #[test]
    fn huge_lengths_allocate_nothing() {
        let mut input = Input::new(&[0xff, 0xff, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(input.vbytes(), Err(Fault::Short { needed: u64::MAX }));
        let mut input = Input::new(&[1, 2, 3]);
        assert!(input.items(u64::MAX, 8, |i| i.u8()).is_err());
    }
}
