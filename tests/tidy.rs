//! Rules of the house that a test can hold: floors, circles, owners of foreign crates, bans, sizes
//! of files, functions and folders, top level, documents, assertions.

#[path = "tidy/assertions.rs"]
mod assertions;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/owners.rs"]
mod owners;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "skip.rs"]
mod skip;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use owners::OWNERS;
use prose::{links_and_code, sentences};

/// Words that must not stand in source files, and what to do instead.
const BANS: &[(&str, &str)] = &[
    ("todo!(", "build it, or say in ARCHITECTURE.md what is left out"),
    ("unimplemented!(", "build it, or return an error that says so"),
    ("#[ignore", "a test that does not run holds nothing"),
    ("dbg!(", "use tracing"),
];

/// Packages that the project is built on: each stands in a manifest and is used in a source file.
const FOUNDATIONS: &[&str] =
    &["arrow", "insta", "rustix", "rustyline", "sqlparser", "tokio-uring", "wasmtime"];

/// Packages of which two versions would be two kinds of values.
const ONE_VERSION: &[&str] = &["arrow", "datafusion", "sqlparser", "wasmtime"];

/// The only names at the top level that are not dot files.
const TOP_LEVEL: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "benches",
    "clippy.toml",
    "deny.toml",
    "docs",
    "engine",
    "examples",
    "plugins",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "shell",
    "tests",
    "wit",
];

const LINES_MAX: usize = 800;

/// Lines of a function: what a screen shows.
const FUNCTION_LINES_MAX: usize = 70;
/// Where functions are measured.
const FUNCTION_FOLDERS: &[&str] = &["engine/src", "shell/src", "tests", "benches", "examples"];
/// Most functions that may be listed, and most lines that one may have.
const LONG_FUNCTIONS_MAX: usize = 10;
const LONG_FUNCTION_LINES_MAX: usize = 120;
/// Functions that are longer, and how long they may be. This list only shrinks.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[
    ("benches/cache/series.rs", "run", 81),
    ("benches/fast_forward.rs", "whole", 80),
    ("engine/src/cache/budget/governor/tests.rs", "random_policies_never_break_the_cache", 86),
    ("engine/src/cache/pages/tests.rs", "random_reads_equal_the_file_whatever_happens", 83),
    (
        "engine/src/cache/rows/tests/interleavings.rs",
        "a_reader_a_flush_and_one_that_forgets_in_every_order",
        85,
    ),
    ("engine/src/cache/rows/tree/walk.rs", "walk_reversed", 76),
    ("engine/src/table/open.rs", "open", 77),
    ("tests/answers/evaluate.rs", "value", 83),
    ("tests/answers/print.rs", "fmt", 108),
    ("tests/interop/tables.rs", "tables", 86),
];

/// Source files of a folder; one more means that a concept is missing.
const FOLDER_FILES_MAX: usize = 15;
/// Where folders are counted.
const FOLDERS: &[&str] = &["engine/src", "shell/src", "tests", "benches", "examples", "plugins"];
/// Folders that have more, and how many they may have. This list only shrinks.
const LARGE_FOLDERS: &[(&str, usize)] = &[];

/// Columns of a line of prose; rustfmt sees to code. Tables and drawings may be wider.
const COLUMNS_MAX: usize = 100;

/// What people read first; a folder stands for the documents in it.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs"];
/// Of them, those whose sentences must be short in the median, too.
const DOCUMENTS_SHORT: &[&str] = &["README.md", "ARCHITECTURE.md"];
const SENTENCE_WORDS_MAX: usize = 35;
const SENTENCE_WORDS_MEDIAN_MAX: usize = 15;
/// Folders within a module, bottom first: each names only those before it.
const FLOORS: &[(&str, &[&str])] =
    &[("sstable", &["format", "data", "index", "read", "write", "set"])];
/// Modules that name of another one only these parts.
const PARTS: &[(&str, &str, &[&str])] =
    &[("inspect", "sstable", &["format", "data", "index::filter"])];
