//! Sessions: keyspaces, DDL, SHOW, parameters, descriptions and the places of errors.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use futures::future::LocalBoxFuture;
use futures::{FutureExt, StreamExt};
use tidegate_engine::{PartitionKey, Value, runtime};

use super::{OutcomeKind, World, split};
use crate::query::{ErrorKind, QueryError};

#[test]
fn futures_of_a_session_may_move_between_threads() {
    fn check<T: Send>(
        _: impl FnOnce(&'static super::Session, &'static super::super::Statement) -> T,
    ) {
    }
    check(|session, statement| session.run(statement));
    check(|session, statement| session.describe(statement));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keyspaces_and_tables_come_and_go() {
    let world = World::new().await;
    world.run("CREATE KEYSPACE fx").await;
    world.run("CREATE KEYSPACE IF NOT EXISTS fx").await;
    assert_eq!(world.error("CREATE KEYSPACE fx").await.kind, ErrorKind::Exists);
    world.run("USE fx; CREATE TABLE T (Id int PRIMARY KEY, \"Odd\" text)").await;
    assert_eq!(world.session.keyspace(), "fx");
    world.run("INSERT INTO fx.t (ID, \"Odd\") VALUES (1, 'a')").await;
    assert_eq!(world.column("SELECT \"Odd\" FROM t WHERE id = 1").await, ["a"]);
    insta::assert_snapshot!(world.rows("SHOW TABLES").await, @"
    +---------------+------------+-------+-------------+
    | keyspace_name | table_name | type  | primary_key |
    +---------------+------------+-------+-------------+
    | fx            | t          | TABLE | ((id))      |
    +---------------+------------+-------+-------------+
    ");
    insta::assert_snapshot!(world.rows("SHOW KEYSPACES").await, @"
    +---------------+
    | keyspace_name |
    +---------------+
    | default       |
    | fx            |
    | system        |
    +---------------+
    ");
    insta::assert_snapshot!(world.rows("DESCRIBE t").await);
    insta::assert_snapshot!(world.rows("DESCRIBE system.row_cache").await);
    assert_eq!(world.error("DROP KEYSPACE fx").await.kind, ErrorKind::Invalid);
    world.run("DROP TABLE t; DROP TABLE IF EXISTS t; DROP KEYSPACE fx").await;
    assert_eq!(world.session.keyspace(), "default");
    assert_eq!(world.error("USE fx").await.kind, ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_held_a_shard_is_seen() {
    let world = World::weather().await;
    let database = world.session.database();
    let catalog = database.catalog();
    let schema = catalog.table("default", "weather").unwrap();
    let key = PartitionKey::from_values(schema, &[Value::Text("EWR".into())]).unwrap();
    let first = line!() + 3;
    let hold = |_| {
        Box::pin(async {
            runtime::maybe_yield().await;
            std::thread::sleep(Duration::from_millis(3));
            // Not every call looks at the clock.
            for _ in 0..4 {
                runtime::maybe_yield().await;
            }
        }) as LocalBoxFuture<'static, ()>
    };
    database.on_shard(&key, hold).await.unwrap();
    // A busy machine may keep the thread elsewhere too, and those stretches are told as well.
    let held = world
        .rows("SELECT after, before, count FROM system.stalls WHERE longest_us >= 3000 AND task = 'on shard'")
        .await;
    let place = |line| format!("{}:{line}", file!());
    let stretch = format!("| {} | {} | 1 ", place(first), place(first + 4));
    assert!(held.contains(&stretch), "{stretch} in\n{held}");
    assert!(world.rows("SHOW STALLS").await.contains("on shard"));
    let metric = "SELECT max(value) >= 3000 FROM system.metrics WHERE name = 'stall_longest_us'";
    assert_eq!(world.column(metric).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_one_name_have_rows_of_their_own() {
    let world = World::new().await;
    world.run("CREATE KEYSPACE fx; CREATE TABLE t (k int PRIMARY KEY)").await;
    world.run("CREATE TABLE fx.t (k int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    world.run("INSERT INTO fx.t VALUES (1), (2)").await;
    let rows = "SELECT memtable_rows FROM system.tables WHERE table_name = 't' \
                ORDER BY keyspace_name";
    assert_eq!(world.column(rows).await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_seen_by_what_it_is_for() {
    let world = World::weather().await;
    let bytes = async |pool: &str| -> u64 {
        let sum = format!("SELECT sum(bytes) FROM system.memory WHERE pool = '{pool}'");
        world.column(&sum).await[0].parse().unwrap()
    };
    let active = bytes("active memtables").await;
    assert!(active > 0 && active == bytes("memtables").await, "{active}");
    // What is not counted is the rest of what the process has, and each part counts once.
    let rest = "SELECT sum(CASE WHEN pool = 'resident' THEN bytes ELSE 0 END) - \
                sum(CASE WHEN part_of = 'resident' THEN bytes ELSE 0 END) FROM system.memory";
    assert_eq!(world.column(rest).await, ["0"]);
    world.run("FLUSH").await;
    assert_eq!((bytes("active memtables").await, bytes("sealed memtables").await), (0, 0));
    for pool in ["filters", "summaries", "checksums", "I/O buffers"] {
        assert!(bytes(pool).await > 0, "{pool}");
    }
    let shown = world.rows("SHOW MEMORY").await;
    let place = |pool: &str| shown.find(pool).unwrap_or_else(|| panic!("{pool} in {shown}"));
    let pools = [
        "| memtables",
        "|   active memtables",
        "|   sealed memtables",
        "| cache",
        "|   row cache",
        "|   data pages",
        "|   index pages",
        "|   index entries",
        "| filters",
        "| summaries",
        "| checksums",
        "| commitlog buffers",
        "| I/O buffers",
        "| batches of reads",
        "| queries",
        "| policies",
        "| rate limits",
        "| not counted",
        "| resident",
    ];
    assert!(pools.map(place).is_sorted(), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.starts_with("| ")).count(), pools.len() + 1);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    // Parts are no more than their whole, and all that is counted is no more than there is.
    let parts = "SELECT count(*) FROM ( \
         SELECT part_of, sum(bytes) AS bytes FROM system.memory \
         WHERE part_of <> 'resident' GROUP BY part_of) AS parts \
         JOIN (SELECT pool, sum(bytes) AS bytes FROM system.memory GROUP BY pool) AS wholes \
         ON part_of = pool WHERE parts.bytes <= wholes.bytes";
    assert_eq!(world.column(parts).await, ["2"], "of memtables and of the cache");
    let limits = "SELECT pool FROM system.memory WHERE limit_bytes IS NOT NULL GROUP BY pool \
                  ORDER BY min(place)";
    let limited = ["memtables", "cache", "batches of reads", "queries", "resident"];
    assert_eq!(world.column(limits).await, limited);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classes_of_io_are_seen_and_set() {
    let world = World::weather().await;
    world.run("FLUSH").await;
    let shown = world.rows("SHOW IO").await;
    let place = |class: &str| shown.find(class).unwrap_or_else(|| panic!("{class} in {shown}"));
    let classes = ["query", "commitlog", "flush", "compaction", "maintenance"];
    assert!(classes.map(place).is_sorted(), "{shown}");
    let measures = ["shares", "bandwidth", "queued", "in the disk", "requests/s", "delay"];
    assert!(measures.map(place).is_sorted(), "{shown}");
    let measures = ["execution", "disk-s/s", "starved"];
    assert!(measures.map(place).is_sorted(), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    // No figures of the disk, no disk-seconds.
    let flushed = "SELECT sum(writes) > 5 AND sum(written_bytes) > 100 AND count(disk_share) = 0 \
                   FROM system.io WHERE class = 'flush'";
    assert_eq!(world.column(flushed).await, ["true"]);
    let set = async |text: &str| world.column(text).await.join(";");
    assert_eq!(
        set("ALTER IO CLASS compaction SET shares = 200").await,
        "I/O class compaction has 200 shares."
    );
    assert_eq!(
        set("ALTER IO CLASS Compaction SET BANDWIDTH = 50 MiB AND SHARES 300").await,
        "I/O class compaction has 300 shares, at most 52428800 bytes a second."
    );
    let settings = "SELECT DISTINCT shares * 1000000000 + bandwidth FROM system.io \
                    WHERE class = 'compaction'";
    assert_eq!(world.column(settings).await, ["300052428800"]);
    assert_eq!(
        set("ALTER IO CLASS compaction SET bandwidth = NONE, shares = 100").await,
        "I/O class compaction has 100 shares."
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_rows_are_seen_bypassed_and_forgotten() {
    let world = World::weather().await;
    world.run("FLUSH").await;
    let read = "SELECT temp FROM weather WHERE origin = 'EWR'";
    let held = "SELECT sum(rows) FROM system.row_cache WHERE table_name = 'weather'";
    world.run("SET tidegate.bypass_cache = true").await;
    assert_eq!(world.column(read).await.len(), 9);
    assert_eq!(world.column(held).await, ["0"]);
    assert!(world.rows(&format!("EXPLAIN {read}")).await.contains("cache=bypassed"));
    world.run("SET tidegate.bypass_cache = false").await;
    assert_eq!(world.column(read).await.len(), 9);
    assert_eq!(world.column(held).await, ["9"]);
    assert!(world.rows("SHOW CACHE TABLES").await.contains("weather"));
    let shown = world.rows("SHOW CACHE").await;
    for what in ["default.weather", "data pages", "index pages", "total"] {
        assert!(shown.contains(what), "{shown}");
    }
    let metric = "SELECT CAST(sum(value) AS BIGINT) FROM system.metrics \
                  WHERE name = 'row_cache_rows' AND table_name = 'weather'";
    assert_eq!(world.column(metric).await, ["9"]);

    world
        .run("INSERT INTO weather (origin, time_hour) VALUES ('EWR', '2014-01-01T00:00:00Z')")
        .await;
    let of = |source: &str| {
        format!(
            "SELECT count(*) FROM system.fragments WHERE table_name = 'weather' \
             AND partition = 'EWR' AND kind = 'row' AND source LIKE '{source}'"
        )
    };
    for (source, rows) in [("cache", "9"), ("sstable %", "9"), ("memtable", "1")] {
        assert_eq!(world.column(&of(source)).await, [rows], "{source}");
    }
    let gaps = "SELECT kind, from_key, to_key FROM system.fragments WHERE kind LIKE '%gap' \
                AND table_name = 'weather' AND partition = 'EWR' AND from_key IS NULL";
    assert!(world.rows(gaps).await.contains("known gap"));
    let whole = world.error("SELECT * FROM system.fragments WHERE table_name = 'weather'").await;
    assert!(whole.message.contains("partition = "), "{}", whole.message);
    world.run("INVALIDATE CACHE weather").await;
    assert_eq!(world.column(held).await, ["0"]);
    assert_eq!(world.column(read).await.len(), 10);
    world.run("INVALIDATE CACHE").await;
    assert_eq!(world.error("INVALIDATE CACHE wether").await.kind, ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_described_and_bound() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck text, v int, PRIMARY KEY (pk, ck))").await;
    let insert = &split("INSERT INTO t (pk, ck, v) VALUES (?, ?, ?) USING TTL ?").unwrap()[0];
    let description = world.session.describe(insert).await.unwrap();
    let types = |schema: &Schema| -> Vec<DataType> {
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    };
    assert_eq!(
        types(&description.parameters),
        [DataType::Int32, DataType::Utf8, DataType::Int32, DataType::Int64]
    );
    assert!(!description.returns_rows && description.schema.fields().is_empty());
    let field = |name: &str, ty| Field::new(name, ty, true);
    let schema = Arc::new(Schema::new(vec![
        field("a", DataType::Int32),
        field("b", DataType::Utf8),
        field("c", DataType::Int32),
        field("d", DataType::Int32),
    ]));
    let numbers = |values: [i32; 2]| Arc::new(Int32Array::from_iter_values(values)) as _;
    let rows = RecordBatch::try_new(
        schema,
        vec![
            numbers([1, 1]),
            Arc::new(StringArray::from(vec!["x", "y"])),
            numbers([10, 20]),
            numbers([1000, 1000]),
        ],
    )
    .unwrap();
    let outcome = world.session.run_with(insert, &rows).await.unwrap();
    assert!(matches!(outcome.kind, OutcomeKind::Count(2)));

    let query = &split("SELECT v FROM t WHERE pk = ? AND ck >= ? ORDER BY ck DESC").unwrap()[0];
    let description = world.session.describe(query).await.unwrap();
    assert_eq!(types(&description.parameters), [DataType::Int32, DataType::Utf8]);
    assert_eq!(types(&description.schema), [DataType::Int32]);
    let one = rows.project(&[0, 1]).unwrap().slice(1, 1);
    let batches = world.session.run_with(query, &one).await.unwrap().collect().await.unwrap();
    assert_eq!(batches[0].schema(), description.schema);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);

    for text in
        ["UPDATE t SET v = $3 WHERE pk = $1 AND ck = $2", "DELETE FROM t WHERE pk = $1 AND ck = $2"]
    {
        let write = &split(text).unwrap()[0];
        let description = world.session.describe(write).await.unwrap();
        assert_eq!(description.parameters.field(1).data_type(), &DataType::Utf8, "{text}");
        let columns: Vec<usize> = (0..write.parameter_count()).collect();
        let outcome = world.session.run_with(write, &rows.project(&columns).unwrap()).await;
        assert!(matches!(outcome.unwrap().kind, OutcomeKind::Count(2)), "{text}");
    }
    assert!(world.column("SELECT v FROM t").await.is_empty());
    assert!(world.session.run(query).await.is_err(), "parameters without values");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_point_at_what_is_wrong() {
    let world = World::weather().await;
    let mut all = String::new();
    for text in [
        "SELECT tmep FROM weather",
        "SELECT temp\nFROM wether",
        "SELECT w.tmp FROM weather w WHERE w.origin = 'x'",
        "SELECT * FROM nowhere.weather",
        "SELCT 1",
        "SELECT 1 FROM",
        "SELECT temp weather WHERE",
        "SELECT 'open",
        "CREATE TABLE t (a int, b intt, PRIMARY KEY (a))",
        "CREATE TABLE t (a int, b int, PRIMARY KEY (a, c))",
        "CREATE TABLE t (a int)",
        "CREATE TABLE t (a int PRIMARY KEY) WITH gc_grace_second = 5",
        "CREATE TABLE weather (a int PRIMARY KEY)",
        "INSERT INTO weather (origin, time_hour) VALUES ('x', 'noon')",
        "DELETE FROM weather WHERE time_hour = '2013-01-01'",
        "UPDATE weather SET temp = 1 WHERE origin = 'JFK'",
        "DROP TABEL t",
        "ALTER CACHE SET CAPACITY = 'much'",
        "ALTER IO CLASS compation SET shares = 5",
        "ALTER IO CLASS flush SET shares = 2000",
        "ALTER IO CLASS flush SET bandwidth = 0",
        "ALTER IO CLASS flush SET weight = 1",
        "COPY weather FROM '/nowhere/x.csv' WITH (HEADR true)",
        "EXPLAIN ANALYZE DELETE FROM weather WHERE origin = 'JFK'",
        "SELECT abz(temp) FROM weather",
        "TRUNCATE wether",
        "TRUNCATE system.metrics",
        "SELECT ?",
        "SELECT origin,\n  1/0 AS broken FROM weather",
        "SELECT 9223372036854775807 + year FROM weather",
        "INSERT INTO weather (origin, time_hour) VALUES ('x', '2013-01-01') USING TTL -1",
        "CREATE TABLE t (a int, b int, a text, PRIMARY KEY (a))",
        "INSERT INTO weather (origin, origin, time_hour) VALUES ('x', 'y', '2013-01-01')",
        "SHOW TABELS",
        "SHOW POLICY EXIT",
        "SHOW nonsense",
        "DESCRIBE system.metric",
        "SELECT '日本', nope FROM weather",
        "SELECT count(*) FROM weather WHERE temp = ",
        "SELECT sum(origin) FROM weather",
    ] {
        let error: QueryError = world.error(text).await;
        all.push_str(&format!("{}[{:?}]\n\n", error.render(text), error.kind));
    }
    insta::assert_snapshot!(all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_files_reads_none() {
    let options = super::SessionOptions { local_files: false, ..Default::default() };
    let world = World::with(options).await;
    world.run("CREATE TABLE t (a int PRIMARY KEY)").await;
    for text in [
        "COPY t FROM '/etc/passwd'",
        "COPY t TO '/tmp/never'",
        "CREATE POLICY p FROM '/etc/passwd'",
        "SNAPSHOT TO '/tmp/never'",
        "SELECT * FROM '/etc/passwd'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
    ] {
        assert!(world.try_run(text).await.is_err(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_needs_more_memory_than_there_is_fails_alone() {
    let memory = crate::query::QueryMemory::new(Some(1 << 20));
    let world = World::with(super::SessionOptions { memory, ..Default::default() }).await;
    let sort = "SELECT value FROM generate_series(1, 1000000) ORDER BY value % 7, value";
    let error = world.error(sort).await;
    assert_eq!(error.kind, ErrorKind::Overloaded, "{error}");
    assert_eq!(world.column("SELECT count(*) FROM generate_series(1, 10)").await, ["10"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_is_shown_though_no_query_gets_a_turn() {
    let memory = crate::query::QueryMemory::new(Some(16 << 20));
    let options = super::SessionOptions { memory: memory.clone(), ..Default::default() };
    let world = World::with(options).await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    let mut turns = Vec::new();
    while let Some(Ok(turn)) = memory.turn().now_or_never() {
        turns.push(turn);
    }
    assert!(turns.len() > 1, "{} queries have a turn", turns.len());
    world.run("SHOW READS").await;
    world.run("SHOW MEMORY").await;
    world.run("SELECT max(name) FROM system.metrics WHERE name > 'c'").await;
    let asked = "SELECT count(*) FROM t WHERE v > 1 AND pk IN (SELECT count(*) FROM system.reads)";
    let mut waits = std::pin::pin!(world.run(asked));
    let soon = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(soon, &mut waits).await.is_err(), "a query got no turn");
    turns.pop();
    waits.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_has_its_turn_until_nobody_takes_more_of_its_rows() {
    let memory = crate::query::QueryMemory::new(Some(16 << 20));
    let options = super::SessionOptions { memory: memory.clone(), ..Default::default() };
    let world = World::with(options).await;
    let mut running = Vec::new();
    for _ in 0..4 {
        let text = "SELECT value % 7 FROM generate_series(1, 1000000)";
        let OutcomeKind::Rows(mut rows) = world.run(text).await.kind else { panic!("no rows") };
        assert!(rows.next().await.unwrap().is_ok());
        running.push(rows);
    }
    assert!(memory.turn().now_or_never().is_none(), "four queries have all turns");
    running.pop();
    assert!(memory.turn().now_or_never().is_some(), "one has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_describe_shows_of_options_can_be_typed() {
    let world = World::weather().await;
    let with = "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 8, \
                'compression_level': 5} AND comment = 'it''s' AND on_corruption = 'skip' \
                AND per_partition_rate_limit = {'max_reads_per_second': 7} \
                AND large_data = {'row_bytes': 5, 'partition_rows': 6} \
                AND default_time_to_live = 60 AND gc_grace_seconds = 61 \
                AND column_index_size_in_kb = 4 \
                AND compaction = {'class': 'TWCS', 'compaction_window_unit': 'hours', \
                'bucket_high': 1.75, 'enabled': 'false'}";
    let with = format!("{with} AND rate_limit_by = 'k'");
    world.run(&format!("CREATE TABLE a (k int PRIMARY KEY) WITH {with}")).await;
    world.run("CREATE TABLE b (k int PRIMARY KEY)").await;
    let leveled = "{'class': 'Leveled', 'sstable_size_in_mb': 5, 'fanout_size': 4}";
    world.run(&format!("CREATE TABLE e (k int PRIMARY KEY) WITH compaction = {leveled}")).await;
    let pairs = [("a", "c"), ("b", "d"), ("e", "f"), ("g", "h"), ("i", "j")];
    let runs =
        "{'sstable_size_in_mb': 160, 'class': 'Incremental', 'space_amplification_goal': 1.2}";
    world.run(&format!("CREATE TABLE g (k int PRIMARY KEY) WITH compaction = {runs}")).await;
    let usual = "{'class': 'IncrementalCompactionStrategy'}";
    world.run(&format!("CREATE TABLE i (k int PRIMARY KEY) WITH compaction = {usual}")).await;
    assert!(options_of(&world, "i").await.contains(usual), "1000 MiB are its default");
    for (from, to) in pairs {
        let options = options_of(&world, from).await;
        world.run(&format!("CREATE TABLE {to} (k int PRIMARY KEY) WITH {options}")).await;
        assert_eq!(options_of(&world, to).await, options);
    }
    let catalog = world.session.database().catalog();
    for (from, to) in pairs {
        let options = |name| catalog.table("default", name).unwrap().options.clone();
        assert_eq!(options(from), options(to));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sstables_are_merged_and_what_became_of_them_is_seen() {
    let world = World::new().await;
    let off = "compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}";
    world.run(&format!("CREATE TABLE t (k int PRIMARY KEY, v int) WITH {off}")).await;
    for round in 0..3 {
        world.run(&format!("INSERT INTO t VALUES (1, {round}), (2, {round}), (3, 0)")).await;
        world.run("FLUSH t").await;
    }
    let of_t = "FROM system.sstables WHERE table_name = 't'";
    let files: u64 = world.column(&format!("SELECT count(*) {of_t}")).await[0].parse().unwrap();
    assert!(files >= 3, "{files}");
    world.run("INSERT INTO t VALUES (4, 4)").await;
    world.run("COMPACT t").await;
    let shards = "SELECT count(*) = count(DISTINCT shard), sum(rows), max(level)";
    let seen = world.rows(&format!("{shards} {of_t}")).await;
    assert!(seen.contains("| true ") && seen.contains("| 4 ") && seen.contains("| 0 "), "{seen}");
    let runs = world.column(&format!("SELECT DISTINCT run = number {of_t}")).await;
    assert_eq!(runs, ["true"], "each is a run by itself");
    assert_eq!(world.column("SELECT v FROM t ORDER BY k").await, ["2", "2", "0", "4"]);
    let ended = "SELECT DISTINCT reason, state, done_percent FROM system.compactions";
    let ended = world.rows(ended).await;
    assert!(ended.contains("| asked  | done  | 100.0 "), "{ended}");
    assert!(!world.rows("SHOW COMPACTIONS").await.contains("asked"));
    let error = world.error("CANCEL COMPACTION 12345").await;
    assert_eq!(error.message, "no compaction 12345 runs");
    let error = world.error("CANCEL COMPACTION t").await;
    assert!(error.message.contains("the number of a compaction"), "{error}");
    for (option, wanted) in [
        ("{'class': 'Levelled'}", "strategy 'Levelled' does not exist"),
        ("{'min_treshold': 2}", "option of compaction 'min_treshold' does not exist"),
        ("{'class': 'ICS', 'space_amplification_goal': 1}", "space_amplification_goal is above 1"),
        ("{'min_threshold': 40}", "max_threshold is between min_threshold and 128"),
        ("{'bucket_low': 'half'}", "'half' is no ratio such as 0.5"),
        ("{'compaction_window_unit': 'years'}", "unit 'years' does not exist"),
    ] {
        let error = world.error(&format!("ALTER TABLE t WITH compaction = {option}")).await;
        assert!(error.message.contains(wanted), "{option}: {error}");
    }
}

/// The options that DESCRIBE shows, as WITH takes them.
async fn options_of(world: &World, table: &str) -> String {
    let shown = world.rows(&format!("DESCRIBE {table}")).await;
    let rows = shown.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let options = rows.filter(|cells| cells.get(3) == Some(&"option"));
    options.map(|cells| format!("{} = {}", cells[1], cells[2])).collect::<Vec<_>>().join(" AND ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_told_from_what_changes_something() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t VALUES (1, 2)").await;
    for text in [
        "SELECT * FROM t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "(SELECT 1) UNION SELECT 2",
        "VALUES (1)",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN ANALYZE SELECT * FROM t",
        "EXPLAIN DELETE FROM t WHERE k = 1",
        "SHOW TABLES",
        "DESCRIBE t",
    ] {
        let statement = &split(text).unwrap()[0];
        assert!(world.session.describe(statement).await.unwrap().is_query, "{text}");
        let prepared = world.session.prepare(statement.clone(), "default");
        assert!(world.session.query_prepared(&prepared, None).await.is_ok(), "{text}");
    }
    for text in [
        "INSERT INTO t VALUES (2, 2)",
        "UPDATE t SET v = 3 WHERE k = 1",
        "DELETE FROM t WHERE k = 1",
        "DROP TABLE t",
        "CREATE TABLE u (k int PRIMARY KEY)",
        "ALTER TABLE t WITH gc_grace_seconds = 1",
        "USE system",
        "SET datafusion.execution.batch_size = 1",
        "RESET datafusion.execution.batch_size",
        "FLUSH",
        "COPY t TO 'x.csv'",
        "ATTACH SSTABLES '/tmp' AS u",
        "ALTER CACHE SET POLICY = lru",
    ] {
        let statement = &split(text).unwrap()[0];
        let prepared = world.session.prepare(statement.clone(), "default");
        let error = world.session.query_prepared(&prepared, None).await.err().unwrap();
        assert_eq!(error.message, "the statement is no query", "{text}");
    }
    assert_eq!(world.column("SELECT v FROM t").await, ["2"]);
    assert_eq!(world.session.keyspace(), "default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_another_keyspace_leaves_this_one_alone() {
    let world = World::new().await;
    world.run("CREATE KEYSPACE other").await;
    world.run("CREATE TABLE other.t (k int PRIMARY KEY)").await;
    let other = world.session.at("other");
    assert_eq!((other.keyspace(), world.session.keyspace()), ("other".into(), "default".into()));
    assert!(other.execute("SELECT * FROM t").await.is_ok());
    assert!(world.session.execute("SELECT * FROM t").await.is_err());
    let absent = world.session.at("absent");
    for text in
        ["SELECT * FROM t", "INSERT INTO t VALUES (1)", "CREATE TABLE u (k int PRIMARY KEY)"]
    {
        let error = absent.execute(text).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::NotFound, "{text}");
        assert!(error.message.contains("keyspace 'absent'"), "{text}: {error}");
    }
    for text in ["SELECT 1", "SELECT * FROM other.t", "USE default", "SELECT * FROM u"] {
        let is_there = absent.execute(text).await.is_ok();
        assert_eq!(is_there, text != "SELECT * FROM u", "{text}");
    }
    let drop = &split("DROP TABLE t").unwrap()[0];
    let dropped = world.session.table_to_drop(drop, "other").unwrap();
    assert_eq!(dropped.full_name(), "other.t");
    assert!(world.session.table_to_drop(drop, "default").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_of_parameters_follow_from_what_stands_around_them() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, temp double, m map<text, int>)").await;
    for (text, wanted) in [
        ("SELECT CAST(? AS bigint), ?::double, TRY_CAST(? AS int)", "Int64, Float64, Int32"),
        ("SELECT coalesce(temp, ?), nullif(?, k), greatest(?, 1) FROM t", "Float64, Int32, Int64"),
        ("SELECT ?, k + ? FROM t WHERE temp < ?", "Null, Int32, Float64"),
        ("SELECT k FROM t LIMIT ?", "Int64"),
    ] {
        let description = world.session.describe(&split(text).unwrap()[0]).await.unwrap();
        let found: Vec<String> =
            description.parameters.fields().iter().map(|f| f.data_type().to_string()).collect();
        assert_eq!(found.join(", "), wanted, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_a_query_that_panics_is_an_error_of_that_query() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, what text)").await;
    world.run("INSERT INTO t VALUES (1, 'a bug'), (2, 'offset overflow')").await;
    let boom = create_udf(
        "boom",
        vec![DataType::Utf8],
        DataType::Int32,
        Volatility::Immutable,
        Arc::new(|arguments: &[ColumnarValue]| -> datafusion::common::Result<ColumnarValue> {
            let what = match &arguments[0] {
                ColumnarValue::Scalar(what) => what.to_string(),
                ColumnarValue::Array(what) => ScalarValue::try_from_array(what, 0)?.to_string(),
            };
            panic!("{what}")
        }),
    );
    world.session.context.register_udf(boom);
    for text in ["SELECT boom(what) FROM t WHERE k = 1", "SELECT boom('a bug')"] {
        let error = world.error(text).await;
        assert_eq!(error.kind, ErrorKind::Internal, "{text}");
        assert!(error.message.contains("a bug"), "{text}: {error}");
    }
    // What arrow says of more than 2 GB in one column of a batch.
    let error = world.error("SELECT boom(what) FROM t WHERE k = 2").await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("more than 2 GB"), "{error}");
    let keys = world.column("SELECT k FROM t ORDER BY k").await;
    assert_eq!(keys, ["1", "2"], "the session goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_of_a_query_is_described_as_it_runs() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ti int, v bigint, PRIMARY KEY (pk, ti))").await;
    for (text, count) in [
        ("INSERT INTO t (pk, ti) SELECT 5, x FROM (VALUES (1), (3)) AS q(x)", 2),
        ("INSERT INTO t (pk, ti) WITH q AS (VALUES (77)) SELECT column1, 3 FROM q", 1),
    ] {
        let statement = &split(text).unwrap()[0];
        let description = world.session.describe(statement).await.unwrap();
        assert!(!description.returns_rows && description.parameters.fields().is_empty());
        assert_eq!(world.count(text).await, count, "{text}");
    }
    for (text, types) in [
        (
            "INSERT INTO t (pk, ti, v) SELECT ti + 10, $1, $2 FROM t WHERE pk = $3",
            &[DataType::Int32, DataType::Int64, DataType::Int32][..],
        ),
        (
            "INSERT INTO t (pk, v, ti) SELECT $1, $2, 1 UNION ALL SELECT 7, $3, $4",
            &[DataType::Int32, DataType::Int64, DataType::Int64, DataType::Int32],
        ),
        (
            "INSERT INTO t (pk, v, ti) SELECT $1 AS x, y, 1 FROM (SELECT DISTINCT $2 AS y) AS q",
            &[DataType::Int32, DataType::Int64],
        ),
    ] {
        let statement = &split(text).unwrap()[0];
        let description = world.session.describe(statement).await.unwrap();
        let fields = description.parameters.fields().iter();
        let found: Vec<DataType> = fields.map(|field| field.data_type().clone()).collect();
        assert_eq!(found, types, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn system_tables_count_rows_and_bytes() {
    let world = World::weather().await;
    let sums = async |columns: &str| {
        let sums: Vec<String> = columns.split(' ').map(|name| format!("sum({name})")).collect();
        let columns = sums.join(", ");
        let query = format!(
            "SELECT concat_ws(',', {columns}) FROM system.tables WHERE table_name = 'weather'"
        );
        world.column(&query).await.remove(0)
    };
    assert_eq!(sums("memtable_rows sstables sstable_rows sstable_bytes").await, "27,0,0,0");
    assert_ne!(sums("memtable_bytes").await, "0");
    world.run("FLUSH weather").await;
    assert_eq!(sums("memtable_rows memtable_bytes sstable_rows").await, "0,0,27");
    let bytes: u64 = sums("sstable_bytes").await.parse().unwrap();
    assert!(bytes > 500, "{bytes}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_stand_first_by_what_is_large_of_them() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (k int PRIMARY KEY, many set<int>, long set<text>) \
             WITH large_data = {'collection_elements': 2}",
        )
        .await;
    let long = ["a", "b", "c"].map(|letter| format!("'{}'", letter.repeat(500))).join(", ");
    world
        .run(&format!(
            "INSERT INTO t VALUES (1, {{1, 2, 3, 4, 5, 6}}, {{{long}}}), (2, {{1}}, {{}})"
        ))
        .await;
    world.run("FLUSH t").await;
    let cells = "SELECT concat_ws(',', column_name, partition_key, collection_elements, \
                 threshold, above_threshold) FROM system.large_cells";
    assert_eq!(world.column(cells).await, ["many,1,6,2,2", "long,1,3,2,2"]);
    assert_eq!(world.column("SELECT count(*) FROM system.large_rows").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_stand_in_branches_of_unions() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t VALUES (1, 10)").await;
    for (text, wanted) in [
        ("SELECT ? UNION ALL SELECT ?", "7 8"),
        ("SELECT ? UNION SELECT ? ORDER BY 1 DESC", "8 7"),
        ("SELECT ? AS x UNION ALL SELECT k FROM t WHERE k < ?", "1 7"),
        ("SELECT x FROM (SELECT k, ? AS x FROM t UNION ALL SELECT v, ? FROM t) ORDER BY x", "7 8"),
        ("SELECT x FROM (SELECT ? AS x UNION SELECT ?) q ORDER BY x", "7 8"),
        ("SELECT x + 1 FROM (SELECT 1 AS x UNION ALL SELECT ? UNION ALL SELECT ?) q", "2 8 9"),
        ("SELECT 1 WHERE 8 IN (SELECT ? UNION ALL SELECT ?)", "1"),
        ("SELECT (SELECT max(x) FROM (SELECT ? AS x UNION ALL SELECT ?) q)", "8"),
        ("SELECT 1 WHERE EXISTS (SELECT x FROM (SELECT ? AS x UNION SELECT ?) q WHERE x = 8)", "1"),
        ("SELECT ? EXCEPT SELECT 1 UNION ALL SELECT ?", "7 8"),
    ] {
        let statement = &split(text).unwrap()[0];
        world.session.describe(statement).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        let one = |value| Arc::new(Int32Array::from_iter_values([value])) as _;
        let rows = RecordBatch::try_from_iter([("a", one(7)), ("b", one(8))]).unwrap();
        let described = world.session.describe_with(statement, &rows).await.unwrap();
        let batches = world.session.run_with(statement, &rows).await.unwrap();
        let batches = batches.collect().await.unwrap();
        let mut found = Vec::new();
        for batch in &batches {
            assert_eq!(batch.schema().field(0).data_type(), described.schema.field(0).data_type());
            for row in 0..batch.num_rows() {
                found.push(array_value_to_string(batch.column(0), row).unwrap());
            }
        }
        // Without an order the branches give their rows side by side.
        if !text.contains("ORDER BY") {
            found.sort_unstable();
        }
        assert_eq!(found.join(" "), wanted, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_statements_none_is_run_behind_one_that_fails() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)").await;
    for failing in [
        "SELECT nothing FROM t",
        // It fails while its rows come.
        "SELECT 6 / v FROM t",
        "INSERT INTO t VALUES (NULL, 1)",
        "UPDATE t SET v = 1 WHERE v = 0",
        "DROP TABLE nothing",
    ] {
        let text = format!("INSERT INTO t VALUES (2, 2); {failing}; INSERT INTO t VALUES (3, 3)");
        world.error(&text).await;
        assert_eq!(world.column("SELECT k FROM t ORDER BY k").await, ["1", "2"], "{failing}");
        world.run("DELETE FROM t WHERE k = 2").await;
    }
}
