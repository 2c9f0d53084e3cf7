//! Merges fragment streams of one table into one: newest wins.
//!
//! Of long rows the merge holds the one that comes next: each input says where its own stands, and
//! reads it when the merge has come there.
//!
//! Invariant: at most one partition is open at a time; the tombstone in force of the result is the
//! strongest of those in force in the open streams.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::config::{FRAGMENTS_PER_FILL_MAX, is_strict};
use crate::error::Result;
use crate::mutation::fragment::drop_partition;
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    Direction, Filled, Fragment, FragmentSource, Position, Row, StreamCheck, Tombstone, Weight,
};
use crate::runtime;
use crate::schema::{ClusteringKey, PartitionKey};

/// See the head of this file.
pub struct MergeSource {
    inputs: Vec<Input>,
    direction: Direction,
    /// In a partition, the open inputs that have something next, by where it stands: the first one
    /// is the last here.
    order: Vec<Placed>,
    /// The other open inputs: what they have next has to be asked for.
    unplaced: Vec<usize>,
    /// The merged stream is inside a partition.
    in_partition: bool,
    /// Tombstone in force in the merged stream.
    in_force: Option<Tombstone>,
    /// Where `is_strict`: looks at all that is merged.
    check: Option<StreamCheck>,
}

/// An input in the order.
#[derive(Debug, Clone, Copy)]
struct Placed {
    at: usize,
    rank: Rank,
}

/// How what an input has next compares with that of others, where that shows: most keys differ in
/// their first bytes, which stand here and not behind two pointers.
#[derive(Debug, Clone, Copy)]
struct Rank {
    /// The first bytes of the key, with zeros behind a shorter one.
    head: u128,
    /// It is a row: only of rows the bytes tell the order.
    is_row: bool,
}

impl Rank {
    fn of(fragment: &Fragment) -> Self {
        let (key, weight) = place(fragment);
        Rank { head: head_of(key), is_row: weight == Weight::At }
    }

    /// The natural order, as far as it shows.
    fn order(self, other: Self) -> Option<Ordering> {
        let is_shown = self.is_row && other.is_row && self.head != other.head;
        is_shown.then(|| self.head.cmp(&other.head))
    }
}

/// The first 16 bytes, with zeros behind fewer. They are put together in registers: a processor
/// waits where it reads at once what was written in pieces.
fn head_of(key: &[u8]) -> u128 {
    if let Some(all) = key.first_chunk::<16>() {
        return u128::from_be_bytes(*all);
    }
    let missing = 8 * (16 - key.len() as u32);
    match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        // The two overlap, and the bytes of both are the same there.
        (Some(first), Some(last)) => {
            let (first, last) = (u64::from_be_bytes(*first), u64::from_be_bytes(*last));
            u128::from(first) << 64 | u128::from(last) << missing
        }
        _ => key.iter().fold(0, |head, byte| head << 8 | u128::from(*byte)).unbounded_shl(missing),
    }
}

struct Input {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    done: bool,
    /// Takes part in the partition that is open.
    is_open: bool,
    in_force: Option<Tombstone>,
}

impl Input {
    /// Has something at hand, or knows that nothing comes, as far as that needs no waiting.
    fn has_front(&mut self) -> bool {
        if !self.buffer.is_empty() || self.done {
            return true;
        }
        match self.source.fill_now(&mut self.buffer) {
            Filled::Some => {
                debug_assert!(!self.buffer.is_empty(), "a source gave nothing, and said some");
                true
            }
            Filled::End => {
                debug_assert!(self.buffer.is_empty(), "a source gave some, and said its end");
                self.done = true;
                true
            }
            Filled::Waits => false,
        }
    }

    /// The same, when the source has to be waited for.
    async fn wait_for_front(&mut self) -> Result<()> {
        let is_dry = self.buffer.is_empty() && !self.done;
        debug_assert!(is_dry, "an input is waited for that has {:?}", self.buffer.front());
        // Each of many files may give some hundred rows for one that is wanted.
        runtime::maybe_yield().await;
        self.source.fill(&mut self.buffer).await?;
        self.done = self.buffer.is_empty();
        Ok(())
    }

