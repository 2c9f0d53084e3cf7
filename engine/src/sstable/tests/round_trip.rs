//! Random tables are read back as they were written, whole and in slices, in both directions.

use super::block_index::BlockIndex;
use super::file::Access;
use super::model::*;
use super::partition_index::find;
use super::promoted_index::PromotedIndex;
use super::window::{Content, Window};
use super::*;
use crate::clock::Random;
use crate::config::PAGE_BYTES;
use crate::error::Error;
use crate::mutation::{
    Cell, ClusteringRange, Direction, FlatRow, Liveness, Position, Row, ViewRoom,
};
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnDrop, ColumnId, ColumnKind, Compression,
    Compressor, DataType, LargeDataThresholds, PartitionKey, TableSchema, Token, Value,
};

/// Rows in their changeable form. Queries and merges get the same rows, in the other one.
fn read(table: &Rc<Sstable>, range: &PartitionRange, slice: &Slice) -> Result<Vec<Fragment>> {
    let rows = super::read(table, range, slice)?;
    let flat = drain(table.read(&ReadPlan::of(range, slice).for_queries()))?;
    let thawed: Vec<Fragment> = flat.into_iter().map(Fragment::thawed).collect();
    assert_eq!(thawed, rows, "{range:?}, {slice:?}");
    Ok(rows)
}

#[track_caller]
fn assert_same(seed: u64, what: &str, found: &[Fragment], wanted: &[Fragment]) {
    if let Some(at) = (0..wanted.len().max(found.len())).find(|&i| found.get(i) != wanted.get(i)) {
        let (found, wanted) = (found.get(at), wanted.get(at));
        panic!("seed {seed}, {what}, fragment {at}:\n found {found:?}\nwanted {wanted:?}");
    }
}

/// How many rows a writer took without waiting, and how many it did not.
#[derive(Debug, Default)]
struct HandedOn {
    taken: usize,
    refused: usize,
}

fn check_seed(seed: u64) -> HandedOn {
    let mut random = Random::new(seed);
    let schema = random_schema(&mut random);
    let partitions = random_partitions(&mut random, &schema);
    let disk = MemoryDisk::default();
    let options = WriterOptions {
        column_index_bytes: [64, 256, 1024, 65536][random.below(4) as usize],
        partitions_expected: random.one_in(2).then_some(partitions.len() as u64),
        bases: if random.one_in(2) {
            Bases::default()
        } else {
            Bases { min_timestamp: i64::MIN, min_deletion_time: 0, min_ttl: 0 }
        },
        ..WriterOptions::default()
    };
    let forward = Slice::full(Direction::Forward);
    let written = all_fragments(&partitions, &forward);
    let ways = check_handed_on(&mut random, &schema, &options, &written);
    let info = write(&disk, 1, &schema, options, written.clone());
    let Some(info) = info else {
        assert!(partitions.is_empty());
        assert!(disk.names().is_empty(), "seed {seed}: nothing is left of nothing");
        return ways;
    };
    assert_eq!(info.partitions as usize, partitions.len());
    let table = open(&disk, 1, &schema).unwrap();
    assert_eq!(table.info(), &info);
    assert_eq!(Some(table.first_key()), partitions.keys().next());
    assert_eq!(Some(table.last_key()), partitions.keys().next_back());

    let everything = PartitionRange::full();
    assert_same(seed, "forward", &read(&table, &everything, &forward).unwrap(), &written);
    let reversed = Slice::full(Direction::Reversed);
    let wanted = all_fragments(&partitions, &reversed);
    assert_same(seed, "reversed", &read(&table, &everything, &reversed).unwrap(), &wanted);
    for (key, partition) in &partitions {
        check_partition(seed, &mut random, &table, &schema, (key, partition));
    }
    for _ in 0..4 {
        let slice = random_slice(&mut random, &schema);
        let mut tokens =
            [0, 1].map(|_| random_key(&mut random, &schema).token()).map(|Token(token)| token);
        tokens.sort_unstable();
        let range = PartitionRange::Tokens { min: Token(tokens[0]), max: Token(tokens[1]) };
        let inside = partitions.iter().filter(|(key, _)| range.contains(key));
        let wanted = all_fragments(inside, &slice);
        assert_same(seed, "tokens", &read(&table, &range, &slice).unwrap(), &wanted);
        let key = random_key(&mut random, &schema);
        if !partitions.contains_key(&key) {
            let row = ClusteringKey::empty();
            assert_eq!(read_row(&table, &key, &row, true).unwrap(), None, "seed {seed}, absent");
            let range = PartitionRange::Single(key);
            assert_same(seed, "absent", &read(&table, &range, &slice).unwrap(), &[]);
        }
    }
    ways
}

