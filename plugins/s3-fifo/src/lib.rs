//! S3-FIFO: new entries wait in a small queue, and only those that were read there move on to the
//! main queue; most entries are read once and leave quickly. An entry that returns while its ghost is
//! remembered goes to the main queue at once.
//!
//! Source: Yang, Zhang, Qiu, Yue, Vigfusson, "FIFO Queues are All You Need for Cache Eviction",
//! SOSP 2023.
//!
//! Memory: 15 bytes a slot for two links, queue, reads and identity, 21 to 29 for its ghost, 4 for the
//! order while it is drained.
//!
//! Invariant: the two queues hold exactly the resident slots; an entry that left the small queue is
//! in `ghosts` until it returns or is forgotten.

use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot};
use tidegate_plugin_memory::{Ghosts, SlotQueues, Tenants, share, shorten};

tidegate_plugin::export_eviction!(S3Fifo);

const SMALL: usize = 0;
const MAIN: usize = 1;
/// Reads that are counted: two bits are enough to tell the popular from the rest.
const READS_MAX: u8 = 3;
/// Entries looked at in one request for victims. A longer search goes on at the next request, the
/// host fills the gap.
const STEPS_MAX: u32 = 1 << 15;

/// The policy of one shard.
#[derive(Debug)]
pub struct S3Fifo {
    queues: SlotQueues<2>,
    /// Reads since the entry came into its queue, up to `READS_MAX`.
    reads: Vec<u8>,
    tenants: Tenants,
    ghosts: Ghosts<1>,
    /// Entries that the cache held when victims were last asked for.
    capacity: u32,
    /// Whether victims were ever asked for.
    asked: bool,
    /// Entries of the main queue above which it has to give.
    main_max: u32,
    small_percent: u32,
    ghost_percent: u32,
    /// Reads in the small queue that earn a place in the main one.
    reads_to_stay: u8,
    steps_left: u32,
    promoted: u64,
    returned: u64,
    cut_short: u64,
}

impl S3Fifo {
    fn insert(&mut self, slot: Slot, identity: u32) {
        if self.tenants.given(slot, identity).is_some() {
            // Read before it was taken: it is where it was, and the read follows.
            self.put_back(slot);
            return;
        }
        let ghost = self.ghosts.remove(identity).is_some();
        self.reads[slot as usize] = 0;
        self.tenants.enter(slot, identity);
        self.returned += u64::from(ghost);
        self.queues.remove(slot);
        // A cache with room left has no need to test who comes: it fills the main queue too.
        let small = share(self.capacity, self.small_percent).max(1);
        let filling = !self.asked && self.queues.len(SMALL) >= small;
        self.queues.push_hottest(if ghost || filling { MAIN } else { SMALL }, slot);
        // Not earlier: the entry that comes in may be the oldest ghost.
        // Victims that were named and not replaced yet would not have left one at a time.
        let leaving = self.capacity.saturating_sub(self.queues.total());
        self.ghosts.trim(0, share(self.capacity, self.ghost_percent) + leaving);
    }

    /// Puts a victim back where it was taken from.
    fn put_back(&mut self, slot: Slot) {
        if self.tenants.put_back(slot, &mut self.queues) == Some(SMALL) {
            self.ghosts.remove(self.tenants.identity(slot));
        }
    }

    /// The next victim of the small queue; who was read often enough moves on.
    fn take_small(&mut self) -> Option<Slot> {
        while let Some(slot) = self.queues.coldest(SMALL) {
            let at = slot as usize;
            if self.reads[at] < self.reads_to_stay {
                self.queues.remove(slot);
                self.tenants.give(slot, SMALL);
                self.ghosts.push(0, self.tenants.identity(slot));
                return Some(slot);
            }
            self.step()?;
            self.promoted += 1;
            self.reads[at] = 0;
            self.queues.move_hottest(MAIN, slot);
        }
        None
    }

    /// The next victim of the main queue; who was read goes round once more for each read.
    fn take_main(&mut self) -> Option<Slot> {
        while let Some(slot) = self.queues.coldest(MAIN) {
            let at = slot as usize;
            if self.reads[at] == 0 {
                self.queues.remove(slot);
                self.tenants.give(slot, MAIN);
                return Some(slot);
            }
            self.step()?;
            self.reads[at] -= 1;
            self.queues.move_hottest(MAIN, slot);
        }
        None
    }

    fn step(&mut self) -> Option<()> {
        if self.steps_left == 0 {
            self.cut_short += 1;
            return None;
        }
        self.steps_left -= 1;
        Some(())
    }
}

