//! Whether the calling thread works for a shard whose own thread sleeps (`runtime/lease.rs`).
//!
//! It may look at what is in memory then, and no more: the ring, the timers and the tasks belong to
//! the shard's thread. What needs one of them waits for [`own_thread`], and so leaves the rest of
//! the work to that.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::task::Poll;

thread_local! {
    static IS_LENT: Cell<bool> = const { Cell::new(false) };
}

/// Does something for a shard whose thread sleeps.
pub(crate) fn lent<T>(work: impl FnOnce() -> T) -> T {
    struct Ends(bool);
    impl Drop for Ends {
        fn drop(&mut self) {
            IS_LENT.set(self.0);
        }
    }
    let _ends = Ends(IS_LENT.replace(true));
    work()
}

/// Whether the calling code runs within [`lent`].
#[inline]
pub(crate) fn is_lent() -> bool {
    IS_LENT.get()
}

/// Waits until it is polled outside [`lent`]. It wakes nobody: what waits within is polled by the
/// shard's thread next.
pub(crate) fn own_thread() -> impl Future<Output = ()> {
    poll_fn(|_| if is_lent() { Poll::Pending } else { Poll::Ready(()) })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn work_waits_where_its_thread_is_lent() {
        let mut waits = Box::pin(own_thread());
        assert!(lent(|| is_lent() && (&mut waits).now_or_never().is_none()));
        assert!(!is_lent() && waits.now_or_never().is_some());
        let caught = std::panic::catch_unwind(|| lent(|| panic!("told to")));
        assert!(caught.is_err() && !is_lent());
    }
}
