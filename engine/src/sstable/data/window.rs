//! A piece of a file in memory that a reader moves along, and what kind of file it may be.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::rc::Rc;

use super::begun::Begun;
use super::compressed::CompressedFile;
use super::file::{Access, CheckedFile, READ_BYTES_MAX, SCAN_BYTES_MAX};
use crate::admission::BufferCharge;
use crate::cache::{Keep, Page};
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::io;
use crate::sstable::format::coding::Fault;

const PAGE: u64 = PAGE_BYTES as u64;
/// What a read needs of a partition is read at once up to this length: a second read would cost
/// more than what it brings.
const WHOLE_BYTES_MAX: u64 = 16 << 10;
/// Bytes before what is wanted that a window holds on to though they are in nobody's way: only a
/// long value has more.
const PASSED_BYTES_MAX: u64 = 2 * SCAN_BYTES_MAX;
/// Bytes that a window through the page cache reads ahead at first.
const AHEAD_BYTES_MIN: u64 = PAGE;

/// What is read: a file as it is stored, or the data in a compressed one. Offsets count the bytes
/// that a reader sees.
#[derive(Clone)]
pub(crate) enum Content {
    Plain(Rc<CheckedFile>),
    Compressed(Rc<CompressedFile>),
}

impl Content {
    /// Bytes to be seen.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Content::Plain(file) => file.size(),
            Content::Compressed(file) => file.size(),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Content::Plain(file) => file.path(),
            Content::Compressed(file) => file.path(),
        }
    }

    /// Reads begin and end at multiples of this many bytes, or at the end of the content.
    fn unit_bytes(&self) -> u64 {
        match self {
            Content::Plain(_) => PAGE,
            Content::Compressed(file) => file.chunk_bytes().max(PAGE),
        }
    }

    /// The error for wrong bytes at `at`; it names the place in the file as stored.
    pub(crate) fn corrupt(
        &self,
        at: u64,
        wanted: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        match self {
            Content::Plain(file) => Error::corrupt(file.path(), at, wanted, found),
            Content::Compressed(file) => {
                let found = format!("{found} (at byte {at} of the uncompressed data)");
                Error::corrupt(file.path(), file.stored_at(at), wanted, found)
            }
        }
    }

    /// The error for a fault in bytes from `base` on that cannot be made more.
    pub(crate) fn fault(&self, fault: Fault, base: u64) -> Error {
        match (self, fault) {
            (Content::Compressed(_), Fault::Bad { at, what }) => {
                self.corrupt(base.saturating_add(at), what.wanted, what.found)
            }
            (_, fault) => fault.into_error(self.path(), base),
        }
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<u64> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size() => Ok(end),
            _ => {
                let found = format!("the end of the file at {}", self.size());
                Err(self.corrupt(offset, format!("{length} bytes"), found))
            }
        }
    }

    async fn append(
        &self,
        access: Access,
        (from, to): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Content::Plain(file) => file.append(access, (from, to - from), out).await,
            Content::Compressed(file) => file.read_into(access, (from, to), out).await,
        }
    }

    /// The bytes from `from` to `to` as they are stored, read past the page cache.
    async fn packed(&self, (from, to): (u64, u64)) -> Result<Vec<u8>> {
        match self {
            Content::Plain(file) => {
                let mut bytes = Vec::new();
                file.append(Access::Scan, (from, to - from), &mut bytes).await?;
                Ok(bytes)
            }
            Content::Compressed(file) => file.packed((from, to)).await,
        }
    }

    /// What [`packed`](Self::packed) returned, as a reader sees it.
    fn unpack(&self, range: (u64, u64), stored: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Content::Plain(_) => Ok(stored),
            Content::Compressed(file) => file.unpack(range, &stored),
        }
    }
}

/// What a window holds.
enum Bytes {
    /// What one read brought, as it came: most point reads need no more.
    Read(Page),
    /// Put together from several reads and pages in memory.
    Joined(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Read(page) => page,
            Bytes::Joined(bytes) => bytes,
        }
    }
}

