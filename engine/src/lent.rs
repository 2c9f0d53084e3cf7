//! Whether the calling thread works for a shard whose own thread sleeps (`runtime/lease.rs`).
//!
//! It may look at what is in memory then, and no more: the ring, the timers and the tasks belong to
//! the shard's thread. What needs one of them is wrapped in [`on_own_thread`], and so leaves the
//! rest of the work to that.

use std::cell::Cell;
use std::future::Future;

use futures::future::LocalBoxFuture;

use crate::scoped::held_back;

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

/// Polls a future outside [`lent`] only. Within, it asks to be polled again: the shard's thread
/// polls what waits there next, but a set of futures polls only those that ask. A request that is
/// under way may be shared by several readers, so that it was begun on the shard's thread is not
/// enough.
pub(crate) fn on_own_thread<'a, T>(future: impl Future<Output = T> + 'a) -> LocalBoxFuture<'a, T> {
    Box::pin(held_back(future, is_lent))
}

#[cfg(test)]
mod tests {
    use std::future::{poll_fn, ready};
    use std::rc::Rc;
    use std::task::Poll;

    use futures::stream::FuturesOrdered;
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn work_waits_where_its_thread_is_lent() {
        let mut waits = on_own_thread(ready(()));
        assert!(lent(|| is_lent() && (&mut waits).now_or_never().is_none()));
        assert!(!is_lent() && waits.now_or_never().is_some());
        let caught = std::panic::catch_unwind(|| lent(|| panic!("told to")));
        assert!(caught.is_err() && !is_lent());
    }

    /// Several readers share a request: one on the shard's thread begins it, another that has the
    /// lease only finds it.
    #[test]
    fn what_was_begun_is_polled_by_its_own_thread_only() {
        let polls = Rc::new(Cell::new(0));
        let counted = polls.clone();
        let request = on_own_thread(poll_fn(move |_| {
            assert!(!is_lent(), "another thread polls a request");
            counted.set(counted.get() + 1);
            if counted.get() < 3 { Poll::Pending } else { Poll::Ready(7) }
        }));
        let mut first = request.shared();
        let mut second = first.clone();
        assert!((&mut first).now_or_never().is_none() && polls.get() == 1);
        assert!(lent(|| (&mut second).now_or_never().is_none()) && polls.get() == 1);
        assert!((&mut second).now_or_never().is_none() && polls.get() == 2);
        assert_eq!((first.now_or_never(), second.now_or_never()), (Some(7), Some(7)));
    }

    #[test]
    fn of_a_set_of_futures_all_go_on_outside() {
        let works = (0..40).map(|number| on_own_thread(ready(number)));
        let mut all = std::pin::pin!(works.collect::<FuturesOrdered<_>>().collect::<Vec<i32>>());
        assert!(lent(|| all.as_mut().now_or_never().is_none()));
        assert_eq!(all.now_or_never(), Some((0..40).collect()));
    }

    #[test]
    fn a_loan_within_another_ends_with_the_outer_one() {
        lent(|| {
            lent(|| assert!(is_lent()));
            assert!(is_lent(), "the outer one goes on");
            let caught = std::panic::catch_unwind(|| lent(|| panic!("told to")));
            assert!(caught.is_err() && is_lent(), "so it does where the inner one breaks off");
            assert!(on_own_thread(ready(())).now_or_never().is_none());
        });
        assert!(!is_lent() && on_own_thread(ready(())).now_or_never().is_some());
    }
}
