//! Replacing the policy while serving: replay, switch, rollback.
//!
//! Invariant: the active policy changes only at a batch boundary, when its ring is delivered and it
//! offers no victim. So the outgoing policy knows every resident and may return at any time.
//!
//! Limit: a use during a replay reaches the candidate between two slices, so that entry ranks below
//! residents shown later. A swap at rest keeps the order exactly, a swap under load nearly.

use super::policy_slot::{PolicyIdentity, PolicyRole, PolicySlot, failure};
use super::replay::{Replay, SwapStep};
use super::slot_set::SlotSet;
use super::{Governor, Owner, Second, attributes_of};
use crate::policy::event::{Op, attributes as attribute_words, event};
use crate::policy::{EvictionPolicy, FailureKind, PolicyFailure, Slot};

/// Slots that one step shows to the candidate.
const REPLAY_SLOTS_MAX: u32 = 256;

/// Slots of a cache whose policy is asked to fix its order in one call: some 0.2 ms of work.
const DRAIN_SLOTS_MAX: u32 = 16 << 10;

impl Governor {
    /// Starts to replace the active policy; [`step_replace`](Self::step_replace) goes on with it.
    /// A candidate under way gives way, and the standby of an earlier swap is dropped.
    ///
    /// Errors: the candidate failed at once. It left its record, and nothing changed.
    pub fn begin_replace(
        &mut self,
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
        owner: &dyn Owner,
    ) -> Result<(), PolicyFailure> {
        if matches!(self.second, Second::Candidate { .. }) {
            self.drop_second(failure(FailureKind::Operator, "another policy took its place"));
        }
        let mut policy_slot = PolicySlot::new(policy, identity);
        if let Err(failure) = policy_slot.resize(self.capacity_bytes, self.table.slots_max()) {
            self.leave(policy_slot, failure.clone(), PolicyRole::Candidate);
            return Err(failure);
        }
        let replay = match &self.active {
            Some(policy_slot)
                if policy_slot.drains_in_pages() || self.table.len() <= DRAIN_SLOTS_MAX =>
            {
                Replay::Drain { cursor: 0 }
            }
            _ => Replay::by_last_touch(),
        };
        self.second = Second::Candidate { policy_slot, replay, known: SlotSet::default() };
        debug_assert!(self.second.policy_slot().is_some(), "a candidate listens");
        self.listening = true;
        // The active policy counts these as gone, so its order lacks them. They are the coldest.
        for slot in self.proposals.clone() {
            self.restore(slot, owner);
        }
        Ok(())
    }

    /// Shows the candidate up to `max` (at most 256) residents more, and switches to it after the
    /// last. Live events reach it meanwhile.
    pub fn step_replace(&mut self, max: u32, owner: &dyn Owner) -> SwapStep {
        let Second::Candidate { replay, known, .. } = &mut self.second else {
            return SwapStep::Idle;
        };
        let max = max.clamp(1, REPLAY_SLOTS_MAX);
        let mut slots = Vec::new();
        let mut more = true;
        match (replay, &mut self.active) {
            (Replay::Drain { cursor }, Some(active)) => {
                match active.drain_order(*cursor, max, &mut slots) {
                    // Entries may show up twice as they move, but an order without end is cut.
                    Ok(()) if slots.is_empty() || *cursor / 2 > self.table.len() => {
                        self.go_on_by_last_touch();
                    }
                    Ok(()) => *cursor += slots.len() as u32,
                    Err(failure) => {
                        slots.clear();
                        self.detach(failure);
                        self.go_on_by_last_touch();
                    }
                }
            }
            (replay, _) => {
                let is_new = |slot| !known.contains(slot);
                more = replay.advance(&self.table, is_new, max, &mut slots);
            }
        }
        for slot in slots {
            self.restore(slot, owner);
        }
        match self.second {
            Second::Candidate { .. } if more => SwapStep::Working,
            Second::Candidate { .. } => self.switch(),
            _ => SwapStep::Failed,
        }
    }

    fn go_on_by_last_touch(&mut self) {
        if let Second::Candidate { replay, .. } = &mut self.second {
            *replay = Replay::by_last_touch();
        }
    }

    /// Shows the candidate a resident that it does not know yet.
    fn restore(&mut self, slot: Slot, owner: &dyn Owner) {
        let Second::Candidate { policy_slot, known, .. } = &mut self.second else { return };
        let Some(entry) = self.table.lookup(slot) else { return };
        if !known.insert(slot) {
            return;
        }
        let attributes = attributes_of(owner.id(slot), self.table.size_of(slot, entry));
        let word = event(slot, Op::Restore, entry.kind(), 0, 0);
        if let Err(failure) = policy_slot.push_with(word, attribute_words(&attributes)) {
            self.drop_second(failure);
        }
    }

    fn switch(&mut self) -> SwapStep {
        let second = std::mem::replace(&mut self.second, Second::Nothing);
        let Second::Candidate { mut policy_slot, .. } = second else {
            panic!("a switch needs a candidate");
        };
        if let Err(failure) = policy_slot.deliver() {
            self.leave(policy_slot, failure, PolicyRole::Candidate);
            self.changed_listeners();
            return SwapStep::Failed;
        }
        self.settle();
        debug_assert!(self.proposals.is_empty(), "who steps back knows every resident");
        policy_slot.reset_counters();
        self.second = Second::Standby(self.active.replace(policy_slot));
        self.changed_policy(None);
        SwapStep::Switched
    }

    /// Brings the policy before the last switch back, at once; the present one becomes the standby.
    /// False when nothing stands by.
    pub fn rollback(&mut self) -> bool {
        if !matches!(self.second, Second::Standby(_)) {
            return false;
        }
        let Second::Standby(previous) = std::mem::replace(&mut self.second, Second::Nothing) else {
            return false;
        };
        self.settle();
        debug_assert!(self.proposals.is_empty(), "who steps back knows every resident");
        let present = std::mem::replace(&mut self.active, previous);
        if let Some(policy_slot) = &mut self.active {
            policy_slot.reset_counters();
        }
        self.second = Second::Standby(present);
        self.changed_policy(None);
        true
    }

    /// Drops the policy that stands by for a rollback.
    pub fn drop_standby(&mut self) {
        if matches!(self.second, Second::Standby(_)) {
            self.second = Second::Nothing;
            self.changed_listeners();
        }
    }
}
