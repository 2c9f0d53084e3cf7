//! The bytes of a key: in place where they are few, and most keys are.
//!
//! Numbers, timestamps, UUIDs and short names need no memory of their own, so that making, copying
//! and comparing such keys asks neither the allocator nor another line of memory.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Bytes in place: what makes the type three words long.
const SHORT_BYTES_MAX: usize = 22;

/// Bytes that do not change.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeyBytes(Form);

/// There is one for each length, and behind a short one's bytes are zeros: equal bytes have equal
/// forms.
#[derive(Clone, PartialEq, Eq)]
enum Form {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<KeyBytes>() == 3 * size_of::<usize>());

impl KeyBytes {
    #[inline]
    pub(super) fn new(all: &[u8]) -> Self {
        let mut bytes = [0; SHORT_BYTES_MAX];
        match bytes.get_mut(..all.len()) {
            Some(start) => {
                start.copy_from_slice(all);
                KeyBytes(Form::Short { length: all.len() as u8, bytes })
            }
            None => KeyBytes(Form::Long(all.into())),
        }
    }
}

impl KeyBytes {
    /// Bytes that do not stand in place.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Short { .. } => 0,
            Form::Long(bytes) => bytes.len(),
        }
    }
}

impl Default for KeyBytes {
    fn default() -> Self {
        KeyBytes::new(&[])
    }
}

impl Deref for KeyBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::Short { length, bytes } => &bytes[..usize::from(*length)],
            Form::Long(bytes) => bytes,
        }
    }
}

impl Ord for KeyBytes {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl PartialOrd for KeyBytes {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for KeyBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    #[test]
    fn they_are_the_bytes_that_they_were_made_of() {
        let mut random = Random::new(1);
        let mut all = Vec::new();
        for length in [0, 1, 2, 8, 21, 22, 23, 24, 100] {
            for _ in 0..20 {
                // Few values, so that some are alike up to their length.
                let bytes: Vec<u8> = (0..length).map(|_| random.below(2) as u8).collect();
                all.push(bytes);
            }
        }
        for a in &all {
            let own = KeyBytes::new(a);
            assert_eq!(&*own.clone(), &a[..]);
            for b in &all {
                let other = KeyBytes::new(b);
                assert_eq!((own == other, own.cmp(&other)), (a == b, a.cmp(b)), "{a:?} {b:?}");
            }
        }
    }
}
