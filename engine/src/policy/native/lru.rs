//! Least recently used, native: the order every other policy is compared with.
//!
//! Arrays indexed by slot and one intrusive list from coldest to hottest; every event costs two
//! unlinkings at most. Invariant: exactly the slots that the host counts as resident are linked.
//! Pins are ignored: the host refuses a pinned victim, which then comes back at the hot end.

use crate::policy::SlotArray;
use crate::policy::event::Op;
use crate::policy::eviction::{EvictionPolicy, PolicyFailure, Slot};

const NONE: Slot = Slot::MAX;
/// What stands before and behind a slot that is not in the list.
const NOT_LINKED: Slot = Slot::MAX - 1;

/// So many events ahead what one changes is fetched: it lies apart.
const EVENTS_AHEAD: usize = 8;

const ACCESS: u64 = Op::Access as u64;
const INSERT: u64 = Op::Insert as u64;
const REMOVE: u64 = Op::Remove as u64;
const RESTORE: u64 = Op::Restore as u64;
const VICTIM_REFUSED: u64 = Op::VictimRefused as u64;
const UPDATE: u64 = Op::Update as u64;

#[derive(Debug, Clone, Copy)]
struct Link {
    colder: Slot,
    hotter: Slot,
}

const UNLINKED: Link = Link { colder: NOT_LINKED, hotter: NOT_LINKED };

/// Where the last `drain_order` stopped, so that a whole drain costs one walk. It moves on when its
/// slot is unlinked, so entries touched during a drain are not skipped over.
#[derive(Debug, Clone, Copy)]
struct Bookmark {
    cursor: u32,
    slot: Slot,
}

/// The policy. Slots beyond the known number extend its arrays.
#[derive(Debug, Clone)]
pub struct Lru {
    links: SlotArray<Link>,
    coldest: Slot,
    hottest: Slot,
    bookmark: Option<Bookmark>,
}

impl Default for Lru {
    fn default() -> Self {
        Lru { links: SlotArray::default(), coldest: NONE, hottest: NONE, bookmark: None }
    }
}

impl Lru {
    fn is_linked(&self, slot: Slot) -> bool {
        self.links.get(slot).is_some_and(|link| link.colder != NOT_LINKED)
    }

    fn unlink(&mut self, slot: Slot) {
        let Link { colder, hotter, .. } = self.links[slot];
        if let Some(bookmark) = &mut self.bookmark
            && bookmark.slot == slot
        {
            bookmark.slot = hotter;
        }
        match colder {
            NONE => self.coldest = hotter,
            colder => self.links[colder].hotter = hotter,
        }
        match hotter {
            NONE => self.hottest = colder,
            hotter => self.links[hotter].colder = colder,
        }
        self.links[slot] = UNLINKED;
    }

    fn link_hottest(&mut self, slot: Slot) {
        assert!(slot < NOT_LINKED, "the last slot numbers are marks");
        self.links.reach(slot, || UNLINKED);
        let colder = self.hottest;
        self.links[slot] = Link { colder, hotter: NONE };
        match colder {
            NONE => self.coldest = slot,
            colder => self.links[colder].hotter = slot,
        }
        self.hottest = slot;
    }

    /// Makes a slot that is in the list its hottest.
    #[inline]
    fn heat(&mut self, slot: Slot) {
        let Some(Link { colder, hotter }) = self.links.get(slot).copied() else { return };
        // Behind the hottest there is none.
        if colder == NOT_LINKED || hotter == NONE {
            return;
        }
        if let Some(bookmark) = &mut self.bookmark
            && bookmark.slot == slot
        {
            bookmark.slot = hotter;
        }
        match colder {
            NONE => self.coldest = hotter,
            colder => self.links[colder].hotter = hotter,
        }
        self.links[hotter].colder = colder;
        self.links[slot] = Link { colder: self.hottest, hotter: NONE };
        self.links[self.hottest].hotter = slot;
        self.hottest = slot;
    }

    /// Has the neighbours of a slot fetched, which change when it moves.
    #[inline]
    fn prefetch_neighbours(&self, slot: Slot) {
        if let Some(Link { colder, hotter }) = self.links.get(slot).copied() {
            self.links.prefetch(colder);
            self.links.prefetch(hotter);
        }
    }

