//! Replays against sums done by hand, and components against the same code run natively.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_plugin::{Driver, Setup};

use super::candidate::run_policy;
use super::*;
use crate::clock::{SimulatedClock, SystemClock};
use crate::plugin::tests::guest::{
    EMPTY_LIST, FIFO, FIFO_APPLY, FOREVER, Guest, case_of, compaction, io_priority, list_of,
    load_shedding, merge_of, plan_of, read_admission, saboteur,
};
use crate::plugin::{CompiledPolicy, HostOptions, InstanceOptions, PolicyHost, WasmEvictionPolicy};
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy, Fate};
use crate::policy::{EvictionPolicy, FailureKind, Lru, PolicyFailure, Slot};
use crate::skip::skip;
use crate::trace::{Request, Synthetic, Trace, TraceBuilder, TraceFormat, read_trace};

fn trace(ids: &[(u64, u32)]) -> Trace {
    let text: String = ids.iter().map(|(id, size)| format!("{id},{size}\n")).collect();
    read_trace(Path::new("t"), text.as_bytes(), Some(TraceFormat::Text)).unwrap()
}

fn made(recipe: &str) -> Trace {
    Synthetic::parse(recipe).unwrap().expect("a recipe").make()
}

fn run(candidate: &Candidate, trace: &Trace, capacity: Capacity) -> Outcome {
    let clock = SimulatedClock::new(0);
    let settings = Settings::new(capacity);
    candidate.run(trace, &settings, &*clock, &AtomicBool::new(false)).unwrap().unwrap()
}

fn dist(file: &str) -> Vec<u8> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist");
    std::fs::read(dist.join(file)).unwrap()
}

fn compiled(file: &str) -> Arc<CompiledPolicy> {
    loaded(&dist(file))
}

fn loaded(component: &[u8]) -> Arc<CompiledPolicy> {
    let host = PolicyHost::new(HostOptions { instances_max: 2, ..HostOptions::default() }).unwrap();
    host.compile("p", component).unwrap()
}

#[test]
fn hits_and_bytes_are_those_done_by_hand() {
    let reads = trace(&[(1, 10), (2, 30), (1, 10), (3, 20), (2, 30), (1, 10)]);
    let lru = run(&Candidate::LRU, &reads, Capacity::Entries(2));
    // 1 2 | 1 hits | 3 puts 2 out | 2 puts 1 out | 1 puts 3 out
    assert_eq!((lru.requests, lru.hits, lru.evictions), (6, 1, 3));
    assert_eq!((lru.request_bytes, lru.hit_bytes), (110, 10));
    let optimal = run(&Candidate::Optimal, &reads, Capacity::Entries(2));
    // 3 puts 1 out, whose next use is later than that of 2.
    assert_eq!((optimal.hits, optimal.evictions), (2, 2));

    let bytes = run(&Candidate::LRU, &reads, Capacity::Bytes(60));
    assert_eq!((bytes.hits, bytes.evictions), (3, 0), "all three fit into 60 bytes");
    let bytes = run(&Candidate::LRU, &reads, Capacity::Bytes(45));
    // 3 needs 20 and puts 2 out; 2 needs 30 and puts 1 out, then 3; 1 fits beside 2.
    assert_eq!((bytes.hits, bytes.evictions), (1, 3));
    let tiny = run(&Candidate::LRU, &reads, Capacity::Bytes(15));
    assert_eq!((tiny.hits, tiny.evictions), (2, 0), "what is larger than the cache passes by");
    let grown = trace(&[(1, 10), (2, 10), (1, 25), (2, 10)]);
    let bytes = run(&Candidate::LRU, &grown, Capacity::Bytes(30));
    assert_eq!((bytes.hits, bytes.evictions), (1, 2), "an entry that grew puts another out");
}

