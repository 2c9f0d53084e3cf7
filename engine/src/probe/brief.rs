//! What is kept of a statement that made one read at most, on one shard, and has no step but its
//! path. Most statements are so.
//!
//! A copy of what is known of such a statement costs less than the memory that it was collected
//! in: the watch is used again by the next statement of the thread, while the processor has it.

use std::sync::Arc;

use super::counts::ReadStats;
use super::report::{ReadReport, What};
use super::steps::Step;

/// See the head of this file.
#[derive(Clone, Default)]
pub struct Brief {
    pub(super) path: Option<&'static str>,
    /// What was read, and the shard.
    pub(super) read: Option<(What, u32)>,
    pub(super) stats: ReadStats,
}

impl Brief {
    /// Counters alone.
    pub fn counted(stats: ReadStats) -> Self {
        Brief { path: None, read: None, stats }
    }

    /// Keeps what was read, and the shard. What it was before it mostly is again.
    pub(super) fn set_read(&mut self, read: Option<(u32, &What)>) {
        match (&mut self.read, read) {
            (Some((kept, on)), Some((shard, what))) if Arc::ptr_eq(kept, what) => *on = shard,
            (_, read) => self.read = read.map(|(shard, what)| (Arc::clone(what), shard)),
        }
    }

    /// As [`Watch::steps`](super::Watch::steps).
    pub fn steps(&self) -> Vec<Step> {
        self.path.map(Step::of_path).into_iter().collect()
    }

    /// As [`Watch::reads`](super::Watch::reads).
    pub fn reads(&self) -> Vec<ReadReport> {
        let report = |(what, shard): &(What, u32)| ReadReport {
            what: what.to_string(),
            shards: vec![(*shard, self.stats)],
        };
        self.read.as_ref().map(report).into_iter().collect()
    }

    /// As [`Watch::stats`](super::Watch::stats).
    pub fn stats(&self) -> ReadStats {
        self.stats
    }
}

impl std::fmt::Debug for Brief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.reads()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Count, Detail, Watch};
    use super::*;
    use crate::clock::{Clock, SimulatedClock};

    #[test]
    fn a_brief_has_what_its_watch_had_and_the_watch_is_used_again() {
        let simulated = SimulatedClock::new(0);
        let clock: Arc<dyn Clock> = simulated.clone();
        let begin = || Watch::of(&clock, Detail::Phases);
        let mut brief = Brief::default();
        for rows in [3, 5] {
            simulated.advance(Duration::from_micros(7));
            let watch = begin();
            assert_eq!(watch.elapsed_ns(), 0);
            assert_eq!((watch.reads(), watch.steps()), (vec![], vec![]), "nothing of the last one");
            watch.read_by("short path", &Arc::new("ks.t")).on(1).add(Count::Rows, rows);
            let place = Arc::as_ptr(&watch);
            assert!(watch.end_in(&mut brief).is_ok(), "it has one read, on one shard");
            assert_eq!(brief.steps(), [Step::of_path("short path")]);
            assert_eq!(brief.stats().nonzero().collect::<Vec<_>>(), [(Count::Rows, rows)]);
            let ReadReport { what, shards } = brief.reads().pop().expect("it has one read");
            assert_eq!((&*what, shards), ("ks.t", vec![(1, brief.stats())]));
            let again = begin();
            assert_eq!(Arc::as_ptr(&again), place);
            assert!(again.end_in(&mut brief).is_ok(), "it has no read at all");
            assert_eq!((brief.reads(), brief.steps()), (vec![], vec![]));
        }
    }

    #[test]
    fn a_brief_names_the_shard_of_its_own_statement() {
        let tables: [What; 2] = [Arc::new("ks.t"), Arc::new("ks.u")];
        let mut brief = Brief::default();
        for (table, shard) in [(0, 1), (0, 2), (1, 2), (1, 0), (0, 0)] {
            brief.set_read(Some((shard, &tables[table])));
            let ReadReport { what, shards } = brief.reads().pop().expect("it has one read");
            assert_eq!((what, shards[0].0), (tables[table].to_string(), shard));
        }
    }

    #[test]
    fn a_watch_that_somebody_has_or_that_knows_more_stays() {
        let clock: Arc<dyn Clock> = SimulatedClock::new(0);
        let begin = || Watch::of(&clock, Detail::Phases);
        let end = |watch: Arc<Watch>| watch.end_in(&mut Brief::default());
        let held = begin();
        let other = Arc::clone(&held);
        let held = end(held).expect_err("it has two owners");
        drop(other);
        assert!(end(held).is_ok());

        let noted = begin();
        noted.note(|| "planned");
        assert_eq!(end(noted).expect_err("it has a step").steps().len(), 1);

        let two = begin();
        for shard in [0, 1] {
            two.read(Arc::new("ks.t")).on(shard).add(Count::Rows, 1);
        }
        assert_eq!(end(two).expect_err("it has two reads").stats()[Count::Rows], 2);
    }
}
