//! All of `Statistics.db`, for people and for `verify`: also what reading rows does not need.

use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::component::Version;
use crate::sstable::format::layout::Header;
use crate::sstable::format::statistics::Parts;

/// Counts in buckets: values up to the offset, above the offset before.
pub(super) type Buckets = Vec<(i64, i64)>;

/// A place in the commitlog of the node that wrote the file.
pub type LogPosition = (i64, i32);

/// The estimate of the number of keys, HyperLogLog++.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sketch {
    /// Encoded hashes.
    Sparse(Vec<u32>),
    Registers(Vec<u8>),
    /// A form that is not known: its bytes, and what they look like. Nobody needs it to read rows.
    Other {
        bytes: Vec<u8>,
        what: String,
    },
    /// Of the form that Cassandra writes, or so it says, and not to be read as such: a fault in
    /// what begins at `base` of the file.
    Damaged {
        base: u64,
        fault: Fault,
    },
}

/// What `Statistics.db` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    pub partitioner: String,
    pub bloom_fp_chance: f64,
    pub(super) sketch: Sketch,
    /// Buckets of partition sizes (bytes) and of cells a partition.
    pub partition_sizes: Vec<(i64, i64)>,
    pub cells_per_partition: Vec<(i64, i64)>,
    pub log_upper: LogPosition,
    pub log_lower: LogPosition,
    pub log_intervals: Vec<(LogPosition, LogPosition)>,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    pub min_deletion_time: i32,
    pub max_deletion_time: i32,
    pub min_ttl: i32,
    pub max_ttl: i32,
    /// Stored bytes for each byte of data; -1 where it is not compressed.
    pub compression_ratio: f64,
    pub drop_times_max: i32,
    /// Second and count.
    pub drop_times: Vec<(f64, i64)>,
    pub level: i32,
    /// Milliseconds; 0 for never.
    pub repaired_at: i64,
    pub min_clustering: Vec<Vec<u8>>,
    pub max_clustering: Vec<Vec<u8>>,
    pub has_legacy_counters: bool,
    pub columns_count: i64,
    pub rows_count: i64,
    pub pending_repair: Option<[u8; 16]>,
    pub is_transient: bool,
    pub host: Option<[u8; 16]>,
    pub(crate) header: Header,
    /// Where the statistics stand in the file.
    pub(super) statistics_at: u64,
}

/// What later versions have at the end of the statistics.
#[derive(Default)]
struct Added {
    pending_repair: Option<[u8; 16]>,
    is_transient: bool,
    host: Option<[u8; 16]>,
}

impl Added {
    fn decode(input: &mut Input<'_>, version: Version) -> Parsed<Self> {
        let mut added = Added::default();
        if version >= Version::Nb {
            added.pending_repair = optional_uuid(input)?;
            added.is_transient = flag(input)?;
        }
        if version >= Version::Me {
            added.host = optional_uuid(input)?;
        }
        if input.remaining() != 0 {
            let found = format!("{} more bytes", input.remaining());
            return Err(input.bad("the end of the statistics", found));
        }
        Ok(added)
    }
}

