//! Miss ratios on recorded traces against libCacheSim 0.3.5 (unit sizes, one event per delivery,
//! one victim at a time), which is an independent implementation of the same policies.
//!
//! `TIDEGATE_TRACES` names the folder of `NAME.u32.zst` files; without it nothing is compared, and
//! the test says so.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tidegate_plugin::{Driver, EvictionPolicy, Outcome, Replay, Setup, replay};
use tidegate_policy_lru::Lru;
use tidegate_policy_sieve::Sieve;

/// Trace, entries of the cache, miss ratio of LRU and of SIEVE, rounded to four digits.
const EXPECTED: [(&str, u32, f64, f64); 11] = [
    ("OLTP", 187, 0.8623, 0.9090),
    ("OLTP", 1869, 0.5836, 0.5970),
    ("OLTP", 18688, 0.3348, 0.3334),
    ("orm-busy", 76, 0.4981, 0.5981),
    ("orm-busy", 763, 0.2297, 0.2947),
    ("orm-busy", 7635, 0.1199, 0.1189),
    ("web12", 138, 0.6021, 0.5965),
    ("web12", 1376, 0.3151, 0.2832),
    ("web07", 20, 0.7868, 0.7787),
    ("web07", 205, 0.6083, 0.5780),
    ("web07", 2048, 0.4434, 0.4207),
];
const TOLERANCE: f64 = 0.0001;

#[test]
fn lru_and_sieve_miss_as_often_as_published() {
    let Some(folder) = std::env::var_os("TIDEGATE_TRACES").map(PathBuf::from) else {
        // Past the capture of the test harness, so that a skip is never mistaken for a pass.
        let note = b"SKIPPED miss ratios: set TIDEGATE_TRACES to the folder of the traces\n";
        std::io::stderr().write_all(note).expect("stderr");
        return;
    };
    let mut wrong = Vec::new();
    for name in ["OLTP", "orm-busy", "web12", "web07"] {
        let trace = read(&folder.join(format!("{name}.u32.zst")));
        for (_, entries, lru, sieve) in EXPECTED.iter().filter(|row| row.0 == name) {
            let figures = [
                ("lru", run::<Lru>(*entries, &trace), *lru),
                ("sieve", run::<Sieve>(*entries, &trace), *sieve),
            ];
            for (policy, outcome, expected) in figures {
                let found = outcome.miss_ratio();
                println!("{name} {entries} {policy}: {found:.4}, published {expected:.4}");
                if (found - expected).abs() > TOLERANCE || outcome.shortfalls > 0 {
                    wrong.push(format!("{name} {entries} {policy}: {found:.5} for {expected}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn run<P: EvictionPolicy>(entries: u32, trace: &[u32]) -> Outcome {
    let setup = Setup { params: Vec::new(), max_slots: entries, shard: 0, seed: 0 };
    let mut driver = Driver::<P>::new(&setup).expect("no parameters");
    let settings = Replay { entries, batch: 1, victims_ahead: 1 };
    replay(&mut driver, settings, trace.iter().copied())
}

fn read(path: &Path) -> Vec<u32> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(file.as_slice()).expect("zstd");
    decoder.read_to_end(&mut bytes).expect("a whole zstd stream");
    bytes.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect()
}
