//! The cache of a shard: pages, pieces parsed from them, and entries of row caches, within one
//! budget. When the budget is full, the policy names the victims. But if indexes (stored pages and
//! parsed ones) hold more than their share, the least recently used part of them leaves first.
//!
//! An eviction takes two steps. While the state is borrowed, the budget names the victims and frees
//! their slots. After the borrow ends, the owners remove what the slots held: row caches remove
//! rows, and pages are dropped. So an owner may call the cache while it handles an eviction.
//!
//! Invariant: resident bytes exceed the capacity only after it was lowered: by pages that readers
//! hold, and by what `trim` has not freed yet, since the cache is not told when a reader lets go.
//! Not here: what files ask (`pages/access.rs`), what row caches ask (`rows/slots.rs`), what
//! operators ask (`policies.rs`).

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use super::budget::{Budget, PageCacheStats};
use super::owners::{Held, Owners};
use super::pages::{FORGET_PAGES_ALONE_MAX, Flights, INDEX_STEPS_MAX, LinkedPage};
use super::rows::{Handle, PlaceRef};
use crate::config::is_strict;
use crate::mutation::FlatRow;
use crate::policy::Slot;
use crate::policy::event::EntryKind;

/// An entry of a row cache that the policy or the budget had leave.
struct RowLeft {
    handle: Rc<Handle>,
    /// Its row, which says its place; without one it stood at the end of its partition.
    flat: Option<FlatRow>,
    kind: EntryKind,
    bytes: u64,
}

/// What left and stands yet where it stood.
#[derive(Default)]
struct Left {
    rows: Vec<RowLeft>,
    pages: Vec<LinkedPage>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.pages.is_empty()
    }

    /// Takes all of it out, and keeps the memory for the next ones.
    fn take_out(&mut self) {
        self.pages.clear();
        for RowLeft { handle, flat, kind, bytes } in self.rows.drain(..) {
            handle.evicted(PlaceRef::of_entry(flat.as_ref()), kind, bytes);
        }
        debug_assert!(self.is_empty(), "all that left is taken out");
    }
}

pub(super) struct State {
    pub(super) budget: Budget,
    pub(super) owners: Owners,
    victims: Vec<Slot>,
    /// Empty while nobody holds the state.
    left: Left,
    #[cfg(test)]
    pub(super) admission_fault: Option<(usize, super::rows::AdmissionFault)>,
}

/// All that a shard has cached.
pub struct PageCache {
    pub(super) state: RefCell<State>,
    pub(super) flights: RefCell<Flights>,
}

impl PageCache {
    /// An empty cache. `fingerprint_key` is the seed of the fingerprints that policies see.
    pub fn new(capacity_bytes: usize, fingerprint_key: u64) -> Rc<Self> {
        let state = State {
            budget: Budget::new(capacity_bytes as u64),
            owners: Owners::new(fingerprint_key),
            victims: Vec::new(),
            left: Left::default(),
            #[cfg(test)]
            admission_fault: None,
        };
        Rc::new(PageCache { state: RefCell::new(state), flights: RefCell::default() })
    }

