//! Component files: written in large aligned pieces with checksums, read with every page checked.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::begun::Begun;
use crate::cache::{Keep, Page, PageCache, PagedFile};
use crate::checksum::{Crc32, crc32};
use crate::config::PAGE_BYTES;
use crate::disk::{AlignedBuffer, Disk, DiskFile, OpenOptions};
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::sstable::format::coding::{Input, Parsed};
use crate::sstable::format::integrity::Pages;

const PAGE: u64 = PAGE_BYTES as u64;
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes that one checksum of a written `CRC.db` covers.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Bytes read at a time through the page cache, and past it.
pub(crate) const READ_BYTES_MAX: u64 = 128 << 10;
pub(crate) const SCAN_BYTES_MAX: u64 = 256 << 10;

const _: () = assert!(WRITE_BYTES.is_multiple_of(CHUNK_BYTES));
const _: () = assert!(CHUNK_BYTES.is_multiple_of(PAGE_BYTES));

/// Checksums of a file that was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) size: u64,
    /// CRC of each page; the last one may be short.
    pub(crate) pages: Vec<u32>,
    /// CRC of each 64 KiB.
    pub(crate) chunks: Vec<u32>,
    /// CRC of the whole file.
    pub(crate) whole: u32,
}

impl From<Written> for Pages {
    fn from(written: Written) -> Self {
        Pages { size: written.size, crcs: written.pages }
    }
}

/// A new file that only grows.
pub(crate) struct FileWriter {
    file: Rc<dyn DiskFile>,
    buffer: Option<AlignedBuffer>,
    /// The piece before, which the disk may still be writing: mostly it has ended by the time that
    /// the next one is gathered.
    behind: Option<Begun<(Result<()>, AlignedBuffer)>>,
    /// Bytes already given to the file.
    flushed: u64,
    whole: Crc32,
    written: Written,
}

impl FileWriter {
    /// Creates the file. Errors: `Io`, also when it exists.
    pub(crate) async fn create(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let file = disk.open(path, OpenOptions::CREATE).await?;
        let buffer = Some(AlignedBuffer::with_capacity(WRITE_BYTES));
        Ok(FileWriter {
            file,
            buffer,
            behind: None,
            flushed: 0,
            whole: Crc32::new(),
            written: Written::default(),
        })
    }

    /// Bytes appended so far.
    pub(crate) fn position(&self) -> u64 {
        self.flushed + self.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    /// Bytes that can be appended without waiting.
    pub(crate) fn room(&self) -> usize {
        let gathered = self.buffer.as_ref().map_or(WRITE_BYTES, |buffer| buffer.len());
        debug_assert!(gathered <= WRITE_BYTES, "{gathered} bytes were gathered and not written");
        WRITE_BYTES - gathered
    }

    /// Appends bytes if there is room for them in memory. False where nothing was appended.
    pub(crate) fn append_now(&mut self, bytes: &[u8]) -> bool {
        let has_room = bytes.len() <= self.room();
        if has_room {
            let buffer = self.buffer.as_mut().expect("a writer that failed is not used again");
            buffer.extend(bytes);
        }
        has_room
    }

    /// Appends bytes. Errors: `Io`; the file is then unusable.
    pub(crate) async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let buffer = self.buffer.as_mut().expect("a writer that failed is not used again");
            let gathered = buffer.len();
            assert!(gathered <= WRITE_BYTES, "{gathered} bytes were gathered and not written");
            let take = bytes.len().min(WRITE_BYTES - gathered);
            buffer.extend(&bytes[..take]);
            bytes = &bytes[take..];
            if bytes.is_empty() {
                return Ok(());
            }
            let spare = self.flush().await?;
            self.buffer = Some(spare.unwrap_or_else(|| AlignedBuffer::with_capacity(WRITE_BYTES)));
        }
    }

    /// Has what was gathered written, and returns the buffer of the piece before, empty.
    async fn flush(&mut self) -> Result<Option<AlignedBuffer>> {
        let mut buffer = self.buffer.take().expect("a writer that failed is not used again");
        let (length, at) = (buffer.len(), self.flushed);
        assert!(at.is_multiple_of(CHUNK_BYTES as u64), "{length} bytes go to {at}, in a chunk");
        self.whole.update(&buffer);
        self.written.pages.extend(buffer.chunks(PAGE_BYTES).map(crc32));
        self.written.chunks.extend(buffer.chunks(CHUNK_BYTES).map(crc32));
        let padded = length.next_multiple_of(PAGE_BYTES);
        buffer.set_len(padded);
        buffer[length..].fill(0);
        // One at a time: a writer has two buffers at most.
        let spare = self.wait_behind().await?;
        debug_assert!(self.behind.is_none(), "two pieces of a file are being written");
        let file = self.file.clone();
        let write = async move { file.write_at(at, buffer).await };
        self.behind = Some(Begun::new(write).await);
        self.flushed += length as u64;
        Ok(spare)
    }

    /// Waits for the piece before, and returns its buffer, empty.
    async fn wait_behind(&mut self) -> Result<Option<AlignedBuffer>> {
        let Some(behind) = self.behind.take() else { return Ok(None) };
        let (result, mut buffer) = behind.end().await.ok_or(Error::Closed)?;
        result?;
        buffer.set_len(0);
        Ok(Some(buffer))
    }

    /// Writes what is left, sets the true size and syncs.
    pub(crate) async fn finish(mut self) -> Result<Written> {
        self.flush().await?;
        self.wait_behind().await?;
        self.file.truncate(self.flushed).await?;
        self.file.sync().await?;
        let (size, pages) = (self.flushed, self.written.pages.len() as u64);
        assert_eq!(pages, size.div_ceil(PAGE), "checksums of the pages of {size} bytes");
        let chunks = self.written.chunks.len() as u64;
        assert_eq!(chunks, size.div_ceil(CHUNK_BYTES as u64), "checksums of {size} bytes");
        self.written.size = self.flushed;
        self.written.whole = self.whole.finish();
        Ok(self.written)
    }
}

