//! Read admission: as many reads at once as do not make each other slow.
//!
//! The limit follows the measured latency, as TCP Vegas follows round trips: while the 99th percentile
//! is near the best that was seen of late, the limit grows by its square root; when it is longer, the
//! limit shrinks by the ratio. What the best is, a short probe with a quarter of the limit finds out
//! once a window (as BBR does): without it a queue that never drains would come to look like the best.
//! The queue is as long as can be served within the wait.
//!
//! Invariant: the limit stays within its range, and grows only while it is used.

use tidegate_plugin_decision::{ReadAdmissionPolicy, ReadLimits, ReadLoad, Setup};

tidegate_plugin_decision::export_read_admission!(Latency, "../../wit/v0.1");

const LEAST_DEFAULT: u64 = 4;
const MOST_DEFAULT: u64 = 400;
const START_DEFAULT: u64 = 50;
/// How much longer than the best a latency may be, percent.
const TOLERANCE_DEFAULT: u64 = 200;
/// Longest wait, ms.
const WAIT_DEFAULT: u64 = 2_000;
/// Time between two probes, s.
const WINDOW_DEFAULT: u64 = 30;
/// Share of a new limit in the next.
const SMOOTHING: f64 = 0.2;
/// Most that one plan takes away.
const GRADIENT_MIN: f64 = 0.5;
/// Plans of a probe: in the first, reads of before still run.
const PROBE_PLANS: u32 = 3;
/// Share of the limit in a probe.
const PROBE_SHARE: f64 = 0.25;

/// The policy of one shard.
#[derive(Debug)]
pub struct Latency {
    least: f64,
    most: f64,
    start: f64,
    tolerance: f64,
    wait_us: u64,
    window_us: u64,
    classes: Vec<Class>,
}

/// What is known of a class of reads.
#[derive(Debug, Clone, Copy)]
struct Class {
    limit: f64,
    /// Best latency since the last probe began, and when the next begins; 0 none.
    best_us: u64,
    probe_at_us: u64,
    /// Plans that are left of a probe.
    probe_left: u32,
    /// The last that was measured; 0 none.
    last_us: u64,
}

impl ReadAdmissionPolicy for Latency {
    const NAME: &'static str = "latency";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["least", "most", "start", "tolerance", "wait", "window"])?;
        let least = setup.number("least", LEAST_DEFAULT, 1..=100_000)?;
        let most = setup.number("most", MOST_DEFAULT.max(least), least..=100_000)?;
        let start = START_DEFAULT.clamp(least, most);
        let tolerance = setup.number("tolerance", TOLERANCE_DEFAULT, 101..=10_000)?;
        Ok(Latency {
            least: least as f64,
            most: most as f64,
            start: setup.number("start", start, least..=most)? as f64,
            tolerance: tolerance as f64 / 100.0,
            wait_us: setup.number("wait", WAIT_DEFAULT, 0..=3_600_000)? * 1000,
            window_us: setup.number("window", WINDOW_DEFAULT, 1..=3_600)? * 1_000_000,
            classes: Vec::new(),
        })
    }

    fn plan(&mut self, now_us: u64, memory_free: u64, loads: &[ReadLoad]) -> Vec<ReadLimits> {
        // It begins with a probe.
        let fresh =
            Class { limit: self.start, best_us: 0, probe_at_us: now_us, probe_left: 0, last_us: 0 };
        self.classes.resize(loads.len(), fresh);
        let memory: u64 = memory_free + loads.iter().map(|load| load.memory_bytes).sum::<u64>();
        let share = memory / loads.len().max(1) as u64;
        for (at, load) in loads.iter().enumerate() {
            self.classes[at] = self.learn(self.classes[at], now_us, load);
        }
        self.classes.iter().map(|class| self.limits(class, share)).collect()
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let of = |at: usize, figure: fn(&Class) -> f64| self.classes.get(at).map_or(0.0, figure);
        vec![
            ("limit of keys", of(0, |class| class.limit)),
            ("best p99 of keys, us", of(0, |class| class.best_us as f64)),
            ("limit of scans", of(1, |class| class.limit)),
            ("best p99 of scans, us", of(1, |class| class.best_us as f64)),
        ]
    }
}

