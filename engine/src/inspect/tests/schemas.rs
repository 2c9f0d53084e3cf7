//! Where the schema of files is found, and what several files of a table say together.

use futures::future::{LocalBoxFuture, ready};

use super::*;
use crate::disk::{DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::Result;
use crate::os;
use crate::sstable::format::coding::put_bytes32;
use crate::sstable::tests::foreign::{Named, table};

const INT: DataType = DataType::Int;
const TEXT: DataType = DataType::Text;
const BLOB: DataType = DataType::Blob;

/// The schema in the directory of the files, and the one above.
const PLACES: [&str; 2] = ["/table/schema.cql", "/schema.cql"];

/// Generation `number` of a table, with all columns of it in the header.
fn put(disk: &MemoryDisk, number: u64, schema: &SchemaRef) -> Inspector {
    let key = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
    let deletion = Some(Tombstone { timestamp: 9, deletion_time: 9 });
    let fragments = [Fragment::PartitionStart { key, deletion }, Fragment::PartitionEnd];
    write(disk, number, schema, WriterOptions::default(), fragments).unwrap();
    inspector(disk, directory(), &SstableName::native(number))
}

/// A table of one partition key column, one clustering column and these others.
fn keyed(statics: &[Named<'_>], regulars: &[Named<'_>]) -> SchemaRef {
    table(&[("p", INT)], &[("c", INT)], statics, regulars)
}

fn find(sstables: &[&Inspector]) -> FoundSchema {
    block_on(find_schema(sstables)).unwrap()
}

/// Where names are from, and those of the table and its keys.
fn named(found: &FoundSchema) -> (Option<&str>, [&str; 3]) {
    let source = found.source.as_ref().map(|path| path.to_str().unwrap());
    (source, [&found.name, &found.partition_key[0].0, &found.clustering[0].0])
}

/// A statement that creates a table of two keys with these names.
fn create(name: &str, [key, clustering]: [&str; 2]) -> String {
    let columns = format!("{key} int, {clustering} int, v text");
    format!("CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}, {clustering}));\n")
}

#[test]
fn a_schema_beside_the_files_comes_before_one_above_and_may_have_another_name_if_it_is_alone() {
    let [own, above] = PLACES;
    let (ab, cd) = (["a", "b"], ["c", "d"]);
    let two = |name: &str| create("other", ["e", "f"]) + &create(name, ab);
    let made_up = (None, ["table", "pk", "ck"]);
    for (text, text_above, wanted) in [
        (create("table", ab), create("table", cd), (Some(own), ["table", "a", "b"])),
        // A snapshot has that of its own table alone.
        (create("other", ab), create("table", cd), (Some(own), ["other", "a", "b"])),
        (two("table"), create("table", cd), (Some(own), ["table", "a", "b"])),
        (two("another"), create("table", cd), (Some(above), ["table", "c", "d"])),
        (two("another"), create("other", cd), made_up),
        (String::new(), create("other", cd), made_up),
        (String::new(), two("table"), (Some(above), ["table", "a", "b"])),
        (
            "CREATE TABLE table (a".to_owned(),
            create("\"table\"", cd),
            (Some(above), ["table", "c", "d"]),
        ),
        (String::new(), String::new(), made_up),
    ] {
        let disk = MemoryDisk::default();
        let sstable = put(&disk, 1, &keyed(&[], &[("v", TEXT)]));
        assert_eq!(named(&find(&[&sstable])), made_up, "there is no text");
        for (place, text) in [(own, &text), (above, &text_above)] {
            disk.set_content(Path::new(place), text.clone().into_bytes());
        }
        let found = find(&[&sstable]);
        assert_eq!(named(&found), wanted, "{text} {text_above}");
        assert_eq!(found.keyspace, None, "{text} {text_above}");
    }
    let disk = MemoryDisk::default();
    let sstable = put(&disk, 1, &keyed(&[], &[("v", TEXT)]));
    disk.set_content(Path::new(own), create("ks.table", ab).into_bytes());
    assert_eq!(find(&[&sstable]).keyspace.as_deref(), Some("ks"));
}

/// A disk on which one file cannot be opened.
struct Refusing {
    disk: MemoryDisk,
    path: PathBuf,
    code: i32,
}

impl Disk for Refusing {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        if path == self.path {
            let error = std::io::Error::from_raw_os_error(self.code);
            let refused: Result<Rc<dyn DiskFile>> = Err(Error::io("open", path, &error));
            return Box::pin(ready(refused));
        }
        self.disk.open(path, options)
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.disk.create_directories(path)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.disk.rename(from, to)
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.disk.link(from, to)
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.disk.remove(path)
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.disk.remove_directory(path)
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.disk.sync_directory(path)
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        self.disk.list(path)
    }
}