/// Which way a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Through the page cache: reads of single partitions.
    Cached,
    /// The same for a row cache, which keeps what is read itself.
    Rows,
    /// Past it, in large pieces: a scan must not push out what point reads need.
    Scan,
}

/// What a file's content is checked against.
#[derive(Debug)]
pub(crate) enum Checks {
    /// Nothing: foreign files without checksums.
    None,
    /// CRC of each page, from `Tidegate.db`.
    Pages(Vec<u32>),
    /// CRC of each piece of so many bytes, from `CRC.db`: a power of two from a page to what a scan
    /// reads at a time.
    Chunks(u64, Vec<u32>),
}

/// Reads a whole `CRC.db`: bytes that one checksum covers, and the checksums.
pub(crate) fn decode_chunks(content: &[u8]) -> Parsed<(u64, Vec<u32>)> {
    let mut input = Input::new(content);
    let before = input.clone();
    let bytes = u64::from(input.u32()?);
    let sizes = PAGE_BYTES as u64..=SCAN_BYTES_MAX;
    if !bytes.is_power_of_two() || !sizes.contains(&bytes) {
        let wanted =
            format!("chunks of {} to {} bytes, a power of two", sizes.start(), sizes.end());
        return Err(before.bad(wanted, bytes));
    }
    let count = input.remaining() / 4;
    Ok((bytes, input.items(count, 4, |input| input.u32())?))
}

/// A file read through the page cache or past it, its content checked either way.
pub(crate) struct CheckedFile {
    paged: PagedFile,
    file: Rc<dyn DiskFile>,
    size: u64,
    checks: Checks,
    /// A bit a page: checked since it was last read from disk.
    checked: RefCell<Vec<u64>>,
}

impl CheckedFile {
    /// Bytes of memory that its checksums take, and the note of what was checked.
    pub(crate) fn checks_bytes(&self) -> usize {
        let checked = self.checked.borrow().capacity() * size_of::<u64>();
        checked
            + match &self.checks {
                Checks::None => 0,
                Checks::Pages(crcs) | Checks::Chunks(_, crcs) => crcs.capacity() * size_of::<u32>(),
            }
    }

