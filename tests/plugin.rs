//! `tidegate plugin` as authors of policies meet it.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .env("TIDEGATE_DATA", directory.join("data"))
        .current_dir(directory)
        .arg("plugin")
        .args(arguments)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn dist(name: &str) -> String {
    format!("{}/../plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_good_component_passes_and_others_are_told_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let good = run(directory.path(), &["check", &dist("lru")]);
    let text = out(&good);
    assert_eq!(good.status.code(), Some(0), "{text}{}", err(&good));
    for line in [
        "  world     eviction-policy",
        "  imports   tidegate:policy/host@0.1.0",
        "  ok    calls itself lru 0.1.0",
        "  ok    hands over the order of all 500 residents",
        "the engine takes it",
    ] {
        assert!(text.lines().any(|found| found == line), "no line '{line}' in\n{text}");
    }
    assert!(!directory.path().join("data").exists(), "a check needs no database");

    let file = directory.path().join("wrong.wasm");
    for (bytes, part) in [
        (&b"SELECT 1"[..], "WRONG this is not WebAssembly"),
        (&b"\0asm\x01\0\0\0"[..], "a core WebAssembly module, not a component"),
        (&b"\0asm\x0d\0\x01\0"[..], "WRONG exports nothing, so not tidegate:policy/lifecycle"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let wrong = run(directory.path(), &["check", "wrong.wasm"]);
        assert_eq!(wrong.status.code(), Some(1));
        assert!(out(&wrong).contains(part), "{}", out(&wrong));
        assert!(out(&wrong).ends_with("not fit for the engine\n"));
    }
    std::fs::write(&file, vec![0; 2 << 20]).unwrap();
    let large = "'wrong.wasm' has 2097152 bytes, the most is 1048576";
    let refused = run(directory.path(), &["check", "wrong.wasm"]);
    assert!(refused.status.code() == Some(1) && err(&refused).contains(large), "{}", err(&refused));
    let created = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .env("TIDEGATE_DATA", directory.path().join("data"))
        .current_dir(directory.path())
        .args(["-c", "CREATE POLICY large FROM 'wrong.wasm'"])
        .output()
        .unwrap();
    assert!(created.status.code() == Some(1) && err(&created).contains(large), "{}", err(&created));
    std::fs::remove_dir_all(directory.path().join("data")).unwrap();
    let parameter = run(directory.path(), &["check", &dist("lru"), "--param", "size=1"]);
    assert!(out(&parameter).contains("unknown parameter 'size'"), "{}", out(&parameter));
    let absent = run(directory.path(), &["check", "absent.wasm"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(err(&absent).contains("absent.wasm"), "{}", err(&absent));
}

#[test]
fn replays_are_rows_and_curves() {
    let directory = tempfile::tempdir().unwrap();
    let sieve = dist("sieve");
    let recipe = "zipf:ids=2000,requests=20000,skew=0.9,seed=3";
    let base = ["replay", "lru", "optimal", &sieve, "--trace", recipe];
    let more = ["--capacity", "20", "--capacity", "200", "--plot", "--svg", "curve.svg"];
    let output = run(directory.path(), &[&base[..], &more[..]].concat());
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let text = out(&output);
    assert!(text.starts_with(&format!("{recipe}: 20000 requests of ")), "{text}");
    assert!(text.contains("| optimal |      200 | entries |    20000 |"), "{text}");
    assert!(text.contains("hit ratio, zipf") && text.contains("o lru   x optimal   + sieve"));
    let svg = std::fs::read_to_string(directory.path().join("curve.svg")).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 3);
    let csv = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["--mode", "csv", "plugin", "replay", "lru", "--capacity", "20", "--trace", recipe])
        .output()
        .unwrap();
    let text = out(&csv);
    assert!(text.starts_with("policy,capacity,unit,requests,hits,"), "{text}");
    assert_eq!(text.lines().count(), 2, "rows and nothing else: {text}");
    let wrong = run(directory.path(), &["replay", "lru", "--trace", "no.trace"]);
    assert!(wrong.status.code() == Some(1) && err(&wrong).contains("no.trace"), "{}", err(&wrong));
    let usage = run(directory.path(), &["replay", "lru", "--trace", "loop:", "--capacity", "much"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_bench_compares_with_the_native_lru() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = "zipf:ids=2000,requests=20000";
    let output = run(directory.path(), &["bench", &dist("s3_fifo"), "--trace", recipe]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(text.contains("| lru ") && text.contains("| s3_fifo "), "{text}");
    assert!(text.contains("more than the native LRU"), "{text}");
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Every file of a project says something, nothing is left to be filled in, no program has a name
/// that cargo forbids, and the sources are those of the engine's tree.
fn assert_whole(project: &Path, sources: Option<&str>) {
    for file in files(project) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.trim().is_empty(), "{} is empty", file.display());
        for mark in ["@NAME@", "@UNDERSCORED@", "@SDK@", "@USE@"] {
            assert!(!text.contains(mark), "{mark} is left in {}", file.display());
        }
        if file.ends_with("Cargo.toml") && text.contains("[package]") {
            let package = text.split("[package]").nth(1).unwrap();
            let is_named = package.lines().any(|line| line.starts_with("name = \""));
            assert!(is_named, "{} names no package", file.display());
            let program = text.split("[[bin]]").nth(1);
            let is_build = text.contains("name = \"build\"");
            assert!(!is_build || program.is_some_and(|own| !own.contains("name = \"build\"")));
        }
    }
    let Some(sources) = sources else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(sources);
    for file in files(&folder.join("src")) {
        let there = project.join("sdk").join(file.strip_prefix(&folder).unwrap());
        assert!(there.exists(), "{} is not in a new project", file.display());
    }
}

#[test]
fn a_new_project_is_whole_and_overwrites_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let new = run(directory.path(), &["new", "hot-set"]);
    assert_eq!(new.status.code(), Some(0), "{}", err(&new));
    assert!(out(&new).contains("cargo run -p build"), "{}", out(&new));
    let root = directory.path().join("hot-set");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    assert!(read("Cargo.toml").contains("name = \"hot-set\""));
    assert!(read("build/src/main.rs").contains("release/hot_set.wasm"));
    assert!(read("sdk/src/guest.rs").contains("path: \"../wit/v0.1\""));
    assert!(read("wit/v0.1/world.wit").contains("world eviction-policy"));
    assert!(!read("src/lib.rs").contains('@'));
    assert!(read("sdk/Cargo.toml").contains("name = \"tidegate-plugin\""));
    assert_whole(&root, Some("sdk"));

    let again = run(directory.path(), &["new", "hot-set"]);
    assert!(again.status.code() == Some(1) && err(&again).contains("is there already"));
    for name in ["Hot", "9lives", "std", "a b", "fn", "self", "wit-bindgen", "proc-macro"] {
        let refused = run(directory.path(), &["new", name]);
        assert!(refused.status.code() == Some(1), "{name}");
        assert!(err(&refused).contains("cannot name a policy"), "{}", err(&refused));
    }
    for world in [
        "cache-admission",
        "rate-limiter",
        "read-admission",
        "load-shedding",
        "io-priority",
        "compaction",
    ] {
        let name = format!("my-{world}");
        let new = run(directory.path(), &["new", &name, "--world", world]);
        assert_eq!(new.status.code(), Some(0), "{}", err(&new));
        let manifest = directory.path().join(&name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains("tidegate-plugin-decision = { path = \"sdk\" }"), "{manifest}");
        assert_whole(&directory.path().join(&name), Some("decision"));
    }
    let language = run(directory.path(), &["new", "x", "--lang", "cobol"]);
    assert_eq!(language.status.code(), Some(2));

    let new = run(directory.path(), &["new", "in-c", "--lang", "c"]);
    assert_eq!(new.status.code(), Some(0), "{}", err(&new));
    assert!(!out(&new).contains("cargo test"), "{}", out(&new));
    let read =
        |file: &str| std::fs::read_to_string(directory.path().join("in-c").join(file)).unwrap();
    let policy = read("policy.c");
    assert!(policy.contains("\"in-c\"") && policy.contains("\"in-c keeps no state"), "{policy}");
    assert!(!policy.contains("c-clock") && !policy.contains("../clock"), "{policy}");
    assert!(read("build/src/main.rs").contains("root.join(\"in_c.wasm\")"));
    assert_whole(&directory.path().join("in-c"), None);
    let world = run(directory.path(), &["new", "y", "--lang", "c", "--world", "rate-limiter"]);
    assert!(err(&world).contains("a project in C is of world eviction"), "{}", err(&world));
}
