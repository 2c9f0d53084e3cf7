//! Turns a merged fragment stream into the live rows that a query sees.
//!
//! Invariant: a row is handed out only if something in it is live at the query's instant, with
//! everything that a tombstone covers taken away.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::Rc;

use super::dropped::DroppedCells;
use crate::config::{FRAGMENTS_PER_FILL_MAX, PASS_BYTES_MAX};
use crate::error::Result;
use crate::mutation::fragment::drop_partition;
use crate::mutation::tombstone::strongest;
use crate::mutation::{Filled, FlatRow, Fragment, FragmentSink, FragmentSource, Row, Tombstone};
use crate::probe::{self, Count};
use crate::schema::{ClusteringKey, PartitionKey};

/// A row as a query sees it, or several of one partition. Cells may still be expired: read them
/// with `Cell::value_at`.
#[derive(Debug, Clone, Copy)]
pub struct LiveRows<'a> {
    pub partition: &'a Rc<PartitionKey>,
    pub content: LiveContent<'a>,
    pub static_row: Option<&'a Row>,
}

/// The content of rows that a query sees.
#[derive(Debug, Clone, Copy)]
pub enum LiveContent<'a> {
    Row {
        key: &'a ClusteringKey,
        row: &'a Row,
    },
    /// As the cache keeps them, without multi-cell columns; one at least.
    Flat(&'a [&'a FlatRow]),
    /// A partition that has static columns only.
    StaticOnly,
}

impl LiveContent<'_> {
    /// How many they are.
    pub fn rows(&self) -> u64 {
        match self {
            LiveContent::Flat(rows) => rows.len() as u64,
            LiveContent::Row { .. } | LiveContent::StaticOnly => 1,
        }
    }
}

/// Takes live rows; says whether more are wanted now.
pub type TakeRows<'t> = dyn FnMut(LiveRows<'_>) -> Result<bool> + 't;

/// See the head of this file.
pub struct QueryReader {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    view: View,
}

/// What is known at a place of the stream.
struct View {
    now_seconds: i32,
    dropped: Option<DroppedCells>,
    /// Give a partition without live rows one row if its static row is live.
    show_static_only: bool,
    /// Rows of a partition behind which the rest of it is left out.
    partition_limit: usize,
    partition: Option<Open>,
    /// Rows that are still to be handed over in this turn.
    rows_left: usize,
    seen: Seen,
}

struct Open {
    key: Rc<PartitionKey>,
    deletion: Option<Tombstone>,
    /// The stronger of the partition's deletion and the range tombstone in force.
    covering: Option<Tombstone>,
    static_row: Option<Rc<Row>>,
    /// Bytes of key and static row, which every row of a batch repeats.
    repeated_bytes: usize,
    has_rows: bool,
    /// Rows that may still be handed over of it.
    rows_left: usize,
}

/// What came by since it was told last.
#[derive(Default)]
struct Seen {
    partitions: u64,
    rows: u64,
    dropped: u64,
    tombstones: u64,
    /// Tombstones, and rows without one of which nothing was left.
    dead: u64,
    /// Of the partition, the range tombstone that was counted last: a merge closes and opens it
    /// where its sources do.
    range: Option<Tombstone>,
}

impl Seen {
    fn range(&mut self, tombstone: Option<Tombstone>) {
        if tombstone.is_some() && tombstone != self.range {
            self.tombstone(true);
            self.range = tombstone;
        }
    }

    #[inline]
    fn tombstone(&mut self, is_there: bool) {
        self.tombstones += u64::from(is_there);
        self.dead += u64::from(is_there);
    }

    #[inline]
    fn dropped(&mut self, has_tombstone: bool) {
        self.dropped += 1;
        self.dead += u64::from(!has_tombstone);
    }

    /// Tells the probe of the read, if it has one.
    #[inline]
    fn tell(&mut self) {
        probe::with(|probe| {
            let Seen { partitions, rows, dropped, tombstones, dead, range } = std::mem::take(self);
            (self.dead, self.range) = (dead, range);
            probe.add(Count::Partitions, partitions);
            probe.add(Count::Rows, rows);
            probe.add(Count::RowsDropped, dropped);
            probe.add(Count::Tombstones, tombstones);
        });
    }
}

