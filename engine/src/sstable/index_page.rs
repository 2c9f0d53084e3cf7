//! One page of the partition index, parsed: the entries between two samples of the summary.
//!
//! ```text
//! keys   |key 0|key 1 |key 2|...                 one buffer for all
//! places |token, end of key, data, promoted, last row|...  56 bytes a partition
//! ```
//! Flat, so that a page of 128 partitions is two allocations, is freed in no time and is searched by
//! halves. Invariant: keys and data positions ascend.

use std::cell::Cell;
use std::rc::Rc;

use super::coding::{Fault, Input, Parsed};
use super::partition_index::Entry;
use crate::schema::{PartitionKey, Token};

/// One partition; its key ends at `key_end` of the keys and begins where the one before ends.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    token: Token,
    data_position: u64,
    /// Place of the promoted index in the index file, and its size or 0.
    promoted_at: u64,
    promoted_bytes: u64,
    key_end: u32,
    /// Start and end in the data file of the last row or marker; zeros until somebody found it. Files
    /// do not change, so it stays true.
    last: Cell<(u64, u64)>,
}

/// Where the last row or marker of one partition is noted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LastItem {
    page: Rc<IndexPage>,
    place: usize,
}

impl LastItem {
    /// Start and end in the data file, if known.
    pub(super) fn get(&self) -> Option<(u64, u64)> {
        Some(self.page.places[self.place].last.get()).filter(|(_, end)| *end > 0)
    }

    pub(super) fn set(&self, place: (u64, u64)) {
        self.page.places[self.place].last.set(place);
    }
}

/// See the head of this file.
#[derive(Debug, PartialEq)]
pub(super) struct IndexPage {
    keys: Box<[u8]>,
    places: Box<[Place]>,
}

/// What the front of a page's bytes gave.
#[derive(Debug, PartialEq)]
pub(super) enum Front {
    Whole(IndexPage),
    /// The page has entries beyond these bytes.
    Part,
}

impl IndexPage {
    /// Parses the page at `at..end` of the index file of which `bytes` are the first: a promoted
    /// index at the end of the page is of no use here.
    pub(super) fn parse(bytes: &[u8], at: u64, end: u64) -> Parsed<Front> {
        let is_all = bytes.len() as u64 >= end - at;
        let (mut keys, mut places) = (Vec::new(), Vec::<Place>::new());
        let mut last_start = 0;
        let mut next = at;
        while next < end {
            let mut input = Input::new(bytes);
            let entry = input.take(next - at).and_then(|_| {
                let before = input.clone();
                Ok((before, input.bytes16()?, input.vint()?, input.vint()?))
            });
            let (before, key, data_position, promoted_bytes) = match entry {
                Err(Fault::Short { .. }) if !is_all => return Ok(Front::Part),
                entry => entry?,
            };
            let token = Token::of(key);
            let ascends = places.last().is_none_or(|last| {
                (last.token, &keys[last_start..]) < (token, key)
                    && last.data_position < data_position
            });
            if !ascends {
                let key = PartitionKey::from_bytes(key);
                return Err(before.bad("ascending keys and positions", format!("{key:?}")));
            }
            let promoted_at = at + input.at();
            next = promoted_at.saturating_add(promoted_bytes);
            if next > end {
                let wanted = format!("an entry that ends at {end}, where the next page begins");
                return Err(before.bad(wanted, format!("one that ends at {next}")));
            }
            last_start = keys.len();
            keys.extend_from_slice(key);
            let key_end = keys.len() as u32;
            let last = Cell::default();
            places.push(Place { token, data_position, promoted_at, promoted_bytes, key_end, last });
        }
        Ok(Front::Whole(IndexPage { keys: keys.into(), places: places.into() }))
    }

