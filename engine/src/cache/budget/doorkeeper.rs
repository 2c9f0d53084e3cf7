//! Doorkeeper: a lossy set of recently requested keys. It lets the cache keep some things only on
//! their second request.
//!
//! The key's hash picks a place in a table of tags, and a newer key replaces an older one. So the
//! set forgets sooner the more different keys arrive. It confuses two keys once in four billion
//! times. It is the doorkeeper of TinyLFU (Einziger, Friedman, Manes 2017) with 2Q's bound on how
//! far back it sees (Johnson, Shasha 1994): half as many keys as fit the cache. Not here: what is
//! kept (`mod.rs`).

/// Bytes of the cache for each key that is remembered: two of what a key stands for, about (a short
/// partition, whole).
const CACHE_BYTES_A_KEY: u64 = 16 << 10;
/// Keys that are remembered at most, 256 KiB of tags, and at least.
const KEYS_MAX: u64 = 1 << 16;
const KEYS_MIN: u64 = 64;

/// See the head of this file.
pub(super) struct Doorkeeper {
    tags: Box<[u32]>,
}

impl Doorkeeper {
    /// For a cache of so many bytes.
    pub fn new(capacity_bytes: u64) -> Self {
        let keys = (capacity_bytes / CACHE_BYTES_A_KEY).clamp(KEYS_MIN, KEYS_MAX);
        Doorkeeper { tags: vec![0; keys.next_power_of_two() as usize].into() }
    }

    /// Whether the key with this hash was asked for lately; it is remembered now.
    pub fn is_known(&mut self, hash: u64) -> bool {
        debug_assert!(self.tags.len().is_power_of_two(), "a mask picks every place");
        let place = hash as usize & (self.tags.len() - 1);
        // No tag is 0, as a place without key is.
        let tag = (hash >> 32) as u32 | 1;
        debug_assert_ne!(tag, 0, "0 is a place without key");
        std::mem::replace(&mut self.tags[place], tag) == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    #[test]
    fn a_key_is_known_the_second_time_and_forgotten_behind_many_others() {
        let mut random = Random::new(1);
        let mut doorkeeper = Doorkeeper::new(64 << 20);
        let keys: Vec<u64> = (0..1000).map(|_| random.next_u64()).collect();
        assert!(!keys.iter().any(|key| doorkeeper.is_known(*key)), "the first time");
        let known = keys.iter().filter(|key| doorkeeper.is_known(**key)).count();
        assert!((700..=1000).contains(&known), "{known}: some took each other's place");
        let others = (0..100_000).filter(|_| doorkeeper.is_known(random.next_u64())).count();
        assert!(others < 2, "{others}");
        assert!(!keys.iter().any(|key| doorkeeper.is_known(*key)), "long ago");
    }

    #[test]
    fn it_remembers_half_of_what_fits_within_bounds() {
        let keys = |capacity| Doorkeeper::new(capacity).tags.len();
        assert_eq!([0, 64 << 20, 1 << 40].map(keys), [64, 4096, 1 << 16]);
    }
}
