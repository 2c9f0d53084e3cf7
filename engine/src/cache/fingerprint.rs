//! Hashes of what the cache holds: of keys that the engine numbers, and of the identities that
//! policies see.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers; all come from the engine, or with a seed, so no one can aim at collisions.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

pub(super) type BuildNumberHasher = BuildHasherDefault<NumberHasher>;

impl NumberHasher {
    pub fn with_seed(seed: u64) -> Self {
        NumberHasher(seed)
    }
}

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A bijection that spreads every bit (the finaliser of SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
