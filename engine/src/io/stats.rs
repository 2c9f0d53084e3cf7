//! What is counted of a class of one shard.

/// Length of the window of [`Recent`], nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;

/// A class of one shard: what it has now, has had, and how it fared in the last second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassStats {
    /// Requests that wait.
    pub queued: u64,
    /// Requests that the disk has.
    pub in_disk: u64,
    /// Requests that ended. A sync is a write without bytes.
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Requests that were given up before the disk had them.
    pub cancelled: u64,
    /// Requests that were cut into pieces; each piece counts above.
    pub split: u64,
    /// Time of all requests in the queue, and in the disk.
    pub delay_ns: u64,
    pub execution_ns: u64,
    /// Time in which requests waited and the disk had none of this class.
    pub starved_ns: u64,
    /// Cost of what ended, disk-seconds.
    pub disk_seconds: f64,
    /// Of the last second: requests that ended, means of them, and their disk-seconds.
    pub recent_requests: f64,
    pub recent_delay_us: f64,
    pub recent_execution_us: f64,
    pub recent_disk_share: f64,
}

/// What is added up of requests that ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sums {
    pub requests: f64,
    pub delay_ns: f64,
    pub execution_ns: f64,
    pub cost: f64,
}

impl Sums {
    fn add(&mut self, other: &Sums, part: f64) {
        self.requests += other.requests * part;
        self.delay_ns += other.delay_ns * part;
        self.execution_ns += other.execution_ns * part;
        self.cost += other.cost * part;
    }
}

/// Sums of about the last second: those of the present window, and the part of the one before that
/// makes up the rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recent {
    start_ns: u64,
    present: Sums,
    before: Sums,
}

impl Recent {
    fn roll(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        if elapsed_ns >= 2 * WINDOW_NS {
            *self = Recent { start_ns: now_ns, ..Recent::default() };
        } else if elapsed_ns >= WINDOW_NS {
            self.start_ns += WINDOW_NS;
            self.before = std::mem::take(&mut self.present);
        }
    }

    pub fn add(&mut self, now_ns: u64, sums: &Sums) {
        self.roll(now_ns);
        self.present.add(sums, 1.0);
    }

    /// The last second as of `now_ns`.
    pub fn sums(&self, now_ns: u64) -> Sums {
        let mut rolled = *self;
        rolled.roll(now_ns);
        let part = now_ns.saturating_sub(rolled.start_ns) as f64 / WINDOW_NS as f64;
        let mut sums = rolled.present;
        sums.add(&rolled.before, 1.0 - part.min(1.0));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_slides() {
        let mut recent = Recent::default();
        let one = Sums { requests: 1.0, cost: 2.0, ..Sums::default() };
        (0..10).for_each(|at| recent.add(at * WINDOW_NS / 10, &one));
        let at = |tenths: u64| {
            let sums = recent.sums(tenths * WINDOW_NS / 10);
            (sums.requests.round(), sums.cost.round())
        };
        assert_eq!([at(9), at(10), at(15)], [(10.0, 20.0), (10.0, 20.0), (5.0, 10.0)]);
        assert_eq!([at(19).0, at(20).0, at(100).0], [1.0, 0.0, 0.0]);
    }

    #[test]
    fn after_a_pause_the_last_second_begins_anew() {
        let one = Sums { requests: 1.0, ..Sums::default() };
        for pause_ns in [2 * WINDOW_NS, 2 * WINDOW_NS + 1, 7 * WINDOW_NS] {
            let mut recent = Recent::default();
            recent.add(0, &one);
            recent.add(pause_ns, &one);
            let after = |ns| recent.sums(pause_ns + ns).requests;
            let found = [0, WINDOW_NS / 2, WINDOW_NS - 1, WINDOW_NS, 3 * WINDOW_NS / 2].map(after);
            assert_eq!(found, [1.0, 1.0, 1.0, 1.0, 0.5], "a pause of {pause_ns} ns");
        }
    }
}
