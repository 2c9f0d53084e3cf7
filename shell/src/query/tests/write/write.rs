//! INSERT, UPDATE and DELETE.

use crate::query::tests::{SessionOptions, World};
use crate::query::{ErrorKind, QueryMemory};

async fn table() -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, a int, b int, v text, w int, s text STATIC, \
             PRIMARY KEY (pk, a, b))",
        )
        .await;
    for a in 1..=3 {
        for b in 1..=3 {
            world
                .run(&format!(
                    "INSERT INTO t (pk, a, b, v, w) VALUES (1, {a}, {b}, 'v{a}{b}', {a})"
                ))
                .await;
        }
    }
    world
}

const LEFT: &str = "SELECT v FROM t WHERE pk = 1 ORDER BY a, b";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_replaces_and_leaves_unnamed_columns() {
    let world = table().await;
    world.run("INSERT INTO t (pk, a, b, v) VALUES (1, 1, 1, 'new')").await;
    let row = "SELECT v, w FROM t WHERE pk = 1 AND a = 1 AND b = 1";
    insta::assert_snapshot!(world.rows(row).await, @r"
    +-----+---+
    | v   | w |
    +-----+---+
    | new | 1 |
    +-----+---+
    ");
    world.run("INSERT INTO t (pk, a, b, w) VALUES (1, 1, 1, NULL)").await;
    assert_eq!(world.column("SELECT w FROM t WHERE pk = 1 AND a = 1 AND b = 1").await, [""]);
    let error = world.error("INSERT INTO t (pk, a, v) VALUES (1, 1, 'x')").await;
    assert!(error.message.contains("lacks key column 'b'"), "{error}");
    let error = world.error("INSERT INTO t (pk, a, b) VALUES (1, 1, NULL)").await;
    assert!(error.message.contains("column 'b'"), "{error}");
    let error = world.error("INSERT INTO t (pk, a, b, x) VALUES (1, 1, 1, 1)").await;
    assert_eq!(error.span.unwrap().column, 26);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insert_select_copies_rows() {
    let world = table().await;
    let count =
        world.count("INSERT INTO t (pk, a, b, v) SELECT 2, a, b, v FROM t WHERE pk = 1").await;
    assert_eq!(count, 9);
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 2 AND a = 3 AND b = 2").await, ["v32"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_and_times_to_live_are_taken() {
    let world = table().await;
    world.run("INSERT INTO t (pk, a, b, v) VALUES (9, 1, 1, 'late') USING TIMESTAMP 2000").await;
    world.run("INSERT INTO t (pk, a, b, v) VALUES (9, 1, 1, 'early') USING TIMESTAMP 1000").await;
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 9").await, ["late"]);
    world.run("UPDATE t USING TIMESTAMP 3000 AND TTL 1000 SET v = 'soon' WHERE pk = 9 AND a = 1 AND b = 1").await;
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 9").await, ["soon"]);
    world.run("DELETE FROM t USING TIMESTAMP 2500 WHERE pk = 9").await;
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 9").await, ["soon"]);
    world.run("DELETE FROM t USING TIMESTAMP 3000 WHERE pk = 9").await;
    assert!(world.column("SELECT v FROM t WHERE pk = 9").await.is_empty());
    let error = world.error("INSERT INTO t (pk, a, b) VALUES (1, 1, 1) USING TTL -5").await;
    assert!(error.message.contains("time to live"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_writes_cells_by_key() {
    let world = table().await;
    assert_eq!(
        world.count("UPDATE t SET v = 'x', W = 1 + 1 WHERE pk = 1 AND a = 2 AND b = 2").await,
        1
    );
    assert_eq!(
        world
            .column("SELECT concat(v, CAST(w AS text)) FROM t WHERE pk = 1 AND a = 2 AND b = 2")
            .await,
        ["x2"]
    );
    assert_eq!(
        world.count("UPDATE t SET v = NULL WHERE pk = 1 AND a = 1 AND b IN (1, 2)").await,
        2
    );
    assert_eq!(world.column(LEFT).await[..3], ["", "", "v13"]);
    world.run("UPDATE t SET s = 'shared' WHERE pk = 1").await;
    assert_eq!(world.column("SELECT DISTINCT s FROM t WHERE pk = 1").await, ["shared"]);
    for (text, wanted) in [
        ("UPDATE t SET v = 'a', V = 'b' WHERE pk = 1 AND a = 1 AND b = 1", "assigned twice"),
        ("UPDATE t SET v = 'x' WHERE pk = 1", "whole primary key"),
        ("UPDATE t SET v = 'x' WHERE a = 1", "whole partition key"),
        ("UPDATE t SET v = 'x'", "whole partition key"),
        ("UPDATE t SET v = concat(v, 'x') WHERE pk = 1 AND a = 1 AND b = 1", "not a constant"),
        ("UPDATE t SET a = 5 WHERE pk = 1 AND a = 1 AND b = 1", "part of the key"),
        ("UPDATE t SET v = 'x' WHERE pk = 1 AND a = 1 AND b = 1 AND w = 3", "conditions on the"),
        ("UPDATE t SET vv = 'x' WHERE pk = 1 AND a = 1 AND b = 1", "column 'vv' does not exist"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(wanted), "{text}: {error}");
        assert!(error.span.is_some(), "{text}: {error}");
    }
    assert_eq!(world.count("UPDATE t SET v = 'x' WHERE pk = 1 AND pk = 2").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_is_a_tombstone_of_just_its_slice() {
    for (condition, writes, left) in [
        ("pk = 1 AND a = 2 AND b = 2", "row tombstones", "v11 v12 v13 v21 v23 v31 v32 v33"),
        ("pk = 1 AND a = 2", "range tombstones", "v11 v12 v13 v31 v32 v33"),
        ("pk = 1 AND a > 1", "range tombstones", "v11 v12 v13"),
        ("pk = 1 AND a = 2 AND b >= 2", "range tombstones", "v11 v12 v13 v21 v31 v32 v33"),
        ("pk = 1 AND a BETWEEN 1 AND 2", "range tombstones", "v31 v32 v33"),
        ("pk = 1 AND a IN (1, 3)", "range tombstones", "v21 v22 v23"),
        ("pk = 1", "partition tombstone", ""),
        ("pk IN (1, 2)", "partition tombstone", ""),
    ] {
        let world = table().await;
        let plan = world.plan(&format!("DELETE FROM t WHERE {condition}")).await;
        assert!(plan.contains(&format!("writes={writes}")), "{condition}: {plan}");
        assert_eq!(world.column(LEFT).await.len(), 9, "EXPLAIN must not delete");
        world.run(&format!("DELETE FROM t WHERE {condition}")).await;
        assert_eq!(world.column(LEFT).await.join(" "), left, "{condition}");
    }
    let world = table().await;
    world.run("DELETE v FROM t WHERE pk = 1 AND a = 1 AND b = 1").await;
    assert_eq!(world.column(LEFT).await[..2], ["", "v12"]);
    for (text, wanted) in [
        ("DELETE FROM t", "whole partition key"),
        ("DELETE FROM t WHERE a = 1", "whole partition key"),
        ("DELETE FROM t WHERE pk = 1 AND b = 1", "conditions on the"),
        ("DELETE FROM t WHERE pk = 1 AND v = 'x'", "conditions on the"),
        ("DELETE FROM t WHERE pk IN (SELECT w FROM t)", "conditions on the"),
        ("DELETE v FROM t WHERE pk = 1", "whole primary key"),
        ("DELETE a FROM t WHERE pk = 1", "part of the key"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(wanted), "{text}: {error}");
        assert!(error.help.is_some() || wanted == "part of the key", "{text}: {error:?}");
    }
    assert_eq!(world.column(LEFT).await.len(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explained_write_says_which_rows_it_takes_and_what_it_gives_them() {
    let world = table().await;
    for (text, wanted) in [
        ("DELETE FROM t WHERE pk = 1", "partitions=1 key, writes=partition tombstone"),
        ("DELETE FROM t WHERE pk IN (1, 2)", "partitions=2 keys, writes=partition tombstone"),
        (
            "DELETE FROM t WHERE pk = 1 AND a = 2",
            "partitions=1 key, writes=range tombstones, slices=[2]",
        ),
        (
            "DELETE FROM t WHERE pk = 1 AND a > 1",
            "partitions=1 key, writes=range tombstones, slices=(1..]",
        ),
        (
            "DELETE FROM t WHERE pk = 1 AND a IN (1, 3)",
            "partitions=1 key, writes=range tombstones, slices=[1] [3]",
        ),
        (
            "DELETE FROM t WHERE pk IN (1, 2) AND a = 2 AND b = 3",
            "partitions=2 keys, writes=row tombstones, slices=[2, 3]",
        ),
        (
            "DELETE v FROM t WHERE pk = 1 AND a = 1 AND b = 2",
            "partitions=1 key, writes=cells, slices=[1, 2]",
        ),
        ("DELETE FROM t WHERE pk = 1 AND pk = 2", "nothing: the conditions exclude each other"),
    ] {
        let plan = world.plan(text).await;
        assert_eq!(plan, format!("TideDelete: table=default.t, {wanted}"), "{text}");
    }
    for (text, wanted) in [
        (
            "UPDATE t SET v = 'x', w = NULL WHERE pk = 1 AND a = 1 AND b = 2",
            "partitions=1 key, writes=cells, slices=[1, 2], v=x, w=null",
        ),
        ("UPDATE t SET s = 'y' WHERE pk = 1", "partitions=1 key, writes=cells, s=y"),
    ] {
        let plan = world.plan(text).await;
        assert_eq!(plan, format!("TideUpdate: table=default.t, {wanted}"), "{text}");
    }
    assert_eq!(world.column(LEFT).await.len(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_reach_decimal_columns_digit_by_digit() {
    let world = World::new().await;
    world
        .run("CREATE TABLE dd (k int, d decimal(20, 2), e decimal(38, 10), PRIMARY KEY (k, d))")
        .await;
    let long = "1234567890123456789012345678.0123456789";
    world
        .run(&format!(
            "INSERT INTO dd VALUES (1, 123456789012345678.91, {long}), (1, -0.05, -{long})"
        ))
        .await;
    assert_eq!(
        world.column("SELECT d FROM dd WHERE k = 1").await,
        ["-0.05", "123456789012345678.91"]
    );
    let by_key = "FROM dd WHERE k = 1 AND d = 123456789012345678.91";
    assert_eq!(world.column(&format!("SELECT e {by_key}")).await, [long]);
    let plan = world.plan(&format!("SELECT e {by_key}")).await;
    assert!(plan.contains("[123456789012345678.91]"), "{plan}");
    assert_eq!(world.column(&format!("SELECT d FROM dd WHERE e = {long}")).await.len(), 1);
    assert_eq!(world.count("UPDATE dd SET e = 0.0000000001 WHERE k = 1 AND d = -0.05").await, 1);
    assert_eq!(world.column("SELECT e FROM dd WHERE d < 0.5").await, ["0.0000000001"]);
    assert_eq!(world.count("DELETE FROM dd WHERE k = 1 AND d = 123456789012345678.91").await, 1);
    assert_eq!(world.column("SELECT d FROM dd").await, ["-0.05"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_beside_floats_are_floats() {
    let world = World::new().await;
    world.run("CREATE TABLE f (k int, x double, y float, v double, PRIMARY KEY (k, x, y))").await;
    world
        .run(
            "INSERT INTO f VALUES (1, 0.30000000000000004, 1.5, 1e300), \
             (1, 2.5, 0.25, 12345678901234567890.5), (1, 1e300, -1.5, -1.5)",
        )
        .await;
    assert_eq!(
        world.column("SELECT v FROM f WHERE k = 1 AND x = 0.30000000000000004 AND y = 1.5").await,
        ["1e300"]
    );
    for (condition, slice) in [
        ("x = 2.5", "[2.5]"),
        ("x > 1.5 * 2", "(3..]"),
        ("x BETWEEN 0.25 AND 5e-1", "[0.25..0.5]"),
        ("x IN (0.5, 2.5)", "[0.5] [2.5]"),
        ("x = 2.5 AND y >= -1.5", "[2.5, -1.5..2.5]"),
    ] {
        let plan = world.plan(&format!("SELECT v FROM f WHERE k = 1 AND {condition}")).await;
        assert!(plan.contains(slice), "{condition}: {plan}");
    }
    let large = "SELECT x FROM f WHERE v > 0.5 AND coalesce(v, 0.5) > 1.5 AND v * 2.5 > 1.5 \
                 AND CASE WHEN k = 1 THEN v ELSE 0.5 END > 0.5 ORDER BY x";
    assert_eq!(world.column(large).await, ["0.30000000000000004", "2.5"]);
    assert_eq!(world.count("UPDATE f SET v = 0.1 WHERE k = 1 AND x = 2.5 AND y = 0.25").await, 1);
    assert_eq!(world.column("SELECT v FROM f WHERE x = 2.5").await, ["0.1"]);
    assert_eq!(world.column("SELECT sqrt(6.25)").await, ["2.5"]);
    assert_eq!(world.column("SELECT 0.1 + 0.2").await, ["0.3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_rows_with_one_key_the_later_wins_whole() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (k int, c int, s text STATIC, v int, w int, PRIMARY KEY (k, c))")
        .await;
    for using in ["", " USING TIMESTAMP 5"] {
        let rows = "(1, 1, 'z', 9, 1), (1, 1, 'a', 1, 9), (1, 2, 'b', NULL, 1)";
        let insert = format!("INSERT INTO t VALUES {rows}{using}");
        assert_eq!(world.count(&insert).await, 3);
        let row = "SELECT concat_ws(',', s, v, w) FROM t WHERE k = 1 ORDER BY c";
        assert_eq!(world.column(row).await, ["b,1,9", "b,1"], "{using}");
        world.run("DROP TABLE t").await;
        world
            .run("CREATE TABLE t (k int, c int, s text STATIC, v int, w int, PRIMARY KEY (k, c))")
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selected_rows_with_one_key_and_one_timestamp_must_not_differ() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (k int, c int, s text STATIC, v int, w int, PRIMARY KEY (k, c))")
        .await;
    let insert = |columns: &str, select: &str, rows: u32| {
        format!(
            "INSERT INTO t ({columns}) SELECT {select} FROM generate_series(1, {rows}) AS r(n) \
             USING TIMESTAMP 5"
        )
    };
    // One batch, and three.
    for (rows, modulus, written) in [(20, 15, 0), (20_000, 15_000, 8192)] {
        let text = insert("k, c, v, w", &format!("{modulus}, n % {modulus}, n, -n"), rows);
        let error = world.error(&text).await;
        assert_eq!(
            error.message,
            format!(
                "two rows with the key (k = {modulus}, c = 1) differ, and with one timestamp \
                 neither is the later"
            )
        );
        let help = error.help.as_deref().unwrap();
        assert!(help.contains(&format!("; {written} rows had been written")), "{help}");
        let count = format!("SELECT count(*) FROM t WHERE k = {modulus}");
        assert_eq!(world.column(&count).await, [written.to_string()]);
    }
    let text = insert("k, c, s", "1, n, CASE WHEN n = 9000 THEN 'b' ELSE 'a' END", 9000);
    let error = world.error(&text).await;
    assert!(error.message.contains("partition (k = 1) differ in their static"), "{error}");

    // Rows that say the same are no contradiction, nor is a static value that comes with each.
    let same = insert("k, c, s, v", "2, n % 9000, 'a', n % 9000 + 0", 20_000);
    assert_eq!(world.count(&same).await, 20_000);
    let sums = "SELECT concat_ws(',', count(*), sum(v), max(s)) FROM t WHERE k = 2";
    assert_eq!(world.column(sums).await, ["9000,40495500,a"]);
    // Without a timestamp the later row wins whole, across batches too.
    let later =
        insert("k, c, v, w", "3, n % 15000, n, -n", 20_000).replace("USING TIMESTAMP 5", "");
    assert_eq!(world.count(&later).await, 20_000);
    assert_eq!(
        world.column("SELECT concat_ws(',', v, w) FROM t WHERE k = 3 AND c = 5").await,
        ["15005,-15005"]
    );
}

/// What has a cell for each element says as much as any other value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selected_rows_with_one_timestamp_must_not_differ_in_collections() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, l list<int>, m map<int, int>, s set<int>)").await;
    let insert = |column: &str, value: &str| {
        format!(
            "INSERT INTO t (k, {column}) SELECT 1, {value} FROM generate_series(1, 2) AS r(n) \
             USING TIMESTAMP 5"
        )
    };
    for (column, value) in [
        ("l", "make_array(n)"),
        ("l", "CASE WHEN n = 1 THEN make_array(1) ELSE make_array(1, 2) END"),
        ("l", "CASE WHEN n = 1 THEN make_array(1) END"),
        ("s", "make_array(n)"),
        ("m", "map(make_array(1), make_array(n))"),
        ("m", "map(make_array(n), make_array(1))"),
    ] {
        let error = world.error(&insert(column, value)).await;
        assert!(error.message.contains("the key (k = 1) differ"), "{column} {value}: {error}");
        assert_eq!(world.column("SELECT count(*) FROM t").await, ["0"]);
    }
    for (column, value) in [("l", "make_array(7, 8)"), ("m", "map(make_array(1), make_array(2))")] {
        assert_eq!(world.count(&insert(column, value)).await, 2, "{column}");
    }
    assert_eq!(world.column("SELECT l FROM t").await, ["[7, 8]"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_select_with_a_timestamp_take_memory_of_queries() {
    let memory = QueryMemory::new(Some(256 << 10));
    let world = World::with(SessionOptions { memory, ..SessionOptions::default() }).await;
    world.run("CREATE TABLE t (k int PRIMARY KEY)").await;
    let insert = |rows: u32| {
        format!("INSERT INTO t SELECT n FROM generate_series(1, {rows}) AS r(n) USING TIMESTAMP 5")
    };
    assert_eq!(world.count(&insert(5000)).await, 5000);
    let error = world.error(&insert(50_000)).await;
    assert_eq!(error.kind, ErrorKind::Overloaded, "{error}");
    assert!(error.help.as_deref().unwrap().contains("fewer rows at a time"), "{error:?}");
    assert_eq!(world.count(&insert(5000)).await, 5000, "memory is given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_value_is_named_by_column_and_place() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c tinyint, v timestamp, PRIMARY KEY (k, c))").await;
    for (text, message, column) in [
        ("INSERT INTO t VALUES (1, 2, NULL), ('x', 1, NULL)", "column 'k': 'x' is no int", 37),
        ("INSERT INTO t (k, c) VALUES (NULL, 1)", "column 'k': a key column must not be null", 30),
        ("INSERT INTO t (c, k) VALUES (200, 1)", "column 'c': 200 is out of range for tinyint", 30),
        ("INSERT INTO t VALUES (1, 1, 'noon')", "column 'v': 'noon' is no timestamp", 29),
        ("INSERT INTO t (k, c) VALUES (1, 2, 3)", "the row has 3 values for 2 columns: k, c", 36),
        ("INSERT INTO t VALUES (1, 2)", "the row has 2 values for 3 columns: k, c, v", 26),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.message, message, "{text}");
        assert_eq!(error.span.map(|span| span.column), Some(column), "{text}: {error}");
    }
    let error = world.error("INSERT INTO t (c, k) VALUES (1, nullif(1, 1))").await;
    assert!(error.message.starts_with("column 'k': a key column must not"), "{error}");
    world.run("INSERT INTO t VALUES (-2147483647, -127, '2013-01-01')").await;
    for (ty, most) in [("tinyint", 7), ("smallint", 15), ("int", 31), ("bigint", 63)] {
        world.run(&format!("CREATE TABLE {ty}s (k int PRIMARY KEY, v {ty})")).await;
        let over = 1_u64 << most;
        let error = world.error(&format!("INSERT INTO {ty}s VALUES (1, {over})")).await;
        assert_eq!(error.message, format!("column 'v': {over} is out of range for {ty}"));
        world.run(&format!("INSERT INTO {ty}s VALUES (1, {})", over - 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_static_and_other_columns_is_of_both_in_each_partition() {
    let world = table().await;
    for (path, keys, count, wanted) in [
        ("true", "pk = 5 AND a = 1 AND b = 1", 1, "5,1,1"),
        ("false", "pk = 6 AND a = 1 AND b = 1", 1, "6,1,1"),
        ("true", "pk IN (7, 8) AND a = 1 AND b IN (1, 2)", 4, "7,1,1 7,1,2 8,1,1 8,1,2"),
    ] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        let update = format!("UPDATE t SET v = 'v', w = 3, s = 's' WHERE {keys}");
        assert_eq!(world.count(&update).await, count, "{update}");
        let rows = format!(
            "SELECT concat_ws(',', pk, a, b, v, w, s) FROM t WHERE {keys} ORDER BY pk, a, b"
        );
        let with = |values: &str| -> Vec<String> {
            wanted.split(' ').map(|key| format!("{key}{values}")).collect()
        };
        assert_eq!(world.column(&rows).await, with(",v,3,s"), "{update}");
        let delete = format!("DELETE v, s FROM t WHERE {keys}");
        assert_eq!(world.count(&delete).await, count, "{delete}");
        assert_eq!(world.column(&rows).await, with(",3"), "{delete}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selected_row_that_cannot_be_written_is_named_by_its_number() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k bigint PRIMARY KEY, v bigint)").await;
    // In the first batch, and in the second one.
    for (bad, written) in [(3, "0"), (9001, "8192")] {
        let text = format!(
            "INSERT INTO t SELECT nullif(value, {bad}), value FROM generate_series(1, 10000) \
             AS s(value)"
        );
        let error = world.error(&text).await;
        let named = format!("row {bad}: column 'k'");
        assert!(error.message.contains(&named), "{error}");
        assert_eq!(world.column("SELECT count(*) FROM t").await, [written], "{error}");
        world.run("TRUNCATE t").await;
    }
}

/// A shard may refuse a write when its statement has no more rows to send. What is acknowledged is
/// there all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_whose_last_write_is_refused_says_so() {
    let world = table().await;
    let limit = "{'max_writes_per_second': 1}";
    world
        .run(&format!(
            "CREATE TABLE u (pk int, a int, PRIMARY KEY (pk, a)) \
             WITH per_partition_rate_limit = {limit}"
        ))
        .await;
    for (pk, rows) in [
        (1, "SELECT 1, {a} + b FROM t WHERE pk = 1 AND a = 1 AND b < 3"),
        (2, "VALUES (2, {a} + 1), (2, {a} + 1 + 1)"),
    ] {
        let (mut acknowledged, mut refused) = (Vec::new(), None);
        for a in (0..400).step_by(4) {
            let text = format!("INSERT INTO u (pk, a) {}", rows.replace("{a}", &a.to_string()));
            match world.try_run(&text).await {
                Ok(_) => acknowledged.extend([a + 1, a + 2].map(|a| a.to_string())),
                Err(error) => _ = refused.get_or_insert(error),
            }
        }
        let refused = refused.expect("100 statements are more writes than one a second");
        assert_eq!(refused.kind, ErrorKind::Overloaded, "{rows}");
        assert!(refused.message.contains("too many writes"), "{rows}: {refused}");
        let there = world.column(&format!("SELECT a FROM u WHERE pk = {pk}")).await;
        let lost: Vec<&String> = acknowledged.iter().filter(|a| !there.contains(a)).collect();
        assert!(lost.is_empty(), "{rows}: {lost:?} were acknowledged");
    }
}
