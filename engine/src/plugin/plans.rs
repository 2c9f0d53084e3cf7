//! Policies that return plans: read admission and load shedding.
//!
//! Called some times a second, never for a request. Invariant: what a plan leaves out stays as it
//! was; after a failure the guest is never entered again.

use super::bindings::v0_1::{LoadSheddingGuest, ReadAdmissionGuest};
use super::scalar::WasmDecision;
use crate::policy::PolicyFailure;
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadClass, ReadLimits, ReadLoad,
    ReadPlan, Shedding, SheddingPlan,
};

/// A read-admission policy that runs as a Wasm component.
pub type WasmReadAdmissionPolicy = WasmDecision<ReadAdmissionGuest>;

impl ReadAdmissionPolicy for WasmReadAdmissionPolicy {
    fn name(&self) -> &str {
        &self.capabilities.name
    }

    fn version(&self) -> &str {
        &self.capabilities.version
    }

    fn plan(
        &mut self,
        now_us: u64,
        memory_free_bytes: u64,
        loads: &[ReadLoad; ReadClass::COUNT],
        plan: &mut ReadPlan,
    ) -> Result<(), PolicyFailure> {
        let words: Vec<u64> = loads
            .iter()
            .flat_map(|load| {
                [
                    load.arrived,
                    load.admitted,
                    u64::from(load.queued) | u64::from(load.running_most) << 32,
                    load.refused,
                    load.memory_bytes,
                    load.p50_us,
                    load.p99_us,
                    load.busy_us,
                ]
            })
            .collect();
        let answer = self.enter("plan", words.len(), |guest, store| {
            guest.plan(store, now_us, memory_free_bytes, &words)
        })?;
        for (limits, words) in plan.iter_mut().zip(answer.as_chunks::<4>().0) {
            let [running, memory_bytes_max, queued, wait_us_max] = *words;
            let narrow = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
            *limits = ReadLimits {
                running_max: narrow(running),
                memory_bytes_max,
                queued_max: narrow(queued),
                wait_us_max,
            };
        }
        Ok(())
    }
}

/// A load-shedding policy that runs as a Wasm component.
pub type WasmLoadSheddingPolicy = WasmDecision<LoadSheddingGuest>;

impl LoadSheddingPolicy for WasmLoadSheddingPolicy {
    fn name(&self) -> &str {
        &self.capabilities.name
    }

    fn version(&self) -> &str {
        &self.capabilities.version
    }

    fn plan(
        &mut self,
        now_us: u64,
        signals: &LoadSignals,
        plan: &mut SheddingPlan,
    ) -> Result<(), PolicyFailure> {
        let LoadSignals { elapsed_us, busy_us, memtable_bytes, memtable_bytes_max, classes } =
            signals;
        let mut words = vec![*elapsed_us, *busy_us, *memtable_bytes, *memtable_bytes_max];
        words.extend(
            classes.iter().flat_map(|load| {
                [load.arrived, u64::from(load.waiting), load.waited_us, load.shed]
            }),
        );
        let answer =
            self.enter("plan", words.len(), |guest, store| guest.plan(store, now_us, &words))?;
        for (shedding, [per_mille, wait_ms_max]) in plan.iter_mut().zip(answer.as_chunks::<2>().0) {
            *shedding = Shedding { per_mille: (*per_mille).min(1000), wait_ms_max: *wait_ms_max };
        }
        Ok(())
    }
}
