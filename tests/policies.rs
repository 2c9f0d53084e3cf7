//! A policy of the cache is swapped, sabotaged and rolled back by the program as people use it.
//!
//! Statements ask for what does not differ from run to run.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[allow(dead_code, reason = "the engine's tests use more of it")]
#[path = "../engine/src/plugin/tests/guest.rs"]
mod guest;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_engine::plugin::{CompileLimits, CompilerCommand, HostOptions, PolicyHost};

const SCRIPT: &str = "\
CREATE TABLE reading (station int, at int, value double, note text, PRIMARY KEY (station, at));
INSERT INTO reading SELECT n % 40, n AS at, n AS value, repeat('x', 100) FROM generate_series(1, 8000) AS t(n);
FLUSH;
ALTER CACHE SET CAPACITY = '64 KiB';

CREATE POLICY s3 FROM 'PLUGINS/s3_fifo.wasm';
ALTER CACHE SET POLICY = s3 MODE = shadow SAMPLE = 1/1;
READS
SELECT name, state, sample, hits + misses > 0 AS judged FROM system.policies ORDER BY name;

-- It is good: put it in charge.
ALTER CACHE SET POLICY = s3;
READS
SELECT name, state FROM system.policies ORDER BY name;

-- This one is not: it serves for three calls and then traps.
CREATE POLICY bad FROM 'bad.wasm';
ALTER CACHE SET POLICY = bad;
READS
SELECT name, last_failure FROM system.policies WHERE last_failure IS NOT NULL;
SELECT count(*) AS rows FROM reading;
SELECT policy, shard, role, kind, message, last_events <> '' AS events
FROM system.policy_exits ORDER BY at, shard LIMIT 1;

ROLLBACK POLICY;
READS
SELECT name, state FROM system.policies WHERE name = 's3';
";

/// What the program prints, and what it says beside.
fn tidegate(directory: &Path, arguments: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .env_clear()
        .env("HOME", directory)
        .env("TIDEGATE_DATA", directory.join("data"))
        .current_dir(directory)
        .args(["--shards", "1", "--timing", "off"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    (String::from_utf8(output.stdout).unwrap(), errors)
}

#[test]
fn a_policy_is_shadowed_promoted_sabotaged_and_rolled_back() {
    let directory = tempfile::tempdir().unwrap();
    let plugins = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dist");
    std::fs::write(directory.path().join("bad.wasm"), guest::saboteur(3).component()).unwrap();
    let reads: String = (0..40)
        .map(|at| format!("SELECT max(value) AS m FROM reading WHERE station = {at};\n"))
        .collect();
    let script = SCRIPT.replace("PLUGINS", plugins).replace("READS\n", &reads);
    std::fs::write(directory.path().join("script.sql"), script).unwrap();
    let (output, said) = tidegate(directory.path(), &["--mode", "table", "-f", "script.sql"]);
    // In this order; columns are as wide as their values.
    let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = output.as_str();
    for wanted in [
        "Shadow of s3 started on one key in 1.",
        "| lru | active | NULL | true |",
        "| s3 | shadow | 1/1 | true |",
        "Eviction policy set to s3.",
        "| lru | standby |",
        "| s3 | active |",
        "Eviction policy set to bad.",
        "unreachable",
        "| 8000 |",
        "| bad | 0 | active | trap | apply: ",
        "Eviction policy set back to s3",
        "| s3 | active |",
    ] {
        let Some(at) = rest.find(wanted) else { panic!("'{wanted}' is not in: {rest}") };
        rest = &rest[at + wanted.len()..];
    }
    let suspended = said.lines().find(|line| line.contains("policy suspended")).expect(&said);
    assert!(suspended.contains("policy=\"bad\""), "{suspended}");
    assert!(suspended.contains("reason=\"trap: apply: wasm trap"), "why: {suspended}");
}

const CANARY: &str = "\
CREATE TABLE reading (station int, at int, value double, PRIMARY KEY (station, at));
INSERT INTO reading SELECT n % 40, n AS at, n AS value FROM generate_series(1, 8000) AS t(n);
FLUSH;
ALTER CACHE SET CAPACITY = '64 KiB';
CREATE POLICY bad FROM 'bad.wasm';
ALTER CACHE SET POLICY = bad MODE = canary;
SELECT name, state, canary FROM system.policies ORDER BY name;
";

#[test]
fn a_canary_shows_how_it_fares_and_says_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("bad.wasm"), guest::saboteur(6).component()).unwrap();
    let reads = (0..600).map(|at| {
        let station = at % 40;
        format!("SELECT max(value) FROM reading WHERE station = {station};\n")
    });
    let end = "SELECT name, state, canary FROM system.policies ORDER BY name;\n";
    let script = CANARY.to_owned() + &reads.collect::<String>() + end;
    std::fs::write(directory.path().join("script.sql"), script).unwrap();
    let (output, said) = tidegate(directory.path(), &["--mode", "csv", "-f", "script.sql"]);
    let mut shown = output.split("name,state,canary\n").skip(1);
    let begun = shown.next().expect("the first look");
    assert!(begun.starts_with("bad,canary,no gain known after 0 of 10 to 60 windows\n"), "{begun}");
    let ended = shown.next().expect("the last look");
    assert!(ended.starts_with("bad,loaded,went back: canary: trap: apply: wasm trap"), "{ended}");
    assert!(ended.contains("\nlru,active,\n"), "{ended}");
    assert!(said.contains("note: SHOW POLICIES tells how the canary fares"), "{said}");
    let line = said.lines().find(|line| line.contains("the canary was rolled back")).expect(&said);
    assert!(line.contains("policy=\"bad\"") && line.contains("trap: apply"), "{line}");
}

/// What compiling `component` with this program's compiler says.
fn compile(arguments: &[&str], limits: CompileLimits, component: &[u8]) -> Result<(), String> {
    let compiler = CompilerCommand {
        program: env!("CARGO_BIN_EXE_tidegate").into(),
        arguments: arguments.iter().map(Into::into).collect(),
        limits,
        ..tidegate::cli::policy_compiler()
    };
    let options = HostOptions { instances_max: 2, compiler: Some(compiler) };
    let compiled = PolicyHost::new(options).unwrap().compile("p", component);
    compiled.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn compiling_ends_at_its_limits() {
    let limits = CompileLimits::default();
    let good = guest::Guest::default().component();
    assert_eq!(compile(&["compile-policy"], limits, &good), Ok(()));

    // As much work as the checks of the structure let through.
    let step = "(if (local.get 0) (then (local.set 0 (i32.mul (local.get 0) (local.get 0)))))";
    let function = format!("(func (param i32) {})", step.repeat(4_000));
    let heavy = guest::Guest { fields: function.repeat(16), ..guest::Guest::default() };
    let heavy = heavy.component();
    let refused = |limits| compile(&["compile-policy"], limits, &heavy).unwrap_err();
    let hasty = refused(CompileLimits { wait: Duration::from_millis(50), ..limits });
    assert!(hasty.contains("compiling it took more than 0.05 s"), "{hasty}");
    let small = refused(CompileLimits { memory_bytes: 24 << 20, ..limits });
    assert!(small.contains("compiling it took more than 25165824 bytes of memory"), "{small}");
    let weak = refused(CompileLimits { cpu_seconds: 1, ..limits });
    assert!(weak.contains("compiling it took more than 1 s of processor time"), "{weak}");

    let other = compile(&["no-such-command"], limits, &good).unwrap_err();
    assert!(other.contains("the compiler ended with exit status: 2"), "{other}");
}
