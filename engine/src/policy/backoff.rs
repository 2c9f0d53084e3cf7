//! When a policy that failed is tried again, and when no more.
//!
//! Invariant: pure; the same failures at the same times give the same verdicts.

use std::collections::VecDeque;

use crate::config::{
    POLICY_FAILURE_WINDOW_MS, POLICY_FAILURES_MAX, POLICY_RETRY_MS_FIRST, POLICY_RETRY_MS_MAX,
};

const MS: u64 = 1_000_000;

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// Out of charge until this time, then tried again.
    RetryAt { ns: u64 },
    /// Not tried again until a person puts it in charge.
    Ejected,
}

/// The recent failures of one policy at one place.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    /// Times on a monotonic clock, ns; those of the window only.
    failures: VecDeque<u64>,
    /// Failures without a whole window in peace between them.
    in_a_row: u32,
}

impl Backoff {
    /// Takes in a failure at `now_ns`: the pause doubles with each, and the third within ten
    /// minutes is the last.
    pub fn fail(&mut self, now_ns: u64) -> AfterFailure {
        let window = POLICY_FAILURE_WINDOW_MS * MS;
        while self.failures.front().is_some_and(|at| now_ns.saturating_sub(*at) > window) {
            self.failures.pop_front();
        }
        self.in_a_row = if self.failures.is_empty() { 1 } else { self.in_a_row + 1 };
        self.failures.push_back(now_ns);
        if self.failures.len() >= POLICY_FAILURES_MAX {
            return AfterFailure::Ejected;
        }
        let doubled = 1_u64.checked_shl(self.in_a_row - 1).unwrap_or(u64::MAX);
        let pause_ms = POLICY_RETRY_MS_FIRST.saturating_mul(doubled).min(POLICY_RETRY_MS_MAX);
        AfterFailure::RetryAt { ns: now_ns.saturating_add(pause_ms * MS) }
    }

    /// Failures that count now.
    pub fn failures(&self) -> usize {
        self.failures.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000 * MS;

    #[test]
    fn the_third_failure_in_ten_minutes_is_the_last() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.fail(5 * SECOND), AfterFailure::RetryAt { ns: 6 * SECOND });
        assert_eq!(backoff.fail(7 * SECOND), AfterFailure::RetryAt { ns: 9 * SECOND });
        assert_eq!(backoff.fail(9 * SECOND), AfterFailure::Ejected);
        assert_eq!(backoff.failures(), 3);
    }

    #[test]
    fn rare_failures_are_retried_for_ever_with_longer_pauses_up_to_five_minutes() {
        let mut backoff = Backoff::default();
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..12 {
            match backoff.fail(now) {
                AfterFailure::RetryAt { ns } => pauses.push((ns - now) / SECOND),
                AfterFailure::Ejected => panic!("never more than two in ten minutes"),
            }
            now += 301 * SECOND + 30 * SECOND;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    }

    #[test]
    fn a_failure_counts_for_just_ten_minutes() {
        for (pause, is_last) in [(600 * SECOND, true), (600 * SECOND + 1, false)] {
            let mut backoff = Backoff::default();
            backoff.fail(0);
            backoff.fail(SECOND);
            let verdict = backoff.fail(pause);
            assert_eq!(verdict == AfterFailure::Ejected, is_last, "{verdict:?}");
            assert_eq!(backoff.failures(), if is_last { 3 } else { 2 });
        }
    }

    #[test]
    fn ten_minutes_in_peace_make_up_for_what_was() {
        let mut backoff = Backoff::default();
        backoff.fail(0);
        backoff.fail(2 * SECOND);
        let late = 700 * SECOND;
        assert_eq!(backoff.fail(late), AfterFailure::RetryAt { ns: late + SECOND });
    }
}
