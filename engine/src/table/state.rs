//! What a row is as of now, for a write that depends on it: what a reader sees of it, and how new
//! the newest thing is that has to do with it, tombstones included.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::table::Table;
use crate::error::{Error, Result};
use crate::mutation::{
    ClusteringRange, Direction, Filled, Fragment, FragmentSource, PartitionRange, RowForm, Slice,
};
use crate::reader::{LiveContent, LiveRows, QueryReader, RowKey, RowState, RowValues};
use crate::runtime;
use crate::schema::{ClusteringKey, PartitionKey};

impl Table {
    /// Reads a row of a partition, or without a key its static row, as a reader at `now_seconds`
    /// sees it.
    ///
    /// Errors: `Invalid` for a key that lacks columns and where stored bytes are no value of their
    /// column; `Io`, `Corrupt`.
    pub async fn row_state(
        self: Rc<Self>,
        partition: PartitionKey,
        row: Option<ClusteringKey>,
        now_seconds: i32,
    ) -> Result<RowState> {
        let schema = self.schema();
        if row.as_ref().is_some_and(|row| !self.clustering.is_whole(row)) {
            let name = schema.full_name();
            return Err(Error::invalid(format!("a row of {name} has a key of all its columns")));
        }
        // Without a range a read gives the front of the partition alone.
        let ranges = row.iter().cloned().map(ClusteringRange::prefix).collect();
        let slice = Slice { ranges, direction: Direction::Forward };
        let range = PartitionRange::Single(partition.clone());
        let state = Rc::new(RefCell::new(RowState::default()));
        let source = Noting { source: self.read(&range, &slice, false), state: state.clone() };
        let reader = QueryReader::new(Box::new(source), now_seconds, true);
        let mut reader = reader.without(self.dropped_cells());
        let key = RowKey { partition, clustering: row.unwrap_or_else(ClusteringKey::empty) };
        let mut found = None;
        let mut take = |rows: LiveRows<'_>| {
            debug_assert!(found.is_none(), "a key names two rows of {}", schema.full_name());
            let exists = !matches!(rows.content, LiveContent::StaticOnly);
            let values = RowValues::of(schema.clone(), key.clone(), rows, now_seconds)?;
            found = Some((values, exists));
            Ok(true)
        };
        let read = async {
            while reader.refill().await? {
                while reader.pull(usize::MAX, &mut take)? == Filled::Some {}
                runtime::maybe_yield().await;
            }
            Ok(())
        };
        let read = read.await;
        read.inspect_err(|error| self.damage().add(error, false))?;
        let mut state = state.take();
        if let Some((values, exists)) = found {
            (state.values, state.exists) = (Some(values), exists);
            assert!(state.newest.is_some(), "a row is live and has no timestamp: {state:?}");
        }
        Ok(state)
    }
}

/// Passes fragments on and notes how new they are.
struct Noting {
    source: Box<dyn FragmentSource>,
    state: Rc<RefCell<RowState>>,
}

impl Noting {
    fn note<'f>(&self, fragments: impl Iterator<Item = &'f Fragment>) {
        let mut state = self.state.borrow_mut();
        for fragment in fragments {
            match fragment {
                Fragment::PartitionStart { deletion, .. } => state.note_tombstone(*deletion),
                Fragment::StaticRow(row) | Fragment::Row { row, .. } => {
                    state.note(row.newest_timestamp());
                }
                Fragment::FlatRow(flat) => state.note(RowForm::Flat(flat).newest_timestamp()),
                Fragment::RangeTombstoneChange { tombstone, .. } => {
                    state.note_tombstone(*tombstone);
                }
                Fragment::PartitionEnd => {}
            }
        }
    }
}

impl FragmentSource for Noting {
    fn skip_partition(&mut self) {
        self.source.skip_partition();
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let before = out.len();
            self.source.fill(out).await?;
            self.note(out.range(before..));
            Ok(())
        }
        .boxed_local()
    }

    fn fill_now(&mut self, out: &mut VecDeque<Fragment>) -> Filled {
        let before = out.len();
        let filled = self.source.fill_now(out);
        self.note(out.range(before..));
        filled
    }
}
