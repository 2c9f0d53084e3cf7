//! Turns a merged fragment stream into the live rows that a query sees.
//!
//! Invariant: a row is handed out only if something in it is live at the query's instant, with
//! everything that a tombstone covers taken away.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::config::{FRAGMENTS_PER_FILL_MAX, PASS_BYTES_MAX};
use crate::error::Result;
use crate::mutation::{Filled, FlatRow, Fragment, FragmentSink, FragmentSource, Row, Tombstone};
use crate::schema::{ClusteringKey, PartitionKey};

/// One row as a query sees it. Cells may still be expired: read them with `Cell::value_at`.
#[derive(Debug, Clone, Copy)]
pub struct LiveRow<'a> {
    pub partition: &'a Rc<PartitionKey>,
    pub content: LiveContent<'a>,
    pub static_row: Option<&'a Row>,
}

/// The content of a row that a query sees.
#[derive(Debug, Clone, Copy)]
pub enum LiveContent<'a> {
    Row {
        key: &'a ClusteringKey,
        row: &'a Row,
    },
    /// As the cache keeps it, without multi-cell columns.
    Flat(&'a FlatRow),
    /// A partition that has static columns only.
    StaticOnly,
}

/// Takes live rows; says whether it wants more.
pub type TakeRow<'t> = dyn FnMut(LiveRow<'_>) -> Result<bool> + 't;

/// How far a reader went without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulled {
    /// As far as was wanted, or as far as is good in one turn: pull again.
    Some,
    /// To the end of the stream.
    End,
    /// To where it has to wait: refill, then pull again.
    Waits,
}

/// See the head of this file.
pub struct QueryReader {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    view: View,
}

/// What is known at a place of the stream.
struct View {
    now_seconds: i32,
    /// Give a partition without live rows one row if its static row is live.
    show_static_only: bool,
    partition: Option<Open>,
}

struct Open {
    key: Rc<PartitionKey>,
    deletion: Option<Tombstone>,
    /// The stronger of the partition's deletion and the range tombstone in force.
    covering: Option<Tombstone>,
    static_row: Option<Rc<Row>>,
    has_rows: bool,
}

impl Open {
    #[inline]
    fn give(&mut self, content: LiveContent<'_>, take: &mut TakeRow<'_>) -> Result<bool> {
        self.has_rows = true;
        take(LiveRow { partition: &self.key, content, static_row: self.static_row.as_deref() })
    }
}

impl QueryReader {
    /// Reads `source` as of `now_seconds`.
    pub fn new(source: Box<dyn FragmentSource>, now_seconds: i32, show_static_only: bool) -> Self {
        let view = View { now_seconds, show_static_only, partition: None };
        QueryReader { source, buffer: VecDeque::new(), view }
    }

    /// Hands the next rows to `take`, as far as they are in memory and as long as it wants more.
    /// Rows that only the row cache has are handed over where they lie.
    ///
    /// Errors: those of `take`.
    pub fn pull(&mut self, take: &mut TakeRow<'_>) -> Result<Pulled> {
        while let Some(fragment) = self.buffer.pop_front() {
            if !self.view.fragment(fragment, take)? {
                return Ok(Pulled::Some);
            }
        }
        let view = &mut self.view;
        let mut pass = Pass {
            view,
            take,
            fragments_left: FRAGMENTS_PER_FILL_MAX,
            bytes_left: PASS_BYTES_MAX,
            failed: None,
        };
        let filled = self.source.pass_now(&mut pass);
        match pass.failed {
            Some(error) => Err(error),
            None => Ok(match filled {
                Filled::Some => Pulled::Some,
                Filled::End => Pulled::End,
                Filled::Waits => Pulled::Waits,
            }),
        }
    }

    /// Pulls more fragments; false at the end of the stream.
    pub async fn refill(&mut self) -> Result<bool> {
        if self.source.fill_now(&mut self.buffer) == Filled::Waits {
            self.source.fill(&mut self.buffer).await?;
        }
        Ok(!self.buffer.is_empty())
    }
}

impl View {
    fn open(&mut self) -> &mut Open {
        self.partition.as_mut().expect("it stands in a partition")
    }

    /// Takes note of a fragment, and hands over a row that it makes visible.
    fn fragment(&mut self, fragment: Fragment, take: &mut TakeRow<'_>) -> Result<bool> {
        let now_seconds = self.now_seconds;
        match fragment {
            Fragment::PartitionStart { key, deletion } => {
                let covering = deletion;
                let open = Open { key, deletion, covering, static_row: None, has_rows: false };
                self.partition = Some(open);
                Ok(true)
            }
            Fragment::StaticRow(row) => {
                let open = self.open();
                open.static_row = live(row, open.deletion, now_seconds);
                Ok(true)
            }
            Fragment::RangeTombstoneChange { tombstone, .. } => {
                let open = self.open();
                open.covering = open.deletion.max(tombstone);
                Ok(true)
            }
            Fragment::Row { key, row } => {
                let open = self.open();
                match live(row, open.covering, now_seconds) {
                    Some(row) => open.give(LiveContent::Row { key: &key, row: &row }, take),
                    None => Ok(true),
                }
            }
            Fragment::FlatRow(flat) => self.flat(&flat, take),
            Fragment::PartitionEnd => {
                let open = self.partition.take().expect("a partition began before it ends");
                match open.static_row.as_deref() {
                    Some(static_row) if self.show_static_only && !open.has_rows => take(LiveRow {
                        partition: &open.key,
                        content: LiveContent::StaticOnly,
                        static_row: Some(static_row),
                    }),
                    _ => Ok(true),
                }
            }
        }
    }

    #[inline]
    fn flat(&mut self, flat: &FlatRow, take: &mut TakeRow<'_>) -> Result<bool> {
        let now_seconds = self.now_seconds;
        let open = self.open();
        if flat.has_multi() || open.covering.is_some_and(|tombstone| flat.is_touched_by(tombstone))
        {
            return self.fragment(Fragment::FlatRow(flat.clone()).thawed(), take);
        }
        match flat.is_live_at(now_seconds) {
            true => open.give(LiveContent::Flat(flat), take),
            false => Ok(true),
        }
    }
}

/// One turn of a source that hands over what is in memory.
struct Pass<'p, 't> {
    view: &'p mut View,
    take: &'p mut TakeRow<'t>,
    fragments_left: usize,
    bytes_left: usize,
    failed: Option<crate::error::Error>,
}

impl Pass<'_, '_> {
    #[inline]
    fn wants_more(&mut self, taken: Result<bool>, bytes: usize) -> bool {
        self.fragments_left = self.fragments_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        match taken {
            Ok(wants_more) => wants_more && self.fragments_left > 0 && self.bytes_left > 0,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }
}

impl FragmentSink for Pass<'_, '_> {
    fn row(&mut self, flat: &FlatRow) -> bool {
        let taken = self.view.flat(flat, self.take);
        self.wants_more(taken, flat.memory_bytes())
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        let taken = self.view.fragment(fragment, self.take);
        self.wants_more(taken, 0)
    }
}

/// The row without what `covering` deletes, if anything of it is live.
fn live(mut row: Rc<Row>, covering: Option<Tombstone>, now_seconds: i32) -> Option<Rc<Row>> {
    if let Some(tombstone) = covering
        && row.is_touched_by(tombstone)
    {
        Rc::make_mut(&mut row).apply_tombstone(tombstone);
    }
    row.is_live_at(now_seconds).then_some(row)
}
