//! Least recently used: the entry that was not touched for the longest time leaves first.
//!
//! Invariant: the list holds exactly the resident slots, coldest first.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot, SlotList};

tidegate_plugin::export_eviction!(Lru);

/// The policy of one shard.
#[derive(Debug)]
pub struct Lru {
    list: SlotList,
    hits: u64,
}

impl EvictionPolicy for Lru {
    const NAME: &'static str = "lru";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    // Two links, and room for the order while it is drained.
    const BYTES_PER_SLOT: u32 = 12;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        Ok(Lru { list: SlotList::new(setup.max_slots), hits: 0 })
    }

    #[inline]
    fn on_event(&mut self, event: Event, _: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Access | Op::Update => {
                self.hits += 1;
                self.list.touch(slot);
            }
            Op::Insert | Op::Restore => {
                self.list.remove(slot);
                self.list.push_hottest(slot);
            }
            Op::Remove => {
                self.list.remove(slot);
            }
            Op::VictimRefused if !self.list.contains(slot) => self.list.push_coldest(slot),
            _ => {}
        }
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        let slot = self.list.coldest()?;
        self.list.remove(slot);
        Some(slot)
    }

    fn order(&self, slots: &mut Vec<Slot>) {
        slots.extend(self.list.iter());
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.list.grow(max_slots);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("resident", f64::from(self.list.len())), ("hits", self.hits as f64)]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
