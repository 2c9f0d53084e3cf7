//! Clustering keys and bounds between their stored and their ordered form.
//!
//! ```text
//! values := (vint header, value of each column that is not empty) for every 32 columns
//! header    2 bits a column: 1 = empty, 2 = null, in tables WITH COMPACT STORAGE
//! bound  := u8 kind, u16 n, values          a prefix of n columns
//! row    := u8 4, values                    (in the promoted index only)
//! ```

use std::cell::RefCell;

use super::coding::{Input, Parsed, put_vint};
use super::layout::Layout;
use crate::mutation::{Position, Weight};
use crate::schema::ClusteringKey;
use crate::schema::order::{decode_component, encode_component, encode_null, is_null};

/// Columns that share one header number.
pub(crate) const BATCH_COLUMNS: usize = 32;

/// What the header says of a value that is not there.
const EMPTY: u64 = 1;
const NULL: u64 = 2;

/// Kind byte of a row in the promoted index.
pub(crate) const KIND_ROW: u8 = 4;

/// What a range-tombstone marker does at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    ExclusiveEnd = 0,
    InclusiveStart = 1,
    ExclusiveEndInclusiveStart = 2,
    InclusiveEndExclusiveStart = 5,
    InclusiveEnd = 6,
    ExclusiveStart = 7,
}

impl Bound {
    /// The bound at a side of a prefix that closes and/or opens a range.
    pub(crate) fn new(weight: Weight, closes: bool, opens: bool) -> Self {
        match (weight, closes, opens) {
            (Weight::Before, true, false) => Bound::ExclusiveEnd,
            (Weight::Before, false, true) => Bound::InclusiveStart,
            (Weight::Before, true, true) => Bound::ExclusiveEndInclusiveStart,
            (Weight::After, true, true) => Bound::InclusiveEndExclusiveStart,
            (Weight::After, true, false) => Bound::InclusiveEnd,
            (Weight::After, false, true) => Bound::ExclusiveStart,
            _ => unreachable!("a marker stands beside a prefix and opens or closes a range"),
        }
    }

    pub(crate) fn from_kind(kind: u8) -> Option<Self> {
        Some(match kind {
            0 => Bound::ExclusiveEnd,
            1 => Bound::InclusiveStart,
            2 => Bound::ExclusiveEndInclusiveStart,
            5 => Bound::InclusiveEndExclusiveStart,
            6 => Bound::InclusiveEnd,
            7 => Bound::ExclusiveStart,
            _ => return None,
        })
    }

    pub(crate) fn weight(self) -> Weight {
        match self {
            Bound::ExclusiveEnd | Bound::InclusiveStart | Bound::ExclusiveEndInclusiveStart => {
                Weight::Before
            }
            _ => Weight::After,
        }
    }

    pub(crate) fn closes(self) -> bool {
        !matches!(self, Bound::InclusiveStart | Bound::ExclusiveStart)
    }

    pub(crate) fn opens(self) -> bool {
        !matches!(self, Bound::ExclusiveEnd | Bound::InclusiveEnd)
    }
}

/// Turns ordered keys into stored values, reusing its memory.
#[derive(Debug, Default)]
pub(crate) struct PrefixEncoder {
    stored: Vec<u8>,
    /// End of each value, and whether there is none.
    ends: Vec<(usize, bool)>,
}

impl PrefixEncoder {
    /// Splits an ordered key into its stored components. Panics for bytes that are no key of this
    /// table: they come from the engine's own memory.
    fn split(&mut self, layout: &Layout, key: &[u8]) {
        self.stored.clear();
        self.ends.clear();
        let mut rest = key;
        for (ty, order) in &layout.clustering {
            if rest.is_empty() {
                break;
            }
            let taken = decode_component(ty, *order, rest, &mut self.stored)
                .expect("clustering keys in memory are in the ordered form of their table");
            self.ends.push((self.stored.len(), is_null(*order, rest)));
            rest = &rest[taken..];
        }
        assert!(rest.is_empty(), "a clustering key has bytes beyond its last column");
    }

    fn put_split(&self, layout: &Layout, out: &mut Vec<u8>) {
        let start = |i: usize| if i == 0 { 0 } else { self.ends[i - 1].0 };
        for batch in (0..self.ends.len()).step_by(BATCH_COLUMNS) {
            let batch = batch..self.ends.len().min(batch + BATCH_COLUMNS);
            let header = batch
                .clone()
                .filter(|&i| start(i) == self.ends[i].0)
                .map(|i| (i, if self.ends[i].1 { NULL } else { EMPTY }))
                .fold(0u64, |header, (i, bits)| header | bits << (2 * (i % BATCH_COLUMNS)));
            put_vint(out, header);
            for i in batch {
                let value = &self.stored[start(i)..self.ends[i].0];
                if !value.is_empty() && layout.clustering[i].0.fixed_bytes().is_none() {
                    put_vint(out, value.len() as u64);
                }
                out.extend_from_slice(value);
            }
        }
    }

