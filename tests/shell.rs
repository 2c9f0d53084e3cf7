//! The `tidegate` program as people meet it: in a terminal, in a pipe, with -c and -f.
//!
//! Every test has a directory of its own for data and history. Terminal tests drive the program
//! through a pseudo-terminal; a wait for output ends after [`QUIET_SECONDS_MAX`] without any.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "shell/remote.rs"]
mod remote;
#[path = "shell/s3.rs"]
mod s3;
#[path = "shell/screen.rs"]
mod screen;
#[path = "skip.rs"]
mod skip;
#[path = "shell/terminal.rs"]
mod terminal;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use terminal::Terminal;

const CREATE: &str = "CREATE TABLE reading (station text, at int, value double, note text, \
                      PRIMARY KEY (station, at));";

/// The program with nothing of this machine's settings.
fn program(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .env_clear()
        .env("HOME", directory)
        .env("XDG_STATE_HOME", directory.join("state"))
        .env("TIDEGATE_DATA", directory.join("data"))
        .env("TERM", "xterm")
        .current_dir(directory)
        .args(["--shards", "2", "--timing", "off"]);
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    program(directory).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn run_stdin(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = program(directory)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn statements_from_the_command_line_run_in_order() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("insert.sql"),
        "-- two rows\nINSERT INTO reading VALUES ('a', 1, 1.5, 'x'),\n  ('a', 2, 2.5, NULL);\n",
    )
    .unwrap();
    let output = run(
        directory.path(),
        &[
            "--mode",
            "table",
            "-c",
            CREATE,
            "-f",
            "insert.sql",
            "-c",
            "SELECT * FROM reading ORDER BY at DESC",
        ],
    );
    assert_eq!(err(&output), "Table default.reading created.\n2 rows\n");
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    assert!(
        text.contains(
            "-- two rows\n\
             tg> INSERT INTO reading VALUES ('a', 1, 1.5, 'x'),\n    \x20 ('a', 2, 2.5, NULL)\n\
             2 rows inserted\n"
        ),
        "a file is echoed:\n{text}"
    );
    assert!(
        text.ends_with(
            "+---------+----+-------+------+\n\
             | station | at | value | note |\n\
             +---------+----+-------+------+\n\
             | a       |  2 |   2.5 | NULL |\n\
             | a       |  1 |   1.5 | x    |\n\
             +---------+----+-------+------+\n"
        ),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "no escapes in a pipe");
}

#[test]
fn csv_and_json_hold_results_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "{CREATE}\nINSERT INTO reading (station, at, note) VALUES ('a', 1, 'x,\"y\"');\n\
         SELECT station, at, note, value FROM reading;"
    );
    let csv = run_stdin(directory.path(), &["--mode", "csv"], &script);
    assert_eq!(
        (out(&csv).as_str(), csv.status.code()),
        ("station,at,note,value\na,1,\"x,\"\"y\"\"\",\n", Some(0))
    );

    let directory = tempfile::tempdir().unwrap();
    let json = run_stdin(directory.path(), &["--mode", "json"], &script);
    let line = "{\"station\":\"a\",\"at\":1,\"note\":\"x,\\\"y\\\"\",\"value\":null}\n";
    assert_eq!((out(&json).as_str(), err(&json).as_str()), (line, ""));
}

#[test]
fn a_pipe_gets_values_and_stderr_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["-c", "SELECT 1 AS a, 'x' AS b"]);
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("a,b\n1,x\n", "1 row\n"));
    let asked = run(directory.path(), &["--mode", "expanded", "-c", "SELECT 1 AS a, 'x' AS b"]);
    assert_eq!(out(&asked), "-[ row 1 ]\na | 1\nb | x\n");
    let quiet = run(directory.path(), &["--mode", "csv", "-c", "SELECT 1 AS a"]);
    assert_eq!((out(&quiet).as_str(), err(&quiet).as_str()), ("a\n1\n", ""));
}

#[test]
fn nobody_reads_stderr_and_statements_run_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (script, wanted) in [("SELECT 1 AS a; nonsense", Some(1)), ("SELECT 1 AS a", Some(0))] {
        let output = program(directory.path())
            .env("RUST_LOG", "debug")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stderr(full())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), wanted, "{script}");
        assert_eq!(out(&output), "a\n1\n", "{script}");
    }
    // What cannot be written is no success.
    let output =
        program(directory.path()).args(["-c", "SELECT 1"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("No space left"), "{}", err(&output));
}