/// Where a path that a document names may begin.
const PATH_ROOTS: &[&str] = &["", "engine/src", "shell/src"];
/// What the names of files end in that documents name by path.
const PATH_ENDS: &[&str] = &[".rs", ".md", ".wit", ".toml"];

/// Variables that switch no check on or off. Every other one `.ci/run` sets.
const VARIABLES: &[&str] = &[
    "TIDEGATE_ANSWERS_WITHOUT",
    "TIDEGATE_CLIENTS_CACHE",
    "TIDEGATE_DATA",
    "TIDEGATE_FUZZ",
    "TIDEGATE_FUZZ_SEEDS",
    "TIDEGATE_INTEROP_CACHE",
    "TIDEGATE_LOAD",
    "TIDEGATE_PASSWORD",
    "TIDEGATE_LOG_FORMAT",
    "TIDEGATE_SEEDS",
    "TIDEGATE_TOKEN",
    "TIDEGATE_TEST_PANIC_CHILD",
    "TIDEGATE_TPCH_TABLES",
    CHILD,
];
/// Says to a test that it is the child of itself.
const CHILD: &str = "TIDEGATE_TEST_SKIP_CHILD";
/// What only `tests/skip.rs` says: another way to skip would not be counted.
const SKIP_WORDS: &[&str] = &["SKIPPED", "\"skipped:", "\"not run"];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .find(|folder| folder.join("ARCHITECTURE.md").exists())
        .expect("the workspace's root has ARCHITECTURE.md")
        .to_owned()
}

/// Rust files below a folder of the project, with their path from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.map(|entry| entry.expect("a readable folder").path()) {
            if entry.is_dir() {
                if !entry.ends_with("target") {
                    open.push(entry);
                }
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).expect("source files are UTF-8");
                let name = entry.strip_prefix(root()).expect("below the root").display();
                found.push((name.to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// Lines of code with their numbers: comments are left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Modules named after `crate::` in a line, `use crate::{a::…, b}` included.
fn crate_modules(line: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        let is_word = at > 0 && line.as_bytes()[at - 1].is_ascii_alphanumeric();
        let rest = &line[at + "crate::".len()..];
        if is_word {
            continue;
        }
        match rest.strip_prefix('{') {
            Some(group) => {
                let mut depth = 0;
                let mut word = String::new();
                for c in group.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => modules.push(std::mem::take(&mut word)),
                        _ if depth == 0 => word.push(c),
                        _ => {}
                    }
                }
                modules.push(word);
            }
            None => modules.push(rest.to_owned()),
        }
    }
    let head = |path: &String| {
        path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    modules.iter().map(head).filter(|module| !module.is_empty()).collect()
}