#[test]
fn an_entry_as_large_as_the_cache_is_taken_in_and_a_larger_one_is_not() {
    let reads = trace(&[(1, 10), (1, 10), (2, 10), (2, 10), (1, 10)]);
    for (capacity, hits, evictions) in [
        // 1 | 1 hits | 2 puts 1 out | 2 hits | 1 puts 2 out
        (Capacity::Entries(1), 2, 2),
        (Capacity::Bytes(10), 2, 2),
        (Capacity::Bytes(9), 0, 0),
    ] {
        let lru = run(&Candidate::LRU, &reads, capacity);
        assert_eq!((lru.hits, lru.evictions), (hits, evictions), "{capacity:?}");
    }
}

#[test]
fn an_entry_that_outgrows_the_cache_is_a_hit_and_leaves_it() {
    let clock = SimulatedClock::new(0);
    for ahead in [1, 4] {
        // 1 2 | 1 hits, and puts 2 out, then itself | 2 | 1 passes by | 2 hits
        let reads = trace(&[(1, 10), (2, 10), (1, 50), (2, 10), (1, 50), (2, 10)]);
        let settings = Settings { ahead, ..Settings::new(Capacity::Bytes(30)) };
        let outcome = Candidate::LRU.run(&reads, &settings, &*clock, &AtomicBool::new(false));
        let lru = outcome.unwrap().unwrap();
        assert_eq!((lru.hits, lru.hit_bytes, lru.evictions), (2, 60, 2), "{ahead} ahead");
        assert_eq!((lru.invalid_victims, lru.shortfalls), (0, 0), "{ahead} ahead");
    }
}

/// Names these slots, whatever there is.
struct Stubborn(Vec<Slot>);

impl EvictionPolicy for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn apply(
        &mut self,
        _: &[u64],
        _: &[u64],
        want_entries: u32,
        _: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        if want_entries > 0 {
            victims.extend_from_slice(&self.0);
        }
        Ok(())
    }

    fn drain_order(&mut self, _: u32, _: u32, _: &mut Vec<Slot>) -> Result<(), PolicyFailure> {
        Ok(())
    }

    fn resize(&mut self, _: u64, _: u32) -> Result<(), PolicyFailure> {
        Ok(())
    }
}

#[test]
fn where_a_policy_names_nobody_that_is_there_slot_after_slot_leaves_and_it_is_counted() {
    let reads = trace(&[1, 2, 3, 4, 2, 5, 6, 5].map(|id| (id, 1)));
    let clock = SimulatedClock::new(0);
    let settings = Settings { ahead: 4, ..Settings::new(Capacity::Entries(3)) };
    // 1, 2 and 3 fill slots 0 to 2; from then on whoever is missed wants room.
    for (named, invalid_victims, shortfalls, hits) in [
        // 1, 2, 3 leave, the 2 after it was read again.
        (vec![], 0, 3, 2),
        (vec![7, Slot::MAX], 6, 3, 2),
        // One slot serves all: 5 puts 4 out, 6 puts 5 out, 5 puts 6 out.
        (vec![0], 0, 0, 1),
        (vec![0, 0, 9], 8, 0, 1),
        (vec![1], 0, 0, 0),
        // 3 leaves for 5, which was to leave after 4 when it is read again, and stays.
        (vec![0, 2], 0, 0, 2),
    ] {
        let told = format!("{named:?}");
        let mut policy = Stubborn(named);
        let outcome = run_policy(&mut policy, &reads, &settings, &*clock).unwrap();
        let found = (outcome.invalid_victims, outcome.shortfalls, outcome.hits);
        assert_eq!(found, (invalid_victims, shortfalls, hits), "{told}");
        let misses = outcome.requests - outcome.hits;
        assert_eq!(outcome.evictions, misses - 3, "{told}");
    }
}