impl Metadata {
    pub(super) fn decode(bytes: &[u8], version: Version) -> Parsed<Self> {
        let parts = Parts::locate(bytes, version)?;
        let mut validation = parts.body(0, "validation")?;
        let before = validation.clone();
        let partitioner = String::from_utf8(validation.bytes16()?.to_vec())
            .map_err(|_| before.bad("the name of a partitioner", "bytes that are no UTF-8"))?;
        let bloom_fp_chance = validation.f64()?;
        let sketch = Sketch::of_part(parts.body(1, "compaction"));
        let header = Header::decode(&mut parts.body(3, "header")?)?;
        let mut input = parts.body(2, "statistics")?;
        let input = &mut input;
        let statistics_at = input.at();
        let partition_sizes = buckets(input)?;
        let cells_per_partition = buckets(input)?;
        let log_upper = log_position(input)?;
        let (min_timestamp, max_timestamp) = (input.i64()?, input.i64()?);
        let (min_deletion_time, max_deletion_time) = (input.i32()?, input.i32()?);
        let (min_ttl, max_ttl) = (input.i32()?, input.i32()?);
        let compression_ratio = input.f64()?;
        let drop_times_max = input.i32()?;
        let count = input.count32()?;
        let drop_times = input.items(count, 16, |input| Ok((input.f64()?, input.i64()?)))?;
        let (level, repaired_at) = (input.i32()?, input.i64()?);
        let min_clustering = bound(input)?;
        let max_clustering = bound(input)?;
        let has_legacy_counters = flag(input)?;
        let (columns_count, rows_count) = (input.i64()?, input.i64()?);
        let log_lower = log_position(input)?;
        let count = input.count32()?;
        let log_intervals =
            input.items(count, 24, |input| Ok((log_position(input)?, log_position(input)?)))?;
        let Added { pending_repair, is_transient, host } = Added::decode(input, version)?;
        Ok(Metadata {
            partitioner,
            bloom_fp_chance,
            sketch,
            partition_sizes,
            cells_per_partition,
            log_upper,
            log_lower,
            log_intervals,
            min_timestamp,
            max_timestamp,
            min_deletion_time,
            max_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio,
            drop_times_max,
            drop_times,
            level,
            repaired_at,
            min_clustering,
            max_clustering,
            has_legacy_counters,
            columns_count,
            rows_count,
            pending_repair,
            is_transient,
            host,
            header,
            statistics_at,
        })
    }

    /// About how many different keys there are; `None` where the sketch cannot be read.
    pub fn keys_estimate(&self) -> Option<u64> {
        match &self.sketch {
            Sketch::Sparse(hashes) => Some(hashes.len() as u64),
            Sketch::Registers(registers) => {
                let count = registers.len() as f64;
                let sum: f64 = registers.iter().map(|rank| 0.5f64.powi(i32::from(*rank))).sum();
                let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
                let zeros = registers.iter().filter(|rank| **rank == 0).count();
                let estimate = if raw < 2.5 * count && zeros > 0 {
                    count * (count / zeros as f64).ln()
                } else {
                    raw
                };
                Some(estimate.round() as u64)
            }
            Sketch::Other { .. } | Sketch::Damaged { .. } => None,
        }
    }

    /// Whether the estimate is of the form that only ScyllaDB writes.
    pub(super) fn has_scylla_sketch(&self) -> bool {
        let is_scylla = |bytes: &[u8]| precisions(bytes) == Some(SCYLLA_PRECISIONS);
        matches!(&self.sketch, Sketch::Other { bytes, .. } if is_scylla(bytes))
    }

    /// How many partitions were counted.
    pub fn partitions(&self) -> u64 {
        let counts = self.partition_sizes.iter();
        counts.fold(0u64, |sum, (_, count)| sum.saturating_add((*count).max(0) as u64))
    }
}

/// Precisions of Cassandra's estimate and of ScyllaDB's: bits that choose a register, and those
/// that a sparse form keeps.
const CASSANDRA_PRECISIONS: (u32, u32) = (13, 25);
const SCYLLA_PRECISIONS: (u32, u32) = (4, 0);
/// Version of the library's form.
const SKETCH_VERSION: [u8; 4] = [0xff, 0xff, 0xff, 0xfe];

/// The two precisions that a sketch of the known version names.
fn precisions(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut input = Input::new(bytes);
    let head: [u8; 4] = input.array().ok()?;
    let both = (leb128(&mut input).ok()?, leb128(&mut input).ok()?);
    (head == SKETCH_VERSION).then_some(both)
}

