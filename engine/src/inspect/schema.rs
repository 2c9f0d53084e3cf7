//! The schema of foreign files: types from their headers, names from what stands beside them.
//!
//! Names are looked for in this order: `schema.cql` in the directory, `schema.cql` in the one
//! above, the schema in `Scylla.db`. Without any, partition key columns are called `pk` (`pk1`,
//! `pk2`, … when there are more) and clustering columns `ck` (`ck1`, …); the table takes the name
//! of the directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::cql::{self, CreateTable};
use super::files::Inspector;
use super::types::{KeyType, StoredType, UserType, identifier};
use crate::disk::{Disk, read_file};
use crate::error::{Error, Result};
use crate::os;
use crate::sstable::format::layout::Header;
use crate::sstable::format::scylla::ScyllaSchema;

const SCHEMA_FILE: &str = "schema.cql";
/// Digits of a table's id in the name of its directory.
const TABLE_ID_DIGITS: usize = 32;

/// A table as its files show it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSchema {
    pub keyspace: Option<String>,
    pub name: String,
    pub partition_key: Vec<(String, StoredType)>,
    pub clustering: Vec<(String, KeyType)>,
    pub statics: Vec<(String, StoredType)>,
    pub regulars: Vec<(String, StoredType)>,
    /// Where the names of key columns are from; `None` when they were made up.
    pub source: Option<PathBuf>,
}

/// Keyspace and table by the name of a directory: `<table>-<id>` in `<keyspace>`, or just a name.
pub fn names_of_directory(directory: &Path) -> (Option<String>, String) {
    let name = |path: &Path| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let own = name(directory);
    let is_id = |id: &str| id.len() == TABLE_ID_DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    match own.rsplit_once('-') {
        Some((table, id)) if is_id(id) => {
            let keyspace = directory.parent().map(name).filter(|name| !name.is_empty());
            (keyspace, table.to_owned())
        }
        _ => (None, own),
    }
}

/// Finds the schema of the SSTables of one directory, which is named by an absolute path.
///
/// Errors: `Io`, `Corrupt`; `Invalid` when the files are of different tables, or when `schema.cql`
/// contradicts them.
pub async fn find_schema(sstables: &[&Inspector]) -> Result<FoundSchema> {
    let first = sstables.first().ok_or_else(|| Error::invalid("there is no SSTable"))?;
    let mut headers = Vec::with_capacity(sstables.len());
    for sstable in sstables {
        headers
            .push((sstable.directory().join(sstable.name().prefix()), sstable.metadata().await?));
    }
    let mut schema =
        of_headers(first.directory(), headers.iter().map(|(p, m)| (p.as_path(), &m.header)))?;
    if let Some((source, table)) = find_text(&*first.disk, first.directory(), &schema.name).await? {
        take_names(&mut schema, &table, &source)?;
        schema.source = Some(source);
        return Ok(schema);
    }
    for sstable in sstables {
        if let Some(found) = sstable.scylla().await?.and_then(|scylla| scylla.schema)
            && take_scylla_names(&mut schema, &found)
        {
            schema.source =
                Some(sstable.path(crate::sstable::format::component::Component::Scylla));
            break;
        }
    }
    Ok(schema)
}

fn of_headers<'a>(
    directory: &Path,
    mut headers: impl Iterator<Item = (&'a Path, &'a Header)>,
) -> Result<FoundSchema> {
    let (keyspace, name) = names_of_directory(directory);
    let (_, header) = headers.next().ok_or_else(|| Error::invalid("there is no SSTable"))?;
    let numbered = |prefix: &str, count: usize, i: usize| match count {
        1 => prefix.to_owned(),
        _ => format!("{prefix}{}", i + 1),
    };
    let partition_key = StoredType::parse_partition_key(&header.partition_key);
    let count = partition_key.len();
    let key = partition_key.into_iter().enumerate();
    let partition_key = key.map(|(i, ty)| (numbered("pk", count, i), ty)).collect();
    let count = header.clustering.len();
    let clustering = header.clustering.iter().enumerate();
    let clustering =
        clustering.map(|(i, name)| (numbered("ck", count, i), KeyType::parse(name))).collect();
    let mut schema = FoundSchema {
        keyspace,
        name,
        partition_key,
        clustering,
        statics: Vec::new(),
        regulars: Vec::new(),
        source: None,
    };
    let (key, clustering_types) = (&header.partition_key, &header.clustering);
    add_columns(&mut schema.statics, &header.statics, directory)?;
    add_columns(&mut schema.regulars, &header.regulars, directory)?;
    for (path, other) in headers {
        if (&other.partition_key, &other.clustering) != (key, clustering_types) {
            return Err(Error::invalid(format!(
                "{} is of another table than the files before it: its key is {} and [{}]",
                path.display(),
                other.partition_key,
                other.clustering.join(", ")
            )));
        }
        add_columns(&mut schema.statics, &other.statics, path)?;
        add_columns(&mut schema.regulars, &other.regulars, path)?;
    }
    schema.statics.sort_by(|a, b| a.0.cmp(&b.0));
    schema.regulars.sort_by(|a, b| a.0.cmp(&b.0));
    // Names that were made up give way to those of the files.
    let taken: Vec<String> =
        schema.statics.iter().chain(&schema.regulars).map(|(name, _)| name.clone()).collect();
    let keys = schema.partition_key.iter_mut().map(|(name, _)| name);
    for name in keys.chain(schema.clustering.iter_mut().map(|(name, _)| name)) {
        while taken.contains(name) {
            name.push('_');
        }
    }
    Ok(schema)
}

