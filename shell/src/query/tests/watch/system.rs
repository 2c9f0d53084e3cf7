//! What tables of `system` tell of partitions, tables, files and caches.

use super::super::{SessionOptions, World};
use crate::query::ErrorKind;

/// What is told of the cache of a shard.
const NAMES: [&str; 11] = [
    "capacity_bytes",
    "bytes",
    "pages",
    "entries",
    "row_bytes",
    "index_bytes",
    "data_bytes",
    "hits",
    "misses",
    "evictions",
    "refused",
];

/// A partition that has one thing of each kind, each written at a time of its own.
async fn world() -> World {
    let world = World::of_shards(1, SessionOptions::default()).await;
    for text in [
        "CREATE TABLE t (a int, b text, c int, s int STATIC, v int, PRIMARY KEY ((a, b), c))",
        "INSERT INTO t (a, b, c, v) VALUES (1, 'x', 2, 5) USING TIMESTAMP 100",
        "INSERT INTO t (a, b, c, v) VALUES (1, 'x', 7, 5) USING TIMESTAMP 110",
        "UPDATE t USING TIMESTAMP 120 SET s = 9 WHERE a = 1 AND b = 'x'",
        "DELETE FROM t USING TIMESTAMP 130 WHERE a = 1 AND b = 'x' AND c > 3 AND c <= 5",
        "DELETE FROM t USING TIMESTAMP 50 WHERE a = 1 AND b = 'x'",
        "INSERT INTO t (a, b, c, v) VALUES (2, 'y', 1, 1) USING TIMESTAMP 140",
    ] {
        world.run(text).await;
    }
    world
}