/// Rows that a merge hands on where they lie make the files that rows make which are pushed.
fn check_handed_on(
    random: &mut Random,
    schema: &SchemaRef,
    options: &WriterOptions,
    fragments: &[Fragment],
) -> HandedOn {
    let mut ways = HandedOn::default();
    let lz4 = Compression { chunk_bytes: 1024, ..Compression::new(Compressor::Lz4) };
    let large_data = LargeDataThresholds {
        partition_bytes: 300,
        row_bytes: 40,
        cell_bytes: 10,
        partition_rows: 5,
        collection_elements: 2,
    };
    let compression = random.one_in(2).then_some(lz4);
    let options = WriterOptions { compression, large_data, ..options.clone() };
    let (pushed, handed_on) = (MemoryDisk::default(), MemoryDisk::default());
    let wanted = write(&pushed, 1, schema, options.clone(), fragments.to_vec());
    let mut room = ViewRoom::default();
    let found = block_on(async {
        let disk = shared(&handed_on);
        let created = SstableWriter::create(disk, directory(), 1, schema.clone(), options).await;
        let mut writer = created.unwrap();
        for fragment in fragments {
            let fragment = match fragment {
                Fragment::Row { key, row } if row.multi.is_empty() && !row.is_empty() => {
                    let flat = FlatRow::row(key.as_ordered(), row);
                    if room.of_flat(&flat, |row| writer.push_now(flat.key(), &row)) {
                        ways.taken += 1;
                        continue;
                    }
                    ways.refused += 1;
                    Fragment::FlatRow(flat)
                }
                other => other.clone(),
            };
            writer.push(fragment).await.unwrap();
        }
        writer.finish().await.unwrap()
    });
    assert_eq!(found, wanted);
    assert_eq!(handed_on.names(), pushed.names());
    for name in pushed.names() {
        let (found, wanted) = (handed_on.content(&name), pushed.content(&name));
        assert!(found == wanted, "{} is another file", name.display());
    }
    ways
}

/// Slices and rows of one partition are what they should be.
fn check_partition(
    seed: u64,
    random: &mut Random,
    table: &Rc<Sstable>,
    schema: &SchemaRef,
    (key, partition): (&PartitionKey, &Partition),
) {
    let range = PartitionRange::Single(key.clone());
    for _ in 0..12 {
        let slice = random_slice(random, schema);
        let found = read(table, &range, &slice).unwrap();
        let wanted = partition.fragments(key, &slice);
        assert_same(seed, &format!("{key:?} {slice:?}"), &found, &wanted);
    }
    for clustering in partition.rows.keys().take(5) {
        let ranges = vec![ClusteringRange::prefix(clustering.clone())];
        let slice = Slice { ranges, direction: Direction::Forward };
        let found = read(table, &range, &slice).unwrap();
        assert_same(seed, "point read", &found, &partition.fragments(key, &slice));
    }
    check_places(table, key, partition.rows.keys().take(6));
    let columns = schema.clustering_key().count() as u64;
    let others: Vec<_> = (0..6).map(|_| random_prefix(random, schema, columns)).collect();
    for row in partition.rows.keys().take(12).chain(&others) {
        let wants_front = random.one_in(2);
        let found = read_row(table, key, row, wants_front).unwrap().unwrap();
        let wanted = partition.point(row, wants_front);
        let what = format!("seed {seed}, {row:?} of {key:?}: {found:?}, wanted {wanted:?}");
        assert!(is_same_point(found, wanted, wants_front), "{what}");
    }
}

