//! Pages of SSTable files, kept after they were read, what was parsed of them, and entries of row
//! caches, within one budget. When it is used up and more than a share of it is index (pages of
//! indexes and parsed ones), of that the one not used for longest leaves; else whom the policy
//! names.
//!
//! Invariant: a page comes in only where the capacity has room, else its reader gets it and it is
//! not kept. Resident bytes exceed the capacity only after it was lowered: by pages that readers
//! hold, and by what `trim` has not freed yet, since the cache is not told when a reader lets go. A
//! reader holds a page by its `Rc`, so memory in use is never reused. Not here: reading
//! (`paged_file.rs`), what rows are where (`rows/`), who leaves (`governor/`).

mod slab;
mod residents;
mod row_entries;

use std::any::Any;
use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

#[cfg(test)]
pub(super) use row_entries::AdmissionFault;
pub(super) use row_entries::Arrival;

use residents::{Held, Residents};

use super::admission_filter::{AdmissionFilter, AdmissionFilterStatus};
use super::doorkeeper::Doorkeeper;
use super::governor::{
    Contents, Governor, PolicyIdentity, PolicyState, PolicyStatus, ShadowLimits, ShadowPurpose,
    SwapStep,
};
use super::index_share::IndexShare;
use super::page_counts::{PageCacheStats, PageCounts};
use super::paged_file::Flights;
use super::rows::{Handle, PlaceRef};
use crate::config::PAGE_BYTES;
use crate::disk::AlignedBuffer;
use crate::mutation::FlatRow;
use crate::policy::admission::{AdmissionCandidate, AdmissionPolicy, Fate};
use crate::policy::event::{EntryAttributes, EntryKind, LOAD_COST_US};
use crate::policy::{EvictionPolicy, PolicyFailure, PolicySnapshot, Slot, TrialVerdict};
use crate::trace::{Recorder, Request};

/// One page of a file; shorter than [`PAGE_BYTES`] only at the end of the file.
pub type Page = Rc<AlignedBuffer>;

/// Residents of indexes that one call looks at for a victim.
const INDEX_STEPS_MAX: usize = 512;
/// Pages of forgotten files that one insertion frees besides its own work.
const FORGET_PAGES_MAX: usize = 64;
/// Used rows that wait to be told of together: their slots lie apart, and are fetched side by side.
const USED_MAX: usize = 64;
const KINDS: usize = 16;
const NONE: Slot = Slot::MAX;

/// A page of a file, by the number the cache gave the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PageKey {
    pub file: u64,
    pub page: u64,
}

/// Hashes the two numbers of a key; both come from the engine, so no one can aim at collisions.
#[derive(Default)]
pub(super) struct PageKeyHasher(u64);

impl Hasher for PageKeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type KeyMap<V> = HashMap<PageKey, V, BuildHasherDefault<PageKeyHasher>>;

/// A bijection that spreads every bit (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A resident page or parsed piece, in the list of its file's.
struct LinkedPage {
    kind: EntryKind,
    content: Content,
    bytes: u32,
    table: u32,
    key: PageKey,
    /// Of an index: its number among those that came in, and whether it was used since it was
    /// looked at last.
    stamp: u64,
    is_used: bool,
    previous: Slot,
    next: Slot,
}

/// An entry of a row cache that the policy or the budget had leave.
struct RowLeft {
    handle: Rc<Handle>,
    /// Its row, which says its place; without one it stood at the end of its partition.
    flat: Option<FlatRow>,
    kind: EntryKind,
    bytes: u64,
}

/// A page as it is on disk, or what was parsed of some.
enum Content {
    Page(Page),
    Parsed(Rc<dyn Any>),
}

impl Content {
    fn is_in_use(&self) -> bool {
        match self {
            Content::Page(page) => Rc::strong_count(page) > 1,
            // Readers keep it only while they search it, without waiting.
            Content::Parsed(_) => false,
        }
    }
}

