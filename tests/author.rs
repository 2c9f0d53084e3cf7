//! The path of an author of policies, typed as the documents tell it: a new project, its build, the
//! check, the measurements, and in a database load, shadow, promotion and the way back.
//!
//! Commands come out of `plugins/TUTORIAL.md` and out of the README of each new project, so what a
//! person is told to type is what is typed here. Building takes minutes, a compiler for Wasm, clang
//! and the registry of crates: it is done where `TIDEGATE_BUILD_GUESTS` is set, as `.ci/run` does.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// Where a document says that the database has to work for a while.
const SERVE: &str = "-- let it serve";
/// A table of forty partitions, in a cache that has room for some.
const TABLE: &str = "\
CREATE TABLE reading (station int, at int, value double, note text, PRIMARY KEY (station, at));
INSERT INTO reading SELECT n % 40, n AS at, n AS value, repeat('x', 100) FROM generate_series(1, 4000) AS t(n);
FLUSH;
ALTER CACHE SET CAPACITY = '64 KiB';
";

/// A person with a folder and the program. What they build stands elsewhere, with the crates that
/// every project needs.
struct Author {
    folder: TempDir,
    target: PathBuf,
}

/// A block of a document that is to be typed.
#[derive(Debug, PartialEq)]
enum Block {
    Shell(String),
    Sql(String),
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The fenced blocks of a document: those without a language are commands of a shell.
fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut parts = document.split("\n```");
    parts.next();
    while let (Some(block), Some(_prose)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push(match language {
            "" => Block::Shell(format!("{text}\n")),
            "sql" => Block::Sql(format!("{text}\n")),
            other => panic!("a block in '{other}', which nobody types here"),
        });
    }
    blocks
}

/// What of a block is typed: what changes the machine `.ci/run` does before, in the same words.
fn typed(commands: &str) -> String {
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    let installs = |line: &&str| ["rustup ", "apt-get "].iter().any(|tool| line.starts_with(tool));
    for line in commands.lines().filter(installs) {
        let (command, _comment) = line.split_once('#').unwrap_or((line, ""));
        for word in command.split_whitespace() {
            assert!(ci.contains(word), "'{word}' of '{line}' is not in .ci/run");
        }
    }
    commands.lines().filter(|line| !installs(line)).map(|line| format!("{line}\n")).collect()
}

static BUILDING: Mutex<()> = Mutex::new(());

impl Author {
    /// Those who build in the same place are [`alone`].
    fn new(target: &str) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(target);
        Author { folder: tempfile::tempdir().unwrap(), target }
    }

    /// Runs a command with the program in its path; what it said to stdout and stderr.
    fn run(&self, mut command: Command) -> (bool, String, String) {
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
        let paths = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
        let paths = std::iter::once(program.to_path_buf()).chain(paths);
        let output = command
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("CARGO_TARGET_DIR", &self.target)
            .env("TIDEGATE_DATA", self.folder.path().join("data"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    /// Types commands of a shell in a folder, until one fails; what they said to stdout.
    fn shell(&self, folder: &str, commands: &str) -> String {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &typed(commands)]);
        bash.current_dir(self.folder.path().join(folder));
        let (is_well, out, err) = self.run(bash);
        assert!(is_well, "in '{folder}':\n{commands}\n{out}\n{err}");
        out
    }

    /// Types statements in the shell of a new database, in a folder; what it printed.
    fn sql(&self, folder: &str, statements: &str) -> String {
        let reads: String = (0..120)
            .map(|at| format!("SELECT max(value) FROM reading WHERE station = {};\n", at * at % 40))
            .collect();
        let script = format!("{TABLE}{statements}").replace(SERVE, &reads);
        fs::write(self.folder.path().join("script.sql"), script).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        program.args(["--shards", "1", "--timing", "off", "--mode", "table", "-f"]);
        program
            .arg(self.folder.path().join("script.sql"))
            .current_dir(self.folder.path().join(folder));
        let (is_well, out, err) = self.run(program);
        assert!(is_well, "in '{folder}':\n{statements}\n{out}\n{err}");
        fs::remove_dir_all(self.folder.path().join("data")).unwrap();
        // Columns are as wide as their values.
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Types all that a document tells, statements after commands; what each of them printed.
    fn follow(&self, folder: &str, document: &str) -> (String, String) {
        let (mut commands, mut statements) = (String::new(), String::new());
        for block in blocks(document) {
            match block {
                Block::Shell(text) => commands.push_str(&text),
                Block::Sql(text) => statements.push_str(&text),
            }
        }
        assert!(!commands.is_empty() && !statements.is_empty(), "nothing to type: {document}");
        let said = self.shell(folder, &commands);
        let project = commands.lines().find_map(|line| line.strip_prefix("cd ")).unwrap_or("");
        let project = Path::new(folder).join(project);
        let answered = self.sql(project.to_str().unwrap(), &statements);
        (said, answered)
    }
}

/// Programs of the projects in Rust have one name and one place, and cargo tells sources apart by
/// their age alone: nobody else may make, build or run one there meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    BUILDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asserts that the parts are in a text in this order.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(at) = rest.find(part) else { panic!("'{part}' is not in: {rest}\nof: {text}") };
        rest = &rest[at + part.len()..];
    }
}