#[test]
fn a_native_policy_is_found_by_its_name_and_the_optimum_is_none_of_bytes() {
    for name in Candidate::native_names() {
        assert_eq!(Candidate::native(name).unwrap().name(), name);
    }
    for name in ["", "LRU", "lru ", "lru2", "sieve"] {
        assert!(Candidate::native(name).is_none(), "{name}");
    }
    let (reads, clock) = (trace(&[(1, 10), (2, 10)]), SimulatedClock::new(0));
    let run = |capacity| {
        let settings = Settings::new(capacity);
        Candidate::Optimal.run(&reads, &settings, &*clock, &AtomicBool::new(false))
    };
    let told = run(Capacity::Bytes(20)).unwrap_err().to_string();
    assert!(told.contains("known for entries only"), "{told}");
    assert_eq!(run(Capacity::Percent(100.0)).unwrap().unwrap().requests, 2);
    assert!(run(Capacity::Entries(0)).is_err());
}

#[test]
fn a_component_is_told_how_large_the_cache_is() {
    // Five entries, of 10 to 50 bytes.
    let reads = trace(&[(1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (1, 10)]);
    let clock = SimulatedClock::new(0);
    for (capacity, bytes, slots) in [
        (Capacity::Entries(2), 2, 2),
        (Capacity::Percent(60.0), 3, 3),
        // As many as the smallest would fill it, at most all that there are, at least one.
        (Capacity::Bytes(39), 39, 3),
        (Capacity::Bytes(1000), 1000, 5),
        (Capacity::Bytes(9), 9, 1),
    ] {
        let resize = format!(
            "(if (i64.ne (local.get 0) (i64.const {bytes})) (then unreachable))
             (if (i32.ne (local.get 1) (i32.const {slots})) (then unreachable))"
        );
        let compiled = loaded(&Guest { resize, ..Guest::default() }.component());
        let candidate = Candidate::Component { compiled, params: Vec::new() };
        let settings = Settings::new(capacity);
        let ended = candidate.run(&reads, &settings, &*clock, &AtomicBool::new(false));
        let outcome = ended.unwrap().unwrap();
        assert_eq!((outcome.requests, outcome.invalid_victims), (6, 0), "{capacity}");
    }
}

#[test]
fn capacities_are_read_and_resolved() {
    let reads = made("loop:ids=2000,requests=4000");
    for (text, wanted) in [
        ("100", Capacity::Entries(100)),
        ("64 MiB", Capacity::Bytes(64 << 20)),
        ("10%", Capacity::Entries(200)),
        ("0.01 %", Capacity::Entries(1)),
    ] {
        let capacity: Capacity = text.parse().unwrap();
        assert_eq!(capacity.resolve(&reads).unwrap(), wanted, "{text}");
    }
    for text in ["", "x", "-1", "0%", "101%", "5 apples"] {
        assert!(text.parse::<Capacity>().is_err(), "{text}");
    }
    assert!(Capacity::Entries(0).resolve(&reads).is_err());
    assert!(Capacity::Entries(u32::MAX).resolve(&reads).is_err());
    assert_eq!(Capacity::curve(&reads)[0], Capacity::Entries(2));
}

#[test]
fn no_policy_beats_the_optimum() {
    let reads = made("scan:ids=1000,requests=30000,every=3000,length=600,seed=2");
    let sieve = Candidate::Component { compiled: compiled("sieve.wasm"), params: Vec::new() };
    for entries in [10, 100, 500] {
        let capacity = Capacity::Entries(entries);
        let best = run(&Candidate::Optimal, &reads, capacity).hits;
        let (lru, sieve) = (run(&Candidate::LRU, &reads, capacity), run(&sieve, &reads, capacity));
        assert!(lru.hits < best && sieve.hits < best, "{entries}: {lru:?} {sieve:?} {best}");
        assert_eq!((sieve.invalid_victims, sieve.shortfalls), (0, 0));
        assert!(sieve.fuel.is_some_and(|fuel| fuel > sieve.events), "{sieve:?}");
    }
    assert_eq!(run(&Candidate::LRU, &reads, Capacity::Entries(16)).fuel, None);
}

#[test]
fn admission_keeps_a_scan_from_the_cache() {
    let reads = made("scan:ids=400,requests=40000,skew=0.8,every=2000,length=1500,seed=4");
    let capacity = Capacity::Entries(300);
    let without = run(&Candidate::LRU, &reads, capacity);
    let filter = |file: &str| Candidate::Component { compiled: compiled(file), params: Vec::new() };
    let always = run(&filter("always.wasm"), &reads, capacity);
    assert_eq!((always.hits, always.victims_hash), (without.hits, without.victims_hash));
    for file in ["second_touch.wasm", "doorkeeper.wasm", "scan_guard.wasm"] {
        let with = run(&filter(file), &reads, capacity);
        assert!(with.refused > 10_000 && with.hits > without.hits, "{file}: {with:?} {without:?}");
        assert!(with.fuel.is_some_and(|fuel| fuel > 0));
    }
}

/// Refuses the fourth candidate, and notes what it is told; a fate is of the candidate with this
/// number.
#[derive(Default)]
struct Told {
    candidates: Vec<u64>,
    notes: Vec<String>,
}

impl AdmissionPolicy for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn wants_feedback(&self) -> bool {
        true
    }

    fn admit(&mut self, candidate: &AdmissionCandidate) -> Result<bool, PolicyFailure> {
        let AdmissionCandidate { has_room, run, size_bytes, .. } = candidate;
        self.notes.push(format!("asked: {size_bytes} bytes, room {has_room}, run {run}"));
        self.candidates.push(candidate.fingerprint);
        Ok(self.candidates.len() != 4)
    }

    fn feedback(&mut self, words: &[u64]) -> Result<(), PolicyFailure> {
        for [fingerprint, what] in words.as_chunks::<2>().0 {
            let number = self.candidates.iter().position(|known| known == fingerprint).unwrap();
            let fate = if what & 0xF == Fate::Evicted as u64 { "evicted" } else { "read" };
            self.notes.push(format!("{number} was {fate}"));
        }
        Ok(())
    }
}

