//! Admission: an entry is kept when it was read at least as often lately as what was evicted lately.
//!
//! Source: TinyLFU (Einziger, Friedman, Manes, ToS 2017). There the candidate is compared with the
//! victim; here the victim is the eviction policy's and not known yet, so the mean of the last victims
//! stands for it. A doorkeeper of one bit keeps what is read once out of the counts.
//!
//! Memory: 16 counters of four bits an entry of the cache at most.
//!
//! Invariant: state is of fixed size; while there is room, everything is kept.

use tidegate_plugin_decision::{AdmissionPolicy, Candidate, Fate, Setup};

tidegate_plugin_decision::export_admission!(Doorkeeper, "../../wit/v0.1");

/// Counters a row, for each entry of the cache.
const COUNTERS_PER_SLOT: u64 = 2;
const ROWS: usize = 4;
const COUNTER_MAX: u8 = 15;
/// Odd multipliers, one a row.
const MULTIPLIERS: [u64; ROWS] =
    [0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB, 0xD6E8_FEB8_6659_FD93];
/// Reads for each entry of the cache after which counts are halved.
const PERIOD_PER_SLOT: u64 = 10;
/// The mean of victims is kept in sixteenths and moves by a sixteenth.
const MEAN_SHIFT: u32 = 4;

/// The policy of one shard.
#[derive(Debug)]
pub struct Doorkeeper {
    /// Row after row, a byte a counter: half of it is not used, and none is shifted.
    counters: Vec<u8>,
    row: usize,
    /// Whether it was seen since the last halving.
    door: Vec<u64>,
    reads: u64,
    period: u64,
    /// Mean frequency of the last victims, in sixteenths.
    victims: u32,
    admitted: u64,
    refused: u64,
}

impl Doorkeeper {
    fn places(&self, fingerprint: u64) -> [usize; ROWS] {
        let shift = u64::BITS - self.row.trailing_zeros();
        std::array::from_fn(|row| {
            let mixed = (fingerprint ^ fingerprint >> 31).wrapping_mul(MULTIPLIERS[row]);
            row * self.row + (mixed >> shift) as usize
        })
    }

    /// Whether the door had seen it; it has from now on.
    fn pass_door(&mut self, fingerprint: u64) -> bool {
        let at = fingerprint as usize & (self.door.len() * 64 - 1);
        let (word, bit) = (at / 64, 1 << (at % 64));
        let seen = self.door[word] & bit != 0;
        self.door[word] |= bit;
        seen
    }

    fn knows(&self, fingerprint: u64) -> bool {
        let at = fingerprint as usize & (self.door.len() * 64 - 1);
        self.door[at / 64] & 1 << (at % 64) != 0
    }

    /// How often it was read lately, 0 to 16.
    fn frequency(&self, fingerprint: u64) -> u32 {
        let least = self.places(fingerprint).map(|at| self.counters[at]).into_iter().min();
        u32::from(least.unwrap_or(0)) + u32::from(self.knows(fingerprint))
    }

    fn count(&mut self, fingerprint: u64) {
        if self.pass_door(fingerprint) {
            let places = self.places(fingerprint);
            let least = places.map(|at| self.counters[at]).into_iter().min().unwrap_or(0);
            for at in places {
                // Counters that others raised higher need not grow.
                if self.counters[at] == least && least < COUNTER_MAX {
                    self.counters[at] += 1;
                }
            }
        }
        self.reads += 1;
        if self.reads >= self.period {
            self.reads = 0;
            self.door.fill(0);
            self.counters.iter_mut().for_each(|counter| *counter >>= 1);
            self.victims >>= 1;
        }
    }
}

impl AdmissionPolicy for Doorkeeper {
    const NAME: &'static str = "doorkeeper";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    // Four rows of two counters, rounded up to a power of two, and the door.
    const BYTES_PER_SLOT: u32 = 17;
    const WANTS_FEEDBACK: bool = true;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["period"])?;
        let slots = u64::from(setup.max_slots).max(32);
        let row = (slots * COUNTERS_PER_SLOT).next_power_of_two() as usize;
        let period = setup.number("period", PERIOD_PER_SLOT, 1..=1000)? * slots;
        Ok(Doorkeeper {
            counters: vec![0; ROWS * row],
            row,
            door: vec![0; row / 64],
            reads: 0,
            period,
            victims: 0,
            admitted: 0,
            refused: 0,
        })
    }

    fn admit(&mut self, candidate: &Candidate) -> bool {
        self.count(candidate.fingerprint);
        let frequency = self.frequency(candidate.fingerprint) << MEAN_SHIFT;
        let is_kept = candidate.has_room() || frequency > self.victims;
        self.admitted += u64::from(is_kept);
        self.refused += u64::from(!is_kept);
        is_kept
    }

    fn feedback(&mut self, fate: Fate) {
        match fate {
            Fate::Read { fingerprint } => self.count(fingerprint),
            Fate::Evicted { fingerprint } => {
                let frequency = self.frequency(fingerprint);
                self.victims = self.victims - (self.victims >> MEAN_SHIFT) + frequency;
            }
        }
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("admitted", self.admitted as f64),
            ("refused", self.refused as f64),
            ("victim_frequency", f64::from(self.victims) / 16.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(id: u64) -> u64 {
        let z = (id ^ 7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (z ^ z >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    fn candidate(id: u64) -> Candidate {
        Candidate { fingerprint: print(id), size_cost: 1, ctx: 4 }
    }

    fn policy() -> Doorkeeper {
        Doorkeeper::new(&Setup { max_slots: 1000, ..Setup::default() }).expect("no parameters")
    }

    #[test]
    fn what_is_read_once_does_not_replace_what_is_read_often() {
        let mut policy = policy();
        for id in 0..100 {
            (0..5).for_each(|_| policy.feedback(Fate::Read { fingerprint: print(id) }));
        }
        for id in 0..40 {
            policy.feedback(Fate::Evicted { fingerprint: print(id) });
        }
        let kept = (1000..1500).filter(|id| policy.admit(&candidate(*id))).count();
        assert!(kept < 10, "{kept}");
        for _ in 0..8 {
            policy.feedback(Fate::Read { fingerprint: print(7000) });
        }
        assert!(policy.admit(&candidate(7000)));
        assert!(policy.admit(&Candidate { ctx: 4 | 1 << 4, ..candidate(8000) }), "there is room");
    }

    #[test]
    fn counts_fade() {
        let mut policy = policy();
        (0..9).for_each(|_| policy.feedback(Fate::Read { fingerprint: print(1) }));
        assert_eq!(policy.frequency(print(1)), 9);
        (0..10_000).for_each(|_| policy.feedback(Fate::Read { fingerprint: print(2) }));
        assert_eq!(policy.frequency(print(1)), 4);
        assert_eq!(policy.frequency(print(3)), 0);
    }
}
