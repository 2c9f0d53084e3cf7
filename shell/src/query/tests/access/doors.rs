//! The rights that statements need, whichever way they come: bare or prepared, by the short path or
//! by the planner's. And what resources are called.

use super::{REFUSED, run, world};
use crate::query::{ErrorKind, Prepared, QueryError, Session, split};

fn prepare(session: &Session, text: &str) -> Prepared {
    session.prepare(split(text).unwrap().remove(0), "default")
}

/// Runs a prepared statement to its end.
async fn run_prepared(session: &Session, prepared: &Prepared) -> Result<(), QueryError> {
    session.run_prepared(prepared, None).await?.collect().await.map(drop)
}

/// Also where the owner of everything had it described before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_without_a_right_is_refused_as_a_bare_one_is() {
    let world = world().await;
    world.run("CREATE ROLE bob").await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        // With the settings of the owner, so that what one has made serves the other.
        let ann = world.as_role("ann");
        for (text, wanted) in REFUSED {
            let prepared = prepare(&world.session, text);
            for is_known in [false, true] {
                if is_known {
                    // Some of them name what is not there.
                    let _ = world.session.describe_prepared(&prepared, None).await;
                }
                let Err(error) = run_prepared(&ann, &prepared).await else {
                    panic!("{text} is done")
                };
                assert_eq!(error.kind, ErrorKind::Denied, "{text}: {error}");
                assert!(error.message.contains(wanted), "{text}: {error}");
                let Err(error) = ann.query_prepared(&prepared, None).await else {
                    panic!("{text} is done as a query")
                };
                let is_refused = matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid);
                assert!(is_refused, "{text}: {error}");
            }
        }
    }
    assert_eq!(world.column("SELECT v FROM t").await, ["7"]);
    assert_eq!(world.column("SELECT v FROM k.u").await, ["secret"]);
    assert_eq!(world.column("LIST ROLES").await, ["ann", "bob"]);
}

/// Their types are those of columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_of_a_statement_are_told_to_who_may_run_it_alone() {
    let world = world().await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        let ann = world.as_role("ann");
        for text in ["SELECT v FROM k.u WHERE pk = ?", "INSERT INTO k.u (pk, v) VALUES (?, ?)"] {
            let prepared = prepare(&world.session, text);
            let error = ann.parameters_of(&prepared).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{text}, short path {path}: {error}");
            world.session.parameters_of(&prepared).await.unwrap();
            let error = ann.parameters_of(&prepared).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{text}, short path {path}: {error}");
        }
    }
}

