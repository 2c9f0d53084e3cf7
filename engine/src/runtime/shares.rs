//! Groups of tasks that divide a shard's thread by shares.
//!
//! A task that belongs to a group and has used up its turn stands in the queue of its group.
//! Whenever a turn ends, the first of the group that had least time for its shares has the next
//! one. So one of them has a turn for each time that the thread takes note of mail and of answers
//! of the disk, however many there are. Mail is answered in turns of its own. The time goes to
//! the groups that it was answered for, and while more mail waits, a group that had more for its
//! shares is held back.
//!
//! ```text
//! yield ──> queue of the group ──> released, the thread comes round ──> turn ──> charged ─┐
//!             ▲                                                                          │
//!             └────────────────────────── yield ─────────────────────────────────────────┘
//! ```
//! Invariant: while a task stands in a queue, another one is released or has its turn, or mail
//! waits; whoever ends sees to the next. Time that a group did not use while it had nothing to do
//! is nobody's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::clock::Clock;
use crate::scoped::{Scope, scoped};

/// Shares of a group that was not named.
const SHARES_DEFAULT: u32 = 1000;
/// What a turn counts beside its time, which stands still where it is simulated.
const TURN_NS: u64 = 1000;

thread_local! {
    /// Group of the task that is polled.
    static CURRENT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Those of the shard that the thread works for.
    static ALL: RefCell<Option<Rc<Groups>>> = const { RefCell::new(None) };
}

/// Runs a future as a task of a group, which is charged with its time. Tasks that it spawns are not
/// of the group.
pub fn in_group<F: Future>(group: u64, future: F) -> impl Future<Output = F::Output> {
    scoped(future, InGroup { group, outer: None, groups: None, since_ns: 0 })
}

/// The group of a task while it is polled.
struct InGroup {
    group: u64,
    outer: Option<u64>,
    groups: Option<Rc<Groups>>,
    since_ns: u64,
}

impl Scope for InGroup {
    fn enter(&mut self) {
        self.outer = CURRENT.replace(Some(self.group));
        self.groups = current();
        self.since_ns = self.groups.as_ref().map_or(0, |groups| groups.clock.monotonic_ns());
    }

    fn leave(&mut self) {
        if let Some(groups) = self.groups.take() {
            groups.charge(self.group, groups.clock.monotonic_ns().saturating_sub(self.since_ns));
        }
        CURRENT.set(self.outer);
    }
}

/// Charges a group of the shard that the calling code works for with so much of its time.
pub fn charge_group(group: u64, spent_ns: u64) {
    ALL.with_borrow(|all| {
        if let Some(all) = all {
            all.charge(group, spent_ns);
        }
    });
}

/// Sets the groups of the shard that the calling code works for, each with its shares. Tasks of
/// others go on with the default.
pub fn set_groups(groups: &[(u64, u32)]) {
    if let Some(all) = current() {
        all.set(groups);
    }
}

/// Those of the shard that the calling code works for.
fn current() -> Option<Rc<Groups>> {
    ALL.with_borrow(Clone::clone)
}

/// Makes these the groups of the thread, until a turn is over; returns those before.
pub(super) fn exchange(groups: Option<Rc<Groups>>) -> Option<Rc<Groups>> {
    ALL.replace(groups)
}

/// Puts the task that runs into the queue of its group; `None` where it has none.
pub(super) fn queue_up() -> Option<Queued> {
    let groups = current()?;
    let group = CURRENT.get()?;
    Some(Groups::queue_up(groups, group))
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody's.
    Free,
    /// Of this place, when the thread has come round.
    Released(u64),
    /// Of a task that runs now.
    Running,
}

/// The groups of one shard.
pub(super) struct Groups {
    clock: Arc<dyn Clock>,
    inner: RefCell<Inner>,
}

struct Inner {
    all: Vec<Group>,
    stage: Stage,
    /// Time for shares of whoever had a turn last: whoever comes back starts there.
    floor: u64,
    /// Mail is being answered.
    in_mail: bool,
    /// Least time for shares of the groups that mail was answered for in its last turn.
    mail: Option<u64>,
    next_place: u64,
}

struct Group {
    id: u64,
    shares: u32,
    /// Nanoseconds that it had, for a thousand shares.
    time: u64,
    waiting: VecDeque<(u64, Waker)>,
}

impl Group {
    fn new(id: u64, shares: u32) -> Self {
        Group { id, shares: shares.max(1), time: 0, waiting: VecDeque::new() }
    }
}

impl Groups {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Rc<Self> {
        let inner = Inner {
            all: Vec::new(),
            stage: Stage::Free,
            floor: 0,
            in_mail: false,
            mail: None,
            next_place: 0,
        };
        Rc::new(Groups { clock, inner: RefCell::new(inner) })
    }

    fn set(&self, groups: &[(u64, u32)]) {
        let mut inner = self.inner.borrow_mut();
        for group in &mut inner.all {
            group.shares = SHARES_DEFAULT;
        }
        for (id, shares) in groups {
            inner.group(*id).shares = (*shares).max(1);
        }
        // Of the rest none is kept that nobody waits in.
        inner.all.retain(|group| {
            !group.waiting.is_empty() || groups.iter().any(|(id, _)| *id == group.id)
        });
    }

