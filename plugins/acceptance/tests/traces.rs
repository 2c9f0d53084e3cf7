//! Miss ratios on recorded traces against libCacheSim 0.3.5 (unit sizes, one event per delivery,
//! one victim at a time), which is an independent implementation of the same policies.
//!
//! `TIDEGATE_TRACES` names the folder of `NAME.u32.zst` files; without it nothing is compared, and
//! each test says so. With `--nocapture` the tests print all figures.

#[path = "../../../tests/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use acceptance::published::{BELADY, EXACT, GOALS, PUBLISHED};
use skip::skip;
use tidegate_plugin::{Driver, EvictionPolicy, Outcome, Replay, Setup, replay};
use tidegate_policy_arc::Arc;
use tidegate_policy_clock::Clock;
use tidegate_policy_fifo::Fifo;
use tidegate_policy_lhd::Lhd;
use tidegate_policy_lirs::Lirs;
use tidegate_policy_lru::Lru;
use tidegate_policy_s3_fifo::S3Fifo;
use tidegate_policy_sieve::Sieve;
use tidegate_policy_two_q::TwoQ;
use tidegate_policy_w_tinylfu::WTinyLfu;

/// How far the miss ratio may move for most policies when 32 victims are asked for at once.
const AHEAD: f64 = 0.001;

#[test]
fn lru() {
    check::<Lru>(AHEAD);
}

#[test]
fn fifo() {
    check::<Fifo>(AHEAD);
}

#[test]
fn clock() {
    check::<Clock>(AHEAD);
}

#[test]
fn sieve() {
    // Asked ahead, the hand runs before the hits that would have stopped it: up to 4.5 points less.
    check::<Sieve>(0.05);
}

#[test]
fn s3_fifo() {
    check::<S3Fifo>(AHEAD);
}

#[test]
fn two_q() {
    // Of 763 entries, 190 in the first queue, 32 at once are many.
    check::<TwoQ>(0.0015);
}

#[test]
fn arc() {
    check::<Arc>(AHEAD);
}

#[test]
fn w_tinylfu() {
    // Of 763 entries a window of 32 at least is a larger one: 1.6 points less.
    check::<WTinyLfu>(0.017);
}

#[test]
fn lirs() {
    // A hundredth of the cache is not high enough for 32 victims at once, so more of it is: up to 3.4
    // points less.
    check::<Lirs>(0.04);
}

#[test]
fn lhd() {
    check::<Lhd>(AHEAD);
}

/// Holds a policy to its goal; `most_ahead` is how far asking for 32 victims at once may move its miss
/// ratio.
fn check<P: EvictionPolicy>(most_ahead: f64) {
    let goal = GOALS.iter().find(|goal| goal.policy == P::NAME).expect("a goal for each policy");
    let Some(traces) = &*TRACES else {
        let reason = format!("TIDEGATE_TRACES names no folder for {}", P::NAME);
        return skip("recorded traces", &reason);
    };
    let mut wrong = Vec::new();
    for (name, entries, row) in &PUBLISHED {
        let (trace, entries) = (&traces[name], *entries);
        let outcome = run::<P>(trace, Replay { entries, batch: 1, victims_ahead: 1 });
        let (found, expected) = (outcome.miss_ratio(), (goal.expected)(row));
        let mut fail = |what: &str| {
            wrong.push(format!("{name} {entries}: {found:.5} for {expected:.4}: {what}"));
        };
        if found - expected > goal.tolerance {
            fail("too many misses");
        }
        if goal.two_sided && expected - found > goal.tolerance {
            fail("too few misses");
        }
        if found < row[BELADY] - EXACT {
            fail("fewer misses than the optimum");
        }
        if outcome.shortfalls > 0 {
            fail("a victim was not named");
        }
        for batch in [7, 256] {
            // A long trace says no more about batches than a short one.
            let trace = &trace[..trace.len().min(200_000)];
            let run = |batch| run::<P>(trace, Replay { entries, batch, victims_ahead: 1 });
            if run(batch) != run(1) {
                fail("batches change the victims");
            }
        }
        let victims_ahead = (entries / 4).min(32);
        let ahead = run::<P>(trace, Replay { entries, batch: 256, victims_ahead }).miss_ratio();
        // A small cache gives away a large share of itself at once: that says nothing.
        if entries >= 500 && (ahead - found).abs() > most_ahead {
            fail(&format!("{ahead:.5} when {victims_ahead} victims are asked for at once"));
        }
        println!("{} {name} {entries}: {found:.4} for {expected:.4}, ahead {ahead:.4}", P::NAME);
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", P::NAME);
}

fn run<P: EvictionPolicy>(trace: &[u32], settings: Replay) -> Outcome {
    let max_slots = settings.entries;
    let setup = Setup { params: Vec::new(), max_slots, shard: 0, seed: 1 };
    let mut driver = Driver::<P>::new(&setup).expect("no parameters");
    driver.policy_mut().resize(u64::from(max_slots), max_slots);
    replay(&mut driver, settings, trace.iter().copied())
}

/// The traces of the table by name; none without the folder.
static TRACES: LazyLock<Option<BTreeMap<&str, Vec<u32>>>> = LazyLock::new(|| {
    let folder = std::env::var_os("TIDEGATE_TRACES").map(PathBuf::from)?;
    let names = ["OLTP", "orm-busy", "web12", "web07"];
    Some(names.map(|name| (name, read(&folder.join(format!("{name}.u32.zst"))))).into())
});

fn read(path: &Path) -> Vec<u32> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(file.as_slice()).expect("zstd");
    decoder.read_to_end(&mut bytes).expect("a whole zstd stream");
    bytes.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect()
}
