//! The stream of fragments that a read of one SSTable gives.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

use futures::future::LocalBoxFuture;

use super::damage::DamageLog;
use super::partition_reader::{Front, PartitionReader, Progress};
use super::plan::ReadPlan;
use super::sstable::Sstable;
use crate::config::{FILL_BYTES_MAX, FRAGMENTS_PER_FILL_MAX};
use crate::error::{Error, Result};
use crate::mutation::fragment::rows_in;
use crate::mutation::{Fragment, FragmentSource, PartitionRange, Slice};
use crate::probe::{self, Count};
use crate::runtime;
use crate::schema::{PartitionKey, Token};
use crate::sstable::data::file::Access;
use crate::sstable::data::window::{Content, Window};
use crate::sstable::index::index_page::Entry;
use crate::sstable::index::partition_index::{find, read_entry};

/// Fragments of the first fills of one partition, and up to how many there are such: a page of rows
/// costs little more than its rows.
const FRAGMENTS_FIRST: usize = 16;
const FRAGMENTS_SHORT_MAX: usize = 128;

/// Which partition comes next.
enum Next {
    Key(PartitionKey),
    /// Entries from `at` on whose token lies between two.
    Scan {
        at: u64,
        min: Token,
        max: Token,
        last_position: Option<u64>,
    },
    Done,
}

/// A read of one SSTable: single partitions through the page cache, ranges past it.
struct SstableSource {
    table: Rc<Sstable>,
    slice: Rc<Slice>,
    next: Next,
    index: Window,
    data: Window,
    partition: Option<PartitionReader>,
    /// Where damage is noted that the read goes on behind; without it damage ends the read.
    damage: Option<Rc<DamageLog>>,
    /// The place that was noted last.
    noted: Option<Box<(PathBuf, u64)>>,
    is_single: bool,
    is_flat: bool,
    announces: bool,
    /// Fragments of a fill.
    fill_max: usize,
    emitted: usize,
}

impl Sstable {
    /// Reads what a plan asks for, in the direction of its slice; `None` when certainly nothing of
    /// that is here.
    pub fn read(self: &Rc<Self>, plan: &ReadPlan<'_>) -> Option<Box<dyn FragmentSource>> {
        let may_have = match (&plan.key, plan.range) {
            (Some(key), _) => self.may_contain(key),
            (None, PartitionRange::Tokens { min, max }) => {
                let (first, last) = (self.first_key().token(), self.last_key().token());
                first <= *max && *min <= last && min <= max
            }
            (None, PartitionRange::Single(_)) => true,
        };
        if may_have {
            probe::count(Count::SstableReads, 1);
            self.note_read(if plan.key.is_some() { "a partition" } else { "its partitions" });
        } else {
            probe::count(Count::SstablesPassed, 1);
            self.note_read("nothing, by filter or range of keys");
        }
        may_have.then(|| Box::new(SstableSource::new(self.clone(), plan)) as _)
    }
}

impl SstableSource {
    /// A read of what the table may have.
    fn new(table: Rc<Sstable>, plan: &ReadPlan<'_>) -> Self {
        let ReadPlan { range, slice, caching, on_damage, is_flat, looks_ahead, .. } = plan;
        debug_assert!(
            slice.ranges.is_sorted_by(|a, b| a.end <= b.start),
            "ranges of a read are not in order: {:?}",
            slice.ranges
        );
        let (is_single, next) = match range {
            PartitionRange::Single(key) => (true, Next::Key(key.clone())),
            PartitionRange::Tokens { min, max } => {
                let at = table.summary.page_of_token(min.0);
                (false, Next::Scan { at, min: *min, max: *max, last_position: None })
            }
        };
        let (index_access, data_access) = match is_single {
            true => (Access::Cached, *caching),
            false => (Access::Scan, Access::Scan),
        };
        SstableSource {
            index: Window::new(Content::Plain(table.index.clone()), index_access),
            // A compaction leaves the disk to queries.
            data: Window::new(table.data.clone(), data_access).looking_ahead(*looks_ahead),
            table,
            slice: Rc::new((*slice).clone()),
            next,
            partition: None,
            damage: on_damage.clone(),
            noted: None,
            is_single,
            is_flat: *is_flat,
            announces: false,
            fill_max: FRAGMENTS_PER_FILL_MAX,
            emitted: 0,
        }
    }

