//! The interface of files to the shard's cache: look up, keep and forget pages and parsed pieces.
//!
//! Invariant: a page enters only if the capacity has room. Otherwise only its reader gets it. Not
//! here: reading (`paged_file.rs`).

use std::any::Any;
use std::rc::Rc;

use super::{Content, FORGET_PAGES_ALONE_MAX, FORGET_PAGES_MAX, LinkedPage, Page, PageKey};
use crate::cache::budget::{Arrival, PageCounts};
use crate::cache::shard_cache::{PageCache, State};
use crate::cache::slab::NONE;
use crate::config::PAGE_BYTES;
use crate::policy::event::{EntryAttributes, EntryKind, LOAD_COST_US};

impl PageCache {
    /// A number for a file, never given twice.
    pub(super) fn next_file(&self) -> u64 {
        self.state().owners.pages.next_file()
    }

    /// The resident page, counted as used; nothing is counted when there is none.
    pub(super) fn lookup(&self, key: PageKey) -> Option<Page> {
        let State { budget, owners, .. } = &mut *self.state();
        let linked = owners.pages.get_mut(key)?;
        linked.is_used = true;
        let Content::Page(page) = &linked.content else {
            unreachable!("a file has pages or parsed pieces")
        };
        let (page, slot) = (page.clone(), linked.slot);
        budget.hit(slot, owners);
        Some(page)
    }

    /// The resident piece that was parsed, counted as used.
    pub(super) fn lookup_parsed(&self, key: PageKey) -> Option<Rc<dyn Any>> {
        let State { budget, owners, .. } = &mut *self.state();
        let linked = owners.pages.get_mut(key)?;
        linked.is_used = true;
        let Content::Parsed(piece) = &linked.content else {
            unreachable!("a file has pages or parsed pieces")
        };
        let (piece, slot) = (piece.clone(), linked.slot);
        budget.hit(slot, owners);
        Some(piece)
    }

    /// Keeps a parsed piece of `bytes`, if there is room; one that is there already stays. Whether
    /// one is there now.
    pub(super) fn insert_parsed(
        &self,
        key: PageKey,
        kind: EntryKind,
        table: u32,
        piece: Rc<dyn Any>,
        bytes: usize,
    ) -> bool {
        if self.holds(key) {
            return true;
        }
        self.count(kind, |counts| counts.misses += 1);
        // What no policy can be told of is not kept either.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.keep((key, kind, table), Content::Parsed(piece), bytes)
    }

    /// A read waits for a page that is on its way: neither a hit nor a miss, but no I/O of its own.
    pub(super) fn join(&self, key: PageKey, kind: EntryKind) {
        let State { budget, owners, .. } = &mut *self.state();
        budget.counts_of(kind).joined += 1;
        if budget.is_recording() {
            budget.record(owners.pages.fingerprint(key), kind, PAGE_BYTES as u32, true);
        }
    }

    pub(super) fn holds(&self, key: PageKey) -> bool {
        self.state.borrow().owners.pages.holds(key)
    }

    /// Whether the pages of a piece are to be kept whose rows are kept as well: when it is read for
    /// the second time, or where an admission policy is to decide.
    pub(super) fn is_second_time(&self, first: PageKey) -> bool {
        let State { budget, owners, .. } = &mut *self.state();
        budget.is_second_time(owners.pages.fingerprint(first))
    }

    pub(super) fn count(&self, kind: EntryKind, count: impl FnOnce(&mut PageCounts)) {
        count(self.state().budget.counts_of(kind));
    }

    /// Keeps a page that was read, if there is room beside the pages in use.
    pub(super) fn insert(&self, key: PageKey, kind: EntryKind, table: u32, page: Page) {
        debug_assert!(page.len() <= PAGE_BYTES, "a page is at most a page long");
        self.keep((key, kind, table), Content::Page(page), PAGE_BYTES as u32);
    }

    fn keep(
        &self,
        (key, kind, table): (PageKey, EntryKind, u32),
        content: Content,
        bytes: u32,
    ) -> bool {
        self.evicting(|state| state.keep((key, kind, table), content, bytes))
    }

    /// Drops the pages of a closed file, the rest of a large one by and by.
    pub(super) fn forget_file(&self, file: u64) {
        self.evicting(|state| {
            state.owners.pages.forget_file(file);
            state.budget.forget_source(file);
            state.free_forgotten(FORGET_PAGES_ALONE_MAX);
        });
    }
}

impl State {
    /// Keeps what was read, if it is let in and there is room; whether it is kept.
    fn keep(
        &mut self,
        (key, kind, table): (PageKey, EntryKind, u32),
        content: Content,
        bytes: u32,
    ) -> bool {
        assert!(!self.owners.pages.holds(key), "a resident page is not read again");
        self.free_forgotten(FORGET_PAGES_MAX);
        let attributes = EntryAttributes {
            fingerprint: self.owners.pages.fingerprint(key),
            size_bytes: bytes,
            cost_us: LOAD_COST_US,
            table,
        };
        self.budget.record(attributes.fingerprint, kind, bytes, false);
        let run = self.budget.run(key.file, key.page);
        if !self.budget.admits(&attributes, kind, run) {
            return false;
        }
        self.make_room(u64::from(bytes));
        if !self.budget.has_room_for(u64::from(bytes)) {
            self.budget.pass(&attributes, kind);
            return false;
        }
        let slot = self.budget.allocate(attributes, kind, Arrival::Read { run });
        let slot = slot.expect("a slot is free where not all are taken");
        let page = LinkedPage {
            kind,
            content,
            bytes,
            table,
            key,
            slot,
            stamp: 0,
            is_used: false,
            previous: NONE,
            next: NONE,
        };
        let number = self.owners.pages.insert(Box::new(page));
        self.owners.own_page(slot, number);
        debug_assert!(self.owners.pages.holds(key), "what came in is there");
        true
    }
}
