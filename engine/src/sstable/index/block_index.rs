//! The promoted index of one partition, parsed whole: a search for the block of a row parses no
//! keys.
//!
//! ```text
//! common  |bytes that all keys begin with|
//! samples |head 0|head 16|head 32|...            every 16th head
//! heads   |head 0|head 1|head 2|...              of the last position of each block
//! places  |offset, end of first, end of last|... 12 bytes a block
//! keys    |first 0|last 0|first 1|last 1|...     what follows the common bytes, one buffer for all
//! ```
//! A head is the eight bytes of a key behind the common ones, as a number. That of a position which
//! stands behind all that begins with its prefix is filled up with ones and any other with zeros,
//! so heads ascend as positions do. A search looks where an even spread of keys would have its key
//! (Peterson's interpolation, IBM J. Res. Dev. 1957), and if it is not there at samples and then at
//! heads; where heads are alike, at keys.
//!
//! Invariants: positions and offsets ascend. Not here: promoted indexes too long for this, and
//! those of which a part is on disk only (`promoted_index.rs`).

use std::cmp::Ordering;

use super::promoted_index::{BlockSpan, PromotedIndex, RowPlace, Stated};
use crate::error::Result;
use crate::mutation::position::compare;
use crate::mutation::{Tombstone, Weight};
use crate::prefetch::{LINE_BYTES, Memory};

/// Heads between two samples.
const SAMPLE: usize = 16;
/// Longest promoted index that is parsed whole.
pub(crate) const PROMOTED_BYTES_MAX: u64 = 32 << 10;

/// One block. Its keys lie from the end of the last key before to `last_end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// From the start of the partition.
    offset: u32,
    first_end: u32,
    last_end: u32,
}

/// See the head of this file.
#[derive(Debug, PartialEq)]
pub(crate) struct BlockIndex {
    pub(crate) stated: Stated,
    common: Box<[u8]>,
    /// The first head and the last.
    ends: [u64; 2],
    samples: Box<[u64]>,
    /// Of the last position of each block.
    heads: Box<[u64]>,
    places: Box<[Place]>,
    keys: Box<[u8]>,
    /// The weights of the first and the last position of each block.
    weights: Box<[[Weight; 2]]>,
    /// Blocks behind which a range tombstone is in force; few partitions have any.
    opens: Box<[(u32, Tombstone)]>,
}

/// The eight bytes that a position begins with, as a number.
fn head_of(prefix: &[u8], weight: Weight) -> u64 {
    let filler = if weight == Weight::After { 0xff } else { 0 };
    let mut head = [filler; 8];
    let length = prefix.len().min(8);
    head[..length].copy_from_slice(&prefix[..length]);
    u64::from_be_bytes(head)
}

