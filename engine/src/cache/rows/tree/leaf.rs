//! A leaf of the tree: entries side by side, in one counted piece of memory.
//!
//! ```text
//! header | heads: room x u16, to whole lots of eight | rows: room x pointer | slots: room x u32
//! ```
//! What a search needs lies together, so that it is fetched together, and a short leaf is small.
//!
//! Invariant: a leaf that several hold never changes. All of its memory is filled at any time:
//! behind the last entry there are greatest heads, no rows, and slots that mean nothing. One
//! thread: holders are counted without atomics.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::mem::take;
use std::ops::Range;
use std::ptr::NonNull;

use super::continuity::Continuity;
use super::heads::{Common, HEADS_AT_ONCE, NO_HEAD, WIDTH, below, head_of};
use super::place::PlaceRef;
use crate::mutation::{FlatRow, Tombstone, Weight};
use crate::policy::Slot;
use crate::prefetch::{LINE_BYTES, Memory};

/// What an entry says beside its place and its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache::rows) struct Claim {
    pub tombstone: Option<Tombstone>,
    pub slot: Slot,
    pub is_known_before: bool,
}

/// An entry that is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) flat: &'a FlatRow,
    pub(super) claim: Claim,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn place(&self) -> PlaceRef<'a> {
        PlaceRef::of_flat(self.flat)
    }
}

/// Rows of entries that lie side by side, and their slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) rows: &'a [FlatRow],
    pub(super) slots: &'a [Slot],
}

/// Room that a leaf takes more when it has none.
const GROWTH: usize = 8;

#[repr(C)]
struct Header {
    holders: Cell<u32>,
    room: u16,
    count: u16,
    common: Common,
    continuity: Continuity,
}

const _: () = assert!(size_of::<Header>() == 48 && align_of::<Header>() == 8);
// Without a row there is a null pointer, so that the rows are rows as far as they go.
const _: () = assert!(size_of::<Option<FlatRow>>() == size_of::<FlatRow>());

/// See the head of this file. Cloning it counts one holder more.
pub(super) struct Leaf(NonNull<Header>);

/// A leaf that nobody else holds, being changed.
struct Parts<'a> {
    header: &'a mut Header,
    heads: &'a mut [u16],
    rows: &'a mut [Option<FlatRow>],
    slots: &'a mut [Slot],
}

/// Where the parts behind the header begin, and where all ends.
#[derive(Clone, Copy)]
struct Places {
    heads: usize,
    rows: usize,
    slots: usize,
    end: usize,
}

impl Places {
    #[inline(always)]
    fn of(room: usize) -> Self {
        let heads = size_of::<Header>();
        let rows = heads + size_of::<u16>() * room.next_multiple_of(HEADS_AT_ONCE);
        let slots = rows + size_of::<FlatRow>() * room;
        Places { heads, rows, slots, end: slots + size_of::<Slot>() * room }
    }

    fn layout(self) -> Layout {
        Layout::from_size_align(self.end, align_of::<Header>()).expect("a leaf is small")
    }
}

impl Leaf {
    /// An empty leaf.
    #[expect(unsafe_code, reason = "one piece of memory behind a thin pointer, with its count")]
    pub(super) fn new(room: usize) -> Self {
        assert!(room <= WIDTH, "a leaf has few entries");
        let places = Places::of(room);
        let layout = places.layout();
        // SAFETY: the layout is never empty, it has the header in it.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory.cast::<Header>()) else { handle_alloc_error(layout) };
        let (common, continuity) = (Common::default(), Continuity::default());
        let header =
            Header { holders: Cell::new(1), room: room as u16, count: 0, common, continuity };
        // SAFETY: the memory is new and aligned for a header; behind it heads, rows and slots
        // follow, each aligned as the one before ends: lots of heads are 16 bytes long, rows 8. All
        // of it is written, with what the types can be.
        unsafe {
            start.write(header);
            memory
                .add(places.heads)
                .cast::<u16>()
                .write_bytes(0xff, (places.rows - places.heads) / 2);
            memory.add(places.rows).write_bytes(0, places.end - places.rows);
        }
        Leaf(start)
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    fn header(&self) -> &Header {
        // SAFETY: the pointer is that of an allocation that lives while `self` is one of its
        // holders, and is changed only while there is one, through a borrow of it that excludes
        // this one.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn room(&self) -> usize {
        usize::from(self.header().room)
    }

    /// Entries.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        usize::from(self.header().count)
    }

