//! Prepared statements: what is kept is never stale, and many rows of parameters.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::pretty::pretty_format_batches;

use super::World;
use crate::query::prepared::Plans;
use crate::query::{Caller, Description, ErrorKind, Prepared, Result, Session, split};

fn prepare(session: &Session, text: &str) -> Prepared {
    session.prepare(split(text).unwrap().remove(0), &session.keyspace())
}

fn ints(values: &[Option<i32>]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn rows(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (1..=columns.len()).map(|n| format!("${n}"));
    RecordBatch::try_from_iter(names.zip(columns)).unwrap()
}

/// The rows of a prepared statement, or its error.
async fn answer(session: &Session, prepared: &Prepared, bound: Option<&RecordBatch>) -> String {
    let outcome = match session.run_prepared(prepared, bound).await {
        Ok(outcome) => outcome,
        Err(error) => return error.to_string(),
    };
    match outcome.collect().await {
        Ok(batches) => pretty_format_batches(&batches).unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

/// Reads of the short path and of the planner's, and a write of each.
const STATEMENTS: [&str; 5] = [
    "SELECT * FROM t WHERE k = 1",
    "SELECT * FROM t WHERE k + 0 = 1",
    "SELECT count(*) FROM t",
    "INSERT INTO t (k, v) VALUES (1, 5)",
    "INSERT INTO t (k, v) SELECT 1, 5",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_that_others_change_reach_what_was_prepared() {
    let world = World::new().await;
    let other = world.session.at("default");
    let table = "CREATE TABLE t (k int PRIMARY KEY, v int)";
    other.execute(table).await.unwrap();
    let prepared = STATEMENTS.map(|text| prepare(&world.session, text));
    for change in [
        "SELECT 1",
        "DROP TABLE t",
        "CREATE TABLE t (k int PRIMARY KEY, v text)",
        "DROP TABLE t",
        "CREATE TABLE t (v int, w int, k int PRIMARY KEY)",
        "INSERT INTO t (k, w) VALUES (1, 7)",
        "TRUNCATE t",
        "ALTER TABLE t WITH default_time_to_live = 1000",
        "DROP TABLE t",
        table,
    ] {
        other.execute(change).await.unwrap();
        for (text, prepared) in STATEMENTS.iter().zip(&prepared) {
            let fresh = prepare(&world.session, text);
            let wanted = answer(&world.session, &fresh, None).await;
            let found = answer(&world.session, prepared, None).await;
            assert_eq!(found, wanted, "{text} after {change}");
            let described = world.session.describe_prepared(prepared, None).await;
            let wanted = world.session.describe(fresh.statement()).await;
            let shown = |description: Result<Description>| match description {
                Ok(Description {
                    schema,
                    parameters,
                    returns_rows,
                    is_query,
                    is_conditional,
                    ..
                }) => Ok((schema, parameters, returns_rows, is_query, is_conditional)),
                Err(error) => Err(error.to_string()),
            };
            assert_eq!(shown(described), shown(wanted), "{text} after {change}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tables_of_the_system_hold_is_looked_up_again() {
    let world = World::new().await;
    let count = "SELECT count(*) FROM system.tables WHERE keyspace_name = 'default'";
    let prepared = prepare(&world.session, count);
    let before = answer(&world.session, &prepared, None).await;
    world.run("CREATE TABLE t (k int PRIMARY KEY)").await;
    let after = answer(&world.session, &prepared, None).await;
    assert_ne!(before, after);
    let clock = prepare(&world.session, "SELECT now() FROM t");
    world.run("INSERT INTO t (k) VALUES (1)").await;
    let first = answer(&world.session, &clock, None).await;
    assert_ne!(first, answer(&world.session, &clock, None).await, "time goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_keyspaces_keep_plans_apart() {
    let world = World::new().await;
    for text in [
        "CREATE TABLE t (k int PRIMARY KEY)",
        "CREATE KEYSPACE other",
        "CREATE TABLE other.t (k int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO other.t VALUES (2)",
    ] {
        world.run(text).await;
    }
    let plans = Plans::new();
    let text = "SELECT * FROM t WHERE k > 0";
    let keep = |session: &Session, keyspace: &str| {
        plans.keep(session, text, split(text).unwrap().remove(0), keyspace)
    };
    let (first, other) = (keep(&world.session, "default"), keep(&world.session, "other"));
    assert!(answer(&world.session, &first, None).await.contains("| 1 |"));
    assert!(answer(&world.session, &other, None).await.contains("| 2 |"));
    // Of sessions with the same settings one serves the other.
    let alike = world.session.at("other");
    let found = plans.get(&alike, text, "default").unwrap();
    assert!(Arc::ptr_eq(&found, &first));
    alike.execute("SET datafusion.execution.time_zone = '+05:00'").await.unwrap();
    assert!(plans.get(&alike, text, "default").is_none());
    assert!(plans.get(&world.session, text, "default").is_some());
    // Whatever session it is run by, its settings count.
    let zone = prepare(&world.session, "SELECT current_date() IS NOT NULL, k FROM t WHERE k = $1");
    let bound = rows(vec![ints(&[Some(1)])]);
    let here = answer(&world.session, &zone, Some(&bound)).await;
    assert_eq!(answer(&alike, &zone, Some(&bound)).await, here);
}

/// Whoever runs it, and whatever USE said meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_as_it_began_until_its_client_sets_something() {
    let world = World::new().await;
    world.run("CREATE KEYSPACE other").await;
    world.run("SET tidegate.result_warn_bytes = 10").await;
    let own = || world.session.apart("default", "client");
    let is_plain = |session: &Session| session.is_plain(&world.session, "default");
    assert!(is_plain(&own()) && !own().is_plain(&world.session, "other"));
    for (text, back) in [("USE other", "USE default"), ("TRACING ON", "TRACING OFF")] {
        let session = own();
        session.execute(text).await.unwrap();
        assert!(!is_plain(&session), "{text}");
        session.execute(back).await.unwrap();
        assert!(is_plain(&session), "{back}");
    }
    let (one, two) = (own(), own());
    for session in [&one, &two] {
        session.execute("SET tidegate.slow_query_ms = 5").await.unwrap();
        assert!(!is_plain(session));
    }
    assert!(!one.is_plain(&two, "default"), "each may have set something else");
    // It is told of what happened, which another session would not know.
    let warned = own();
    let large = warned.execute("SELECT 'a text of more than ten bytes' AS x").await.unwrap();
    large.collect().await.unwrap();
    assert!(!is_plain(&warned));
    assert!(is_plain(&own()), "what others set is theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_write_goes_to_the_keyspace_of_its_preparation() {
    let world = World::new().await;
    for text in [
        "CREATE TABLE t (k int PRIMARY KEY)",
        "CREATE KEYSPACE other",
        "CREATE TABLE other.t (k int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
    ] {
        world.run(text).await;
    }
    let texts = ["INSERT INTO t VALUES (2)", "INSERT INTO t SELECT k + 10 FROM t WHERE k < 10"];
    let prepared = texts.map(|text| prepare(&world.session, text));
    world.run("USE other").await;
    for prepared in &prepared {
        answer(&world.session, prepared, None).await;
    }
    assert_eq!(world.column("SELECT k FROM other.t").await, [""; 0]);
    let all = "SELECT k FROM \"default\".t ORDER BY k";
    assert_eq!(world.column(all).await, ["1", "2", "11", "12"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_bounded_and_the_longest_unused_goes() {
    let world = World::new().await;
    let plans = Plans::new();
    let keep = |text: &str| {
        plans.keep(&world.session, text, split(text).unwrap().remove(0), "default");
    };
    let is_kept = |text: &str| plans.get(&world.session, text, "default").is_some();
    keep("SELECT 'first'");
    keep("SELECT 'second'");
    for number in 0..1022 {
        keep(&format!("SELECT {number}"));
    }
    assert!(is_kept("SELECT 'first'"));
    keep("SELECT 'one more'");
    assert!(is_kept("SELECT 'first'") && !is_kept("SELECT 'second'"));
    // Long texts leave room for few, and the longest are not kept.
    let long = |number: usize| format!("SELECT '{}'", number.to_string().repeat(15_000));
    (0..9).for_each(|number| keep(&long(number)));
    assert!((0..9).all(|number| is_kept(&long(number))));
    (0..40).for_each(|number| keep(&format!("{} AS a{number}", long(1))));
    assert!(!is_kept("SELECT 'first'") && !is_kept(&long(0)));
    let longest = format!("SELECT '{}'", "x".repeat(17_000));
    keep(&longest);
    assert!(!is_kept(&longest));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_bound_has_a_value_for_each_parameter() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    for text in ["SELECT v FROM t WHERE pk = ?", "SELECT v + 1 FROM t WHERE pk = ?"] {
        let prepared = prepare(&world.session, text);
        for columns in [vec![], vec![ints(&[Some(1)]), ints(&[Some(2)])]] {
            let count = columns.len();
            let bound = match columns.is_empty() {
                true => RecordBatch::new_empty(Arc::new(Schema::empty())),
                false => rows(columns),
            };
            let wanted = format!("the statement has 1 parameters, {count} were given");
            let described = world.session.describe_prepared(&prepared, Some(&bound)).await;
            let refused = described.map(|_| "a description").unwrap_err().to_string();
            assert!(refused.contains(&wanted), "{text}: {refused}");
            let refused = answer(&world.session, &prepared, Some(&bound)).await;
            assert!(refused.contains(&wanted), "{text}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_with_many_rows_of_parameters_answers_in_their_order() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))").await;
    for k in 0..50 {
        world.run(&format!("INSERT INTO t VALUES ({k}, 1, 'a{k}'), ({k}, 2, 'b{k}')")).await;
    }
    let keys: Vec<Option<i32>> = (0..50).rev().flat_map(|k| [Some(k), Some(k + 100)]).collect();
    let bound = rows(vec![ints(&keys)]);
    let mut answers = Vec::new();
    for (is_on, text) in [
        (true, "SELECT k, c, v FROM t WHERE k = $1"),
        (false, "SELECT k, c, v FROM t WHERE k = $1"),
        (true, "SELECT k, c, v FROM t WHERE k + 0 = $1 ORDER BY c"),
    ] {
        world.run(&format!("SET tidegate.short_path = {is_on}")).await;
        let prepared = prepare(&world.session, text);
        let unprepared = world.session.run_with(prepared.statement(), &bound).await.unwrap();
        let unprepared = pretty_format_batches(&unprepared.collect().await.unwrap()).unwrap();
        let answer = answer(&world.session, &prepared, Some(&bound)).await;
        assert_eq!(unprepared.to_string(), answer, "{text}");
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    let cells: Vec<&str> = answers[0].lines().filter(|line| line.contains('a')).collect();
    assert_eq!((cells.len(), answers[0].lines().count()), (50, 104));
    assert!(cells[0].contains("a49") && cells[49].contains("a0"), "{cells:?}");

    let prepared = prepare(&world.session, "SELECT v FROM t WHERE k = $1 AND c = 1");
    let with_null = rows(vec![ints(&[Some(3), None, Some(4)])]);
    let answer_of_nulls = answer(&world.session, &prepared, Some(&with_null)).await;
    assert!(answer_of_nulls.contains("a3") && answer_of_nulls.contains("a4"), "{answer_of_nulls}");
    for wrong in [vec![], vec![Some(1); 10_001]] {
        let refused = answer(&world.session, &prepared, Some(&rows(vec![ints(&wrong)]))).await;
        assert!(refused.contains("1 to 10000 rows of parameters"), "{refused}");
    }
    // What a later row makes null may be null, and what fails there fails there.
    let prepared = prepare(&world.session, "SELECT 6 / $1 AS x, $2 AS y FROM t WHERE k = 1");
    let texts = Arc::new(StringArray::from(vec![Some("x"), None])) as ArrayRef;
    let with_null = rows(vec![ints(&[Some(3), None]), texts]);
    let found = answer(&world.session, &prepared, Some(&with_null)).await;
    assert_eq!(found.matches("| x ").count(), 3, "{found}");
    let texts = Arc::new(StringArray::from(vec![Some("x"), None])) as ArrayRef;
    let zero = rows(vec![ints(&[Some(3), Some(0)]), texts]);
    let failed = answer(&world.session, &prepared, Some(&zero)).await;
    assert!(failed.to_lowercase().contains("zero"), "{failed}");
}

/// A caller without rights is told nothing by what others had planned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_caller_had_planned_is_described_to_no_other_without_a_right() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t VALUES (1, 5)").await;
    world.run("CREATE ROLE ann WITH LOGIN = true").await;
    let ann = world.session.apart("default", "ann").of_caller(Caller::Role("ann".into()));
    let bound = rows(vec![ints(&[Some(1)])]);
    for text in [
        "SELECT v + $1 FROM t",
        "SELECT v FROM t WHERE k + 0 = $1",
        "INSERT INTO t (k, v) SELECT v, $1 FROM t",
    ] {
        let prepared = prepare(&world.session, text);
        world.session.describe_prepared(&prepared, Some(&bound)).await.unwrap();
        world.session.parameters_of(&prepared).await.unwrap();
        let ran = world.session.run_prepared(&prepared, Some(&bound)).await;
        assert!(ran.is_ok(), "{text}");
        let refused = [
            ann.describe_prepared(&prepared, Some(&bound)).await.map(drop),
            ann.describe_prepared(&prepared, None).await.map(drop),
            ann.parameters_of(&prepared).await.map(drop),
            ann.run_prepared(&prepared, Some(&bound)).await.map(drop),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().kind, ErrorKind::Denied, "{text}");
        }
    }
}

/// A text that is kept once more takes its own place, and what goes makes room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_count_once_and_no_longer_than_they_are_kept() {
    let world = World::new().await;
    let plans = Plans::new();
    let keep = |text: &str| {
        plans.keep(&world.session, text, split(text).unwrap().remove(0), "default");
    };
    let is_kept = |text: &str| plans.get(&world.session, text, "default").is_some();
    // So many bytes in all, the quotes and the word before them too.
    let long = |bytes: usize, letter: &str| format!("SELECT '{}'", letter.repeat(bytes - 9));
    for (bytes, wanted) in [(16 << 10, true), ((16 << 10) + 1, false)] {
        keep(&long(bytes, "a"));
        assert_eq!(is_kept(&long(bytes, "a")), wanted, "{bytes} bytes");
    }
    for _ in 0..33 {
        keep(&long(16 << 10, "b"));
    }
    assert!(is_kept(&long(16 << 10, "a")), "the other one counts once");
    // As many bytes as may be, and one more.
    let number = |n: usize| format!("{} AS a{n:04}", long((16 << 10) - 9, "c"));
    (2..32).for_each(|n| keep(&number(n)));
    assert!(is_kept(&long(16 << 10, "b")) && is_kept(&long(16 << 10, "a")));
    assert!((2..32).all(|n| is_kept(&number(n))));
    keep("SELECT 1");
    assert!(is_kept("SELECT 1") && !is_kept(&long(16 << 10, "b")));
    // However many come, the last ones are there.
    (100..133).for_each(|n| keep(&number(n)));
    assert!((103..133).all(|n| is_kept(&number(n))) && !is_kept(&number(100)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_rows_of_parameters_are_taken_as_may_be_on_both_paths() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t VALUES (7, 5)").await;
    let bound = |count: usize| rows(vec![ints(&vec![Some(7); count])]);
    let statement = split("SELECT v FROM t WHERE k = $1").unwrap().remove(0);
    let short = world.session.short(&statement, "default").unwrap();
    for (count, is_taken) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
        assert_eq!(short.takes(Some(&bound(count))), is_taken, "{count} rows");
        // The planner runs the first row before anybody takes rows.
        let planned = prepare(&world.session, "SELECT v + 0 FROM t WHERE k + 0 = $1");
        let outcome = world.session.run_prepared(&planned, Some(&bound(count))).await;
        assert_eq!(outcome.is_ok(), is_taken, "{count} rows");
    }
    assert!(!short.takes(None), "it has a parameter");
    let two = rows(vec![ints(&[Some(7)]), ints(&[Some(7)])]);
    assert!(!short.takes(Some(&two)), "it has no second one");
    assert!(!short.takes(Some(&rows(vec![ints(&[Some(7), None])]))), "null is no key");
    for (text, is_query) in
        [("SELECT v FROM t WHERE k = 7", true), ("DELETE FROM t WHERE k = 7", false)]
    {
        let statement = split(text).unwrap().remove(0);
        let short = world.session.short(&statement, "default").unwrap();
        assert_eq!((short.takes(None), short.rows_schema().is_some()), (is_query, is_query));
    }
}

/// The rows of a part, in order.
async fn part(session: &Session, prepared: &Prepared, shard: u32) -> Vec<String> {
    let outcome = session.query_part(prepared, None, shard).await.unwrap();
    let batches = outcome.collect().await.unwrap();
    let shown = pretty_format_batches(&batches).unwrap().to_string();
    let is_row = |line: &&str| line.chars().any(|letter| letter.is_ascii_digit());
    let mut rows: Vec<String> = shown.lines().filter(is_row).map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_of_a_query_are_its_rows_once_and_other_queries_have_none() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))").await;
    world.run("INSERT INTO t SELECT n / 3, n % 3, n FROM generate_series(0, 59) AS r(n)").await;
    for (text, count) in [
        ("SELECT v FROM t", 60),
        ("SELECT v + 1 AS w FROM t WHERE c > 0", 40),
        ("SELECT x.v FROM (SELECT * FROM t WHERE v < 30) AS x WHERE x.c = 1", 10),
        ("SELECT v FROM t WHERE token(k) > 0 OR token(k) <= 0", 60),
        ("SELECT v FROM t WHERE v < 0", 0),
    ] {
        let prepared = prepare(&world.session, text);
        let described = world.session.describe_prepared(&prepared, None).await.unwrap();
        assert_eq!(described.divided.unwrap().name, "t", "{text}");
        let first = part(&world.session, &prepared, 0).await;
        let second = part(&world.session, &prepared, 1).await;
        assert_eq!(first.is_empty() || second.is_empty(), count == 0, "{text}");
        let mut all = [first, second].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{text}");
        // Whoever reads a part leaves the whole as it was.
        let whole = world.session.run_prepared(&prepared, None).await.unwrap();
        let whole = whole.collect().await.unwrap();
        assert_eq!(whole.iter().map(RecordBatch::num_rows).sum::<usize>(), count, "{text}");
    }
    for text in [
        "SELECT v FROM t LIMIT 60",
        "SELECT v FROM t ORDER BY v",
        "SELECT DISTINCT v FROM t",
        "SELECT count(*) FROM t",
        "SELECT k, max(v) FROM t GROUP BY k",
        "SELECT row_number() OVER (ORDER BY v) FROM t",
        "SELECT v FROM t WHERE k = 1",
        "SELECT v FROM t WHERE k IN (1, 2)",
        "SELECT v FROM t WHERE v IN (SELECT c FROM t)",
        "SELECT (SELECT max(v) FROM t) FROM t",
        "SELECT a.v FROM t AS a JOIN t AS b ON a.v = b.v",
        "SELECT v FROM t UNION ALL SELECT v FROM t",
        "SELECT random() FROM t",
        "SELECT v FROM t WHERE now() IS NOT NULL",
        "SELECT v FROM t PER PARTITION LIMIT 1 LIMIT 5",
        "SELECT 1",
        "SELECT table_name FROM system.tables",
        "EXPLAIN SELECT v FROM t",
        "SHOW TABLES",
        "DELETE FROM t WHERE k = 1",
    ] {
        let prepared = prepare(&world.session, text);
        let described = world.session.describe_prepared(&prepared, None).await.unwrap();
        assert!(described.divided.is_none(), "{text}");
        let refused = world.session.query_part(&prepared, None, 0).await.err().unwrap();
        assert_eq!(refused.message, "the query has no parts", "{text}");
    }
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["60"]);
}

/// Each of them, those that are not there among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_read_together_are_those_that_each_reads_by_itself() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c text, v int, w int STATIC, PRIMARY KEY (k, c))").await;
    world.run("CREATE TABLE s (k int PRIMARY KEY, v int)").await;
    // A partition of nothing but its static row.
    world.run("INSERT INTO t (k, w) VALUES (-7, 1)").await;
    for k in 0..4 {
        world
            .run(&format!("INSERT INTO t (k, c, v) VALUES ({k}, 'a', {k}), ({k}, 'b', NULL)"))
            .await;
        world.run(&format!("INSERT INTO t (k, w) VALUES ({k}, 10 + {k})")).await;
        world.run(&format!("INSERT INTO s (k, v) VALUES ({k}, {k})")).await;
    }
    let texts = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let of_t = |k: i32, c: &str| rows(vec![ints(&[Some(k)]), texts(c)]);
    let of_t = [of_t(3, "a"), of_t(1, "b"), of_t(3, "a"), of_t(1, "c"), of_t(-7, "a")];
    let of_s: Vec<_> = [2, 9, 0].map(|k| rows(vec![ints(&[Some(k)])])).into();
    let session = &world.session;
    for (text, all) in [
        ("SELECT v, k FROM t WHERE k = ? AND c = ?", &of_t[..]),
        ("SELECT c, writetime(v) FROM t WHERE k = ? AND c = ?", &of_t),
        ("SELECT * FROM t WHERE k = ? AND c = ? LIMIT 1", &of_t),
        ("SELECT w, c FROM t WHERE k = ? AND c = ?", &of_t),
        ("SELECT v FROM s WHERE k = ?", &of_s),
        ("SELECT v FROM t WHERE c = 'a' AND k = ?", &of_s),
    ] {
        let prepared = prepare(session, text);
        assert!(session.is_of_a_row(&prepared), "{text}");
        let found = session.run_rows_prepared(&prepared, all).await.unwrap().unwrap();
        assert_eq!(found.len(), all.len());
        for (bound, found) in all.iter().zip(found) {
            let outcome = session.run_prepared(&prepared, Some(bound)).await.unwrap();
            let schema = Arc::clone(&outcome.schema);
            let wanted = concat_batches(&schema, &outcome.collect().await.unwrap()).unwrap();
            assert_eq!(found.unwrap(), wanted, "{text} with {bound:?}");
        }
        assert!(session.options.roster.statements().is_empty(), "{text}");
    }
}

/// Statements of another kind, and parameters that are no plain key, are run one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reads_more_than_a_row_or_is_watched_is_not_read_together() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c text, v int, PRIMARY KEY (k, c))").await;
    world.run("CREATE TABLE s (k int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO s (k, v) VALUES (0, 0), (1, 1)").await;
    let session = &world.session;
    let one = |column: ArrayRef| rows(vec![column]);
    let all = [one(ints(&[Some(1)])), one(ints(&[Some(0)]))];
    for text in [
        "SELECT v FROM t WHERE k = ?",
        "SELECT v FROM t WHERE k = ? ORDER BY c DESC LIMIT 1",
        "SELECT v + 1 FROM s WHERE k = ?",
        "INSERT INTO s (k) VALUES (?)",
        "DELETE FROM s WHERE k = ?",
    ] {
        let prepared = prepare(session, text);
        assert!(!session.is_of_a_row(&prepared), "{text}");
        let ran = session.run_rows_prepared(&prepared, &all).await.unwrap();
        assert!(ran.is_none(), "{text}");
    }
    let of_s = prepare(session, "SELECT v FROM s WHERE k = ?");
    let text = Arc::new(StringArray::from(vec!["1"])) as ArrayRef;
    for odd in [one(ints(&[None])), one(ints(&[Some(1), Some(2)])), one(text), one(ints(&[]))] {
        let all = [one(ints(&[Some(1)])), odd];
        let ran = session.run_rows_prepared(&of_s, &all).await.unwrap();
        assert!(ran.is_none(), "{:?}", all[1]);
    }
    assert!(session.run_rows_prepared(&of_s, &[]).await.unwrap().is_none());
    session.execute("SET tidegate.slow_query_ms = 1000").await.unwrap();
    assert!(session.run_rows_prepared(&of_s, &all).await.unwrap().is_none(), "it is watched");
    session.execute("SET tidegate.slow_query_ms = 0").await.unwrap();
    let timed = prepare(session, "SELECT v FROM s WHERE k = ? USING TIMEOUT 5s");
    assert!(session.run_rows_prepared(&timed, &all).await.unwrap().is_none(), "it has terms");

    // The limits of a result are those of each.
    session.execute("SET tidegate.result_max_bytes = 3").await.unwrap();
    let over = session.run_rows_prepared(&of_s, &all).await.unwrap().unwrap().remove(0);
    assert!(over.unwrap_err().message.contains("3 is most"));
    world.run("CREATE ROLE ann WITH LOGIN = true").await;
    let ann = session.apart("default", "ann").of_caller(Caller::Role("ann".into()));
    let refused = ann.run_rows_prepared(&of_s, &all).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied);
}
