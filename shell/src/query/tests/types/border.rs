//! Values of each type at borders: beside a key column, behind IF, and at the ends of their type.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};

use crate::query::tests::World;
use crate::query::{OutcomeKind, applied_count, split};

/// Types, each with three values in their order.
const TYPES: [(&str, [&str; 3]); 14] = [
    ("tinyint", ["-128", "0", "127"]),
    ("smallint", ["-32768", "-1", "32767"]),
    ("int", ["-70000", "-1", "70000"]),
    ("bigint", ["-5000000000", "0", "5000000000"]),
    ("float", ["-1.5", "-0.5", "2.25"]),
    ("double", ["-1.25", "0.1", "2.5"]),
    ("decimal(9, 2)", ["-1.10", "-0.01", "2.20"]),
    ("text", ["'a'", "'ab'", "'b'"]),
    ("blob", ["X'00'", "X'00ff'", "X'01'"]),
    ("date", ["'1969-12-31'", "'1970-01-01'", "'2020-02-29'"]),
    ("time", ["'00:00:00'", "'00:00:01'", "'23:59:59.5'"]),
    ("timestamp", ["'1969-12-31T23:59:59.999Z'", "'1970-01-01 00:00:00'", "'2020-02-29 12:00:00'"]),
    (
        "timeuuid",
        [
            "'00000000-0000-1000-8000-000000000001'",
            "'70000000-0000-1000-8000-000000000001'",
            "'f0000000-0000-1000-8000-000000000001'",
        ],
    ),
    ("inet", ["'9.0.0.1'", "'9.0.0.2'", "'10.0.0.1'"]),
];

