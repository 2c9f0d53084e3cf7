//! Whether a canary goes on: the evidence of windows of look-ups, and the rule.
//!
//! Invariant: pure; the verdict follows from the gains alone. A gain is the canary's hit ratio by
//! cost less that of the policy before, estimated for the same look-ups, in percentage points.

use std::collections::VecDeque;

/// Windows whose mean gain is judged.
pub const WINDOWS_JUDGED: usize = 10;
/// Mean gain at which the policy goes on to all shards, points.
const GAIN_MIN: f64 = 0.5;
/// A window is bad when the canary is worse by so much, points.
const LOSS_MAX: f64 = 2.0;
/// So many bad windows in a row end the canary.
const BAD_WINDOWS_MAX: u32 = 5;
/// Windows after which there will be no gain to find.
pub const WINDOWS_MAX: u32 = 60;

/// What is to happen with a canary.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialVerdict {
    /// Not decided yet.
    Waits,
    /// Better than the policy before, by so many points.
    GoesOn { gain: f64 },
    /// Back to the policy before, and why.
    RollsBack { reason: String },
}

/// The windows of one canary so far.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    gains: VecDeque<f64>,
    windows: u32,
    bad_in_a_row: u32,
}

impl Trial {
    /// Takes in the gain of a window, percentage points.
    pub fn close_window(&mut self, gain: f64) {
        if self.gains.len() == WINDOWS_JUDGED {
            self.gains.pop_front();
        }
        self.gains.push_back(gain);
        self.windows += 1;
        self.bad_in_a_row = if gain <= -LOSS_MAX { self.bad_in_a_row + 1 } else { 0 };
    }

    /// Windows so far.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// Mean gain of the last windows, points; `None` before the first.
    pub fn gain(&self) -> Option<f64> {
        let sum: f64 = self.gains.iter().sum();
        (!self.gains.is_empty()).then(|| sum / self.gains.len() as f64)
    }

    /// What follows from the windows so far.
    pub fn verdict(&self) -> TrialVerdict {
        if self.bad_in_a_row >= BAD_WINDOWS_MAX {
            let reason = format!(
                "worse by {LOSS_MAX} points or more in {BAD_WINDOWS_MAX} windows in a row, {:.2} \
                 points in the last",
                -self.gains.back().copied().unwrap_or_default()
            );
            return TrialVerdict::RollsBack { reason };
        }
        let Some(gain) = self.gain().filter(|_| self.gains.len() == WINDOWS_JUDGED) else {
            return TrialVerdict::Waits;
        };
        if gain >= GAIN_MIN {
            return TrialVerdict::GoesOn { gain };
        }
        if self.windows >= WINDOWS_MAX {
            let reason = format!(
                "no gain of {GAIN_MIN} points in {WINDOWS_MAX} windows, {gain:.2} points in the last \
                 {WINDOWS_JUDGED}"
            );
            return TrialVerdict::RollsBack { reason };
        }
        TrialVerdict::Waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gains: impl IntoIterator<Item = f64>) -> (u32, TrialVerdict) {
        let mut trial = Trial::default();
        for gain in gains {
            trial.close_window(gain);
            if trial.verdict() != TrialVerdict::Waits {
                break;
            }
        }
        (trial.windows(), trial.verdict())
    }

    #[test]
    fn ten_windows_with_a_gain_let_it_go_on() {
        assert_eq!(after([1.0; 9]), (9, TrialVerdict::Waits));
        assert_eq!(after([1.0; 20]), (10, TrialVerdict::GoesOn { gain: 1.0 }));
        // A slow start is forgotten.
        let late = after([[-1.0; 10], [0.0; 10], [0.75; 10]].concat());
        assert!(matches!(late, (21..=30, TrialVerdict::GoesOn { .. })), "{late:?}");
    }

    #[test]
    fn five_bad_windows_in_a_row_end_it() {
        let (windows, verdict) = after([[1.0; 3], [-2.0; 3]].concat().into_iter().chain([-3.0; 9]));
        assert_eq!(windows, 8);
        let TrialVerdict::RollsBack { reason } = verdict else { panic!("{verdict:?}") };
        assert!(reason.contains("5 windows in a row") && reason.contains("3.00"), "{reason}");
        let now_and_then = (0..40).map(|at| if at % 5 == 4 { 0.0 } else { -2.5 });
        assert_eq!(after(now_and_then).1, TrialVerdict::Waits);
    }

    #[test]
    fn a_gain_and_a_loss_count_from_just_what_they_must_be() {
        let gain = after([GAIN_MIN; WINDOWS_JUDGED]);
        assert_eq!(gain, (10, TrialVerdict::GoesOn { gain: GAIN_MIN }));
        let less = GAIN_MIN - 1.0 / 1024.0;
        assert_eq!(after([less; WINDOWS_JUDGED]), (10, TrialVerdict::Waits));
        assert_eq!(after([less; 59]), (59, TrialVerdict::Waits));
        let loss = after([-LOSS_MAX; 5]);
        assert!(matches!(loss, (5, TrialVerdict::RollsBack { .. })), "{loss:?}");
        assert_eq!(after([1.0 / 1024.0 - LOSS_MAX; 6]), (6, TrialVerdict::Waits));
        // The gain in the last window that there is.
        let last = [[0.0; 50].as_slice(), &[GAIN_MIN; 10]].concat();
        assert_eq!(after(last), (60, TrialVerdict::GoesOn { gain: GAIN_MIN }));
    }

    #[test]
    fn no_gain_in_sixty_windows_ends_it() {
        let (windows, verdict) = after([0.1; 100]);
        assert_eq!(windows, 60);
        assert!(matches!(verdict, TrialVerdict::RollsBack { .. }), "{verdict:?}");
    }
}
