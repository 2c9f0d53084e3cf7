//! One page of the partition index, parsed: the entries between two samples of the summary.
//!
//! ```text
//! tokens |token 0|token 1|token 2|...            8 bytes a partition
//! keys   |key 0|key 1 |key 2|...                 one buffer for all
//! places |end of key, data, promoted, last row|...  48 bytes a partition
//! ```
//! Flat, so that a page of 128 partitions is three allocations and is freed in no time. Tokens are
//! spread evenly, so one is looked for where that would have it. Invariant: keys and data positions
//! ascend.

use std::cell::Cell;
use std::rc::Rc;

use crate::schema::{PartitionKey, Token};
use crate::sstable::format::coding::{Fault, Input, Parsed};

/// One partition; its key ends at `key_end` of the keys and begins where the one before ends.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    data_position: u64,
    /// Place of the promoted index in the index file, and its size or 0.
    promoted_at: u64,
    promoted_bytes: u64,
    key_end: u32,
    /// Start and end in the data file of the last row or marker; zeros until somebody found it.
    /// Files do not change, so it stays true.
    last: Cell<(u64, u64)>,
}

/// Where the last row or marker of one partition is noted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastItem {
    page: Rc<IndexPage>,
    place: usize,
}

impl LastItem {
    /// Start and end in the data file, if known.
    pub(crate) fn get(&self) -> Option<(u64, u64)> {
        Some(self.page.places[self.place].last.get()).filter(|(_, end)| *end > 0)
    }

    pub(crate) fn set(&self, place: (u64, u64)) {
        let (start, end) = place;
        debug_assert!(start < end, "the last row of a partition at {start}..{end}");
        self.page.places[self.place].last.set(place);
    }
}

/// One partition in the index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: PartitionKey,
    pub(crate) place: PartitionPlace,
    /// Where its last row or marker is noted once that was found.
    pub(crate) last: Option<LastItem>,
    /// Where the next entry starts.
    pub(crate) next: u64,
}

/// Where a partition stands, as its entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionPlace {
    /// In the data file.
    pub(crate) start: u64,
    /// Its end, where that is known.
    pub(crate) end: Option<u64>,
    /// Place and size of the promoted index in the index file.
    pub(crate) promoted: Option<(u64, u64)>,
}

/// See the head of this file.
#[derive(Debug, PartialEq)]
pub(crate) struct IndexPage {
    tokens: Box<[Token]>,
    keys: Box<[u8]>,
    places: Box<[Place]>,
}

/// What the front of a page's bytes gave.
#[derive(Debug, PartialEq)]
pub(crate) enum Front {
    Whole(IndexPage),
    /// The page has entries beyond these bytes.
    Part,
}

