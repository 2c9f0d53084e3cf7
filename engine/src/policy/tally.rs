//! Look-ups of a cache, by count, by bytes and by the cost of loading again.

use std::ops::{AddAssign, Sub};

use super::event::EntryAttributes;

/// Hits and misses of a period. Costs are in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub hits: u64,
    pub misses: u64,
    pub hit_bytes: u64,
    pub miss_bytes: u64,
    pub hit_cost_us: u64,
    pub miss_cost_us: u64,
}

impl Tally {
    #[inline]
    pub fn hit(&mut self, entry: &EntryAttributes) {
        self.hits += 1;
        self.hit_bytes += u64::from(entry.size_bytes);
        self.hit_cost_us += u64::from(entry.cost_us);
    }

    #[inline]
    pub fn miss(&mut self, entry: &EntryAttributes) {
        self.misses += 1;
        self.miss_bytes += u64::from(entry.size_bytes);
        self.miss_cost_us += u64::from(entry.cost_us);
    }

    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }

    /// Hits of all look-ups; `None` before the first, as the next two.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.hits, self.misses)
    }

    /// Bytes found of all bytes looked for.
    pub fn byte_hit_ratio(&self) -> Option<f64> {
        ratio(self.hit_bytes, self.miss_bytes)
    }

    /// Loading time saved of all that would be spent without a cache.
    pub fn cost_hit_ratio(&self) -> Option<f64> {
        ratio(self.hit_cost_us, self.miss_cost_us)
    }

    /// The look-ups of `self` as another policy would have answered them, judged by a sample of one
    /// in `rate`: what `ghost` made of the sample against what `real` made of it. The difference is
    /// scaled, not the sample itself, so a sample that lacks the hottest entries, or has too many
    /// of them, misleads about neither policy.
    pub fn with_difference(&self, rate: u32, ghost: &Tally, real: &Tally) -> Tally {
        let shift = |hit: u64, miss: u64, ghost: u64, real: u64| {
            let more = (i128::from(ghost) - i128::from(real)) * i128::from(rate);
            let all = i128::from(hit) + i128::from(miss);
            let missed = (i128::from(miss) + more).clamp(0, all);
            // Both lie within the sum of two numbers of 64 bits, of which none is near its end.
            ((all - missed) as u64, missed as u64)
        };
        let (hits, misses) = shift(self.hits, self.misses, ghost.misses, real.misses);
        let (hit_bytes, miss_bytes) =
            shift(self.hit_bytes, self.miss_bytes, ghost.miss_bytes, real.miss_bytes);
        let (hit_cost_us, miss_cost_us) =
            shift(self.hit_cost_us, self.miss_cost_us, ghost.miss_cost_us, real.miss_cost_us);
        Tally { hits, misses, hit_bytes, miss_bytes, hit_cost_us, miss_cost_us }
    }
}

fn ratio(hit: u64, miss: u64) -> Option<f64> {
    let all = hit + miss;
    (all > 0).then(|| hit as f64 / all as f64)
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.hit_bytes += other.hit_bytes;
        self.miss_bytes += other.miss_bytes;
        self.hit_cost_us += other.hit_cost_us;
        self.miss_cost_us += other.miss_cost_us;
    }
}

impl Sub for Tally {
    type Output = Tally;

    /// What came since `earlier`.
    fn sub(self, earlier: Self) -> Tally {
        Tally {
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            hit_bytes: self.hit_bytes - earlier.hit_bytes,
            miss_bytes: self.miss_bytes - earlier.miss_bytes,
            hit_cost_us: self.hit_cost_us - earlier.hit_cost_us,
            miss_cost_us: self.miss_cost_us - earlier.miss_cost_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_by_count_by_bytes_and_by_cost() {
        let mut tally = Tally::default();
        assert_eq!(tally.hit_ratio(), None);
        let small = EntryAttributes { fingerprint: 1, size_bytes: 10, cost_us: 1, table: 0 };
        let large = EntryAttributes { fingerprint: 2, size_bytes: 90, cost_us: 3, table: 0 };
        tally.hit(&small);
        tally.hit(&small);
        tally.hit(&small);
        tally.miss(&large);
        assert_eq!(tally.hit_ratio(), Some(0.75));
        assert_eq!(tally.byte_hit_ratio(), Some(0.25));
        assert_eq!(tally.cost_hit_ratio(), Some(0.5));
    }

    #[test]
    fn a_difference_is_scaled_and_stays_within_the_lookups() {
        let count = |hits, misses| Tally { hits, misses, ..Tally::default() };
        let whole = count(600, 400);
        let better = whole.with_difference(10, &count(70, 30), &count(60, 40));
        assert_eq!((better.hits, better.misses), (700, 300));
        let worse = whole.with_difference(10, &count(0, 100), &count(100, 0));
        assert_eq!((worse.hits, worse.misses), (0, 1000));
        let same = whole.with_difference(64, &count(1, 9), &count(1, 9));
        assert_eq!(same, whole);
    }

    fn tally(counts: [u64; 6]) -> Tally {
        let [hits, misses, hit_bytes, miss_bytes, hit_cost_us, miss_cost_us] = counts;
        Tally { hits, misses, hit_bytes, miss_bytes, hit_cost_us, miss_cost_us }
    }

    /// A policy may be better by count and worse by bytes or by cost.
    #[test]
    fn a_difference_by_count_says_nothing_of_bytes_and_cost() {
        let whole = tally([600, 400, 6_000, 4_000, 60_000, 40_000]);
        let ghost = tally([7, 3, 50, 50, 100, 900]);
        let real = tally([6, 4, 60, 40, 600, 400]);
        let wanted = tally([610, 390, 5_900, 4_100, 55_000, 45_000]);
        assert_eq!(whole.with_difference(10, &ghost, &real), wanted);
    }

    #[test]
    fn what_came_since_is_what_was_added() {
        let earlier = tally([1, 2, 3, 4, 5, 6]);
        let since = tally([10, 200, 3_000, 40_000, 500_000, 6_000_000]);
        let mut sum = earlier;
        sum += since;
        assert_eq!(sum, tally([11, 202, 3_003, 40_004, 500_005, 6_000_006]));
        assert_eq!((sum - earlier, sum.lookups()), (since, 213));
    }
}
