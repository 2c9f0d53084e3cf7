//! What statements say of files that cannot be read.

use std::path::{Path, PathBuf};

use tidegate_engine::{Database, Options};

use super::super::World;
use crate::query::{ErrorKind, Session, SessionOptions};

/// The data files of a table.
fn data_files(directory: &Path, table: &str) -> Vec<PathBuf> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = entries(&directory.join("data/data/default")).into_iter();
    let is_of_table = |folder: &PathBuf| {
        let name = folder.file_name().unwrap().to_string_lossy();
        name.starts_with(&format!("{table}-"))
    };
    let files = folders.filter(is_of_table).flat_map(|folder| entries(&folder));
    files.filter(|path| path.to_string_lossy().ends_with("-Data.db")).collect()
}

/// Rows that cannot be read are no rows that are not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_meets_damage_fails_whatever_it_makes_of_the_rows() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("CREATE TABLE u (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world
        .run(
            "INSERT INTO t SELECT value / 100, value % 100, 'v' || value \
             FROM generate_series(0, 4999) AS s(value)",
        )
        .await;
    world.run("FLUSH t").await;
    let World { session, directory } = world;
    session.database().close().await.unwrap();
    drop(session);
    let files = data_files(directory.path(), "t");
    assert!(!files.is_empty(), "the rows are in files");
    for file in files {
        let mut content = std::fs::read(&file).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        std::fs::write(&file, content).unwrap();
    }
    let mut open = Options::new(directory.path().join("data"));
    open.shards = Some(2);
    let database = Database::open(open).await.unwrap();
    let session = Session::new(database, SessionOptions::default()).unwrap();
    let world = World { session, directory };
    for text in [
        "SELECT count(v) FROM t",
        "SELECT ck FROM t WHERE v <> 'x'",
        "SELECT v FROM t ORDER BY v LIMIT 1",
        "SELECT DISTINCT v FROM t",
        "SELECT pk, max(v) FROM t GROUP BY pk",
        "SELECT ck, lag(v) OVER (PARTITION BY pk ORDER BY ck DESC) FROM t",
        "SELECT count(*) FROM t a JOIN t b ON a.v = b.v",
        "SELECT v FROM t PER PARTITION LIMIT 100",
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM t WHERE v = 'x')",
        "INSERT INTO u SELECT * FROM t",
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, ErrorKind::Corrupt, "{text}: {error}");
        assert!(error.message.contains("-Data.db"), "{text}: {error}");
    }
}