impl IndexPage {
    /// Parses the page at `at..end` of the index file of which `bytes` are the first: a promoted
    /// index at the end of the page is of no use here.
    pub(crate) fn parse(bytes: &[u8], at: u64, end: u64) -> Parsed<Front> {
        let is_all = bytes.len() as u64 >= end - at;
        let (mut tokens, mut keys, mut places) = (Vec::new(), Vec::new(), Vec::<Place>::new());
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
            let ascends = tokens.last().zip(places.last()).is_none_or(|(last_token, last)| {
                (*last_token, &keys[last_start..]) < (token, key)
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
            tokens.push(token);
            places.push(Place { data_position, promoted_at, promoted_bytes, key_end, last });
        }
        let (tokens, keys, places) = (tokens.into(), keys.into(), places.into());
        Ok(Front::Whole(IndexPage { tokens, keys, places }))
    }

    /// Bytes of memory that the page takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.tokens)
            + self.keys.len()
            + size_of_val(&*self.places)
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.places[before].key_end);
        &self.keys[start as usize..self.places[i].key_end as usize]
    }

    /// Number of the first partition with this token or a greater one.
    fn first_from(&self, token: Token) -> usize {
        let (Some(least), Some(most)) = (self.tokens.first(), self.tokens.last()) else { return 0 };
        let last = self.tokens.len() - 1;
        let above = |token: Token| token.0 as f64 - least.0 as f64;
        // Below the least, and of one token only, the first.
        let mut at = ((above(token) / above(*most) * last as f64) as usize).min(last);
        while at > 0 && self.tokens[at - 1] >= token {
            at -= 1;
        }
        while at <= last && self.tokens[at] < token {
            at += 1;
        }
        debug_assert_eq!(
            at,
            self.tokens.partition_point(|other| *other < token),
            "{token:?} was looked for in another place"
        );
        at
    }

    /// The entry of a partition.
    pub(crate) fn find(page: &Rc<Self>, key: &PartitionKey) -> Option<Entry> {
        let first = page.first_from(key.token());
        let alike = page.tokens[first..].iter().take_while(|token| **token == key.token()).count();
        let number = (first..first + alike).find(|number| page.key(*number) == key.as_bytes())?;
        let (place, after) = (&page.places[number], page.places.get(number + 1));
        let promoted = (place.promoted_at, place.promoted_bytes);
        Some(Entry {
            key: key.clone(),
            place: PartitionPlace {
                start: place.data_position,
                end: after.map(|after| after.data_position),
                promoted: (place.promoted_bytes > 0).then_some(promoted),
            },
            last: Some(LastItem { page: page.clone(), place: number }),
            next: place.promoted_at + place.promoted_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::token::key_with_token;
    use crate::sstable::format::coding::{put_bytes16, put_vint};

    /// Entries of a page at 1000 with promoted indexes of these sizes.
    fn page(promoted: &[u64]) -> (Vec<u8>, Vec<PartitionKey>) {
        let keys = (0..promoted.len() as u64).map(|i| PartitionKey::from_bytes(i.to_be_bytes()));
        page_of(keys.collect(), promoted)
    }

    /// The same of these keys.
    fn page_of(mut keys: Vec<PartitionKey>, promoted: &[u64]) -> (Vec<u8>, Vec<PartitionKey>) {
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
            assert_eq!(entry.place.start, 100 * i as u64);
            assert_eq!(entry.place.end, (i < 3).then_some(100 * i as u64 + 100));
            assert_eq!(
                entry.place.promoted.map(|(_, size)| size),
                [None, Some(500), None, Some(7)][i]
            );
            assert!(entry.place.promoted.is_none_or(|(at, size)| at + size == entry.next));
        }
        for absent in 4..200_u64 {
            let absent = PartitionKey::from_bytes(absent.to_be_bytes());
            assert_eq!(IndexPage::find(&parsed, &absent), None);
        }
    }

    #[test]
    fn keys_of_one_token_are_told_apart() {
        let mut keys: Vec<_> =
            (0..4).map(|salt| PartitionKey::from_bytes(key_with_token(Token(77), salt))).collect();
        let absent = keys.pop().unwrap();
        assert!(keys.iter().all(|key| key.token() == absent.token()));
        let around =
            [76, 78].map(|token| PartitionKey::from_bytes(key_with_token(Token(token), 0)));
        keys.extend(around);
        let (bytes, keys) = page_of(keys, &[0; 5]);
        let end = 1000 + bytes.len() as u64;
        let Front::Whole(parsed) = IndexPage::parse(&bytes, 1000, end).unwrap() else { panic!() };
        let parsed = Rc::new(parsed);
        for (i, key) in keys.iter().enumerate() {
            let found = IndexPage::find(&parsed, key).map(|entry| entry.place.start);
            assert_eq!(found, Some(100 * i as u64), "key {i}");
        }
        assert_eq!(IndexPage::find(&parsed, &absent), None);
    }

    #[test]
    fn a_promoted_index_at_the_end_need_not_be_there_and_one_before_must() {
        let (bytes, keys) = page(&[0, 5000]);
        let end = 1000 + bytes.len() as u64;
        let Front::Whole(front) = IndexPage::parse(&bytes[..40], 1000, end).unwrap() else {
            panic!("all entries are in the front")
        };
        let found = IndexPage::find(&Rc::new(front), &keys[1]).unwrap();
        assert_eq!(found.place.promoted.unwrap().1, 5000);
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
    fn tokens_are_found_however_they_are_spread() {
        let spreads: [&[i64]; 5] = [
            &[7],
            &[i64::MIN, i64::MAX],
            &[i64::MIN, -3, -3, -2, 0, 1, 2, 2, 2, i64::MAX - 1, i64::MAX],
            &[5, 5, 5],
            &[-9, -8, -7, -6, -5, 1 << 62],
        ];
        for tokens in spreads {
            let last = Cell::default();
            let place =
                Place { data_position: 0, promoted_at: 0, promoted_bytes: 0, key_end: 0, last };
            let page = IndexPage {
                tokens: tokens.iter().copied().map(Token).collect(),
                keys: Box::default(),
                places: vec![place; tokens.len()].into(),
            };
            let near = tokens
                .iter()
                .flat_map(|token| [token.saturating_sub(1), *token, token.saturating_add(1)]);
            for wanted in near.chain([i64::MIN, 0, i64::MAX]) {
                let first = tokens.partition_point(|token| *token < wanted);
                assert_eq!(page.first_from(Token(wanted)), first, "{wanted} in {tokens:?}");
            }
        }
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