    async fn front(&mut self) -> Result<Option<&Fragment>> {
        if !self.has_front() {
            self.wait_for_front().await?;
        }
        Ok(self.buffer.front())
    }
}

/// Merges sources; one source is handed back as it is.
impl MergeSource {
    pub fn merge(
        mut sources: Vec<Box<dyn FragmentSource>>,
        direction: Direction,
    ) -> Box<dyn FragmentSource> {
        if sources.len() == 1
            && let Some(only) = sources.pop()
        {
            return only;
        }
        let count = sources.len();
        let inputs = sources
            .into_iter()
            .map(|mut source| {
                source.join_merge(count);
                Input {
                    source,
                    buffer: VecDeque::new(),
                    done: false,
                    is_open: false,
                    in_force: None,
                }
            })
            .collect();
        let check = is_strict().then(|| StreamCheck::new(direction));
        let (order, unplaced) = (Vec::new(), Vec::new());
        let (in_partition, in_force) = (false, None);
        Box::new(MergeSource { inputs, direction, order, unplaced, in_partition, in_force, check })
    }

    fn has_run_dry(&self) -> bool {
        let is_dry = |input: &Input| input.buffer.is_empty() && !input.done;
        match self.in_partition {
            true => self.unplaced.iter().any(|at| is_dry(&self.inputs[*at])),
            false => self.inputs.iter().any(is_dry),
        }
    }

    /// Begins the next partition of the merged stream; false at the end.
    async fn open_next(&mut self, out: &mut VecDeque<Fragment>) -> Result<bool> {
        let mut least: Option<Rc<PartitionKey>> = None;
        for input in &mut self.inputs {
            debug_assert!(!input.is_open, "an input is still in the partition that has ended");
            let front = input.front().await?;
            debug_assert!(
                matches!(front, Some(Fragment::PartitionStart { .. }) | None),
                "between two partitions stands {front:?}"
            );
            if let Some(Fragment::PartitionStart { key, .. }) = front
                && least.as_ref().is_none_or(|least| key < least)
            {
                least = Some(key.clone());
            }
        }
        let Some(key) = least else { return Ok(false) };
        let mut deletion = None;
        let mut static_row: Option<Rc<Row>> = None;
        let is_between = self.order.is_empty() && self.unplaced.is_empty();
        assert!(is_between, "a partition opens while {:?} are in another", self.order);
        for (at, input) in self.inputs.iter_mut().enumerate() {
            let Some(Fragment::PartitionStart { key: own, deletion: own_deletion }) =
                input.front().await?
            else {
                continue;
            };
            if *own != key {
                continue;
            }
            deletion = strongest(deletion, *own_deletion);
            input.buffer.pop_front();
            input.is_open = true;
            input.in_force = None;
            self.unplaced.push(at);
            if let Some(Fragment::StaticRow(row)) = input.front().await? {
                let row = row.clone();
                input.buffer.pop_front();
                match &mut static_row {
                    Some(merged) => Rc::make_mut(merged).merge(&row),
                    None => static_row = Some(row),
                }
            }
        }
        self.in_partition = true;
        out.push_back(Fragment::PartitionStart { key, deletion });
        if let Some(row) = static_row {
            out.push_back(Fragment::StaticRow(row));
        }
        Ok(true)
    }

