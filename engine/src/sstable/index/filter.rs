//! Bloom filter over partition keys, with Cassandra's bits.

use crate::mutation::PartitionRange;
use crate::schema::PartitionKey;
use crate::schema::token::{KeyHash, murmur3_x64_128};
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::component::Version;

/// Most hash functions that a stored filter may ask for.
const HASHES_MAX: u32 = 64;

/// A partition key with what filters want of it, hashed once for all of them.
#[derive(Clone, Copy)]
pub struct HashedKey<'a> {
    pub(crate) key: &'a PartitionKey,
    pub(crate) hash: KeyHash,
}

impl<'a> HashedKey<'a> {
    pub fn of(key: &'a PartitionKey) -> Self {
        HashedKey { key, hash: murmur3_x64_128(key.as_bytes()) }
    }

    /// The key of a range that is a single partition.
    pub fn of_range(range: &'a PartitionRange) -> Option<Self> {
        match range {
            PartitionRange::Single(key) => Some(HashedKey::of(key)),
            PartitionRange::Tokens { .. } => None,
        }
    }
}

/// A set of partition keys that may say "perhaps" for a key it does not hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BloomFilter {
    hash_count: u32,
    words: Vec<u64>,
}

impl BloomFilter {
    /// An empty filter for `keys` keys of which `fp_chance` (0 to 1) others may pass.
    pub(crate) fn new(keys: u64, fp_chance: f64) -> Self {
        let (bits_per_key, hash_count) = dimensions(fp_chance);
        assert!(
            (1..=HASHES_MAX).contains(&hash_count),
            "a filter of {hash_count} functions could not be read back"
        );
        let words = ((keys * bits_per_key + 19) >> 6) + 1;
        BloomFilter { hash_count, words: vec![0; words as usize] }
    }

    /// Bytes of memory that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    fn bits(&self, KeyHash { first, second }: KeyHash) -> impl Iterator<Item = usize> + use<> {
        let bits = self.words.len() as i64 * 64;
        (0..self.hash_count).scan(second, move |hash, _| {
            let bit = (*hash % bits).unsigned_abs() as usize;
            *hash = hash.wrapping_add(first);
            Some(bit)
        })
    }

    /// Adds a key by its hash.
    pub(crate) fn add(&mut self, hash: KeyHash) {
        for bit in self.bits(hash) {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
        debug_assert!(self.may_contain_hash(hash), "{hash:?} was added and is not there");
    }

    /// False when the key was never added.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(murmur3_x64_128(key))
    }

    /// As [`may_contain`](Self::may_contain), of a key that is hashed already.
    pub(crate) fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.bits(hash).all(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// A filter of the same size without keys.
    pub(crate) fn emptied(&self) -> Self {
        BloomFilter { hash_count: self.hash_count, words: vec![0; self.words.len()] }
    }

    /// The first word in which another filter of the same size differs, and its bits there and
    /// here.
    pub(crate) fn difference(&self, other: &BloomFilter) -> Option<(usize, u64, u64)> {
        assert_eq!(self.words.len(), other.words.len(), "filters of two sizes are compared");
        let mut words = self.words.iter().zip(&other.words).enumerate();
        words.find(|(_, (a, b))| a != b).map(|(at, (a, b))| (at, *b, *a))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash_count.to_be_bytes());
        out.extend_from_slice(&(self.words.len() as u32).to_be_bytes());
        for word in &self.words {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads a whole `Filter.db`. Its words are big-endian up to `me` and little-endian after.
    pub(crate) fn decode(bytes: &[u8], version: Version) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let hash_count = input.u32()?;
        if !(1..=HASHES_MAX).contains(&hash_count) {
            let found = hash_count.to_string();
            return Err(Fault::bad(0, "1 to 64 hash functions", found));
        }
        let count = input.count32()?;
        if count == 0 {
            return Err(input.bad("at least one word of bits", "none"));
        }
        let word = match version {
            Version::Mc | Version::Md | Version::Me => u64::from_be_bytes,
            Version::Nb => u64::from_le_bytes,
        };
        let words = input.items(count, 8, |input| Ok(word(input.array()?)))?;
        if input.remaining() != 0 {
            return Err(input.bad("the end of the filter", format!("{} bytes", input.remaining())));
        }
        Ok(BloomFilter { hash_count, words })
    }
}

