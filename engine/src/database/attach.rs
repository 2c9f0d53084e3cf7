//! Attached tables: directories of foreign SSTables, readable until the process ends.
//!
//! ```text
//! first shard   files of the directory -> headers -> schema -> opens every file
//! other shards  open the files that the first could open
//! all           the table is in the catalog of this process, and in no file
//! ```
//! The engine never writes to the directory. Every shard reads all files and leaves out partitions
//! that it does not own.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::catalog::check_name;
use super::database::Database;
use super::shard::Shard;
use crate::error::{Error, Result};
use crate::inspect::{FoundSchema, Inspector, StoredType, find_schema, list};
use crate::io::{Class, run_as};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringOrder, Column, ColumnKind, DataType, OnCorruption, Scalar, TableId, TableOptions,
    TableSchema, UserType,
};
use crate::sstable::{Sstable, SstableName};
use crate::table::{AttachedOpening, Table};

/// What to attach, and as what.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// An absolute path.
    pub directory: PathBuf,
    /// These SSTables of it only.
    pub names: Option<Vec<SstableName>>,
    pub keyspace: String,
    pub name: String,
    pub on_corruption: OnCorruption,
    pub on_unknown: OnUnknown,
    /// Told of the files that are open.
    pub progress: AttachProgress,
}

/// What becomes of SSTables of versions that are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// Nothing is done as long as there is one.
    Fail,
    /// They are left out, and told.
    Skip,
}

/// Told rows and bytes of the data files that the first shard has opened, after each, on its
/// thread.
#[derive(Clone, Default)]
pub struct AttachProgress(pub Option<Arc<dyn Fn(u64, u64) + Send + Sync>>);

impl fmt::Debug for AttachProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttachProgress({})", if self.0.is_some() { "told" } else { "not told" })
    }
}

/// One SSTable of a directory.
#[derive(Debug, Clone)]
pub struct AttachedFile {
    /// Its data file.
    pub path: PathBuf,
    /// Why it was left out.
    pub error: Option<Error>,
}

/// What was attached.
#[derive(Debug, Clone)]
pub struct Attached {
    pub schema: SchemaRef,
    pub files: Vec<AttachedFile>,
    /// What a person should know of the schema, such as names that were made up.
    pub notes: Vec<String>,
}

/// The SSTables of a directory that can be looked into, and those that cannot.
pub(super) struct Survey {
    pub(super) found: FoundSchema,
    pub(super) names: Vec<SstableName>,
    pub(super) failed: Vec<AttachedFile>,
    /// Of versions that are not read.
    pub(super) unknown: Vec<AttachedFile>,
}

impl Survey {
    /// Errors: `Invalid` for files of versions that are not read, unless they are to be left out.
    pub(super) fn check_unknown(&self, on_unknown: OnUnknown, directory: &Path) -> Result<()> {
        let first = self.unknown.iter().find_map(|file| file.error.as_ref());
        let Some(first) = first.filter(|_| on_unknown == OnUnknown::Fail) else { return Ok(()) };
        Err(Error::invalid(format!(
            "{} of {} SSTables of {} cannot be read; the first: {first}; WITH (ON_UNKNOWN = 'skip') \
             leaves them out",
            self.unknown.len(),
            self.unknown.len() + self.names.len() + self.failed.len(),
            directory.display()
        )))
    }
}