/// What the shell prints for a policy that is tried, promoted and taken back.
fn assert_served(answered: &str, policy: &str) {
    assert_in_order(
        answered,
        &[
            &format!("Policy {policy} 0.1.0 created ("),
            &format!("Shadow of {policy} started on one key in 1"),
            &format!("Eviction policy set to {policy}."),
            &format!("| {policy} | 0.1.0 | eviction | active |"),
            "Eviction policy set back to lru.",
        ],
    );
}

fn is_wanted() -> bool {
    let is_wanted = std::env::var_os("TIDEGATE_BUILD_GUESTS").is_some();
    if !is_wanted {
        skip::skip("the author's path", "TIDEGATE_BUILD_GUESTS is not set: it builds for minutes");
    }
    is_wanted
}

#[test]
fn what_the_tutorial_tells_can_be_typed() {
    let tutorial = fs::read_to_string(root().join("plugins/TUTORIAL.md")).unwrap();
    let told = blocks(&tutorial);
    for wanted in ["plugin new", "-p build", "plugin check", "plugin replay", "plugin bench"] {
        let is_told = |block: &&Block| matches!(block, Block::Shell(text) if text.contains(wanted));
        assert!(told.iter().any(|block| is_told(&block)), "the tutorial does not tell '{wanted}'");
    }
    if !is_wanted() {
        return;
    }
    let _alone = alone();
    let author = Author::new("author");
    // Its last block names files of the tree, as a person does who stands there.
    let dist = root().join("plugins/dist");
    let tutorial = tutorial.replace("'plugins/dist/", &format!("'{}/", dist.display()));
    let (said, answered) = author.follow("", &tutorial);
    assert_in_order(&said, &["hot-set is a policy", "the engine takes it", "| hot_set "]);
    assert_served(&answered, "hot_set");
}

#[test]
fn every_new_project_can_be_built_checked_and_put_to_use() {
    if !is_wanted() {
        return;
    }
    let _alone = alone();
    let author = Author::new("author");
    for world in [
        "eviction",
        "cache-admission",
        "rate-limiter",
        "read-admission",
        "load-shedding",
        "io-priority",
        "compaction",
    ] {
        let name = format!("my-{world}");
        let policy = name.replace('-', "_");
        author.shell("", &format!("tidegate plugin new {name} --world {world}"));
        let readme =
            fs::read_to_string(author.folder.path().join(&name).join("README.md")).unwrap();
        let (said, answered) = author.follow(&name, &readme);
        assert_in_order(&said, &[&format!("/{policy}.wasm: "), "the engine takes it"]);
        assert_in_order(&answered, &[&format!("| {policy} | 0.1.0 | {world} | active |")]);
        if world == "eviction" {
            assert_served(&answered, &policy);
        }
    }
    let replay = "tidegate plugin replay my_cache_admission.wasm lru --trace loop:ids=500 --plot";
    assert!(author.shell("my-cache-admission", replay).contains("| my_cache_admission "));
}

#[test]
fn a_project_in_c_can_be_built_checked_and_put_to_use() {
    if !is_wanted() {
        return;
    }
    let author = Author::new("author-c");
    author.shell("", "tidegate plugin new in-c --lang c");
    let folder = author.folder.path().join("in-c");
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let (said, answered) = author.follow("in-c", &readme);
    assert_in_order(&said, &["/in_c.wasm: ", "the engine takes it", "| in_c "]);
    assert_served(&answered, "in_c");

    // What is wrong with the policy is not blamed on the tools, nor the other way round.
    let build = || {
        let mut cargo = Command::new("cargo");
        cargo.args(["run", "--quiet", "-p", "build"]).current_dir(&folder);
        author.run(cargo)
    };
    let policy = fs::read_to_string(folder.join("policy.c")).unwrap();
    fs::write(folder.join("policy.c"), format!("{policy}\nint broken( {{\n")).unwrap();
    let (is_well, _, err) = build();
    assert!(!is_well && err.contains("refuses policy.c") && err.contains("policy.c:"), "{err}");
    assert!(!err.contains("no clang") && !err.contains("apt-get"), "{err}");
    fs::write(folder.join("policy.c"), policy).unwrap();
    assert!(build().0, "what was mended is built again");
    let made = author.target.join("debug/make-component");
    let output = Command::new(made).env("PATH", "").current_dir(&folder).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("no clang; on Debian: apt-get install clang-19"), "{err}");
}

#[test]
fn blocks_are_found_and_commands_that_change_the_machine_are_not_typed() {
    let document = "# A\n\n```\na  # first\nrustup target add wasm32-unknown-unknown  # once\nb\n```\n\
                    text\n\n```sql\nSELECT 1;\n```\nend\n";
    let shell = "a  # first\nrustup target add wasm32-unknown-unknown  # once\nb\n";
    let wanted = [Block::Shell(shell.into()), Block::Sql("SELECT 1;\n".into())];
    assert_eq!(blocks(document), wanted);
    assert_eq!(typed(shell), "a  # first\nb\n");
}
