//! Schemas as cqlsh prints them, and the statements that DESCRIBE prints.

use super::super::World;
use crate::query::{ErrorKind, OutcomeKind, split};

/// As cqlsh prints the schema of a node of Cassandra 5.
const CASSANDRA: &str = include_str!("../data/cassandra.cql");
/// As ScyllaDB answers `DESC SCHEMA`.
const SCYLLA: &str = include_str!("../data/scylla.cql");

/// Runs all statements; their messages and notes.
async fn run_all(world: &World, text: &str) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    for statement in split(text).unwrap() {
        let outcome = world.session.run(&statement).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{}", error.render(text)));
        let OutcomeKind::Message(message) = outcome.kind else {
            panic!("{} gives no message", statement.text());
        };
        all.push((message, outcome.note));
    }
    all
}

/// Runs what `describe` prints in another database, and asserts that it prints the same there.
/// Returns that one.
async fn read_back(world: &World, describe: &str) -> World {
    let printed = world.column(describe).await;
    let other = World::new().await;
    run_all(&other, &printed.join("\n")).await;
    assert_eq!(other.column(describe).await, printed);
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_cassandra_runs_and_says_what_it_leaves_out() {
    let world = World::new().await;
    let told = run_all(&world, CASSANDRA).await;
    let messages: Vec<&str> = told.iter().map(|(message, _)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "Keyspace shop created.",
            "Type shop.line created.",
            "Type shop.address created.",
            "Table shop.orders created.",
            "Table shop.events created.",
            "Table shop.\"Codes\" created.".replace('"', "").as_str(),
        ]
    );
    let notes: Vec<&str> = told.iter().filter_map(|(_, note)| note.as_deref()).collect();
    assert!(notes[0].contains("one node keeps all data"), "{notes:?}");
    assert!(notes[0].contains("replication, durable_writes"), "{notes:?}");
    assert!(notes[1].contains("speculative_retry") && notes[1].contains("caching"), "{notes:?}");
    assert!(!notes[1].contains("gc_grace_seconds"), "what is taken is in no note: {notes:?}");
    assert!(notes[2].contains("UnifiedCompactionStrategy, of which SizeTiered"), "{notes:?}");
    world
        .run(
            "INSERT INTO shop.orders (customer, placed, id, tags) VALUES \
               ('6b29fc40-ca47-1067-b31d-00dd010662da', '2024-01-01T00:00:00Z', \
                '50554d6e-29bb-11e5-b345-feff819cdc9f', {'a', 'b'})",
        )
        .await;
    let options = world.rows("DESCRIBE shop.orders").await;
    assert!(options.contains("'min_threshold': 5"), "{options}");
    assert!(options.contains("'chunk_length_in_kb': 32"), "{options}");
    assert!(options.contains("clustering key, descending"), "{options}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_scylladb_runs() {
    let world = World::new().await;
    let told = run_all(&world, SCYLLA).await;
    assert_eq!(told.len(), 3);
    let notes: Vec<&str> = told.iter().filter_map(|(_, note)| note.as_deref()).collect();
    assert!(notes[0].contains("tablets"), "{notes:?}");
    assert!(
        notes[1].contains("tombstone_gc") && notes[1].contains("speculative_retry"),
        "{notes:?}"
    );
    assert!(notes[1].contains("the dictionaries of LZ4WithDictsCompressor"), "{notes:?}");
    let options = world.rows("DESCRIBE metrics.samples").await;
    assert!(options.contains("IncrementalCompactionStrategy"), "{options}");
    assert!(options.contains("LZ4Compressor"), "{options}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_describe_prints_makes_the_same_again() {
    let world = World::new().await;
    run_all(&world, CASSANDRA).await;
    run_all(&world, SCYLLA).await;
    for text in [
        "CREATE TABLE t (pk int PRIMARY KEY, \"V w\" text, n decimal) WITH comment = 'it''s' AND \
         on_corruption = 'skip' AND large_data = {'row_bytes': 5} AND default_time_to_live = 60",
        "CREATE TABLE u (a int, b text, c int, d int, s map<text, frozen<list<int>>> STATIC, \
         PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC) AND \
         compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 64} AND \
         compression = {'enabled': false} AND column_index_size_in_kb = 4",
        "ALTER TABLE u ADD later tuple<int, text>",
    ] {
        world.run(text).await;
    }
    let other = read_back(&world, "DESCRIBE SCHEMA").await;
    for table in ["t", "u", "shop.orders", "shop.events", "metrics.samples"] {
        let text = format!("DESCRIBE {table}");
        assert_eq!(other.rows(&text).await, world.rows(&text).await, "{table}");
    }
    let one = world.column("DESCRIBE TABLE u").await;
    assert!(one[0].starts_with("CREATE TABLE default.u (\n    a int,\n"), "{one:?}");
    assert!(
        one[0].contains("PRIMARY KEY ((a, b), c, d)\n) WITH CLUSTERING ORDER BY (c ASC, d DESC)")
    );
    assert_eq!(world.column("DESC KEYSPACE shop").await[2..4].len(), 2);
    assert_eq!(world.column("DESCRIBE TYPE shop.line").await.len(), 1);
    let error = world.error("DESCRIBE KEYSPACE shpo").await;
    assert!(error.help.unwrap().contains("shop"), "a near name helps");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_a_schema_are_left_out_with_a_note() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, v int, m map<text, int>, PRIMARY KEY (pk, v))").await;
    for (text, left_out) in [
        ("CREATE INDEX by_v ON t (v)", "index by_v"),
        ("CREATE INDEX IF NOT EXISTS by_key ON default.t (keys(m))", "index by_key"),
        ("CREATE INDEX ON t ((pk), v)", "the index"),
        (
            "CREATE CUSTOM INDEX i ON t (v) USING 'sai' WITH OPTIONS = {'normalize': 'true'}",
            "index i",
        ),
    ] {
        let note = world.run(text).await.note.unwrap();
        assert!(note.starts_with("left out, because") && note.ends_with(left_out), "{note}");
    }
    for (text, words) in [
        ("CREATE INDEX i ON t (w)", "column 'w'"),
        ("CREATE INDEX i ON t (values(w))", "column 'w'"),
        ("CREATE INDEX i ON u (v)", "'u'"),
        ("CREATE INDEX i t (v)", "expected ON"),
        ("CREATE INDEX i ON t (v) WITH OPTIONS = {'a': 'b'", "expected '}'"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(words), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_and_last_commas_of_cql_are_taken() {
    let world = World::new().await;
    let text = "CREATE KEYSPACE ks; // it's one; with a quote
        CREATE TYPE ks.tag (name text, // ns://name
                            value bigint,);
        CREATE TYPE ks.log (at bigint, tags list<frozen<tag>>,); -- tag is that of ks
        CREATE TABLE ks.t (pk int, v text, // the last one
                           l frozen<log>, PRIMARY KEY (pk),);";
    run_all(&world, text).await;
    world.run("INSERT INTO ks.t (pk, v) VALUES (1, 'http://here') //").await;
    assert_eq!(world.column("SELECT v FROM ks.t").await, ["http://here"]);
    world.run(r"UPDATE ks.t SET v = E'it\'s //here' WHERE pk = 1").await;
    assert_eq!(world.column("SELECT v FROM ks.t").await, ["it's //here"]);
    let error = world.error("SELECT // all\n * FROM ks.nothing").await;
    let place = error.span.map(|span| (span.line, span.column));
    assert_eq!(place, Some((2, 12)), "{error}: places are those of the text");
    let error = world.error("CREATE TYPE ks.u (a int,, b int)").await;
    assert!(error.message.contains("expected the name of a field"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_schema_may_hold_and_is_not_offered_is_refused_with_help() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    for (text, words) in [
        (
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE v IS NOT NULL PRIMARY KEY (v, pk)",
            "CREATE MATERIALIZED VIEW is not offered",
        ),
        ("CREATE FUNCTION f (a int) RETURNS int", "CREATE FUNCTION is not offered"),
        ("CREATE TABLE c (a int PRIMARY KEY) WITH COMPACT STORAGE", "COMPACT STORAGE"),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, ErrorKind::Unsupported, "{text}: {error}");
        assert!(error.message.contains(words) && error.help.is_some(), "{text}: {error}");
    }
    for (text, words) in [
        ("CREATE TABLE c (a int PRIMARY KEY) WITH cachin = {}", "option 'cachin'"),
        ("CREATE TABLE c (a int PRIMARY KEY) WITH caching = ", "expected a value"),
        ("CREATE TABLE c (a int PRIMARY KEY) WITH caching = {'keys': 'ALL'", "expected '}'"),
        ("CREATE KEYSPACE k WITH replication", "expected '='"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(words), "{text}: {error}");
    }
    let altered =
        world.run("ALTER TABLE t WITH caching = {'keys': 'NONE'} AND comment = 'c'").await;
    assert!(altered.note.unwrap().ends_with(": caching"));
    world.run("INSERT INTO t VALUES (1, 5), (2, 7)").await;
    for text in [
        "SELECT pk FROM t WHERE v = 5 ALLOW FILTERING",
        "SELECT pk FROM t WHERE v > 1 LIMIT 1 allow filtering",
    ] {
        assert_eq!(world.column(text).await.len(), 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_already_or_is_not_there_is_said_to_be_so() {
    let world = World::new().await;
    let text = "CREATE KEYSPACE IF NOT EXISTS k; CREATE KEYSPACE IF NOT EXISTS k; \
                CREATE TYPE IF NOT EXISTS k.y (a int); CREATE TYPE IF NOT EXISTS k.y (a int); \
                CREATE TABLE IF NOT EXISTS k.t (a int PRIMARY KEY); \
                CREATE TABLE IF NOT EXISTS k.t (a int PRIMARY KEY); \
                DROP TABLE IF EXISTS k.t; DROP TABLE IF EXISTS k.t; \
                DROP TYPE IF EXISTS k.y; DROP TYPE IF EXISTS k.y; \
                DROP KEYSPACE IF EXISTS k; DROP KEYSPACE IF EXISTS k; \
                DROP POLICY IF EXISTS p;";
    let told = run_all(&world, text).await;
    let messages: Vec<&str> = told.iter().map(|(message, _)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "Keyspace k created.",
            "Keyspace k exists already.",
            "Type k.y created.",
            "Type k.y exists already.",
            "Table k.t created.",
            "Table k.t exists already.",
            "Table k.t dropped.",
            "There is no table t.",
            "Type k.y dropped.",
            "There is no type k.y.",
            "Keyspace k dropped.",
            "There is no keyspace k.",
            "There is no policy p.",
        ]
    );
}

/// By their names each would come before the one that it is made of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_stands_behind_those_that_it_is_made_of_in_whatever_way() {
    for field in [
        "frozen<z>",
        "list<frozen<z>>",
        "set<frozen<z>>",
        "map<text, frozen<z>>",
        "map<frozen<z>, text>",
        "frozen<tuple<int, frozen<z>>>",
        "map<text, frozen<list<frozen<z>>>>",
    ] {
        let world = World::new().await;
        world.run("CREATE TYPE z (n int)").await;
        world.run(&format!("CREATE TYPE a (f {field})")).await;
        read_back(&world, "DESCRIBE KEYSPACE default").await;
    }
}

/// Definitions of tables with types whose names need quotes are run as they are printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_whose_names_need_quotes_are_written_in_quotes() {
    let world = World::new().await;
    for text in [
        r#"CREATE TYPE "Addr" (n int)"#,
        r#"CREATE TABLE t (k int PRIMARY KEY, one frozen<"Addr">,
            two map<text, frozen<"Addr">>, three frozen<tuple<frozen<"Addr">, uuid>>)"#,
        "CREATE TABLE c (PRIMARY KEY (k)) AS SELECT * FROM t",
    ] {
        world.run(text).await;
    }
    read_back(&world, "DESCRIBE KEYSPACE default").await;
}
