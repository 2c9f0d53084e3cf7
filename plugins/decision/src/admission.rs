//! World `cache-admission-policy`: whether what was read on a miss is kept.

use crate::Setup;

/// What was read and could be kept: the words of the contract, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub fingerprint: u64,
    pub size_cost: u64,
    pub ctx: u64,
}

impl Candidate {
    pub fn size_bytes(&self) -> u32 {
        self.size_cost as u32
    }

    /// Expected time to read it again, µs.
    pub fn cost_us(&self) -> u32 {
        (self.size_cost >> 32) as u32
    }

    /// 0 row, 1 index page, …; see the WIT.
    pub fn kind(&self) -> u8 {
        (self.ctx & 0xF) as u8
    }

    /// Keeping it evicts nothing.
    pub fn has_room(&self) -> bool {
        self.ctx >> 4 & 1 == 1
    }

    /// Entries of the same file read in sequence before it.
    pub fn run(&self) -> u16 {
        (self.ctx >> 16) as u16
    }

    pub fn table(&self) -> u32 {
        (self.ctx >> 32) as u32
    }
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was read and was there.
    Read {
        fingerprint: u64,
    },
    Evicted {
        fingerprint: u64,
    },
}

/// The words of `feedback` as fates; what a later host may send besides is left out.
pub fn words_of_fates(words: &[u64]) -> impl Iterator<Item = Fate> + '_ {
    words.as_chunks::<2>().0.iter().filter_map(|[fingerprint, what]| match what & 0xF {
        0 => Some(Fate::Read { fingerprint: *fingerprint }),
        1 => Some(Fate::Evicted { fingerprint: *fingerprint }),
        _ => None,
    })
}

/// A policy of this world.
pub trait AdmissionPolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;
    /// Memory per entry that the cache can hold, bytes, checked against the host's cap at load.
    const BYTES_PER_SLOT: u32;
    /// Whether [`feedback`](Self::feedback) is wanted; it costs some ns a hit.
    const WANTS_FEEDBACK: bool = false;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// Whether it is kept.
    fn admit(&mut self, candidate: &Candidate) -> bool;

    /// What became of an entry.
    fn feedback(&mut self, _fate: Fate) {}

    /// Figures for people.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_contract_puts_them() {
        let ctx = 0x0000_0003_0102_0014;
        let candidate = Candidate { fingerprint: 9, size_cost: 0x0000_0064_0000_1000, ctx };
        assert_eq!((candidate.size_bytes(), candidate.cost_us()), (4096, 100));
        assert_eq!((candidate.kind(), candidate.has_room()), (4, true));
        assert_eq!((candidate.run(), candidate.table()), (0x0102, 3));
        let fates: Vec<Fate> = words_of_fates(&[5, 0x40, 6, 1, 7, 2]).collect();
        assert_eq!(fates, [Fate::Read { fingerprint: 5 }, Fate::Evicted { fingerprint: 6 }]);
    }
}
