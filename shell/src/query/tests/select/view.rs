//! Views: what is read through them, what they are shown as, and what happens below them.

use super::super::World;
use crate::query::{ErrorKind, Session, SessionOptions, split};

/// Weather, and a view of its warm hours.
async fn world() -> World {
    let world = World::weather().await;
    world
        .run(
            "CREATE VIEW warm AS SELECT origin AS place, time_hour, temp AS \"Temp\" FROM Weather \
             WHERE temp > 3",
        )
        .await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_read_like_a_table() {
    let world = world().await;
    assert_eq!(world.column("SELECT count(*) FROM warm").await, ["21"]);
    let jfk = "SELECT \"Temp\" FROM warm WHERE place = 'JFK' AND time_hour < '2013-07-05'";
    assert_eq!(world.column(jfk).await, ["3.5", "4.5"]);
    let join = "SELECT w.note FROM warm v JOIN weather w ON v.place = w.origin \
                AND v.time_hour = w.time_hour WHERE v.place = 'LGA' ORDER BY v.time_hour LIMIT 2";
    assert_eq!(world.column(join).await, ["n3", "n4"]);
    // A query of WITH hides a view of that name.
    assert_eq!(world.column("WITH warm AS (SELECT 1 AS x) SELECT x FROM warm").await, ["1"]);
    world.run("CREATE VIEW hot AS (SELECT place, max(\"Temp\") FROM warm GROUP BY place)").await;
    let hot = "SELECT \"max(\"\"Temp\"\")\" FROM hot WHERE place = 'EWR'";
    assert_eq!(world.column(hot).await, ["9.5"]);
    assert_eq!(world.column("SUMMARIZE warm").await, ["place", "time_hour", "Temp"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_reach_the_table_through_views() {
    let world = world().await;
    world.run("CREATE VIEW upper AS SELECT *, upper(place) AS name FROM warm").await;
    for view in ["warm", "upper"] {
        let page = format!(
            "SELECT time_hour FROM {view} WHERE place = 'JFK' AND time_hour >= '2013-07-05' \
             ORDER BY time_hour DESC LIMIT 2"
        );
        let plan = world.plan(&page).await;
        assert!(plan.contains("partitions=1 key"), "{plan}");
        assert!(plan.contains("direction=reversed, limit=2"), "{plan}");
        assert!(!plan.contains("Sort") && !plan.contains("Filter"), "{plan}");
        assert_eq!(world.column(&page).await.len(), 2);
        // Bound values are keys as well.
        let page =
            split(&format!("SELECT time_hour FROM {view} WHERE place = $1")).unwrap().remove(0);
        let types = world.session.parameters(&page).await.unwrap();
        assert_eq!(types.field(0).data_type().to_string(), "Utf8");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_listed_and_described() {
    let world = world().await;
    insta::assert_snapshot!(world.rows("SHOW TABLES").await, @r"
    +---------------+------------+-------+-----------------------+
    | keyspace_name | table_name | type  | primary_key           |
    +---------------+------------+-------+-----------------------+
    | default       | warm       | VIEW  |                       |
    | default       | weather    | TABLE | ((origin), time_hour) |
    +---------------+------------+-------+-----------------------+
    ");
    insta::assert_snapshot!(world.rows("DESCRIBE warm").await, @r#"
    +-----------+-----------------------------------------------------------------------------------------+--------+
    | name      | definition                                                                              | kind   |
    +-----------+-----------------------------------------------------------------------------------------+--------+
    | place     | text                                                                                    | column |
    | time_hour | timestamp                                                                               | column |
    | Temp      | double                                                                                  | column |
    | query     | SELECT origin AS place, time_hour, temp AS "Temp" FROM "default".Weather WHERE temp > 3 | view   |
    +-----------+-----------------------------------------------------------------------------------------+--------+
    "#);
    insta::assert_snapshot!(world.rows("SELECT * FROM system.views").await, @r#"
    +---------------+-----------+-------+-----------------------------------------------------------------------------------------+
    | keyspace_name | view_name | owner | query                                                                                   |
    +---------------+-----------+-------+-----------------------------------------------------------------------------------------+
    | default       | warm      |       | SELECT origin AS place, time_hour, temp AS "Temp" FROM "default".Weather WHERE temp > 3 |
    +---------------+-----------+-------+-----------------------------------------------------------------------------------------+
    "#);
    let kinds = "SELECT table_name, table_type FROM information_schema.tables \
                 WHERE table_schema = 'default' ORDER BY table_name";
    insta::assert_snapshot!(world.rows(kinds).await, @r"
    +------------+------------+
    | table_name | table_type |
    +------------+------------+
    | warm       | VIEW       |
    | weather    | BASE TABLE |
    +------------+------------+
    ");
    let columns = "SELECT column_name, data_type FROM information_schema.columns \
                   WHERE table_name = 'warm' ORDER BY ordinal_position";
    insta::assert_snapshot!(world.rows(columns).await, @r#"
    +-------------+----------------------+
    | column_name | data_type            |
    +-------------+----------------------+
    | place       | Utf8                 |
    | time_hour   | Timestamp(ms, "UTC") |
    | Temp        | Float64              |
    +-------------+----------------------+
    "#);
    // What is described makes the same views, those that others read first.
    world.run("CREATE VIEW cold AS SELECT * FROM warm WHERE \"Temp\" < 4").await;
    let schema = world.column("DESCRIBE SCHEMA").await;
    let other = World::new().await;
    for statement in &schema {
        other.run(statement).await;
    }
    assert_eq!(other.column("DESCRIBE SCHEMA").await, schema);
    assert_eq!(schema.len(), 4, "{schema:?}");
    assert_eq!(world.column("DESCRIBE VIEW warm").await, schema[2..3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_reads_the_same_tables_in_every_keyspace() {
    let world = world().await;
    world.run("CREATE KEYSPACE other; CREATE TABLE other.weather (origin text PRIMARY KEY)").await;
    world.run("USE other").await;
    assert_eq!(world.column("SELECT count(*) FROM default.warm").await, ["21"]);
    world.run("CREATE VIEW mine AS SELECT * FROM weather").await;
    world
        .run("CREATE OR REPLACE VIEW both AS SELECT w.place FROM \"default\".warm w, mine m")
        .await;
    world.run("USE default").await;
    assert_eq!(world.column("SELECT count(*) FROM other.mine").await, ["0"]);
    assert_eq!(world.column("SELECT count(*) FROM other.both").await, ["0"]);
    let text = world.column("DESCRIBE VIEW other.both").await;
    assert!(text[0].contains("\"other\".mine m"), "{text:?}");
    assert_eq!(world.error("DROP KEYSPACE other").await.kind, ErrorKind::Invalid);
    // A view is in the way as well as a table.
    world.run("CREATE KEYSPACE views; CREATE VIEW views.v AS SELECT * FROM other.weather").await;
    let error = world.error("DROP KEYSPACE views").await;
    assert!(error.message.contains("0 tables and 1 views"), "{error}");
    world.run("DROP VIEW views.v; DROP KEYSPACE views").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_view_cannot_be_is_refused_with_help() {
    let world = world().await;
    for (text, kind, says) in [
        ("CREATE VIEW v AS SELECT 1", ErrorKind::Unsupported, "read no table"),
        ("CREATE VIEW v AS SELECT * FROM system.tables", ErrorKind::Unsupported, "read no table"),
        ("CREATE VIEW v AS DELETE FROM weather", ErrorKind::Syntax, "expected SELECT"),
        ("CREATE VIEW v AS SELECT * FROM nowhere", ErrorKind::Unsupported, "read no table"),
        ("CREATE VIEW v AS SELECT * FROM weather, nowhere", ErrorKind::NotFound, "'nowhere'"),
        ("CREATE VIEW v AS SELECT tmp FROM weather", ErrorKind::NotFound, "'tmp'"),
        ("CREATE VIEW v AS SELECT temp, note AS temp FROM weather", ErrorKind::Invalid, "temp"),
        (
            "CREATE VIEW v AS SELECT * FROM weather PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "PER PARTITION",
        ),
        (
            "CREATE VIEW v AS WITH weather AS (SELECT * FROM weather) SELECT * FROM weather",
            ErrorKind::Invalid,
            "a query of WITH",
        ),
        ("CREATE VIEW warm AS SELECT * FROM weather", ErrorKind::Exists, "warm"),
        ("CREATE VIEW weather AS SELECT * FROM warm", ErrorKind::Exists, "weather"),
        ("CREATE OR REPLACE VIEW warm AS SELECT * FROM warm", ErrorKind::Invalid, "read itself"),
        ("CREATE TABLE warm (a int PRIMARY KEY)", ErrorKind::Exists, "view"),
        ("DROP VIEW weather", ErrorKind::NotFound, "'weather'"),
        ("DROP TABLE weather", ErrorKind::Invalid, "view 'default.warm'"),
        ("DROP TABLE warm", ErrorKind::Invalid, "is a view"),
        ("TRUNCATE warm", ErrorKind::Invalid, "is a view"),
        ("ALTER TABLE warm ADD x int", ErrorKind::Invalid, "is a view"),
        ("INSERT INTO warm (place) VALUES ('x')", ErrorKind::Invalid, "is a view"),
        ("UPDATE warm SET \"Temp\" = 1 WHERE place = 'x'", ErrorKind::Invalid, "is a view"),
        ("DELETE FROM warm WHERE place = 'x'", ErrorKind::Invalid, "is a view"),
        ("DESCRIBE VIEW wram", ErrorKind::NotFound, "'wram'"),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.span.is_some(), "{text}: {error}");
    }
    let statement =
        split("CREATE VIEW v AS SELECT * FROM weather WHERE temp > ?").unwrap().remove(0);
    let error = world.session.describe(&statement).await.unwrap_err();
    assert!(error.message.contains("takes no parameters"), "{error}");
    for (text, message) in [
        ("CREATE VIEW IF NOT EXISTS warm AS SELECT * FROM weather", "exists already"),
        ("DROP VIEW IF EXISTS wram", "no view wram"),
        ("CREATE OR REPLACE VIEW warm AS SELECT note FROM weather", "replaced"),
        ("DROP VIEW warm", "dropped"),
    ] {
        assert!(world.column(text).await[0].contains(message), "{text}");
    }
    assert_eq!(world.error("SELECT * FROM warm").await.kind, ErrorKind::NotFound);
    world.run("DROP TABLE weather").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_whose_columns_went_says_so_and_comes_back_with_them() {
    let world = world().await;
    world.run("CREATE VIEW all_of AS SELECT * FROM weather").await;
    let warm = world.session.prepare(split("SELECT * FROM warm").unwrap().remove(0), "default");
    let read = async || world.session.run_prepared(&warm, None).await;
    read().await.unwrap();
    world.run("ALTER TABLE weather DROP temp").await;
    for text in ["SELECT * FROM warm", "DESCRIBE warm", "SELECT 1 FROM warm"] {
        let error = world.error(text).await;
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains("view 'warm' of keyspace default does not fit"), "{error}");
        assert!(error.help.unwrap().contains("CREATE OR REPLACE VIEW default.warm"));
    }
    assert!(read().await.is_err());
    // Others go on, and a star is the columns of now.
    let columns = world.run("SELECT * FROM all_of LIMIT 1").await.schema;
    assert_eq!(columns.fields().len(), 3);
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_type = 'VIEW' \
                  AND table_schema = 'default'";
    assert_eq!(world.column(listed).await, ["1"], "one that cannot be read is not listed there");
    world.run("ALTER TABLE weather ADD temp double").await;
    assert_eq!(world.column("SELECT count(*) FROM warm").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_outlive_a_restart() {
    let world = world().await;
    let database = world.session.database().clone();
    database.close().await.unwrap();
    drop(database);
    let World { session, directory } = world;
    drop(session);
    let open = tidegate_engine::Options::new(directory.path().join("data"));
    let database = tidegate_engine::Database::open(open).await.unwrap();
    let session = Session::new(database, SessionOptions::default()).unwrap();
    let world = World { session, directory };
    assert_eq!(world.column("SELECT count(*) FROM warm").await, ["21"]);
}
