//! W-TinyLFU: new entries pass through a small LRU, the window. Who leaves it has to be seen more
//! often lately than the next victim of the main part, or it leaves the cache; a sketch remembers how
//! often, also of entries that are gone. The main part is a segmented LRU. How large the window is
//! follows the hit ratio.
//!
//! Source: G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy",
//! ACM Transactions on Storage, 2017; the moving window: G. Einziger, O. Eytan, R. Friedman, B. Manes,
//! "Adaptive Software Cache Management", Middleware 2018. Other than there, reads in the window are
//! not counted: reads soon after the first are one and the same use.
//!
//! Memory: 14 bytes a slot for two links, queue and identity, 4 to 8 for the sketch, 4 for the order
//! while it is drained.
//!
//! Invariant: the three queues hold exactly the resident slots.

mod climber;

use climber::Climber;
use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot};
use tidegate_plugin_memory::{Sketch, SlotQueues, shorten};

tidegate_plugin::export_eviction!(WTinyLfu);

const WINDOW: usize = 0;
/// Of the main part: not read since the entry came there, or pushed out of `PROTECTED`.
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Share of the main part that may be protected.
const PROTECTED_PERCENT: u32 = 80;
/// The slot was not given away as a victim.
const KEPT: u8 = u8::MAX;
/// Requests, in multiples of the entries, after which counts are halved and the window is moved.
const PERIOD: u32 = 16;

/// The policy of one shard.
#[derive(Debug)]
pub struct WTinyLfu {
    queues: SlotQueues<3>,
    /// Low half of the fingerprint of the entry that is or was in the slot.
    identity: Vec<u32>,
    /// The queue that the slot was given away from when nothing came in since, or `KEPT`.
    given: Vec<u8>,
    sketch: Sketch,
    /// Entries that the cache held when victims were last asked for.
    capacity: u32,
    climber: Climber,
    admitted: u64,
    rejected: u64,
}

impl WTinyLfu {
    fn period(&self) -> u32 {
        self.capacity.saturating_mul(PERIOD).max(100)
    }

    fn window_max(&self) -> u32 {
        ((f64::from(self.capacity) * self.climber.share()) as u32).max(1)
    }

    fn insert(&mut self, slot: Slot, identity: u32) {
        let at = slot as usize;
        if self.given[at] != KEPT && self.identity[at] == identity {
            // Read before it was taken: it is where it was, and the read follows.
            self.put_back(slot);
            return;
        }
        self.climber.note(false, self.period());
        self.sketch.count(identity, self.period());
        self.enter(WINDOW, slot, identity);
        // Without need for victims, or when the window shrank, the oldest just move on.
        for _ in 0..2 {
            match self.queues.coldest(WINDOW) {
                Some(slot) if self.queues.len(WINDOW) > self.window_max() => {
                    self.queues.move_hottest(PROBATION, slot);
                }
                _ => break,
            }
        }
    }

    fn access(&mut self, slot: Slot) {
        let Some(queue) = self.queues.queue_of(slot) else { return };
        self.climber.note(true, self.period());
        if queue == WINDOW {
            self.queues.move_hottest(WINDOW, slot);
            return;
        }
        self.sketch.count(self.identity[slot as usize], self.period());
        self.queues.move_hottest(PROTECTED, slot);
        let main = self.queues.len(PROBATION) + self.queues.len(PROTECTED);
        if self.queues.len(PROTECTED) > share(main, PROTECTED_PERCENT)
            && let Some(slot) = self.queues.coldest(PROTECTED)
        {
            self.queues.move_hottest(PROBATION, slot);
        }
    }

    fn enter(&mut self, queue: usize, slot: Slot, identity: u32) {
        let at = slot as usize;
        (self.identity[at], self.given[at]) = (identity, KEPT);
        self.queues.move_hottest(queue, slot);
    }

    /// Puts a victim back where it was taken from.
    fn put_back(&mut self, slot: Slot) {
        if self.queues.contains(slot) {
            return;
        }
        let queue = std::mem::replace(&mut self.given[slot as usize], KEPT);
        if queue != KEPT {
            self.queues.push_coldest(usize::from(queue), slot);
        }
    }

