//! Which source of a table holds which part of a partition: for people who want to see it.

use std::collections::VecDeque;

use super::table::Table;
use crate::error::Result;
use crate::mutation::{
    Direction, Fragment, FragmentSource, PartitionRange, Position, Row, Slice, Tombstone, Weight,
};
use crate::runtime;
use crate::schema::PartitionKey;
use crate::sstable::ReadPlan;

/// What a part of a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentKind {
    /// The source has the partition; the timestamp is that of its deletion.
    Partition,
    StaticRow,
    Row,
    RangeTombstone,
    /// The cache knows that no SSTable has this row.
    AbsentRow,
    /// The cache knows that the SSTables have nothing here.
    KnownGap,
    /// The cache knows nothing of what the SSTables have here.
    UnknownGap,
}

/// A part of a partition in one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentReport {
    /// `memtable`, `sealed memtable`, `cache`, or an SSTable by its number.
    pub source: String,
    pub kind: FragmentKind,
    pub start: Position,
    pub end: Position,
    /// Of the newest thing in it.
    pub timestamp: Option<i64>,
}

impl Table {
    /// What each source holds of a partition, up to `max` parts of each; the caches are not
    /// changed.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub async fn fragments(&self, key: &PartitionKey, max: usize) -> Result<Vec<FragmentReport>> {
        let range = PartitionRange::Single(key.clone());
        let slice = Slice::full(Direction::Forward);
        let mut parts = Vec::new();
        let sealed = self.sealed.borrow().clone();
        let sources = sealed
            .iter()
            .map(|sealed| ("sealed memtable", sealed.read(&range, &slice)))
            .chain([("memtable", self.active().read(&range, &slice))]);
        let mut sources: Vec<(String, Box<dyn FragmentSource>)> =
            sources.map(|(name, source)| (name.to_owned(), source)).collect();
        let sstables = self.sstables.borrow().clone();
        let plan = ReadPlan::of(&range, &slice).past_cache();
        for live in &sstables.0 {
            let name = || format!("sstable {}", live.sstable.info().generation);
            sources.extend(live.sstable.read(&plan).map(|source| (name(), source)));
        }
        self.cached(key, max, &mut parts);
        for (name, source) in sources {
            read_parts(&name, source, max, &mut parts).await?;
        }
        Ok(parts)
    }

    fn cached(&self, key: &PartitionKey, max: usize, parts: &mut Vec<FragmentReport>) {
        let Some(cached) = self.rows().inspect(key, max) else { return };
        let mut push = |kind, start: &Position, end: &Position, timestamp: Option<i64>| {
            let (start, end) = (start.clone(), end.clone());
            parts.push(FragmentReport { source: "cache".to_owned(), kind, start, end, timestamp });
        };
        let (mut before, end) = (Position::start(), Position::end());
        let deleted = cached.deletion.map(|deletion| deletion.timestamp);
        push(FragmentKind::Partition, &before, &end, deleted);
        if cached.has_static_row {
            push(FragmentKind::StaticRow, &before, &before, None);
        }
        for entry in &cached.entries {
            let at = &entry.position;
            // Between two neighbours of which one is the other's bound there is nothing.
            let is_gap = before.prefix != at.prefix
                || (before.weight, at.weight) == (Weight::Before, Weight::After);
            let in_force = entry.tombstone.map(|tombstone| tombstone.timestamp);
            if entry.is_known_before && in_force.is_some() {
                push(FragmentKind::RangeTombstone, &before, at, in_force);
            } else if is_gap {
                let kind = match entry.is_known_before {
                    true => FragmentKind::KnownGap,
                    false => FragmentKind::UnknownGap,
                };
                push(kind, &before, at, None);
            }
            match entry.newest {
                Some(newest) => push(FragmentKind::Row, at, at, Some(newest)),
                None if at.weight == Weight::At => push(FragmentKind::AbsentRow, at, at, in_force),
                None => {}
            }
            before = at.clone();
        }
    }
}

async fn read_parts(
    name: &str,
    mut source: Box<dyn FragmentSource>,
    max: usize,
    parts: &mut Vec<FragmentReport>,
) -> Result<()> {
    let mut fragments = VecDeque::new();
    let mut open: Option<(Position, Tombstone)> = None;
    let mut count = 0;
    loop {
        source.fill(&mut fragments).await?;
        if fragments.is_empty() {
            return Ok(());
        }
        for fragment in fragments.drain(..) {
            let newest = |row: &Row| row.newest_timestamp();
            let (kind, start, end, timestamp) = match fragment.thawed() {
                Fragment::PartitionStart { deletion, .. } => {
                    let timestamp = deletion.map(|deletion| deletion.timestamp);
                    (FragmentKind::Partition, Position::start(), Position::end(), timestamp)
                }
                Fragment::StaticRow(row) => {
                    (FragmentKind::StaticRow, Position::start(), Position::start(), newest(&row))
                }
                Fragment::Row { key, row } => {
                    let at = Position::at((*key).clone());
                    (FragmentKind::Row, at.clone(), at, newest(&row))
                }
                Fragment::FlatRow(_) => unreachable!("it was thawed"),
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    let before = open.take();
                    open = tombstone.map(|tombstone| (position.clone(), tombstone));
                    let Some((start, was)) = before else { continue };
                    (FragmentKind::RangeTombstone, start, position, Some(was.timestamp))
                }
                Fragment::PartitionEnd => {
                    debug_assert!(open.is_none(), "{name}: a partition ended within {open:?}");
                    continue;
                }
            };
            count += 1;
            if count > max {
                return Ok(());
            }
            parts.push(FragmentReport { source: name.to_owned(), kind, start, end, timestamp });
        }
        runtime::maybe_yield().await;
    }
}
