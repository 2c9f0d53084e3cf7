//! Everything about an SSTable that can be checked, checked: it goes on after what it finds.
//!
//! Bytes against their checksums (`Digest.crc32`, `CRC.db`, compressed chunks, `Tidegate.db`,
//! `Scylla.db`); order of tokens, rows and cells; sizes of previous rows; that range tombstones
//! pair; values against their types; index entries and promoted indexes against the data they point
//! to; samples of the summary against the index; the bits of the bloom filter against the keys; the
//! statistics against what the data has.
//!
//! After damage in a partition the walk goes on at the next one that the index names. Memory is one
//! row, one promoted index, and the small components.

mod block_check;
mod seen;
mod stored;
mod verification;

use std::ops::Range;

use crate::error::{Error, Result};
use crate::inspect::dump::{
    IndexReader, StoredBlocks, StoredEntry, StoredSummary, key_values, value_type,
};
use crate::inspect::files::Inspector;
use crate::inspect::metadata::{Metadata, Sketch};
use crate::inspect::order::{Prefix, compare};
use crate::inspect::rows::{RowReader, Step, StoredColumn, StoredFront, StoredLayout, StoredRow};
use crate::inspect::value;
use crate::mutation::Tombstone;
use crate::schema::PartitionKey;
use crate::schema::token::murmur3_x64_128;
use crate::sstable::format::component::Component;
use crate::sstable::format::statistics::PARTITIONER;
use crate::sstable::index::filter::BloomFilter;
use block_check::{BlockCheck, tombstone_text};
use seen::{Counted, Seen};
pub use verification::{PROBLEMS_KEPT_MAX, Verification, VerifyProgress};

use stored::{check_pages, check_ratio, check_small, check_stored, check_toc};

/// Most keys that may lie between two samples of a summary; 128 are usual.
const INTERVAL_MAX: i64 = 1 << 16;

/// Checks an SSTable. Whatever is wrong is in the result, also when a file cannot be read.
pub async fn verify(sstable: &Inspector, progress: VerifyProgress<'_>) -> Verification {
    let mut found = Verification::of(sstable.directory().join(sstable.name().prefix()));
    for needed in [Component::Data, Component::Index, Component::Statistics] {
        if !sstable.has(needed) {
            let path = sstable.path(needed);
            found.add(Error::corrupt(path, 0, "a file", "none"));
        }
    }
    check_toc(sstable, &mut found).await;
    let scylla = sstable.scylla().await;
    let scylla = found.take(scylla).flatten();
    let integrity = check_small(sstable, scylla.as_ref(), &mut found).await;
    let mut damaged = Vec::new();
    if sstable.has(Component::Data) {
        let checked = check_stored(sstable, integrity.as_ref(), &mut found, progress).await;
        damaged = found.take(checked).unwrap_or_default();
    }
    if let Some(integrity) = &integrity
        && sstable.has(Component::Index)
    {
        let checked = check_pages(sstable, Component::Index, &integrity.index, &mut found).await;
        found.take(checked);
    }
    if sstable.has(Component::Statistics) {
        let metadata = sstable.metadata().await;
        if let Some(metadata) = found.take(metadata) {
            let counted = match scylla.is_some() || metadata.has_scylla_sketch() {
                _ if sstable.has(Component::Tidegate) => Counted::Here,
                true => Counted::ByScylla,
                false => Counted::ByCassandra,
            };
            walk(sstable, (&metadata, counted), damaged, &mut found, progress).await;
        }
    }
    found
}

