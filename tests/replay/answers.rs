//! Queries on whole tables and reversed partitions, in CQL and in our SQL, and dumps as what they
//! say.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]
#![allow(dead_code, reason = "every test that shares this uses a part of it")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::answer::{Json, plain};
use super::cql::Table;

/// Most partitions of a table that are read backward.
const PARTITIONS_MAX: usize = 8;

/// One question in both languages.
#[derive(Debug, Clone)]
pub struct Query {
    pub cql: String,
    pub sql: String,
    /// Whether both sort alike. UUIDs and addresses are text in SQL, and what holds other values
    /// has an order of its own.
    pub is_ordered: bool,
}

impl Query {
    /// `rest` follows `SELECT … FROM` and means the same in both.
    pub fn same(rest: &str) -> Query {
        let (cql, sql) = (format!("SELECT JSON * FROM {rest}"), format!("SELECT * FROM {rest}"));
        Query { cql, sql, is_ordered: true }
    }
}

/// Partition by partition from the end, in the order in which `rows`, all of the table, first name
/// them, and what must come out.
pub fn reversed(name: &str, table: &Table, rows: &[Json]) -> Vec<(Query, Vec<Json>)> {
    if table.clustering_key.is_empty() {
        return Vec::new();
    }
    let key_of = |row: &Json| -> Vec<Json> {
        table.partition_key.iter().map(|column| row[column].clone()).collect()
    };
    let has_own_order = |ty: &str| ["uuid", "timeuuid", "inet"].contains(&ty) || ty.contains('<');
    let is_ordered = !table.clustering_key.iter().any(|column| has_own_order(table.ty(column)));
    let order: Vec<String> = table
        .clustering_key
        .iter()
        .map(|column| {
            let is_descending = table.descending.contains(column);
            format!("{column} {}", if is_descending { "ASC" } else { "DESC" })
        })
        .collect();
    let mut queries: Vec<(Query, Vec<Json>)> = Vec::new();
    for partition in rows.chunk_by(|a, b| key_of(a) == key_of(b)).take(PARTITIONS_MAX) {
        let condition = |is_cql: bool| {
            let keys = table.partition_key.iter().zip(key_of(&partition[0]));
            let all = keys.map(|(column, value)| {
                let value = match (table.ty(column), value) {
                    ("int" | "bigint", value) => value.to_string(),
                    ("uuid", Json::String(text)) if is_cql => text,
                    ("uuid" | "text", Json::String(text)) => format!("'{text}'"),
                    (ty, value) => panic!("{name}.{column}: a key of type {ty}: {value}"),
                };
                format!("{column} = {value}")
            });
            all.collect::<Vec<_>>().join(" AND ")
        };
        let order = order.join(", ");
        let query = Query {
            cql: format!("SELECT JSON * FROM {name} WHERE {} ORDER BY {order}", condition(true)),
            sql: format!("SELECT * FROM {name} WHERE {} ORDER BY {order}", condition(false)),
            is_ordered,
        };
        queries.push((query, partition.iter().rev().cloned().collect()));
    }
    queries
}

/// Runs statements that come by stdin; every line of stdout is a row.
pub fn run_script(directory: &Path, shards: &str, script: &str) -> Vec<Json> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .env_clear()
        .env("HOME", directory)
        .env("TMPDIR", directory)
        .env("TIDEGATE_DATA", directory.join("data"))
        .current_dir(directory)
        .args(["--shards", shards, "--timing", "off", "--durability", "none", "--mode", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = script.to_owned();
    // Both pipes would fill up.
    let writer = std::thread::Builder::new()
        .spawn(move || {
            // A statement that fails ends the program, which says so itself.
            let _ = stdin.write_all(text.as_bytes());
        })
        .unwrap();
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Answers of many queries, one after another, in one run of the program.
pub fn ask(directory: &Path, prelude: &str, queries: &[&str]) -> Vec<Vec<Json>> {
    let mut script = prelude.to_owned();
    for (number, query) in queries.iter().enumerate() {
        script.push_str(&format!("SELECT {number} AS query_number;\n{query};\n"));
    }
    let rows = run_script(directory, "1", &script);
    let mut answers: Vec<Vec<Json>> = Vec::new();
    for row in rows {
        match row.get("query_number") {
            Some(number) => {
                assert_eq!(*number, answers.len());
                answers.push(Vec::new());
            }
            // What ATTACH says stands before the first.
            None => answers.last_mut().into_iter().for_each(|last| last.push(row.clone())),
        }
    }
    assert_eq!(answers.len(), queries.len());
    answers
}

/// Compares rows one by one, in their order where both sides sort alike.
pub fn assert_rows(found: &[Json], wanted: &[Json], query: &Query) {
    let what = &query.cql;
    if !query.is_ordered {
        let sorted = |rows: &[Json]| {
            let mut rows: Vec<String> = rows.iter().map(|row| plain(row).to_string()).collect();
            rows.sort();
            rows
        };
        assert_eq!(sorted(found), sorted(wanted), "{what}");
        return;
    }
    for (number, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert_eq!(plain(found), plain(wanted), "{what}, row {number}");
    }
    assert_eq!(found.len(), wanted.len(), "{what}");
}

/// What a dump says, one entry a partition's head and one a row or marker; without what depends on
/// when and where it was written: positions, local deletion and expiry times, paths of lists.
/// Numbers are texts of their digits, whatever zeros they were written with.
pub fn content(dump: &str) -> Vec<String> {
    let dump: Json = serde_json::from_str(&quoted_numbers(dump)).unwrap();
    let mut all = Vec::new();
    for partition in dump.as_array().unwrap() {
        let mut head = partition["partition"].clone();
        strip(&mut head);
        let key = head["key"].to_string();
        all.push(head.to_string());
        for row in partition["rows"].as_array().into_iter().flatten() {
            let mut row = row.clone();
            strip(&mut row);
            all.push(format!("{key} {row}"));
        }
    }
    all
}

fn strip(value: &mut Json) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(strip),
        Json::Object(members) => {
            for name in ["position", "local_delete_time", "expires_at"] {
                members.remove(name);
            }
            if let Some(Json::Array(path)) = members.get_mut("path")
                && let [Json::String(path)] = path.as_mut_slice()
                && path.len() == 36
                && path.as_bytes()[14] == b'1'
            {
                "a place in a list".clone_into(path);
            }
            members.values_mut().for_each(strip);
        }
        _ => {}
    }
}

/// JSON with every number outside of strings as a text: its sign, its digits, and a power of ten.
fn quoted_numbers(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let bytes = rest.as_bytes();
            let mut end = 1;
            while bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            out.push_str(&rest[..=end]);
            rest = &rest[end + 1..];
        } else if c.is_ascii_digit() || c == '-' {
            let is_part = |c: char| c.is_ascii_digit() || "-+.eE".contains(c);
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            out.push_str(&format!("\"{}\"", digits(&rest[..end])));
            rest = &rest[end..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

fn digits(number: &str) -> String {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().unwrap();
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let trimmed = all.trim_end_matches('0');
    let power = exponent - fraction.len() as i64 + (all.len() - trimmed.len()) as i64;
    match trimmed.trim_start_matches('0') {
        "" => format!("{sign}0"),
        kept => format!("{sign}{kept}e{power}"),
    }
}