impl Sketch {
    /// From the compaction part, where that was found and its checksum, if it has one, is right.
    fn of_part(part: Parsed<Input<'_>>) -> Sketch {
        let mut part = match part {
            Ok(part) => part,
            Err(fault) => return Sketch::Damaged { base: 0, fault },
        };
        // Old writers put a list of the files before it, by number, that this one was made of.
        let mut old = part.clone();
        let bytes = match part.clone().bytes32() {
            Ok(bytes) if bytes.len() as u64 + 4 == part.remaining() => Ok(bytes),
            _ => (|| {
                let count = old.count32()?;
                old.take(count.saturating_mul(4))?;
                old.bytes32()
            })(),
        };
        let Ok(bytes) = bytes else {
            let left = part.remaining();
            let bytes = part.take(left).unwrap_or_default().to_vec();
            return Sketch::Other { bytes, what: "one that ends early".to_owned() };
        };
        let other = |what: String| Sketch::Other { bytes: bytes.to_vec(), what };
        match precisions(bytes) {
            None => other("one of another version".to_owned()),
            Some(CASSANDRA_PRECISIONS) => {
                let base = part.at() + part.remaining() - bytes.len() as u64;
                Sketch::decode(bytes).unwrap_or_else(|fault| Sketch::Damaged { base, fault })
            }
            Some((registers, sparse)) => {
                let by = match (registers, sparse) {
                    SCYLLA_PRECISIONS => ", as ScyllaDB's is",
                    _ => "",
                };
                other(format!("one of precisions {registers} and {sparse}{by}"))
            }
        }
    }

    /// One of Cassandra's precisions.
    fn decode(bytes: &[u8]) -> Parsed<Sketch> {
        let mut input = Input::new(bytes);
        let before = input.clone();
        input.take(SKETCH_VERSION.len() as u64)?;
        let precision = leb128(&mut input)?;
        let _sparse_precision = leb128(&mut input)?;
        let sketch = match leb128(&mut input)? {
            0 => {
                let size = u64::from(leb128(&mut input)?);
                let mut words = Input::new(input.take(size)?);
                let mut registers = Vec::with_capacity(1 << 13);
                while words.remaining() >= 4 {
                    let word = words.u32()?;
                    registers.extend((0..6).map(|i| (word >> (5 * i) & 0x1f) as u8));
                }
                registers.truncate(1 << precision);
                Sketch::Registers(registers)
            }
            1 => {
                let count = u64::from(leb128(&mut input)?);
                let mut last = 0u32;
                let hashes = input.items(count, 1, |input| {
                    last = last.wrapping_add(leb128(input)?);
                    Ok(last)
                })?;
                Sketch::Sparse(hashes)
            }
            other => return Err(before.bad("a sketch of form 0 or 1", other)),
        };
        match input.remaining() {
            0 => Ok(sketch),
            left => Err(input.bad("the end of the sketch", format!("{left} more bytes"))),
        }
    }
}

fn leb128(input: &mut Input<'_>) -> Parsed<u32> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let byte = input.u8()?;
        value |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(input.bad("a number of at most five bytes", "more"))
}

fn buckets(input: &mut Input<'_>) -> Parsed<Buckets> {
    let count = input.count32()?;
    input.items(count, 16, |input| Ok((input.i64()?, input.i64()?)))
}

fn log_position(input: &mut Input<'_>) -> Parsed<LogPosition> {
    Ok((input.i64()?, input.i32()?))
}

fn bound(input: &mut Input<'_>) -> Parsed<Vec<Vec<u8>>> {
    let count = input.count32()?;
    input.items(count, 2, |input| Ok(input.bytes16()?.to_vec()))
}

fn flag(input: &mut Input<'_>) -> Parsed<bool> {
    let at = input.at();
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Fault::bad(at, "0 or 1", other)),
    }
}

fn optional_uuid(input: &mut Input<'_>) -> Parsed<Option<[u8; 16]>> {
    if flag(input)? { Ok(Some(input.array()?)) } else { Ok(None) }
}
