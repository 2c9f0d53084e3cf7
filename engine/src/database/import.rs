//! Imports foreign SSTables into an own table: cells, tombstones and times to live become writes
//! with their original timestamps.
//!
//! Every shard reads the partitions that it owns, all files merged, and writes them through its own
//! commitlog. An import that stops or fails has copied a part. Importing is idempotent, since
//! writes with equal timestamps are the same writes, so repeating it copies the rest. A decimal in
//! a partition key gets the scale that an INSERT would give it, so that both write to one
//! partition: the partitions of 1.5 and of 1.50 become one, which may be another shard's. An import
//! leaves nothing out silently: a column or file that it cannot copy is an error before the first
//! write.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use tokio::sync::mpsc;

use super::attach::{AttachProgress, AttachedFile, OnUnknown, Survey};
use super::database::Database;
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::io::{Class, run_as};
use crate::mutation::{
    ClusteringRange, Direction, Fragment, Mutation, PartitionRange, Position, RangeTombstone, Row,
    Slice, Tombstone,
};
use crate::runtime;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringKey, OnCorruption, PartitionKey, TableId};
use crate::sstable::SstableName;

/// Bytes of rows that are one write at most; a larger row is a write of its own.
const MUTATION_BYTES: usize = 128 << 10;
/// Bytes of rows that share a sync.
const BATCH_BYTES: usize = 2 << 20;
/// Counts of shards that may wait for whoever is told.
const TOLD_MAX: usize = 16;

/// What to copy, and into what.
#[derive(Debug, Clone)]
pub struct Import {
    /// An absolute path.
    pub directory: PathBuf,
    pub keyspace: String,
    pub table: String,
    /// `Skip` leaves out files that cannot be opened and the rest of files in which damage is met.
    pub on_corruption: OnCorruption,
    pub on_unknown: OnUnknown,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportProgress {
    pub partitions: u64,
    /// Static rows included.
    pub rows: u64,
    /// Partition and range tombstones.
    pub tombstones: u64,
    /// Bytes of the data files, all together.
    pub data_bytes: u64,
    /// Rows that the files say that they have, before merging.
    pub rows_max: u64,
}

impl ImportProgress {
    fn add(&mut self, other: ImportProgress) {
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.tombstones += other.tombstones;
    }
}

/// What was copied.
#[derive(Debug, Clone)]
pub struct Imported {
    pub counts: ImportProgress,
    pub files: Vec<AttachedFile>,
}

impl Database {
    /// Copies the SSTables of a directory into a table whose columns have the names and types that
    /// the files have; `progress` is told how far it has come.
    ///
    /// Errors: `NotFound` for the table; `Invalid` for an attached table, naming the first column
    /// that the table lacks or has otherwise, and for files of other versions, unless they are to
    /// be left out; `Corrupt` and `Io` of a file; those of `apply`.
    pub fn import<'a>(
        &'a self,
        import: Import,
        progress: &'a mut (dyn FnMut(ImportProgress) + Send),
    ) -> BoxFuture<'a, Result<Imported>> {
        async move {
            let Import { directory, keyspace, table, on_corruption, on_unknown } = import;
            let schema = self.own_table(&keyspace, &table)?;
            let survey = self.survey(&directory, None).await?;
            survey.check_unknown(on_unknown, &directory)?;
            let Survey { found, names, failed, unknown } = survey;
            if let Some(error) = failed.iter().find_map(|file| file.error.as_ref())
                && on_corruption == OnCorruption::Fail
            {
                return Err(error.clone());
            }
            check_columns(&found, &schema)?;
            let (sender, mut told) = mpsc::channel(TOLD_MAX);
            let shards = self.inner.shards.iter().map(|shard| {
                let (schema, directory) = (schema.clone(), directory.clone());
                let (names, sender) = (names.clone(), sender.clone());
                let run = move |shard: Rc<Shard>| {
                    let import = async move {
                        shard.import(schema, directory, on_corruption, &names, sender).await
                    };
                    run_as(Class::Maintenance, import).boxed_local()
                };
                async move { shard.call("import", run).await? }
            });
            let mut shards = std::pin::pin!(try_join_all(shards));
            drop(sender);
            let mut counts = ImportProgress::default();
            let mut tell = |part: Told| {
                match part {
                    Told::Files(data_bytes, rows_max) => {
                        (counts.data_bytes, counts.rows_max) = (data_bytes, rows_max);
                    }
                    Told::Copied(part) => counts.add(part),
                    Told::Moved(mutations) => return Some(mutations),
                }
                progress(counts);
                None
            };
            let ended = loop {
                tokio::select! {
                    ended = &mut shards => break ended,
                    Some(part) = told.recv() => {
                        if let Some(moved) = tell(part) {
                            self.apply_many(moved).await?;
                        }
                    }
                }
            };
            while let Ok(part) = told.try_recv() {
                if let Some(moved) = tell(part) {
                    self.apply_many(moved).await?;
                }
            }
            let left_out: Vec<_> = ended?.into_iter().flatten().collect();
            let mut files = failed;
            files.extend(unknown);
            files.extend(names.into_iter().map(|name| {
                let path = name.path(&directory, crate::sstable::Component::Data);
                let error = left_out.iter().find(|(other, _)| *other == name);
                AttachedFile { path, error: error.map(|(_, error)| error.clone()) }
            }));
            Ok(Imported { counts, files })
        }
        .boxed()
    }

    /// A table that is not attached.
    ///
    /// Errors: `NotFound`, `Invalid`.
    fn own_table(&self, keyspace: &str, table: &str) -> Result<SchemaRef> {
        let catalog = self.catalog();
        if catalog.is_attached(keyspace, table) {
            return Err(Error::invalid(format!("table '{table}' is attached, not own")));
        }
        let unknown = || Error::NotFound { kind: "table", name: format!("{keyspace}.{table}") };
        catalog.table(keyspace, table).cloned().ok_or_else(unknown)
    }
}