impl EvictionPolicy for S3Fifo {
    const NAME: &'static str = "s3-fifo";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 48;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["small_percent", "ghost_percent", "reads_to_stay"])?;
        let small_percent = setup.number("small_percent", 10)?;
        let ghost_percent = setup.number("ghost_percent", 90)?;
        let reads_to_stay = setup.number("reads_to_stay", 2)?;
        if !(1..=99).contains(&small_percent) {
            return Err(format!("parameter small_percent: {small_percent} is not in 1..=99"));
        }
        if ghost_percent > 100 {
            return Err(format!("parameter ghost_percent: {ghost_percent} is not in 0..=100"));
        }
        if !(1..=u64::from(READS_MAX)).contains(&reads_to_stay) {
            return Err(format!("parameter reads_to_stay: {reads_to_stay} is not in 1..=3"));
        }
        let slots = setup.max_slots as usize;
        Ok(S3Fifo {
            queues: SlotQueues::new(setup.max_slots),
            reads: vec![0; slots],
            tenants: Tenants::new(setup.max_slots),
            ghosts: Ghosts::new(ghosts_max(setup.max_slots)),
            capacity: setup.max_slots,
            asked: false,
            main_max: setup.max_slots,
            small_percent: small_percent as u32,
            ghost_percent: ghost_percent as u32,
            reads_to_stay: reads_to_stay as u8,
            steps_left: 0,
            promoted: 0,
            returned: 0,
            cut_short: 0,
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        match event.op() {
            Op::Access | Op::Update => {
                let reads = &mut self.reads[slot as usize];
                *reads = (*reads + 1).min(READS_MAX);
            }
            Op::Insert => self.insert(slot, attributes.map_or(0, |of| shorten(of.fingerprint()))),
            Op::Restore => {
                // It was resident before: it need not prove itself again.
                self.reads[slot as usize] = 0;
                self.tenants.enter(slot, attributes.map_or(0, |of| shorten(of.fingerprint())));
                self.queues.move_hottest(MAIN, slot);
            }
            Op::Remove => {
                self.queues.remove(slot);
                self.tenants.leave(slot);
            }
            Op::VictimRefused => self.put_back(slot),
            _ => {}
        }
    }

    fn before_victims(&mut self, want_entries: u32, _want_bytes: u64) {
        self.steps_left = STEPS_MAX;
        self.capacity = self.queues.total();
        self.asked = true;
        // Who is named ahead waits a shorter time in the small queue. To make up for it, that queue
        // has its size after the victims were named, and more before.
        let small = share(self.capacity, self.small_percent).max(1);
        let extra = want_entries.saturating_sub(1).min(small);
        self.main_max = self.capacity.saturating_sub(small + extra);
    }

    #[inline]
    fn next_victim(&mut self) -> Option<Slot> {
        if self.queues.len(MAIN) <= self.main_max {
            if let Some(slot) = self.take_small() {
                return Some(slot);
            }
            if self.queues.len(SMALL) > 0 {
                return None;
            }
        }
        match self.queues.len(MAIN) {
            0 => self.take_small(),
            _ => self.take_main(),
        }
    }

    /// Who would leave if nothing were read: the small queue without those that may stay, the main
    /// queue, and those at last.
    fn order(&self, slots: &mut Vec<Slot>) {
        let stays = |slot: &Slot| self.reads[*slot as usize] >= self.reads_to_stay;
        slots.extend(self.queues.iter(SMALL).filter(|slot| !stays(slot)));
        for reads in 0..=READS_MAX {
            slots.extend(self.queues.iter(MAIN).filter(|s| self.reads[*s as usize] == reads));
        }
        slots.extend(self.queues.iter(SMALL).filter(stays));
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.queues.grow(max_slots);
        self.ghosts.grow(ghosts_max(max_slots));
        let slots = self.reads.len().max(max_slots as usize);
        self.reads.resize(slots, 0);
        self.tenants.grow(max_slots);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("small", f64::from(self.queues.len(SMALL))),
            ("main", f64::from(self.queues.len(MAIN))),
            ("ghosts", f64::from(self.ghosts.len(0))),
            ("promoted", self.promoted as f64),
            ("returned", self.returned as f64),
            ("searches_cut_short", self.cut_short as f64),
        ]
    }
}

/// Room for ghosts: their share of the cache, and the victims of one request.
fn ghosts_max(max_slots: u32) -> u32 {
    max_slots.saturating_add(32)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
