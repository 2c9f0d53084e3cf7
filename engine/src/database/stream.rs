//! The batches of a read, as they arrive from the shard.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use tokio::sync::mpsc::Receiver;

use crate::batch::RecordBatch;
use crate::error::{Error, Result};

/// Result of a read. Dropping it stops the work on the shard. After an error the stream is over.
pub struct BatchStream {
    state: State,
    /// Set by the shard when it has sent everything; a stream that ends without was cut.
    is_complete: Arc<AtomicBool>,
}

enum State {
    Starting(BoxFuture<'static, Result<Receiver<Result<RecordBatch>>>>),
    Receiving(Receiver<Result<RecordBatch>>),
    Done,
}

impl BatchStream {
    pub(super) fn new(
        start: BoxFuture<'static, Result<Receiver<Result<RecordBatch>>>>,
        is_complete: Arc<AtomicBool>,
    ) -> Self {
        BatchStream { state: State::Starting(start), is_complete }
    }
}

impl Stream for BatchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.state {
                State::Starting(start) => match ready!(start.as_mut().poll(context)) {
                    Ok(receiver) => self.state = State::Receiving(receiver),
                    Err(error) => {
                        self.state = State::Done;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Receiving(receiver) => {
                    let item = ready!(receiver.poll_recv(context));
                    if !matches!(item, Some(Ok(_))) {
                        self.state = State::Done;
                    }
                    if item.is_none() && !self.is_complete.load(Ordering::Acquire) {
                        return Poll::Ready(Some(Err(Error::Closed)));
                    }
                    return Poll::Ready(item);
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}