    fn charge(&self, group: u64, spent_ns: u64) {
        let mut inner = self.inner.borrow_mut();
        let (floor, in_mail) = (inner.floor, inner.in_mail);
        let group = inner.group(group);
        let before = group.time.max(floor);
        let cost = spent_ns.saturating_mul(1000) / u64::from(group.shares);
        group.time = before.saturating_add(cost);
        let after = group.time;
        if in_mail {
            inner.floor = inner.floor.max(before);
            inner.mail = Some(inner.mail.map_or(after, |mail| mail.min(after)));
        }
    }

    /// Mail is answered from now on.
    pub(super) fn begin_mail(&self) {
        let mut inner = self.inner.borrow_mut();
        (inner.in_mail, inner.mail) = (true, None);
    }

    /// No mail is answered, and none will be where it is the last.
    pub(super) fn end_mail(&self, is_last: bool) {
        let mut inner = self.inner.borrow_mut();
        inner.in_mail = false;
        if is_last {
            inner.mail = None;
        }
    }

    /// A turn of the thread has ended: whoever is next has one.
    pub(super) fn end_turn(&self, mail_waits: bool) {
        let next = {
            let Ok(mut inner) = self.inner.try_borrow_mut() else { return };
            if inner.stage == Stage::Running {
                inner.stage = Stage::Free;
            }
            if inner.stage == Stage::Free { inner.release(mail_waits) } else { None }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }

    fn queue_up(groups: Rc<Self>, group: u64) -> Queued {
        let mut inner = groups.inner.borrow_mut();
        let place = inner.next_place;
        inner.next_place += 1;
        let floor = inner.floor;
        let own = inner.group(group);
        own.time = own.time.max(floor);
        own.waiting.push_back((place, Waker::noop().clone()));
        drop(inner);
        Queued { groups, group, place }
    }
}

impl Inner {
    fn group(&mut self, id: u64) -> &mut Group {
        let at = self.all.iter().position(|group| group.id == id).unwrap_or_else(|| {
            self.all.push(Group::new(id, SHARES_DEFAULT));
            self.all.len() - 1
        });
        &mut self.all[at]
    }

    /// Takes whoever is next off its queue, unless mail comes first.
    fn release(&mut self, mail_waits: bool) -> Option<Waker> {
        let waiting = self.all.iter_mut().filter(|group| !group.waiting.is_empty());
        let next = waiting.min_by_key(|group| group.time)?;
        if mail_waits && self.mail.is_some_and(|mail| mail < next.time) {
            return None;
        }
        self.floor = self.floor.max(next.time);
        let (place, waker) = next.waiting.pop_front()?;
        self.stage = Stage::Released(place);
        Some(waker)
    }
}

/// A task in the queue of its group; ready when it is released. Dropped, it gives its place to the
/// next one.
pub(super) struct Queued {
    groups: Rc<Groups>,
    group: u64,
    place: u64,
}

impl Queued {
    /// The thread has come round: the turn begins, and ends with that of the thread.
    pub(super) fn begin(self) {
        self.groups.inner.borrow_mut().stage = Stage::Running;
        self.groups.charge(self.group, TURN_NS);
    }
}

impl Future for Queued {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.groups.inner.borrow_mut();
        if inner.stage == Stage::Released(self.place) {
            return Poll::Ready(());
        }
        let place = self.place;
        let waiting = &mut inner.group(self.group).waiting;
        let own = waiting.iter_mut().find(|(other, _)| *other == place);
        let (_, waker) = own.expect("whoever is not released stands in its queue");
        waker.clone_from(context.waker());
        Poll::Pending
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let next = {
            let mut inner = self.groups.inner.borrow_mut();
            if inner.stage == Stage::Released(self.place) {
                // It may be dropped outside a turn, whose end would see to the next.
                inner.stage = Stage::Free;
                inner.release(false)
            } else {
                let place = self.place;
                inner.group(self.group).waiting.retain(|(other, _)| *other != place);
                None
            }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::clock::SimulatedClock;

    /// Whether it is released when a turn of the thread has ended.
    fn is_next(groups: &Groups, queued: &mut Queued) -> bool {
        groups.end_turn(false);
        queued.now_or_never().is_some()
    }

    /// A client may go away at any moment, and with it a task that is next and has not begun.
    #[test]
    fn a_turn_that_is_dropped_before_it_begins_is_free_for_whoever_comes() {
        for others_wait in [false, true] {
            let groups = Groups::new(SimulatedClock::new(0));
            let queue_up = |group| Groups::queue_up(groups.clone(), group);
            for round in 0..3 {
                let what = format!("round {round}, others wait: {others_wait}");
                let mut gone = queue_up(0);
                assert!(is_next(&groups, &mut gone), "{what}: nobody else waits");
                let waits = others_wait.then(|| queue_up(1));
                drop(gone);
                let mut next = waits.unwrap_or_else(|| queue_up(1));
                assert!(is_next(&groups, &mut next), "{what}: the turn is taken for ever");
                next.begin();
                // One that waits while another one runs, and goes, takes nothing along.
                drop(queue_up(0));
                let mut last = queue_up(0);
                assert!(is_next(&groups, &mut last), "{what}: the turn before has ended");
                last.begin();
                groups.end_turn(false);
            }
        }
    }
}