impl QueryReader {
    /// Reads `source` as of `now_seconds`.
    pub fn new(source: Box<dyn FragmentSource>, now_seconds: i32, show_static_only: bool) -> Self {
        let view = View::new(now_seconds, show_static_only);
        QueryReader { source, buffer: VecDeque::new(), view }
    }

    /// As it is, but that it reads on at the next partition after so many rows of one.
    pub fn at_most(mut self, partition_limit: Option<usize>) -> Self {
        assert_ne!(partition_limit, Some(0), "a partition of which no row is wanted");
        self.view.partition_limit = partition_limit.unwrap_or(usize::MAX);
        self
    }

    /// As it is, but that it leaves these out.
    pub fn without(mut self, dropped: Option<DroppedCells>) -> Self {
        self.view.dropped = dropped;
        self
    }

    /// Tombstones that it met since it was asked last, and rows of which nothing was left.
    #[inline]
    pub fn take_dead(&mut self) -> u64 {
        std::mem::take(&mut self.view.seen.dead)
    }

    /// Hands up to `rows_max` rows to `take`, as far as they are in memory and `take` wants more.
    /// Rows that only the row cache has are handed over where they lie, and many at once.
    ///
    /// Errors: those of `take`.
    pub fn pull(&mut self, rows_max: usize, take: &mut TakeRows<'_>) -> Result<Filled> {
        let pulled = self.pull_some(rows_max, take);
        self.view.seen.tell();
        pulled
    }

