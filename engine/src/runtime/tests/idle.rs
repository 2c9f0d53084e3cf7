//! A shard without mail sleeps: who is awake looks at the clock.

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

/// A shard that was awake would look so often that no two counts are the same.
#[test]
fn a_shard_without_mail_sleeps() {
    const SAME: u32 = 5;
    for backend in BACKENDS {
        let clock = CountingClock::new();
        let handle = start_plain(ExecutorOptions { clock: clock.clone(), ..options(backend) });
        let shards_alone = clock.looks();
        for number in 0..5000 {
            handle.ask(Echo { number, sleeps: false }).wait().unwrap();
        }
        assert!(clock.looks() > shards_alone, "it takes its turns by the clock");
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
        assert_eq!(same, SAME, "the shard is awake although nothing comes");
        block_on(handle.stop()).unwrap();
    }
}

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
