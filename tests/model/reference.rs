//! What a table must show, computed the slow way: every write is kept, and every read looks at all
//! of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Clustering key: `a` ascending, `b` descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub a: i32,
    pub b: i32,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.a.cmp(&other.a).then(other.b.cmp(&self.b))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A place before or after all keys that start with a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub a: Option<i32>,
    /// Only where `a` is given.
    pub b: Option<i32>,
    pub is_after: bool,
}

impl Bound {
    pub const START: Bound = Bound { a: None, b: None, is_after: false };
    pub const END: Bound = Bound { a: None, b: None, is_after: true };

    /// Whether this bound stands before the key.
    fn precedes(self, key: Key) -> bool {
        let by_a = self.a.map_or(Ordering::Equal, |a| a.cmp(&key.a));
        let by_b = self.b.map_or(Ordering::Equal, |b| key.b.cmp(&b));
        match by_a.then(by_b) {
            Ordering::Less => true,
            Ordering::Equal => !self.is_after,
            Ordering::Greater => false,
        }
    }
}

/// Everything between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: Bound,
    pub end: Bound,
}

impl Range {
    pub const FULL: Range = Range { start: Bound::START, end: Bound::END };

    pub fn contains(self, key: Key) -> bool {
        self.start.precedes(key) && !self.end.precedes(key)
    }
}

/// A regular or static value that is written: a value, or null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put<T> {
    pub value: Option<T>,
    /// Second from which it is gone, with the time to live that was asked for.
    pub expiry: Option<(i32, i32)>,
}

/// What is done to the map of a row: elements that are put or taken away, each key once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {
    /// A whole map: what is older goes.
    pub replaces: bool,
    pub puts: Vec<(i32, Put<i32>)>,
}

/// One part of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    DeletePartition,
    DeleteRange(Range),
    DeleteRow(Key),
    Static(Put<String>),
    Row {
        key: Key,
        /// An INSERT: the row is there without cells too.
        insert: bool,
        expiry: Option<(i32, i32)>,
        v: Option<Put<i64>>,
        w: Option<Put<String>>,
        m: Option<Elements>,
    },
}

/// A write to one partition, whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub partition: i32,
    /// Sometimes that of an earlier write.
    pub timestamp: i64,
    /// Second at which it was written.
    pub now: i32,
    pub changes: Vec<Change>,
    /// Whether it is a part of a batch that was not told to be done.
    pub is_batched: bool,
}

/// What must hold of a row for a conditional write to be done.
#[derive(Debug, Clone)]
pub enum Wanted {
    NotExists,
    Exists,
    V(Option<i64>),
    VLess(i64),
    /// Of the static row.
    Shared(Option<String>),
}

/// A write, and what must hold for it.
#[derive(Debug, Clone)]
pub struct Conditional {
    pub write: Write,
    pub key: Key,
    pub wanted: Wanted,
}

impl Write {
    /// Takes out what it writes to these columns.
    pub fn empty_columns(&mut self, columns: &[&str]) {
        let is_gone = |name: &str| columns.contains(&name);
        self.changes.retain(|change| !(is_gone("s") && matches!(change, Change::Static(_))));
        for change in &mut self.changes {
            let Change::Row { v, w, m, .. } = change else { continue };
            *v = v.take().filter(|_| !is_gone("v"));
            *w = w.take().filter(|_| !is_gone("w"));
            *m = m.take().filter(|_| !is_gone("m"));
        }
    }
}

/// A row as a reader sees it; a partition that has a static value alone shows one without key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub key: Option<Key>,
    pub s: Option<String>,
    pub v: Option<i64>,
    pub w: Option<String>,
    /// Elements of the map, by key.
    pub m: Vec<(i32, i32)>,
}

/// All writes that were acknowledged, by partition.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    pub writes: BTreeMap<i32, Vec<Write>>,
}

/// The order of stored values: of their bytes.
pub trait Stored: Clone {
    fn compare(&self, other: &Self) -> Ordering;
}

impl Stored for i64 {
    fn compare(&self, other: &Self) -> Ordering {
        self.to_be_bytes().cmp(&other.to_be_bytes())
    }
}

impl Stored for i32 {
    fn compare(&self, other: &Self) -> Ordering {
        self.to_be_bytes().cmp(&other.to_be_bytes())
    }
}