    /// A part of the memory: `count` of `T` from byte `at` on.
    ///
    /// Safety: as many were filled there, all of them with a `T`.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    unsafe fn part<T>(&self, at: usize, count: usize) -> &[T] {
        // SAFETY: the caller says that they are there and what they are; they live and stay as they
        // are as long as the borrow of this holder, see `header`.
        unsafe {
            let start = self.0.as_ptr().cast::<u8>().add(at).cast::<T>();
            std::slice::from_raw_parts(start, count)
        }
    }

    /// The heads of all entries, and greatest ones behind them.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    pub(super) fn heads(&self) -> &[u16] {
        let Places { heads, rows, .. } = Places::of(self.room());
        // SAFETY: `new` filled them from there to where the rows begin.
        unsafe { self.part(heads, (rows - heads) / size_of::<u16>()) }
    }

    /// The rows of all entries.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    pub(super) fn rows(&self) -> &[FlatRow] {
        // SAFETY: there are `room` of them; the first `count`, not more, are not `None`, so that
        // they are rows.
        unsafe { self.part(Places::of(self.room()).rows, self.len()) }
    }

    /// The slots of all entries.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    pub(super) fn slots(&self) -> &[Slot] {
        // SAFETY: there are `room` of them, which is not less than `count`.
        unsafe { self.part(Places::of(self.room()).slots, self.len()) }
    }

    /// All of it, to be changed. Nobody else may hold it.
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    fn parts(&mut self) -> Parts<'_> {
        assert!(!self.is_shared(), "what others hold does not change");
        let room = self.room();
        let places = Places::of(room);
        // SAFETY: the parts lie one behind the other and were all filled by `new`; nobody else
        // holds the leaf, and this holder is borrowed for as long as they are.
        unsafe {
            let start = self.0.as_ptr().cast::<u8>();
            let heads = (places.rows - places.heads) / size_of::<u16>();
            Parts {
                header: &mut *self.0.as_ptr(),
                heads: std::slice::from_raw_parts_mut(start.add(places.heads).cast(), heads),
                rows: std::slice::from_raw_parts_mut(start.add(places.rows).cast(), room),
                slots: std::slice::from_raw_parts_mut(start.add(places.slots).cast(), room),
            }
        }
    }

    /// Whether copies of the tree have it as well.
    pub(super) fn is_shared(&self) -> bool {
        self.header().holders.get() > 1
    }

    /// The memory in which a search finds its row, for prefetching.
    #[inline]
    pub(super) fn searched(&self) -> Memory {
        Memory { address: self.0.as_ptr().addr(), bytes: Places::of(self.room()).slots }
    }

    /// Where its memory starts, and a line of it: what tells how much there is.
    pub(super) fn start(&self) -> Memory {
        Memory { address: self.0.as_ptr().addr(), bytes: LINE_BYTES }
    }

    /// All of its memory.
    pub(super) fn memory(&self) -> Memory {
        Memory { address: self.0.as_ptr().addr(), bytes: Places::of(self.room()).end }
    }

    /// This leaf as one that nobody else holds, which can be changed.
    pub(super) fn make_own(&mut self) -> &mut Self {
        if self.is_shared() {
            let mut own = Leaf::new(self.len());
            let Parts { header, heads, rows, slots } = own.parts();
            heads.copy_from_slice(&self.heads()[..heads.len()]);
            slots.copy_from_slice(self.slots());
            for (own, row) in rows.iter_mut().zip(self.rows()) {
                *own = Some(row.clone());
            }
            let Header { common, continuity, count, .. } = self.header();
            (header.common, header.continuity, header.count) =
                (*common, continuity.clone(), *count);
            *self = own;
        }
        debug_assert!(!self.is_shared(), "what is changed is held once");
        self
    }

    /// Moves all entries to a piece of memory with room for this many.
    fn set_room(&mut self, room: usize) {
        debug_assert!(room >= self.len(), "all entries have room");
        let mut new = Leaf::new(room);
        let (from, to) = (self.parts(), new.parts());
        let count = usize::from(take(&mut from.header.count));
        to.heads[..count].copy_from_slice(&from.heads[..count]);
        to.slots[..count].copy_from_slice(&from.slots[..count]);
        to.rows[..count].swap_with_slice(&mut from.rows[..count]);
        (to.header.common, to.header.continuity) =
            (from.header.common, take(&mut from.header.continuity));
        to.header.count = count as u16;
        *self = new;
    }

    /// Gives up all room that it has beyond its entries.
    pub(super) fn fit(&mut self) {
        if self.room() > self.len() {
            self.set_room(self.len());
        }
    }

    /// Gives up what it has of room beyond some.
    fn shrink(&mut self) {
        if self.room() > self.len() + GROWTH {
            self.set_room(self.len() + GROWTH);
        }
    }

    #[inline]
    pub(super) fn continuity(&self) -> &Continuity {
        &self.header().continuity
    }

    #[inline]
    pub(super) fn view(&self, at: usize) -> View<'_> {
        View { flat: &self.rows()[at], claim: self.claim(at) }
    }

    #[inline]
    pub(super) fn claim(&self, at: usize) -> Claim {
        Claim {
            tombstone: self.continuity().tombstone(at),
            slot: self.slots()[at],
            is_known_before: self.continuity().is_known_before(at),
        }
    }

    /// Rows of these entries, with their slots.
    #[inline]
    pub(super) fn run(&self, entries: Range<usize>) -> Run<'_> {
        Run { rows: &self.rows()[entries.clone()], slots: &self.slots()[entries] }
    }

    /// Where a place stands, or would.
    #[inline(always)]
    pub(super) fn search(&self, place: PlaceRef<'_>) -> Result<usize, usize> {
        let head = head_of(self.header().common.bytes(), place);
        let heads = self.heads();
        let low = below(heads, head);
        // Mostly one has this head, and is what is sought.
        let Some(row) = self.rows().get(low) else { return Err(low) };
        if heads[low] != head {
            return Err(low);
        }
        let own = PlaceRef::of_flat(row);
        if own == place {
            return Ok(low);
        }
        match own.cmp(&place) {
            Ordering::Less => self.search_behind(low, head, place),
            Ordering::Equal | Ordering::Greater => Err(low),
        }
    }

    /// Among those with this head from `low` on.
    #[cold]
    fn search_behind(&self, low: usize, head: u16, place: PlaceRef<'_>) -> Result<usize, usize> {
        let heads = &self.heads()[low..self.len()];
        let count = heads.partition_point(|own| *own == head);
        self.rows()[low..low + count]
            .binary_search_by(|row| PlaceRef::of_flat(row).cmp(&place))
            .map(|at| low + at)
            .map_err(|at| low + at)
    }

    /// Puts an entry in; there are fewer than [`WIDTH`].
    pub(super) fn insert(&mut self, at: usize, row: FlatRow, claim: Claim) {
        debug_assert!(self.len() < WIDTH && at <= self.len(), "a leaf has no room at {at}");
        debug_assert!(self.is_between(at, &row), "entries are in order");
        if self.len() == self.room() {
            self.set_room((self.room() + GROWTH).min(WIDTH));
        }
        let Claim { tombstone, slot, is_known_before } = claim;
        let Parts { header, heads, rows, slots } = self.parts();
        let count = usize::from(header.count);
        let common = &header.common;
        let head = head_of(common.bytes(), PlaceRef::of_flat(&row));
        let is_apart = row.weight() == Weight::At
            && !(common.is_of_rows && row.key().starts_with(common.bytes()));
        heads.copy_within(at..count, at + 1);
        heads[at] = head;
        slots.copy_within(at..count, at + 1);
        slots[at] = slot;
        rows[at..=count].rotate_right(1);
        rows[at] = Some(row);
        header.continuity.insert(at, is_known_before, tombstone);
        header.count += 1;
        if is_apart || count == 0 {
            self.find_common();
        }
    }

    /// Whether a place lies between the entries beside where one would come in.
    fn is_between(&self, at: usize, place: &FlatRow) -> bool {
        let (place, rows) = (PlaceRef::of_flat(place), self.rows());
        let lower = at.checked_sub(1).map(|at| PlaceRef::of_flat(&rows[at]));
        let upper = rows.get(at).map(PlaceRef::of_flat);
        lower.is_none_or(|lower| lower < place) && upper.is_none_or(|upper| place < upper)
    }

    pub(super) fn remove(&mut self, at: usize) -> (FlatRow, Claim) {
        debug_assert!(at < self.len(), "a leaf has no entry {at}");
        let claim = self.claim(at);
        let Parts { header, heads, rows, slots } = self.parts();
        let count = usize::from(header.count);
        header.count -= 1;
        header.continuity.remove(at);
        heads.copy_within(at + 1..count, at);
        heads[count - 1] = NO_HEAD;
        slots.copy_within(at + 1..count, at);
        rows[at..count].rotate_left(1);
        let row = rows[count - 1].take().expect("an entry has a row");
        if self.room() > self.len() + 2 * GROWTH {
            self.shrink();
        }
        (row, claim)
    }

    pub(super) fn set_known_before(&mut self, at: usize, is_known: bool) {
        debug_assert!(at < self.len(), "a leaf has no entry {at}");
        self.parts().header.continuity.set_known_before(at, is_known);
    }

    pub(super) fn set_tombstone(&mut self, at: usize, tombstone: Option<Tombstone>) {
        debug_assert!(at < self.len(), "a leaf has no entry {at}");
        self.parts().header.continuity.set_tombstone(at, tombstone);
    }

    /// Exchanges a row, the place being the same.
    pub(super) fn set_row(&mut self, at: usize, row: FlatRow) {
        assert!(at < self.len(), "there is an entry");
        self.parts().rows[at] = Some(row);
    }

    /// Finds anew what keys have in common, and the heads behind it.
    fn find_common(&mut self) {
        let is_row = |row: &&FlatRow| row.weight() == Weight::At;
        let first = self.rows().iter().find(is_row);
        let last = self.rows().iter().rfind(is_row);
        let common = match (first, last) {
            (Some(first), Some(last)) => Common::of(first.key(), last.key()),
            _ => Common::default(),
        };
        let Parts { header, heads, rows, .. } = self.parts();
        header.common = common;
        for (head, row) in heads.iter_mut().zip(rows.iter().flatten()) {
            *head = head_of(common.bytes(), PlaceRef::of_flat(row));
        }
    }

    /// A leaf of the entries from `at` on, which leave this one, with some room.
    pub(super) fn split_off(&mut self, at: usize) -> Leaf {
        let count = self.len();
        debug_assert!(at <= count, "a leaf has no entry {at}");
        let mut right = Leaf::new((count - at + GROWTH).min(WIDTH));
        let (from, to) = (self.parts(), right.parts());
        from.header.count = at as u16;
        from.heads[at..count].fill(NO_HEAD);
        to.slots[..count - at].copy_from_slice(&from.slots[at..count]);
        to.rows[..count - at].swap_with_slice(&mut from.rows[at..count]);
        to.header.continuity = from.header.continuity.split_off(at);
        to.header.count = (count - at) as u16;
        right.find_common();
        if at < count {
            self.shrink();
            self.find_common();
        }
        right
    }

    /// Takes the entries of the next leaf behind its own; together they are few.
    pub(super) fn append(&mut self, next: &Leaf) {
        let (count, more) = (self.len(), next.len());
        debug_assert!(count + more <= WIDTH, "together they are few");
        let first = next.rows().first();
        debug_assert!(
            first.is_none_or(|first| self.is_between(count, first)),
            "leaves are in order"
        );
        self.set_room((count + more + GROWTH).min(WIDTH));
        let Parts { header, rows, slots, .. } = self.parts();
        for (own, row) in rows[count..].iter_mut().zip(next.rows()) {
            *own = Some(row.clone());
        }
        slots[count..count + more].copy_from_slice(next.slots());
        header.continuity.append(count, next.continuity());
        header.count = (count + more) as u16;
        self.find_common();
    }
}

