//! The partition index and the summary as JSON.

use std::rc::Rc;

use super::data::key_texts;
use crate::error::{Error, Result};
use crate::inspect::files::Inspector;
use crate::inspect::json::Json;
use crate::inspect::order::Prefix;
use crate::inspect::rows::{StoredLayout, parse_prefix};
use crate::inspect::value;
use crate::mutation::Tombstone;
use crate::schema::PartitionKey;
use crate::sstable::data::file::Access;
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::component::Component;
use crate::sstable::format::layout::deletion;

/// The width of a block counts from here.
const WIDTH_BASE: i64 = 65_536;

/// Bytes looked at first for one entry without its promoted index.
const ENTRY_BYTES_FIRST: u64 = 64;

/// One partition in the index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredEntry {
    pub(crate) key: PartitionKey,
    /// Where the partition starts in the data.
    pub(crate) data_at: u64,
    /// Place and size of the promoted index in the index file.
    pub(crate) promoted: Option<(u64, u64)>,
}

/// One block of a promoted index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredBlock {
    /// Where it stands in the index file.
    pub(crate) at: u64,
    pub(crate) first: Prefix,
    pub(crate) last: Prefix,
    /// From the start of the partition.
    pub(crate) offset: u64,
    pub(crate) width: i64,
    /// In force after the block.
    pub(crate) open: Option<Tombstone>,
}

/// The promoted index of one partition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredBlocks {
    pub(crate) at: u64,
    pub(crate) header_bytes: u64,
    pub(crate) deletion: Option<Tombstone>,
    pub(crate) blocks: Vec<StoredBlock>,
}

/// Steps through an index file.
pub(crate) struct IndexReader {
    window: Window,
    at: u64,
}

impl IndexReader {
    pub(crate) async fn open(sstable: &Inspector) -> Result<Self> {
        let content = Content::Plain(sstable.stored(Component::Index).await?);
        Ok(IndexReader { window: Window::new(content, Access::Scan), at: 0 })
    }

    /// Where the next entry stands.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn content(&self) -> &Content {
        self.window.content()
    }

    /// The next entry; `None` at the end.
    ///
    /// Errors: `Io`, `Corrupt`; nothing can be read after that.
    pub(crate) async fn next(&mut self) -> Result<Option<StoredEntry>> {
        if self.at >= self.content().size() {
            return Ok(None);
        }
        let (at, index_bytes) = (self.at, self.content().size());
        let mut needed = ENTRY_BYTES_FIRST.min(index_bytes - at);
        loop {
            self.window.advance(at, needed, u64::MAX).await?;
            match parse_entry(&mut Input::new(self.window.bytes_from(at)), (at, index_bytes)) {
                Ok((entry, next)) => {
                    self.at = next;
                    return Ok(Some(entry));
                }
                Err(Fault::Short { needed: more }) => needed = more,
                Err(fault) => return Err(self.window.content().fault(fault, at)),
            }
        }
    }

    /// The promoted index of an entry, whole.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn blocks(
        &mut self,
        entry: &StoredEntry,
        layout: &StoredLayout,
    ) -> Result<Option<StoredBlocks>> {
        let Some((at, size)) = entry.promoted else { return Ok(None) };
        self.window.advance(at, size, u64::MAX).await?;
        let bytes = &self.window.bytes_from(at)[..size as usize];
        parse_blocks(bytes, at, layout)
            .map(Some)
            .map_err(|fault| self.window.content().fault(fault, at))
    }
}

/// The entry at `at` of an index of so many bytes, and where the next one stands.
fn parse_entry(input: &mut Input<'_>, (at, index_bytes): (u64, u64)) -> Parsed<(StoredEntry, u64)> {
    let key = PartitionKey::from_bytes(input.bytes16()?);
    let data_at = input.vint()?;
    let before = input.clone();
    let size = input.vint()?;
    let promoted_at = at + input.at();
    match promoted_at.checked_add(size) {
        Some(next) if next <= index_bytes => {
            let promoted = (size > 0).then_some((promoted_at, size));
            Ok((StoredEntry { key, data_at, promoted }, next))
        }
        _ => Err(before.bad("a promoted index within the file", size)),
    }
}

