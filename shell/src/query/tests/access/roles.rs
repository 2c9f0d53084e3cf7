//! Options of roles, and what clients ask for without a statement.

use super::{run, world};
use crate::query::tests::World;
use crate::query::{ErrorKind, PolicyUpload, QueryError};

/// Statements, the role that they are about, and what it is then: whether it may log in, is a
/// superuser, and has a password.
const CHANGES: &[(&str, &str, [bool; 3])] = &[
    ("CREATE ROLE a", "a", [false, false, false]),
    ("CREATE ROLE b WITH SUPERUSER", "b", [false, true, false]),
    ("CREATE ROLE c WITH LOGIN AND SUPERUSER = false", "c", [true, false, false]),
    ("CREATE USER d", "d", [true, false, false]),
    ("CREATE USER e NOSUPERUSER", "e", [true, false, false]),
    ("CREATE USER f WITH LOGIN = false", "f", [false, false, false]),
    ("CREATE USER 'G' WITH PASSWORD 'x' SUPERUSER", "G", [true, true, true]),
    ("CREATE USER IF NOT EXISTS 'G' NOSUPERUSER", "G", [true, true, true]),
    ("ALTER ROLE 'G' WITH LOGIN = false", "G", [false, true, true]),
    ("ALTER USER 'G' WITH NOSUPERUSER", "G", [false, false, true]),
    ("ALTER ROLE 'G' WITH LOGIN = true AND SUPERUSER = true", "G", [true, true, true]),
    ("ALTER ROLE 'G' WITH PASSWORD = NULL", "G", [true, true, false]),
    ("ALTER ROLE b WITH PASSWORD = 'y'", "b", [false, true, true]),
    ("ALTER ROLE b WITH LOGIN = true", "b", [true, true, true]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_option_of_a_role_that_a_statement_does_not_name_stays() {
    let world = World::new().await;
    for (text, role, wanted) in CHANGES {
        world.run(text).await;
        for (column, wanted) in ["login", "superuser", "has_password"].iter().zip(wanted) {
            let query = format!("SELECT {column} FROM system.roles WHERE role = '{role}'");
            assert_eq!(world.column(&query).await, [wanted.to_string()], "{text}: {column}");
        }
    }
    // What a role has is left alone as well.
    world.run("GRANT a TO d").await;
    world.run("CREATE SERVICE LEVEL gold").await;
    world.run("ATTACH SERVICE LEVEL gold TO d").await;
    world.run("ALTER USER d WITH SUPERUSER").await;
    let has = "SELECT concat_ws(' ', roles, service_level) FROM system.roles WHERE role = 'd'";
    assert_eq!(world.column(has).await, ["a gold"]);
    world.run("DROP USER d").await;
    world.run("DROP USER IF EXISTS d").await;
    assert_eq!(world.column("LIST ROLES").await, ["G", "a", "b", "c", "e", "f"]);
}

fn upload() -> PolicyUpload {
    PolicyUpload {
        name: "p".to_owned(),
        component: b"no component".to_vec(),
        parameters: Vec::new(),
        sha256: None,
    }
}

/// A snapshot and a policy that a client asks for have no statement that could be checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_asks_for_without_a_statement_needs_a_right_and_is_audited() {
    let world = world().await;
    let ann = world.as_role("ann");
    let folder = world.directory.path().join("snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    let place = Some(folder.as_path());
    let denied = |error: &QueryError, right: &str| {
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        assert!(error.message.contains(right), "{error}");
    };
    // Whatever the name is: nothing is told before the right.
    for name in ["monday", "../monday"] {
        let refused = ann.snapshot_in(place, name).await.unwrap_err();
        denied(&refused, "ALTER on ADMINISTRATION");
    }
    denied(&ann.upload_policy(upload()).await.unwrap_err(), "CREATE on POLICIES");
    world.run("GRANT CREATE ON POLICIES TO ann").await;
    denied(&ann.snapshot_in(place, "monday").await.unwrap_err(), "ALTER on ADMINISTRATION");
    let refused = ann.upload_policy(upload()).await.unwrap_err();
    assert_ne!(refused.kind, ErrorKind::Denied, "{refused}");
    world.run("GRANT ALTER ON ADMINISTRATION TO ann").await;
    let wrong = ann.snapshot_in(place, "../monday").await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::Invalid, "{wrong}");
    let nowhere = ann.snapshot_in(None, "monday").await.unwrap_err();
    assert_eq!(nowhere.kind, ErrorKind::Unsupported, "{nowhere}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let told = ann.snapshot_in(place, "monday").await.unwrap();
    assert!(told.starts_with("Snapshot of 2 tables in "), "{told}");
    assert!(folder.join("monday").is_dir());
    let audited = "SELECT concat_ws(' ', event, who, what, CAST(error IS NULL AS text)) \
                   FROM system.audit \
                   WHERE who = 'ann' AND (what LIKE 'SNAPSHOT%' OR what LIKE 'CREATE POLICY%')";
    let found = world.column(audited).await;
    let ended = |end: &str| found.iter().filter(|line| line.ends_with(end)).count();
    assert_eq!((found.len(), ended(" true"), ended(" false")), (8, 1, 7), "{found:?}");
    let of = |event: &str| found.iter().filter(|line| line.starts_with(event)).count();
    assert_eq!((of("administration ann "), of("policy ann ")), (6, 2), "{found:?}");
    // What was audited is for those to read who may see what others do.
    run(&world.as_role("ann"), "SELECT * FROM system.audit").await.unwrap_err();
}

/// A superuser needs no rights of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyspace_is_handed_to_who_made_it_and_not_to_who_found_it() {
    let world = world().await;
    for text in [
        "CREATE ROLE bob",
        "CREATE ROLE chief WITH SUPERUSER = true",
        "GRANT CREATE ON ALL KEYSPACES TO ann",
    ] {
        world.run(text).await;
    }
    let (ann, bob) = (world.as_role("ann"), world.as_role("bob"));
    run(&ann, "CREATE KEYSPACE IF NOT EXISTS k").await.unwrap();
    for text in ["SELECT * FROM k.u", "GRANT CREATE ON KEYSPACE k TO bob", "DROP KEYSPACE k"] {
        assert_eq!(run(&ann, text).await.unwrap_err().kind, ErrorKind::Denied, "{text}");
    }
    run(&ann, "CREATE KEYSPACE own").await.unwrap();
    world.run("CREATE TABLE own.t (a int PRIMARY KEY)").await;
    run(&ann, "INSERT INTO own.t (a) VALUES (1)").await.unwrap();
    assert_eq!(run(&ann, "SELECT * FROM own.t").await.unwrap(), "1");
    run(&bob, "SELECT * FROM own.t").await.unwrap_err();
    run(&ann, "GRANT SELECT ON KEYSPACE own TO bob").await.unwrap();
    assert_eq!(run(&bob, "SELECT * FROM own.t").await.unwrap(), "1");
    run(&ann, "DROP TABLE own.t").await.unwrap();
    run(&ann, "DROP KEYSPACE own").await.unwrap();
    let chief = world.as_role("chief");
    for text in [
        "CREATE KEYSPACE best",
        "CREATE TABLE best.t (a int PRIMARY KEY)",
        "CREATE VIEW best.v AS SELECT a FROM best.t",
    ] {
        run(&chief, text).await.unwrap();
    }
    assert!(world.column("LIST PERMISSIONS OF chief").await.is_empty());
}