impl Bytes {
    fn clear(&mut self) {
        match self {
            Bytes::Read(_) => *self = Bytes::Joined(Vec::new()),
            Bytes::Joined(bytes) => {
                bytes.clear();
                shrink(bytes);
            }
        }
    }

    /// The bytes from `skip` on, to be appended to.
    fn join(&mut self, skip: usize) -> &mut Vec<u8> {
        match self {
            Bytes::Read(page) => *self = Bytes::Joined(page[skip..].to_vec()),
            Bytes::Joined(bytes) if skip > 0 => {
                bytes.drain(..skip);
                shrink(bytes);
            }
            Bytes::Joined(_) => {}
        }
        match self {
            Bytes::Joined(bytes) => bytes,
            Bytes::Read(_) => unreachable!("it was joined above"),
        }
    }
}

/// Returns the memory of a long value that was passed. A scan's window has at most a few times what
/// it reads at once, and keeps that for the next read.
fn shrink(bytes: &mut Vec<u8>) {
    let wanted = bytes.len() + SCAN_BYTES_MAX as usize;
    if bytes.capacity() / 4 > wanted {
        bytes.shrink_to(wanted);
    }
}

/// What comes behind a window, being read while others use the window.
struct Ahead {
    content: Content,
    from: u64,
    to: u64,
    /// As it is stored.
    reading: Begun<Result<Vec<u8>>>,
}

impl Ahead {
    /// Begins to read `from..to`, which goes on by itself.
    async fn begin(content: Content, (from, to): (u64, u64)) -> Self {
        debug_assert!(from < to, "nothing is read ahead at {from}");
        let packed = content.clone();
        let reading = Begun::new(async move { packed.packed((from, to)).await }).await;
        Ahead { content, from, to, reading }
    }

    async fn take(self) -> Result<Vec<u8>> {
        let stored = self.reading.end().await.ok_or(Error::Closed)??;
        let bytes = self.content.unpack((self.from, self.to), stored)?;
        let wanted = self.to - self.from;
        let found = bytes.len() as u64;
        debug_assert_eq!(found, wanted, "bytes that were read ahead from {} on", self.from);
        Ok(bytes)
    }
}

/// A piece of a file in memory that moves forward or backward, reading ahead more the longer it
/// moves in one direction.
pub(crate) struct Window {
    content: Content,
    access: Access,
    bytes: Bytes,
    start: u64,
    ahead_bytes: u64,
    /// Where it does not move in sequence.
    ahead_at_first: u64,
    /// Nothing is read but what is needed.
    is_careful: bool,
    /// Whether a long scan reads what comes next while the piece at hand is used, also while
    /// queries have the disk.
    looks_ahead: bool,
    next: Option<Ahead>,
    /// What the read that moves it is charged for it.
    charge: BufferCharge,
}

impl Window {
    pub(crate) fn new(content: Content, access: Access) -> Self {
        let ahead_at_first = match access {
            Access::Cached | Access::Rows => AHEAD_BYTES_MIN,
            Access::Scan => READ_BYTES_MAX,
        };
        Window {
            content,
            access,
            bytes: Bytes::Joined(Vec::new()),
            start: 0,
            ahead_bytes: ahead_at_first,
            ahead_at_first,
            is_careful: false,
            looks_ahead: false,
            next: None,
            charge: BufferCharge::default(),
        }
    }

    /// As it is, but that a long scan reads the next piece while the one at hand is used, or does
    /// so only while queries leave the disk alone.
    pub(crate) fn looking_ahead(self, looks_ahead: bool) -> Self {
        Window { looks_ahead, ..self }
    }

    /// Whether nothing is read ahead, so that damage further on is not met before its time.
    pub(crate) fn is_careful(&self) -> bool {
        self.is_careful
    }