/// What a shard tells while it copies.
enum Told {
    /// Bytes and rows of all files.
    Files(u64, u64),
    Copied(ImportProgress),
    /// Writes to partitions that perhaps are another shard's.
    Moved(Vec<Mutation>),
}

/// Errors: `Invalid` naming a column of the files that the table does not have. That types fit is
/// found when the files are opened.
fn check_columns(found: &crate::inspect::FoundSchema, schema: &SchemaRef) -> Result<()> {
    let table = schema.full_name();
    if found.source.is_some() {
        let wanted = found.partition_key.iter().map(|(name, _)| name);
        let wanted: Vec<&String> =
            wanted.chain(found.clustering.iter().map(|(name, _)| name)).collect();
        let keys: Vec<&String> =
            schema.partition_key().chain(schema.clustering_key()).map(|c| &c.name).collect();
        if wanted != keys {
            return Err(Error::invalid(format!(
                "the files have the key {wanted:?}, table {table} has {keys:?}"
            )));
        }
    }
    let others = found.statics.iter().chain(&found.regulars);
    match others.into_iter().find(|(name, _)| schema.find(name).is_none()) {
        None => Ok(()),
        Some((name, ty)) => Err(Error::invalid(format!(
            "the files have a column '{name}' of type {ty}, which table {table} lacks"
        ))),
    }
}

/// Rows of own tables have whole keys.
///
/// Errors: `Invalid` for a row or bound that lacks a value of its key.
fn check_key(fragment: &Fragment, schema: &SchemaRef) -> Result<()> {
    // The first one is always there.
    if schema.clustering_key().nth(1).is_none() {
        return Ok(());
    }
    let flat;
    let key = match fragment {
        Fragment::Row { key, .. } => key,
        Fragment::FlatRow(row) => {
            flat = ClusteringKey::from_ordered(row.key());
            &flat
        }
        Fragment::RangeTombstoneChange { position, .. } => &position.prefix,
        _ => return Ok(()),
    };
    let Some(column) = key.first_null(schema)? else { return Ok(()) };
    Err(Error::invalid(format!(
        "the files have a row without a value of clustering column '{}', as tables WITH COMPACT \
         STORAGE may, and rows of {} need one: ATTACH the files to read them",
        column.name,
        schema.full_name()
    )))
}