/// The parsed form of a promoted index says where rows are as the stored one does.
fn check_places<'a>(
    table: &Rc<Sstable>,
    key: &PartitionKey,
    rows: impl Iterator<Item = &'a ClusteringKey>,
) {
    let mut index = Window::new(Content::Plain(table.index.clone()), Access::Cached);
    let entry = find(&table.summary, &mut index, &table.pages, (key, None));
    let Some((at, size)) = block_on(entry).unwrap().unwrap().place.promoted else { return };
    let opened = PromotedIndex::open(table.index.clone(), table.layout.clone(), at, size);
    let mut promoted = block_on(opened).unwrap();
    let page = PAGE_BYTES as u64;
    block_on(table.index.warm(at / page, (at + size).div_ceil(page))).unwrap();
    let blocks = BlockIndex::parse(&mut promoted).unwrap().expect("it is in memory, and ascends");
    assert_eq!(blocks.stated, promoted.stated);
    for row in rows {
        for bytes in 0..=row.as_ordered().len() {
            // Less than a key is a key that stands before all that begins so.
            let row = &row.as_ordered()[..bytes];
            let stored = block_on(promoted.place_of_row(row)).unwrap();
            assert_eq!(blocks.place_of_row(row), stored, "{key:?} {row:?}");
        }
    }
    let behind = [0xff; 40];
    let stored = block_on(promoted.place_of_row(&behind)).unwrap();
    assert_eq!(blocks.place_of_row(&behind), stored, "{key:?}, behind the last");
}

#[test]
fn a_cell_keeps_its_own_expiry_beside_the_rows() {
    let (disk, schema) = (MemoryDisk::default(), long_rows::schema());
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    let mut partition = Partition::default();
    for (number, expiry) in [(0, 2_000_000_100), (1, 2_000_000_000), (2, 1_999_999_999)] {
        let at = ClusteringKey::from_values(&schema, &[Value::Int(number)]).unwrap();
        // Marker and cell live as long as each other and were written at different times.
        let cell = Cell::expiring(BASE_TIMESTAMP, *b"v", 100, expiry);
        let row = Row {
            liveness: Some(Liveness::expiring(BASE_TIMESTAMP, 100, 2_000_000_000)),
            cells: vec![(ColumnId(2), cell)],
            ..Row::default()
        };
        partition.rows.insert(at, row);
    }
    let all = partition.fragments(&key, &Slice::full(Direction::Forward));
    write(&disk, 1, &schema, WriterOptions::default(), all.clone()).unwrap();
    let table = open(&disk, 1, &schema).unwrap();
    let slice = Slice::full(Direction::Forward);
    assert_eq!(read(&table, &PartitionRange::full(), &slice).unwrap(), all);
}

#[test]
fn random_tables_read_back_as_written() {
    let mut ways = HandedOn::default();
    for seed in 0..400 {
        let own = check_seed(seed);
        ways.taken += own.taken;
        ways.refused += own.refused;
    }
    assert!(ways.taken > 1000 && ways.refused > 100, "{ways:?}");
}

/// One partition of `rows` rows of about 100 bytes, 4 KiB blocks.
fn wide(disk: &MemoryDisk, rows: i32) -> (SchemaRef, PartitionKey) {
    let order = ClusteringOrder::Ascending;
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let schema = schema_of(vec![
        column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("c", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
        column("v", DataType::Text, ColumnKind::Regular),
    ]);
    let key = PartitionKey::from_values(&schema, &[Value::Int(7)]).unwrap();
    let mut partition = Partition::default();
    for i in 0..rows {
        let row = Row {
            liveness: Some(Liveness::at(BASE_TIMESTAMP)),
            cells: vec![(ColumnId(2), Cell::live(BASE_TIMESTAMP, [b'x'; 100]))],
            ..Row::default()
        };
        partition.rows.insert(clustering(&schema, 2 * i), row);
    }
    let options = WriterOptions { column_index_bytes: 4096, ..WriterOptions::default() };
    let fragments = partition.fragments(&key, &Slice::full(Direction::Forward));
    write(disk, 1, &schema, options, fragments);
    (schema, key)
}

fn clustering(schema: &SchemaRef, value: i32) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::Int(value)]).unwrap()
}