#[test]
fn an_admission_policy_is_told_what_the_engine_tells() {
    let reads = trace(&[5, 6, 7, 6, 9, 8, 5].map(|id| (id, 10)));
    let (mut told, clock) = (Told::default(), SimulatedClock::new(0));
    let settings = Settings::new(Capacity::Bytes(30));
    let never = AtomicBool::new(false);
    let ended = super::driver::run(
        &mut Lru::default(),
        Some(&mut told),
        &reads,
        &settings,
        &*clock,
        &never,
    );
    let outcome = ended.unwrap();
    let wanted = [
        "asked: 10 bytes, room true, run 0",
        "asked: 10 bytes, room true, run 1",
        // It fills the cache.
        "asked: 10 bytes, room true, run 2",
        "1 was read",
        // 9, which is refused.
        "asked: 10 bytes, room false, run 0",
        // 8, which puts 5 out.
        "asked: 10 bytes, room false, run 1",
        "0 was evicted",
        "asked: 10 bytes, room false, run 0",
    ];
    assert_eq!(told.notes, wanted);
    assert_eq!((outcome.requests, outcome.hits, outcome.refused), (7, 1, 1));
    assert_eq!(outcome.evictions, 2);
}

/// With two victims asked for ahead, 2 is one of them when it is used again.
#[test]
fn a_victim_that_is_used_before_its_turn_stays() {
    let reads = trace(&[1, 2, 3, 4, 2, 5, 2].map(|id| (id, 1)));
    let clock = SimulatedClock::new(0);
    let settings = Settings { ahead: 2, ..Settings::new(Capacity::Entries(3)) };
    let outcome = Candidate::LRU.run(&reads, &settings, &*clock, &AtomicBool::new(false));
    let lru = outcome.unwrap().unwrap();
    // 1 2 3 | 4 puts 1 out, and 2 is next | 2 hits | 5 puts 3 out | 2 hits
    assert_eq!((lru.hits, lru.evictions, lru.invalid_victims), (2, 2, 0));
}

