//! `Statistics.db`: what the writer saw of the data, and the serialization header.
//!
//! ```text
//! file := i32 4, 4 x (i32 type, i32 offset), bodies
//! 0 validation: partitioner, bloom filter chance      1 compaction: cardinality estimate
//! 2 statistics: histograms, minima and maxima, counts 3 header: bases, types, column names
//! ```
//! `nb` adds a CRC after the first number, one of all before after the offsets, and one after every
//! body.

use std::collections::BTreeMap;

use super::cardinality::Cardinality;
use super::coding::{Fault, Input, Parsed, put_bytes16, put_bytes32};
use super::component::Version;
use super::layout::Header;
use crate::checksum::crc32;
use crate::commitlog::ReplayPosition;
use crate::mutation::{FlatCell, FlatState, RowView, Tombstone};
use crate::schema::ClusteringKey;

pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// Partition sizes fall into this many exponential buckets, cell counts into the other.
const SIZE_BUCKETS: usize = 151;
const CELL_BUCKETS: usize = 119;
/// Most bins of the histogram of deletion times.
const DROP_TIME_BINS: usize = 100;
/// Deletion times are rounded up to this many seconds.
const DROP_TIME_ROUND: i64 = 60;
/// The table lives on this node: other products ignore replay positions of other hosts.
const HOST_ID: [u8; 16] = *b"tidegate\0\0\0\0\0\0\0\x01";

/// Counts of values in buckets that grow by a fifth.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Histogram {
    offsets: Vec<i64>,
    counts: Vec<i64>,
}

impl Histogram {
    fn new(buckets: usize) -> Self {
        let mut offsets = vec![1i64];
        while offsets.len() < buckets - 1 {
            let last = offsets[offsets.len() - 1];
            offsets.push(((last as f64 * 1.2).round() as i64).max(last + 1));
        }
        Histogram { offsets, counts: vec![0; buckets] }
    }

    fn add(&mut self, value: i64) {
        let bucket = self.offsets.partition_point(|offset| *offset < value);
        let last = self.counts.len() - 1;
        debug_assert!(bucket <= last, "{value} falls into bucket {bucket}, {last} is the last");
        self.counts[bucket] += 1;
    }

    /// How many values were added.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().fold(0u64, |sum, count| sum.saturating_add((*count).max(0) as u64))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.counts.len() as i32).to_be_bytes());
        for (i, count) in self.counts.iter().enumerate() {
            out.extend_from_slice(&self.offsets[i.saturating_sub(1)].to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }

    fn decode(input: &mut Input<'_>) -> Parsed<Self> {
        let count = input.count32()?;
        let pairs = input.items(count, 16, |input| Ok((input.i64()?, input.i64()?)))?;
        Ok(Histogram {
            offsets: pairs.iter().skip(1).map(|(offset, _)| *offset).collect(),
            counts: pairs.iter().map(|(_, count)| *count).collect(),
        })
    }
}

/// Least and greatest of the values seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent<T> {
    seen: Option<(T, T)>,
}

impl<T: Ord + Copy> Extent<T> {
    const NONE: Self = Extent { seen: None };

    fn add(&mut self, value: T) {
        self.seen = Some(match self.seen {
            Some((min, max)) => (min.min(value), max.max(value)),
            None => (value, value),
        });
    }
}

/// The statistics part of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) partition_sizes: Histogram,
    pub(crate) cells_per_partition: Histogram,
    pub(crate) min_timestamp: i64,
    pub(crate) max_timestamp: i64,
    /// Least and greatest deletion time or expiry; `i32::MAX` stands for "for ever".
    pub(crate) min_deletion_time: i32,
    pub(crate) max_deletion_time: i32,
    pub(crate) min_ttl: i32,
    pub(crate) max_ttl: i32,
    /// Stored bytes for each byte of data; -1 where it is not compressed.
    pub(crate) compression_ratio: f64,
    /// Deletion time and count, ascending.
    pub(crate) drop_times: Vec<(f64, i64)>,
    /// Stored values of the least and greatest clustering key; empty means unbounded.
    pub(crate) min_clustering: Vec<Vec<u8>>,
    pub(crate) max_clustering: Vec<Vec<u8>>,
    pub(crate) columns_count: i64,
    /// Rows, static ones included.
    pub(crate) rows_count: i64,
    pub(crate) replay: Option<(ReplayPosition, ReplayPosition)>,
    /// Level in a leveled table.
    pub(crate) level: u32,
}