    async fn next_entry(&mut self) -> Result<Option<Entry>> {
        match &mut self.next {
            Next::Done => Ok(None),
            Next::Key(key) => {
                let table = &self.table;
                let (is_reversed, ranges) =
                    (self.slice.direction.is_reversed(), &self.slice.ranges);
                let from_end = is_reversed && ranges.last().is_some_and(|range| range.end.is_end());
                let from_end = from_end.then_some(&*table.layout);
                let index = &mut self.index;
                let found = find(&table.summary, index, &table.pages, (&*key, from_end)).await?;
                self.next = Next::Done;
                Ok(found)
            }
            Next::Scan { at, min, max, last_position } => {
                while *at < self.table.index.size() {
                    let entry = read_entry(&mut self.index, *at, u64::MAX).await?;
                    assert!(entry.next > *at, "a scan stays at {at} of the index");
                    if last_position.is_some_and(|last| entry.place.start <= last) {
                        let wanted = format!("a position beyond {last_position:?}");
                        let path = self.table.index.path();
                        return Err(Error::corrupt(path, *at, wanted, entry.place.start));
                    }
                    *last_position = Some(entry.place.start);
                    *at = entry.next;
                    let token = entry.key.token();
                    if token > *max {
                        break;
                    }
                    if token >= *min && self.table.has(token) {
                        return Ok(Some(entry));
                    }
                    // Many may follow one another of which none counts.
                    runtime::maybe_yield().await;
                }
                self.next = Next::Done;
                Ok(None)
            }
        }
    }

    /// As `next_entry`, going on at the next page of the index where one is damaged.
    async fn next_readable_entry(&mut self) -> Result<Option<Entry>> {
        loop {
            let error = match (self.next_entry().await, &self.damage) {
                (Err(error @ Error::Corrupt(_)), Some(_)) => error,
                (entry, _) => return entry,
            };
            if self.is_first_try(|source| &mut source.index, &error) {
                continue;
            }
            if let Next::Scan { at, .. } = &mut self.next
                && let Some(next) = self.table.summary.page_behind(*at)
            {
                *at = next;
            } else {
                self.next = Next::Done;
                return Ok(None);
            }
            self.index.set_careful(false);
        }
    }

    /// Whether damage may lie ahead of what is needed: then the window reads no further than it
    /// must from now on. If not, the damage is noted.
    fn is_first_try(
        &mut self,
        window: impl FnOnce(&mut Self) -> &mut Window,
        error: &Error,
    ) -> bool {
        let window = window(self);
        if !window.is_careful() {
            window.set_careful(true);
            return true;
        }
        // Every block of a damaged page fails at the same place: a read has met it once.
        if let (Some(damage), Error::Corrupt(corruption)) = (&self.damage, error) {
            let place = (corruption.file.clone(), corruption.offset);
            if self.noted.as_deref() != Some(&place) {
                damage.add(error, true);
                self.noted = Some(Box::new(place));
            }
        }
        false
    }

    /// Begins a partition.
    async fn open(&mut self, entry: Entry, out: &mut VecDeque<Fragment>) -> Result<()> {
        if self.damage.is_some() {
            // Rare: a read that takes less memory is worth the allocation.
            return Box::pin(self.open_any_way(entry, out)).await;
        }
        let layout = self.table.layout.clone();
        let files = (&self.table.index, &mut self.data);
        let front = Front::new(entry, false);
        self.partition = Some(PartitionReader::open(layout, front, &self.slice, files, out).await?);
        Ok(())
    }