#[test]
fn a_replay_can_be_cancelled() {
    let reads = made("loop:ids=2000,requests=4000");
    let clock = SimulatedClock::new(0);
    for candidate in [Candidate::LRU, Candidate::Optimal] {
        let settings = Settings::new(Capacity::Entries(10));
        let ended = candidate.run(&reads, &settings, &*clock, &AtomicBool::new(true));
        assert_eq!(ended.unwrap(), None);
    }
}

/// The SDK's policies behind the engine's trait.
struct Native<P>(Driver<P>);

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
        Driver::apply(&mut self.0, events, attributes, want_entries, want_bytes, victims);
        Ok(())
    }

    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        slots.extend_from_slice(Driver::drain_order(&mut self.0, cursor, max));
        Ok(())
    }

    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        self.0.policy_mut().resize(capacity_bytes, max_slots);
        Ok(())
    }
}

/// An LRU that notes the ticks which pass before each event.
struct Noting(Native<tidegate_policy_lru::Lru>, Vec<u64>);

impl EvictionPolicy for Noting {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn version(&self) -> &str {
        self.0.version()
    }

    fn apply(
        &mut self,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        self.1.extend(events.iter().map(|event| event >> 48));
        self.0.apply(events, attributes, want_entries, want_bytes, victims)
    }

    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        self.0.drain_order(cursor, max, slots)
    }

    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        self.0.resize(capacity_bytes, max_slots)
    }
}

#[test]
fn an_event_tells_the_time_since_the_one_before() {
    let mut builder = TraceBuilder::default();
    for (id, time_ms) in [(1, 3), (2, 5), (1, 5), (3, 4), (2, 7), (1, 10_000), (2, 10_001)] {
        let time_us = time_ms * 1000;
        let request = Request { id, size_bytes: 1, kind: 0, is_hit: false, time_us };
        builder.push(request).unwrap();
    }
    let setup = Setup { params: Vec::new(), max_slots: 10, shard: 0, seed: 1 };
    let lru = Native(Driver::<tidegate_policy_lru::Lru>::new(&setup).unwrap());
    let mut noting = Noting(lru, Vec::new());
    noting.resize(10, 10).unwrap();
    let settings = Settings::new(Capacity::Entries(10));
    let clock = SimulatedClock::new(0);
    run_policy(&mut noting, &builder.finish(), &settings, &*clock).unwrap();
    // In sixteenths of a millisecond; times that go back count for nothing, and a long one ends at
    // what an event can tell.
    assert_eq!(noting.1, [48, 32, 0, 0, 32, u64::from(u16::MAX), 16]);
}

/// Runs a component and the same code natively; every outcome but times and fuel is equal.
fn agree<P: tidegate_plugin::EvictionPolicy>(file: &str) {
    let candidate = Candidate::Component { compiled: compiled(file), params: Vec::new() };
    let clock = SystemClock::new();
    for recipe in
        ["zipf:ids=3000,requests=30000,seed=5", "scan:ids=800,requests=30000,every=2000,length=900"]
    {
        let reads = made(recipe);
        for (batch, ahead) in [(1, 1), (256, 1), (256, 32)] {
            let settings = Settings { batch, ahead, ..Settings::new(Capacity::Entries(300)) };
            let component = candidate.run(&reads, &settings, &clock, &AtomicBool::new(false));
            let component = component.unwrap().unwrap();
            let setup = Setup { params: Vec::new(), max_slots: 300, shard: 0, seed: 1 };
            let mut native = Native(Driver::<P>::new(&setup).unwrap());
            native.resize(300, 300).unwrap();
            let native = run_policy(&mut native, &reads, &settings, &clock).unwrap();
            assert!(component.evictions > 1000 && component.ns > 0, "{component:?}");
            let component = Outcome { fuel: None, ns: native.ns, ..component };
            assert_eq!(component, native, "{file} {recipe} {batch} {ahead}");
        }
    }
}

