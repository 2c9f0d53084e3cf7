//! Turns a merged fragment stream into the live rows that a query sees.
//!
//! Invariant: a row is handed out only if something in it is live at the query's instant, with
//! everything that a tombstone covers taken away.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::error::Result;
use crate::mutation::{Filled, FlatRow, Fragment, FragmentSource, Row, Tombstone};
use crate::schema::{ClusteringKey, PartitionKey};

/// One row as a query sees it. Cells may still be expired: read them with `Cell::value_at`.
#[derive(Debug, Clone)]
pub struct LiveRow {
    pub partition: Rc<PartitionKey>,
    pub content: LiveContent,
    pub static_row: Option<Rc<Row>>,
}

/// The content of a row that a query sees.
#[derive(Debug, Clone)]
pub enum LiveContent {
    Row {
        key: Rc<ClusteringKey>,
        row: Rc<Row>,
    },
    /// As the cache keeps it, without multi-cell columns.
    Flat(FlatRow),
    /// A partition that has static columns only.
    StaticOnly,
}

/// See the head of this file.
pub struct QueryReader {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    now_seconds: i32,
    /// Give a partition without live rows one row if its static row is live.
    show_static_only: bool,
    partition: Option<Open>,
}

struct Open {
    key: Rc<PartitionKey>,
    deletion: Option<Tombstone>,
    in_force: Option<Tombstone>,
    static_row: Option<Rc<Row>>,
    has_rows: bool,
}

impl Open {
    #[inline]
    fn row(&mut self, content: LiveContent) -> LiveRow {
        self.has_rows = true;
        LiveRow { partition: self.key.clone(), content, static_row: self.static_row.clone() }
    }
}

impl QueryReader {
    /// Reads `source` as of `now_seconds`.
    pub fn new(source: Box<dyn FragmentSource>, now_seconds: i32, show_static_only: bool) -> Self {
        QueryReader {
            source,
            buffer: VecDeque::new(),
            now_seconds,
            show_static_only,
            partition: None,
        }
    }

    /// The next row already in memory, without I/O: `Ok(None)` means `refill` first.
    pub fn next_buffered(&mut self) -> Option<LiveRow> {
        while let Some(fragment) = self.buffer.pop_front() {
            if let Some(row) = self.take(fragment) {
                return Some(row);
            }
        }
        None
    }

    /// Pulls more fragments; false at the end of the stream.
    pub async fn refill(&mut self) -> Result<bool> {
        if self.source.fill_now(&mut self.buffer) == Filled::Waits {
            self.source.fill(&mut self.buffer).await?;
        }
        Ok(!self.buffer.is_empty())
    }

    fn take(&mut self, fragment: Fragment) -> Option<LiveRow> {
        match fragment {
            Fragment::PartitionStart { key, deletion } => {
                self.partition =
                    Some(Open { key, deletion, in_force: None, static_row: None, has_rows: false });
                None
            }
            Fragment::StaticRow(row) => {
                let open = self.partition.as_mut().expect("a static row stands in a partition");
                open.static_row = live(row, open.deletion, self.now_seconds);
                None
            }
            Fragment::RangeTombstoneChange { tombstone, .. } => {
                let open = self.partition.as_mut().expect("a change stands in a partition");
                open.in_force = tombstone;
                None
            }
            Fragment::Row { key, row } => {
                let open = self.partition.as_mut().expect("a row stands in a partition");
                let covering = open.deletion.max(open.in_force);
                let row = live(row, covering, self.now_seconds)?;
                Some(open.row(LiveContent::Row { key, row }))
            }
            Fragment::FlatRow(flat) => {
                let open = self.partition.as_mut().expect("a row stands in a partition");
                let covering = open.deletion.max(open.in_force);
                if flat.has_multi()
                    || covering.is_some_and(|tombstone| flat.is_touched_by(tombstone))
                {
                    return self.take(Fragment::FlatRow(flat).thawed());
                }
                flat.is_live_at(self.now_seconds).then(|| open.row(LiveContent::Flat(flat)))
            }
            Fragment::PartitionEnd => {
                let open = self.partition.take().expect("a partition began before it ends");
                let static_row = open.static_row?;
                (self.show_static_only && !open.has_rows).then(|| LiveRow {
                    partition: open.key,
                    content: LiveContent::StaticOnly,
                    static_row: Some(static_row),
                })
            }
        }
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
