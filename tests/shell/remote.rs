//! A shell that is connected to a service shows what one on a database of its own shows.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr};

use super::*;

/// A service on a port of its own, with data in a directory.
struct Service {
    child: Child,
    address: String,
    /// Stays open: what it says later is of no interest.
    _stderr: BufReader<ChildStderr>,
}

impl Service {
    fn start(directory: &Path) -> Self {
        let mut command = program(directory);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let place = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        let address = format!("grpc://{place}");
        Service { child, address, _stderr: stderr }
    }

    fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Statements of every shape, right and wrong ones.
const STATEMENTS: &[&str] = &[
    CREATE,
    "INSERT INTO reading VALUES ('a', 1, 1.5, 'x'), ('a', 2, 2.5, NULL), ('b', 1, 0.1, 'ü')",
    "SELECT * FROM reading WHERE station = 'a' ORDER BY at DESC",
    "SELECT station, count(*) AS n, max(value) FROM reading GROUP BY station ORDER BY station",
    "INSERT INTO reading (station, at) VALUES ('a', 1) IF NOT EXISTS",
    "INSERT INTO reading (station, at) VALUES ('c', 1) IF NOT EXISTS",
    "UPDATE reading SET value = 7 WHERE station = 'a' AND at = 1 IF value = 1.5",
    "DELETE FROM reading WHERE station = 'b' AND at = 1",
    "CREATE TABLE reading (k int PRIMARY KEY)",
    "SELECT tmep FROM reading",
    "SELECT * FROM raeding",
    "SELEC 1",
    "SELECT\n  1 / 0",
    "CREATE KEYSPACE two",
    "USE two",
    "CREATE TABLE t (k int PRIMARY KEY, l list<int>, m map<text, int>, u uuid, d decimal, v varint, b blob, \
     s timestamp, t time, i inet, x duration)",
    "INSERT INTO t VALUES (1, [1, 2], {'a': 1}, 123e4567-e89b-12d3-a456-426614174000, 1.25, \
     12345678901234567890123, 0xcafe, '2024-05-06T07:08:09.123Z', '12:34:56', '10.0.0.1', INTERVAL '2 days')",
    "SELECT * FROM t",
    "FLUSH t",
    "DESCRIBE TABLE t",
    "SHOW TABLES",
    "EXPLAIN SELECT * FROM t WHERE k = 1",
    "USE absent",
    "SELECT g FROM generate_series(1, 3) AS s(g)",
    "DROP TABLE t",
];

#[test]
fn a_shell_shows_of_a_service_what_it_shows_of_a_database() {
    for mode in ["table", "json"] {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let service = Service::start(there.path());
        let connected = ["--connect", &service.address];
        let mut keyspace = Vec::new();
        for text in STATEMENTS {
            // A failure ends a run, so each statement has one of its own.
            let mut arguments = vec!["--mode", mode];
            arguments.extend(&keyspace);
            arguments.extend(["-c", text]);
            let own = run(here.path(), &arguments);
            let remote = run(there.path(), &[&connected[..], &arguments].concat());
            assert_eq!(out(&remote), out(&own), "{mode}: {text}");
            assert_eq!(err(&remote), err(&own), "{mode}: {text}");
            assert_eq!(remote.status.code(), own.status.code(), "{mode}: {text}");
            if *text == "USE two" {
                keyspace = vec!["-c", text];
            }
        }
        service.stop();
    }
}

#[test]
fn a_person_at_a_service_has_its_keyspace_and_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let made = "CREATE ROLE ann WITH PASSWORD = 'ann-word' AND LOGIN = true AND SUPERUSER = true";
    assert!(run(directory.path(), &["-c", made, "-c", CREATE]).status.success());
    let service = Service::start(directory.path());
    let mut command = program(directory.path());
    command.args(["--connect", &service.address, "--user", "ann"]);
    let mut terminal = Terminal::start(command);
    terminal.expect("Password of ann: ");
    terminal.send("ann-word\n");
    terminal.expect(&format!("connected to {}", service.address));
    terminal.prompt();
    assert!(!terminal.seen().contains("ann-word"));
    terminal.send("CREATE KEYSPACE two;\n");
    terminal.expect("Keyspace two created.");
    terminal.send("USE two;\n");
    terminal.expect("tg:two> ");
    terminal.send("SELECT * FROM default.rea\t;\n");
    terminal.expect("default.reading");
    terminal.expect("0 rows");
    // A statement that runs for long, which Ctrl-C ends here and there.
    terminal.send("SELECT count(*) FROM generate_series(1, 100000000000) AS s(g);\n");
    terminal.settle();
    terminal.send("\x03");
    terminal.expect("cancelled");
    terminal.send("SELECT 1 + 1 AS two;\n");
    terminal.expect("1 row");
    terminal.expect("\x1b[?2004h");
    terminal.expect("tg:two> ");
    terminal.send("\x04");
    assert_eq!(terminal.wait(), 0);
    service.stop();
}

