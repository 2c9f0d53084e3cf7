//! Queries deep within conditions of one another, which take rules and checks of their own loop.

use super::{World, on_long_stack};

const DEPTH: usize = 50;

async fn table() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))").await;
    world.run("INSERT INTO t VALUES (1, 1), (1, 2), (1, 3), (2, 1)").await;
    world
}

/// Puts a query into another so many times; `around` says where it stands, and as the how manyth.
fn nest(first: &str, depth: usize, around: impl Fn(usize, &str) -> String) -> String {
    (0..depth).fold(first.to_owned(), |inner, level| around(level, &inner))
}

fn forms(depth: usize) -> [(String, &'static [&'static str]); 7] {
    let not = |level: usize| if level % 2 == 1 { "NOT " } else { "" };
    [
        (
            nest("SELECT c FROM t WHERE k = 2", depth, |_, inner| {
                format!("SELECT c FROM t WHERE c IN ({inner})")
            }),
            &["1", "1"],
        ),
        (
            // Between 1 and what is not 1 to and fro.
            nest("SELECT 1", depth, |level, inner| {
                format!("SELECT c FROM t WHERE c {}IN ({inner})", not(level))
            }),
            &["2", "3"],
        ),
        (
            nest("SELECT 1 WHERE false", depth, |level, inner| {
                format!("SELECT c FROM t WHERE {}EXISTS ({inner})", not(level + 1))
            }),
            &["1", "2", "3", "1"],
        ),
        (
            nest("SELECT max(c) - 50 FROM t", depth, |_, inner| {
                format!("SELECT ({inner}) + 1 AS c FROM t WHERE k = 2")
            }),
            &["3"],
        ),
        (
            nest("SELECT max(c) FROM t", depth, |level, inner| {
                format!(
                    "SELECT max(a{level}.c) FROM t AS a{level} WHERE a{level}.c >= ({inner}) \
                     AND EXISTS (SELECT 1 FROM t AS b WHERE b.c = a{level}.c)"
                )
            }),
            &["3"],
        ),
        (
            nest("SELECT c FROM t", depth, |_, inner| {
                format!("SELECT c FROM t WHERE c = ANY ({inner}) AND k = 2 OR c > 5")
            }),
            &["1"],
        ),
        (
            // What the outermost query names, some levels below it.
            format!(
                "SELECT c FROM t AS o WHERE c IN ({} AND c = o.k)",
                nest("SELECT c FROM t", depth - 1, |_, inner| {
                    format!("SELECT c FROM t WHERE c IN ({inner})")
                })
            ),
            &["1"],
        ),
    ]
}

#[test]
fn fifty_queries_within_conditions_of_one_another_are_answered() {
    on_long_stack(async {
        let world = table().await;
        // Few levels are DataFusion's own way.
        for depth in [6, DEPTH] {
            for (query, wanted) in forms(depth) {
                if depth != DEPTH && query.contains("- 50") {
                    continue;
                }
                let mut found = world.column(&query).await;
                let mut wanted = wanted.to_vec();
                found.sort();
                wanted.sort_unstable();
                assert_eq!(found, wanted, "{query:.200}");
            }
        }
        let (query, _) = &forms(DEPTH)[0];
        let plan = world.plan(query).await;
        assert!(plan.matches("HashJoin").count() >= DEPTH, "{plan}");
    });
}

