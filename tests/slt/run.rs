//! Runs the records of a folder of files, each file in a session of its own.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::query::{Session, SessionOptions};
use tidegate_engine::{Database, Durability, Options};

use super::expected::Expected;
use super::record::{Asked, Held};

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

/// Asks them all.
pub async fn run(folder: &Path) -> (Count, Expected) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.shards = Some(2);
    options.durability = Durability::None;
    let database = Database::open(options).await.unwrap();
    let mut expected = Expected::read();
    let mut count = Count::default();
    for path in files(folder) {
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        for asked in Asked::of_file(&path) {
            if asked.needs_table() {
                count.of_tables += 1;
                continue;
            }
            match (asked.ask(&session).await, expected.reason(&name, &asked.sql)) {
                (Held::Yes, None) => count.holding += 1,
                (Held::Yes, Some(_)) => {
                    count.holding += 1;
                    expected.holds(&name, &asked.sql);
                }
                (Held::No(_), Some(_)) => count.listed += 1,
                (Held::No(why), None) => {
                    let line = asked.line;
                    count.differing.push(format!("{name}:{line}: {}\n{why}", asked.sql));
                }
            }
        }
    }
    database.close().await.unwrap();
    (count, expected)
}