fn parse_blocks(bytes: &[u8], at: u64, layout: &StoredLayout) -> Parsed<StoredBlocks> {
    let mut input = Input::new(bytes);
    let header_bytes = input.vint()?;
    let before = input.clone();
    let partition_deletion = deletion(&mut input)?;
    let time = before.clone().i32()?;
    if partition_deletion.is_none() && time != i32::MAX {
        return Err(before.bad("the deletion time of what is not deleted", time));
    }
    let before = input.clone();
    let count = input.vint()?;
    if count < 2 || count.saturating_mul(4) > input.remaining() {
        return Err(before.bad("at least two blocks, and room for them", count));
    }
    let blocks_at = input.at();
    let mut blocks = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let block_at = at + input.at();
        let first = parse_prefix(&mut input, layout)?;
        let last = parse_prefix(&mut input, layout)?;
        let offset = input.vint()?;
        let width = input.svint()?.wrapping_add(WIDTH_BASE);
        let before = input.clone();
        let open = match input.u8()? {
            0 => None,
            1 => deletion(&mut input)?,
            other => return Err(before.bad("0 or 1", other)),
        };
        blocks.push(StoredBlock { at: block_at, first, last, offset, width, open });
    }
    for block in &blocks {
        let before = input.clone();
        let (wanted, found) = (block.at - at - blocks_at, u64::from(input.u32()?));
        if wanted != found {
            return Err(before.bad(format!("offset {wanted} of a block"), found));
        }
    }
    if input.remaining() != 0 {
        let found = format!("{} more bytes", input.remaining());
        return Err(input.bad("the end of the promoted index", found));
    }
    Ok(StoredBlocks { at, header_bytes, deletion: partition_deletion, blocks })
}

/// The partition index as JSON, an entry at a time.
pub struct IndexDump {
    index: IndexReader,
    layout: Rc<StoredLayout>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Entries { is_first: bool },
    Done,
}

impl IndexDump {
    /// Errors: `Io`, `Corrupt`; `Invalid` for columns of unknown types.
    pub async fn new(sstable: &Inspector) -> Result<Self> {
        let layout = sstable.layout(&sstable.metadata().await?).await?;
        let index = IndexReader::open(sstable).await?;
        Ok(IndexDump { index, layout, state: State::Entries { is_first: true } })
    }

    /// Bytes of the index that were printed, and of all of it.
    pub fn progress(&self) -> (u64, u64) {
        (self.index.at(), self.index.content().size())
    }

    /// Appends the next entry to `out`; false at the end.
    ///
    /// Errors: `Io`, `Corrupt`; what was printed before is right.
    pub async fn next(&mut self, out: &mut String) -> Result<bool> {
        let State::Entries { is_first } = self.state else { return Ok(false) };
        let at = self.index.at();
        let Some(entry) = self.index.next().await? else {
            out.push_str(if is_first { "[]" } else { "\n]" });
            self.state = State::Done;
            return Ok(true);
        };
        let blocks = self.index.blocks(&entry, &self.layout).await?;
        let json = entry_json(&entry, at, blocks.as_ref(), &self.layout).map_err(|found| {
            self.index.content().corrupt(at, "keys of the header's types", found)
        })?;
        out.push_str(if is_first { "[\n  " } else { ",\n  " });
        json.write(2, out);
        self.state = State::Entries { is_first: false };
        Ok(true)
    }
}

