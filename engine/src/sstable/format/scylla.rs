//! `Scylla.db`: what ScyllaDB notes of an SSTable beyond the common format.
//!
//! ```text
//! file     := u32 n, n x (u32 tag, u32 size, body), [u32 CRC of all before, after tag 12]
//!  1 sharding   u32 n, n x (left, right); a bound is u8 is exclusive, bytes16 token
//!  2 features   u64 bits                   3 attributes   u32 n, n x (bytes32 key, bytes32 value)
//!  4 run        u128                       5 large data   u32 n, n x (u32 kind, u64, u64, u32)
//!  6 origin     bytes32                    7 build id     bytes32
//!  8 version    bytes32                    9 timestamps   u32 n, n x (u32 kind, i64)
//! 10 identity   u128                      11 schema       two u128, two bytes32, columns
//! 12 digests    u32 n, n x (u32 component, u32 CRC of the file)
//! 13 records    u32 n, n x (u32 kind, bytes32 partition key, bytes32 clustering key,
//!               bytes32 column, u64 bytes, u64 elements, u64 range tombstones, u64 dead rows)
//! ```
//! Parts with other tags are kept as they are, and so are records in another form: reading rows
//! needs none of them. Files that are written here have features, large data, origin and records.

use std::collections::BTreeSet;
use std::path::Path;

use super::coding::{Input, Parsed, put_bytes32};
use super::component::Component;
use crate::checksum::crc32;
use crate::error::{Error, Result};
use crate::schema::LargeDataThresholds;

const TAG_DIGESTS: u32 = 12;
const TAG_RECORDS: u32 = 13;
/// Bytes of a record without its names.
const RECORD_BYTES_MIN: u64 = 48;

/// One end of a range of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBound {
    pub is_exclusive: bool,
    /// As the partitioner serialises it; empty for none.
    pub token: Vec<u8>,
}

/// What may be large. The numbers are those of `Scylla.db`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LargeKind {
    PartitionBytes = 1,
    RowBytes = 2,
    CellBytes = 3,
    PartitionRows = 4,
    CollectionElements = 5,
}

impl LargeKind {
    pub const ALL: [LargeKind; 5] = [
        LargeKind::PartitionBytes,
        LargeKind::RowBytes,
        LargeKind::CellBytes,
        LargeKind::PartitionRows,
        LargeKind::CollectionElements,
    ];

    /// The kind with this number, if it is known.
    pub fn of_number(number: u32) -> Option<Self> {
        LargeKind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// In the words of ScyllaDB's tool.
    pub fn name(self) -> &'static str {
        match self {
            LargeKind::PartitionBytes => "partition",
            LargeKind::RowBytes => "row",
            LargeKind::CellBytes => "cell",
            LargeKind::PartitionRows => "rows_in_partition",
            LargeKind::CollectionElements => "elements_in_collection",
        }
    }

    pub(crate) fn threshold(self, thresholds: &LargeDataThresholds) -> u64 {
        match self {
            LargeKind::PartitionBytes => thresholds.partition_bytes,
            LargeKind::RowBytes => thresholds.row_bytes,
            LargeKind::CellBytes => thresholds.cell_bytes,
            LargeKind::PartitionRows => thresholds.partition_rows,
            LargeKind::CollectionElements => thresholds.collection_elements,
        }
    }
}

/// Sizes of one kind of large thing: 1 partitions, 2 rows, 3 cells (bytes), 4 rows of a partition,
/// 5 elements of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeData {
    pub kind: u32,
    pub max: u64,
    pub threshold: u64,
    /// How many are above the threshold.
    pub above_count: u32,
}

/// One large thing. `kind` is that of [`LargeData`], and what is large of it `bytes` in kinds 1 to
/// 3, `elements` in 4 and 5.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LargeRecord {
    pub kind: u32,
    pub partition_key: Vec<u8>,
    /// Stored values with a u16 length each; empty for partitions and static rows.
    pub clustering_key: Vec<u8>,
    /// Empty for partitions and rows.
    pub column: String,
    /// Of the partition, row, cell or collection.
    pub bytes: u64,
    /// Rows of the partition, or cells of the collection.
    pub elements: u64,
    /// Of the partition.
    pub range_tombstones: u64,
    pub dead_rows: u64,
}

/// A column of the table that the SSTable belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScyllaColumn {
    /// 1 partition key, 2 clustering key, 3 static, 4 regular.
    pub kind: u8,
    pub name: String,
    /// Class of the type, as in the serialization header.
    pub ty: String,
}

/// The table that the SSTable belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScyllaSchema {
    pub table: u128,
    pub version: u128,
    pub keyspace: String,
    pub name: String,
    pub columns: Vec<ScyllaColumn>,
}

