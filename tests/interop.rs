//! What Cassandra itself says of files that we wrote: its tools dump and verify them, a node takes
//! them in and answers queries as we do.
//!
//! `interop/node.rs` brings Apache Cassandra. Where it cannot, the test says on stderr that it was
//! skipped, and why. Files with counters are not among ours.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "sstable/answer.rs"]
mod answer;
#[path = "replay/answers.rs"]
mod answers;
#[path = "replay/cql.rs"]
mod cql;
#[path = "interop/node.rs"]
mod node;
#[path = "skip.rs"]
mod skip;
#[path = "replay/statements.rs"]
mod statements;
#[path = "interop/tables.rs"]
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use answer::{Json, run_in, succeeded};
use answers::{Query, ask, assert_rows, reversed, run_script};
use cql::Table;
use node::sources;

/// A table that was written and that Cassandra judges.
struct Judged {
    name: String,
    table: Table,
    create_cql: String,
    queries: Vec<Query>,
}

/// Writes the tables and says what is asked of each. Those of our own are compacted of two
/// SSTables.
fn write_tables(path: &Path) -> Vec<Judged> {
    let (first, replayed) = statements::replayed();
    let mut script = first.join(";\n") + ";\n";
    let mut judged = Vec::new();
    for table in replayed {
        script.push_str(&(table.statements.join(";\n") + ";\n"));
        judged.push(Judged {
            name: table.name,
            table: table.table,
            // ASCII is text with us, and so in our files' headers.
            create_cql: table.create_cql.replace(" ascii", " text"),
            queries: Vec::new(),
        });
    }
    for own in tables::tables() {
        let with = if own.create.contains(") WITH ") { "AND" } else { "WITH" };
        script.push_str(&format!("{} {with} {};\n", own.create, own.options));
        let (before, after) = own.statements.split_at(own.statements.len() / 2);
        if !before.is_empty() {
            script.push_str(&format!("{};\nFLUSH fx.{};\n", before.join(";\n"), own.name));
        }
        script.push_str(&format!("{};\nCOMPACT fx.{};\n", after.join(";\n"), own.name));
        judged.push(Judged {
            name: own.name,
            table: own.table,
            create_cql: own.create,
            queries: own.queries,
        });
    }
    script.push_str("FLUSH;\n");
    run_script(path, "1", &script);
    judged
}

fn data_file(path: &Path, table: &str) -> PathBuf {
    let folders = fs::read_dir(path.join("data/data/fx")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let is_of = |folder: &PathBuf| {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        name.rsplit_once('-').is_some_and(|(name, _)| name == table)
    };
    let files: Vec<PathBuf> = folders
        .filter(is_of)
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|file| file.to_string_lossy().ends_with("-Data.db"))
        .collect();
    assert_eq!(files.len(), 1, "{table}: {files:?}");
    files[0].clone()
}

fn lines(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().map(|line| line + "\n").collect()
}

#[test]
fn cassandra_takes_our_files_and_reads_in_them_what_we_read() {
    let class_path = match node::class_path() {
        Ok(class_path) => class_path,
        Err(reason) => {
            return skip::skip("Cassandra on our files", &reason);
        }
    };
    let directory = tempfile::tempdir().unwrap();
    let (path, work) = (directory.path(), directory.path().join("judge"));
    fs::create_dir(&work).unwrap();
    let judged = write_tables(path);
    let files: Vec<PathBuf> = judged.iter().map(|table| data_file(path, &table.name)).collect();

    // What is asked: whole tables, partitions from the end, and what a table has of its own.
    let whole: Vec<Query> =
        judged.iter().map(|table| Query::same(&format!("fx.{}", table.name))).collect();
    let texts: Vec<&str> = whole.iter().map(|query| query.sql.as_str()).collect();
    let mut queries: Vec<Query> = whole.clone();
    let mut ours = ask(path, "", &texts);
    for (table, rows) in judged.iter().zip(ours.clone()) {
        assert!(!rows.is_empty(), "{}", table.name);
        let backward = reversed(&format!("fx.{}", table.name), &table.table, &rows);
        queries.extend(backward.into_iter().map(|(query, _)| query));
        queries.extend(table.queries.iter().cloned());
    }
    let texts: Vec<&str> = queries[whole.len()..].iter().map(|query| query.sql.as_str()).collect();
    ours.extend(ask(path, "", &texts));

    // What the Java side reads.
    node::configure(&work, None);
    let keyspace = "CREATE KEYSPACE fx WITH replication = \
                    {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let ty = "CREATE TYPE fx.addr (street text, zip int, tags frozen<set<text>>)";
    let creates = judged.iter().map(|table| table.create_cql.clone());
    let schema = [keyspace.to_owned(), ty.to_owned()].into_iter().chain(creates);
    fs::write(work.join("schema.cql"), lines(schema)).unwrap();
    let import = |(table, file): (&Judged, &PathBuf)| {
        format!("fx\t{}\t{}", table.name, file.parent().unwrap().display())
    };
    fs::write(work.join("imports.txt"), lines(judged.iter().zip(&files).map(import))).unwrap();
    let question = |(number, query): (usize, &Query)| {
        format!("answers.jsonl\t{}\t{{\"query_number\": {number}}}", query.cql)
    };
    fs::write(work.join("queries.txt"), lines(queries.iter().enumerate().map(question))).unwrap();
    let dump = |(table, file): (&Judged, &PathBuf)| {
        let (name, work, file) = (&table.name, work.display(), file.display());
        format!("{file}\t{work}/{name}.json\t{work}/{name}.metadata")
    };
    fs::write(work.join("dumps.txt"), lines(judged.iter().zip(&files).map(dump))).unwrap();
    let verify = lines(judged.iter().map(|table| format!("fx\t{}", table.name)));
    fs::write(work.join("verify.txt"), verify).unwrap();

    judge(&work, &class_path);
    check_imports(&work, &judged);
    for (table, file) in judged.iter().zip(&files) {
        check_tools(path, &work, table, file);
    }
    check_answers(&work, &queries, &ours);
}

