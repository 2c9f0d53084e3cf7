//! The host against good and hostile components.

mod dist;
pub(crate) mod guest;
mod hostile;
mod plans;
mod refused;
mod scalar;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Budget, CompiledPolicy, HostOptions, InstanceOptions, PolicyHost, WasmEvictionPolicy};
use crate::policy::event::{Op, event};
use crate::policy::{EvictionPolicy, PolicyFailure, Slot};

fn host() -> PolicyHost {
    PolicyHost::new(HostOptions { instances_max: 8, ..HostOptions::default() }).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// A committed component.
fn dist(file: &str) -> Vec<u8> {
    std::fs::read(repository().join("plugins/dist").join(file)).unwrap()
}

fn options(max_slots: u32) -> InstanceOptions {
    // Fuel decides: how busy this machine is must not.
    let budget = Budget::offline();
    InstanceOptions { max_slots, capacity_bytes: 1 << 20, budget, ..InstanceOptions::default() }
}

fn load(host: &PolicyHost, bytes: &[u8]) -> Arc<CompiledPolicy> {
    host.compile("p", bytes).unwrap()
}

fn instance(host: &PolicyHost, bytes: &[u8], max_slots: u32) -> WasmEvictionPolicy {
    WasmEvictionPolicy::new(load(host, bytes), options(max_slots)).unwrap()
}

fn word(op: Op, slot: Slot) -> u64 {
    event(slot, op, crate::policy::event::EntryKind::Row, 0, 0)
}

/// Delivers inserts and accesses, then asks for victims.
fn victims(
    policy: &mut dyn EvictionPolicy,
    events: &[(Op, Slot)],
    want: u32,
) -> Result<Vec<Slot>, PolicyFailure> {
    let with_attributes = |op: &Op| matches!(op, Op::Insert | Op::Miss | Op::Restore);
    let inserts = events.iter().filter(|(op, _)| with_attributes(op)).count();
    let words: Vec<u64> = events.iter().map(|(op, slot)| word(*op, *slot)).collect();
    let mut victims = Vec::new();
    policy.apply(&words, &vec![0; 3 * inserts], want, 0, &mut victims)?;
    Ok(victims)
}

/// The host goes on: a good policy still loads and decides.
fn assert_serves(host: &PolicyHost) {
    let mut lru = instance(host, &dist("lru.wasm"), 8);
    let events = [(Op::Insert, 0), (Op::Insert, 1), (Op::Insert, 2), (Op::Access, 0)];
    assert_eq!(victims(&mut lru, &events, 2).unwrap(), [1, 2]);
}
