//! A policy of `plugins/` run natively, as the cache sees any policy: what its component is
//! measured against.

use tidegate_engine::policy::{EvictionPolicy, PolicyFailure, Slot};
use tidegate_plugin::{Driver, Setup};

/// See the head of this file.
pub struct Native<P>(Driver<P>);

impl<P: tidegate_plugin::EvictionPolicy> Native<P> {
    pub fn new(max_slots: u32) -> Self {
        let setup = Setup { params: Vec::new(), max_slots, shard: 0, seed: 0 };
        Native(Driver::new(&setup).unwrap())
    }
}

impl<P: tidegate_plugin::EvictionPolicy> EvictionPolicy for Native<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn version(&self) -> &str {
        P::VERSION
    }

    fn apply(
        &mut self,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        self.0.apply(events, attributes, want_entries, want_bytes, victims);
        Ok(())
    }

    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        slots.extend_from_slice(self.0.drain_order(cursor, max));
        Ok(())
    }

    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        self.0.policy_mut().resize(capacity_bytes, max_slots);
        Ok(())
    }
}
