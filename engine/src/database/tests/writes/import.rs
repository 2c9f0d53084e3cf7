//! What an import brings in is what a read of the files gives, however it is cut into writes.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;

use super::*;
use crate::access::{Permission, Resource, RoleOptions};
use crate::clock::Random;
use crate::database::{
    AttachProgress, Attachment, ColumnChange, Import, ImportProgress, OnUnknown, Shard, Snapshot,
};
use crate::error::{Error, Result};
use crate::schema::OnCorruption;
use crate::sstable::SstableName;

const PARTITIONS: [&str; 3] = ["a", "b", "c"];
const ROWS: i32 = 3000;
/// Later than every write of the files.
const AFTER: i64 = 10;

async fn open(shards: u32) -> (tempfile::TempDir, Database, SchemaRef) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { shards: Some(shards), ..Options::new(directory.path()) };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    (directory, database, schema)
}

/// Writes of random times to one partition: rows, and ranges that are longer than what an import
/// writes at once.
fn writes(schema: &SchemaRef, pk: &str, random: &mut Random) -> Vec<Mutation> {
    let mut all = Vec::new();
    for at in 0..ROWS {
        let stamp = 1 + random.below(AFTER as u64 - 1) as i64;
        all.push(insert(schema, pk, at, i64::from(at), stamp));
    }
    for _ in 0..4 {
        let mut bound = || random.below(ROWS as u64) as i32;
        let (one, other) = (bound(), bound());
        let range = ClusteringRange {
            start: Position::before(ck(schema, one.min(other))),
            end: Position::after(ck(schema, one.max(other))),
        };
        let timestamp = 1 + random.below(AFTER as u64 - 1) as i64;
        // In the year 2033: none is purged meanwhile.
        let tombstone = Tombstone { timestamp, deletion_time: 2_000_000_000 };
        let mut mutation = Mutation::new(schema.id, key(schema, pk));
        mutation.range_tombstones.push(RangeTombstone { range, tombstone });
        all.push(mutation);
    }
    all
}

/// A copy of the files of the one table, and the directory that it is in.
async fn copied(database: &Database) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("snapshot");
    database.snapshot(&snapshot).await.unwrap();
    let folder = snapshot.join("data/default");
    let files = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    (directory, files)
}

fn import_of(directory: &Path, table: &str) -> Import {
    Import {
        directory: directory.to_owned(),
        keyspace: "default".into(),
        table: table.into(),
        on_corruption: OnCorruption::Fail,
        on_unknown: OnUnknown::Fail,
    }
}

/// As table `a`.
fn attachment_of(directory: &Path) -> Attachment {
    Attachment {
        directory: directory.to_owned(),
        names: None,
        keyspace: "default".into(),
        name: "a".into(),
        on_corruption: OnCorruption::Fail,
        on_unknown: OnUnknown::Fail,
        progress: AttachProgress::default(),
    }
}

async fn read_all(database: &Database, schema: &SchemaRef) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    for pk in PARTITIONS {
        let command = read_of(schema, pk, Slice::full(Direction::Forward), None);
        all.push(values(database, command).await);
    }
    all
}

