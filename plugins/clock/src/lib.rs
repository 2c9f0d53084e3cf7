//! CLOCK, the second chance: entries stay in order of insertion, a read marks an entry, and a marked
//! entry at the head of the queue goes back to its end without the mark instead of leaving.
//!
//! Source: F. J. Corbató, "A Paging Experiment with the Multics System", MIT Project MAC report
//! MAC-M-384, 1968. A queue here, not a ring of frames: an entry that comes in stands behind all
//! others, where a ring would put it where the hand is. With a full cache that is the same.
//!
//! Memory: 9 bytes a slot for two links and the mark, 4 more for the order while it is drained.
//!
//! Invariant: the list holds exactly the resident slots; the hand is at its cold end.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot, SlotList};

tidegate_plugin::export_eviction!(Clock);

/// Second chances in one request for victims. A longer search goes on at the next request, the host
/// fills the gap: so a cache in which everything was read cannot stall its shard.
const STEPS_MAX: u32 = 1 << 15;

/// The policy of one shard.
#[derive(Debug)]
pub struct Clock {
    list: SlotList,
    marked: Vec<bool>,
    steps_left: u32,
    steps: u64,
    cut_short: u64,
}

impl EvictionPolicy for Clock {
    const NAME: &'static str = "clock";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 13;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        Ok(Clock {
            list: SlotList::new(setup.max_slots),
            marked: vec![false; setup.max_slots as usize],
            steps_left: 0,
            steps: 0,
            cut_short: 0,
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, _: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Access | Op::Update => self.marked[slot as usize] = true,
            Op::Insert | Op::Restore => {
                self.list.remove(slot);
                self.marked[slot as usize] = false;
                self.list.push_hottest(slot);
            }
            Op::Remove => {
                self.list.remove(slot);
            }
            Op::VictimRefused if !self.list.contains(slot) => {
                self.marked[slot as usize] = false;
                self.list.push_coldest(slot);
            }
            _ => {}
        }
    }

    fn before_victims(&mut self, _want_entries: u32, _want_bytes: u64) {
        self.steps_left = STEPS_MAX;
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        let mut at = self.list.coldest()?;
        while self.marked[at as usize] {
            if self.steps_left == 0 {
                self.cut_short += 1;
                return None;
            }
            self.steps_left -= 1;
            self.steps += 1;
            self.marked[at as usize] = false;
            self.list.touch(at);
            at = self.list.coldest()?;
        }
        self.list.remove(at);
        Some(at)
    }

    /// What the hand would take if nothing were read: unmarked entries, then the marked ones.
    fn order(&self, slots: &mut Vec<Slot>) {
        slots.extend(self.list.iter().filter(|slot| !self.marked[*slot as usize]));
        slots.extend(self.list.iter().filter(|slot| self.marked[*slot as usize]));
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.list.grow(max_slots);
        let slots = self.marked.len().max(max_slots as usize);
        self.marked.resize(slots, false);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("resident", f64::from(self.list.len())),
            ("second_chances", self.steps as f64),
            ("searches_cut_short", self.cut_short as f64),
        ]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
