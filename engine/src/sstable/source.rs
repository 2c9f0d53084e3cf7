//! The stream of fragments that a read of one SSTable gives.

use std::collections::VecDeque;
use std::rc::Rc;

use futures::future::LocalBoxFuture;

use super::file::Access;
use super::partition_index::{Entry, find, read_entry};
use super::partition_reader::{PartitionReader, Progress};
use super::sstable::Sstable;
use super::window::{Content, Window};
use crate::config::FRAGMENTS_PER_FILL_MAX;
use crate::error::{Error, Result};
use crate::mutation::{Fragment, FragmentSource, PartitionRange, Position, Slice};
use crate::schema::{PartitionKey, Token};

/// Fragments of the first fills of one partition, and up to how many there are such: a page of rows
/// costs little more than its rows.
const FRAGMENTS_FIRST: usize = 16;
const FRAGMENTS_SHORT_MAX: usize = 128;

/// Which partition comes next.
enum Plan {
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
pub(super) struct SstableSource {
    table: Rc<Sstable>,
    slice: Slice,
    plan: Plan,
    index: Window,
    data: Window,
    partition: Option<PartitionReader>,
    is_single: bool,
    emitted: usize,
}

impl SstableSource {
    pub(super) fn new(table: Rc<Sstable>, range: &PartitionRange, slice: &Slice) -> Self {
        let (plan, access) = match range {
            PartitionRange::Single(key) if table.may_contain(key) => {
                (Plan::Key(key.clone()), Access::Cached)
            }
            PartitionRange::Single(_) => (Plan::Done, Access::Cached),
            PartitionRange::Tokens { min, max } => {
                let info = table.info();
                let is_outside =
                    *max < info.first_key.token() || *min > info.last_key.token() || min > max;
                let at = table.summary.page_of_token(min.0);
                let plan = Plan::Scan { at, min: *min, max: *max, last_position: None };
                (if is_outside { Plan::Done } else { plan }, Access::Scan)
            }
        };
        SstableSource {
            index: Window::new(Content::Plain(table.index.clone()), access),
            data: Window::new(table.data.clone(), access),
            table,
            slice: slice.clone(),
            plan,
            partition: None,
            is_single: access == Access::Cached,
            emitted: 0,
        }
    }

    async fn next_entry(&mut self) -> Result<Option<Entry>> {
        match &mut self.plan {
            Plan::Done => Ok(None),
            Plan::Key(key) => {
                let table = &self.table;
                let (is_reversed, ranges) =
                    (self.slice.direction.is_reversed(), &self.slice.ranges);
                let from_end =
                    is_reversed && ranges.last().is_some_and(|range| range.end == Position::end());
                let index = &mut self.index;
                let found = find(&table.summary, index, &table.pages, (&*key, from_end)).await?;
                self.plan = Plan::Done;
                Ok(found)
            }
            Plan::Scan { at, min, max, last_position } => {
                while *at < self.table.index.size() {
                    let entry = read_entry(&mut self.index, *at, u64::MAX).await?;
                    if last_position.is_some_and(|last| entry.data_position <= last) {
                        let wanted = format!("a position beyond {last_position:?}");
                        let path = self.table.index.path();
                        return Err(Error::corrupt(path, *at, wanted, entry.data_position));
                    }
                    *last_position = Some(entry.data_position);
                    *at = entry.next;
                    let token = entry.key.token();
                    if token > *max {
                        break;
                    }
                    if token >= *min {
                        return Ok(Some(entry));
                    }
                }
                self.plan = Plan::Done;
                Ok(None)
            }
        }
    }

    async fn fill_some(&mut self, out: &mut VecDeque<Fragment>) -> Result<()> {
        let start = out.len();
        let is_first = self.is_single && self.emitted < FRAGMENTS_SHORT_MAX;
        let goal = start + if is_first { FRAGMENTS_FIRST } else { FRAGMENTS_PER_FILL_MAX };
        let filled = self.fill_up_to((start, goal), out).await;
        self.emitted = self.emitted.saturating_add(out.len() - start);
        filled
    }

    async fn fill_up_to(
        &mut self,
        (start, goal): (usize, usize),
        out: &mut VecDeque<Fragment>,
    ) -> Result<()> {
        while out.len() < goal {
            match self.partition.take() {
                Some(mut partition) => {
                    let progress = partition.step(&mut self.data, out, (start, goal)).await?;
                    if progress == Progress::Done {
                        out.push_back(Fragment::PartitionEnd);
                        continue;
                    }
                    self.partition = Some(partition);
                    if progress == Progress::WouldRead {
                        return Ok(());
                    }
                }
                None => {
                    let Some(entry) = self.next_entry().await? else { return Ok(()) };
                    let layout = self.table.layout.clone();
                    let files = (&self.table.index, &mut self.data);
                    let opened =
                        PartitionReader::open(layout, entry, &self.slice, files, out).await?;
                    self.partition = Some(opened);
                }
            }
        }
        Ok(())
    }
}

impl FragmentSource for SstableSource {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(self.fill_some(out))
    }
}