impl Database {
    /// Makes a directory of SSTables of any product a table that can be read. It is gone when the
    /// process ends.
    ///
    /// Errors: `NotFound` for the keyspace, or when the directory has no SSTables; `Exists`;
    /// `Invalid` for files of different tables, for key columns of types that tables cannot have
    /// here, and for files of other versions, unless those are to be left out; `Corrupt` and `Io`
    /// for files that cannot be read, unless damaged ones are to be left out.
    pub fn attach(&self, attachment: Attachment) -> BoxFuture<'static, Result<Attached>> {
        let database = self.clone();
        self.uninterrupted(async move { database.attach_now(attachment).await })
    }

    async fn attach_now(&self, attachment: Attachment) -> Result<Attached> {
        let Attachment { directory, names, keyspace, name, .. } = attachment;
        let Attachment { on_corruption, on_unknown, progress, .. } = attachment;
        check_name("table", &name)?;
        let catalog = self.catalog();
        if !catalog.has_keyspace(&keyspace) {
            return Err(Error::NotFound { kind: "keyspace", name: keyspace });
        }
        catalog.check_no_view(&keyspace, &name)?;
        if catalog.table(&keyspace, &name).is_some() {
            return Err(Error::Exists { kind: "table", name: format!("{keyspace}.{name}") });
        }
        let survey = self.survey(&directory, names).await?;
        survey.check_unknown(on_unknown, &directory)?;
        let mut files = survey.failed;
        let id = catalog.fresh_table_id(self.clock().wall_us());
        let (mut schema, mut notes) = table_schema(&survey.found, id)?;
        (schema.keyspace, schema.name) = (keyspace, name);
        schema.options.comment = format!("attached from {}", directory.display());
        schema.validate()?;
        let schema = Arc::new(schema);
        let mut names = survey.names;
        for number in 0..self.shard_count() {
            let (own, place, opened) = (schema.clone(), directory.clone(), names.clone());
            // The others open the same files.
            let told = if number == 0 { progress.clone() } else { AttachProgress::default() };
            let open = move |shard: Rc<Shard>| {
                let attach =
                    async move { shard.attach(own, place, on_corruption, &opened, told).await };
                run_as(Class::Maintenance, attach).boxed_local()
            };
            let failed = self.handle(number).call("attach", open).await?;
            // A file that the first shard could open and another could not must not be half there.
            let is_first = number == 0;
            if let Some((_, error)) = failed.iter().find(|_| !is_first) {
                self.forget_attached(schema.id).await?;
                return Err(error.clone());
            }
            for (name, error) in failed {
                names.retain(|other| *other != name);
                let path = data_path(&directory, &name);
                files.push(AttachedFile { path, error: Some(error) });
            }
            if is_first && let Err(error) = check_files(&directory, &names, &files, on_corruption) {
                self.forget_attached(schema.id).await?;
                return Err(error);
            }
        }
        let there = names.iter().map(|name| data_path(&directory, name));
        files.extend(there.map(|path| AttachedFile { path, error: None }));
        if !survey.unknown.is_empty() {
            notes.push(format!(
                "{} SSTables are left out, and what is in them alone is missing: their versions are \
                 not supported",
                survey.unknown.len()
            ));
        }
        notes.extend(self.notes_of_damage(schema.id).await?);
        files.extend(survey.unknown);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut changed = catalog.changed();
        changed.add_attached(schema.clone());
        self.replace_catalog(changed);
        Ok(Attached { schema, files, notes })
    }

    /// Takes an attached table away; its files stay as they are.
    ///
    /// Errors: `NotFound`, also for tables that are not attached.
    pub fn detach(&self, keyspace: &str, name: &str) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        self.uninterrupted(async move {
            let catalog = database.catalog();
            let table = catalog.table(&keyspace, &name).cloned();
            let table = table.filter(|_| catalog.is_attached(&keyspace, &name));
            let Some(table) = table else {
                let name = format!("{keyspace}.{name}");
                return Err(Error::NotFound { kind: "attached table", name });
            };
            let mut changed = catalog.changed();
            changed.remove_attached(&keyspace, &name);
            database.replace_catalog(changed);
            database.forget_attached(table.id).await
        })
    }

    async fn forget_attached(&self, id: TableId) -> Result<()> {
        for shard in &self.inner.shards {
            let forget =
                move |shard: Rc<Shard>| async move { shard.remove_table(id).await }.boxed_local();
            shard.call("detach", forget).await??;
        }
        Ok(())
    }

    /// What was damaged when the files of a table were opened, and was made anew.
    async fn notes_of_damage(&self, id: TableId) -> Result<Vec<String>> {
        let ask = move |shard: Rc<Shard>| {
            async move {
                let tables = shard.tables().into_iter().filter(|table| table.schema().id == id);
                let places = tables.flat_map(|table| table.damage().places());
                let rebuilt = places.filter(|damage| damage.rebuilt_count > 0);
                rebuilt
                    .map(|damage| {
                        let file = damage.file.display();
                        let (wanted, found) = (damage.wanted, damage.found);
                        format!("{file} is damaged and left out: expected {wanted}, found {found}")
                    })
                    .collect()
            }
            .boxed_local()
        };
        self.handle(0).call("damage", ask).await
    }

    pub(super) async fn survey(
        &self,
        directory: &Path,
        names: Option<Vec<SstableName>>,
    ) -> Result<Survey> {
        let directory = directory.to_owned();
        let survey = move |shard: Rc<Shard>| {
            let survey = async move { shard.survey(&directory, names).await };
            run_as(Class::Maintenance, survey).boxed_local()
        };
        self.handle(0).call("survey", survey).await?
    }
}