    fn pull_some(&mut self, rows_max: usize, take: &mut TakeRows<'_>) -> Result<Filled> {
        self.view.rows_left = rows_max;
        loop {
            if self.view.has_enough() {
                self.skip_partition();
            }
            if self.view.rows_left == 0 {
                return Ok(Filled::Some);
            }
            if matches!(self.buffer.front(), Some(Fragment::FlatRow(_))) {
                self.pull_run(take)?;
                continue;
            }
            let Some(fragment) = self.buffer.pop_front() else { break };
            self.view.fragment(fragment, take)?;
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
        if let Some(error) = pass.failed {
            return Err(error);
        }
        if self.view.has_enough() {
            self.skip_partition();
        }
        Ok(filled)
    }

    /// Hands over the rows with which the buffer begins, as many at once as can be.
    ///
    /// Errors: those of `take`.
    fn pull_run(&mut self, take: &mut TakeRows<'_>) -> Result<()> {
        let run = self.buffer.iter().map_while(Fragment::flat).take(self.view.rows_left);
        let run: Vec<&FlatRow> = run.collect();
        let view = &mut self.view;
        let fragments_left = run.len();
        let mut pass =
            Pass { view, take, fragments_left, bytes_left: PASS_BYTES_MAX, failed: None };
        let taken = match pass.rows(&run) {
            ControlFlow::Continue(()) => run.len(),
            ControlFlow::Break(taken) => taken,
        };
        assert!(taken > 0, "a run of {} rows stays where it is", run.len());
        let failed = pass.failed;
        self.buffer.drain(..taken);
        failed.map_or(Ok(()), Err)
    }

    /// Goes to the partition behind the one that is open.
    fn skip_partition(&mut self) {
        let skipped = self.view.partition.take();
        assert!(skipped.is_some(), "no partition is open, and the rest of one is left out");
        if !drop_partition(&mut self.buffer) {
            self.source.skip_partition();
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

/// Hands over one row of a partition with this deletion and static row, if a reader at
/// `now_seconds` sees it: as [`QueryReader`] does, for what needs no stream.
///
/// Errors: those of `take`.
pub fn see_row(
    (partition, deletion, static_row): (Rc<PartitionKey>, Option<Tombstone>, Option<Rc<Row>>),
    row: &FlatRow,
    (now_seconds, dropped): (i32, Option<DroppedCells>),
    take: &mut TakeRows<'_>,
) -> Result<()> {
    let mut view = View { dropped, rows_left: 1, ..View::new(now_seconds, false) };
    view.fragment(Fragment::PartitionStart { key: partition, deletion }, take)?;
    if let Some(row) = static_row {
        view.fragment(Fragment::StaticRow(row), take)?;
    }
    view.flat(row, take)
}

impl View {
    fn new(now_seconds: i32, show_static_only: bool) -> Self {
        View {
            now_seconds,
            dropped: None,
            show_static_only,
            partition_limit: usize::MAX,
            partition: None,
            rows_left: 0,
            seen: Seen::default(),
        }
    }

    /// Whether no more is wanted of the partition that is open.
    #[inline]
    fn has_enough(&self) -> bool {
        self.partition.as_ref().is_some_and(|open| open.rows_left == 0)
    }

    fn open(&mut self) -> &mut Open {
        self.partition.as_mut().expect("it stands in a partition")
    }

    /// Hands over rows of the partition.
    #[inline]
    fn give(
        &mut self,
        content: LiveContent<'_>,
        count: usize,
        take: &mut TakeRows<'_>,
    ) -> Result<()> {
        let open = self.open();
        if open.rows_left == 0 {
            // A source may hand over what comes right behind the last row that was wanted.
            return Ok(());
        }
        assert!(count <= open.rows_left, "{count} rows are handed over of {}", open.rows_left);
        open.rows_left -= count;
        open.has_rows = true;
        debug_assert!(
            !matches!(content, LiveContent::Flat([])),
            "no rows of {:?} are handed over",
            open.key
        );
        let static_row = open.static_row.as_deref();
        let wants_more = take(LiveRows { partition: &open.key, content, static_row })?;
        self.given(count, wants_more);
        Ok(())
    }

    fn given(&mut self, count: usize, wants_more: bool) {
        self.seen.rows += count as u64;
        self.rows_left = if wants_more { self.rows_left.saturating_sub(count) } else { 0 };
    }

    /// Takes note of a fragment, and hands over a row that it makes visible.
    fn fragment(&mut self, fragment: Fragment, take: &mut TakeRows<'_>) -> Result<()> {
        match fragment {
            Fragment::PartitionStart { key, deletion } => {
                let before = self.partition.as_ref().map(|open| &open.key);
                debug_assert!(before.is_none(), "{key:?} begins within {before:?}");
                let repeated_bytes = key.as_bytes().len();
                self.seen.partitions += 1;
                self.seen.range = None;
                self.seen.tombstone(deletion.is_some());
                self.partition = Some(Open {
                    key,
                    deletion,
                    covering: deletion,
                    static_row: None,
                    repeated_bytes,
                    has_rows: false,
                    rows_left: self.partition_limit,
                });
            }
            Fragment::StaticRow(row) => {
                let deletion = self.open().deletion;
                let row = self.live(row, deletion);
                let open = self.open();
                debug_assert!(
                    open.static_row.is_none() && !open.has_rows,
                    "a static row stands behind others of {:?}",
                    open.key
                );
                open.static_row = row;
                open.repeated_bytes += open.static_row.as_ref().map_or(0, |row| row.memory_bytes());
            }
            Fragment::RangeTombstoneChange { tombstone, .. } => {
                self.seen.range(tombstone);
                let open = self.open();
                open.covering = open.deletion.max(tombstone);
            }
            Fragment::Row { key, row } => {
                let covering = self.open().covering;
                let has_tombstone = row.deletion.is_some();
                self.seen.tombstone(has_tombstone);
                if let Some(row) = self.live(row, covering) {
                    self.give(LiveContent::Row { key: &key, row: &row }, 1, take)?;
                } else {
                    self.seen.dropped(has_tombstone);
                }
            }
            Fragment::FlatRow(flat) => self.flat(&flat, take)?,
            Fragment::PartitionEnd => {
                let open = self.partition.take().expect("a partition began before it ends");
                debug_assert_eq!(
                    open.covering, open.deletion,
                    "a range tombstone is in force at the end of {:?}",
                    open.key
                );
                if let Some(static_row) = open.static_row.as_deref()
                    && self.show_static_only
                    && !open.has_rows
                {
                    let wants_more = take(LiveRows {
                        partition: &open.key,
                        content: LiveContent::StaticOnly,
                        static_row: Some(static_row),
                    })?;
                    self.given(1, wants_more);
                }
            }
        }
        Ok(())
    }

    /// The row without what `covering` and its own tombstone delete and what went with its columns,
    /// if anything of it is live.
    fn live(&self, mut row: Rc<Row>, covering: Option<Tombstone>) -> Option<Rc<Row>> {
        if let Some(tombstone) = strongest(covering, row.deletion)
            && row.is_touched_by(tombstone)
        {
            Rc::make_mut(&mut row).apply_tombstone(tombstone);
        }
        debug_assert!(
            covering.is_none_or(|tombstone| !row.is_touched_by(tombstone)) && row.is_compacted(),
            "a reader would see what {covering:?} covers of {row:?}"
        );
        if let Some(dropped) = &self.dropped {
            dropped.leave_out(&mut row);
        }
        row.is_live_at(self.now_seconds).then_some(row)
    }

    /// Whether a flat row is live and handed over as it is.
    #[inline]
    fn is_whole(&self, flat: &FlatRow, covering: Option<Tombstone>) -> bool {
        if covering.is_none() && self.dropped.is_none() && flat.is_plain() {
            return true;
        }
        !flat.has_multi()
            && flat.deletion().is_none()
            && !is_cut(flat, covering)
            && !self.has_dropped(flat)
            && flat.is_live_at(self.now_seconds)
    }

    #[inline]
    fn has_dropped(&self, flat: &FlatRow) -> bool {
        self.dropped.as_ref().is_some_and(|dropped| dropped.touch_flat(flat))
    }

    #[inline]
    fn flat(&mut self, flat: &FlatRow, take: &mut TakeRows<'_>) -> Result<()> {
        let covering = self.open().covering;
        if flat.has_multi() || is_cut(flat, covering) || self.has_dropped(flat) {
            return self.fragment(Fragment::FlatRow(flat.clone()).thawed(), take);
        }
        let has_tombstone = flat.deletion().is_some();
        self.seen.tombstone(has_tombstone);
        if flat.is_live_at(self.now_seconds) {
            return self.give(LiveContent::Flat(&[flat]), 1, take);
        }
        self.seen.dropped(has_tombstone);
        Ok(())
    }
}

/// One turn of a source that hands over what is in memory.
struct Pass<'p, 't> {
    view: &'p mut View,
    take: &'p mut TakeRows<'t>,
    fragments_left: usize,
    bytes_left: usize,
    failed: Option<crate::error::Error>,
}

impl Pass<'_, '_> {
    #[inline]
    fn wants_more(&mut self, taken: Result<()>, fragments: usize, bytes: usize) -> bool {
        self.fragments_left = self.fragments_left.saturating_sub(fragments);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        match taken {
            Ok(()) if self.view.has_enough() => false,
            Ok(()) => self.view.rows_left > 0 && self.fragments_left > 0 && self.bytes_left > 0,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }

    /// The rows in front that are handed over as they are and in this turn, and their bytes.
    #[inline]
    fn whole<'r, 'f>(&mut self, rows: &'r [&'f FlatRow]) -> (&'r [&'f FlatRow], usize) {
        let open = self.view.open();
        let (covering, repeated_bytes, of_partition) =
            (open.covering, open.repeated_bytes, open.rows_left);
        let most = rows.len().min(self.view.rows_left).min(self.fragments_left).min(of_partition);
        let (mut count, mut bytes) = (0, 0);
        while count < most && bytes < self.bytes_left && self.view.is_whole(rows[count], covering) {
            bytes += rows[count].memory_bytes() + repeated_bytes;
            count += 1;
        }
        (&rows[..count], bytes)
    }
}

impl FragmentSink for Pass<'_, '_> {
    fn row(&mut self, flat: &FlatRow) -> bool {
        let taken = self.view.flat(flat, self.take);
        self.wants_more(taken, 1, flat.memory_bytes())
    }

    fn rows(&mut self, rows: &[&FlatRow]) -> ControlFlow<usize> {
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let (whole, bytes) = self.whole(rest);
            let wants_more = if whole.is_empty() {
                rest = &rest[1..];
                self.row(first)
            } else {
                rest = &rest[whole.len()..];
                let taken = self.view.give(LiveContent::Flat(whole), whole.len(), self.take);
                self.wants_more(taken, whole.len(), bytes)
            };
            if !wants_more {
                return ControlFlow::Break(rows.len() - rest.len());
            }
        }
        ControlFlow::Continue(())
    }

    fn fragment(&mut self, fragment: Fragment) -> bool {
        let taken = self.view.fragment(fragment, self.take);
        self.wants_more(taken, 1, 0)
    }
}

/// Whether `covering`, or the row's own tombstone, takes something away: what no merge has looked
/// at may hold what that covers.
#[inline]
fn is_cut(flat: &FlatRow, covering: Option<Tombstone>) -> bool {
    let tombstone = strongest(covering, flat.deletion());
    tombstone.is_some_and(|tombstone| flat.is_touched_by(tombstone))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::future::{LocalBoxFuture, ready};

    use super::*;
    use crate::mutation::{Cell, CellPath, Liveness, MultiCell, Position};
    use crate::schema::ColumnId;

    /// Gives what it has at once.
    struct Given(VecDeque<Fragment>);

    impl FragmentSource for Given {
        fn fill<'a>(
            &'a mut self,
            out: &'a mut VecDeque<Fragment>,
        ) -> LocalBoxFuture<'a, Result<()>> {
            out.append(&mut self.0);
            Box::pin(ready(Ok(())))
        }

        fn skip_partition(&mut self) {
            assert!(drop_partition(&mut self.0));
        }
    }

