//! Roles as statements make them, and what sessions of roles may do.

mod doors;
mod reading_system;
mod roles;
mod view;

use tidegate_engine::{Permission, Resource};

use super::World;
use crate::query::{Caller, ErrorKind, OutcomeKind, QueryError, Session, SessionOptions, split};

const PASSWORD: &str = "open-sesame";

/// Two tables with a row each, in two keyspaces, and a role that may log in.
async fn world() -> World {
    let world = World::new().await;
    for text in [
        "CREATE TABLE t (pk int PRIMARY KEY, v int)",
        "INSERT INTO t (pk, v) VALUES (1, 7)",
        "CREATE KEYSPACE k",
        "CREATE TABLE k.u (pk int PRIMARY KEY, v text)",
        "INSERT INTO k.u (pk, v) VALUES (1, 'secret')",
        "CREATE ROLE ann WITH LOGIN = true",
    ] {
        world.run(text).await;
    }
    world
}

impl World {
    /// A session of a role.
    fn as_role(&self, role: &str) -> Session {
        self.session.apart("default", role).of_caller(Caller::Role(role.into()))
    }
}

/// Runs a text to its end.
async fn run(session: &Session, text: &str) -> Result<String, QueryError> {
    let outcome = session.execute(text).await?;
    if let OutcomeKind::Message(message) = &outcome.kind {
        return Ok(message.clone());
    }
    let rows: usize = outcome.collect().await?.iter().map(|batch| batch.num_rows()).sum();
    Ok(rows.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_made_listed_changed_and_dropped() {
    let world = World::new().await;
    let say = async |text: &str| world.column(text).await.join(";");
    let create = format!("CREATE ROLE ann WITH PASSWORD = '{PASSWORD}' AND LOGIN = true");
    assert_eq!(say(&create).await, "Role ann is there.");
    world.run("CREATE ROLE IF NOT EXISTS ann WITH SUPERUSER = true").await;
    world.run("CREATE USER bob WITH PASSWORD 'x' SUPERUSER").await;
    world.run("CREATE ROLE team").await;
    world.run("CREATE ROLE 'www.example.com'").await;
    assert_eq!(say("GRANT team TO ann").await, "Role ann has role team.");
    insta::assert_snapshot!(world.rows("LIST ROLES").await, @r"
    +-----------------+-------+-----------+--------------+-------+---------------+
    | role            | login | superuser | has_password | roles | service_level |
    +-----------------+-------+-----------+--------------+-------+---------------+
    | ann             | true  | false     | true         | team  |               |
    | bob             | true  | true      | true         |       |               |
    | team            | false | false     | false        |       |               |
    | www.example.com | false | false     | false        |       |               |
    +-----------------+-------+-----------+--------------+-------+---------------+
    ");
    world.run("CREATE ROLE staff; GRANT staff TO team").await;
    let of = async |role: &str| world.column(&format!("LIST ROLES OF {role}")).await;
    assert_eq!(of("ann").await, ["ann", "staff", "team"]);
    assert_eq!(of("ann NORECURSIVE").await, ["ann", "team"]);
    assert_eq!(of("staff").await, ["staff"]);
    world.run("DROP ROLE staff").await;
    assert_eq!(say("ALTER ROLE ann WITH PASSWORD = NULL").await, "Role ann is changed.");
    let has = "SELECT has_password FROM system.roles WHERE role = 'ann'";
    assert_eq!(world.column(has).await, ["false"]);
    world.run("ALTER USER bob WITH NOSUPERUSER").await;
    assert!(!world.session.database().catalog().roles().is_superuser("bob"));
    assert_eq!(say("REVOKE team FROM ann").await, "Role ann is without a grant of role team.");
    assert_eq!(say("DROP ROLE team").await, "Role team is gone.");
    world.run("DROP ROLE IF EXISTS team").await;
    for (text, kind, says) in [
        ("CREATE ROLE ann", ErrorKind::Exists, "ann"),
        ("CREATE ROLE 'a:b'", ErrorKind::Invalid, "cannot name a role"),
        ("CREATE ROLE x WITH PASSWORD = ''", ErrorKind::Invalid, "1 to 1024 bytes"),
        ("CREATE ROLE x WITH PASSWORD = 5", ErrorKind::Syntax, "a password in quotes"),
        ("CREATE ROLE x WITH LOGIN = true AND LOGIN = true", ErrorKind::Invalid, "twice"),
        ("CREATE ROLE x WITH LOGIN = 1", ErrorKind::Syntax, "true or false"),
        ("CREATE ROLE x LOGIN", ErrorKind::Syntax, "WITH"),
        ("ALTER ROLE ann WITH", ErrorKind::Syntax, "PASSWORD, LOGIN or SUPERUSER"),
        ("ALTER ROLE anna WITH LOGIN = true", ErrorKind::NotFound, "'anna'"),
        ("DROP ROLE anna", ErrorKind::NotFound, "'anna'"),
        ("GRANT anna TO ann", ErrorKind::NotFound, "'anna'"),
        ("GRANT SELECT ON t TO anna", ErrorKind::NotFound, "'anna'"),
        ("GRANT SELECT ON t TO ann", ErrorKind::NotFound, "default.t"),
        ("GRANT SELECT ON KEYSPACE x TO ann", ErrorKind::NotFound, "'x'"),
        ("GRANT SELECT ON POLICIES TO ann", ErrorKind::Invalid, "no SELECT on POLICIES"),
        ("GRANT READ ON t TO ann", ErrorKind::Syntax, "SELECT"),
        ("REVOKE bob FROM ann", ErrorKind::Invalid, "was not granted"),
        ("LIST PERMISSIONS OF anna", ErrorKind::NotFound, "'anna'"),
        ("LIST ROLES OF anna", ErrorKind::NotFound, "'anna'"),
        ("LIST ROLES OF", ErrorKind::Syntax, "role"),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_made_listed_and_dropped_by_their_role_and_by_superusers() {
    let world = world().await;
    world.run("CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true").await;
    let (root, ann) = (world.as_role("root"), world.as_role("ann"));
    let told = run(&ann, "CREATE TOKEN ci OF ann").await.unwrap();
    assert!(told.starts_with("tgt.") && told.contains("told only now"), "{told}");
    run(&root, "CREATE TOKEN 'a b' FOR ROLE ann VALID FOR 1h").await.unwrap();
    run(&root, "CREATE TOKEN own OF root").await.unwrap();
    let list = "SELECT role, token, CAST(expires_at - created_at AS text) AS valid \
                FROM system.tokens";
    insta::assert_snapshot!(world.rows(list).await, @r"
    +------+-------+-------------------------------------+
    | role | token | valid                               |
    +------+-------+-------------------------------------+
    | ann  | a b   | 0 days 1 hours 0 mins 0.000000 secs |
    | ann  | ci    |                                     |
    | root | own   |                                     |
    +------+-------+-------------------------------------+
    ");
    assert_eq!(run(&ann, "LIST TOKENS OF ann").await.unwrap(), "2");
    assert_eq!(run(&root, "SHOW TOKENS").await.unwrap(), "3");
    for text in
        ["LIST TOKENS", "LIST TOKENS OF root", "CREATE TOKEN x OF root", "DROP TOKEN own OF root"]
    {
        let error = run(&ann, text).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{text}: {error}");
    }
    assert_eq!(run(&ann, "DROP TOKEN ci OF ann").await.unwrap(), "Token ci of role ann is gone.");
    run(&ann, "DROP TOKEN IF EXISTS ci OF ann").await.unwrap();
    for (text, kind, says) in [
        ("CREATE TOKEN 'a b' OF ann", ErrorKind::Exists, "'a b'"),
        ("CREATE TOKEN x OF anna", ErrorKind::NotFound, "'anna'"),
        ("CREATE TOKEN x", ErrorKind::Syntax, "OF"),
        ("CREATE TOKEN x OF ann VALID", ErrorKind::Syntax, "the end"),
        ("CREATE TOKEN x OF ann VALID FOR 0s", ErrorKind::Invalid, "never holds"),
        ("CREATE TOKEN 'x:y' OF ann", ErrorKind::Invalid, "cannot name a token"),
        ("DROP TOKEN ci OF ann", ErrorKind::NotFound, "'ci'"),
        ("LIST TOKENS OF anna", ErrorKind::NotFound, "'anna'"),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
    world.run("DROP ROLE ann").await;
    assert_eq!(world.column("SELECT token FROM system.tokens").await, ["own"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_are_granted_listed_and_revoked() {
    let world = world().await;
    world.run("CREATE ROLE team").await;
    world.run("GRANT team TO ann").await;
    let say = async |text: &str| world.column(text).await.join(";");
    assert_eq!(
        say("GRANT SELECT, MODIFY ON t TO team").await,
        "Role team has SELECT, MODIFY on TABLE default.t."
    );
    world.run("GRANT ALL PERMISSIONS ON KEYSPACE k TO team").await;
    world.run("REVOKE DROP ON KEYSPACE k FROM team").await;
    world.run("GRANT CREATE ON ALL KEYSPACES TO ann").await;
    world.run("GRANT SELECT PERMISSION ON ADMINISTRATION TO ann").await;
    world.run("GRANT ALTER ON POLICIES TO ann").await;
    insta::assert_snapshot!(world.rows("LIST PERMISSIONS OF ann").await, @r"
    +------+-----------------+------------+
    | role | resource        | permission |
    +------+-----------------+------------+
    | ann  | ALL KEYSPACES   | CREATE     |
    | ann  | ADMINISTRATION  | SELECT     |
    | ann  | POLICIES        | ALTER      |
    | team | KEYSPACE k      | CREATE     |
    | team | KEYSPACE k      | ALTER      |
    | team | KEYSPACE k      | SELECT     |
    | team | KEYSPACE k      | MODIFY     |
    | team | KEYSPACE k      | AUTHORIZE  |
    | team | TABLE default.t | SELECT     |
    | team | TABLE default.t | MODIFY     |
    +------+-----------------+------------+
    ");
    let on = world.column("LIST ALL PERMISSIONS ON TABLE k.u OF ann").await;
    assert_eq!(on.len(), 6, "those on the keyspace and on all keyspaces: {on:?}");
    assert_eq!(world.column("LIST PERMISSIONS OF team").await.len(), 7);
    assert_eq!(world.column("SELECT role FROM system.permissions").await.len(), 10);
}

/// Each statement, and the first thing that a role without any right lacks.
const REFUSED: &[(&str, &str)] = &[
    ("SELECT * FROM t", "SELECT on TABLE default.t"),
    ("SELECT v FROM t WHERE pk = 1", "SELECT on TABLE default.t"),
    ("SELECT v FROM k.u", "SELECT on TABLE k.u"),
    ("SELECT a.v FROM t a JOIN k.u b ON a.pk = b.pk", "SELECT on TABLE"),
    ("SELECT 1 WHERE EXISTS (SELECT 1 FROM k.u WHERE v = 'secret')", "SELECT on TABLE k.u"),
    ("SELECT (SELECT max(v) FROM k.u)", "SELECT on TABLE k.u"),
    ("WITH x AS (SELECT * FROM k.u) SELECT count(*) FROM x", "SELECT on TABLE k.u"),
    ("SELECT 1 UNION ALL SELECT pk FROM k.u", "SELECT on TABLE k.u"),
    ("EXPLAIN SELECT v FROM t WHERE pk = 1", "SELECT on TABLE default.t"),
    ("EXPLAIN ANALYZE SELECT v FROM t WHERE pk = 1", "SELECT on TABLE default.t"),
    ("EXPLAIN ANALYZE SELECT count(*) FROM k.u", "SELECT on TABLE k.u"),
    ("EXPLAIN INSERT INTO t (pk) VALUES (1)", "MODIFY on TABLE default.t"),
    ("EXPLAIN DELETE FROM t WHERE pk = 1", "MODIFY on TABLE default.t"),
    ("SUMMARIZE k.u", "SELECT on TABLE k.u"),
    ("INSERT INTO t (pk, v) VALUES (1, 1)", "MODIFY on TABLE default.t"),
    ("INSERT INTO t (pk, v) VALUES (1, abs(1))", "MODIFY on TABLE default.t"),
    ("INSERT INTO t (pk, v) SELECT pk, 1 FROM k.u", "MODIFY on TABLE default.t"),
    ("INSERT INTO t (pk, v) VALUES (1, 1) IF NOT EXISTS", "MODIFY on TABLE default.t"),
    ("UPDATE t SET v = 1 WHERE pk = 1", "MODIFY on TABLE default.t"),
    ("UPDATE t SET v = 1 WHERE pk = 1 IF v = 7", "MODIFY on TABLE default.t"),
    ("DELETE FROM k.u WHERE pk = 1", "MODIFY on TABLE k.u"),
    ("BEGIN BATCH DELETE FROM k.u WHERE pk = 1; APPLY BATCH", "MODIFY on TABLE k.u"),
    ("TRUNCATE t", "MODIFY on TABLE default.t"),
    ("COPY t FROM 'x.csv'", "MODIFY on TABLE default.t"),
    ("COPY t TO 'x.csv'", "SELECT on TABLE default.t"),
    ("CREATE TABLE x (a int PRIMARY KEY)", "CREATE on KEYSPACE default"),
    ("CREATE TABLE x (PRIMARY KEY (pk)) AS SELECT pk FROM t", "CREATE on KEYSPACE default"),
    ("CREATE TYPE x (a int)", "CREATE on KEYSPACE default"),
    ("DROP TYPE k.x", "DROP on KEYSPACE k"),
    ("CREATE VIEW x AS SELECT v FROM k.u", "CREATE on KEYSPACE default"),
    ("DROP VIEW k.x", "DROP on TABLE k.x"),
    ("ALTER TABLE t WITH comment = 'x'", "ALTER on TABLE default.t"),
    ("ALTER TABLE k.u ADD w int", "ALTER on TABLE k.u"),
    ("DROP TABLE k.u", "DROP on TABLE k.u"),
    ("CREATE KEYSPACE x", "CREATE on ALL KEYSPACES"),
    ("DROP KEYSPACE k", "DROP on KEYSPACE k"),
    ("CREATE POLICY p FROM 'p.wasm'", "CREATE on POLICIES"),
    ("DROP POLICY p", "DROP on POLICIES"),
    ("ALTER CACHE SET POLICY = lru", "ALTER on POLICIES"),
    ("ALTER CACHE SET ADMISSION = NONE", "ALTER on POLICIES"),
    ("ROLLBACK POLICY", "ALTER on POLICIES"),
    ("ALTER RATE LIMITER SET POLICY = NATIVE", "ALTER on POLICIES"),
    ("ALTER READ ADMISSION SET POLICY = NATIVE", "ALTER on POLICIES"),
    ("ALTER LOAD SHEDDING SET POLICY = NATIVE", "ALTER on POLICIES"),
    ("ALTER IO PRIORITY SET POLICY = NATIVE", "ALTER on POLICIES"),
    ("ALTER COMPACTION SET POLICY = NATIVE", "ALTER on POLICIES"),
    ("ALTER CACHE SET CAPACITY = '1 MiB'", "ALTER on ADMINISTRATION"),
    ("INVALIDATE CACHE t", "ALTER on ADMINISTRATION"),
    ("FLUSH t", "ALTER on ADMINISTRATION"),
    ("COMPACT t", "ALTER on ADMINISTRATION"),
    ("CANCEL COMPACTION 1", "ALTER on ADMINISTRATION"),
    ("ALTER IO CLASS flush SET SHARES = 10", "ALTER on ADMINISTRATION"),
    ("SNAPSHOT TO 'dir'", "ALTER on ADMINISTRATION"),
    ("ATTACH SSTABLES '/dir' AS x", "ALTER on ADMINISTRATION"),
    ("DETACH t", "ALTER on ADMINISTRATION"),
    ("IMPORT SSTABLES '/dir' INTO t", "ALTER on ADMINISTRATION"),
    ("RECORD TRACE TO 'f'", "ALTER on ADMINISTRATION"),
    ("KILL READ 1", "ALTER on ADMINISTRATION"),
    ("KILL QUERY 0", "ALTER on ADMINISTRATION"),
    ("CREATE SERVICE LEVEL x", "ALTER on ADMINISTRATION"),
    ("ALTER SERVICE LEVEL x WITH shares = 5", "ALTER on ADMINISTRATION"),
    ("DROP SERVICE LEVEL x", "ALTER on ADMINISTRATION"),
    ("ATTACH SERVICE LEVEL x TO ann", "ALTER on ADMINISTRATION"),
    ("DETACH SERVICE LEVEL FROM ann", "ALTER on ADMINISTRATION"),
    ("SHOW EFFECTIVE SERVICE LEVEL OF bob", "SELECT on ADMINISTRATION"),
    ("SHOW READS", "SELECT on ADMINISTRATION"),
    ("SHOW SLOW QUERIES", "SELECT on ADMINISTRATION"),
    ("SHOW CORRUPTION", "SELECT on ADMINISTRATION"),
    ("SELECT * FROM system.traces", "SELECT on ADMINISTRATION"),
    ("SELECT * FROM system.audit", "SELECT on ADMINISTRATION"),
    ("SELECT * FROM system.fragments WHERE table_name = 'u'", "SELECT on ADMINISTRATION"),
    ("SELECT * FROM system.large_partitions", "SELECT on ADMINISTRATION"),
    ("LIST ROLES", "SELECT on ADMINISTRATION"),
    ("LIST PERMISSIONS", "SELECT on ADMINISTRATION"),
    ("LIST PERMISSIONS OF bob", "SELECT on ADMINISTRATION"),
    ("LIST ROLES OF bob", "SELECT on ADMINISTRATION"),
    ("CREATE ROLE x", "superuser"),
    ("CREATE USER x", "superuser"),
    ("ALTER ROLE bob WITH PASSWORD = 'x'", "superuser"),
    ("ALTER ROLE ann WITH SUPERUSER = true", "superuser"),
    ("ALTER ROLE ann WITH PASSWORD = 'x' AND SUPERUSER = true", "superuser"),
    ("DROP ROLE bob", "superuser"),
    ("GRANT bob TO ann", "superuser"),
    ("REVOKE bob FROM ann", "superuser"),
    ("GRANT SELECT ON t TO ann", "SELECT on TABLE default.t"),
    ("REVOKE SELECT ON t FROM bob", "SELECT on TABLE default.t"),
];

/// What every role may do.
const FREE: &[&str] = &[
    "SELECT 1",
    "VALUES (1)",
    "USE k",
    "SET tidegate.bypass_cache = true",
    "SHOW TABLES",
    "SHOW KEYSPACES",
    "SELECT * FROM system.views",
    "DESCRIBE TABLE default.t",
    "SHOW POLICIES",
    "SHOW SERVICE LEVELS",
    "SHOW EFFECTIVE SERVICE LEVEL",
    "SHOW EFFECTIVE SERVICE LEVEL OF ann",
    "SHOW WARNINGS",
    "SHOW QUERIES",
    "SHOW SESSIONS",
    "SHOW MEMORY",
    "SHOW CACHE",
    "LIST PERMISSIONS OF ann",
    "LIST ROLES OF ann",
    "ALTER ROLE ann WITH PASSWORD = 'x'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_a_right_is_refused_and_told_which_one() {
    let world = world().await;
    world.run("CREATE ROLE bob").await;
    let ann = world.as_role("ann");
    for path in ["true", "false"] {
        run(&ann, &format!("SET tidegate.short_path = {path}")).await.unwrap();
        for (text, wanted) in REFUSED {
            let Err(error) = run(&ann, text).await else { panic!("{text} is done") };
            assert_eq!(error.kind, ErrorKind::Denied, "{text}: {error}");
            assert!(error.message.contains(wanted), "{text}: {error}");
            assert!(!error.to_string().contains("'secret'"), "{text}: {error}");
            // What is planned only tells as little.
            let described = ann.describe(&split(text).unwrap()[0]).await;
            if let Ok(described) = described {
                // Those of SUMMARIZE are the same for all tables.
                let tells = described.returns_rows && !text.starts_with("SUMMARIZE");
                assert!(!tells, "{text} tells its columns");
            }
        }
    }
    for text in FREE {
        let done = run(&world.as_role("ann"), text).await;
        assert!(done.is_ok(), "{text}: {:?}", done.err());
    }
    assert_eq!(world.column("SELECT v FROM t").await, ["7"]);
    assert_eq!(world.column("SELECT v FROM k.u").await, ["secret"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_its_right_each_statement_runs_and_with_another_it_does_not() {
    let world = world().await;
    let ann = world.as_role("ann");
    let (t, u, k) =
        (Resource::table("default", "t"), Resource::table("k", "u"), Resource::keyspace("k"));
    use Permission::{Alter, Create, Drop, Modify, Select};
    for (grants, text) in [
        (vec![(Select, &t)], "SELECT v FROM t WHERE pk = 1"),
        (vec![(Select, &Resource::AllKeyspaces)], "SELECT v FROM t"),
        (vec![(Select, &t), (Select, &u)], "SELECT a.v FROM t a JOIN k.u b ON a.pk = b.pk"),
        (vec![(Select, &k)], "SELECT (SELECT max(v) FROM k.u)"),
        (vec![(Select, &t)], "EXPLAIN ANALYZE SELECT v FROM t WHERE pk = 1"),
        (vec![(Modify, &t)], "INSERT INTO t (pk, v) VALUES (1, 7)"),
        (vec![(Modify, &t)], "UPDATE t SET v = abs(-7) WHERE pk = 1"),
        (vec![(Modify, &t), (Select, &t)], "UPDATE t SET v = 7 WHERE pk = 1 IF v = 7"),
        (vec![(Modify, &t), (Select, &u)], "INSERT INTO t (pk, v) SELECT pk, 7 FROM k.u"),
        (vec![(Modify, &t)], "EXPLAIN DELETE FROM t WHERE pk = 1"),
        (vec![(Modify, &k)], "BEGIN BATCH DELETE FROM k.u WHERE pk = 2; APPLY BATCH"),
        (
            vec![(Modify, &t), (Modify, &u)],
            "BEGIN BATCH INSERT INTO t (pk, v) VALUES (1, abs(-7)); \
             INSERT INTO k.u (pk, v) VALUES (2, repeat('x', 2)); APPLY BATCH",
        ),
        (
            vec![(Modify, &t), (Modify, &u)],
            "BEGIN BATCH INSERT INTO t (pk, v) VALUES (1, 7); \
             INSERT INTO k.u (pk, v) VALUES (2, 'xx'); APPLY BATCH",
        ),
        (vec![(Alter, &t)], "ALTER TABLE t WITH comment = 'x'"),
        (vec![(Create, &k)], "CREATE TABLE k.x (a int PRIMARY KEY)"),
        (
            vec![(Create, &k), (Select, &t)],
            "CREATE TABLE k.y (PRIMARY KEY (pk)) AS SELECT * FROM t",
        ),
        (vec![(Create, &k), (Select, &t)], "CREATE VIEW k.z AS SELECT pk FROM t"),
        (vec![(Drop, &u)], "DROP TABLE k.u"),
        (vec![(Create, &Resource::AllKeyspaces)], "CREATE KEYSPACE x"),
        (vec![(Alter, &Resource::Administration)], "FLUSH t"),
        (vec![(Select, &Resource::Administration)], "SHOW READS"),
        (vec![(Alter, &Resource::Policies)], "ALTER CACHE SET POLICY = lru"),
    ] {
        let database = world.session.database();
        // Each of them is needed.
        for left_out in 0..grants.len() {
            for (at, (permission, resource)) in grants.iter().enumerate() {
                if at != left_out {
                    database.grant(&[*permission], resource, "ann").await.unwrap();
                }
            }
            let refused = run(&ann, text).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Denied, "{text}: {refused}");
            for (permission, resource) in &grants {
                database.revoke(&[*permission], resource, "ann").await.unwrap();
            }
        }
        for (permission, resource) in &grants {
            database.grant(&[*permission], resource, "ann").await.unwrap();
        }
        run(&ann, text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        for (permission, resource) in &grants {
            database.revoke(&[*permission], resource, "ann").await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_revoked_is_gone_for_what_was_prepared() {
    let world = world().await;
    let ann = world.as_role("ann");
    world.run("GRANT SELECT ON t TO ann").await;
    world.run("GRANT MODIFY ON t TO ann").await;
    for text in [
        "SELECT v FROM t WHERE pk = 1",
        "SELECT count(*) FROM t",
        "EXPLAIN SELECT count(*) FROM t",
        "INSERT INTO t (pk, v) VALUES (1, 7)",
        "INSERT INTO t (pk, v) VALUES (1, abs(7))",
    ] {
        let prepared = ann.prepare(split(text).unwrap().remove(0), "default");
        let owners = &world.session;
        for _ in 0..2 {
            let outcome = ann.run_prepared(&prepared, None).await.unwrap();
            outcome.collect().await.unwrap();
            ann.describe_prepared(&prepared, None).await.unwrap();
        }
        world.run("REVOKE ALL ON t FROM ann").await;
        // The catalog is another one now; what is made under it by others must not help.
        owners.run_prepared(&prepared, None).await.unwrap().collect().await.unwrap();
        owners.describe_prepared(&prepared, None).await.unwrap();
        let refused = ann.run_prepared(&prepared, None).await.err().unwrap();
        assert_eq!(refused.kind, ErrorKind::Denied, "{text}: {refused}");
        let refused = ann.describe_prepared(&prepared, None).await.err().unwrap();
        assert_eq!(refused.kind, ErrorKind::Denied, "{text}: {refused}");
        world.run("GRANT SELECT, MODIFY ON t TO ann").await;
    }
    world.run("DROP ROLE ann").await;
    let gone = run(&ann, "SELECT v FROM t").await.unwrap_err();
    assert!(gone.message.contains("role 'ann' is gone"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_makes_something_may_do_everything_with_it_and_hand_it_on() {
    let world = world().await;
    world.run("CREATE ROLE bob WITH LOGIN = true").await;
    world.run("GRANT CREATE ON KEYSPACE default TO ann").await;
    let (ann, bob) = (world.as_role("ann"), world.as_role("bob"));
    run(&ann, "CREATE TABLE x (a int PRIMARY KEY)").await.unwrap();
    run(&ann, "INSERT INTO x (a) VALUES (1)").await.unwrap();
    assert_eq!(run(&ann, "SELECT * FROM x").await.unwrap(), "1");
    run(&bob, "SELECT * FROM x").await.unwrap_err();
    run(&ann, "GRANT SELECT ON x TO bob").await.unwrap();
    assert_eq!(run(&bob, "SELECT * FROM x").await.unwrap(), "1");
    run(&bob, "GRANT SELECT ON x TO bob").await.unwrap_err();
    // What was there before is not handed over.
    run(&ann, "CREATE TABLE IF NOT EXISTS t (pk int PRIMARY KEY, v int)").await.unwrap();
    run(&ann, "SELECT * FROM t").await.unwrap_err();
    // AUTHORIZE alone hands on nothing.
    world.run("GRANT AUTHORIZE ON t TO bob").await;
    let error = run(&bob, "GRANT SELECT ON t TO bob").await.unwrap_err();
    assert!(error.message.contains("no SELECT on TABLE default.t"), "{error}");
    run(&ann, "DROP TABLE x").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_nowhere_to_be_read() {
    let world = world().await;
    world.run("SET tidegate.slow_query_ms = 1").await;
    world.run("TRACING ON").await;
    let text = format!("CREATE ROLE eve WITH PASSWORD = '{PASSWORD}' AND LOGIN = true");
    world.run(&text).await;
    let wrong = format!("ALTER ROLE eva WITH PASSWORD = '{PASSWORD}' AND LOGIN = true");
    let shown = world.error(&wrong).await;
    assert!(!shown.render(&wrong).contains(PASSWORD), "{}", shown.render(&wrong));
    world.run("TRACING OFF").await;
    let kept = [
        world.rows("SELECT * FROM system.traces").await,
        world.rows("SELECT * FROM system.slow_queries").await,
        world.rows("SELECT * FROM system.audit").await,
        world.rows("SELECT * FROM system.roles").await,
    ];
    assert!(kept[1..3].iter().all(|text| text.contains("PASSWORD = '***'")), "{kept:?}");
    let catalog = std::fs::read_to_string(world.path("data/catalog")).unwrap();
    assert!(catalog.contains("$argon2id$"));
    for text in kept.iter().chain([&catalog, &format!("{:?}", split(&text).unwrap()[0].text())]) {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_a_role_run_under_its_service_level() {
    let world = world().await;
    for text in [
        "CREATE SERVICE LEVEL soon WITH timeout = 1ms AND shares = 800",
        "CREATE SERVICE LEVEL bulk WITH workload_type = 'batch' AND shares = 100",
        "CREATE SERVICE LEVEL other",
        "CREATE ROLE team",
        "GRANT team TO ann",
        "GRANT SELECT ON t TO ann",
        "ATTACH SERVICE LEVEL bulk TO team",
    ] {
        world.run(text).await;
    }
    let ann = world.as_role("ann");
    let admitted = "SELECT admitted FROM system.service_levels WHERE name = 'bulk'";
    for (path, count) in [("true", "1"), ("false", "2")] {
        run(&ann, &format!("SET tidegate.short_path = {path}")).await.unwrap();
        run(&ann, "SELECT v FROM t WHERE pk = 1").await.unwrap();
        assert_eq!(world.column(admitted).await, [count], "{path}");
    }
    world.run("ATTACH SERVICE LEVEL soon TO ann").await;
    insta::assert_snapshot!(world.rows("SHOW EFFECTIVE SERVICE LEVEL OF ann").await, @r"
    +---------------+-------+--------------------+
    | option        | value | origin             |
    +---------------+-------+--------------------+
    | service_level | bulk  | role ann           |
    | timeout       | 1ms   | service level soon |
    | workload_type | batch | service level bulk |
    | shares        | 100   | service level bulk |
    +---------------+-------+--------------------+
    ");
    let slow = "SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.value = b.value";
    assert_eq!(run(&ann, slow).await.unwrap_err().kind, ErrorKind::Timeout);
    run(&ann, &format!("{slow} USING TIMEOUT 1h")).await.unwrap();
    run(&ann, &format!("{slow} USING SERVICE LEVEL bulk")).await.unwrap();
    for level in ["other", "default"] {
        let error = run(&ann, &format!("SELECT 1 USING SERVICE LEVEL {level}")).await.unwrap_err();
        assert!(error.message.contains("may not use service level"), "{error}");
    }
    run(&ann, "SET tidegate.service_level = other").await.unwrap();
    assert_eq!(run(&ann, "SELECT 1").await.unwrap_err().kind, ErrorKind::Denied);
    world.run("DETACH SERVICE LEVEL FROM ann").await;
    world.run("DETACH SERVICE LEVEL FROM team").await;
    run(&ann, "SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_concerns_all_is_audited_with_who_did_it() {
    let world = world().await;
    let ann = world.as_role("ann");
    run(&ann, "DROP TABLE t").await.unwrap_err();
    world.run("GRANT DROP ON t TO ann").await;
    run(&ann, "DROP TABLE t").await.unwrap();
    run(&ann, "SELECT 1").await.unwrap();
    world.run("ALTER CACHE SET POLICY = lru").await;
    let query = "SELECT event, who, what, substr(error, 1, 30) AS error FROM system.audit \
                 WHERE number > 4";
    insta::assert_snapshot!(world.rows(query).await, @r"
    +------------+-------+------------------------------+--------------------------------+
    | event      | who   | what                         | error                          |
    +------------+-------+------------------------------+--------------------------------+
    | definition | ann   | DROP TABLE t                 | role 'ann' may not do this: it |
    | roles      | owner | GRANT DROP ON t TO ann       |                                |
    | definition | ann   | DROP TABLE t                 |                                |
    | policy     | owner | ALTER CACHE SET POLICY = lru |                                |
    +------------+-------+------------------------------+--------------------------------+
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_stay_closed_to_roles_of_clients() {
    let options = SessionOptions { local_files: false, ..SessionOptions::default() };
    let world = World::with(options).await;
    world.run("CREATE ROLE root WITH SUPERUSER = true").await;
    let root = world.as_role("root");
    let error = run(&root, "CREATE POLICY p FROM 'p.wasm'").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(run(&root, "SELECT * FROM 'x.csv'").await.is_err());
}