    /// Opens the file at `path`, of which `size` bytes are wanted if given; policies see its pages
    /// as `kind`.
    ///
    /// Errors: `Io`; `Corrupt` when the size is wrong or the checksums do not cover it.
    pub(crate) async fn open(
        disk: &dyn Disk,
        cache: Rc<PageCache>,
        (path, kind): (PathBuf, EntryKind),
        wanted_size: Option<u64>,
        checks: Checks,
    ) -> Result<Rc<Self>> {
        let file = disk.open(&path, OpenOptions::READ).await?;
        let paged = PagedFile::with_kind(cache, file.clone(), kind, 0).await?;
        let size = paged.size();
        if let Some(wanted) = wanted_size.filter(|wanted| *wanted != size) {
            let found = format!("{size} bytes");
            return Err(Error::corrupt(path, size.min(wanted), format!("{wanted} bytes"), found));
        }
        let units = match &checks {
            Checks::None => None,
            Checks::Pages(crcs) => Some((crcs.len(), PAGE)),
            Checks::Chunks(bytes, crcs) => Some((crcs.len(), *bytes)),
        };
        // Some writers leave one checksum too many.
        if let Some((count, bytes)) = units.filter(|(n, bytes)| (*n as u64) < size.div_ceil(*bytes))
        {
            let wanted = format!("{} checksums", size.div_ceil(bytes));
            return Err(Error::corrupt(path, count as u64 * bytes, wanted, count));
        }
        let checked = RefCell::new(vec![0; size.div_ceil(PAGE).div_ceil(64) as usize]);
        Ok(Rc::new(CheckedFile { paged, file, size, checks, checked }))
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Holds on to the file's descriptor. Errors: `Io`.
    pub(crate) async fn keep_open(&self) -> Result<()> {
        self.file.keep_open().await
    }

    fn is_checked(&self, page: u64) -> bool {
        self.checked.borrow()[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    fn set_checked(&self, page: u64) {
        self.checked.borrow_mut()[(page / 64) as usize] |= 1 << (page % 64);
    }

    /// Bytes of the file in the page.
    fn page_bytes(&self, page: u64) -> u64 {
        debug_assert!(page * PAGE < self.size, "page {page} of a file of {} bytes", self.size);
        (self.size - page * PAGE).min(PAGE)
    }

    fn check(&self, offset: u64, wanted: u32, found: u32) -> Result<()> {
        if wanted == found {
            return Ok(());
        }
        let (wanted, found) = (format!("CRC {wanted:08x}"), format!("CRC {found:08x}"));
        Err(Error::corrupt(self.path(), offset, wanted, found))
    }

    /// The page if it is in memory, checked; nothing is read.
    pub(crate) fn page_in_memory(&self, number: u64) -> Option<Page> {
        if self.is_checked(number) { self.paged.cached_page(number) } else { None }
    }

    /// The page, checked. Errors: `Io`, `Corrupt`.
    pub(crate) async fn page(&self, number: u64) -> Result<Page> {
        match self.page_in_memory(number) {
            Some(page) => Ok(page),
            None => Ok(self.load(number, number + 1).await?.remove(0)),
        }
    }

    /// Brings the pages from `first` to before `end` into memory, if there is room for them there.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn warm(&self, first: u64, end: u64) -> Result<()> {
        if !self.holds(first, end) {
            self.load(first, end).await?;
        }
        Ok(())
    }

    /// Whether the pages from `first` to before `end` are in memory. This is no use of them.
    pub(crate) fn holds(&self, first: u64, end: u64) -> bool {
        (first..end).all(|page| self.is_checked(page) && self.paged.is_cached(page))
    }

    /// The pages from `first` to before `end`, checked; neighbours that are not in memory are read
    /// together, and all of a chunk where one checksum covers it.
    async fn load(&self, first: u64, end: u64) -> Result<Vec<Page>> {
        let unit = self.unit_pages();
        let from = first / unit * unit;
        let to = end.next_multiple_of(unit).min(self.size.div_ceil(PAGE));
        debug_assert!(
            from <= first && first < end && end <= to,
            "pages {first}..{end} of the file's {to} are read as {from}..{to}"
        );
        let mut pages = self.paged.page_range(from, to - from).await?;
        self.check_pages(from, pages.iter().map(|page| &page[..]))?;
        pages.truncate((end - from) as usize);
        pages.drain(..(first - from) as usize);
        Ok(pages)
    }

    /// Pages that one checksum covers.
    fn unit_pages(&self) -> u64 {
        match &self.checks {
            Checks::Chunks(bytes, _) => bytes / PAGE,
            Checks::None | Checks::Pages(_) => 1,
        }
    }

    /// Checks pages from `first` on, all that a checksum covers where it covers more than one, and
    /// notes that.
    fn check_pages<'a>(&self, first: u64, pages: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        let (unit, count) = (self.unit_pages(), self.size.div_ceil(PAGE));
        debug_assert!(first.is_multiple_of(unit), "page {first} is within what a checksum covers");
        let (mut end, mut crc) = (first, Crc32::new());
        for page in pages {
            let number = end;
            end += 1;
            if page.len() as u64 != self.page_bytes(number) {
                let wanted = format!("{} bytes", self.page_bytes(number));
                let found = format!("{} bytes", page.len());
                return Err(Error::corrupt(self.path(), number * PAGE, wanted, found));
            }
            if let Checks::Pages(crcs) | Checks::Chunks(_, crcs) = &self.checks {
                crc.update(page);
                if end.is_multiple_of(unit) || end == count {
                    let found = std::mem::replace(&mut crc, Crc32::new()).finish();
                    let at = number / unit;
                    self.check(at * unit * PAGE, crcs[at as usize], found)?;
                }
            }
        }
        (first..end).for_each(|page| self.set_checked(page));
        Ok(())
    }

    /// The `length` bytes at `offset`, from page to page or the file's end, as one read brought
    /// them, the pages kept as `keep` says; nothing where some are in memory, or would be checked
    /// with others.
    ///
    /// Errors: `Io`; `Corrupt` also when the file ends before.
    pub(crate) async fn piece(
        &self,
        (offset, length): (u64, u64),
        keep: Keep,
    ) -> Result<Option<Page>> {
        let end = self.check_range(offset, length)?;
        if !offset.is_multiple_of(PAGE) || length > READ_BYTES_MAX || self.unit_pages() > 1 {
            return Ok(None);
        }
        let first = offset / PAGE;
        let range = (first, end.div_ceil(PAGE) - first);
        let Some(piece) = self.paged.absent_range(range, keep).await? else {
            return Ok(None);
        };
        self.check_pages(first, piece.chunks(PAGE_BYTES))?;
        Ok(Some(piece))
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<u64> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(end),
            _ => {
                let found = format!("the end of the file at {}", self.size);
                Err(Error::corrupt(self.path(), offset, format!("{length} bytes"), found))
            }
        }
    }

