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
//! Memory: 17 bytes a slot for two links, queue, identity and uses, 4 to 8 for the sketch, 4 for the order
//! while it is drained.
//!
//! Invariant: the three queues hold exactly the resident slots.

mod climber;

use climber::Climber;
use tidegate_plugin::{Attributes, Event, EvictionPolicy, Op, Setup, Slot};
use tidegate_plugin_memory::{Sketch, SlotQueues, share, shorten};

tidegate_plugin::export_eviction!(WTinyLfu);

const WINDOW: usize = 0;
/// Of the main part: not read since the entry came there, or pushed out of `PROTECTED`.
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Share of the main part that may be protected.
const PROTECTED_PERCENT: u32 = 80;
/// Entries that one victim may push out of the protected segment, and out of the window.
const MOVED_MAX: u32 = 4;
/// No count in the sketch is higher.
const USES_MAX: u8 = 15;
/// By one part in so many a newcomer has to have been seen more often than who leaves for it.
const MARGIN: u32 = 8;
/// The slot was not given away as a victim.
const KEPT: u8 = u8::MAX;
/// Requests, in multiples of the entries, after which counts are halved and the window is moved.
const PERIOD: u32 = 16;

/// What is known of the entry that is or was in a slot.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Low half of its fingerprint.
    identity: u32,
    /// The queue that it was given away from when nothing came in since, or `KEPT`.
    given: u8,
    /// Uses since the sketch was last told, up to `USES_MAX`, and in the upper half when that was, in
    /// halvings. The sketch is told when somebody wants to know: it is much work for a mere read.
    uses: u8,
}

const NOBODY: Entry = Entry { identity: 0, given: KEPT, uses: 0 };

/// The policy of one shard.
#[derive(Debug)]
pub struct WTinyLfu {
    queues: SlotQueues<3>,
    entries: Vec<Entry>,
    sketch: Sketch,
    /// Entries that the cache held when victims were last asked for.
    capacity: u32,
    /// Requests after which counts are halved and the window is moved.
    period: u32,
    /// Entries that the window may hold.
    window_max: u32,
    climber: Climber,
    admitted: u64,
    rejected: u64,
}

impl WTinyLfu {
    /// Takes note of how many entries the cache holds.
    fn measure(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.period = capacity.saturating_mul(PERIOD).max(100);
        self.divide();
    }

    fn divide(&mut self) {
        self.window_max = ((f64::from(self.capacity) * self.climber.share()) as u32).max(1);
    }

    /// Tells the climber of a request.
    #[inline]
    fn note(&mut self, hit: bool) {
        if self.climber.note(hit, self.period) {
            self.divide();
        }
    }

    fn insert(&mut self, slot: Slot, identity: u32) {
        let entry = &self.entries[slot as usize];
        if entry.given != KEPT && entry.identity == identity {
            // Read before it was taken: it is where it was, and the read follows.
            self.put_back(slot);
            return;
        }
        self.note(false);
        self.sketch.pass(self.period);
        self.enter(WINDOW, slot, identity);
        if self.queues.len(WINDOW) > self.window_max {
            self.shift();
        }
    }

    /// The oldest of the window just moves on.
    fn shift(&mut self) {
        if let Some(slot) = self.queues.pop_coldest(WINDOW) {
            self.queues.push_hottest(PROBATION, slot);
        }
    }

    fn access(&mut self, slot: Slot) {
        let Some(queue) = self.queues.queue_of(slot) else { return };
        self.note(true);
        if queue == WINDOW {
            self.queues.move_hottest(WINDOW, slot);
            return;
        }
        self.sketch.pass(self.period);
        let era = self.era();
        let entry = &mut self.entries[slot as usize];
        entry.uses = (entry.faded(era) + 1).min(USES_MAX) | era;
        self.queues.move_hottest(PROTECTED, slot);
    }

    /// Lets the protected segment keep its share; hits leave that to requests for victims.
    fn demote(&mut self) {
        let main = self.queues.len(PROBATION) + self.queues.len(PROTECTED);
        for _ in 0..MOVED_MAX {
            if self.queues.len(PROTECTED) <= share(main, PROTECTED_PERCENT) {
                break;
            }
            if let Some(slot) = self.queues.pop_coldest(PROTECTED) {
                self.queues.push_hottest(PROBATION, slot);
            }
        }
    }

    fn enter(&mut self, queue: usize, slot: Slot, identity: u32) {
        self.entries[slot as usize] = Entry { identity, given: KEPT, uses: 1 | self.era() };
        self.queues.move_hottest(queue, slot);
    }

    /// Puts a victim back where it was taken from.
    fn put_back(&mut self, slot: Slot) {
        if self.queues.contains(slot) {
            return;
        }
        let queue = std::mem::replace(&mut self.entries[slot as usize].given, KEPT);
        if queue != KEPT {
            self.queues.push_coldest(usize::from(queue), slot);
        }
    }

    fn give(&mut self, queue: usize) -> Option<Slot> {
        let slot = self.queues.pop_coldest(queue)?;
        self.tell(slot);
        self.entries[slot as usize].given = queue as u8;
        Some(slot)
    }