fn data_path(directory: &Path, name: &SstableName) -> PathBuf {
    name.path(directory, crate::sstable::Component::Data)
}

/// Errors: when no file is left, or when one failed and none may.
fn check_files(
    directory: &Path,
    names: &[SstableName],
    failed: &[AttachedFile],
    on_corruption: OnCorruption,
) -> Result<()> {
    let mut errors = failed.iter().filter_map(|file| file.error.as_ref());
    let Some(first) = errors.next() else { return Ok(()) };
    let others = errors.count();
    match on_corruption {
        OnCorruption::Skip if !names.is_empty() => Ok(()),
        _ if others == 0 => Err(first.clone()),
        _ => Err(Error::invalid(format!(
            "{} SSTables of {} cannot be opened; the first: {first}",
            others + 1,
            directory.display()
        ))),
    }
}

impl Shard {
    /// Looks into the files of a directory.
    ///
    /// Errors: see [`Database::attach`].
    async fn survey(&self, directory: &Path, names: Option<Vec<SstableName>>) -> Result<Survey> {
        let disk = &self.context.disk;
        let (mut found, mut failed, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let listed = match names {
            Some(names) => {
                names.into_iter().map(|name| (data_path(directory, &name), Ok(name))).collect()
            }
            None => {
                let listed = list(&**disk, directory).await?.into_iter();
                listed.map(|(file, name)| (directory.join(file), name)).collect::<Vec<_>>()
            }
        };
        if listed.is_empty() {
            let hint = format!("SSTables (no file ends with -Data.db) in {}", directory.display());
            return Err(Error::invalid(format!("there are no {hint}")));
        }
        let mut sstables = Vec::new();
        for (path, name) in listed {
            let name = match name {
                Ok(name) => name,
                Err(error) => {
                    unknown.push(AttachedFile { path, error: Some(error) });
                    continue;
                }
            };
            let looked = async {
                let sstable = Inspector::open(disk.clone(), directory, &name).await?;
                // Whether the header can be read.
                sstable.metadata().await?;
                Ok((name, sstable))
            };
            match looked.await {
                Ok((name, sstable)) => {
                    found.push(name);
                    sstables.push(sstable);
                }
                Err(error) => failed.push(AttachedFile { path, error: Some(error) }),
            }
        }
        let first = failed.iter().chain(&unknown).find_map(|file| file.error.as_ref());
        if let Some(error) = first.filter(|_| found.is_empty()) {
            return Err(error.clone());
        }
        let sstables: Vec<&Inspector> = sstables.iter().collect();
        Ok(Survey { found: find_schema(&sstables).await?, names: found, failed, unknown })
    }

    /// Opens an attached table; files that cannot be opened are handed back.
    async fn attach(
        &self,
        schema: SchemaRef,
        directory: PathBuf,
        on_corruption: OnCorruption,
        names: &[SstableName],
        progress: AttachProgress,
    ) -> Vec<(SstableName, Error)> {
        let id = schema.id;
        let opened = self.open_foreign(schema, directory, on_corruption, names, progress);
        let (table, failed) = opened.await;
        self.tables.borrow_mut().insert(id, Ok(table));
        failed
    }

    pub(super) async fn open_foreign(
        &self,
        schema: SchemaRef,
        directory: PathBuf,
        on_corruption: OnCorruption,
        names: &[SstableName],
        progress: AttachProgress,
    ) -> (Rc<Table>, Vec<(SstableName, Error)>) {
        let opening = AttachedOpening {
            schema,
            directory,
            on_corruption,
            disk: self.context.disk.clone(),
            cache: self.cache.clone(),
            shard: self.context.shard,
            shard_count: self.context.shard_count,
        };
        let (mut rows, mut bytes) = (0, 0);
        let tell = |sstable: &Sstable| {
            rows += sstable.info().rows;
            bytes += sstable.info().data_bytes;
            if let Some(progress) = &progress.0 {
                progress(rows, bytes);
            }
        };
        Table::attach(opening, names, tell).await
    }
}

/// The schema that files have, as a table here has it, and what is different.
///
/// Errors: `Invalid` for a key column of a type that no key here has.
fn table_schema(found: &FoundSchema, id: TableId) -> Result<(TableSchema, Vec<String>)> {
    let mut columns = Vec::new();
    let mut notes = Vec::new();
    if found.source.is_none() {
        let keys = found.partition_key.iter().map(|(name, _)| name);
        let keys: Vec<&str> =
            keys.chain(found.clustering.iter().map(|(name, _)| name)).map(String::as_str).collect();
        notes.push(format!(
            "the files do not name their key columns and there is no schema.cql: they are {}",
            keys.join(", ")
        ));
    }
    let key_type = |name: &str, ty: &StoredType| {
        data_type(ty).filter(DataType::is_key_type).ok_or_else(|| {
            Error::invalid(format!("key column '{name}' is of type {ty}, which no key here has"))
        })
    };
    for (position, (name, ty)) in found.partition_key.iter().enumerate() {
        let kind = ColumnKind::PartitionKey { position: position as u16 };
        columns.push(Column { name: name.clone(), ty: key_type(name, ty)?, kind });
    }
    for (position, (name, key)) in found.clustering.iter().enumerate() {
        let order = match key.is_descending {
            true => ClusteringOrder::Descending,
            false => ClusteringOrder::Ascending,
        };
        let kind = ColumnKind::ClusteringKey { position: position as u16, order };
        columns.push(Column { name: name.clone(), ty: key_type(name, &key.ty)?, kind });
    }
    let others = [(&found.statics, ColumnKind::Static), (&found.regulars, ColumnKind::Regular)];
    for (named, kind) in others {
        for (name, ty) in named {
            if let Some(ty) = data_type(ty) {
                columns.push(Column { name: name.clone(), ty, kind });
            } else if is_whole(ty) {
                notes.push(format!("column '{name}' of type {ty} is shown as its bytes"));
                columns.push(Column { name: name.clone(), ty: DataType::Blob, kind });
            } else {
                notes.push(format!("column '{name}' of type {ty} is left out"));
            }
        }
    }
    // What a header shows of a dense table WITH COMPACT STORAGE; others look so, too.
    let is_dense =
        found.clustering.len() > 1 && found.statics.is_empty() && found.regulars.len() <= 1;
    let options = TableOptions { has_partial_keys: is_dense, ..TableOptions::default() };
    let (keyspace, name) = (String::new(), String::new());
    Ok((TableSchema { id, keyspace, name, columns, options, drops: Vec::new() }, notes))
}

/// Whether each value of the type is one cell.
fn is_whole(ty: &StoredType) -> bool {
    !ty.is_multi_cell() && !matches!(ty, StoredType::Scalar(Scalar::Empty) | StoredType::Other(_))
}

/// The type of columns here that hold values of a stored type.
fn data_type(ty: &StoredType) -> Option<DataType> {
    let inner = |ty: &StoredType| data_type(ty);
    Some(match ty {
        StoredType::Scalar(scalar) => DataType::of_scalar(*scalar)?,
        StoredType::List(element) => DataType::list_of(inner(element)?),
        StoredType::Set(element) => DataType::set_of(inner(element)?),
        StoredType::Map(key, value) => DataType::map_of(inner(key)?, inner(value)?),
        StoredType::Tuple(fields) => {
            DataType::tuple_of(fields.iter().map(inner).collect::<Option<Vec<_>>>()?)
        }
        StoredType::User(user) => {
            let field = |(name, ty): &(String, StoredType)| Some((name.clone(), inner(ty)?));
            let fields = user.fields.iter().map(field).collect::<Option<Vec<_>>>()?;
            DataType::User(Box::new(UserType::new(&user.keyspace, &user.name, fields)))
        }
        StoredType::Frozen(ty) => inner(ty)?.frozen(),
        StoredType::Vector(..) | StoredType::Other(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::KeyType;

    const INT: StoredType = StoredType::Scalar(Scalar::Int);

    /// What files show of a table whose columns are all of one type.
    fn found(clustering: &[&str], statics: &[&str], regulars: &[&str]) -> FoundSchema {
        let named = |names: &[&str]| -> Vec<(String, StoredType)> {
            names.iter().map(|name| ((*name).to_owned(), INT)).collect()
        };
        let keys = named(clustering).into_iter();
        let keys = keys.map(|(name, ty)| (name, KeyType { ty, is_descending: false }));
        FoundSchema {
            keyspace: None,
            name: "t".into(),
            partition_key: named(&["pk"]),
            clustering: keys.collect(),
            statics: named(statics),
            regulars: named(regulars),
            source: Some(PathBuf::from("schema.cql")),
        }
    }

    #[test]
    fn key_columns_whose_names_were_made_up_are_told() {
        let named = found(&["ck1", "ck2"], &[], &["v"]);
        let notes = |found: &FoundSchema| table_schema(found, TableId(1)).unwrap().1;
        assert!(notes(&named).is_empty());
        let wanted = "the files do not name their key columns and there is no schema.cql: they \
                      are pk, ck1, ck2";
        assert_eq!(notes(&FoundSchema { source: None, ..named }), [wanted]);
    }

    #[test]
    fn columns_of_types_that_no_table_has_are_bytes_or_are_left_out() {
        let mut files = found(&["ck"], &[], &["v"]);
        files.regulars.push(("vec".into(), StoredType::Vector(Box::new(INT), 3)));
        files.regulars.push(("odd".into(), StoredType::Other("Odd".into())));
        let (schema, notes) = table_schema(&files, TableId(1)).unwrap();
        let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["pk", "ck", "v", "vec"]);
        let types = [2, 3].map(|at: usize| &schema.columns[at].ty);
        assert_eq!(types, [&DataType::Int, &DataType::Blob]);
        let is_told = |note: &str, name: &str, end: &str| {
            note.starts_with(&format!("column '{name}' of type ")) && note.ends_with(end)
        };
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(is_told(&notes[0], "vec", "is shown as its bytes"), "{notes:?}");
        assert!(is_told(&notes[1], "odd", "is left out"), "{notes:?}");
        files.partition_key[0].1 = StoredType::Other("Odd".into());
        let refused = table_schema(&files, TableId(1)).unwrap_err().to_string();
        assert!(refused.contains("key column 'pk' is of type"), "{refused}");
    }

    #[test]
    fn keys_may_lack_values_where_the_table_may_be_a_dense_one() {
        let may_lack = |clustering: &[&str], statics: &[&str], regulars: &[&str]| {
            let files = found(clustering, statics, regulars);
            table_schema(&files, TableId(1)).unwrap().0.options.has_partial_keys
        };
        assert!(may_lack(&["a", "b"], &[], &["v"]));
        assert!(may_lack(&["a", "b"], &[], &[]));
        assert!(!may_lack(&["a"], &[], &["v"]));
        assert!(!may_lack(&["a", "b"], &["s"], &["v"]));
        assert!(!may_lack(&["a", "b"], &[], &["v", "w"]));
    }

    fn broken(number: u64) -> AttachedFile {
        let path = data_path(Path::new("/d"), &SstableName::native(number));
        let error = Error::corrupt(&path, number, "a", "b");
        AttachedFile { path, error: Some(error) }
    }

    #[test]
    fn files_that_fail_are_left_out_only_where_that_is_asked_for_and_others_are_left() {
        let whole = AttachedFile { error: None, ..broken(9) };
        let [first, second] = [broken(1), broken(2)];
        let first_error = first.error.clone().unwrap().to_string();
        let many = format!("2 SSTables of /d cannot be opened; the first: {first_error}");
        let none = [whole.clone()];
        let one = [whole.clone(), first.clone()];
        let two = [first, whole, second];
        let names = [SstableName::native(9)];
        // How many are left, and what is told where they may fail, and where they may not.
        for (failed, left, skips, fails) in [
            (&none[..], &names[..], "", ""),
            (&none, &[], "", ""),
            (&one, &names, "", first_error.as_str()),
            (&one, &[], &first_error, &first_error),
            (&two, &names, "", &many),
            (&two, &[], &many, &many),
        ] {
            for (choice, wanted) in [(OnCorruption::Skip, skips), (OnCorruption::Fail, fails)] {
                let told = check_files(Path::new("/d"), left, failed, choice);
                let told = told.err().map(|error| error.to_string()).unwrap_or_default();
                assert_eq!(told, wanted, "{choice:?}: {} are left", left.len());
            }
        }
    }

    #[test]
    fn files_of_unknown_versions_are_counted_among_all_and_told_with_the_first() {
        let survey = |unknown: Vec<AttachedFile>| Survey {
            found: found(&["ck"], &[], &["v"]),
            names: [7, 8].map(SstableName::native).to_vec(),
            failed: vec![broken(1)],
            unknown,
        };
        let check = |unknown, choice| survey(unknown).check_unknown(choice, Path::new("/d"));
        assert!(check(Vec::new(), OnUnknown::Fail).is_ok(), "damage is told elsewhere");
        assert!(check(vec![broken(2), broken(3)], OnUnknown::Skip).is_ok());
        let told = check(vec![broken(2), broken(3)], OnUnknown::Fail).unwrap_err().to_string();
        let first = broken(2).error.unwrap();
        let wanted = format!("2 of 5 SSTables of /d cannot be read; the first: {first}; WITH (");
        assert!(told.starts_with(&wanted), "{told}");
    }
}
