//! The statements that wrote the fixtures, by table, in our SQL.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]
#![allow(dead_code, reason = "every test that shares this uses a part of it")]

use std::io::Read;
use std::path::Path;

use super::cql::{Table, Translator};

/// Tables that are not replayed, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("counters", "a dump names the node that counted, and ours is another one"),
    ("simple_none", "its statements are those of simple_lz4 and stand there only"),
    ("simple_zstd", "its statements are those of simple_lz4 and stand there only"),
    ("tombs_lz4", "its statements are those of tombs and stand there only"),
    ("wide_lz4", "its statements are those of wide_none and stand there only"),
];

/// Most statements of one table: of simple_lz4 and wide_none, which have 3,000 and 20,003 alike,
/// every so manieth is replayed.
const STATEMENTS_MAX: usize = 1000;

/// Rows of one INSERT where neighbours differ in their values only.
const ROWS_MAX: usize = 100;

/// A table that is replayed.
pub struct Replayed {
    pub name: String,
    pub table: Table,
    /// CREATE TABLE as Cassandra takes it, without options of files.
    pub create_cql: String,
    /// CREATE TABLE and what fills it, in our SQL.
    pub statements: Vec<String>,
    /// Whether every row of the fixture is written.
    pub is_whole: bool,
}

/// The statements of the keyspace and the types, and every table.
pub fn replayed() -> (Vec<String>, Vec<Replayed>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let file = std::fs::File::open(root.join("tests/data/sstables/statements.cql.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut translator = Translator::default();
    let (mut first, mut tables) = (Vec::new(), Vec::new());
    let mut open: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim_end_matches(';');
        if line.starts_with("CREATE KEYSPACE") || line.starts_with("CREATE TYPE") {
            first.push(translator.statement(line));
        } else if let Some(name) = line.strip_prefix("-- flush fx.") {
            let statements = std::mem::take(&mut open);
            if !LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
                tables.push(replay(&mut translator, name, &statements));
            }
        } else {
            open.push(line);
        }
    }
    assert_eq!((first.len(), tables.len(), open.len()), (2, 30, 0), "the statements are all there");
    (first, tables)
}

fn replay(translator: &mut Translator, name: &str, cql: &[&str]) -> Replayed {
    let (create, rest) = cql.split_first().unwrap();
    assert!(!rest.is_empty(), "{name} has no rows");
    let mut statements = vec![translator.statement(create)];
    let table = translator.tables[&format!("fx.{name}")].clone();
    let step = rest.len().div_ceil(STATEMENTS_MAX);
    // Rows of one INSERT have one type a column, and numbers of all kinds would become one.
    let is_plain = |ty: &str| ["int", "bigint", "text", "blob"].contains(&ty);
    let joins = table.columns.iter().all(|(_, ty)| is_plain(ty));
    let mut rows = 0;
    for statement in rest.iter().step_by(step) {
        let statement = translator.statement(statement);
        if joins
            && rows < ROWS_MAX
            && let Some((head, row, tail)) = parts(&statement)
            && let Some((last_head, last_rows, last_tail)) = parts(statements.last().unwrap())
            && (head, tail) == (last_head, last_tail)
        {
            let joined = format!("{head} VALUES {last_rows}, {row} USING {tail}");
            *statements.last_mut().unwrap() = joined;
            rows += 1;
            continue;
        }
        rows = 1;
        statements.push(statement);
    }
    let create_cql = create.split(" WITH ").next().unwrap().to_owned();
    let order = statements[0].split_once(" WITH CLUSTERING ORDER BY ").map(|(_, order)| {
        format!(" WITH CLUSTERING ORDER BY {}", order.split_once(" AND ").unwrap().0)
    });
    let create_cql = create_cql + &order.unwrap_or_default();
    Replayed { name: name.to_owned(), table, create_cql, statements, is_whole: step == 1 }
}

/// `INSERT INTO t (…)`, the rows, and what stands after USING.
fn parts(statement: &str) -> Option<(&str, &str, &str)> {
    if !statement.starts_with("INSERT") {
        return None;
    }
    let (head, rest) = statement.split_once(" VALUES ")?;
    let (rows, tail) = rest.rsplit_once(" USING ")?;
    Some((head, rows, tail))
}
