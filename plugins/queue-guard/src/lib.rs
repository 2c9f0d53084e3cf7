//! I/O priority: while reads or the commitlog wait for the disk, what runs in the background gets less.
//!
//! In each plan in which a request of class query or commitlog waited for longer than `target`, flush,
//! compaction and maintenance lose half of their shares, down to `least`. In each plan without one they
//! get a tenth of what they had at the start back. Fast down and slow up is what TCP does (additive increase,
//! multiplicative decrease; Chiu and Jain, 1989).
//!
//! A flush that falls behind makes writes wait: so the flush loses no more shares than half.
//!
//! Invariant: nothing gets more than it had when the policy began.

use tidegate_plugin_decision::{ClassLoad, DiskLoad, IoClass, IoPriorityPolicy, Setup};

tidegate_plugin_decision::export_io_priority!(QueueGuard, "../../wit/v0.1");

const TARGET_US: u64 = 2_000;
const LEAST: u64 = 10;

/// The policy of one shard.
#[derive(Debug)]
pub struct QueueGuard {
    target_us: u64,
    least: u32,
    /// Of each class: the shares at the first plan, and those of the last.
    classes: Vec<(u32, u32)>,
    /// Plans in which somebody waited for too long.
    late: u64,
}

impl QueueGuard {
    /// The lowest shares of a class that had `start`.
    fn floor(&self, class: usize, start: u32) -> u32 {
        match class {
            _ if class == IoClass::Flush as usize => (start / 2).max(1),
            _ => self.least.min(start),
        }
    }
}

/// Whether somebody waits for requests of this class.
fn is_awaited(class: usize) -> bool {
    class == IoClass::Query as usize || class == IoClass::Commitlog as usize
}

impl IoPriorityPolicy for QueueGuard {
    const NAME: &'static str = "queue-guard";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["least", "target"])?;
        Ok(QueueGuard {
            target_us: setup.number("target", TARGET_US, 1..=10_000_000)?,
            least: setup.number("least", LEAST, 1..=1_000)? as u32,
            classes: Vec::new(),
            late: 0,
        })
    }

    fn plan(&mut self, _: u64, _: &DiskLoad, classes: &[ClassLoad]) -> Vec<u32> {
        for load in classes.iter().skip(self.classes.len()) {
            self.classes.push((load.shares, load.shares));
        }
        let mut awaited = classes.iter().enumerate().filter(|(class, _)| is_awaited(*class));
        let is_late = awaited.any(|(_, load)| load.p99_us > self.target_us);
        self.late += u64::from(is_late);
        for class in (0..self.classes.len()).filter(|class| !is_awaited(*class)) {
            let (start, now) = self.classes[class];
            let wanted = match is_late {
                true => (now / 2).max(self.floor(class, start)),
                false => (now + (start / 10).max(1)).min(start),
            };
            self.classes[class].1 = wanted;
        }
        self.classes.iter().map(|(_, now)| *now).collect()
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let shares = |class: IoClass| {
            self.classes.get(class as usize).map_or(0.0, |(_, now)| f64::from(*now))
        };
        vec![
            ("plans with a late request", self.late as f64),
            ("shares of flush", shares(IoClass::Flush)),
            ("shares of compaction", shares(IoClass::Compaction)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [u32; 5] = [1000, 1000, 200, 100, 100];

    fn policy(params: &[(&str, &str)]) -> QueueGuard {
        let params = params.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        QueueGuard::new(&Setup { params: params.collect(), ..Setup::default() }).unwrap()
    }

    /// Plans of so many intervals in which class `late` waited for `p99_us`.
    fn plans(policy: &mut QueueGuard, late: usize, p99_us: u64, count: usize) -> Vec<u32> {
        let mut plan = Vec::new();
        for _ in 0..count {
            let classes: Vec<ClassLoad> = (0..5)
                .map(|class| ClassLoad {
                    shares: SHARES[class],
                    p99_us: if class == late { p99_us } else { 0 },
                    ..ClassLoad::default()
                })
                .collect();
            plan = policy.plan(0, &DiskLoad::default(), &classes);
        }
        plan
    }

    #[test]
    fn background_work_gives_way_while_somebody_waits_and_comes_back() {
        for awaited in [IoClass::Query as usize, IoClass::Commitlog as usize] {
            let mut policy = policy(&[]);
            assert_eq!(plans(&mut policy, awaited, 2_000, 3), SHARES, "in time");
            assert_eq!(plans(&mut policy, awaited, 2_001, 1), [1000, 1000, 100, 50, 50]);
            assert_eq!(plans(&mut policy, awaited, 9_000, 9), [1000, 1000, 100, 10, 10]);
            assert_eq!(plans(&mut policy, awaited, 0, 1), [1000, 1000, 120, 20, 20]);
            assert_eq!(plans(&mut policy, awaited, 0, 20), SHARES);
            assert_eq!(policy.late, 10);
        }
    }

    #[test]
    fn background_work_that_waits_takes_nothing_from_itself() {
        let mut policy = policy(&[("target", "100")]);
        for class in [IoClass::Flush, IoClass::Compaction, IoClass::Maintenance] {
            assert_eq!(plans(&mut policy, class as usize, 1_000_000, 3), SHARES, "{class:?}");
        }
    }

    #[test]
    fn classes_that_have_less_than_the_least_keep_it() {
        let mut policy = policy(&[("least", "500")]);
        assert_eq!(plans(&mut policy, 0, 9_000, 9), [1000, 1000, 100, 100, 100]);
    }
}