impl Stored for String {
    fn compare(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// Which of two values of one cell stands: at one timestamp null before what expires, that before
/// what stays, then what expires later, then the greater value.
fn stands<T: Stored>((a_time, a): &(i64, &Put<T>), (b_time, b): &(i64, &Put<T>)) -> Ordering {
    let rank = |put: &Put<T>| match (&put.value, put.expiry) {
        (None, _) => (2, 0),
        (Some(_), Some((expiry, _))) => (1, expiry),
        (Some(_), None) => (0, 0),
    };
    let by_value = || match (&a.value, &b.value) {
        (Some(a), Some(b)) => a.compare(b),
        _ => Ordering::Equal,
    };
    a_time.cmp(b_time).then_with(|| rank(a).cmp(&rank(b))).then_with(by_value)
}

fn newest<'a, T: Stored + 'a>(
    puts: impl Iterator<Item = (i64, &'a Put<T>)>,
    deleted: i64,
    now: i32,
) -> Option<T> {
    let (timestamp, put) = puts.max_by(stands)?;
    let is_gone = timestamp <= deleted || put.expiry.is_some_and(|(expiry, _)| expiry <= now);
    if is_gone { None } else { put.value.clone() }
}

impl Reference {
    pub fn add(&mut self, write: Write) {
        self.writes.entry(write.partition).or_default().push(write);
    }

    /// Rows of a partition in natural order at second `now`.
    pub fn read(&self, partition: i32, ranges: &[Range], now: i32) -> Vec<Seen> {
        let none = Vec::new();
        read(self.writes.get(&partition).unwrap_or(&none), ranges, now)
    }

    /// Partitions that were ever written.
    pub fn partitions(&self) -> impl Iterator<Item = i32> {
        self.writes.keys().copied()
    }
}

/// Which part of a row no write ever put there, if there is one.
pub fn invention(writes: &[&Write], row: &Seen) -> Option<&'static str> {
    let changes = || writes.iter().flat_map(|write| &write.changes);
    let is_put = |found: &dyn Fn(&Change) -> bool| changes().any(found);
    let of_row =
        |change: &Change| matches!(change, Change::Row { key, .. } if Some(*key) == row.key);
    let is_v = |change: &Change| match change {
        Change::Row { v: Some(put), .. } => of_row(change) && put.value == row.v,
        _ => false,
    };
    let is_w = |change: &Change| match change {
        Change::Row { w: Some(put), .. } => of_row(change) && put.value == row.w,
        _ => false,
    };
    let is_element = |change: &Change, (key, value): (i32, i32)| match change {
        Change::Row { m: Some(elements), .. } => {
            let is_it = |put: &(i32, Put<i32>)| put.0 == key && put.1.value == Some(value);
            of_row(change) && elements.puts.iter().any(is_it)
        }
        _ => false,
    };
    let is_s = |change: &Change| matches!(change, Change::Static(put) if put.value == row.s);
    if row.key.is_some() && !is_put(&of_row) {
        return Some("key");
    }
    if row.v.is_some() && !is_put(&is_v) {
        return Some("v");
    }
    if row.w.is_some() && !is_put(&is_w) {
        return Some("w");
    }
    if !row.m.iter().all(|element| is_put(&|change: &Change| is_element(change, *element))) {
        return Some("element of the map");
    }
    (row.s.is_some() && !is_put(&is_s)).then_some("static value")
}

/// What a reader sees of a partition that these writes made.
pub fn read(writes: &[Write], ranges: &[Range], now: i32) -> Vec<Seen> {
    let changes = || {
        writes.iter().flat_map(|write| write.changes.iter().map(|change| (write.timestamp, change)))
    };
    let deleted_at = |key: Option<Key>| {
        let covering = changes().filter(|(_, change)| match (change, key) {
            (Change::DeletePartition, _) => true,
            (Change::DeleteRange(range), Some(key)) => range.contains(key),
            (Change::DeleteRow(deleted), Some(key)) => *deleted == key,
            _ => false,
        });
        covering.map(|(timestamp, _)| timestamp).max().unwrap_or(i64::MIN)
    };
    let statics = changes().filter_map(|(timestamp, change)| match change {
        Change::Static(put) => Some((timestamp, put)),
        _ => None,
    });
    let s = newest(statics, deleted_at(None), now);
    let keys: BTreeSet<Key> = changes()
        .filter_map(|(_, change)| match change {
            Change::Row { key, .. } => Some(*key),
            _ => None,
        })
        .filter(|key| ranges.iter().any(|range| range.contains(*key)))
        .collect();
    let mut seen = Vec::new();
    for key in keys {
        let deleted = deleted_at(Some(key));
        let rows = || {
            changes().filter_map(move |(timestamp, change)| match change {
                Change::Row { key: at, insert, expiry, v, w, m } if *at == key => {
                    Some((timestamp, insert, expiry, v, w, m))
                }
                _ => None,
            })
        };
        let inserted = rows()
            .filter(|(_, insert, ..)| **insert)
            .max_by_key(|row| (row.0, row.2.is_some(), row.2.map_or(0, |(expiry, _)| expiry)));
        let is_inserted = inserted.is_some_and(|(timestamp, _, expiry, ..)| {
            timestamp > deleted && expiry.is_none_or(|(expiry, _)| expiry > now)
        });
        let v = newest(rows().filter_map(|row| Some((row.0, row.3.as_ref()?))), deleted, now);
        let w = newest(rows().filter_map(|row| Some((row.0, row.4.as_ref()?))), deleted, now);
        let maps = || rows().filter_map(|row| Some((row.0, row.5.as_ref()?)));
        // A whole map comes after what it takes the place of.
        let replaced = maps().filter(|(_, map)| map.replaces).map(|(timestamp, _)| timestamp - 1);
        let deleted = replaced.fold(deleted, i64::max);
        let keys: BTreeSet<i32> = maps().flat_map(|(_, map)| &map.puts).map(|put| put.0).collect();
        let element = |key: i32| {
            let puts = maps().flat_map(|(timestamp, map)| {
                map.puts.iter().filter(move |put| put.0 == key).map(move |put| (timestamp, &put.1))
            });
            Some((key, newest(puts, deleted, now)?))
        };
        let m: Vec<(i32, i32)> = keys.into_iter().filter_map(element).collect();
        if is_inserted || v.is_some() || w.is_some() || !m.is_empty() {
            seen.push(Seen { key: Some(key), s: s.clone(), v, w, m });
        }
    }
    if seen.is_empty() && s.is_some() && ranges == [Range::FULL] {
        seen.push(Seen { key: None, s, v: None, w: None, m: Vec::new() });
    }
    seen
}

/// Panics with the rows that only one side has.
pub fn differ<T: PartialEq + std::fmt::Debug>(what: &str, found: &[T], wanted: &[T]) -> ! {
    let only = |here: &[T], there: &[T]| {
        let only = here.iter().filter(|row| !there.contains(row));
        only.map(|row| format!("\n  {row:?}")).collect::<String>()
    };
    let (more, less) = (only(found, wanted), only(wanted, found));
    panic!(
        "partition {what}: {} rows, not {}\nnot wanted:{more}\nmissing:{less}",
        found.len(),
        wanted.len()
    );
}