    /// The rows that a query sees of one partition's.
    fn seen(rows: Vec<Fragment>) -> Vec<Row> {
        let key = Rc::new(PartitionKey::from_bytes(b"k"));
        let start = Fragment::PartitionStart { key, deletion: None };
        seen_of([vec![start], rows, vec![Fragment::PartitionEnd]].concat())
    }

    /// The rows that a query sees of whole partitions.
    fn seen_of(all: Vec<Fragment>) -> Vec<Row> {
        let mut reader = QueryReader::new(Box::new(Given(all.into())), 50, false);
        let mut seen = Vec::new();
        loop {
            let mut take = |rows: LiveRows<'_>| {
                match rows.content {
                    LiveContent::Row { row, .. } => seen.push(row.clone()),
                    LiveContent::Flat(flat) => seen.extend(flat.iter().map(|flat| flat.thaw())),
                    LiveContent::StaticOnly => {}
                }
                Ok(true)
            };
            if reader.pull(10, &mut take).unwrap() == Filled::End {
                return seen;
            }
            if !block_on(reader.refill()).unwrap() {
                return seen;
            }
        }
    }

    #[test]
    fn a_rows_own_tombstone_counts_where_no_merge_has_applied_it() {
        let own = Tombstone { timestamp: 10, deletion_time: 1 };
        let cell = |column, at: i64| (ColumnId(column), Cell::live(at, *b"v"));
        let path = |byte| CellPath::from_ordered([2, byte]);
        let multi = |cells: &[(u8, i64)]| {
            let cells = cells.iter().map(|(at, time)| (path(*at), Cell::live(*time, *b"e")));
            (ColumnId(9), MultiCell { deletion: None, cells: cells.collect() })
        };
        let whole = |liveness, cells: Vec<(ColumnId, Cell)>| Row {
            liveness: Some(Liveness::at(liveness)),
            deletion: Some(own),
            cells,
            multi: Vec::new(),
        };
        let cases = [
            // Nothing of it is left.
            (whole(10, vec![cell(1, 3), cell(2, 10)]), None),
            // Of cells and marker, what is newer.
            (whole(3, vec![cell(1, 3), cell(2, 11)]), Some((None, vec![cell(2, 11)], vec![]))),
            (whole(12, vec![cell(1, 3)]), Some((Some(Liveness::at(12)), vec![], vec![]))),
            (
                Row { multi: vec![multi(&[(1, 4), (2, 12)])], ..whole(1, vec![]) },
                Some((None, vec![], vec![multi(&[(2, 12)])])),
            ),
            (Row { multi: vec![multi(&[(1, 4)])], ..whole(1, vec![]) }, None),
        ];
        for (row, wanted) in cases {
            let flat = Fragment::FlatRow(FlatRow::row(b"c", &row));
            let key = Rc::new(ClusteringKey::from_ordered(b"c"));
            let thawed = Fragment::Row { key, row: Rc::new(row.clone()) };
            for fragment in [flat, thawed] {
                let seen = seen(vec![fragment.clone()]);
                let seen = seen.into_iter().map(|row| (row.liveness, row.cells, row.multi));
                assert_eq!(
                    seen.collect::<Vec<_>>(),
                    Vec::from_iter(wanted.clone()),
                    "{fragment:?}"
                );
            }
        }
    }

    #[test]
    fn of_two_deletions_over_a_row_the_stronger_one_counts() {
        let deleted_at = |timestamp| Tombstone { timestamp, deletion_time: 1 };
        let row = |ck: u8, timestamp| {
            let key = Rc::new(ClusteringKey::from_ordered([ck]));
            let row = Row { liveness: Some(Liveness::at(timestamp)), ..Row::default() };
            Fragment::Row { key, row: Rc::new(row) }
        };
        let change = |ck: u8, tombstone| Fragment::RangeTombstoneChange {
            position: Position::before(ClusteringKey::from_ordered([ck])),
            tombstone,
        };
        // Newer than the range tombstone of 10, than the partition's deletion, than that of 30.
        let rows = |ck: u8| [row(ck, 15), row(ck + 1, 25), row(ck + 2, 35)];
        let all = [
            vec![Fragment::PartitionStart {
                key: Rc::new(PartitionKey::from_bytes(b"k")),
                deletion: Some(deleted_at(20)),
            }],
            rows(0).to_vec(),
            vec![change(10, Some(deleted_at(10)))],
            rows(10).to_vec(),
            vec![change(20, Some(deleted_at(30)))],
            rows(20).to_vec(),
            vec![change(30, None)],
            rows(30).to_vec(),
            vec![Fragment::PartitionEnd],
        ];
        let seen = seen_of(all.concat());
        let seen: Vec<i64> = seen.iter().filter_map(Row::newest_timestamp).collect();
        assert_eq!(seen, [25, 35, 25, 35, 35, 25, 35]);
    }

    #[test]
    fn a_partition_of_static_columns_alone_counts_as_a_row() {
        let column = ColumnId(3);
        let one = |number: u8| {
            let key = Rc::new(PartitionKey::from_bytes([number]));
            let cells = vec![(column, Cell::live(1, [number]))];
            let row = Row { cells, ..Row::default() };
            let start = Fragment::PartitionStart { key, deletion: None };
            [start, Fragment::StaticRow(Rc::new(row)), Fragment::PartitionEnd]
        };
        let all: VecDeque<Fragment> = (0..5).flat_map(one).collect();
        let mut reader = QueryReader::new(Box::new(Given(all)), 50, true);
        let mut seen = Vec::new();
        while block_on(reader.refill()).unwrap() || !reader.buffer.is_empty() {
            for wanted in [1, 2, 2] {
                let before = seen.len();
                let mut take = |rows: LiveRows<'_>| {
                    assert!(matches!(rows.content, LiveContent::StaticOnly));
                    seen.push(
                        rows.static_row
                            .unwrap()
                            .cell(column)
                            .unwrap()
                            .value_at(50)
                            .map(<[u8]>::to_vec),
                    );
                    Ok(true)
                };
                reader.pull(wanted, &mut take).unwrap();
                assert_eq!(seen.len() - before, wanted, "rows of one pull");
            }
        }
        assert_eq!(seen, (0..5).map(|number| Some(vec![number])).collect::<Vec<_>>());
    }

    /// Rows one behind another are handed over together, and no more of them than are wanted.
    #[test]
    fn a_run_of_rows_ends_where_a_turn_a_partition_or_the_reader_does() {
        let flat = |number: u8| {
            // Each fourth row has expired.
            let liveness = match number % 4 {
                3 => Liveness::expiring(1, 1, 10),
                _ => Liveness::at(1),
            };
            let row = Row { liveness: Some(liveness), ..Row::default() };
            Fragment::FlatRow(FlatRow::row(&[number], &row))
        };
        let partition = |number: u8| {
            let key = Rc::new(PartitionKey::from_bytes([number]));
            let start = Fragment::PartitionStart { key, deletion: None };
            [vec![start], (0..40).map(flat).collect(), vec![Fragment::PartitionEnd]].concat()
        };
        let live: Vec<u8> = (0..40).filter(|number| number % 4 != 3).collect();
        for (rows_max, limit, taken_at_once) in
            [(1, None, 9), (7, None, 2), (100, None, 100), (7, Some(5), 100), (100, Some(30), 4)]
        {
            let all: VecDeque<Fragment> = (0..3).flat_map(partition).collect();
            let reader = QueryReader::new(Box::new(Given(all)), 50, true);
            let mut reader = reader.at_most(limit);
            let mut seen = Vec::new();
            while block_on(reader.refill()).unwrap() || !reader.buffer.is_empty() {
                loop {
                    let before = seen.len();
                    let mut take = |given: LiveRows<'_>| {
                        let LiveContent::Flat(rows) = given.content else { panic!("no row") };
                        let partition = given.partition.as_bytes()[0];
                        seen.extend(rows.iter().map(|row| (partition, row.key()[0])));
                        Ok(seen.len() - before < taken_at_once)
                    };
                    reader.pull(rows_max, &mut take).unwrap();
                    assert!(seen.len() - before <= rows_max, "rows of one pull");
                    if seen.len() == before {
                        break;
                    }
                }
            }
            let of_one = live.iter().take(limit.unwrap_or(usize::MAX));
            let wanted =
                (0..3).flat_map(|partition| of_one.clone().map(move |row| (partition, *row)));
            assert_eq!(seen, wanted.collect::<Vec<_>>(), "{rows_max}, {limit:?}, {taken_at_once}");
        }
    }

    #[test]
    fn rows_of_the_cache_are_rows_of_their_partition() {
        let key = Rc::new(PartitionKey::from_bytes(b"k"));
        let live = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        let statics = Row { cells: vec![(ColumnId(3), Cell::live(1, *b"s"))], ..Row::default() };
        let all = [
            Fragment::PartitionStart { key, deletion: None },
            Fragment::StaticRow(Rc::new(statics)),
            Fragment::FlatRow(FlatRow::row(b"c", &live)),
            Fragment::PartitionEnd,
        ];
        let mut reader = QueryReader::new(Box::new(Given(all.into())), 50, true);
        assert!(block_on(reader.refill()).unwrap());
        let mut rows = 0;
        let mut take = |given: LiveRows<'_>| {
            assert!(matches!(given.content, LiveContent::Flat(_)), "a row that is not there");
            rows += 1;
            Ok(true)
        };
        reader.pull(10, &mut take).unwrap();
        assert_eq!(rows, 1);
    }

    /// What a page of few rows has cost, in whatever form rows come.
    #[test]
    fn tombstones_and_rows_of_which_nothing_is_left_are_counted_once_each() {
        let own = |timestamp| Some(Tombstone { timestamp, deletion_time: 1 });
        let at = |timestamp| Row { liveness: Some(Liveness::at(timestamp)), ..Row::default() };
        let gone = Row { liveness: Some(Liveness::expiring(9, 1, 10)), ..Row::default() };
        let change = |tombstone| {
            let position = Position::before(ClusteringKey::from_ordered(*b"c"));
            Fragment::RangeTombstoneChange { position, tombstone }
        };
        let row = |row: Row| Fragment::FlatRow(FlatRow::row(b"c", &row));
        let cases = [
            (vec![row(at(9))], 0),
            (vec![row(gone)], 1),
            (vec![row(Row { deletion: own(5), ..Row::default() })], 1),
            (vec![row(Row { deletion: own(5), ..at(9) })], 1),
            (vec![change(own(3)), row(at(9)), change(None)], 1),
            (vec![change(own(3)), row(at(2)), change(None)], 2),
            (vec![change(own(3)), change(None), change(own(3)), change(None)], 1),
            (vec![change(own(3)), change(own(4)), change(None)], 2),
        ];
        for (content, wanted) in cases {
            for (deletion, more) in [(None, 0), (own(1), 1)] {
                let key = Rc::new(PartitionKey::from_bytes(b"k"));
                let start = Fragment::PartitionStart { key, deletion };
                let all = [vec![start], content.clone(), vec![Fragment::PartitionEnd]].concat();
                for all in [all.clone(), all.into_iter().map(Fragment::thawed).collect()] {
                    let mut reader = QueryReader::new(Box::new(Given(all.into())), 50, false);
                    assert!(block_on(reader.refill()).unwrap());
                    reader.pull(10, &mut |_| Ok(true)).unwrap();
                    assert_eq!(reader.take_dead(), wanted + more, "{content:?}, {deletion:?}");
                    assert_eq!(reader.take_dead(), 0, "it was told already");
                }
            }
        }
    }
}