#[tokio::test]
async fn wide_partitions_are_the_same_after_an_import() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let (_theirs, theirs, schema) = open(2).await;
        for pk in PARTITIONS {
            // In two files, which the import merges.
            let mut all = writes(&schema, pk, &mut random);
            let second = all.split_off(all.len() / 2);
            for part in [all, second] {
                theirs.apply_many(part).await.unwrap();
                theirs.flush(None).await.unwrap();
            }
        }
        let wanted = read_all(&theirs, &schema).await;
        // Those of the database itself may be merged and removed meanwhile.
        let (_copy, files) = copied(&theirs).await;
        let (_own, ours, own) = open(3).await;
        let mut last = ImportProgress::default();
        let import = import_of(&files, "t");
        let imported = ours.import(import, &mut |told| last = told).await.unwrap();
        let counts = imported.counts;
        let live: usize = wanted.iter().map(Vec::len).sum();
        let rows = live as u64..=counts.rows_max;
        assert!(counts.partitions == 3 && rows.contains(&counts.rows), "seed {seed}: {counts:?}");
        assert!(counts.tombstones > 0, "seed {seed}: {counts:?}");
        assert_eq!(last, counts, "seed {seed}: what is told last is all");
        assert_eq!(read_all(&ours, &own).await, wanted, "seed {seed}");
        // Tombstones came along: what is as old as any of them stays deleted in both.
        for stamp in 1..AFTER {
            for (database, schema) in [(&theirs, &schema), (&ours, &own)] {
                let late = PARTITIONS.iter().flat_map(|pk| {
                    let at = (stamp as i32..ROWS).step_by(AFTER as usize);
                    at.map(|at| insert(schema, pk, at, -1, stamp))
                });
                database.apply_many(late.collect()).await.unwrap();
            }
        }
        let wanted = read_all(&theirs, &schema).await;
        assert_eq!(read_all(&ours, &own).await, wanted, "seed {seed}, written behind");
        theirs.close().await.unwrap();
        ours.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_attached_table_says_where_it_is_from_and_takes_no_import() {
    let (_theirs, theirs, schema) = open(2).await;
    theirs.apply(insert(&schema, "a", 1, 7, 1)).await.unwrap();
    theirs.flush(None).await.unwrap();
    let (_copy, files) = copied(&theirs).await;
    theirs.close().await.unwrap();
    let (_own, ours, _) = open(2).await;
    let attachment = attachment_of(&files);
    let attached = ours.attach(attachment.clone()).await.unwrap().schema;
    assert_eq!(attached.options.comment, format!("attached from {}", files.display()));
    let whole = read_of(&attached, "a", Slice::full(Direction::Forward), None);
    assert_eq!(values(&ours, whole).await, [7]);
    let again = ours.attach(attachment).await;
    assert!(matches!(again, Err(Error::Exists { kind: "table", .. })), "{again:?}");

    let mut other = TableSchema { name: "other".into(), ..definition() };
    other.columns[2].name = "w".into();
    let other = ours.create_table(other, false).await.unwrap();
    for (table, wanted) in [
        ("a", "table 'a' is attached, not own"),
        ("other", "a column 'v' of type bigint, which table default.other lacks"),
        ("nobody", "default.nobody"),
    ] {
        let refused = ours.import(import_of(&files, table), &mut |_| {}).await;
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(wanted), "{table}: {text}");
    }
    assert_eq!(count_rows(&ours, &other, "a").await.unwrap(), 0);
    ours.close().await.unwrap();
}

/// Tables that each shard has.
async fn tables(database: &Database) -> Vec<usize> {
    let mut counts = Vec::new();
    for number in 0..database.shard_count() {
        let count = |shard: Rc<Shard>| async move { shard.tables().len() }.boxed_local();
        counts.push(database.handle(number).call("tables", count).await.unwrap());
    }
    counts
}

#[tokio::test]
async fn a_table_that_a_later_shard_cannot_open_stays_in_none() {
    let (_theirs, theirs, schema) = open(2).await;
    theirs.apply(insert(&schema, "a", 1, 7, 1)).await.unwrap();
    theirs.flush(None).await.unwrap();
    let (_lost, lost) = copied(&theirs).await;
    let (_kept, kept) = copied(&theirs).await;
    theirs.close().await.unwrap();
    let (_own, ours, _) = open(2).await;
    assert_eq!(tables(&ours).await, [1, 1]);
    // The first shard has opened the files when they go.
    let gone = lost.clone();
    let remove = move |_: u64, _: u64| std::fs::remove_dir_all(&gone).unwrap();
    let progress = AttachProgress(Some(Arc::new(remove)));
    let refused = ours.attach(Attachment { progress, ..attachment_of(&lost) }).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(!lost.exists(), "the first shard has told of the files");
    assert!(ours.catalog().table("default", "a").is_none());
    assert_eq!(tables(&ours).await, [1, 1], "the first shard has let go of it");

    let attached = ours.attach(attachment_of(&kept)).await.unwrap().schema;
    let whole = read_of(&attached, "a", Slice::full(Direction::Forward), None);
    assert_eq!(values(&ours, whole).await, [7]);
    assert_eq!(tables(&ours).await, [2, 2]);
    ours.detach("default", "a").await.unwrap();
    assert_eq!(tables(&ours).await, [1, 1]);
    ours.close().await.unwrap();
}

#[tokio::test]
async fn a_table_whose_files_are_damaged_stays_in_no_shard() {
    let (_theirs, theirs, schema) = open(2).await;
    theirs.apply(insert(&schema, "a", 1, 7, 1)).await.unwrap();
    theirs.flush(None).await.unwrap();
    let (_copy, copy) = copied(&theirs).await;
    theirs.close().await.unwrap();
    let files = std::fs::read_dir(&copy).unwrap().map(|file| file.unwrap().path());
    let data = files.filter(|file| file.to_str().unwrap().ends_with("-Data.db"));
    for file in data {
        std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(1).unwrap();
    }
    let (_own, ours, _) = open(2).await;
    for on_corruption in [OnCorruption::Fail, OnCorruption::Skip] {
        let attachment = Attachment { on_corruption, ..attachment_of(&copy) };
        let refused = ours.attach(attachment).await.unwrap_err().to_string();
        assert!(refused.contains("-Data.db"), "{refused}");
        assert!(ours.catalog().table("default", "a").is_none());
        assert_eq!(tables(&ours).await, [1, 1], "{on_corruption:?}: no shard has it");
    }
    ours.close().await.unwrap();
}

