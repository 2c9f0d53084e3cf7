//! Who gets how much of a disk that is wanted by more than it can serve.

use tidegate_engine::config::IO_IN_DISK_MAX;
use tidegate_engine::io::{Class, Kind};

use super::disk::{Bench, Load, PAGE, Pace, Place, Played, SHORT_DEPTH, set_shares};
use super::frame::{Arguments, Row, Target, median};

const FOUR_TO_ONE: &str = "two classes 4:1, off by";
const IDLE: &str = "a class of one share while others idle";
const LONE: &str = "one shard of eight, one read at a time";
/// Shards that share the disk where one has requests.
const SHARDS: u32 = 8;

pub fn is_wanted(arguments: &Arguments) -> bool {
    [FOUR_TO_ONE, IDLE, LONE].iter().any(|name| arguments.wants(name))
}

fn page_reads(class: Class, depth: usize) -> Load {
    let (kind, place, pace) = (Kind::Read, Place::Random, Pace::Closed(depth));
    Load { class, kind, bytes: PAGE, place, pace }
}

/// Disk-seconds of one class for each of another with a quarter of its shares.
async fn four_to_one(bench: &Bench) -> f64 {
    let queue = bench.queue(1);
    let classes = [Class::Query, Class::Maintenance];
    set_shares(&queue, classes[0], 400);
    set_shares(&queue, classes[1], 100);
    // Each class alone fills the disk, so both always have requests that wait.
    bench.play(Some(&queue), &classes.map(|class| page_reads(class, IO_IN_DISK_MAX))).await;
    let [more, less] = classes.map(|class| queue.stats()[class.index()].disk_seconds);
    more / less
}

pub async fn print(arguments: &Arguments, bench: &Bench) {
    if arguments.wants(FOUR_TO_ONE) {
        let mut ratios = Vec::new();
        for _ in 0..bench.rounds {
            ratios.push(four_to_one(bench).await);
        }
        Row {
            name: FOUR_TO_ONE,
            unit: "%",
            figure: (median(ratios) / 4.0 - 1.0).abs() * 100.0,
            baseline: None,
            target: Target::AtMost(5.0),
        }
        .print(arguments);
    }
    for (name, shards, class, shares, depth) in
        [(IDLE, 1, Class::Compaction, 1, SHORT_DEPTH), (LONE, SHARDS, Class::Query, 1000, 1)]
    {
        if !arguments.wants(name) {
            continue;
        }
        let load = [page_reads(class, depth)];
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..bench.rounds {
            let rate = |played: Vec<Played>| played[0].per_second() / 1e3;
            rates[0].push(rate(bench.play(None, &load).await));
            let queue = bench.queue(shards);
            set_shares(&queue, class, shares);
            rates[1].push(rate(bench.play(Some(&queue), &load).await));
        }
        let [bare, scheduled] = rates.map(median);
        Row {
            name,
            unit: "k/s",
            figure: scheduled,
            baseline: Some(("unscheduled", bare)),
            target: Target::RatioAtLeast(0.95),
        }
        .print(arguments);
    }
}
