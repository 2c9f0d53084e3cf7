//! Tokens that come at a steady rate and that threads share without a lock.
//!
//! Two counters of one time line that only grow: `tail` is what has been asked for, `head` what has
//! come. Whoever advances `tail` by a cost owns that stretch of the line and may go when `head` has
//! passed it, so threads are served in the order in which they asked. `head` runs ahead of `tail`
//! by the burst at most: what an idle disk takes at once. Counters wrap; their difference does not
//! come near half their range.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest time that is made up for at once, nanoseconds.
const ELAPSED_NS_MAX: u64 = 3_600_000_000_000;

/// See the head of this file. The unit of tokens is the caller's.
#[derive(Debug)]
pub(super) struct TokenBucket {
    tail: AtomicU64,
    head: AtomicU64,
    /// When `head` was advanced last.
    at_ns: AtomicU64,
    /// Tokens a nanosecond: the bits of an `f64`.
    rate: AtomicU64,
    burst: AtomicU64,
    /// Fewer tokens than this are not worth advancing `head` for.
    step: u64,
}

impl TokenBucket {
    /// A full bucket, as of `now_ns`.
    pub fn new(per_second: u64, burst: u64, step: u64, now_ns: u64) -> Self {
        TokenBucket {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(burst),
            at_ns: AtomicU64::new(now_ns),
            rate: AtomicU64::new(per_nanosecond(per_second)),
            burst: AtomicU64::new(burst),
            step,
        }
    }

    /// Changes rate and burst from now on.
    pub fn set_rate(&self, per_second: u64, burst: u64) {
        self.rate.store(per_nanosecond(per_second), Relaxed);
        self.burst.store(burst, Relaxed);
    }

    fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Relaxed))
    }

    /// Lets the tokens come that time has brought. Any thread may; of several one does.
    pub fn replenish(&self, now_ns: u64) {
        let at_ns = self.at_ns.load(Relaxed);
        let elapsed_ns = now_ns.saturating_sub(at_ns).min(ELAPSED_NS_MAX);
        let more = (elapsed_ns as f64 * self.rate()) as u64;
        if more < self.step {
            return;
        }
        if self.at_ns.compare_exchange(at_ns, now_ns, Relaxed, Relaxed).is_ok() {
            self.advance(more);
        }
    }

    /// Advances `head`, though not beyond the burst.
    fn advance(&self, more: u64) {
        let burst = self.burst.load(Relaxed);
        let _ = self.head.fetch_update(Relaxed, Relaxed, |head| {
            let last = self.tail.load(Relaxed).wrapping_add(burst);
            let room = last.wrapping_sub(head) as i64;
            (room > 0).then(|| head.wrapping_add(more.min(room as u64)))
        });
    }

    /// Takes tokens that are there and that nobody waits for.
    pub fn take(&self, cost: u64) -> bool {
        let mut tail = self.tail.load(Relaxed);
        loop {
            let there = self.head.load(Relaxed).wrapping_sub(tail) as i64;
            if there < 0 || (there as u64) < cost {
                return false;
            }
            let after = tail.wrapping_add(cost);
            match self.tail.compare_exchange_weak(tail, after, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => tail = now,
            }
        }
    }

    /// Asks for tokens; returns the point of the time line at which they have come.
    pub fn reserve(&self, cost: u64) -> u64 {
        self.tail.fetch_add(cost, Relaxed).wrapping_add(cost)
    }

    /// Tokens that must still come until a point is reached.
    pub fn lacking(&self, point: u64) -> u64 {
        let lacking = point.wrapping_sub(self.head.load(Relaxed)) as i64;
        u64::try_from(lacking).unwrap_or(0)
    }

    /// Tokens that must still come for all that was asked for.
    pub fn debt(&self) -> u64 {
        self.lacking(self.tail.load(Relaxed))
    }

    /// Gives back what was taken or reserved and is not needed.
    pub fn give_back(&self, cost: u64) {
        self.advance(cost);
    }

    /// Time in which so many tokens come, nanoseconds.
    pub fn wait_ns(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.rate()).ceil() as u64
    }
}

fn per_nanosecond(per_second: u64) -> u64 {
    (per_second as f64 / 1e9).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_with_time_and_up_to_the_burst() {
        let bucket = TokenBucket::new(1_000_000_000, 100, 10, 0);
        assert!(!bucket.take(101) && bucket.take(60) && bucket.take(40) && !bucket.take(1));
        bucket.replenish(9);
        assert!(!bucket.take(1), "fewer than a step do not come");
        bucket.replenish(30);
        assert!(bucket.take(30) && !bucket.take(1));
        bucket.replenish(1_000_000);
        assert!(!bucket.take(101) && bucket.take(100));
    }

    #[test]
    fn who_asks_first_is_served_first() {
        let bucket = TokenBucket::new(1_000_000_000, 100, 1, 0);
        assert!(bucket.take(100));
        let (first, second) = (bucket.reserve(50), bucket.reserve(30));
        assert_eq!((bucket.lacking(first), bucket.lacking(second), bucket.debt()), (50, 80, 80));
        assert_eq!(bucket.wait_ns(80), 80);
        bucket.replenish(60);
        assert!(!bucket.take(1), "what came is asked for");
        assert_eq!((bucket.lacking(first), bucket.lacking(second)), (0, 20));
        bucket.give_back(50);
        assert_eq!(bucket.lacking(second), 0, "what the first did not need");
        assert!(bucket.take(30) && !bucket.take(1));
    }

    #[test]
    fn what_is_given_back_makes_no_greater_burst() {
        let bucket = TokenBucket::new(1_000_000_000, 100, 1, 0);
        let _ = bucket.reserve(70);
        bucket.replenish(1000);
        bucket.give_back(70);
        assert!(!bucket.take(101) && bucket.take(100));
    }

    #[test]
    fn counters_wrap() {
        let bucket = TokenBucket::new(1_000_000_000, 1 << 62, 1, 0);
        for _ in 0..20 {
            assert!(bucket.take(1 << 62));
            bucket.give_back(1 << 62);
        }
        let point = bucket.reserve((1 << 62) + 5);
        assert_eq!(bucket.lacking(point), 5);
    }

    #[test]
    fn a_new_rate_counts_from_now_on() {
        let bucket = TokenBucket::new(1_000_000_000, 100, 1, 0);
        assert!(bucket.take(100));
        bucket.replenish(10);
        bucket.set_rate(2_000_000_000, 200);
        bucket.replenish(20);
        assert!(bucket.take(30) && !bucket.take(1));
    }

    #[test]
    fn threads_never_get_more_than_there_is() {
        let bucket = TokenBucket::new(1_000_000_000, 10_000, 1, 0);
        let taken: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..100_000).filter(|_| bucket.take(3)).count() as u64))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 10_000 / 3);
    }
}