    /// Exactly `length` bytes at `offset`, through the page cache.
    ///
    /// Errors: `Io`; `Corrupt` also when the file ends before.
    pub(crate) async fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(length.min(READ_BYTES_MAX) as usize);
        self.read_into(offset, length, &mut out).await?;
        Ok(out)
    }

    /// Appends exactly `length` bytes at `offset` to `out`.
    ///
    /// Errors: `Io`; `Corrupt` also when the file ends before.
    pub(crate) async fn append(
        &self,
        access: Access,
        (offset, length): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let before = out.len() as u64;
        let read = match access {
            Access::Cached | Access::Rows => self.read_into(offset, length, out).await,
            Access::Scan => self.scan_into(offset, length, out).await,
        };
        let added = out.len() as u64 - before;
        debug_assert!(read.is_err() || added == length, "{added} bytes for {length} at {offset}");
        read
    }

    async fn read_into(&self, offset: u64, length: u64, out: &mut Vec<u8>) -> Result<()> {
        let end = self.check_range(offset, length)?;
        let mut copy = |number: u64, page: &Page| {
            // Only now: who waits for the disk needs no memory for what comes.
            let at = (number * PAGE).max(offset);
            out.reserve((end - at).min(READ_BYTES_MAX) as usize);
            let from = offset.saturating_sub(number * PAGE) as usize;
            let to = (end - number * PAGE).min(page.len() as u64) as usize;
            out.extend_from_slice(&page[from..to]);
        };
        let mut number = offset / PAGE;
        while number * PAGE < end {
            if let Some(page) = self.page_in_memory(number) {
                copy(number, &page);
                number += 1;
                continue;
            }
            let run_max = end.div_ceil(PAGE).min(number + READ_BYTES_MAX / PAGE);
            let is_there = |page: &u64| self.is_checked(*page) && self.paged.is_cached(*page);
            let run_end = (number + 1..run_max).find(is_there).unwrap_or(run_max);
            for (number, page) in (number..).zip(self.load(number, run_end).await?) {
                copy(number, &page);
            }
            number = run_end;
        }
        Ok(())
    }

    /// As `read`, but past the page cache.
    async fn scan_into(&self, offset: u64, length: u64, out: &mut Vec<u8>) -> Result<()> {
        let end = self.check_range(offset, length)?;
        let unit = if let Checks::Chunks(bytes, _) = &self.checks { *bytes } else { PAGE };
        let mut at = offset;
        while at < end {
            let from = at / unit * unit;
            let to = end.next_multiple_of(unit).min(from + SCAN_BYTES_MAX).min(self.size);
            let buffer = AlignedBuffer::for_reading((to - from) as usize);
            let (result, buffer) = self.file.read_at(from, buffer).await;
            result?;
            let Some(content) = buffer.get(..(to - from) as usize) else {
                let (wanted, found) = (format!("{} bytes", to - from), buffer.len());
                return Err(Error::corrupt(self.path(), from, wanted, found));
            };
            let crcs: &[u32] = match &self.checks {
                Checks::None => &[],
                Checks::Pages(crcs) | Checks::Chunks(_, crcs) => &crcs[(from / unit) as usize..],
            };
            for (i, (piece, crc)) in content.chunks(unit as usize).zip(crcs).enumerate() {
                self.check(from + i as u64 * unit, *crc, crc32(piece))?;
            }
            let take = end.min(to) - at;
            out.extend_from_slice(&content[(at - from) as usize..][..take as usize]);
            at += take;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::sstable::tests::memory_disk::MemoryDisk;

    #[test]
    fn the_last_unit_of_a_file_is_checked_though_it_is_shorter() {
        let path = PathBuf::from("/data/short");
        let content: Vec<u8> = (0..CHUNK_BYTES + 5000).map(|at| at as u8).collect();
        for unit in [PAGE_BYTES, CHUNK_BYTES] {
            let crcs: Vec<u32> = content.chunks(unit).map(crc32).collect();
            for at in [3, CHUNK_BYTES - 1, CHUNK_BYTES, content.len() - 1] {
                let mut damaged = content.clone();
                damaged[at] ^= 1;
                let disk = MemoryDisk::default();
                disk.set_content(&path, damaged);
                let cache = PageCache::new(1 << 20, 1);
                let checks = Checks::Chunks(unit as u64, crcs.clone());
                let place = (path.clone(), EntryKind::DataPage);
                let file = block_on(CheckedFile::open(&disk, cache, place, None, checks)).unwrap();
                let page = block_on(file.page(at as u64 / PAGE)).map(|_| ());
                let bytes = block_on(file.read(at as u64, 1)).map(|_| ());
                for found in [page, bytes] {
                    let is_told = matches!(found, Err(Error::Corrupt(_)));
                    assert!(is_told, "byte {at} in units of {unit}: {found:?}");
                }
            }
        }
    }

    fn opened(content: &[u8], checks: Checks) -> Rc<CheckedFile> {
        let (disk, path) = (MemoryDisk::default(), PathBuf::from("/data/file"));
        disk.set_content(&path, content.to_vec());
        let cache = PageCache::new(1 << 20, 1);
        let place = (path, EntryKind::DataPage);
        block_on(CheckedFile::open(&disk, cache, place, None, checks)).unwrap()
    }

    /// Reads byte `at`, with others or alone.
    async fn read_as(way: &str, file: &CheckedFile, at: u64) -> Result<()> {
        let (page, mut out) = (at / PAGE, Vec::new());
        match way {
            "page" => file.page(page).await.map(|_| ()),
            "warm" => file.warm(page, page + 1).await,
            "read" => file.append(Access::Cached, (at, 1), &mut out).await,
            "scan" => file.append(Access::Scan, (at, 1), &mut out).await,
            "scan of all" => file.append(Access::Scan, (0, file.size()), &mut out).await,
            _ => unreachable!("{way} is no way to read"),
        }
    }

    #[test]
    fn damage_is_told_whichever_way_and_however_often_a_byte_is_read() {
        let content: Vec<u8> = (0..2 * CHUNK_BYTES + 5000).map(|at| at as u8).collect();
        let length = content.len();
        for unit in [PAGE_BYTES, CHUNK_BYTES] {
            let crcs: Vec<u32> = content.chunks(unit).map(crc32).collect();
            let checks = || match unit {
                PAGE_BYTES => Checks::Pages(crcs.clone()),
                _ => Checks::Chunks(unit as u64, crcs.clone()),
            };
            for at in [0, PAGE_BYTES - 1, PAGE_BYTES, CHUNK_BYTES, length - 5001, length - 1] {
                let mut damaged = content.clone();
                damaged[at] ^= 1;
                for way in ["page", "warm", "read", "scan", "scan of all"] {
                    let file = opened(&damaged, checks());
                    let what = format!("{way} of byte {at} in units of {unit}");
                    for time in 0..3 {
                        let found = block_on(read_as(way, &file, at as u64));
                        let Err(Error::Corrupt(corruption)) = found else {
                            panic!("{what}, time {time}: {found:?}");
                        };
                        assert_eq!(corruption.offset, (at / unit * unit) as u64, "{what}");
                    }
                    // The damage costs nothing else.
                    let other = (at + CHUNK_BYTES) % length;
                    let found = block_on(file.read(other as u64, 1)).unwrap();
                    assert_eq!(found, [content[other]], "{what}");
                }
                let (file, page) = (opened(&damaged, checks()), at as u64 / PAGE);
                let place = (page * PAGE, file.page_bytes(page));
                let piece = block_on(file.piece(place, Keep::All));
                // What is checked with other pages is no piece.
                let is_none = unit > PAGE_BYTES && matches!(piece, Ok(None));
                let is_told = matches!(piece, Err(Error::Corrupt(_)));
                assert!(is_none || is_told, "a piece with byte {at} in units of {unit}");
            }
        }
    }
}
