//! Headings of columns: what stands in the text, promised and given alike.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::World;
use crate::query::{Outcome, OutcomeKind, split};

fn names(outcome: &Outcome) -> Vec<String> {
    assert!(matches!(outcome.kind, OutcomeKind::Rows(_)));
    outcome.schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The headings of a query, which are also those that its description promises.
async fn headings(world: &World, text: &str) -> Vec<String> {
    let description = world.session.describe(&split(text).unwrap()[0]).await.unwrap();
    let outcome = world.run(text).await;
    assert_eq!(description.schema.fields(), outcome.schema.fields(), "{text}");
    let names = names(&outcome);
    outcome.collect().await.unwrap();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heading_has_its_most_characters_and_no_more() {
    let world = World::new().await;
    for (characters, is_whole) in [(63, true), (64, true), (65, false)] {
        let text = format!("'{}'", "ä".repeat(characters - 2));
        let found = headings(&world, &format!("SELECT {text}")).await.remove(0);
        let start: String = text.chars().take(63).collect();
        assert_eq!(found, if is_whole { text } else { format!("{start}…") });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_headed_by_their_text() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int, \"V\" text)").await;
    world.run("INSERT INTO t VALUES (1, 2, 'x'), (2, 1, 'y')").await;
    for (text, wanted) in [
        ("SELECT 1, 'a', NULL, true, -1.50", "1|'a'|NULL|true|-1.50"),
        ("SELECT v, t.k, \"V\", v AS w, v + 1 FROM t", "v|k|V|w|v + 1"),
        (
            "SELECT max(v), MAX( k ), count(*), COUNT(*) + 1 FROM t",
            "max(v)|MAX(k)|count(*)|COUNT(*) + 1",
        ),
        ("SELECT CAST(v AS bigint), v::text FROM t", "CAST(v AS BIGINT)|v::TEXT"),
        ("SELECT sum(v) OVER (ORDER BY k) FROM t", "sum(v) OVER (ORDER BY k)"),
        ("SELECT *, v + 1, 7 FROM t", "k|v|V|v + 1|7"),
        ("SELECT 7, t.*, k * 2 FROM t", "7|k|v|V|k * 2"),
        ("SELECT 1 UNION ALL SELECT 2", "1"),
        ("(SELECT v + 1 FROM t) EXCEPT SELECT 5 ORDER BY 1", "v + 1"),
        (
            "SELECT max(v), max(v), v + 1 AS \"max(v)_1\" FROM t GROUP BY v",
            "max(v)|max(v)_1|max(v)_1_1",
        ),
        ("SELECT 1 AS \"2\", 2", "2|Int64(2)"),
        ("SELECT v + k FROM t ORDER BY v + k, k", "v + k"),
        ("SELECT DISTINCT v + 1 FROM t ORDER BY 1", "v + 1"),
        ("SELECT DISTINCT ON (v) v + 1 FROM t ORDER BY v", "v + 1"),
        ("WITH w AS (SELECT v + 1 AS n FROM t) SELECT n * 2 FROM w", "n * 2"),
        ("SELECT (SELECT max(v) FROM t), k IN (1, 2) FROM t", "(SELECT max(v) FROM t)|k IN (1, 2)"),
        ("SELECT (k, v) < (2, 1) FROM t", "(k, v) < (2, 1)"),
        (
            "SELECT 1e3, -1.5E-3 * v, CAST('1e3' AS DOUBLE) FROM t",
            "1e3|-1.5E-3 * v|CAST('1e3' AS DOUBLE)",
        ),
        ("VALUES (1, 2)", "column1|column2"),
    ] {
        assert_eq!(headings(&world, text).await.join("|"), wanted, "{text}");
    }
    assert_eq!(world.column("SELECT k + v FROM t ORDER BY -v LIMIT 1").await, ["3"]);
    assert_eq!(world.column("SELECT DISTINCT v + 1 FROM t ORDER BY 1 DESC").await, ["3", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_text_is_cut() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY)").await;
    let at_most = format!("'{}'", "ü".repeat(62));
    assert_eq!(headings(&world, &format!("SELECT {at_most}")).await, [at_most]);
    let long = format!("SELECT '{}' FROM t", "ü".repeat(63));
    assert_eq!(headings(&world, &long).await, [format!("'{}…", "ü".repeat(62))]);
    let chain = format!("SELECT {} FROM t", vec!["k = 1"; 10_000].join(" AND "));
    let found = headings(&world, &chain).await;
    assert!(found[0].contains("k = 1 AND k = 1") && found[0].ends_with('…'), "{found:?}");
    assert_eq!(found[0].chars().count(), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_is_headed_alike_with_and_without_its_value() {
    let world = World::new().await;
    let statement = &split("SELECT ?, ? + 1").unwrap()[0];
    let value = || Arc::new(Int64Array::from(vec![7])) as ArrayRef;
    let rows = RecordBatch::try_from_iter([("1", value()), ("2", value())]).unwrap();
    let bare = world.session.describe(statement).await.unwrap();
    let bound = world.session.describe_with(statement, &rows).await.unwrap();
    let outcome = world.session.run_with(statement, &rows).await.unwrap();
    assert_eq!(bound.schema.fields(), outcome.schema.fields());
    let bare: Vec<&String> = bare.schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(bare, ["$1", "$2 + 1"]);
    assert_eq!(names(&outcome), ["$1", "$2 + 1"]);
}
