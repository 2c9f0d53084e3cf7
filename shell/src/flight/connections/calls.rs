//! Each call on its way in and out: refused where its connection has no place, counted, its
//! messages bounded, and its place in the trace of its client known to what works for it.
//!
//! ```text
//! message of gRPC:  is compressed 1 | length 4, big-endian | bytes
//! ```
//!
//! Invariant: a call counts for its connection from its first byte to the last of its answer, also
//! where either side goes away. What holds an answer lets go of it as soon as the client is gone.

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use prost::bytes::Bytes;
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use super::activity::Call;
use super::{Connections, Link, MESSAGE_PATIENCE, MESSAGE_RATE};
use crate::query::TraceParent;

/// Bytes before a message.
const HEAD_BYTES: usize = 5;

/// A service whose calls count for their connections.
#[derive(Clone)]
pub(in crate::flight) struct Calls<S> {
    inner: S,
    connections: Connections,
    message_bytes_max: usize,
}

impl<S> Calls<S> {
    /// Hands calls to `inner`. No message may have over `message_bytes_max` bytes.
    pub(in crate::flight) fn new(
        inner: S,
        connections: Connections,
        message_bytes_max: usize,
    ) -> Self {
        Calls { inner, connections, message_bytes_max }
    }
}

impl<S: NamedService> NamedService for Calls<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Calls<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let link = request.extensions().get::<Link>().cloned().unwrap_or_default();
        if let Err(refusal) = self.connections.check(&link) {
            return Box::pin(ready(Ok(refusal.into_http())));
        }
        let call = link.activity.as_ref().map(|activity| activity.begin());
        let messages = Messages::new(self.message_bytes_max);
        let request = request.map(|body| Body::new(Asked::new(body, messages, MESSAGE_PATIENCE)));
        let parent = parent(request.headers());
        let answered = TraceParent::within(parent.as_ref(), || self.inner.call(request));
        Box::pin(async move {
            let mut answered = pin!(answered);
            let answer = poll_fn(|context| {
                TraceParent::within(parent.as_ref(), || answered.as_mut().poll(context))
            });
            let answer = answer.await?;
            Ok(answer.map(|body| Body::new(Answer { body, parent, _call: call })))
        })
    }
}

/// The place of a call in the trace of its client. Two of them are none: nobody knows which holds.
fn parent(headers: &http::HeaderMap) -> Option<TraceParent> {
    let mut all = headers.get_all("traceparent").iter();
    match (all.next(), all.next()) {
        (Some(one), None) => TraceParent::of_header(one.to_str().ok()?),
        _ => None,
    }
}

/// Messages in the bytes of a call, as they come.
struct Messages {
    bytes_max: usize,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that are still to come.
    left: usize,
    /// Whether the first one is whole.
    has_first: bool,
}

impl Messages {
    fn new(bytes_max: usize) -> Self {
        Messages { bytes_max, head: [0; HEAD_BYTES], head_bytes: 0, left: 0, has_first: false }
    }

    /// Bytes come.
    ///
    /// Errors: INVALID_ARGUMENT at the head of a message that is too long.
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.left == 0 {
                let count = bytes.len().min(HEAD_BYTES - self.head_bytes);
                let (head, rest) = bytes.split_at(count);
                self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(head);
                self.head_bytes += count;
                bytes = rest;
                if self.head_bytes < HEAD_BYTES {
                    return Ok(());
                }
                let [_, length @ ..] = self.head;
                (self.left, self.head_bytes) = (u32::from_be_bytes(length) as usize, 0);
                if self.left > self.bytes_max {
                    return Err(too_long(self.left, self.bytes_max));
                }
            } else {
                let count = bytes.len().min(self.left);
                self.left -= count;
                bytes = &bytes[count..];
            }
            self.has_first |= self.left == 0;
        }
        Ok(())
    }
}

/// The request is wrong: sent again as it is, it is too long again.
fn too_long(bytes: usize, bytes_max: usize) -> Status {
    Status::invalid_argument(format!(
        "a message of {bytes} bytes, at most {bytes_max} are taken: send rows in smaller batches, \
         or have the service take longer ones (serve --message-bytes-max)"
    ))
}

/// What a client sends in a call.
struct Asked {
    body: Body,
    messages: Messages,
    /// How long the first message may take, beside what its bytes take.
    patience: Duration,
    /// Runs from when the first message was waited for.
    until: Option<Pin<Box<Sleep>>>,
}

impl Asked {
    fn new(body: Body, messages: Messages, patience: Duration) -> Self {
        Asked { body, messages, patience, until: None }
    }

    /// Whether the first message takes too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        if self.messages.has_first {
            return false;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        until.as_mut().poll(context).is_ready()
    }

    /// Bytes of a call: those of its first message are worth time.
    fn note(&mut self, bytes: &[u8]) -> Result<(), Status> {
        self.messages.take(bytes)?;
        if self.messages.has_first {
            self.until = None;
        } else if let Some(until) = &mut self.until {
            let worth = Duration::from_nanos(bytes.len() as u64 * (1_000_000_000 / MESSAGE_RATE));
            let deadline = until.deadline() + worth;
            until.as_mut().reset(deadline);
        }
        Ok(())
    }
}