/// That of others, whom it need not let read it.
#[test]
fn a_schema_that_may_not_be_read_is_passed_over_and_one_that_cannot_be_is_an_error() {
    const EIO: i32 = 5;
    let [own, above] = PLACES;
    let disk = MemoryDisk::default();
    put(&disk, 1, &keyed(&[], &[("v", TEXT)]));
    for (place, keys) in [(own, ["a", "b"]), (above, ["c", "d"])] {
        disk.set_content(Path::new(place), create("table", keys).into_bytes());
    }
    for (path, code, wanted) in [
        ("/none", EIO, Some((Some(own), ["table", "a", "b"]))),
        (own, os::EACCES, Some((Some(above), ["table", "c", "d"]))),
        (own, EIO, None),
        // The one above is not asked for.
        (above, EIO, Some((Some(own), ["table", "a", "b"]))),
    ] {
        let refusing = Refusing { disk: disk.clone(), path: path.into(), code };
        let name = SstableName::native(1);
        let sstable = block_on(Inspector::open(Rc::new(refusing), directory(), &name)).unwrap();
        let found = block_on(find_schema(&[&sstable]));
        match (&found, wanted) {
            (Ok(found), Some(wanted)) => assert_eq!(named(found), wanted, "{path} {code}"),
            (Err(error), None) => assert!(error.to_string().contains(path), "{error}"),
            _ => panic!("{path} {code}: {found:?}"),
        }
    }
}

/// Columns as CQL writes them.
fn texts(columns: &[(String, StoredType)]) -> Vec<String> {
    columns.iter().map(|(name, ty)| format!("{name} {ty}")).collect()
}

#[test]
fn columns_of_all_files_are_gathered_in_the_order_of_their_names() {
    let disk = MemoryDisk::default();
    let first = put(&disk, 1, &keyed(&[("t", TEXT)], &[("w", INT), ("d", TEXT)]));
    let second = put(&disk, 2, &keyed(&[("s", INT)], &[("d", TEXT), ("a", BLOB)]));
    for sstables in [[&first, &second], [&second, &first]] {
        let found = find(&sstables);
        assert_eq!(texts(&found.statics), ["s int", "t text"]);
        assert_eq!(texts(&found.regulars), ["a blob", "d text", "w int"]);
    }
    let found = find(&[&first]);
    assert_eq!((texts(&found.statics).len(), texts(&found.regulars).len()), (1, 2));
    let refused = block_on(find_schema(&[])).unwrap_err();
    assert!(matches!(refused, Error::Invalid(_)), "{refused}");
}

#[test]
fn files_of_another_key_or_with_a_column_of_another_type_are_refused_by_name() {
    let disk = MemoryDisk::default();
    let own = keyed(&[("s", INT)], &[("v", TEXT)]);
    let first = put(&disk, 1, &own);
    let of_keys = |key: &[Named<'_>], clustering: &[Named<'_>]| table(key, clustering, &[], &[]);
    let another = "is of another table than the files before it";
    for (number, (schema, told)) in (2..).zip([
        (of_keys(&[("p", TEXT)], &[("c", INT)]), another),
        (of_keys(&[("p", INT), ("q", INT)], &[("c", INT)]), another),
        (of_keys(&[("p", INT)], &[("c", TEXT)]), another),
        (of_keys(&[("p", INT)], &[("-c", INT)]), another),
        (of_keys(&[("p", INT)], &[("c", INT), ("d", INT)]), another),
        (of_keys(&[("p", INT)], &[]), another),
        (keyed(&[], &[("v", BLOB)]), "holds column 'v' of type blob"),
        (keyed(&[("s", TEXT)], &[("v", TEXT)]), "holds column 's' of type text"),
    ]) {
        let other = put(&disk, number, &schema);
        find(&[&other]);
        let error = block_on(find_schema(&[&first, &other])).unwrap_err().to_string();
        let file = format!("/table/me-{number}-big");
        assert!(error.starts_with(&file) && error.contains(told), "{error}");
    }
    let again = put(&disk, 50, &own);
    find(&[&first, &again]);
}

#[test]
fn names_that_were_made_up_give_way_to_those_of_columns() {
    type Case<'a> = (SchemaRef, &'a [&'a str], &'a [&'a str]);
    let two = |regulars: &[Named<'_>]| {
        table(&[("p", INT), ("q", INT)], &[("c", INT), ("d", INT)], &[], regulars)
    };
    let cases: [Case<'_>; 5] = [
        (keyed(&[], &[("v", INT)]), &["pk"], &["ck"]),
        (keyed(&[], &[("pk1", INT), ("ck1", INT)]), &["pk"], &["ck"]),
        (keyed(&[("pk", INT)], &[("ck", INT), ("ck_", INT)]), &["pk_"], &["ck__"]),
        (two(&[("pk", INT), ("ck", INT)]), &["pk1", "pk2"], &["ck1", "ck2"]),
        (two(&[("pk2", INT), ("ck1", INT)]), &["pk1", "pk2_"], &["ck1_", "ck2"]),
    ];
    for (number, (schema, partition_key, clustering)) in (1..).zip(cases) {
        let found = find(&[&put(&MemoryDisk::default(), number, &schema)]);
        let names: Vec<&str> = found.partition_key.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, partition_key, "{number}");
        let names: Vec<&str> = found.clustering.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, clustering, "{number}");
    }
}

