//! Writes one SSTable from a forward stream of fragments.
//!
//! Memory does not grow with the size of a partition, but for its promoted index (about 23 bytes a
//! block). Files become durable in this order: all components, their directory, the table of
//! contents. So a table of contents proves that the SSTable is whole.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::data_writer::DataWriter;
use super::large_data::{LargeDataCollector, WrittenRow};
use crate::commitlog::ReplayPosition;
use crate::config::COLUMN_INDEX_BYTES_DEFAULT;
use crate::disk::{Disk, remove_if_there, write_file_atomically};
use crate::error::{Error, Result};
use crate::hex::Hex;
use crate::mutation::position::compare;
use crate::mutation::{Fragment, Position, Row, RowForm, RowView, Tombstone, ViewRoom, Weight};
use crate::schema::table_schema::SchemaRef;
use crate::schema::token::{KeyHash, murmur3_x64_128};
use crate::schema::{ClusteringKey, Compression, LargeDataThresholds, PartitionKey};
use crate::sstable::data::file::{CHUNK_BYTES, FileWriter};
use crate::sstable::format::coding::{Input, put_bytes16, put_vint};
use crate::sstable::format::component::{Component, toc_temporary_path};
use crate::sstable::format::info::SstableInfo;
use crate::sstable::format::integrity::{Counts, Integrity};
use crate::sstable::format::layout::{Bases, Header, Layout, put_deletion};
use crate::sstable::format::prefix::{Bound, KIND_ROW};
use crate::sstable::format::scylla::ScyllaMetadata;
use crate::sstable::format::statistics::{self, Collector};
use crate::sstable::format::unfiltered::{
    Head, PARTITION_END, UnfilteredEncoder, read_head, read_row, read_size,
};
use crate::sstable::index::filter::BloomFilter;
use crate::sstable::index::promoted_index::PromotedIndexBuilder;
use crate::sstable::index::summary::{Summary, SummaryBuilder};

/// Origin of an SSTable that a flush wrote.
const ORIGIN_MEMTABLE: &str = "memtable";
/// Origin of an SSTable that a compaction wrote.
pub const ORIGIN_COMPACTION: &str = "compaction";
/// Features of `Scylla.db`: faults of early versions of ScyllaDB that these files do not have. Bit
/// 6 is not among them, for the width of a last block counts the end mark here as in Cassandra.
const SCYLLA_FEATURES: u64 = 0x3f;

/// How an SSTable is written.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Bytes of row data per block of the promoted index.
    pub column_index_bytes: u32,
    /// Part of absent keys that the bloom filter lets pass, above 0 and below 1.
    pub bloom_fp_chance: f64,
    /// Commitlog positions between which all writes of the data lie.
    pub replay: Option<(ReplayPosition, ReplayPosition)>,
    /// Least values of the data where they are known; smaller deltas make a shorter file.
    pub bases: Bases,
    /// Number of partitions where it is known. Without it the writer keeps 16 bytes a partition
    /// until the end, to size the bloom filter.
    pub partitions_expected: Option<u64>,
    /// How the data is compressed, if it is.
    pub compression: Option<Compression>,
    /// What is noted as large.
    pub large_data: LargeDataThresholds,
    /// Level in a leveled table.
    pub level: u32,
    /// Why the file is written, in ScyllaDB's words.
    pub origin: &'static str,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            column_index_bytes: COLUMN_INDEX_BYTES_DEFAULT,
            bloom_fp_chance: 0.01,
            replay: None,
            bases: Bases::default(),
            partitions_expected: None,
            compression: None,
            large_data: LargeDataThresholds::default(),
            level: 0,
            origin: ORIGIN_MEMTABLE,
        }
    }
}

/// Keys of the bloom filter, before or after its size is known.
enum FilterKeys {
    Sized(BloomFilter),
    Hashes(Vec<KeyHash>),
}

