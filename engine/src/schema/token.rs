//! Token of a partition key, and the shard that owns a token.
//!
//! Murmur3 x64 128 by Austin Appleby, first word, in Cassandra's variant: the tail bytes are
//! sign-extended before they are shifted. Sharding is ScyllaDB's biased-token rule.

use serde::{Deserialize, Serialize};

/// Top bits of the biased token that do not take part in sharding.
const SHARDING_IGNORE_MSB: u32 = 12;

/// Position of a partition on the ring. `i64::MIN` is the ring's minimum and never a key's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub i64);

impl Token {
    pub const MIN: Token = Token(i64::MIN);
    pub const MAX: Token = Token(i64::MAX);

    /// Token of the serialised partition key.
    pub fn of(key: &[u8]) -> Token {
        if key.is_empty() {
            return Token::MIN;
        }
        let KeyHash { first, .. } = murmur3_x64_128(key);
        Token(if first == i64::MIN { i64::MAX } else { first })
    }

    /// The shard, of `shard_count`, that owns this token.
    pub fn shard(self, shard_count: u32) -> u32 {
        assert!(shard_count > 0, "a database has at least one shard");
        let biased = (self.0 as u64).wrapping_add(1 << 63) << SHARDING_IGNORE_MSB;
        ((u128::from(biased) * u128::from(shard_count)) >> 64) as u32
    }
}

/// Both words of the hash of a partition key: the first is the token, both feed the bloom filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash {
    pub first: i64,
    pub second: i64,
}

