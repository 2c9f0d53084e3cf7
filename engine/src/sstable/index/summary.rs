//! `Summary.db`: every so many keys of the partition index, always in memory.
//!
//! ```text
//! file  := i32 128, i32 n, i64 block bytes, i32 128, i32 samples at full sampling, block,
//!          bytes32 first key, bytes32 last key
//! block := n x u32 LE offset in the block, n x (key, u64 LE position in Index.db)
//! ```
//! An index page is what lies between two samples. Other writers sample at other distances, so a
//! reader never counts keys.

use crate::schema::PartitionKey;
use crate::sstable::format::coding::{Input, Parsed, put_bytes32};

/// Keys between two samples.
const KEYS_PER_SAMPLE: u64 = 128;
/// A page of the index also ends after this many bytes: partitions with large promoted indexes
/// must not make it long to read.
const INDEX_BYTES_PER_SAMPLE: u64 = 16 << 10;

/// Samples of the partition index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    samples: Vec<(PartitionKey, u64)>,
    size_at_full_sampling: u32,
    pub(crate) first: PartitionKey,
    pub(crate) last: PartitionKey,
}

/// Gathers samples while the index is written.
#[derive(Debug, Default)]
pub(crate) struct SummaryBuilder {
    samples: Vec<(PartitionKey, u64)>,
    last: Option<PartitionKey>,
    keys: u64,
    keys_since_sample: u64,
}

impl SummaryBuilder {
    /// The entry of `key` is about to be written at `index_position`.
    pub(crate) fn add(&mut self, key: &PartitionKey, index_position: u64) {
        let last = self.last.as_ref();
        assert!(last.is_none_or(|last| last < key), "{key:?} is indexed behind {last:?}");
        let sample = self.samples.last().map(|(_, at)| *at);
        assert!(
            sample.map_or(index_position == 0, |at| at < index_position),
            "{key:?} is indexed at {index_position}, one before it at {sample:?}"
        );
        let is_far = self.samples.last().is_none_or(|(_, at)| {
            self.keys_since_sample >= KEYS_PER_SAMPLE
                || index_position - at >= INDEX_BYTES_PER_SAMPLE
        });
        if is_far {
            self.samples.push((key.clone(), index_position));
            self.keys_since_sample = 0;
        }
        self.keys_since_sample += 1;
        self.keys += 1;
        self.last = Some(key.clone());
    }

    /// How many keys were added.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// The summary; `None` when no key was added.
    pub(crate) fn finish(self) -> Option<Summary> {
        Some(Summary {
            first: self.samples.first()?.0.clone(),
            last: self.last?,
            samples: self.samples,
            size_at_full_sampling: self.keys.div_ceil(KEYS_PER_SAMPLE) as u32,
        })
    }
}