impl FilterKeys {
    /// The filter of the keys of so many partitions.
    fn finish(self, partitions: u64, fp_chance: f64) -> BloomFilter {
        match self {
            FilterKeys::Sized(filter) => filter,
            FilterKeys::Hashes(hashes) => {
                assert_eq!(hashes.len() as u64, partitions, "the filter has not all partitions");
                let mut filter = BloomFilter::new(partitions, fp_chance);
                hashes.into_iter().for_each(|hashes| filter.add(hashes));
                filter
            }
        }
    }
}

/// The partition being written.
struct OpenPartition {
    key: Rc<PartitionKey>,
    deletion: Option<Tombstone>,
    static_row: Option<Rc<Row>>,
    /// Start in the data file.
    start: u64,
    /// Bytes of key, deletion and static row; `None` until they are written.
    header_bytes: Option<u64>,
    /// Start of the row or marker before, from the start of the partition.
    previous: u64,
    /// Range tombstone in force, as written.
    open: Option<Tombstone>,
    /// A change that may yet be replaced by one at the same position.
    pending: Option<(Position, Option<Tombstone>)>,
}

/// Where the row or change before stands in the partition. It keeps its memory, for it is written
/// for each row.
#[derive(Default)]
struct LastPlace {
    prefix: Vec<u8>,
    /// `None` where nothing came before.
    weight: Option<Weight>,
}

impl LastPlace {
    fn note(&mut self, prefix: &[u8], weight: Weight) {
        debug_assert!(self.is_before(prefix, weight), "{} is noted late", Hex(prefix));
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        self.weight = Some(weight);
    }

    fn is_before(&self, prefix: &[u8], weight: Weight) -> bool {
        self.weight.is_none_or(|own| compare(&self.prefix, own, prefix, weight).is_lt())
    }

    /// Panics where a row with this key does not come behind what came before.
    fn check_before(&self, key: &[u8]) {
        let is_before = self.is_before(key, Weight::At);
        let (last, weight) = (Hex(&self.prefix), self.weight);
        assert!(is_before, "rows come in order: {} behind {last}, {weight:?}", Hex(key));
    }
}

impl OpenPartition {
    /// Where a row or marker at `from` of the data file stands in the partition, and how far from
    /// what stands before it: the first one counts from the start of the partition.
    fn place(&self, from: u64) -> (u64, u64) {
        let (previous, header_bytes) = (self.previous, self.header_bytes.unwrap_or(0));
        assert!(header_bytes > 0, "content of {:?} without its front", self.key);
        let at = from - self.start;
        assert!(
            at > previous && (previous > 0 || at == header_bytes),
            "content at {at} of a partition with a front of {header_bytes}, behind {previous}"
        );
        (at, at - previous)
    }
}

/// An SSTable in the making. Call [`finish`](Self::finish) or [`abandon`](Self::abandon); a writer
/// that is merely dropped leaves files without table of contents, which no manifest names.
pub struct SstableWriter {
    disk: Rc<dyn Disk>,
    directory: PathBuf,
    generation: u64,
    options: WriterOptions,
    header: Header,
    layout: Layout,
    data: DataWriter,
    index: FileWriter,
    summary: SummaryBuilder,
    filter_keys: FilterKeys,
    collector: Collector,
    large: LargeDataCollector,
    schema: SchemaRef,
    encoder: UnfilteredEncoder,
    promoted: PromotedIndexBuilder,
    partition: Option<OpenPartition>,
    /// In the partition that is open.
    last_place: LastPlace,
    last_key: Option<Rc<PartitionKey>>,
    partitions: u64,
    out: Vec<u8>,
    room: ViewRoom,
}

/// A row that was encoded, and is not in the file yet.
struct EncodedRow {
    /// Its place in the partition.
    at: u64,
    /// Where the values of its key stand in what was encoded.
    values: Range<usize>,
}