/// Gathers the statistics while fragments pass by.
#[derive(Debug)]
pub(crate) struct Collector {
    partition_sizes: Histogram,
    cells_per_partition: Histogram,
    timestamps: Extent<i64>,
    deletion_times: Extent<i32>,
    ttls: Extent<i32>,
    drop_times: BTreeMap<i64, i64>,
    cardinality: Cardinality,
    first_last_key: Option<(ClusteringKey, ClusteringKey)>,
    /// A partition or range tombstone covers rows beyond the keys seen.
    is_unbounded: bool,
    partition_cells: i64,
    columns_count: i64,
    pub(crate) rows_count: i64,
    pub(crate) tombstones_count: u64,
}

impl Collector {
    pub(crate) fn new() -> Self {
        Collector {
            partition_sizes: Histogram::new(SIZE_BUCKETS),
            cells_per_partition: Histogram::new(CELL_BUCKETS),
            timestamps: Extent::NONE,
            deletion_times: Extent::NONE,
            ttls: Extent::NONE,
            drop_times: BTreeMap::new(),
            cardinality: Cardinality::new(),
            first_last_key: None,
            is_unbounded: false,
            partition_cells: 0,
            columns_count: 0,
            rows_count: 0,
            tombstones_count: 0,
        }
    }

    pub(crate) fn partition(&mut self, key: &[u8], deletion: Option<Tombstone>) {
        self.cardinality.add(key);
        self.partition_cells = 0;
        if let Some(deletion) = deletion {
            self.is_unbounded = true;
            self.tombstone(deletion);
        }
    }

    /// A marker that ends and/or begins a range tombstone. Both ends feed the histogram of deletion
    /// times (Cassandra's way); the tombstone counts once.
    pub(crate) fn marker(&mut self, closing: Option<Tombstone>, opening: Option<Tombstone>) {
        self.is_unbounded = true;
        if let Some(closing) = closing {
            self.deletion_time(closing.deletion_time);
        }
        if let Some(opening) = opening {
            self.tombstone(opening);
        }
    }

    fn tombstone(&mut self, tombstone: Tombstone) {
        self.tombstones_count += 1;
        self.timestamps.add(tombstone.timestamp);
        self.deletion_time(tombstone.deletion_time);
    }

    #[inline]
    fn deletion_time(&mut self, seconds: i32) {
        self.deletion_times.add(seconds);
        // Most never end.
        if seconds != i32::MAX {
            self.drop_time(seconds);
        }
    }

    fn drop_time(&mut self, seconds: i32) {
        let rounded = i64::from(seconds).div_euclid(DROP_TIME_ROUND);
        let exact = i64::from(seconds).rem_euclid(DROP_TIME_ROUND) == 0;
        let second = (rounded + i64::from(!exact)) * DROP_TIME_ROUND;
        *self.drop_times.entry(second).or_default() += 1;
        if self.drop_times.len() > DROP_TIME_BINS {
            self.join_nearest_bins();
        }
        let bins = self.drop_times.len();
        debug_assert!(bins <= DROP_TIME_BINS, "{bins} bins of deletion times");
    }

    fn join_nearest_bins(&mut self) {
        let bins: Vec<(i64, i64)> = self.drop_times.iter().map(|(s, n)| (*s, *n)).collect();
        let nearest = bins.windows(2).min_by_key(|pair| pair[1].0 - pair[0].0);
        let Some(&[(a, a_count), (b, b_count)]) = nearest else { return };
        let sum = i128::from(a) * i128::from(a_count) + i128::from(b) * i128::from(b_count);
        let middle = (sum / i128::from(a_count + b_count)) as i64;
        self.drop_times.remove(&a);
        self.drop_times.remove(&b);
        debug_assert!((a..=b).contains(&middle), "{middle} is not between {a} and {b}");
        *self.drop_times.entry(middle).or_default() += a_count + b_count;
    }

