//! Conditions that name what they want: how much more is read than is answered.

use arrow::array::RecordBatch;

use crate::frame::{Arguments, Row, Target};
use crate::world::World;

const PARTITIONS: usize = 6_000;
const ROWS_PER_PARTITION: usize = 20;

/// Shapes by name. `KEYS` stands for 4,097 keys.
const SHAPES: [(&str, &str); 12] = [
    ("pk IN (4,097 values)", "SELECT v FROM t WHERE pk IN (KEYS) AND a = 3"),
    ("OR over whole keys", "SELECT v FROM t WHERE (pk = 1 AND a = 2) OR (pk = 3 AND a = 4)"),
    ("(pk, a) IN (…)", "SELECT v FROM t WHERE (pk, a) IN ((1, 2), (3, 4), (5, 6))"),
    ("(a, b) > (…)", "SELECT v FROM t WHERE pk = 7 AND (a, b) > (10, 0)"),
    ("pk IN (1, NULL)", "SELECT v FROM t WHERE pk IN (1, NULL)"),
    ("an impossible key", "SELECT v FROM t WHERE pk = 99999999999"),
    ("max(a) of a partition", "SELECT max(a) FROM t WHERE pk = 7"),
    ("min(a) of a partition", "SELECT min(a) FROM t WHERE pk = 7"),
    ("DISTINCT pk", "SELECT DISTINCT pk FROM t"),
    ("PER PARTITION LIMIT", "SELECT v FROM t PER PARTITION LIMIT 2"),
    ("LIKE 'abc%' on a clustering text", "SELECT v FROM w WHERE pk = 1 AND name LIKE 'abc1%'"),
    ("a reversed page", "SELECT v FROM t WHERE pk = 7 ORDER BY a DESC LIMIT 5"),
];

pub async fn print(arguments: &Arguments) {
    let name_of = |shape: &str| format!("rows read / answered: {shape}");
    if !SHAPES.iter().any(|(shape, _)| arguments.wants(&name_of(shape))) {
        return;
    }
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, a int, b int, v text, PRIMARY KEY (pk, a, b))").await;
    let fill = format!(
        "INSERT INTO t SELECT g / {ROWS_PER_PARTITION}, g % {ROWS_PER_PARTITION}, 1, 'v' \
         FROM generate_series(0, {}) AS s(g)",
        PARTITIONS * ROWS_PER_PARTITION - 1
    );
    world.run(&fill).await;
    world.run("CREATE TABLE w (pk int, name text, v text, PRIMARY KEY (pk, name))").await;
    let fill = "INSERT INTO w SELECT 1, 'abc' || lpad(g::text, 4, '0'), 'v' \
                FROM generate_series(0, 1999) AS s(g)";
    world.run(fill).await;
    world.run("FLUSH").await;
    let keys: Vec<String> = (0..4_097).map(|key| key.to_string()).collect();
    let keys = keys.join(", ");
    for (shape, text) in SHAPES {
        let name = name_of(shape);
        if !arguments.wants(&name) {
            continue;
        }
        let text = text.replace("KEYS", &keys);
        let answered: usize = world.run(&text).await.iter().map(RecordBatch::num_rows).sum();
        let figure = world.rows_read(&text, None).await;
        if answered == 0 {
            let target = Target::AtMost(0.0);
            Row { name: &name, unit: "rows", figure, baseline: None, target }.print(arguments);
            continue;
        }
        let baseline = Some(("rows answered", answered as f64));
        let target = Target::RatioAtMost(1.05);
        Row { name: &name, unit: "rows", figure, baseline, target }.print(arguments);
    }
    world.close().await;
}