#[test]
fn a_slice_reads_only_the_pages_it_needs() {
    let disk = MemoryDisk::default();
    let (schema, key) = wide(&disk, 20_000);
    for direction in [Direction::Forward, Direction::Reversed] {
        let mut missing_reads = Vec::new();
        for value in [0, 9_998, 20_000, 30_001, 39_998, 50_000] {
            let table = open(&disk, 1, &schema).unwrap();
            disk.pages_read.borrow_mut().clear();
            let range = PartitionRange::Single(key.clone());
            let ranges = vec![ClusteringRange::prefix(clustering(&schema, value))];
            let found = read(&table, &range, &Slice { ranges, direction }).unwrap();
            let is_present = value % 2 == 0 && value < 40_000;
            assert_eq!(found.len(), if is_present { 3 } else { 2 }, "{value} {direction:?}");
            let pages = disk.pages_read.borrow();
            let data = pages.iter().filter(|(path, _)| path.ends_with("me-1-big-Data.db")).count();
            let index = pages.len() - data;
            // A block spans three pages at most; read-ahead adds one.
            assert!(data <= 4 && index <= 8, "{value} {direction:?}: {data} data, {index} index");
            if !is_present {
                missing_reads.push(data);
            }
        }
        // Beyond the last row no block is needed.
        assert_eq!(missing_reads.last(), Some(&0));
    }
}

#[test]
fn a_reversed_read_of_the_first_rows_stays_small() {
    let disk = MemoryDisk::default();
    let (schema, key) = wide(&disk, 20_000);
    let table = open(&disk, 1, &schema).unwrap();
    disk.pages_read.borrow_mut().clear();
    let slice = Slice::full(Direction::Reversed);
    let range = PartitionRange::Single(key);
    let mut source = table.read(&ReadPlan::of(&range, &slice)).unwrap();
    let mut out = VecDeque::new();
    while out.len() < 256 {
        block_on(source.fill(&mut out)).unwrap();
    }
    let Fragment::Row { key: first, .. } = &out[1] else { panic!("{:?}", out[1]) };
    assert_eq!(**first, clustering(&schema, 39_998));
    assert!(disk.pages_read.borrow().len() < 32, "{}", disk.pages_read.borrow().len());
}

#[test]
fn a_key_between_two_blocks_reads_no_data() {
    let disk = MemoryDisk::default();
    let (schema, key) = wide(&disk, 2_000);
    let table = open(&disk, 1, &schema).unwrap();
    let mut without_data = 0;
    for value in (1..3_999).step_by(2) {
        disk.pages_read.borrow_mut().clear();
        let table = Rc::clone(&table);
        let range = PartitionRange::Single(key.clone());
        let start = Position::before(clustering(&schema, value));
        let ranges =
            vec![ClusteringRange { start, end: Position::after(clustering(&schema, value)) }];
        let slice = Slice { ranges, direction: Direction::Forward };
        assert_eq!(read(&table, &range, &slice).unwrap().len(), 2);
        let reopened = open(&disk, 1, &schema).unwrap();
        disk.pages_read.borrow_mut().clear();
        read(&reopened, &range, &slice).unwrap();
        let pages = disk.pages_read.borrow();
        without_data +=
            usize::from(!pages.iter().any(|(path, _)| path.ends_with("me-1-big-Data.db")));
    }
    // Between each two of about fifty blocks lies one such key.
    assert!((40..70).contains(&without_data), "{without_data}");
}

/// A block of a promoted index that is said to be shorter than it is ends before rows that it says
/// it has: no row is absent for that.
#[test]
fn a_block_that_ends_before_its_last_row_is_noticed() {
    let disk = MemoryDisk::default();
    let (schema, key) = wide(&disk, 200);
    // As files of others are: the index has no checksums.
    let toc = Component::Toc.path(directory(), 1);
    disk.set_content(&toc, b"Data.db\nIndex.db\nSummary.db\nStatistics.db\n".to_vec());
    let path = Component::Index.path(directory(), 1);
    let content = disk.content(&path);
    let (mut noticed, mut found) = (0, 0);
    for (at, bit) in (0..content.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut damaged = content.clone();
        damaged[at] ^= 1 << bit;
        disk.set_content(&path, damaged);
        let Ok(table) = open(&disk, 1, &schema) else { continue };
        table.parses_left_out.set(u32::MAX);
        for row in (0..200).step_by(9).map(|row| clustering(&schema, 2 * row)) {
            let point = match read_row(&table, &key, &row, false) {
                Ok(Some(point)) => point,
                Ok(None) => continue,
                Err(_) => {
                    noticed += 1;
                    continue;
                }
            };
            found += u32::from(point.row.is_some());
            let ranges = vec![ClusteringRange::prefix(row.clone())];
            let slice = Slice { ranges, direction: Direction::Forward };
            let other = read(&table, &PartitionRange::Single(key.clone()), &slice);
            let has_row = |fragment: &Fragment| matches!(fragment, Fragment::Row { .. });
            let is_there = other.is_ok_and(|other| other.iter().any(has_row));
            assert!(point.row.is_some() || !is_there, "byte {at}, bit {bit}: {row:?} is lost");
        }
    }
    assert!(noticed > 100 && found > 1000, "{noticed} noticed, {found} found");
}