#[test]
fn every_component_decides_as_its_native_twin() {
    agree::<tidegate_policy_lru::Lru>("lru.wasm");
    agree::<tidegate_policy_sieve::Sieve>("sieve.wasm");
    agree::<tidegate_policy_fifo::Fifo>("fifo.wasm");
    agree::<tidegate_policy_clock::Clock>("clock.wasm");
    agree::<tidegate_policy_s3_fifo::S3Fifo>("s3_fifo.wasm");
    agree::<tidegate_policy_two_q::TwoQ>("two_q.wasm");
    agree::<tidegate_policy_arc::Arc>("arc.wasm");
    agree::<tidegate_policy_w_tinylfu::WTinyLfu>("w_tinylfu.wasm");
    agree::<tidegate_policy_lirs::Lirs>("lirs.wasm");
    agree::<tidegate_policy_lhd::Lhd>("lhd.wasm");
    agree::<tidegate_policy_clock::Clock>("c_clock.wasm");
    agree::<tidegate_policy_sieve::Sieve>("python_sieve.wasm");
}

#[test]
fn the_trial_passes_good_components_and_names_what_is_wrong_with_others() {
    let clock = SystemClock::new();
    let trial = try_component(&compiled("s3_fifo.wasm"), &[], &clock).unwrap();
    assert!(trial.is_passed(), "{:?}", trial.findings);
    assert_eq!((trial.name.as_str(), trial.version.as_str()), ("s3-fifo", "0.1.0"));
    assert!(trial.outcome.is_some_and(|outcome| outcome.hits > 0));
    for file in [
        "always",
        "second_touch",
        "doorkeeper",
        "scan_guard",
        "decaying",
        "token_bucket",
        "latency",
        "codel",
    ] {
        let trial = try_component(&compiled(&format!("{file}.wasm")), &[], &clock).unwrap();
        assert!(trial.is_passed() && trial.findings.len() == 3, "{file}: {:?}", trial.findings);
    }
    let params = [("ghost".to_owned(), "x".to_owned())];
    let refused = try_component(&compiled("lru.wasm"), &params, &clock).unwrap_err();
    assert!(refused.to_string().contains("unknown parameter"), "{refused}");
}

#[test]
fn a_replay_that_fails_names_the_request() {
    let failed = |calls: u32| {
        let compiled = loaded(&saboteur(calls).component());
        let candidate = Candidate::Component { compiled, params: Vec::new() };
        let settings = Settings::new(Capacity::Entries(2));
        let reads = made("loop:ids=9,requests=9");
        let clock = SimulatedClock::new(0);
        let ended = candidate.run(&reads, &settings, &*clock, &AtomicBool::new(false));
        ended.unwrap_err().to_string()
    };
    // Two entries have room; from then on each request asks for a victim.
    for calls in 0..3 {
        let told = failed(calls);
        assert!(told.contains(&format!("at request {}: ", calls + 3)), "{told}");
    }
}

/// A policy that takes over from it is shown its order.
#[test]
fn a_component_whose_order_fails_or_has_no_end_does_not_pass() {
    for (drain_order, is_passed, wanted) in [
        (EMPTY_LIST.to_owned(), true, "hands over 0 slots, 0 different, of 500 residents"),
        ("unreachable".to_owned(), false, "draining its order: "),
        (list_of(1, 3), false, "its order has more than 500 slots: no end"),
    ] {
        let (fields, apply) = (FIFO.to_owned(), FIFO_APPLY.to_owned());
        let guest = Guest { fields, apply, drain_order, ..Guest::default() };
        let clock = SystemClock::new();
        let trial = try_component(&loaded(&guest.component()), &[], &clock).unwrap();
        assert_eq!(trial.is_passed(), is_passed, "{:?}", trial.findings);
        let last = trial.findings.last().unwrap();
        assert_eq!(last.is_fault, !is_passed, "{last:?}");
        assert!(last.text.starts_with(wanted), "{last:?}");
    }
}

