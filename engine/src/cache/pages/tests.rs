//! The page cache over a file in memory that counts its reads, holds them back and fails on demand.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::executor::{LocalPool, block_on};
use futures::future::{LocalBoxFuture, join3};
use futures::task::LocalSpawnExt;

use super::*;
use crate::cache::{PageCache, PageCounts, PolicyIdentity, PolicyState, SwapStep};
use crate::clock::{Random, SimulatedClock};
use crate::config::PAGE_BYTES;
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy};
use crate::policy::{FailureKind, Lru, PolicyFailure};
use crate::probe::{Count, Detail, Probed, Watch};
use crate::trace::Recorder;

/// A file of which byte `n` is decided by `seed`.
struct MemoryFile {
    path: PathBuf,
    content: Vec<u8>,
    /// Offset and bytes of each read.
    reads: RefCell<Vec<(u64, usize)>>,
    failing: Cell<bool>,
    /// When set, reads wait until they are let go.
    gate: RefCell<Option<Vec<oneshot::Sender<()>>>>,
}

impl MemoryFile {
    fn new(seed: u64, size: usize) -> Rc<Self> {
        let mut random = Random::new(seed);
        Rc::new(MemoryFile {
            path: PathBuf::from("memory"),
            content: (0..size).map(|_| random.next_u64() as u8).collect(),
            reads: RefCell::default(),
            failing: Cell::new(false),
            gate: RefCell::default(),
        })
    }

    fn close_gate(&self) {
        *self.gate.borrow_mut() = Some(Vec::new());
    }

    fn open_gate(&self) {
        for held in self.gate.borrow_mut().take().expect("the gate is closed") {
            let _ = held.send(());
        }
    }
}

impl DiskFile for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        Box::pin(async { Ok(self.content.len() as u64) })
    }

    fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        Box::pin(async move {
            assert!(offset.is_multiple_of(PAGE_BYTES as u64));
            self.reads.borrow_mut().push((offset, buffer.capacity()));
            let held = self.gate.borrow_mut().as_mut().map(|held| {
                let (go, wait) = oneshot::channel();
                held.push(go);
                wait
            });
            if let Some(wait) = held {
                let _ = wait.await;
            }
            if self.failing.get() {
                let error = std::io::Error::from_raw_os_error(5);
                return (Err(Error::io("read", &self.path, &error)), buffer);
            }
            let from = (offset as usize).min(self.content.len());
            let to = (from + buffer.capacity()).min(self.content.len());
            buffer.set_len(to - from);
            buffer.copy_from_slice(&self.content[from..to]);
            (Ok(()), buffer)
        })
    }

    fn write_at(
        &self,
        _: u64,
        _: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        unreachable!("the cache only reads")
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        unreachable!("the cache only reads")
    }

    fn allocate(&self, _: u64) -> LocalBoxFuture<'_, Result<()>> {
        unreachable!("the cache only reads")
    }

    fn truncate(&self, _: u64) -> LocalBoxFuture<'_, Result<()>> {
        unreachable!("the cache only reads")
    }
}

fn cache(pages: usize) -> Rc<PageCache> {
    PageCache::new(pages * PAGE_BYTES, 42)
}

fn operator(message: &str) -> PolicyFailure {
    crate::cache::budget::failure(FailureKind::Operator, message)
}

fn paged(cache: &Rc<PageCache>, file: &Rc<MemoryFile>) -> Rc<PagedFile> {
    Rc::new(block_on(PagedFile::new(cache.clone(), file.clone())).unwrap())
}

fn is_io<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Io { code: Some(5), .. }))
}

#[test]
fn counters_are_exact_and_the_budget_holds() {
    let (cache, file) = (cache(4), MemoryFile::new(1, 10 * PAGE_BYTES));
    cache.begin_policy(Box::new(Lru::default()), PolicyIdentity::default()).unwrap();
    while cache.step_policy_swap(256) == SwapStep::Working {}
    let paged = paged(&cache, &file);
    for number in [0, 1, 2, 3, 0, 4, 1, 0] {
        let page = block_on(paged.page(number)).unwrap();
        let from = number as usize * PAGE_BYTES;
        assert_eq!(page[..], file.content[from..from + PAGE_BYTES]);
        assert!(cache.stats().bytes <= 4 * PAGE_BYTES as u64);
    }
    let bytes = 4 * PAGE_BYTES as u64;
    let expected =
        PageCounts { hits: 2, misses: 6, evictions: 2, pages: 4, bytes, ..Default::default() };
    let stats = cache.stats();
    assert_eq!(stats.total, expected);
    assert_eq!(stats.kinds, [(EntryKind::DataPage, expected)]);
    assert_eq!(stats.bytes, 4 * PAGE_BYTES as u64);
    assert_eq!(file.reads.borrow().len(), 6);
    let status = cache.policy_status();
    assert_eq!((status.tally.hits, status.tally.misses, status.evictions), (2, 6, 2));
    // 1 was the coldest when 4 came, and 2 when 1 came back.
    let resident: Vec<u64> = (0..10).filter(|page| paged.cached_page(*page).is_some()).collect();
    assert_eq!(resident, [0, 1, 3, 4]);
}