/// Adds the columns that a file at `path` names to those of files before it.
///
/// Errors: `Invalid` for one that has another type there.
fn add_columns(
    columns: &mut Vec<(String, StoredType)>,
    named: &[(Vec<u8>, String)],
    path: &Path,
) -> Result<()> {
    for (name, ty) in named {
        let (name, ty) = (String::from_utf8_lossy(name).into_owned(), StoredType::parse(ty));
        match columns.iter().find(|(known, _)| *known == name) {
            None => columns.push((name, ty)),
            Some((_, known)) if *known == ty => {}
            Some((_, known)) => {
                return Err(Error::invalid(format!(
                    "{} holds column '{name}' of type {ty}, other files of the directory hold it \
                     as {known}",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// The statement that creates the table, in the directory or the one above.
async fn find_text(
    disk: &dyn Disk,
    directory: &Path,
    table: &str,
) -> Result<Option<(PathBuf, CreateTable)>> {
    for place in directory.ancestors().take(2) {
        let path = place.join(SCHEMA_FILE);
        let content = match read_file(disk, &path).await {
            Ok(content) => content,
            Err(Error::Io { code: Some(os::EACCES), .. }) => continue,
            Err(error) if error.is_missing_file() => continue,
            Err(error) => return Err(error),
        };
        let mut tables = cql::tables(&String::from_utf8_lossy(&content));
        // A snapshot's text has its own table only.
        let own = match tables.len() {
            1 if place == directory => Some(0),
            _ => tables.iter().position(|found| found.name == table),
        };
        if let Some(own) = own {
            return Ok(Some((path, tables.swap_remove(own))));
        }
    }
    Ok(None)
}

fn take_names(schema: &mut FoundSchema, table: &CreateTable, source: &Path) -> Result<()> {
    let refuse = |what: &str, wanted: &str, found: &str| {
        Error::invalid(format!(
            "{} says that {what} is {wanted}, the files have {found}",
            source.display()
        ))
    };
    let counts = (schema.partition_key.len(), schema.clustering.len());
    let told = (table.partition_key.len(), table.clustering.len());
    if counts != told {
        let text = |(partition, clustering): (usize, usize)| {
            format!("{partition} partition and {clustering} clustering columns")
        };
        return Err(refuse(&format!("the key of {}", table.name), &text(told), &text(counts)));
    }
    let told_type = |name: &str| {
        let column = table.columns.iter().find(|column| column.name == name)?;
        column.ty.clone()
    };
    let check = |name: &str, found: &StoredType| match told_type(name) {
        Some(told) if told.to_string() != found.to_string() => {
            Err(refuse(&format!("column '{name}'"), &told.to_string(), &found.to_string()))
        }
        _ => Ok(()),
    };
    for ((name, ty), told) in schema.partition_key.iter_mut().zip(&table.partition_key) {
        check(told, ty)?;
        name.clone_from(told);
    }
    for ((name, key), told) in schema.clustering.iter_mut().zip(&table.clustering) {
        check(told, &key.ty)?;
        name.clone_from(told);
    }
    for (name, ty) in schema.statics.iter().chain(&schema.regulars) {
        check(name, ty)?;
    }
    // Columns without data in these files, and the order of the statement.
    let is_key =
        |name: &String| table.partition_key.contains(name) || table.clustering.contains(name);
    for is_static in [true, false] {
        let columns = if is_static { &mut schema.statics } else { &mut schema.regulars };
        let mut left = std::mem::take(columns);
        let told = table.columns.iter().filter(|c| c.is_static == is_static && !is_key(&c.name));
        for column in told {
            match left.iter().position(|(name, _)| *name == column.name) {
                Some(at) => columns.push(left.remove(at)),
                None => columns.extend(column.ty.clone().map(|ty| (column.name.clone(), ty))),
            }
        }
        columns.append(&mut left);
    }
    schema.name.clone_from(&table.name);
    if table.keyspace.is_some() {
        schema.keyspace.clone_from(&table.keyspace);
    }
    Ok(())
}

/// False when the schema in `Scylla.db` does not fit.
fn take_scylla_names(schema: &mut FoundSchema, found: &ScyllaSchema) -> bool {
    let names = |kind: u8| -> Vec<String> {
        let columns = found.columns.iter().filter(|column| column.kind == kind);
        columns.map(|column| column.name.clone()).collect()
    };
    let (partition, clustering) = (names(1), names(2));
    if (partition.len(), clustering.len()) != (schema.partition_key.len(), schema.clustering.len())
    {
        return false;
    }
    schema.partition_key.iter_mut().zip(partition).for_each(|((own, _), name)| *own = name);
    schema.clustering.iter_mut().zip(clustering).for_each(|((own, _), name)| *own = name);
    let missing = |columns: &mut Vec<(String, StoredType)>, kind: u8| {
        for column in found.columns.iter().filter(|column| column.kind == kind) {
            if !columns.iter().any(|(name, _)| *name == column.name) {
                columns.push((column.name.clone(), StoredType::parse(&column.ty)));
            }
        }
    };
    missing(&mut schema.statics, 3);
    missing(&mut schema.regulars, 4);
    schema.name.clone_from(&found.name);
    schema.keyspace = Some(found.keyspace.clone());
    true
}

impl FoundSchema {
    /// The schema as CQL: `CREATE TYPE`s and a `CREATE TABLE`.
    pub fn to_cql(&self) -> String {
        let mut out = String::new();
        if self.source.is_none() {
            out.push_str(
                "-- The files do not hold the names of key columns, and there is no schema.cql.\n",
            );
        }
        let keyspace = self
            .keyspace
            .as_ref()
            .map_or_else(String::new, |name| format!("{}.", identifier(name)));
        let key = self.partition_key.iter().map(|(_, ty)| ty);
        let key = key.chain(self.clustering.iter().map(|(_, key)| &key.ty));
        let mut users: Vec<&UserType> = Vec::new();
        key.chain(self.statics.iter().chain(&self.regulars).map(|(_, ty)| ty))
            .for_each(|ty| ty.user_types(&mut users));
        for user in users {
            let fields: Vec<String> = user
                .fields
                .iter()
                .map(|(name, ty)| format!("    {} {}", identifier(name), Frozen(ty)))
                .collect();
            let name = identifier(&user.name);
            let _ = writeln!(out, "CREATE TYPE {keyspace}{name} (\n{}\n);\n", fields.join(",\n"));
        }
        let _ = writeln!(out, "CREATE TABLE {keyspace}{} (", identifier(&self.name));
        let mut column = |name: &str, ty: &StoredType, end: &str| {
            let _ = writeln!(out, "    {} {ty}{end}", identifier(name));
        };
        self.partition_key.iter().for_each(|(name, ty)| column(name, ty, ","));
        self.clustering.iter().for_each(|(name, key)| column(name, &key.ty, ","));
        self.statics.iter().for_each(|(name, ty)| column(name, ty, " static,"));
        self.regulars.iter().for_each(|(name, ty)| column(name, ty, ","));
        let partition: Vec<String> =
            self.partition_key.iter().map(|(name, _)| identifier(name)).collect();
        let mut key = match partition.as_slice() {
            [name] => name.clone(),
            names => format!("({})", names.join(", ")),
        };
        for (name, _) in &self.clustering {
            let _ = write!(key, ", {}", identifier(name));
        }
        let _ = write!(out, "    PRIMARY KEY ({key})\n)");
        if self.clustering.iter().any(|(_, key)| key.is_descending) {
            let orders = self.clustering.iter().map(|(name, key)| {
                format!("{} {}", identifier(name), if key.is_descending { "DESC" } else { "ASC" })
            });
            let orders = orders.collect::<Vec<_>>().join(", ");
            let _ = write!(out, " WITH CLUSTERING ORDER BY ({orders})");
        }
        out.push_str(";\n");
        out
    }
}

/// The type of a field of a user type: what has cells of its own elsewhere is frozen there.
struct Frozen<'a>(&'a StoredType);

impl std::fmt::Display for Frozen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_multi_cell() {
            write!(f, "frozen<{}>", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Scalar;

    #[test]
    fn a_directory_names_a_table_and_with_an_id_its_keyspace() {
        let id = "0123456789abcdefABCDEF0123456789";
        for (directory, keyspace, table) in [
            (format!("/data/ks/t-{id}"), Some("ks"), "t".to_owned()),
            (format!("/data/ks/a-b-{id}"), Some("ks"), "a-b".to_owned()),
            (format!("/t-{id}"), None, "t".to_owned()),
            ("/data/ks/t".to_owned(), None, "t".to_owned()),
            ("/data/ks/t-1".to_owned(), None, "t-1".to_owned()),
            (format!("/data/ks/t-{id}0"), None, format!("t-{id}0")),
            (format!("/data/ks/t-{}", &id[1..]), None, format!("t-{}", &id[1..])),
            (format!("/data/ks/t-g{}", &id[1..]), None, format!("t-g{}", &id[1..])),
            ("/".to_owned(), None, String::new()),
        ] {
            let wanted = (keyspace.map(str::to_owned), table);
            assert_eq!(names_of_directory(Path::new(&directory)), wanted, "{directory}");
        }
    }

    #[test]
    fn a_schema_in_cql_has_keys_orders_statics_and_types_before_those_that_need_them() {
        let int = || StoredType::Scalar(Scalar::Int);
        let named = |name: &str, ty| (name.to_owned(), ty);
        let user = |name: &str, field: StoredType| UserType {
            keyspace: "ks".to_owned(),
            name: name.to_owned(),
            fields: vec![named("f", field)],
        };
        let inner = StoredType::User(user("inner", StoredType::List(Box::new(int()))));
        let outer = StoredType::User(user("Outer", inner));
        let key = |is_descending| KeyType { ty: int(), is_descending };
        let mut schema = FoundSchema {
            keyspace: None,
            name: "t".to_owned(),
            partition_key: vec![named("a", int())],
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: vec![named("v", int())],
            source: Some(PathBuf::from("schema.cql")),
        };
        let columns = "    a int,\n    v int,\n";
        let wanted = format!("CREATE TABLE t (\n{columns}    PRIMARY KEY (a)\n);\n");
        assert_eq!(schema.to_cql(), wanted);
        schema.source = None;
        let (note, rest) = schema.to_cql().split_once('\n').map(owned).unwrap();
        assert!(note.starts_with("-- ") && note.contains("key columns"), "{note}");
        assert_eq!(rest, wanted);
        schema = FoundSchema {
            keyspace: Some("Ks".to_owned()),
            partition_key: vec![named("a", int()), named("B", int())],
            clustering: vec![("c".to_owned(), key(false)), ("d".to_owned(), key(false))],
            statics: vec![named("s", outer.clone())],
            regulars: vec![named("v", StoredType::Frozen(Box::new(outer)))],
            source: Some(PathBuf::from("schema.cql")),
            ..schema
        };
        let types = "CREATE TYPE \"Ks\".inner (\n    f frozen<list<int>>\n);\n\n\
            CREATE TYPE \"Ks\".\"Outer\" (\n    f frozen<inner>\n);\n\n";
        let columns = "    a int,\n    \"B\" int,\n    c int,\n    d int,\n    \
            s \"Outer\" static,\n    v frozen<\"Outer\">,\n";
        let key_text = "    PRIMARY KEY ((a, \"B\"), c, d)\n)";
        let wanted = format!("{types}CREATE TABLE \"Ks\".t (\n{columns}{key_text}");
        assert_eq!(schema.to_cql(), format!("{wanted};\n"), "no order need be said");
        for (at, orders) in [(0, "c DESC, d ASC"), (1, "c ASC, d DESC")] {
            let mut turned = schema.clone();
            turned.clustering[at].1.is_descending = true;
            let order = format!(" WITH CLUSTERING ORDER BY ({orders});\n");
            assert_eq!(turned.to_cql(), format!("{wanted}{order}"));
        }
    }

    fn owned((first, second): (&str, &str)) -> (String, String) {
        (first.to_owned(), second.to_owned())
    }
}