#[test]
fn a_trial_counts_what_a_component_answers() {
    let told = |bytes: &[u8]| {
        let trial = try_component(&loaded(bytes), &[], &SystemClock::new()).unwrap();
        trial.findings[0].text.clone()
    };
    let (all, none) = ("20000 kept", "0 differ from the one before");
    assert_eq!(told(&dist("always.wasm")), format!("answers 20000 questions: {all}"));
    for (bytes, size) in [(load_shedding as fn(&str) -> Vec<u8>, 4), (read_admission, 8)] {
        // A plan that leaves everything as it is, and one that differs once.
        assert_eq!(told(&bytes(&plan_of(&[], size))), format!("makes 2000 plans: {none}"));
        let once = told(&bytes(&plan_of(&[7, 8, 9, 10], size)));
        assert_eq!(once, "makes 2000 plans: 1 differ from the one before");
    }
}

#[test]
fn a_trial_of_io_and_of_merges_counts_what_a_component_answers() {
    let told = |bytes: &[u8]| {
        let trial = try_component(&loaded(bytes), &[], &SystemClock::new()).unwrap();
        assert!(trial.is_passed(), "{:?}", trial.findings);
        trial.findings[0].text.clone()
    };
    let plans = "makes 2000 plans";
    assert_eq!(
        told(&io_priority(&plan_of(&[], 4))),
        format!("{plans}: 0 differ from the one before")
    );
    assert_eq!(
        told(&io_priority(&plan_of(&[5], 4))),
        format!("{plans}: 1 differ from the one before")
    );
    assert_eq!(told(&compaction(&case_of(0))), "is asked 2000 times: 0 merges");
    assert_eq!(told(&compaction(&case_of(1))), "is asked 2000 times: 0 merges");
    assert_eq!(told(&compaction(&merge_of(&[1], 0, 0))), "is asked 2000 times: 2000 merges");
    let lazy = told(&dist("lazy_leveling.wasm"));
    let merges: u64 = lazy.split(' ').nth(4).unwrap().parse().unwrap();
    assert!((400..1_000).contains(&merges), "{lazy}");
    assert!(told(&dist("queue_guard.wasm")).starts_with(plans));
}

/// On a machine so busy that seconds pass within a call, a replay is what it is on any other.
#[test]
fn a_replay_ends_by_fuel_and_not_by_the_clock() {
    let host = PolicyHost::new(HostOptions { instances_max: 4, compiler: None }).unwrap();
    let load = |name: &str, bytes: &[u8]| host.compile(name, bytes).unwrap();
    let lru = load("lru", &dist("lru.wasm"));
    let filter = load("always", &dist("always.wasm"));
    let limiter = load("token_bucket", &dist("token_bucket.wasm"));
    let endless = format!("{FOREVER} unreachable");
    let endless = Guest { apply: endless, ..Guest::default() }.component();
    let endless = load("endless", &endless);
    let reads = made("zipf:ids=400,requests=20000");
    let settings = Settings::new(Capacity::Entries(100));
    let clock = SimulatedClock::new(0);
    let replay = |compiled: &Arc<CompiledPolicy>| {
        let candidate = Candidate::Component { compiled: compiled.clone(), params: Vec::new() };
        let ended = candidate.run(&reads, &settings, &*clock, &AtomicBool::new(false));
        ended.map(|outcome| outcome.expect("nobody cancelled it"))
    };
    let (calm, calm_filter) = (replay(&lru).unwrap(), replay(&filter).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                host.pass_ms(10_000);
            }
        });
        // The engine would put the same policy out.
        let live = || {
            let options = InstanceOptions { max_slots: 100, ..InstanceOptions::default() };
            let mut live = WasmEvictionPolicy::new(lru.clone(), options)?;
            (0..10_000).try_for_each(|_| live.apply(&[], &[], 1, 0, &mut Vec::new()))
        };
        let live = (0..1000).find_map(|_| live().err());
        let replayed = [replay(&lru), replay(&filter)];
        let ended = replay(&endless);
        let tried = try_component(&limiter, &[], &*clock);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(live.expect("a deadline that passes").kind, FailureKind::Epoch);
        assert_eq!(replayed.map(Result::unwrap), [calm, calm_filter]);
        let message = ended.unwrap_err().to_string();
        assert!(message.contains(": fuel: apply"), "the engine's fuel holds here too: {message}");
        let trial = tried.unwrap();
        assert!(trial.is_passed(), "{:?}", trial.findings);
    });
}

