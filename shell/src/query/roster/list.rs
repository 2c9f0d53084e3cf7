//! All sessions that are listed, and all statements that run.
//!
//! Statements stand in stripes. A thread takes its own stripe, so its lock is free but where
//! somebody looks at the list or a statement ends on another thread. To begin and to end a
//! statement takes that lock once each, and memory only where more statements run than ever before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::member::Member;
use super::signal::{Signal, State};

/// Stripes; threads beyond so many share them.
const STRIPES: usize = 64;

/// Numbers threads as they come.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// What is shown of a statement's text; what runs often shares it.
#[derive(Debug)]
pub struct Shown {
    /// Without passwords.
    pub text: Arc<str>,
    /// Of its unqualified names.
    pub keyspace: String,
}

/// See the head of this file.
pub struct Roster {
    stripes: Box<[Arc<Stripe>]>,
    members: Mutex<Vec<Weak<Member>>>,
}

/// Aligned so that no two of them share a line of the processor's cache.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    /// Statements that ever began here.
    count: u64,
    all: Vec<Slot>,
    /// Places without a statement.
    free: Vec<usize>,
}

struct Slot {
    signal: Arc<Signal>,
    about: Option<About>,
}

#[derive(Clone)]
struct About {
    number: u64,
    shown: Arc<Shown>,
    member: Arc<Member>,
    started_ns: u64,
}

/// A statement that runs, as others see it.
pub struct Listed {
    pub number: u64,
    pub shown: Arc<Shown>,
    pub member: Arc<Member>,
    /// By the monotonic clock.
    pub started_ns: u64,
    pub state: State,
    /// Rows that were given.
    pub rows: u64,
}

/// The place of a statement in the roster, which it gives back.
pub(super) struct Place {
    stripe: Arc<Stripe>,
    at: usize,
    pub number: u64,
    pub signal: Arc<Signal>,
}

impl Default for Roster {
    fn default() -> Self {
        let stripes = (0..STRIPES).map(|_| Arc::default()).collect();
        Roster { stripes, members: Mutex::default() }
    }
}

impl Roster {
    /// A statement begins.
    pub(super) fn begin(&self, shown: Arc<Shown>, member: &Arc<Member>, now_ns: u64) -> Place {
        let own = STRIPE.with(|own| *own);
        let stripe = Arc::clone(&self.stripes[own]);
        let member = Arc::clone(member);
        let mut slots = stripe.lock();
        let number = slots.count * STRIPES as u64 + own as u64 + 1;
        slots.count += 1;
        let at = slots.free.pop().unwrap_or_else(|| {
            slots.all.push(Slot { signal: Arc::default(), about: None });
            slots.all.len() - 1
        });
        let slot = &mut slots.all[at];
        slot.signal.begin(number);
        slot.about = Some(About { number, shown, member, started_ns: now_ns });
        let signal = Arc::clone(&slot.signal);
        drop(slots);
        Place { stripe, at, number, signal }
    }

    /// All statements that run, in no order.
    pub fn statements(&self) -> Vec<Listed> {
        let mut all = Vec::new();
        for stripe in &self.stripes {
            let slots = stripe.lock();
            for Slot { signal, about } in &slots.all {
                let Some(About { number, shown, member, started_ns }) = about.clone() else {
                    continue;
                };
                let (state, rows) = (signal.state(number), signal.given());
                all.push(Listed { number, shown, member, started_ns, state, rows });
            }
        }
        all
    }

    /// Whose statement has this number; `None` where none that runs has it.
    pub fn member_of(&self, number: u64) -> Option<Arc<Member>> {
        self.find(number).map(|(member, _)| member)
    }

    /// Ends the statement of this number. False where none that runs has it.
    pub fn end(&self, number: u64) -> bool {
        match self.find(number) {
            Some((_, signal)) => {
                signal.end(number);
                true
            }
            None => false,
        }
    }

    fn find(&self, number: u64) -> Option<(Arc<Member>, Arc<Signal>)> {
        let stripe = usize::try_from(number.checked_sub(1)? % STRIPES as u64).ok()?;
        let slots = self.stripes[stripe].lock();
        slots.all.iter().find_map(|slot| {
            let about = slot.about.as_ref().filter(|about| about.number == number)?;
            Some((Arc::clone(&about.member), Arc::clone(&slot.signal)))
        })
    }

    /// Lists a session until it is dropped.
    pub fn add(&self, member: &Arc<Member>) {
        let mut members = self.members();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(member));
    }

    /// The sessions that are listed, as they came.
    pub fn sessions(&self) -> Vec<Arc<Member>> {
        self.members().iter().filter_map(Weak::upgrade).collect()
    }

    fn members(&self) -> MutexGuard<'_, Vec<Weak<Member>>> {
        self.members.lock().expect("no one panics while holding the sessions")
    }
}

impl Stripe {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().expect("no one panics while holding statements that run")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.signal.clear();
        let about = {
            let mut slots = self.stripe.lock();
            slots.free.push(self.at);
            slots.all[self.at].about.take()
        };
        drop(about);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::query::access::Caller;

    fn shown() -> Arc<Shown> {
        Arc::new(Shown { text: "SELECT 1".into(), keyspace: "default".to_owned() })
    }

    fn member() -> Arc<Member> {
        Arc::new(Member::new("shell", Caller::Owner, 7))
    }

    #[test]
    fn numbers_are_never_used_again_and_places_are() {
        let roster = Roster::default();
        let begin = |now_ns| roster.begin(shown(), &member(), now_ns);
        let two = |now_ns| {
            let (one, other) = (begin(now_ns), begin(now_ns));
            [one.number, other.number]
        };
        let many = || (0..100).flat_map(two).collect::<Vec<u64>>();
        let numbers: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(many)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: BTreeSet<&u64> = numbers.iter().collect();
        assert_eq!(distinct.len(), 800);
        assert!(roster.statements().is_empty());
        for stripe in &roster.stripes {
            assert!(stripe.lock().all.len() <= 8, "two at once of each thread");
        }
    }

    /// What is ended by a number that is gone is not the next statement of that place.
    #[test]
    fn who_ends_a_statement_too_late_ends_nothing() {
        let (roster, member) = (Roster::default(), member());
        let first = roster.begin(shown(), &member, 1);
        let (number, signal) = (first.number, Arc::clone(&first.signal));
        assert!(roster.member_of(number).is_some());
        drop(first);
        assert!(!roster.end(number) && roster.member_of(number).is_none());
        let next = roster.begin(shown(), &member, 2);
        assert!(Arc::ptr_eq(&next.signal, &signal), "the place is used again");
        // Found before it was gone, ended after the next one began.
        signal.end(number);
        assert!(!next.signal.is_ended(next.number));
        assert!(roster.end(next.number));
        signal.end(number);
        assert!(next.signal.is_ended(next.number), "an older end takes no newer one back");
        assert_eq!(roster.statements()[0].state, State::Ending);
        for unknown in [0, next.number + 1, next.number + STRIPES as u64, u64::MAX] {
            assert!(!roster.end(unknown), "{unknown}");
        }
    }

    #[test]
    fn sessions_are_listed_until_they_are_dropped() {
        let roster = Roster::default();
        let (one, other) = (member(), member());
        roster.add(&one);
        roster.add(&other);
        assert_eq!(roster.sessions().len(), 2);
        drop(one);
        assert_eq!(roster.sessions().len(), 1);
        roster.add(&member());
        assert_eq!(roster.members().len(), 2, "those that are gone take no place");
    }
}
