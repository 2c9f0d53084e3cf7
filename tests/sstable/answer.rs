//! The program's answers beside Cassandra's: how it is run, and what makes two answers the same.
//!
//! Shared by the tests of files; each of them uses a part.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]
#![allow(dead_code, reason = "every test that shares this uses a part of it")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub use serde_json::Value as Json;

pub fn fixture(version: &str, table: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    here.join("tests/data/sstables").join(version).join(table)
}

pub fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    run_sharded("3", directory, arguments)
}

pub fn run_sharded(shards: &str, directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .env_clear()
        .env("HOME", directory)
        .env("TMPDIR", directory)
        .env("TIDEGATE_DATA", directory.join("data"))
        .current_dir(directory)
        .args(["--shards", shards, "--timing", "off", "--durability", "none"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn succeeded(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", err(output));
    out(output)
}

/// Runs statements and gives the rows of the last as JSON.
pub fn rows(directory: &Path, statements: &[String]) -> Vec<Json> {
    rows_sharded("3", directory, statements)
}

pub fn rows_sharded(shards: &str, directory: &Path, statements: &[String]) -> Vec<Json> {
    let mut arguments = vec!["--mode", "json"];
    for statement in statements {
        arguments.extend(["-c", statement.as_str()]);
    }
    let output = run_sharded(shards, directory, &arguments);
    let text = succeeded(&output);
    let rows: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // What ATTACH and IMPORT say of each file stands first.
    rows.into_iter()
        .filter(|row| row.get("status").is_none_or(|s| *s != "attached" && *s != "imported"))
        .collect()
}

pub fn attach(version: &str, table: &str) -> String {
    format!("ATTACH SSTABLES '{}' AS {table}", fixture(version, table).display())
}

/// Tables of which Cassandra's answer is known.
pub fn tables() -> Vec<String> {
    let directory = fixture("me", "");
    let mut tables: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("select.jsonl").exists())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    tables.sort();
    assert!(tables.len() >= 29, "{tables:?}");
    tables
}

/// The same value however it is written: addresses, blobs, times and tuples have several forms.
pub fn plain(value: &Json) -> Json {
    match value {
        Json::String(text) => Json::String(plain_text(text)),
        Json::Number(number) => {
            let real = number.as_f64().unwrap();
            match number.as_i64() {
                Some(whole) => whole.into(),
                None if real.fract() == 0.0 && real.abs() < 1e15 => (real as i64).into(),
                None => Json::String(format!("{:e}", real as f32)),
            }
        }
        Json::Array(items) => Json::Array(items.iter().map(plain).collect()),
        Json::Object(members) => {
            let is_tuple = members.keys().enumerate().all(|(i, name)| *name == format!("c{i}"));
            if is_tuple && !members.is_empty() {
                return Json::Array(members.values().map(plain).collect());
            }
            // Intervals are written in other words than durations.
            let members = members.iter().filter(|(name, _)| *name != "c_duration");
            Json::Object(members.map(|(name, value)| (plain_text(name), plain(value))).collect())
        }
        other => other.clone(),
    }
}

pub fn plain_text(text: &str) -> String {
    if let Ok(address) = text.parse::<IpAddr>() {
        return address.to_string();
    }
    let is_hex = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let text = text.strip_prefix("0x").filter(is_hex).unwrap_or(text);
    let is_clock = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() >= 8 && bytes[2] == b':' && bytes[5] == b':'
    };
    let is_moment = text.len() > 10 && text.is_ascii() && is_clock(&text[11..]);
    if !is_moment && !is_clock(text) {
        return text.to_owned();
    }
    let text = text.replace(' ', "T").trim_end_matches('Z').to_owned();
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub fn selected(table: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(fixture("me", table).join("select.jsonl")).unwrap();
    text.lines().map(|line| plain(&serde_json::from_str(line).unwrap())).collect()
}

pub fn sorted(rows: impl IntoIterator<Item = Json>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| plain(&row).to_string()).collect();
    rows.sort();
    rows
}

pub fn assert_same(found: Vec<Json>, wanted: Vec<Json>, what: &str) {
    let (found, wanted) = (sorted(found), sorted(wanted));
    let differs = (0..found.len().max(wanted.len())).find(|&i| found.get(i) != wanted.get(i));
    if let Some(i) = differs {
        panic!("{what}: row {i} is {:?}, not {:?}", found.get(i), wanted.get(i));
    }
}

/// Runs the recorded slices and reversed reads by `run` (table, statement) and compares what it
/// gives with what Cassandra answered: `> statement`, the first rows, `n=count last=row`. How many
/// there are.
pub fn check_queries(run: impl Fn(&str, String) -> Vec<Json>) -> usize {
    let text = std::fs::read_to_string(fixture("me", "queries.txt")).unwrap();
    let mut compared = 0;
    for query in text.split("> ").skip(1) {
        let mut lines = query.lines();
        let statement = lines.next().unwrap().replace("SELECT JSON *", "SELECT *");
        let table = statement.split("fx.").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let statement = statement.replace("fx.", "");
        let found = run(&table, statement.clone());
        let mut first: Vec<&str> = lines.map(str::trim).collect();
        let (count, last) = first.pop().unwrap()["n=".len()..].split_once(" last=").unwrap();
        assert_eq!(found.len().to_string(), count, "{statement}");
        let parse = |text: &str| plain(&serde_json::from_str::<Json>(text).unwrap());
        for (found, wanted) in found.iter().zip(first) {
            assert_eq!(plain(found), parse(wanted), "{statement}");
        }
        assert_eq!(plain(found.last().unwrap()), parse(last), "{statement}");
        compared += 1;
    }
    compared
}
