//! Guests that load and then misbehave: each ends in a failure of the right kind, and the host
//! serves on.

use super::guest::{FOREVER, Guest, list_of, slowly};
use super::*;
use crate::plugin::WasmReadAdmissionPolicy;
use crate::policy::FailureKind;
use crate::policy::admission::{ReadAdmissionPolicy, ReadLimits, ReadLoad};

fn start(
    host: &PolicyHost,
    guest: &Guest,
    options: InstanceOptions,
) -> Result<WasmEvictionPolicy, PolicyFailure> {
    WasmEvictionPolicy::new(load(host, &guest.component()), options)
}

/// Makes an instance, asks for four victims, and returns the failure.
fn failure(host: &PolicyHost, guest: &Guest) -> PolicyFailure {
    let mut policy = start(host, guest, options(8)).unwrap();
    let failure = victims(&mut policy, &[(Op::Insert, 3)], 4).unwrap_err();
    let calls = policy.counters().calls;
    assert_eq!(victims(&mut policy, &[], 0).unwrap_err(), failure, "the failure stays");
    assert_eq!(policy.tick(1).unwrap_err(), failure);
    assert_eq!(policy.counters().calls, calls, "a failed guest is not entered");
    assert_eq!(policy.failure(), Some(&failure));
    assert_eq!(policy.failed_events(), [word(Op::Insert, 3)]);
    failure
}

#[test]
fn the_template_itself_is_a_good_policy() {
    let host = host();
    let mut policy = start(&host, &Guest::default(), options(8)).unwrap();
    assert_eq!((policy.name(), policy.version()), ("test", "test"));
    assert!(victims(&mut policy, &[(Op::Insert, 0)], 4).unwrap().is_empty());
    let guest = Guest { apply: list_of(4, 7), ..Guest::default() };
    let mut policy = start(&host, &guest, options(8)).unwrap();
    assert_eq!(victims(&mut policy, &[], 4).unwrap(), [7, 7, 7, 7], "judging slots is the cache's");
    policy.finish().unwrap();
}

#[test]
fn an_endless_loop_runs_out_of_fuel() {
    let host = host();
    let apply = format!("{FOREVER} unreachable");
    let failure = failure(&host, &Guest { apply, ..Guest::default() });
    assert_eq!(failure.kind, FailureKind::Fuel);
    assert!(failure.message.starts_with("apply: "), "{failure}");
    assert_eq!(failure.backtrace.len(), 1, "{:?}", failure.backtrace);
    assert_serves(&host);
}

#[test]
fn endless_loops_in_every_other_export_run_out_of_fuel() {
    let host = host();
    let forever = || FOREVER.to_string();
    let start_function = format!("(func $start {FOREVER}) (start $start)");
    let early = [
        Guest { fields: start_function, ..Guest::default() },
        Guest { init: format!("{FOREVER} unreachable"), ..Guest::default() },
        Guest { resize: forever(), ..Guest::default() },
    ];
    for guest in early {
        let failure = start(&host, &guest, options(8)).err().expect("it never ends");
        assert_eq!(failure.kind, FailureKind::Fuel, "{failure}");
    }
    let mut policy =
        start(&host, &Guest { tick: forever(), ..Guest::default() }, options(8)).unwrap();
    assert_eq!(policy.tick(1).unwrap_err().kind, FailureKind::Fuel);
    let drain_order = format!("{FOREVER} unreachable");
    let guest = Guest { drain_order, ..Guest::default() };
    let mut policy = start(&host, &guest, options(8)).unwrap();
    let failure = policy.drain_order(0, 8, &mut Vec::new()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Fuel);
    assert_serves(&host);
}

/// What a call should have come to that takes seconds and has a deadline of milliseconds.
fn assert_stopped<R>(what: &str, ended: Result<R, PolicyFailure>) {
    match ended {
        Err(failure) => assert_eq!(failure.kind, FailureKind::Epoch, "{what}: {failure}"),
        Ok(_) => panic!(
            "{what}: it ran to its end, seconds after its deadline: the epoch is not \
             counted, or not looked at"
        ),
    }
}

/// Fuel for as long as it takes, and a deadline.
fn hasty(epoch_ticks: u64) -> Budget {
    Budget { call_fuel: 1 << 50, epoch_ticks, ..Budget::default() }
}