    fn give(&mut self, queue: usize) -> Option<Slot> {
        let slot = self.queues.pop_coldest(queue)?;
        self.given[slot as usize] = queue as u8;
        Some(slot)
    }

    fn seen(&self, slot: Slot) -> u32 {
        self.sketch.estimate(self.identity[slot as usize])
    }
}

/// A percentage of a number of entries.
fn share(entries: u32, percent: u32) -> u32 {
    (u64::from(entries) * u64::from(percent) / 100) as u32
}

impl EvictionPolicy for WTinyLfu {
    const NAME: &'static str = "w-tinylfu";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 26;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["window_percent", "adaptive"])?;
        let window_percent = setup.number("window_percent", 10)?;
        if !(1..=80).contains(&window_percent) {
            return Err(format!("parameter window_percent: {window_percent} is not in 1..=80"));
        }
        let adaptive = match setup.number("adaptive", 1)? {
            0 => false,
            1 => true,
            other => return Err(format!("parameter adaptive: {other} is not 0 or 1")),
        };
        let slots = setup.max_slots as usize;
        Ok(WTinyLfu {
            queues: SlotQueues::new(setup.max_slots),
            identity: vec![0; slots],
            given: vec![KEPT; slots],
            sketch: Sketch::new(setup.max_slots),
            capacity: setup.max_slots,
            climber: Climber::new(window_percent as f64 / 100.0, adaptive),
            admitted: 0,
            rejected: 0,
        })
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        let identity = || attributes.map_or(0, |of| shorten(of.fingerprint()));
        match event.op() {
            Op::Access | Op::Update => self.access(slot),
            Op::Insert => self.insert(slot, identity()),
            // It was resident before: it need not pass through the window.
            Op::Restore => {
                self.sketch.count(identity(), self.period());
                self.enter(PROBATION, slot, identity());
            }
            Op::Remove => {
                self.queues.remove(slot);
                self.given[slot as usize] = KEPT;
            }
            Op::VictimRefused => self.put_back(slot),
            _ => {}
        }
    }

    fn before_victims(&mut self, _want_entries: u32, _want_bytes: u64) {
        self.capacity = self.queues.total();
    }

    fn next_victim(&mut self) -> Option<Slot> {
        // New entries will take the place of those that were named: they fill the window.
        let leaving = self.capacity.saturating_sub(self.queues.total());
        let main = if self.queues.len(PROBATION) > 0 { PROBATION } else { PROTECTED };
        let (candidate, victim) = match (self.queues.coldest(WINDOW), self.queues.coldest(main)) {
            (Some(candidate), Some(victim)) => (candidate, victim),
            (Some(_), None) => return self.give(WINDOW),
            (None, _) => return self.give(main),
        };
        if self.queues.len(WINDOW) + leaving < self.window_max() {
            return self.give(main);
        }
        if self.seen(candidate) > self.seen(victim) {
            self.admitted += 1;
            self.queues.move_hottest(PROBATION, candidate);
            self.give(main)
        } else {
            self.rejected += 1;
            self.give(WINDOW)
        }
    }

    fn order(&self, slots: &mut Vec<Slot>) {
        for queue in [PROBATION, WINDOW, PROTECTED] {
            slots.extend(self.queues.iter(queue));
        }
    }

    fn resize(&mut self, _capacity_bytes: u64, max_slots: u32) {
        self.queues.grow(max_slots);
        self.sketch.grow(max_slots);
        let slots = self.identity.len().max(max_slots as usize);
        self.identity.resize(slots, 0);
        self.given.resize(slots, KEPT);
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("window", f64::from(self.queues.len(WINDOW))),
            ("probation", f64::from(self.queues.len(PROBATION))),
            ("protected", f64::from(self.queues.len(PROTECTED))),
            ("window_share", self.climber.share()),
            ("admitted", self.admitted as f64),
            ("rejected", self.rejected as f64),
        ]
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
