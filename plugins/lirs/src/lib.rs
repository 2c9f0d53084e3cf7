//! LIRS, low inter-reference recency set: an entry is kept for the distance between its last two
//! uses, not for the time since the last. Nearly all of the cache belongs to entries whose distance is
//! low; the rest is a short queue through which all others pass.
//!
//! Source: S. Jiang, X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy
//! to Improve Buffer Cache Performance", SIGMETRICS 2002. The stack is bounded here: at most twice as
//! many as the cache holds, those that left first are forgotten first.
//!
//! Memory: 30 bytes a slot for the links of the stack, half of them for ghosts, those of the queue,
//! rank and identity; 22 to 30 for its ghost, 4 for the order while it is drained.
//!
//! Invariant: low entries are in the stack and not in the queue, high ones are in the queue and
//! perhaps in the stack, ghosts are in the stack. While there is credit, the stack ends with a low entry.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot, SlotList};
use tidegate_plugin_memory::{Ghosts, share, shorten};

tidegate_plugin::export_eviction!(Lirs);

/// Nodes taken off the end of the stack in one event: what earlier events did not use, up to this.
const CREDIT_MAX: u32 = 1 << 12;
/// Nodes that one event may take off. It adds two at most, so credit runs short only after a flood.
const CREDIT_EVENT: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Not resident.
    Out,
    /// Given away as a victim, and nothing came in since.
    GivenLow,
    GivenHigh,
    Low,
    High,
}

/// The policy of one shard.
#[derive(Debug)]
pub struct Lirs {
    /// By last use, of nodes: see [`resident`] and [`ghost`].
    stack: SlotList,
    /// High entries, the next victim first.
    queue: SlotList,
    rank: Vec<Rank>,
    /// Low half of the fingerprint of the entry that is or was in the slot.
    identity: Vec<u32>,
    ghosts: Ghosts<1>,
    /// Entries that the cache held when victims were last asked for.
    capacity: u32,
    high_percent: u32,
    /// Low entries that there may be.
    low_max: u32,
    low: u32,
    credit: u32,
    returned: u64,
}

/// The stack's node of a resident entry.
fn resident(slot: Slot) -> u32 {
    2 * slot
}

/// The stack's node of a ghost.
fn ghost(place: u32) -> u32 {
    2 * place + 1
}

impl Lirs {
    fn insert(&mut self, slot: Slot, identity: u32) {
        let at = slot as usize;
        let given = matches!(self.rank[at], Rank::GivenLow | Rank::GivenHigh);
        if given && self.identity[at] == identity {
            // Read before it was taken: it is where it was, and the read follows.
            self.put_back(slot);
            return;
        }
        self.remove(slot);
        self.identity[at] = identity;
        let returns = self.ghosts.find(identity);
        if let Some(place) = returns {
            self.forget(place);
            self.returned += 1;
        }
        self.stack.push_hottest(resident(slot));
        if returns.is_some() || self.low < self.low_max {
            self.rank[at] = Rank::Low;
            self.low += 1;
        } else {
            self.rank[at] = Rank::High;
            self.queue.push_hottest(slot);
        }
    }

    fn access(&mut self, slot: Slot) {
        let at = slot as usize;
        match self.rank[at] {
            Rank::Low => self.stack.touch(resident(slot)),
            Rank::High if self.stack.contains(resident(slot)) => {
                // Used again while it was in the stack: its distance is below that of the last one.
                self.stack.touch(resident(slot));
                self.queue.remove(slot);
                self.rank[at] = Rank::Low;
                self.low += 1;
            }
            Rank::High => {
                self.stack.push_hottest(resident(slot));
                self.queue.touch(slot);
            }
            Rank::Out | Rank::GivenLow | Rank::GivenHigh => {}
        }
    }

    fn remove(&mut self, slot: Slot) {
        let at = slot as usize;
        self.stack.remove(resident(slot));
        self.queue.remove(slot);
        self.low -= u32::from(self.rank[at] == Rank::Low);
        self.rank[at] = Rank::Out;
    }

    /// Puts a victim back where it was taken from.
    fn put_back(&mut self, slot: Slot) {
        let at = slot as usize;
        match self.rank[at] {
            Rank::GivenLow => {
                self.stack.push_coldest(resident(slot));
                self.rank[at] = Rank::Low;
                self.low += 1;
            }
            Rank::GivenHigh => {
                if let Some(place) = self.ghosts.find(self.identity[at]) {
                    self.stack.insert_colder_than(ghost(place), resident(slot));
                    self.forget(place);
                }
                self.queue.push_coldest(slot);
                self.rank[at] = Rank::High;
            }
            Rank::Out | Rank::Low | Rank::High => {}
        }
    }

    fn forget(&mut self, place: u32) {
        self.stack.remove(ghost(place));
        self.ghosts.forget(place);
    }