pub(super) struct State {
    governor: Governor,
    capacity_bytes: u64,
    slots: KeyMap<Slot>,
    residents: Residents,
    /// First resident page of each file that has one.
    files: HashMap<u64, Slot>,
    /// Files that were closed and still have pages here.
    forgotten: Vec<u64>,
    counts: [PageCounts; KINDS],
    kinds: [Option<EntryKind>; KINDS],
    victims: Vec<Slot>,
    /// Entries of row caches that left and whose owners were not told yet; empty while nobody holds
    /// the state.
    rows_left: Vec<RowLeft>,
    /// Rows that were used and whose slots were not touched yet.
    used: Vec<Slot>,
    index: IndexShare,
    next_file: u64,
    /// Takes down all reads while a trace is recorded.
    recorder: Option<Recorder>,
    /// Decides what is kept; all is where there is none.
    filter: Option<AdmissionFilter>,
    /// Pieces of files that were read lately and not kept.
    doorkeeper: Doorkeeper,
    #[cfg(test)]
    admission_fault: Option<(usize, AdmissionFault)>,
}

/// All cached pages of a shard.
pub struct PageCache {
    state: RefCell<State>,
    pub(super) flights: RefCell<Flights>,
}

/// Bytes of a small entry, a row of 100 bytes: with this size for all, slots and bytes run out
/// together. Fewer would want more memory of policies, which have a limit.
const ENTRY_BYTES_SMALL: u64 = 192;

fn slots_of(capacity_bytes: u64) -> u32 {
    u32::try_from(capacity_bytes / ENTRY_BYTES_SMALL).unwrap_or(NONE - 1).min(NONE - 1)
}

impl PageCache {
    /// An empty cache. `fingerprint_key` is the seed of the fingerprints that policies see.
    pub fn new(capacity_bytes: usize, fingerprint_key: u64) -> Rc<Self> {
        let capacity_bytes = capacity_bytes as u64;
        let state = State {
            governor: Governor::new(capacity_bytes, slots_of(capacity_bytes)),
            capacity_bytes,
            slots: KeyMap::default(),
            residents: Residents::new(fingerprint_key),
            files: HashMap::new(),
            forgotten: Vec::new(),
            counts: [PageCounts::default(); KINDS],
            kinds: [None; KINDS],
            victims: Vec::new(),
            rows_left: Vec::new(),
            used: Vec::with_capacity(2 * USED_MAX),
            index: IndexShare::new(),
            next_file: 0,
            recorder: None,
            filter: None,
            doorkeeper: Doorkeeper::new(capacity_bytes),
            #[cfg(test)]
            admission_fault: None,
        };
        Rc::new(PageCache { state: RefCell::new(state), flights: RefCell::default() })
    }

