//! One partition that is asked too much: what is left for others, and what its limit lets through.

use std::future::ready;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::output::plot::{Chart, Curve, Scale};
use tidegate_engine::Error;

use crate::client::{Closed, Rates, side_by_side, spread};
use crate::frame::{Arguments, Row, Target, median_ratio};
use crate::world::{ROWS, World, picture};

/// Partitions that are read evenly.
const PARTITIONS: i64 = 2000;
const IN_FLIGHT: usize = 16;
/// The hot client has so many times the reads in flight, of so many times the rows.
const HOT_IN_FLIGHT: usize = 8 * IN_FLIGHT;
const HOT_ROWS: i64 = 10 * ROWS;
/// A client that was refused asks again after a moment: otherwise it has a core for itself.
const PAUSE: Duration = Duration::from_millis(20);
const ROUNDS: usize = 5;
/// How long a limit takes until a burst at its start is forgotten.
const SETTLED: Duration = Duration::from_secs(3);

/// Limits, and the partitions that have each: enough that chance is small.
const LIMITS: [(u32, i64); 3] = [(10, 32), (200, 4), (5000, 1)];

fn print_neighbours(arguments: &Arguments) {
    let (hammered, limited) =
        ("even reads beside a hot partition", "the same, limited to 10 reads a second");
    if !arguments.wants(hammered) && !arguments.wants(limited) {
        return;
    }
    let world = World::open(None, 128 << 20);
    let even = world.table("even", PARTITIONS, ROWS, None);
    let free = world.table("hot", 1, HOT_ROWS, None);
    let held = world.table("limited", 1, HOT_ROWS, Some(10));
    let uniform = Closed::new(IN_FLIGHT, |number| world.read(&even, spread(number, PARTITIONS)));
    let asked = &world;
    let hot = |schema, in_flight| {
        let ask = move |_: u64| asked.read(schema, 0);
        Closed { in_flight, pause: PAUSE, ask }
    };
    let (on_free, on_held) = (hot(&free, HOT_IN_FLIGHT), hot(&held, HOT_IN_FLIGHT));
    // What the hot client itself takes of two cores is no fault of the engine.
    let idle = |in_flight| {
        let ask = |_: u64| {
            let table = "nobody".into();
            ready(Err(Error::RateLimited { table, operation: "read", limit: 10 }))
        };
        Closed { in_flight, pause: PAUSE, ask }
    };
    let on_nothing = idle(HOT_IN_FLIGHT);
    let window = Duration::from_millis(arguments.scale(1000, 3000) as u64);
    let (short, long) = (Duration::from_millis(300), Duration::from_millis(1500));
    let (mut hammered_by, mut limited_by) = (Vec::new(), Vec::new());
    for _ in 0..arguments.scale(1, ROUNDS) {
        let alone = side_by_side((short, window), &[&uniform]);
        let beside = side_by_side((short, window), &[&uniform, &on_free]);
        let limited = side_by_side((long, window), &[&uniform, &on_held]);
        let beside_nothing = side_by_side((short, window), &[&uniform, &on_nothing]);
        let alone = alone[0].served / 1e3;
        hammered_by.push((beside[0].served / 1e3, alone));
        limited_by.push((limited[0].served / 1e3, beside_nothing[0].served / 1e3));
    }
    for (name, pairs, what, target) in [
        (hammered, hammered_by, "alone", Target::RatioAtMost(0.5)),
        (limited, limited_by, "beside a client that asks nothing", Target::RatioAtLeast(0.95)),
    ] {
        let (figure, baseline) = median_ratio(pairs);
        let baseline = Some((what, baseline));
        Row { name, unit: "k/s", figure, baseline, target }.print(arguments);
    }
    if let Some(path) = picture("hot-partition.svg") {
        draw(path, |in_flight, is_limited| {
            let hammering = hot(if is_limited { &held } else { &free }, in_flight);
            let nothing = idle(in_flight);
            let beside = side_by_side((long, window), &[&uniform, &hammering])[0].served;
            beside / side_by_side((short, window), &[&uniform, &nothing])[0].served
        });
    }
    world.close();
}

/// Even reads against reads in flight on the hot partition, with its limit and without.
fn draw(path: PathBuf, hammer: impl Fn(usize, bool) -> f64) {
    let loads = [0.5, 1.0, 2.0, 4.0, 8.0];
    let curve = |name: &str, is_limited| {
        let of =
            |times: f64| (times * 100.0, hammer((times * IN_FLIGHT as f64) as usize, is_limited));
        Curve { name: name.into(), points: loads.map(of).to_vec() }
    };
    let chart = Chart {
        title: "Even reads, of those beside a client that asks nothing".into(),
        unit: "reads in flight on one hot partition, % of the even ones".into(),
        scale: Scale::Logarithmic,
        curves: vec![curve("limit of 10 reads a second", true), curve("no limit", false)],
        events: Vec::new(),
    };
    std::fs::write(path, chart.svg()).unwrap();
}

fn print_accepted(arguments: &Arguments) {
    let name = |limit: u32| format!("hot partition, accepted a second, limit {limit}");
    if !LIMITS.iter().any(|(limit, _)| arguments.wants(&name(*limit))) {
        return;
    }
    let world = World::open(Some(1), 64 << 20);
    for (limit, partitions) in LIMITS {
        let name = name(limit);
        if !arguments.wants(&name) {
            continue;
        }
        let schema = world.table(&format!("limit_{limit}"), partitions, 1, Some(limit));
        let client =
            Closed::new(IN_FLIGHT, |number| world.read(&schema, number as i64 % partitions));
        let window = Duration::from_secs(arguments.scale(2, 10) as u64);
        let Rates { served, .. } = side_by_side((SETTLED, window), &[&client])[0];
        let figure = served / partitions as f64;
        let baseline = Some(("the limit", f64::from(limit)));
        let target = Target::RatioWithin(0.9, 1.1);
        Row { name: &name, unit: "reads/s", figure, baseline, target }.print(arguments);
    }
    world.close();
}

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    print_neighbours(arguments);
    print_accepted(arguments);
}