impl Shard {
    /// Copies what this shard owns. Returns the files that were left out.
    async fn import(
        self: &Rc<Self>,
        schema: SchemaRef,
        directory: PathBuf,
        on_corruption: OnCorruption,
        names: &[SstableName],
        told: mpsc::Sender<Told>,
    ) -> Result<Vec<(SstableName, Error)>> {
        self.check_open()?;
        let (id, own) = (schema.id, schema.clone());
        let untold = AttachProgress::default();
        let (files, failed) =
            self.open_foreign(schema.clone(), directory, on_corruption, names, untold).await;
        // One of another type is wrong in itself: leaving it out would lose it in silence.
        let is_damage = |error: &Error| matches!(error, Error::Corrupt(_));
        let refused = failed
            .iter()
            .find(|(_, error)| on_corruption == OnCorruption::Fail || !is_damage(error));
        if let Some((_, error)) = refused {
            return Err(error.clone());
        }
        let (bytes, rows) = files.foreign_size();
        // Whoever asked may have gone; then copying stops at the next batch.
        let _ = told.send(Told::Files(bytes, rows)).await;
        let mut source =
            files.read(&PartitionRange::full(), &Slice::full(Direction::Forward), false);
        let mut copy = Copy::new(id);
        let mut fragments: VecDeque<Fragment> = VecDeque::new();
        loop {
            source.fill(&mut fragments).await?;
            let is_end = fragments.is_empty();
            for fragment in fragments.drain(..) {
                check_key(&fragment, &own)?;
                copy.take(fragment);
            }
            if is_end || copy.batch_bytes >= BATCH_BYTES {
                let (mut mutations, counts) = copy.batch();
                let moved = take_moved(&schema, &mut mutations)?;
                self.apply_many(mutations).await?;
                if !moved.is_empty() && told.send(Told::Moved(moved)).await.is_err() {
                    return Err(Error::Closed);
                }
                if told.send(Told::Copied(counts)).await.is_err() {
                    return Err(Error::Closed);
                }
            }
            if is_end {
                return Ok(failed);
            }
            runtime::maybe_yield().await;
        }
    }
}

/// Takes out the writes to partitions that an INSERT would write to under another key, and gives
/// them that key.
fn take_moved(schema: &SchemaRef, mutations: &mut Vec<Mutation>) -> Result<Vec<Mutation>> {
    let mut moved = Vec::new();
    let mut kept = Vec::with_capacity(mutations.len());
    for mut mutation in mutations.drain(..) {
        match mutation.key.as_inserted(schema)? {
            Some(key) => {
                mutation.key = key;
                moved.push(mutation);
            }
            None => kept.push(mutation),
        }
    }
    *mutations = kept;
    Ok(moved)
}

/// Turns fragments into writes.
struct Copy {
    table: TableId,
    open: Option<Mutation>,
    open_bytes: usize,
    /// Where the range tombstone in force began.
    in_force: Option<(Position, Tombstone)>,
    done: Vec<Mutation>,
    batch_bytes: usize,
    counts: ImportProgress,
}

impl Copy {
    fn new(table: TableId) -> Self {
        Copy {
            table,
            open: None,
            open_bytes: 0,
            in_force: None,
            done: Vec::new(),
            batch_bytes: 0,
            counts: ImportProgress::default(),
        }
    }

    fn open(&mut self) -> &mut Mutation {
        self.open.as_mut().expect("a partition begins before what is in it")
    }

