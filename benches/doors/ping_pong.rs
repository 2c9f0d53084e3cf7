//! Two threads that hand a number to and fro: the least that a hop costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::executor::block_on;

use crate::frame::{Arguments, Row, Target, cpu_timed};

/// Looks at the number before a thread parks.
const LOOKS: u32 = 400;

/// CPU µs of a round trip. Where threads look they do so for some microseconds before they park.
pub fn round_trip(rounds: u64, looks: u32) -> f64 {
    let ball = Arc::new(AtomicU64::new(0));
    let wait_for = move |ball: &AtomicU64, wanted: u64| {
        for _ in 0..looks {
            if ball.load(Ordering::Acquire) >= wanted {
                return;
            }
            std::hint::spin_loop();
        }
        while ball.load(Ordering::Acquire) < wanted {
            std::thread::park();
        }
    };
    let here = std::thread::current();
    let ((), cpu) = block_on(cpu_timed(async {
        let answer = {
            let ball = ball.clone();
            move || {
                for round in 0..rounds {
                    wait_for(&ball, 2 * round + 1);
                    ball.store(2 * round + 2, Ordering::Release);
                    here.unpark();
                }
            }
        };
        let other = std::thread::Builder::new().name("other".into()).spawn(answer).unwrap();
        for round in 0..rounds {
            ball.store(2 * round + 1, Ordering::Release);
            other.thread().unpark();
            wait_for(&ball, 2 * round + 2);
        }
        other.join().unwrap();
    }));
    cpu.as_secs_f64() * 1e6 / rounds as f64
}

/// What the calls of the library stand beside.
pub fn baseline(arguments: &Arguments) -> f64 {
    round_trip(arguments.scale(20_000, 100_000) as u64, 0)
}

pub fn print(arguments: &Arguments) {
    if !arguments.wants("ping-pong of two threads") {
        return;
    }
    let rounds = arguments.scale(20_000, 200_000) as u64;
    let parking = round_trip(rounds, 0);
    Row {
        name: "ping-pong of two threads, looking first",
        unit: "CPU us",
        figure: round_trip(rounds, LOOKS),
        baseline: Some(("parking at once", parking)),
        target: Target::None,
    }
    .print(arguments);
}
