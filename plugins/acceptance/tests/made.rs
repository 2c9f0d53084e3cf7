//! Miss ratios on made-up loops, scans and mixtures against libCacheSim 0.3.5, and how far they move
//! when 32 victims are asked for at once. Recorded traces (`traces.rs`) have no loops, where a policy
//! can be wrong by much.

use acceptance::made::{MADE, made};
use acceptance::published::{EXACT, GOALS};
use tidegate_plugin::{Driver, EvictionPolicy, Replay, Setup, replay};
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

/// Entries from which on victims asked for at once are a small share of the cache.
const ENTRIES_MIN: u32 = 500;

#[test]
fn lru() {
    check::<Lru>(EXACT, 0.0005);
}

#[test]
fn fifo() {
    check::<Fifo>(EXACT, 0.0005);
}

#[test]
fn clock() {
    check::<Clock>(EXACT, 0.001);
}

#[test]
fn sieve() {
    // What is popular changes, and the hand has gone by: 8.2 points fewer misses.
    check::<Sieve>(EXACT, 0.085);
}

#[test]
fn s3_fifo() {
    // Of a loop, whole stretches leave the first queue before they can return to the second.
    check::<S3Fifo>(0.003, 0.125);
}

#[test]
fn two_q() {
    check::<TwoQ>(0.003, 0.055);
}

#[test]
fn arc() {
    // The target between its lists follows who returned, which 32 at once are told of late.
    check::<Arc>(0.003, 0.075);
}

#[test]
fn lirs() {
    // A loop beside what is popular: 0.84 points fewer misses than there.
    check::<Lirs>(0.01, 0.025);
}

#[test]
fn lhd() {
    check::<Lhd>(0.01, 0.055);
}

#[test]
fn w_tinylfu() {
    // A window that is looked for costs; on loops each entry of it is one that cannot stay.
    check::<WTinyLfu>(0.025, 0.02);
}

/// Holds a policy to its goal on every made-up trace: `most` is how far its miss ratio may be from what
/// is expected, `most_ahead` how far asking for 32 victims at once may move it.
fn check<P: EvictionPolicy>(most: f64, most_ahead: f64) {
    let goal = GOALS.iter().find(|goal| goal.policy == P::NAME).expect("a goal for each policy");
    let mut wrong = Vec::new();
    for (name, entries, row) in &MADE {
        let (trace, entries) = (made(name), *entries);
        let misses = |victims_ahead| {
            let setup = Setup { params: Vec::new(), max_slots: entries, shard: 0, seed: 1 };
            let mut driver = Driver::<P>::new(&setup).expect("no parameters");
            driver.policy_mut().resize(u64::from(entries), entries);
            let settings = Replay { entries, batch: 256, victims_ahead };
            let outcome = replay(&mut driver, settings, trace.iter().copied());
            assert_eq!(outcome.shortfalls, 0, "{} {name}: a victim was not named", P::NAME);
            outcome.miss_ratio()
        };
        let (found, expected) = (misses(1), (goal.expected)(row));
        let is_off = found - expected > most || goal.two_sided && expected - found > most;
        if is_off {
            wrong.push(format!("{name}, {entries}: {found:.5} for {expected:.4}"));
        }
        let ahead = misses((entries / 4).min(32));
        if entries >= ENTRIES_MIN && (ahead - found).abs() > most_ahead {
            wrong.push(format!("{name}, {entries}: {found:.5}, 32 ahead {ahead:.5}"));
        }
        println!("{} {name} {entries}: {found:.4} for {expected:.4}, ahead {ahead:.4}", P::NAME);
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", P::NAME);
}