    /// The state with all that happened in it: what rows were used is told later and many at once.
    #[inline]
    fn state(&self) -> RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        if !state.used.is_empty() {
            state.apply_used();
        }
        state
    }

    /// Does what may have entries of row caches leave, and tells their owners once the state is
    /// free again: they take the entries out of their partitions, and may ask the cache for
    /// anything meanwhile.
    fn evicting<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let (done, mut rows_left) = {
            let state = &mut *self.state();
            let done = work(state);
            (done, std::mem::take(&mut state.rows_left))
        };
        if rows_left.is_empty() {
            return done;
        }
        for RowLeft { handle, flat, kind, bytes } in rows_left.drain(..) {
            handle.evicted(PlaceRef::of_entry(flat.as_ref()), kind, bytes);
        }
        // The memory is for the next ones.
        self.state.borrow_mut().rows_left = rows_left;
        done
    }

    /// What the cache holds and did since the start.
    pub fn stats(&self) -> PageCacheStats {
        let state = self.state();
        let mut total = PageCounts::default();
        let mut kinds = Vec::new();
        for (kind, counts) in state.kinds.iter().zip(&state.counts) {
            if let Some(kind) = kind {
                total += *counts;
                kinds.push((*kind, *counts));
            }
        }
        PageCacheStats {
            total,
            bytes: state.governor.bytes(),
            capacity_bytes: state.capacity_bytes,
            kinds,
        }
    }

    /// The budget.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.state.borrow().capacity_bytes
    }

    /// Changes the budget. Pages above a lower one leave here up to a bounded number and then as
    /// [`trim`](Self::trim) or new pages come.
    pub fn set_capacity_bytes(&self, capacity_bytes: usize) {
        self.evicting(|state| {
            state.capacity_bytes = capacity_bytes as u64;
            state.doorkeeper = Doorkeeper::new(state.capacity_bytes);
            state.governor.resize(state.capacity_bytes, slots_of(state.capacity_bytes));
            state.make_room(0);
        });
    }

    /// Percent of the budget up to which indexes are like all else: what they take beyond it leaves
    /// first when room is wanted.
    pub fn set_index_percent(&self, percent: u64) {
        self.state().index.set_percent(percent);
    }

    /// Most entries that a policy may be told of.
    pub fn slots_max(&self) -> u32 {
        self.state.borrow().governor.slots_max()
    }

    /// Goes on freeing what a lower capacity or a closed file left, a bounded number of pages; true
    /// when more is left that can be freed now.
    pub fn trim(&self) -> bool {
        self.evicting(|state| {
            state.free_forgotten(4 * FORGET_PAGES_MAX);
            let freed = state.make_room(0);
            let over = state.governor.bytes() > state.capacity_bytes;
            !state.forgotten.is_empty() || over && freed > 0
        })
    }

    /// Tells the time (a monotonic clock, ns) to the policy; the shard calls it between tasks.
    pub fn tick(&self, now_ns: u64) {
        self.state().governor.tick(now_ns);
    }

    /// Tells the policies every event that waits, so that their counters are those of now.
    pub fn deliver(&self) {
        let governor = &mut self.state().governor;
        governor.deliver();
        governor.deliver_shadow();
    }

    /// Starts to replace the eviction policy; [`step_policy_swap`](Self::step_policy_swap) goes on.
    ///
    /// Errors: the candidate failed at once; nothing changed.
    pub fn begin_policy(
        &self,
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
    ) -> Result<(), PolicyFailure> {
        let state = &mut *self.state();
        state.governor.begin_replace(policy, identity, &state.residents)
    }

    /// Shows the candidate up to `max` pages more; see [`Governor::step_replace`].
    pub fn step_policy_swap(&self, max: u32) -> SwapStep {
        let state = &mut *self.state();
        state.governor.step_replace(max, &state.residents)
    }

    /// Exchanges the active policy and the one before; false when there is none.
    pub fn rollback_policy(&self) -> bool {
        self.state().governor.rollback()
    }

    /// Ends the possibility of a rollback and its cost.
    pub fn drop_standby_policy(&self) {
        self.state().governor.drop_standby();
    }

    /// Ends the active policy, leaving `failure` on record; the native CLOCK goes on.
    pub fn end_policy(&self, failure: PolicyFailure) {
        self.state().governor.detach(failure);
    }

    /// The directory that a shadow gets which sees one key in `sample`, or more where that is few.
    pub fn shadow_limits(&self, sample: u32) -> ShadowLimits {
        self.state.borrow().governor.shadow_limits(sample)
    }

    /// Starts a shadow; [`step_shadow`](Self::step_shadow) goes on.
    ///
    /// Errors: the policy failed at once; there is no shadow then.
    pub fn begin_shadow(
        &self,
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
        purpose: ShadowPurpose,
        limits: ShadowLimits,
    ) -> Result<(), PolicyFailure> {
        self.state().governor.begin_shadow(policy, identity, purpose, limits)
    }

    /// Shows the shadow up to `max` residents; true while more are left.
    pub fn step_shadow(&self, max: u32) -> bool {
        let state = &mut *self.state();
        state.governor.step_shadow(max, &state.residents)
    }

    /// Ends the shadow; false when there is none.
    pub fn end_shadow(&self) -> bool {
        self.state().governor.end_shadow()
    }

    /// What is to happen with the active policy as a canary.
    pub fn trial_verdict(&self) -> TrialVerdict {
        self.state().governor.trial_verdict()
    }

    /// What the active policy learnt, where it keeps something.
    pub fn snapshot_policy(&self) -> Option<PolicySnapshot> {
        self.state().governor.snapshot()
    }

    /// What the shadow learnt, where it keeps something and saw every key.
    pub fn snapshot_shadow(&self) -> Option<PolicySnapshot> {
        self.state().governor.snapshot_shadow()
    }

    /// The active policy's own figures.
    pub fn policy_metrics(&self) -> Vec<(String, f64)> {
        self.state().governor.metrics()
    }

    /// The shadow policy's own figures.
    pub fn shadow_metrics(&self) -> Vec<(String, f64)> {
        self.state().governor.shadow_metrics()
    }

    /// Who orders evictions now.
    pub fn policy_state(&self) -> PolicyState {
        self.state().governor.state()
    }

    /// What there is to know of the policies.
    pub fn policy_status(&self) -> PolicyStatus {
        self.state().governor.status()
    }

    /// Puts an admission policy before the cache, `None` to keep all that is read. `name` is the
    /// one under which it was created.
    pub fn set_admission(&self, policy: Option<(String, Box<dyn AdmissionPolicy>)>) {
        let filter = policy.map(|(name, policy)| AdmissionFilter::new(name, policy));
        self.state().filter = filter;
    }

    /// What there is to know of the admission policy.
    pub fn admission_status(&self) -> Option<AdmissionFilterStatus> {
        self.state().filter.as_ref().map(AdmissionFilter::status)
    }

    /// Takes down every read from now on; whoever records calls
    /// [`take_recorded`](Self::take_recorded) before the ring is full.
    pub fn start_recording(&self, recorder: Recorder) {
        self.state().recorder = Some(recorder);
    }

    /// What was recorded since the last call and how many reads were lost; nothing when no trace is
    /// recorded. `empty` becomes the ring.
    pub fn take_recorded(&self, empty: Vec<Request>) -> (Vec<Request>, u64) {
        match &mut self.state().recorder {
            Some(recorder) => recorder.take(empty),
            None => (Vec::new(), 0),
        }
    }

    /// Ends recording; what was not taken is gone.
    pub fn stop_recording(&self) {
        self.state().recorder = None;
    }

    /// A number for a file, never given twice.
    pub(super) fn next_file(&self) -> u64 {
        let mut state = self.state();
        state.next_file += 1;
        state.next_file
    }

    /// The resident page, counted as used; nothing is counted when there is none.
    pub(super) fn lookup(&self, key: PageKey) -> Option<Page> {
        let state = &mut *self.state();
        let slot = *state.slots.get(&key)?;
        let linked = state.linked(slot);
        linked.is_used = true;
        let kind = linked.kind;
        let Content::Page(page) = &linked.content else {
            unreachable!("a file has pages or parsed pieces")
        };
        let page = page.clone();
        state.was_hit(slot, key, kind, PAGE_BYTES as u32);
        Some(page)
    }

    /// The resident piece that was parsed, counted as used.
    pub(super) fn lookup_parsed(&self, key: PageKey) -> Option<Rc<dyn Any>> {
        let state = &mut *self.state();
        let slot = *state.slots.get(&key)?;
        let linked = state.linked(slot);
        linked.is_used = true;
        let kind = linked.kind;
        let Content::Parsed(piece) = &linked.content else {
            unreachable!("a file has pages or parsed pieces")
        };
        let (piece, bytes) = (piece.clone(), linked.bytes);
        state.was_hit(slot, key, kind, bytes);
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
        let state = &mut *self.state();
        state.counts_of(kind).joined += 1;
        state.record(key, kind, PAGE_BYTES as u32, true);
    }

    pub(super) fn holds(&self, key: PageKey) -> bool {
        self.state.borrow().slots.contains_key(&key)
    }

    /// Whether the pages of a piece are to be kept whose rows are kept as well: when it is read for
    /// the second time, or where an admission policy is to decide.
    pub(super) fn is_second_time(&self, first: PageKey) -> bool {
        let state = &mut *self.state();
        state.filter.is_some() || state.doorkeeper.is_known(state.residents.fingerprint(first))
    }

    pub(super) fn count(&self, kind: EntryKind, count: impl FnOnce(&mut PageCounts)) {
        count(self.state().counts_of(kind));
    }

    /// Keeps a page that was read, if there is room beside the pages in use.
    pub(super) fn insert(&self, key: PageKey, kind: EntryKind, table: u32, page: Page) {
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
        let state = &mut *self.state();
        state.forgotten.push(file);
        if let Some(filter) = &mut state.filter {
            filter.forget(file);
        }
        state.free_forgotten(4 * FORGET_PAGES_MAX);
    }
}