    /// A clustering row (`key` given, in its ordered form) or a static row.
    pub(crate) fn row(&mut self, key: Option<&[u8]>, row: &RowView<'_>) {
        if let Some(key) = key {
            match &mut self.first_last_key {
                None => {
                    let key = ClusteringKey::from_ordered(key);
                    self.first_last_key = Some((key.clone(), key));
                }
                Some((min, _)) if key < min.as_ordered() => *min = ClusteringKey::from_ordered(key),
                Some((_, max)) if key > max.as_ordered() => *max = ClusteringKey::from_ordered(key),
                Some(_) => {}
            }
        }
        self.rows_count += 1;
        if let Some(live) = row.liveness {
            self.timestamps.add(live.timestamp);
            self.ttls.add(live.ttl);
            self.deletion_time(live.expiry);
        }
        if let Some(deletion) = row.deletion {
            self.tombstone(deletion);
        }
        for cell in row.cells {
            self.cell(cell);
        }
        self.partition_cells += row.cells.len() as i64;
        self.columns_count += row.cells.len() as i64;
        for (id, multi) in row.multi {
            if let Some(deletion) = multi.deletion {
                self.tombstone(deletion);
            }
            multi.cells.iter().for_each(|(_, cell)| self.cell(&FlatCell::of(*id, cell)));
            self.partition_cells += multi.cells.len() as i64;
            // A column counts once if it has cells at all.
            self.columns_count += i64::from(!multi.cells.is_empty());
        }
    }

    fn cell(&mut self, cell: &FlatCell<'_>) {
        self.timestamps.add(cell.timestamp);
        let (ttl, time) = match cell.state {
            FlatState::Live(_) | FlatState::Counter(_) => (0, i32::MAX),
            FlatState::Expiring { ttl, expiry, .. } => (ttl, expiry),
            FlatState::Deleted { deletion_time } => {
                self.tombstones_count += 1;
                (0, deletion_time)
            }
        };
        self.ttls.add(ttl);
        self.deletion_time(time);
    }

    /// The partition ended after `size` bytes.
    pub(crate) fn partition_end(&mut self, size: u64) {
        self.partition_sizes.add(size as i64);
        self.cells_per_partition.add(self.partition_cells);
    }

    /// The statistics, the clustering bounds made by `values` from an ordered key.
    pub(crate) fn statistics(
        &self,
        replay: Option<(ReplayPosition, ReplayPosition)>,
        mut values: impl FnMut(&ClusteringKey) -> Vec<Vec<u8>>,
    ) -> Statistics {
        let (min_timestamp, max_timestamp) = self.timestamps.seen.unwrap_or((i64::MIN, i64::MAX));
        let (min_deletion_time, max_deletion_time) =
            self.deletion_times.seen.unwrap_or((i32::MAX, i32::MAX));
        let (min_ttl, max_ttl) = self.ttls.seen.unwrap_or((0, 0));
        assert_eq!(
            self.partition_sizes.count(),
            self.cells_per_partition.count(),
            "the histograms are of different partitions"
        );
        let lowest = replay.map(|(lowest, _)| lowest);
        assert!(lowest <= replay.map(|(_, highest)| highest), "positions of writes: {replay:?}");
        let bounds = match &self.first_last_key {
            Some((min, max)) if !self.is_unbounded => (values(min), values(max)),
            _ => (Vec::new(), Vec::new()),
        };
        Statistics {
            partition_sizes: self.partition_sizes.clone(),
            cells_per_partition: self.cells_per_partition.clone(),
            min_timestamp,
            max_timestamp,
            min_deletion_time,
            max_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio: -1.0,
            drop_times: self.drop_times.iter().map(|(s, n)| (*s as f64, *n)).collect(),
            min_clustering: bounds.0,
            max_clustering: bounds.1,
            columns_count: self.columns_count,
            rows_count: self.rows_count,
            replay,
            level: 0,
        }
    }

    pub(crate) fn cardinality(&self) -> &Cardinality {
        &self.cardinality
    }
}

impl Statistics {
    /// The same at a level of a leveled table.
    pub(crate) fn at_level(self, level: u32) -> Self {
        Statistics { level, ..self }
    }