/// Bits per key and number of hash functions for a false-positive chance: the fewest bits first,
/// then the fewest functions (Cassandra's rule).
fn dimensions(fp_chance: f64) -> (u64, u32) {
    let chance = |bits: u64, hashes: u32| {
        (1.0 - (-f64::from(hashes) / bits as f64).exp()).powi(hashes as i32)
    };
    for bits in 2..=20 {
        if let Some(hashes) = (1..=15).find(|hashes| chance(bits, *hashes) <= fp_chance) {
            return (bits, hashes);
        }
    }
    (20, 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_forgotten_and_few_others_pass() {
        let mut filter = BloomFilter::new(1000, 0.01);
        assert_eq!((filter.hash_count, filter.words.len()), (5, 157));
        for key in 0u32..1000 {
            filter.add(murmur3_x64_128(&key.to_be_bytes()));
        }
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(BloomFilter::decode(&bytes, Version::Me), Ok(filter.clone()));
        assert!((0u32..1000).all(|key| filter.may_contain(&key.to_be_bytes())));
        let passed = (1000u32..11_000).filter(|key| filter.may_contain(&key.to_be_bytes())).count();
        assert!((20..250).contains(&passed), "{passed} of 10,000 pass");
    }

    #[test]
    fn a_filter_has_the_bits_and_functions_that_its_chance_needs() {
        for (chance, bits, hashes) in [
            (0.9, 2, 1),
            (0.1, 5, 3),
            (0.01, 10, 5),
            (0.001, 15, 8),
            (0.000_07, 20, 13),
            (0.000_001, 20, 14),
        ] {
            assert_eq!(dimensions(chance), (bits, hashes), "{chance}");
        }
        // 20 bits more than the keys need, in whole words, and always one.
        for (keys, words) in [(0, 1), (4, 1), (5, 2), (10, 2), (11, 3), (1000, 157)] {
            assert_eq!(BloomFilter::new(keys, 0.01).words.len(), words, "{keys}");
        }
    }

    #[test]
    fn words_are_read_in_the_order_of_their_version_and_odd_filters_are_refused() {
        let mut filter = BloomFilter::new(100, 0.1);
        (0u32..100).for_each(|key| filter.add(murmur3_x64_128(&key.to_be_bytes())));
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        let mut turned = bytes.clone();
        turned[8..].chunks_mut(8).for_each(<[u8]>::reverse);
        assert_ne!(turned, bytes);
        for version in Version::ALL {
            let own = if version == Version::Nb { &turned } else { &bytes };
            assert_eq!(BloomFilter::decode(own, version), Ok(filter.clone()), "{version:?}");
            let other = if version == Version::Nb { &bytes } else { &turned };
            assert_ne!(BloomFilter::decode(other, version), Ok(filter.clone()), "{version:?}");
            let head = |hashes: u32, words: u32| {
                [&hashes.to_be_bytes()[..], &words.to_be_bytes(), &[0; 8]].concat()
            };
            for (odd, is_read) in [
                (head(0, 1), false),
                (head(1, 1), true),
                (head(64, 1), true),
                (head(65, 1), false),
                (head(1, 0), false),
                (head(1, 2), false),
                ([head(1, 1), vec![0]].concat(), false),
                (head(1, 1)[..15].to_vec(), false),
            ] {
                let found = BloomFilter::decode(&odd, version);
                assert_eq!(found.is_ok(), is_read, "{version:?} {odd:?}: {found:?}");
            }
        }
        // The first word that is not as in the other one is told, with both.
        let mut other = filter.clone();
        assert_eq!(filter.difference(&other), None);
        other.words[3] ^= 1;
        other.words[5] ^= 1;
        let told = Some((3, filter.words[3] ^ 1, filter.words[3]));
        assert_eq!(filter.difference(&other), told);
        let emptied = filter.emptied();
        assert_eq!(emptied.words, vec![0; filter.words.len()]);
        assert_eq!(emptied.hash_count, filter.hash_count);
    }
}