/// The parts of a partition outside the cache, in the order in which they are told.
fn parts(conditions: &str) -> String {
    format!(
        "SELECT concat_ws(' ', split_part(source, ' ', 1), kind, coalesce(from_key, '-'), \
         coalesce(to_key, '-'), \"timestamp\") FROM system.fragments \
         WHERE {conditions} AND source <> 'cache'"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_source_shows_what_it_has_of_a_partition_and_when_that_was_written() {
    let world = world().await;
    let wanted = |source: &str| {
        [
            "partition - - 50",
            "static row - - 120",
            "row 2 2 100",
            "range tombstone after 3 after 5 130",
            "row 7 7 110",
        ]
        .map(|part| format!("{source} {part}"))
    };
    let of_t = "table_name = 't' AND partition = '1, x'";
    assert_eq!(world.column(&parts(of_t)).await, wanted("memtable"));
    world.run("FLUSH t").await;
    assert_eq!(world.column(&parts(of_t)).await, wanted("sstable"));
    let reversed = "'1, x' = partition AND 't' = table_name AND keyspace_name = 'default'";
    assert_eq!(world.column(&parts(reversed)).await, wanted("sstable"));
    // What is there on both sides is told of both.
    world.run("INSERT INTO t (a, b, c, v) VALUES (1, 'x', 9, 5) USING TIMESTAMP 150").await;
    let mut both = vec!["memtable partition - -".to_owned(), "memtable row 9 9 150".to_owned()];
    both.extend(wanted("sstable"));
    assert_eq!(world.column(&parts(of_t)).await, both);
    let none = "table_name = 't' AND partition = '5, x'";
    assert!(world.column(&parts(none)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_named_by_its_table_and_by_the_values_of_its_key() {
    let world = world().await;
    let error = async |conditions: &str| world.error(&parts(conditions)).await.to_string();
    for (conditions, wanted) in [
        ("partition = '1, x'", "shows one partition"),
        ("table_name = 't'", "shows one partition"),
        ("table_name = 't' AND partition > '1, x'", "shows one partition"),
        ("table_name = 't' AND partition = '1'", "has not the values of: a, b"),
        ("table_name = 't' AND partition = '1, x, y'", "has not the values of: a, b"),
        ("table_name = 't' AND partition = 'one, x'", "column 'a': "),
        ("table_name = 'u' AND partition = '1, x'", "table 'u' does not exist"),
        ("keyspace_name = 'k' AND table_name = 't' AND partition = '1, x'", "does not exist"),
    ] {
        let told = error(conditions).await;
        assert!(told.contains(wanted), "{conditions}: {told}");
    }
    // Of two tables with one name it has to be said which is meant.
    world.run("CREATE KEYSPACE k").await;
    world.run("CREATE TABLE k.t (a text PRIMARY KEY)").await;
    world.run("INSERT INTO k.t (a) VALUES ('1, x') USING TIMESTAMP 160").await;
    let of_t = "table_name = 't' AND partition = '1, x'";
    let told = world.error(&parts(of_t)).await;
    assert_eq!(told.kind, ErrorKind::Invalid, "{told}");
    assert!(told.message.contains("several keyspaces have a table 't'"), "{told}");
    let of = async |keyspace: &str| {
        let text = parts(&format!("{of_t} AND keyspace_name = '{keyspace}'"));
        world.column(&text).await.len()
    };
    // The partition and its row.
    assert_eq!((of("default").await, of("k").await), (5, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_columns_and_files_are_shown_as_what_they_are() {
    let world = world().await;
    world
        .run(
            "CREATE TABLE wide (b text, a int, d int, c int, s int STATIC, v text, \
             PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) \
             AND comment = 'it''s'",
        )
        .await;
    world.run("CREATE TABLE one (k int PRIMARY KEY)").await;
    let columns = "SELECT concat_ws(' ', column_name, type, kind, coalesce(clustering_order, '-')) \
                   FROM system.columns WHERE table_name = 'wide' ORDER BY column_name";
    assert_eq!(
        world.column(columns).await,
        [
            "a int partition_key -",
            "b text partition_key -",
            "c int clustering_key desc",
            "d int clustering_key asc",
            "s int static -",
            "v text regular -"
        ]
    );
    let tables = "SELECT concat_ws('|', table_name, primary_key, \"comment\", \
                  coalesce(problem, 'none')) FROM system.tables ORDER BY table_name";
    assert_eq!(
        world.column(tables).await,
        ["one|((k))||none", "t|((a, b), c)||none", "wide|((a, b), c, d)|it's|none"]
    );
    world.run("FLUSH t").await;
    // The least time is that of the oldest deletion.
    let files = "SELECT concat_ws(' ', keyspace_name, table_name, shard, level, partitions, \
                 min_timestamp, max_timestamp, state) FROM system.sstables WHERE bytes > 0";
    assert_eq!(world.column(files).await, ["default t 0 0 2 50 140 live"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_caches_are_those_of_the_engine_in_both_tables_that_have_them() {
    let world = World::weather().await;
    world.run("FLUSH").await;
    for origin in ["EWR", "JFK", "EWR", "JFK", "LGA"] {
        let read = format!("SELECT temp FROM weather WHERE origin = '{origin}'");
        assert_eq!(world.column(&read).await.len(), 9);
    }
    let reports = world.session.database().cache_report().await.unwrap();
    assert_eq!(reports.len(), 2, "one of each shard");
    for report in reports {
        let figures = [
            report.capacity_bytes,
            report.bytes,
            report.pages,
            report.entries,
            report.row_bytes,
            report.index_bytes,
            report.data_bytes,
            report.hits,
            report.misses,
            report.evictions,
            report.refused,
        ];
        for (name, figure) in NAMES.into_iter().zip(figures) {
            let shard = report.shard;
            let own = format!("SELECT {name} FROM system.cache WHERE shard = {shard}");
            let metric = format!(
                "SELECT CAST(value AS bigint) FROM system.metrics \
                 WHERE shard = {shard} AND name = 'cache_{name}'"
            );
            for query in [own, metric] {
                assert_eq!(world.column(&query).await, [figure.to_string()], "{query}");
            }
        }
    }
    let some = "SELECT count(*) FROM system.cache WHERE row_bytes > 0 AND entries > 0";
    assert_ne!(world.column(some).await, ["0"], "something is in the cache");
}
