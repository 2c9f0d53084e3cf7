//! ARC, the adaptive replacement cache: one LRU for entries that were used once, one for those used
//! again, and a boundary between them that moves with every ghost that returns: towards the list
//! that should have been longer.
//!
//! Source: N. Megiddo, D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003.
//! There a victim is chosen when it is known who comes; here before. So the boundary moves one insert
//! later, and the tie that the paper breaks by who comes goes to the recent list.
//!
//! Memory: 14 bytes a slot for two links, queue and identity, 21 to 29 for its ghost, 4 for the order
//! while it is drained.
//!
//! Invariant: the two queues hold exactly the resident slots. With c entries in the cache, at most c
//! are known that were used once, resident or ghost, and at most 2c in all.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot};
use tidegate_plugin_memory::{Ghosts, SlotQueues, Tenants, shorten};

tidegate_plugin::export_eviction!(Arc);

/// Used once lately: T1 of the paper, and B1 of the ghosts.
const RECENT: usize = 0;
/// Used again: T2 and B2.
const FREQUENT: usize = 1;

/// The policy of one shard.
#[derive(Debug)]
pub struct Arc {
    queues: SlotQueues<2>,
    tenants: Tenants,
    ghosts: Ghosts<2>,
    /// Entries that the cache held when victims were last asked for.
    capacity: u32,
    /// Entries that the recent queue should hold, `p` of the paper: `0..=capacity`.
    boundary: f64,
    returned: [u64; 2],
}

impl Arc {
    fn insert(&mut self, slot: Slot, identity: u32) {
        if self.tenants.given(slot, identity).is_some() {
            // Read before it was taken: it is where it was, and the read follows.
            self.put_back(slot);
            return;
        }
        let [recent, frequent] = [RECENT, FREQUENT].map(|queue| f64::from(self.ghosts.len(queue)));
        let ghost = self.ghosts.remove(identity);
        match ghost {
            Some(RECENT) => {
                let farther = self.boundary + (frequent / recent).max(1.0);
                self.boundary = farther.min(f64::from(self.capacity));
            }
            Some(_) => self.boundary = (self.boundary - (recent / frequent).max(1.0)).max(0.0),
            None => {}
        }
        if let Some(queue) = ghost {
            self.returned[queue] += 1;
        }
        self.enter(if ghost.is_some() { FREQUENT } else { RECENT }, slot, identity);
        self.forget();
    }

    /// Keeps the number of ghosts within the bounds of the paper.
    fn forget(&mut self) {
        let capacity = self.capacity.max(self.queues.total());
        self.ghosts.trim(RECENT, capacity.saturating_sub(self.queues.len(RECENT)));
        let known = self.queues.total() + self.ghosts.len(RECENT);
        self.ghosts.trim(FREQUENT, (2 * capacity).saturating_sub(known));
    }

    fn enter(&mut self, queue: usize, slot: Slot, identity: u32) {
        self.tenants.enter(slot, identity);
        self.queues.move_hottest(queue, slot);
    }

    /// Puts a victim back where it was taken from.
    fn put_back(&mut self, slot: Slot) {
        if self.tenants.put_back(slot, &mut self.queues).is_some() {
            self.ghosts.remove(self.tenants.identity(slot));
        }
    }
}

impl EvictionPolicy for Arc {
    const NAME: &'static str = "arc";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 47;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        Ok(Arc {
            queues: SlotQueues::new(setup.max_slots),
            tenants: Tenants::new(setup.max_slots),
            ghosts: Ghosts::new(ghosts_max(setup.max_slots)),
            capacity: setup.max_slots,
            boundary: 0.0,
            returned: [0; 2],
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        let identity = || attributes.map_or(0, |of| shorten(of.fingerprint()));
        match event.op() {
            Op::Access | Op::Update if self.queues.contains(slot) => {
                self.queues.move_hottest(FREQUENT, slot);
            }
            Op::Insert => self.insert(slot, identity()),
            Op::Restore => self.enter(RECENT, slot, identity()),
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
        self.boundary = self.boundary.min(f64::from(self.capacity));
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        let recent = f64::from(self.queues.len(RECENT));
        // With many victims named at once the recent queue has its size on average: it is longer by
        // half of them before, and shorter after.
        let leaving = f64::from(self.capacity.saturating_sub(self.queues.total()) / 2);
        let too_recent = recent > 0.0 && recent + leaving > self.boundary;
        let queue = if too_recent || self.queues.len(FREQUENT) == 0 { RECENT } else { FREQUENT };
        let slot = self.queues.pop_coldest(queue)?;
        self.tenants.give(slot, queue);
        self.ghosts.push(queue, self.tenants.identity(slot));
        Some(slot)
    }

    /// What the recent queue has beyond the boundary, the frequent one, the rest of the recent.
    fn order(&self, slots: &mut Vec<Slot>) {
        let excess = f64::from(self.queues.len(RECENT)) - self.boundary;
        let excess = excess.max(0.0).ceil() as usize;
        slots.extend(self.queues.iter(RECENT).take(excess));
        slots.extend(self.queues.iter(FREQUENT));
        slots.extend(self.queues.iter(RECENT).skip(excess));
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.queues.grow(max_slots);
        self.ghosts.grow(ghosts_max(max_slots));
        self.tenants.grow(max_slots);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("recent", f64::from(self.queues.len(RECENT))),
            ("frequent", f64::from(self.queues.len(FREQUENT))),
            ("boundary", self.boundary),
            ("recent_ghosts", f64::from(self.ghosts.len(RECENT))),
            ("frequent_ghosts", f64::from(self.ghosts.len(FREQUENT))),
            ("recent_returned", self.returned[RECENT] as f64),
            ("frequent_returned", self.returned[FREQUENT] as f64),
        ]
    }
}

/// Room for ghosts: as many as entries, and the victims of one request.
fn ghosts_max(max_slots: u32) -> u32 {
    max_slots.saturating_add(64)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