/// The folder of recorded traces; without one `what` is skipped, and says so.
fn traces(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TIDEGATE_TRACES").map(PathBuf::from);
    if folder.is_none() {
        skip("recorded traces", &format!("TIDEGATE_TRACES names no folder for {what}"));
    }
    folder
}

fn recorded(folder: &Path, name: &str) -> Trace {
    let path = folder.join(format!("{name}.u32.zst"));
    read_trace(&path, &std::fs::read(&path).unwrap(), None).unwrap()
}

#[test]
fn policies_in_other_languages_name_the_victims_of_their_twins() {
    let Some(folder) = traces("languages") else { return };
    let clock = SimulatedClock::new(0);
    let outcome = |file: &str, reads: &Trace, settings: &Settings| {
        let file = format!("{file}.wasm");
        let candidate = Candidate::Component { compiled: compiled(&file), params: Vec::new() };
        let outcome = candidate.run(reads, settings, &*clock, &AtomicBool::new(false));
        let outcome = outcome.unwrap().unwrap();
        assert!(outcome.evictions > 1000, "{outcome:?}");
        Outcome { fuel: None, ..outcome }
    };
    for (name, entries) in [("web12", 1376), ("web07", 20), ("OLTP", 1869), ("orm-busy", 763)] {
        let reads = recorded(&folder, name);
        for (file, twin) in [
            ("c_clock", "clock"),
            ("python_sieve", "sieve"),
            ("assemblyscript_second_touch", "second_touch"),
        ] {
            // One victim a call takes a minute on a long trace and says no more than on a short
            // one.
            let is_long = reads.reads().len() > 200_000;
            let aheads: &[u32] = if is_long { &[32] } else { &[1, 32] };
            for &ahead in aheads {
                let settings = Settings { ahead, ..Settings::new(Capacity::Entries(entries)) };
                let (here, there) =
                    (outcome(file, &reads, &settings), outcome(twin, &reads, &settings));
                assert_eq!(here, there, "{file} on {name}, {ahead} ahead");
            }
        }
    }
}

/// Miss ratios of libCacheSim 0.3.5 and of the optimum on recorded traces.
#[test]
fn miss_ratios_are_the_published_ones() {
    let Some(folder) = traces("miss ratios") else { return };
    let sieve = Candidate::Component { compiled: compiled("sieve.wasm"), params: Vec::new() };
    for (name, entries, lru, sieve_misses, optimal) in [
        ("web12", 138, 0.6021, 0.5965, 0.4146),
        ("web12", 1376, 0.3151, 0.2832, 0.1996),
        ("web07", 2048, 0.4434, 0.4207, 0.3191),
        ("OLTP", 1869, 0.5836, 0.5970, 0.4024),
    ] {
        let reads = recorded(&folder, name);
        for (candidate, wanted) in
            [(&Candidate::LRU, lru), (&sieve, sieve_misses), (&Candidate::Optimal, optimal)]
        {
            let misses = 1.0 - run(candidate, &reads, Capacity::Entries(entries)).hit_ratio();
            let what = format!("{name} {entries} {}: {misses:.5} for {wanted}", candidate.name());
            assert!((misses - wanted).abs() < 0.0001, "{what}");
        }
    }
}