    /// Appends the values of a row's whole key.
    pub(crate) fn put_key(&mut self, layout: &Layout, key: &[u8], out: &mut Vec<u8>) {
        self.split(layout, key);
        assert_eq!(self.ends.len(), layout.clustering.len(), "a row needs a whole clustering key");
        self.put_split(layout, out);
    }

    /// Appends a bound: kind, number of values, values.
    pub(crate) fn put_bound(
        &mut self,
        layout: &Layout,
        bound: Bound,
        prefix: &ClusteringKey,
        out: &mut Vec<u8>,
    ) {
        debug_assert_eq!(Bound::from_kind(bound as u8), Some(bound), "a bound of unknown kind");
        out.push(bound as u8);
        self.split(layout, prefix.as_ordered());
        out.extend_from_slice(&(self.ends.len() as u16).to_be_bytes());
        self.put_split(layout, out);
    }

    /// The stored values of a key; empty ones in the place of nulls.
    pub(crate) fn values(&mut self, layout: &Layout, key: &[u8]) -> Vec<Vec<u8>> {
        self.split(layout, key);
        let mut start = 0;
        let ends = self.ends.iter();
        ends.map(|&(end, _)| self.stored[std::mem::replace(&mut start, end)..end].to_vec())
            .collect()
    }
}

thread_local! {
    /// Where a key is put together before its length is known.
    static ORDERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads `count` stored values as an ordered key or prefix.
pub(super) fn read_values(
    input: &mut Input<'_>,
    layout: &Layout,
    count: usize,
) -> Parsed<ClusteringKey> {
    look_at_values(input, layout, count, |_, ordered| ClusteringKey::from_ordered(ordered))
}

/// Reads `count` stored values; what `look` makes of what is behind them, and of the ordered key or
/// prefix that they are.
pub(super) fn look_at_values<'a, T>(
    input: &mut Input<'a>,
    layout: &Layout,
    count: usize,
    look: impl FnOnce(&mut Input<'a>, &[u8]) -> T,
) -> Parsed<T> {
    ORDERED.with_borrow_mut(|ordered| {
        ordered.clear();
        read_values_into(input, layout, count, ordered)?;
        Ok(look(input, ordered))
    })
}

fn read_values_into(
    input: &mut Input<'_>,
    layout: &Layout,
    count: usize,
    ordered: &mut Vec<u8>,
) -> Parsed<()> {
    if count > layout.clustering.len() {
        let wanted = format!("at most {} clustering values", layout.clustering.len());
        return Err(input.bad(wanted, count));
    }
    let mut header = 0;
    for (i, (ty, order)) in layout.clustering[..count].iter().enumerate() {
        let within = i % BATCH_COLUMNS;
        if within == 0 {
            header = input.vint()?;
        }
        let bits = header >> (2 * within) & 3;
        let before = input.clone();
        let value: &[u8] = match bits {
            0 => match ty.fixed_bytes() {
                Some(length) => input.take(length as u64)?,
                None => input.vbytes()?,
            },
            EMPTY => &[],
            NULL => {
                encode_null(*order, ordered);
                continue;
            }
            _ => return Err(before.bad("a clustering value", "one that is empty and null")),
        };
        encode_component(ty, *order, value, ordered).map_err(|error| {
            before.bad(format!("a clustering value of {}", ty.sql_name()), error)
        })?;
    }
    Ok(())
}

/// Steps over `count` stored values.
pub(super) fn skip_values(input: &mut Input<'_>, layout: &Layout, count: usize) -> Parsed<()> {
    if count > layout.clustering.len() {
        let wanted = format!("at most {} clustering values", layout.clustering.len());
        return Err(input.bad(wanted, count));
    }
    let mut header = 0;
    for (i, (ty, _)) in layout.clustering[..count].iter().enumerate() {
        let within = i % BATCH_COLUMNS;
        if within == 0 {
            header = input.vint()?;
        }
        match (header >> (2 * within) & 3, ty.fixed_bytes()) {
            (0, Some(length)) => _ = input.take(length as u64)?,
            (0, None) => _ = input.vbytes()?,
            (EMPTY | NULL, _) => {}
            _ => return Err(input.bad("a clustering value", "one that is empty and null")),
        }
    }
    Ok(())
}

/// Reads a kind byte and the row key or bound after it, the ordered prefix into `ordered`; returns
/// the weight of the position.
pub(crate) fn read_position_into(
    input: &mut Input<'_>,
    layout: &Layout,
    ordered: &mut Vec<u8>,
) -> Parsed<Weight> {
    let before = input.clone();
    let (weight, count) = match input.u8()? {
        KIND_ROW => (Weight::At, layout.clustering.len()),
        kind => {
            let bound = Bound::from_kind(kind)
                .ok_or_else(|| before.bad("the kind of a clustering prefix", kind))?;
            (bound.weight(), usize::from(input.u16()?))
        }
    };
    ordered.clear();
    read_values_into(input, layout, count, ordered)?;
    Ok(weight)
}

/// Reads what follows the kind byte of a bound.
pub(super) fn read_bound(input: &mut Input<'_>, layout: &Layout, bound: Bound) -> Parsed<Position> {
    let count = usize::from(input.u16()?);
    Ok(Position { prefix: read_values(input, layout, count)?, weight: bound.weight() })
}