/// An operator, the one that it is turned round, and which of three rows it takes beside the value
/// of the second.
const BOUNDS: [(&str, &str, &str); 4] =
    [("<", ">", "1"), ("<=", ">=", "1 2"), (">", "<", "3"), (">=", "<=", "2 3")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_of_a_key_of_any_type_takes_or_leaves_its_own_row_in_both_orders() {
    let world = World::new().await;
    for (number, (ty, [low, middle, high])) in TYPES.iter().enumerate() {
        for order in ["ASC", "DESC"] {
            let table = format!("t{number}_{order}").to_lowercase();
            world
                .run(&format!(
                    "CREATE TABLE {table} (pk int, ck {ty}, v int, PRIMARY KEY (pk, ck)) \
                     WITH CLUSTERING ORDER BY (ck {order})"
                ))
                .await;
            let rows = format!("(1, {low}, 1), (1, {middle}, 2), (1, {high}, 3)");
            world.run(&format!("INSERT INTO {table} VALUES {rows}")).await;
            for (operator, turned, wanted) in BOUNDS {
                for condition in
                    [format!("ck {operator} {middle}"), format!("{middle} {turned} ck")]
                {
                    let text = format!("SELECT v FROM {table} WHERE pk = 1 AND {condition}");
                    let mut found = world.column(&text).await;
                    found.sort();
                    assert_eq!(found.join(" "), wanted, "{ty} {order}: {text}");
                }
            }
        }
    }
}

async fn is_applied(world: &World, text: &str) -> bool {
    match world.run(text).await.kind {
        OutcomeKind::Decided(answer) => applied_count(&answer) == 1,
        _ => panic!("{text} is not decided"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_compares_values_of_any_type_on_their_side_of_the_border() {
    let world = World::new().await;
    let columns: Vec<String> =
        TYPES.iter().enumerate().map(|(n, (ty, _))| format!("c{n} {ty}")).collect();
    let columns = columns.join(", ");
    world.run(&format!("CREATE TABLE t (k int PRIMARY KEY, v int, {columns})")).await;
    let values: Vec<&str> = TYPES.iter().map(|(_, [_, middle, _])| *middle).collect();
    world.run(&format!("INSERT INTO t VALUES (1, 0, {})", values.join(", "))).await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (n, (ty, [low, middle, high])) in TYPES.iter().enumerate() {
            let holds = [
                format!("= {middle}"),
                format!("!= {low}"),
                format!("!= {high}"),
                format!("<= {middle}"),
                format!(">= {middle}"),
                format!("< {high}"),
                format!("> {low}"),
                format!("IN ({low}, {middle})"),
            ]
            .map(|comparison| format!("c{n} {comparison}"));
            let fails = [
                format!("= {low}"),
                format!("= {high}"),
                format!("!= {middle}"),
                format!("< {middle}"),
                format!("<= {low}"),
                format!("> {middle}"),
                format!(">= {high}"),
                format!("IN ({low}, {high})"),
            ]
            .map(|comparison| format!("c{n} {comparison}"));
            let text = |condition: &str| format!("UPDATE t SET v = 1 WHERE k = 1 IF {condition}");
            let all = text(&holds.join(" AND "));
            assert!(is_applied(&world, &all).await, "{ty}, short path {path}: {all}");
            for condition in fails {
                let one = text(&condition);
                assert!(!is_applied(&world, &one).await, "{ty}, short path {path}: {one}");
            }
        }
    }
}

/// Ways by which a value comes into a column of row 1.
const DOORS: [&str; 8] = [
    "INSERT INTO t (k, <c>) VALUES (1, <v>)",
    "INSERT INTO t (k, <c>) SELECT 1, <v>",
    "INSERT INTO t (k, <c>) VALUES (1, ?)",
    "UPDATE t SET <c> = <v> WHERE k = 1",
    "UPDATE t SET <c> = ? WHERE k = 1",
    "UPDATE t SET <c> = <v> WHERE k = 1 IF EXISTS",
    "BEGIN BATCH UPDATE t SET <c> = <v> WHERE k = 1; APPLY BATCH",
    "COPY t (k, <c>) FROM '<path>'",
];

/// Whether the value is taken.
async fn is_taken(world: &World, door: &str, column: &str, value: i64) -> bool {
    let path = world.path("t.csv");
    std::fs::write(&path, format!("k,{column}\n1,{value}\n")).unwrap();
    let text = door.replace("<c>", column).replace("<path>", &path);
    let text = text.replace("<v>", &value.to_string());
    if !text.contains('?') {
        return world.try_run(&text).await.is_ok();
    }
    let bound: ArrayRef = Arc::new(Int64Array::from(vec![value]));
    let rows = RecordBatch::try_from_iter([("$1", bound)]).unwrap();
    let statement = split(&text).unwrap().remove(0);
    world.session.run_with(&statement, &rows).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_are_taken_up_to_the_ends_of_their_column_by_every_door() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, a tinyint, b smallint, c int)").await;
    world.run("INSERT INTO t VALUES (1, 0, 0, 0)").await;
    let ends = [
        ("a", i64::from(i8::MIN), i64::from(i8::MAX)),
        ("b", i64::from(i16::MIN), i64::from(i16::MAX)),
        ("c", i64::from(i32::MIN), i64::from(i32::MAX)),
    ];
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (column, least, most) in ends {
            for door in DOORS {
                world.run(&format!("UPDATE t SET {column} = 5 WHERE k = 1")).await;
                let mut stored = 5;
                for value in [least - 1, least, most + 1, most] {
                    let case = format!("{value} to {column}, short path {path}: {door}");
                    let fits = (least..=most).contains(&value);
                    assert_eq!(is_taken(&world, door, column, value).await, fits, "{case}");
                    if fits {
                        stored = value;
                    }
                    let text = format!("SELECT {column} FROM t WHERE k = 1");
                    assert_eq!(world.column(&text).await, [stored.to_string()], "{case}");
                }
            }
        }
    }
}

/// Texts of the rows 1, 2, …
const TEXTS: [&str; 9] = ["a", "ab", "abc", "abd", "ac", "b", "B", "a%", "a_"];

/// What is asked of a text, and the rows of which it holds.
const PATTERNS: [(&str, &str); 17] = [
    ("LIKE 'a%'", "1 2 3 4 5 8 9"),
    ("LIKE 'ab%'", "2 3 4"),
    ("LIKE 'ab_'", "3 4"),
    ("LIKE 'ab_%'", "3 4"),
    ("LIKE 'a_'", "2 5 8 9"),
    ("LIKE 'ab%c'", "3"),
    ("LIKE 'a_c'", "3"),
    ("LIKE '%'", "1 2 3 4 5 6 7 8 9"),
    ("LIKE 'ab'", "2"),
    (r"LIKE 'a\%'", "8"),
    (r"LIKE 'a\_%'", "9"),
    ("LIKE 'b%'", "6"),
    ("LIKE '_b%'", "2 3 4"),
    ("LIKE '%c'", "3 5"),
    ("LIKE 'c%'", ""),
    ("ILIKE 'b%'", "6 7"),
    ("ILIKE 'AB%'", "2 3 4"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_takes_the_same_texts_of_a_clustering_column_as_of_any_other() {
    let world = World::new().await;
    for order in ["ASC", "DESC"] {
        let table = format!("t_{order}").to_lowercase();
        world
            .run(&format!(
                "CREATE TABLE {table} (pk int, ck text, x text, v int, PRIMARY KEY (pk, ck)) \
                 WITH CLUSTERING ORDER BY (ck {order})"
            ))
            .await;
        let rows = TEXTS.iter().zip(1..);
        let rows = rows.map(|(text, v)| format!("(1, '{text}', '{text}', {v})"));
        let rows: Vec<String> = rows.collect();
        world.run(&format!("INSERT INTO {table} VALUES {}", rows.join(", "))).await;
        for (pattern, wanted) in PATTERNS {
            let others = (1..=TEXTS.len()).map(|v| v.to_string());
            let others = others.filter(|v| !wanted.split(' ').any(|taken| taken == v));
            let others = others.collect::<Vec<_>>().join(" ");
            for column in ["ck", "x"] {
                for (not, wanted) in [("", wanted), ("NOT ", &*others)] {
                    let condition = format!("pk = 1 AND {column} {not}{pattern}");
                    let text = format!("SELECT v FROM {table} WHERE {condition}");
                    let mut found = world.column(&text).await;
                    found.sort();
                    assert_eq!(found.join(" "), wanted, "{order}: {text}");
                }
            }
        }
    }
}