/// Data, index, summary, filter and statistics against each other.
async fn walk(
    sstable: &Inspector,
    (metadata, counted): (&Metadata, Counted),
    damaged: Vec<Range<u64>>,
    found: &mut Verification,
    progress: VerifyProgress<'_>,
) {
    let path = sstable.path(Component::Statistics);
    match &metadata.sketch {
        Sketch::Damaged { base, fault } => found.add(fault.clone().into_error(&path, *base)),
        Sketch::Other { bytes, what } => found.notes.push(format!(
            "{}: the estimate of the number of keys ({} bytes) is {what}; reads do not need it, and \
             it was not checked",
            path.display(),
            bytes.len()
        )),
        Sketch::Registers(_) | Sketch::Sparse(_) => {}
    }
    if metadata.partitioner != PARTITIONER {
        found.add(Error::corrupt(&path, 0, PARTITIONER, &metadata.partitioner));
    }
    let chance = metadata.bloom_fp_chance;
    if !(chance > 0.0 && chance <= 1.0) {
        let wanted = "a bloom filter chance above 0 and up to 1";
        found.add(Error::corrupt(&path, 0, wanted, chance));
    }
    let layout = sstable.layout(metadata).await;
    let Some(layout) = found.take(layout) else { return };
    let mut index = None;
    if sstable.has(Component::Index) {
        let opened = IndexReader::open(sstable).await;
        index = found.take(opened);
    }
    if !sstable.has(Component::Data) {
        return;
    }
    if counted != Counted::ByScylla {
        let is_own = counted == Counted::Here;
        let checked = check_ratio(sstable, (metadata, is_own), found).await;
        found.take(checked);
    }
    let rows = sstable.rows(layout.clone()).await;
    let Some(rows) = found.take(rows) else { return };
    let mut walk = Walk {
        filter: read_filter(sstable, found).await,
        summary: read_summary(sstable, found).await,
        sstable,
        layout: &layout,
        seen: Seen::new(metadata),
        rows,
        samples_met: 0,
        first_key: None,
        last_key: None,
        keys: 0,
        shadowable_rows: 0,
        is_whole: damaged.is_empty(),
        damaged,
    };
    walk.run(index, found, progress).await;
    walk.finish(metadata, counted, found);
}

async fn read_filter(
    sstable: &Inspector,
    found: &mut Verification,
) -> Option<(BloomFilter, BloomFilter)> {
    if !sstable.has(Component::Filter) {
        found.skip("no Filter.db: the bloom filter");
        return None;
    }
    let path = sstable.path(Component::Filter);
    let content = sstable.read(Component::Filter).await;
    let content = found.take(content)?;
    let decoded = BloomFilter::decode(&content, sstable.name().version());
    let filter = found.take(decoded.map_err(|fault| fault.into_error(&path, 0)))?;
    Some((filter.emptied(), filter))
}

async fn read_summary(sstable: &Inspector, found: &mut Verification) -> Option<StoredSummary> {
    if !sstable.has(Component::Summary) {
        found.skip("no Summary.db: samples of the index");
        return None;
    }
    let path = sstable.path(Component::Summary);
    let content = sstable.read(Component::Summary).await;
    let content = found.take(content)?;
    let decoded = StoredSummary::decode(&content);
    found.take(decoded.map_err(|fault| fault.into_error(&path, 0)))
}

struct Walk<'a> {
    sstable: &'a Inspector,
    layout: &'a StoredLayout,
    rows: RowReader,
    /// Rebuilt, and as stored.
    filter: Option<(BloomFilter, BloomFilter)>,
    summary: Option<StoredSummary>,
    samples_met: usize,
    seen: Seen,
    first_key: Option<PartitionKey>,
    last_key: Option<PartitionKey>,
    /// Entries of the index.
    keys: u64,
    /// Rows with tombstones that queries do not know.
    shadowable_rows: u64,
    /// Nothing was left out so far.
    is_whole: bool,
    /// Where checksums of the uncompressed data are wrong, ascending. That was told: of a partition
    /// that has a part in it one thing more is told, as the others may come of the same bytes.
    damaged: Vec<Range<u64>>,
}

/// An entry of the index, its place, and its promoted index.
type EntryAt = (u64, StoredEntry, Option<StoredBlocks>);

