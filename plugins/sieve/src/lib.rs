//! SIEVE (Zhang et al., NSDI'24): entries stay in order of insertion; a hit only marks an entry; a
//! hand walks from the oldest to the newest, spares marked entries once and takes the first
//! unmarked one.
//!
//! Invariant: the list holds exactly the resident slots, oldest first, and the hand is in it.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot, SlotList};

tidegate_plugin::export_eviction!(Sieve);

/// Steps of the hand in one request for victims. A longer search goes on at the next request, the
/// host fills the gap: so a cache in which everything was read cannot stall its shard.
const STEPS_MAX: u32 = 1 << 16;

/// The policy of one shard.
#[derive(Debug)]
pub struct Sieve {
    list: SlotList,
    visited: Vec<bool>,
    /// Where the search goes on; none = at the oldest entry.
    hand: Option<Slot>,
    steps_left: u32,
    steps: u64,
    cut_short: u64,
}

impl Sieve {
    fn insert(&mut self, slot: Slot) {
        self.remove(slot);
        self.visited[slot as usize] = false;
        self.list.push_hottest(slot);
    }

    fn remove(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.list.hotter_than(slot);
        }
        self.list.remove(slot);
    }

    /// Puts a victim back where the hand took it, so that it is the next candidate.
    fn put_back(&mut self, slot: Slot) {
        if self.list.contains(slot) {
            return;
        }
        self.visited[slot as usize] = false;
        match self.hand {
            Some(hand) => self.list.insert_colder_than(hand, slot),
            None => self.list.push_hottest(slot),
        }
        self.hand = Some(slot);
    }
}

impl EvictionPolicy for Sieve {
    const NAME: &'static str = "sieve";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    // Two links, a mark, and room for the order while it is drained.
    const BYTES_PER_SLOT: u32 = 13;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        Ok(Sieve {
            list: SlotList::new(setup.max_slots),
            visited: vec![false; setup.max_slots as usize],
            hand: None,
            steps_left: 0,
            steps: 0,
            cut_short: 0,
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, _: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Access | Op::Update => self.visited[slot as usize] = true,
            Op::Insert | Op::Restore => self.insert(slot),
            Op::Remove => self.remove(slot),
            Op::VictimRefused => self.put_back(slot),
            _ => {}
        }
    }

    fn before_victims(&mut self, _want_entries: u32, _want_bytes: u64) {
        self.steps_left = STEPS_MAX;
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        let mut at = self.hand.or_else(|| self.list.coldest())?;
        while self.visited[at as usize] {
            if self.steps_left == 0 {
                self.hand = Some(at);
                self.cut_short += 1;
                return None;
            }
            self.steps_left -= 1;
            self.steps += 1;
            self.visited[at as usize] = false;
            at = self.list.hotter_than(at).or_else(|| self.list.coldest())?;
        }
        self.hand = self.list.hotter_than(at);
        self.list.remove(at);
        Some(at)
    }

    /// What the hand would take if nothing were read: unmarked entries from the hand on, then the
    /// marked ones.
    fn order(&self, slots: &mut Vec<Slot>) {
        let from_hand = || {
            let start = self.hand.or_else(|| self.list.coldest());
            let walk = std::iter::successors(start, |at| {
                self.list.hotter_than(*at).or_else(|| self.list.coldest())
            });
            walk.take(self.list.len() as usize)
        };
        slots.extend(from_hand().filter(|slot| !self.visited[*slot as usize]));
        slots.extend(from_hand().filter(|slot| self.visited[*slot as usize]));
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.list.grow(max_slots);
        let slots = self.visited.len().max(max_slots as usize);
        self.visited.resize(slots, false);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("resident", f64::from(self.list.len())),
            ("hand_steps", self.steps as f64),
            ("searches_cut_short", self.cut_short as f64),
        ]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