/// A merge for what was dropped takes these files, and no others.
#[test]
fn a_file_tells_whether_it_may_have_cells_of_columns_that_were_dropped() {
    let disk = MemoryDisk::default();
    let (schema, _) = wide(&disk, 3);
    let table = open(&disk, 1, &schema).unwrap();
    let at = table.info().min_timestamp;
    // Of `v` the file has cells; `w` came later.
    let (v, w) = (2, 3);
    let may_have = |gone: &[u16], drops: &[(u16, i64)]| {
        let mut altered = TableSchema::clone(&schema);
        let (ty, kind) = (DataType::Text, ColumnKind::Regular);
        altered.columns.push(Column { name: "w".into(), ty, kind });
        for column in gone {
            altered.columns[usize::from(*column)].kind = ColumnKind::Dropped { was_static: false };
        }
        let drop = |(column, at): &(u16, i64)| ColumnDrop { column: ColumnId(*column), at: *at };
        altered.drops = drops.iter().map(drop).collect();
        table.may_have_dropped(&altered)
    };
    assert!(!may_have(&[], &[]));
    // Gone: whatever time its writers gave their cells.
    for at in [at - 1, at, at + 1] {
        assert!(may_have(&[v], &[(v, at)]), "{at}");
    }
    // Back: older ones only.
    let back = [at - 1, at, at + 1].map(|at| may_have(&[], &[(v, at)]));
    assert_eq!(back, [false, true, true]);
    assert!(!may_have(&[w], &[(w, at)]) && !may_have(&[], &[(w, at)]), "it has none of `w`");
    assert!(may_have(&[w], &[(w, at), (v, at)]), "one of several");
}

/// An SSTable without checksums, as files of others are.
fn unchecked(schema: &SchemaRef, fragments: &[Fragment]) -> MemoryDisk {
    let disk = MemoryDisk::default();
    write(&disk, 1, schema, WriterOptions::default(), fragments.to_vec());
    let toc = Component::Toc.path(directory(), 1);
    disk.set_content(&toc, b"Data.db\nIndex.db\nSummary.db\nStatistics.db\n".to_vec());
    let whole = read(&open(&disk, 1, schema).unwrap(), &PartitionRange::full(), &all_rows());
    assert_eq!(whole.unwrap(), fragments);
    disk
}

fn all_rows() -> Slice {
    Slice::full(Direction::Forward)
}

/// Of 64 columns and more a list says which ones a row has, or which ones it has not.
#[test]
fn a_list_of_columns_that_is_damaged_is_noticed() {
    let order = ClusteringOrder::Ascending;
    let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
    let mut columns = vec![
        column("p", ColumnKind::PartitionKey { position: 0 }),
        column("c", ColumnKind::ClusteringKey { position: 0, order }),
    ];
    columns.extend((0..64).map(|at| column(&format!("v{at:02}"), ColumnKind::Regular)));
    let schema = schema_of(columns);
    let key = PartitionKey::from_values(&schema, &[Value::Int(7)]).unwrap();
    let path = Component::Data.path(directory(), 1);
    for lists_present in [true, false] {
        let has = |at: &u16| [5, 6].contains(at) == lists_present;
        let cell = |at: u16| (ColumnId(2 + at), Cell::live(BASE_TIMESTAMP, 7i32.to_be_bytes()));
        let cells = (0..64).filter(has).map(cell).collect();
        let row = Row { liveness: Some(Liveness::at(BASE_TIMESTAMP)), cells, ..Row::default() };
        let mut partition = Partition::default();
        partition.rows.insert(clustering(&schema, 1), row);
        let disk = unchecked(&schema, &partition.fragments(&key, &all_rows()));
        let found = || read(&open(&disk, 1, &schema)?, &PartitionRange::full(), &all_rows());
        // How many are missing, then the list.
        let list = if lists_present { [62, 5, 6] } else { [2, 5, 6] };
        let content = disk.content(&path);
        let places: Vec<usize> =
            (0..content.len()).filter(|at| content[*at..].starts_with(&list)).collect();
        let [start] = places[..] else { panic!("{list:?} stands at {places:?}") };
        // One twice, one that descends, one that the table has not, and more than it has.
        for (at, byte) in [(2, 5), (2, 4), (2, 64), (0, 65)] {
            let mut damaged = content.clone();
            damaged[start + at] = byte;
            disk.set_content(&path, damaged);
            let error = found().unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{list:?}: {error}");
            assert!(error.to_string().contains("column"), "{list:?}: {error}");
        }
    }
}

