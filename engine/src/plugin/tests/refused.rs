//! Bytes that are refused before or by the compiler, each with words that tell what is wrong.

use super::guest::Guest;
use super::*;
use crate::config::POLICY_COMPONENT_BYTES_MAX;
use crate::error::Error;

fn refusal(host: &PolicyHost, bytes: &[u8]) -> String {
    let error = host.compile("bad", bytes).expect_err("it must be refused");
    let Error::Policy { name, message } = error else { panic!("not a policy error: {error}") };
    assert_eq!(name, "bad");
    message
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[test]
fn what_is_no_component_is_refused_by_name() {
    let host = host();
    let cases: [(Vec<u8>, &str); 6] = [
        (Vec::new(), "this is not WebAssembly"),
        (b"\0as".to_vec(), "this is not WebAssembly"),
        (b"SELECT 1; -- no policy at all".to_vec(), "this is not WebAssembly"),
        (Guest::default().module(), "this is a core WebAssembly module, not a component"),
        (vec![0; POLICY_COMPONENT_BYTES_MAX + 1], "1048577 bytes, the most is 1048576"),
        (vec![0xA5; 2 << 20], "2097152 bytes, the most is 1048576"),
    ];
    for (bytes, expected) in cases {
        let message = refusal(&host, &bytes);
        assert!(message.starts_with(expected), "{message}");
    }
    assert_serves(&host);
}

#[test]
fn native_code_is_refused() {
    let host = host();
    let engine = load(&host, &dist("lru.wasm")).engine.clone();
    let native = engine.precompile_component(&Guest::default().component()).unwrap();
    assert_eq!(
        refusal(&host, &native),
        "this is native code; only WebAssembly components are accepted"
    );
}

#[test]
fn truncated_and_damaged_bytes_are_refused_or_harmless() {
    let host = host();
    let good = Guest::default().component();
    for length in (8..good.len()).step_by(97) {
        // A cut between two sections is a valid, smaller component; it lacks the exports.
        let message = refusal(&host, &good[..length]);
        assert!(
            message.starts_with("not a valid component") || message.starts_with("exports"),
            "{length}: {message}"
        );
    }
    let mut random = crate::clock::Random::new(3);
    for _ in 0..40 {
        let mut damaged = good.clone();
        let at = random.below(good.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        if let Ok(compiled) = host.compile("damaged", &damaged)
            && let Ok(mut policy) = WasmEvictionPolicy::new(compiled, options(8))
        {
            let _ended = victims(&mut policy, &[(Op::Insert, 1)], 1);
        }
    }
    assert_serves(&host);
}

#[test]
fn other_worlds_and_forbidden_imports_are_named() {
    let host = host();
    let exporting = |names: &[&str]| {
        let exports: Vec<String> =
            names.iter().map(|name| format!("(export \"{name}\" (instance $none))")).collect();
        component(&format!("(component (instance $none) {})", exports.join(" ")))
    };
    let lifecycle = "tidegate:policy/lifecycle@0.1.0";
    assert_eq!(
        refusal(&host, &component("(component)")),
        format!("exports nothing, so not {lifecycle}")
    );
    let unknown = "tidegate:policy/tides@0.1.0";
    assert_eq!(
        refusal(&host, &exporting(&[lifecycle, unknown])),
        format!(
            "exports {lifecycle}, {unknown} but not tidegate:policy/eviction@0.1.0 or \
             tidegate:policy/cache-admission@0.1.0 or tidegate:policy/rate-limiter@0.1.0 or \
             tidegate:policy/read-admission@0.1.0 or tidegate:policy/load-shedding@0.1.0 or \
             tidegate:policy/io-priority@0.1.0 or tidegate:policy/compaction@0.1.0"
        )
    );
    let both = ["tidegate:policy/eviction@0.1.0", "tidegate:policy/rate-limiter@0.1.0"];
    let message = refusal(&host, &exporting(&[lifecycle, both[0], both[1]]));
    assert_eq!(message, "decides on eviction and on rate-limiter; a component is of one world");
    assert_eq!(
        refusal(&host, &exporting(&[lifecycle, "tidegate:policy/eviction@0.2.0"])),
        "exports tidegate:policy/eviction@0.2.0, this engine serves version 0.1.0"
    );
    let message = refusal(&host, &exporting(&[lifecycle, "tidegate:policy/eviction@0.1.0"]));
    assert!(message.contains("init"), "right names, nothing behind them: {message}");

    // An empty instance would link; it is refused by its name.
    for import in ["wasi:clocks/monotonic-clock@0.2.0", "wasi:cli/environment@0.2.0"] {
        let bytes = component(&format!("(component (import \"{import}\" (instance)))"));
        let message = refusal(&host, &bytes);
        assert!(message.starts_with(&format!("imports {import}, which no policy may")));
    }
    let wrong_type = "(component (import \"tidegate:policy/host@0.1.0\"
        (instance (export \"now\" (func (result u64))))))";
    let message = refusal(&host, &component(wrong_type));
    assert!(message.starts_with("exports nothing"), "{message}");
    assert_serves(&host);
}

#[test]
fn compile_bombs_are_cut_before_the_compiler() {
    let host = host();
    let bodies = "(func)".repeat(5_001);
    let guest = Guest { fields: bodies, ..Guest::default() };
    assert_eq!(refusal(&host, &guest.component()), "more than 5000 functions");
    let long = format!("(func $long {})", "(drop (i32.const 1))".repeat(30_000));
    let guest = Guest { fields: long, ..Guest::default() };
    let message = refusal(&host, &guest.component());
    assert!(message.contains("the most is 65536"), "{message}");
}

#[test]
fn more_memory_than_the_cap_is_refused_at_load() {
    let host = host();
    let bytes = Guest { pages: 1025, ..Guest::default() }.component();
    let refused = host.compile("big", &bytes).is_err();
    let failed = refused || WasmEvictionPolicy::new(load(&host, &bytes), options(8)).is_err();
    assert!(failed, "64 MiB and a page");
    assert_serves(&host);
}