/// The epoch stops a guest that has all the fuel in the world, in every call that a shard waits
/// for.
#[test]
fn the_epoch_stops_what_fuel_does_not() {
    let host = host();
    let slow = || slowly(3_000_000_000);
    let list = || format!("{} i32.const 256", slow());
    let options = |slots| InstanceOptions { budget: hasty(20), ..options(slots) };
    let make = |guest: Guest| start(&host, &guest, options(8)).unwrap();
    let mut policy = make(Guest { apply: list(), ..Guest::default() });
    assert_stopped("apply", victims(&mut policy, &[], 1));
    let mut policy = make(Guest { tick: slow(), ..Guest::default() });
    assert_stopped("tick", policy.tick(1));
    let mut policy = make(Guest { drain_order: list(), ..Guest::default() });
    assert_stopped("drain-order", policy.drain_order(0, 8, &mut Vec::new()));

    let plan = host.compile("p", &super::guest::read_admission(&list())).unwrap();
    let mut policy = WasmReadAdmissionPolicy::new(plan, options(0)).unwrap();
    let limits = ReadLimits { running_max: 1, memory_bytes_max: 1, queued_max: 1, wait_us_max: 1 };
    assert_stopped("plan", policy.plan(1, 1, &[ReadLoad::default(); 2], &mut [limits; 2]));
    assert_serves(&host);
}

/// Making an instance holds no shard up, and a busy machine must not keep a good policy out.
#[test]
fn an_instance_has_time_to_start() {
    let host = host();
    let guest = Guest {
        fields: format!("(func $slowly {})", slowly(100_000_000)),
        init: "call $slowly i32.const 0".to_string(),
        resize: "call $slowly".to_string(),
        apply: format!("{} i32.const 256", slowly(3_000_000_000)),
        ..Guest::default()
    };
    let options = InstanceOptions { budget: hasty(1), ..options(8) };
    let mut policy = start(&host, &guest, options).unwrap();
    assert_stopped("apply, which a shard waits for", victims(&mut policy, &[], 1));
}

#[test]
fn memory_ends_at_the_cap() {
    let host = host();
    let apply = "loop $more (drop (memory.grow (i32.const 64))) br $more end unreachable";
    let failure = failure(&host, &Guest { apply: apply.to_string(), ..Guest::default() });
    assert_eq!(failure.kind, FailureKind::OutOfMemory, "{failure}");
    assert_serves(&host);
}

#[test]
fn a_claim_beyond_the_memory_cap_is_refused_at_load() {
    let host = host();
    let guest = Guest { bytes_per_slot: 1 << 20, ..Guest::default() };
    assert!(start(&host, &guest, options(64)).is_ok());
    let failure = start(&host, &guest, options(65)).err().expect("65 MiB");
    assert_eq!(failure.kind, FailureKind::InitError);
    assert!(failure.message.contains("65 slots of 1048576 bytes"), "{failure}");
    let mut policy = start(&host, &guest, options(64)).unwrap();
    assert_eq!(policy.resize(0, 65).unwrap_err().kind, FailureKind::OutOfMemory);
}

#[test]
fn traps_are_told_apart_from_refusals() {
    let host = host();
    let guest = Guest { init: "unreachable".to_string(), ..Guest::default() };
    let failure = start(&host, &guest, options(8)).err().expect("it traps");
    assert_eq!(failure.kind, FailureKind::Trap, "{failure}");
    assert!(failure.message.starts_with("init: ") && failure.message.contains("unreachable"));

    // Discriminant 1 = error, then the address and length of its text.
    let init = "(i32.store8 (i32.const 0) (i32.const 1))
                (i32.store (i32.const 4) (i32.const 512))
                (i32.store (i32.const 8) (i32.const 4)) i32.const 0";
    let guest = Guest { init: init.to_string(), ..Guest::default() };
    let failure = start(&host, &guest, options(8)).err().expect("it refuses");
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::InitError, "init: test"));

    let failure =
        start(&host, &Guest { hook: 3, ..Guest::default() }, options(8)).err().expect("hook");
    assert_eq!(failure.kind, FailureKind::InitError, "{failure}");
    assert_serves(&host);
}