    /// Part of the cells, deletions included, whose deletion time or expiry lies before a second, 0
    /// to 1; an estimate.
    pub(crate) fn droppable(&self, before: i64) -> f64 {
        let is_before = |(second, _): &&(f64, i64)| *second < before as f64;
        let dropped: i64 = self.drop_times.iter().filter(is_before).map(|(_, count)| count).sum();
        let cells = self.columns_count.max(self.rows_count).max(1);
        (dropped as f64 / cells as f64).min(1.0)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.partition_sizes.encode(out);
        self.cells_per_partition.encode(out);
        put_position(out, self.replay.map(|(_, upper)| upper));
        out.extend_from_slice(&self.min_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        for seconds in [self.min_deletion_time, self.max_deletion_time, self.min_ttl, self.max_ttl]
        {
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        out.extend_from_slice(&(DROP_TIME_BINS as i32).to_be_bytes());
        out.extend_from_slice(&(self.drop_times.len() as i32).to_be_bytes());
        for (second, count) in &self.drop_times {
            out.extend_from_slice(&second.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        out.extend_from_slice(&(self.level as i32).to_be_bytes());
        // Time of repair.
        out.extend_from_slice(&[0; 8]);
        for bound in [&self.min_clustering, &self.max_clustering] {
            out.extend_from_slice(&(bound.len() as i32).to_be_bytes());
            bound.iter().for_each(|value| put_bytes16(out, value));
        }
        // No old counter shards.
        out.push(0);
        out.extend_from_slice(&self.columns_count.to_be_bytes());
        out.extend_from_slice(&self.rows_count.to_be_bytes());
        put_position(out, self.replay.map(|(lower, _)| lower));
        match self.replay {
            Some((lower, upper)) => {
                out.extend_from_slice(&1i32.to_be_bytes());
                put_position(out, Some(lower));
                put_position(out, Some(upper));
            }
            None => out.extend_from_slice(&0i32.to_be_bytes()),
        }
        out.push(1);
        out.extend_from_slice(&HOST_ID);
    }

    fn decode(input: &mut Input<'_>, version: Version) -> Parsed<Self> {
        let partition_sizes = Histogram::decode(input)?;
        let cells_per_partition = Histogram::decode(input)?;
        let upper = position(input)?;
        let (min_timestamp, max_timestamp) = (input.i64()?, input.i64()?);
        let (min_deletion_time, max_deletion_time) = (input.i32()?, input.i32()?);
        let (min_ttl, max_ttl) = (input.i32()?, input.i32()?);
        let compression_ratio = input.f64()?;
        let _bins_max = input.i32()?;
        let bins = input.count32()?;
        let drop_times = input.items(bins, 16, |input| Ok((input.f64()?, input.i64()?)))?;
        let level = input.i32()?;
        let _repaired = input.take(8)?;
        let bound = |input: &mut Input<'_>| {
            let count = input.count32()?;
            input.items(count, 2, |input| Ok(input.bytes16()?.to_vec()))
        };
        let min_clustering = bound(input)?;
        let max_clustering = bound(input)?;
        let _has_old_counters = input.u8()?;
        let (columns_count, rows_count) = (input.i64()?, input.i64()?);
        let lower = position(input)?;
        let intervals = input.count32()?;
        input.take(intervals.saturating_mul(24))?;
        if version >= Version::Nb {
            let _pending_repair = optional_uuid(input)?;
            let _is_transient = input.u8()?;
        }
        let host = if version >= Version::Me { optional_uuid(input)? } else { None };
        // Positions in the commitlog of another host say nothing here.
        let is_own = host == Some(HOST_ID);
        Ok(Statistics {
            partition_sizes,
            cells_per_partition,
            min_timestamp,
            max_timestamp,
            min_deletion_time,
            max_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio,
            drop_times,
            min_clustering,
            max_clustering,
            columns_count,
            rows_count,
            replay: lower.zip(upper).filter(|_| is_own),
            level: level.max(0) as u32,
        })
    }
}

fn put_position(out: &mut Vec<u8>, position: Option<ReplayPosition>) {
    let (segment, offset) = match position {
        Some(position) => (position.segment as i64, position.offset as i32),
        None => (-1, 0),
    };
    out.extend_from_slice(&segment.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
}

fn position(input: &mut Input<'_>) -> Parsed<Option<ReplayPosition>> {
    let (segment, offset) = (input.i64()?, input.i32()?);
    let position = ReplayPosition { segment: segment as u64, offset: offset as u32 };
    Ok((segment >= 0).then_some(position))
}

fn optional_uuid(input: &mut Input<'_>) -> Parsed<Option<[u8; 16]>> {
    if input.u8()? == 0 { Ok(None) } else { Ok(Some(input.array()?)) }
}

/// Bytes of a whole `Statistics.db`.
pub(crate) fn encode_file(
    fp_chance: f64,
    cardinality: &Cardinality,
    statistics: &Statistics,
    header: &Header,
) -> Vec<u8> {
    let mut bodies: [Vec<u8>; 4] = Default::default();
    put_bytes16(&mut bodies[0], PARTITIONER.as_bytes());
    bodies[0].extend_from_slice(&fp_chance.to_be_bytes());
    let mut registers = Vec::new();
    cardinality.encode(&mut registers);
    put_bytes32(&mut bodies[1], &registers);
    statistics.encode(&mut bodies[2]);
    header.encode(&mut bodies[3]);
    let mut out = Vec::new();
    out.extend_from_slice(&(bodies.len() as i32).to_be_bytes());
    let mut offset = 4 + 8 * bodies.len();
    for (i, body) in bodies.iter().enumerate() {
        out.extend_from_slice(&(i as i32).to_be_bytes());
        out.extend_from_slice(&(offset as i32).to_be_bytes());
        offset += body.len();
    }
    assert_eq!(out.len(), 4 + 8 * bodies.len(), "the first part starts not where it was said");
    bodies.iter().for_each(|body| out.extend_from_slice(body));
    assert_eq!(out.len(), offset, "the parts take not the bytes that were announced");
    out
}

/// Checks the CRC that `input` comes to against that of `covered`.
fn check_crc(input: &mut Input<'_>, covered: &[u8]) -> Parsed<()> {
    let before = input.clone();
    let (wanted, found) = (input.u32()?, crc32(covered));
    if wanted != found {
        return Err(before.bad(format!("CRC {found:08x}"), format!("CRC {wanted:08x}")));
    }
    Ok(())
}

/// Where the parts of a `Statistics.db` lie.
pub(crate) struct Parts<'a> {
    bytes: &'a [u8],
    has_crcs: bool,
    parts: Vec<(i32, u32)>,
    bodies_at: u64,
}

impl<'a> Parts<'a> {
    /// Reads the table at the front and checks its checksums where the version has them.
    pub(crate) fn locate(bytes: &'a [u8], version: Version) -> Parsed<Self> {
        let has_crcs = version >= Version::Nb;
        let mut input = Input::new(bytes);
        let count = input.count32()?;
        if has_crcs {
            check_crc(&mut input, &bytes[..4])?;
        }
        let toc_at = input.at() as usize;
        let parts = input.items(count, 8, |input| Ok((input.i32()?, input.u32()?)))?;
        if has_crcs {
            let covered = [&bytes[..4], &bytes[toc_at..input.at() as usize]].concat();
            check_crc(&mut input, &covered)?;
        }
        Ok(Parts { bytes, has_crcs, parts, bodies_at: input.at() })
    }

    /// The body of a part, checked where the version has checksums; offsets stay those of the file.
    pub(crate) fn body(&self, wanted: i32, name: &str) -> Parsed<Input<'a>> {
        let parts = &self.parts;
        let offset = parts.iter().find(|(part, _)| *part == wanted).map(|(_, at)| u64::from(*at));
        let missing = || Fault::bad(4, format!("a {name} part"), "none");
        let offset = offset.filter(|at| *at >= self.bodies_at).ok_or_else(missing)?;
        // A part ends where another begins; some writers do not list them in order.
        let others = parts.iter().map(|(_, at)| u64::from(*at));
        let end = others.filter(|at| *at > offset).min().unwrap_or(u64::MAX);
        let bytes = &self.bytes[..end.min(self.bytes.len() as u64) as usize];
        let mut body = Input::new(bytes);
        body.take(offset)?;
        if !self.has_crcs {
            return Ok(body);
        }
        let mut tail = body.clone();
        let covered = tail.take(tail.remaining().saturating_sub(4))?;
        check_crc(&mut tail, covered)?;
        let mut body = Input::new(&bytes[..bytes.len() - 4]);
        body.take(offset)?;
        Ok(body)
    }
}

/// Reads the partitioner's name and the chance of the bloom filter.
pub(crate) fn decode_validation(bytes: &[u8], version: Version) -> Parsed<(String, f64)> {
    let mut input = Parts::locate(bytes, version)?.body(0, "validation")?;
    let partitioner = String::from_utf8_lossy(input.bytes16()?).into_owned();
    Ok((partitioner, input.f64()?))
}

/// Reads the statistics. The estimate of the number of keys is not looked at: no read needs it.
pub(crate) fn decode_statistics(bytes: &[u8], version: Version) -> Parsed<Statistics> {
    Statistics::decode(&mut Parts::locate(bytes, version)?.body(2, "statistics")?, version)
}

/// Reads the serialization header.
pub(crate) fn decode_header(bytes: &[u8], version: Version) -> Parsed<Header> {
    Header::decode(&mut Parts::locate(bytes, version)?.body(3, "header")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Cell, CellPath, Liveness, MultiCell, Row, ViewRoom};
    use crate::schema::ColumnId;

    /// What may be dropped is reckoned from the bins: no deletion is lost when two of them join.
    #[test]
    fn deletion_times_stand_in_bins_by_minutes_of_which_the_nearest_join() {
        let mut collector = Collector::new();
        for seconds in [-61, -1, 0, 1, 60, 61, 119, 120, i32::MAX - 1, i32::MAX] {
            collector.deletion_time(seconds);
        }
        // Rounded up; what is never deleted stands in none.
        let latest = (i64::from(i32::MAX) / 60 + 1) * 60;
        let wanted = [(-60, 1), (0, 2), (60, 2), (120, 3), (latest, 1)];
        assert_eq!(collector.drop_times, BTreeMap::from(wanted));
        assert_eq!(collector.deletion_times.seen, Some((-61, i32::MAX)));

        let mut collector = Collector::new();
        for hour in 1..=DROP_TIME_BINS as i32 {
            collector.deletion_time(3600 * hour);
        }
        let hours = (1..=DROP_TIME_BINS as i64).map(|hour| (3600 * hour, 1));
        let mut wanted: BTreeMap<i64, i64> = hours.collect();
        assert_eq!(collector.drop_times, wanted);
        // Three of an hour, and one of a minute later: the bin of all lies nearer to the three.
        for seconds in [180_000, 180_000, 180_060] {
            collector.deletion_time(seconds);
        }
        wanted.remove(&180_000);
        wanted.insert(180_015, 4);
        assert_eq!(collector.drop_times, wanted);
    }

    /// Merges of one file alone are chosen by it.
    #[test]
    fn what_may_be_dropped_is_a_share_of_the_cells_or_of_rows_that_have_none() {
        let statistics = |times: &[i32], columns_count, rows_count| {
            let mut collector = Collector::new();
            times.iter().for_each(|seconds| collector.deletion_time(*seconds));
            (collector.columns_count, collector.rows_count) = (columns_count, rows_count);
            collector.statistics(None, |_| Vec::new())
        };
        let cells = statistics(&[60, 60, 120, 600, i32::MAX], 40, 10);
        let shares = [60, 61, 120, 121, 601].map(|before| cells.droppable(before));
        assert_eq!(shares, [0.0, 0.05, 0.05, 0.075, 0.1]);
        // Of tables with keys only, rows count.
        assert_eq!(statistics(&[60, 60], 0, 10).droppable(61), 0.2);
        // Of deletions of whole partitions there may be more than of anything else.
        assert_eq!(statistics(&[60, 60], 0, 0).droppable(61), 1.0);
        assert_eq!(statistics(&[60, 60, 60], 1, 2).droppable(61), 1.0);
        assert_eq!(statistics(&[], 0, 0).droppable(61), 0.0);
    }

    /// Rows, columns, cells and tombstones.
    fn counted(collector: &Collector) -> [i64; 4] {
        let Collector { rows_count, columns_count, partition_cells, .. } = *collector;
        [rows_count, columns_count, partition_cells, collector.tombstones_count as i64]
    }

    fn add_row(collector: &mut Collector, key: Option<&[u8]>, row: &Row) {
        ViewRoom::default().of_row(row, |row| collector.row(key, &row));
    }

    #[test]
    fn each_part_of_a_row_counts_where_it_belongs_and_stretches_its_extents() {
        const NEVER: i32 = i32::MAX;
        let deleted = |timestamp, deletion_time| Some(Tombstone { timestamp, deletion_time });
        let marked = |mark| Row { liveness: Some(mark), ..Row::default() };
        let of_cell = |cell| Row { cells: vec![(ColumnId(2), cell)], ..Row::default() };
        let of_multi = |deletion, cells: Vec<Cell>| {
            let path = |at: usize| CellPath::from_ordered([at as u8]);
            let cells = cells.into_iter().enumerate().map(|(at, cell)| (path(at), cell)).collect();
            Row { multi: vec![(ColumnId(3), MultiCell { deletion, cells })], ..Row::default() }
        };
        let expiring = |timestamp| Cell::expiring(timestamp, *b"v", 60, 1000);
        let several = vec![Cell::live(10, *b"v"), Cell::deleted(11, 92), expiring(12)];
        let whole = Row {
            liveness: Some(Liveness::expiring(5, 30, 500)),
            deletion: deleted(4, 40),
            cells: of_cell(Cell::deleted(20, 93)).cells,
            multi: of_multi(deleted(3, 30), several.clone()).multi,
        };
        let gone = Row { deletion: deleted(7, 70), ..Row::default() };
        let counter = of_cell(Cell::counter(8, [0_u8; 32]));
        let none = None;
        for (row, counts, timestamps, deletion_times, ttls) in [
            (marked(Liveness::at(5)), [1, 0, 0, 0], (5, 5), (NEVER, NEVER), Some((0, 0))),
            (marked(Liveness::expiring(5, 60, 9)), [1, 0, 0, 0], (5, 5), (9, 9), Some((60, 60))),
            (gone, [1, 0, 0, 1], (7, 7), (70, 70), none),
            (of_cell(Cell::live(8, *b"v")), [1, 1, 1, 0], (8, 8), (NEVER, NEVER), Some((0, 0))),
            (counter, [1, 1, 1, 0], (8, 8), (NEVER, NEVER), Some((0, 0))),
            (of_cell(expiring(8)), [1, 1, 1, 0], (8, 8), (1000, 1000), Some((60, 60))),
            (of_cell(Cell::deleted(8, 90)), [1, 1, 1, 1], (8, 8), (90, 90), Some((0, 0))),
            (of_multi(deleted(9, 91), Vec::new()), [1, 0, 0, 1], (9, 9), (91, 91), none),
            (of_multi(None, several), [1, 1, 3, 1], (10, 12), (92, NEVER), Some((0, 60))),
            (whole, [1, 2, 4, 4], (3, 20), (30, NEVER), Some((0, 60))),
        ] {
            let mut collector = Collector::new();
            add_row(&mut collector, None, &row);
            assert_eq!(counted(&collector), counts, "{row:?}");
            assert_eq!(collector.timestamps.seen, Some(timestamps), "{row:?}");
            assert_eq!(collector.deletion_times.seen, Some(deletion_times), "{row:?}");
            assert_eq!(collector.ttls.seen, ttls, "{row:?}");
            // Cells are those of a partition.
            collector.partition(b"next", None);
            assert_eq!(counted(&collector), [counts[0], counts[1], 0, counts[3]], "{row:?}");
        }
    }

    /// Each range tombstone counts once, where it begins; both its ends are bins of drop times.
    #[test]
    fn deletions_of_partitions_and_ranges_count_once_and_leave_no_bounds() {
        let (first, second) = (
            Some(Tombstone { timestamp: 4, deletion_time: 40 }),
            Some(Tombstone { timestamp: 6, deletion_time: 60 }),
        );
        let live = Row { liveness: Some(Liveness::at(5)), ..Row::default() };
        type Change = fn(&mut Collector, Option<Tombstone>, Option<Tombstone>);
        let of_marker: Change = |collector, closing, opening| collector.marker(closing, opening);
        let of_partition: Change = |collector, deletion, _| collector.partition(b"k", deletion);
        for (change, both, tombstones, timestamps, times) in [
            (of_marker, (None, first), 1, Some((4, 4)), Some((40, 40))),
            (of_marker, (first, None), 0, None, Some((40, 40))),
            (of_marker, (first, second), 1, Some((6, 6)), Some((40, 60))),
            (of_partition, (second, None), 1, Some((6, 6)), Some((60, 60))),
            (of_partition, (None, None), 0, None, None),
        ] {
            let mut collector = Collector::new();
            change(&mut collector, both.0, both.1);
            assert_eq!(counted(&collector), [0, 0, 0, tombstones], "{both:?}");
            assert_eq!(collector.timestamps.seen, timestamps, "{both:?}");
            assert_eq!(collector.deletion_times.seen, times, "{both:?}");
            assert_eq!(collector.ttls.seen, None, "{both:?}");
            for key in [[3_u8], [1], [2]] {
                add_row(&mut collector, Some(&key), &live);
            }
            add_row(&mut collector, None, &live);
            let stated = collector.statistics(None, |key| vec![key.as_ordered().to_vec()]);
            let bound = |key: u8| match times {
                None => vec![vec![key]],
                Some(_) => Vec::new(),
            };
            assert_eq!((stated.min_clustering, stated.max_clustering), (bound(1), bound(3)));
            assert_eq!(stated.rows_count, 4, "{both:?}");
        }
    }
}