fn entry_json(
    entry: &StoredEntry,
    at: u64,
    blocks: Option<&StoredBlocks>,
    layout: &StoredLayout,
) -> value::Rendered<Json> {
    let mut members = vec![
        ("key", key_json(layout, &entry.key)?),
        ("token", Json::number(entry.key.token().0)),
        ("index_position", Json::number(at)),
        ("data_position", Json::number(entry.data_at)),
    ];
    if let Some(index) = blocks {
        let blocks = index.blocks.iter().map(|block| {
            let mut members = vec![
                ("first", prefix_json(layout, &block.first)?),
                ("last", prefix_json(layout, &block.last)?),
                ("offset", Json::number(block.offset)),
                ("width", Json::number(block.width)),
            ];
            members.extend(block.open.map(|open| ("open", tombstone_json(open))));
            Ok(Json::Object(members))
        });
        let mut promoted = vec![("header_bytes", Json::number(index.header_bytes))];
        promoted.extend(index.deletion.map(|deletion| ("deletion", tombstone_json(deletion))));
        promoted.push(("blocks", Json::List(blocks.collect::<value::Rendered<_>>()?)));
        members.push(("promoted_index", Json::Object(promoted)));
    }
    Ok(Json::Object(members))
}

pub(super) fn key_json(layout: &StoredLayout, key: &PartitionKey) -> value::Rendered<Json> {
    let texts = key_texts(&layout.partition_key, key.as_bytes())?;
    Ok(Json::List(texts.into_iter().map(Json::Text).collect()))
}

fn tombstone_json(tombstone: Tombstone) -> Json {
    Json::Object(vec![
        ("marked_deleted", Json::number(tombstone.timestamp)),
        ("local_delete_time", Json::number(tombstone.deletion_time)),
    ])
}

fn prefix_json(layout: &StoredLayout, prefix: &Prefix) -> value::Rendered<Json> {
    let mut values = Vec::with_capacity(prefix.values.len());
    for (value, key) in prefix.values.iter().zip(&layout.clustering) {
        let mut out = String::new();
        if let Some(value) = value {
            value::json(&key.ty, value, &mut out)?;
        }
        values.push(Json::Raw(out));
    }
    let kind = match prefix.kind {
        0 => "exclusive_end",
        1 => "inclusive_start",
        2 => "exclusive_end_inclusive_start",
        5 => "inclusive_end_exclusive_start",
        6 => "inclusive_end",
        7 => "exclusive_start",
        _ => return Ok(Json::List(values)),
    };
    Ok(Json::Object(vec![("kind", Json::text(kind)), ("clustering", Json::List(values))]))
}

/// A prefix as people read it.
pub(crate) fn prefix_text(layout: &StoredLayout, prefix: &Prefix) -> String {
    prefix_json(layout, prefix).map_or_else(|_| format!("{prefix:?}"), |json| json.to_string())
}

/// `Summary.db` as stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredSummary {
    pub(crate) min_index_interval: i32,
    pub(crate) sampling_level: i32,
    pub(crate) size_at_full_sampling: i32,
    /// Key, position in the index file, and where the sample stands in the summary.
    pub(crate) samples: Vec<(Vec<u8>, u64, u64)>,
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
    /// Where the last two keys stand.
    pub(crate) ends_at: u64,
}

