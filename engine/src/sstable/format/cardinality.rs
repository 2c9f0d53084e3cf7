//! Estimate of how many partitions an SSTable holds (HyperLogLog, 8192 registers), in the form that
//! Cassandra's metadata wants: it lets a reader of several SSTables guess their overlap.

/// Bits of the hash that choose a register.
const PRECISION: u32 = 13;
/// Bits of the hash that the sparse form keeps.
const SPARSE_PRECISION: u32 = 25;
const REGISTERS: usize = 1 << PRECISION;
/// Registers of five bits in one 32-bit word.
const REGISTERS_PER_WORD: usize = 6;
const WORDS: usize = REGISTERS.div_ceil(REGISTERS_PER_WORD);
/// The greatest rank that a register has room for. One key in two billion has a greater one.
const RANK_MAX: u8 = 31;

/// The registers of a growing set of keys.
#[derive(Debug, Clone)]
pub(crate) struct Cardinality {
    registers: Vec<u8>,
}

impl Cardinality {
    pub(crate) fn new() -> Self {
        Cardinality { registers: vec![0; REGISTERS] }
    }

    /// Adds a partition key.
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = murmur2_64(key);
        let register = (hash >> (64 - PRECISION)) as usize;
        let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() as u8 + 1;
        self.registers[register] = self.registers[register].max(rank.min(RANK_MAX));
    }

    /// The rank in each register.
    pub(crate) fn registers(&self) -> &[u8] {
        &self.registers
    }

    /// The key as it stands in the sparse form that other writers use for few keys.
    pub(crate) fn sparse_code(key: &[u8]) -> u32 {
        let hash = murmur2_64(key);
        let index = (hash >> (64 - SPARSE_PRECISION)) as u32;
        if index << (32 - SPARSE_PRECISION + PRECISION) != 0 {
            return index << 1;
        }
        let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() + 1;
        ((index << 6) | (rank ^ 63)) << 1 | 1
    }

    /// Appends the serialised form: version, precisions, format 0 ("normal"), registers.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let before = out.len();
        out.extend_from_slice(&[
            0xff,
            0xff,
            0xff,
            0xfe,
            PRECISION as u8,
            SPARSE_PRECISION as u8,
            0,
        ]);
        // 5464 bytes follow, as LEB128.
        out.extend_from_slice(&[((WORDS * 4) & 0x7f) as u8 | 0x80, ((WORDS * 4) >> 7) as u8]);
        for registers in self.registers.chunks(REGISTERS_PER_WORD) {
            let word = registers
                .iter()
                .enumerate()
                .fold(0u32, |word, (i, rank)| word | u32::from(*rank) << (5 * i));
            let last = registers.iter().max();
            assert!(last <= Some(&RANK_MAX), "a rank of {last:?} takes bits of its neighbours");
            out.extend_from_slice(&word.to_be_bytes());
        }
        assert_eq!(out.len() - before, 9 + 4 * WORDS, "registers take not the bytes announced");
    }
}

/// Austin Appleby's MurmurHash2 for 64 bits with seed 0, in Cassandra's variant: the tail bytes are
/// sign-extended.
fn murmur2_64(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = (key.len() as u64).wrapping_mul(M);
    let mut blocks = key.chunks_exact(8);
    for block in &mut blocks {
        let mut k = u64::from_le_bytes(block.try_into().expect("eight bytes")).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    let tail = blocks.remainder();
    for (i, byte) in tail.iter().enumerate().rev() {
        hash ^= (i64::from(*byte as i8) as u64) << (8 * i);
    }
    if !tail.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of no bytes is zero, which has the greatest rank of all.
    #[test]
    fn a_great_rank_leaves_the_registers_beside_it_alone() {
        let mut cardinality = Cardinality::new();
        cardinality.add(b"");
        let mut out = Vec::new();
        cardinality.encode(&mut out);
        assert_eq!(out[9..13], u32::from(RANK_MAX).to_be_bytes(), "the first six registers");
    }

    #[test]
    fn the_registers_estimate_the_number_of_keys() {
        let mut cardinality = Cardinality::new();
        for key in 0u32..100_000 {
            cardinality.add(&key.to_be_bytes());
        }
        let sum: f64 = cardinality.registers.iter().map(|r| 0.5f64.powi(i32::from(*r))).sum();
        let registers = REGISTERS as f64;
        let estimate = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        assert!((95_000.0..105_000.0).contains(&estimate), "{estimate}");
        let mut out = Vec::new();
        cardinality.encode(&mut out);
        assert_eq!(out.len(), 7 + 2 + 5464);
    }
}
