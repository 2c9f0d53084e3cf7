//! The world of compaction: which SSTables of a table are merged.
//!
//! A policy names inputs and the shape of what is written. The engine checks what it names, merges,
//! purges what is dead and replaces; a wrong answer costs work and no data.

use std::cell::RefCell;

use super::eviction::PolicyFailure;

/// One SSTable that may be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SstableFacts {
    /// A greater one is newer.
    pub number: u64,
    /// SSTables of one run do not overlap.
    pub run: u64,
    pub level: u32,
    /// Of data, as stored.
    pub bytes: u64,
    pub partitions: u64,
    pub rows: u64,
    /// Least and greatest token.
    pub first_token: i64,
    pub last_token: i64,
    /// Of its data and tombstones, microseconds.
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// Of a thousand of its cells and tombstones, those whose grace has passed.
    pub droppable_per_mille: u32,
    /// Seconds since it was first seen.
    pub age_seconds: u32,
}

/// The strategy that a table names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TableStrategy {
    SizeTiered = 0,
    Leveled = 1,
    TimeWindow = 2,
    Incremental = 3,
}

/// The table that a policy is asked about, on one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFacts {
    /// `keyspace.table`.
    pub name: String,
    /// Wall clock, since the epoch.
    pub now_seconds: u64,
    pub strategy: TableStrategy,
    /// Of its options: SSTables that a merge takes at least and at most, and the bytes of one where
    /// what is written is cut.
    pub min_threshold: u32,
    pub max_threshold: u32,
    pub sstable_bytes: u64,
}

/// A merge that a policy wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedMerge {
    /// Numbers of SSTables, in any order.
    pub inputs: Vec<u64>,
    /// Level of what is written.
    pub level: u32,
    /// Where what is written is cut, bytes of data; 0 nowhere.
    pub split_bytes: u64,
    /// Inputs go as soon as the merge has passed them, and what is written is a run.
    pub is_incremental: bool,
}

/// What a policy answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Nothing is merged for now.
    Nothing,
    /// What the strategy of the table says.
    Strategy,
    Merge(WantedMerge),
}

/// A compaction policy.
pub trait CompactionPolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Its own figures, for people.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// What is merged next; `sstables` stand in the order of their numbers.
    ///
    /// Errors: the policy failed and must not be called again.
    fn pick(
        &mut self,
        table: &TableFacts,
        sstables: &[SstableFacts],
    ) -> Result<Pick, PolicyFailure>;
}

/// What a compaction policy did on one shard since it was put in charge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChooserStatus {
    /// Name that its statement gave it; strategies of tables decide where absent.
    pub name: Option<String>,
    /// Times that it was asked, merges that it chose, and those of them that were not legal.
    pub asked: u64,
    pub merges: u64,
    pub refused: u64,
    /// Why the last one of these was not.
    pub last_refused: Option<String>,
    /// Why it is not asked any more.
    pub failure: Option<PolicyFailure>,
}

/// The place of a compaction policy on one shard. Empty, strategies of tables decide.
#[derive(Default)]
pub struct Chooser(RefCell<State>);

#[derive(Default)]
struct State {
    policy: Option<Box<dyn CompactionPolicy>>,
    status: ChooserStatus,
    /// Who decides has changed, and no table was asked since.
    is_new: bool,
}

impl State {
    fn put_out(&mut self, table: &str, failure: PolicyFailure) {
        let policy = self.status.name.as_deref().unwrap_or_default();
        tracing::error!(
            policy, table, %failure,
            "a compaction policy failed; strategies of tables decide from now on"
        );
        self.status.failure = Some(failure);
        self.policy = None;
    }
}

impl Chooser {
    /// Puts a policy in charge, under the name of its statement; `None` the strategies of tables.
    pub fn set(&self, policy: Option<(String, Box<dyn CompactionPolicy>)>) {
        let mut state = State { is_new: true, ..State::default() };
        if let Some((name, policy)) = policy {
            state.status.name = Some(name);
            state.policy = Some(policy);
        }
        *self.0.borrow_mut() = state;
    }

