//! How far a merge is.

use std::cell::Cell;

/// How far a merge is, for onlookers and for whoever wants it to end.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows and partitions that were read, and that the inputs have.
    read: Cell<u64>,
    total: Cell<u64>,
    written_bytes: Cell<u64>,
    is_cancelled: Cell<bool>,
    /// Its outputs are taking the place of its inputs.
    is_settled: Cell<bool>,
}

impl Progress {
    /// Part that is done, 0 to 1.
    pub fn share(&self) -> f64 {
        (self.read.get() as f64 / self.total.get().max(1) as f64).min(1.0)
    }

    /// A merge of so many rows and partitions begins.
    pub(super) fn begin(&self, total: u64) {
        self.read.set(0);
        self.total.set(total);
    }

    pub(super) fn set_written(&self, bytes: u64) {
        self.written_bytes.set(bytes);
    }

    /// Adds rows and partitions that were read.
    pub(super) fn add_read(&self, count: u64) {
        self.read.set(self.read.get() + count);
    }

    /// Bytes of data that were written.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.get()
    }

    /// Has the merge end at the next place where it can; false where it is too late for that.
    pub fn cancel(&self) -> bool {
        let is_in_time = !self.is_settled.get();
        if is_in_time {
            self.is_cancelled.set(true);
        }
        is_in_time
    }

    /// From now on it is too late to cancel.
    pub fn settle(&self) {
        assert!(!self.is_cancelled.get(), "what was cancelled takes no place");
        self.is_settled.set(true);
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merge begins again where something came meanwhile that it must not hide.
    #[test]
    fn a_merge_that_begins_again_is_at_its_start() {
        let progress = Progress::default();
        progress.begin(10);
        progress.add_read(5);
        assert_eq!(progress.share(), 0.5);
        progress.begin(20);
        assert_eq!(progress.share(), 0.0);
        progress.add_read(5);
        assert_eq!(progress.share(), 0.25);
        progress.add_read(50);
        assert_eq!(progress.share(), 1.0, "more than was expected is all");
    }

    #[test]
    fn what_takes_its_place_is_not_cancelled_any_more() {
        let progress = Progress::default();
        progress.settle();
        assert!(!progress.cancel() && !progress.is_cancelled());
        let progress = Progress::default();
        assert!(progress.cancel() && progress.is_cancelled());
    }
}
