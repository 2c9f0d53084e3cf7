//! Times of one interval in buckets of an eighth of their size: enough for a median and a 99th
//! percentile, in fixed memory.

/// Buckets of each power of two.
const STEPS: u64 = 8;
const BUCKETS: usize = (STEPS as usize) * 62;

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Vec<u32>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { counts: vec![0; BUCKETS], count: 0 }
    }
}

impl Latencies {
    pub fn add(&mut self, us: u64) {
        let count = &mut self.counts[bucket(us)];
        *count = count.saturating_add(1);
        self.count += 1;
    }

    /// The time that so many of a hundred were not above, to an eighth; 0 when there were none.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if wanted > 0 && seen >= wanted {
                return bound(at);
            }
        }
        0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.counts.fill(0);
            self.count = 0;
        }
    }
}

/// Small numbers have a bucket each; larger ones one by their first four binary digits.
fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let power = u64::from(us.ilog2());
    let step = (us >> (power - 3)) - STEPS;
    ((power - 2) * STEPS + step) as usize
}

/// The largest number of a bucket.
fn bound(bucket: usize) -> u64 {
    let (power, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    match power {
        0 => step,
        _ => ((STEPS + step + 1) << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    #[test]
    fn every_time_has_a_bucket_that_is_an_eighth_wide_at_most() {
        let mut last = 0;
        for us in (0..100_000).chain([u64::from(u32::MAX), 1 << 40, u64::MAX >> 1]) {
            let at = bucket(us);
            assert!(at >= last && at < BUCKETS, "{us}");
            assert!(bound(at) >= us && bound(at) - us <= us / 8, "{us}: {}", bound(at));
            last = at;
        }
    }

    #[test]
    fn percentiles_are_of_what_was_added() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50), 0);
        (1..=100).for_each(|us| latencies.add(us * 10));
        assert!((500..=560).contains(&latencies.percentile(50)));
        assert!((990..=1100).contains(&latencies.percentile(99)));
        latencies.clear();
        assert_eq!(latencies.percentile(99), 0);
        latencies.add(7);
        assert_eq!((latencies.percentile(50), latencies.percentile(99)), (7, 7));
    }

    #[test]
    fn percentiles_of_short_times_are_those_of_the_sorted_list() {
        // Each of these has a bucket of its own.
        let short = 2 * STEPS;
        let mut random = Random::new(5);
        let mut latencies = Latencies::default();
        for count in (1..=40).chain([99, 100, 101, 199, 200, 201]) {
            latencies.clear();
            let time = |at| if count <= short { at } else { random.below(short) };
            let mut times: Vec<u64> = (0..count).map(time).collect();
            times.iter().rev().for_each(|us| latencies.add(*us));
            times.sort_unstable();
            for percent in [1, 50, 99, 100] {
                let place = (count * percent).div_ceil(100) - 1;
                let wanted = times[place as usize];
                assert_eq!(latencies.percentile(percent), wanted, "{percent} % of {count}");
            }
        }
    }
}