impl Latency {
    fn learn(&self, mut class: Class, now_us: u64, load: &ReadLoad) -> Class {
        if now_us >= class.probe_at_us {
            class.best_us = 0;
            class.probe_left = PROBE_PLANS;
            class.probe_at_us = now_us.saturating_add(self.window_us);
            return class;
        }
        if load.p99_us > 0 {
            class.last_us = load.p50_us;
            class.best_us = match class.best_us {
                0 => load.p99_us,
                best => best.min(load.p99_us),
            };
        }
        if class.probe_left > 0 {
            class.probe_left -= 1;
            return class;
        }
        if load.p99_us == 0 {
            return class;
        }
        let wanted_us = class.best_us as f64 * self.tolerance;
        let gradient = (wanted_us / load.p99_us as f64).clamp(GRADIENT_MIN, 1.0);
        let is_used = load.running_most as f64 >= class.limit / 2.0 || load.queued > 0;
        let room = if is_used { class.limit.sqrt() } else { 0.0 };
        let next = class.limit * gradient + room;
        class.limit += (next - class.limit) * SMOOTHING;
        class.limit = class.limit.clamp(self.least, self.most);
        class
    }

    fn limits(&self, class: &Class, memory_bytes_max: u64) -> ReadLimits {
        let share = if class.probe_left > 0 { PROBE_SHARE } else { 1.0 };
        let running_max = (class.limit * share).max(self.least) as u64;
        // Little's law: so many are served within the wait.
        let served = (self.wait_us * running_max).checked_div(class.last_us);
        let queued_max = match self.wait_us {
            0 => 10_000,
            _ => served.unwrap_or(10_000).clamp(running_max, 10_000),
        };
        ReadLimits { running_max, memory_bytes_max, queued_max, wait_us_max: self.wait_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(params: &[(&str, &str)]) -> Latency {
        let params = params.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Latency::new(&Setup { params: params.collect(), ..Setup::default() }).unwrap()
    }

    /// Plans on a server that does `width` reads at once in `us` each, and more ones after each other.
    fn run(policy: &mut Latency, width: u64, us: u64, plans: u64, from: u64) -> u64 {
        let mut limit = 50;
        for at in from..from + plans {
            let p99_us = us * limit.max(width) / width;
            let load = ReadLoad {
                arrived: 1000,
                admitted: 1000,
                queued: 10,
                running_most: limit,
                p50_us: p99_us,
                p99_us,
                ..ReadLoad::default()
            };
            limit = policy.plan(at * 100_000, 1 << 20, &[load])[0].running_max;
        }
        policy.classes[0].limit as u64
    }

    #[test]
    fn the_limit_settles_where_reads_get_slower() {
        let mut policy = policy(&[("window", "10")]);
        // Twice the width is the tolerance; the room to grow comes on top.
        let limit = run(&mut policy, 20, 500, 600, 0);
        assert!((30..=60).contains(&limit), "{limit}");
        // The server gets narrower, then wide.
        let limit = run(&mut policy, 5, 500, 600, 600);
        assert!((6..=24).contains(&limit), "{limit}");
        let limit = run(&mut policy, 200, 500, 600, 1200);
        assert!(limit > 200, "{limit}");
    }

    #[test]
    fn a_limit_that_is_not_used_does_not_grow_and_silence_changes_nothing() {
        let mut policy = policy(&[("start", "30")]);
        let load = ReadLoad { running_most: 3, p50_us: 100, p99_us: 100, ..ReadLoad::default() };
        for at in 0..100 {
            let plan = policy.plan(at * 100_000, 1 << 20, &[load, ReadLoad::default()]);
            let wanted = if at < 3 { 7 } else { 30 };
            assert_eq!((plan[0].running_max, plan[1].running_max), (wanted, wanted), "plan {at}");
            assert_eq!(plan[0].memory_bytes_max, 1 << 19);
        }
        assert_eq!(policy.metrics()[0], ("limit of keys", 30.0));
    }

    #[test]
    fn the_queue_is_what_can_be_served_within_the_wait() {
        let mut policy =
            policy(&[("wait", "100"), ("most", "10"), ("start", "10"), ("least", "10")]);
        let load = ReadLoad { p50_us: 1_000, p99_us: 1_000, ..ReadLoad::default() };
        policy.plan(0, 0, &[load]);
        let plan = policy.plan(1, 0, &[load]);
        assert_eq!((plan[0].queued_max, plan[0].wait_us_max), (1_000, 100_000));
        let slow = ReadLoad { p50_us: 1_000_000, p99_us: 1_000_000, ..ReadLoad::default() };
        assert_eq!(policy.plan(2, 0, &[slow])[0].queued_max, 10, "one turn each at least");
    }

    #[test]
    fn parameters_have_their_ranges() {
        let wrong = |name: &str, value: &str| {
            let params = vec![(name.to_string(), value.to_string())];
            Latency::new(&Setup { params, ..Setup::default() }).unwrap_err()
        };
        assert!(wrong("tolerance", "100").contains("from 101"));
        assert!(wrong("most", "2").contains("from 4"));
        assert!(wrong("target", "2").contains("unknown parameter 'target'"));
    }
}