#[test]
fn what_stands_in_place_of_a_static_row_is_noticed() {
    let order = ClusteringOrder::Ascending;
    let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
    let schema = schema_of(vec![
        column("p", ColumnKind::PartitionKey { position: 0 }),
        column("c", ColumnKind::ClusteringKey { position: 0, order }),
        column("s", ColumnKind::Static),
        column("v", ColumnKind::Regular),
    ]);
    let key = PartitionKey::from_values(&schema, &[Value::Int(7)]).unwrap();
    let row = |column: u16| {
        let cells = vec![(ColumnId(column), Cell::live(BASE_TIMESTAMP, 7i32.to_be_bytes()))];
        Row { cells, ..Row::default() }
    };
    let mut partition = Partition { static_row: row(2), ..Partition::default() };
    partition.rows.insert(clustering(&schema, 1), row(3));
    let disk = unchecked(&schema, &partition.fragments(&key, &all_rows()));
    let found = || read(&open(&disk, 1, &schema)?, &PartitionRange::full(), &all_rows());
    let path = Component::Data.path(directory(), 1);
    let content = disk.content(&path);
    // Behind length and bytes of the key, and the deletion of the partition.
    let at = 2 + 4 + 12;
    let (flags, extended) = (content[at], content[at + 1]);
    assert_eq!((flags & 0x83, extended), (0x80, 1), "more flags follow: it is a static row");
    // Without a second byte, the end, a marker; then rows that are not static or not only that.
    let others = [(flags & 0x7f, 1), (flags | 1, 1), (flags | 2, 1)];
    for (flags, extended) in others.into_iter().chain([0, 2, 3].map(|other| (flags, other))) {
        let mut damaged = content.clone();
        (damaged[at], damaged[at + 1]) = (flags, extended);
        disk.set_content(&path, damaged);
        let error = found().unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{flags:#x} {extended}: {error}");
        assert!(error.to_string().contains("flags of a static row"), "{error}");
    }
}

#[test]
fn a_writer_refuses_what_no_filter_and_no_chunk_can_have_before_it_makes_a_file() {
    let schema = schema_of(vec![Column {
        name: "p".into(),
        ty: DataType::Int,
        kind: ColumnKind::PartitionKey { position: 0 },
    }]);
    let disk = MemoryDisk::default();
    let create = |generation, options| {
        let writer =
            SstableWriter::create(shared(&disk), directory(), generation, schema.clone(), options);
        block_on(writer).err().map(|error| error.to_string())
    };
    let of_chance = |bloom_fp_chance| WriterOptions { bloom_fp_chance, ..WriterOptions::default() };
    for chance in [0.0, -0.0, -0.01, 1.0, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let told = create(1, of_chance(chance)).expect("there is no such filter");
        assert!(told.contains("lies between 0 and 1"), "{chance}: {told}");
    }
    let of_chunks = |chunk_bytes| {
        let compression = Compression { chunk_bytes, ..Compression::new(Compressor::Lz4) };
        WriterOptions { compression: Some(compression), ..WriterOptions::default() }
    };
    for chunk_bytes in [0, 1, 1 << 9, 3000, 4097, 1 << 21, u32::MAX] {
        let told = create(1, of_chunks(chunk_bytes)).expect("there are no such chunks");
        assert!(told.contains("a power of two"), "{chunk_bytes}: {told}");
    }
    assert_eq!(disk.names(), Vec::<std::path::PathBuf>::new());
    let made =
        [1e-6, 0.5, 0.999].map(of_chance).into_iter().chain([1 << 10, 1 << 20].map(of_chunks));
    for (generation, options) in (1..).zip(made) {
        assert_eq!(create(generation, options), None, "{generation}");
    }
    // Of an SSTable that is there already nothing is changed.
    let told = create(1, WriterOptions::default()).expect("the file exists");
    assert!(told.contains("me-1-big-Data.db"), "{told}");
}
