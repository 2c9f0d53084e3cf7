//! Who polls for what, how often, and that this ends: a thread that polls looks at the clock.

use std::sync::atomic::AtomicU64;

use super::asking::{Echo, Watchdog};
use super::*;

/// The system's clock that counts who looks at it.
#[derive(Debug)]
struct CountingClock {
    clock: SystemClock,
    looks: AtomicU64,
}

impl CountingClock {
    fn new() -> Arc<Self> {
        Arc::new(CountingClock { clock: SystemClock::new(), looks: AtomicU64::new(0) })
    }

    fn looks(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Clock for CountingClock {
    fn wall_us(&self) -> i64 {
        self.clock.wall_us()
    }

    fn monotonic_ns(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.clock.monotonic_ns()
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.clock.thread_cpu_ns()
    }
}

/// A clock by which a microsecond passes whenever somebody looks at it.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn wall_us(&self) -> i64 {
        0
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::SeqCst)
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ten times the quota may pass while a shard polls.
#[test]
fn a_shard_that_polls_does_not_count_that_as_a_stall() {
    for backend in BACKENDS {
        let clock = Arc::new(TickingClock::default());
        let poll_max = Duration::from_millis(5);
        let options = options(backend);
        let handle = start_plain(ExecutorOptions { clock: clock.clone(), poll_max, ..options });
        for number in 0..2000 {
            // A caller that polled would move the clock as well.
            block_on(handle.ask(Echo { number, sleeps: number % 100 == 0 })).unwrap();
        }
        let stats = handle.stats();
        block_on(handle.stop()).unwrap();
        assert_eq!(stats.stalls(), []);
    }
}

/// Traffic makes a shard poll, and its end makes it sleep. How long nobody looks at the clock is
/// not measured: a shard that polls on looks so often that no two counts are the same.
#[test]
fn a_shard_without_mail_soon_polls_no_more() {
    const SAME: u32 = 5;
    for backend in BACKENDS {
        let clock = CountingClock::new();
        let handle = start_plain(ExecutorOptions { clock: clock.clone(), ..options(backend) });
        let shards_alone = clock.looks();
        for number in 0..5000 {
            handle.ask(Echo { number, sleeps: false }).wait().unwrap();
        }
        assert!(clock.looks() > shards_alone + 5000, "it takes its turns by the clock");
        let (mut before, mut same) = (clock.looks(), 0);
        for _ in 0..2000 {
            std::thread::sleep(Duration::from_millis(5));
            let now = clock.looks();
            same = if now == before { same + 1 } else { 0 };
            before = now;
            if same == SAME {
                break;
            }
        }
        assert_eq!(same, SAME, "the shard polls although nothing comes");
        block_on(handle.stop()).unwrap();
    }
}

/// No time passes, so the end of polling is counted and not measured.
#[test]
fn a_shard_ends_where_the_clock_stands_still() {
    for backend in BACKENDS {
        let _watchdog = Watchdog::new("a clock that stands still", SystemClock::shared());
        let clock = SimulatedClock::new(0);
        let handle = start_plain(ExecutorOptions { clock, ..options(backend) });
        for number in 0..100 {
            assert_eq!(handle.ask(Echo { number, sleeps: false }).wait().unwrap(), number);
        }
        block_on(handle.stop()).unwrap();
    }
}