impl SstableWriter {
    /// Creates the files of a new SSTable in `directory`, which must exist.
    ///
    /// Errors: `Io`; `Invalid` for options out of range.
    pub async fn create(
        disk: Rc<dyn Disk>,
        directory: &Path,
        generation: u64,
        schema: SchemaRef,
        options: WriterOptions,
    ) -> Result<Self> {
        if !(options.bloom_fp_chance > 0.0 && options.bloom_fp_chance < 1.0) {
            return Err(Error::invalid("the bloom filter's chance lies between 0 and 1"));
        }
        let header = Header::of_schema(&schema, options.bases);
        let data_path = Component::Data.path(directory, generation);
        let layout = header.layout(&schema, &data_path)?;
        if let Some(compression) = &options.compression {
            compression.validate()?;
        }
        let data = DataWriter::create(&*disk, &data_path, options.compression).await?;
        let index_path = Component::Index.path(directory, generation);
        let index = FileWriter::create(&*disk, &index_path).await?;
        let filter_keys = match options.partitions_expected {
            Some(keys) => FilterKeys::Sized(BloomFilter::new(keys, options.bloom_fp_chance)),
            None => FilterKeys::Hashes(Vec::new()),
        };
        Ok(SstableWriter {
            disk,
            directory: directory.to_owned(),
            generation,
            promoted: PromotedIndexBuilder::new(options.column_index_bytes),
            large: LargeDataCollector::new(&options.large_data),
            options,
            header,
            layout,
            data,
            index,
            summary: SummaryBuilder::default(),
            filter_keys,
            collector: Collector::new(),
            schema,
            encoder: UnfilteredEncoder::default(),
            partition: None,
            last_key: None,
            partitions: 0,
            out: Vec::new(),
            room: ViewRoom::default(),
            last_place: LastPlace::default(),
        })
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes of row data taken so far.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Adds the next fragment of a forward stream. Empty rows and empty partitions leave nothing.
    ///
    /// Panics when fragments are out of order: that is a bug of the source.
    /// Errors: `Io`; the writer must be abandoned then.
    pub async fn push(&mut self, fragment: Fragment) -> Result<()> {
        match fragment {
            Fragment::PartitionStart { key, deletion } => {
                assert!(self.partition.is_none(), "a partition begins within another");
                let ascends = self.last_key.as_ref().is_none_or(|last| *last < key);
                assert!(ascends, "partitions come in ring order: {key:?}");
                self.last_key = Some(key.clone());
                self.partition = Some(OpenPartition {
                    key,
                    deletion,
                    static_row: None,
                    start: self.data.position(),
                    header_bytes: None,
                    previous: 0,
                    open: None,
                    pending: None,
                });
                self.last_place.weight = None;
                Ok(())
            }
            Fragment::StaticRow(row) => {
                let partition = self.open_partition();
                let is_first = partition.header_bytes.is_none() && partition.pending.is_none();
                assert!(is_first && partition.static_row.is_none(), "a static row comes first");
                if !row.is_empty() {
                    partition.static_row = Some(row);
                }
                Ok(())
            }
            Fragment::Row { key, row } => {
                self.push_row((key.as_ordered(), RowForm::Row(&row))).await
            }
            Fragment::FlatRow(flat) if flat.has_multi() => {
                self.push_row((flat.key(), RowForm::Row(&flat.thaw()))).await
            }
            Fragment::FlatRow(flat) => self.push_row((flat.key(), RowForm::Flat(&flat))).await,
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let partition = self.open_partition();
                if partition.pending.as_ref().is_some_and(|(at, _)| *at != position) {
                    self.flush_change().await?;
                }
                let is_behind =
                    self.last_place.is_before(position.prefix.as_ordered(), position.weight);
                assert!(is_behind, "changes come in order");
                self.open_partition().pending = Some((position, tombstone));
                Ok(())
            }
            Fragment::PartitionEnd => self.end_partition().await,
        }
    }

