//! One answer that any number of tasks wait for.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::error::Result;

/// The outcome of a chunk, once known.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    result: Option<Result<()>>,
    wakers: Vec<Waker>,
}

impl Receipt {
    pub fn new() -> Rc<Self> {
        Rc::new(Receipt::default())
    }

    /// Gives the answer and wakes who waits. The first answer stands.
    pub fn settle(&self, result: Result<()>) {
        let wakers = {
            let mut state = self.state.borrow_mut();
            if state.result.is_some() {
                return;
            }
            state.result = Some(result);
            std::mem::take(&mut state.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Waits for the answer. May be dropped at any time.
    pub fn wait(self: Rc<Self>) -> Wait {
        Wait { receipt: self, place: None }
    }
}

/// A task waiting for a [`Receipt`].
pub(super) struct Wait {
    receipt: Rc<Receipt>,
    place: Option<usize>,
}

impl Future for Wait {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let receipt = self.receipt.clone();
        let mut state = receipt.state.borrow_mut();
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        match self.place {
            Some(place) => state.wakers[place].clone_from(context.waker()),
            None => {
                self.place = Some(state.wakers.len());
                state.wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}