impl BlockIndex {
    /// Parses a promoted index that is in memory. `None` where some of it is not, or where its
    /// positions and offsets do not ascend, or are too great.
    ///
    /// Errors: `Corrupt`.
    pub(crate) fn parse(promoted: &mut PromotedIndex) -> Result<Option<Self>> {
        let count = promoted.count();
        let mut whole: Vec<u8> = Vec::new();
        let mut places = Vec::with_capacity(count as usize);
        let mut weights = Vec::with_capacity(count as usize);
        let mut opens = Vec::new();
        for number in 0..count {
            let added = promoted.look_in_memory(number, |block| {
                let offset = u32::try_from(block.offset).ok()?;
                let Place { offset: before, first_end, last_end } = places
                    .last()
                    .copied()
                    .unwrap_or(Place { offset: 0, first_end: 0, last_end: 0 });
                if number > 0 {
                    let [_, weight] = weights[number as usize - 1];
                    let last = &whole[first_end as usize..last_end as usize];
                    let is_behind = compare(last, weight, block.first.0, block.first.1).is_lt();
                    if offset <= before || !is_behind {
                        return None;
                    }
                }
                whole.extend_from_slice(block.first.0);
                let first_end = whole.len() as u32;
                whole.extend_from_slice(block.last.0);
                places.push(Place { offset, first_end, last_end: whole.len() as u32 });
                weights.push([block.first.1, block.last.1]);
                opens.extend(block.open.map(|open| (number, open)));
                Some(())
            })?;
            if added.flatten().is_none() {
                return Ok(None);
            }
        }
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(None) };
        let ends = (&whole[..first.first_end as usize], &whole[last.first_end as usize..]);
        let alike = ends.0.iter().zip(ends.1).take_while(|(a, b)| a == b).count();
        let common: Box<[u8]> = ends.0[..alike].into();
        // Positions ascend, so what the first and the last have in common all have.
        let mut keys = Vec::with_capacity(whole.len() - 2 * alike * places.len());
        let mut heads = Vec::with_capacity(places.len());
        let mut from = 0;
        for (place, [_, weight]) in places.iter_mut().zip(&weights) {
            let (first_end, last_end) = (place.first_end as usize, place.last_end as usize);
            for (key, end) in [
                (&whole[from..first_end], &mut place.first_end),
                (&whole[first_end..last_end], &mut place.last_end),
            ] {
                let Some(rest) = key.strip_prefix(&*common) else { return Ok(None) };
                keys.extend_from_slice(rest);
                *end = keys.len() as u32;
            }
            heads.push(head_of(&keys[place.first_end as usize..], *weight));
            from = last_end;
        }
        Ok(Some(BlockIndex {
            stated: promoted.stated,
            common,
            ends: [heads[0], heads[heads.len() - 1]],
            samples: heads.iter().copied().step_by(SAMPLE).collect(),
            heads: heads.into(),
            places: places.into(),
            keys: keys.into(),
            weights: weights.into(),
            opens: opens.into(),
        }))
    }

    /// Bytes of memory that it takes beyond the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.common.len()
            + size_of_val(&*self.samples)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.places)
            + self.keys.len()
            + size_of_val(&*self.weights)
            + size_of_val(&*self.opens)
    }

    /// How the first (0) or last (1) position of a block compares with that of the row whose key is
    /// `rest` behind the common bytes.
    fn cmp(&self, block: usize, side: usize, rest: &[u8]) -> Ordering {
        let Place { first_end, last_end, .. } = self.places[block];
        let first_start = block.checked_sub(1).map_or(0, |before| self.places[before].last_end);
        let bounds = [(first_start, first_end), (first_end, last_end)][side];
        let key = &self.keys[bounds.0 as usize..bounds.1 as usize];
        compare(key, self.weights[block][side], rest, Weight::At)
    }

    /// Between which heads the first one stands that is not less than `head`: behind all before
    /// `from`, and within or right behind. Keys are often spread evenly, and then it is near where
    /// that would have it.
    fn near(&self, head: u64) -> (usize, usize) {
        let count = self.heads.len();
        let [least, most] = self.ends;
        let above = head.saturating_sub(least) as f64 / (most - least) as f64;
        // Where all are alike it is the first.
        let guess = ((above * count as f64) as usize).min(count - 1);
        let (from, to) = (guess.saturating_sub(SAMPLE / 2), (guess + SAMPLE / 2).min(count));
        debug_assert!(from <= guess && guess < to && to <= count, "{from} {guess} {to} of {count}");
        Memory::of_slice(&self.places[guess..to]).prefetch();
        Memory::of_slice(&self.weights[guess..to]).prefetch();
        let keys = guess * self.keys.len() / count;
        Memory::of_slice(&self.keys[keys..self.keys.len().min(keys + LINE_BYTES)]).prefetch();
        let is_behind = from == 0 || self.heads[from - 1] < head;
        if is_behind && (to == count || self.heads[to - 1] >= head) {
            return (from, to);
        }
        let sample = self.samples.partition_point(|sample| *sample < head);
        (sample.saturating_sub(1) * SAMPLE, (sample * SAMPLE).min(count))
    }

    /// The first block that reaches up to the row whose key is `rest` behind the common bytes.
    fn block_of(&self, rest: &[u8]) -> usize {
        let head = head_of(rest, Weight::At);
        let (from, to) = self.near(head);
        let first = from + self.heads[from..to].partition_point(|other| *other < head);
        let alike = match self.heads.get(first) {
            Some(other) if *other == head => {
                self.heads[first..].partition_point(|other| *other == head)
            }
            _ => 0,
        };
        let (mut low, mut high) = (first, first + alike);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.cmp(middle, 1, rest) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        debug_assert!(
            low == self.places.len() || self.cmp(low, 1, rest).is_ge(),
            "block {low} ends before the row"
        );
        debug_assert!(
            low == 0 || self.cmp(low - 1, 1, rest).is_lt(),
            "the block before {low} reaches up to the row"
        );
        low
    }

    /// Where the row with this key stands.
    pub(crate) fn place_of_row(&self, key: &[u8]) -> RowPlace {
        let (block, rest) = match key.strip_prefix(&*self.common) {
            Some(rest) => (self.block_of(rest), Some(rest)),
            None if *key < *self.common => (0, None),
            None => (self.places.len(), None),
        };
        let before = block.checked_sub(1).map(|before| before as u32);
        let open = before.and_then(|before| {
            let at = self.opens.binary_search_by_key(&before, |(number, _)| *number).ok()?;
            Some(self.opens[at].1)
        });
        let is_inside =
            block < self.places.len() && rest.is_some_and(|rest| self.cmp(block, 0, rest).is_le());
        let block = is_inside.then(|| BlockSpan {
            // Nothing stands before the first block.
            start: match block {
                0 => self.stated.header_bytes,
                _ => u64::from(self.places[block].offset),
            },
            end: self.places.get(block + 1).map(|next| u64::from(next.offset)),
        });
        RowPlace { block, open }
    }
}