impl StoredSummary {
    pub(crate) fn decode(bytes: &[u8]) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let min_index_interval = input.i32()?;
        let count = input.count32()?;
        let before = input.clone();
        let size = input.i64()?;
        let size = u64::try_from(size).map_err(|_| before.bad("a size", size))?;
        let (sampling_level, size_at_full_sampling) = (input.i32()?, input.i32()?);
        let block_at = input.at();
        let block = input.take(size)?;
        let mut offsets = Input::new(block);
        let mut offsets =
            offsets.items(count, 4, |input| Ok(u64::from(u32::from_le_bytes(input.array()?))))?;
        offsets.push(size);
        let mut samples = Vec::with_capacity(count as usize);
        for (i, pair) in offsets.windows(2).enumerate() {
            let bad = || {
                let found = format!("{} and {}", pair[0], pair[1]);
                Fault::bad(block_at + 4 * i as u64, "ascending offsets of samples", found)
            };
            if i == 0 && pair[0] != 4 * count {
                return Err(bad());
            }
            let entry = block.get(pair[0] as usize..pair[1] as usize).ok_or_else(bad)?;
            let (key, position) = entry.split_last_chunk::<8>().ok_or_else(bad)?;
            let position = u64::from_le_bytes(*position);
            samples.push((key.to_vec(), position, block_at + pair[0]));
        }
        let ends_at = input.at();
        let (first, last) = (input.bytes32()?.to_vec(), input.bytes32()?.to_vec());
        if input.remaining() != 0 {
            let found = format!("{} more bytes", input.remaining());
            return Err(input.bad("the end of the summary", found));
        }
        Ok(StoredSummary {
            min_index_interval,
            sampling_level,
            size_at_full_sampling,
            samples,
            first,
            last,
            ends_at,
        })
    }
}