    /// The state with all that happened in it: what rows were used is told later and many at once.
    #[inline]
    pub(super) fn state(&self) -> RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        if state.budget.has_used() {
            let State { budget, owners, .. } = &mut *state;
            budget.apply_used(owners);
        }
        state
    }

    /// Does what may have entries leave, and has them taken out once the state is free.
    pub(super) fn evicting<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        self.evicting_for(work, |done| done)
    }

    /// As [`evicting`](Self::evicting); `settle` comes before those that left are taken out.
    pub(super) fn evicting_for<T, U>(
        &self,
        work: impl FnOnce(&mut State) -> T,
        settle: impl FnOnce(T) -> U,
    ) -> U {
        let (done, left) = {
            let state = &mut *self.state();
            debug_assert!(state.left.is_empty(), "what left before was taken out");
            let done = work(state);
            let left = (!state.left.is_empty()).then(|| std::mem::take(&mut state.left));
            (done, left)
        };
        let done = settle(done);
        if let Some(mut left) = left {
            left.take_out();
            let state = &mut *self.state.borrow_mut();
            debug_assert!(state.left.is_empty(), "what left meanwhile was taken out");
            state.left = left;
        }
        self.check();
        done
    }

    /// Where `is_strict`: walks all slots, of a large cache now and then.
    #[inline]
    pub(super) fn check(&self) {
        if !is_strict() {
            return;
        }
        let State { budget, owners, left, .. } = &*self.state.borrow();
        assert!(left.is_empty(), "what left is taken out");
        if budget.is_walk_due() {
            budget.check();
            owners.check(budget);
        }
    }

    /// Where `is_strict`: a slot holds the entry of a partition at a place.
    pub(super) fn check_row(&self, slot: Slot, handle: &Rc<Handle>, place: PlaceRef<'_>) {
        let State { budget, owners, .. } = &*self.state.borrow();
        assert!(budget.resident(slot).is_some(), "slot {slot} of an entry is free");
        assert!(owners.is_row(slot, handle, place), "slot {slot} is that of another entry");
    }

    /// What the cache holds and did since the start.
    pub fn stats(&self) -> PageCacheStats {
        self.state().budget.stats()
    }

    /// Bytes of what was parsed of pages.
    pub fn parsed_bytes(&self) -> u64 {
        self.state.borrow().owners.pages.parsed_bytes()
    }

    /// The budget.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.state.borrow().budget.capacity_bytes()
    }

    /// Changes the budget. Pages above a lower one leave here up to a bounded number and then as
    /// [`trim`](Self::trim) or new pages come.
    pub fn set_capacity_bytes(&self, capacity_bytes: usize) {
        self.evicting(|state| {
            state.budget.set_capacity_bytes(capacity_bytes as u64);
            state.make_room(0);
        });
    }

    /// Percent of the budget up to which indexes are like all else: what they take beyond it leaves
    /// first when room is wanted.
    pub fn set_index_percent(&self, percent: u64) {
        self.state().owners.pages.set_index_percent(percent);
    }

    /// Goes on freeing what a lower capacity or a closed file left, a bounded number of pages; true
    /// when more is left that can be freed now.
    pub fn trim(&self) -> bool {
        self.evicting(|state| {
            state.free_forgotten(FORGET_PAGES_ALONE_MAX);
            let freed = state.make_room(0);
            let over = state.budget.bytes() > state.budget.capacity_bytes();
            state.owners.pages.has_forgotten() || over && freed > 0
        })
    }
}

impl State {
    /// Evicts until `bytes` more fit and have a slot, if that can be; a bounded number of entries.
    /// Returns bytes freed.
    pub(super) fn make_room(&mut self, bytes: u64) -> u64 {
        let over = self.budget.excess(bytes);
        if over == 0 {
            return 0;
        }
        let freed = self.evict_index(over);
        if freed >= over {
            return freed;
        }
        let mut victims = std::mem::take(&mut self.victims);
        debug_assert!(victims.is_empty(), "victims are taken one call after the other");
        let freed = freed + self.budget.evict(over - freed, &self.owners, &mut victims);
        for slot in victims.drain(..) {
            self.release(slot);
        }
        self.victims = victims;
        freed
    }

    /// Evicts what indexes take beyond their share, the least recently used first, up to `over`
    /// bytes and a bounded number. Returns bytes freed.
    fn evict_index(&mut self, over: u64) -> u64 {
        let (mut freed, mut steps) = (0, INDEX_STEPS_MAX);
        let capacity_bytes = self.budget.capacity_bytes();
        while freed < over
            && let Some((slot, bytes)) = self.owners.pages.over_share(capacity_bytes, &mut steps)
        {
            freed += bytes;
            self.budget.evict_one(slot, &self.owners);
            self.release(slot);
        }
        freed
    }

    /// Takes what a slot held, which the budget freed: it leaves once the state is free.
    fn release(&mut self, slot: Slot) {
        match self.owners.take(slot) {
            Held::Page(page) => self.left.pages.push(*page),
            Held::Row(handle, flat) => {
                let (kind, bytes) = self.budget.last(slot);
                self.left.rows.push(RowLeft { handle, flat, kind, bytes });
            }
        }
    }

    /// Frees up to `max` pages of closed files.
    pub(super) fn free_forgotten(&mut self, max: usize) {
        for _ in 0..max {
            let Some(slot) = self.owners.pages.next_forgotten() else { return };
            if let Some(slot) = slot {
                self.budget.remove(slot, &self.owners);
                self.release(slot);
            }
        }
    }
}