    fn digest(&mut self, word: u64) {
        let slot = word as u32;
        match word >> 32 & 0xF {
            ACCESS | UPDATE => self.heat(slot),
            INSERT | RESTORE | VICTIM_REFUSED => {
                if self.is_linked(slot) {
                    self.unlink(slot);
                }
                self.link_hottest(slot);
            }
            REMOVE if self.is_linked(slot) => self.unlink(slot),
            // Misses, sizes and pins do not change the order; nor do slots it does not hold.
            _ => {}
        }
    }
}

impl EvictionPolicy for Lru {
    fn name(&self) -> &str {
        "lru"
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    /// Never fails. Returns `want_entries` victims, or all there are, whatever their bytes.
    fn apply(
        &mut self,
        events: &[u64],
        _attributes: &[u64],
        want_entries: u32,
        _want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        for (at, word) in events.iter().enumerate() {
            if let Some(ahead) = events.get(at + EVENTS_AHEAD) {
                self.prefetch_neighbours(*ahead as Slot);
            }
            self.digest(*word);
        }
        for _ in 0..want_entries {
            let slot = self.coldest;
            if slot == NONE {
                break;
            }
            self.unlink(slot);
            victims.push(slot);
        }
        Ok(())
    }

    fn prefetch(&self, slot: Slot) {
        self.links.prefetch(slot);
    }

    fn drains_in_pages(&self) -> bool {
        true
    }

    /// Never fails. A call that goes on where the last one stopped costs only what it returns.
    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        let mut slot = match self.bookmark.take() {
            Some(bookmark) if cursor > 0 && bookmark.cursor == cursor => bookmark.slot,
            _ => {
                let mut slot = self.coldest;
                for _ in 0..cursor {
                    if slot == NONE {
                        break;
                    }
                    slot = self.links[slot].hotter;
                }
                slot
            }
        };
        let mut count = 0;
        while count < max && slot != NONE {
            slots.push(slot);
            slot = self.links[slot].hotter;
            count += 1;
        }
        self.bookmark = Some(Bookmark { cursor: cursor.saturating_add(count), slot });
        Ok(())
    }

    /// Never fails: the list is as long as there are entries.
    fn resize(&mut self, _capacity_bytes: u64, _max_slots: u32) -> Result<(), PolicyFailure> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::clock::Random;
    use crate::policy::event::{EntryKind, event};

    fn word(slot: Slot, op: Op) -> u64 {
        event(slot, op, EntryKind::DataPage, 0, 0)
    }

    fn digest(lru: &mut Lru, events: &[(Slot, Op)]) {
        let words: Vec<u64> = events.iter().map(|(slot, op)| word(*slot, *op)).collect();
        lru.apply(&words, &[], 0, 0, &mut Vec::new()).unwrap();
    }

    fn order(lru: &mut Lru) -> Vec<Slot> {
        let mut slots = Vec::new();
        lru.drain_order(0, u32::MAX, &mut slots).unwrap();
        slots
    }

    fn victims(lru: &mut Lru, want: u32) -> Vec<Slot> {
        let mut victims = Vec::new();
        lru.apply(&[], &[], want, 0, &mut victims).unwrap();
        victims
    }

    #[test]
    fn the_least_recently_used_leaves_first() {
        let mut lru = Lru::default();
        digest(&mut lru, &[(0, Op::Insert), (1, Op::Restore), (2, Op::Insert), (3, Op::Insert)]);
        digest(&mut lru, &[(0, Op::Access), (2, Op::Update), (1, Op::Remove)]);
        digest(&mut lru, &[(3, Op::Resize), (3, Op::Pin), (3, Op::Unpin), (9, Op::Miss)]);
        assert_eq!(order(&mut lru), [3, 0, 2]);
        assert_eq!(victims(&mut lru, 2), [3, 0]);
        digest(&mut lru, &[(3, Op::VictimRefused)]);
        assert_eq!(order(&mut lru), [2, 3]);
        assert_eq!(victims(&mut lru, 9), [2, 3]);
        assert!(victims(&mut lru, 1).is_empty());
    }

