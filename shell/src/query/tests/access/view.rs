//! Whose rights a view reads with.

use super::{run, world};
use crate::query::{ErrorKind, QueryError, split};

fn denied(error: &QueryError, says: &str) {
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.contains(says), "{says}: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_a_view_needs_a_right_on_it_alone() {
    let world = world().await;
    world.run("CREATE VIEW v AS SELECT pk FROM k.u WHERE v = 'secret'").await;
    let ann = world.as_role("ann");
    for text in ["SELECT * FROM v", "EXPLAIN SELECT * FROM v", "SUMMARIZE v", "COPY v TO 'x.csv'"] {
        denied(&run(&ann, text).await.unwrap_err(), "SELECT on TABLE default.v");
    }
    world.run("GRANT SELECT ON v TO ann").await;
    assert_eq!(run(&ann, "SELECT pk FROM v").await.unwrap(), "1");
    assert_eq!(run(&ann, "SELECT (SELECT max(pk) FROM v)").await.unwrap(), "1");
    // The table stays closed, beside the view too.
    let beside = "SELECT u.v FROM v JOIN k.u u ON v.pk = u.pk";
    denied(&run(&ann, beside).await.unwrap_err(), "SELECT on TABLE k.u");
    denied(&run(&ann, "DROP VIEW v").await.unwrap_err(), "DROP on TABLE default.v");
    // What was prepared with the right is refused without it.
    let prepared = ann.prepare(split("SELECT pk FROM v").unwrap().remove(0), "default");
    ann.run_prepared(&prepared, None).await.unwrap();
    world.run("REVOKE SELECT ON v FROM ann").await;
    world.session.run_prepared(&prepared, None).await.unwrap();
    denied(&ann.run_prepared(&prepared, None).await.err().unwrap(), "SELECT on TABLE default.v");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_opens_nothing_that_its_owner_may_not_read() {
    let world = world().await;
    for text in ["CREATE ROLE bob", "GRANT CREATE ON KEYSPACE default TO ann"] {
        world.run(text).await;
    }
    let (ann, bob) = (world.as_role("ann"), world.as_role("bob"));
    let create = "CREATE VIEW v AS SELECT v FROM k.u";
    denied(&run(&ann, create).await.unwrap_err(), "SELECT on TABLE k.u");
    assert!(world.session.database().catalog().view("default", "v").is_none());
    world.run("GRANT SELECT ON k.u TO ann").await;
    run(&ann, create).await.unwrap();
    assert_eq!(run(&ann, "SELECT * FROM v").await.unwrap(), "1");
    denied(&run(&bob, "SELECT * FROM v").await.unwrap_err(), "SELECT on TABLE default.v");
    // Who makes a view may do everything with it.
    run(&ann, "GRANT SELECT ON v TO bob").await.unwrap();
    assert_eq!(run(&bob, "SELECT * FROM v").await.unwrap(), "1");
    // A view on the view: its owner needs a right on that one, and no more.
    world.run("GRANT CREATE ON KEYSPACE default TO bob").await;
    run(&bob, "CREATE VIEW w AS SELECT * FROM v").await.unwrap();
    world.run("CREATE ROLE eve").await;
    world.run("GRANT SELECT ON w TO eve").await;
    let eve = world.as_role("eve");
    assert_eq!(run(&eve, "SELECT * FROM w").await.unwrap(), "1");
    world.run("REVOKE SELECT ON v FROM bob").await;
    denied(&run(&eve, "SELECT * FROM w").await.unwrap_err(), "role 'bob'");
    world.run("GRANT SELECT ON v TO bob").await;
    world.run("REVOKE SELECT ON k.u FROM ann").await;
    let error = run(&eve, "SELECT * FROM w").await.unwrap_err();
    denied(&error, "TABLE default.v is a view that reads with the rights of role 'ann'");
    assert!(error.help.unwrap().contains("GRANT SELECT ON TABLE k.u TO ann"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_replaces_a_view_lends_it_its_own_rights() {
    let world = world().await;
    for text in [
        "CREATE ROLE bob",
        "GRANT CREATE ON KEYSPACE default TO bob",
        "CREATE VIEW v AS SELECT pk FROM t",
        "GRANT SELECT ON v TO ann",
    ] {
        world.run(text).await;
    }
    let (ann, bob) = (world.as_role("ann"), world.as_role("bob"));
    let replace = "CREATE OR REPLACE VIEW v AS SELECT v FROM k.u";
    denied(&run(&bob, replace).await.unwrap_err(), "DROP on TABLE default.v");
    world.run("GRANT DROP ON v TO bob").await;
    // The owner of before might read the table; who replaces it may not.
    denied(&run(&bob, replace).await.unwrap_err(), "SELECT on TABLE k.u");
    assert_eq!(run(&ann, "SELECT * FROM v").await.unwrap(), "1");
    world.run("GRANT SELECT ON k.u TO bob").await;
    run(&bob, replace).await.unwrap();
    assert_eq!(world.column("SELECT owner FROM system.views").await, ["bob"]);
    assert_eq!(run(&ann, "SELECT v FROM v").await.unwrap(), "1");
    world.run("REVOKE SELECT ON k.u FROM bob").await;
    denied(&run(&ann, "SELECT v FROM v").await.unwrap_err(), "role 'bob'");
    assert_eq!(world.error("DROP ROLE bob").await.kind, ErrorKind::Invalid);
    run(&bob, "DROP VIEW v").await.unwrap();
    world.run("DROP ROLE bob").await;
}
