//! The partitions that are asked most, in a table of fixed size.
//!
//! The scheme is Space-Saving (Metwally, Agrawal and El Abbadi, ICDT 2005) in small sets, so that
//! an operation looks at a few lines of memory. A partition without a place takes over the one of
//! the least count in its set, and starts from that count. So a partition with more than an eighth
//! of what its set is asked has a place. Every [`HALVING`] all counts are halved.
//!
//! Invariant: what is told of a partition was asked of it since it took its place. At most
//! `missed_max` operations before that are not told.

use std::time::Duration;

use super::counters::mix;
use crate::policy::rate::Operation;
use crate::schema::{PartitionKey, TableId, Token};

/// Sets, and places of each.
const SETS: usize = 32;
const PLACES: usize = 8;
/// A place keeps the key of its partition from so many operations on: most take over and go again.
const KEPT_FROM: u32 = 4;
/// Between two halvings.
pub const HALVING: Duration = Duration::from_secs(10);

/// A partition that is asked often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotPartition {
    pub table: TableId,
    pub key: PartitionKey,
    /// Operations of late, refused ones among them.
    pub reads: u64,
    pub writes: u64,
    /// Operations beyond the limit of the partition.
    pub refused: u64,
    /// Operations at most that came before it had its place.
    pub missed_max: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct HotPartitions {
    salt: u64,
    sets: Vec<Set>,
    halved_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Set {
    /// By these a partition finds its place; a place that nobody has counts nothing.
    fingerprints: [u64; PLACES],
    counts: [u32; PLACES],
    places: [Place; PLACES],
}

#[derive(Debug, Clone, Default)]
struct Place {
    key: Option<Box<(TableId, PartitionKey)>>,
    missed_max: u32,
    reads: u32,
    writes: u32,
    refused: u32,
}

impl HotPartitions {
    /// An empty table at this moment of the monotonic clock. `salt` keeps outsiders from choosing
    /// keys that meet in a set.
    pub fn new(salt: u64, now_ns: u64) -> Self {
        HotPartitions { salt, sets: vec![Set::default(); SETS], halved_ns: now_ns }
    }

    /// Counts an operation on a partition.
    #[inline]
    pub fn count(
        &mut self,
        (table, key): (TableId, &PartitionKey),
        operation: Operation,
        is_refused: bool,
    ) {
        let place = self.add((table, key.token()), operation, 1);
        place.refused = place.refused.saturating_add(u32::from(is_refused));
        if place.key.is_none() && place.reads.saturating_add(place.writes) >= KEPT_FROM {
            place.key = Some(Box::new((table, key.clone())));
        }
    }

    /// Counts operations on a partition that callers refused. It has its key from those before.
    pub fn count_refused(
        &mut self,
        (table, token): (TableId, Token),
        operation: Operation,
        times: u32,
    ) {
        let place = self.add((table, token), operation, times);
        place.refused = place.refused.saturating_add(times);
    }

    #[inline]
    fn add(
        &mut self,
        (table, token): (TableId, Token),
        operation: Operation,
        times: u32,
    ) -> &mut Place {
        let of_table = (table.0 >> 64) as u64 ^ table.0 as u64;
        let fingerprint = mix(self.salt ^ of_table ^ token.0 as u64);
        let set = &mut self.sets[fingerprint as usize % SETS];
        let known = set.fingerprints.iter().position(|known| *known == fingerprint);
        let at = known.unwrap_or_else(|| set.take_over(fingerprint));
        set.counts[at] = set.counts[at].saturating_add(times);
        let place = &mut set.places[at];
        let counted = match operation {
            Operation::Read => &mut place.reads,
            Operation::Write => &mut place.writes,
        };
        *counted = counted.saturating_add(times);
        place
    }

    /// Halves all counts if it is time.
    pub fn tick(&mut self, now_ns: u64) {
        let halving_ns = u64::try_from(HALVING.as_nanos()).unwrap_or(u64::MAX);
        let halvings = now_ns.saturating_sub(self.halved_ns) / halving_ns;
        self.halved_ns += halvings * halving_ns;
        let by = u32::try_from(halvings).unwrap_or(u32::MAX);
        if by > 0 {
            self.sets.iter_mut().for_each(|set| set.halve(by));
        }
    }

    /// All that have a place and were asked a few times, those that were asked most first.
    pub fn all(&self) -> Vec<HotPartition> {
        let told = |place: &Place| {
            let (table, key) = &**place.key.as_ref()?;
            Some(HotPartition {
                table: *table,
                key: key.clone(),
                reads: place.reads.into(),
                writes: place.writes.into(),
                refused: place.refused.into(),
                missed_max: place.missed_max.into(),
            })
        };
        let places = self.sets.iter().flat_map(|set| &set.places);
        let mut all: Vec<HotPartition> = places.filter_map(told).collect();
        all.sort_by_key(|hot| std::cmp::Reverse(hot.reads + hot.writes));
        all
    }
}

impl Set {
    /// Gives the place of the least count to another partition.
    #[cold]
    fn take_over(&mut self, fingerprint: u64) -> usize {
        let least = (0..PLACES).min_by_key(|at| self.counts[*at]);
        let at = least.expect("a set has places");
        self.fingerprints[at] = fingerprint;
        self.places[at] = Place { missed_max: self.counts[at], ..Place::default() };
        at
    }

    fn halve(&mut self, by: u32) {
        let halved = |count: u32| count.checked_shr(by).unwrap_or(0);
        for at in 0..PLACES {
            self.counts[at] = halved(self.counts[at]);
            let place = &mut self.places[at];
            let counts =
                [&mut place.missed_max, &mut place.reads, &mut place.writes, &mut place.refused];
            counts.into_iter().for_each(|count| *count = halved(*count));
            // Whoever is asked no more goes.
            if place.reads == 0 && place.writes == 0 {
                self.fingerprints[at] = 0;
                self.counts[at] = 0;
                *place = Place::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    const TABLE: TableId = TableId(3);

    fn key(number: u64) -> PartitionKey {
        PartitionKey::from_bytes(number.to_be_bytes())
    }

    fn read(hot: &mut HotPartitions, number: u64) {
        hot.count((TABLE, &key(number)), Operation::Read, false);
    }

    #[test]
    fn operations_are_told_by_kind_and_table() {
        let mut hot = HotPartitions::new(7, 0);
        for _ in 0..10 {
            read(&mut hot, 1);
        }
        for number in 0..6 {
            hot.count((TABLE, &key(1)), Operation::Write, number % 3 == 0);
            hot.count((TableId(4), &key(1)), Operation::Write, false);
        }
        read(&mut hot, 2);
        let all = hot.all();
        let one = HotPartition {
            table: TABLE,
            key: key(1),
            reads: 10,
            writes: 6,
            refused: 2,
            missed_max: 0,
        };
        let other = HotPartition { table: TableId(4), reads: 0, refused: 0, ..one.clone() };
        assert_eq!(all, [one, other], "one that was asked once is not told of");
    }

    #[test]
    fn counts_are_halved_and_who_is_asked_no_more_goes() {
        let mut hot = HotPartitions::new(7, 0);
        (0..40).for_each(|_| read(&mut hot, 1));
        let after = |hot: &mut HotPartitions, halvings: u32| {
            hot.tick((HALVING * halvings).as_nanos() as u64);
            hot.all().first().map(|hot| hot.reads)
        };
        hot.tick(HALVING.as_nanos() as u64 - 1);
        assert_eq!(hot.all()[0].reads, 40);
        assert_eq!(after(&mut hot, 1), Some(20));
        assert_eq!(after(&mut hot, 3), Some(5));
        assert_eq!(after(&mut hot, 100), None);
        read(&mut hot, 1);
        assert_eq!(hot.sets.iter().map(|set| set.counts.iter().sum::<u32>()).sum::<u32>(), 1);
    }

    /// Against exact counts: nothing is told that was not asked, and nobody hot is missing.
    #[test]
    fn hot_ones_are_found_among_many_cold_ones() {
        let (hot_ones, cold, rounds) = (20, 200_000, 400_000);
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let mut table = HotPartitions::new(random.next_u64(), 0);
            let mut exact = vec![0_u64; hot_ones + cold];
            for _ in 0..rounds {
                let number = match random.one_in(5) {
                    true => random.below(hot_ones as u64),
                    false => hot_ones as u64 + random.below(cold as u64),
                };
                exact[number as usize] += 1;
                read(&mut table, number);
            }
            let all = table.all();
            for told in &all {
                let number = u64::from_be_bytes(told.key.as_bytes().try_into().unwrap());
                let (least, most) = (told.reads, told.reads + told.missed_max);
                let exact = exact[number as usize];
                assert!((least..=most).contains(&exact), "{exact} of {number}: {told:?}");
            }
            let first: Vec<&[u8]> = all.iter().take(hot_ones).map(|t| t.key.as_bytes()).collect();
            for number in 0..hot_ones as u64 {
                assert!(first.contains(&&number.to_be_bytes()[..]), "{number} is hot");
            }
        }
    }

    #[test]
    fn what_callers_refused_is_told_with_what_the_shard_saw() {
        let mut hot = HotPartitions::new(7, 0);
        (0..KEPT_FROM).for_each(|_| read(&mut hot, 1));
        hot.count_refused((TABLE, key(1).token()), Operation::Read, 30);
        hot.count_refused((TABLE, key(1).token()), Operation::Write, 6);
        // Of one that the shard itself was never asked for nobody knows the key.
        hot.count_refused((TABLE, key(2).token()), Operation::Write, 50);
        let (table, key) = (TABLE, key(1));
        let one = HotPartition { table, key, reads: 34, writes: 6, refused: 36, missed_max: 0 };
        assert_eq!(hot.all(), std::slice::from_ref(&one));
        hot.tick(HALVING.as_nanos() as u64);
        assert_eq!(hot.all(), [HotPartition { reads: 17, writes: 3, refused: 18, ..one }]);
    }
}