    /// Appends the next merged fragment of the partition, or rows up to a length of `out`, without
    /// waiting. Where an input has to be waited for first, it names that and appends nothing.
    fn step_inside(&mut self, out: &mut VecDeque<Fragment>, target: usize) -> Option<usize> {
        while let Some(at) = self.unplaced.last().copied() {
            let input = &mut self.inputs[at];
            if !input.has_front() {
                return Some(at);
            }
            let front = input.buffer.front();
            debug_assert!(front.is_some(), "a source ended in the middle of a partition");
            let ends = matches!(front, Some(Fragment::PartitionEnd) | None);
            self.unplaced.pop();
            if ends {
                let left = input.in_force;
                debug_assert!(left.is_none(), "a source ended a partition with {left:?} in force");
                input.buffer.pop_front();
                input.is_open = false;
            } else {
                self.place(at);
            }
        }
        debug_assert!(
            self.order.windows(2).all(|two| self.compare(&two[0], &two[1]).is_gt()),
            "the inputs {:?} are out of order",
            self.order
        );
        let Some(Placed { at: first, rank }) = self.order.pop() else {
            assert!(self.in_force.is_none(), "a partition ended with a range tombstone in force");
            self.in_partition = false;
            out.push_back(Fragment::PartitionEnd);
            return None;
        };
        self.unplaced.push(first);
        while let Some(next) = self.order.pop_if(|next| {
            let (a, b) = (&self.inputs[first].buffer[0], &self.inputs[next.at].buffer[0]);
            rank.order(next.rank).is_none() && natural_order(a, b).is_eq()
        }) {
            self.unplaced.push(next.at);
        }
        if self.unplaced.len() == 1
            && self.inputs[first].buffer.front().is_some_and(Fragment::is_row)
        {
            self.hand_on(first, out, target);
        } else {
            self.merge_first(out);
        }
        None
    }

    /// Hands on rows of an input as they are, at least one: what no other source changes, as far as
    /// they stand before all that the others have next.
    fn hand_on(&mut self, from: usize, out: &mut VecDeque<Fragment>, target: usize) {
        let before = out.len();
        let next = self.order.last().copied();
        loop {
            match self.inputs[from].buffer.pop_front() {
                // Only what it holds is moved, not the room of a longer fragment.
                Some(Fragment::FlatRow(flat)) => out.push_back(Fragment::FlatRow(flat)),
                Some(other) => push(out, other),
                None => {}
            }
            let row = self.inputs[from].buffer.front().filter(|next| next.is_row());
            let Some(row) = row.filter(|_| out.len() < target) else { break };
            let is_behind = next.is_some_and(|next| {
                let ranks = (Rank::of(row), next.rank);
                self.order_of((row, ranks.0), (&self.inputs[next.at].buffer[0], ranks.1)).is_ge()
            });
            if is_behind {
                break;
            }
        }
        debug_assert!(out.len() > before, "no row of input {from} is handed on");
    }

    /// Puts an input where its next fragment belongs among those of the others.
    fn place(&mut self, at: usize) {
        let new = Placed { at, rank: Rank::of(&self.inputs[at].buffer[0]) };
        let place = self.order.partition_point(|other| self.compare(other, &new).is_gt());
        self.order.insert(place, new);
    }

    /// How two inputs stand to each other by what they have next: a change comes before the row
    /// that it precedes. Of those that are alike in place, the input that was named first comes
    /// first.
    fn compare(&self, a: &Placed, b: &Placed) -> Ordering {
        let fronts = (&self.inputs[a.at].buffer[0], &self.inputs[b.at].buffer[0]);
        self.order_of((fronts.0, a.rank), (fronts.1, b.rank)).then(a.at.cmp(&b.at))
    }

    /// How two fragments stand to each other, whose ranks are known.
    fn order_of(&self, a: (&Fragment, Rank), b: (&Fragment, Rank)) -> Ordering {
        let natural = a.1.order(b.1).unwrap_or_else(|| natural_order(a.0, b.0));
        debug_assert_eq!(natural, natural_order(a.0, b.0), "{:?} and {:?}", a.0, b.0);
        if self.direction.is_reversed() { natural.reverse() } else { natural }
    }

    /// Merges what comes first in the inputs that have to be placed anew, which is alike in place.
    fn merge_first(&mut self, out: &mut VecDeque<Fragment>) {
        let mut row: Option<(Rc<ClusteringKey>, Rc<Row>)> = None;
        let mut change: Option<Position> = None;
        for &at in &self.unplaced {
            match self.inputs[at].buffer.pop_front().map(Fragment::thawed) {
                Some(Fragment::Row { key, row: other }) => match &mut row {
                    Some((_, merged)) => Rc::make_mut(merged).merge(&other),
                    None => row = Some((key, other)),
                },
                Some(Fragment::RangeTombstoneChange { position, tombstone }) => {
                    self.inputs[at].in_force = tombstone;
                    change = Some(position);
                }
                other => unreachable!("inside a partition: {other:?}"),
            }
        }
        if let Some((key, row)) = row {
            out.push_back(Fragment::Row { key, row });
        }
        if let Some(position) = change {
            let in_force = self
                .inputs
                .iter()
                .filter(|input| input.is_open)
                .fold(None, |strong, input| strongest(strong, input.in_force));
            if in_force != self.in_force {
                self.in_force = in_force;
                out.push_back(Fragment::RangeTombstoneChange { position, tombstone: in_force });
            }
        }
    }
}

