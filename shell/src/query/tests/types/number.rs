//! Arithmetic and aggregates: the right number, or an error.

use crate::query::tests::World;

const MAX: &str = "9223372036854775807";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_out_of_range_is_an_error() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (pk int PRIMARY KEY, b bigint, n int, s smallint, m decimal(38, 0))")
        .await;
    world
        .run(&format!("INSERT INTO t VALUES (1, {MAX}, 2147483647, 32767, 9{})", "9".repeat(37)))
        .await;
    for expression in [
        "b + 1",
        "b - -1",
        "b * 2",
        "1 + b",
        "b + b",
        "-(-b - 1)",
        "n + n",
        "s * s * s * s * s",
        "m + m",
        "m * 10",
        "m - -m",
        "sum(b) + 1",
    ] {
        let error = world.error(&format!("SELECT {expression} FROM t")).await;
        let is_told = error.message.contains("verflow") || error.message.contains("out of range");
        assert!(is_told, "{expression}: {error}");
    }
    for expression in [format!("{MAX} + 1"), format!("{MAX} * 2"), format!("-{MAX} - 2")] {
        let error = world.error(&format!("SELECT {expression}")).await;
        assert!(error.message.contains("verflow"), "{expression}: {error}");
    }
    for (expression, wanted) in [
        ("b - 1", "9223372036854775806"),
        ("b + 0", MAX),
        ("b - b", "0"),
        ("-b", "-9223372036854775807"),
        ("n + 1", "2147483648"),
        ("s + 1", "32768"),
        ("m - 1", "99999999999999999999999999999999999998"),
        ("b % 10", "7"),
        ("b / 2", "4611686018427387903"),
    ] {
        let query = format!("SELECT {expression} FROM t");
        assert_eq!(world.column(&query).await, [wanted], "{query}");
    }
    // Where types leave no room for an overflow nothing stands between.
    assert!(!world.plan("SELECT n + 1, s * 2, n % 7 FROM t").await.contains("checked"));
    let query = "SELECT b + 1 FROM t WHERE b + 1 > 5 GROUP BY b + 1 ORDER BY b + 1";
    assert!(world.error(query).await.message.contains("verflow"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_exact_or_errors() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (g int, n int, b bigint, m decimal(38, 10), PRIMARY KEY (g, n))")
        .await;
    let big = format!("{}.9999999999", "9".repeat(28));
    world
        .run(&format!(
            "INSERT INTO t VALUES (1, 1, {MAX}, {big}), (1, 2, {MAX}, {big}), (1, 3, -{MAX}, -{big}), \
             (2, 1, {MAX}, {big}), (2, 2, 1, {big}), (3, 1, NULL, NULL)"
        ))
        .await;
    for (query, wanted) in [
        ("SELECT sum(b) FROM t WHERE g = 1", MAX.to_owned()),
        ("SELECT sum(b) FROM t WHERE g = 3", String::new()),
        ("SELECT sum(b) FROM t WHERE g = 4", String::new()),
        ("SELECT sum(m) FROM t WHERE g = 1", big.clone()),
        ("SELECT sum(DISTINCT b) FROM t WHERE g = 1", "0".to_owned()),
        ("SELECT count(*) FROM (SELECT g, sum(b) FROM t WHERE g <> 2 GROUP BY g)", "2".to_owned()),
        (
            "SELECT sum(b) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t \
             WHERE g = 1 AND n > 1 ORDER BY n DESC LIMIT 1",
            "0".to_owned(),
        ),
        (
            "SELECT sum(DISTINCT b) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
             FROM t WHERE g = 1 AND n < 3 ORDER BY n DESC LIMIT 1",
            MAX.to_owned(),
        ),
        (
            "SELECT sum(DISTINCT m) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
             FROM t WHERE g = 1 ORDER BY n DESC LIMIT 1",
            "0.0000000000".to_owned(),
        ),
        (
            "SELECT sum(CAST(b AS decimal(38, 0))) FROM t WHERE g = 2",
            "9223372036854775808".to_owned(),
        ),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
    }
    for query in [
        "SELECT sum(b) FROM t WHERE g = 2",
        "SELECT g, sum(b) FROM t GROUP BY g",
        "SELECT sum(m) FROM t WHERE g = 2",
        "SELECT sum(b) OVER (ORDER BY n) FROM t WHERE g = 2",
        "SELECT sum(DISTINCT b) FROM t WHERE g = 2",
        "SELECT sum(DISTINCT b) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t \
         WHERE g = 2",
    ] {
        let error = world.error(query).await;
        let is_told =
            error.message.contains("out of range") || error.message.contains("does not fit");
        assert!(is_told, "{query}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_sums_of_a_moving_frame_follow_it() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, b bigint, m decimal(9, 2))").await;
    world
        .run(
            "INSERT INTO t VALUES (1, 5, 0.5), (2, 5, 0.5), (3, 7, NULL), (4, NULL, 1), (5, 5, 1), \
             (6, 5, 2)",
        )
        .await;
    let frame = "OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t ORDER BY k";
    for (function, wanted) in [
        ("sum(DISTINCT b)", "5,5,12,12,12,5"),
        ("sum(DISTINCT m)", "0.50,0.50,0.50,1.50,1.00,3.00"),
        ("avg(DISTINCT m)", "0.500000,0.500000,0.500000,0.750000,1.000000,1.500000"),
    ] {
        let found = world.column(&format!("SELECT {function} {frame}")).await;
        assert_eq!(found.join(","), wanted, "{function}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn averages_and_quotients_of_decimals_are_rounded() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (g int, n int, m decimal(9, 2), w decimal(38, 2), PRIMARY KEY (g, n))")
        .await;
    world.run("INSERT INTO t VALUES (1, 1, 1, 1), (1, 2, 0.5, 0), (1, 3, 0.5, 1)").await;
    world.run("INSERT INTO t VALUES (2, 1, -1, -1), (2, 2, -0.5, 0), (2, 3, -0.5, -1)").await;
    for (query, wanted) in [
        ("SELECT avg(w) FROM t WHERE g = 1", "0.666667"),
        ("SELECT avg(m) FROM t WHERE g = 1", "0.666667"),
        ("SELECT avg(m) FROM t WHERE g = 2 GROUP BY g", "-0.666667"),
        ("SELECT avg(DISTINCT m) FROM t WHERE g = 1", "0.750000"),
        ("SELECT 2.00 / 3.0", "0.666667"),
        ("SELECT -2.00 / 3.0", "-0.666667"),
        ("SELECT m / 0.3 FROM t WHERE g = 1 AND n = 1", "3.333333"),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
    }
    assert!(world.error("SELECT m / 0.0 FROM t").await.message.contains("by zero"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_groups_are_those_of_their_values() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (g int, n int, x double, f float, tu timeuuid, PRIMARY KEY (g, n))")
        .await;
    let early = "f0000000-53a9-11e2-8080-808080808080";
    let late = "00000000-53ac-11e2-8080-808080808080";
    world
        .run(&format!(
            "INSERT INTO t VALUES (1, 1, 'Infinity', 'Infinity', '{late}'), \
             (2, 1, '-Infinity', '-Infinity', '{early}'), \
             (3, 1, 'NaN', 'NaN', '{early}'), (3, 2, 1, 1, '{late}'), \
             (4, 1, 1, 1, '{late}'), (4, 2, 'NaN', 'NaN', '{early}'), \
             (5, 1, 0.0, 0.0, '{late}'), (5, 2, -0.0, -0.0, '{early}'), (6, 1, NULL, NULL, NULL)"
        ))
        .await;
    for x in ["x", "f"] {
        let query = format!("SELECT min({x}) FROM t GROUP BY g ORDER BY g");
        assert_eq!(
            world.column(&query).await,
            ["inf", "-inf", "1.0", "1.0", "-0.0", ""],
            "{query}"
        );
        let query = format!("SELECT max({x}) FROM t GROUP BY g ORDER BY g");
        assert_eq!(world.column(&query).await, ["inf", "-inf", "NaN", "NaN", "0.0", ""], "{query}");
        let query =
            format!("SELECT g FROM t GROUP BY g ORDER BY max({x}) DESC NULLS LAST, g LIMIT 3");
        assert_eq!(world.column(&query).await, ["3", "4", "1"], "{query}");
        let query = format!("SELECT min({x}) FROM t WHERE g IN (3, 4)");
        assert_eq!(world.column(&query).await, ["1.0"], "{query}");
    }
    let query = "SELECT max(tu) FROM t GROUP BY g ORDER BY g";
    assert_eq!(world.column(query).await, [late, early, late, late, late, ""]);
    assert_eq!(world.column("SELECT min(tu) FROM t").await, [early]);
    let query = "SELECT max(tu) OVER (PARTITION BY g ORDER BY n DESC ROWS 1 PRECEDING) FROM t \
                 WHERE g = 4 ORDER BY n";
    assert_eq!(world.column(query).await, [late, early]);
    let query = "SELECT g FROM t GROUP BY g ORDER BY min(tu) DESC NULLS LAST, g LIMIT 2";
    assert_eq!(world.column(query).await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_has_one_nan() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk double PRIMARY KEY, f float)").await;
    world.run("INSERT INTO t SELECT 0e0 / 0e0, -(0e0 / 0e0)").await;
    world.run("INSERT INTO t VALUES ('NaN', 'NaN')").await;
    let query = "SELECT count(*) FROM t WHERE pk = 'NaN'::double AND f = 'NaN'::float";
    assert_eq!(world.column(query).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn averages_of_bigints_are_those_of_their_exact_sum() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, g int, b bigint)").await;
    world
        .run(&format!(
            "INSERT INTO t VALUES (1, 1, {MAX}), (2, 1, -{MAX}), (3, 1, 3), (4, 2, {MAX}), \
             (5, 2, {MAX}), (6, 3, NULL), (7, 2, -{MAX})"
        ))
        .await;
    for (query, wanted) in [
        ("SELECT avg(b) FROM t WHERE g = 1", "1.0"),
        ("SELECT avg(DISTINCT b) FROM t WHERE g = 1", "1.0"),
        ("SELECT avg(b) FROM t GROUP BY g ORDER BY g", "1.0 3.0744573456182584e18 "),
        ("SELECT avg(DISTINCT b) FROM t WHERE g < 3 GROUP BY g ORDER BY g", "1.0 0.0"),
        ("SELECT avg(k) FROM t", "4.0"),
        ("SELECT arrow_typeof(avg(b)) FROM t", "Float64"),
        (
            "SELECT avg(b) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND CURRENT ROW) FROM t \
             WHERE g = 1 ORDER BY k",
            "9.223372036854775807e18 -9.223372036854775807e18 3.0",
        ),
    ] {
        let found = world.column(query).await;
        let number = |text: &str| text.parse::<f64>().ok();
        let wanted: Vec<&str> = wanted.split(' ').collect();
        let is_equal = |(found, wanted): (&String, &&str)| {
            found == wanted || number(wanted).is_some() && number(found) == number(wanted)
        };
        let is_alike = found.len() == wanted.len() && found.iter().zip(&wanted).all(is_equal);
        assert!(is_alike, "{query}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_left_a_moving_frame_leaves_nothing_behind() {
    let world = World::new().await;
    let values = |list: &str| {
        let rows = list.split(' ').enumerate();
        let rows: Vec<String> = rows.map(|(n, x)| format!("({n}, {x}::double)")).collect();
        format!("(VALUES {}) AS q(k, x)", rows.join(", "))
    };
    let great = values("1e17 1e0 1e17 3e0");
    let infinite = values("'Infinity' 1 2 NULL 3");
    let current = "ROWS BETWEEN CURRENT ROW AND CURRENT ROW";
    let two = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW";
    let ahead = "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING";
    for (expression, frame, from, wanted) in [
        ("sum(x)", current, &great, "1e17 1.0 1e17 3.0"),
        ("avg(x)", current, &great, "1e17 1.0 1e17 3.0"),
        ("sum(x)", two, &infinite, "inf inf 3.0 2.0 3.0"),
        ("avg(x)", two, &infinite, "inf inf 1.5 2.0 3.0"),
        ("sum(x)", ahead, &infinite, "inf 3.0 2.0 3.0 3.0"),
        ("sum(x) FILTER (WHERE x > 1)", two, &great, "1e17 1e17 1e17 1e17"),
        ("sum(x)", "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", &infinite, " inf inf 3.0 2.0"),
        ("sum(x)", "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", &infinite, "inf inf 3.0 2.0 3.0"),
    ] {
        let query = format!("SELECT {expression} OVER (ORDER BY k {frame}) FROM {from} ORDER BY k");
        let found = world.column(&query).await.join(" ");
        let number = |text: &str| text.parse::<f64>().ok();
        let is_alike = found.split(' ').map(number).eq(wanted.split(' ').map(number));
        assert!(is_alike, "{query}: {found}");
    }
    // A frame of a thousand rows that moves over many: the same as of each frame by itself.
    let frame = "ROWS BETWEEN 999 PRECEDING AND CURRENT ROW";
    let query = format!(
        "SELECT count(*) FROM (SELECT k, sum(x) OVER (ORDER BY k {frame}) AS s FROM \
         (SELECT value AS k, value::double AS x FROM generate_series(1, 5000))) \
         WHERE s <> CASE WHEN k < 1000 THEN k * (k + 1) / 2 ELSE 1000 * k - 499500 END"
    );
    assert_eq!(world.column(&query).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spreads_of_a_moving_frame_are_those_of_its_values() {
    let world = World::new().await;
    let from = "(VALUES (1, 1e17::double, 3::double), (2, 1, 1), (3, 3, 5), (4, 'Infinity', 2), \
                (5, 2, 7), (6, 6, NULL), (7, 8, 9)) AS q(k, x, y)";
    let two = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW";
    for (expression, wanted) in [
        ("var_pop(x)", "0 2.5e33 1 NaN NaN 4 1"),
        ("stddev_pop(x)", "0 5e16 1 NaN NaN 2 1"),
        ("var_samp(x)", "- 5e33 2 NaN NaN 8 2"),
        (
            "stddev(x) FILTER (WHERE x < 9)",
            "- - 1.4142135623730951 - - 2.8284271247461903 \
          1.4142135623730951",
        ),
        ("covar_pop(y, x)", "0 5e16 2 NaN NaN 0 0"),
        ("covar_samp(y, x)", "- 1e17 4 NaN NaN - -"),
        ("corr(y, x)", "- 1 1 NaN NaN - -"),
        ("regr_slope(x, y)", "- 5e16 0.5 NaN NaN - -"),
    ] {
        let query = format!("SELECT {expression} OVER (ORDER BY k {two}) FROM {from} ORDER BY k");
        let found = world.column(&query).await;
        let number = |text: &str| text.parse::<f64>().unwrap_or(-1.0);
        let is_equal = |(found, wanted): (&String, &str)| {
            let (found, wanted) = (number(found), number(wanted));
            // Of an infinity there is no spread.
            let is_none = wanted.is_nan() && (found.is_nan() || found == -1.0);
            (found - wanted).abs() <= wanted.abs() * 1e-12 || is_none
        };
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        assert_eq!(found.len(), wanted.len());
        assert!(found.iter().zip(wanted).all(is_equal), "{query}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_average_of_nothing_but_null_is_null() {
    let world = World::new().await;
    for query in [
        "SELECT avg(NULL)",
        "SELECT avg(x) FROM (SELECT NULL AS x)",
        "SELECT avg(NULL) OVER ()",
        "SELECT avg(DISTINCT NULL)",
    ] {
        assert_eq!(world.column(query).await, [""], "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_and_in_of_a_query_agree_with_equality() {
    let world = World::new().await;
    world
        .run("CREATE TABLE o (k int PRIMARY KEY, de decimal(24, 4), dd double, u uuid, ts timestamp)")
        .await;
    let id = "aaaaaaaa-0000-4000-8000-0000000000aa";
    world
        .run(&format!(
            "INSERT INTO o VALUES (1, 10000000000000000, 1e16, '{id}', '2020-01-01T00:00:00Z'), \
             (2, 0, -0.0, NULL, NULL)"
        ))
        .await;
    let upper = id.to_uppercase();
    for (left, right, wanted) in [
        ("dd", "0.0", "false true"),
        ("dd", "-0.0", "false true"),
        ("dd", "0", "false true"),
        ("de", "dd", "true true"),
        ("dd", "de", "true true"),
        ("de", "1e16", "true false"),
        ("dd", "NULL", "false false"),
        ("u", &format!("'{upper}'"), "true false"),
        ("ts", "'2020-01-01'", "true false"),
        ("ts", "'2020-01-01T00:00:00.0001Z'", "false false"),
        ("k", "1.0", "true false"),
    ] {
        for expression in [
            format!("{left} = {right}"),
            format!("CASE {left} WHEN {right} THEN true ELSE false END"),
            format!("CASE {left} WHEN {right} THEN true WHEN {right} THEN false ELSE false END"),
        ] {
            let query = format!("SELECT coalesce({expression}, false) FROM o ORDER BY k");
            assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
        }
        let keys = ["1", "2"].into_iter().zip(wanted.split(' '));
        let keys: Vec<&str> = keys.filter(|(_, found)| *found == "true").map(|(k, _)| k).collect();
        let query = format!("SELECT k FROM o WHERE {left} IN (SELECT {right} FROM o) ORDER BY k");
        assert_eq!(world.column(&query).await, keys, "{query}");
    }
    let volatile = "SELECT CASE random() WHEN 2 THEN 1 ELSE 0 END";
    assert_eq!(world.column(volatile).await, ["0"]);
    let query = "SELECT k FROM o WHERE de NOT IN (SELECT dd FROM o)";
    assert!(world.column(query).await.is_empty());
    let query =
        "SELECT a.k FROM o a WHERE a.de IN (SELECT b.dd FROM o b WHERE b.k = a.k) ORDER BY 1";
    assert_eq!(world.column(query).await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_case_of_several_kinds_agrees_with_equality_in_each() {
    let world = World::new().await;
    world.run("CREATE TABLE o (k int PRIMARY KEY, ts timestamp)").await;
    world.run("INSERT INTO o VALUES (1, '2020-01-01T00:00:00Z'), (2, NULL)").await;
    for (base, first, wanted) in [
        ("'2020-01-01'", "'2019-01-01'", "true false"),
        ("'2020-01-01'", "'2020-01-01'", "false false"),
        // A text beside a text stays one, and is finer than the column.
        ("'2020-01-01T00:00:00.0001Z'", "'2019-01-01'", "false false"),
    ] {
        let case = format!("CASE {base} WHEN {first} THEN false WHEN ts THEN true ELSE false END");
        let query = format!("SELECT {case} FROM o ORDER BY k");
        assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_sums_that_differ_in_one_operator_are_two() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, b bigint)").await;
    world.run("INSERT INTO t VALUES (1, 1)").await;
    let long = |first: &str| format!("b {first} b{}", " + b".repeat(39));
    let query = format!("SELECT concat_ws(',', {}, {}) FROM t", long("+"), long("-"));
    assert_eq!(world.column(&query).await, ["41,39"]);
    let query = format!("SELECT concat_ws(',', sum({}), sum({})) FROM t", long("+"), long("-"));
    assert_eq!(world.column(&query).await, ["41,39"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cast_to_a_float_gives_no_infinity_of_its_own() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, s text, d double)").await;
    world.run("INSERT INTO t VALUES (1, '1e400', 1e39), (2, '-inf', 1.5), (3, NULL, NULL)").await;
    for (expression, named) in [
        ("CAST('1e400' AS double)", "'1e400' is out of range for double"),
        ("CAST('-1e400' AS double)", "'-1e400' is out of range for double"),
        ("CAST('1e39' AS float)", "'1e39' is out of range for float"),
        ("CAST(1e39 AS float)", "is out of range for float"),
        ("CAST(d AS float) FROM t", "is out of range for float"),
        ("CAST(s AS double) FROM t", "'1e400' is out of range for double"),
        ("count(*) FROM t WHERE d > '1e400'", "'1e400' is out of range for double"),
        ("CAST(1234567890123456789012345678901234567890.5 AS float)", "out of range for float"),
    ] {
        let error = world.error(&format!("SELECT {expression}")).await;
        assert!(error.message.contains(named), "{expression}: {error}");
        assert!(error.span.is_some(), "{expression}: {error}");
    }
    for (query, wanted) in [
        ("SELECT CAST('Infinity' AS double)", "inf"),
        ("SELECT CAST('-inf' AS float)", "-inf"),
        ("SELECT CAST('NaN' AS double)", "NaN"),
        ("SELECT CAST(CAST('inf' AS double) AS float)", "inf"),
        ("SELECT CAST('1e308' AS double)", "1e308"),
        ("SELECT 0e0 IN (CAST('-0.0' AS double), 1.5)", "true"),
        ("SELECT TRY_CAST('1e400' AS double)", ""),
        ("SELECT TRY_CAST(s AS double) FROM t ORDER BY k", " -inf "),
        ("SELECT TRY_CAST(d AS float) FROM t ORDER BY k", " 1.5 "),
        (
            "SELECT CAST(d AS float) AS f FROM t WHERE k > 1 GROUP BY CAST(d AS float) ORDER BY f",
            "1.5 ",
        ),
    ] {
        assert_eq!(world.column(query).await.join(" "), wanted, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_of_nothing_but_null_is_null() {
    let world = World::new().await;
    for query in [
        "SELECT sum(NULL)",
        "SELECT sum(DISTINCT NULL)",
        "SELECT sum(NULL) OVER ()",
        "SELECT avg(NULL)",
        "SELECT sum(NULL) FROM (VALUES (1), (2)) AS r (a) GROUP BY a > 5",
    ] {
        assert_eq!(world.column(query).await, [""], "{query}");
    }
}

/// A join makes a group of the rows that a frame has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_spread_of_a_moving_frame_is_that_of_a_group_of_its_rows() {
    let world = World::new().await;
    world.run("CREATE TABLE q (k int PRIMARY KEY, x double, y double)").await;
    world
        .run(
            "INSERT INTO q VALUES (1, 1e17, 3), (2, 1, 1), (3, 3, 5), (4, 4, 2), (5, 2, 7), \
             (6, 6, NULL), (7, 8, 9), (8, 5, 4)",
        )
        .await;
    let frame = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW";
    let finite = |text: &String| text.parse::<f64>().ok().filter(|number| number.is_finite());
    for (function, columns) in [
        ("var_samp", &["x"][..]),
        ("var_pop", &["y"]),
        ("stddev", &["y"]),
        ("stddev_pop", &["x"]),
        ("covar_samp", &["y", "x"]),
        ("covar_pop", &["x", "y"]),
        ("corr", &["y", "x"]),
        ("regr_slope", &["y", "x"]),
        ("regr_intercept", &["y", "x"]),
        ("regr_r2", &["y", "x"]),
        ("regr_avgx", &["y", "x"]),
        ("regr_avgy", &["y", "x"]),
        ("regr_sxx", &["y", "x"]),
        ("regr_syy", &["y", "x"]),
        ("regr_sxy", &["y", "x"]),
    ] {
        let call = |table: &str| {
            let columns: Vec<String> =
                columns.iter().map(|column| format!("{table}.{column}")).collect();
            format!("{function}({})", columns.join(", "))
        };
        let moving = format!("{} OVER (ORDER BY a.k {frame}) FROM q a", call("a"));
        let found = world.column(&format!("SELECT {moving} ORDER BY a.k")).await;
        let grouped = format!("{} FROM q a JOIN q b ON b.k BETWEEN a.k - 1 AND a.k", call("b"));
        let wanted = world.column(&format!("SELECT {grouped} GROUP BY a.k ORDER BY a.k")).await;
        assert_eq!((found.len(), wanted.len()), (8, 8), "{function}");
        let is_alike = |(found, wanted): (&String, &String)| match (finite(found), finite(wanted)) {
            (Some(found), Some(wanted)) => (found - wanted).abs() <= wanted.abs().max(1.0) * 1e-9,
            (found, wanted) => found == wanted,
        };
        assert!(found.iter().zip(&wanted).all(is_alike), "{function}: {found:?} {wanted:?}");
        assert!(found.iter().filter_map(finite).count() >= 5, "{function}: {found:?}");
    }
}
