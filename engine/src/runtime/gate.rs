//! A gate that work passes in and out of, and that closes once all of it is out.
//!
//! Invariant: after [`Gate::close`] has answered, nothing is inside and nothing gets in.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::error::{Error, Result};

/// Counts what is inside; closing refuses newcomers and waits for those inside. Clones are the
/// same gate.
#[derive(Clone, Default)]
pub struct Gate {
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    inside_count: Cell<usize>,
    closed: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// Being inside; dropping it is leaving.
pub struct GateGuard {
    state: Rc<State>,
}

impl Gate {
    pub fn new() -> Self {
        Gate::default()
    }

    /// Goes in. Errors: `Closed` once closing has begun.
    pub fn enter(&self) -> Result<GateGuard> {
        if self.state.closed.get() {
            return Err(Error::Closed);
        }
        self.state.inside_count.set(self.state.inside_count.get() + 1);
        Ok(GateGuard { state: self.state.clone() })
    }

    /// How many are inside.
    pub fn inside_count(&self) -> usize {
        self.state.inside_count.get()
    }

    /// Whether closing has begun.
    pub fn is_closed(&self) -> bool {
        self.state.closed.get()
    }

    /// Refuses newcomers from its first poll on, and waits until nothing is inside. May be awaited
    /// many times.
    pub async fn close(&self) {
        self.state.closed.set(true);
        poll_fn(|cx| {
            if self.state.inside_count.get() == 0 {
                return Poll::Ready(());
            }
            let mut waiting = self.state.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        let inside = self.state.inside_count.get();
        assert!(inside > 0, "a gate is left as often as it is entered");
        self.state.inside_count.set(inside - 1);
        if inside == 1 {
            let waiting = std::mem::take(&mut *self.state.waiting.borrow_mut());
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake};

    use futures::FutureExt;

    use super::*;

    #[test]
    fn closing_waits_for_those_inside_and_refuses_others() {
        let gate = Gate::new();
        let first = gate.enter().unwrap();
        let second = gate.clone().enter().unwrap();
        assert_eq!(gate.inside_count(), 2);
        let mut closing = pin!(gate.close());
        assert!(closing.as_mut().now_or_never().is_none());
        assert!(gate.is_closed() && matches!(gate.enter(), Err(Error::Closed)));
        drop(first);
        assert!(closing.as_mut().now_or_never().is_none());
        drop(second);
        assert!(closing.now_or_never().is_some());
        assert!(gate.close().now_or_never().is_some(), "closing again is no wait");
    }

    struct Told(AtomicBool);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn all_who_close_a_gate_learn_that_it_is_empty() {
        let gate = Gate::new();
        let inside = gate.enter().unwrap();
        let told = [(); 3].map(|()| Arc::new(Told(AtomicBool::new(false))));
        let mut closing: Vec<_> = told.iter().map(|_| gate.close().boxed_local()).collect();
        for (closing, told) in closing.iter_mut().zip(&told) {
            let waker = Waker::from(told.clone());
            assert!(closing.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(inside);
        let told = told.map(|told| told.0.load(Ordering::Relaxed));
        assert_eq!(told, [true; 3], "of three who close a gate some wait on");
    }
}
