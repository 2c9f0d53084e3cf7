//! The statements that run and the sessions that there are, and statements that somebody ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use futures::{FutureExt, StreamExt};

use super::{World, cold};
use crate::query::{
    Caller, ErrorKind, OutcomeKind, QueryError, QueryMemory, Session, SessionOptions, split,
};

/// Rows without an end.
const ENDLESS: &str = "SELECT value FROM generate_series(1, 1000000000000)";
/// A number that takes longer than any test.
const LONG: &str =
    "SELECT count(*) FROM range(10000000) AS a, range(10000000) AS b WHERE a.value + b.value > 7";
/// Times that a condition is looked at which is to come.
const TRIES: usize = 5_000;

/// The number of the one other statement in this state, as soon as there is one.
async fn number_of(world: &World, state: &str) -> String {
    let text = format!(
        "SELECT number FROM system.queries WHERE state = '{state}' \
                        AND statement NOT LIKE '%system.queries%'"
    );
    for _ in 0..TRIES {
        if let [number] = &world.column(&text).await[..] {
            return number.clone();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is {state}: {}", world.rows("SHOW QUERIES").await);
}

/// How many statements run beside the one that asks.
async fn others(world: &World) -> usize {
    let all = world.column("SELECT number FROM system.queries").await;
    all.len() - 1
}

fn is_ended_by(error: &QueryError, number: &str) {
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert_eq!(error.message, format!("the statement was ended by KILL QUERY {number}"));
}

async fn kill(world: &World, number: &str) {
    let told = world.column(&format!("KILL QUERY {number}")).await;
    assert_eq!(told, [format!("Query {number} is ended.")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_seen_while_it_runs_and_gone_when_it_has_ended() {
    let world = cold().await;
    let own = "SELECT session, role, peer, keyspace_name, state, rows, age_ms >= 0 AS aged, \
               started_at <= now() AS began, statement LIKE 'SELECT session%' AS text \
               FROM system.queries";
    insta::assert_snapshot!(world.rows(own).await, @r"
    +---------+-------+------+---------------+----------+------+------+-------+------+
    | session | role  | peer | keyspace_name | state    | rows | aged | began | text |
    +---------+-------+------+---------------+----------+------+------+-------+------+
    | shell   | owner |      | default       | planning | 0    | true | true  | true |
    +---------+-------+------+---------------+----------+------+------+-------+------+
    ");
    for text in ["SELECT nothing FROM t", "SELECT * FROM nothing", "DROP TABLE nothing", "ODD"] {
        world.error(text).await;
        assert_eq!(others(&world).await, 0, "{text} failed");
    }
    let OutcomeKind::Rows(mut rows) = world.run("SELECT * FROM t WHERE pk = 1").await.kind else {
        panic!("a query has rows");
    };
    number_of(&world, "running").await;
    let given = rows.next().await.unwrap().unwrap().num_rows();
    let number = number_of(&world, "sending").await;
    let told = format!("SELECT rows FROM system.queries WHERE number = {number}");
    assert_eq!(world.column(&told).await, [given.to_string()]);
    drop(rows);
    assert_eq!(others(&world).await, 0, "nobody takes more of its rows");
    world.run("SELECT * FROM t").await.collect().await.unwrap();
    assert_eq!(others(&world).await, 0, "its rows have ended");
    // What several statements are made of is one.
    world.run("CREATE TABLE u (PRIMARY KEY (pk, ck)) AS SELECT * FROM t WHERE ck < 9").await;
    let timed = world.run("SELECT * FROM t USING TIMEOUT 60s").await;
    assert_eq!(others(&world).await, 1);
    drop(timed);
    assert_eq!(others(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_not_shown_and_long_texts_are_cut() {
    let world = World::new().await;
    let text = "CREATE ROLE x WITH PASSWORD = 'hush'";
    let shown = world.session.shown(&split(text).unwrap()[0]);
    assert!(!shown.text.contains("hush") && shown.text.starts_with("CREATE ROLE x"));
    let long =
        format!("SELECT '{}' FROM system.queries WHERE length(statement) < 2010", "x".repeat(9000));
    assert_eq!(world.column(&long).await.len(), 1);
}

/// Where its client takes no rows as well: who waits for it is told when it asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_ended_gives_up_its_reads_at_once() {
    let world = cold().await;
    world.run("CREATE TABLE wide (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    let filler = "SELECT 1, value, repeat('x', 1000) FROM range(20000)";
    world.run(&format!("INSERT INTO wide (pk, ck, v) {filler}")).await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        let OutcomeKind::Rows(mut rows) = world.run("SELECT * FROM wide WHERE pk = 1").await.kind
        else {
            panic!("a query has rows");
        };
        rows.next().await.unwrap().unwrap();
        let number = number_of(&world, "sending").await;
        let reads = "SELECT number FROM system.reads WHERE table_name = 'default.wide'";
        assert_eq!(world.column(reads).await.len(), 1);
        kill(&world, &number).await;
        for tried in 0.. {
            if world.column(reads).await.is_empty() {
                break;
            }
            assert!(tried < TRIES, "it still reads");
        }
        assert_eq!(number_of(&world, "ending").await, number);
        is_ended_by(&rows.next().await.unwrap().unwrap_err(), &number);
        assert!(rows.next().await.is_none());
        assert_eq!(others(&world).await, 0, "its client knows");
        let error = world.error(&format!("KILL QUERY {number}")).await;
        assert_eq!(error.message, format!("no query {number} runs"));
        assert!(error.help.unwrap().contains("SHOW QUERIES"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_ended_while_it_is_planned_waits_or_computes() {
    let memory = QueryMemory::new(Some(16 << 20));
    let options = SessionOptions { memory: memory.clone(), ..Default::default() };
    let world = World::with(options).await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    let mut turns = Vec::new();
    while let Some(Ok(turn)) = memory.turn().now_or_never() {
        turns.push(turn);
    }
    let ended = async |text: &'static str, state: &str| {
        let session = world.session.at("default");
        let run = async move { session.execute(text).await?.collect().await.map(drop) };
        let waits = tokio::spawn(run);
        let number = number_of(&world, state).await;
        kill(&world, &number).await;
        is_ended_by(&waits.await.unwrap().unwrap_err(), &number);
        assert_eq!(others(&world).await, 0, "{text}");
    };
    ended("SELECT * FROM t WHERE v > 1", "planning").await;
    ended("SELECT * FROM t WHERE v > 1 USING TIMEOUT 60s", "planning").await;
    drop(turns);
    ended(LONG, "running").await;
    world.run("TRACING ON").await;
    ended(LONG, "running").await;
}

/// What it wrote before stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_ended_leaves_what_it_has_written() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY)").await;
    let session = world.session.at("default");
    let write = "INSERT INTO t SELECT value FROM range(2000000000)";
    let writing = tokio::spawn(async move { session.execute(write).await.map(drop) });
    let number = number_of(&world, "running").await;
    let count = async || world.column("SELECT count(*) FROM t").await[0].parse::<u64>().unwrap();
    for tried in 0.. {
        if count().await > 0 {
            break;
        }
        assert!(tried < TRIES, "nothing is written");
    }
    kill(&world, &number).await;
    is_ended_by(&writing.await.unwrap().unwrap_err(), &number);
    assert!(count().await > 0);
    assert_eq!(others(&world).await, 0);
}

fn role(world: &World, name: &str) -> Session {
    world.session.apart("default", &format!("{name}#5")).of_caller(Caller::Role(name.into()))
}

async fn first(session: &Session, text: &str) -> Result<Vec<RecordBatch>, QueryError> {
    session.execute(text).await?.collect().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_sees_and_ends_what_is_its_own_and_with_a_right_what_is_of_others() {
    let world = World::new().await;
    for name in ["ann", "bob"] {
        world.run(&format!("CREATE ROLE {name} WITH LOGIN = true")).await;
    }
    let (ann, bob) = (role(&world, "ann").listed(5, None), role(&world, "bob").listed(6, None));
    let rows = ann.execute(ENDLESS).await.unwrap();
    let of_bob = bob.execute(ENDLESS).await.unwrap();
    let listed = async |session: &Session, table: &str| {
        let text = format!("SELECT DISTINCT role FROM system.{table} ORDER BY role");
        let rows = first(session, &text).await.unwrap();
        rows.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    assert_eq!((listed(&ann, "queries").await, listed(&ann, "sessions").await), (1, 1));
    assert_eq!((listed(&bob, "queries").await, listed(&bob, "sessions").await), (1, 1));
    let number = |who: &str| {
        format!("SELECT number FROM system.queries WHERE role = '{who}' AND session = '{who}#5'")
    };
    let number_of_bob = world.column(&number("bob")).await.remove(0);
    let text = format!("KILL QUERY {number_of_bob}");
    let error = first(&ann, &text).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.contains("ALTER on ADMINISTRATION"), "{error}");
    // One's own.
    let number_of_ann = world.column(&number("ann")).await.remove(0);
    first(&ann, &format!("KILL QUERY {number_of_ann}")).await.unwrap();
    is_ended_by(&rows.collect().await.unwrap_err(), &number_of_ann);
    world.run("GRANT SELECT ON ADMINISTRATION TO ann").await;
    assert_eq!((listed(&ann, "queries").await, listed(&ann, "sessions").await), (2, 2));
    assert_eq!(first(&ann, &text).await.unwrap_err().kind, ErrorKind::Denied);
    world.run("GRANT ALTER ON ADMINISTRATION TO ann").await;
    first(&ann, &text).await.unwrap();
    is_ended_by(&of_bob.collect().await.unwrap_err(), &number_of_bob);
    let audit = "SELECT who || ': ' || what || ': ' || CAST(error IS NULL AS text) FROM system.audit \
                 WHERE what LIKE 'KILL QUERY%' ORDER BY number";
    let wanted = [("false", &text), ("false", &text), ("true", &text)];
    let told = world.column(audit).await;
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[1], format!("ann: KILL QUERY {number_of_ann}: true"));
    for (told, (done, text)) in [&told[0], &told[2], &told[3]].into_iter().zip(wanted) {
        assert_eq!(*told, format!("ann: {text}: {done}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_seen_with_their_level_and_what_they_began() {
    let world = World::new().await;
    world.run("CREATE ROLE ann WITH LOGIN = true; CREATE SERVICE LEVEL gold").await;
    world.run("CREATE SERVICE LEVEL silver; ATTACH SERVICE LEVEL silver TO ann").await;
    let peer = "10.0.0.7".parse().ok();
    let ann = role(&world, "ann").listed(5, peer);
    let shell = world.session.apart("default", "shell").listed(9, None);
    shell.execute("SELECT 1; SELECT 2").await.unwrap().collect().await.unwrap();
    shell.execute("SET tidegate.service_level = gold").await.unwrap();
    insta::assert_snapshot!(
        world.rows("SELECT number, session, role, peer, service_level, statements, connections, \
                    last_call_at >= started_at AS called FROM system.sessions").await, @r"
    +--------+---------+-------+----------+---------------+------------+-------------+--------+
    | number | session | role  | peer     | service_level | statements | connections | called |
    +--------+---------+-------+----------+---------------+------------+-------------+--------+
    | 5      | ann#5   | ann   | 10.0.0.7 | silver        | 0          | 0           | true   |
    | 9      | shell   | owner |          | gold          | 3          |             | true   |
    +--------+---------+-------+----------+---------------+------------+-------------+--------+
    ");
    shell.execute("SET tidegate.service_level = default").await.unwrap();
    let levels = "SELECT service_level FROM system.sessions ORDER BY number";
    assert_eq!(world.column(levels).await, ["silver", "default"]);
    // A statement that goes on keeps its session.
    let rows = ann.execute(ENDLESS).await.unwrap();
    drop((ann, shell));
    assert_eq!(world.column("SELECT session FROM system.sessions").await, ["ann#5"]);
    drop(rows);
    assert!(world.column("SHOW SESSIONS").await.is_empty());
}

/// Whoever is ended says so; whoever is not has the answer; nothing stays in the list.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_that_end_while_they_are_ended_leave_nothing_behind() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t SELECT value, value FROM range(100)").await;
    let statement = split("SELECT v FROM t WHERE pk = ?").unwrap().remove(0);
    let prepared = Arc::new(world.session.prepare(statement, "default"));
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = (0..4).map(|_| {
        let (session, prepared) = (world.session.apart("default", "reader"), Arc::clone(&prepared));
        let is_over = Arc::clone(&is_over);
        tokio::spawn(async move {
            let (mut answered, mut ended) = (0_u64, 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                let key = Arc::new(Int32Array::from(vec![(answered % 100) as i32])) as _;
                let key = RecordBatch::try_from_iter([("$1", key)]).unwrap();
                let run =
                    async { session.run_prepared(&prepared, Some(&key)).await?.collect().await };
                match run.await {
                    Ok(rows) => {
                        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
                        answered += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
                        ended += 1;
                    }
                }
                tokio::task::yield_now().await;
            }
            (answered, ended)
        })
    });
    let readers: Vec<_> = readers.collect();
    let roster = Arc::clone(&world.session.options.roster);
    let mut killed = 0_u64;
    for _ in 0..20_000 {
        for listed in roster.statements() {
            assert_eq!(&*listed.shown.text, "SELECT v FROM t WHERE pk = ?");
            killed += u64::from(roster.end(listed.number));
        }
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::Relaxed);
    let (mut answered, mut ended) = (0, 0);
    for reader in readers {
        let (of_answers, of_ends) = reader.await.unwrap();
        (answered, ended) = (answered + of_answers, ended + of_ends);
    }
    assert!(answered > 0 && ended <= killed, "{answered} answered, {ended} of {killed} ended");
    assert!(roster.statements().is_empty());
}
