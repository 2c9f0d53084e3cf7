//! SUMMARIZE: what it says of columns of each kind.

use super::super::World;

async fn world() -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, ck int, v double, name text, tags list<int>, \
             PRIMARY KEY (pk, ck))",
        )
        .await;
    world
        .run(
            "INSERT INTO t (pk, ck, v, name) SELECT value % 4, value, value / 2.0, \
             'n' || CAST(value % 10 AS text) FROM generate_series(1, 100) AS s(value)",
        )
        .await;
    world.run("INSERT INTO t (pk, ck) VALUES (0, 1000)").await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_column_is_a_row() {
    let world = world().await;
    let batches = world.run("SUMMARIZE t").await.collect().await.unwrap();
    let fields: Vec<_> = batches[0].schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(
        fields,
        [
            "column_name",
            "column_type",
            "min",
            "max",
            "approx_unique",
            "avg",
            "std",
            "q25",
            "q50",
            "q75",
            "count",
            "null_percentage"
        ]
    );
    let shown = world.rows("SUMMARIZE t").await;
    let line = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(&format!("| {name} ")));
        let cells = line.unwrap_or_else(|| panic!("no {name}: {shown}")).split('|');
        cells.map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    let v = line("v");
    assert_eq!(v[..4], ["v", "Float64", "0.5", "50.0"], "{shown}");
    assert_eq!((&*v[5], &*v[v.len() - 2], &*v[v.len() - 1]), ("25.25", "101", "0.99"), "{shown}");
    let name = line("name");
    assert_eq!(name, ["name", "Utf8", "n0", "n9", "10", "101", "0.99"], "{shown}");
    let ck = line("ck");
    assert_eq!((&*ck[2], &*ck[3], &*ck[ck.len() - 1]), ("1", "1000", "0.0"), "{shown}");
    let tags = line("tags");
    assert_eq!((&*tags[tags.len() - 2], &*tags[tags.len() - 1]), ("101", "100.0"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_are_summarized_and_explained() {
    let world = world().await;
    let of_query = world.rows("SUMMARIZE SELECT ck AS \"a\"\"b\" FROM t WHERE pk = 1").await;
    assert!(of_query.contains("| a\"b ") && of_query.contains("| 25 "), "{of_query}");
    let empty = world.rows("SUMMARIZE SELECT ck FROM t WHERE pk = 77").await;
    assert!(empty.contains("| 0 "), "{empty}");
    let plan = world.rows("EXPLAIN SUMMARIZE t").await;
    assert_eq!(plan.matches("TideScan").count(), 1, "the table is read once: {plan}");
    let analyzed = world.rows("EXPLAIN ANALYZE SUMMARIZE t").await;
    assert!(analyzed.contains("rows_read=101"), "{analyzed}");
    let error = world.error("SUMMARIZE nowhere").await;
    assert!(error.to_string().contains("nowhere") && error.span.is_some(), "{error}");
}