#[test]
fn comparisons_with_any_and_all_are_as_deep_as_their_copies_allow() {
    on_long_stack(async {
        let world = table().await;
        for (condition, wanted) in [
            ("c = ANY (SELECT c + 1 FROM t)", "2 3"),
            ("c = ALL (SELECT c FROM t WHERE k = 2)", "1 1"),
            ("c <> ALL (SELECT c FROM t WHERE k = 2)", "2 3"),
            ("c <> ANY (SELECT c FROM t WHERE c < 3)", "1 1 2 3"),
            ("c <> ALL (SELECT CASE WHEN c > 1 THEN c END FROM t)", ""),
            ("(c, k) = ANY (SELECT c, 1 FROM t)", "1 2 3"),
            ("c >= ALL (SELECT c FROM t)", "3"),
            ("c < ANY (SELECT c FROM t WHERE c < 3)", "1 1"),
            ("c < ANY (SELECT max(c) FROM t GROUP BY k)", "1 1 2"),
            ("k > ALL (SELECT t.c - 1 FROM t)", ""),
            ("k < SOME (SELECT c FROM t AS i WHERE i.k = t.k)", "1 2 3"),
            ("c - 1 >= ALL (SELECT c FROM t AS i WHERE i.c < t.c)", "1 1 2 3"),
            ("c < ALL (SELECT c FROM t WHERE c > 5)", "1 1 2 3"),
            ("(c < ALL (SELECT CASE WHEN c > 1 THEN c END FROM t)) IS NULL", "1 1"),
            ("c < ANY (SELECT 1.5)", "1 1"),
            ("c > ANY (SELECT 9223372036854775808 - 9223372036854775807)", "2 3"),
        ] {
            let query = format!("SELECT c FROM t WHERE {condition} ORDER BY c");
            assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
        }
        let nested = |depth| {
            nest("SELECT c FROM t", depth, |_, inner| {
                format!("SELECT c FROM t WHERE c < ANY ({inner})")
            })
        };
        assert_eq!(world.column(&nested(4)).await, Vec::<String>::new());
        let error = world.error(&nested(5)).await;
        assert!(error.message.contains("queries within conditions"), "{error}");
    });
}

#[test]
fn what_is_wrong_deep_within_is_told_as_it_is_further_out() {
    on_long_stack(async {
        let world = table().await;
        for (wrong, wanted) in [
            ("SELECT (SELECT k, c FROM t) AS c", "one column"),
            ("SELECT k, c FROM t", "one column"),
            ("SELECT nowhere FROM t", "nowhere"),
            ("SELECT c FROM t WHERE c = (SELECT c FROM t AS i WHERE i.k = t.k)", "one row"),
        ] {
            for depth in [2, DEPTH] {
                let query =
                    nest(wrong, depth, |_, inner| format!("SELECT c FROM t WHERE c IN ({inner})"));
                let error = world.error(&query).await;
                assert!(error.message.contains(wanted), "{depth}: {error}");
            }
        }
    });
}

#[test]
fn ten_thousand_conditions_that_must_all_hold_are_few_levels() {
    on_long_stack(async {
        let world = table().await;
        for (from, operand, wanted) in [
            ("t WHERE", "c <> ", "4"),
            ("t WHERE", "c + 1 <> ", "4"),
            ("(SELECT c, count(*) AS n FROM t GROUP BY c) AS t WHERE", "n + c <> ", "3"),
            ("t JOIN t AS u ON t.k = u.k AND", "t.c + u.c <> ", "10"),
            ("t WHERE k < 3 AND NOT (false OR", "c = ", "4"),
        ] {
            let word = if from.ends_with("OR") { " OR " } else { " AND " };
            let chain: Vec<String> = (5..10_005).map(|n| format!("{operand}-{n}")).collect();
            let end = if from.ends_with("OR") { ")" } else { "" };
            let query = format!("SELECT count(*) FROM {from} {}{end}", chain.join(word));
            assert_eq!(world.column(&query).await, [wanted], "{query:.100}");
        }
    });
}

#[test]
fn choices_within_choices_are_not_written_twice() {
    on_long_stack(async {
        let world = table().await;
        for (open, close) in [("coalesce(", ", 7)"), ("nvl(", ", 7)"), ("coalesce(NULL, ", ", 7)")]
        {
            let text =
                format!("SELECT {}c{} FROM t WHERE k = 2", open.repeat(200), close.repeat(200));
            assert_eq!(world.column(&text).await, ["1"], "{open}");
        }
        let text = nest("c", 40, |_, inner| format!("nullif({inner}, 0.5e0)"));
        let text = format!("SELECT {text} IS NULL FROM t WHERE k = 2");
        assert_eq!(world.column(&text).await, ["false"]);
    });
}