/// The summary as JSON.
///
/// Errors: `Io`, `Corrupt`; `Invalid` for columns of unknown types.
pub async fn dump_summary(sstable: &Inspector) -> Result<String> {
    let layout = sstable.layout(&sstable.metadata().await?).await?;
    let path = sstable.path(Component::Summary);
    let content = sstable.read(Component::Summary).await?;
    let summary = StoredSummary::decode(&content).map_err(|fault| fault.into_error(&path, 0))?;
    let wrong = |found| Error::corrupt(&path, 0, "keys of the header's types", found);
    let key = |bytes: &[u8]| key_json(&layout, &PartitionKey::from_bytes(bytes)).map_err(wrong);
    let samples = summary.samples.iter().map(|(bytes, position, _)| {
        Ok(Json::Object(vec![
            ("key", key(bytes)?),
            ("token", Json::number(PartitionKey::from_bytes(bytes.as_slice()).token().0)),
            ("index_position", Json::number(position)),
        ]))
    });
    let document = Json::Object(vec![
        ("min_index_interval", Json::number(summary.min_index_interval)),
        ("sampling_level", Json::number(summary.sampling_level)),
        ("size_at_full_sampling", Json::number(summary.size_at_full_sampling)),
        ("samples", Json::List(samples.collect::<Result<_>>()?)),
        ("first_key", key(&summary.first)?),
        ("last_key", key(&summary.last)?),
    ]);
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::inspect::types::{KeyType, StoredType};
    use crate::schema::Scalar;
    use crate::sstable::format::layout::Bases;
    use crate::sstable::format::prefix::{Bound, KIND_ROW};

    /// A partition key and a clustering key, each of one `int`.
    fn layout() -> StoredLayout {
        let int = || StoredType::Scalar(Scalar::Int);
        StoredLayout {
            bases: Bases { min_timestamp: 0, min_deletion_time: 0, min_ttl: 0 },
            partition_key: vec![int()],
            clustering: vec![KeyType { ty: int(), is_descending: false }],
            statics: Vec::new(),
            regulars: Vec::new(),
        }
    }

    fn prefix(kind: u8, value: i32) -> Prefix {
        Prefix { kind, values: vec![Some(value.to_be_bytes().to_vec())] }
    }

    fn parsed(json: &Json) -> Value {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn each_kind_of_bound_is_named_by_what_it_does_at_its_place() {
        for (bound, name) in [
            (Bound::ExclusiveEnd, "exclusive_end"),
            (Bound::InclusiveStart, "inclusive_start"),
            (Bound::ExclusiveEndInclusiveStart, "exclusive_end_inclusive_start"),
            (Bound::InclusiveEndExclusiveStart, "inclusive_end_exclusive_start"),
            (Bound::InclusiveEnd, "inclusive_end"),
            (Bound::ExclusiveStart, "exclusive_start"),
        ] {
            let json = prefix_json(&layout(), &prefix(bound as u8, -7)).unwrap();
            assert_eq!(parsed(&json), json!({ "kind": name, "clustering": [-7] }));
            let does = (bound.closes(), bound.opens());
            assert_eq!(does, (name.contains("end"), name.contains("start")));
            assert_eq!(Bound::from_kind(bound as u8), Some(bound));
        }
        let row = prefix_json(&layout(), &prefix(KIND_ROW, 7)).unwrap();
        assert_eq!(parsed(&row), json!([7]), "a row is its values alone");
        let null = Prefix { kind: KIND_ROW, values: vec![None] };
        assert_eq!(parsed(&prefix_json(&layout(), &null).unwrap()), json!([null]));
        let whole = Prefix { kind: Bound::InclusiveStart as u8, values: Vec::new() };
        let found = parsed(&prefix_json(&layout(), &whole).unwrap());
        assert_eq!(found, json!({ "kind": "inclusive_start", "clustering": [] }));
    }

    #[test]
    fn an_entry_tells_the_deletion_of_its_partition_and_what_is_open_behind_each_block() {
        let key = PartitionKey::from_bytes(3_i32.to_be_bytes());
        let token = key.token().0;
        let entry = StoredEntry { key, data_at: 70, promoted: Some((11, 99)) };
        let tombstone = |timestamp, deletion_time| Tombstone { timestamp, deletion_time };
        let block = |number: i32, open| StoredBlock {
            at: 0,
            first: prefix(KIND_ROW, 10 * number),
            last: prefix(Bound::InclusiveEnd as u8, 10 * number + 9),
            offset: 20 + 500 * number as u64,
            width: 500 + i64::from(number),
            open,
        };
        let blocks = StoredBlocks {
            at: 11,
            header_bytes: 20,
            deletion: Some(tombstone(1, 2)),
            blocks: vec![block(0, None), block(1, Some(tombstone(-3, 4)))],
        };
        let last = |ck: i32| json!({ "kind": "inclusive_end", "clustering": [ck] });
        let open = json!({ "marked_deleted": -3, "local_delete_time": 4 });
        let mut wanted = json!({
            "key": ["3"],
            "token": token,
            "index_position": 40,
            "data_position": 70,
            "promoted_index": {
                "header_bytes": 20,
                "deletion": { "marked_deleted": 1, "local_delete_time": 2 },
                "blocks": [
                    { "first": [0], "last": last(9), "offset": 20, "width": 500 },
                    { "first": [10], "last": last(19), "offset": 520, "width": 501, "open": open },
                ],
            },
        });
        let found = entry_json(&entry, 40, Some(&blocks), &layout()).unwrap();
        assert_eq!(parsed(&found), wanted);
        let found = entry_json(&entry, 40, None, &layout()).unwrap();
        wanted.as_object_mut().unwrap().remove("promoted_index");
        assert_eq!(parsed(&found), wanted);
    }

    #[test]
    fn a_promoted_index_may_end_with_the_file_and_not_behind_it() {
        // The length of a key, the key, a place in the data, a size, and so many bytes.
        for (size, content) in [(3_u8, &[9, 9, 9][..]), (0, &[])] {
            let bytes = [&[0, 2, b'k', b'l', 5, size][..], content].concat();
            let parse = |index_bytes| parse_entry(&mut Input::new(&bytes), (100, index_bytes));
            let end = 100 + bytes.len() as u64;
            for index_bytes in [end, end + 1, u64::MAX] {
                let (entry, next) = parse(index_bytes).unwrap();
                assert_eq!((entry.key.as_bytes(), entry.data_at, next), (&b"kl"[..], 5, end));
                assert_eq!(entry.promoted, (size > 0).then_some((106, 3)));
            }
            assert!(matches!(parse(end - 1), Err(Fault::Bad { .. })), "{size}");
        }
    }
}
