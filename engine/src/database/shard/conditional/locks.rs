//! Who may write to a partition: any number of ordinary writes, or one that depends on what is
//! there.
//!
//! A conditional write reads a row, and nobody may write to its partition before it has. So it
//! holds the partition alone, from before it reads until its own write is visible. An ordinary
//! write holds it beside others, from the commitlog until it is visible, where these are two turns.
//!
//! Invariant: who waits is served in order, so neither kind keeps the other out. A hold that nobody
//! waits for any more is given to the next. Partitions are told apart by their tokens: two with one
//! token wait for each other, which is no harm.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use tokio::sync::oneshot;

use crate::mutation::Mutation;
use crate::schema::{TableId, Token};

/// A partition of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    table: TableId,
    token: Token,
}

impl Place {
    /// The partition that a mutation writes to.
    pub fn of(mutation: &Mutation) -> Self {
        Place { table: mutation.table, token: mutation.key.token() }
    }
}

/// How a partition is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Beside others of this kind.
    Write,
    Alone,
}

/// See the head of this file.
#[derive(Default)]
pub struct Locks {
    held: RefCell<HashMap<Place, State>>,
}

#[derive(Default)]
struct State {
    writes: usize,
    is_alone: bool,
    queue: VecDeque<(Kind, oneshot::Sender<Hold>)>,
}

impl State {
    fn admits(&self, kind: Kind) -> bool {
        !self.is_alone && (kind == Kind::Write || self.writes == 0)
    }

    fn enter(&mut self, kind: Kind) {
        assert!(self.admits(kind), "a partition is held by {} writes, and {kind:?}", self.writes);
        match kind {
            Kind::Write => self.writes += 1,
            Kind::Alone => self.is_alone = true,
        }
    }

    fn leave(&mut self, kind: Kind) {
        match kind {
            Kind::Write => {
                assert!(self.writes > 0 && !self.is_alone, "a write leaves that holds nothing");
                self.writes -= 1;
            }
            Kind::Alone => assert!(std::mem::take(&mut self.is_alone), "nobody held it alone"),
        }
    }
}

/// A partition that is held until this is dropped.
pub struct Hold {
    locks: Rc<Locks>,
    place: Place,
    kind: Kind,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.locks.release(self.place, self.kind);
    }
}

impl Locks {
    /// Whether a write may begin now.
    #[inline]
    pub fn admits_write(&self, place: impl FnOnce() -> Place) -> bool {
        let held = self.held.borrow();
        // Mostly nobody holds anything.
        held.is_empty()
            || held
                .get(&place())
                .is_none_or(|state| state.queue.is_empty() && state.admits(Kind::Write))
    }

    /// Takes a partition where that needs no waiting.
    pub fn try_hold(self: &Rc<Self>, place: Place, kind: Kind) -> Option<Hold> {
        let mut held = self.held.borrow_mut();
        let state = held.entry(place).or_default();
        if !state.queue.is_empty() || !state.admits(kind) {
            return None;
        }
        state.enter(kind);
        Some(Hold { locks: self.clone(), place, kind })
    }

    /// Takes a partition when it is free and all who came before have had it. Dropping the future
    /// gives the place in the queue up.
    pub async fn hold(self: &Rc<Self>, place: Place, kind: Kind) -> Hold {
        if let Some(hold) = self.try_hold(place, kind) {
            return hold;
        }
        let (sender, given) = oneshot::channel();
        self.held.borrow_mut().entry(place).or_default().queue.push_back((kind, sender));
        given.await.expect("who waits stays in the queue until it is given its hold")
    }

    fn release(self: &Rc<Self>, place: Place, kind: Kind) {
        let mut given = Vec::new();
        {
            let mut held = self.held.borrow_mut();
            let Entry::Occupied(mut entry) = held.entry(place) else {
                unreachable!("{place:?} is released and was not held")
            };
            let state = entry.get_mut();
            state.leave(kind);
            while let Some((kind, sender)) = state.queue.pop_front() {
                if sender.is_closed() {
                    continue;
                }
                if !state.admits(kind) {
                    state.queue.push_front((kind, sender));
                    break;
                }
                state.enter(kind);
                given.push((kind, sender));
            }
            if state.writes == 0 && !state.is_alone {
                assert!(state.queue.is_empty(), "somebody waits for a partition that is free");
                entry.remove();
            }
        }
        for (kind, sender) in given {
            // One that has just gone gives it back.
            drop(sender.send(Hold { locks: self.clone(), place, kind }));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn place(token: i64) -> Place {
        Place { table: TableId(1), token: Token(token) }
    }

    #[test]
    fn writes_stand_beside_each_other_and_who_is_alone_does_not() {
        let locks = Rc::new(Locks::default());
        let first = locks.try_hold(place(1), Kind::Write).unwrap();
        let second = locks.try_hold(place(1), Kind::Write).unwrap();
        assert!(locks.try_hold(place(1), Kind::Alone).is_none());
        let other = locks.try_hold(place(2), Kind::Alone).unwrap();
        assert!(locks.admits_write(|| place(1)) && !locks.admits_write(|| place(2)));
        drop((first, other));
        assert!(locks.try_hold(place(1), Kind::Alone).is_none());
        drop(second);
        let alone = locks.try_hold(place(1), Kind::Alone).unwrap();
        assert!(locks.try_hold(place(1), Kind::Write).is_none());
        drop(alone);
        assert!(locks.held.borrow().is_empty(), "nothing is left of partitions that are free");
    }

    #[test]
    fn who_waits_comes_in_order_and_who_leaves_is_passed_over() {
        let locks = Rc::new(Locks::default());
        let writing = locks.try_hold(place(1), Kind::Write).unwrap();
        let mut alone = Box::pin(locks.hold(place(1), Kind::Alone));
        assert!((&mut alone).now_or_never().is_none());
        // A later write does not overtake it, though another is there.
        assert!(!locks.admits_write(|| place(1)));
        let mut late = Box::pin(locks.hold(place(1), Kind::Write));
        let mut gone = Box::pin(locks.hold(place(1), Kind::Alone));
        let mut last = Box::pin(locks.hold(place(1), Kind::Write));
        for waiting in [&mut late, &mut last] {
            assert!(waiting.now_or_never().is_none());
        }
        assert!((&mut gone).now_or_never().is_none());
        drop(gone);
        drop(writing);
        let alone = (&mut alone).now_or_never().unwrap();
        assert!((&mut late).now_or_never().is_none());
        drop(alone);
        let (late, last) = (late.now_or_never().unwrap(), last.now_or_never());
        drop(late);
        drop(last.unwrap());
        assert!(locks.held.borrow().is_empty());
    }

    #[test]
    fn a_hold_that_nobody_took_goes_on_to_the_next() {
        let locks = Rc::new(Locks::default());
        let first = locks.try_hold(place(1), Kind::Alone).unwrap();
        let mut given = Box::pin(locks.hold(place(1), Kind::Alone));
        let mut next = Box::pin(locks.hold(place(1), Kind::Alone));
        assert!((&mut given).now_or_never().is_none() && (&mut next).now_or_never().is_none());
        drop(first);
        drop(given);
        assert!((&mut next).now_or_never().is_some());
        drop(next);
        assert!(locks.held.borrow().is_empty());
    }
}
