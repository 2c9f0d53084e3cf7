//! The limit of a shard's commitlog: how the length of the log affects a write.
//!
//! ```text
//! 0 ------------- 1/2 ----------------- 3/4 ------------ limit - 2 segments --- limit
//!                  flush what pins the    and slow each      and writers wait
//!                  oldest segment         write down
//! ```
//! Invariant: a write begins only while there is room for the segment that it may need and for the
//! spare one behind it, so the files never take more than the limit. Not here: what is done about a
//! long log (`log_shortening.rs`).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::sync::Notify;

use crate::config::{COMMITLOG_DELAY_MAX, COMMITLOG_SEGMENTS_MIN};
use crate::error::{Error, Result};

/// Segments that a write may need besides those that are there: its own and a spare one.
const SEGMENTS_AHEAD: u64 = 2;

/// See the head of this file.
#[derive(Default)]
pub(in crate::database) struct LogLimit {
    /// Tables are being flushed for the log's sake.
    pub(super) is_running: Cell<bool>,
    /// Told after each of those flushes.
    pub(super) tried: Notify,
    /// Why the last of them freed nothing.
    pub(super) failure: RefCell<Option<String>>,
    /// Writes that were slowed down, and that had to wait.
    pub(super) slowed: Cell<u64>,
    pub(super) stopped: Cell<u64>,
}

/// What a write meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Free,
    Flush,
    Slow(Duration),
    Stop,
}

/// What happens to a write at this many bytes of log on disk.
pub(super) fn stage(bytes: u64, limit: u64, segment: u64) -> Stage {
    let slow_from = limit / 4 * 3;
    if bytes + SEGMENTS_AHEAD * segment > limit {
        Stage::Stop
    } else if bytes > slow_from {
        let share = (bytes - slow_from) as f64 / (limit - slow_from) as f64;
        Stage::Slow(COMMITLOG_DELAY_MAX.mul_f64(share.min(1.0)))
    } else if bytes > limit / 2 {
        Stage::Flush
    } else {
        Stage::Free
    }
}

/// Checks that a limit in bytes leaves room for what a log of such segments always needs.
///
/// Errors: `Invalid`.
pub(in crate::database) fn check(limit_bytes: usize, segment_bytes: usize) -> Result<()> {
    let least = COMMITLOG_SEGMENTS_MIN * segment_bytes;
    if limit_bytes >= least {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the commitlog of a shard cannot be limited to {limit_bytes} bytes: at least {least} are \
         needed, {COMMITLOG_SEGMENTS_MIN} segments"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_and_leave_room_for_two_segments() {
        let of = |segments: u64| stage(segments * 10, 160, 10);
        assert_eq!((of(0), of(8), of(9)), (Stage::Free, Stage::Free, Stage::Flush));
        assert_eq!((of(12), of(15)), (Stage::Flush, Stage::Stop));
        let Stage::Slow(first) = of(13) else { panic!("{:?}", of(13)) };
        let Stage::Slow(second) = of(14) else { panic!("{:?}", of(14)) };
        assert!(first < second && second < COMMITLOG_DELAY_MAX);
        // The least limit knows no slowness.
        assert_eq!((stage(60, 80, 10), stage(61, 80, 10)), (Stage::Flush, Stage::Stop));
    }

    #[test]
    fn a_limit_without_room_is_refused() {
        let least = COMMITLOG_SEGMENTS_MIN * 1000;
        check(least, 1000).unwrap();
        let refused = check(least - 1, 1000).unwrap_err().to_string();
        assert!(refused.contains("8 segments"), "{refused}");
    }
}
