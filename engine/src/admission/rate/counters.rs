//! Counts of recent operations by key, in a table of fixed size: the scheme of ScyllaDB's
//! per-partition rate limiter.
//!
//! Windows are seconds. At the end of a window a count loses what was lost to lossy counting and is
//! halved, so a steady rate of V a second counts between V and 2V. After every
//! [`OPERATIONS_PER_LOSS`] operations of a window all counts drop by one, by raising the floor from
//! which they are counted: keys that are rare free their place at once, and one that is hot loses
//! next to nothing. An entry is brought up to date when it is met.
//!
//! Invariant: a count is never above the operations of its key; entries are at most half the range
//! of window numbers old, so their age is never ambiguous.

use std::collections::VecDeque;

/// Entries of the table, 16 bytes each.
const ENTRIES: usize = 1 << 16;
/// Entries looked at for a key.
const PROBES_MAX: usize = 32;
/// Operations of a window after which all counts drop by one.
const OPERATIONS_PER_LOSS: u32 = 10_000;
/// Windows after which nothing is left of a count.
const HISTORY_WINDOWS: usize = 19;
/// A shard counts up to four million operations of a key in a second, and twice that at rest.
const COUNT_BITS: u32 = 24;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
/// Numbers of windows come round after this many.
const WINDOWS: u32 = 1 << (32 - COUNT_BITS);
/// Entries brought up to date at the start of a window, whether they are met or not.
const SWEPT_PER_WINDOW: usize = ENTRIES / (WINDOWS as usize / 2);

/// One key: 16 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    token: u64,
    label: u32,
    /// Count above the window's start in the low bits, number of the window above them.
    packed: u32,
}

impl Entry {
    fn count(self) -> u32 {
        self.packed & COUNT_MAX
    }

    fn window(self) -> u32 {
        self.packed >> COUNT_BITS
    }

    fn set(&mut self, count: u32, window: u32) {
        self.packed = count.min(COUNT_MAX) | window << COUNT_BITS;
    }
}

/// How the table did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterStats {
    /// Keys that took a place.
    pub allocations: u64,
    /// Operations of keys that had one.
    pub lookups: u64,
    /// Operations that were not counted, because all places for their key were taken.
    pub not_counted: u64,
    pub probes: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Counters {
    entries: Vec<Entry>,
    salt: u64,
    /// Number of the window, below [`WINDOWS`].
    window: u32,
    /// Floor of the counts of this window.
    floor: u32,
    operations: u32,
    /// Floors at the ends of earlier windows, the latest first.
    floors: VecDeque<u32>,
    swept: usize,
    stats: CounterStats,
}

impl Counters {
    /// An empty table; `salt` keeps outsiders from choosing keys that meet in it.
    pub fn new(salt: u64) -> Self {
        Counters {
            entries: vec![Entry::default(); ENTRIES],
            salt,
            window: 0,
            floor: 0,
            operations: 0,
            floors: VecDeque::new(),
            swept: 0,
            stats: CounterStats::default(),
        }
    }

    pub fn stats(&self) -> CounterStats {
        self.stats
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.floors.capacity() * size_of::<u32>()
    }

    /// `seconds` passed.
    pub fn advance(&mut self, seconds: u64) {
        if seconds >= HISTORY_WINDOWS as u64 {
            // Nothing is left of anything.
            self.entries.fill(Entry::default());
            self.floors.clear();
            (self.window, self.floor, self.operations) = (0, 0, 0);
            return;
        }
        for _ in 0..seconds {
            self.floors.push_front(self.floor);
            self.floors.truncate(HISTORY_WINDOWS);
            self.window = (self.window + 1) % WINDOWS;
            (self.floor, self.operations) = (0, 0);
            for _ in 0..SWEPT_PER_WINDOW {
                self.refresh(self.swept);
                self.swept = (self.swept + 1) % ENTRIES;
            }
        }
    }

    /// Counts an operation; returns how many the key has of late, this one among them. `None` when
    /// there is no place for the key: it is not counted.
    pub fn account(&mut self, token: u64, label: u32) -> Option<u32> {
        self.operations += 1;
        if self.operations == OPERATIONS_PER_LOSS {
            self.operations = 0;
            self.floor = (self.floor + 1).min(COUNT_MAX);
        }
        let mut at = self.hash(token, label) as usize % ENTRIES;
        for step in 0..PROBES_MAX {
            at = (at + step) % ENTRIES;
            self.stats.probes += 1;
            self.refresh(at);
            let floor = self.floor;
            let entry = &mut self.entries[at];
            // An empty place stands for any key: the key may have one further on only if this was
            // taken then, and a second count that starts at one does no harm.
            if entry.count() <= floor {
                let window = entry.window();
                *entry = Entry { token, label, packed: 0 };
                entry.set(floor + 1, window);
                self.stats.allocations += 1;
                return Some(1);
            }
            if entry.token == token && entry.label == label {
                let (count, window) = (entry.count(), entry.window());
                entry.set(count + 1, window);
                self.stats.lookups += 1;
                return Some(entry.count() - floor);
            }
        }
        self.stats.not_counted += 1;
        None
    }

    /// Counts further operations of a key, without an answer.
    pub fn add(&mut self, token: u64, label: u32, times: u32) {
        let Some(rest) = times.checked_sub(1) else { return };
        self.account(token, label);
        let operations = self.operations.saturating_add(rest);
        let losses = operations / OPERATIONS_PER_LOSS;
        (self.operations, self.floor) =
            (operations % OPERATIONS_PER_LOSS, self.floor.saturating_add(losses).min(COUNT_MAX));
        let mut at = self.hash(token, label) as usize % ENTRIES;
        for step in 0..PROBES_MAX {
            at = (at + step) % ENTRIES;
            let entry = &mut self.entries[at];
            if entry.token == token && entry.label == label && entry.window() == self.window {
                let (count, window) = (entry.count().saturating_add(rest), entry.window());
                entry.set(count, window);
                return;
            }
        }
    }

    /// Brings an entry into this window.
    fn refresh(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        let missed = (self.window + WINDOWS - entry.window()) % WINDOWS;
        if missed == 0 {
            return;
        }
        let missed = missed as usize;
        let mut count = entry.count();
        if missed >= HISTORY_WINDOWS {
            count = 0;
        } else {
            // The oldest missed window first.
            for floor in self.floors.iter().take(missed).rev() {
                count = count.saturating_sub(*floor) >> 1;
            }
        }
        entry.set(count, self.window);
    }

    /// The key as policies see it.
    pub fn hash(&self, token: u64, label: u32) -> u64 {
        mix(mix(self.salt ^ token) ^ u64::from(label))
    }
}

/// A bijection that spreads every bit (the finaliser of SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
