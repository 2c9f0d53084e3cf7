//! The steps of a statement, as many as there is room for.

use std::borrow::Cow;

use crate::config::{STEP_BYTES_MAX, STEPS_BYTES_MAX, STEPS_MAX};

/// Something that was done for a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Nanoseconds since the statement began.
    pub at_ns: u64,
    /// `None` where no shard did it.
    pub shard: Option<u32>,
    /// Of a request to the disk, its class of I/O.
    pub class: Option<&'static str>,
    /// Bytes that it brought or took.
    pub bytes: Option<u64>,
    pub text: Cow<'static, str>,
}

impl Step {
    /// The path of a statement, which stands before all else that it did.
    pub(super) fn of_path(path: &'static str) -> Self {
        Step { at_ns: 0, shard: None, class: None, bytes: None, text: path.into() }
    }
}

/// Steps in the order in which they were noted. Beyond a number of them, or of bytes of their
/// texts, they are only counted.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// By what path the statement runs. It takes no memory: most statements that are traced have
    /// no other step.
    path: Option<&'static str>,
    kept: Vec<Step>,
    bytes: usize,
    left_out: u64,
}

impl Steps {
    /// The path of the statement stands before all steps.
    pub fn begin(&mut self, path: &'static str) {
        self.path = Some(path);
    }

    /// Takes the path, if any, where there are no steps.
    pub fn take_path(&mut self) -> Option<Option<&'static str>> {
        let is_empty = self.kept.is_empty() && self.left_out == 0;
        is_empty.then(|| self.path.take())
    }

    pub fn add(&mut self, mut step: Step) {
        if step.text.len() > STEP_BYTES_MAX {
            let end = step.text.floor_char_boundary(STEP_BYTES_MAX);
            step.text = format!("{}…", &step.text[..end]).into();
        }
        if self.kept.len() >= STEPS_MAX || self.bytes + step.text.len() > STEPS_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes += step.text.len();
        self.kept.push(step);
    }

    /// Those that were kept, in the order of time.
    pub fn all(&self) -> Vec<Step> {
        let mut all: Vec<Step> = self.path.map(Step::of_path).into_iter().collect();
        all.extend_from_slice(&self.kept);
        // Shards note theirs side by side.
        all.sort_by_key(|step| step.at_ns);
        all
    }

    /// How many were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at_ns: u64, text: String) -> Step {
        Step { at_ns, shard: None, class: None, bytes: None, text: text.into() }
    }

    #[test]
    fn steps_have_bounds_and_say_what_they_left_out() {
        let mut steps = Steps::default();
        for at in 0..STEPS_MAX as u64 + 7 {
            steps.add(step(at, "s".to_owned()));
        }
        let (all, left_out) = (steps.all(), steps.left_out());
        assert_eq!((all.len(), left_out), (STEPS_MAX, 7));
        let mut long = Steps::default();
        let count = STEPS_BYTES_MAX / STEP_BYTES_MAX + 3;
        for at in 0..count as u64 {
            long.add(step(at, "é".repeat(STEP_BYTES_MAX)));
        }
        let (all, left_out) = (long.all(), long.left_out());
        let bytes: usize = all.iter().map(|step| step.text.len()).sum();
        assert!(bytes <= STEPS_BYTES_MAX && all.len() + left_out as usize == count, "{bytes}");
        assert!(left_out > 0 && all[0].text.ends_with('…'));
        assert!(all[0].text.len() <= STEP_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn steps_come_in_the_order_of_time() {
        let mut steps = Steps::default();
        for (at_ns, text) in [(5, "b"), (2, "a"), (5, "c"), (0, "at once")] {
            steps.add(step(at_ns, text.to_owned()));
        }
        steps.begin("path");
        let texts: Vec<_> = steps.all().into_iter().map(|step| step.text).collect();
        assert_eq!(texts, ["path", "at once", "a", "b", "c"]);
    }

    #[test]
    fn a_text_and_all_of_them_end_at_just_their_most_bytes() {
        for bytes in [STEP_BYTES_MAX - 1, STEP_BYTES_MAX, STEP_BYTES_MAX + 1] {
            let mut steps = Steps::default();
            steps.add(step(0, "s".repeat(bytes)));
            let all = steps.all();
            let is_cut = bytes > STEP_BYTES_MAX;
            assert_eq!(all[0].text.trim_end_matches('…').len(), bytes.min(STEP_BYTES_MAX));
            assert_eq!(all[0].text.ends_with('…'), is_cut, "{bytes}");
        }
        let mut steps = Steps::default();
        let whole = STEPS_BYTES_MAX / STEP_BYTES_MAX;
        (0..whole as u64).for_each(|at| steps.add(step(at, "s".repeat(STEP_BYTES_MAX))));
        let rest = STEPS_BYTES_MAX % STEP_BYTES_MAX;
        // What does not fit is left out, and a shorter one behind it is not.
        for (bytes, kept, left_out) in [(rest + 1, 0, 1), (rest, 1, 1), (1, 1, 2), (0, 2, 2)] {
            steps.add(step(0, "s".repeat(bytes)));
            let found = (steps.all().len(), steps.left_out());
            assert_eq!(found, (whole + kept, left_out), "{bytes} bytes");
        }
    }
}
