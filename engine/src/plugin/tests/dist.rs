//! The committed components: bytes, decisions, and agreement with the same code run natively.

use sha2::{Digest, Sha256};
use tidegate_plugin::{Driver, Setup};

use super::*;
use crate::clock::{Random, SimulatedClock};
use crate::hex::Hex;
use crate::policy::FailureKind;

#[test]
fn the_sums_are_those_of_the_files() {
    let sums = String::from_utf8(dist("SHA256SUMS")).unwrap();
    let mut files = Vec::new();
    for line in sums.lines() {
        let (sum, file) = line.split_once("  ").expect("digest, two spaces, name");
        let found = Hex(&Sha256::digest(dist(file))).to_string();
        assert_eq!(found, sum, "{file}");
        assert_eq!(load(&host(), &dist(file)).digest_hex(), sum);
        files.push(file);
    }
    assert_eq!(files.len(), 23, "{files:?}");
    assert_eq!(files[..2], ["lru.wasm", "sieve.wasm"]);
}

#[test]
fn lru_evicts_the_least_recently_used_and_drains_in_that_order() {
    let host = host();
    let compiled = load(&host, &dist("lru.wasm"));
    assert_eq!((compiled.name(), compiled.contract_version()), ("p", "0.1.0"));
    let clock = SimulatedClock::new(0);
    let options = InstanceOptions { clock: Some(clock), ..options(8) };
    let mut lru = WasmEvictionPolicy::new(compiled, options).unwrap();
    assert_eq!((lru.name(), lru.version()), ("lru", "0.1.0"));
    assert!(lru.is_deterministic() && !lru.wants_miss_events());

    let events = [(Op::Insert, 0), (Op::Insert, 1), (Op::Insert, 2), (Op::Insert, 3)];
    assert_eq!(victims(&mut lru, &events, 0).unwrap(), [] as [Slot; 0]);
    assert_eq!(victims(&mut lru, &[(Op::Access, 0), (Op::Update, 2)], 1).unwrap(), [1]);
    assert_eq!(victims(&mut lru, &[(Op::VictimRefused, 1)], 0).unwrap(), [] as [Slot; 0]);
    let mut order = Vec::new();
    lru.drain_order(0, 3, &mut order).unwrap();
    lru.drain_order(3, 3, &mut order).unwrap();
    lru.drain_order(4, 3, &mut order).unwrap();
    assert_eq!(order, [1, 3, 0, 2]);
    assert_eq!(victims(&mut lru, &[(Op::Remove, 3)], 8).unwrap(), [1, 0, 2]);

    let counters = lru.counters();
    assert_eq!((counters.events, counters.victims), (8, 4));
    assert_eq!((counters.last_events, counters.ns), (1, 0));
    assert!(counters.fuel > counters.last_fuel && counters.last_fuel > 0);
    let metrics = lru.metrics().unwrap();
    assert_eq!(metrics, [("resident".to_string(), 0.0), ("hits".to_string(), 2.0)]);
    assert!(lru.snapshot().unwrap().is_empty());
    assert!(lru.restore(1, &[1]).unwrap().is_err(), "it keeps no state");
    lru.finish().unwrap();
}

#[test]
fn parameters_reach_the_policy_in_order_and_once() {
    let host = host();
    let compiled = load(&host, &dist("lru.wasm"));
    let with = |params: &[(&str, &str)]| {
        let params = params.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let made =
            WasmEvictionPolicy::new(compiled.clone(), InstanceOptions { params, ..options(8) });
        made.err().expect("lru has no parameters")
    };
    let failure = with(&[("size", "1"), ("age", "2")]);
    assert_eq!(failure.kind, FailureKind::InitError);
    assert_eq!(failure.message, "init: unknown parameter 'age'; this policy has none");
    assert_eq!(with(&[("a", "1"), ("a", "2")]).message, "parameter 'a' is given twice");
    let apart = with(&[("a", "1"), ("b", "1"), ("a", "2")]);
    assert_eq!(apart.message, "parameter 'a' is given twice");
}

