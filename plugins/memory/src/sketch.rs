//! How often identities were seen lately: a count-min sketch of four rows of four-bit counters, which
//! are halved at regular intervals.
//!
//! Invariant: an estimate is never below the count since the last halving, up to 15; by how much it
//! is above depends on how many identities share a counter in all rows.

const ROWS: usize = 4;
const COUNTER_BITS: u32 = 4;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;
/// Counters in a word.
const WORD_COUNTERS: usize = (u64::BITS / COUNTER_BITS) as usize;
/// Odd multipliers, one a row: the bits of the product that select a counter are as good as random.
const MULTIPLIERS: [u32; ROWS] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F];
/// Lowest bit of each counter but shifted out of the one above: what halving leaves.
const HALVED: u64 = 0x7777_7777_7777_7777;
/// Words that are halved in one step, so that no single event pays for all of them.
const SWEEP_WORDS: usize = 4;

/// Approximate counts of recent sightings.
#[derive(Debug, Clone)]
pub struct Sketch {
    /// Row after row.
    words: Vec<u64>,
    row_words: usize,
    shift: u32,
    /// Requests since the last halving, and half of those before.
    passed: u32,
    halvings: u32,
    /// First word that the halving under way has not reached; `words.len()` = none under way.
    sweep: usize,
}

impl Sketch {
    /// A sketch for about `identities` that matter: 4 to 8 bytes each.
    pub fn new(identities: u32) -> Self {
        let counters = (identities as usize * 2).next_power_of_two().max(256);
        let row_words = counters / WORD_COUNTERS;
        let words = vec![0; ROWS * row_words];
        let sweep = words.len();
        Sketch {
            words,
            row_words,
            shift: 32 - counters.trailing_zeros(),
            passed: 0,
            halvings: 0,
            sweep,
        }
    }

    /// Makes room for `identities`. A larger sketch starts empty.
    pub fn grow(&mut self, identities: u32) {
        let grown = Sketch::new(identities);
        if grown.row_words > self.row_words {
            *self = grown;
        }
    }

    /// Adds sightings of an identity.
    pub fn count(&mut self, identity: u32, sightings: u32) {
        let places = self.places(identity);
        let raised = (self.lowest(places) + u64::from(sightings)).min(COUNTER_MAX);
        for (word, bit) in places {
            // Counters that others raised as high need not grow.
            let count = self.words[word] >> bit & COUNTER_MAX;
            self.words[word] += raised.saturating_sub(count) << bit;
        }
    }

    /// Lets one request pass; after `period` of them all counts are halved.
    #[inline]
    pub fn pass(&mut self, period: u32) {
        self.passed += 1;
        if self.passed >= period {
            self.passed /= 2;
            self.halvings = self.halvings.wrapping_add(1);
            self.sweep = 0;
        }
        if self.sweep < self.words.len() {
            self.sweep();
        }
    }

    /// How often the counts were halved.
    #[inline]
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    fn sweep(&mut self) {
        let end = (self.sweep + SWEEP_WORDS).min(self.words.len());
        for word in &mut self.words[self.sweep..end] {
            *word = *word >> 1 & HALVED;
        }
        self.sweep = end;
    }

    /// How often an identity was seen lately, 0 to 15.
    #[inline]
    pub fn estimate(&self, identity: u32) -> u32 {
        self.lowest(self.places(identity)) as u32
    }

    #[inline]
    fn lowest(&self, places: [(usize, u32); ROWS]) -> u64 {
        let counts = places.map(|(word, bit)| self.words[word] >> bit & COUNTER_MAX);
        counts.into_iter().fold(COUNTER_MAX, u64::min)
    }

    /// Word and lowest bit of an identity's counters.
    #[inline]
    fn places(&self, identity: u32) -> [(usize, u32); ROWS] {
        let mixed = (identity ^ identity >> 15).wrapping_mul(0x2C1B_3C6D);
        let mixed = mixed ^ mixed >> 13;
        std::array::from_fn(|row| {
            let counter = (mixed.wrapping_mul(MULTIPLIERS[row]) >> self.shift) as usize;
            let word = row * self.row_words + counter / WORD_COUNTERS;
            (word, (counter % WORD_COUNTERS) as u32 * COUNTER_BITS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stop_at_fifteen_and_are_never_too_low() {
        let mut sketch = Sketch::new(1000);
        for identity in 0..1000 {
            for _ in 0..identity % 20 {
                sketch.count(identity, 1);
            }
        }
        let mut too_high = 0;
        for identity in 0..1000 {
            let (found, seen) = (sketch.estimate(identity), (identity % 20).min(15));
            assert!(found >= seen, "{identity}: {found} for {seen}");
            too_high += u32::from(found > seen);
        }
        assert!(too_high < 50, "{too_high} of 1000 are too high");
    }

    #[test]
    fn counts_are_halved_after_each_period() {
        let mut sketch = Sketch::new(16);
        (0..12).for_each(|_| sketch.count(7, 1));
        sketch.count(9, 7);
        sketch.count(5, 40);
        let pass = |sketch: &mut Sketch, requests| (0..requests).for_each(|_| sketch.pass(100));
        pass(&mut sketch, 99);
        assert_eq!([7, 9, 5].map(|identity| sketch.estimate(identity)), [12, 7, 15]);
        // Four rows of 256 counters are 64 words: this and fifteen more requests sweep them.
        pass(&mut sketch, 16);
        assert_eq!([7, 9, 5].map(|identity| sketch.estimate(identity)), [6, 3, 7]);
        pass(&mut sketch, 34);
        assert_eq!(sketch.halvings(), 1, "a half of the requests still counts");
        pass(&mut sketch, 16);
        assert_eq!((sketch.estimate(7), sketch.halvings()), (3, 2));
    }

    #[test]
    fn a_larger_sketch_starts_empty_and_a_smaller_one_is_no_change() {
        let mut sketch = Sketch::new(1000);
        sketch.count(3, 1);
        sketch.grow(10);
        assert_eq!(sketch.estimate(3), 1);
        sketch.grow(5000);
        assert_eq!(sketch.estimate(3), 0);
    }
}
