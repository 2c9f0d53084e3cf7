//! Runs a policy natively on a recorded trace: a small cache of unit-size entries that talks to
//! the policy as the engine does, in batches and with victims asked for ahead.
//!
//! Not here: reading trace files, because a library for policies opens no file.

use std::collections::{HashMap, VecDeque};

use crate::{Driver, Event, EvictionPolicy, Op, Slot};

/// How the cache of a replay talks to its policy.
#[derive(Debug, Clone, Copy)]
pub struct Replay {
    /// Entries that the cache holds.
    pub entries: u32,
    /// Events that are collected before they are delivered.
    pub batch: usize,
    /// Victims that are asked for at once; the rest wait until they are needed.
    pub victims_ahead: u32,
}

/// What a replay gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub requests: u64,
    pub misses: u64,
    /// Times the policy had no victim and the cache took the lowest slot itself.
    pub shortfalls: u64,
    /// FNV-1a over the victims in order: equal for equal decisions.
    pub victims_hash: u64,
}

impl Outcome {
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests as f64
    }
}

/// Runs `trace`, one id a request, against a policy.
pub fn replay<P: EvictionPolicy>(
    driver: &mut Driver<P>,
    replay: Replay,
    trace: impl IntoIterator<Item = u32>,
) -> Outcome {
    let mut cache = Cache {
        driver,
        settings: replay,
        slots: HashMap::new(),
        ids: vec![None; replay.entries as usize],
        free: (0..replay.entries).rev().collect(),
        proposed: VecDeque::new(),
        events: Vec::new(),
        attributes: Vec::new(),
        outcome: Outcome { requests: 0, misses: 0, shortfalls: 0, victims_hash: FNV_BASIS },
    };
    for id in trace {
        cache.request(id);
    }
    cache.outcome
}

const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01B3;

struct Cache<'a, P> {
    driver: &'a mut Driver<P>,
    settings: Replay,
    slots: HashMap<u32, Slot>,
    ids: Vec<Option<u32>>,
    free: Vec<Slot>,
    /// Victims that were asked for ahead and not taken yet.
    proposed: VecDeque<Slot>,
    events: Vec<u64>,
    attributes: Vec<u64>,
    outcome: Outcome,
}

impl<P: EvictionPolicy> Cache<'_, P> {
    fn request(&mut self, id: u32) {
        self.outcome.requests += 1;
        if let Some(&slot) = self.slots.get(&id) {
            if let Some(at) = self.proposed.iter().position(|proposed| *proposed == slot) {
                self.proposed.remove(at);
                self.insert_event(slot, id);
            }
            self.push(Event::new(slot, Op::Access));
            return;
        }
        self.outcome.misses += 1;
        let slot = self.free.pop().unwrap_or_else(|| self.evict());
        self.ids[slot as usize] = Some(id);
        self.slots.insert(id, slot);
        self.insert_event(slot, id);
    }

    fn insert_event(&mut self, slot: Slot, id: u32) {
        self.attributes.extend([u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15), 1, 0]);
        self.push(Event::new(slot, Op::Insert));
    }

    fn push(&mut self, event: Event) {
        self.events.push(event.0);
        if self.events.len() >= self.settings.batch {
            self.deliver(0);
        }
    }

    fn deliver(&mut self, want: u32) -> Vec<Slot> {
        let mut victims = Vec::new();
        self.driver.apply(&self.events, &self.attributes, want, u64::from(want), &mut victims);
        self.events.clear();
        self.attributes.clear();
        assert!(victims.len() <= want as usize, "at most as many victims as were asked for");
        victims
    }

    fn evict(&mut self) -> Slot {
        if self.proposed.is_empty() {
            let victims = self.deliver(self.settings.victims_ahead);
            self.proposed.extend(victims);
        }
        let slot = self.proposed.pop_front().unwrap_or_else(|| {
            self.outcome.shortfalls += 1;
            let lowest = self.ids.iter().position(Option::is_some).expect("the cache is full");
            self.push(Event::new(lowest as Slot, Op::Remove));
            lowest as Slot
        });
        let id = self.ids[slot as usize].take().expect("a victim is resident");
        self.slots.remove(&id);
        self.outcome.victims_hash =
            (self.outcome.victims_hash ^ u64::from(slot)).wrapping_mul(FNV_PRIME);
        slot
    }
}