/// Content of `Scylla.db`. What the file does not have is `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScyllaMetadata {
    /// Ascending ranges that hold all tokens of the file.
    pub sharding: Option<Vec<(TokenBound, TokenBound)>>,
    /// Bit 6 tells that the width of a last block never counts the end mark.
    pub features: Option<u64>,
    pub attributes: Option<Vec<(String, String)>>,
    /// Files of one run hold different partitions.
    pub run: Option<u128>,
    pub large_data: Option<Vec<LargeData>>,
    /// Why the file was written: "memtable", "compaction" and so on.
    pub origin: Option<String>,
    pub build_id: Option<String>,
    pub version: Option<String>,
    /// Kind and microseconds.
    pub timestamps: Option<Vec<(u32, i64)>>,
    /// Stays when the file moves to another node.
    pub identity: Option<u128>,
    pub schema: Option<ScyllaSchema>,
    /// Number of a component and CRC of its file.
    pub digests: Option<Vec<(u32, u32)>>,
    /// The largest of what is above the thresholds.
    pub records: Option<Vec<LargeRecord>>,
    /// Tag and body of all other parts, in file order.
    pub other: Vec<(u32, Vec<u8>)>,
}

impl ScyllaMetadata {
    /// Reads a whole `Scylla.db`.
    pub(crate) fn decode(bytes: &[u8]) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let mut metadata = ScyllaMetadata::default();
        let count = input.u32()?;
        let mut tags = BTreeSet::new();
        // A part takes 8 bytes at least, so no count makes this long.
        for _ in 0..count {
            let before = input.clone();
            let tag = input.u32()?;
            if !tags.insert(tag) {
                return Err(before.bad("each part once", format!("part {tag} twice")));
            }
            let size = input.u32()?;
            let at = input.at();
            let mut body = Input::new(input.take(u64::from(size))?);
            let wanted = |needed| format!("at least {needed} bytes of part {tag}");
            let decoded = metadata.decode_part(tag, &mut body);
            decoded.map_err(|fault| fault.within((at, u64::from(size)), wanted))?;
            if body.remaining() != 0 {
                let found = format!("{} more bytes", body.remaining());
                return Err(before.bad(format!("{size} bytes of part {tag} used up"), found));
            }
        }
        if tags.contains(&TAG_DIGESTS) {
            let covered = &bytes[..input.at() as usize];
            let before = input.clone();
            let wanted = input.u32()?;
            let found = crc32(covered);
            if wanted != found {
                return Err(before.bad(format!("CRC {wanted:08x}"), format!("CRC {found:08x}")));
            }
        }
        match input.remaining() {
            0 => Ok(metadata),
            left => Err(input.bad("the end of the parts", format!("{left} more bytes"))),
        }
    }

    /// The bytes of a `Scylla.db` with features, large data, origin and records, where they are
    /// given.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
        parts.extend(self.features.map(|bits| (2, bits.to_be_bytes().to_vec())));
        if let Some(large) = &self.large_data {
            let mut body = (large.len() as u32).to_be_bytes().to_vec();
            for entry in large {
                body.extend_from_slice(&entry.kind.to_be_bytes());
                body.extend_from_slice(&entry.max.to_be_bytes());
                body.extend_from_slice(&entry.threshold.to_be_bytes());
                body.extend_from_slice(&entry.above_count.to_be_bytes());
            }
            parts.push((5, body));
        }
        if let Some(origin) = &self.origin {
            let mut body = Vec::new();
            put_bytes32(&mut body, origin.as_bytes());
            parts.push((6, body));
        }
        if let Some(records) = &self.records {
            let mut body = (records.len() as u32).to_be_bytes().to_vec();
            for record in records {
                body.extend_from_slice(&record.kind.to_be_bytes());
                put_bytes32(&mut body, &record.partition_key);
                put_bytes32(&mut body, &record.clustering_key);
                put_bytes32(&mut body, record.column.as_bytes());
                let counts = [record.elements, record.range_tombstones, record.dead_rows];
                for number in [record.bytes].into_iter().chain(counts) {
                    body.extend_from_slice(&number.to_be_bytes());
                }
            }
            parts.push((TAG_RECORDS, body));
        }
        let mut out = (parts.len() as u32).to_be_bytes().to_vec();
        for (tag, body) in parts {
            out.extend_from_slice(&tag.to_be_bytes());
            put_bytes32(&mut out, &body);
        }
        out
    }

    /// Checks the content of a small component.
    ///
    /// Errors: `Corrupt` when it is another one than was written.
    pub(crate) fn check(&self, component: Component, path: &Path, content: &[u8]) -> Result<()> {
        let number = match component {
            Component::CompressionInfo => 1,
            Component::Filter => 7,
            Component::Statistics => 8,
            _ => return Ok(()),
        };
        let digests = self.digests.iter().flatten();
        let found = crc32(content);
        for (_, wanted) in digests.filter(|(other, _)| *other == number) {
            if *wanted != found {
                let (wanted, found) = (format!("CRC {wanted:08x}"), format!("CRC {found:08x}"));
                return Err(Error::corrupt(path, 0, wanted, found));
            }
        }
        Ok(())
    }

    fn decode_part(&mut self, tag: u32, body: &mut Input<'_>) -> Parsed<()> {
        match tag {
            1 => self.sharding = Some(list(body, 6, |b| Ok((bound(b)?, bound(b)?)))?),
            2 => self.features = Some(u64::from_be_bytes(body.array()?)),
            3 => self.attributes = Some(list(body, 8, |b| Ok((string(b)?, string(b)?)))?),
            4 => self.run = Some(uuid(body)?),
            5 => {
                let entry = |body: &mut Input<'_>| {
                    Ok(LargeData {
                        kind: body.u32()?,
                        max: u64::from_be_bytes(body.array()?),
                        threshold: u64::from_be_bytes(body.array()?),
                        above_count: body.u32()?,
                    })
                };
                self.large_data = Some(list(body, 24, entry)?);
            }
            6 => self.origin = Some(string(body)?),
            7 => self.build_id = Some(string(body)?),
            8 => self.version = Some(string(body)?),
            9 => self.timestamps = Some(list(body, 12, |b| Ok((b.u32()?, b.i64()?)))?),
            10 => self.identity = Some(uuid(body)?),
            11 => {
                let (table, version) = (uuid(body)?, uuid(body)?);
                let (keyspace, name) = (string(body)?, string(body)?);
                let column = |body: &mut Input<'_>| {
                    Ok(ScyllaColumn { kind: body.u8()?, name: string(body)?, ty: string(body)? })
                };
                let columns = list(body, 9, column)?;
                self.schema = Some(ScyllaSchema { table, version, keyspace, name, columns });
            }
            TAG_DIGESTS => self.digests = Some(list(body, 8, |b| Ok((b.u32()?, b.u32()?)))?),
            TAG_RECORDS => {
                let whole = body.take(body.remaining())?;
                let mut records = Input::new(whole);
                match list(&mut records, RECORD_BYTES_MIN, record) {
                    Ok(list) if records.remaining() == 0 => self.records = Some(list),
                    _ => self.other.push((tag, whole.to_vec())),
                }
            }
            _ => self.other.push((tag, body.take(body.remaining())?.to_vec())),
        }
        Ok(())
    }
}