#[test]
fn a_panic_of_a_guest_is_in_the_record() {
    let host = host();
    let mut lru = instance(&host, &dist("lru.wasm"), 8);
    let failure = victims(&mut lru, &[(Op::Access, 9_999)], 0).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Trap);
    assert!(failure.message.contains("index out of bounds"), "{failure}");
    assert!(failure.message.len() <= 1024 && !failure.backtrace.is_empty());
    assert_eq!(lru.counters().log_lines, 1);
}

#[test]
fn the_epoch_ticks_only_while_policies_are_loaded() {
    let host = host();
    assert_eq!(host.loaded(), 0);
    let compiled = load(&host, &dist("lru.wasm"));
    let policy = WasmEvictionPolicy::new(compiled.clone(), options(8)).unwrap();
    assert_eq!(host.loaded(), 1);
    drop(compiled);
    assert_eq!(host.loaded(), 1, "an instance keeps its component");
    drop(policy);
    assert_eq!(host.loaded(), 0);
}

#[test]
fn a_loaded_policy_outlives_its_host_and_crosses_threads() {
    let host = host();
    let compiled = load(&host, &dist("lru.wasm"));
    drop(host);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let compiled = compiled.clone();
            scope.spawn(move || {
                let mut lru = WasmEvictionPolicy::new(compiled, options(8)).unwrap();
                let events = [(Op::Insert, 5), (Op::Insert, 6)];
                assert_eq!(victims(&mut lru, &events, 1).unwrap(), [5]);
            });
        }
    });
}

/// A cache that is always asked: the words of random requests, what was delivered and what came
/// back.
fn run(policy: &mut dyn Apply, batch: usize, ahead: u32) -> Vec<Slot> {
    const SLOTS: u32 = 200;
    let mut random = Random::new(11);
    let (mut events, mut attributes) = (Vec::new(), Vec::new());
    let mut resident = vec![false; SLOTS as usize];
    let mut used = 0;
    let mut all = Vec::new();
    for _ in 0..30_000 {
        // Squared, so that some slots are hot.
        let slot = (random.below(u64::from(SLOTS)) * random.below(u64::from(SLOTS))
            / u64::from(SLOTS)) as Slot;
        let op = match (resident[slot as usize], random.below(20)) {
            (false, _) => Op::Insert,
            (true, 0) => Op::Remove,
            (true, 1) => Op::Update,
            (true, 2) => Op::Pin,
            (true, _) => Op::Access,
        };
        match op {
            Op::Insert => (resident[slot as usize], used) = (true, used + 1),
            Op::Remove => (resident[slot as usize], used) = (false, used - 1),
            _ => {}
        }
        if op == Op::Insert {
            attributes.extend([random.next_u64(), 100, 1]);
        }
        events.push(word(op, slot));
        let want = if used > 120 { ahead } else { 0 };
        if want == 0 && events.len() < batch {
            continue;
        }
        let victims = policy.apply(&events, &attributes, want);
        events.clear();
        attributes.clear();
        for (at, victim) in victims.iter().enumerate() {
            assert!(resident[*victim as usize], "a victim is resident");
            if at % 5 == 4 {
                // One in five is refused, and says so in the next batch.
                events.push(word(Op::VictimRefused, *victim));
            } else {
                resident[*victim as usize] = false;
                used -= 1;
            }
        }
        all.extend(victims);
    }
    all
}

trait Apply {
    fn apply(&mut self, events: &[u64], attributes: &[u64], want: u32) -> Vec<Slot>;
}

impl Apply for WasmEvictionPolicy {
    fn apply(&mut self, events: &[u64], attributes: &[u64], want: u32) -> Vec<Slot> {
        let mut victims = Vec::new();
        EvictionPolicy::apply(self, events, attributes, want, 0, &mut victims).unwrap();
        victims
    }
}

