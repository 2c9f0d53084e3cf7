//! What other threads leave for a shard, and how it waits for that.
//!
//! Mail gathers in one list that the shard takes as a whole. Whoever puts mail in wakes the shard
//! only where it said, under the same lock and after it found nothing, that it is going to sleep:
//! no wake-up is lost, and none is spent on a shard that is awake.
//!
//! Senders that find no room wait in the order in which they came. When mail is taken, as many of
//! them are woken as there is room for. One that was woken may have gone, so all are woken before
//! the shard sleeps.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::stats::RuntimeStats;
use crate::config::MAILBOX_REQUESTS_MAX;
use crate::error::{Error, Result};

/// Somebody waits for room under this number.
pub(super) type Ticket = Option<u64>;

/// See the head of this file.
pub(super) struct Mailbox<T> {
    inner: Mutex<Inner<T>>,
    stats: Arc<RuntimeStats>,
}

struct Inner<T> {
    mail: Vec<T>,
    /// The shard, while it sleeps.
    shard: Option<Waker>,
    /// Who waits for room, by rising numbers.
    senders: VecDeque<(u64, Waker)>,
    next_ticket: u64,
    is_closed: bool,
}

/// The shard's side. With it goes what was not taken, and nothing more gets in.
pub(super) struct Receiver<T>(Arc<Mailbox<T>>);

/// The senders' side: with it the mailbox closes.
pub(super) struct Sender<T>(Arc<Mailbox<T>>);

/// An empty mailbox of a shard with these counters.
pub(super) fn mailbox<T>(stats: Arc<RuntimeStats>) -> (Sender<T>, Receiver<T>) {
    let inner = Inner {
        mail: Vec::new(),
        shard: None,
        senders: VecDeque::new(),
        next_ticket: 0,
        is_closed: false,
    };
    let mailbox = Arc::new(Mailbox { inner: Mutex::new(inner), stats });
    (Sender(mailbox.clone()), Receiver(mailbox))
}

impl<T> Mailbox<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut inner: MutexGuard<'_, Inner<T>>, mail: T) {
        inner.mail.push(mail);
        self.stats.set_mail_waits(true);
        let shard = inner.shard.take();
        drop(inner);
        if let Some(shard) = shard {
            shard.wake();
        }
    }

    fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        let (senders, shard) = (std::mem::take(&mut inner.senders), inner.shard.take());
        drop(inner);
        let senders = senders.into_iter().map(|(_, waker)| waker);
        senders.chain(shard).for_each(Waker::wake);
    }
}

impl<T> Sender<T> {
    /// Puts in what `mail` makes, or waits for room.
    ///
    /// Errors: `Closed`.
    pub(super) fn poll_put(
        &self,
        context: &mut Context<'_>,
        ticket: &mut Ticket,
        mail: impl FnOnce() -> T,
    ) -> Poll<Result<()>> {
        let mailbox = &*self.0;
        let mut inner = mailbox.lock();
        if inner.is_closed {
            return Poll::Ready(Err(Error::Closed));
        }
        if inner.mail.len() >= MAILBOX_REQUESTS_MAX {
            let number = *ticket.get_or_insert_with(|| {
                mailbox.stats.add_mailbox_full();
                inner.next_ticket += 1;
                inner.next_ticket
            });
            let waker = context.waker();
            match inner.senders.binary_search_by_key(&number, |(other, _)| *other) {
                Ok(at) => inner.senders[at].1.clone_from(waker),
                Err(at) => inner.senders.insert(at, (number, waker.clone())),
            }
            return Poll::Pending;
        }
        mailbox.push(inner, mail());
        Poll::Ready(Ok(()))
    }

    /// Puts mail in though it may be full.
    ///
    /// Errors: `Closed`.
    pub(super) fn put_now(&self, mail: T) -> Result<()> {
        let inner = self.0.lock();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        self.0.push(inner, mail);
        Ok(())
    }

    /// Whether there is mail that the shard has not taken; looked at without the lock.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.0.stats.mail_waits()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Receiver<T> {
    /// Takes all mail into `batch`, which is empty, or sleeps until there is some. False when none
    /// will come any more.
    pub(super) fn poll_take(&self, context: &mut Context<'_>, batch: &mut Vec<T>) -> Poll<bool> {
        let mut inner = self.0.lock();
        if !inner.mail.is_empty() {
            return Poll::Ready(Self::take(inner, &self.0.stats, batch));
        }
        self.0.stats.set_mail_waits(false);
        if inner.is_closed {
            return Poll::Ready(false);
        }
        match &mut inner.shard {
            Some(shard) => shard.clone_from(context.waker()),
            shard => *shard = Some(context.waker().clone()),
        }
        let senders = std::mem::take(&mut inner.senders);
        drop(inner);
        senders.into_iter().for_each(|(_, waker)| waker.wake());
        Poll::Pending
    }

    /// Takes all mail that is there. `None` where there is none yet; false when none will come any
    /// more.
    pub(super) fn take_now(&self, batch: &mut Vec<T>) -> Option<bool> {
        let inner = self.0.lock();
        if !inner.mail.is_empty() {
            return Some(Self::take(inner, &self.0.stats, batch));
        }
        self.0.stats.set_mail_waits(false);
        inner.is_closed.then_some(false)
    }

    fn take(mut inner: MutexGuard<'_, Inner<T>>, stats: &RuntimeStats, batch: &mut Vec<T>) -> bool {
        std::mem::swap(&mut inner.mail, batch);
        stats.set_mail_waits(false);
        let room = inner.senders.len().min(MAILBOX_REQUESTS_MAX);
        let senders: Vec<Waker> = inner.senders.drain(..room).map(|(_, waker)| waker).collect();
        drop(inner);
        senders.into_iter().for_each(Waker::wake);
        true
    }