/// Modules of a crate in the order of its `lib.rs`: bottom floor first.
fn floors(lib: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(lib)).expect("a crate has lib.rs");
    code(&text)
        .filter_map(|(_, line)| line.strip_prefix("pub mod ").or(line.strip_prefix("mod ")))
        .filter_map(|rest| rest.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// The documents of [`DOCUMENTS`], with their path from the root.
fn documents() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for name in DOCUMENTS.iter().map(|name| root().join(name)) {
        match fs::read_dir(&name) {
            Ok(entries) => {
                let entries = entries.map(|entry| entry.expect("a readable folder").path());
                let is_document = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
                paths.extend(entries.filter(is_document));
            }
            Err(_) => paths.push(name),
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a document is there and UTF-8");
        (path.strip_prefix(root()).expect("below the root").display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

fn check_floors(lib: &str, folder: &str) {
    let floors = floors(lib);
    assert!(floors.len() > 3, "{lib}: no modules found, the check is blind");
    let mut breaches = Vec::new();
    for (name, text) in sources(folder) {
        let inside = name.strip_prefix(folder).expect("below the folder").trim_start_matches('/');
        let own = inside.split(['/', '.']).next().expect("a path has a first part");
        let Some(own) = floors.iter().position(|floor| floor == own) else { continue };
        for (line, code) in code(&text) {
            for module in crate_modules(code) {
                if let Some(other) = floors.iter().position(|floor| *floor == module)
                    && other > own
                {
                    breaches.push(format!(
                        "{name}:{line}: {} names {module}, a higher floor",
                        floors[own]
                    ));
                }
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn a_module_names_only_lower_floors() {
    check_floors("engine/src/lib.rs", "engine/src");
    check_floors("shell/src/lib.rs", "shell/src");
}

/// What stands behind the name of a module of the crate in a line: `b::c` of `crate::a::b::c`.
fn parts<'a>(code: &'a str, module: &str) -> Vec<&'a str> {
    let path = format!("crate::{module}::");
    let rests = code.match_indices(&path).map(|(at, path)| &code[at + path.len()..]);
    let is_end = |c: char| !c.is_alphanumeric() && c != '_' && c != ':';
    rests.map(|rest| rest.split(is_end).next().unwrap_or_default()).collect()
}

/// Breaches of files below a folder that name other parts of a module than are allowed.
fn check_parts(folder: &str, module: &str, allowed: &[&str], breaches: &mut Vec<String>) {
    let files = sources(&format!("engine/src/{folder}"));
    assert!(!files.is_empty(), "{folder}: no files found, the check is blind");
    let is_test = |name: &str| name.contains("/tests/") || name.ends_with("/tests.rs");
    for (name, text) in files.iter().filter(|(name, _)| !is_test(name)) {
        let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        for (line, code) in code(&text[..tests]) {
            for part in parts(code, module) {
                if !allowed.iter().any(|allowed| part.starts_with(allowed)) {
                    breaches.push(format!("{name}:{line}: {folder} names {module}::{part}"));
                }
            }
        }
    }
}

#[test]
fn a_folder_names_only_lower_folders() {
    let mut breaches = Vec::new();
    for (module, folders) in FLOORS {
        for (at, folder) in folders.iter().enumerate() {
            check_parts(&format!("{module}/{folder}"), module, &folders[..at], &mut breaches);
        }
    }
    for (folder, module, allowed) in PARTS {
        check_parts(folder, module, allowed, &mut breaches);
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_foreign_crate_has_one_owner() {
    let mut breaches = Vec::new();
    for (name, text) in sources("engine/src").into_iter().chain(sources("shell/src")) {
        for (line, code) in code(&text) {
            for (foreign, owners) in OWNERS {
                if names_crate(code, foreign) && !owners.iter().any(|owner| name.starts_with(owner))
                {
                    breaches.push(format!("{name}:{line}: names {foreign}, owned by {owners:?}"));
                }
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Whether code names something of a crate.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn what_the_project_is_built_on_is_named_and_used() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a file of the project");
    let manifests = [read("engine/Cargo.toml"), read("shell/Cargo.toml")].concat();
    let all: Vec<_> = ["engine/src", "shell/src", "tests"].into_iter().flat_map(sources).collect();
    for package in FOUNDATIONS {
        let stands = manifests.lines().any(|line| {
            let rest = line.strip_prefix(package);
            rest.is_some_and(|rest| rest.starts_with([' ', '.']))
        });
        assert!(stands, "{package} stands in no manifest");
        let name = package.replace('-', "_");
        let is_used =
            all.iter().any(|(_, text)| code(text).any(|(_, code)| names_crate(code, &name)));
        assert!(is_used, "{package} is used nowhere");
    }
    let lock = read("Cargo.lock");
    for package in ONE_VERSION {
        let line = format!("name = \"{package}\"");
        let versions = lock.lines().filter(|found| *found == line).count();
        assert_eq!(versions, 1, "versions of {package} in Cargo.lock");
    }
}

#[test]
fn nothing_is_left_unfinished_or_unexplained() {
    let mut breaches = Vec::new();
    for folder in ["engine/src", "shell/src", "benches", "plugins", "tests"] {
        for (name, text) in sources(folder) {
            let is_this_file = name == "tests/tidy.rs";
            for (line, code) in code(&text) {
                for (ban, instead) in BANS {
                    if code.contains(ban) && !is_this_file {
                        breaches.push(format!("{name}:{line}: {ban}: {instead}"));
                    }
                }
            }
            if !text.starts_with("//!") && !name.ends_with("build.rs") {
                breaches.push(format!("{name}: no head that says what the file holds"));
            }
            let lines = text.lines().count();
            if lines > LINES_MAX {
                breaches.push(format!("{name}: {lines} lines; split it by idea"));
            }
            // A line more or less in a guest's source changes its component.
            let is_of_guests = name.starts_with("plugins/");
            for (at, line) in text.lines().enumerate().filter(|_| !is_of_guests) {
                if line.chars().count() > COLUMNS_MAX && is_prose(line) {
                    let line = at + 1;
                    breaches
                        .push(format!("{name}:{line}: a comment of over {COLUMNS_MAX} columns"));
                }
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Functions of a file as rustfmt writes it: name, line of `fn`, lines up to the closing brace.
fn functions(text: &str) -> Vec<(&str, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, rest)) = code.split_once("fn ") else { continue };
        let is_item = before.split_whitespace().all(|word| {
            ["async", "const", "unsafe", "in"].contains(&word)
                || word.starts_with("pub")
                || word.ends_with(')')
        });
        if !is_item || line.ends_with(['}', ';']) {
            continue;
        }
        let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next();
        let is_end = |line: &&str| {
            let rest = line.strip_prefix(indent).unwrap_or_default();
            rest.starts_with('}') || rest.ends_with(';') && !rest.starts_with(' ')
        };
        let end = lines[at + 1..].iter().position(is_end);
        if let (Some(name), Some(end)) = (name, end) {
            found.push((name, at + 1, end + 2));
        }
    }
    found
}

#[test]
fn a_function_fits_a_screen() {
    let mut breaches = Vec::new();
    let mut long = Vec::new();
    for (file, text) in FUNCTION_FOLDERS.iter().flat_map(|folder| sources(folder)) {
        for (name, line, lines) in functions(&text) {
            let known = LONG_FUNCTIONS.iter().find(|(of, known, _)| *of == file && *known == name);
            if lines > FUNCTION_LINES_MAX {
                long.extend(known);
            }
            if lines > known.map_or(FUNCTION_LINES_MAX, |(.., most)| *most) {
                breaches.push(format!("{file}:{line}: {name} has {lines} lines"));
            }
        }
    }
    assert!(LONG_FUNCTIONS.len() <= LONG_FUNCTIONS_MAX, "too many functions are long");
    assert!(LONG_FUNCTIONS.iter().all(|(.., most)| *most <= LONG_FUNCTION_LINES_MAX));
    for entry in LONG_FUNCTIONS.iter().filter(|entry| !long.contains(entry)) {
        breaches.push(format!("{} of {} is short now: take it off the list", entry.1, entry.0));
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn a_folder_holds_few_files() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (file, _) in FOLDERS.iter().flat_map(|folder| sources(folder)) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder.to_owned()).or_default() += 1;
    }
    assert!(counts.len() > 30, "no folders found, the check is blind");
    let mut breaches = Vec::new();
    for (folder, count) in &counts {
        let known = LARGE_FOLDERS.iter().find(|(known, _)| known == folder);
        if *count > known.map_or(FOLDER_FILES_MAX, |(_, most)| *most) {
            breaches.push(format!("{folder}: {count} files; group them by what they are about"));
        }
    }
    let count_of = |folder: &str| counts.get(folder).copied().unwrap_or_default();
    for (folder, _) in LARGE_FOLDERS.iter().filter(|(name, _)| count_of(name) <= FOLDER_FILES_MAX) {
        breaches.push(format!("{folder} is small now: take it off the list"));
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Whether a line is a comment in words: no table, drawing or layout.
fn is_prose(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let comment = comment.trim_start_matches(['/', '!']).trim_end();
    !["|", ":=", "  ", "──"].iter().any(|mark| comment.contains(mark))
}

#[test]
fn the_engine_never_prints() {
    for (name, text) in sources("engine/src") {
        let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        for (line, code) in code(&text[..tests]) {
            let prints = ["println!", "print!("].iter().any(|word| code.contains(word));
            assert!(
                !prints || name.contains("test"),
                "{name}:{line}: a library reports by tracing"
            );
        }
    }
}

/// The macros of the standard library panic where stdout or stderr is full.
#[test]
fn the_shell_outlives_a_full_stderr() {
    for (name, text) in sources("shell/src") {
        let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        for (line, code) in code(&text[..tests]) {
            let panics = ["println!", "print!("].iter().any(|word| code.contains(word));
            assert!(
                !panics || name.contains("test"),
                "{name}:{line}: `tell_line!` writes to stderr, `write!` to an output that may fail"
            );
        }
    }
}

#[test]
fn the_top_level_is_what_it_should_be() {
    let allowed: BTreeSet<&str> = TOP_LEVEL.iter().copied().collect();
    let strangers: Vec<String> = fs::read_dir(root())
        .expect("the root is readable")
        .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && name != "target" && name != "tidegate-data")
        .filter(|name| !allowed.contains(name.as_str()))
        .collect();
    assert!(strangers.is_empty(), "not at the top level: {strangers:?}");
}

/// Names of variables of this project that stand in a line as text, each with nothing else.
fn variables(line: &str) -> impl Iterator<Item = &str> {
    let texts = line.match_indices("\"TIDEGATE_").map(|(at, _)| &line[at + 1..]);
    let texts = texts.filter_map(|rest| rest.split('"').next());
    texts.filter(|text| text.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

#[test]
fn no_check_skips_in_silence() {
    let ci = fs::read_to_string(root().join(".ci/run")).expect("the run of all checks");
    let mut breaches = Vec::new();
    for folder in ["engine/src", "shell/src", "benches", "plugins", "tests"] {
        for (name, text) in sources(folder) {
            let is_exempt = ["tests/tidy.rs", "tests/skip.rs"].contains(&name.as_str());
            for (line, code) in code(&text).filter(|_| !is_exempt) {
                for variable in variables(code) {
                    if !VARIABLES.contains(&variable) && !ci.contains(&format!("{variable}=")) {
                        breaches.push(format!(
                            "{name}:{line}: {variable}: .ci/run does not set it, so a check may \
                             never run"
                        ));
                    }
                }
                for word in SKIP_WORDS.iter().filter(|word| code.contains(*word)) {
                    breaches
                        .push(format!("{name}:{line}: {word}: use tests/skip.rs, it is counted"));
                }
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn a_skip_is_told_and_recorded() {
    if std::env::var_os(CHILD).is_some() {
        skip::skip("a check", "no tool,\nin two lines");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("skips");
    let child = |recorded: bool| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "a_skip_is_told_and_recorded"]).env(CHILD, "1");
        child.env_remove("TIDEGATE_SKIPS");
        if recorded {
            child.env("TIDEGATE_SKIPS", &file);
        }
        let output = child.output().expect("this test again");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(child(false), "SKIPPED a check: no tool,\nin two lines\n", "past the capture");
    assert!(!file.exists());
    child(true);
    child(true);
    let recorded = fs::read_to_string(&file).expect("what was skipped");
    assert_eq!(recorded, "a check\tno tool, in two lines\n".repeat(2));
}

#[test]
fn a_skip_that_is_not_allowed_fails_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, list) = (folder.path().join("skips"), folder.path().join("allowed"));
    fs::write(&list, "# for people\n\nio_uring  the kernel's to grant\n").expect("a list");
    let judge = || {
        let mut judge = Command::new(root().join(".ci/skips"));
        let output = judge.args([&file, &list]).output().expect("bash and awk");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, said) = judge();
    assert!(code == Some(2) && said.contains("nobody can say"), "without a record: {said}");
    for (skips, wanted, part) in [
        ("", Some(0), "skipped: nothing"),
        ("io_uring\tdenied\n", Some(0), "  io_uring: denied\n"),
        ("io_uring\tdenied\nio\tno tool\n", Some(1), "  io: no tool  <- NOT ALLOWED"),
    ] {
        fs::write(&file, skips).expect("a record");
        let (code, said) = judge();
        assert!(code == wanted && said.contains(part), "{code:?}: {said}");
    }
    fs::remove_file(&list).expect("the list was there");
    assert_eq!(judge().0, Some(2), "without a list nothing may be skipped");
}

#[test]
fn documents_are_short_sentences() {
    let mut breaches = Vec::new();
    for (name, text) in documents() {
        let sentences = sentences(&text);
        for sentence in sentences.iter().filter(|words| words.len() > SENTENCE_WORDS_MAX) {
            breaches.push(format!("{name}: {} words: {}", sentence.len(), sentence.join(" ")));
        }
        let mut counts: Vec<usize> = sentences.iter().map(Vec::len).collect();
        counts.sort_unstable();
        assert!(!counts.is_empty(), "{name}: no sentences found, the check is blind");
        // The mean of the two in the middle, twice.
        let median = counts[(counts.len() - 1) / 2] + counts[counts.len() / 2];
        if DOCUMENTS_SHORT.contains(&name.as_str()) && median > 2 * SENTENCE_WORDS_MEDIAN_MAX {
            let median = median as f64 / 2.0;
            breaches.push(format!(
                "{name}: half of the sentences have over {median} words, {SENTENCE_WORDS_MEDIAN_MAX} is most"
            ));
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn documents_name_files_that_are_there() {
    let mut breaches = Vec::new();
    let mut paths = 0;
    for (name, text) in documents() {
        let folder = root().join(&name).parent().expect("a file is in a folder").to_owned();
        let (links, code) = links_and_code(&text);
        for link in links {
            let file = link.split('#').next().unwrap_or_default();
            let is_relative = !file.is_empty() && !link.contains(':');
            if is_relative && !folder.join(file).exists() {
                breaches.push(format!("{name}: the link to {link} leads nowhere"));
            }
        }
        let is_path = |piece: &&String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            piece.contains('/')
                && PATH_ENDS.iter().any(|end| piece.ends_with(end))
                && piece.chars().all(is_plain)
        };
        for path in code.iter().filter(is_path) {
            paths += 1;
            if !PATH_ROOTS.iter().any(|begin| root().join(begin).join(path).exists()) {
                breaches.push(format!("{name}: there is no {path}"));
            }
        }
    }
    assert!(paths > 10, "no paths found, the check is blind");
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_folder_has_a_line_in_the_map() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut folders = BTreeSet::new();
    for (crate_folder, name) in ["engine/src", "shell/src"]
        .into_iter()
        .flat_map(|of| sources(of).into_iter().map(move |(name, _)| (of, name)))
    {
        let within = name.strip_prefix(crate_folder).expect("below it").trim_start_matches('/');
        if let Some((folder, _)) = within.rsplit_once('/') {
            folders.insert(folder.to_owned());
        }
    }
    folders.retain(|folder| !folder.split('/').any(|part| part == "tests"));
    assert!(folders.len() > 30, "no folders found, the check is blind");
    let is_folder = |name: &&&str| root().join(name).is_dir();
    folders.extend(TOP_LEVEL.iter().filter(is_folder).map(|name| (*name).to_owned()));
    let missing: Vec<_> =
        folders.iter().filter(|folder| !map.contains(&format!("`{folder}`"))).collect();
    assert!(missing.is_empty(), "not in ARCHITECTURE.md: {missing:?}");
}

/// Engines that only `benches/peers` builds: one of the members, and none of those that commands
/// build when they name none.
#[test]
fn other_engines_stay_out_of_the_build() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a file of the project");
    let manifest = read("Cargo.toml");
    let of = |key: &str| {
        let start = format!("{key} = [");
        manifest.lines().find(|line| line.starts_with(&start)).expect("a list of members")
    };
    assert!(of("members").contains("\"benches/peers\""));
    assert!(!of("default-members").contains("peers"));
    let peers = read("benches/peers/Cargo.toml");
    assert!(!peers.contains("\ndefault = "), "RocksDB is asked for by name");
    for (path, manifest) in [("Cargo.toml", &manifest)]
        .into_iter()
        .chain([("engine", &read("engine/Cargo.toml")), ("shell", &read("shell/Cargo.toml"))])
    {
        for package in ["fjall", "rocksdb"] {
            let mut lines = manifest.lines().filter(|line| !line.starts_with("[profile."));
            assert!(!lines.any(|line| line.contains(package)), "{path} names {package}");
            assert!(peers.contains(&format!("\n{package} = ")), "{package}");
        }
    }
}

/// `benches/peers` compiles the frame of the benches too, with fewer dependencies.
#[test]
fn the_frame_of_benches_names_what_peers_depend_on() {
    let manifest = fs::read_to_string(root().join("benches/peers/Cargo.toml")).unwrap();
    let sources = sources("benches/frame");
    assert!(sources.len() >= 2, "no frame found, the check is blind");
    for (path, text) in &sources {
        for (number, line) in code(text).filter(|(_, line)| line.starts_with("use ")) {
            let name = line["use ".len()..].split("::").next().unwrap_or_default();
            let known = ["crate", "self", "std", "super"].contains(&name)
                || manifest.contains(&format!("\n{}.workspace", name.replace('_', "-")));
            assert!(known, "{path}:{number}: benches/peers has no `{name}`: {line}");
        }
    }
}

#[test]
fn the_checks_see_breaches() {
    let line = r#"var_os("TIDEGATE_A").or(var("TIDEGATE_B_C")).expect("TIDEGATE_D is there")"#;
    assert_eq!(variables(line).collect::<Vec<_>>(), ["TIDEGATE_A", "TIDEGATE_B_C"]);
    assert_eq!(crate_modules("use crate::table::Table;"), ["table"]);
    assert_eq!(
        crate_modules("use crate::{error::Result, schema::{Token, key}};"),
        ["error", "schema"]
    );
    assert_eq!(
        crate_modules("    crate::cache::Page::new(crate::disk::open())"),
        ["cache", "disk"]
    );
    assert!(crate_modules("let subcrate::x = 1").is_empty());
    let line = "use crate::a::b::c; crate::a::{b, c}; crate::ab::c";
    assert_eq!(parts(line, "a"), ["b::c", ""]);
    let text = "# Head one.\n\nOne two, `a. b` (three). Four\nfive [six](x.md#y).\n\n| no. |\n1. Seven e.g. \
                eight!\n- nine\n```\nNo. No.\n```\n";
    let counts: Vec<usize> = sentences(text).iter().map(Vec::len).collect();
    assert_eq!(counts, [4, 3, 3, 1]);
    let text_of_code = "impl A {\n    pub(in crate::a) async fn b(\n        c: u8,\n    ) -> u8 {\n        \
                        c\n    }\n\n    fn d();\n}\n\nconst fn e() {\n    let f = 1;\n}\n";
    assert_eq!(functions(text_of_code), [("b", 2, 5), ("e", 11, 3)]);
    let (links, code) = links_and_code(text);
    assert_eq!((links, code), (vec!["x.md#y".to_owned()], vec!["a. b".to_owned()]));
}
