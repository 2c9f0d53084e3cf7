//! What a person sees in a terminal of 80 columns: screens as snapshots, and nothing wraps.

use std::path::Path;
use std::process::Command;

use super::program;
use super::terminal::Terminal;

const SIZE: (u16, u16) = (80, 24);

/// A session whose screens are looked at.
struct Person {
    terminal: Terminal,
}

impl Person {
    fn start(directory: &Path) -> Self {
        let mut command = program(directory);
        command.env("NO_COLOR", "1");
        let mut terminal = Terminal::start_sized(command, SIZE);
        terminal.prompt();
        terminal.clear();
        Person { terminal }
    }

    /// Types lines and returns the screen from the first of them to the next prompt.
    fn types(&mut self, lines: &[&str]) -> String {
        for (n, line) in lines.iter().enumerate() {
            self.terminal.send(&format!("{line}\r"));
            if n + 1 < lines.len() {
                // The editor asks for the next line of the statement.
                self.terminal.expect(" -> ");
            }
        }
        self.terminal.prompt();
        self.terminal.settle();
        let screen = self.terminal.screen();
        self.terminal.clear();
        assert!(!screen.wraps, "a line is longer than the screen:\n{}", screen.text);
        // The prompt for the first line was drawn before the screen was cleared.
        screen.text
    }

    fn leaves(mut self) {
        self.terminal.send("quit\r");
        assert_eq!(self.terminal.wait(), 0);
    }
}

#[test]
fn the_first_minute_at_eighty_columns() {
    let directory = tempfile::tempdir().unwrap();
    let mut person = Person::start(directory.path());
    insta::assert_snapshot!("help", person.types(&["help"]));
    insta::assert_snapshot!("several_lines", person.types(&["SELECT 'a' AS x,", "  2 AS y;"]));
    insta::assert_snapshot!("policies", person.types(&["SHOW POLICIES;"]));
    let rows = "SELECT value, value * 2 AS twice FROM generate_series(1, 10000);";
    insta::assert_snapshot!("a_screen_of_rows", person.types(&[rows]));
    let wide = "SELECT 12345678 AS id, repeat('wide ', 40) AS text, 7 AS n;";
    insta::assert_snapshot!("wide_text", person.types(&[wide]));
    insta::assert_snapshot!("many_columns", person.types(&["SELECT * FROM system.policies;"]));
    insta::assert_snapshot!("tables", person.types(&["\\d"]));
    person.leaves();
}

#[test]
fn errors_at_eighty_columns() {
    let directory = tempfile::tempdir().unwrap();
    let mut person = Person::start(directory.path());
    person.types(&["CREATE TABLE t (a int PRIMARY KEY, b text);"]);
    person.types(&["INSERT INTO t (a, b) VALUES (1, '日本'), (2, 'x');"]);
    let mut all = String::new();
    for text in [
        "SELECT 1/0;",
        "INSERT INTO t (a) VALUES (1) USING TTL -1;",
        "CREATE TABLE u (a int PRIMARY KEY, b int, b text);",
        "SHOW TABELS;",
        "SHOW nonsense;",
        "SELECT '日本', nope FROM t;",
        "SELECT sum(b) FROM t;",
        "DESCRIBE system.metric;",
        ".tabels",
        "SELECT a, b FROM t WHERE b = 'a text that is rather long' AND nope = 1 ORDER BY a;",
    ] {
        all.push_str(&person.types(&[text]));
        all.push('\n');
    }
    insta::assert_snapshot!("errors", all);
    let screens = ["DESCRIBE t;", "DESCRIBE system.row_cache;", "SELECT * FROM t ORDER BY a;"];
    insta::assert_snapshot!("describe", screens.map(|text| person.types(&[text])).join("\n"));
    person.leaves();
}

#[test]
fn the_quickstart_fits_eighty_columns() {
    let directory = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command: Command = program(directory.path());
    command.current_dir(root).args(["-f", "examples/quickstart.sql"]);
    let mut terminal = Terminal::start_sized(command, SIZE);
    assert_eq!(terminal.wait(), 0, "{}", terminal.seen());
    let screen = terminal.screen();
    assert!(!screen.wraps, "a line is longer than the screen:\n{}", screen.text);
    assert!(screen.text.contains("| John F. Kennedy |"), "{}", screen.text);
}
