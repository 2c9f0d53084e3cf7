//! The 22 queries of TPC-H against stored answers, order included.
//!
//! `tpchgen` makes the tables, COPY loads them, and DuckDB computed the answers over the same
//! tables (`tests/tpch/answers.py`). `TIDEGATE_TPCH_SCALE` is 0.01 or 0.1; the folder that
//! `TIDEGATE_TPCH_TABLES` names keeps the tables as CSV.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::query::arrow::array::RecordBatch;
use tidegate::query::arrow::util::display::array_value_to_string;
use tidegate::query::{Session, SessionOptions};
use tidegate_engine::{Database, Durability, Options};

use tables::{TABLES, folder, query, write_tables};

/// Digits behind the point from which on a stored number is a double, and no sum of decimals.
const EXACT_DIGITS: usize = 6;
/// How far an average or a quotient may be from the stored double: they are decimals here.
const TOLERANCE: f64 = 1e-6;

async fn run(session: &Session, text: &str) -> Vec<RecordBatch> {
    let outcome = match session.execute(text).await {
        Ok(outcome) => outcome.collect().await,
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| panic!("{}", error.render(text)))
}

async fn load(session: &Session, tables: &Path) {
    for (name, columns) in TABLES {
        run(session, &format!("CREATE TABLE {name} ({columns})")).await;
        if name == "orders" {
            run(session, "FLUSH").await;
        }
        let file = tables.join(format!("{name}.csv"));
        let copy = format!("COPY {name} FROM '{}' WITH (FORMAT csv, HEADER true)", file.display());
        run(session, &copy).await;
    }
}

/// Rows as lists of texts; nulls as `NULL`.
fn texts(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let cell = |batch: &RecordBatch, column: usize, row: usize| match batch.column(column) {
        array if array.is_null(row) => "NULL".to_owned(),
        array => array_value_to_string(array, row).unwrap(),
    };
    let row = |batch: &RecordBatch, row: usize| {
        (0..batch.num_columns()).map(|column| cell(batch, column, row)).collect()
    };
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>())
        .collect()
}

/// One line of a stored answer: cells may be quoted.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

/// Whether a cell is the stored one. Trailing zeros behind a point mean nothing.
fn is_same(stored: &str, found: &str) -> bool {
    fn plain(text: &str) -> &str {
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => text,
        }
    }
    if plain(stored) == plain(found) {
        return true;
    }
    let is_double = stored.split_once('.').is_some_and(|(_, digits)| digits.len() > EXACT_DIGITS);
    match (stored.parse::<f64>(), found.parse::<f64>()) {
        (Ok(stored), Ok(found)) => is_double && (stored - found).abs() <= TOLERANCE,
        _ => false,
    }
}

async fn check(session: &Session, name: &str, scale: &str) {
    let text = query(name, scale.parse().unwrap());
    let found = texts(&run(session, &text).await);
    let stored = folder().join(format!("answers/sf{scale}/{name}.csv"));
    let stored = fs::read_to_string(stored).unwrap();
    let stored: Vec<Vec<String>> = stored.lines().map(cells).collect();
    assert_eq!(found.len(), stored.len(), "{name}: number of rows");
    for (at, (stored, found)) in stored.iter().zip(&found).enumerate() {
        let is_row = stored.len() == found.len()
            && stored.iter().zip(found).all(|(stored, found)| is_same(stored, found));
        assert!(is_row, "{name}, row {at}:\nstored {stored:?}\nfound  {found:?}");
    }
}

#[test]
fn all_queries_give_the_stored_answers() {
    let scale = std::env::var("TIDEGATE_TPCH_SCALE").unwrap_or_else(|_| "0.01".to_owned());
    let directory = tempfile::tempdir().unwrap();
    let tables = match std::env::var("TIDEGATE_TPCH_TABLES") {
        Ok(folder) => PathBuf::from(folder),
        Err(_) => directory.path().to_owned(),
    };
    write_tables(&tables, scale.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut options = Options::new(directory.path().join("data"));
        options.shards = Some(2);
        options.durability = Durability::None;
        let database = Database::open(options).await.unwrap();
        let session = Session::new(database, SessionOptions::default()).unwrap();
        load(&session, &tables).await;
        for number in 1..=22 {
            check(&session, &format!("q{number:02}"), &scale).await;
        }
        session.database().close().await.unwrap();
    });
}

#[test]
fn cells_are_told_apart() {
    assert_eq!(cells(r#"a,"b,""c""",,1"#), ["a", "b,\"c\"", "", "1"]);
    assert!(is_same("1.50", "1.5") && is_same("7", "7.000000") && is_same("x", "x"));
    assert!(!is_same("100", "1") && !is_same("1.50", "1.51"));
    assert!(is_same("25.537587116854997", "25.537587"));
    assert!(!is_same("25.537587116854997", "25.537589"));
}