/// Rights, all of which a statement needs. Each may run again and again.
const NEEDS: &[(&[&str], &str)] = &[
    (&["MODIFY ON k.u"], "DELETE FROM k.u WHERE pk = 9"),
    (&["MODIFY ON t", "SELECT ON t"], "INSERT INTO t (pk, v) VALUES (1, 7) IF NOT EXISTS"),
    (&["MODIFY ON t", "SELECT ON t"], "DELETE FROM t WHERE pk = 5 IF EXISTS"),
    (&["MODIFY ON t", "SELECT ON t"], "DELETE v FROM t WHERE pk = 5 IF v = 1"),
    (&["MODIFY ON t", "SELECT ON t"], "UPDATE t SET v = abs(-7) WHERE pk = 1 IF v = abs(-7)"),
    (&["MODIFY ON t", "SELECT ON t"], "EXPLAIN UPDATE t SET v = 7 WHERE pk = 1 IF v = 7"),
    (
        &["MODIFY ON t", "SELECT ON t"],
        "BEGIN BATCH INSERT INTO t (pk, v) VALUES (1, 7); \
         UPDATE t SET v = 7 WHERE pk = 1 IF v = 7; APPLY BATCH",
    ),
    (
        &["MODIFY ON t", "MODIFY ON k.u"],
        "BEGIN UNLOGGED BATCH UPDATE t SET v = 7 WHERE pk = 1; \
         DELETE FROM k.u WHERE pk = 9; APPLY BATCH",
    ),
    (&["MODIFY ON c"], "UPDATE c SET n = n + 1 WHERE pk = 1"),
    (
        &["MODIFY ON c", "MODIFY ON k.d"],
        "BEGIN COUNTER BATCH UPDATE c SET n = n + 1 WHERE pk = 1; \
         UPDATE k.d SET n = n + 1 WHERE pk = 1; APPLY BATCH",
    ),
    (&["MODIFY ON k.x"], "TRUNCATE k.x"),
    (&["MODIFY ON t"], "COPY t FROM '<file>'"),
    (&["SELECT ON k.u"], "COPY (SELECT v FROM k.u) TO '<file>.out'"),
    (&["ALTER ON t"], "CREATE INDEX ON t (v)"),
    (&["SELECT ON t", "AUTHORIZE ON t"], "GRANT SELECT ON t TO bob"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_that_a_statement_needs_is_needed_on_every_way() {
    let world = world().await;
    let file = world.path("t.csv");
    for text in [
        "CREATE ROLE bob",
        "CREATE TABLE k.x (a int PRIMARY KEY)",
        "CREATE TABLE c (pk int PRIMARY KEY, n counter)",
        "CREATE TABLE k.d (pk int PRIMARY KEY, n counter)",
    ] {
        world.run(text).await;
    }
    world.run(&format!("COPY t TO '{file}'")).await;
    let sessions = ["true", "false"].map(|path| (path, world.as_role("ann")));
    for (path, ann) in &sessions {
        run(ann, &format!("SET tidegate.short_path = {path}")).await.unwrap();
    }
    for (rights, text) in NEEDS {
        let text = text.replace("<file>", &file);
        let prepared = sessions.each_ref().map(|(_, ann)| prepare(ann, &text));
        // Without each of them, and with all.
        for left_out in 0..=rights.len() {
            let all = rights.iter().enumerate().filter(|(at, _)| *at != left_out);
            let granted: Vec<&str> = all.map(|(_, right)| *right).collect();
            for right in &granted {
                world.run(&format!("GRANT {right} TO ann")).await;
            }
            for ((path, ann), prepared) in sessions.iter().zip(&prepared) {
                let ways = [run(ann, &text).await.map(drop), run_prepared(ann, prepared).await];
                for done in ways {
                    let case = format!("{text} with {granted:?}, short path {path}");
                    match done {
                        Ok(()) => assert_eq!(left_out, rights.len(), "{case}"),
                        Err(error) => {
                            assert_ne!(left_out, rights.len(), "{case}: {error}");
                            assert_eq!(error.kind, ErrorKind::Denied, "{case}: {error}");
                        }
                    }
                }
            }
            for right in &granted {
                world.run(&format!("REVOKE {right} FROM ann")).await;
            }
        }
    }
    // By two paths, bare and prepared; what was refused has counted nothing.
    assert_eq!(world.column("SELECT n FROM c").await, ["8"]);
    assert_eq!(world.column("SELECT n FROM k.d").await, ["4"]);
}

/// A keyspace may have the name of what is no keyspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_on_a_table_is_one_on_that_table_whatever_it_and_its_keyspace_are_called() {
    let world = world().await;
    world.run("CREATE TABLE administration (a int PRIMARY KEY)").await;
    let ann = world.as_role("ann");
    for keyspace in ["administration", "policies", "keyspace", "table"] {
        world.run(&format!("CREATE KEYSPACE {keyspace}")).await;
        world.run(&format!("CREATE TABLE {keyspace}.t (a int PRIMARY KEY)")).await;
        let read = format!("SELECT * FROM \"{keyspace}\".t");
        for name in [format!("{keyspace}.t"), format!("TABLE {keyspace}.t")] {
            assert_eq!(run(&ann, &read).await.unwrap_err().kind, ErrorKind::Denied, "{name}");
            let told = world.column(&format!("GRANT SELECT ON {name} TO ann")).await;
            assert_eq!(told, [format!("Role ann has SELECT on TABLE {keyspace}.t.")]);
            run(&ann, &read).await.unwrap();
            world.run(&format!("REVOKE SELECT ON {name} FROM ann")).await;
        }
    }
    for (name, resource) in [
        ("ADMINISTRATION", "ADMINISTRATION"),
        ("TABLE administration", "TABLE default.administration"),
        ("KEYSPACE administration", "KEYSPACE administration"),
        ("ALL KEYSPACES", "ALL KEYSPACES"),
    ] {
        let told = world.column(&format!("GRANT SELECT ON {name} TO ann")).await;
        assert_eq!(told, [format!("Role ann has SELECT on {resource}.")]);
        let told = world.column(&format!("REVOKE SELECT ON {name} FROM ann")).await;
        assert_eq!(told, [format!("Role ann is without a grant of SELECT on {resource}.")]);
        assert!(world.column("LIST PERMISSIONS OF ann").await.is_empty(), "{name}");
    }
}
