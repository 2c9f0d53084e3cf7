//! What a refusal costs beside an answer, on the same way from the same client.

use std::time::Duration;

use tidegate_engine::{RowKey, SchemaRef};

use crate::client::{Closed, Rates, side_by_side};
use crate::frame::table::{clustering_key, partition_key};
use crate::frame::{Arguments, Row, Target, median};
use crate::world::{ROWS, World};

const IN_FLIGHT: usize = 64;
const REPEATS: usize = 3;
/// Before it the limit lets bursts through.
const WARM: Duration = Duration::from_millis(1500);

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    let (row, slice) = ("refused, beside one cached row", "refused, beside a slice of 100");
    if ![row, slice].iter().any(|name| arguments.wants(name)) {
        return;
    }
    let world = World::open(Some(1), 64 << 20);
    let free = world.table("free", 1, ROWS, None);
    let limited = world.table("limited", 1, ROWS, Some(1));
    let window = Duration::from_millis(arguments.scale(800, 3000) as u64);
    let measured = |client: &dyn Fn() -> Rates| -> Vec<Rates> {
        (0..arguments.scale(1, REPEATS)).map(|_| client()).collect()
    };
    let print = |name: &str, served: f64, refused: f64, bound: f64| {
        let (figure, baseline) = (refused / 1e3, Some(("served", served / 1e3)));
        let target = Target::RatioAtLeast(bound);
        Row { name, unit: "k/s", figure, baseline, target }.print(arguments);
    };
    let gets = |schema: &SchemaRef, warm| {
        side_by_side(
            (warm, window),
            &[&Closed::new(IN_FLIGHT, |number: u64| {
                let ck = clustering_key(schema, number as i64 % ROWS);
                let key = RowKey::from((partition_key(schema, 0), ck));
                let getting = world.database.get(schema, key);
                async move { getting.await.map(|row| usize::from(row.is_some())) }
            })],
        )[0]
    };
    let scans = |schema: &SchemaRef, warm| {
        let ask = |_: u64| world.read(schema, 0);
        side_by_side((warm, window), &[&Closed::new(IN_FLIGHT, ask)])[0]
    };
    let served = |all: Vec<Rates>| median(all.iter().map(|rates| rates.served).collect());
    let refused = |all: Vec<Rates>| median(all.iter().map(|rates| rates.refused).collect());
    let short = Duration::from_millis(200);
    if arguments.wants(row) {
        let ok = served(measured(&|| gets(&free, short)));
        print(row, ok, refused(measured(&|| gets(&limited, WARM))), 2.0);
    }
    if arguments.wants(slice) {
        let ok = served(measured(&|| scans(&free, short)));
        print(slice, ok, refused(measured(&|| scans(&limited, WARM))), 10.0);
    }
    world.close();
}
