//! Seeds of a test that plays many: which ones, and on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seeds that a variable names, as `n` or `from..to`; else so many from 0 on.
pub fn of(variable: &str, count: u64) -> Range<u64> {
    let Ok(text) = std::env::var(variable) else { return 0..count };
    let number = |text: &str| -> u64 {
        text.parse().unwrap_or_else(|_| panic!("{variable} is n or from..to, not '{text}'"))
    };
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

/// Plays each seed once; what they came to, in any order.
pub fn play<T: Send>(seeds: Range<u64>, play: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        let mut played = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return played;
            }
            played.push(play(seed));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a seed fails")).collect()
    })
}
