//! A future whose polls happen within something: a class of I/O, a group, an account, a probe.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::clock::Clock;

/// What holds while a future is polled.
pub(crate) trait Scope {
    /// A poll begins.
    fn enter(&mut self);
    /// Takes back what `enter` did, also where the poll panics.
    fn leave(&mut self);
}

/// The first is entered first and left last.
impl<A: Scope, B: Scope> Scope for (A, B) {
    fn enter(&mut self) {
        self.0.enter();
        self.1.enter();
    }

    fn leave(&mut self) {
        self.1.leave();
        self.0.leave();
    }
}

/// A value that stands in a place of the thread while a future is polled; meanwhile it keeps what
/// stood there before.
pub(crate) struct Within<T> {
    value: Option<T>,
    replace: fn(T) -> T,
}

impl<T> Within<T> {
    /// `replace` puts a value in the place, and returns the one before.
    pub(crate) fn new(value: T, replace: fn(T) -> T) -> Self {
        Within { value: Some(value), replace }
    }

    fn exchange(&mut self) {
        self.value = self.value.take().map(self.replace);
    }
}

impl<T> Scope for Within<T> {
    fn enter(&mut self) {
        self.exchange();
    }

    fn leave(&mut self) {
        self.exchange();
    }
}

/// Tells how long each poll took, in nanoseconds.
pub(crate) struct Timed<T> {
    clock: Arc<dyn Clock>,
    since_ns: u64,
    tell: T,
}

impl<T: FnMut(u64)> Timed<T> {
    pub(crate) fn new(clock: Arc<dyn Clock>, tell: T) -> Self {
        Timed { clock, since_ns: 0, tell }
    }
}

impl<T: FnMut(u64)> Scope for Timed<T> {
    fn enter(&mut self) {
        self.since_ns = self.clock.monotonic_ns();
    }

    fn leave(&mut self) {
        (self.tell)(self.clock.monotonic_ns().saturating_sub(self.since_ns));
    }
}

pin_project! {
    /// See [`scoped`].
    pub(crate) struct Scoped<F, S> {
        #[pin]
        future: F,
        scope: S,
    }
}

/// Runs a future so that each of its polls happens within `scope`. It takes no more room than the
/// two; an async fn would hold the future twice, as an argument and as what it awaits.
pub(crate) fn scoped<F: Future, S: Scope>(future: F, scope: S) -> Scoped<F, S> {
    Scoped { future, scope }
}

/// A poll, or other work, within the scope; it ends where this is dropped.
pub(crate) struct Entered<'a, S: Scope>(&'a mut S);

impl<'a, S: Scope> Entered<'a, S> {
    pub(crate) fn new(scope: &'a mut S) -> Self {
        scope.enter();
        Entered(scope)
    }
}

impl<S: Scope> Drop for Entered<'_, S> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<F: Future, S: Scope> Future for Scoped<F, S> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered::new(this.scope);
        this.future.poll(context)
    }
}

pin_project! {
    /// See [`held_back`].
    pub(crate) struct HeldBack<F> {
        #[pin]
        future: F,
        holds: fn() -> bool,
    }
}

/// Leaves a future alone while `holds` says so, and asks to be polled again: a set of futures polls
/// only those again that did.
pub(crate) fn held_back<F: Future>(future: F, holds: fn() -> bool) -> HeldBack<F> {
    HeldBack { future, holds }
}

impl<F: Future> Future for HeldBack<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match (this.holds)() {
            true => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            false => this.future.poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::panic::AssertUnwindSafe;

    use futures::FutureExt;

    use super::*;

    struct Told<'a>(&'static str, &'a RefCell<Vec<String>>);

    impl Scope for Told<'_> {
        fn enter(&mut self) {
            self.1.borrow_mut().push(format!("+{}", self.0));
        }

        fn leave(&mut self) {
            self.1.borrow_mut().push(format!("-{}", self.0));
        }
    }

    #[test]
    fn each_poll_enters_and_leaves_also_by_a_panic() {
        let told = RefCell::default();
        let scope = || (Told("a", &told), Told("b", &told));
        let mut polls = 0;
        let twice = std::future::poll_fn(|_| {
            polls += 1;
            told.borrow_mut().push("poll".into());
            if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut twice = scoped(twice, scope());
        assert!((&mut twice).now_or_never().is_none());
        assert!(twice.now_or_never().is_some());
        let once = ["+a", "+b", "poll", "-b", "-a"];
        assert_eq!(told.take(), [once, once].concat());

        let panics = scoped(async { panic!("as a task may") }, scope());
        let caught: Option<Result<(), _>> = AssertUnwindSafe(panics).catch_unwind().now_or_never();
        assert!(caught.is_some_and(|result| result.is_err()));
        assert_eq!(told.take(), ["+a", "+b", "-b", "-a"]);
    }

    #[test]
    fn a_future_that_is_held_back_is_left_alone() {
        thread_local! { static HOLDS: Cell<bool> = const { Cell::new(true) }; }
        let polls = Cell::new(0);
        let future = async {
            polls.set(polls.get() + 1);
            7
        };
        let bytes = size_of_val(&future);
        let held = held_back(future, || HOLDS.get());
        assert!(size_of_val(&held) <= bytes + size_of::<fn() -> bool>(), "it holds it once");
        let mut held = Box::pin(held);
        assert!((&mut held).now_or_never().is_none() && polls.get() == 0);
        HOLDS.set(false);
        assert_eq!((held.now_or_never(), polls.get()), (Some(7), 1));
    }

    #[test]
    fn it_takes_the_room_of_the_future_once() {
        let told = RefCell::default();
        let large = async {
            let bytes = [1u8; 4096];
            std::future::ready(()).await;
            bytes.len()
        };
        let bytes = size_of_val(&large);
        let scoped = scoped(large, Told("a", &told));
        assert!(size_of_val(&scoped) <= bytes + size_of::<Told>() + 8, "{}", size_of_val(&scoped));
        assert_eq!(scoped.now_or_never(), Some(4096));
    }
}