    #[test]
    fn events_of_unknown_slots_change_nothing() {
        let mut lru = Lru::default();
        digest(&mut lru, &[(0, Op::Insert), (5, Op::Access), (6, Op::Remove), (7, Op::Update)]);
        assert_eq!(order(&mut lru), [0]);
        digest(&mut lru, &[(5, Op::Insert)]);
        assert_eq!(order(&mut lru), [0, 5]);
    }

    #[test]
    fn a_drain_in_slices_survives_live_events() {
        let mut lru = Lru::default();
        let inserts: Vec<_> = (0..8).map(|slot| (slot, Op::Insert)).collect();
        digest(&mut lru, &inserts);
        let mut slots = Vec::new();
        lru.drain_order(0, 3, &mut slots).unwrap();
        // Slots already handed over move: by place, the next slice would start too late.
        digest(&mut lru, &[(0, Op::Access), (3, Op::Access), (1, Op::Remove)]);
        lru.drain_order(3, 3, &mut slots).unwrap();
        lru.drain_order(6, 9, &mut slots).unwrap();
        assert_eq!(slots, [0, 1, 2, 4, 5, 6, 7, 0, 3]);
        slots.clear();
        lru.drain_order(2, 2, &mut slots).unwrap();
        assert_eq!(slots, [5, 6]);
    }

    #[test]
    fn random_events_equal_a_naive_list() {
        let mut random = Random::new(11);
        let mut lru = Lru::default();
        let mut model: VecDeque<Slot> = VecDeque::new();
        for _ in 0..20_000 {
            let slot = random.below(64) as Slot;
            let held = model.iter().position(|held| *held == slot);
            match (random.below(8), held) {
                (0..=3, Some(at)) => {
                    digest(&mut lru, &[(slot, Op::Access)]);
                    model.remove(at);
                    model.push_back(slot);
                }
                (0..=3, None) => {
                    digest(&mut lru, &[(slot, Op::Insert)]);
                    model.push_back(slot);
                }
                (4, Some(at)) => {
                    digest(&mut lru, &[(slot, Op::Remove)]);
                    model.remove(at);
                }
                (5, _) => assert_eq!(victims(&mut lru, 1).first().copied(), model.pop_front()),
                (6, None) => {
                    digest(&mut lru, &[(slot, Op::VictimRefused)]);
                    model.push_back(slot);
                }
                _ => assert_eq!(model, order(&mut lru)),
            }
        }
    }

    /// A successor is shown the order piece by piece, while the cache serves.
    #[test]
    fn a_drain_in_pieces_names_all_that_nothing_happens_to_once_and_in_order() {
        let mut random = Random::new(5);
        for round in 0..300 {
            let mut lru = Lru::default();
            digest(&mut lru, &(0..40).map(|slot| (slot, Op::Insert)).collect::<Vec<_>>());
            let (mut shown, mut stirred): (Vec<Slot>, Vec<Slot>) = Default::default();
            loop {
                let before = shown.len();
                let max = 1 + random.below(6) as u32;
                lru.drain_order(before as u32, max, &mut shown).unwrap();
                assert!(shown.len() - before <= max as usize, "round {round}");
                if shown.len() == before {
                    break;
                }
                // Mostly of those that are next.
                for _ in 0..random.below(3) {
                    let last = shown.last().copied().unwrap_or_default();
                    let slot = (last + 1 + random.below(4) as Slot) % 40;
                    let ops = [Op::Access, Op::Update, Op::Remove, Op::Insert];
                    digest(&mut lru, &[(slot, ops[random.below(4) as usize])]);
                    stirred.push(slot);
                }
                if random.one_in(4) {
                    stirred.extend(victims(&mut lru, 1));
                }
                assert!(shown.len() < 1000, "round {round}: it has an end");
            }
            let calm = |slot: &Slot| !stirred.contains(slot);
            let found: Vec<Slot> = shown.iter().copied().filter(calm).collect();
            assert_eq!(found, (0..40).filter(calm).collect::<Vec<_>>(), "round {round}");
        }
    }
}
