//! Files of other products that this engine does not write: compressed ones, other versions, and
//! columns that the table does not have or has otherwise.

use std::path::PathBuf;

use super::dump::check_dump;
use super::fixtures::{clustering_types, fixture_path, reversed};
use super::model::schema_of;
use super::*;
use crate::checksum::crc32;
use crate::error::Error;
use crate::mutation::Direction;
use crate::schema::{ClusteringOrder, Column, ColumnKind, DataType, PartitionKey, UserType, Value};

const INT: DataType = DataType::Int;
const TEXT: DataType = DataType::Text;
const BLOB: DataType = DataType::Blob;

/// The first SSTable of a fixture in memory, and its name.
pub(crate) fn load(version: &str, table: &str) -> (MemoryDisk, SstableName) {
    let path = fixture_path("..").join(version).join(table);
    let disk = MemoryDisk::default();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry: PathBuf = entry.unwrap().path();
        let name = entry.file_name().unwrap();
        disk.set_content(&directory().join(name), std::fs::read(&entry).unwrap());
    }
    (disk, SstableName::parse(&format!("{version}-1-big-Data.db")).unwrap())
}

pub(crate) fn open_named(
    disk: &MemoryDisk,
    name: &SstableName,
    schema: &SchemaRef,
) -> Result<Rc<Sstable>> {
    let cache = PageCache::new(64 << 20, 1);
    block_on(Sstable::open_named(shared(disk), cache, directory(), name, schema.clone()))
}

pub(crate) fn read_whole(table: &Rc<Sstable>, direction: Direction) -> Result<Vec<Fragment>> {
    read(table, &PartitionRange::full(), &Slice::full(direction))
}

pub(crate) type Named<'a> = (&'a str, DataType);