/// A `Scylla.db` with the schema alone: kind, name and type of each column.
fn scylla(columns: &[(u8, &str, &str)]) -> Vec<u8> {
    let mut schema = vec![7; 32];
    put_bytes32(&mut schema, b"ks");
    put_bytes32(&mut schema, b"t");
    schema.extend((columns.len() as u32).to_be_bytes());
    for (kind, name, ty) in columns {
        schema.push(*kind);
        put_bytes32(&mut schema, name.as_bytes());
        put_bytes32(&mut schema, ty.as_bytes());
    }
    let mut out = [1_u32, 11].map(u32::to_be_bytes).concat();
    put_bytes32(&mut out, &schema);
    out
}

#[test]
fn without_a_text_names_are_those_of_the_first_scylla_db_that_fits() {
    let (int, text) = ("Int32Type", "UTF8Type");
    let fits = scylla(&[
        (4, "w", int),
        (1, "key", int),
        (4, "v", int),
        (3, "s2", text),
        (2, "time", int),
        (3, "s", int),
    ]);
    let others = [
        scylla(&[]),
        scylla(&[(1, "key", int)]),
        scylla(&[(2, "time", int)]),
        scylla(&[(1, "key", int), (1, "more", int), (2, "time", int)]),
        scylla(&[(1, "key", int), (2, "time", int), (2, "more", int)]),
    ];
    let disk = MemoryDisk::default();
    let schema = keyed(&[("s", INT)], &[("v", TEXT)]);
    let (first, second) = (put(&disk, 1, &schema), put(&disk, 2, &schema));
    let [own, other] = [1, 2].map(|number| Component::Scylla.path(directory(), number));
    disk.set_content(&own, fits.clone());
    let found = find(&[&first, &second]);
    assert_eq!(named(&found), (own.to_str(), ["t", "key", "time"]));
    assert_eq!(found.keyspace.as_deref(), Some("ks"));
    assert_eq!(texts(&found.statics), ["s int", "s2 text"]);
    assert_eq!(texts(&found.regulars), ["v text", "w int"], "files know the types that they have");
    assert!(found.to_cql().starts_with("CREATE TABLE ks.t ("), "{}", found.to_cql());
    for odd in others {
        disk.set_content(&own, odd);
        disk.set_content(&other, fits.clone());
        let found = find(&[&first, &second]);
        assert_eq!(named(&found), (other.to_str(), ["t", "key", "time"]));
        let found = find(&[&first]);
        assert_eq!(named(&found), (None, ["table", "pk", "ck"]));
        assert_eq!(found.keyspace, None);
    }
    // A text is asked first.
    disk.set_content(&own, fits);
    let [place, _] = PLACES;
    let columns = "a int, b int, s int static, v text, PRIMARY KEY (a, b)";
    disk.set_content(Path::new(place), format!("CREATE TABLE table ({columns});").into_bytes());
    assert_eq!(named(&find(&[&first])), (Some(place), ["table", "a", "b"]));
}

#[test]
fn files_of_a_directory_come_in_the_order_of_their_numbers_with_an_error_for_each_odd_one() {
    let disk = MemoryDisk::default();
    for file in [
        "me-10-big-Data.db",
        "me-2-big-Data.db",
        "nb-2-big-Data.db",
        "oa-1-big-Data.db",
        "me-3gsm_0lob-big-Data.db",
        "me-3-big-Index.db",
        "me-4-big-Data.db.tmp",
        "notes-Data.db",
    ] {
        disk.set_content(&directory().join(file), Vec::new());
    }
    let listed = block_on(list(&disk, directory())).unwrap();
    let found: Vec<(&str, bool)> =
        listed.iter().map(|(file, name)| (&**file, name.is_ok())).collect();
    let wanted = [
        ("me-3gsm_0lob-big-Data.db", true),
        ("notes-Data.db", false),
        ("oa-1-big-Data.db", false),
        ("me-2-big-Data.db", true),
        ("nb-2-big-Data.db", true),
        ("me-10-big-Data.db", true),
    ];
    assert_eq!(found, wanted);
    for (path, folder, file) in [
        ("me-1-big-Data.db", ".", "me-1-big-Data.db"),
        ("/a/me-1-big-TOC.txt", "/a", "me-1-big-Data.db"),
        ("a/b/nb-7-big-Index.db", "a/b", "nb-7-big-Data.db"),
    ] {
        let found = locate(Path::new(path)).unwrap();
        assert_eq!(found, (PathBuf::from(folder), SstableName::parse(file).unwrap()), "{path}");
    }
    for path in ["/a/notes", "/", "oa-1-big-Data.db"] {
        assert!(matches!(locate(Path::new(path)), Err(Error::Invalid(_))), "{path}");
    }
}