    /// Bytes of memory that the page takes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.keys.len() + size_of_val(&*self.places)
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.places[before].key_end);
        &self.keys[start as usize..self.places[i].key_end as usize]
    }

    /// The entry of a partition.
    pub(super) fn find(page: &Rc<Self>, key: &PartitionKey) -> Option<Entry> {
        let wanted = (key.token(), key.as_bytes());
        let (mut low, mut high) = (0, page.places.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let place = &page.places[middle];
            match (place.token, page.key(middle)).cmp(&wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let after = page.places.get(middle + 1);
                    let promoted = (place.promoted_at, place.promoted_bytes);
                    return Some(Entry {
                        key: key.clone(),
                        data_position: place.data_position,
                        data_end: after.map(|after| after.data_position),
                        last: Some(LastItem { page: page.clone(), place: middle }),
                        promoted: (place.promoted_bytes > 0).then_some(promoted),
                        next: place.promoted_at + place.promoted_bytes,
                    });
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::coding::{put_bytes16, put_vint};
    use super::*;

    /// Entries of a page at 1000 with promoted indexes of these sizes.
    fn page(promoted: &[u64]) -> (Vec<u8>, Vec<PartitionKey>) {
        let mut keys: Vec<_> =
            (0..promoted.len() as u64).map(|i| PartitionKey::from_bytes(i.to_be_bytes())).collect();
        keys.sort();
        let mut bytes = Vec::new();
        for (i, (key, size)) in keys.iter().zip(promoted).enumerate() {
            put_bytes16(&mut bytes, key.as_bytes());
            put_vint(&mut bytes, 100 * i as u64);
            put_vint(&mut bytes, *size);
            bytes.resize(bytes.len() + *size as usize, 0);
        }
        (bytes, keys)
    }

    #[test]
    fn a_page_answers_as_its_entries_say() {
        let (bytes, keys) = page(&[0, 500, 0, 7]);
        let end = 1000 + bytes.len() as u64;
        let Front::Whole(parsed) = IndexPage::parse(&bytes, 1000, end).unwrap() else { panic!() };
        let parsed = Rc::new(parsed);
        for (i, key) in keys.iter().enumerate() {
            let entry = IndexPage::find(&parsed, key).unwrap();
            assert_eq!(entry.data_position, 100 * i as u64);
            assert_eq!(entry.data_end, (i < 3).then_some(100 * i as u64 + 100));
            assert_eq!(entry.promoted.map(|(_, size)| size), [None, Some(500), None, Some(7)][i]);
            assert!(entry.promoted.is_none_or(|(at, size)| at + size == entry.next));
        }
        for absent in 4..200_u64 {
            let absent = PartitionKey::from_bytes(absent.to_be_bytes());
            assert_eq!(IndexPage::find(&parsed, &absent), None);
        }
    }

    #[test]
    fn a_promoted_index_at_the_end_need_not_be_there_and_one_before_must() {
        let (bytes, keys) = page(&[0, 5000]);
        let end = 1000 + bytes.len() as u64;
        let Front::Whole(front) = IndexPage::parse(&bytes[..40], 1000, end).unwrap() else {
            panic!("all entries are in the front")
        };
        let found = IndexPage::find(&Rc::new(front), &keys[1]).unwrap();
        assert_eq!(found.promoted.unwrap().1, 5000);
        let last = found.last.unwrap();
        assert_eq!(last.get(), None);
        last.clone().set((7, 9));
        assert_eq!(last.get(), Some((7, 9)));
        let (bytes, _) = page(&[5000, 0]);
        let end = 1000 + bytes.len() as u64;
        assert_eq!(IndexPage::parse(&bytes[..40], 1000, end), Ok(Front::Part));
        assert_eq!(IndexPage::parse(&bytes[..3], 1000, end), Ok(Front::Part));
    }

    #[test]
    fn damage_is_a_fault() {
        let (bytes, _) = page(&[0, 0, 0]);
        let end = 1000 + bytes.len() as u64;
        assert!(matches!(IndexPage::parse(&bytes, 1000, end - 1), Err(Fault::Bad { .. })));
        assert!(IndexPage::parse(&bytes, 1000, end + 1).is_ok_and(|front| front == Front::Part));
        let mut swapped = bytes[12..].to_vec();
        swapped.extend_from_slice(&bytes[..12]);
        assert!(matches!(IndexPage::parse(&swapped, 1000, end), Err(Fault::Bad { .. })));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                // Any answer will do but a panic.
                let _ = IndexPage::parse(&flipped, 1000, end);
            }
        }
    }
}