    fn open_partition(&mut self) -> &mut OpenPartition {
        self.partition.as_mut().expect("fragments come within a partition")
    }

    /// As [`push`](Self::push) of a row, as far as that needs no waiting. False where the row was
    /// not added: it is to be pushed then.
    #[inline]
    pub(crate) fn push_now(&mut self, key: &[u8], row: &RowView<'_>) -> bool {
        if self.open_partition().pending.is_some() {
            return false;
        }
        self.last_place.check_before(key);
        if row.is_empty() {
            return true;
        }
        // What does not fit need not be encoded to see that.
        if row.value_bytes() > self.data.room() || !self.begin_content_now() {
            return false;
        }
        let encoded = self.encode_row(key, row);
        let is_there = self.data.append_now(&self.out);
        if is_there {
            self.note_row((key, row), encoded);
        }
        is_there
    }

    async fn push_row(&mut self, (key, row): (&[u8], RowForm<'_>)) -> Result<()> {
        let mut room = std::mem::take(&mut self.room);
        let is_there = room.of(row, |row| self.push_now(key, &row));
        if !is_there {
            self.flush_change().await?;
            self.last_place.check_before(key);
            if !room.of(row, |row| row.is_empty()) {
                self.begin_content().await?;
                let encoded = room.of(row, |row| self.encode_row(key, &row));
                self.data.append(&self.out).await?;
                room.of(row, |row| self.note_row((key, &row), encoded));
            }
        }
        self.room = room;
        Ok(())
    }

    /// Encodes a row, which is to be appended behind what was written.
    fn encode_row(&mut self, key: &[u8], row: &RowView<'_>) -> EncodedRow {
        let partition = self.partition.as_ref().expect("fragments come within a partition");
        let (at, previous) = partition.place(self.data.position());
        debug_assert!(!row.is_empty(), "an empty row of {:?} is written", partition.key);
        self.out.clear();
        let values = self.encoder.put_row(&self.layout, (key, row), previous, &mut self.out);
        debug_assert_eq!(
            row_of(&self.out, &self.layout),
            Some((previous, ClusteringKey::from_ordered(key), row.to_row())),
            "a row is not read back as it was written"
        );
        EncodedRow { at, values }
    }

    /// Takes note of the row that was appended.
    fn note_row(&mut self, (key, row): (&[u8], &RowView<'_>), encoded: EncodedRow) {
        let EncodedRow { at, values } = encoded;
        let partition = self.partition.as_mut().expect("fragments come within a partition");
        debug_assert!(at > partition.previous, "a row at {at} behind {}", partition.previous);
        partition.previous = at;
        self.last_place.note(key, Weight::At);
        self.collector.row(Some(key), row);
        let written = WrittenRow {
            partition_key: &partition.key,
            row,
            bytes: self.out.len() as u64,
            is_static: false,
        };
        let name = |id| self.schema.column(id).name.clone();
        let clustering = || self.encoder.prefix.values(&self.layout, key);
        self.large.row(&written, clustering, name);
        let prefix = |out: &mut Vec<u8>| {
            out.push(KIND_ROW);
            out.extend_from_slice(&self.out[values]);
        };
        self.promoted.add((at, at + self.out.len() as u64), prefix, partition.open);
    }

    /// Writes the marker for the change that waits, if it changes anything.
    async fn flush_change(&mut self) -> Result<()> {
        let partition = self.open_partition();
        let Some((position, opening)) = partition.pending.take() else { return Ok(()) };
        let closing = partition.open;
        self.last_place.note(position.prefix.as_ordered(), position.weight);
        if closing == opening {
            return Ok(());
        }
        self.begin_content().await?;
        let from = self.data.position();
        let partition = self.partition.as_mut().expect("checked above");
        let (at, previous) = partition.place(from);
        partition.previous = at;
        self.out.clear();
        let both = (closing, opening);
        self.encoder.put_marker(&self.layout, &position, both, previous, &mut self.out);
        debug_assert_eq!(
            read_size(&mut Input::new(&self.out), &self.layout),
            Ok(Some(self.out.len() as u64)),
            "a marker at {position:?} has another size than it says"
        );
        self.data.append(&self.out).await?;
        partition.open = opening;
        self.collector.marker(closing, opening);
        if opening.is_some() {
            self.large.range_tombstone();
        }
        let (encoder, layout) = (&mut self.encoder, &self.layout);
        let bound = Bound::new(position.weight, closing.is_some(), opening.is_some());
        let prefix =
            |out: &mut Vec<u8>| encoder.prefix.put_bound(layout, bound, &position.prefix, out);
        self.promoted.add((at, at + self.out.len() as u64), prefix, opening);
        Ok(())
    }

    /// Writes key, deletion and static row once there is something to follow.
    async fn begin_content(&mut self) -> Result<()> {
        if !self.begin_content_now() {
            let key_bytes = self.encode_front();
            self.data.append(&self.out).await?;
            self.note_front(key_bytes);
        }
        Ok(())
    }

    /// The same as far as that needs no waiting. False where they are not written yet.
    #[inline]
    fn begin_content_now(&mut self) -> bool {
        let partition = self.partition.as_ref().expect("content comes within a partition");
        if partition.header_bytes.is_some() {
            return true;
        }
        let key_bytes = self.encode_front();
        let is_there = self.data.append_now(&self.out);
        if is_there {
            self.note_front(key_bytes);
        }
        is_there
    }

    /// Encodes key, deletion and static row. Returns how many bytes come before the static row.
    fn encode_front(&mut self) -> usize {
        let partition = self.partition.as_ref().expect("content comes within a partition");
        self.out.clear();
        put_bytes16(&mut self.out, partition.key.as_bytes());
        put_deletion(&mut self.out, partition.deletion);
        let key_bytes = self.out.len();
        let has_statics = !self.layout.statics.list.is_empty();
        let (encoder, layout) = (&mut self.encoder, &self.layout);
        match &partition.static_row {
            Some(row) => ViewRoom::default().of_row(row, |row| {
                assert!(has_statics, "a table without static columns");
                encoder.put_static_row(layout, &row, &mut self.out);
            }),
            None if has_statics => encoder.put_static_row(layout, &RowView::EMPTY, &mut self.out),
            None => {}
        }
        key_bytes
    }

    /// Takes note of the front that was appended.
    fn note_front(&mut self, key_bytes: usize) {
        let partition = self.partition.as_mut().expect("content comes within a partition");
        let before = partition.header_bytes.replace(self.out.len() as u64);
        assert!(before.is_none(), "{:?} has a second front", partition.key);
        self.collector.partition(partition.key.as_bytes(), partition.deletion);
        self.large.partition();
        let Some(row) = &partition.static_row else { return };
        ViewRoom::default().of_row(row, |row| {
            self.collector.row(None, &row);
            let written = WrittenRow {
                partition_key: &partition.key,
                row: &row,
                bytes: (self.out.len() - key_bytes) as u64,
                is_static: true,
            };
            let name = |id| self.schema.column(id).name.clone();
            self.large.row(&written, Vec::new, name);
        });
    }

    async fn end_partition(&mut self) -> Result<()> {
        self.flush_change().await?;
        let partition = self.open_partition();
        assert!(partition.open.is_none(), "a range tombstone is open at the end of a partition");
        let has_header_only = partition.deletion.is_some() || partition.static_row.is_some();
        if has_header_only {
            self.begin_content().await?;
        }
        let partition = self.partition.take().expect("checked above");
        let Some(header_bytes) = partition.header_bytes else { return Ok(()) };
        self.data.append(&[PARTITION_END]).await?;
        let size = self.data.position() - partition.start;
        let last = partition.previous.max(header_bytes);
        assert!(size > last, "a partition of {size} bytes, its last row at {last}");
        self.collector.partition_end(size);
        self.large.partition_end(&partition.key, size);
        let mut promoted = Vec::new();
        self.promoted.finish((header_bytes, size), partition.deletion, &mut promoted);
        self.summary.add(&partition.key, self.index.position());
        self.out.clear();
        put_bytes16(&mut self.out, partition.key.as_bytes());
        put_vint(&mut self.out, partition.start);
        put_vint(&mut self.out, promoted.len() as u64);
        self.index.append(&self.out).await?;
        self.index.append(&promoted).await?;
        let hashes = murmur3_x64_128(partition.key.as_bytes());
        match &mut self.filter_keys {
            FilterKeys::Sized(filter) => filter.add(hashes),
            FilterKeys::Hashes(all) => all.push(hashes),
        }
        self.partitions += 1;
        Ok(())
    }

    /// Makes the SSTable durable. `None` when nothing was pushed that leaves anything: there is no
    /// empty SSTable, and no file is left.
    ///
    /// Errors: `Io`; files may be left, which no manifest names.
    pub async fn finish(mut self) -> Result<Option<SstableInfo>> {
        assert!(self.partition.is_none(), "the last partition has not ended");
        let (written, summed) = (self.partitions, self.summary.keys());
        assert_eq!(summed, written, "the summary has not the partitions that were written");
        let Some(summary) = std::mem::take(&mut self.summary).finish() else {
            self.abandon().await?;
            return Ok(None);
        };
        let (disk, directory) = (self.disk.clone(), self.directory.clone());
        check_ends(&summary, self.last_key.as_deref());
        let (data_bytes, index_bytes) = (self.data.position(), self.index.position());
        let data = self.data.finish().await?;
        let stored = data.file.size;
        assert!(data.compression.is_some() || stored == data_bytes, "{stored} of {data_bytes}");
        let index = self.index.finish().await?;
        assert_eq!(index.size, index_bytes, "the index file has another size than was written");
        let filter = self.filter_keys.finish(self.partitions, self.options.bloom_fp_chance);
        for key in [&summary.first, &summary.last] {
            assert!(filter.may_contain(key.as_bytes()), "the filter lacks {key:?}");
        }
        let (encoder, layout) = (&mut self.encoder, &self.layout);
        let mut statistics = self
            .collector
            .statistics(self.options.replay, |key| encoder.prefix.values(layout, key.as_ordered()))
            .at_level(self.options.level);
        assert_eq!(statistics.partition_sizes.count(), written, "all partitions are counted");
        // Chunks have checksums of their own.
        let map = match data.compression {
            Some((info, ratio)) => {
                statistics.compression_ratio = ratio;
                (Component::CompressionInfo, info)
            }
            None => (Component::Crc, crc_file(&data.file.chunks)),
        };
        let (features, origin) = (Some(SCYLLA_FEATURES), Some(self.options.origin.to_owned()));
        let mut scylla = ScyllaMetadata { features, origin, ..ScyllaMetadata::default() };
        self.large.finish(&mut scylla);
        let data = data.file;
        let (mut summary_bytes, mut filter_bytes) = (Vec::new(), Vec::new());
        summary.encode(&mut summary_bytes);
        filter.encode(&mut filter_bytes);
        let toc = table_of_contents(map.0);
        let (fp_chance, cardinality) = (self.options.bloom_fp_chance, self.collector.cardinality());
        let stated = statistics::encode_file(fp_chance, cardinality, &statistics, &self.header);
        let small = [
            (Component::Summary, summary_bytes),
            (Component::Filter, filter_bytes),
            (Component::Statistics, stated),
            map,
            (Component::Digest, data.whole.to_string().into_bytes()),
            (Component::Scylla, scylla.encode()),
        ];
        let (rows, tombstones) = (statistics.rows_count as u64, self.collector.tombstones_count);
        let counts = Counts { partitions: self.partitions, rows, tombstones };
        assert!(counts.partitions > 0, "SSTable {} without a partition", self.generation);
        let mut integrity = Integrity::new(counts, data.into(), index.into(), self.header);
        small.iter().for_each(|(component, content)| integrity.add(*component, content));
        let tidegate = (Component::Tidegate, integrity.encode());
        for (component, content) in small.iter().chain([&tidegate]) {
            let path = component.path(&directory, self.generation);
            let mut file = FileWriter::create(&*disk, &path).await?;
            file.append(content).await?;
            file.finish().await?;
        }
        disk.sync_directory(&directory).await?;
        let toc_path = Component::Toc.path(&directory, self.generation);
        write_file_atomically(&*disk, &toc_path, toc.as_bytes()).await?;
        let keys = (&summary.first, &summary.last);
        Ok(Some(SstableInfo::new(self.generation, keys, &statistics, &integrity)))
    }

    /// Gives up and removes the files.
    ///
    /// Errors: `Io`; files may be left, which no manifest names.
    pub async fn abandon(self) -> Result<()> {
        let SstableWriter { disk, directory, generation, data, index, .. } = self;
        drop((data, index));
        remove_files(&*disk, &directory, generation).await
    }
}

/// Size of what stands before it, key and content of the row that `bytes` are; `None` where they
/// are not just a row.
fn row_of(bytes: &[u8], layout: &Layout) -> Option<(u64, ClusteringKey, Row)> {
    let mut input = Input::new(bytes);
    let Ok(Head::Row { key, frame }) = read_head(&mut input, layout) else { return None };
    let (previous, row) = read_row(&mut input, layout, &layout.regulars, frame).ok()?;
    (input.remaining() == 0).then_some((previous, key, row))
}

/// Removes all files of an SSTable, the table of contents first. Files that are missing already are
/// no error.
///
/// Errors: `Io`.
pub async fn remove_files(disk: &dyn Disk, directory: &Path, generation: u64) -> Result<()> {
    let mut paths = vec![toc_temporary_path(directory, generation)];
    paths.extend(Component::ALL.iter().rev().map(|c| c.path(directory, generation)));
    for path in paths {
        remove_if_there(disk, &path).await?;
    }
    disk.sync_directory(directory).await
}

/// Gives all files of an SSTable second names in another folder, the table of contents last. They
/// are durable after that folder is synced.
///
/// Errors: `Io`.
pub async fn link_files(disk: &dyn Disk, from: &Path, to: &Path, generation: u64) -> Result<()> {
    for component in Component::ALL {
        match disk.link(&component.path(from, generation), &component.path(to, generation)).await {
            // Not every SSTable has all of them.
            Err(error) if error.is_missing_file() && component != Component::Data => {}
            linked => linked?,
        }
    }
    Ok(())
}

/// The table of contents of an SSTable that has this component instead of `CRC.db`, if not that.
fn table_of_contents(map: Component) -> String {
    assert!(matches!(map, Component::Crc | Component::CompressionInfo), "{map:?} maps no chunks");
    let in_place = |component: Component| match component {
        Component::Crc => map,
        other => other,
    };
    let written = Component::WRITTEN.into_iter().map(in_place);
    written.map(|component| format!("{}\n", component.suffix())).collect()
}

/// Checks the first and last key against the key that came last.
fn check_ends(Summary { first, last, .. }: &Summary, came: Option<&PartitionKey>) {
    assert!(
        first <= last && came.is_some_and(|came| last <= came),
        "keys from {first:?} to {last:?}, the last one came as {came:?}"
    );
}

/// The bytes of `CRC.db`: the size of chunks, and the checksum of each.
fn crc_file(chunks: &[u32]) -> Vec<u8> {
    let mut crc = (CHUNK_BYTES as i32).to_be_bytes().to_vec();
    chunks.iter().for_each(|chunk| crc.extend_from_slice(&chunk.to_be_bytes()));
    crc
}