/// Cassandra's Murmur3 of `key` with seed 0.
pub fn murmur3_x64_128(key: &[u8]) -> KeyHash {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let (mut h1, mut h2) = (0u64, 0u64);
    let mut blocks = key.chunks_exact(16);
    for block in &mut blocks {
        let k1 = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
        let k2 = u64::from_le_bytes(block[8..].try_into().expect("eight bytes"));
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    let signed = |i: usize| i64::from(tail[i] as i8) as u64;
    let (mut k1, mut k2) = (0u64, 0u64);
    for i in (8..tail.len()).rev() {
        k2 ^= signed(i) << ((i - 8) * 8);
    }
    if tail.len() > 8 {
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    }
    for i in (0..tail.len().min(8)).rev() {
        k1 ^= signed(i) << (i * 8);
    }
    if !tail.is_empty() {
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    }
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finalise(h1);
    h2 = finalise(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    KeyHash { first: h1 as i64, second: h2 as i64 }
}

fn finalise(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// A key of 16 bytes with this token; each `salt` gives another. Murmur3 can be turned back where a
/// key is one block.
#[cfg(test)]
pub(crate) fn key_with_token(token: Token, salt: u64) -> [u8; 16] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |found, _| found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found))))
    }
    fn unfinalise(mut k: u64) -> u64 {
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        k ^ (k >> 33)
    }
    let first = unfinalise((token.0 as u64).wrapping_sub(salt));
    let second = unfinalise(salt).wrapping_sub(first);
    let (h1, h2) = (first.wrapping_sub(second) ^ 16, second ^ 16);
    let unmixed = |h: u64, added: u64| h.wrapping_sub(added).wrapping_mul(inverse(5));
    let k1 = unmixed(h1, 0x52dc_e729).rotate_right(27);
    let k2 = unmixed(h2, 0x3849_5ab5).wrapping_sub(h1).rotate_right(31);
    let k1 = k1.wrapping_mul(inverse(C2)).rotate_right(31).wrapping_mul(inverse(C1));
    let k2 = k2.wrapping_mul(inverse(C1)).rotate_right(33).wrapping_mul(inverse(C2));
    let mut key = [0; 16];
    key[..8].copy_from_slice(&k1.to_le_bytes());
    key[8..].copy_from_slice(&k2.to_le_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_for_a_token() {
        for token in [1, -1, i64::MAX, i64::MIN + 1, 3_800_936_181_069_870_590].map(Token) {
            let keys = [0, 1, 77, u64::MAX].map(|salt| key_with_token(token, salt));
            assert!(keys.iter().all(|key| Token::of(key) == token), "{token:?}: {keys:?}");
            assert!(keys.iter().all(|key| keys.iter().filter(|other| *other == key).count() == 1));
        }
    }

    /// As ScyllaDB's rule gives them, computed apart from this code: should a later version place a
    /// token elsewhere, it would look for what an earlier one wrote on the wrong shard.
    #[test]
    fn tokens_stay_on_their_shards() {
        const COUNTS: [u32; 8] = [1, 2, 3, 7, 8, 16, 61, 256];
        let golden: [(i64, [u32; 8]); 10] = [
            (i64::MIN, [0; 8]),
            (-9_223_370_937_343_148_031, [0; 8]),
            (-7_509_452_495_886_106_294, [0, 1, 1, 3, 4, 9, 34, 145]),
            (-4_069_959_284_402_364_209, [0, 0, 0, 2, 2, 4, 17, 73]),
            (-1, [0, 1, 2, 6, 7, 15, 60, 255]),
            (0, [0; 8]),
            (4_611_686_018_427_387_904, [0; 8]),
            (3_800_936_181_069_870_590, [0, 1, 2, 6, 7, 15, 59, 250]),
            (8_949_061_330_183_437_001, [0, 0, 0, 0, 0, 1, 5, 23]),
            (i64::MAX, [0, 1, 2, 6, 7, 15, 60, 255]),
        ];
        for (token, shards) in golden {
            let found = COUNTS.map(|count| Token(token).shard(count));
            assert_eq!(found, shards, "shards of token {token} among {COUNTS:?}");
        }
        // From key to shard, for keys as clients write them.
        let of_key = |key: &[u8]| [2, 7, 61].map(|count| Token::of(key).shard(count));
        assert_eq!(of_key(&1i32.to_be_bytes()), [0, 2, 17]);
        assert_eq!(of_key(b"key00001"), [1, 6, 59]);
    }

    /// No key has the least token: a range of all tokens begins there.
    #[test]
    fn the_least_hash_gives_the_greatest_token() {
        for salt in [0, 1, 77] {
            let key = key_with_token(Token(i64::MIN), salt);
            assert_eq!((murmur3_x64_128(&key).first, Token::of(&key)), (i64::MIN, Token::MAX));
        }
    }

    /// Values that Cassandra itself computes for these keys.
    #[test]
    fn tokens_equal_cassandras() {
        assert_eq!(Token::of(&1i32.to_be_bytes()).0, -4_069_959_284_402_364_209);
        assert_eq!(
            murmur3_x64_128(b"key00001"),
            KeyHash { first: 3_800_936_181_069_870_590, second: -7_015_194_780_030_235_962 }
        );
        assert_eq!(
            murmur3_x64_128(&[0xff; 5]),
            KeyHash { first: -8_869_521_063_059_112_040, second: 1_608_365_581_643_023_457 }
        );
        let high_bytes: Vec<u8> = (0x80..=0x95).collect();
        assert_eq!(
            murmur3_x64_128(&high_bytes),
            KeyHash { first: 7_542_982_577_064_699_236, second: -8_916_059_176_110_126_756 }
        );
    }

    #[test]
    fn every_token_has_a_shard_and_one_shard_owns_all() {
        for shard_count in 1..9 {
            let mut seen = vec![0u32; shard_count as usize];
            for key in 0u32..2000 {
                seen[Token::of(&key.to_be_bytes()).shard(shard_count) as usize] += 1;
            }
            assert!(seen.iter().all(|&n| n > 100), "{shard_count} shards: {seen:?}");
        }
        assert_eq!(Token::MAX.shard(1), 0);
        assert_eq!(Token(i64::MIN + 1).shard(4), 0);
    }
}
