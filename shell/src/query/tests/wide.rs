//! Values that are computed, and grow far beyond what they are made of.

use futures::StreamExt;

use super::World;
use crate::query::{OutcomeKind, QueryMemory, SessionOptions};

/// 3,000 rows of 100 bytes, and queries with 16 MiB in all.
async fn notes() -> World {
    let memory = QueryMemory::new(Some(16 << 20));
    let world = World::with(SessionOptions { memory, ..SessionOptions::default() }).await;
    world.run("CREATE TABLE notes (k int, c int, v text, PRIMARY KEY ((k), c))").await;
    world
        .run(
            "INSERT INTO notes (k, c, v) SELECT 1, value, repeat('x', 100) FROM \
             generate_series(1, 3000)",
        )
        .await;
    world
}

#[tokio::test]
async fn a_projection_makes_so_much_at_once_as_there_is_memory_for() {
    let world = notes().await;
    // 300 MB in all, of which a batch would hold every row.
    for sql in [
        "SELECT c, repeat(v, 1000) AS r FROM notes",
        "SELECT c, rpad(v, 100000) AS r FROM notes",
        "SELECT c, replace(v, 'x', repeat('y', 1000)) AS r FROM notes",
        "SELECT c, array_repeat(v, 1000) AS r FROM notes",
    ] {
        let OutcomeKind::Rows(mut rows) = world.session.execute(sql).await.unwrap().kind else {
            panic!("{sql}: no rows")
        };
        let (mut count, mut widest) = (0, 0);
        while let Some(batch) = rows.next().await {
            let batch = batch.unwrap();
            count += batch.num_rows();
            widest = widest.max(batch.get_array_memory_size());
        }
        assert_eq!(count, 3000, "{sql}");
        assert!(widest < 16 << 20, "{sql}: a batch of {widest} bytes");
    }
    // What is made of such a value is made with it.
    let sums = world.rows("SELECT sum(length(repeat(v, 1000))) AS s FROM notes").await;
    assert!(sums.contains("300000000"), "{sums}");
}

#[tokio::test]
async fn what_is_made_nowhere_else_than_at_once_is_refused() {
    let world = notes().await;
    for (sql, wanted) in [
        ("SELECT repeat(v, 1000000) FROM notes", "repeat() would make a value of 100000000 bytes"),
        ("SELECT repeat('x', 2000000000)", "repeat() would make a value of 2000000000 bytes"),
        ("SELECT lpad('x', 100000000, 'é')", "lpad() would make a value of 200000000 bytes"),
        ("SELECT range(1, 100000000)", "range() would make a value of"),
        ("SELECT generate_series(1, 100000000)", "generate_series() would make a value of"),
        (
            "SELECT generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '2020-01-01', \
             INTERVAL '1 microsecond')",
            "generate_series() would make a value of",
        ),
        ("SELECT array_repeat(1, 1000000000)", "array_repeat() would make a value of"),
        ("SELECT array_resize([1], 1000000000, 0)", "array_resize() would make a value of"),
        (
            "SELECT replace(repeat('x', 1000), 'x', repeat('y', 100000))",
            "replace() would make a value of 100000000 bytes",
        ),
    ] {
        let error = world.error(sql).await;
        assert!(error.to_string().contains(wanted), "{sql}: {error}");
    }
    let unnested = "SELECT count(n) AS n, max(length(v)) AS l FROM \
         (SELECT v, unnest(range(1000)) AS n FROM notes)";
    let found = world.rows(unnested).await;
    assert!(found.contains("3000000 | 100"), "{found}");
    // A condition of a scan takes as many rows at once as there is memory for.
    let long = "SELECT count(*) FROM notes WHERE length(repeat(v, 10000)) > 5";
    let all = "SELECT count(*) FROM notes WHERE length(v) > 0";
    assert_eq!(world.column(long).await, world.column(all).await);
    // As before where it is little.
    for (sql, wanted) in [
        ("SELECT repeat('ab', 3) AS r", "ababab"),
        ("SELECT lpad('7', 3, '0') AS r", "007"),
        ("SELECT replace('banana', 'an', 'xyz') AS r", "bxyzxyza"),
        ("SELECT array_repeat(1, 3) AS r", "[1, 1, 1]"),
        ("SELECT range(3) AS r", "[0, 1, 2]"),
        ("SELECT repeat('ab', -1) || repeat(NULL, 3) || 'x' AS r", "|"),
        (
            "SELECT generate_series(DATE '2020-01-30', DATE '2020-03-01', INTERVAL '1 month') AS r",
            "2020-02-",
        ),
    ] {
        let rows = world.rows(sql).await;
        assert!(rows.contains(wanted), "{sql}: {rows}");
    }
}