impl http_body::Body for Asked {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref().map(|data| self.note(data)) {
                Some(Err(error)) => Poll::Ready(Some(Err(error))),
                _ => polled,
            },
            Poll::Pending if self.is_late(context) => {
                Poll::Ready(Some(Err(Status::deadline_exceeded(format!(
                    "the first message of the call did not come within {} s: send it when the call \
                     begins",
                    self.patience.as_secs()
                )))))
            }
            _ => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a call is answered with.
struct Answer {
    body: Body,
    /// What makes rows while they are sent works for the call as well.
    parent: Option<TraceParent>,
    /// Ends when the answer does, or when nobody reads it any more.
    _call: Option<Call>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Answer { body, parent, .. } = &mut *self;
        TraceParent::within(parent.as_ref(), || Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use http_body::Body as _;
    use tidegate_engine::clock::{Clock, SimulatedClock};
    use tonic::Code;

    use super::super::Activity;
    use super::*;

    /// A message of so many bytes.
    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend_from_slice(&u32::try_from(bytes).unwrap().to_be_bytes());
        message.resize(HEAD_BYTES + bytes, 7);
        message
    }

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let all = [message(3), message(0), message(100)].concat();
        for step in 1..=all.len() {
            let mut messages = Messages::new(100);
            let mut first_at = None;
            for (part, bytes) in all.chunks(step).enumerate() {
                messages.take(bytes).unwrap();
                if messages.has_first && first_at.is_none() {
                    first_at = Some(part);
                }
            }
            assert_eq!(first_at, Some((HEAD_BYTES + 2) / step), "{step} bytes at once");
            assert_eq!((messages.left, messages.head_bytes), (0, 0));
        }
    }

    #[test]
    fn a_long_message_is_refused_at_its_head_wherever_it_stands() {
        for before in [vec![], message(100), [message(1), message(0)].concat()] {
            let mut messages = Messages::new(100);
            messages.take(&before).unwrap();
            let error = messages.take(&message(101)[..HEAD_BYTES]).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            assert!(error.message().starts_with("a message of 101 bytes, at most 100"), "{error}");
        }
        let mut empty = Messages::new(100);
        empty.take(&message(0)).unwrap();
        assert!(empty.has_first, "an empty message is one");
    }

    /// A client that sends these parts and then nothing, without an end.
    struct Parts(VecDeque<Vec<u8>>);

    impl http_body::Body for Parts {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let part = self.0.pop_front().map(|part| Ok(Frame::data(part.into())));
            part.map_or(Poll::Pending, |part| Poll::Ready(Some(part)))
        }
    }

    fn asked(parts: Vec<Vec<u8>>, patience: Duration) -> Asked {
        Asked::new(Body::new(Parts(parts.into())), Messages::new(1 << 20), patience)
    }

    /// Takes what there is of what a client sends; an error, if one comes.
    fn poll(asked: &mut Asked, context: &mut Context<'_>) -> Poll<Status> {
        loop {
            match Pin::new(&mut *asked).poll_frame(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(error),
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The error that comes in the end.
    async fn refused(mut asked: Asked) -> Status {
        poll_fn(|context| poll(&mut asked, context)).await
    }

    /// Takes what there is, which is no error.
    async fn take(asked: &mut Asked) {
        let is_over = poll_fn(|context| Poll::Ready(poll(asked, context).is_ready())).await;
        assert!(!is_over, "no error comes");
    }

    #[tokio::test]
    async fn a_call_has_to_begin_in_time_and_then_has_all_the_time() {
        let silent = refused(asked(vec![], Duration::ZERO)).await;
        assert_eq!(silent.code(), Code::DeadlineExceeded);
        let part = message(8)[..HEAD_BYTES + 7].to_vec();
        let slow = refused(asked(vec![part.clone()], Duration::ZERO)).await;
        assert_eq!(slow.code(), Code::DeadlineExceeded);
        let mut whole = asked(vec![part, vec![7]], Duration::ZERO);
        take(&mut whole).await;
        assert!(whole.until.is_none());
    }

    #[tokio::test]
    async fn bytes_of_a_first_message_are_worth_time() {
        let hour = Duration::from_secs(3600);
        let mut slow = asked(vec![], hour);
        take(&mut slow).await;
        let before = slow.until.as_ref().unwrap().deadline();
        let second = usize::try_from(MESSAGE_RATE).unwrap();
        slow.body = Body::new(Parts([message(1 << 20)[..second].to_vec()].into()));
        take(&mut slow).await;
        let gained = slow.until.as_ref().unwrap().deadline() - before;
        assert_eq!(gained.as_millis().div_ceil(10), 100, "{gained:?}");
    }

    /// Answers each call without an end.
    struct Endless;

    impl Service<http::Request<Body>> for Endless {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            ready(Ok(http::Response::new(Body::new(Parts(VecDeque::new())))))
        }
    }

    #[tokio::test]
    async fn a_call_counts_until_nobody_reads_its_answer() {
        let (clock, hour) = (SimulatedClock::new(1), Duration::from_secs(3600));
        let activity = Activity::new(Arc::clone(&clock) as Arc<dyn Clock>, hour);
        activity.let_in();
        let mut calls = Calls::new(Endless, Connections::new(1 << 20, None), 1 << 20);
        let mut request = http::Request::new(Body::empty());
        let link = Link { activity: Some(Arc::clone(&activity)), ..Link::default() };
        request.extensions_mut().insert(link);
        let answer = calls.call(request).await.unwrap();
        clock.advance(2 * hour);
        assert_eq!(activity.left(), Some(hour));
        drop(answer);
        clock.advance(hour / 4);
        assert_eq!(activity.left(), Some(3 * hour / 4));
    }
}
