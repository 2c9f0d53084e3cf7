//! The statements that wrote Cassandra's fixtures, run through our SQL: our files say what its
//! files say, and both answer as Cassandra did, forward and reversed.
//!
//! Left out, because a dump names the node that counted: the table `counters`. Every literal is
//! written as our SQL writes it (`replay/cql.rs`). Of the two tables with thousands of like rows a
//! part is replayed.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "sstable/answer.rs"]
mod answer;
#[path = "replay/answers.rs"]
mod answers;
#[path = "replay/cql.rs"]
mod cql;
#[path = "replay/statements.rs"]
mod statements;

use std::path::{Path, PathBuf};

use answer::{Json, check_queries, fixture, run_in, succeeded};
use answers::{Query, ask, assert_rows, content, reversed, run_script};
use cql::Translator;
use statements::{LEFT_OUT, Replayed, replayed};

fn data_files(directory: &Path, table: &str) -> Vec<PathBuf> {
    let tables = std::fs::read_dir(directory.join("data/data/fx")).unwrap();
    let mut folders = tables.map(|entry| entry.unwrap().path());
    let is_of = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.rsplit_once('-').is_some_and(|(name, _)| name == table)
    };
    let folder = folders.find(is_of).unwrap_or_else(|| panic!("no files of {table}"));
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().ends_with("-Data.db")).collect()
}

fn dump(directory: &Path, file: &Path) -> String {
    succeeded(&run_in(directory, &["sstable", "dump-data", file.to_str().unwrap()]))
}

/// What Cassandra's tool prints of a fixture; of those whose dump is not kept, what ours prints,
/// which another test compares with Cassandra's.
fn theirs(directory: &Path, table: &str) -> String {
    let version = if table == "rawchunks" { "nb" } else { "me" };
    let folder = fixture(version, table);
    match std::fs::read_to_string(folder.join("expected.json")) {
        Ok(text) => text,
        Err(_) => dump(directory, &folder.join(format!("{version}-1-big-Data.db"))),
    }
}

/// Every entry of `found` is one of `wanted`, in the same order; all of them where `is_whole`.
fn assert_content(found: &[String], wanted: &[String], is_whole: bool, what: &str) {
    let mut rest = wanted.iter();
    for entry in found {
        let near = if is_whole { rest.next() } else { rest.find(|other| *other == entry) };
        let Some(near) = near else { panic!("{what}: Cassandra does not say\n{entry}") };
        assert_eq!(near, entry, "{what}: Cassandra's is on the left");
    }
    if is_whole {
        assert_eq!(rest.next(), None, "{what}: only Cassandra says that");
    }
}

#[test]
fn replayed_statements_give_what_cassandra_wrote_and_answered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (first, tables) = replayed();
    let mut script = first.join(";\n") + ";\n";
    for table in &tables {
        script.push_str(&(table.statements.join(";\n") + ";\n"));
    }
    script.push_str("FLUSH;\n");
    run_script(path, "1", &script);
    let mut rows_written = 0;
    for Replayed { name, is_whole, .. } in &tables {
        let files = data_files(path, name);
        assert_eq!(files.len(), 1, "{name}");
        let (found, wanted) = (content(&dump(path, &files[0])), content(&theirs(path, name)));
        assert_content(&found, &wanted, *is_whole, name);
        rows_written += found.len();
    }
    assert!(rows_written > 4000, "{rows_written}");
    let left_out: Vec<&str> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    // The recorded answers, in their order, and every partition from its end.
    let known = tables.iter().filter(|table| table.is_whole && table.name != "rawchunks");
    let all = ask_all(path, "", known.map(|table| table.name.as_str()), "fx.");
    assert_eq!(all, 27);
    let compared = check_queries(|table, statement| {
        let partial = tables.iter().any(|other| other.name == table && !other.is_whole);
        match partial || left_out.contains(&table) {
            // Nothing of it is written, or a part.
            true => attached(table, &statement),
            false => {
                let statement = statement.replace(" FROM ", " FROM fx.");
                ask(path, "", &[&statement]).remove(0)
            }
        }
    });
    assert_eq!(compared, 7);
}

fn attached(table: &str, statement: &str) -> Vec<Json> {
    let directory = tempfile::tempdir().unwrap();
    ask(directory.path(), &(answer::attach("me", table) + ";\n"), &[statement]).remove(0)
}

#[test]
fn attached_fixtures_answer_as_cassandra_forward_and_reversed() {
    let directory = tempfile::tempdir().unwrap();
    let names = answer::tables();
    let prelude: String = names.iter().map(|name| answer::attach("me", name) + ";\n").collect();
    let all = ask_all(directory.path(), &prelude, names.iter().map(String::as_str), "");
    assert_eq!(all, names.len());
}

/// Reads whole tables and their partitions from the end; compares with what Cassandra selected.
fn ask_all<'a>(
    path: &Path,
    prelude: &str,
    names: impl Iterator<Item = &'a str>,
    keyspace: &str,
) -> usize {
    let mut translator = Translator::default();
    let schema = std::fs::read_to_string(fixture("me", "schema.cql")).unwrap();
    for line in schema.lines().filter(|line| line.starts_with("CREATE T")) {
        translator.statement(&line.trim_end_matches(';').replace("compression=", "compression = "));
    }
    let (mut questions, mut wanted, mut tables) = (Vec::new(), Vec::new(), 0);
    for name in names {
        let recorded = std::fs::read_to_string(fixture("me", name).join("select.jsonl")).unwrap();
        let rows: Vec<Json> =
            recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let table = &translator.tables[&format!("fx.{name}")];
        let backward = reversed(&format!("{keyspace}{name}"), table, &rows);
        questions.push(Query::same(&format!("{keyspace}{name}")));
        wanted.push(rows);
        for (query, rows) in backward {
            questions.push(query);
            wanted.push(rows);
        }
        tables += 1;
    }
    let texts: Vec<&str> = questions.iter().map(|query| query.sql.as_str()).collect();
    let answers = ask(path, prelude, &texts);
    for ((answer, wanted), question) in answers.iter().zip(&wanted).zip(&questions) {
        assert_rows(answer, wanted, question);
    }
    tables
}
