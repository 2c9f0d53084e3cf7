//! Answers that come together leave together.
//!
//! A task that was woken for one answer often finds the next ones ready when it runs a moment
//! later, since their reads were asked for together. Each message that leaves alone costs a call
//! of the kernel, here and at the client. So the first answer after a wait lets other tasks run
//! once; then all that are ready go. Nobody waits for an answer that is not there.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::Fuse;
use futures::{Stream, StreamExt};

/// See the head of this file.
pub(super) struct Together<S: Stream> {
    answers: Fuse<S>,
    /// Whether the last answer that was asked for was not there.
    has_waited: bool,
    /// The answer that has let others run.
    held: Option<S::Item>,
}

impl<S: Stream + Unpin> Together<S> {
    pub(super) fn new(answers: S) -> Self {
        Together { answers: answers.fuse(), has_waited: false, held: None }
    }
}

impl<S: Stream + Unpin> Stream for Together<S>
where
    S::Item: Unpin,
{
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(Some(held));
        }
        let next = self.answers.poll_next_unpin(context);
        match next {
            Poll::Pending => {
                self.has_waited = true;
                Poll::Pending
            }
            Poll::Ready(Some(answer)) if self.has_waited => {
                self.has_waited = false;
                self.held = Some(answer);
                // The task comes behind those that are ready to run.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            ready => ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc;
    use futures::task::noop_waker_ref;

    use super::*;

    #[test]
    fn answers_that_are_ready_go_at_once_and_a_late_one_lets_others_come() {
        let (sender, receiver) = mpsc::unbounded();
        let mut answers = Together::new(receiver);
        let mut context = Context::from_waker(noop_waker_ref());
        let mut poll = || answers.poll_next_unpin(&mut context);
        for number in 0..2 {
            sender.unbounded_send(number).unwrap();
        }
        assert_eq!(
            [poll(), poll(), poll()],
            [Poll::Ready(Some(0)), Poll::Ready(Some(1)), Poll::Pending]
        );
        sender.unbounded_send(2).unwrap();
        assert_eq!(poll(), Poll::Pending, "others may come now");
        sender.unbounded_send(3).unwrap();
        drop(sender);
        assert_eq!(
            [poll(), poll(), poll()],
            [Poll::Ready(Some(2)), Poll::Ready(Some(3)), Poll::Ready(None)]
        );
    }

    #[tokio::test]
    async fn the_only_answer_comes_without_another_wake() {
        let (sender, receiver) = mpsc::unbounded();
        let told = tokio::spawn(async move {
            tokio::task::yield_now().await;
            sender.unbounded_send(7).unwrap();
            sender
        });
        let mut answers = Together::new(receiver);
        assert_eq!(answers.next().await, Some(7));
        drop(told.await.unwrap());
        assert_eq!(answers.next().await, None);
    }
}
