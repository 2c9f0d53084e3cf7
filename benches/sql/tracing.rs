//! What traces add to a statement.

use crate::frame::{Arguments, Row, Target, cpu_timed, median};
use crate::world::World;

/// Short ones: the machine changes its speed, and a round compares what it measured side by side.
/// So many that the median of their ratios differs by less than half a hundredth from run to run.
const ROUNDS: usize = 150;
const MODES: [&str; 3] = ["OFF", "COMPACT", "ON"];
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1], [1, 2, 0], [2, 1, 0]];
/// Statements that run before those of a mode are measured. The journal keeps the last 64 traces,
/// and each new one frees the oldest: those that `ON` left are not to be freed at the cost of
/// `COMPACT`.
const WARM: usize = 100;
const PARTITIONS: usize = 2_000;
const ROWS_PER_PARTITION: usize = 100;

/// What is run: a name, the columns and conditions of a SELECT, how many a round.
const STATEMENTS: [(&str, &str, usize); 2] = [
    ("a slice of 100 rows", "SELECT ck, v FROM t WHERE pk = ", 400),
    ("a point read", "SELECT v FROM t WHERE ck = 7 AND pk = ", 1_000),
];

async fn cpu_us(world: &World, text: &str, count: usize) -> f64 {
    let run = async {
        for number in 0..count {
            world.run(&format!("{text}{}", number % PARTITIONS)).await;
        }
    };
    let ((), cpu) = cpu_timed(run).await;
    cpu.as_secs_f64() * 1e6 / count as f64
}

pub async fn print(arguments: &Arguments) {
    let name_of = |mode: &str, what: &str| format!("tracing {mode}: {what}");
    let names = STATEMENTS.map(|(what, ..)| ["COMPACT", "ON"].map(|mode| name_of(mode, what)));
    if !names.as_flattened().iter().any(|name| arguments.wants(name)) {
        return;
    }
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    let fill = format!(
        "INSERT INTO t SELECT g / {ROWS_PER_PARTITION}, g % {ROWS_PER_PARTITION}, repeat('v', 100) \
         FROM generate_series(0, {}) AS s(g)",
        PARTITIONS * ROWS_PER_PARTITION - 1
    );
    world.run(&fill).await;
    world.run("FLUSH").await;
    world.run("SELECT count(v) FROM t").await;
    for (what, text, count) in STATEMENTS {
        let rounds = if arguments.quick { ROUNDS / 3 } else { ROUNDS };
        let (mut off, mut ratios) = (Vec::new(), [Vec::new(), Vec::new()]);
        for round in 0..rounds {
            let mut figures = [0.0; 3];
            // Each mode is measured behind each other one equally often.
            for at in ORDERS[round % ORDERS.len()] {
                world.run(&format!("TRACING {}", MODES[at])).await;
                cpu_us(&world, text, WARM).await;
                figures[at] = cpu_us(&world, text, count).await;
            }
            off.push(figures[0]);
            ratios[0].push(figures[1] / figures[0]);
            ratios[1].push(figures[2] / figures[0]);
        }
        world.run("TRACING OFF").await;
        let off = median(off);
        let [compact, on] = ratios.map(median);
        for (mode, ratio, bound) in [("COMPACT", compact, 1.03), ("ON", on, 1.5)] {
            let figure = off * ratio;
            let (name, baseline) = (name_of(mode, what), Some(("tracing off", off)));
            let target = Target::RatioAtMost(bound);
            Row { name: &name, unit: "CPU us", figure, baseline, target }.print(arguments);
        }
    }
    world.close().await;
}
