//! From batches of words to calls of a policy: the same code in the guest and in native runs.
//!
//! Invariant: what a policy sees depends on the words alone, so a native run and a Wasm run of one
//! event log give the same victims.

use crate::{Attributes, Event, EvictionPolicy, Setup, Slot};

/// A policy behind the words of the contract.
#[derive(Debug)]
pub struct Driver<P> {
    policy: P,
    /// The order that `drain_order` pages through, fixed at cursor 0.
    drained: Vec<Slot>,
}

impl<P: EvictionPolicy> Driver<P> {
    /// Makes the policy.
    ///
    /// Errors: the policy refused its parameters.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        Ok(Driver { policy: P::new(setup)?, drained: Vec::new() })
    }

    pub fn policy(&self) -> &P {
        &self.policy
    }

    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// Digests `events`, then appends up to `want_entries` victims.
    ///
    /// Panics when `attributes` does not hold three words for each event that has some: then the
    /// caller broke the contract and nothing that follows would be right.
    pub fn apply(
        &mut self,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) {
        let mut rest = attributes.as_chunks::<3>().0.iter();
        for &word in events {
            let event = Event(word);
            // In one place, so that it becomes part of the loop: a call costs more than most events.
            let attributes = event.op().has_attributes().then(|| {
                let words = rest.next().expect("three attribute words for each insert");
                Attributes(*words)
            });
            self.policy.on_event(event, attributes.as_ref());
        }
        assert!(rest.next().is_none(), "attribute words without an event");
        if want_entries == 0 {
            return;
        }
        self.policy.before_victims(want_entries, want_bytes);
        for _ in 0..want_entries {
            match self.policy.next_victim() {
                Some(slot) => victims.push(slot),
                None => break,
            }
        }
    }

    /// One page of the resident slots from coldest to hottest; cursor 0 fixes the order.
    pub fn drain_order(&mut self, cursor: u32, max: u32) -> &[Slot] {
        if cursor == 0 {
            self.drained.clear();
            self.policy.order(&mut self.drained);
        }
        let start = self.drained.len().min(cursor as usize);
        let end = self.drained.len().min(start.saturating_add(max as usize));
        if start == end {
            self.drained = Vec::new();
            return &[];
        }
        &self.drained[start..end]
    }
}
