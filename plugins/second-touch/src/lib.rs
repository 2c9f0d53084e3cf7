//! Admission: an entry is kept when it is missed for the second time within memory. What is read
//! once, such as by a scan, evicts nothing.
//!
//! Memory: two fingerprints of four bytes an entry of the cache, in a table without collisions
//! resolved: a newer one takes the place of an older.
//!
//! Invariant: state is of fixed size; while there is room, everything is kept.

use tidegate_plugin_decision::{AdmissionPolicy, Candidate, Setup};

tidegate_plugin_decision::export_admission!(SecondTouch, "../../wit/v0.1");

/// Fingerprints remembered for each entry of the cache.
const REMEMBERED_PER_SLOT: u64 = 2;

/// The policy of one shard.
#[derive(Debug)]
pub struct SecondTouch {
    /// Upper halves of fingerprints, by their lower bits; 0 is nothing.
    seen: Vec<u32>,
    admitted: u64,
    refused: u64,
}

impl SecondTouch {
    /// Whether it was seen within memory; it is from now on.
    fn touch(&mut self, fingerprint: u64) -> bool {
        let at = fingerprint as usize & (self.seen.len() - 1);
        let tag = (fingerprint >> 32) as u32 | 1;
        std::mem::replace(&mut self.seen[at], tag) == tag
    }
}

impl AdmissionPolicy for SecondTouch {
    const NAME: &'static str = "second-touch";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    // Twice two fingerprints: their number is rounded up to a power of two.
    const BYTES_PER_SLOT: u32 = 16;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["remembered"])?;
        let per_slot = setup.number("remembered", REMEMBERED_PER_SLOT, 1..=2)?;
        let count = (u64::from(setup.max_slots) * per_slot).max(64).next_power_of_two();
        Ok(SecondTouch { seen: vec![0; count as usize], admitted: 0, refused: 0 })
    }

    fn admit(&mut self, candidate: &Candidate) -> bool {
        let again = self.touch(candidate.fingerprint);
        let is_kept = again || candidate.has_room();
        self.admitted += u64::from(is_kept);
        self.refused += u64::from(!is_kept);
        is_kept
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("admitted", self.admitted as f64), ("refused", self.refused as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(fingerprint: u64, has_room: bool) -> Candidate {
        let ctx = 4 | u64::from(has_room) << 4;
        Candidate {
            fingerprint: fingerprint.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            size_cost: 1,
            ctx,
        }
    }

    #[test]
    fn the_second_miss_is_kept_and_a_scan_is_not() {
        let setup = Setup { max_slots: 1000, ..Setup::default() };
        let mut policy = SecondTouch::new(&setup).expect("no parameters");
        assert!(policy.admit(&candidate(1, true)), "there is room");
        assert!(!policy.admit(&candidate(2, false)));
        assert!(policy.admit(&candidate(2, false)));
        let kept = (100..600).filter(|id| policy.admit(&candidate(*id, false))).count();
        assert_eq!(kept, 0);
        // Far more than it remembers passes by: the first is forgotten.
        for id in 1000..30_000 {
            let _ = policy.admit(&candidate(id, false));
        }
        assert!(!policy.admit(&candidate(100, false)));
        assert_eq!(policy.metrics()[0], ("admitted", 2.0));
    }

    #[test]
    fn parameters_have_a_range() {
        let params = vec![("remembered".to_string(), "3".to_string())];
        assert!(SecondTouch::new(&Setup { params, ..Setup::default() }).is_err());
    }
}
