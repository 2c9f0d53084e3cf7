//! Options of tables that act on files: large data, compression, damage.

use std::path::{Path, PathBuf};

use super::*;
use crate::schema::{Compression, Compressor, LargeDataOptions, OnCorruption};
use crate::sstable::LargeKind;

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(2);
    options.commitlog_segment_bytes = 1 << 20;
    options
}

/// Files of table `t` whose names end so.
fn files_of_table(directory: &Path, end: &str) -> Vec<PathBuf> {
    let tables = std::fs::read_dir(directory.join("data/default")).unwrap();
    let folders = tables.map(|entry| entry.unwrap().path());
    let of_table = folders.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("t-"))
    });
    let mut found: Vec<PathBuf> = of_table
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    // Generations in their own order.
    found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    found
}

fn flip(path: &Path, at: usize) {
    let mut content = std::fs::read(path).unwrap();
    content[at] ^= 0x10;
    std::fs::write(path, content).unwrap();
}

async fn try_rows(
    database: &Database,
    schema: &SchemaRef,
    direction: Direction,
) -> crate::error::Result<usize> {
    let command = read_of(schema, "a", Slice::full(direction), None);
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

/// A thousand rows of partition "a" in one SSTable with blocks of 1 KiB.
async fn filled(directory: &Path) -> SchemaRef {
    let database = Database::open(options(directory)).await.unwrap();
    let mut definition = definition();
    definition.options.column_index_bytes = 1024;
    // Each start of a test flushes; a merge of that would take the files away that it damages.
    definition.options.compaction.is_enabled = false;
    let schema = database.create_table(definition, false).await.unwrap();
    let writes = (0..1000).map(|i| insert(&schema, "a", i, 1, 1)).collect();
    database.apply_many(writes).await.unwrap();
    database.close().await.unwrap();
    schema
}

#[tokio::test]
async fn damage_is_skipped_when_the_table_says_so_and_told_either_way() {
    let directory = tempfile::tempdir().unwrap();
    let schema = filled(directory.path()).await;
    let data = files_of_table(directory.path(), "Data.db");
    flip(&data[0], 5000);

    let database = Database::open(options(directory.path())).await.unwrap();
    for direction in [Direction::Forward, Direction::Reversed] {
        let error = try_rows(&database, &schema, direction).await.unwrap_err().to_string();
        assert!(error.contains("Data.db at offset 4096: wanted CRC "), "{error}");
    }
    let [told] = &database.damage_report().await.unwrap()[..] else { panic!("one place") };
    assert_eq!((told.keyspace.as_str(), told.table.as_str()), ("default", "t"));
    assert_eq!((told.damage.file.as_path(), told.damage.offset), (data[0].as_path(), 4096));
    assert_eq!((told.damage.count, told.damage.skipped_count), (2, 0));

    let skip = |options: &mut TableOptions| options.on_corruption = OnCorruption::Skip;
    let altered = database.alter_table("default", "t", skip).await.unwrap();
    assert_eq!(altered.shards_closed, 0);
    let forward = try_rows(&database, &schema, Direction::Forward).await.unwrap();
    let reversed = try_rows(&database, &schema, Direction::Reversed).await.unwrap();
    // A page of 4 KiB and the rest of a block of 1 KiB, of rows of some 20 bytes.
    assert!((650..1000).contains(&forward) && (650..1000).contains(&reversed));
    let [told] = &database.damage_report().await.unwrap()[..] else { panic!("one place") };
    assert_eq!((told.damage.count, told.damage.skipped_count), (4, 2));
    // What is written beside damage is found again.
    database.apply(insert(&schema, "a", 5000, 7, 2)).await.unwrap();
    database.close().await.unwrap();

    // The option outlives the process; nothing was deleted.
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(try_rows(&database, &schema, Direction::Forward).await.unwrap(), forward + 1);
    let fail = |options: &mut TableOptions| options.on_corruption = OnCorruption::Fail;
    database.alter_table("default", "t", fail).await.unwrap();
    assert!(try_rows(&database, &schema, Direction::Forward).await.is_err());
    database.close().await.unwrap();
    flip(&data[0], 5000);
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(try_rows(&database, &schema, Direction::Forward).await.unwrap(), 1001);
    assert!(database.damage_report().await.unwrap().is_empty());
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_left_out_when_the_table_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let schema = filled(directory.path()).await;
    let database = Database::open(options(directory.path())).await.unwrap();
    database.apply(insert(&schema, "a", 5000, 7, 2)).await.unwrap();
    database.close().await.unwrap();
    let indexes = files_of_table(directory.path(), "Index.db");
    assert_eq!(indexes.len(), 2);
    let good = std::fs::read(&indexes[0]).unwrap();
    std::fs::write(&indexes[0], b"short").unwrap();
    let before = files_of_table(directory.path(), "");

    let database = Database::open(options(directory.path())).await.unwrap();
    let error = try_rows(&database, &schema, Direction::Forward).await.unwrap_err().to_string();
    assert!(error.contains("Index.db"), "{error}");
    let skip = |options: &mut TableOptions| options.on_corruption = OnCorruption::Skip;
    assert_eq!(database.alter_table("default", "t", skip).await.unwrap().shards_closed, 1);
    database.close().await.unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(try_rows(&database, &schema, Direction::Forward).await.unwrap(), 1);
    let [told] = &database.damage_report().await.unwrap()[..] else { panic!("one place") };
    assert_eq!(told.damage.file, indexes[0]);
    database.close().await.unwrap();
    assert_eq!(files_of_table(directory.path(), ""), before);

    // Repaired, it is there again.
    std::fs::write(&indexes[0], good).unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(try_rows(&database, &schema, Direction::Forward).await.unwrap(), 1001);
    database.close().await.unwrap();
}

/// What others tell of a damaged component is taken from them at the start: all rows are there, and
/// what was damaged is told and counted, whatever the table says of corruption. Nothing on disk
/// changes.
#[tokio::test]
async fn damaged_components_that_others_tell_cost_no_row() {
    let directory = tempfile::tempdir().unwrap();
    let schema = filled(directory.path()).await;
    let small = [
        "Summary.db",
        "Filter.db",
        "Statistics.db",
        "CRC.db",
        "Digest.crc32",
        "Scylla.db",
        "Tidegate.db",
        "TOC.txt",
    ];
    let one = |suffix: &str| files_of_table(directory.path(), suffix).remove(0);
    for suffix in small {
        let path = one(suffix);
        flip(&path, 5);
        let damaged = std::fs::read(&path).unwrap();
        let database = Database::open(options(directory.path())).await.unwrap();
        for direction in [Direction::Forward, Direction::Reversed] {
            let rows = try_rows(&database, &schema, direction).await;
            assert_eq!(rows.unwrap_or_else(|error| panic!("{suffix}: {error}")), 1000);
        }
        let [told] = &database.damage_report().await.unwrap()[..] else { panic!("{suffix}") };
        assert_eq!(told.damage.file, path);
        assert_eq!((told.damage.count, told.damage.rebuilt_count), (1, 1), "{suffix}");
        // Writes go on beside it.
        database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
        database.close().await.unwrap();
        assert!(std::fs::read(&path).unwrap() == damaged, "{suffix} was changed");
        flip(&path, 5);
    }
    let database = Database::open(options(directory.path())).await.unwrap();
    assert!(database.damage_report().await.unwrap().is_empty());
    database.close().await.unwrap();
}

/// Where the files that have its checksum are damaged too, a filter is made from the index.
#[tokio::test]
async fn a_filter_that_nothing_vouches_for_hides_no_partition() {
    let directory = tempfile::tempdir().unwrap();
    let schema = filled(directory.path()).await;
    let one = |suffix: &str| files_of_table(directory.path(), suffix).remove(0);
    for suffix in ["Tidegate.db", "Scylla.db"] {
        flip(&one(suffix), 5);
    }
    // Behind the two counts stand the bits: this filter has no key.
    let mut filter = std::fs::read(one("Filter.db")).unwrap();
    filter[8..].fill(0);
    std::fs::write(one("Filter.db"), filter).unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(try_rows(&database, &schema, Direction::Forward).await.unwrap(), 1000);
    database.close().await.unwrap();
}

#[tokio::test]
async fn large_data_is_told_also_after_a_restart_under_other_shards() {
    let directory = tempfile::tempdir().unwrap();
    let mut opening = options(directory.path());
    opening.large_data.partition_rows = 40;
    let database = Database::open(opening).await.unwrap();
    let mut definition = definition();
    definition.options.large_data =
        LargeDataOptions { cell_bytes: Some(7), ..LargeDataOptions::default() };
    let schema = database.create_table(definition, false).await.unwrap();
    let writes = (0..50).map(|i| insert(&schema, "a", i, 1, 1));
    let writes = writes.chain((0..30).map(|i| insert(&schema, "b", i, 1, 1))).collect();
    database.apply_many(writes).await.unwrap();
    assert!(database.large_data_report().await.unwrap().is_empty());
    database.flush(None).await.unwrap();
    let told = database.large_data_report().await.unwrap();
    let rows: Vec<_> =
        told.iter().filter(|report| report.thing.kind == LargeKind::PartitionRows).collect();
    let [a] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((a.thing.partition_key.as_str(), a.thing.elements), ("a", 50));
    assert_eq!((a.thing.threshold, a.thing.above_count), (40, 1));
    let cells: u32 = told
        .iter()
        .filter(|report| report.thing.kind == LargeKind::CellBytes)
        .map(|report| report.thing.above_count)
        .max()
        .unwrap();
    assert!(cells == 50 || cells == 80, "{cells} cells of 8 bytes in one file");
    database.close().await.unwrap();
    for shards in [1, 3] {
        let opening = Options { shards: Some(shards), ..options(directory.path()) };
        let database = Database::open(opening).await.unwrap();
        let again = database.large_data_report().await.unwrap();
        let things = |reports: &[crate::database::LargeDataReport]| -> Vec<_> {
            reports.iter().map(|report| report.thing.clone()).collect()
        };
        assert_eq!(things(&again), things(&told), "{shards} shards");
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_table_may_change_its_compression_between_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let mut definition = definition();
    // Files stay as they were written.
    definition.options.compaction.is_enabled = false;
    let schema = database.create_table(definition, false).await.unwrap();
    let mut written = 0;
    let choices = Compressor::ALL.map(Some).into_iter().chain([None]);
    for compressor in choices {
        let compression = compressor.map(Compression::new);
        let change = move |options: &mut TableOptions| options.compression = compression;
        database.alter_table("default", "t", change).await.unwrap();
        let writes = (written..written + 500).map(|i| insert(&schema, "a", i, 1, 1)).collect();
        database.apply_many(writes).await.unwrap();
        database.flush(None).await.unwrap();
        written += 500;
        let all: usize = 500 * files_of_table(directory.path(), "Data.db").len();
        assert_eq!(try_rows(&database, &schema, Direction::Forward).await.unwrap(), all);
        assert_eq!(try_rows(&database, &schema, Direction::Reversed).await.unwrap(), all);
    }
    let size = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let sizes: Vec<u64> = files_of_table(directory.path(), "Data.db").iter().map(size).collect();
    assert_eq!(sizes.len(), 5);
    assert!(sizes[..4].iter().all(|bytes| *bytes < sizes[4]), "{sizes:?}");
    assert_eq!(files_of_table(directory.path(), "CompressionInfo.db").len(), 4);
    assert_eq!(files_of_table(directory.path(), "CRC.db").len(), 1);
    for compression in [
        Compression { chunk_bytes: 3000, ..Compression::new(Compressor::Lz4) },
        Compression { level: Some(3), ..Compression::new(Compressor::Lz4) },
        Compression { level: Some(30), ..Compression::new(Compressor::Zstd) },
    ] {
        let change = move |options: &mut TableOptions| options.compression = Some(compression);
        let error = database.alter_table("default", "t", change).await.unwrap_err();
        assert!(matches!(error, crate::error::Error::Invalid(_)), "{error}");
    }
    database.close().await.unwrap();
}