    /// As [`Self::open`], of a partition whose front may be damaged.
    async fn open_any_way(&mut self, entry: Entry, out: &mut VecDeque<Fragment>) -> Result<()> {
        let layout = self.table.layout.clone();
        self.data.set_careful(false);
        let before = out.len();
        // As it should be; by the promoted index alone; without it.
        let mut fronts = VecDeque::from(Front::ways(&entry));
        while let Some(front) = fronts.pop_front() {
            let files = (&self.table.index, &mut self.data);
            let again = front.clone();
            let opened =
                PartitionReader::open(layout.clone(), front, &self.slice, files, out).await;
            match opened {
                Ok(partition) => {
                    self.partition = Some(partition);
                    return Ok(());
                }
                Err(error @ Error::Corrupt(_)) => {
                    out.truncate(before);
                    if self.is_first_try(|source| &mut source.data, &error) {
                        fronts.push_front(again);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // The partition is lost.
        Ok(())
    }

    async fn fill_some(&mut self, out: &mut VecDeque<Fragment>) -> Result<()> {
        let start = out.len();
        let is_first = self.is_single && self.emitted < FRAGMENTS_SHORT_MAX;
        let goal = start + if is_first { FRAGMENTS_FIRST } else { self.fill_max };
        let filled = self.fill_up_to((start, goal), out).await;
        probe::count_by(Count::SstableRows, || rows_in(out.range(start.min(out.len())..)));
        assert!(out.len() >= start, "a fill took away what was there: {start}, {}", out.len());
        self.emitted += out.len() - start;
        if filled.is_err() {
            self.partition = None;
        }
        filled
    }

    async fn fill_up_to(
        &mut self,
        (start, goal): (usize, usize),
        out: &mut VecDeque<Fragment>,
    ) -> Result<()> {
        let (mut counted, mut bytes) = (start, 0);
        while out.len() < goal {
            // Partitions may be long rows each: what was made so far is taken first.
            let made = out.range(counted.min(out.len())..);
            bytes += made.map(Fragment::memory_bytes).sum::<usize>();
            counted = out.len();
            if bytes >= FILL_BYTES_MAX {
                return Ok(());
            }
            // The partition is read where it lies: it is long.
            let Some(partition) = &mut self.partition else {
                let Some(entry) = self.next_readable_entry().await? else { return Ok(()) };
                self.open(entry, out).await?;
                if let Some(partition) = &mut self.partition {
                    (partition.announces, partition.is_flat) = (self.announces, self.is_flat);
                }
                continue;
            };
            match partition.step(&mut self.data, out, (start, goal)).await {
                Ok(Progress::Done) => {
                    self.partition = None;
                    // Other sources may have rows of the partition for long.
                    self.data.let_go_of_long();
                    out.push_back(Fragment::PartitionEnd);
                }
                Ok(Progress::WouldRead) => return Ok(()),
                Ok(Progress::Enough) => {}
                Err(error @ Error::Corrupt(_)) if self.damage.is_some() => {
                    if !self.is_first_try(|source| &mut source.data, &error)
                        && let Some(partition) = &mut self.partition
                    {
                        Box::pin(partition.salvage(&mut self.data, out)).await?;
                        self.data.set_careful(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl FragmentSource for SstableSource {
    fn join_merge(&mut self, inputs: usize) {
        assert!(inputs > 0 && self.emitted == 0, "a source joins a merge before its first fill");
        self.announces = true;
        self.fill_max = (FRAGMENTS_PER_FILL_MAX / inputs).max(FRAGMENTS_FIRST);
    }

    fn skip_partition(&mut self) {
        assert!(self.partition.is_some(), "the partition that is left out is none of this file");
        self.partition = None;
        self.data.let_go_of_long();
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(self.fill_some(out))
    }
}