    pub(crate) fn set_careful(&mut self, is_careful: bool) {
        self.is_careful = is_careful;
        self.next = None;
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether `needed` bytes from `at` are at hand.
    pub(crate) fn holds(&self, at: u64, needed: u64) -> bool {
        at >= self.start && at.saturating_add(needed) <= self.end()
    }

    /// Somewhere in the next so many bytes stands what is looked for, from row to row. A quarter of
    /// them is read at first: a further read costs more than a few pages that nobody needs.
    pub(crate) fn expect_walk(&mut self, bytes: u64) {
        self.ahead_at_first = self.ahead_at_first.max((bytes / 4).min(WHOLE_BYTES_MAX));
        self.ahead_bytes = self.ahead_bytes.max(self.ahead_at_first);
    }

    fn double_ahead(&mut self) {
        let max = match self.access {
            Access::Cached => READ_BYTES_MAX,
            Access::Rows | Access::Scan => SCAN_BYTES_MAX,
        };
        self.ahead_bytes = (self.ahead_bytes * 2).min(max);
    }

    /// The bytes at hand from `at` on; empty when `at` is outside.
    pub(crate) fn bytes_from(&self, at: u64) -> &[u8] {
        match at.checked_sub(self.start) {
            Some(skip) if skip <= self.bytes.len() as u64 => &self.bytes[skip as usize..],
            _ => &[],
        }
    }

    /// All bytes at hand, and where they begin.
    pub(crate) fn held(&self) -> (u64, &[u8]) {
        (self.start, &self.bytes)
    }

    /// Appends what stands before `to`, and the rest of its unit.
    async fn append(&mut self, to: u64, keep: Keep) -> Result<()> {
        let end = to.next_multiple_of(self.content.unit_bytes()).min(self.content.size());
        let range = (self.end(), end);
        let bytes = end.saturating_sub(range.0);
        // A read that has become a long one goes past the pages, as scans do: its rows are kept.
        let access = match self.access {
            Access::Rows if bytes > READ_BYTES_MAX => Access::Scan,
            access => access,
        };
        if self.bytes.is_empty()
            && access != Access::Scan
            && let Content::Plain(file) = &self.content
            && let Some(piece) = file.piece((range.0, bytes), keep).await?
        {
            self.bytes = Bytes::Read(piece);
            return Ok(());
        }
        let range = match self.next.take().filter(|next| next.from == range.0) {
            // What cannot be read is read again where it is needed, and then the error is its own.
            Some(next) => match next.take().await {
                Ok(bytes) => {
                    self.add(bytes);
                    (self.end(), end)
                }
                Err(_) => range,
            },
            None => range,
        };
        if range.0 >= range.1 {
            return Ok(());
        }
        let bytes = range.1 - range.0;
        let joined = self.bytes.join(0);
        // A long value; what is short grows as it comes, and need not be there before.
        if bytes > SCAN_BYTES_MAX {
            joined.reserve_exact(usize::try_from(bytes).unwrap_or(0));
        }
        self.content.append(access, range, joined).await
    }

    /// Adds what was read ahead.
    fn add(&mut self, bytes: Vec<u8>) {
        let joined = self.bytes.join(0);
        if joined.is_empty() {
            *joined = bytes;
        } else {
            joined.extend_from_slice(&bytes);
        }
    }

    /// Begins to read what follows, up to `limit`, once a scan has become a long one.
    async fn look_ahead(&mut self, limit: u64) {
        debug_assert!(self.next.is_none(), "a window that was moved on has used what was ahead");
        let from = self.end();
        let to = (from + SCAN_BYTES_MAX).next_multiple_of(self.content.unit_bytes());
        let to = to.min(self.content.size());
        // Rows that a cache above keeps are read as a scan's once there are many.
        let is_long = self.access != Access::Cached && self.ahead_bytes == SCAN_BYTES_MAX;
        let is_wanted = is_long && !self.is_careful && to <= limit && from < to;
        if is_wanted && (self.looks_ahead || io::queries_rest()) {
            self.next = Some(Ahead::begin(self.content.clone(), (from, to)).await);
        }
    }

    /// Starts afresh at the unit that holds `at`.
    fn restart(&mut self, at: u64) {
        let unit = self.content.unit_bytes();
        self.bytes.clear();
        self.start = at / unit * unit;
        debug_assert!(self.bytes.is_empty(), "a window starts afresh at {at} with bytes");
    }

    /// Lets the units before the one that holds `at` go.
    fn leave_behind(&mut self, at: u64) {
        let unit = self.content.unit_bytes();
        let keep_from = at / unit * unit;
        if keep_from > self.start {
            let end = self.end();
            debug_assert!(keep_from <= end, "a window up to {end} goes on from {keep_from}");
            self.bytes.join((keep_from - self.start) as usize);
            self.start = keep_from;
            debug_assert_eq!(self.end(), end, "a window that moved on to {at} ends elsewhere");
        }
    }

    /// Holds no long value any more: nothing may be read for a while.
    pub(crate) fn let_go_of_long(&mut self) {
        if self.bytes.len() as u64 > PASSED_BYTES_MAX {
            self.bytes = Bytes::Joined(Vec::new());
            self.settle();
        }
    }

    /// Charges the read with the memory that the window has now. Pages are the cache's.
    fn settle(&mut self) {
        let held = match &self.bytes {
            Bytes::Read(_) => 0,
            Bytes::Joined(bytes) => bytes.capacity() as u64,
        };
        let next = self.next.as_ref().map_or(0, |next| next.to - next.from);
        self.charge.set(held + next);
    }

    /// Makes `needed` bytes from `at` available, reading ahead, though not past `limit` unless they
    /// are needed. Bytes before `at` may go.
    ///
    /// Errors: `Io`; `Corrupt` also when the file ends before.
    pub(crate) async fn advance(&mut self, at: u64, needed: u64, limit: u64) -> Result<()> {
        self.advance_keeping((at, needed, limit), Keep::All).await
    }

    /// Makes the bytes `at..end` available by one read if they are few, and if nothing speaks
    /// against reading ahead. They are all that will be read there: a row cache above keeps what it
    /// wants of them itself.
    ///
    /// Errors: as [`advance`](Self::advance).
    pub(crate) async fn take_in(&mut self, at: u64, end: u64) -> Result<()> {
        let bytes = end.min(self.content.size()).saturating_sub(at);
        let is_short = (1..=WHOLE_BYTES_MAX).contains(&bytes);
        if self.is_careful || !is_short || self.holds(at, bytes) {
            return Ok(());
        }
        let keep = match self.access {
            Access::Rows => Keep::SecondTime,
            Access::Cached | Access::Scan => Keep::All,
        };
        self.advance_keeping((at, bytes, at + bytes), keep).await
    }

    async fn advance_keeping(
        &mut self,
        (at, needed, limit): (u64, u64, u64),
        keep: Keep,
    ) -> Result<()> {
        let wanted = self.content.check_range(at, needed)?;
        if at >= self.start && wanted <= self.end() {
            if at - self.start > PASSED_BYTES_MAX {
                self.leave_behind(at);
            }
            return Ok(());
        }
        if at < self.start || at > self.end() {
            // A row that is passed over reaches beyond the end: what follows is still in sequence.
            let is_near = at > self.end() && at - self.end() < self.ahead_bytes;
            self.restart(at);
            if !is_near {
                self.ahead_bytes = self.ahead_at_first;
            }
        } else {
            self.leave_behind(at);
        }
        let ahead_bytes = if self.is_careful { 0 } else { self.ahead_bytes };
        let is_short = limit.saturating_sub(at) <= ahead_bytes;
        let ahead = if is_short { limit } else { (self.end() + ahead_bytes).min(limit) };
        let ahead = ahead.max(wanted);
        self.append(ahead, keep).await?;
        debug_assert!(self.holds(at, needed), "{at}..{wanted} was read, and is not at hand");
        self.look_ahead(limit).await;
        self.settle();
        self.double_ahead();
        Ok(())
    }

    /// Makes the bytes `from..to` available, reading ahead before them, though not past `low`.
    ///
    /// Errors: `Io`; `Corrupt` also when the file ends before.
    pub(crate) async fn retreat(&mut self, (from, to): (u64, u64), low: u64) -> Result<()> {
        self.content.check_range(from, to.saturating_sub(from))?;
        if from >= self.start && to <= self.end() {
            return Ok(());
        }
        let is_near = to < self.start && self.start - to < self.ahead_bytes;
        if to > self.end() || (to < self.start && !is_near) {
            self.ahead_bytes = self.ahead_at_first;
        }
        let ahead_bytes = if self.is_careful { 0 } else { self.ahead_bytes };
        let first = from.min(to.saturating_sub(ahead_bytes).max(low));
        self.restart(first);
        self.append(to, Keep::All).await?;
        debug_assert!(
            self.holds(from, to.saturating_sub(from)),
            "{from}..{to} was read, and is not at hand"
        );
        self.settle();
        self.double_ahead();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use futures::FutureExt;
    use futures::executor::block_on;

    use super::super::file::Checks;
    use super::*;
    use crate::admission::{Admission, FailFast, LevelId, ReadMemory};
    use crate::cache::PageCache;
    use crate::checksum::crc32;
    use crate::clock::SimulatedClock;
    use crate::config::IO_QUERIES_REST;
    use crate::io::{Class, IoQueue, Kind, Scheduler};
    use crate::policy::admission::ReadClass;
    use crate::policy::event::EntryKind;
    use crate::sstable::tests::memory_disk::MemoryDisk;

    const LONG: u64 = 12 << 20;

    /// A window on a file of zeros.
    fn window(file_bytes: u64, access: Access) -> Window {
        window_on(file_bytes, access).0
    }

    /// The same, and the disk that has the file.
    fn window_on(file_bytes: u64, access: Access) -> (Window, MemoryDisk) {
        let disk = MemoryDisk::default();
        let path = PathBuf::from("/data/long");
        disk.set_content(&path, vec![0; file_bytes as usize]);
        let cache = PageCache::new(1 << 20, 1);
        let opening =
            CheckedFile::open(&disk, cache, (path, EntryKind::DataPage), None, Checks::None);
        (Window::new(Content::Plain(block_on(opening).unwrap()), access), disk)
    }

    /// Bytes that the window holds, used or not.
    fn held(window: &Window) -> u64 {
        match &window.bytes {
            Bytes::Read(page) => page.len() as u64,
            Bytes::Joined(bytes) => bytes.capacity() as u64,
        }
    }

    /// What a scan reads while the window is used is what it would read then, and it fails no
    /// sooner.
    #[test]
    fn what_a_long_scan_reads_ahead_is_what_comes_next() {
        let content: Vec<u8> = (0..4u64 << 20).map(|at| (at * 31 / 7) as u8).collect();
        let crcs: Vec<u32> = content.chunks(PAGE as usize).map(crc32).collect();
        let size = content.len() as u64;
        let accesses = [Access::Scan, Access::Rows];
        let cases = accesses.map(|access| [(access, None), (access, Some(3 << 20))]);
        for (access, damaged) in cases.into_iter().flatten() {
            let (disk, path) = (MemoryDisk::default(), PathBuf::from("/data/scanned"));
            let mut stored = content.clone();
            if let Some(at) = damaged {
                stored[at as usize + 5] ^= 1;
            }
            disk.set_content(&path, stored);
            let (cache, kind) = (PageCache::new(1 << 20, 1), EntryKind::DataPage);
            let checks = Checks::Pages(crcs.clone());
            let opening = CheckedFile::open(&disk, cache, (path, kind), None, checks);
            let file = Content::Plain(block_on(opening).unwrap());
            let mut window = Window::new(file, access).looking_ahead(true);
            let mut has_read_ahead = false;
            let mut at = 0;
            let ended = loop {
                if at + 777 > size {
                    break Ok(());
                }
                if let Err(error) = block_on(window.advance(at, 777, size)) {
                    break Err(error);
                }
                has_read_ahead |= window.next.is_some();
                let wanted = &content[at as usize..][..777];
                assert_eq!(window.bytes_from(at).get(..777), Some(wanted), "at {at}");
                at += 777;
            };
            assert!(has_read_ahead, "a scan of 4 MiB is a long one");
            match (ended, damaged) {
                (Ok(()), None) => {}
                (Err(Error::Corrupt(corruption)), Some(damaged)) => {
                    assert_eq!(corruption.offset, damaged, "the page that is damaged");
                    assert!(at + 2 * SCAN_BYTES_MAX > damaged, "{at} is long before {damaged}");
                }
                (ended, _) => panic!("damaged {damaged:?}: {ended:?} at {at}"),
            }
        }
    }

    #[test]
    fn a_scan_in_the_background_reads_ahead_while_queries_leave_the_disk_alone() {
        let clock = SimulatedClock::new(0);
        let sleep = Box::new(|_| futures::future::pending().boxed_local());
        let queue = IoQueue::new(Scheduler::unmeasured(1), clock.clone(), sleep);
        let size = 4 << 20;
        for (looks_ahead, wanted) in [(false, [true, false, false, true]), (true, [true; 4])] {
            let mut window = window(size, Access::Scan).looking_ahead(looks_ahead);
            let mut at = 0;
            let mut reads_ahead = || {
                for _ in 0..3 {
                    block_on(window.advance(at, SCAN_BYTES_MAX, size)).unwrap();
                    at += SCAN_BYTES_MAX;
                }
                window.next.is_some()
            };
            let alone = reads_ahead();
            let query = block_on(queue.admit(Class::Query, Kind::Read, PAGE_BYTES));
            let beside = reads_ahead();
            drop(query);
            let soon_after = reads_ahead();
            clock.advance(IO_QUERIES_REST);
            assert_eq!([alone, beside, soon_after, reads_ahead()], wanted, "{looks_ahead}");
        }
    }

    /// Rows whose ends do not fall together with those of reads, one after the other.
    #[test]
    fn what_is_read_ahead_grows_while_rows_are_passed_over() {
        let (block, row, size) = (64 << 10, 130, 1 << 20);
        for (walk, reads_max) in [(None, 5), (Some(block), 3)] {
            for is_reversed in [false, true] {
                let (mut window, disk) = window_on(size, Access::Rows);
                if let Some(bytes) = walk {
                    window.expect_walk(bytes);
                }
                for number in 0..block / row {
                    let at = if is_reversed { size - (number + 1) * row } else { number * row };
                    // Of a row that is passed over only the head is looked at.
                    let moved = match is_reversed {
                        true => block_on(window.retreat((at, at + 20), 0)),
                        false => block_on(window.advance(at, 20, size)),
                    };
                    moved.unwrap();
                }
                let reads = disk.reads.borrow().len();
                assert!(reads <= reads_max, "reversed {is_reversed}, {walk:?}: {reads} reads");
            }
        }
    }

    /// One row of each of many pages: nothing is read ahead that nobody wants.
    #[test]
    fn rows_far_from_each_other_are_read_alone() {
        let (mut window, disk) = window_on(1 << 20, Access::Rows);
        for number in 0..16 {
            block_on(window.advance(number * (64 << 10), 100, 1 << 20)).unwrap();
        }
        let bytes: u64 = disk.reads.borrow().iter().map(|read| read.bytes).sum();
        assert_eq!(bytes, 16 * PAGE);
    }

    #[test]
    fn a_long_value_that_was_passed_is_let_go_of() {
        for access in [Access::Cached, Access::Rows, Access::Scan] {
            let mut window = window(3 * LONG, access);
            block_on(window.advance(0, LONG, LONG)).unwrap();
            assert!(held(&window) >= LONG, "it is at hand");
            // What comes next lies in the window already.
            let next = LONG - 100;
            block_on(window.advance(next, 50, 3 * LONG)).unwrap();
            assert_eq!(window.bytes_from(next).get(..50), Some(&[0; 50][..]));
            let left = held(&window);
            assert!(left <= 4 * SCAN_BYTES_MAX, "{access:?}: {left} bytes behind a long value");
        }
    }

    #[test]
    fn a_window_that_moves_past_a_long_value_gives_its_memory_back() {
        for access in [Access::Cached, Access::Rows, Access::Scan] {
            for next in [LONG + 100, 2 * LONG] {
                let mut window = window(3 * LONG, access);
                block_on(window.advance(0, LONG, LONG)).unwrap();
                block_on(window.advance(next, 50, 3 * LONG)).unwrap();
                let left = held(&window);
                assert!(left <= 4 * SCAN_BYTES_MAX, "{access:?} at {next}: {left} bytes");
            }
        }
    }

    fn admission() -> Admission {
        Admission::new(SimulatedClock::new(1), ReadMemory::new(1 << 30), FailFast::new(1))
    }

    /// The read that moves a window has its memory, for as long as the window has it.
    #[test]
    fn a_read_is_charged_with_its_windows() {
        let admission = admission();
        let mut permit = block_on(admission.turn(ReadClass::Keys, LevelId::DEFAULT, None)).unwrap();
        let charged = || admission.level_status(LevelId::DEFAULT).memory_bytes;
        let before = charged();
        let mut moved = window(3 * LONG, Access::Scan);
        let (at_first, late, account) =
            (moved.advance(0, LONG, LONG), LONG + 100, permit.account());
        block_on(admission.measured(ReadClass::Keys, account.clone(), at_first)).unwrap();
        assert_eq!(charged(), before + held(&moved));
        let further = moved.advance(late, 50, 3 * LONG);
        block_on(admission.measured(ReadClass::Keys, account, further)).unwrap();
        assert_eq!(charged(), before + held(&moved));
        assert!(charged() < before + LONG, "the long value was let go of");
        drop(moved);
        assert_eq!(charged(), before);
        // What no read moves is charged to nobody.
        let mut free = window(3 * LONG, Access::Scan);
        block_on(free.advance(0, LONG, LONG)).unwrap();
        assert_eq!(charged(), before);
        drop(permit);
        assert_eq!(charged(), 0);
    }

    #[test]
    fn a_read_is_charged_with_what_it_reads_backward_as_well() {
        let admission = admission();
        let mut permit = block_on(admission.turn(ReadClass::Keys, LevelId::DEFAULT, None)).unwrap();
        let charged = || admission.level_status(LevelId::DEFAULT).memory_bytes;
        let before = charged();
        let mut moved = window(3 * LONG, Access::Scan);
        let account = permit.account();
        let at_first = moved.retreat((2 * LONG, 3 * LONG), 0);
        block_on(admission.measured(ReadClass::Keys, account.clone(), at_first)).unwrap();
        assert_eq!(charged(), before + held(&moved));
        assert!(charged() >= before + LONG, "a long value is at hand");
        // The pieces before it come one after the other.
        for at in [2 * LONG - 50, LONG, 100] {
            let further = moved.retreat((at, at + 50), 0);
            block_on(admission.measured(ReadClass::Keys, account.clone(), further)).unwrap();
            assert_eq!(charged(), before + held(&moved), "at {at}");
            assert!(charged() < before + LONG, "the long value was let go of at {at}");
        }
        drop(moved);
        assert_eq!(charged(), before);
    }

    #[test]
    fn before_a_rest_only_a_long_value_is_let_go_of() {
        let mut window = window(2 * LONG, Access::Scan);
        block_on(window.advance(0, LONG, LONG)).unwrap();
        window.let_go_of_long();
        assert_eq!(held(&window), 0);
        block_on(window.advance(LONG, 100, 2 * LONG)).unwrap();
        window.let_go_of_long();
        assert!(window.holds(LONG, 100), "what is short stays");
    }
}