impl Summary {
    /// Bytes of memory that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let keys = self.samples.iter().map(|(key, _)| key).chain([&self.first, &self.last]);
        let keys: usize = keys.map(PartitionKey::heap_bytes).sum();
        self.samples.capacity() * size_of::<(PartitionKey, u64)>() + keys
    }

    /// The page of the index that holds `key` if any does: its start, and its end unless it is the
    /// last one.
    pub(crate) fn page(&self, key: &PartitionKey) -> Option<(u64, Option<u64>)> {
        let after = self.samples.partition_point(|(sample, _)| sample <= key);
        let (_, start) = self.samples.get(after.checked_sub(1)?)?;
        let end = self.samples.get(after).map(|(_, end)| *end);
        debug_assert!(end.is_none_or(|end| *start < end), "a page from {start} to {end:?}");
        Some((*start, end))
    }

    /// Start of the page that holds the first key whose token is `token` or greater.
    pub(crate) fn page_of_token(&self, token: i64) -> u64 {
        let after = self.samples.partition_point(|(sample, _)| sample.token().0 < token);
        self.samples.get(after.saturating_sub(1)).map_or(0, |(_, start)| *start)
    }

    /// Start of the first page behind `at` of the index.
    pub(crate) fn page_behind(&self, at: u64) -> Option<u64> {
        let behind = self.samples.partition_point(|(_, start)| *start <= at);
        self.samples.get(behind).map(|(_, start)| *start)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let keys: usize = self.samples.iter().map(|(key, _)| key.as_bytes().len() + 12).sum();
        out.extend_from_slice(&(KEYS_PER_SAMPLE as i32).to_be_bytes());
        out.extend_from_slice(&(self.samples.len() as i32).to_be_bytes());
        out.extend_from_slice(&(keys as i64).to_be_bytes());
        out.extend_from_slice(&(KEYS_PER_SAMPLE as i32).to_be_bytes());
        out.extend_from_slice(&self.size_at_full_sampling.to_be_bytes());
        let mut offset = 4 * self.samples.len();
        for (key, _) in &self.samples {
            out.extend_from_slice(&(offset as u32).to_le_bytes());
            offset += key.as_bytes().len() + 8;
        }
        for (key, position) in &self.samples {
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(&position.to_le_bytes());
        }
        assert_eq!(offset, keys, "the samples of a summary take not the bytes that it says");
        put_bytes32(out, self.first.as_bytes());
        put_bytes32(out, self.last.as_bytes());
    }

    /// Reads a whole `Summary.db` of an index of `index_bytes`.
    pub(crate) fn decode(bytes: &[u8], index_bytes: u64) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let _interval = input.i32()?;
        let count = input.count32()?;
        let before_size = input.clone();
        let size = input.i64()?;
        let _level = input.i32()?;
        let size_at_full_sampling = input.u32()?;
        let size = u64::try_from(size).map_err(|_| before_size.bad("a size", size))?;
        let before = input.clone();
        let block = input.take(size)?;
        let mut offsets = Input::new(block);
        let mut offsets =
            offsets.items(count, 4, |input| Ok(u32::from_le_bytes(input.array()?)))?;
        offsets.push(u32::try_from(size).map_err(|_| before_size.bad("at most 4 GiB", size))?);
        let mut samples: Vec<(PartitionKey, u64)> = Vec::with_capacity(count as usize);
        for pair in offsets.windows(2) {
            let entry = block.get(pair[0] as usize..pair[1] as usize);
            let Some((key, position)) = entry.and_then(|entry| entry.split_last_chunk::<8>())
            else {
                return Err(before.bad("ascending offsets", format!("{} {}", pair[0], pair[1])));
            };
            let sample = (PartitionKey::from_bytes(key), u64::from_le_bytes(*position));
            let ascends = samples.last().is_none_or(|last| last.0 < sample.0 && last.1 < sample.1);
            if !ascends || sample.1 >= index_bytes {
                return Err(before.bad("ascending keys and positions", format!("{sample:?}")));
            }
            samples.push(sample);
        }
        let first = PartitionKey::from_bytes(input.bytes32()?);
        let last = PartitionKey::from_bytes(input.bytes32()?);
        let starts_right = samples.first().is_some_and(|sample| sample.0 == first && sample.1 == 0);
        if !starts_right || first > last {
            return Err(before.bad("a sample of the first key", format!("{first:?} to {last:?}")));
        }
        Ok(Summary { samples, size_at_full_sampling, first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Token;
    use crate::schema::token::key_with_token;
    use crate::sstable::format::coding::Fault;

    #[test]
    fn a_scan_from_a_token_begins_before_all_keys_of_it() {
        // Keys of token 77 fill several pages.
        let key = |token, salt| PartitionKey::from_bytes(key_with_token(Token(token), salt));
        let many = (0..4 * KEYS_PER_SAMPLE).map(|salt| key(77, salt));
        let mut keys: Vec<_> = [key(76, 0), key(78, 0)].into_iter().chain(many).collect();
        keys.sort();
        let mut builder = SummaryBuilder::default();
        for (key, at) in keys.iter().zip(0..) {
            builder.add(key, 40 * at);
        }
        let summary = builder.finish().unwrap();
        assert!(summary.samples.len() > 3, "{} pages", summary.samples.len());
        for token in [i64::MIN, 75, 76, 77, 78] {
            let first = keys.iter().position(|key| key.token().0 >= token).unwrap() as u64;
            let page = summary.page_of_token(token);
            assert!(page <= 40 * first, "token {token} is at {first}, read from {page}");
            let behind = summary.page_behind(page).unwrap_or(u64::MAX);
            assert!(behind >= 40 * first, "a page before token {token} is read");
        }
    }

    /// A key that is looked for by halves would be missed among them.
    #[test]
    fn samples_that_do_not_ascend_from_the_first_key_are_refused() {
        let keys = [1, 2, 3].map(|token| PartitionKey::from_bytes(key_with_token(Token(token), 0)));
        let decoded = |samples: &[(usize, u64)]| {
            let samples = samples.iter().map(|(key, at)| (keys[*key].clone(), *at)).collect();
            let (first, last) = (keys[0].clone(), keys[2].clone());
            let summary = Summary { samples, size_at_full_sampling: 3, first, last };
            let mut bytes = Vec::new();
            summary.encode(&mut bytes);
            Summary::decode(&bytes, 900).map(|found| found == summary)
        };
        assert_eq!(decoded(&[(0, 0), (1, 400), (2, 899)]), Ok(true));
        let bad: [&[(usize, u64)]; 8] = [
            &[],
            &[(0, 0), (0, 400)],
            &[(0, 0), (2, 400), (1, 800)],
            &[(0, 0), (1, 0)],
            &[(0, 0), (1, 500), (2, 400)],
            &[(0, 0), (1, 900)],
            &[(0, 1), (1, 400)],
            &[(1, 0), (2, 400)],
        ];
        for samples in bad {
            let found = decoded(samples);
            assert!(matches!(found, Err(Fault::Bad { .. })), "{samples:?}: {found:?}");
        }
    }
}
