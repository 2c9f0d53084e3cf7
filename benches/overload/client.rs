//! Clients, and what comes of their questions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tidegate_engine::clock::Random;
use tidegate_engine::{Error, Result};
use tokio::runtime::Builder;

/// What came of the questions of a closed client so far.
#[derive(Default)]
pub struct Counts {
    served: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    /// Questions that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

/// The same a second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    pub served: f64,
    pub refused: f64,
}

/// Keeps so many questions in flight. One that was refused is asked again after `pause`.
pub struct Closed<F> {
    pub in_flight: usize,
    pub pause: Duration,
    /// Asks the question of this number.
    pub ask: F,
}

/// A client on a thread of its own.
pub trait Client: Sync {
    fn run(&self, counts: &Counts, stop: &AtomicBool);
}

impl<F, A> Client for Closed<F>
where
    F: Fn(u64) -> A + Sync,
    A: Future<Output = Result<usize>>,
{
    fn run(&self, counts: &Counts, stop: &AtomicBool) {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let places = async {
            let place = |place: usize| self.keep_asking(place as u64, counts, stop);
            let mut places: FuturesUnordered<_> = (0..self.in_flight).map(place).collect();
            while places.next().await.is_some() {}
        };
        runtime.block_on(tokio::task::unconstrained(places));
    }
}

impl<F, A> Closed<F>
where
    F: Fn(u64) -> A,
    A: Future<Output = Result<usize>>,
{
    pub fn new(in_flight: usize, ask: F) -> Self {
        Closed { in_flight, pause: Duration::ZERO, ask }
    }

    /// One place of those in flight.
    pub async fn keep_asking(&self, place: u64, counts: &Counts, stop: &AtomicBool) {
        for number in (place..).step_by(self.in_flight) {
            if stop.load(Relaxed) {
                return;
            }
            match (self.ask)(number).await {
                Ok(_) => _ = counts.served.fetch_add(1, Relaxed),
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    counts.refused.fetch_add(1, Relaxed);
                    if self.pause.is_zero() {
                        // A refusal is mostly there at once: the others in flight have their turn.
                        tokio::task::yield_now().await;
                    } else {
                        tokio::time::sleep(self.pause).await;
                    }
                }
            }
        }
    }
}

/// What came of questions within `window`, a second, behind a time in which nothing is counted.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn rates(all: &[Counts], (warm, window): (Duration, Duration)) -> Vec<Rates> {
    let now = || -> Vec<(u64, u64)> {
        all.iter()
            .map(|counts| (counts.served.load(Relaxed), counts.refused.load(Relaxed)))
            .collect()
    };
    thread::sleep(warm);
    let (before, since) = (now(), Instant::now());
    thread::sleep(window);
    let (after, seconds) = (now(), since.elapsed().as_secs_f64());
    let rate = |((served, refused), before): ((u64, u64), &(u64, u64))| Rates {
        served: (served - before.0) as f64 / seconds,
        refused: (refused - before.1) as f64 / seconds,
    };
    after.into_iter().zip(&before).map(rate).collect()
}

/// Runs closed clients side by side, each on its thread; what came of each, as [`rates`] counts.
pub fn side_by_side(times: (Duration, Duration), clients: &[&dyn Client]) -> Vec<Rates> {
    let counts: Vec<Counts> = clients.iter().map(|_| Counts::default()).collect();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for (client, counts) in clients.iter().zip(&counts) {
            scope.spawn(move || client.run(counts, stop));
        }
        let rates = rates(&counts, times);
        stop.store(true, Relaxed);
        rates
    })
}

/// An answer to an open client.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// Since it was due to be asked.
    pub ms: f64,
    pub is_served: bool,
}

/// Asks `per_second` questions for a while, at times that do not depend on answers, and waits for
/// all answers.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn offer<A>(
    per_second: f64,
    (length, seed): (Duration, u64),
    ask: impl Fn(u64) -> A,
) -> Vec<Answer>
where
    A: Future<Output = Result<usize>>,
{
    let (mut random, start) = (Random::new(seed), Instant::now());
    let mut next_s = 0.0;
    let (mut asked, mut answers) = (FuturesUnordered::new(), Vec::new());
    let mut number = 0;
    loop {
        let now_s = start.elapsed().as_secs_f64();
        while next_s <= now_s && next_s < length.as_secs_f64() {
            let (due_s, question) = (next_s, ask(number));
            asked.push(async move {
                let result = question.await;
                let ms = (start.elapsed().as_secs_f64() - due_s) * 1e3;
                Answer { ms, is_served: was_served(&result) }
            });
            number += 1;
            next_s += -(1.0 - fraction(&mut random)).ln() / per_second;
        }
        while let Some(Some(answer)) = asked.next().now_or_never() {
            answers.push(answer);
        }
        if asked.is_empty() && next_s >= length.as_secs_f64() {
            return answers;
        }
        std::hint::spin_loop();
    }
}

fn was_served(result: &Result<usize>) -> bool {
    let is_refused = |error: &Error| {
        assert!(error.is_retryable(), "{error}");
        false
    };
    result.as_ref().map_or_else(is_refused, |_| true)
}

/// Below 1.
fn fraction(random: &mut Random) -> f64 {
    random.below(1 << 52) as f64 / (1_u64 << 52) as f64
}

/// A number that neighbours of `number` are far from, below `bound`.
pub fn spread(number: u64, bound: i64) -> i64 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as i64 % bound
}

/// The value that so many percent of all are not above.
pub fn percentile(values: &mut [f64], percent: f64) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * percent / 100.0) as usize]
}