/// A table; a name with a minus in front is that of a descending column.
pub(crate) fn table(
    key: &[Named<'_>],
    clustering: &[Named<'_>],
    statics: &[Named<'_>],
    regulars: &[Named<'_>],
) -> SchemaRef {
    let mut columns = Vec::new();
    let mut add = |name: &str, ty, kind| columns.push(Column { name: name.into(), ty, kind });
    for (position, (name, ty)) in key.iter().enumerate() {
        add(name, ty.clone(), ColumnKind::PartitionKey { position: position as u16 });
    }
    for (position, (name, ty)) in clustering.iter().enumerate() {
        let (name, order) = match name.strip_prefix('-') {
            Some(name) => (name, ClusteringOrder::Descending),
            None => (*name, ClusteringOrder::Ascending),
        };
        add(name, ty.clone(), ColumnKind::ClusteringKey { position: position as u16, order });
    }
    statics.iter().for_each(|(name, ty)| add(name, ty.clone(), ColumnKind::Static));
    regulars.iter().for_each(|(name, ty)| add(name, ty.clone(), ColumnKind::Regular));
    schema_of(columns)
}

/// The user type of the table `mixed`.
fn address() -> DataType {
    let tags = DataType::set_of(TEXT);
    let fields = [("street", TEXT), ("zip", INT), ("tags", tags)];
    let fields = fields.map(|(name, ty)| (name.to_owned(), ty));
    DataType::User(Box::new(UserType::new("fx", "addr", fields)))
}

pub(crate) fn mixed() -> SchemaRef {
    let ints = DataType::list_of(INT);
    let regulars = [
        ("fl", ints.clone().frozen()),
        ("fm", DataType::map_of(INT, TEXT).frozen()),
        ("fu", address().frozen()),
        ("l", ints.clone()),
        ("m", DataType::map_of(TEXT, INT)),
        ("st", DataType::set_of(TEXT)),
        ("tp", DataType::tuple_of([INT, TEXT])),
        ("u", address()),
        ("v1", INT),
        ("v2", TEXT),
    ];
    let statics = [("s1", INT), ("s2", TEXT), ("sl", ints)];
    table(&[("pk", INT)], &[("ck", INT)], &statics, &regulars)
}

pub(crate) fn types() -> SchemaRef {
    let regulars = [
        ("c_ascii", TEXT),
        ("c_bigint", DataType::BigInt),
        ("c_blob", BLOB),
        ("c_boolean", DataType::Boolean),
        ("c_date", DataType::Date),
        ("c_decimal", DataType::DECIMAL_WIDE),
        ("c_double", DataType::Double),
        ("c_duration", DataType::Duration),
        ("c_float", DataType::Float),
        ("c_inet", DataType::Inet),
        ("c_int", INT),
        ("c_smallint", DataType::SmallInt),
        ("c_text", TEXT),
        ("c_time", DataType::Time),
        ("c_timestamp", DataType::Timestamp),
        ("c_timeuuid", DataType::TimeUuid),
        ("c_tinyint", DataType::TinyInt),
        ("c_uuid", DataType::Uuid),
        ("c_varint", DataType::Varint),
    ];
    table(&[("pk", INT)], &[], &[], &regulars)
}

/// Every table of the fixtures with its schema.
pub(crate) fn schemas() -> Vec<(String, SchemaRef)> {
    let pk = [("pk", INT)];
    let ck = [("ck", INT)];
    let wide: Vec<String> = (0..80).map(|i| format!("c{i:02}")).collect();
    let wide: Vec<_> = wide.iter().map(|name| (name.as_str(), INT)).collect();
    let many: Vec<String> = (0..36).map(|i| format!("k{i:05}")).collect();
    let many = many.iter().zip([INT, TEXT].into_iter().cycle());
    let many: Vec<_> = many.map(|(name, ty)| (name.as_str(), ty)).collect();
    let tombs = table(&pk, &[("a", INT), ("b", INT)], &[], &[("v", TEXT)]);
    let simple = table(&[("pk", TEXT)], &ck, &[], &[("v", TEXT)]);
    let payload = table(&pk, &ck, &[], &[("payload", TEXT)]);
    let of_two = table(
        &[("p1", INT), ("p2", TEXT)],
        &[("a", TEXT), ("-b", DataType::TimeUuid)],
        &[],
        &[("v", INT)],
    );
    let frozen = table(
        &[("p1", TEXT), ("p2", INT), ("p3", DataType::Uuid)],
        &[("-c1", DataType::list_of(INT).frozen()), ("c2", DataType::tuple_of([INT, TEXT]))],
        &[],
        &[("v", TEXT)],
    );
    let counter = DataType::Counter;
    let mut list = vec![
        ("simple_lz4", simple.clone()),
        ("simple_none", simple.clone()),
        ("simple_zstd", simple),
        ("wide_none", payload.clone()),
        ("wide_lz4", payload),
        ("ckdesc", table(&pk, &[("-a", INT), ("b", TEXT)], &[], &[("v", DataType::BigInt)])),
        ("ckdesc2", of_two),
        ("counters", table(&pk, &ck, &[("sc", counter.clone())], &[("c", counter)])),
        ("frozenck", frozen),
        ("hashkeys", table(&[("pk", BLOB)], &[], &[], &[("v", INT)])),
        ("manyck", table(&pk, &many, &[], &[("v", INT)])),
        ("mixed", mixed()),
        ("rawchunks", rawchunks()),
        ("tombs", tombs.clone()),
        ("tombs_lz4", tombs),
        ("types", types()),
        ("widecols", table(&pk, &ck, &[], &wide)),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect::<Vec<_>>();
    for (name, ty) in clustering_types() {
        list.push((format!("types_ck_{name}"), table(&pk, &[("ck", ty)], &[], &[])));
    }
    list
}

/// Version, table and schema of every fixture.
pub(crate) fn fixtures() -> Vec<(&'static str, String, SchemaRef)> {
    let mut list = Vec::new();
    for (name, schema) in schemas() {
        for version in ["me", "nb"] {
            if fixture_path("..").join(version).join(&name).exists() {
                list.push((version, name.clone(), schema.clone()));
            }
        }
    }
    assert_eq!(list.len(), 33 + 33);
    list
}

#[test]
fn rows_of_foreign_files_are_what_cassandras_tool_prints() {
    for (version, name, schema) in fixtures() {
        let (disk, file) = load(version, &name);
        let table = open_named(&disk, &file, &schema).unwrap();
        let found = read_whole(&table, Direction::Forward)
            .unwrap_or_else(|error| panic!("{version} {name}: {error}"));
        let expected = fixture_path("..").join(version).join(&name).join("expected.json");
        let title = format!("{version} {name}");
        match std::fs::read(expected) {
            Ok(expected) => check_dump(&title, &schema, &expected, &found),
            Err(_) => assert!(name.starts_with("simple_") || name.starts_with("wide_"), "{title}"),
        }
        let wanted = reversed(&found);
        assert_eq!(read_whole(&table, Direction::Reversed).unwrap(), wanted, "{title}");
        assert_eq!(table.info().replay, None, "{title}: positions of another host's commitlog");
        check_keys(&title, &table, &schema, &found);
    }
}

/// Every partition is found by its key, and few other keys pass the filter.
fn check_keys(title: &str, table: &Rc<Sstable>, schema: &SchemaRef, all: &[Fragment]) {
    let slice = Slice::full(Direction::Forward);
    let mut partitions = 0;
    for partition in all.split_inclusive(|fragment| *fragment == Fragment::PartitionEnd) {
        let Fragment::PartitionStart { key, .. } = &partition[0] else { panic!("{title}") };
        let found = read(table, &PartitionRange::Single((**key).clone()), &slice).unwrap();
        assert_eq!(found, partition, "{title} {key:?}");
        check_rows(title, table, key, partition);
        partitions += 1;
    }
    assert_eq!(table.info().partitions, partitions, "{title}");
    if schema.partition_key().count() == 1 {
        let others =
            (0..1000u32).map(|i| PartitionKey::from_bytes((i ^ 0x5ead_beef).to_be_bytes()));
        let passed = others.filter(|key| table.may_contain(&HashedKey::of(key))).count();
        assert!(passed < 60, "{title}: {passed} of 1000 other keys pass");
    }
}

/// Every row of a partition is found by its key, with the range tombstone that is in force there.
fn check_rows(title: &str, table: &Rc<Sstable>, key: &PartitionKey, partition: &[Fragment]) {
    let mut in_force = None;
    let absent = ClusteringKey::from_ordered([0xff; 40]);
    assert_eq!(read_row(table, key, &absent, false).unwrap().unwrap().row, None, "{title}");
    for fragment in partition {
        match fragment {
            Fragment::RangeTombstoneChange { tombstone, .. } => in_force = *tombstone,
            Fragment::Row { key: row_key, row } => {
                let found = read_row(table, key, row_key, false).unwrap().unwrap();
                let wanted = (in_force, Some((**row).clone()));
                let row = found.row.map(|flat| flat.thaw());
                assert_eq!((found.tombstone, row), wanted, "{title} {key:?} {row_key:?}");
            }
            _ => {}
        }
    }
}

/// Tables of which an uncompressed one with the same rows is there.
#[test]
fn compressed_files_hold_the_rows_of_their_uncompressed_siblings() {
    let simple = table(&[("pk", TEXT)], &[("ck", INT)], &[], &[("v", TEXT)]);
    let wide = table(&[("pk", INT)], &[("ck", INT)], &[], &[("payload", TEXT)]);
    let siblings = [
        ("simple_none", "me", "simple_lz4", &simple),
        ("simple_none", "nb", "simple_zstd", &simple),
        ("wide_none", "me", "wide_lz4", &wide),
    ];
    for (plain, version, name, schema) in siblings {
        let (disk, file) = load("me", plain);
        let wanted = read_whole(&open_named(&disk, &file, schema).unwrap(), Direction::Forward);
        let (disk, file) = load(version, name);
        let table = open_named(&disk, &file, schema).unwrap();
        let (wanted, found) = (wanted.unwrap(), read_whole(&table, Direction::Forward).unwrap());
        assert!(wanted.len() > 4000);
        assert!(found == wanted, "{name}");
        let backward = read_whole(&table, Direction::Reversed).unwrap();
        assert!(backward == reversed(&wanted), "{name}");
    }
}

#[test]
fn slices_of_a_compressed_wide_partition_read_few_pages() {
    let schema = table(&[("pk", INT)], &[("ck", INT)], &[], &[("payload", TEXT)]);
    let (disk, file) = load("me", "wide_lz4");
    let table = open_named(&disk, &file, &schema).unwrap();
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    for start in (-10_000..9_990).step_by(1777) {
        for direction in [Direction::Forward, Direction::Reversed] {
            let at = |ck| {
                let key = crate::schema::ClusteringKey::from_values(&schema, &[Value::Int(ck)]);
                crate::mutation::Position::before(key.unwrap())
            };
            let range = crate::mutation::ClusteringRange { start: at(start), end: at(start + 5) };
            disk.pages_read.borrow_mut().clear();
            let slice = Slice { ranges: vec![range], direction };
            let found = read(&table, &PartitionRange::Single(key.clone()), &slice).unwrap();
            assert_eq!(found.len(), 7, "{start} {direction:?}");
            let pages = disk.pages_read.borrow();
            let data = pages.iter().filter(|(path, _)| path.ends_with("me-1-big-Data.db")).count();
            assert!(data <= 8, "{start} {direction:?} reads {data} pages of data");
        }
    }
}

/// Whole values of types that the table does not name may be blobs in it.
#[test]
fn frozen_values_may_be_blobs() {
    let fields = [("fl", BLOB), ("v1", INT)];
    let blobs = table(&[("pk", INT)], &[("ck", INT)], &[], &fields);
    let (disk, file) = load("me", "mixed");
    let table = open_named(&disk, &file, &blobs).unwrap();
    let found = read_whole(&table, Direction::Forward).unwrap();
    let expected = std::fs::read(fixture_path("mixed").join("expected.json")).unwrap();
    check_dump("mixed with blobs", &blobs, &expected, &found);
}

#[test]
fn types_that_a_table_cannot_have_are_refused_by_name() {
    let pk = [("pk", INT)];
    let ck = [("ck", INT)];
    let refusals = [
        ("mixed", table(&pk, &ck, &[], &[("l", BLOB)]), "multi-cell column 'l'"),
        ("mixed", table(&pk, &ck, &[("sl", BLOB)], &[]), "multi-cell column 'sl'"),
        ("mixed", table(&pk, &ck, &[], &[("u", TEXT)]), "multi-cell column 'u'"),
        ("mixed", table(&pk, &ck, &[], &[("fl", TEXT)]), "column 'fl'"),
        ("mixed", table(&pk, &ck, &[], &[("fl", DataType::list_of(INT))]), "column 'fl'"),
        ("mixed", table(&pk, &ck, &[], &[("l", DataType::list_of(TEXT))]), "column 'l'"),
        ("mixed", table(&pk, &ck, &[], &[("st", DataType::list_of(TEXT))]), "column 'st'"),
        ("mixed", table(&pk, &ck, &[], &[("s1", INT)]), "column 's1'"),
        (
            "counters",
            table(&pk, &ck, &[], &[("c", DataType::BigInt)]),
            "counter column 'c' of type org.apache.cassandra.db.marshal.CounterColumnType",
        ),
        ("types_ck_varint", table(&pk, &[("ck", BLOB)], &[], &[]), "a clustering key of type"),
        (
            "frozenck",
            table(
                &[("p1", TEXT), ("p2", INT), ("p3", DataType::Uuid)],
                &[("-c1", BLOB), ("c2", BLOB)],
                &[],
                &[("v", TEXT)],
            ),
            "a clustering key of type",
        ),
    ];
    for (name, schema, wanted) in refusals {
        let (disk, file) = load("me", name);
        let error = open_named(&disk, &file, &schema).err().unwrap();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        let message = error.to_string();
        assert!(message.contains(wanted) && message.contains("ks.t"), "{message}");
    }
}

/// `mc` and `md` are `me` without the host at the end of the statistics.
#[test]
fn older_versions_are_read() {
    for (name, schema) in [("mixed", mixed()), ("types", types())] {
        let (disk, file) = load("me", name);
        let wanted =
            read_whole(&open_named(&disk, &file, &schema).unwrap(), Direction::Forward).unwrap();
        for version in ["mc", "md"] {
            let older = MemoryDisk::default();
            for path in disk.names() {
                let file = path.file_name().unwrap().to_str().unwrap().to_owned();
                let Some(rest) = file.strip_prefix("me-1-big-") else { continue };
                let mut content = disk.content(&path);
                if rest == "Statistics.db" {
                    content = without_host(&content);
                }
                older.set_content(&directory().join(format!("{version}-1-big-{rest}")), content);
            }
            let file = SstableName::parse(&format!("{version}-1-big-TOC.txt")).unwrap();
            let table = open_named(&older, &file, &schema).unwrap();
            assert_eq!(read_whole(&table, Direction::Forward).unwrap(), wanted, "{version} {name}");
            // Under the name of the newer version the host is missed.
            let statistics = older.content(&file.path(directory(), Component::Statistics));
            assert!(statistics::decode_statistics(&statistics, Version::Me).is_err());
        }
    }
}

/// Cuts the host off the statistics part, which stands before the header.
fn without_host(content: &[u8]) -> Vec<u8> {
    let offset_at = |part: usize| 4 + 8 * part + 4;
    let read = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().unwrap());
    let header = read(offset_at(3));
    let mut out = content[..header as usize - 17].to_vec();
    assert_eq!(content[header as usize - 17], 1);
    out.extend_from_slice(&content[header as usize..]);
    out[offset_at(3)..offset_at(3) + 4].copy_from_slice(&(header - 17).to_be_bytes());
    out
}

/// Everything that can be read of a table, or the error.
fn read_all(disk: &MemoryDisk, file: &SstableName, schema: &SchemaRef) -> Result<Vec<Fragment>> {
    Ok(read_opened(disk, file, schema)?.0)
}

/// The same, and whether it was opened without something that is damaged.
fn read_opened(
    disk: &MemoryDisk,
    file: &SstableName,
    schema: &SchemaRef,
) -> Result<(Vec<Fragment>, bool)> {
    let table = open_named(disk, file, schema)?;
    let found = read_whole(&table, Direction::Forward)?;
    read_whole(&table, Direction::Reversed)?;
    Ok((found, !table.mended().is_empty()))
}

#[test]
fn every_flipped_byte_of_foreign_files_is_noticed_or_does_not_panic() {
    for (version, name, schema) in
        [("nb", "mixed", mixed()), ("me", "mixed", mixed()), ("nb", "rawchunks", rawchunks())]
    {
        let (disk, file) = load(version, name);
        let wanted = read_all(&disk, &file, &schema).unwrap();
        let is_nb = version == "nb";
        let (mut noticed, mut unseen) = (0, 0);
        for component in [
            Component::Data,
            Component::CompressionInfo,
            Component::Statistics,
            Component::Index,
            Component::Summary,
            Component::Filter,
        ] {
            let path = file.path(directory(), component);
            let content = disk.content(&path);
            // Histograms are much alike, and so are blocks of zero bytes.
            let step = if content.len() > 3000 { 7 } else { 1 };
            for at in (0..content.len()).step_by(step) {
                let mut damaged = content.clone();
                damaged[at] ^= 1 << (at % 8);
                disk.set_content(&path, damaged);
                let result = read_opened(&disk, &file, &schema);
                let what = format!("{version} {name} {component:?} byte {at}");
                match (component, result) {
                    (Component::Data, result) => assert!(result.is_err(), "{what}"),
                    // The reader reports damage of what rows do not need and goes on without it, or
                    // does not check it.
                    (Component::Statistics, Ok((found, is_told))) if is_nb => {
                        assert!(found == wanted, "{what}");
                        noticed += usize::from(is_told);
                        unseen += usize::from(!is_told);
                    }
                    (Component::CompressionInfo, Ok((found, _))) => {
                        assert!(found == wanted, "{what}");
                    }
                    _ => {}
                }
            }
            disk.set_content(&path, content);
        }
        assert!(noticed > 100 || !is_nb, "{noticed} flips of statistics leave rows readable");
        // A checksum's offset and the like.
        assert!(unseen <= 4, "{unseen} flips of what no read looks at, of {noticed}");
    }
}

/// The metadata of ScyllaDB is read with the file; a checksum in it covers other components.
#[test]
fn metadata_of_scylladb_is_kept_and_its_checksums_hold() {
    let (disk, file) = load("me", "types");
    let toc = file.path(directory(), Component::Toc);
    disk.set_content(&toc, [&disk.content(&toc), &b"\nScylla.db\n"[..]].concat());
    let statistics = file.path(directory(), Component::Statistics);
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
    let digest = crc32(&disk.content(&statistics));
    let mut content = words(&[3, 2, 8, 0, 0x7f, 77, 4, 5, 12, 12, 1, 8, digest]);
    let crc = crc32(&content);
    content.extend(words(&[crc]));
    let path = file.path(directory(), Component::Scylla);
    disk.set_content(&path, content.clone());
    let table = open_named(&disk, &file, &types()).unwrap();
    let metadata = table.scylla().unwrap();
    assert_eq!(metadata.features, Some(0x7f));
    assert_eq!(metadata.other, [(77, words(&[5]))]);

    let mut damaged = content.clone();
    damaged[15] ^= 1;
    disk.set_content(&path, damaged);
    let table = open_named(&disk, &file, &types()).unwrap();
    let [mended] = table.mended() else { panic!("{:?}", table.mended()) };
    let told = mended.to_string();
    assert!(told.contains("Scylla.db") && told.contains("wanted CRC"), "{told}");
    assert!(table.scylla().is_none());
    disk.set_content(&path, content);
    let mut damaged = disk.content(&statistics);
    // A bucket of a histogram, which nothing else would notice.
    damaged[500] ^= 1;
    disk.set_content(&statistics, damaged);
    let error = open_named(&disk, &file, &types()).err().unwrap().to_string();
    assert!(error.contains("Statistics.db at offset 0: wanted CRC"), "{error}");
}

/// Drops a component from the table of contents.
fn without(disk: &MemoryDisk, file: &SstableName, component: Component) {
    let path = file.path(directory(), Component::Toc);
    let toc = String::from_utf8(disk.content(&path)).unwrap();
    let kept: Vec<&str> = toc.lines().filter(|line| *line != component.suffix()).collect();
    assert!(kept.len() < toc.lines().count());
    disk.set_content(&path, kept.join("\n").into());
}

#[test]
fn a_missing_summary_is_made_from_the_index() {
    let simple = table(&[("pk", TEXT)], &[("ck", INT)], &[], &[("v", TEXT)]);
    let (disk, file) = load("me", "simple_none");
    let stored = open_named(&disk, &file, &simple).unwrap();
    without(&disk, &file, Component::Summary);
    let made = open_named(&disk, &file, &simple).unwrap();
    assert_eq!(made.summary, stored.summary);
    assert!(made.mended().is_empty());
    // Listed, and not there: the same, and told.
    let (disk, file) = load("me", "simple_none");
    let remove = |component: Component| {
        block_on(shared(&disk).remove(&file.path(directory(), component))).unwrap();
    };
    [Component::Summary, Component::Filter].into_iter().for_each(remove);
    remove(Component::Crc);
    let made = open_named(&disk, &file, &simple).unwrap();
    assert_eq!(made.summary, stored.summary);
    let told: Vec<String> = made.mended().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().all(|told| told.contains("wanted a file, found none")), "{told:?}");
    assert!(
        read_whole(&made, Direction::Forward).unwrap()
            == read_whole(&stored, Direction::Forward).unwrap()
    );
    let index = file.path(directory(), Component::Index);
    let content = disk.content(&index);
    // The second key is the first one again.
    disk.set_content(&index, [&content[..12], &content[..12]].concat());
    let error = open_named(&disk, &file, &simple).err().unwrap().to_string();
    assert!(error.contains("Index.db at offset 12: wanted a key after"), "{error}");
    disk.set_content(&index, Vec::new());
    assert!(open_named(&disk, &file, &simple).is_err());
}

/// Some writers put a checksum behind every 4 KiB of data.
#[test]
fn checksums_of_smaller_pieces_are_read() {
    let simple = table(&[("pk", TEXT)], &[("ck", INT)], &[], &[("v", TEXT)]);
    let (disk, file) = load("me", "simple_none");
    let wanted = read_all(&disk, &file, &simple).unwrap();
    let data = file.path(directory(), Component::Data);
    let content = disk.content(&data);
    let crc_path = file.path(directory(), Component::Crc);
    for bytes in [4096, 16384, 262_144] {
        let mut crcs = (bytes as u32).to_be_bytes().to_vec();
        content.chunks(bytes).for_each(|piece| crcs.extend(crc32(piece).to_be_bytes()));
        disk.set_content(&crc_path, crcs);
        assert!(read_all(&disk, &file, &simple).unwrap() == wanted);
        let mut damaged = content.clone();
        damaged[20_000] ^= 4;
        disk.set_content(&data, damaged);
        let Err(Error::Corrupt(corruption)) = read_all(&disk, &file, &simple) else { panic!() };
        let offset = 20_000 / bytes * bytes;
        assert_eq!((corruption.file.as_path(), corruption.offset), (&*data, offset as u64));
        disk.set_content(&data, content.clone());
    }
    for bytes in [0u32, 2048, 5000, 524_288] {
        disk.set_content(&crc_path, [bytes.to_be_bytes(), [0; 4]].concat());
        let opened = open_named(&disk, &file, &simple).unwrap();
        let told = opened.mended()[0].to_string();
        assert!(told.contains("CRC.db at offset 0: wanted chunks of"), "{told}");
        assert!(read_all(&disk, &file, &simple).unwrap() == wanted);
    }
}

fn rawchunks() -> SchemaRef {
    table(&[("pk", INT)], &[("ck", INT)], &[], &[("v", BLOB)])
}
