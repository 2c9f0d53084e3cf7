//! The admission filter of a cache decides what the cache keeps after a miss.
//!
//! Invariant: if a policy fails, the filter detaches it within the call and records the failure;
//! from then on it keeps everything. Not here: which entries leave to make room (`governor/`).

use std::collections::HashMap;

use crate::policy::PolicyFailure;
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy, Fate, fate};
use crate::policy::event::EntryKind;
use crate::probe::{Count, timer};

/// Words of fates that wait to be delivered: 128 fates.
const FATE_WORDS_MAX: usize = 256;
/// Sources whose reading in sequence is followed.
const RUNS_MAX: usize = 1024;

/// What the filter did since the policy came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdmissionFilterStats {
    pub asked: u64,
    pub refused: u64,
    /// Fates delivered.
    pub fates: u64,
}

/// What there is to know of the admission policy of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionFilterStatus {
    /// Name under which the policy was created.
    pub name: String,
    pub stats: AdmissionFilterStats,
    /// Why it does not decide any more.
    pub failure: Option<PolicyFailure>,
}

/// The last piece that was read of a source, and how many stood in sequence before it.
#[derive(Debug, Clone, Copy)]
struct Run {
    piece: u64,
    length: u16,
}

/// See the head of this file.
pub(super) struct AdmissionFilter {
    name: String,
    policy: Option<Box<dyn AdmissionPolicy>>,
    wants_fates: bool,
    fates: Vec<u64>,
    runs: HashMap<u64, Run>,
    stats: AdmissionFilterStats,
    failure: Option<PolicyFailure>,
}

impl AdmissionFilter {
    pub fn new(name: String, policy: Box<dyn AdmissionPolicy>) -> Self {
        AdmissionFilter {
            wants_fates: policy.wants_feedback(),
            name,
            policy: Some(policy),
            fates: Vec::with_capacity(FATE_WORDS_MAX),
            runs: HashMap::new(),
            stats: AdmissionFilterStats::default(),
            failure: None,
        }
    }

    pub fn status(&self) -> AdmissionFilterStatus {
        let AdmissionFilter { name, stats, failure, .. } = self;
        AdmissionFilterStatus { name: name.clone(), stats: *stats, failure: failure.clone() }
    }