    /// Refuses what comes from now on; what is there can still be taken.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.close();
        // Outside the lock: what was sent may have an end of its own.
        let rest = std::mem::take(&mut self.0.lock().mail);
        drop(rest);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn context(count: &Arc<Count>) -> Waker {
        Waker::from(count.clone())
    }

    #[test]
    fn a_shard_is_woken_once_and_only_where_it_sleeps() {
        let (sender, receiver) = mailbox(Arc::new(RuntimeStats::default()));
        let count = Arc::new(Count::default());
        let waker = context(&count);
        let mut cx = Context::from_waker(&waker);
        let (mut batch, mut ticket) = (Vec::new(), None);
        let mut put = |number: u32| {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(sender.poll_put(&mut cx, &mut ticket, || number).is_ready());
        };
        put(1);
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "it is awake");
        assert_eq!(receiver.poll_take(&mut cx, &mut batch), Poll::Ready(true));
        assert!(receiver.poll_take(&mut cx, &mut Vec::new()).is_pending());
        put(2);
        put(3);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(sender.has_mail());
        batch.clear();
        assert!(receiver.take_now(&mut batch).unwrap() && !sender.has_mail());
        assert_eq!(batch, [2, 3]);
        assert_eq!(receiver.take_now(&mut Vec::new()), None);
        assert!(receiver.poll_take(&mut cx, &mut Vec::new()).is_pending());
        drop(sender);
        assert_eq!(count.0.load(Ordering::SeqCst), 2, "the end is told too");
        assert_eq!(receiver.take_now(&mut Vec::new()), Some(false));
        receiver.close();
        assert_eq!(receiver.poll_take(&mut cx, &mut Vec::new()), Poll::Ready(false));
    }

    /// More senders than there is room for: each piece of mail that is taken wakes as many as fit,
    /// those that came first.
    #[test]
    fn as_many_are_woken_as_there_is_room_for() {
        let (sender, receiver) = mailbox(Arc::new(RuntimeStats::default()));
        let counts: Vec<Arc<Count>> =
            (0..2 * MAILBOX_REQUESTS_MAX + 10).map(|_| Arc::default()).collect();
        let mut tickets = vec![None; counts.len()];
        let put = |number: usize, ticket: &mut Ticket| {
            let waker = context(&counts[number]);
            sender.poll_put(&mut Context::from_waker(&waker), ticket, || number).is_ready()
        };
        (0..MAILBOX_REQUESTS_MAX).for_each(|number| sender.put_now(number).unwrap());
        for (number, ticket) in tickets.iter_mut().enumerate() {
            assert!(!put(number, ticket));
        }
        let woken = || -> Vec<usize> {
            let is_woken = |number: &usize| counts[*number].0.load(Ordering::SeqCst) > 0;
            (0..counts.len()).filter(is_woken).collect()
        };
        let mut batch = Vec::new();
        assert_eq!(receiver.take_now(&mut batch), Some(true));
        assert_eq!(woken(), (0..MAILBOX_REQUESTS_MAX).collect::<Vec<_>>());
        // Others were faster: the first that comes again is still the first.
        (0..MAILBOX_REQUESTS_MAX).for_each(|number| sender.put_now(number).unwrap());
        assert!(!put(5, &mut tickets[5]));
        batch.clear();
        assert_eq!(receiver.take_now(&mut batch), Some(true));
        assert_eq!(counts[5].0.load(Ordering::SeqCst), 2);
        assert_eq!(woken().len(), 2 * MAILBOX_REQUESTS_MAX - 1);
        // Whoever was woken is gone: the shard sleeps only when the others know.
        batch.clear();
        let waker = context(&Arc::default());
        assert!(receiver.poll_take(&mut Context::from_waker(&waker), &mut batch).is_pending());
        assert_eq!(woken().len(), counts.len());
    }

    #[test]
    fn who_waits_for_room_is_told_of_it_and_of_the_end() {
        let stats = Arc::new(RuntimeStats::default());
        let (sender, receiver) = mailbox(stats.clone());
        let count = Arc::new(Count::default());
        let waker = context(&count);
        let mut cx = Context::from_waker(&waker);
        let mut first = None;
        for number in 0..MAILBOX_REQUESTS_MAX {
            assert!(sender.poll_put(&mut cx, &mut first, || number).is_ready());
        }
        for _ in 0..3 {
            assert!(sender.poll_put(&mut cx, &mut first, || 0).is_pending());
        }
        sender.put_now(8).unwrap();
        assert_eq!(stats.mailbox_full_count(), 1, "one sender waits");
        let mut batch = Vec::new();
        assert_eq!(receiver.take_now(&mut batch), Some(true));
        assert_eq!((batch.len(), count.0.load(Ordering::SeqCst)), (MAILBOX_REQUESTS_MAX + 1, 1));
        for _ in 0..MAILBOX_REQUESTS_MAX {
            assert!(sender.poll_put(&mut cx, &mut first, || 7).is_ready());
        }
        assert!(sender.poll_put(&mut cx, &mut None, || 0).is_pending());
        receiver.close();
        assert_eq!(count.0.load(Ordering::SeqCst), 2, "who waits is told of the end");
        assert!(matches!(
            sender.poll_put(&mut cx, &mut first, || 8),
            Poll::Ready(Err(Error::Closed))
        ));
        assert!(matches!(sender.put_now(9), Err(Error::Closed)));
        batch.clear();
        assert_eq!(receiver.poll_take(&mut cx, &mut batch), Poll::Ready(true));
        assert_eq!(batch, [7; MAILBOX_REQUESTS_MAX], "what was accepted is taken");
    }
}