    /// True once after it was set: then all tables are to be asked.
    pub fn take_new(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().is_new)
    }

    /// Whether a policy is in charge.
    pub fn has_policy(&self) -> bool {
        self.0.borrow().policy.is_some()
    }

    pub fn status(&self) -> ChooserStatus {
        self.0.borrow().status.clone()
    }

    /// Own figures of the policy in charge. One that fails at it is asked no more.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let mut state = self.0.borrow_mut();
        match state.policy.as_mut().map(|policy| policy.metrics()) {
            Some(Ok(metrics)) => metrics,
            Some(Err(failure)) => {
                state.put_out("", failure);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// What the policy in charge answers. One that fails is asked no more.
    pub fn pick(&self, table: &TableFacts, sstables: &[SstableFacts]) -> Pick {
        let mut state = self.0.borrow_mut();
        let State { policy: Some(policy), status, .. } = &mut *state else {
            return Pick::Strategy;
        };
        status.asked += 1;
        match policy.pick(table, sstables) {
            Ok(pick) => {
                status.merges += u64::from(matches!(pick, Pick::Merge(_)));
                pick
            }
            Err(failure) => {
                state.put_out(&table.name, failure);
                Pick::Strategy
            }
        }
    }

    /// Notes that a merge which the policy chose is not legal, and why.
    pub fn refuse(&self, table: &str, reason: String) {
        let mut state = self.0.borrow_mut();
        let status = &mut state.status;
        status.refused += 1;
        // The same mistake may come with every flush.
        if status.last_refused.as_ref() != Some(&reason) {
            let policy = status.name.as_deref().unwrap_or_default();
            tracing::warn!(policy, table, reason, "a merge that a policy chose is not legal");
        }
        status.last_refused = Some(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::FailureKind;

    /// Wants SSTable 1 merged, and has figures or fails at them.
    struct Merger {
        has_figures: bool,
    }

    fn merge() -> Pick {
        let inputs = vec![1];
        Pick::Merge(WantedMerge { inputs, level: 0, split_bytes: 0, is_incremental: false })
    }

    impl CompactionPolicy for Merger {
        fn name(&self) -> &str {
            "merger"
        }

        fn version(&self) -> &str {
            "1"
        }

        fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
            match self.has_figures {
                true => Ok(vec![("own".to_owned(), 1.0)]),
                false => Err(PolicyFailure {
                    kind: FailureKind::Trap,
                    message: "no figures".to_owned(),
                    backtrace: Vec::new(),
                }),
            }
        }

        fn pick(&mut self, _: &TableFacts, _: &[SstableFacts]) -> Result<Pick, PolicyFailure> {
            Ok(merge())
        }
    }

    fn put_in_charge(chooser: &Chooser, name: &str, has_figures: bool) {
        chooser.set(Some((name.to_owned(), Box::new(Merger { has_figures }))));
    }

    fn asked(chooser: &Chooser) -> Pick {
        let table = TableFacts {
            name: "k.t".to_owned(),
            now_seconds: 7,
            strategy: TableStrategy::SizeTiered,
            min_threshold: 4,
            max_threshold: 32,
            sstable_bytes: 1 << 20,
        };
        chooser.pick(&table, &[])
    }

    #[test]
    fn all_tables_are_asked_once_after_each_change_of_who_decides() {
        let chooser = Chooser::default();
        assert!(!chooser.take_new(), "nothing changed");
        assert_eq!((asked(&chooser), chooser.status()), (Pick::Strategy, ChooserStatus::default()));
        put_in_charge(&chooser, "p", true);
        assert!(chooser.take_new() && !chooser.take_new());
        chooser.set(None);
        assert!(chooser.take_new() && !chooser.take_new(), "also where strategies come back");
        assert!(!chooser.has_policy());
    }

    #[test]
    fn a_policy_that_fails_at_its_figures_is_shown_and_the_next_one_begins_anew() {
        let chooser = Chooser::default();
        put_in_charge(&chooser, "first", false);
        assert_eq!(asked(&chooser), merge());
        for reason in ["too large", "it is gone", "it is gone"] {
            chooser.refuse("k.t", reason.to_owned());
        }
        assert!(chooser.metrics().is_empty());
        assert_eq!((chooser.has_policy(), asked(&chooser)), (false, Pick::Strategy));
        let status = chooser.status();
        assert_eq!((status.name.as_deref(), status.asked, status.merges), (Some("first"), 1, 1));
        assert_eq!((status.refused, status.last_refused.as_deref()), (3, Some("it is gone")));
        assert_eq!(status.failure.unwrap().message, "no figures");

        put_in_charge(&chooser, "second", true);
        let anew = ChooserStatus { name: Some("second".to_owned()), ..ChooserStatus::default() };
        assert_eq!((chooser.status(), chooser.has_policy()), (anew, true));
        assert_eq!(chooser.metrics(), [("own".to_owned(), 1.0)]);
        chooser.set(None);
        assert_eq!(chooser.status(), ChooserStatus::default());
        assert!(chooser.metrics().is_empty(), "strategies have no figures");
    }

    /// Answers in turn with what it has, the last one first, and fails where it has nothing left.
    struct Answers(Vec<Pick>);

    impl CompactionPolicy for Answers {
        fn name(&self) -> &str {
            "answers"
        }

        fn version(&self) -> &str {
            "1"
        }

        fn pick(&mut self, _: &TableFacts, _: &[SstableFacts]) -> Result<Pick, PolicyFailure> {
            self.0.pop().ok_or_else(|| PolicyFailure {
                kind: FailureKind::Trap,
                message: "no answer".to_owned(),
                backtrace: Vec::new(),
            })
        }
    }

    #[test]
    fn merges_are_counted_among_the_answers_and_who_fails_to_answer_is_asked_no_more() {
        let chooser = Chooser::default();
        let mut answers = vec![merge(), Pick::Nothing, Pick::Strategy, merge(), Pick::Nothing];
        chooser.set(Some(("mine".to_owned(), Box::new(Answers(answers.clone())))));
        assert!(chooser.take_new());
        let (mut wanted_asked, mut wanted_merges) = (0, 0);
        while let Some(wanted) = answers.pop() {
            wanted_asked += 1;
            wanted_merges += u64::from(matches!(wanted, Pick::Merge(_)));
            assert_eq!(asked(&chooser), wanted);
            let ChooserStatus { asked, merges, refused, failure, .. } = chooser.status();
            assert_eq!((asked, merges, refused), (wanted_asked, wanted_merges, 0));
            assert!(failure.is_none() && chooser.has_policy());
        }
        for _ in 0..3 {
            assert_eq!(asked(&chooser), Pick::Strategy, "strategies decide from the failure on");
            let ChooserStatus { name, asked, merges, failure, .. } = chooser.status();
            assert_eq!((name.as_deref(), asked, merges), (Some("mine"), 6, 2));
            assert_eq!(failure.unwrap().message, "no answer");
            assert!(!chooser.has_policy() && chooser.metrics().is_empty());
        }
        assert!(!chooser.take_new(), "a failure is no change of who should decide");
    }
}
