//! A record, and whether what it expects holds.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use futures::FutureExt;
use sqllogictest::{
    Condition, DefaultColumnType, QueryExpect, Record, SortMode, StatementExpect, parse_file,
};
use tidegate::query::Session;

use super::cell::{names_table, rows};

/// Stands for any text in an expected result.
const ANYTHING: &str = "<slt:ignore>";

/// See the head of this file.
#[derive(Debug)]
pub struct Asked {
    pub line: u32,
    pub sql: String,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    /// It ends without an error.
    Done,
    Error,
    Rows(Vec<String>, SortMode),
}

#[derive(Debug)]
pub enum Held {
    Yes,
    /// What was found instead.
    No(String),
}

fn is_for_us(conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| match condition {
        Condition::OnlyIf { label } => label == "DataFusion",
        Condition::SkipIf { label } => label != "DataFusion",
    })
}

impl Asked {
    /// The records of a file.
    pub fn of_file(path: &Path) -> Vec<Self> {
        let records = parse_file::<DefaultColumnType>(path);
        let records = records.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        records.into_iter().filter_map(Asked::of).collect()
    }

    fn of(record: Record<DefaultColumnType>) -> Option<Self> {
        let (loc, conditions, sql, wanted) = match record {
            Record::Statement { loc, conditions, sql, expected, .. } => {
                let wanted = match expected {
                    StatementExpect::Ok | StatementExpect::Count(_) => Wanted::Done,
                    StatementExpect::Error(_) => Wanted::Error,
                };
                (loc, conditions, sql, wanted)
            }
            Record::Query { loc, conditions, sql, expected, .. } => {
                let wanted = match expected {
                    QueryExpect::Results { sort_mode, results, .. } => {
                        Wanted::Rows(results, sort_mode.unwrap_or(SortMode::NoSort))
                    }
                    QueryExpect::Error(_) => Wanted::Error,
                };
                (loc, conditions, sql, wanted)
            }
            _ => return None,
        };
        is_for_us(&conditions).then(|| Asked { line: loc.line(), sql, wanted })
    }

    /// Whether it is about a table or view.
    pub fn needs_table(&self) -> bool {
        names_table(&self.sql)
    }

    pub async fn ask(&self, session: &Session) -> Held {
        let asking = async {
            let outcome = match session.execute(&self.sql).await {
                Ok(outcome) => outcome.collect().await,
                Err(error) => Err(error),
            };
            outcome.map_err(|error| error.render(&self.sql))
        };
        let outcome = match AssertUnwindSafe(asking).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(_) => return Held::No("it panics".to_owned()),
        };
        match (&self.wanted, outcome) {
            (Wanted::Done, Ok(_)) | (Wanted::Error, Err(_)) => Held::Yes,
            (Wanted::Error, Ok(_)) => Held::No("wanted an error".to_owned()),
            (Wanted::Done | Wanted::Rows(..), Err(error)) => Held::No(error),
            (Wanted::Rows(wanted, sort), Ok(batches)) => {
                let found = sorted(rows(&batches), *sort);
                match is_same(wanted, &found) {
                    true => Held::Yes,
                    false => {
                        let (wanted, found) = (wanted.join("\n"), found.join("\n"));
                        Held::No(format!("wanted\n{wanted}\nfound\n{found}"))
                    }
                }
            }
        }
    }
}

/// Rows as lines, in the order that a record wants.
fn sorted(rows: Vec<Vec<String>>, sort: SortMode) -> Vec<String> {
    let line = |row: Vec<String>| row.join(" ").trim_end().to_owned();
    match sort {
        SortMode::NoSort => rows.into_iter().map(line).collect(),
        SortMode::RowSort => {
            let mut rows = rows;
            rows.sort_unstable();
            rows.into_iter().map(line).collect()
        }
        SortMode::ValueSort => {
            let mut values: Vec<String> = rows.into_iter().flatten().collect();
            values.sort_unstable();
            values
        }
    }
}

/// Whether lines are those that are wanted, where `<slt:ignore>` stands for anything.
fn is_same(wanted: &[String], found: &[String]) -> bool {
    let wanted: Vec<&str> = wanted.iter().map(|line| line.trim_end()).collect();
    if !wanted.iter().any(|line| line.contains(ANYTHING)) {
        return wanted == found;
    }
    let (wanted, found) = (wanted.join("\n"), found.join("\n"));
    let mut rest = &found[..];
    for (at, part) in wanted.split(ANYTHING).enumerate() {
        match rest.find(part) {
            Some(place) if at > 0 || place == 0 => rest = &rest[place + part.len()..],
            _ => return false,
        }
    }
    true
}

#[test]
fn anything_stands_for_some_text() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    assert!(is_same(&lines("a 1\nb <slt:ignore> c"), &lines("a 1\nb x\ny c")));
    assert!(!is_same(&lines("a <slt:ignore> c"), &lines("b a x c")));
    assert!(!is_same(&lines("a <slt:ignore> c"), &lines("a x d")));
    assert!(is_same(&lines("a  "), &lines("a")) && !is_same(&lines("a"), &lines("a\nb")));
}