    /// Makes the stack end with a low entry and returns that; none when there is none, or no credit.
    fn last_low(&mut self) -> Option<Slot> {
        loop {
            let node = self.stack.coldest()?;
            let slot = node / 2;
            if node == resident(slot) && self.rank[slot as usize] == Rank::Low {
                return Some(slot);
            }
            if self.credit == 0 {
                return None;
            }
            self.credit -= 1;
            if node == resident(slot) {
                self.stack.remove(node);
            } else {
                self.forget(slot);
            }
        }
    }

    /// Restores the invariant and the bounds after an event.
    fn balance(&mut self) {
        self.credit = (self.credit + CREDIT_EVENT).min(CREDIT_MAX);
        while let Some(slot) = self.last_low()
            && self.low > self.low_max
            && self.credit > 0
        {
            self.credit -= 1;
            self.stack.remove(resident(slot));
            self.rank[slot as usize] = Rank::High;
            self.low -= 1;
            self.queue.push_hottest(slot);
        }
        for _ in 0..2 {
            match self.ghosts.oldest(0) {
                Some(place) if self.stack.len() > 2 * self.capacity => self.forget(place),
                _ => break,
            }
        }
    }

    /// Sets the bound of the low entries; the others must be enough for one request of victims.
    fn divide(&mut self, want_entries: u32) {
        let high = share(self.capacity, self.high_percent).max(want_entries).max(1);
        self.low_max = self.capacity.saturating_sub(high);
    }
}

impl EvictionPolicy for Lirs {
    const NAME: &'static str = "lirs";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 64;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["high_percent"])?;
        let high_percent = setup.number("high_percent", 1)?;
        if !(1..=50).contains(&high_percent) {
            return Err(format!("parameter high_percent: {high_percent} is not in 1..=50"));
        }
        let slots = setup.max_slots as usize;
        let ghosts = ghosts_max(setup.max_slots);
        let mut lirs = Lirs {
            stack: SlotList::new(2 * ghosts),
            queue: SlotList::new(setup.max_slots),
            rank: vec![Rank::Out; slots],
            identity: vec![0; slots],
            ghosts: Ghosts::new(ghosts),
            capacity: setup.max_slots,
            high_percent: high_percent as u32,
            low_max: 0,
            low: 0,
            credit: 0,
            returned: 0,
        };
        lirs.divide(1);
        Ok(lirs)
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Access | Op::Update => self.access(slot),
            Op::Insert | Op::Restore => {
                self.insert(slot, attributes.map_or(0, |of| shorten(of.fingerprint())));
            }
            Op::Remove => self.remove(slot),
            Op::VictimRefused => self.put_back(slot),
            _ => return,
        }
        self.balance();
    }

    fn before_victims(&mut self, want_entries: u32, _want_bytes: u64) {
        self.capacity = self.low + self.queue.len();
        self.divide(want_entries);
        self.balance();
    }

    fn next_victim(&mut self) -> Option<Slot> {
        let Some(slot) = self.queue.coldest() else {
            let slot = self.last_low()?;
            self.remove(slot);
            self.rank[slot as usize] = Rank::GivenLow;
            return Some(slot);
        };
        self.queue.remove(slot);
        let at = slot as usize;
        self.rank[at] = Rank::GivenHigh;
        if self.stack.contains(resident(slot)) {
            // Its ghost stands where it stood.
            let identity = self.identity[at];
            let same = self.ghosts.find(identity);
            let oldest = self.ghosts.oldest(0).filter(|_| !self.ghosts.has_room());
            if let Some(place) = same.or(oldest) {
                self.forget(place);
            }
            if let Some(place) = self.ghosts.push(0, identity) {
                self.stack.insert_colder_than(resident(slot), ghost(place));
            }
            self.stack.remove(resident(slot));
        }
        Some(slot)
    }

    /// The queue, then the low entries by last use.
    fn order(&self, slots: &mut Vec<Slot>) {
        slots.extend(self.queue.iter());
        let low = |node: &u32| node.is_multiple_of(2) && self.rank[*node as usize / 2] == Rank::Low;
        slots.extend(self.stack.iter().filter(low).map(|node| node / 2));
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        let ghosts = ghosts_max(max_slots);
        self.stack.grow(2 * ghosts);
        self.queue.grow(max_slots);
        self.ghosts.grow(ghosts);
        let slots = self.rank.len().max(max_slots as usize);
        self.rank.resize(slots, Rank::Out);
        self.identity.resize(slots, 0);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("low", f64::from(self.low)),
            ("high", f64::from(self.queue.len())),
            ("ghosts", f64::from(self.ghosts.len(0))),
            ("stack", f64::from(self.stack.len())),
            ("returned", self.returned as f64),
        ]
    }
}

/// Room for ghosts: as many as entries, a few more for those that are not low, and the victims of one
/// request.
fn ghosts_max(max_slots: u32) -> u32 {
    max_slots.saturating_add(max_slots / 32).saturating_add(64)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
