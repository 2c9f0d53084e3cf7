//! What one call into a policy may use.
//!
//! Fuel, one unit an executed instruction, is the budget: it is exact, so a run can be replayed.
//! The epoch, one tick a millisecond of wall clock, is the backstop for what fuel does not count,
//! such as memory that the kernel has to find. Where a shard waits for the call the backstop is
//! near; where none does, the load of a machine must not reach it, and fuel alone decides.

/// Milliseconds of a call of a replay or a trial: no end, for their outcome is the policy's alone.
const OFFLINE_TICKS: u64 = u64::MAX >> 1;
/// Milliseconds of each call that makes an instance: on a thread of its own, so no shard waits.
pub(super) const START_TICKS: u64 = 60_000;

/// Limits of the calls of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Fuel of any call.
    pub call_fuel: u64,
    /// Fuel for each event delivered.
    pub event_fuel: u64,
    /// Fuel for each victim wanted.
    pub victim_fuel: u64,
    /// Fuel for each slot in calls that walk all of them: init, resize, drain, snapshot, restore.
    pub slot_fuel: u64,
    /// Most unused fuel that is kept for later calls. A hit is paid when it is delivered and may
    /// cost its work when a victim is searched, as in SIEVE.
    pub fuel_kept_max: u64,
    /// Milliseconds after which a call is stopped. Well above the time that all the fuel takes
    /// (a few ms), because a thread that had to wait for its core is no fault of the policy.
    pub epoch_ticks: u64,
    /// Most bytes a call may hand to the host: victims, snapshots, metrics, one log line.
    pub result_bytes_max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            call_fuel: 20_000,
            event_fuel: 300,
            victim_fuel: 3_000,
            slot_fuel: 300,
            fuel_kept_max: 4_000_000,
            epoch_ticks: 100,
            result_bytes_max: 1 << 20,
        }
    }
}

impl Budget {
    /// That of replays and trials: the fuel is the engine's, so a policy that runs out of it there
    /// does so here; the clock decides nothing.
    pub fn offline() -> Self {
        Budget { epoch_ticks: OFFLINE_TICKS, ..Budget::default() }
    }

    /// Fuel of `apply`.
    pub fn apply_fuel(&self, events: usize, want_entries: u32) -> u64 {
        let events = (events as u64).saturating_mul(self.event_fuel);
        let victims = u64::from(want_entries).saturating_mul(self.victim_fuel);
        self.call_fuel.saturating_add(events).saturating_add(victims)
    }

    /// Fuel of a call that walks `slots` slots. Such calls are rare, so they get a hundred times
    /// the fuel of an ordinary call on top.
    pub fn walk_fuel(&self, slots: u32) -> u64 {
        let slots = u64::from(slots).saturating_mul(self.slot_fuel);
        self.call_fuel.saturating_mul(100).saturating_add(slots)
    }

    /// Ticks of a call that walks `slots` slots: one more for each 10,000.
    pub fn walk_ticks(&self, slots: u32) -> u64 {
        self.epoch_ticks.saturating_add(u64::from(slots) / 10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract tells authors these numbers.
    #[test]
    fn a_call_has_what_the_contract_says_and_a_walk_more_for_each_slot() {
        let budget = Budget::default();
        for (events, victims, fuel) in
            [(0, 0, 20_000), (1, 0, 20_300), (0, 1, 23_000), (256, 32, 192_800)]
        {
            assert_eq!(budget.apply_fuel(events, victims), fuel, "{events} and {victims}");
        }
        for (slots, fuel, ticks) in [
            (0, 2_000_000, 100),
            (1, 2_000_300, 100),
            (9_999, 4_999_700, 100),
            (10_000, 5_000_000, 101),
            (1 << 20, 316_572_800, 204),
        ] {
            assert_eq!(budget.walk_fuel(slots), fuel, "{slots} slots");
            assert_eq!(budget.walk_ticks(slots), ticks, "{slots} slots");
        }
        // The fuel of replays is the engine's, and their time has no end.
        let offline = Budget::offline();
        assert_eq!(Budget { epoch_ticks: budget.epoch_ticks, ..offline }, budget);
        assert!(offline.walk_ticks(u32::MAX) > 1_u64 << 60);
        let most = Budget { call_fuel: u64::MAX, event_fuel: u64::MAX, ..budget };
        assert_eq!((most.apply_fuel(9, 9), most.walk_fuel(9)), (u64::MAX, u64::MAX));
    }
}