impl State {
    #[inline]
    fn was_hit(&mut self, slot: Slot, key: PageKey, kind: EntryKind, bytes: u32) {
        self.governor.hit(slot, &self.residents);
        self.counts_of(kind).hits += 1;
        self.record(key, kind, bytes, true);
        self.tell(key, kind, Fate::Read);
    }

    #[inline]
    fn record(&mut self, key: PageKey, kind: EntryKind, bytes: u32, is_hit: bool) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(self.residents.fingerprint(key), bytes, kind as u8, is_hit);
        }
    }

    #[inline]
    fn tell(&mut self, key: PageKey, kind: EntryKind, what: Fate) {
        if let Some(filter) = self.filter.as_mut().filter(|filter| filter.wants_fates()) {
            filter.tell(self.residents.fingerprint(key), what, kind);
        }
    }

    /// Keeps what was read, if it is let in and there is room; whether it is kept.
    fn keep(
        &mut self,
        (key, kind, table): (PageKey, EntryKind, u32),
        content: Content,
        bytes: u32,
    ) -> bool {
        assert!(!self.slots.contains_key(&key), "a resident page is not read again");
        self.free_forgotten(FORGET_PAGES_MAX);
        self.record(key, kind, bytes, false);
        let attributes = EntryAttributes {
            fingerprint: self.residents.fingerprint(key),
            size_bytes: bytes,
            cost_us: LOAD_COST_US,
            table,
        };
        let run = self.filter.as_mut().map_or(0, |filter| filter.run(key.file, key.page));
        if !self.admits(run, kind, &attributes) {
            self.governor.miss(&attributes, kind);
            self.counts_of(kind).refused += 1;
            return false;
        }
        self.make_room(u64::from(bytes));
        let has_room = self.governor.bytes() + u64::from(bytes) <= self.capacity_bytes;
        if !has_room || self.governor.is_full() {
            self.governor.miss(&attributes, kind);
            self.counts_of(kind).passed += 1;
            return false;
        }
        let slot = self.governor.allocate(attributes, kind);
        let slot = slot.expect("a slot is free where not all are taken");
        let linked = LinkedPage {
            kind,
            content,
            bytes,
            table,
            key,
            stamp: 0,
            is_used: false,
            previous: NONE,
            next: NONE,
        };
        self.place(slot, Box::new(linked));
        true
    }

    /// Whether the admission policy lets in what was read after `run` neighbours.
    fn admits(&mut self, run: u16, kind: EntryKind, attributes: &EntryAttributes) -> bool {
        let Some(filter) = &mut self.filter else { return true };
        let EntryAttributes { fingerprint, size_bytes, cost_us, table } = *attributes;
        let bytes = self.governor.bytes() + u64::from(size_bytes);
        // Of small entries it is the slots that run out.
        let has_room = bytes <= self.capacity_bytes && !self.governor.is_full();
        let candidate =
            AdmissionCandidate { fingerprint, size_bytes, cost_us, kind, has_room, run, table };
        filter.admits(&candidate)
    }

    fn counts_of(&mut self, kind: EntryKind) -> &mut PageCounts {
        self.kinds[kind as usize] = Some(kind);
        &mut self.counts[kind as usize]
    }

    /// Evicts until `bytes` more fit and have a slot, if that can be; a bounded number of entries.
    /// Returns bytes freed.
    fn make_room(&mut self, bytes: u64) -> u64 {
        let mut over = (self.governor.bytes() + bytes).saturating_sub(self.capacity_bytes);
        if bytes > 0 && self.governor.is_full() {
            over = over.max(1);
        }
        if over == 0 {
            return 0;
        }
        let freed = self.evict_index(over);
        if freed >= over {
            return freed;
        }
        let over = over - freed;
        let mut victims = std::mem::take(&mut self.victims);
        let freed = freed + self.governor.evict(over, &self.residents, &mut victims);
        let wants_fates = self.filter.as_ref().is_some_and(AdmissionFilter::wants_fates);
        for slot in victims.drain(..) {
            let fingerprint = wants_fates.then(|| self.residents.id(slot).fingerprint);
            let kind = self.unplace(slot);
            self.counts_of(kind).evictions += 1;
            if let (Some(fingerprint), Some(filter)) = (fingerprint, &mut self.filter) {
                filter.tell(fingerprint, Fate::Evicted, kind);
            }
        }
        self.victims = victims;
        freed
    }

    /// Evicts what indexes take beyond their share, the least recently used first, up to `over`
    /// bytes and a bounded number. Returns bytes freed.
    fn evict_index(&mut self, over: u64) -> u64 {
        let mut freed = 0;
        for _ in 0..INDEX_STEPS_MAX {
            if freed >= over || !self.index.is_over(self.capacity_bytes) {
                break;
            }
            let Some((slot, stamp)) = self.index.pop() else { break };
            let Some(linked) = self.residents.page_mut(slot) else { continue };
            if linked.stamp != stamp {
                continue;
            }
            if std::mem::take(&mut linked.is_used) || linked.content.is_in_use() {
                self.index.put_back((slot, stamp));
                continue;
            }
            freed += u64::from(linked.bytes);
            let key = linked.key;
            self.governor.remove(slot, &self.residents);
            let kind = self.unplace(slot);
            self.counts_of(kind).evictions += 1;
            self.tell(key, kind, Fate::Evicted);
        }
        freed
    }

    fn place(&mut self, slot: Slot, mut linked: Box<LinkedPage>) {
        let kind = linked.kind;
        if let Some(first) = self.files.insert(linked.key.file, slot) {
            linked.next = first;
            self.linked(first).previous = slot;
        }
        let was = self.slots.insert(linked.key, slot);
        assert!(was.is_none(), "a page has one slot");
        let counts = self.counts_of(kind);
        counts.pages += 1;
        counts.bytes += u64::from(linked.bytes);
        if IndexShare::holds(kind) {
            let residents = &self.residents;
            let is_present =
                |slot, stamp| residents.page(slot).is_some_and(|there| there.stamp == stamp);
            linked.stamp = self.index.came(slot, linked.bytes, is_present);
        }
        self.residents.put_page(slot, linked);
    }

    /// Drops what a slot held that the governor freed; its kind.
    fn unplace(&mut self, slot: Slot) -> EntryKind {
        let held = self.residents.take(slot);
        let kind = self.left(slot);
        let linked = match held {
            Held::Page(linked) => linked,
            Held::Row(handle, flat) => {
                let bytes = u64::from(self.governor.last_size_bytes(slot));
                self.rows_left.push(RowLeft { handle, flat, kind, bytes });
                return kind;
            }
        };
        self.slots.remove(&linked.key);
        if IndexShare::holds(kind) {
            self.index.left(linked.bytes);
        }
        match (linked.previous, linked.next) {
            (NONE, NONE) => {
                self.files.remove(&linked.key.file);
            }
            (NONE, next) => {
                self.files.insert(linked.key.file, next);
                self.linked(next).previous = NONE;
            }
            (previous, NONE) => self.linked(previous).next = NONE,
            (previous, next) => {
                self.linked(previous).next = next;
                self.linked(next).previous = previous;
            }
        }
        kind
    }

    /// Counts what the governor freed as gone; its kind.
    fn left(&mut self, slot: Slot) -> EntryKind {
        let (kind, bytes) = (self.governor.last_kind(slot), self.governor.last_size_bytes(slot));
        let counts = self.counts_of(kind);
        counts.pages -= 1;
        counts.bytes -= u64::from(bytes);
        kind
    }

    fn linked(&mut self, slot: Slot) -> &mut LinkedPage {
        self.residents.page_mut(slot).expect("a linked slot holds a page")
    }

    /// Frees up to `max` pages of closed files.
    fn free_forgotten(&mut self, max: usize) {
        for _ in 0..max {
            let Some(file) = self.forgotten.last() else { return };
            match self.files.get(file).copied() {
                Some(slot) => {
                    self.governor.remove(slot, &self.residents);
                    self.unplace(slot);
                }
                None => {
                    self.forgotten.pop();
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "page_cache_tests.rs"]
mod tests;