impl Walk<'_> {
    /// The next entry of the index, whose end is noted; `None` where there is no more.
    ///
    /// Errors: what keeps the index from being read on.
    async fn next_entry(
        &mut self,
        index: &mut Option<IndexReader>,
        found: &mut Verification,
    ) -> Result<Option<EntryAt>> {
        let Some(reader) = index else { return Ok(None) };
        let at = reader.at();
        let Some(next) = reader.next().await? else {
            *index = None;
            return Ok(None);
        };
        let blocks = reader.blocks(&next, self.layout).await;
        let blocks = found.take(blocks).flatten();
        self.check_sample(at, &next, found);
        self.keys += 1;
        Ok(Some((at, next, blocks)))
    }

    async fn run(
        &mut self,
        mut index: Option<IndexReader>,
        found: &mut Verification,
        progress: VerifyProgress<'_>,
    ) {
        let size = self.rows.content().size();
        let mut has_index = index.is_some();
        // The data is readable from where the reader stands.
        let mut is_readable = true;
        loop {
            let entry = match self.next_entry(&mut index, found).await {
                Ok(entry) => entry,
                Err(error) => {
                    found.add(error);
                    (index, has_index, self.is_whole) = (None, false, false);
                    None
                }
            };
            if !is_readable {
                let Some((_, entry, _)) = &entry else { return };
                if entry.data_at < self.rows.at() {
                    continue;
                }
                self.rows.skip_to(entry.data_at);
                is_readable = true;
            }
            let index_path = self.sstable.path(Component::Index);
            let (start, before) = (self.rows.at(), found.problem_count);
            match self.rows.next().await {
                Ok(Step::Partition(front)) => {
                    if entry.is_none() && has_index {
                        let wanted = format!("an entry for the partition at {}", front.at);
                        let end = "the end of the index";
                        found.add(Error::corrupt(&index_path, 0, wanted, end));
                        has_index = false;
                    }
                    self.check_front(&front, entry.as_ref(), found);
                    let blocks = entry.and_then(|(_, _, blocks)| blocks);
                    if let Err(error) = self.partition(&front, blocks, found).await {
                        found.add(error);
                        (is_readable, self.is_whole) = (false, false);
                    }
                }
                Ok(_) => {
                    if let Some((at, entry, _)) = entry {
                        let key = format!("{:?} at {}", entry.key, entry.data_at);
                        let wanted = "no entry beyond the end of the data";
                        found.add(Error::corrupt(&index_path, at, wanted, key));
                    }
                    return;
                }
                Err(error) => {
                    found.add(error);
                    (is_readable, self.is_whole) = (false, false);
                }
            }
            if self.is_damaged(start..self.rows.at()) {
                found.keep_first_since(before);
                // A damaged length leads anywhere: the index knows where the next one starts.
                is_readable &= index.is_none();
            }
            found.data_bytes = self.rows.at().min(size);
            progress(found.rows, size / 2 + found.data_bytes / 2, size);
        }
    }

    /// Whether a checksum of these bytes is wrong. Bytes of no length stand for what could not be
    /// read.
    fn is_damaged(&self, bytes: Range<u64>) -> bool {
        let next = self.damaged.partition_point(|range| range.end <= bytes.start);
        self.damaged.get(next).is_some_and(|range| range.start < bytes.end.max(bytes.start + 1))
    }

    fn check_sample(&mut self, at: u64, entry: &StoredEntry, found: &mut Verification) {
        let Some(summary) = &self.summary else { return };
        let path = self.sstable.path(Component::Summary);
        while let Some((key, position, sample_at)) = summary.samples.get(self.samples_met) {
            if *position > at {
                return;
            }
            self.samples_met += 1;
            if *position < at {
                let wanted = format!("a position where an entry of the index starts, such as {at}");
                found.add(Error::corrupt(&path, *sample_at, wanted, position));
            } else if *key != entry.key.as_bytes() {
                let sampled = PartitionKey::from_bytes(key.as_slice());
                let (wanted, key) = (format!("{:?}", entry.key), format!("{sampled:?}"));
                found.add(Error::corrupt(&path, *sample_at, wanted, key));
            }
        }
    }

    fn check_front(
        &mut self,
        front: &StoredFront,
        entry: Option<&(u64, StoredEntry, Option<StoredBlocks>)>,
        found: &mut Verification,
    ) {
        let mut key = PartitionKey::from_bytes(front.key.as_slice());
        let content = self.rows.content();
        if let Some((at, entry, _)) = entry {
            let path = self.sstable.path(Component::Index);
            if entry.key != key {
                let (wanted, key) = (format!("{key:?}"), format!("{:?}", entry.key));
                found.add(Error::corrupt(&path, *at, wanted, key));
            } else if entry.data_at != front.at {
                let wanted = format!("position {} of {key:?}", front.at);
                found.add(Error::corrupt(&path, *at, wanted, entry.data_at));
            }
        }
        if let Some(last) = self.last_key.as_ref().filter(|last| **last >= key) {
            let (wanted, key) = (format!("a key after {last:?}"), format!("{key:?}"));
            found.add(content.corrupt(front.at, wanted, key));
        }
        let values = key_values(&self.layout.partition_key, &front.key);
        let checked = values.and_then(|values| {
            let mut pairs = self.layout.partition_key.iter().zip(values);
            pairs.try_for_each(|(ty, value)| value::check(ty, value))
        });
        if let Err(wrong) = checked {
            found.add(content.corrupt(front.at, "a partition key of the header's types", wrong));
        }
        if let Some((rebuilt, stored)) = &mut self.filter {
            rebuilt.add(murmur3_x64_128(&front.key));
            if !stored.may_contain(&front.key) {
                let path = self.sstable.path(Component::Filter);
                let wanted = format!("bits that admit {key:?}");
                found.add(Error::corrupt(path, 8, wanted, "bits that do not"));
            }
        }
        // Those that follow are compared with the key that it had.
        if let Some((_, entry, _)) = entry.filter(|_| self.is_damaged(front.at..front.body)) {
            key = entry.key.clone();
        }
        if self.first_key.is_none() {
            self.first_key = Some(key.clone());
        }
        self.last_key = Some(key);
        found.partitions += 1;
    }

    /// Walks over the rows of a partition.
    ///
    /// Errors: what makes the rest of it unreadable.
    async fn partition(
        &mut self,
        front: &StoredFront,
        blocks: Option<StoredBlocks>,
        found: &mut Verification,
    ) -> Result<()> {
        self.seen.partition(&front.key, front.deletion);
        if let Some(row) = &front.static_row {
            self.check_previous(row.at, 0, row.previous, found);
            if !row.columns.is_empty() || row.liveness.is_some() {
                found.rows += 1;
                self.check_cells(row, &self.layout.statics, found);
                self.seen.row(row, &self.layout.statics, None);
            }
        }
        let index_path = self.sstable.path(Component::Index);
        let mut check = BlockCheck::new(self.layout, front, blocks, index_path, found);
        let mut open: Option<Tombstone> = None;
        let mut last: Option<(u64, Prefix)> = None;
        loop {
            let (at, end, previous, prefix) = match self.rows.next().await? {
                Step::Row(row) => {
                    found.rows += 1;
                    self.shadowable_rows += u64::from(row.shadowable.is_some());
                    self.check_cells(&row, &self.layout.regulars, found);
                    self.seen.row(&row, &self.layout.regulars, Some(&self.layout.clustering));
                    check.start(row.at, &row.prefix, found);
                    (row.at, row.end, row.previous, row.prefix)
                }
                Step::Marker(marker) => {
                    check.start(marker.at, &marker.prefix, found);
                    if marker.closing != open {
                        let wanted = match open {
                            Some(_) => format!("the end of {}", tombstone_text(open)),
                            None => "no end of a range tombstone, as none is open".to_owned(),
                        };
                        let closing = tombstone_text(marker.closing);
                        found.add(self.rows.content().corrupt(marker.at, wanted, closing));
                    }
                    self.seen.marker(marker.closing, marker.opening);
                    open = marker.opening;
                    (marker.at, marker.end, marker.previous, marker.prefix)
                }
                Step::PartitionEnd { end } => {
                    if let Some(open) = open {
                        let wanted = format!("the end of {}", tombstone_text(Some(open)));
                        let end = "the end of the partition";
                        found.add(self.rows.content().corrupt(self.rows.at(), wanted, end));
                    }
                    check.end(end, found);
                    self.seen.partition_end(end - front.at);
                    return Ok(());
                }
                step => unreachable!("a partition ends before {step:?}"),
            };
            check.done(end, &prefix, open);
            let wanted = last.as_ref().map_or(front.body - front.at, |(last, _)| at - last);
            self.check_previous(at, wanted, previous, found);
            self.check_order(at, last.as_ref().map(|(_, prefix)| prefix), &prefix, found);
            last = Some((at, prefix));
        }
    }

    fn check_previous(&self, at: u64, wanted: u64, previous: u64, found: &mut Verification) {
        if wanted != previous {
            let wanted = format!("a previous size of {wanted}");
            found.add(self.rows.content().corrupt(at, wanted, previous));
        }
    }

    fn check_order(
        &self,
        at: u64,
        last: Option<&Prefix>,
        prefix: &Prefix,
        found: &mut Verification,
    ) {
        let clustering = &self.layout.clustering;
        for (value, key) in prefix.values.iter().zip(clustering) {
            let checked = value.as_ref().map_or(Ok(()), |value| value::check(&key.ty, value));
            if let Err(wrong) = checked {
                let wanted = "clustering values of the header's types";
                found.add(self.rows.content().corrupt(at, wanted, wrong));
                return;
            }
        }
        if last.is_some_and(|last| last.compare(prefix, clustering).is_ge()) {
            let wanted = "a row or marker after the one before";
            found.add(self.rows.content().corrupt(at, wanted, "one that sorts before it"));
        }
    }

    fn check_cells(&self, row: &StoredRow, columns: &[StoredColumn], found: &mut Verification) {
        for stored in &row.columns {
            let column = &columns[stored.column];
            let checked = stored.cells.iter().try_for_each(|cell| {
                if let Some(path) = &cell.path {
                    value::check(&column.ty.path_type(), path)?;
                }
                match cell.is_deleted {
                    true => Ok(()),
                    false => value::check(&value_type(&column.ty, cell)?, &cell.value),
                }
            });
            if let Err(wrong) = checked {
                let wanted = format!("values of type {} in column '{}'", column.ty, column.name);
                found.add(self.rows.content().corrupt(row.at, wanted, wrong));
                continue;
            }
            let path_type = column.ty.path_type();
            let paths = stored.cells.iter().filter_map(|cell| cell.path.as_deref());
            if !paths.is_sorted_by(|a, b| compare(&path_type, a, b).is_lt()) {
                let wanted = format!("ascending cells of column '{}'", column.name);
                found.add(self.rows.content().corrupt(row.at, wanted, "others"));
            }
        }
    }

    /// What can be said when all was seen.
    fn finish(&self, metadata: &Metadata, counted: Counted, found: &mut Verification) {
        if let Some(summary) = &self.summary {
            self.check_summary(summary, counted, found);
        }
        if self.shadowable_rows > 0 {
            found.notes.push(format!(
                "{}: {} rows have shadowable tombstones, of a materialized view, which queries refuse",
                self.sstable.path(Component::Data).display(),
                self.shadowable_rows
            ));
        }
        if !self.is_whole {
            found.skip("damaged data or index: statistics and the bloom filter's other bits");
            return;
        }
        if let Some((rebuilt, stored)) = &self.filter
            && let Some((at, wanted, bits)) = stored.difference(rebuilt)
        {
            let path = self.sstable.path(Component::Filter);
            let (wanted, bits) = (format!("bits {wanted:016x}"), format!("{bits:016x}"));
            found.add(Error::corrupt(path, 8 + 8 * at as u64, wanted, bits));
        }
        let path = self.sstable.path(Component::Statistics);
        let version = self.sstable.name().version();
        for differs in self.seen.differences(metadata, version, counted) {
            let (wanted, stated) = (differs.wanted, differs.stated);
            match differs.is_custom {
                true => found.note_other_count(&path, &wanted, &stated),
                false => {
                    found.add(Error::corrupt(&path, metadata.statistics_at, wanted, stated));
                }
            }
        }
    }

    fn check_summary(&self, summary: &StoredSummary, counted: Counted, found: &mut Verification) {
        let path = self.sstable.path(Component::Summary);
        for (key, position, at) in &summary.samples[self.samples_met..] {
            let key = PartitionKey::from_bytes(key.as_slice());
            let wanted = "a sample of an entry of the index";
            found.add(Error::corrupt(&path, *at, wanted, format!("{key:?} at {position}")));
        }
        let ends = [(&summary.first, &self.first_key), (&summary.last, &self.last_key)];
        // Of damaged data the first or the last partition may be missing.
        for (stored, seen) in ends.into_iter().filter(|_| self.is_whole) {
            if let Some(seen) = seen.as_ref().filter(|seen| seen.as_bytes() != stored.as_slice()) {
                let stored = PartitionKey::from_bytes(stored.as_slice());
                let (wanted, key) = (format!("{seen:?}"), format!("{stored:?}"));
                found.add(Error::corrupt(&path, summary.ends_at, wanted, key));
            }
        }
        let interval = i64::from(summary.min_index_interval);
        if !(1..=INTERVAL_MAX).contains(&interval) || !(1..=128).contains(&summary.sampling_level) {
            let wanted = format!("an interval of 1 to {INTERVAL_MAX} and a level of 1 to 128");
            let stored = format!("{interval} and {}", summary.sampling_level);
            found.add(Error::corrupt(&path, 0, wanted, stored));
            return;
        }
        // Samples at equal distances, as Cassandra takes them.
        let is_even = counted == Counted::ByCassandra;
        if self.is_whole && is_even && summary.sampling_level == 128 {
            let wanted = (self.keys as i64 + interval - 1) / interval;
            let stored = (summary.samples.len() as i64, i64::from(summary.size_at_full_sampling));
            if stored != (wanted, wanted) {
                let wanted = format!("{wanted} samples of {} keys", self.keys);
                found.add(Error::corrupt(
                    &path,
                    0,
                    wanted,
                    format!("{} and {}", stored.0, stored.1),
                ));
            }
        }
    }
}
