//! Service levels as statements make them, and which one a statement has.

use std::time::Duration;

use futures::StreamExt;
use tidegate_engine::{Deadline, Terms};

use super::super::World;
use crate::query::{ErrorKind, OutcomeKind, split};

const SELECT: &str = "SELECT v FROM t WHERE pk = 1";

async fn world() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t (pk, v) VALUES (1, 7)").await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn levels_are_made_listed_changed_and_dropped() {
    let world = world().await;
    let say = async |text: &str| world.column(text).await.join(";");
    let create = "CREATE SERVICE LEVEL gold WITH timeout = 50ms AND workload_type = 'interactive' \
                  AND shares = 200";
    assert_eq!(say(create).await, "Service level gold is there.");
    world.run("CREATE SERVICE LEVEL IF NOT EXISTS gold WITH shares = 1").await;
    world.run("CREATE SERVICE_LEVEL bulk").await;
    insta::assert_snapshot!(world.rows("SHOW SERVICE LEVELS").await, @r"
    +---------+------------+---------------+--------+---------+--------+---------+--------+
    | name    | timeout_ms | workload_type | shares | running | queued | refused | killed |
    +---------+------------+---------------+--------+---------+--------+---------+--------+
    | default |            |               | 1000   | 0       | 0      | 0       | 0      |
    | bulk    |            |               | 1000   | 0       | 0      | 0       | 0      |
    | gold    | 50         | interactive   | 200    | 0       | 0      | 0       | 0      |
    +---------+------------+---------------+--------+---------+--------+---------+--------+
    ");
    assert_eq!(
        say("ALTER SERVICE LEVEL gold WITH workload_type = 'batch' AND timeout = '1m30s'").await,
        "Service level gold has timeout 90s, workload type batch, 200 shares."
    );
    assert_eq!(
        say("ALTER SERVICE LEVEL gold WITH timeout = NULL AND workload_type = NULL").await,
        "Service level gold has 200 shares."
    );
    assert_eq!(say("DROP SERVICE LEVEL bulk").await, "Service level bulk is gone.");
    assert_eq!(world.column("LIST SERVICE LEVELS").await, ["default", "gold"]);
    for (text, kind, says) in [
        ("CREATE SERVICE LEVEL gold", ErrorKind::Exists, "gold"),
        ("CREATE SERVICE LEVEL x WITH shares = 2000", ErrorKind::Invalid, "1 to 1000, not 2000"),
        ("CREATE SERVICE LEVEL x WITH timeout = 5", ErrorKind::Syntax, "a duration"),
        ("CREATE SERVICE LEVEL x WITH timeout = 100us", ErrorKind::Invalid, "milliseconds"),
        ("CREATE SERVICE LEVEL x WITH workload_type = 'bulk'", ErrorKind::Invalid, "'batch'"),
        ("CREATE SERVICE LEVEL x WITH share = 5", ErrorKind::NotFound, "'share'"),
        ("CREATE SERVICE LEVEL x WITH shares = 5 AND shares = 6", ErrorKind::Invalid, "twice"),
        ("ALTER SERVICE LEVEL golf WITH shares = 5", ErrorKind::NotFound, "'golf'"),
        ("DROP SERVICE LEVEL default", ErrorKind::Invalid, "always"),
        ("DROP SERVICE LEVEL golf", ErrorKind::NotFound, "'golf'"),
        ("ATTACH SERVICE LEVEL gold TO ann", ErrorKind::NotFound, "'ann'"),
        ("SELECT v FROM t USING SERVICE LEVEL golf", ErrorKind::NotFound, "'golf'"),
        ("SET tidegate.service_level = golf", ErrorKind::NotFound, "'golf'"),
        ("SET service_level = gold", ErrorKind::NotFound, "setting 'service_level'"),
        ("SET tidegate.nothing = 1", ErrorKind::NotFound, "setting 'tidegate.nothing'"),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.span.is_some() || text.starts_with("SET"), "{text}: {error}");
    }
    let help = world.error("SET service_level = gold").await.help.unwrap();
    assert_eq!(help, "did you mean tidegate.service_level?");
    let help = world.error("SET tidegate.service_levels = gold").await.help.unwrap();
    assert_eq!(help, "did you mean tidegate.service_level?");
    let shown = world.rows("SHOW tidegate.service_level").await;
    assert!(shown.contains("| tidegate.service_level | default |"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeout_of_a_statement_is_its_own_then_that_of_its_level() {
    let world = world().await;
    world.run("CREATE SERVICE LEVEL soon WITH timeout = 1ms").await;
    world.run("CREATE SERVICE LEVEL late WITH timeout = 1h").await;
    // A join of a hundred thousand rows with themselves takes more than a millisecond.
    let slow = "SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.value = b.value";
    let is_late = async |text: String| match world.session.execute(&text).await {
        Ok(outcome) => outcome.collect().await.is_err_and(|e| e.kind == ErrorKind::Timeout),
        Err(error) => error.kind == ErrorKind::Timeout,
    };
    assert!(is_late(format!("{slow} USING SERVICE LEVEL soon")).await);
    assert!(!is_late(format!("{slow} USING SERVICE LEVEL late")).await);
    assert!(!is_late(format!("{slow} USING SERVICE LEVEL soon AND TIMEOUT 1h")).await);
    assert!(is_late(format!("{slow} USING TIMEOUT 1ms AND SERVICE LEVEL late")).await);
    world.run("SET tidegate.service_level = soon").await;
    assert!(is_late(slow.to_owned()).await);
    assert!(!is_late(format!("{slow} USING SERVICE LEVEL late")).await);
    assert!(!is_late(format!("{slow} USING SERVICE LEVEL default")).await);
    world.run("ALTER SERVICE LEVEL soon WITH timeout = 1h").await;
    assert!(!is_late(slow.to_owned()).await, "a change acts on the next statement");
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        assert_eq!(world.column(SELECT).await, ["7"]);
        let prepared = world.session.prepare(split(SELECT).unwrap().remove(0), "default");
        let outcome = world.session.run_prepared(&prepared, None).await.unwrap();
        assert_eq!(outcome.collect().await.unwrap()[0].num_rows(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_shows_what_is_in_effect_and_outlives_its_level() {
    let world = world().await;
    world.run("CREATE SERVICE LEVEL gold WITH timeout = 50s AND shares = 200").await;
    insta::assert_snapshot!(world.rows("SHOW EFFECTIVE SERVICE LEVEL").await, @r"
    +---------------+---------+---------+
    | option        | value   | origin  |
    +---------------+---------+---------+
    | service_level | default | default |
    | timeout       | none    | default |
    | workload_type | none    | default |
    | shares        | 1000    | default |
    +---------------+---------+---------+
    ");
    world.run("SET tidegate.service_level = gold").await;
    insta::assert_snapshot!(world.rows("SHOW EFFECTIVE SERVICE LEVEL").await, @r"
    +---------------+-------+------------------------+
    | option        | value | origin                 |
    +---------------+-------+------------------------+
    | service_level | gold  | tidegate.service_level |
    | timeout       | 50s   | service level gold     |
    | workload_type | none  | default                |
    | shares        | 200   | service level gold     |
    +---------------+-------+------------------------+
    ");
    world.run("DROP SERVICE LEVEL gold").await;
    let error = world.error(SELECT).await;
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.help.unwrap().contains("SET tidegate.service_level = default"));
    world.run("SET tidegate.service_level = default").await;
    assert_eq!(world.column(SELECT).await, ["7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_counted_with_their_level_seen_and_killed() {
    let world = world().await;
    world.run("CREATE SERVICE LEVEL gold WITH shares = 200").await;
    let admitted = "SELECT admitted FROM system.service_levels WHERE name = 'gold'";
    for (path, count) in [("true", "1"), ("false", "2")] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        world.column(&format!("{SELECT} USING SERVICE LEVEL gold")).await;
        assert_eq!(world.column(admitted).await, [count], "{path}");
    }
    world.run("SET tidegate.service_level = gold").await;
    world.column(SELECT).await;
    assert_eq!(world.column(admitted).await, ["3"], "the planner's path, by the session");
    world.run("SET tidegate.short_path = true").await;
    world.column(SELECT).await;
    assert_eq!(world.column(admitted).await, ["4"]);

    // A read whose client takes one batch and no more.
    world.run("CREATE TABLE wide (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    let rows = "SELECT 1, CAST(value AS int), 'some text of a row' FROM range(20000)";
    world.run(&format!("INSERT INTO wide (pk, ck, v) {rows}")).await;
    let OutcomeKind::Rows(mut slow) = world.run("SELECT * FROM wide WHERE pk = 1").await.kind
    else {
        panic!("a query has rows");
    };
    slow.next().await.unwrap().unwrap();
    let seen = "SELECT number FROM system.reads WHERE table_name = 'default.wide' \
                AND service_level = 'gold' AND class = 'keys'";
    let numbers = world.column(seen).await;
    assert_eq!(numbers.len(), 1, "{}", world.rows("SHOW READS").await);
    let killed = world.column(&format!("KILL READ {}", numbers[0])).await;
    assert_eq!(killed, [format!("Read {} is ended.", numbers[0])]);
    let error = loop {
        match slow.next().await.expect("a read that was ended says so") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.message.contains("KILL READ"), "{error}");
    assert!(world.column(seen).await.is_empty());
    let error = world.error(&format!("KILL READ {}", numbers[0])).await;
    assert!(error.help.unwrap().contains("SHOW READS"));
    assert_eq!(world.error("KILL READ -1").await.kind, ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_and_batches_have_the_level_of_their_session_or_name_one() {
    let world = world().await;
    let (from, to) = (world.path("from.csv"), world.path("to.csv"));
    std::fs::write(&from, "pk,v\n5,6\n").unwrap();
    let insert = |using: &str| format!("INSERT INTO t (pk, v) VALUES (2, 8){using}");
    let batch =
        |kind: &str, using: &str| format!("BEGIN {kind} BATCH {using} {}; APPLY BATCH", insert(""));
    let all = |using: &str| {
        [
            batch("", using),
            batch("UNLOGGED", using),
            format!("BEGIN BATCH {}; {}; APPLY BATCH", insert(&format!(" {using}")), insert("")),
            format!("COPY t FROM '{from}' WITH (HEADER true) {using}"),
            format!("COPY (SELECT v FROM t WHERE pk = 1) TO '{to}' {using}"),
        ]
    };
    world.run("CREATE SERVICE LEVEL gold").await;
    for text in all("USING SERVICE LEVEL gold") {
        assert!(world.count(&text).await > 0, "{text}");
    }
    let admitted = "SELECT admitted FROM system.service_levels WHERE name = 'gold'";
    assert_eq!(world.column(admitted).await, ["1"], "the one that reads");
    world.run("SET tidegate.service_level = gold").await;
    for text in all("") {
        assert!(world.count(&text).await > 0, "{text}");
    }
    assert_eq!(world.column(admitted).await, ["2"], "by the session");
    for text in all("USING SERVICE LEVEL golf") {
        let error = world.error(&text).await;
        assert_eq!(error.kind, ErrorKind::NotFound, "{text}: {error}");
        assert!(error.span.is_some() && error.message.contains("'golf'"), "{text}: {error}");
    }
    // A statement's own time ends a load; that of a level is for single statements.
    let slow = "SELECT a.value FROM range(100000) a JOIN range(100000) b ON a.value = b.value";
    world.run("ALTER SERVICE LEVEL gold WITH timeout = 1ms").await;
    assert_eq!(world.count(&format!("COPY ({slow}) TO '{to}'")).await, 100_000);
    let error = world.error(&format!("COPY ({slow}) TO '{to}' USING TIMEOUT 1ms")).await;
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    world.run("DROP SERVICE LEVEL gold").await;
    for text in all("") {
        assert_eq!(world.error(&text).await.kind, ErrorKind::NotFound, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_short_path_writes_on_the_terms_of_its_statement() {
    let world = world().await;
    let clock = world.session.database().clock().clone();
    let passed = Deadline::after(Duration::ZERO, &*clock);
    let late = Terms { deadline: Some(passed), ..Terms::default() };
    let insert = |pk: i32| format!("INSERT INTO t (pk, v) VALUES ({pk}, 8)");
    let two = |one: i32, other: i32| format!("{}; {}; APPLY BATCH", insert(one), insert(other));
    for text in [
        insert(2),
        "DELETE FROM t WHERE pk = 1".to_owned(),
        format!("BEGIN BATCH {}", two(2, 2)),
        format!("BEGIN BATCH {}", two(2, 3)),
        format!("BEGIN UNLOGGED BATCH {}", two(2, 3)),
        format!("{} IF NOT EXISTS", insert(2)),
    ] {
        let statement = split(&text).unwrap().remove(0);
        let short = world.session.short(&statement, "default").expect(&text);
        let written = world.session.run_short(&short, None, Some(late)).await;
        let error = written.err().unwrap_or_else(|| panic!("{text} is written too late"));
        assert_eq!(error.kind, ErrorKind::Timeout, "{text}: {error}");
    }
    assert_eq!(world.column("SELECT pk FROM t").await, ["1"]);
}