impl<P: tidegate_plugin::EvictionPolicy> Apply for Driver<P> {
    fn apply(&mut self, events: &[u64], attributes: &[u64], want: u32) -> Vec<Slot> {
        let mut victims = Vec::new();
        Driver::apply(self, events, attributes, want, 0, &mut victims);
        victims
    }
}

fn agree<P: tidegate_plugin::EvictionPolicy>(file: &str) {
    let host = host();
    let compiled = load(&host, &dist(file));
    for (batch, ahead) in [(1, 1), (17, 1), (64, 8), (256, 32)] {
        let mut wasm = WasmEvictionPolicy::new(compiled.clone(), options(200)).unwrap();
        let setup = Setup { params: Vec::new(), max_slots: 200, shard: 0, seed: 0 };
        let mut native = Driver::<P>::new(&setup).unwrap();
        let (left, right) = (run(&mut wasm, batch, ahead), run(&mut native, batch, ahead));
        assert!(left.len() > 1000, "{} victims", left.len());
        assert_eq!(left, right, "{file}, batch {batch}, {ahead} ahead");
        let mut order = Vec::new();
        wasm.drain_order(0, 200, &mut order).unwrap();
        assert_eq!(order, native.drain_order(0, 200));
    }
}

#[test]
fn lru_decides_the_same_natively() {
    agree::<tidegate_policy_lru::Lru>("lru.wasm");
}

#[test]
fn sieve_decides_the_same_natively() {
    agree::<tidegate_policy_sieve::Sieve>("sieve.wasm");
}

#[test]
fn fifo_decides_the_same_natively() {
    agree::<tidegate_policy_fifo::Fifo>("fifo.wasm");
}

#[test]
fn clock_decides_the_same_natively() {
    agree::<tidegate_policy_clock::Clock>("clock.wasm");
}

#[test]
fn s3_fifo_decides_the_same_natively() {
    agree::<tidegate_policy_s3_fifo::S3Fifo>("s3_fifo.wasm");
}

#[test]
fn two_q_decides_the_same_natively() {
    agree::<tidegate_policy_two_q::TwoQ>("two_q.wasm");
}

#[test]
fn arc_decides_the_same_natively() {
    agree::<tidegate_policy_arc::Arc>("arc.wasm");
}

#[test]
fn w_tinylfu_decides_the_same_natively() {
    agree::<tidegate_policy_w_tinylfu::WTinyLfu>("w_tinylfu.wasm");
}

#[test]
fn lirs_decides_the_same_natively() {
    agree::<tidegate_policy_lirs::Lirs>("lirs.wasm");
}

#[test]
fn lhd_decides_the_same_natively() {
    agree::<tidegate_policy_lhd::Lhd>("lhd.wasm");
}

#[test]
fn policies_in_other_languages_decide_as_their_twins() {
    agree::<tidegate_policy_clock::Clock>("c_clock.wasm");
    agree::<tidegate_policy_sieve::Sieve>("python_sieve.wasm");
    let host = host();
    for (file, name) in [("c_clock.wasm", "c-clock"), ("python_sieve.wasm", "python-sieve")] {
        let compiled = load(&host, &dist(file));
        let with = |params: Vec<(String, String)>| {
            WasmEvictionPolicy::new(compiled.clone(), InstanceOptions { params, ..options(8) })
        };
        let refused = with(vec![("size".to_string(), "1".to_string())]).err().unwrap();
        assert_eq!(refused.message, "init: unknown parameter 'size'; this policy has none");
        let mut policy = with(Vec::new()).unwrap();
        assert_eq!((policy.name(), policy.version()), (name, "0.1.0"));
        // More slots than at first, and one beyond them.
        policy.resize(1 << 20, 100_000).unwrap();
        let events = [(Op::Insert, 99_999), (Op::Insert, 3), (Op::Access, 3)];
        assert_eq!(victims(&mut policy, &events, 1).unwrap(), [99_999]);
        let failure = victims(&mut policy, &[(Op::Access, 100_000)], 0).unwrap_err();
        assert!(failure.message.contains("an event of a slot"), "{failure}");
    }
}