/// Not among what is pushed for most rows, where a compiler would make one of both.
#[inline(never)]
fn push(out: &mut VecDeque<Fragment>, fragment: Fragment) {
    out.push_back(fragment);
}

fn natural_order(a: &Fragment, b: &Fragment) -> Ordering {
    match (place(a), place(b)) {
        ((ak, Weight::At), (bk, Weight::At)) => ak.cmp(bk),
        ((ak, aw), (bk, bw)) => crate::mutation::position::compare(ak, aw, bk, bw),
    }
}

fn place(fragment: &Fragment) -> (&[u8], Weight) {
    match fragment {
        Fragment::Row { key, .. } => (key.as_ordered(), Weight::At),
        Fragment::FlatRow(flat) => (flat.key(), Weight::At),
        Fragment::RangeTombstoneChange { position, .. } => {
            (position.prefix.as_ordered(), position.weight)
        }
        other => unreachable!("inside a partition: {other:?}"),
    }
}

impl FragmentSource for MergeSource {
    fn skip_partition(&mut self) {
        assert!(self.in_partition, "no partition is open in the merged stream");
        for input in self.inputs.iter_mut().filter(|input| input.is_open) {
            if !drop_partition(&mut input.buffer) {
                input.source.skip_partition();
            }
            (input.is_open, input.in_force) = (false, None);
        }
        self.order.clear();
        self.unplaced.clear();
        (self.in_partition, self.in_force) = (false, None);
        if let Some(check) = &mut self.check {
            check.skip();
        }
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let before = out.len();
            let target = before + FRAGMENTS_PER_FILL_MAX;
            while out.len() < target {
                let from = out.len();
                let has_more = if self.in_partition {
                    while let Some(waiting) = self.step_inside(out, target) {
                        self.inputs[waiting].wait_for_front().await?;
                    }
                    true
                } else {
                    self.open_next(out).await?
                };
                if let Some(check) = &mut self.check {
                    out.range(from..).for_each(|fragment| check.pass(fragment));
                }
                if !has_more {
                    break;
                }
                // What an input has to be asked for may wait for the disk, and may not be wanted.
                if out.len() > before && self.has_run_dry() {
                    break;
                }
            }
            Ok(())
        }
        .boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::clock::Random;
    use crate::memtable::Memtable;
    use crate::mutation::{Cell, ClusteringRange, Mutation, PartitionRange, RangeTombstone, Slice};
    use crate::schema::{ClusteringKey, ColumnId, TableId};

    /// Gives one fragment for each time that it is waited for.
    struct Slow {
        left: VecDeque<Fragment>,
        is_awaited: bool,
    }

    impl FragmentSource for Slow {
        fn fill_now(&mut self, _: &mut VecDeque<Fragment>) -> Filled {
            assert!(!self.is_awaited, "a source that has to be waited for is asked again");
            self.is_awaited = true;
            Filled::Waits
        }