    /// The number of halvings, in the upper half of a byte.
    #[inline]
    fn era(&self) -> u8 {
        (self.sketch.halvings() as u8) << 4
    }

    fn tell(&mut self, slot: Slot) {
        let era = self.era();
        let entry = &mut self.entries[slot as usize];
        let uses = entry.faded(era);
        entry.uses = 0;
        if uses > 0 {
            self.sketch.count(entry.identity, u32::from(uses));
        }
    }

    fn seen(&mut self, slot: Slot) -> u32 {
        self.tell(slot);
        self.sketch.estimate(self.entries[slot as usize].identity)
    }
}

/// Whether a newcomer was seen so much more often than a victim that it takes its place. Counts are
/// halved and rounded at other times than they are told, so of high ones a difference of one says
/// nothing: with it a loop would push itself out of the cache.
fn is_more(newcomer: u32, victim: u32) -> bool {
    newcomer > victim + victim / MARGIN
}

impl Entry {
    /// Uses that the sketch was not told, halved as often as it was since.
    #[inline]
    fn faded(&self, era: u8) -> u8 {
        let halvings = era.wrapping_sub(self.uses & !USES_MAX) >> 4;
        (self.uses & USES_MAX).checked_shr(u32::from(halvings)).unwrap_or(0)
    }
}

impl EvictionPolicy for WTinyLfu {
    const NAME: &'static str = "w-tinylfu";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BYTES_PER_SLOT: u32 = 29;
    /// Share and step of the window as two 64-bit floating point numbers, big-endian.
    const STATE_SCHEMA: u32 = 1;

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["window_percent", "adaptive"])?;
        let window_percent = setup.number("window_percent", 3)?;
        if !(1..=80).contains(&window_percent) {
            return Err(format!("parameter window_percent: {window_percent} is not in 1..=80"));
        }
        let adaptive = match setup.number("adaptive", 1)? {
            0 => false,
            1 => true,
            other => return Err(format!("parameter adaptive: {other} is not 0 or 1")),
        };
        let mut policy = WTinyLfu {
            queues: SlotQueues::new(setup.max_slots),
            entries: vec![NOBODY; setup.max_slots as usize],
            sketch: Sketch::new(setup.max_slots),
            capacity: 0,
            period: 0,
            window_max: 0,
            climber: Climber::new(window_percent as f64 / 100.0, adaptive),
            admitted: 0,
            rejected: 0,
        };
        policy.measure(setup.max_slots);
        Ok(policy)
    }

    #[inline]
    fn on_event(&mut self, event: Event, attributes: Option<&Attributes>) {
        let slot = event.slot();
        let identity = || attributes.map_or(0, |of| shorten(of.fingerprint()));
        match event.op() {
            Op::Access | Op::Update => self.access(slot),
            Op::Insert => self.insert(slot, identity()),
            // It was resident before: it need not pass through the window.
            Op::Restore => self.enter(PROBATION, slot, identity()),
            Op::Remove => {
                self.queues.remove(slot);
                self.entries[slot as usize].given = KEPT;
            }
            Op::VictimRefused => self.put_back(slot),
            _ => {}
        }
    }

    fn before_victims(&mut self, want_entries: u32, _want_bytes: u64) {
        self.measure(self.queues.total());
        // As many newcomers are to be compared with who would leave for them: a window that is smaller
        // would let the main part go without a comparison, for whatever comes.
        self.window_max = self.window_max.max(want_entries);
    }

    fn next_victim(&mut self) -> Option<Slot> {
        self.demote();
        // New entries will take the place of those that were named: they fill the window.
        let leaving = self.capacity.saturating_sub(self.queues.total());
        // The window shrank.
        for _ in 0..MOVED_MAX {
            if self.queues.len(WINDOW) + leaving > self.window_max {
                self.shift();
            }
        }
        let main = if self.queues.len(PROBATION) > 0 { PROBATION } else { PROTECTED };
        let (candidate, victim) = match (self.queues.coldest(WINDOW), self.queues.coldest(main)) {
            (Some(candidate), Some(victim)) => (candidate, victim),
            (Some(_), None) => return self.give(WINDOW),
            (None, _) => return self.give(main),
        };
        if self.queues.len(WINDOW) + leaving < self.window_max {
            return self.give(main);
        }
        if is_more(self.seen(candidate), self.seen(victim)) {
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
        let slots = self.entries.len().max(max_slots as usize);
        self.entries.resize(slots, NOBODY);
    }

    /// How large the window should be is learnt slowly and true of the load. What the sketch knows is
    /// true of entries, and a successor is shown those.
    fn snapshot(&self) -> Vec<u8> {
        self.climber.found().iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn restore(&mut self, schema: u32, state: &[u8]) -> Result<(), String> {
        let numbers = match state.as_chunks::<8>() {
            ([share, step], []) if schema == Self::STATE_SCHEMA => [*share, *step],
            _ => return Err(format!("{} bytes of schema {schema}", state.len())),
        };
        self.climber.go_on(numbers.map(f64::from_be_bytes))?;
        self.divide();
        Ok(())
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
