//! Admission: what is read in a long run of neighbours is not kept, unless it comes again soon.
//!
//! A run is told by the host: how many entries of the same file were read in sequence before. The
//! first of a run are kept, so that a slice of a few pages is as good as a point read; the rest of a
//! scan evicts nothing. A run that is read again within memory is kept: a wide partition that is hot
//! is no scan.
//!
//! Invariant: state is of fixed size; while there is room, everything is kept.

use tidegate_plugin_decision::{AdmissionPolicy, Candidate, Setup};

tidegate_plugin_decision::export_admission!(ScanGuard, "../../wit/v0.1");

/// Entries of a run that are kept.
const RUN_DEFAULT: u64 = 16;

/// The policy of one shard.
#[derive(Debug)]
pub struct ScanGuard {
    run_max: u64,
    /// Upper halves of fingerprints that were refused, by their lower bits; 0 is nothing.
    refused_lately: Vec<u32>,
    refused: u64,
}

impl AdmissionPolicy for ScanGuard {
    const NAME: &'static str = "scan-guard";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    // A fingerprint of four bytes; their number is rounded up to a power of two.
    const BYTES_PER_SLOT: u32 = 8;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["run"])?;
        let run_max = setup.number("run", RUN_DEFAULT, 1..=60_000)?;
        let count = u64::from(setup.max_slots).max(64).next_power_of_two();
        Ok(ScanGuard { run_max, refused_lately: vec![0; count as usize], refused: 0 })
    }

    fn admit(&mut self, candidate: &Candidate) -> bool {
        if candidate.has_room() || u64::from(candidate.run()) < self.run_max {
            return true;
        }
        let at = candidate.fingerprint as usize & (self.refused_lately.len() - 1);
        let tag = (candidate.fingerprint >> 32) as u32 | 1;
        let again = std::mem::replace(&mut self.refused_lately[at], tag) == tag;
        self.refused += u64::from(!again);
        again
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("refused", self.refused as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u64, run: u64, has_room: bool) -> Candidate {
        let ctx = 4 | u64::from(has_room) << 4 | run << 16;
        Candidate { fingerprint: id.wrapping_mul(0x9E37_79B9_7F4A_7C15), size_cost: 1, ctx }
    }

    fn scan(policy: &mut ScanGuard, first: u64, length: u64) -> usize {
        (0..length).filter(|at| policy.admit(&candidate(first + at, *at, false))).count()
    }

    #[test]
    fn a_long_run_is_kept_when_it_comes_again() {
        let setup = Setup { max_slots: 1000, ..Setup::default() };
        let mut policy = ScanGuard::new(&setup).expect("no parameters");
        assert_eq!(scan(&mut policy, 0, 10), 10, "a short run is no scan");
        assert_eq!(scan(&mut policy, 1000, 100), 16);
        assert!(scan(&mut policy, 1000, 100) > 80, "most of it is remembered");
        assert_eq!(scan(&mut policy, 50_000, 20_000), 16);
        assert!(scan(&mut policy, 50_000, 20_000) < 1100, "a scan longer than memory stays out");
        assert!(policy.admit(&candidate(9, 500, true)));
    }
}
