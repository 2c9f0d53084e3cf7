//! What is known of entries of one class by age: how many were read at it, how many left at it, and
//! from both the hit density, which is how many reads the room that an entry takes from now on will
//! bring.
//!
//! Invariant: ages are below `AGES`; the last one stands for all that are older.

/// Ages that are told apart.
pub const AGES: usize = 20_000;
/// Weight of what was known before at each survey.
const DECAY: f32 = 0.9;

/// Ages in a page of counts.
const PAGE: usize = 250;

/// A page in which nothing was counted.
static NOTHING: [f32; PAGE] = [0.0; PAGE];

/// A figure for each age. Pages come into being when they are counted in: clearing all of them at
/// once would be more work than one call may do, and most ages never occur.
#[derive(Debug)]
struct Counts(Vec<Option<Box<[f32; PAGE]>>>);

impl Counts {
    fn new() -> Self {
        Counts((0..AGES / PAGE).map(|_| None).collect())
    }

    #[inline]
    fn get(&self, age: usize) -> f32 {
        self.0[age / PAGE].as_ref().map_or(0.0, |page| page[age % PAGE])
    }

    #[inline]
    fn add(&mut self, age: usize, count: f32) {
        self.0[age / PAGE].get_or_insert_with(|| Box::new([0.0; PAGE]))[age % PAGE] += count;
    }

    /// Makes all counts smaller by a factor.
    fn fade(&mut self, factor: f32) {
        self.0.iter_mut().flatten().for_each(|page| page.iter_mut().for_each(|n| *n *= factor));
    }

    /// Makes ages `2^shift` times as coarse, or with a negative shift as fine.
    fn rescale(&mut self, shift: i32) {
        let old = std::mem::replace(self, Counts::new());
        let by = shift.unsigned_abs();
        let pages = old.0.iter().enumerate();
        let pages = pages.filter_map(|(at, page)| Some((at * PAGE, page.as_deref()?)));
        let counts = pages.flat_map(|(first, page)| (first..).zip(page));
        for (age, &count) in counts.filter(|(_, count)| **count > 0.0) {
            if age == AGES - 1 || shift < 0 && age << by >= AGES {
                // All that are so old still are, or are now.
                self.add(AGES - 1, count);
            } else if shift >= 0 {
                self.add(age >> by, count);
            } else {
                let parts = age << by..(age + 1) << by;
                let part = count / (1 << by) as f32;
                parts.for_each(|age| self.add(age.min(AGES - 1), part));
            }
        }
    }
}

/// Reads and departures by age of the entries of one class.
#[derive(Debug)]
pub struct AgeClass {
    hits: Counts,
    evictions: Counts,
    /// Empty before the first survey.
    density: Vec<f32>,
    /// What the last survey found, until it is adopted.
    found: Vec<f32>,
    /// Density at age 0 as long as nothing is known; it falls with age.
    guess: f32,
}

impl AgeClass {
    /// A class of which nothing is known.
    pub fn new(guess: f32) -> Self {
        let (hits, evictions) = (Counts::new(), Counts::new());
        AgeClass { hits, evictions, density: Vec::new(), found: Vec::new(), guess }
    }

    #[inline]
    pub fn note_hit(&mut self, age: usize) {
        self.hits.add(age, 1.0);
    }

    #[inline]
    pub fn note_eviction(&mut self, age: usize) {
        self.evictions.add(age, 1.0);
    }

    /// An entry did not leave after all.
    pub fn undo_eviction(&mut self, age: usize) {
        self.evictions.add(age, -self.evictions.get(age).min(1.0));
    }

    /// Hits to be expected per entry and unit of age.
    #[inline]
    pub fn density(&self, age: usize) -> f32 {
        match self.density.get(age) {
            Some(density) => *density,
            None => self.guess / (age as f32 + 1.0),
        }
    }