fn list<'a, T>(
    body: &mut Input<'a>,
    item_bytes: u64,
    read: impl FnMut(&mut Input<'a>) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    let count = u64::from(body.u32()?);
    body.items(count, item_bytes, read)
}

fn record(body: &mut Input<'_>) -> Parsed<LargeRecord> {
    Ok(LargeRecord {
        kind: body.u32()?,
        partition_key: body.bytes32()?.to_vec(),
        clustering_key: body.bytes32()?.to_vec(),
        column: string(body)?,
        bytes: u64::from_be_bytes(body.array()?),
        elements: u64::from_be_bytes(body.array()?),
        range_tombstones: u64::from_be_bytes(body.array()?),
        dead_rows: u64::from_be_bytes(body.array()?),
    })
}

fn bound(body: &mut Input<'_>) -> Parsed<TokenBound> {
    Ok(TokenBound { is_exclusive: body.u8()? != 0, token: body.bytes16()?.to_vec() })
}

fn uuid(body: &mut Input<'_>) -> Parsed<u128> {
    Ok(u128::from_be_bytes(body.array()?))
}

fn string(body: &mut Input<'_>) -> Parsed<String> {
    let before = body.clone();
    let bytes = body.bytes32()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| before.bad("text", "bytes that are no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::super::coding::Fault;
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn text(texts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        texts.iter().for_each(|text| put_bytes32(&mut out, text.as_bytes()));
        out
    }

    fn encode(parts: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = words(&[parts.len() as u32]);
        for (tag, body) in parts {
            out.extend(words(&[*tag, body.len() as u32]));
            out.extend(body);
        }
        if parts.iter().any(|(tag, _)| *tag == TAG_DIGESTS) {
            let crc = crc32(&out);
            out.extend(words(&[crc]));
        }
        out
    }

    fn sample() -> Vec<(u32, Vec<u8>)> {
        let mut schema = vec![7; 16];
        schema.extend([8; 16]);
        schema.extend(text(&["ks", "t"]));
        schema.extend(words(&[1]));
        schema.push(4);
        schema.extend(text(&["v", "org.apache.cassandra.db.marshal.UTF8Type"]));
        vec![
            (2, words(&[0, 0x7f])),
            (1, [words(&[1]), b"\x01\0\x02ab\0\0\0".to_vec()].concat()),
            (3, [words(&[1]), text(&["key", "value"])].concat()),
            (4, vec![1; 16]),
            (5, words(&[1, 2, 0, 900, 1, 0, 3])),
            (6, text(&["memtable"])),
            (7, text(&["build"])),
            (8, text(&["2026.1"])),
            (9, words(&[1, 1, 0, 77])),
            (10, vec![2; 16]),
            (11, schema),
            (13, vec![9; 5]),
            (4000, Vec::new()),
            (12, words(&[1, 7, crc32(b"filter")])),
        ]
    }

    #[test]
    fn every_part_is_read_and_unknown_ones_are_kept() {
        let metadata = ScyllaMetadata::decode(&encode(&sample())).unwrap();
        let bound = |is_exclusive, token: &[u8]| TokenBound { is_exclusive, token: token.into() };
        let column = ScyllaColumn {
            kind: 4,
            name: "v".into(),
            ty: "org.apache.cassandra.db.marshal.UTF8Type".into(),
        };
        let wanted = ScyllaMetadata {
            sharding: Some(vec![(bound(true, b"ab"), bound(false, b""))]),
            features: Some(0x7f),
            attributes: Some(vec![("key".into(), "value".into())]),
            run: Some(u128::from_be_bytes([1; 16])),
            large_data: Some(vec![LargeData {
                kind: 2,
                max: 900,
                threshold: 1 << 32,
                above_count: 3,
            }]),
            origin: Some("memtable".into()),
            build_id: Some("build".into()),
            version: Some("2026.1".into()),
            timestamps: Some(vec![(1, 77)]),
            identity: Some(u128::from_be_bytes([2; 16])),
            schema: Some(ScyllaSchema {
                table: u128::from_be_bytes([7; 16]),
                version: u128::from_be_bytes([8; 16]),
                keyspace: "ks".into(),
                name: "t".into(),
                columns: vec![column],
            }),
            digests: Some(vec![(7, crc32(b"filter"))]),
            records: None,
            other: vec![(13, vec![9; 5]), (4000, vec![])],
        };
        assert_eq!(metadata, wanted);
        assert_eq!(ScyllaMetadata::decode(&encode(&[])), Ok(ScyllaMetadata::default()));
        let check = |component, content: &[u8]| metadata.check(component, Path::new("f"), content);
        assert!(check(Component::Filter, b"filter").is_ok());
        assert!(check(Component::Filter, b"other").is_err());
        assert!(check(Component::Statistics, b"other").is_ok());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let record = LargeRecord {
            kind: 5,
            partition_key: vec![1, 2],
            clustering_key: vec![0, 1, 7],
            column: "tags".into(),
            bytes: 1 << 40,
            elements: 3,
            range_tombstones: 1,
            dead_rows: u64::MAX,
        };
        let metadata = ScyllaMetadata {
            features: Some(0x3f),
            large_data: Some(vec![LargeData { kind: 4, max: 7, threshold: 5, above_count: 2 }]),
            origin: Some("memtable".into()),
            records: Some(vec![record, LargeRecord::default()]),
            ..ScyllaMetadata::default()
        };
        let bytes = metadata.encode();
        assert_eq!(ScyllaMetadata::decode(&bytes), Ok(metadata));
        for at in 0..bytes.len() {
            assert!(ScyllaMetadata::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn damage_is_an_error_or_other_content_but_never_panics() {
        let bytes = encode(&sample());
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                assert!(ScyllaMetadata::decode(&damaged).is_err(), "byte {at}");
            }
            assert!(ScyllaMetadata::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        // Without a checksum.
        let parts: Vec<_> = sample().into_iter().filter(|(tag, _)| *tag != 12).collect();
        let bytes = encode(&parts);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = ScyllaMetadata::decode(&damaged);
            assert!(ScyllaMetadata::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        for parts in [
            vec![(2, words(&[0])), (6, text(&["x"]))],
            vec![(2, words(&[0, 0, 0]))],
            vec![(2, words(&[0, 1])), (2, words(&[0, 1]))],
            vec![(1, words(&[u32::MAX]))],
            vec![(6, words(&[u32::MAX]))],
            vec![(6, b"\0\0\0\x01\xff".to_vec())],
        ] {
            let fault = ScyllaMetadata::decode(&encode(&parts)).unwrap_err();
            assert!(matches!(fault, Fault::Bad { .. }), "{fault:?}");
        }
        let mut long = encode(&[]);
        long.push(0);
        assert!(ScyllaMetadata::decode(&long).is_err());
        assert!(ScyllaMetadata::decode(&words(&[u32::MAX])).is_err());
    }
}
