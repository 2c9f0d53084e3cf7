//! A future and its local tasks, polled within a call of somebody else's.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::task::LocalSet;

/// What happens around each poll: it calls its argument.
pub type Around<'a> = dyn Fn(&mut dyn FnMut()) + 'a;

/// Runs a future with a set of local tasks of its own; all polls, and the end of the tasks that
/// are left, happen within calls of `around`.
pub(super) async fn run_tasks<F: Future>(around: &Around<'_>, future: F) -> F::Output {
    let mut tasks = Some(LocalSet::new());
    let output = {
        let set = tasks.as_ref().expect("it is taken below");
        let mut all = pin!(set.run_until(future));
        poll_fn(|context| {
            let mut polled = Poll::Pending;
            around(&mut || polled = all.as_mut().poll(context));
            polled
        })
        .await
    };
    around(&mut || drop(tasks.take()));
    output
}
