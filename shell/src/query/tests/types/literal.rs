//! Constants that a column cannot hold, or that are written in another way.

use crate::query::tests::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instant_finer_than_a_timestamp_is_compared_exactly() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ts timestamp, r timestamp, PRIMARY KEY (pk, ts))").await;
    for ms in ["59.998", "59.999"] {
        let at = format!("1969-12-31T23:59:{ms}Z");
        world.run(&format!("INSERT INTO t VALUES (1, '{at}', '{at}')")).await;
    }
    for ms in ["00.000", "00.001"] {
        let at = format!("2024-01-01T00:00:{ms}Z");
        world.run(&format!("INSERT INTO t VALUES (1, '{at}', '{at}')")).await;
    }
    let between = "2024-01-01 00:00:00.0005";
    let before = "1969-12-31 23:59:59.9985";
    for (condition, wanted) in [
        (format!("= '{between}'"), 0),
        (format!("<> '{between}'"), 4),
        (format!("< '{between}'"), 3),
        (format!("<= '{between}'"), 3),
        (format!("> '{between}'"), 1),
        (format!(">= '{between}'"), 1),
        (format!("< '{before}'"), 1),
        (format!(">= '{before}'"), 3),
        (format!("BETWEEN '{before}' AND '{between}'"), 2),
        (format!("NOT BETWEEN '{before}' AND '{between}'"), 2),
        (format!("IN ('{between}', '2024-01-01T00:00:00.001Z')"), 1),
        (format!("IN ('{between}', '{before}')"), 0),
        (format!("IN ('{between}', '{before}', '{between}9', '2024-01-01', '{between}8')"), 1),
        (format!("NOT IN ('{between}', '{before}')"), 4),
        (format!("IS DISTINCT FROM '{between}'"), 4),
        (format!("IS NOT DISTINCT FROM '{between}'"), 0),
        ("= '2024-01-01T00:00:00.000000000Z'".to_owned(), 1),
        (">= DATE '2024-01-01'".to_owned(), 2),
    ] {
        for column in ["ts", "r"] {
            let typed = condition.replace(" '", " TIMESTAMP '").replace("DATE TIMESTAMP", "DATE");
            for typed in [condition.clone(), typed] {
                let query = format!("SELECT count(*) FROM t WHERE pk = 1 AND {column} {typed}");
                assert_eq!(world.column(&query).await, [wanted.to_string()], "{query}");
            }
        }
    }
    let query = format!("SELECT ts FROM t WHERE pk = 1 AND TIMESTAMP '{between}' <= ts");
    let plan = world.plan(&query).await;
    assert!(plan.contains("slices=(") && !plan.contains("filter="), "{plan}");
    let null =
        format!("SELECT (r = TIMESTAMP '{between}') IS NULL FROM (SELECT NULL::timestamp AS r)");
    assert_eq!(world.column(&null).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_by_an_instant_finer_than_a_timestamp_touches_no_other() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ts timestamp, v int, PRIMARY KEY (pk, ts))").await;
    let left = "SELECT v FROM t WHERE pk = 1 ORDER BY ts";
    let at = "2024-01-01 00:00:00";
    for (condition, wanted) in [
        (format!("ts >= TIMESTAMP '{at}.0005'"), "1"),
        (format!("ts > '{at}.0005'"), "1"),
        (format!("ts < TIMESTAMP '{at}.0005'"), "2"),
        (format!("ts <= '{at}.0005'"), "2"),
        (format!("ts = TIMESTAMP '{at}.0005'"), "1 2"),
        (format!("ts IN ('{at}.0005', '{at}.001')"), "1"),
    ] {
        world.run(&format!("INSERT INTO t VALUES (1, '{at}.000', 1), (1, '{at}.001', 2)")).await;
        world.run(&format!("DELETE FROM t WHERE pk = 1 AND {condition}")).await;
        assert_eq!(world.column(left).await.join(" "), wanted, "{condition}");
    }
    world.run(&format!("INSERT INTO t VALUES (1, '{at}.000', 1), (1, '{at}.001', 2)")).await;
    let count = world.count(&format!("UPDATE t SET v = 9 WHERE pk = 1 AND ts = '{at}.0005'")).await;
    assert_eq!((count, world.column(left).await.join(" ").as_str()), (0, "1 2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instant_within_a_day_is_compared_with_dates_exactly() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, day date, r date, PRIMARY KEY (pk, day))").await;
    for day in ["1969-12-31", "2024-01-01", "2024-01-02"] {
        world.run(&format!("INSERT INTO t VALUES (1, '{day}', '{day}')")).await;
    }
    for (condition, wanted) in [
        ("< '2024-01-01T12:00:00'", 2),
        ("<= TIMESTAMP '2024-01-01 12:00:00'", 2),
        ("= '2024-01-01T12:00:00'", 0),
        ("= '2024-01-01T00:00:00'", 1),
        ("<> TIMESTAMP '2024-01-01 12:00:00'", 3),
        ("> '1969-12-31 00:00:01'", 2),
        (">= '1969-12-31 00:00:01'", 2),
        ("BETWEEN '1969-12-31 12:00:00' AND '2024-01-01 12:00:00'", 1),
        ("IN ('2024-01-01T12:00:00', '2024-01-02')", 1),
    ] {
        for column in ["day", "r"] {
            let query = format!("SELECT count(*) FROM t WHERE pk = 1 AND {column} {condition}");
            assert_eq!(world.column(&query).await, [wanted.to_string()], "{query}");
        }
    }
    let error = world.error("INSERT INTO t (pk, day) VALUES (1, '2024-01-01T12:00:00')").await;
    assert!(error.message.contains("time of day"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uuids_and_addresses_are_compared_by_what_they_name() {
    let world = World::new().await;
    let id = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
    let upper = id.to_uppercase();
    let bare = id.replace('-', "");
    world.run("CREATE TABLE t (id uuid, r uuid, a inet, b inet, PRIMARY KEY (id, a))").await;
    world.run(&format!("INSERT INTO t VALUES ('{id}', '{id}', '::1', '10.0.0.1')")).await;
    world.run("CREATE TABLE names (n int PRIMARY KEY, id text, a text)").await;
    world.run(&format!("INSERT INTO names VALUES (1, '{upper}', '0:0::1'), (2, '?', '?')")).await;
    for (condition, wanted) in [
        (format!("id = '{upper}'"), 1),
        (format!("id <> '{upper}'"), 0),
        (format!("r = '{bare}'"), 1),
        (format!("'{upper}' <> r"), 0),
        (format!("r IN ('{upper}')"), 1),
        (format!("r IN ('{upper}', 'x', 'y', 'z', 'w')"), 1),
        (format!("r NOT IN ('{upper}', 'x')"), 0),
        (format!("r IS DISTINCT FROM '{upper}'"), 0),
        (format!("r BETWEEN '{upper}' AND '{upper}'"), 1),
        (format!("r > '{upper}'"), 0),
        (format!("CASE r WHEN '{upper}' THEN 1 ELSE 2 END = 1"), 1),
        ("r = 'x'".to_owned(), 0),
        ("r <> 'x'".to_owned(), 1),
        ("a = '0:0:0::1'".to_owned(), 1),
        ("a <> '0:0:0::1'".to_owned(), 0),
        ("b = '::ffff:10.0.0.1'".to_owned(), 1),
        ("b NOT IN ('::ffff:10.0.0.1')".to_owned(), 0),
        ("r IN (SELECT id FROM names)".to_owned(), 1),
        ("a IN (SELECT a FROM names)".to_owned(), 1),
        ("r = (SELECT id FROM names WHERE n = 1)".to_owned(), 1),
        ("EXISTS (SELECT 1 FROM names AS m WHERE m.id = t.r)".to_owned(), 1),
        ("r NOT IN (SELECT id FROM names)".to_owned(), 0),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(world.column(&query).await, [wanted.to_string()], "{query}");
    }
    for join in [
        "t JOIN names ON t.r = names.id",
        "t JOIN names ON names.a = t.a",
        "t JOIN names ON t.r = names.id AND t.a = names.a",
        "(SELECT * FROM t) AS s JOIN names ON s.id = names.id",
    ] {
        let query = format!("SELECT count(*) FROM {join}");
        assert_eq!(world.column(&query).await, ["1"], "{query}");
    }
    let join = format!("SELECT count(*) FROM t JOIN (VALUES ('{upper}')) AS v (x) ON t.id = v.x");
    assert_eq!(world.column(&join).await, ["1"], "{join}");
    let back = "SELECT count(*) FROM names WHERE id IN (SELECT r FROM t)";
    assert_eq!(world.column(back).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_equal_in_lists_as_they_are_elsewhere() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (d double, f float, n int, dec decimal(20, 4), PRIMARY KEY (d, f))")
        .await;
    world
        .run("INSERT INTO t VALUES (-0.0, -0.0, 1, 1.5), (0.0, 0.0, 2, 9999999999999999.9999)")
        .await;
    world.run("INSERT INTO t VALUES (7.25, 1.0, 3, 0)").await;
    for (condition, wanted) in [
        ("d = 0.0", 2),
        ("d = -0.0", 2),
        ("d IN (0.0)", 2),
        ("d IN (0.0, 7.25, 2)", 3),
        ("d IN (0.0, 7.25, 2, 3)", 3),
        ("d IN (-0.0, 7.25, 2, 3)", 3),
        ("d IN (0, 7.25, 2, 3, 4)", 3),
        ("d NOT IN (0, 1, 2, 3, 4)", 1),
        ("f IN (0, 1, 2, 3, 4)", 3),
        ("f IN (-0.0, 11, 2, 3, 4)", 2),
        ("d = 0.0 AND f > -0.0", 0),
        ("d = 0.0 AND f >= 0.0", 2),
        ("d = 0.0 AND f < 0.0", 0),
        ("d = 0.0 AND f <= -0.0", 2),
        ("dec = 1.5::double", 1),
        ("dec IN (1.5::double)", 1),
        ("dec IN (1.5::double, 2, 3, 4, 5)", 1),
        ("dec = 9999999999999999.9999::double", 1),
        ("dec IN (9999999999999999.9999::double, 1)", 1),
        ("dec IN (9999999999999999.9999::double, 1, 2, 3, 4)", 1),
        ("dec BETWEEN 9999999999999999.9999::double AND 1e17", 1),
        ("dec IN (9999999999999999.9999, 1, 2, 3, 4)", 1),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(world.column(&query).await, [wanted.to_string()], "{query}");
    }
    for (zero, wanted) in [
        ("d FROM t WHERE n = 1", "-0.0"),
        ("-0.0::double", "-0.0"),
        ("CAST(-0.0 AS float)", "-0.0"),
        ("1.0 -0.0", "1.0"),
        ("-0.0 * 1e0", "-0.0"),
        ("-0.0", "0.0"),
    ] {
        assert_eq!(world.column(&format!("SELECT {zero}")).await, [wanted], "{zero}");
    }
}

/// An UPDATE makes the row that it names: of two zeros, which SQL takes for equal, just that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_a_zero_writes_one_row() {
    let world = World::new().await;
    world.run("CREATE TABLE z (p int, c double, v int, PRIMARY KEY (p, c))").await;
    world.run("UPDATE z SET v = 1 WHERE p = 5 AND c = 0.0").await;
    assert_eq!(world.column("SELECT count(*) FROM z").await, ["1"]);
    world.run("UPDATE z SET v = 2 WHERE p = 5 AND c = -0.0").await;
    assert_eq!(
        world.column("SELECT v FROM z WHERE p = 5 AND c = 0.0 ORDER BY v").await,
        ["1", "2"]
    );
    world.run("DELETE FROM z WHERE p = 5 AND c = 0.0").await;
    assert_eq!(world.column("SELECT count(*) FROM z").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uuids_and_addresses_within_others_are_compared_by_what_they_name() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk frozen<list<uuid>>, ck frozen<tuple<uuid, int>>, l list<uuid>, \
             m map<uuid, int>, i map<text, frozen<list<inet>>>, PRIMARY KEY ((pk), ck))",
        )
        .await;
    let lower = "aaaaaaaa-0000-4000-8000-0000000000aa";
    let id = lower.to_uppercase();
    world
        .run(&format!(
            "INSERT INTO t VALUES (['{id}'], ('{id}', 1), ['{id}'], {{'{id}': 1}}, \
             {{'a': ['0:0::1']}})"
        ))
        .await;
    world.run("CREATE TABLE names (n int PRIMARY KEY, l list<text>, x text)").await;
    world.run(&format!("INSERT INTO names VALUES (1, ['{id}'], '{id}')")).await;
    for (condition, wanted) in [
        (format!("pk = ['{id}']"), 1),
        (format!("pk <> ['{id}']"), 0),
        (format!("ck = ('{id}', 1)"), 1),
        (format!("ck <> ('{id}', 1)"), 0),
        (format!("pk = ['{lower}'] AND ck = ('{id}', 1)"), 1),
        (format!("pk IN (['x'], ['{id}'])"), 1),
        (format!("pk NOT IN (['x'], ['{id}'])"), 0),
        (format!("l = ['{id}']"), 1),
        (format!("['{id}'] IS DISTINCT FROM l"), 0),
        (format!("l[1] = '{id}'"), 1),
        (format!("l[1] IN ('{id}', 'x')"), 1),
        (format!("ck['c0'] = '{id}'"), 1),
        (format!("array_has(l, '{id}')"), 1),
        (format!("array_has_any(l, ['{id}', 'x'])"), 1),
        (format!("array_position(l, '{id}') = 1"), 1),
        (format!("m['{id}'] = 1"), 1),
        (format!("map_keys(m) = ['{id}']"), 1),
        (format!("array_has(map_keys(m), '{id}')"), 1),
        ("i['a'] = ['0:0:0::1']".to_owned(), 1),
        ("i['a'][1] = '0:0:0::1'".to_owned(), 1),
        (format!("CASE l WHEN ['{id}'] THEN 1 ELSE 2 END = 1"), 1),
        ("l IN (SELECT l FROM names)".to_owned(), 1),
        ("l = (SELECT l FROM names)".to_owned(), 1),
        ("EXISTS (SELECT 1 FROM names WHERE names.l = t.l AND names.x = t.l[1])".to_owned(), 1),
        ("l <> ['x']".to_owned(), 1),
        ("l[1] = 'x'".to_owned(), 0),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(world.column(&query).await, [wanted.to_string()], "{query}");
    }
    for join in ["t JOIN names ON t.l = names.l", "names JOIN t ON names.x = t.l[1]"] {
        let query = format!("SELECT count(*) FROM {join}");
        assert_eq!(world.column(&query).await, ["1"], "{query}");
    }
    let back = "SELECT count(*) FROM names WHERE l IN (SELECT pk FROM t)";
    assert_eq!(world.column(back).await, ["1"]);
    let plan = world.plan(&format!("SELECT m FROM t WHERE pk = ['{id}']")).await;
    assert!(plan.contains("1 key") && !plan.contains("filter="), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_that_nanoseconds_do_not_reach_are_asked_for() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, ts timestamp)").await;
    world
        .run(
            "INSERT INTO t VALUES (1, '9999-12-31T00:00:00Z'), (2, '1600-01-01T00:00:00Z'), \
             (3, '2020-01-01T00:00:00Z')",
        )
        .await;
    for (condition, wanted) in [
        ("ts < '9999-12-31'", "2 3"),
        ("ts <= '9999-12-31T00:00:00Z'", "1 2 3"),
        ("ts <= '9999-12-30T23:59:59.9999'", "2 3"),
        ("ts = '9999-12-31'", "1"),
        ("ts <> '9999-12-31'", "2 3"),
        ("'1600-01-01' < ts", "1 3"),
        ("ts BETWEEN '1500-01-01' AND '2100-01-01'", "2 3"),
        ("ts IN ('1600-01-01', '2020-01-01')", "2 3"),
        ("ts NOT IN ('1600-01-01', '2020-01-01T00:00:00.000001')", "1 3"),
        ("ts > TIMESTAMP '1600-01-01 00:00:00'", "1 3"),
        ("ts = TIMESTAMP '9999-12-31 00:00:00'", "1"),
        ("ts = '9999-12-31'::timestamp", "1"),
        ("ts > CAST('9999-12-30' AS timestamp)", "1"),
        ("ts > TIMESTAMP '2020-01-01 00:00:00'", "1"),
        ("ts > '2020-01-01'", "1"),
    ] {
        let query = format!("SELECT pk FROM t WHERE {condition} ORDER BY pk");
        assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
    }
    let literal = "SELECT TIMESTAMP '1600-01-01 00:00:00.000001'";
    assert_eq!(world.column(literal).await, ["1600-01-01T00:00:00.000001"]);
    assert!(world.error("SELECT pk FROM t WHERE ts < '9999-13-31'").await.message.contains("13"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_of_instants_and_functions_over_elements() {
    let world = World::new().await;
    let days = "SELECT value::text FROM generate_series(TIMESTAMP '2023-01-01 00:00:00', \
                TIMESTAMP '2023-01-02 12:00:00', INTERVAL '12' HOUR)";
    assert_eq!(
        world.column(days).await,
        [
            "2023-01-01T00:00:00",
            "2023-01-01T12:00:00",
            "2023-01-02T00:00:00",
            "2023-01-02T12:00:00"
        ]
    );
    let far = "SELECT * FROM range(TIMESTAMP '9999-01-01 00:00:00', NULL, INTERVAL '1' DAY)";
    let error = world.error(far).await;
    assert!(error.message.contains("Timestamp(ns)"), "nanoseconds end in 2262: {error}");
    let lists = "SELECT array_to_string(array_transform([1, 2, 3], x -> x * 2), ',') || ' ' \
                 || array_to_string(array_filter([1, 2, 3], x -> x > 1), ',')";
    assert_eq!(world.column(lists).await, ["2,4,6 2,3"]);
    world.run("CREATE TABLE l (pk int PRIMARY KEY, v list<int>)").await;
    world.run("INSERT INTO l VALUES (1, [3, 4])").await;
    let stored = "SELECT array_to_string(array_transform(v, x -> x + pk), ',') FROM l";
    assert_eq!(world.column(stored).await, ["4,5"]);
}