#[test]
fn many_readers_of_a_page_share_one_read() {
    let (cache, file) = (cache(4), MemoryFile::new(2, 2 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    file.close_gate();
    let mut pool = LocalPool::new();
    let readers: Vec<_> = (0..10)
        .map(|_| {
            let paged = paged.clone();
            pool.spawner().spawn_local_with_handle(async move { paged.page(1).await }).unwrap()
        })
        .collect();
    pool.run_until_stalled();
    assert!(paged.cached_page(1).is_none());
    file.open_gate();
    for reader in readers {
        let page = pool.run_until(reader).unwrap();
        assert_eq!(page[..], file.content[PAGE_BYTES..]);
    }
    assert_eq!(file.reads.borrow().len(), 1);
    let total = cache.stats().total;
    assert_eq!((total.misses, total.joined, total.hits, total.pages), (1, 9, 0, 1));
}

#[test]
fn a_failed_read_reaches_every_reader_and_leaves_nothing() {
    let (cache, file) = (cache(4), MemoryFile::new(3, PAGE_BYTES));
    let paged = paged(&cache, &file);
    file.close_gate();
    file.failing.set(true);
    let mut pool = LocalPool::new();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let paged = paged.clone();
            pool.spawner().spawn_local_with_handle(async move { paged.page(0).await }).unwrap()
        })
        .collect();
    pool.run_until_stalled();
    file.open_gate();
    for reader in readers {
        assert!(is_io(&pool.run_until(reader)));
    }
    assert!(cache.flights.borrow().is_empty());
    assert_eq!(cache.stats().bytes, 0);
    file.failing.set(false);
    assert!(block_on(paged.page(0)).is_ok());
    assert_eq!(file.reads.borrow().len(), 2);
}

#[test]
fn a_cancelled_leader_hangs_nobody() {
    let (cache, file) = (cache(4), MemoryFile::new(4, PAGE_BYTES));
    let paged = paged(&cache, &file);
    file.close_gate();
    let mut pool = LocalPool::new();
    let spawn = |pool: &LocalPool| {
        let paged = paged.clone();
        pool.spawner().spawn_local_with_handle(async move { paged.page(0).await }).unwrap()
    };
    let leader = spawn(&pool);
    pool.run_until_stalled();
    let follower = spawn(&pool);
    pool.run_until_stalled();
    drop(leader);
    pool.run_until_stalled();
    file.open_gate();
    assert!(pool.run_until(follower).is_ok());
    assert_eq!(file.reads.borrow().len(), 1);

    // With nobody left the read ends, and the next reader begins anew.
    cache.set_capacity_bytes(0);
    cache.set_capacity_bytes(4 * PAGE_BYTES);
    file.close_gate();
    let alone = spawn(&pool);
    pool.run_until_stalled();
    assert_eq!(cache.flights.borrow().len(), 1);
    drop(alone);
    pool.run_until_stalled();
    assert!(cache.flights.borrow().is_empty());
    file.open_gate();
    assert!(block_on(paged.page(0)).is_ok());
    assert_eq!(file.reads.borrow().len(), 3);
}

