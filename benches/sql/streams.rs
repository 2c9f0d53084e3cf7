//! More streams than shards: a query that computes much, over one shard.

use crate::frame::{Arguments, Row, Target};
use crate::world::World;

const STREAMS: &str = "one shard, an aggregate that computes much, two streams";
const RUNS: usize = 5;

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(STREAMS) {
        return;
    }
    let world = World::of_shards(1).await;
    let rows = arguments.scale(500_000, 5_000_000);
    world.fill_wide(rows).await;
    world.warm("SELECT sum(n) FROM w").await;
    // A shard reads these rows faster than one stream computes this.
    let text = "SELECT n, sum(sqrt(ck) * ln(pk + 1)), max(md5(v)), count(*) FROM w GROUP BY n";
    let mut ms = [0.0; 2];
    for (streams, ms) in (1..).zip(&mut ms) {
        world.run(&format!("SET datafusion.execution.target_partitions = {streams}")).await;
        *ms = world.best_ms(text, RUNS).await;
    }
    let (figure, baseline) = (ms[1], Some(("one stream", ms[0])));
    Row { name: STREAMS, unit: "ms", figure, baseline, target: Target::RatioAtMost(0.8) }
        .print(arguments);
    world.close().await;
}