/// The client's file goes to the service, which may not read it itself.
#[test]
fn a_policy_comes_from_the_shell_that_names_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dist/sieve.wasm"));
    let create = |more: &str| format!("CREATE POLICY {more}sieve FROM '{}'", file.display());
    let connected =
        |text: &str| run(directory.path(), &["--connect", &service.address, "-c", text]);
    assert!(err(&connected(&create(""))).starts_with("Policy sieve "));
    assert_eq!(err(&connected(&create("IF NOT EXISTS "))), "Policy sieve exists already.\n");
    assert!(err(&connected(&create(""))).contains("exists"));
    assert_eq!(connected("ALTER CACHE SET POLICY = sieve").status.code(), Some(0));
    let absent = connected("CREATE POLICY other FROM '/absent.wasm'");
    assert!(err(&absent).contains("/absent.wasm"), "{}", err(&absent));
    let local = connected("COPY system.tables TO '/tmp/x.csv'");
    assert!(err(&local).contains("may not name files of the server"), "{}", err(&local));
    service.stop();
}

#[test]
fn who_finds_the_directory_in_use_is_told_of_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let refused = run(directory.path(), &["-c", "SELECT 1"]);
    assert_eq!(refused.status.code(), Some(1));
    let help = format!("help: it is served: tidegate --connect {} is a shell", service.address);
    assert!(err(&refused).contains(&help), "{}", err(&refused));
    service.stop();
    assert_eq!(out(&run(directory.path(), &["-c", "SELECT 1 AS a"])), "a\n1\n");
}

#[test]
fn a_place_that_is_wrong_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, code, wanted) in [
        (&["--connect", "db:1"][..], 1, "grpc://HOST:PORT"),
        (&["--connect", "grpc://127.0.0.1:1"], 1, "cannot connect to grpc://127.0.0.1:1"),
        (&["--connect", "grpc+tls://127.0.0.1:1"], 1, "--authority"),
        (&["--connect", "grpc://127.0.0.1:1", "--user", "ann"], 1, "TIDEGATE_PASSWORD"),
        (&["--user", "ann"], 2, "--connect"),
        (&["--connect", "grpc://127.0.0.1:1", "--certificate", "x"], 2, "--key"),
        (&["--connect", "grpc://127.0.0.1:1", "serve"], 1, "statements alone"),
    ] {
        let refused = run(directory.path(), arguments);
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", err(&refused));
        assert!(err(&refused).contains(wanted), "{arguments:?}: {}", err(&refused));
    }
    assert!(!directory.path().join("data").exists(), "no database is made");
}

/// A service without a caller's password, then with a wrong one.
#[test]
fn a_role_logs_in() {
    let directory = tempfile::tempdir().unwrap();
    let made = "CREATE ROLE ann WITH PASSWORD = 'ann-word' AND LOGIN = true; \
                CREATE TABLE t (k int PRIMARY KEY); GRANT SELECT ON t TO ann";
    assert!(run(directory.path(), &["-c", made]).status.success());
    let service = Service::start(directory.path());
    let as_ann = |password: &str, text: &str| {
        let mut command = program(directory.path());
        command.env("TIDEGATE_PASSWORD", password).args(["--connect", &service.address]);
        command.args(["--user", "ann", "-c", text]).stdin(Stdio::null()).output().unwrap()
    };
    assert_eq!(out(&as_ann("ann-word", "SELECT count(*) AS n FROM t")), "n\n0\n");
    let denied = as_ann("ann-word", "INSERT INTO t VALUES (1)");
    assert!(err(&denied).contains("no MODIFY on TABLE default.t"), "{}", err(&denied));
    assert!(err(&denied).contains("\nhelp: "), "{}", err(&denied));
    let wrong = as_ann("x", "SELECT 1");
    assert!(err(&wrong).contains("user or password is wrong"), "{}", err(&wrong));
    let nobody = run(directory.path(), &["--connect", &service.address, "-c", "SELECT 1"]);
    assert!(err(&nobody).contains("'authorization' is missing"), "{}", err(&nobody));
    assert!(err(&nobody).contains("--user names a role"), "{}", err(&nobody));
    service.stop();
}