    fn take(&mut self, fragment: Fragment) {
        match fragment.thawed() {
            Fragment::PartitionStart { key, deletion } => {
                self.counts.partitions += 1;
                self.counts.tombstones += u64::from(deletion.is_some());
                let mut mutation = Mutation::new(self.table, PartitionKey::clone(&key));
                mutation.deletion = deletion;
                self.open_bytes = key.as_bytes().len();
                self.open = Some(mutation);
            }
            Fragment::StaticRow(row) => {
                self.counts.rows += 1;
                self.open_bytes += row.memory_bytes();
                self.open().static_row = Some(Rc::unwrap_or_clone(row));
            }
            Fragment::Row { key, row } => {
                self.counts.rows += 1;
                let bytes = row.memory_bytes() + key.as_ordered().len();
                self.make_room(bytes);
                self.open_bytes += bytes;
                let entry: (ClusteringKey, Row) =
                    (Rc::unwrap_or_clone(key), Rc::unwrap_or_clone(row));
                self.open().rows.push(entry);
            }
            Fragment::FlatRow(_) => unreachable!("it was thawed"),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                if let Some((start, tombstone)) = self.in_force.take() {
                    self.counts.tombstones += 1;
                    let bytes =
                        start.prefix.as_ordered().len() + position.prefix.as_ordered().len();
                    self.make_room(bytes);
                    self.open_bytes += bytes + size_of::<RangeTombstone>();
                    let range = ClusteringRange { start, end: position.clone() };
                    self.open().range_tombstones.push(RangeTombstone { range, tombstone });
                }
                self.in_force = tombstone.map(|tombstone| (position, tombstone));
            }
            Fragment::PartitionEnd => {
                assert!(
                    self.in_force.is_none(),
                    "a partition ended with a range tombstone in force"
                );
                self.close();
            }
        }
    }

    /// Starts another write to the same partition when the open one would grow too large.
    fn make_room(&mut self, bytes: usize) {
        if self.open_bytes > 0 && self.open_bytes + bytes > MUTATION_BYTES {
            let key = self.open().key.clone();
            self.close();
            self.open = Some(Mutation::new(self.table, key));
        }
    }

    fn close(&mut self) {
        let Some(mutation) = self.open.take() else { return };
        self.batch_bytes += self.open_bytes;
        self.open_bytes = 0;
        let is_empty = mutation.deletion.is_none()
            && mutation.static_row.is_none()
            && mutation.rows.is_empty()
            && mutation.range_tombstones.is_empty();
        if !is_empty {
            self.done.push(mutation);
        }
    }

    /// Writes that are whole, and what they hold.
    fn batch(&mut self) -> (Vec<Mutation>, ImportProgress) {
        self.batch_bytes = 0;
        (std::mem::take(&mut self.done), std::mem::take(&mut self.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::{FoundSchema, KeyType, StoredType};
    use crate::mutation::{Cell, Liveness};
    use crate::schema::{
        ClusteringOrder, Column, ColumnId, ColumnKind, DataType, Scalar, TableOptions, TableSchema,
    };

    const DELETED: Tombstone = Tombstone { timestamp: 5, deletion_time: 1 };

    /// What is copied of a partition that has this deletion and content.
    fn copied(
        deletion: Option<Tombstone>,
        content: Vec<Fragment>,
    ) -> (Vec<Mutation>, ImportProgress) {
        let mut copy = Copy::new(TableId(1));
        let key = Rc::new(PartitionKey::from_bytes(*b"k"));
        copy.take(Fragment::PartitionStart { key, deletion });
        content.into_iter().for_each(|fragment| copy.take(fragment));
        copy.take(Fragment::PartitionEnd);
        copy.batch()
    }

    fn row(bytes: usize) -> Rc<Row> {
        let cells = vec![(ColumnId(1), Cell::live(7, vec![1; bytes]))];
        Rc::new(Row { liveness: Some(Liveness::at(7)), cells, ..Row::default() })
    }

    fn row_at(byte: u8, bytes: usize) -> Fragment {
        Fragment::Row { key: Rc::new(ClusteringKey::from_ordered([byte])), row: row(bytes) }
    }

    fn change(byte: u8, tombstone: Option<Tombstone>) -> Fragment {
        let position = Position::before(ClusteringKey::from_ordered([byte]));
        Fragment::RangeTombstoneChange { position, tombstone }
    }

    #[test]
    fn a_partition_is_copied_whatever_it_has() {
        let found = |deletion, content| {
            let (mutations, counts) = copied(deletion, content);
            assert_eq!(counts.partitions, 1);
            (mutations, (counts.rows, counts.tombstones))
        };
        assert_eq!(found(None, vec![]), (vec![], (0, 0)), "nothing is in it");
        let (all, counts) = found(Some(DELETED), vec![]);
        assert_eq!((all.len(), all[0].deletion, counts), (1, Some(DELETED), (0, 1)));
        let (all, counts) = found(None, vec![Fragment::StaticRow(row(3))]);
        assert_eq!((all.len(), all[0].static_row.as_ref(), counts), (1, Some(&*row(3)), (1, 0)));
        let (all, counts) = found(None, vec![row_at(1, 3)]);
        assert_eq!((all.len(), all[0].rows.len(), counts), (1, 1, (1, 0)));
        let (all, counts) = found(None, vec![change(1, Some(DELETED)), change(4, None)]);
        assert_eq!((all.len(), all[0].range_tombstones.len(), counts), (1, 1, (0, 1)));
    }

    #[test]
    fn a_tombstone_that_another_one_follows_at_once_is_copied_with_its_range() {
        let stronger = Tombstone { timestamp: 6, deletion_time: 2 };
        let content = vec![
            change(1, Some(DELETED)),
            change(4, Some(stronger)),
            row_at(5, 3),
            change(6, None),
        ];
        let (all, counts) = copied(None, content);
        assert_eq!((all.len(), counts.rows, counts.tombstones), (1, 1, 2));
        let at = |byte: u8| Position::before(ClusteringKey::from_ordered([byte]));
        let range = |start, end, tombstone| RangeTombstone {
            range: ClusteringRange { start: at(start), end: at(end) },
            tombstone,
        };
        assert_eq!(all[0].range_tombstones, [range(1, 4, DELETED), range(4, 6, stronger)]);
    }

    /// Tombstones alone may be more than one write holds.
    #[test]
    fn many_tombstones_become_several_writes() {
        let key = |at: u16| {
            let bytes = [&at.to_be_bytes()[..], &[1; 1000]].concat();
            Position::before(ClusteringKey::from_ordered(bytes))
        };
        let change =
            |at, tombstone| Fragment::RangeTombstoneChange { position: key(at), tombstone };
        let content =
            (0..300).flat_map(|at| [change(2 * at, Some(DELETED)), change(2 * at + 1, None)]);
        let (all, counts) = copied(None, content.collect());
        assert_eq!((counts.partitions, counts.rows, counts.tombstones), (1, 0, 300));
        let starts = all.iter().flat_map(|mutation| &mutation.range_tombstones);
        assert!(
            starts
                .map(|tombstone| tombstone.range.start.clone())
                .eq((0..300).map(|at| key(2 * at)))
        );
        let most = 2 * MUTATION_BYTES / 2000;
        assert!(all.len() > 3 && all.iter().all(|mutation| mutation.range_tombstones.len() < most));
    }

    #[test]
    fn a_large_partition_becomes_several_writes_that_hold_all_of_it() {
        let content = (0..10).map(|byte| row_at(byte, MUTATION_BYTES / 3));
        let content = [Fragment::StaticRow(row(3))].into_iter().chain(content).collect();
        let (all, counts) = copied(Some(DELETED), content);
        assert_eq!((counts.rows, counts.tombstones), (11, 1));
        assert!(all.len() > 3, "{} writes", all.len());
        assert!(all[0].deletion.is_some() && all[0].static_row.is_some());
        assert!(all[1..].iter().all(|m| m.deletion.is_none() && m.static_row.is_none()));
        let keys = all.iter().flat_map(|mutation| &mutation.rows);
        assert!(keys.map(|(key, _)| key.as_ordered()[0]).eq(0..10));
        let bytes = |mutation: &Mutation| -> usize {
            mutation.rows.iter().map(|(_, row)| row.memory_bytes()).sum()
        };
        assert!(all.iter().all(|mutation| bytes(mutation) <= MUTATION_BYTES));
    }

    /// A table of one column of each kind, and one that was dropped.
    fn table() -> SchemaRef {
        let order = ClusteringOrder::Ascending;
        let columns = [
            ("pk", ColumnKind::PartitionKey { position: 0 }),
            ("ck", ColumnKind::ClusteringKey { position: 0, order }),
            ("s", ColumnKind::Static),
            ("v", ColumnKind::Regular),
            ("gone", ColumnKind::Dropped { was_static: false }),
        ];
        let column = |(name, kind): (&str, ColumnKind)| {
            let (name, ty) = (name.to_owned(), DataType::Int);
            Column { name, ty, kind }
        };
        SchemaRef::new(TableSchema {
            id: TableId(1),
            keyspace: "default".into(),
            name: "t".into(),
            columns: columns.into_iter().map(column).collect(),
            options: TableOptions::default(),
            drops: Vec::new(),
        })
    }

    #[test]
    fn files_of_another_key_and_columns_that_the_table_lacks_are_named() {
        const INT: StoredType = StoredType::Scalar(Scalar::Int);
        let named = |names: &str| -> Vec<(String, StoredType)> {
            names.split_whitespace().map(|name| (name.to_owned(), INT)).collect()
        };
        // Columns of the partition key, clustering, static and regular ones, and whether the names
        // of keys are known.
        for (columns, is_known, wanted) in [
            (["pk", "ck", "s", "v"], true, ""),
            (["pk", "ck", "", ""], true, ""),
            (["pk", "ck", "v", "s"], true, ""),
            (["a", "b", "s", "v"], false, ""),
            (["ck", "pk", "s", "v"], true, r#"key ["ck", "pk"], table default.t has ["pk", "ck"]"#),
            (["pk", "", "s", "v"], true, r#"key ["pk"], table"#),
            (["pk", "ck x", "s", "v"], true, r#"key ["pk", "ck", "x"], table"#),
            (["pk", "ck", "s x", "v"], true, "column 'x' of type int, which table default.t lacks"),
            (["pk", "ck", "s", "v x"], true, "column 'x' of type int, which table default.t lacks"),
            (["pk", "ck", "s", "gone"], true, "column 'gone' of type int, which"),
            (["a", "b", "s", "x"], false, "column 'x' of type int, which"),
        ] {
            let [partition_key, clustering, statics, regulars] = columns.map(named);
            let key = |(name, ty)| (name, KeyType { ty, is_descending: false });
            let files = FoundSchema {
                keyspace: None,
                name: "t".into(),
                partition_key,
                clustering: clustering.into_iter().map(key).collect(),
                statics,
                regulars,
                source: is_known.then(|| PathBuf::from("schema.cql")),
            };
            match check_columns(&files, &table()) {
                Ok(()) => assert_eq!(wanted, "", "{columns:?}"),
                Err(error) => {
                    let is_told = !wanted.is_empty() && error.to_string().contains(wanted);
                    assert!(is_told, "{columns:?}: {error}");
                }
            }
        }
    }
}
