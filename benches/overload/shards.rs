//! One shard that has too much to do, and what is left to the other.
//!
//! Clients live on the shard that they ask: so a shard and its clients have a core for themselves,
//! and what one shard takes from the other is what they share.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tidegate_engine::database::Shard;
use tidegate_engine::{Database, SchemaRef};

use crate::client::{Closed, Counts, rates, spread};
use crate::frame::table::partition_key;
use crate::frame::{Arguments, Row, Target, median};
use crate::world::{ROWS, World, command, rows_of};

const PARTITIONS: i64 = 2000;
const IN_FLIGHT: usize = 16;
const HOT_IN_FLIGHT: usize = 128;
const ROUNDS: usize = 5;

/// Reads of partitions of one shard.
struct Load {
    schema: SchemaRef,
    keys: Vec<i64>,
    in_flight: usize,
}

impl Load {
    /// Keeps asking on the shard until told to stop.
    fn run(
        &self,
        database: &Database,
        (counts, stop): (Arc<[Counts; 2]>, Arc<AtomicBool>),
        at: usize,
    ) {
        let route = partition_key(&self.schema, self.keys[0]);
        let (asked, schema, keys) = (database.clone(), self.schema.clone(), self.keys.clone());
        let in_flight = self.in_flight;
        let work = move |_: Rc<Shard>| {
            async move {
                let ask = |number| {
                    let pk = keys[spread(number, keys.len() as i64) as usize];
                    rows_of(asked.read(command(&schema, pk)))
                };
                let client = Closed::new(in_flight, ask);
                let place = |place: usize| client.keep_asking(place as u64, &counts[at], &stop);
                let mut places: FuturesUnordered<_> = (0..in_flight).map(place).collect();
                while places.next().await.is_some() {}
            }
            .boxed_local()
        };
        block_on(database.on_shard(&route, work)).unwrap();
    }
}

/// Reads a second of the first load, in thousands, beside the others.
fn measure(database: &Database, loads: &[&Load], times: (Duration, Duration)) -> f64 {
    let (counts, stop) = (Arc::<[Counts; 2]>::default(), Arc::<AtomicBool>::default());
    thread::scope(|scope| {
        for (at, load) in loads.iter().enumerate() {
            let shared = (counts.clone(), stop.clone());
            scope.spawn(move || load.run(database, shared, at));
        }
        let rates = rates(&*counts, times);
        stop.store(true, Relaxed);
        rates[0].served / 1e3
    })
}

/// Runs the row if it is wanted.
pub fn print(arguments: &Arguments) {
    let name = "a shard beside a hot one";
    if !arguments.wants(name) {
        return;
    }
    let world = World::open(Some(2), 128 << 20);
    let even = world.table("even", PARTITIONS, ROWS, None);
    let hot = world.table("hot", 16, 10 * ROWS, None);
    let of = |schema: &SchemaRef, partitions: i64, shard: u32| -> Vec<i64> {
        let is_there = |pk: &i64| world.database.shard_of(&partition_key(schema, *pk)) == shard;
        (0..partitions).filter(is_there).collect()
    };
    let keys = of(&even, PARTITIONS, 1);
    let even = Load { schema: even, keys, in_flight: IN_FLIGHT };
    let keys = of(&hot, 16, 0)[..1].to_vec();
    let hot = Load { schema: hot, keys, in_flight: HOT_IN_FLIGHT };
    let times =
        (Duration::from_millis(200), Duration::from_millis(arguments.scale(800, 2000) as u64));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..arguments.scale(2, ROUNDS) {
        alone.push(measure(&world.database, &[&even], times));
        beside.push(measure(&world.database, &[&even, &hot], times));
    }
    let (figure, baseline) = (median(beside), Some(("the other shard idle", median(alone))));
    let target = Target::RatioAtLeast(0.98);
    Row { name, unit: "k/s", figure, baseline, target }.print(arguments);
    world.close();
}
