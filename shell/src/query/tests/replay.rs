//! Recording, replaying and the worlds beside eviction, by statements.

use super::{OutcomeKind, World};
use crate::query::{ErrorKind, SessionOptions};

fn dist(name: &str) -> String {
    format!("{}/../plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"))
}

async fn message(world: &World, text: &str) -> String {
    match world.run(text).await.kind {
        OutcomeKind::Message(message) => message,
        _ => panic!("no message: {text}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_replayed_on_traces_by_name_and_by_file() {
    let world = World::new().await;
    std::fs::write(world.path("t.txt"), "1,10\n2,30\n1,10\n3,20\n2,30\n1,10\n").unwrap();
    let trace = world.path("t.txt");
    let text = format!(
        "SELECT policy, capacity, unit, requests, hits, hit_ratio, byte_hit_ratio, evictions \
         FROM replay_policy('lru', '{trace}', 2, '60 b', cache_entries => 3)"
    );
    insta::assert_snapshot!("replay_rows", world.rows(&text).await);
    let recipe = "zipf:ids=2000,requests=20000,skew=0.9,seed=3";
    world.run(&format!("CREATE POLICY mine FROM '{}'", dist("sieve"))).await;
    let hash = async |policy: &str, more: &str| {
        let call = format!("replay_policy('{policy}', '{recipe}', 100{more})");
        world.column(&format!("SELECT victims_hash FROM {call}")).await
    };
    let by_name = hash("mine", "").await;
    assert_eq!(by_name, hash(&dist("sieve"), "").await);
    assert_ne!(by_name, hash("mine", ", ahead => 32").await);
    assert_ne!(by_name, hash("lru", "").await);
    let call = format!("replay_policy('mine', '{recipe}', capacity => '5%')");
    let fuel = world.column(&format!("SELECT fuel_per_event > 10 FROM {call}")).await;
    assert_eq!(fuel, ["true"]);
    let curve = format!(
        "SELECT count(*) FROM replay_policy('optimal', '{recipe}') o \
         JOIN replay_policy('lru', '{recipe}') l USING (capacity) WHERE o.hits >= l.hits"
    );
    assert_eq!(world.column(&curve).await, ["9"]);

    for (text, kind, part) in [
        ("SELECT * FROM replay_policy('lru')", ErrorKind::Invalid, "takes a policy, a trace"),
        ("SELECT * FROM replay_policy('nine', 'loop:')", ErrorKind::NotFound, "policy 'nine'"),
        ("SELECT * FROM replay_policy('lru', 'loop:ids=x')", ErrorKind::Invalid, "'ids=x'"),
        ("SELECT * FROM replay_policy('lru', '/no/file')", ErrorKind::Io, "cannot read '/no/file'"),
        ("SELECT * FROM replay_policy('lru', 'loop:', 0)", ErrorKind::Invalid, "holds nothing"),
        ("SELECT * FROM replay_policy('lru', 'loop:', ahed => 3)", ErrorKind::NotFound, "'ahed'"),
        ("SELECT * FROM replay_policy('lru', 'loop:', ahead => 99)", ErrorKind::Invalid, "1 to 32"),
    ] {
        let error = world.error(text).await;
        assert!(error.kind == kind && error.message.contains(part), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_recorded_by_statement_and_replayed() {
    let world = World::weather().await;
    world.run("FLUSH").await;
    let file = world.path("reads.trace");
    let started = message(&world, &format!("RECORD TRACE '{file}' FOR 1000000 EVENTS")).await;
    assert!(started.contains("until 1000000 reads"), "{started}");
    for origin in ["EWR", "JFK", "EWR", "LGA", "EWR"] {
        world.rows(&format!("SELECT temp FROM weather WHERE origin = '{origin}'")).await;
    }
    let ended = message(&world, "RECORD TRACE STOP").await;
    assert!(ended.contains("reads in") && ended.ends_with("0 were lost."), "{ended}");
    let text = format!("SELECT hits > 0 FROM replay_policy('lru', '{file}', 100)");
    assert_eq!(world.column(&text).await, ["true"]);
    let nothing = world.error("RECORD TRACE STOP").await;
    assert_eq!(nothing.message, "nothing is recorded");
    let zero = world.error("RECORD TRACE 'x' FOR 0").await;
    assert!(zero.message.contains("one event at least") && zero.span.is_some(), "{zero}");

    let remote = World::with(SessionOptions { local_files: false, ..Default::default() }).await;
    for text in [
        "RECORD TRACE 'x'",
        "SELECT * FROM replay_policy('lru', 'x')",
        "SELECT * FROM replay_policy('./x', 'loop:')",
    ] {
        assert_eq!(remote.error(text).await.kind, ErrorKind::Unsupported, "{text}");
    }
    let made = remote.column("SELECT hits FROM replay_policy('lru', 'loop:ids=3,requests=9', 3)");
    assert_eq!(made.await, ["6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_have_statements() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int PRIMARY KEY, v int) WITH per_partition_rate_limit = \
             {'max_reads_per_second': 1000, max_writes_per_second: 2}",
        )
        .await;
    let mut refused = None;
    for v in 0..200 {
        if let Err(error) = world.try_run(&format!("INSERT INTO t VALUES (1, {v})")).await {
            refused.get_or_insert(error);
        }
    }
    let refused = refused.expect("200 writes in seconds are more than 2 a second");
    assert_eq!(refused.kind, ErrorKind::Overloaded);
    assert!(refused.is_retryable() && refused.message.contains("too many writes"), "{refused}");
    assert_eq!(world.column("SELECT pk FROM t WHERE pk = 1").await, ["1"]);
    let sums = "SELECT sum(writes) = 200 AND sum(writes_refused) > 100 AND sum(reads) = 1 \
                FROM system.rate_limits";
    assert_eq!(world.column(sums).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_io_and_of_compaction_are_put_in_charge() {
    let world = World::new().await;
    let create = format!("CREATE POLICY guard FROM '{}' WITH (target = 500)", dist("queue_guard"));
    world.run(&create).await;
    world.run(&format!("CREATE POLICY lazy FROM '{}'", dist("lazy_leveling"))).await;
    for (text, wanted) in [
        ("ALTER IO PRIORITY SET POLICY = guard", "Shares of I/O are planned by guard."),
        ("ALTER COMPACTION SET POLICY lazy", "Compactions are chosen by lazy."),
    ] {
        assert_eq!(message(&world, text).await, wanted);
    }
    let active = "SELECT name FROM system.policies WHERE state = 'active' ORDER BY name";
    assert_eq!(world.column(active).await, ["guard", "lazy", "lru"]);
    let held = world.error("DROP POLICY lazy").await;
    assert!(held.message.contains("decides on compactions"), "{held}");
    for (text, wanted) in [
        ("ALTER IO PRIORITY SET POLICY = NATIVE", "Shares of I/O are as they are set."),
        (
            "ALTER COMPACTION SET POLICY = NATIVE",
            "Compactions are chosen by the strategy of each table.",
        ),
    ] {
        assert_eq!(message(&world, text).await, wanted);
    }
    for (text, part) in [
        ("ALTER IO PRIORITY SET POLICY = lazy", "not on io-priority"),
        ("ALTER COMPACTION SET POLICY = guard", "not on compaction"),
        ("ALTER COMPACTION SET STRATEGY = guard", "POLICY"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(part) && error.span.is_some(), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_world_has_statements() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    assert!(world.column("SELECT pk FROM t WHERE pk = 1").await.is_empty());
    world.run(&format!("CREATE POLICY touch FROM '{}'", dist("second_touch"))).await;
    world
        .run(&format!("CREATE POLICY bucket FROM '{}' WITH (rate = 50)", dist("token_bucket")))
        .await;
    let set = message(&world, "ALTER CACHE SET ADMISSION = touch").await;
    assert_eq!(set, "Cache admission set to touch.");
    let set = message(&world, "ALTER RATE LIMITER SET POLICY bucket").await;
    assert_eq!(set, "Rate limiter set to bucket.");
    let states = "SELECT name, world, state FROM system.policies ORDER BY name";
    insta::assert_snapshot!("worlds_of_policies", world.rows(states).await);
    assert_eq!(
        message(&world, "ALTER CACHE SET ADMISSION NONE").await,
        "Cache admission set to none: the cache keeps all that is read."
    );
    assert_eq!(
        message(&world, "ALTER RATE LIMITER SET POLICY = NATIVE").await,
        "Rate limiter set to native."
    );
    let create = format!("CREATE POLICY latency FROM '{}' WITH (most = 30)", dist("latency"));
    world.run(&create).await;
    world.run(&format!("CREATE POLICY codel FROM '{}'", dist("codel"))).await;
    assert_eq!(
        message(&world, "ALTER READ ADMISSION SET POLICY = latency").await,
        "Read admission set to latency."
    );
    assert_eq!(
        message(&world, "ALTER LOAD SHEDDING SET POLICY codel").await,
        "Load shedding set to codel."
    );
    let active = "SELECT name FROM system.policies WHERE state = 'active' ORDER BY name";
    assert_eq!(world.column(active).await, ["codel", "latency", "lru"]);
    let sums = "SELECT sum(admitted) > 0 AND sum(refused) = 0 AND min(running_max) > 0 \
                FROM system.admission WHERE class <> 'write'";
    assert_eq!(world.column(sums).await, ["true"]);
    assert_eq!(
        message(&world, "ALTER READ ADMISSION SET POLICY NATIVE").await,
        "Read admission set to native."
    );
    let set = message(&world, "ALTER LOAD SHEDDING SET POLICY = NONE").await;
    assert_eq!(set, "Load shedding is off.");
    for (text, part) in [
        ("ALTER CACHE SET POLICY = touch", "not on eviction"),
        ("ALTER CACHE SET ADMISSION = bucket", "not on cache-admission"),
        ("ALTER RATE SET POLICY = x", "COMPACTION, IO CLASS, SERVICE LEVEL or ROLE"),
        ("ALTER READ ADMISSION SET POLICY = bucket", "not on read-admission"),
        ("ALTER LOAD SHEDDING SET POLICY = touch", "not on load-shedding"),
        ("ALTER LOAD SHEDDING POLICY = touch", "SET"),
        (
            "CREATE TABLE u (a int PRIMARY KEY) WITH per_partition_rate_limit = {max_read: 1}",
            "max_read",
        ),
        ("CREATE TABLE u (a int PRIMARY KEY) WITH per_partition_rate_limit = 5", "'{'"),
        ("CREATE TABLE u (a int PRIMARY KEY) WITH rate_limit_by = 5", "in quotes"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(part) && error.span.is_some(), "{text}: {error}");
    }
}
