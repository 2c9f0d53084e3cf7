//! First in, first out: the oldest entry leaves first, however often it was read. The yardstick
//! below which no policy should fall.
//!
//! Source: no paper; Belady ("A study of replacement algorithms for a virtual-storage computer",
//! IBM Systems Journal, 1966) measures it.
//!
//! Memory: 13 bytes a slot for two links, an identity and a mark, 4 more for the order while it is
//! drained.
//!
//! Invariant: the list holds exactly the resident slots, oldest first.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot, SlotList};

tidegate_plugin::export_eviction!(Fifo);

/// The policy of one shard.
#[derive(Debug)]
pub struct Fifo {
    list: SlotList,
    /// Low half of the fingerprint of the entry that is or was in the slot.
    identity: Vec<u32>,
    /// Whether the slot was given away as a victim and nothing came in since.
    given: Vec<bool>,
}

impl Fifo {
    /// A victim that was read before it was taken comes back: it is as old as it was.
    fn insert(&mut self, slot: Slot, identity: u32) {
        let at = slot as usize;
        let back = self.given[at] && self.identity[at] == identity;
        self.list.remove(slot);
        (self.given[at], self.identity[at]) = (false, identity);
        match back {
            true => self.list.push_coldest(slot),
            false => self.list.push_hottest(slot),
        }
    }
}

impl EvictionPolicy for Fifo {
    const NAME: &'static str = "fifo";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 17;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        let slots = setup.max_slots as usize;
        let list = SlotList::new(setup.max_slots);
        Ok(Fifo { list, identity: vec![0; slots], given: vec![false; slots] })
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Insert | Op::Restore => {
                self.insert(slot, attributes.map_or(0, |of| of.fingerprint() as u32));
            }
            Op::Remove => {
                self.list.remove(slot);
                self.given[slot as usize] = false;
            }
            Op::VictimRefused if !self.list.contains(slot) => {
                self.given[slot as usize] = false;
                self.list.push_coldest(slot);
            }
            _ => {}
        }
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        let slot = self.list.coldest()?;
        self.list.remove(slot);
        self.given[slot as usize] = true;
        Some(slot)
    }

    fn order(&self, slots: &mut Vec<Slot>) {
        slots.extend(self.list.iter());
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.list.grow(max_slots);
        let slots = self.given.len().max(max_slots as usize);
        self.identity.resize(slots, 0);
        self.given.resize(slots, false);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("resident", f64::from(self.list.len()))]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
