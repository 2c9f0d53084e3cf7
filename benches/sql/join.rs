//! A large table: joined by its key, read whole for an aggregate, and grouped by its key.

use crate::frame::{Arguments, Row, Target};
use crate::world::World;

const JOIN: &str = "join of 1,000 keys to a table by its key";
const JOIN_READ: &str = "the same, rows read of the table";
const SCAN: &str = "full scan with an aggregate, partitions of one row";
const WIDE_SCAN: &str = "the same, partitions of 1,000 rows";
const GROUPS: &str = "GROUP BY the key, partitions of one row";
const WIDE_GROUPS: &str = "GROUP BY the key, partitions of 1,000 rows";
const WINDOWS: &str = "row_number() of each partition, reversed";
/// The figure's name of the same rows in groups that are no partitions for the planner.
const HASHED: &str = "by an expression of the key";
const KEYS: usize = 1_000;
const RUNS: usize = 5;

pub async fn print(arguments: &Arguments) {
    print_narrow(arguments).await;
    print_wide(arguments).await;
}

fn print_scan(arguments: &Arguments, name: &str, (rows, ms): (usize, f64)) {
    let (figure, target) = (rows as f64 / ms / 1e3, Target::AtLeast(6.0));
    Row { name, unit: "M rows/s", figure, baseline: None, target }.print(arguments);
}

/// A query with a `KEY` by the key, beside the same one by what is as good as the key.
async fn print_grouped(
    arguments: &Arguments,
    world: &World,
    (name, most): (&str, f64),
    text: &str,
) {
    if !arguments.wants(name) {
        return;
    }
    let (own, other) = (text.replace("KEY", "pk"), text.replace("KEY", "(pk % 9999999999)"));
    assert!(world.plan(&own).await.contains("EachPartition"), "{own} is not by partitions");
    assert!(!world.plan(&other).await.contains("EachPartition"), "{other} is by partitions");
    let baseline = Some((HASHED, world.best_ms(&other, RUNS).await));
    let figure = world.best_ms(&own, RUNS).await;
    Row { name, unit: "ms", figure, baseline, target: Target::RatioAtMost(most) }.print(arguments);
}

async fn print_wide(arguments: &Arguments) {
    if ![WIDE_SCAN, WIDE_GROUPS, WINDOWS].iter().any(|name| arguments.wants(name)) {
        return;
    }
    let world = World::new().await;
    let rows = arguments.scale(500_000, 5_000_000);
    world.fill_wide(rows).await;
    let scan = "SELECT sum(n), count(*) FROM w";
    world.warm(scan).await;
    print_scan(arguments, WIDE_SCAN, (rows, world.best_ms(scan, RUNS).await));
    let groups = "SELECT max(s) FROM (SELECT KEY, sum(n) AS s FROM w GROUP BY KEY)";
    print_grouped(arguments, &world, (WIDE_GROUPS, 1.05), groups).await;
    let windows = "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY KEY ORDER BY ck DESC) AS r \
                   FROM w)";
    print_grouped(arguments, &world, (WINDOWS, 0.8), windows).await;
    world.close().await;
}

async fn print_narrow(arguments: &Arguments) {
    if ![JOIN, JOIN_READ, SCAN, GROUPS].iter().any(|name| arguments.wants(name)) {
        return;
    }
    let world = World::new().await;
    let rows = arguments.scale(500_000, 5_000_000);
    world.run("CREATE TABLE large (pk bigint PRIMARY KEY, n bigint, v text)").await;
    world.run("CREATE TABLE keys (k bigint PRIMARY KEY, pk bigint)").await;
    let fill = format!(
        "INSERT INTO large SELECT g, g % 1000, repeat('v', 20) FROM generate_series(0, {}) AS s(g)",
        rows - 1
    );
    world.run(&fill).await;
    let fill = format!(
        "INSERT INTO keys SELECT g, g * {} FROM generate_series(0, {}) AS s(g)",
        rows / KEYS,
        KEYS - 1
    );
    world.run(&fill).await;
    world.run("FLUSH").await;
    world.run("COMPACT large").await;
    let scan = "SELECT sum(n), count(*) FROM large";
    world.warm(scan).await;
    let join = "SELECT sum(large.n) FROM keys JOIN large ON keys.pk = large.pk";
    let figure = world.best_ms(join, RUNS).await;
    let target = Target::AtMost(20.0);
    Row { name: JOIN, unit: "ms", figure, baseline: None, target }.print(arguments);
    let figure = world.rows_read(join, Some("large")).await;
    let (baseline, target) = (Some(("keys", KEYS as f64)), Target::RatioAtMost(1.05));
    Row { name: JOIN_READ, unit: "rows", figure, baseline, target }.print(arguments);
    print_scan(arguments, SCAN, (rows, world.best_ms(scan, RUNS).await));
    let groups = "SELECT max(s) FROM (SELECT KEY, sum(n) AS s FROM large GROUP BY KEY)";
    print_grouped(arguments, &world, (GROUPS, 0.8), groups).await;
    world.close().await;
}