    /// Works out the densities anew, to be adopted later, and lets what was known fade.
    ///
    /// The room an entry of some age will take is the sum, over all later ages, of the entries that
    /// get that old: so both sums grow from the oldest age down.
    pub fn survey(&mut self) {
        self.hits.fade(DECAY);
        self.evictions.fade(DECAY);
        self.found.resize(AGES, 0.0);
        let (mut hits, mut events, mut lifetime) = (0.0f32, 0.0f32, 0.0f32);
        let pages = self.hits.0.iter().zip(&self.evictions.0);
        let found = self.found.as_chunks_mut::<PAGE>().0.iter_mut();
        for ((hit, evicted), found) in pages.zip(found).rev() {
            if hit.is_none() && evicted.is_none() && events == 0.0 {
                found.fill(0.0);
                continue;
            }
            let hit = hit.as_deref().unwrap_or(&NOTHING);
            let evicted = evicted.as_deref().unwrap_or(&NOTHING);
            for at in (0..PAGE).rev() {
                hits += hit[at];
                events += hit[at] + evicted[at];
                lifetime += events;
                // Less than a hundred-thousandth of an event is none.
                found[at] = if events > 1e-5 { hits / lifetime } else { 0.0 };
            }
        }
    }

    /// Lets what the last survey found be the densities: for all classes at once, because only
    /// densities of one survey can be compared.
    pub fn adopt(&mut self) {
        std::mem::swap(&mut self.density, &mut self.found);
    }

    /// Makes ages `2^shift` times as coarse, or with a negative shift as fine.
    pub fn rescale(&mut self, shift: i32) {
        if shift != 0 {
            self.hits.rescale(shift);
            self.evictions.rescale(shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn density_is_hits_by_room() {
        let mut class = AgeClass::new(8.0);
        assert_eq!((class.density(0), class.density(3)), (8.0, 2.0), "a guess");
        // Four entries: two are read at age 0, one at age 1, and one leaves at age 2.
        class.note_hit(0);
        class.note_hit(0);
        class.note_hit(1);
        class.note_eviction(2);
        class.survey();
        assert_eq!(class.density(3), 2.0, "not adopted yet");
        class.adopt();
        // From age 0 on: three hits, and 4 + 2 + 1 entries take room. From age 1: one, and 2 + 1.
        let found: Vec<f32> = (0..4).map(|age| class.density(age)).collect();
        let wanted = [3.0 / 7.0, 1.0 / 3.0, 0.0, 0.0];
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6, "{found} for {wanted}");
        }
    }

    #[test]
    fn what_was_known_fades() {
        let mut class = AgeClass::new(1.0);
        class.note_hit(5);
        class.note_eviction(9);
        class.undo_eviction(9);
        class.undo_eviction(9);
        class.survey();
        class.survey();
        assert!((class.hits.get(5) - 0.81).abs() < 1e-6);
        assert_eq!(class.evictions.get(9), 0.0);
    }

    #[test]
    fn rescaling_keeps_the_counts() {
        let mut class = AgeClass::new(1.0);
        for (age, times) in [(0, 4), (5, 8), (7, 2), (15_000, 3), (AGES - 1, 6)] {
            (0..times).for_each(|_| class.note_hit(age));
        }
        class.rescale(2);
        let counts = [0, 1, 3_750, AGES - 1].map(|age| class.hits.get(age));
        assert_eq!(counts, [4.0, 10.0, 3.0, 6.0]);
        class.rescale(-2);
        assert_eq!((class.hits.get(3), class.hits.get(4), class.hits.get(7)), (1.0, 2.5, 2.5));
        assert_eq!(class.hits.get(15_000), 0.75);
        class.rescale(-1);
        assert_eq!(class.hits.get(AGES - 1), 9.0, "what is too old now is among the oldest");
        assert!(((0..AGES).map(|age| class.hits.get(age)).sum::<f32>() - 23.0).abs() < 1e-3);
    }
}
