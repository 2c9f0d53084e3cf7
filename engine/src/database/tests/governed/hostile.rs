//! Hostile guests in a running engine: each is refused with words, or leaves with a record while
//! the engine serves on under its fallback. None loses a row or a request.

use super::swap::{Life, World};
use crate::clock::Random;
use crate::config::POLICY_COMPONENT_BYTES_MAX;
use crate::plugin::tests::guest::{EMPTY_LIST, FIFO, FIFO_APPLY, FOREVER, Guest, list_of};
use std::time::Duration;

/// How a guest must end.
enum End {
    /// It never governs; the error says this.
    Refused(&'static str),
    /// It governs and leaves with a record of this kind, the message saying this.
    Leaves(&'static str, &'static str),
    /// It does no harm that the host must end.
    Serves,
}
use End::{Leaves, Refused, Serves};

fn guest(guest: Guest) -> Vec<u8> {
    guest.component()
}

/// A FIFO that does `work` first in every call of `apply` once it has been called thirty times, so
/// that the trial before it governs does not see it.
fn late(work: &str) -> Vec<u8> {
    let fields = format!(
        "{FIFO} (global $calls (mut i32) (i32.const 0))
         (table $none 1 funcref) (type $nothing (func))
         (func $deep (param i64) (result i64)
           (i64.add (call $deep (i64.add (local.get 0) (i64.const 1))) (local.get 0)))
         (func $zero (result i32) i32.const 0)
         (func $work {work})"
    );
    let apply = format!(
        "{FIFO_APPLY}
         (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (if (i32.gt_u (global.get $calls) (i32.const 30)) (then (call $work)))"
    );
    guest(Guest { fields, apply, ..Guest::default() })
}

/// A guest whose `apply` returns the list at 264 after `work` wrote it.
fn lister(work: &str) -> Vec<u8> {
    guest(Guest { apply: format!("{work} i32.const 264"), ..Guest::default() })
}

/// A list at `address` of `length` slots.
fn list_at(address: u32, length: u32) -> Vec<u8> {
    lister(&format!(
        "(i32.store (i32.const 264) (i32.const {address}))
         (i32.store (i32.const 268) (i32.const {length}))"
    ))
}

fn with_fields(fields: String) -> Vec<u8> {
    let fields = format!("{FIFO} {fields}");
    guest(Guest { fields, apply: FIFO_APPLY.to_string(), ..Guest::default() })
}

fn text(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

fn exporting(names: &[&str]) -> Vec<u8> {
    let exports: Vec<String> =
        names.iter().map(|name| format!("(export \"{name}\" (instance $none))")).collect();
    text(&format!("(component (instance $none) {})", exports.join(" ")))
}

/// `init` that refuses, in bytes that are written to 512.
fn refusing(bytes: &str, length: u32) -> Vec<u8> {
    let init = format!(
        "(i32.store8 (i32.const 0) (i32.const 1))
         (i32.store (i32.const 4) (i32.const 512))
         (i32.store (i32.const 8) (i32.const {length})) i32.const 0"
    );
    let fields = format!("(data (i32.const 512) \"{bytes}\")");
    guest(Guest { init, fields, ..Guest::default() })
}

fn in_exports() -> Vec<(&'static str, Vec<u8>, End)> {
    let forever = || FOREVER.to_string();
    let never = || format!("{FOREVER} unreachable");
    let fifo =
        || Guest { fields: FIFO.to_string(), apply: FIFO_APPLY.to_string(), ..Guest::default() };
    let ticking = format!("{FIFO} (data (i32.const 28) \"\\0a\\00\\00\\00\")");
    let start = format!("(func $start {FOREVER}) (start $start)");
    let mut truncated = guest(Guest::default());
    truncated.truncate(truncated.len() / 2);
    vec![
        ("a loop in apply", guest(Guest { apply: never(), ..fifo() }), Leaves("fuel", "apply: ")),
        ("a loop in init", guest(Guest { init: never(), ..fifo() }), Refused("init: ")),
        ("a loop in resize", guest(Guest { resize: forever(), ..fifo() }), Refused("resize: ")),
        ("a loop at the start", with_fields(start), Refused("instantiate: ")),
        (
            "a loop in tick",
            guest(Guest { tick: forever(), fields: ticking.clone(), ..fifo() }),
            Leaves("fuel", "tick: "),
        ),
        (
            "a trap in tick",
            guest(Guest { tick: "unreachable".into(), fields: ticking, ..fifo() }),
            Leaves("trap", "tick: "),
        ),
        ("a loop in drain-order", guest(Guest { drain_order: never(), ..fifo() }), Serves),
        (
            "a loop in snapshot",
            guest(Guest { snapshot: never(), state_schema: 7, ..fifo() }),
            Serves,
        ),
        (
            "a trap in snapshot",
            guest(Guest { snapshot: "unreachable".into(), state_schema: 8, ..fifo() }),
            Serves,
        ),
        (
            "an order that never ends",
            guest(Guest { drain_order: list_of(256, 1), ..fifo() }),
            Serves,
        ),
        ("another hook", guest(Guest { hook: 3, ..fifo() }), Refused("")),
        (
            "a claim of 1 MiB a slot",
            guest(Guest { bytes_per_slot: 1 << 20, ..fifo() }),
            Refused("slots of 1048576 bytes"),
        ),
        ("a refusal", refusing("no", 2), Refused("init: no")),
        (
            "escape sequences",
            refusing("\\1b[2J\\1b]0;owned\\07", 15),
            Refused("init:  [2J ]0;owned"),
        ),
        ("a reason that is no text", refusing("\\ff\\fe\\fd", 3), Refused("init: ")),
        ("a reason outside of memory", refusing("", 1 << 30), Refused("init: ")),
        ("half of a component", truncated, Refused("")),
    ]
}

fn in_calls() -> Vec<(&'static str, Vec<u8>, End)> {
    let grow = "loop $more (drop (memory.grow (i32.const 64))) br $more end";
    let touch = "(drop (i32.load (i32.const 0x7fffffff)))";
    let fill = "loop $more (memory.fill (i32.const 65536) (i32.const 1) (i32.const 60000))
                        br $more end";
    vec![
        ("a trap", late("unreachable"), Leaves("trap", "unreachable")),
        (
            "a division by zero",
            late("(drop (i32.div_u (i32.const 1) (call $zero)))"),
            Leaves("trap", "divide by zero"),
        ),
        ("a load outside of memory", late(touch), Leaves("trap", "out of bounds")),
        (
            "a call through an empty table",
            late("(call_indirect $none (type $nothing) (call $zero))"),
            Leaves("trap", ""),
        ),
        ("recursion", late("(drop (call $deep (i64.const 1)))"), Leaves("trap", "stack")),
        ("memory without end", late(grow), Leaves("out-of-memory", "the most is 67108864")),
        ("a loop that comes late", late(FOREVER), Leaves("fuel", "apply: ")),
        ("filling memory for ever", late(fill), Leaves("fuel", "apply: ")),
        (
            "no victims",
            guest(Guest { apply: EMPTY_LIST.into(), ..Guest::default() }),
            Leaves("shortfall", ""),
        ),
        (
            "a slot that is never there",
            guest(Guest { apply: in_call_list(99_999_999), ..Guest::default() }),
            Leaves("invalid-victims", ""),
        ),
        (
            "the same slot again and again",
            guest(Guest { apply: in_call_list(3), ..Guest::default() }),
            Leaves("invalid-victims", ""),
        ),
        ("more victims than were wanted", lister_of(1000), Refused("returned 1000 slots")),
        ("a million victims", big(1_000_000), Refused("result-too-large")),
        ("a list at the end of memory", list_at(0xFFFF_FFF0, 4), Refused("trap")),
        ("a list of 2^30", list_at(0, 0x3FFF_FFFF), Refused("trap")),
        ("a list at an odd address", list_at(2, 1), Refused("trap")),
    ]
}

/// As many victims as were wanted, all the same.
fn in_call_list(slot: u32) -> String {
    format!(
        "(local $i i32)
         (block $done (loop $next
           (br_if $done (i32.ge_u (local.get $i) (local.get 4)))
           (i32.store (i32.add (i32.const 512) (i32.shl (local.get $i) (i32.const 2)))
                      (i32.const {slot}))
           (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br $next)))
         (i32.store (i32.const 264) (i32.const 512))
         (i32.store (i32.const 268) (local.get 4))
         i32.const 264"
    )
}

fn lister_of(count: u32) -> Vec<u8> {
    guest(Guest { apply: list_of(count, 0), ..Guest::default() })
}

fn big(length: u32) -> Vec<u8> {
    let apply = format!(
        "(i32.store (i32.const 264) (i32.const 0))
         (i32.store (i32.const 268) (i32.const {length})) i32.const 264"
    );
    guest(Guest { apply, pages: 100, ..Guest::default() })
}

fn in_files() -> Vec<(&'static str, Vec<u8>, End)> {
    let lifecycle = "tidegate:policy/lifecycle@0.1.0";
    let nested = |count: usize| {
        let instances = "(core instance (instantiate $m))".repeat(count);
        text(&format!("(component (core module $m) {instances})"))
    };
    let targets = format!(
        "(func $wide (param i32) (block $b (br_table {} (local.get 0))))",
        "$b ".repeat(20_000)
    );
    let long = format!("(func $long {})", "(drop (i32.const 1))".repeat(30_000));
    vec![
        ("nothing", Vec::new(), Refused("this is not WebAssembly")),
        ("a text", b"SELECT 1".to_vec(), Refused("this is not WebAssembly")),
        ("a core module", Guest::default().module(), Refused("not a component")),
        ("too many bytes", vec![0; POLICY_COMPONENT_BYTES_MAX + 1], Refused("the most is 1048576")),
        (
            "5,001 functions",
            with_fields("(func)".repeat(5_001)),
            Refused("more than 5000 functions"),
        ),
        ("one long function", with_fields(long), Refused("the most is 65536")),
        ("20,000 branch targets", with_fields(targets), Serves),
        ("4 G elements of a table", with_fields("(table 4000000000 funcref)".into()), Refused("")),
        ("65 MiB of memory", guest(Guest { pages: 1025, ..Guest::default() }), Refused("")),
        ("a second memory", with_fields("(memory 1)".into()), Refused("")),
        ("2,000 instances", nested(2_000), Refused("")),
        ("500 instances", nested(500), Refused("")),
        ("no exports", text("(component)"), Refused("exports nothing")),
        (
            "another decision",
            exporting(&[lifecycle, "tidegate:policy/tides@0.1.0"]),
            Refused("but not"),
        ),
        (
            "a choice of merges with nothing behind it",
            exporting(&[lifecycle, "tidegate:policy/compaction@0.1.0"]),
            Refused("init"),
        ),
        (
            "a later contract",
            exporting(&[lifecycle, "tidegate:policy/eviction@0.2.0"]),
            Refused("serves version 0.1.0"),
        ),
        (
            "names with nothing behind them",
            exporting(&[lifecycle, "tidegate:policy/eviction@0.1.0"]),
            Refused("init"),
        ),
        (
            "a clock",
            text("(component (import \"wasi:clocks/monotonic-clock@0.2.0\" (instance)))"),
            Refused("which no policy may"),
        ),
        (
            "a file system",
            text("(component (import \"wasi:filesystem/types@0.2.0\" (instance)))"),
            Refused("which no policy may"),
        ),
    ]
}

async fn is_refused(life: &Life, policy: &str, bytes: Vec<u8>) -> Option<String> {
    let database = &life.database;
    if let Err(error) = database.create_policy(policy, bytes, vec![], None).await {
        return Some(error.to_string());
    }
    let error = database.set_cache_policy(Some(policy)).await.err()?;
    database.drop_policy(policy, false).await.unwrap();
    Some(error.to_string())
}

async fn meet(life: &Life, number: usize, (name, bytes, end): (&str, Vec<u8>, End)) {
    let database = &life.database;
    let policy = format!("bad{number}");
    let mut random = Random::new(number as u64);
    let refused = is_refused(life, &policy, bytes).await;
    let is_refused = refused.is_some();
    match (&end, refused) {
        (Refused(part), Some(error)) => {
            assert!(error.contains(part), "{name}: {error}");
            assert!(error.contains(&policy), "{name}: {error}");
            assert!(!error.contains('\u{1b}'), "{name}: {error:?}");
        }
        (Refused(_), None) => panic!("{name} was taken"),
        (_, Some(error)) => panic!("{name}: {error}"),
        (_, None) => {
            life.read_some(&mut random, 1000).await;
            life.sleep(Duration::from_millis(120)).await;
        }
    }
    let exits = database.policy_exits().await.unwrap();
    let exit = exits.iter().find(|exit| exit.policy == policy);
    match (&end, exit) {
        (Leaves(kind, part), Some(exit)) => {
            assert_eq!(&exit.kind, kind, "{name}: {}", exit.message);
            assert!(exit.message.contains(part), "{name}: {}", exit.message);
        }
        (Leaves(..), None) => panic!("{name} still governs"),
        // Refused while it was shown the residents, it left a record too.
        (Refused(_), _) | (Serves, None) => {}
        (Serves, Some(exit)) => panic!("{name}: {} {}", exit.kind, exit.message),
    }
    if !is_refused {
        // Whatever it does when it is asked for its order and its state, the next one governs.
        database.set_cache_policy(Some("lru")).await.unwrap();
        database.drop_policy(&policy, false).await.unwrap();
    }
    assert_eq!(life.state("lru").await, "active", "{name}");
    life.read_some(&mut random, 20).await;
}

fn meet_all(cases: Vec<(&'static str, Vec<u8>, End)>) {
    World::new().live(async |life| {
        life.fill().await;
        for (number, case) in cases.into_iter().enumerate() {
            meet(&life, number, case).await;
        }
    });
}

#[test]
fn guests_that_are_wrong_in_one_export_are_survived() {
    meet_all(in_exports());
}

#[test]
fn guests_that_fail_while_they_govern_are_survived() {
    meet_all(in_calls());
}

#[test]
fn files_that_are_no_policies_are_survived() {
    meet_all(in_files());
}