    /// Own figures of the policy. One that fails at it is put out.
    pub fn metrics(&mut self) -> Vec<(String, f64)> {
        match self.policy.as_mut().map(|policy| policy.metrics()) {
            Some(Ok(metrics)) => metrics,
            Some(Err(failure)) => {
                self.put_out(failure);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Whether fates are to be told.
    #[inline]
    pub fn wants_fates(&self) -> bool {
        self.wants_fates
    }

    /// Tells what became of an entry.
    #[inline]
    pub fn tell(&mut self, fingerprint: u64, what: Fate, kind: EntryKind) {
        debug_assert!(self.wants_fates, "fates are told to those who want them");
        if self.fates.len() == FATE_WORDS_MAX {
            self.deliver();
        }
        debug_assert!(self.fates.len() < FATE_WORDS_MAX, "fates that wait have a bound");
        self.fates.extend_from_slice(&fate(fingerprint, what, kind));
    }

    /// How many pieces of the source stood in sequence before this one, which is read now.
    pub fn run(&mut self, source: u64, piece: u64) -> u16 {
        let before = self.runs.get(&source).copied();
        let length = match before {
            Some(run) if run.piece.abs_diff(piece) == 1 => run.length.saturating_add(1),
            _ => 0,
        };
        if before.is_some() || self.runs.len() < RUNS_MAX {
            self.runs.insert(source, Run { piece, length });
        }
        debug_assert!(self.runs.len() <= RUNS_MAX, "sources that are followed have a bound");
        length
    }

    /// A source is closed.
    pub fn forget(&mut self, source: u64) {
        self.runs.remove(&source);
    }

    /// Whether it is kept.
    pub fn admits(&mut self, candidate: &AdmissionCandidate) -> bool {
        let _timer = timer(Count::TimePolicies);
        self.deliver();
        let Some(policy) = &mut self.policy else { return true };
        debug_assert!(self.fates.is_empty(), "a policy knows all fates when it is asked");
        self.stats.asked += 1;
        match policy.admit(candidate) {
            Ok(is_kept) => {
                self.stats.refused += u64::from(!is_kept);
                is_kept
            }
            Err(failure) => {
                self.put_out(failure);
                true
            }
        }
    }

    /// Delivers the fates that wait.
    fn deliver(&mut self) {
        let Some(policy) = self.policy.as_mut().filter(|_| !self.fates.is_empty()) else { return };
        debug_assert_eq!(self.fates.len() % 2, 0, "a fate is two words");
        self.stats.fates += self.fates.len() as u64 / 2;
        let delivered = policy.feedback(&self.fates);
        self.fates.clear();
        if let Err(failure) = delivered {
            self.put_out(failure);
        }
    }

    #[cold]
    fn put_out(&mut self, failure: PolicyFailure) {
        let policy = &self.name;
        tracing::error!(policy, %failure, "an admission policy failed; everything is kept");
        self.policy = None;
        self.wants_fates = false;
        self.fates.clear();
        self.failure = Some(failure);
        debug_assert!(self.fates.is_empty() && !self.wants_fates, "who is out is told nothing");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::policy::FailureKind;

    struct KeepsAll;

    impl AdmissionPolicy for KeepsAll {
        fn name(&self) -> &str {
            "keeps all"
        }

        fn version(&self) -> &str {
            "1"
        }

        fn wants_feedback(&self) -> bool {
            false
        }

        fn admit(&mut self, _: &AdmissionCandidate) -> Result<bool, PolicyFailure> {
            Ok(true)
        }

        fn feedback(&mut self, _: &[u64]) -> Result<(), PolicyFailure> {
            Ok(())
        }
    }

    /// Keeps nothing, and fails at the call of this name.
    struct FailsAt(&'static str);

    impl FailsAt {
        fn called(&self, call: &'static str) -> Result<(), PolicyFailure> {
            let failure = || PolicyFailure {
                kind: FailureKind::Trap,
                message: format!("no {call}"),
                backtrace: Vec::new(),
            };
            if self.0 == call { Err(failure()) } else { Ok(()) }
        }
    }

    impl AdmissionPolicy for FailsAt {
        fn name(&self) -> &str {
            "fails"
        }

        fn version(&self) -> &str {
            "1"
        }

        fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
            self.called("metrics").map(|()| vec![("own".to_owned(), 1.0)])
        }

        fn wants_feedback(&self) -> bool {
            true
        }

        fn admit(&mut self, _: &AdmissionCandidate) -> Result<bool, PolicyFailure> {
            self.called("admit").map(|()| false)
        }

        fn feedback(&mut self, _: &[u64]) -> Result<(), PolicyFailure> {
            self.called("feedback")
        }
    }

    fn filter() -> AdmissionFilter {
        AdmissionFilter::new("keeps all".into(), Box::new(KeepsAll))
    }

    #[test]
    fn pieces_that_stand_in_sequence_are_a_run_in_both_directions() {
        let mut filter = filter();
        // Pieces in the order in which they are read, and how many stood before each.
        let reads: [(u64, u16); 9] =
            [(5, 0), (6, 1), (7, 2), (9, 0), (8, 1), (7, 2), (7, 0), (0, 0), (1, 1)];
        for (piece, wanted) in reads {
            // Another source is a run of its own.
            assert_eq!((filter.run(1, piece), filter.run(2, 3 * piece)), (wanted, 0), "{piece}");
        }
    }

    #[test]
    fn a_source_that_is_gone_makes_room_for_another() {
        let mut filter = filter();
        for source in 0..3 * RUNS_MAX as u64 {
            assert_eq!([1, 2, 3].map(|piece| filter.run(source, piece)), [0, 1, 2], "{source}");
            filter.forget(source);
        }
        // Of more than it can follow, those that came first are followed.
        for source in 0..2 * RUNS_MAX as u64 {
            let lengths = [1, 2].map(|piece| filter.run(source, piece));
            assert_eq!(lengths, [0, u16::from(source < RUNS_MAX as u64)], "{source}");
        }
    }

    #[test]
    fn a_policy_that_fails_at_any_call_is_put_out_and_its_failure_is_shown() {
        let candidate = AdmissionCandidate {
            fingerprint: 7,
            size_bytes: 4096,
            cost_us: 100,
            kind: EntryKind::DataPage,
            has_room: false,
            run: 0,
            table: 0,
        };
        // The call that fails, what the first question comes to, and what is counted in the end.
        for (call, is_kept, [asked, refused, fates]) in [
            ("none", false, [2, 2, 1]),
            ("feedback", true, [0, 0, 1]),
            ("admit", true, [1, 0, 1]),
            ("metrics", false, [1, 1, 1]),
        ] {
            let fails = call != "none";
            let mut filter = AdmissionFilter::new("mine".into(), Box::new(FailsAt(call)));
            filter.tell(7, Fate::Read, EntryKind::DataPage);
            assert_eq!(filter.admits(&candidate), is_kept, "{call}");
            assert_eq!(filter.metrics().is_empty(), fails, "{call}");
            assert_eq!(filter.admits(&candidate), fails, "{call}: who is out refuses nothing");
            assert_eq!(filter.wants_fates(), !fails, "{call}");
            let AdmissionFilterStatus { name, stats, failure } = filter.status();
            assert_eq!(stats, AdmissionFilterStats { asked, refused, fates }, "{call}");
            let told = failure.map(|failure| failure.message);
            assert_eq!((name.as_str(), told), ("mine", fails.then(|| format!("no {call}"))));
        }
    }

    /// Keeps everything, and notes the fingerprints of the fates of each delivery.
    struct Noting(Rc<RefCell<Vec<Vec<u64>>>>);

    impl AdmissionPolicy for Noting {
        fn name(&self) -> &str {
            "notes"
        }

        fn version(&self) -> &str {
            "1"
        }

        fn wants_feedback(&self) -> bool {
            true
        }

        fn admit(&mut self, _: &AdmissionCandidate) -> Result<bool, PolicyFailure> {
            Ok(true)
        }

        fn feedback(&mut self, words: &[u64]) -> Result<(), PolicyFailure> {
            assert!(words.iter().skip(1).step_by(2).all(|word| *word == 1 | 4 << 4), "{words:?}");
            self.0.borrow_mut().push(words.iter().step_by(2).copied().collect());
            Ok(())
        }
    }

    #[test]
    fn fates_are_told_in_order_and_the_last_ones_before_the_next_question() {
        let told: Rc<RefCell<Vec<Vec<u64>>>> = Rc::default();
        let mut filter = AdmissionFilter::new("notes".into(), Box::new(Noting(told.clone())));
        let most = FATE_WORDS_MAX as u64 / 2;
        (0..most).for_each(|id| filter.tell(id, Fate::Evicted, EntryKind::DataPage));
        assert!(told.borrow().is_empty(), "there is room for them");
        filter.tell(most, Fate::Evicted, EntryKind::DataPage);
        assert_eq!(*told.borrow(), [(0..most).collect::<Vec<u64>>()]);
        let candidate = AdmissionCandidate {
            fingerprint: 7,
            size_bytes: 4096,
            cost_us: 100,
            kind: EntryKind::DataPage,
            has_room: false,
            run: 0,
            table: 0,
        };
        assert!(filter.admits(&candidate) && filter.admits(&candidate));
        assert_eq!(told.borrow()[1..], [vec![most]], "none comes twice");
        let stats = AdmissionFilterStats { asked: 2, refused: 0, fates: most + 1 };
        assert_eq!(filter.status().stats, stats);
    }
}
