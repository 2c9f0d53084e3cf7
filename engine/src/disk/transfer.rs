//! How far a transfer got: short reads and writes, the same for every real backend.
//!
//! Invariant: a transfer goes on only from an offset at which direct I/O can start.

use std::io;
use std::ops::ControlFlow;

use crate::config::{PAGE_BYTES, SECTOR_BYTES};

/// Checks what the trait asks of its callers.
pub(super) fn assert_aligned(offset: u64, bytes: usize) {
    assert!(offset.is_multiple_of(PAGE_BYTES as u64), "offset {offset} is not at a page");
    assert!(bytes.is_multiple_of(PAGE_BYTES), "{bytes} bytes are not whole pages");
}

/// After a read at `done`: `Continue` with the new `done`, or `Break` with the bytes read in all.
pub(super) fn after_read(
    done: usize,
    wanted: usize,
    result: io::Result<usize>,
) -> io::Result<ControlFlow<usize, usize>> {
    match result {
        Ok(read) => {
            let done = done + read;
            // A count that is not whole sectors is the end of the file; asking again there would
            // not be aligned.
            let ended = read == 0 || done >= wanted || !done.is_multiple_of(SECTOR_BYTES);
            Ok(if ended { ControlFlow::Break(done) } else { ControlFlow::Continue(done) })
        }
        Err(error) if is_transient(&error) => Ok(ControlFlow::Continue(done)),
        Err(error) => Err(error),
    }
}

/// After a write at `done`: the new `done`, which is at a page or at the end.
pub(super) fn after_write(
    done: usize,
    length: usize,
    result: io::Result<usize>,
) -> io::Result<usize> {
    match result {
        Ok(written) if done + written >= length => Ok(length),
        Ok(written) => {
            let reached = (done + written) / PAGE_BYTES * PAGE_BYTES;
            if reached == done {
                let message = format!("the write stopped after {written} bytes");
                return Err(io::Error::new(io::ErrorKind::WriteZero, message));
            }
            Ok(reached)
        }
        Err(error) if is_transient(&error) => Ok(done),
        Err(error) => Err(error),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: usize = PAGE_BYTES;
    const S: usize = SECTOR_BYTES;

    #[test]
    fn reads_go_on_until_full_or_ended() {
        let after = |done, wanted, read| after_read(done, wanted, Ok(read)).unwrap();
        assert_eq!(after(0, P, P), ControlFlow::Break(P));
        assert_eq!(after(0, 2 * P, P), ControlFlow::Continue(P));
        assert_eq!(after(P, 2 * P, 0), ControlFlow::Break(P));
        assert_eq!(after(P, 3 * P, 100), ControlFlow::Break(P + 100));
        // At a sector, though not at a page, it goes on; within a sector the file ends.
        assert_eq!(after(0, 2 * P, S), ControlFlow::Continue(S));
        assert_eq!(after(P, 3 * P, P + 2 * S), ControlFlow::Continue(2 * P + 2 * S));
        assert_eq!(after(S, 2 * P, S - 1), ControlFlow::Break(2 * S - 1));
        assert_eq!(after(S, 2 * P, S + 1), ControlFlow::Break(2 * S + 1));
        let interrupted = io::Error::from(io::ErrorKind::Interrupted);
        assert_eq!(after_read(P, 2 * P, Err(interrupted)).unwrap(), ControlFlow::Continue(P));
        assert!(after_read(0, P, Err(io::Error::from_raw_os_error(5))).is_err());
    }

    #[test]
    fn writes_go_on_from_a_page_or_fail() {
        let after = |done, length, written| after_write(done, length, Ok(written));
        assert_eq!(after(0, P, P).unwrap(), P);
        assert_eq!(after(0, 3 * P, P + 512).unwrap(), P, "the torn page is written again");
        assert_eq!(after(P, 3 * P, 2 * P).unwrap(), 3 * P);
        let stuck = after(P, 3 * P, 512).expect_err("no progress");
        assert_eq!(stuck.kind(), io::ErrorKind::WriteZero);
        assert!(after(0, P, 0).is_err());
        assert_eq!(after_write(P, 2 * P, Err(io::ErrorKind::Interrupted.into())).unwrap(), P);
        let full = after_write(P, 2 * P, Err(io::Error::from_raw_os_error(28)));
        assert_eq!(full.unwrap_err().raw_os_error(), Some(28));
    }
}