#[test]
fn a_batch_stops_at_the_first_error_and_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let script = "SELECT 1;\nSELECT\n  2, nonsense;\nSELECT 3;\n";
    let output = run_stdin(directory.path(), &["--mode", "csv"], script);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("1\n") && !out(&output).contains('3'), "{}", out(&output));
    let message = err(&output);
    assert!(message.contains("nonsense") && message.contains("line 3"), "{message}");
    let caret = message.lines().find(|line| line.contains('^')).expect("a caret");
    let source = message.lines().find(|line| line.contains("  2, nonsense")).expect("the line");
    assert_eq!(caret.find('^'), source.find("nonsense"), "{message}");
    // So it does where it is told to leave.
    let script = "SELECT 1 AS a;\n.quit\nSELECT 2 AS b;\n";
    let output = run_stdin(directory.path(), &["--mode", "csv"], script);
    assert_eq!((out(&output).as_str(), output.status.code()), ("a\n1\n", Some(0)));
}

#[test]
fn exit_codes_tell_failure_from_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(run(directory.path(), &["--mode", "xml"]).status.code(), Some(2));
    assert_eq!(run(directory.path(), &["-f", "absent.sql"]).status.code(), Some(1));
    assert_eq!(run(directory.path(), &["-c", "SELEC 1"]).status.code(), Some(1));
    assert_eq!(run(directory.path(), &["-c", ".quit", "-c", "SELECT 1"]).status.code(), Some(0));
    let refused = run(directory.path(), &["serve", "--listen", "0.0.0.0:0"]);
    // Whether the service may start there depends on the roles of the database as well.
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("wants TLS"), "{}", err(&refused));
    let help = run(directory.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(out(&help).contains("tidegate -f examples/quickstart.sql"));
}

#[test]
fn a_snapshot_is_made_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let sql = |text: &str| run(here, &["-c", text]);
    let insert = "INSERT INTO reading (station, at, value) VALUES ('a', 1, 1.5)";
    for text in [CREATE, insert] {
        assert_eq!(sql(text).status.code(), Some(0), "{text}");
    }
    let made = sql("SNAPSHOT TO 'backup/monday'");
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    assert!(err(&made).starts_with("Snapshot of 1 table in 'backup/monday': 1 SSTable, "));
    let again = sql("SNAPSHOT TO 'backup/monday'");
    assert!(err(&again).contains("is not empty: name a new directory"), "{}", err(&again));
    sql("DROP TABLE reading");
    let restore = |data: &str, from: &str| run(here, &["--data", data, "restore", from]);
    let restored = restore("new", "backup/monday");
    assert_eq!(restored.status.code(), Some(0), "{}", err(&restored));
    assert!(err(&restored).starts_with("restored "), "{}", err(&restored));
    let read = run(here, &["--data", "new", "--mode", "csv", "-c", "SELECT * FROM reading"]);
    assert_eq!(out(&read), "station,at,value,note\na,1,1.5,\n");
    for (data, from, wanted) in [
        ("new", "backup/monday", "new is not empty"),
        ("other", "backup", "backup holds no snapshot"),
    ] {
        let refused = restore(data, from);
        assert_eq!(refused.status.code(), Some(1));
        assert!(err(&refused).contains(wanted), "{}", err(&refused));
    }
    let help = run(here, &["restore", "--help"]);
    assert!(out(&help).contains("from what SNAPSHOT TO has made"), "{}", out(&help));
}