        fn fill<'a>(
            &'a mut self,
            out: &'a mut VecDeque<Fragment>,
        ) -> LocalBoxFuture<'a, Result<()>> {
            self.is_awaited = false;
            out.extend(self.left.pop_front());
            async { Ok(()) }.boxed_local()
        }

        fn skip_partition(&mut self) {
            unreachable!("nobody leaves anything out");
        }
    }

    /// To ask it may pass many rows that nobody sees.
    #[test]
    fn an_input_is_asked_once_before_it_is_waited_for() {
        let key = Rc::new(PartitionKey::from_bytes(*b"k"));
        let row = |at: u8| {
            let key = Rc::new(ClusteringKey::from_ordered([at]));
            Fragment::Row { key, row: Rc::default() }
        };
        let start = Fragment::PartitionStart { key, deletion: None };
        let slow = |rows: [u8; 2]| {
            let [a, b] = rows.map(row);
            let left = VecDeque::from([start.clone(), a, b, Fragment::PartitionEnd]);
            Box::new(Slow { left, is_awaited: false }) as Box<dyn FragmentSource>
        };
        let mut merged = MergeSource::merge(vec![slow([1, 3]), slow([2, 4])], Direction::Forward);
        let mut out = VecDeque::new();
        loop {
            let before = out.len();
            block_on(merged.fill(&mut out)).unwrap();
            if out.len() == before {
                break;
            }
        }
        let wanted = [start, row(1), row(2), row(3), row(4), Fragment::PartitionEnd];
        assert_eq!(out, wanted);
    }

    #[test]
    fn of_deletions_in_several_sources_the_strongest_one_counts() {
        let deleted = |timestamp| {
            let memtable = Memtable::new(Rc::default());
            let key = PartitionKey::from_bytes(*b"k");
            let mut mutation = Mutation::new(TableId(1), key);
            mutation.deletion = Some(Tombstone { timestamp, deletion_time: 1 });
            memtable.replay(None, mutation);
            memtable.read(&PartitionRange::full(), &Slice::full(Direction::Forward))
        };
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let sources = order.map(deleted).into_iter().collect();
            let mut merged = MergeSource::merge(sources, Direction::Forward);
            let mut out = VecDeque::new();
            block_on(merged.fill(&mut out)).unwrap();
            let Some(Fragment::PartitionStart { deletion, .. }) = out.pop_front() else {
                panic!("a partition begins with its start");
            };
            assert_eq!(deletion.map(|deletion| deletion.timestamp), Some(3), "{order:?}");
        }
    }

    /// Runs of rows are handed on as they are, and rows of several sources are merged between them.
    #[test]
    fn runs_of_rows_end_where_another_source_has_something() {
        let key = || PartitionKey::from_bytes(*b"k");
        let row = |timestamp| Row {
            liveness: Some(crate::mutation::Liveness::at(timestamp)),
            ..Row::default()
        };
        let source = |rows: Vec<u16>, timestamp, deleted: Option<u16>| {
            let memtable = Memtable::new(Rc::default());
            let mut mutation = Mutation::new(TableId(1), key());
            let ordered = |number: u16| ClusteringKey::from_ordered(number.to_be_bytes());
            let all = rows.into_iter().map(|number| (ordered(number), row(timestamp)));
            mutation.rows.extend(all);
            if let Some(number) = deleted {
                let tombstone = Tombstone { timestamp: 1, deletion_time: 1 };
                let range = ClusteringRange::prefix(ordered(number));
                mutation.range_tombstones.push(RangeTombstone { range, tombstone });
            }
            memtable.replay(None, mutation);
            memtable.read(&PartitionRange::full(), &Slice::full(Direction::Forward))
        };
        let count = 3 * FRAGMENTS_PER_FILL_MAX as u16;
        let long = || (0..count).collect::<Vec<_>>();
        for (others, deleted) in [
            (vec![], None),
            (vec![0, 1, 2, count / 2, count - 1], None),
            ((0..count).step_by(7).collect(), Some(5)),
            (vec![count + 1], Some(count / 2)),
        ] {
            let sources = vec![source(long(), 5, None), source(others.clone(), 9, deleted)];
            let mut merged = MergeSource::merge(sources, Direction::Forward);
            let (mut out, mut found, mut changes) = (VecDeque::new(), Vec::new(), 0);
            loop {
                block_on(merged.fill(&mut out)).unwrap();
                assert!(out.len() <= FRAGMENTS_PER_FILL_MAX + 2, "{} at once", out.len());
                if out.is_empty() {
                    break;
                }
                for fragment in out.drain(..).map(Fragment::thawed) {
                    match fragment {
                        Fragment::Row { key, row } => {
                            let number = u16::from_be_bytes(key.as_ordered().try_into().unwrap());
                            found.push((number, row.liveness.unwrap().timestamp));
                        }
                        Fragment::RangeTombstoneChange { .. } => changes += 1,
                        _ => {}
                    }
                }
            }
            let mut wanted: Vec<(u16, i64)> = long().into_iter().map(|row| (row, 5)).collect();
            for other in &others {
                wanted.retain(|(row, _)| row != other);
                wanted.push((*other, 9));
            }
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{others:?}");
            assert_eq!(changes, if deleted.is_some() { 2 } else { 0 });
        }
    }

    /// What is skipped may lie within a range tombstone, which ends with its partition.
    #[test]
    fn a_partition_behind_one_that_was_skipped_has_its_own_range_tombstone() {
        let tombstone = Tombstone { timestamp: 5, deletion_time: 1 };
        let deleted = |keys: &[&'static [u8]]| {
            let memtable = Memtable::new(Rc::default());
            for key in keys {
                let key = PartitionKey::from_bytes(*key);
                let mut mutation = Mutation::new(TableId(1), key);
                let range = ClusteringRange { start: Position::start(), end: Position::end() };
                mutation.range_tombstones.push(RangeTombstone { range, tombstone });
                let rows = (0..2 * FRAGMENTS_PER_FILL_MAX as u32).map(u32::to_be_bytes);
                let deleted = Row {
                    deletion: Some(Tombstone { timestamp: 9, ..tombstone }),
                    ..Row::default()
                };
                let row = |key: [u8; 4]| (ClusteringKey::from_ordered(key), deleted.clone());
                mutation.rows.extend(rows.map(row));
                memtable.replay(None, mutation);
            }
            memtable.read(&PartitionRange::full(), &Slice::full(Direction::Forward))
        };
        let sources = vec![deleted(&[b"a", b"b"]), deleted(&[b"a", b"b"])];
        let mut merged = MergeSource::merge(sources, Direction::Forward);
        let mut out = VecDeque::new();
        block_on(merged.fill(&mut out)).unwrap();
        let is_row = |fragment: Option<&Fragment>| fragment.is_some_and(Fragment::is_row);
        assert!(is_row(out.back()), "the first fill ends within the first partition");
        merged.skip_partition();
        out.clear();
        loop {
            let before = out.len();
            block_on(merged.fill(&mut out)).unwrap();
            if out.len() == before {
                break;
            }
        }
        let changes: Vec<_> = out
            .iter()
            .filter_map(|fragment| match fragment {
                Fragment::RangeTombstoneChange { tombstone, .. } => Some(*tombstone),
                _ => None,
            })
            .collect();
        assert_eq!(changes, [Some(tombstone), None], "{out:?}");
    }

    /// What a reader sees of a partition.
    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        key: Vec<u8>,
        deletion: Option<Tombstone>,
        static_row: Option<Row>,
        rows: Vec<(ClusteringKey, Row)>,
    }

    /// All that a stream gives, without what its own tombstones cover.
    fn seen(mut source: Box<dyn FragmentSource>) -> Vec<Seen> {
        let (mut all, mut fragments) = (Vec::new(), VecDeque::new());
        let (mut partition, mut range) = (Seen::default(), None);
        let cut = |row: &Row, covering: Option<Tombstone>| {
            let mut row = row.clone();
            row.apply_own_tombstone();
            covering.into_iter().for_each(|tombstone| row.apply_tombstone(tombstone));
            (!row.is_empty()).then_some(row)
        };
        loop {
            block_on(source.fill(&mut fragments)).unwrap();
            if fragments.is_empty() {
                return all;
            }
            for fragment in fragments.drain(..).map(Fragment::thawed) {
                match fragment {
                    Fragment::PartitionStart { key, deletion } => {
                        let key = key.as_bytes().to_vec();
                        partition = Seen { key, deletion, ..Seen::default() };
                    }
                    Fragment::StaticRow(row) => {
                        partition.static_row = cut(&row, partition.deletion);
                    }
                    Fragment::Row { key, row } => {
                        let left = cut(&row, strongest(partition.deletion, range));
                        partition.rows.extend(left.map(|row| ((*key).clone(), row)));
                    }
                    Fragment::RangeTombstoneChange { tombstone, .. } => range = tombstone,
                    Fragment::PartitionEnd => all.push(std::mem::take(&mut partition)),
                    Fragment::FlatRow(_) => unreachable!("it was thawed"),
                }
            }
        }
    }

    /// A write to one of three partitions, with a time that others have as well.
    fn random_write(random: &mut Random) -> Mutation {
        let key = PartitionKey::from_bytes([b'a' + random.below(3) as u8]);
        let mut mutation = Mutation::new(TableId(1), key);
        let timestamp = 1 + random.below(6) as i64;
        let tombstone = Tombstone { timestamp: timestamp / 2, deletion_time: 1 };
        let value = [random.below(4) as u8];
        let cells = vec![(ColumnId(random.below(2) as u16), Cell::live(timestamp, value))];
        let clustering = |at: u64| ClusteringKey::from_ordered([at as u8]);
        let at = 1 + random.below(12);
        match random.below(10) {
            0 => mutation.deletion = Some(tombstone),
            1 => mutation.static_row = Some(Row { cells, ..Row::default() }),
            2..=4 => {
                let last = at + random.below(5);
                let bound = |at, is_after| match is_after {
                    true => Position::after(clustering(at)),
                    false => Position::before(clustering(at)),
                };
                let start = bound(at, random.one_in(2));
                let range = ClusteringRange { start, end: bound(last + 1, random.one_in(2)) };
                mutation.range_tombstones.push(RangeTombstone { range, tombstone });
            }
            5 => {
                let row = Row { deletion: Some(tombstone), ..Row::default() };
                mutation.rows.push((clustering(at), row));
            }
            _ => {
                let marker = crate::mutation::Liveness::at(timestamp);
                let liveness = random.one_in(2).then_some(marker);
                mutation.rows.push((clustering(at), Row { liveness, cells, ..Row::default() }));
            }
        }
        mutation
    }

    #[test]
    fn heads_order_keys_as_their_bytes_do() {
        let mut random = Random::new(5);
        let mut keys: Vec<Vec<u8>> = (0..=20).map(|length| vec![0; length]).collect();
        for _ in 0..300 {
            let length = random.below(21);
            keys.push((0..length).map(|_| random.below(3) as u8 * 127).collect());
        }
        for key in &keys {
            let mut padded = [0; 16];
            let known = key.len().min(16);
            padded[..known].copy_from_slice(&key[..known]);
            assert_eq!(head_of(key), u128::from_be_bytes(padded), "{key:?}");
        }
        let mut shown = 0;
        for (a, b) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))) {
            let rank = |key: &[u8]| Rank { head: head_of(key), is_row: true };
            if let Some(order) = rank(a).order(rank(b)) {
                assert_eq!(order, a.cmp(b), "{a:?} {b:?}");
                shown += 1;
            }
        }
        assert!(shown > 50_000, "{shown} pairs");
        let change = Rank { head: 0, is_row: false };
        assert_eq!(change.order(Rank { head: 1, is_row: true }), None);
    }

    #[test]
    fn what_is_merged_is_what_one_source_of_all_writes_would_give() {
        let mut rows = 0;
        for seed in 0..150 {
            let mut random = Random::new(seed);
            let all = Memtable::new(Rc::default());
            let count = 2 + random.below(3);
            let parts: Vec<Rc<Memtable>> =
                (0..count).map(|_| Memtable::new(Rc::default())).collect();
            for _ in 0..10 + random.below(60) {
                let write = random_write(&mut random);
                all.replay(None, write.clone());
                parts[random.below(count) as usize].replay(None, write);
            }
            for direction in [Direction::Forward, Direction::Reversed] {
                let slice = Slice::full(direction);
                let read = |memtable: &Rc<Memtable>| memtable.read(&PartitionRange::full(), &slice);
                let wanted = seen(read(&all));
                let found = seen(MergeSource::merge(parts.iter().map(read).collect(), direction));
                assert_eq!(found, wanted, "seed {seed}, {direction:?}");
                rows += wanted.iter().map(|partition| partition.rows.len()).sum::<usize>();
            }
        }
        assert!(rows > 1000, "{rows} rows");
    }
}