impl Clone for Leaf {
    #[inline]
    fn clone(&self) -> Self {
        let holders = &self.header().holders;
        holders.set(holders.get().checked_add(1).expect("a leaf has less than 2^32 holders"));
        Leaf(self.0)
    }
}

impl Drop for Leaf {
    #[expect(unsafe_code, reason = "the last holder gives the memory back")]
    fn drop(&mut self) {
        let holders = self.header().holders.get();
        if holders > 1 {
            self.header().holders.set(holders - 1);
            return;
        }
        let places = Places::of(self.room());
        let Parts { header, rows, .. } = self.parts();
        header.count = 0;
        rows.fill(None);
        drop(take(&mut header.continuity));
        // SAFETY: `new` allocated it with this layout, nobody else holds it, and what is left in it
        // owns nothing.
        unsafe { dealloc(self.0.as_ptr().cast(), places.layout()) };
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { common, continuity, .. } = self.header();
        let mut leaf = f.debug_struct("Leaf");
        leaf.field("heads", &self.heads())
            .field("rows", &self.rows())
            .field("slots", &self.slots());
        leaf.field("common", common).field("continuity", continuity).finish()
    }
}

impl Leaf {
    /// Checks what holds of every leaf.
    pub(super) fn check(&self) {
        let count = self.len();
        let is_before = |a: &FlatRow, b: &FlatRow| PlaceRef::of_flat(a) < PlaceRef::of_flat(b);
        assert!(self.rows().is_sorted_by(is_before), "entries are in order: {self:?}");
        self.continuity().check(count);
        let common = self.header().common.bytes();
        let heads = self.rows().iter().map(|row| head_of(common, PlaceRef::of_flat(row)));
        assert!(heads.eq(self.heads()[..count].iter().copied()), "heads are of rows: {self:?}");
        assert!(self.heads().is_sorted(), "heads are in order: {self:?}");
        let behind = &self.heads()[count..];
        assert!(behind.iter().all(|head| *head == NO_HEAD), "behind the last there is no head");
        assert_eq!((self.rows().len(), self.slots().len()), (count, count), "a slot a row");
        assert!(count <= self.room() && self.room() <= WIDTH, "entries have room");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    type Model = Vec<([u8; 2], Claim)>;

    fn flat(key: [u8; 2]) -> FlatRow {
        FlatRow::place(&key, Weight::At)
    }

    fn check(leaf: &Leaf, model: &Model) {
        leaf.check();
        let found: Vec<_> = leaf.rows().iter().map(|row| row.key().to_vec()).collect();
        let wanted: Vec<_> = model.iter().map(|(key, _)| key.to_vec()).collect();
        assert_eq!(found, wanted);
        for (at, (key, claim)) in model.iter().enumerate() {
            assert_eq!((leaf.search(PlaceRef::row(key)), leaf.claim(at)), (Ok(at), *claim));
        }
    }

    fn change(leaf: &mut Leaf, model: &mut Model, random: &mut Random, grows: bool) {
        let key = [random.below(2) as u8, random.below(200) as u8];
        let slot = random.below(1000) as Slot;
        let claim = Claim { tombstone: None, slot, is_known_before: random.one_in(2) };
        match model.binary_search_by_key(&key, |(key, _)| *key) {
            Err(at) if grows && model.len() < WIDTH => {
                leaf.make_own().insert(at, flat(key), claim);
                model.insert(at, (key, claim));
            }
            Ok(at) if !grows => {
                assert_eq!(leaf.make_own().remove(at), (flat(key), claim_of(model.remove(at))));
            }
            Ok(at) => {
                leaf.make_own().set_known_before(at, claim.is_known_before);
                leaf.set_row(at, flat(key));
                model[at].1.is_known_before = claim.is_known_before;
            }
            Err(_) => {}
        }
    }

    fn claim_of((_, claim): ([u8; 2], Claim)) -> Claim {
        claim
    }

    #[test]
    fn it_does_what_a_list_does_and_others_keep_what_they_hold() {
        // The interpreter that looks for undefined behaviour is some thousand times slower.
        let (seeds, steps) = if cfg!(miri) { (1, 200) } else { (6, 800) };
        for seed in 0..seeds {
            let mut random = Random::new(seed);
            let (mut leaf, mut model) = (Leaf::new(0), Model::new());
            let mut held: Vec<(Leaf, Model)> = Vec::new();
            for step in 0..steps {
                change(&mut leaf, &mut model, &mut random, step < steps / 2 || step % 3 == 0);
                if step % 50 == 0 {
                    held.push((leaf.clone(), model.clone()));
                    assert!(leaf.is_shared());
                }
                if step % 70 == 0 {
                    leaf.make_own().fit();
                    assert_eq!(leaf.room(), model.len());
                }
                if step % 90 == 0 {
                    let at = random.below(model.len() as u64 + 1) as usize;
                    let (right, right_model) = (leaf.make_own().split_off(at), model.split_off(at));
                    check(&leaf, &model);
                    check(&right, &right_model);
                    if model.len() + right.len() <= WIDTH / 2 {
                        leaf.append(&right);
                        model.extend(right_model);
                    }
                }
                if step % 10 == 0 {
                    check(&leaf, &model);
                }
            }
            drop(leaf);
            held.iter().for_each(|(leaf, model)| check(leaf, model));
        }
    }

    #[test]
    fn a_leaf_is_changed_in_its_place_again_once_no_copy_has_it() {
        let claim = Claim { tombstone: None, slot: 1, is_known_before: true };
        let mut leaf = Leaf::new(2);
        leaf.insert(0, flat([0, 0]), claim);
        let (place, copies) = (leaf.start(), [leaf.clone(), leaf.clone()]);
        assert!(leaf.is_shared());
        let [first, second] = copies;
        drop(first);
        assert!(leaf.is_shared(), "one copy has it still");
        drop(second);
        assert!(!leaf.is_shared());
        leaf.make_own().insert(1, flat([0, 1]), claim);
        assert_eq!((leaf.start(), leaf.len()), (place, 2), "nothing was copied");
        leaf.check();
    }

    #[test]
    fn a_leaf_is_as_large_as_what_it_holds() {
        let mut leaf = Leaf::new(0);
        assert_eq!(Places::of(leaf.room()).end, 48);
        let claim = Claim { tombstone: None, slot: 1, is_known_before: true };
        leaf.insert(0, flat([0, 0]), claim);
        leaf.fit();
        assert_eq!(Places::of(leaf.room()).end, 48 + 16 + 12);
    }
}
