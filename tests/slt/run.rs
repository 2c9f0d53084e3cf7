//! Runs the records of a folder of files, each file in a session of its own.

use std::fs;
use std::path::{Path, PathBuf};

use futures::{StreamExt, stream};
use tidegate::query::{Session, SessionOptions};
use tidegate_engine::{Database, Durability, Options};

use super::expected::Expected;
use super::record::{Asked, Held};

/// Files that are asked side by side.
const FILES_AT_ONCE: usize = 4;

/// All files below a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let below = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => Vec::from_iter(path.extension().is_some_and(|kind| kind == "slt").then_some(path)),
    };
    paths.into_iter().flat_map(below).collect()
}

/// What became of the records.
#[derive(Debug, Default)]
pub struct Count {
    pub holding: usize,
    /// They differ, and are listed.
    pub listed: usize,
    /// They differ: file, line, statement, and what was found.
    pub differing: Vec<String>,
    /// They were left out.
    pub of_tables: usize,
}

impl Count {
    /// Those that are not listed.
    pub fn asked(&self) -> usize {
        self.holding + self.differing.len()
    }
}

/// How many records of a file are about tables, and the others.
fn questions(path: &Path) -> (usize, Vec<Asked>) {
    let (of_tables, others): (Vec<Asked>, Vec<Asked>) =
        Asked::of_file(path).into_iter().partition(Asked::needs_table);
    (of_tables.len(), others)
}

/// What becomes of the records of a file.
async fn ask(session: Session, file: String, all: Vec<Asked>) -> (String, Vec<(Asked, Held)>) {
    let mut records = Vec::with_capacity(all.len());
    for asked in all {
        let held = asked.ask(&session).await;
        records.push((asked, held));
    }
    (file, records)
}

/// Asks them all, some files at once. A file that is listed whole is not asked.
pub async fn run(folder: &Path) -> (Count, Expected) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.shards = Some(2);
    options.durability = Durability::None;
    let database = Database::open(options).await.unwrap();
    let mut expected = Expected::read();
    let mut count = Count::default();
    let mut asking = Vec::new();
    for path in files(folder) {
        let file = path.strip_prefix(folder).unwrap().display().to_string();
        let (of_tables, others) = questions(&path);
        count.of_tables += of_tables;
        if expected.has_whole(&file) {
            count.listed += others.len();
            continue;
        }
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        asking.push(ask(session, file, others));
    }
    let asking = asking.into_iter().map(tokio::spawn);
    let mut answered = stream::iter(asking).buffered(FILES_AT_ONCE);
    while let Some(answered) = answered.next().await {
        let (file, records) = answered.unwrap();
        for (asked, held) in records {
            let is_listed = expected.lists(&file, &asked.sql);
            match held {
                Held::Yes => count.holding += 1,
                Held::No(_) if is_listed => count.listed += 1,
                Held::No(why) => {
                    let line = asked.line;
                    count.differing.push(format!("{file}:{line}: {}\n{why}", asked.sql));
                }
            }
        }
    }
    drop(answered);
    database.close().await.unwrap();
    (count, expected)
}