#[test]
fn pages_in_use_stay_and_others_pass_by() {
    let (cache, file) = (cache(2), MemoryFile::new(5, 4 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    let held: Vec<Page> = (0..2).map(|number| block_on(paged.page(number)).unwrap()).collect();
    let passing = block_on(paged.page(2)).unwrap();
    assert_eq!(passing[..], file.content[2 * PAGE_BYTES..3 * PAGE_BYTES]);
    assert_eq!(cache.stats().total.passed, 1);
    assert!(paged.cached_page(0).is_some() && paged.cached_page(2).is_none());
    cache.set_capacity_bytes(PAGE_BYTES);
    assert_eq!(cache.stats().bytes, 2 * PAGE_BYTES as u64, "both are held");
    assert_eq!(held[1][..], file.content[PAGE_BYTES..2 * PAGE_BYTES]);
    drop(held);
    assert!(!cache.trim());
    assert_eq!(cache.stats().bytes, PAGE_BYTES as u64);
}

#[test]
fn a_range_reads_what_is_missing_in_one_piece() {
    let (cache, file) = (cache(64), MemoryFile::new(6, 20 * PAGE_BYTES + 100));
    let paged = paged(&cache, &file);
    block_on(paged.page(5)).unwrap();
    file.reads.borrow_mut().clear();
    let pages = block_on(paged.page_range(0, 21)).unwrap();
    let page_bytes = PAGE_BYTES as u64;
    let reads = [(0, 5 * PAGE_BYTES), (6 * page_bytes, 15 * PAGE_BYTES)];
    assert_eq!(*file.reads.borrow(), reads);
    let content: Vec<u8> = pages.iter().flat_map(|page| page.iter().copied()).collect();
    assert_eq!(content, file.content);
    assert_eq!(pages[20].len(), 100);
    let total = cache.stats().total;
    assert_eq!((total.hits, total.misses, total.pages), (1, 21, 21));
    assert!(block_on(paged.page_range(0, 0)).unwrap().is_empty());
    assert!(matches!(block_on(paged.page_range(20, 2)), Err(Error::Corrupt(_))));
    assert!(matches!(block_on(paged.page(21)), Err(Error::Corrupt(_))));
    assert!(matches!(block_on(paged.page(u64::MAX)), Err(Error::Corrupt(_))));
}

#[test]
fn a_range_and_a_page_share_a_read() {
    let (cache, file) = (cache(64), MemoryFile::new(7, 8 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    file.close_gate();
    let mut pool = LocalPool::new();
    let (one, two) = (paged.clone(), paged.clone());
    let range =
        pool.spawner().spawn_local_with_handle(async move { one.page_range(0, 6).await }).unwrap();
    pool.run_until_stalled();
    let other =
        pool.spawner().spawn_local_with_handle(async move { two.page_range(4, 4).await }).unwrap();
    pool.run_until_stalled();
    drop(range);
    file.open_gate();
    let pages = pool.run_until(other).unwrap();
    let content: Vec<u8> = pages.iter().flat_map(|page| page.iter().copied()).collect();
    assert_eq!(content, file.content[4 * PAGE_BYTES..]);
    let page_bytes = PAGE_BYTES as u64;
    assert_eq!(*file.reads.borrow(), [(0, 6 * PAGE_BYTES), (6 * page_bytes, 2 * PAGE_BYTES)]);
}

#[test]
fn reads_under_way_are_told_apart() {
    let cache = cache(64);
    let files = [11, 12].map(|seed| MemoryFile::new(seed, 8 * PAGE_BYTES));
    let paged = files.each_ref().map(|file| paged(&cache, file));
    files.iter().for_each(|file| file.close_gate());
    let mut pool = LocalPool::new();
    let mut read = |file: usize, first: u64, count: u64| {
        let paged = paged[file].clone();
        let pages = async move { paged.page_range(first, count).await };
        let pages = pool.spawner().spawn_local_with_handle(pages).unwrap();
        pool.run_until_stalled();
        pages
    };
    // Another file's pages, those before and behind a read under way, and those in its middle.
    let wanted = [(0, 2, 3), (1, 3, 1), (0, 0, 2), (0, 5, 1), (0, 3, 1), (0, 1, 6)];
    let pages = wanted.map(|(file, first, count)| read(file, first, count));
    assert_eq!(cache.flights.borrow().len(), 5);
    files.iter().for_each(|file| file.open_gate());
    for ((file, first, count), pages) in wanted.into_iter().zip(pages) {
        let pages = pool.run_until(pages).unwrap();
        let content: Vec<u8> = pages.iter().flat_map(|page| page.iter().copied()).collect();
        let from = first as usize * PAGE_BYTES;
        assert_eq!(content, files[file].content[from..from + count as usize * PAGE_BYTES]);
    }
    let page = |page: u64, count: usize| (page * PAGE_BYTES as u64, count * PAGE_BYTES);
    assert_eq!(*files[0].reads.borrow(), [page(2, 3), page(0, 2), page(5, 1), page(6, 1)]);
    assert_eq!(*files[1].reads.borrow(), [page(3, 1)]);
    assert!(cache.flights.borrow().is_empty());
}

#[test]
fn a_range_that_is_absent_comes_in_one_piece_and_stays_page_by_page() {
    let (cache, file) = (cache(64), MemoryFile::new(13, 6 * PAGE_BYTES + 100));
    let paged = paged(&cache, &file);
    let piece = block_on(paged.absent_range((3, 4), Keep::All)).unwrap().unwrap();
    assert_eq!(piece[..], file.content[3 * PAGE_BYTES..]);
    let reads = [(3 * PAGE_BYTES as u64, 3 * PAGE_BYTES + PAGE_BYTES)];
    assert_eq!(*file.reads.borrow(), reads);
    let total = cache.stats().total;
    assert_eq!((total.hits, total.misses, total.pages), (0, 4, 4));
    // A page that stays holds no more memory than its own.
    let page = paged.cached_page(5).unwrap();
    assert!(
        page.capacity() == PAGE_BYTES && page[..] == file.content[5 * PAGE_BYTES..][..PAGE_BYTES]
    );
    assert_eq!(paged.cached_page(6).unwrap().len(), 100);

    // One page that is there or on its way, and it is for the reader to put the range together.
    let none =
        |first, count| block_on(paged.absent_range((first, count), Keep::All)).unwrap().is_none();
    assert!(none(0, 4) && none(2, 3) && none(6, 1) && none(0, 0));
    file.close_gate();
    let mut pool = LocalPool::new();
    let other = paged.clone();
    let coming = async move { other.absent_range((1, 1), Keep::All).await };
    let coming = pool.spawner().spawn_local_with_handle(coming).unwrap();
    pool.run_until_stalled();
    assert!(none(0, 3) && none(1, 1));
    file.open_gate();
    assert_eq!(pool.run_until(coming).unwrap().unwrap()[..], paged.cached_page(1).unwrap()[..]);
    assert_eq!(file.reads.borrow().len(), 2);
    assert!(matches!(block_on(paged.absent_range((5, 3), Keep::All)), Err(Error::Corrupt(_))));
}

#[test]
fn a_refused_page_is_not_kept() {
    let (cache, file) = (cache(8), MemoryFile::new(8, 3 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    let checked: Rc<RefCell<Vec<u64>>> = Rc::default();
    let log = checked.clone();
    paged.set_verifier(Box::new(move |number, content| {
        log.borrow_mut().push(number);
        assert_eq!(content.len(), PAGE_BYTES);
        match number {
            1 => Err(Error::corrupt("memory", PAGE_BYTES as u64, "a sum", "another")),
            _ => Ok(()),
        }
    }));
    assert!(block_on(paged.page(0)).is_ok());
    assert!(block_on(paged.page(0)).is_ok());
    assert!(block_on(paged.page(1)).is_err());
    assert!(block_on(paged.page(1)).is_err());
    assert!(block_on(paged.page_range(0, 3)).is_err());
    assert!(block_on(paged.read_uncached(2 * PAGE_BYTES as u64 + 7, 1)).is_ok());
    assert!(block_on(paged.read_uncached(PAGE_BYTES as u64 - 1, 2)).is_err());
    assert_eq!(*checked.borrow(), [0, 1, 1, 1, 2, 0, 1]);
    assert!(paged.cached_page(1).is_none());
}

#[test]
fn a_closed_file_takes_its_pages_along() {
    let (cache, file) = (cache(2000), MemoryFile::new(9, 1000 * PAGE_BYTES));
    let (gone, stays) = (paged(&cache, &file), paged(&cache, &file));
    block_on(gone.page_range(0, 1000)).unwrap();
    block_on(stays.page_range(0, 10)).unwrap();
    let held = block_on(gone.page(3)).unwrap();
    drop(gone);
    assert!(cache.stats().total.pages > 10, "a large file goes by and by");
    while cache.trim() {}
    assert_eq!(cache.stats().total.pages, 10);
    assert_eq!(held[..], file.content[3 * PAGE_BYTES..4 * PAGE_BYTES]);
    assert!((0..10).all(|number| stays.cached_page(number).is_some()));
}

/// Keeps everything or nothing, and notes which run each candidate is of.
struct Admission {
    keeps: bool,
    runs: Rc<RefCell<Vec<u16>>>,
}

impl AdmissionPolicy for Admission {
    fn name(&self) -> &str {
        "admission"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn wants_feedback(&self) -> bool {
        false
    }

    fn admit(
        &mut self,
        candidate: &AdmissionCandidate,
    ) -> std::result::Result<bool, PolicyFailure> {
        self.runs.borrow_mut().push(candidate.run);
        Ok(self.keeps)
    }

    fn feedback(&mut self, _: &[u64]) -> std::result::Result<(), PolicyFailure> {
        Ok(())
    }
}

#[test]
fn files_that_are_gone_take_nobodys_place_among_those_that_are_followed() {
    let (cache, file) = (cache(8), MemoryFile::new(11, 3 * PAGE_BYTES));
    let runs: Rc<RefCell<Vec<u16>>> = Rc::default();
    let policy = Admission { keeps: true, runs: runs.clone() };
    cache.set_admission(Some(("all".into(), Box::new(policy))));
    for _ in 0..3000 {
        block_on(paged(&cache, &file).page(0)).unwrap();
    }
    let last = paged(&cache, &file);
    runs.borrow_mut().clear();
    (0..3).for_each(|number| _ = block_on(last.page(number)).unwrap());
    assert_eq!(*runs.borrow(), [0, 1, 2], "how far a read in sequence has come");
}

#[test]
fn a_read_in_sequence_is_followed_in_either_direction() {
    let (cache, file) = (cache(16), MemoryFile::new(11, 9 * PAGE_BYTES));
    let runs: Rc<RefCell<Vec<u16>>> = Rc::default();
    let policy = Admission { keeps: true, runs: runs.clone() };
    cache.set_admission(Some(("all".into(), Box::new(policy))));
    let paged = paged(&cache, &file);
    for number in [2, 3, 4, 8, 7, 6, 0] {
        block_on(paged.page(number)).unwrap();
    }
    assert_eq!(*runs.borrow(), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn what_admission_refuses_is_a_miss_for_whoever_counts_them() {
    let (cache, file) = (cache(8), MemoryFile::new(12, 2 * PAGE_BYTES));
    let policy = Admission { keeps: false, runs: Rc::default() };
    cache.set_admission(Some(("none".into(), Box::new(policy))));
    let paged = paged(&cache, &file);
    for _ in 0..3 {
        block_on(paged.page(0)).unwrap();
    }
    let total = cache.stats().total;
    assert_eq!((total.pages, total.misses, total.refused), (0, 3, 3));
    assert_eq!(cache.policy_status().tally.misses, 3, "what policies are compared by");
}

#[test]
fn a_cache_without_room_still_reads() {
    let (cache, file) = (cache(0), MemoryFile::new(10, 3 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    assert_eq!(block_on(paged.read(10, 2 * PAGE_BYTES)).unwrap(), file.content[10..][..8192]);
    assert_eq!(cache.stats().bytes, 0);
}

#[test]
fn random_reads_equal_the_file_whatever_happens() {
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let cache = cache(8 + random.below(40) as usize);
        let files: Vec<_> = (0..3)
            .map(|number| {
                MemoryFile::new(seed * 10 + number, 100_000 + random.below(100_000) as usize)
            })
            .collect();
        let mut open: Vec<_> = files.iter().map(|file| paged(&cache, file)).collect();
        let mut held: Vec<(Page, usize, u64)> = Vec::new();
        for _ in 0..1500 {
            let which = random.below(3) as usize;
            let (file, paged_file) = (&files[which], open[which].clone());
            let size = file.content.len() as u64;
            let offset = random.below(size);
            let length = random.below((size - offset).min(20_000) + 1) as usize;
            let wanted = &file.content[offset as usize..offset as usize + length];
            file.failing.set(random.one_in(20));
            match random.below(12) {
                0..=4 => match block_on(paged_file.read(offset, length)) {
                    Ok(bytes) => assert_eq!(bytes, wanted),
                    Err(_) => assert!(file.failing.get()),
                },
                5 => match block_on(paged_file.read_uncached(offset, length)) {
                    Ok(bytes) => assert_eq!(bytes, wanted),
                    Err(_) => assert!(file.failing.get()),
                },
                6..=7 => {
                    let number = offset / PAGE_BYTES as u64;
                    if let Ok(page) = block_on(paged_file.page(number)) {
                        held.push((page, which, number));
                    }
                }
                8 => {
                    let pages = size.div_ceil(PAGE_BYTES as u64);
                    let first = random.below(pages);
                    let count = random.below(pages - first + 1);
                    if let Ok(range) = block_on(paged_file.page_range(first, count)) {
                        let bytes: Vec<u8> = range.iter().flat_map(|p| p.iter().copied()).collect();
                        let from = first as usize * PAGE_BYTES;
                        assert_eq!(bytes, file.content[from..][..bytes.len()]);
                        assert_eq!(range.len() as u64, count);
                    }
                }
                9 => {
                    cache.set_capacity_bytes(random.below(50) as usize * PAGE_BYTES);
                }
                10 if random.one_in(10) => {
                    drop(paged_file);
                    open[which] = paged(&cache, &files[which]);
                }
                10 if random.one_in(4) => {
                    cache
                        .begin_policy(Box::new(Lru::default()), PolicyIdentity::default())
                        .unwrap();
                }
                10 if random.one_in(4) => cache.end_policy(operator("test")),
                10 => {
                    cache.rollback_policy();
                }
                _ => {
                    cache.step_policy_swap(10);
                    if held.len() > 6 {
                        held.drain(..random.below(6) as usize);
                    }
                    // The cache learns of released pages when it next looks.
                    cache.trim();
                }
            }
            let stats = cache.stats();
            assert!(
                stats.bytes <= stats.capacity_bytes + (held.len() * PAGE_BYTES) as u64,
                "{stats:?}"
            );
            assert_eq!(stats.bytes, stats.total.pages * PAGE_BYTES as u64);
        }
        for (page, which, number) in held {
            let from = number as usize * PAGE_BYTES;
            assert_eq!(page[..], files[which].content[from..][..page.len()]);
        }
    }
}

#[test]
fn the_native_clock_serves_after_the_operator_ends_a_policy() {
    let (cache, file) = (cache(4), MemoryFile::new(11, 40 * PAGE_BYTES));
    let identity = PolicyIdentity { name: "lru".into(), ..Default::default() };
    cache.begin_policy(Box::new(Lru::default()), identity.clone()).unwrap();
    while cache.step_policy_swap(1) == SwapStep::Working {}
    assert_eq!(cache.policy_status().identity, identity);
    cache.end_policy(operator("ended by the operator"));
    let status = cache.policy_status();
    assert_eq!(status.state, PolicyState::Native);
    assert_eq!(status.failures[0].failure.message, "ended by the operator");
    let paged = paged(&cache, &file);
    for number in 0..40 {
        block_on(paged.page(number)).unwrap();
    }
    assert_eq!(cache.stats().total.evictions, 36);
}

#[test]
fn pages_of_a_piece_whose_rows_are_kept_come_in_the_second_time() {
    let (cache, file) = (cache(64), MemoryFile::new(14, 8 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    let read = |first| block_on(paged.absent_range((first, 3), Keep::SecondTime)).unwrap();
    let content = |first: usize| &file.content[first * PAGE_BYTES..][..3 * PAGE_BYTES];
    assert_eq!(read(0).unwrap()[..], *content(0));
    let counts = || cache.stats().total;
    assert_eq!((counts().pages, counts().misses, counts().passed), (0, 0, 3));
    // Another piece of the same pages is another.
    assert_eq!(read(1).unwrap()[..], *content(1));
    assert_eq!(counts().pages, 0);
    assert_eq!(read(0).unwrap()[..], *content(0));
    assert_eq!((counts().pages, counts().misses, counts().passed), (3, 3, 6));
    assert!(read(0).is_none(), "it is there");
    assert_eq!(paged.cached_page(2).unwrap()[..], content(0)[2 * PAGE_BYTES..]);

    // However many want one at once: the first reads it alone, and the second for all others.
    file.close_gate();
    let mut pool = LocalPool::new();
    let piece = |paged: &Rc<PagedFile>| {
        let paged = paged.clone();
        async move { paged.absent_range((4, 3), Keep::SecondTime).await }
    };
    let first = pool.spawner().spawn_local_with_handle(piece(&paged)).unwrap();
    pool.run_until_stalled();
    let second = pool.spawner().spawn_local_with_handle(piece(&paged)).unwrap();
    pool.run_until_stalled();
    assert!(pool.run_until(piece(&paged)).unwrap().is_none(), "it is on its way for the cache");
    let other = paged.clone();
    let page = async move { other.page(5).await };
    let page = pool.spawner().spawn_local_with_handle(page).unwrap();
    pool.run_until_stalled();
    file.open_gate();
    assert_eq!(pool.run_until(page).unwrap()[..], content(4)[PAGE_BYTES..2 * PAGE_BYTES]);
    for piece in [first, second] {
        assert_eq!(pool.run_until(piece).unwrap().unwrap()[..], *content(4));
    }
    assert_eq!((counts().pages, counts().joined, counts().passed), (6, 1, 9));
    assert_eq!(file.reads.borrow().len(), 5);
}

#[test]
fn one_read_of_the_disk_brings_256_pages_at_most() {
    let (cache, file) = (cache(2000), MemoryFile::new(16, 600 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    // First page and count of the reads since the last time.
    let reads = || -> Vec<(u64, usize)> {
        let in_pages = |(at, bytes): (u64, usize)| (at / PAGE_BYTES as u64, bytes / PAGE_BYTES);
        file.reads.take().into_iter().map(in_pages).collect()
    };
    assert!(block_on(paged.absent_range((0, 257), Keep::All)).unwrap().is_none());
    assert!(reads().is_empty(), "an I/O cannot bring so many");
    assert!(block_on(paged.read_uncached(0, 600 * PAGE_BYTES)).unwrap() == file.content);
    assert_eq!(reads(), [(0, 256), (256, 256), (512, 88)]);
    let piece = block_on(paged.absent_range((0, 256), Keep::All)).unwrap().unwrap();
    assert!(piece[..] == file.content[..256 * PAGE_BYTES]);
    assert_eq!(reads(), [(0, 256)]);
    let pages = block_on(paged.page_range(255, 345)).unwrap();
    assert_eq!(reads(), [(256, 256), (512, 88)], "255 is there");
    let mut wanted = file.content.chunks(PAGE_BYTES).skip(255);
    assert!(pages.iter().all(|page| Some(&page[..]) == wanted.next()) && wanted.next().is_none());
}

#[test]
fn a_file_is_read_to_its_last_byte_and_not_beyond() {
    let size = 2 * PAGE_BYTES + 100;
    let (cache, file) = (cache(8), MemoryFile::new(17, size));
    let paged = paged(&cache, &file);
    for (offset, length, is_there) in [
        (0, size, true),
        (0, size + 1, false),
        (0, 0, true),
        (PAGE_BYTES - 1, 2, true),
        (2 * PAGE_BYTES, 100, true),
        (2 * PAGE_BYTES, 101, false),
        (size - 1, 1, true),
        (size, 0, true),
        (size, 1, false),
        (size + 1, 0, false),
        (usize::MAX, 1, false),
    ] {
        let at = offset as u64;
        for read in [block_on(paged.read(at, length)), block_on(paged.read_uncached(at, length))] {
            let told = format!("{length} bytes at {offset}");
            assert_eq!(read.is_ok(), is_there, "{told}");
            match read {
                Ok(bytes) => assert!(bytes == file.content[offset..][..length], "{told}"),
                Err(error) => assert!(matches!(error, Error::Corrupt(_)), "{told}: {error}"),
            }
        }
    }
    for (first, count, is_there) in [
        (0, 3, true),
        (0, 4, false),
        (2, 1, true),
        (3, 0, true),
        (3, 1, false),
        (4, 0, false),
        (u64::MAX, 2, false),
    ] {
        let pages = block_on(paged.page_range(first, count));
        let found = pages.map(|pages| pages.len() as u64).ok();
        assert_eq!(found, is_there.then_some(count), "{count} pages from {first}");
    }
    assert_eq!(block_on(paged.page(2)).unwrap().len(), 100);
    assert!(matches!(block_on(paged.page(3)), Err(Error::Corrupt(_))));
}

#[test]
fn pages_are_counted_for_a_read_by_where_they_came_from() {
    let (cache, file) = (cache(64), MemoryFile::new(18, 60 * PAGE_BYTES));
    let paged = paged(&cache, &file);
    // Pages that were in memory, were read, were on their way.
    let counted = |work: &dyn Fn()| {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Counts);
        let probe = watch.read(Arc::new("ks.t")).on(0);
        Probed::new(Some(probe.clone())).within(work);
        [Count::PagesCached, Count::PagesRead, Count::PagesJoined].map(|what| probe.stats()[what])
    };
    let page = |number| _ = block_on(paged.page(number)).unwrap();
    let range = |first, count| _ = block_on(paged.page_range(first, count)).unwrap();
    let piece = |first, keep| _ = block_on(paged.absent_range((first, 3), keep)).unwrap();
    assert_eq!(counted(&|| page(7)), [0, 1, 0]);
    assert_eq!(counted(&|| page(7)), [1, 0, 0]);
    assert_eq!(counted(&|| range(5, 4)), [1, 3, 0], "7 is there");
    assert_eq!(counted(&|| range(5, 4)), [4, 0, 0]);
    assert_eq!(counted(&|| piece(20, Keep::All)), [0, 3, 0]);
    assert_eq!(counted(&|| piece(20, Keep::All)), [0, 0, 0], "it is for the reader to ask again");
    for wanted in [[0, 3, 0], [0, 3, 0], [0, 0, 0]] {
        assert_eq!(counted(&|| piece(30, Keep::SecondTime)), wanted);
    }
    let start = 40 * PAGE_BYTES as u64;
    assert_eq!(counted(&|| _ = block_on(paged.read_uncached(start, 4097)).unwrap()), [0, 2, 0]);
    assert_eq!(counted(&|| _ = block_on(paged.read(start, 4097)).unwrap()), [0, 2, 0]);
    assert_eq!(counted(&|| _ = block_on(paged.read(start + 9, 9)).unwrap()), [1, 0, 0]);
    assert_eq!(counted(&|| assert!(paged.cached_page(59).is_none())), [0, 0, 0]);
    assert_eq!(counted(&|| assert!(paged.is_cached(7))), [0, 0, 0], "this is no use");

    file.close_gate();
    let mut pool = LocalPool::new();
    let [first, second] = [paged.clone(), paged.clone()];
    let first = async move { first.page(50).await };
    let first = pool.spawner().spawn_local_with_handle(first).unwrap();
    pool.run_until_stalled();
    let watch = Watch::new(SimulatedClock::new(0), Detail::Counts);
    let probe = watch.read(Arc::new("ks.t")).on(0);
    let range = async move { second.page_range(49, 3).await };
    let second = Probed::new(Some(probe.clone())).run(range);
    let second = pool.spawner().spawn_local_with_handle(second).unwrap();
    pool.run_until_stalled();
    file.open_gate();
    assert_eq!(pool.run_until(first).unwrap()[..], pool.run_until(second).unwrap()[1][..]);
    let stats = probe.stats();
    let found = (stats[Count::PagesRead], stats[Count::PagesJoined], stats[Count::PagesCached]);
    assert_eq!(found, (2, 1, 0), "49 and 51 are read, 50 is on its way");
}

#[test]
fn a_recording_has_each_read_once_with_its_kind_its_size_and_whether_it_was_there() {
    let (cache, file) = (cache(64), MemoryFile::new(19, 8 * PAGE_BYTES));
    let (page, piece) = (EntryKind::IndexPage, EntryKind::PartitionIndexPage);
    let paged = block_on(PagedFile::with_kind(cache.clone(), file.clone(), page, 3)).unwrap();
    let pieces = ParsedFile::new(cache.clone(), piece, 3);
    block_on(paged.page(0)).unwrap();
    cache.start_recording(Recorder::new(SimulatedClock::new(0), 0));
    for number in [0, 1, 1] {
        block_on(paged.page(number)).unwrap();
    }
    block_on(paged.page_range(1, 2)).unwrap();
    pieces.insert(9, Rc::new(7_u64), 100);
    assert!(pieces.get(9).is_some() && pieces.get(10).is_none());
    file.close_gate();
    let all = join3(paged.page(5), paged.page(5), async { file.open_gate() });
    let (first, second, ()) = block_on(all);
    assert!(first.is_ok() && second.is_ok());
    let (requests, lost) = cache.take_recorded(Vec::new());
    let read = |kind: EntryKind, size_bytes: u32, is_hit: bool| (kind as u8, size_bytes, is_hit);
    let pages = [true, false, true, true, false].map(|is_hit| read(page, 4096, is_hit));
    let pieces = [false, true].map(|is_hit| read(piece, 100, is_hit));
    // Who waits for a page finds it, before it has come for the cache.
    let joined = [true, false].map(|is_hit| read(page, 4096, is_hit));
    let found = requests.iter().map(|read| (read.kind, read.size_bytes, read.is_hit));
    assert_eq!(found.collect::<Vec<_>>(), [&pages[..], &pieces, &joined].concat());
    let ids: Vec<u64> = requests.iter().map(|read| read.id).collect();
    assert!(ids[1] == ids[2] && ids[2] == ids[3] && ids[0] != ids[1] && ids[3] != ids[4]);
    assert_eq!((lost, ids[5] == ids[6], ids[7] == ids[8]), (0, true, true));
    cache.stop_recording();
    block_on(paged.page(0)).unwrap();
    assert_eq!(cache.take_recorded(Vec::new()), (Vec::new(), 0));
}