/// Compiles and runs the Java side.
fn judge(work: &Path, class_path: &str) {
    let of_ours = [sources().join("Interop.java"), sources().join("Node.java")];
    let classes = node::compile(work, class_path, &of_ours).unwrap();
    let output = node::java(work, "-Xmx1g")
        .arg("-cp")
        .arg(&classes)
        .args(["Interop".as_ref(), work.as_os_str()])
        .arg(format!("{}:{class_path}", classes.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
    for line in said.lines().filter(|line| line.starts_with("interop: ")) {
        println!("{line}");
    }
}

/// Every file was taken in after extended verification, and the offline tool finds it sound.
fn check_imports(work: &Path, judged: &[Judged]) {
    let text = fs::read_to_string(work.join("imports.out")).unwrap();
    let wanted = lines(judged.iter().map(|table| format!("{}\taccepted\t1", table.name)));
    assert_eq!(text, wanted);
    let text = fs::read_to_string(work.join("verify.out")).unwrap();
    let mut sound = 0;
    for said in text.split("> ").skip(1) {
        let (name, rest) = said.split_once('\n').unwrap();
        assert!(name.ends_with(" 0"), "{said}");
        assert!(rest.contains("Extended Verify requested") && rest.contains("succeeded"), "{said}");
        sound += 1;
    }
    assert_eq!(sound, judged.len());
}

/// The dump is ours to the byte, the metadata tells the same numbers.
fn check_tools(path: &Path, work: &Path, table: &Judged, file: &Path) {
    let name = &table.name;
    let tool = |verb: &str| succeeded(&run_in(path, &["sstable", verb, file.to_str().unwrap()]));
    let theirs = fs::read_to_string(work.join(format!("{name}.json"))).unwrap();
    for (number, (ours, theirs)) in tool("dump-data").lines().zip(theirs.lines()).enumerate() {
        assert_eq!(
            ours,
            theirs,
            "{name}: line {} of the dump, Cassandra's is on the right",
            number + 1
        );
    }
    assert_eq!(tool("dump-data").lines().count(), theirs.lines().count(), "{name}");
    let theirs = fs::read_to_string(work.join(format!("{name}.metadata"))).unwrap();
    let ours = tool("dump-statistics");
    let mut compared = 0;
    for line in theirs.lines() {
        let Some((field, value)) = line.split_once(": ") else { continue };
        let found = ours.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
        let last = |text: &str| text.rsplit('(').next().unwrap().trim_end_matches(')').to_owned();
        match field {
            "Partitioner"
            | "totalColumnsSet"
            | "totalRows"
            | "Originating host id"
            | "KeyType"
            | "ClusteringTypes"
            | "SSTable Level"
            | "Compressor"
            | "Estimated cardinality" => {
                assert_eq!(found, Some(value), "{name}: {field}");
            }
            "Minimum timestamp"
            | "Maximum timestamp"
            | "EncodingStats minTimestamp"
            | "EncodingStats minLocalDeletionTime" => {
                assert_eq!(found.map(last), Some(last(value)), "{name}: {field}");
            }
            _ => continue,
        }
        compared += 1;
    }
    assert!(compared >= 10, "{name}: {compared} fields\n{theirs}");
    let verified = succeeded(&run_in(path, &["sstable", "verify", file.to_str().unwrap()]));
    assert!(verified.contains(": sound ("), "{name}: {verified}");
}

fn check_answers(work: &Path, queries: &[Query], ours: &[Vec<Json>]) {
    let text = fs::read_to_string(work.join("answers.jsonl")).unwrap();
    let mut theirs: Vec<Vec<Json>> = Vec::new();
    for line in text.lines() {
        assert!(line.starts_with('{'), "{line}");
        let row: Json = serde_json::from_str(line).unwrap();
        match row.get("query_number") {
            Some(number) => {
                assert_eq!(*number, theirs.len());
                theirs.push(Vec::new());
            }
            None => theirs.last_mut().unwrap().push(row),
        }
    }
    assert_eq!((theirs.len(), ours.len()), (queries.len(), queries.len()));
    for ((theirs, ours), query) in theirs.iter().zip(ours).zip(queries) {
        assert_rows(ours, theirs, query);
    }
    println!("interop: {} answers compared", queries.len());
}
