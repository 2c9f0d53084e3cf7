//! Answers in time against reads that are asked for, with the deadline told to the engine and
//! without.

use std::time::Duration;

use tidegate::output::plot::{Chart, Curve, Scale};
use tidegate_engine::{Deadline, LevelId, SchemaRef};

use crate::client::{Closed, offer, side_by_side, spread};
use crate::frame::{Arguments, Row, Target, median_ratio};
use crate::world::{World, picture};

const PARTITIONS: i64 = 100;
/// A read takes some hundred µs, so that a client on another core can ask for ten times too much.
const ROWS: i64 = 2000;
/// Behind it an answer is worth nothing.
const WITHIN: Duration = Duration::from_millis(10);
/// Offered load, in parts of what the shard can do; the first ones look for the peak.
const LOADS: [f64; 8] = [0.5, 0.7, 0.8, 0.9, 1.2, 2.0, 5.0, 10.0];
const QUICK_LOADS: [f64; 4] = [0.8, 2.0, 5.0, 10.0];
/// How often a load beyond the peak is offered, each time beside that of the peak: the best of many
/// noisy figures is too good, and a machine is not as fast a minute later.
const ROUNDS: usize = 5;
/// Without a deadline a queue grows for as long as the load lasts, and is worked off behind it.
const UNDEFENDED_MAX: f64 = 5.0;

struct Load {
    world: World,
    schema: SchemaRef,
    length: Duration,
}

impl Load {
    fn open(arguments: &Arguments) -> Self {
        let world = World::open(Some(1), 128 << 20);
        let schema = world.table("t", PARTITIONS, ROWS, None);
        let length = Duration::from_millis(arguments.scale(1000, 3000) as u64);
        Load { world, schema, length }
    }

    /// Reads a second that are answered while some wait, and none for long.
    fn capacity(&self) -> f64 {
        let ask = |number| self.world.read(&self.schema, spread(number, PARTITIONS));
        let times = (Duration::from_millis(300), self.length);
        side_by_side(times, &[&Closed::new(8, ask)])[0].served
    }

    /// Answers a second that came in time.
    fn goodput(&self, per_second: f64, is_told: bool) -> f64 {
        let clock = self.world.database.clock();
        let ask = |number| {
            let deadline = is_told.then(|| Deadline::after(WITHIN, &**clock));
            let terms = (LevelId::DEFAULT, deadline);
            self.world.read_within(&self.schema, spread(number, PARTITIONS), terms)
        };
        let answers = offer(per_second, (self.length, 5), ask);
        let in_time = |ms: f64| ms <= WITHIN.as_secs_f64() * 1e3;
        let good = answers.iter().filter(|answer| answer.is_served && in_time(answer.ms));
        good.count() as f64 / self.length.as_secs_f64()
    }
}

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    let name = |load: f64| format!("goodput at {load} x the load, 10 ms");
    let loads = if arguments.quick { &QUICK_LOADS[..] } else { &LOADS };
    let is_hard = |times: &f64| *times >= 2.0 && arguments.wants(&name(*times));
    let hard: Vec<f64> = loads.iter().copied().filter(is_hard).collect();
    let picture = picture("goodput.svg");
    if picture.is_none() && hard.is_empty() {
        return;
    }
    let load = Load::open(arguments);
    let capacity = load.capacity();
    let measured = |is_told| {
        let loads = loads.iter().copied().filter(|load| is_told || *load <= UNDEFENDED_MAX);
        loads.map(|times| (times, load.goodput(times * capacity, is_told))).collect()
    };
    let told: Vec<(f64, f64)> = measured(true);
    let untold: Vec<(f64, f64)> = match picture {
        Some(_) => measured(false),
        None => Vec::new(),
    };
    let most = told.iter().copied().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let (peak_load, peak) = most.expect("there are loads");
    for times in hard {
        let beside = |_| {
            let goodput = |times: f64| load.goodput(times * capacity, true);
            (goodput(times), goodput(peak_load))
        };
        let rounds = arguments.scale(1, ROUNDS);
        let (figure, beside) = median_ratio((0..rounds).map(beside).collect());
        let (name, baseline) = (name(times), Some(("at the load of the peak", beside)));
        let target = Target::RatioAtLeast(0.95);
        Row { name: &name, unit: "reads/s", figure, baseline, target }.print(arguments);
    }
    if let Some(path) = picture {
        let curve = |name: &str, points: Vec<(f64, f64)>| Curve {
            name: name.into(),
            points: points.iter().map(|(times, good)| (times * 100.0, good / peak)).collect(),
        };
        let chart = Chart {
            title: "Answers within 10 ms, of the most that there were".into(),
            unit: "% of what the shard can do, offered".into(),
            scale: Scale::Logarithmic,
            curves: vec![curve("deadline told", told), curve("not told", untold)],
            events: Vec::new(),
        };
        std::fs::write(path, chart.svg()).unwrap();
    }
    load.world.close();
}
