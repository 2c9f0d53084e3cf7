//! 2Q: new entries pass through a queue in which reads count for nothing, because reads soon after
//! the first are one and the same use. Who returns after it left that queue is worth keeping and
//! comes into the main queue, an LRU.
//!
//! Source: T. Johnson, D. Shasha, "2Q: A Low Overhead High Performance Buffer Management Replacement
//! Algorithm", VLDB 1994, the full version.
//!
//! Memory: 14 bytes a slot for two links, queue and identity, 11 to 15 for half a ghost, 4 for the
//! order while it is drained.
//!
//! Invariant: the two queues hold exactly the resident slots; an entry that left the first queue is
//! in `ghosts` until it returns or is forgotten.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot};
use tidegate_plugin_memory::{Ghosts, SlotQueues, Tenants, share, shorten};

tidegate_plugin::export_eviction!(TwoQ);

/// A1in of the paper; its ghosts are A1out.
const FIRST: usize = 0;
/// Am of the paper.
const MAIN: usize = 1;

/// The policy of one shard.
#[derive(Debug)]
pub struct TwoQ {
    queues: SlotQueues<2>,
    tenants: Tenants,
    ghosts: Ghosts<1>,
    /// Entries that the cache held when victims were last asked for.
    capacity: u32,
    first_percent: u32,
    ghost_percent: u32,
    returned: u64,
}

impl TwoQ {
    fn insert(&mut self, slot: Slot, identity: u32) {
        if self.tenants.given(slot, identity) == Some(MAIN) {
            // Read before it was taken: it is where it was, and the read follows. The same for the
            // first queue is a return like any other.
            self.put_back(slot);
            return;
        }
        let ghost = self.ghosts.remove(identity).is_some();
        self.returned += u64::from(ghost);
        self.enter(if ghost { MAIN } else { FIRST }, slot, identity);
        // Not earlier: the entry that comes in may be the oldest ghost. Victims that were named and
        // not replaced yet would not have left one at a time.
        let leaving = self.capacity.saturating_sub(self.queues.total());
        self.ghosts.trim(0, share(self.capacity, self.ghost_percent) + leaving);
    }

    fn enter(&mut self, queue: usize, slot: Slot, identity: u32) {
        self.tenants.enter(slot, identity);
        self.queues.move_hottest(queue, slot);
    }

    /// Puts a victim back where it was taken from.
    fn put_back(&mut self, slot: Slot) {
        if self.tenants.put_back(slot, &mut self.queues) == Some(FIRST) {
            self.ghosts.remove(self.tenants.identity(slot));
        }
    }
}

impl EvictionPolicy for TwoQ {
    const NAME: &'static str = "two-q";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 48;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["first_percent", "ghost_percent"])?;
        let first_percent = setup.number("first_percent", 25)?;
        let ghost_percent = setup.number("ghost_percent", 50)?;
        if !(1..=99).contains(&first_percent) {
            return Err(format!("parameter first_percent: {first_percent} is not in 1..=99"));
        }
        if ghost_percent > 100 {
            return Err(format!("parameter ghost_percent: {ghost_percent} is not in 0..=100"));
        }
        Ok(TwoQ {
            queues: SlotQueues::new(setup.max_slots),
            tenants: Tenants::new(setup.max_slots),
            ghosts: Ghosts::new(ghosts_max(setup.max_slots, ghost_percent as u32)),
            capacity: setup.max_slots,
            first_percent: first_percent as u32,
            ghost_percent: ghost_percent as u32,
            returned: 0,
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        let identity = || attributes.map_or(0, |of| shorten(of.fingerprint()));
        match event.op() {
            Op::Access | Op::Update if self.queues.queue_of(slot) == Some(MAIN) => {
                self.queues.move_hottest(MAIN, slot);
            }
            Op::Insert => self.insert(slot, identity()),
            // It was resident before: it need not prove itself again.
            Op::Restore => self.enter(MAIN, slot, identity()),
            Op::Remove => {
                self.queues.remove(slot);
                self.tenants.leave(slot);
            }
            Op::VictimRefused => self.put_back(slot),
            _ => {}
        }
    }

    fn before_victims(&mut self, _want_entries: u32, _want_bytes: u64) {
        self.capacity = self.queues.total();
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        // With many victims named at once the first queue has its size on average: it is longer by
        // half of them before, and shorter after.
        let leaving = self.capacity - self.queues.total();
        let first_max = share(self.capacity, self.first_percent);
        let first_is_full = self.queues.len(FIRST) + leaving / 2 > first_max;
        let queue = match (self.queues.len(FIRST), self.queues.len(MAIN)) {
            (1.., 0) => FIRST,
            (1.., _) if first_is_full => FIRST,
            _ => MAIN,
        };
        let slot = self.queues.pop_coldest(queue)?;
        self.tenants.give(slot, queue);
        if queue == FIRST {
            self.ghosts.push(0, self.tenants.identity(slot));
        }
        Some(slot)
    }

    /// What the first queue has too many, the main queue, the rest of the first: who came in last
    /// has had no chance yet.
    fn order(&self, slots: &mut Vec<Slot>) {
        let kept = share(self.queues.total(), self.first_percent);
        let excess = self.queues.len(FIRST).saturating_sub(kept) as usize;
        slots.extend(self.queues.iter(FIRST).take(excess));
        slots.extend(self.queues.iter(MAIN));
        slots.extend(self.queues.iter(FIRST).skip(excess));
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.queues.grow(max_slots);
        self.ghosts.grow(ghosts_max(max_slots, self.ghost_percent));
        self.tenants.grow(max_slots);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("first", f64::from(self.queues.len(FIRST))),
            ("main", f64::from(self.queues.len(MAIN))),
            ("ghosts", f64::from(self.ghosts.len(0))),
            ("returned", self.returned as f64),
        ]
    }
}

/// Room for ghosts: their share of the cache, and the victims of one request.
fn ghosts_max(max_slots: u32, ghost_percent: u32) -> u32 {
    share(max_slots, ghost_percent).saturating_add(64)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
