//! Policies that return plans: read admission, load shedding and I/O priority; and compaction.
//!
//! Called some times a second at most, never for a request. Invariant: what a plan leaves out stays
//! as it was; after a failure the guest is never entered again.

use super::bindings::v0_1::{
    CompactionGuest, IoPriorityGuest, LoadSheddingGuest, ReadAdmissionGuest,
};
use super::scalar::{WasmDecision, stated};
use crate::policy::PolicyFailure;
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadClass, ReadLimits, ReadLoad,
    ReadPlan, Shedding, SheddingPlan,
};
use crate::policy::compaction::{CompactionPolicy, Pick, SstableFacts, TableFacts};
use crate::policy::io_priority::{ClassLoad, DiskLoad, IoPriorityPolicy};

/// Words that a table and each SSTable count as when a compaction policy is asked.
const SSTABLE_WORDS: usize = 12;

/// A read-admission policy that runs as a Wasm component.
pub type WasmReadAdmissionPolicy = WasmDecision<ReadAdmissionGuest>;

impl ReadAdmissionPolicy for WasmReadAdmissionPolicy {
    stated!();

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
    stated!();

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

/// An I/O-priority policy that runs as a Wasm component.
pub type WasmIoPriorityPolicy = WasmDecision<IoPriorityGuest>;

impl IoPriorityPolicy for WasmIoPriorityPolicy {
    stated!();

    fn plan(
        &mut self,
        now_us: u64,
        disk: &DiskLoad,
        classes: &[ClassLoad],
        shares: &mut [u32],
    ) -> Result<(), PolicyFailure> {
        let disk = [
            disk.elapsed_us,
            disk.read_iops,
            disk.write_iops,
            disk.read_bandwidth,
            disk.write_bandwidth,
            disk.in_disk,
            disk.p50_us,
            disk.p99_us,
        ];
        let of_class = |load: &ClassLoad| {
            [
                load.arrived,
                load.started,
                load.bytes,
                load.queued,
                load.queued_bytes,
                load.p50_us,
                load.p99_us,
                u64::from(load.shares),
            ]
        };
        let words: Vec<u64> = classes.iter().flat_map(of_class).collect();
        let answer = self.enter("plan", disk.len() + words.len(), |guest, store| {
            guest.plan(store, now_us, &disk, &words)
        })?;
        shares.iter_mut().zip(answer).for_each(|(shares, planned)| *shares = planned);
        Ok(())
    }
}

/// A compaction policy that runs as a Wasm component.
pub type WasmCompactionPolicy = WasmDecision<CompactionGuest>;

impl CompactionPolicy for WasmCompactionPolicy {
    stated!();

    fn pick(
        &mut self,
        table: &TableFacts,
        sstables: &[SstableFacts],
    ) -> Result<Pick, PolicyFailure> {
        let words = SSTABLE_WORDS * (1 + sstables.len());
        self.enter("pick", words, |guest, store| guest.pick(store, table, sstables))
    }
}