#[tokio::test]
async fn an_attached_table_is_neither_changed_nor_dropped_but_detached() {
    let (_theirs, theirs, schema) = open(2).await;
    theirs.apply(insert(&schema, "a", 1, 7, 1)).await.unwrap();
    let (_copy, files) = copied(&theirs).await;
    theirs.close().await.unwrap();
    let (_own, ours, _) = open(2).await;
    let attached = ours.attach(attachment_of(&files)).await.unwrap().schema;
    ours.create_role("ann", RoleOptions::default(), false).await.unwrap();
    let says = |result: Result<()>, wanted: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    };
    let drop_v = ColumnChange::Drop { columns: vec!["v".into()], if_exists: true, timestamp: None };
    let resource = Resource::table("default", "a");
    says(ours.drop_table("default", "a", true).await, "DETACH a takes it away");
    says(ours.truncate_table("default", "a").await.map(drop), "DETACH a takes it away");
    says(ours.alter_table("default", "a", |_| {}).await.map(drop), "options to ATTACH");
    says(ours.alter_columns("default", "a", drop_v).await.map(drop), "ATTACH it with others");
    says(ours.grant(&[Permission::Select], &resource, "ann").await, "grant on its keyspace");
    says(ours.apply(insert(&attached, "a", 2, 7, 2)).await, "can only be read");
    says(ours.compact(attached.id).await, "can only be read");
    let same_name = TableSchema { name: "a".into(), ..definition() };
    says(ours.create_table(same_name, false).await.map(drop), "exists");
    says(ours.detach("default", "t").await, "default.t");
    let whole = || read_of(&attached, "a", Slice::full(Direction::Forward), None);
    assert_eq!(values(&ours, whole()).await, [7], "it is as it was");
    let beside = tempfile::tempdir().unwrap();
    let made = ours.snapshot(beside.path().join("snapshot")).await.unwrap();
    assert_eq!(made, Snapshot { tables: 1, sstables: 0, bytes: 0 }, "it is in no snapshot");
    ours.detach("default", "a").await.unwrap();
    assert!(ours.catalog().table("default", "a").is_none());
    assert!(ours.catalog().table("default", "t").is_some());
    says(ours.detach("default", "a").await, "default.a");
    // Its files are there, for whoever attaches them again.
    let again = ours.attach(attachment_of(&files)).await.unwrap().schema;
    assert_ne!(again.id, attached.id);
    assert_eq!(count_rows(&ours, &again, "a").await.unwrap(), 1);
    ours.close().await.unwrap();
}

#[tokio::test]
async fn of_a_directory_those_sstables_are_attached_that_are_named() {
    let (_theirs, theirs, schema) = open(2).await;
    // One partition a shard, so one SSTable each.
    let partitions = [0, 1].map(|shard: u32| {
        let mut names = (0..).map(|number: i32| number.to_string());
        names.find(|pk| theirs.shard_of(&key(&schema, pk)) == shard).unwrap()
    });
    for pk in &partitions {
        theirs.apply(insert(&schema, pk, 1, 7, 1)).await.unwrap();
    }
    let (_copy, files) = copied(&theirs).await;
    let reports = theirs.sstable_report().await.unwrap();
    let numbers: Vec<(u32, u64)> =
        reports.iter().map(|report| (report.shard, report.status.info.generation)).collect();
    assert_eq!(numbers.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [0, 1]);
    theirs.close().await.unwrap();
    let (_own, ours, _) = open(3).await;
    let of = |numbers: &[(u32, u64)]| -> Vec<SstableName> {
        numbers.iter().map(|(_, number)| SstableName::native(*number)).collect()
    };
    for (names, wanted) in [
        (Some(of(&numbers[..1])), [1_usize, 0]),
        (Some(of(&numbers[1..])), [0, 1]),
        (Some(of(&numbers)), [1, 1]),
        (None, [1, 1]),
    ] {
        let attachment = Attachment { names: names.clone(), ..attachment_of(&files) };
        let attached = ours.attach(attachment).await.unwrap();
        let count = wanted.iter().sum::<usize>();
        assert_eq!(attached.files.len(), count, "{names:?}: {:?}", attached.files);
        for (pk, rows) in partitions.iter().zip(wanted) {
            let found = count_rows(&ours, &attached.schema, pk).await.unwrap();
            assert_eq!(found, rows, "{names:?}: {pk}");
        }
        ours.detach("default", "a").await.unwrap();
    }
    ours.close().await.unwrap();
}