#[test]
fn deep_recursion_ends_at_the_stack() {
    let host = host();
    let fields = "(func $deep (param i64) (result i64)
        (i64.add (call $deep (i64.add (local.get 0) (i64.const 1))) (local.get 0)))";
    let apply = "(drop (call $deep (i64.const 1))) unreachable";
    let guest = Guest { fields: fields.to_string(), apply: apply.to_string(), ..Guest::default() };
    let failure = failure(&host, &guest);
    assert_eq!(failure.kind, FailureKind::Trap);
    assert!(failure.message.contains("stack"), "{failure}");
    assert_eq!(failure.backtrace.len(), 16, "only the innermost frames are kept");
    assert_serves(&host);
}

#[test]
fn too_many_victims_are_a_failure() {
    let host = host();
    let guest = Guest { apply: list_of(5, 0), ..Guest::default() };
    let failure = failure(&host, &guest);
    assert_eq!(failure.kind, FailureKind::ResultTooLarge);
    assert_eq!(failure.message, "apply: returned 5 slots, the most was 4");

    let guest = Guest { drain_order: list_of(5, 0), ..Guest::default() };
    let mut policy = start(&host, &guest, options(8)).unwrap();
    let failure = policy.drain_order(0, 4, &mut Vec::new()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::ResultTooLarge);
    assert_serves(&host);
}

#[test]
fn a_huge_result_is_not_copied() {
    let host = host();
    let apply = "(i32.store (i32.const 264) (i32.const 0))
                 (i32.store (i32.const 268) (i32.const 1000000)) i32.const 264";
    let guest = Guest { apply: apply.to_string(), pages: 100, ..Guest::default() };
    let failure = failure(&host, &guest);
    assert_eq!(failure.kind, FailureKind::ResultTooLarge, "{failure}");
    assert_serves(&host);
}

#[test]
fn a_result_outside_of_memory_is_a_trap() {
    let host = host();
    for (address, length) in [(0xFFFF_FFF0u32, 4), (0, 0x3FFF_FFFF), (2, 1)] {
        let apply = format!(
            "(i32.store (i32.const 264) (i32.const {address}))
             (i32.store (i32.const 268) (i32.const {length})) i32.const 264"
        );
        let failure = failure(&host, &Guest { apply, ..Guest::default() });
        assert_eq!(failure.kind, FailureKind::Trap, "{address} {length}: {failure}");
    }
    assert_serves(&host);
}

#[test]
fn unused_fuel_pays_for_a_later_search_up_to_a_cap() {
    let host = host();
    // Searches only when victims are wanted: 100,000 rounds of a few instructions.
    let apply = "(local $i i32)
        (if (i32.eqz (local.get 4)) (then (return (i32.const 256))))
        loop $next
          (br_if $next (i32.lt_u
            (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000)))
        end
        i32.const 256";
    let guest = Guest { apply: apply.to_string(), ..Guest::default() };
    let mut hasty = start(&host, &guest, options(8)).unwrap();
    assert_eq!(victims(&mut hasty, &[], 1).unwrap_err().kind, FailureKind::Fuel);

    let mut saving = start(&host, &guest, options(8)).unwrap();
    let hits = vec![(Op::Access, 0); 256];
    for _ in 0..1000 {
        victims(&mut saving, &hits, 0).unwrap();
    }
    for _ in 0..4 {
        victims(&mut saving, &[], 1).unwrap();
    }
    let budget = Budget::default();
    let counters = saving.counters();
    assert!(counters.last_fuel > 400_000 && counters.last_fuel < budget.fuel_kept_max);
    let spent = (0..100).find(|_| victims(&mut saving, &[], 1).is_err()).expect("it runs out");
    assert!(spent < 10, "what is kept has a cap");
}

#[test]
fn a_new_instance_of_a_failed_policy_starts_afresh() {
    let host = host();
    // Fails at the second call of an instance.
    let guest = Guest {
        fields: "(global $calls (mut i32) (i32.const 0))".to_string(),
        apply: "(if (global.get $calls) (then unreachable))
                (global.set $calls (i32.const 1)) i32.const 256"
            .to_string(),
        ..Guest::default()
    };
    let compiled = load(&host, &guest.component());
    for _ in 0..20 {
        let mut policy = WasmEvictionPolicy::new(compiled.clone(), options(8)).unwrap();
        victims(&mut policy, &[], 1).unwrap();
        assert_eq!(victims(&mut policy, &[], 1).unwrap_err().kind, FailureKind::Trap);
    }
}
