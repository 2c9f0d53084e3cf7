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

/// Of whole numbers from 0 to 100, and of what has fewer figures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_figure_of_a_column_stands_under_its_own_name() {
    let world = World::new().await;
    world.run("CREATE TABLE f (n int PRIMARY KEY, day date, m decimal(9, 2), b blob)").await;
    world
        .run(
            "INSERT INTO f (n, m) SELECT value, CAST(value / 4.0 AS decimal(9, 2)) \
             FROM generate_series(0, 100) AS s(value)",
        )
        .await;
    world.run("INSERT INTO f (n, day, b) VALUES (0, '2020-02-29', X'01')").await;
    world.run("INSERT INTO f (n, day) VALUES (1, '1969-12-31')").await;
    let shown = world.rows("SUMMARIZE f").await;
    // A cell for each of the columns, also where it is empty.
    let cells = |name: &str| -> Vec<String> {
        let line = shown.lines().find(|line| line.starts_with(&format!("| {name} ")));
        let line = line.unwrap_or_else(|| panic!("no {name}: {shown}"));
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let near = |text: &str, wanted: f64| {
        let found: f64 = text.parse().unwrap_or_else(|_| panic!("'{text}': {shown}"));
        assert!((found - wanted).abs() <= wanted / 20.0, "{found}, not {wanted}: {shown}");
    };
    for (name, scale, [least, most]) in [("n", 1.0, ["0", "100"]), ("m", 4.0, ["0.00", "25.00"])] {
        let cells = cells(name);
        assert_eq!(cells[2..4], [least, most], "{shown}");
        near(&cells[4], 101.0);
        // The mean, the spread and the quartiles.
        for (cell, wanted) in cells[5..10].iter().zip([50.0, 29.3, 25.0, 50.0, 75.0]) {
            near(cell, wanted / scale);
        }
        assert_eq!(cells[10..], ["101", "0.0"], "{shown}");
    }
    let day = cells("day");
    assert_eq!(day[2..5], ["1969-12-31", "2020-02-29", "2"], "{shown}");
    assert_eq!(day[5..], ["", "", "", "", "", "101", "98.02"], "{shown}");
    assert_eq!(cells("b")[2..], ["", "", "", "", "", "", "", "", "101", "99.01"], "{shown}");
}