#[test]
fn a_snapshot_goes_to_object_storage_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let sql = |text: &str| run(here, &["--data", "db", "-c", text]);
    let insert = "INSERT INTO reading (station, at, value) VALUES ('a', 1, 1.5)";
    for text in [CREATE, insert] {
        assert_eq!(sql(text).status.code(), Some(0), "{text}");
    }
    let place = format!("file://{}/backup/monday", here.display());
    let snapshot = format!("SNAPSHOT TO '{place}'");
    let made = sql(&snapshot);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    assert!(err(&made).starts_with(&format!("Snapshot of 1 table in '{place}': 1 SSTable, ")));
    assert!(std::fs::read_dir(here.join("db/exports")).unwrap().next().is_none());
    assert!(err(&sql(&snapshot)).contains("monday is not empty, it has "));
    let restore = |data: &str, from: &str| run(here, &["--data", data, "restore", from]);
    let restored = restore("new", &place);
    assert_eq!(restored.status.code(), Some(0), "{}", err(&restored));
    let read = run(here, &["--data", "new", "--mode", "csv", "-c", "SELECT * FROM reading"]);
    assert_eq!(out(&read), "station,at,value,note\na,1,1.5,\n");
    let none = format!("file://{}/none", here.display());
    for (data, from, wanted) in [
        ("new", &*place, "new is not empty"),
        ("other", &none, "none holds no snapshot"),
        ("other", "ftp://b/c", "'ftp://' is no object storage that is known"),
    ] {
        let refused = restore(data, from);
        assert_eq!(refused.status.code(), Some(1));
        assert!(err(&refused).contains(wanted), "{}", err(&refused));
    }
    assert!(!here.join("other").exists());
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = program(directory.path())
        .args(["--mode", "csv", "-c", "SELECT * FROM generate_series(1, 5000000)"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0_u8; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((err(&output).as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn rejected_lines_are_told_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let csv = "station,at,value,note\nn,1,1.5,x\nn,two,1.5,x\nn,3,warm,x\nn,4,2.5,\n";
    std::fs::write(directory.path().join("in.csv"), csv).unwrap();
    let create = run(directory.path(), &["-c", CREATE]);
    assert!(create.status.success(), "{}", err(&create));
    let abort = run(directory.path(), &["-c", "COPY reading FROM 'in.csv'"]);
    assert_eq!(abort.status.code(), Some(1));
    assert!(
        err(&abort).contains("in.csv, line 3: column 'at': 'two' is no int"),
        "{}",
        err(&abort)
    );
    assert!(err(&abort).contains("1 rows had been loaded before and stay"), "{}", err(&abort));
    let skip = "COPY reading FROM 'in.csv' WITH (ON_ERROR skip, REJECT_FILE 'bad.csv')";
    let skip = run(directory.path(), &["-c", skip]);
    assert_eq!((out(&skip).as_str(), skip.status.code()), ("", Some(0)));
    assert_eq!(err(&skip), "note: 2 lines were rejected, see bad.csv\n2 rows copied\n");
    let bad = std::fs::read_to_string(directory.path().join("bad.csv")).unwrap();
    assert!(bad.contains("n,two,1.5,x\n") && bad.contains("'warm' is no double"), "{bad}");
}

#[test]
fn a_statement_may_take_several_lines_and_an_error_does_not_end_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(program(directory.path()));
    terminal.prompt();
    terminal.send("SELECT 40\r");
    terminal.send("  + 2 AS answer;\r");
    terminal.expect("|     42 |");
    terminal.expect("1 row");
    terminal.prompt();
    terminal.send("SELECT nonsense;\r");
    terminal.expect("error: ");
    terminal.expect("^");
    terminal.prompt();
    terminal.send("SELECT 'still ' || 'here' AS x;\r");
    terminal.expect("| still here |");
    terminal.prompt();
    terminal.send("\\d\r");
    terminal.expect("row");
    terminal.prompt();
    terminal.send("\x04");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn ctrl_c_stops_the_statement_and_not_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(program(directory.path()));
    terminal.prompt();
    terminal.send("SELECT half a line");
    terminal.send("\x03");
    terminal.prompt();
    terminal.send("SELECT count(*) FROM generate_series(1, 1000000000000);\r");
    terminal.settle();
    terminal.send("\x03");
    terminal.expect("cancelled");
    terminal.prompt();
    terminal.send("SELECT 6 * 7 AS answer;\r");
    terminal.expect("|     42 |");
    terminal.prompt();
    terminal.send("\\q\r");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn an_interrupted_batch_has_an_exit_code_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = program(directory.path());
    command.args(["-c", "SELECT 'begun' AS x", "-c"]);
    command.arg("SELECT count(*) FROM generate_series(1, 1000000000000)");
    let mut terminal = Terminal::start(command);
    terminal.expect("| begun |");
    terminal.settle();
    terminal.send("\x03");
    terminal.expect("cancelled");
    assert_eq!(terminal.wait(), 130);
}

#[test]
fn history_and_completion_help_to_type_less() {
    let directory = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(program(directory.path()));
    terminal.prompt();
    terminal.send(&format!("{CREATE}\r"));
    terminal.prompt();
    terminal.send("SELECT 'kept' || '!' AS x;\r");
    terminal.expect("| kept! |");
    terminal.prompt();
    terminal.send(" SELECT 'secret' || '!' AS x;\r");
    terminal.expect("| secret! |");
    terminal.prompt();
    // Tab completes the table, then a column of it.
    terminal.send("SELECT max(at) AS latest FROM read\t WHERE stat\t = 'a';\r");
    terminal.expect("reading");
    terminal.expect("station");
    terminal.expect("| latest |");
    terminal.prompt();
    terminal.send("\x04");
    assert_eq!(terminal.wait(), 0);

    let path = directory.path().join("state/tidegate/history");
    let history = std::fs::read_to_string(&path).unwrap();
    assert!(history.contains("'kept'") && !history.contains("'secret'"), "{history}");
    assert!(history.contains("FROM reading WHERE station"), "{history}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    // The second run finds the statement two steps up.
    let mut terminal = Terminal::start(program(directory.path()));
    terminal.prompt();
    terminal.send("\x1b[A\x1b[A\r");
    terminal.expect("| kept! |");
    terminal.prompt();
    terminal.send("\x04");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn no_color_is_honoured() {
    let directory = tempfile::tempdir().unwrap();
    let mut colored = Terminal::start(program(directory.path()));
    colored.prompt();
    colored.send("SELECT 1;\r");
    colored.expect("\x1b[1;34mSELECT");
    colored.prompt();
    colored.send("\x04");
    assert_eq!(colored.wait(), 0);

    let mut command = program(directory.path());
    command.env("NO_COLOR", "1");
    let mut plain = Terminal::start(command);
    plain.prompt();
    plain.send("SELECT 1;\r");
    plain.expect("1 row");
    plain.prompt();
    plain.send("\x04");
    assert_eq!(plain.wait(), 0);
    assert!(!plain.seen().contains("\x1b[1;34m"), "{:?}", plain.seen());

    // Without a value it says nothing.
    let mut command = program(directory.path());
    command.env("NO_COLOR", "");
    let mut colored = Terminal::start(command);
    colored.prompt();
    colored.send("SELECT 1;\r");
    colored.expect("\x1b[1;34mSELECT");
    colored.prompt();
    colored.send("\x04");
    assert_eq!(colored.wait(), 0);
}

/// A place that is not absolute would be another one in each directory.
#[test]
fn the_history_lies_where_the_environment_names_an_absolute_place_or_nowhere() {
    for (state, home, place) in [
        (Some("relative"), None, Some(".local/state/tidegate/history")),
        (None, None, Some(".local/state/tidegate/history")),
        (Some("relative"), Some("relative"), None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = program(directory.path());
        command.env_remove("XDG_STATE_HOME");
        command.envs(state.map(|state| ("XDG_STATE_HOME", state)));
        command.envs(home.map(|home| ("HOME", home)));
        let mut terminal = Terminal::start(command);
        terminal.expect(", 2 shards. Type help for help, Ctrl-D to leave.");
        terminal.prompt();
        terminal.send("SELECT 6 * 7 AS answer;\r");
        terminal.expect("|     42 |");
        terminal.prompt();
        terminal.send("\x04");
        assert_eq!(terminal.wait(), 0, "{state:?}, {home:?}: {}", terminal.seen());
        let mut found: Vec<String> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        let mut wanted = vec!["data"];
        if let Some(place) = place {
            wanted.insert(0, ".local");
            let history = std::fs::read_to_string(directory.path().join(place)).unwrap();
            assert!(history.contains("SELECT 6 * 7 AS answer;"), "{history}");
        }
        assert_eq!(found, wanted, "{state:?}, {home:?}");
    }
}

#[test]
fn data_is_found_again_by_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let insert = "INSERT INTO reading (station, at, value) VALUES ('a', 1, 1.5);";
    let first = run(directory.path(), &["--mode", "csv", "-c", CREATE, "-c", insert]);
    assert_eq!((err(&first).as_str(), first.status.code()), ("", Some(0)));
    let second =
        run(directory.path(), &["--mode", "csv", "-c", "SELECT station, at, value FROM reading"]);
    assert_eq!(out(&second), "station,at,value\na,1,1.5\n", "{}", err(&second));
}

#[test]
fn a_long_chain_of_operators_is_run_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let chain = |n: usize| format!("SELECT 1{} AS sum", "+1".repeat(n));
    let output = run(directory.path(), &["--mode", "csv", "-c", &chain(1000)]);
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("sum\n1001\n", ""));
    let all =
        format!("SELECT count(*) AS n FROM system.tables WHERE true{}", " AND true".repeat(999));
    let output = run(directory.path(), &["--mode", "csv", "-c", &all]);
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("n\n0\n", ""));
    // A chain of AND may be grouped in any way, so its length is no depth. One of `+` may not.
    let all = format!("SELECT true{} AS b", " AND true".repeat(10_000));
    let output = run(directory.path(), &["--mode", "csv", "-c", &all]);
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("b\ntrue\n", ""));
    let output = run(directory.path(), &["-c", &chain(20_000)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("nested too deeply"), "{}", err(&output));
}

#[test]
fn statements_of_a_pipe_run_as_they_come() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = program(directory.path())
        .args(["--mode", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut read = |wanted: &str| {
        let mut found = vec![0; wanted.len()];
        output.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), wanted);
    };
    // Each answer is read before the next statement is written.
    input.write_all(b"SELECT\n 1 AS a; SELECT 'x;\n").unwrap();
    read("a\n1\n");
    input.write_all(b"' AS b;\n").unwrap();
    read("b\n\"x;\n\"\n");
    input.write_all(b"SELECT 3 AS c").unwrap();
    drop(input);
    read("c\n3\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The program in a shell that lowers the limit of open files first.
fn run_limited(directory: &Path, limit: &str, arguments: &[&str]) -> Output {
    let program = program(directory);
    let mut limited = Command::new("sh");
    limited.env_clear().current_dir(directory);
    limited.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.arg("-c").arg(format!("{limit}; exec \"$0\" \"$@\""));
    limited.arg(program.get_program()).args(program.get_args()).args(arguments);
    limited.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn few_descriptors_are_enough_for_many_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for table in 0..4 {
        script += &format!("CREATE TABLE t{table} (k int, c int, PRIMARY KEY (k, c));");
    }
    // Two files of each SSTable on each shard: 320 in the end.
    for round in 0..20 {
        for table in 0..4 {
            script += &format!("INSERT INTO t{table} VALUES (1, {round}), (2, {round});");
        }
        script += "FLUSH;";
    }
    // The soft limit is raised; the hard one has to do.
    for limit in ["ulimit -S -n 64", "ulimit -n 128"] {
        let directory = directory.path().join(limit.replace(' ', "_"));
        std::fs::create_dir(&directory).unwrap();
        let written = run_limited(&directory, limit, &["--mode", "csv", "-c", &script]);
        assert_eq!((written.status.code(), err(&written)), (Some(0), String::new()));
        let counts = (0..4).map(|table| format!("SELECT count(*) AS n FROM t{table};"));
        let read =
            run_limited(&directory, limit, &["--mode", "csv", "-c", &counts.collect::<String>()]);
        assert_eq!((read.status.code(), err(&read)), (Some(0), String::new()), "{}", out(&read));
        assert_eq!(out(&read).matches("40").count(), 4, "{}", out(&read));
    }
}

/// SQL on files works on a database of its own, which is gone afterwards.
#[test]
fn sql_on_files_leaves_damaged_ones_out_when_told_to_and_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = here.join("simple_none");
    std::fs::create_dir(&files).unwrap();
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/sstables/me/simple_none");
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        for name in [name.replace("me-1-", "me-2-"), name] {
            std::fs::copy(entry.path(), files.join(name)).unwrap();
        }
    }
    std::fs::write(files.join("me-2-big-Statistics.db"), b"no statistics").unwrap();
    let tool = |arguments: &[&str]| {
        let mut command = program(here);
        command.env("TMPDIR", here).args(["--mode", "csv", "sstable"]).args(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let (count, folder) = ("SELECT count(*) AS n FROM simple_none", files.to_str().unwrap());
    let refused = tool(&["query", count, folder]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(1), ""));
    assert!(err(&refused).contains("me-2-big-Statistics.db"), "{}", err(&refused));
    let told = tool(&["query", "--skip-damaged", count, folder]);
    assert_eq!((told.status.code(), out(&told).as_str()), (Some(0), "n\n3000\n"), "{}", err(&told));
    assert!(err(&told).contains("left out: "), "{}", err(&told));
    let wrong = tool(&["query", "--skip-damaged", "SELECT nonsense", folder]);
    assert_eq!(wrong.status.code(), Some(1));
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with("tidegate-query"), "{name} is left behind");
    }

    // A file that is named twice is one, and a folder without any is wrong.
    let sound = files.join("me-1-big-Data.db");
    let sound = sound.to_str().unwrap();
    let verified = tool(&["verify", sound, sound]);
    assert_eq!(verified.status.code(), Some(0), "{}", err(&verified));
    assert_eq!(out(&verified).matches(": sound (").count(), 1, "{}", out(&verified));
    let empty = tool(&["verify", here.to_str().unwrap()]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(err(&empty).contains("holds no SSTable"), "{}", err(&empty));
}
