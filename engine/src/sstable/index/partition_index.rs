//! Entries of `Index.db`: where a partition starts, and its promoted index.
//!
//! ```text
//! entry := bytes16 key, vint data position, vint promoted bytes, promoted index
//! ```

use std::ops::Range;
use std::rc::Rc;

use futures::future::try_join3;

use super::index_page::{Entry, Front, IndexPage, PartitionPlace};
use super::promoted_index::pages_of_last_block;
use super::summary::Summary;
use crate::cache::ParsedFile;
use crate::config::PAGE_BYTES;
use crate::error::Result;
use crate::probe;
use crate::schema::PartitionKey;
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::layout::Layout;

/// Bytes looked at first for one entry without its promoted index.
const ENTRY_BYTES_FIRST: u64 = 64;
/// Longest page of the index that is read and parsed whole.
const PARSED_BYTES_MAX: u64 = 32 << 10;
/// Bytes at the end of a longer one that a reversed read from the end wants too.
const TAIL_BYTES: u64 = 8 << 10;
const PAGE: u64 = PAGE_BYTES as u64;

fn parse(input: &mut Input<'_>, at: u64, index_bytes: u64) -> Parsed<Entry> {
    let key = PartitionKey::from_bytes(input.bytes16()?);
    let start = input.vint()?;
    let before = input.clone();
    let size = input.vint()?;
    let promoted_at = at + input.at();
    let next = promoted_at.checked_add(size).filter(|next| *next <= index_bytes);
    let next = next.ok_or_else(|| before.bad("a promoted index within the file", size))?;
    let promoted = (size > 0).then_some((promoted_at, size));
    let place = PartitionPlace { start, end: None, promoted };
    Ok(Entry { key, place, last: None, next })
}

/// Reads the entry at `at`, reading ahead no further than `limit`.
///
/// Errors: `Io`, `Corrupt`.
pub(crate) async fn read_entry(window: &mut Window, at: u64, limit: u64) -> Result<Entry> {
    let index_bytes = window.content().size();
    let mut needed = ENTRY_BYTES_FIRST.min(index_bytes.saturating_sub(at));
    loop {
        window.advance(at, needed, limit).await?;
        match parse(&mut Input::new(window.bytes_from(at)), at, index_bytes) {
            Ok(entry) => return Ok(entry),
            Err(Fault::Short { needed: more }) => needed = more,
            Err(fault) => return Err(window.content().fault(fault, at)),
        }
    }
}

/// Reads and parses the page at `at..end`; `None` when it is long and not only by a promoted index
/// at its end. Several lookups that want it at once share the read.
///
/// A reversed read from the partition's end, which gives its `layout`, wants the end of its
/// promoted index next, which stands at the end of a long page, and the last block before it: all
/// are read at once.
async fn read_page(
    window: &mut Window,
    (at, end): (u64, u64),
    from_end: Option<&Layout>,
) -> Result<Option<IndexPage>> {
    let all = end.saturating_sub(at);
    let front = (PAGE - at % PAGE).max(ENTRY_BYTES_FIRST);
    let needed = if all <= PARSED_BYTES_MAX { all } else { front };
    match window.content() {
        Content::Plain(file)
            if needed < all
                && let Some(layout) = from_end =>
        {
            let file = file.clone();
            let tail = (end - TAIL_BYTES) / PAGE..end.div_ceil(PAGE);
            let block = pages_of_last_block(layout, (at, all)).unwrap_or(tail.clone());
            let block = block.start..block.end.min(tail.start);
            let warm = async |pages: Range<u64>| file.warm(pages.start, pages.end).await;
            try_join3(window.advance(at, needed, end), warm(block), warm(tail)).await?;
        }
        _ => window.advance(at, needed, end).await?,
    }
    let bytes = window.bytes_from(at);
    match IndexPage::parse(&bytes[..bytes.len().min(all as usize)], at, end) {
        Ok(Front::Whole(page)) => Ok(Some(page)),
        Ok(Front::Part) => Ok(None),
        Err(fault) => Err(window.content().fault(fault, at)),
    }
}

/// Looks a partition up: one page of the index is read at most, and kept parsed. `from_end` says
/// that it will be read backward from its end.
///
/// Errors: `Io`, `Corrupt`.
pub(crate) async fn find(
    summary: &Summary,
    window: &mut Window,
    pages: &ParsedFile<IndexPage>,
    (key, from_end): (&PartitionKey, Option<&Layout>),
) -> Result<Option<Entry>> {
    let Some((mut at, end)) = summary.page(key) else { return Ok(None) };
    let end = end.unwrap_or(window.content().size());
    if let Some(page) = pages.get(at) {
        probe::note(|| format!("index page at {at} is in memory, parsed"));
        return Ok(IndexPage::find(&page, key));
    }
    probe::note(|| format!("index page at {at} of {} bytes is looked up", end - at));
    if let Some(page) = read_page(window, (at, end), from_end).await? {
        let page = Rc::new(page);
        pages.insert(at, page.clone(), page.memory_bytes());
        return Ok(IndexPage::find(&page, key));
    }
    // A foreign writer's page with large promoted indexes among the entries: those are not read.
    while at < end {
        let entry = read_entry(window, at, end).await?;
        match entry.key.cmp(key) {
            std::cmp::Ordering::Less => at = entry.next,
            std::cmp::Ordering::Equal => return Ok(Some(entry)),
            std::cmp::Ordering::Greater => return Ok(None),
        }
    }
    if at == end {
        return Ok(None);
    }
    let wanted = format!("an entry that ends at {end}, where the summary's next page begins");
    Err(window.content().corrupt(end, wanted, format!("one that ends at {at}")))
}
