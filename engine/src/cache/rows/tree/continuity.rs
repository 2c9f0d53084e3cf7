//! The continuity of a leaf: for each entry, whether the gap before it is known, and which range
//! tombstone is in force there.
//!
//! Most gaps are known and without a tombstone, so each of these facts takes a bit. Invariant: no
//! bit is set beyond the last entry.

use super::heads::WIDTH;
use crate::mutation::Tombstone;

/// No tombstone.
const NONE: u8 = 0;

/// See the head of this file. The leaf knows how many entries there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Continuity {
    /// A bit for each entry, whose gap before it is known; bytes, lest a leaf is aligned for it.
    known: [u8; WIDTH / 8],
    /// Only where an entry has one.
    tombstones: Option<Box<Tombstones>>,
}

const _: () = assert!(WIDTH == u128::BITS as usize);

#[derive(Debug, Clone)]
struct Tombstones {
    /// Of each entry one more than the place of its tombstone in the list.
    numbers: [u8; WIDTH],
    /// Those that entries have, each once, and some that none has any more.
    list: Vec<Tombstone>,
}

/// The lowest bits.
fn low(count: usize) -> u128 {
    if count < WIDTH { (1 << count) - 1 } else { u128::MAX }
}

/// Shifted up by this many bits, or by all.
fn up(bits: u128, by: usize) -> u128 {
    bits.checked_shl(by as u32).unwrap_or(0)
}

/// Shifted down by this many bits, or by all.
fn down(bits: u128, by: usize) -> u128 {
    bits.checked_shr(by as u32).unwrap_or(0)
}

impl Continuity {
    #[inline]
    fn known(&self) -> u128 {
        u128::from_le_bytes(self.known)
    }

    fn set_known(&mut self, known: u128) {
        self.known = known.to_le_bytes();
    }

    #[inline]
    pub(super) fn is_known_before(&self, at: usize) -> bool {
        self.known[at / 8] >> (at % 8) & 1 != 0
    }

    pub(super) fn set_known_before(&mut self, at: usize, is_known: bool) {
        debug_assert!(at < WIDTH, "a leaf has no entry {at}");
        self.set_known(self.known() & !(1 << at) | u128::from(is_known) << at);
    }

    #[inline]
    pub(super) fn tombstone(&self, at: usize) -> Option<Tombstone> {
        let Tombstones { numbers, list } = self.tombstones.as_deref()?;
        usize::from(numbers[at]).checked_sub(1).map(|place| list[place])
    }

    pub(super) fn set_tombstone(&mut self, at: usize, tombstone: Option<Tombstone>) {
        match (tombstone, &mut self.tombstones) {
            (Some(tombstone), Some(tombstones)) => tombstones.set(at, tombstone),
            (Some(tombstone), none) => {
                let mut tombstones = Tombstones { numbers: [NONE; WIDTH], list: Vec::new() };
                tombstones.set(at, tombstone);
                *none = Some(Box::new(tombstones));
            }
            (None, Some(tombstones)) => {
                tombstones.numbers[at] = NONE;
                self.drop_unused();
            }
            (None, None) => {}
        }
    }

    /// An entry comes in before that at `at`.
    pub(super) fn insert(&mut self, at: usize, is_known: bool, tombstone: Option<Tombstone>) {
        debug_assert!(at < WIDTH, "a leaf has no entry {at}");
        debug_assert_eq!(down(self.known(), WIDTH - 1), 0, "there is room for one more");
        let (before, behind) = (self.known() & low(at), down(self.known(), at));
        self.set_known(before | up(behind, at + 1));
        self.set_known_before(at, is_known);
        if let Some(tombstones) = &mut self.tombstones {
            tombstones.numbers.copy_within(at..WIDTH - 1, at + 1);
            tombstones.numbers[at] = NONE;
        }
        if tombstone.is_some() {
            self.set_tombstone(at, tombstone);
        }
    }

    /// The entry at `at` leaves.
    pub(super) fn remove(&mut self, at: usize) {
        debug_assert!(at < WIDTH, "a leaf has no entry {at}");
        self.set_known(self.known() & low(at) | up(down(self.known(), at + 1), at));
        if let Some(tombstones) = &mut self.tombstones {
            tombstones.numbers.copy_within(at + 1.., at);
            tombstones.numbers[WIDTH - 1] = NONE;
            self.drop_unused();
        }
    }

    /// Those of the entries from `at` on, which leave.
    pub(super) fn split_off(&mut self, at: usize) -> Continuity {
        debug_assert!(at <= WIDTH, "a leaf is not so long");
        let mut right = Continuity::default();
        right.set_known(down(self.known(), at));
        self.set_known(self.known() & low(at));
        for from in at..WIDTH {
            if let Some(tombstone) = self.tombstone(from) {
                right.set_tombstone(from - at, Some(tombstone));
                self.set_tombstone(from, None);
            }
        }
        right
    }

    /// Those of other entries come behind the `count` that there are.
    pub(super) fn append(&mut self, count: usize, other: &Continuity) {
        debug_assert_eq!(down(self.known(), count), 0, "beyond the last entry nothing is said");
        self.set_known(self.known() | up(other.known(), count));
        for at in 0..WIDTH - count {
            if let Some(tombstone) = other.tombstone(at) {
                self.set_tombstone(count + at, Some(tombstone));
            }
        }
    }

    /// How many entries from `start` on, before `end`, have a known gap before them and no
    /// tombstone.
    #[inline]
    pub(super) fn plain_from(&self, start: usize, end: usize) -> usize {
        debug_assert!(start <= end && end <= WIDTH, "{start}..{end} are no entries");
        let known = down(self.known(), start).trailing_ones() as usize;
        let known = known.min(end - start);
        match &self.tombstones {
            None => known,
            Some(tombstones) => {
                let numbers = &tombstones.numbers[start..start + known];
                numbers.iter().position(|number| *number != NONE).unwrap_or(known)
            }
        }
    }

    /// How many before `end`, from `start` on, have such a gap and no tombstone.
    #[inline]
    pub(super) fn plain_until(&self, start: usize, end: usize) -> usize {
        debug_assert!(start <= end && end <= WIDTH, "{start}..{end} are no entries");
        let known = up(self.known(), WIDTH - end).leading_ones() as usize;
        let known = known.min(end - start);
        match &self.tombstones {
            None => known,
            Some(tombstones) => {
                let numbers = &tombstones.numbers[end - known..end];
                numbers.iter().rev().position(|number| *number != NONE).unwrap_or(known)
            }
        }
    }

    /// Checks the invariants of the continuity of this many entries.
    pub(super) fn check(&self, count: usize) {
        assert_eq!(self.known() & !low(count), 0, "beyond the last entry nothing is said");
        let Some(Tombstones { numbers, list }) = self.tombstones.as_deref() else { return };
        let (own, behind) = numbers.split_at(count);
        assert!(behind.iter().all(|number| *number == NONE), "beyond the last none is in force");
        assert!(own.iter().any(|number| *number != NONE), "a list that nobody needs goes");
        let is_listed = |number: &u8| usize::from(*number) <= list.len();
        assert!(own.iter().all(is_listed), "the tombstone of an entry is in the list");
    }

    fn drop_unused(&mut self) {
        let is_unused = |tombstones: &Tombstones| tombstones.numbers == [NONE; WIDTH];
        if self.tombstones.as_deref().is_some_and(is_unused) {
            self.tombstones = None;
        }
    }
}

impl Tombstones {
    fn set(&mut self, at: usize, tombstone: Tombstone) {
        let known = self.list.iter().position(|known| *known == tombstone);
        let place = known.unwrap_or_else(|| {
            if self.list.len() >= usize::from(u8::MAX) {
                self.numbers[at] = NONE;
                self.sweep();
            }
            self.list.push(tombstone);
            self.list.len() - 1
        });
        self.numbers[at] = u8::try_from(place + 1).expect("a leaf has few entries");
        debug_assert!(self.list[place] == tombstone, "an entry has the tombstone it was given");
    }

    /// Drops those that no entry has.
    fn sweep(&mut self) {
        let was = std::mem::take(&mut self.list);
        for at in 0..WIDTH {
            if let Some(place) = usize::from(self.numbers[at]).checked_sub(1) {
                self.set(at, was[place]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    type Model = Vec<(bool, Option<Tombstone>)>;

    fn check(continuity: &Continuity, model: &Model) {
        for (at, (is_known, tombstone)) in model.iter().enumerate() {
            assert_eq!(continuity.is_known_before(at), *is_known);
            assert_eq!(continuity.tombstone(at), *tombstone);
        }
        assert_eq!(continuity.known() & !low(model.len()), 0);
        let has_tombstones = model.iter().any(|(_, tombstone)| tombstone.is_some());
        assert_eq!(continuity.tombstones.is_some(), has_tombstones);
        if let Some(Tombstones { numbers, list }) = continuity.tombstones.as_deref() {
            assert!(numbers[model.len()..].iter().all(|number| *number == NONE));
            let mut places = list.clone();
            places.sort_by_key(|tombstone| tombstone.timestamp);
            places.dedup();
            assert_eq!(places.len(), list.len());
        }
    }

    fn check_plain(continuity: &Continuity, model: &Model, random: &mut Random) {
        let end = random.below(model.len() as u64 + 1) as usize;
        let start = random.below(end as u64 + 1) as usize;
        let is_plain = |mark: &&(bool, Option<Tombstone>)| **mark == (true, None);
        let run = &model[start..end];
        assert_eq!(continuity.plain_from(start, end), run.iter().take_while(is_plain).count());
        assert_eq!(
            continuity.plain_until(start, end),
            run.iter().rev().take_while(is_plain).count()
        );
    }

    #[test]
    fn they_do_what_a_list_does() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            // With few tombstones the box comes and goes; with many the list is swept.
            let rare = [3, 200, 1_000_000][seed as usize % 3];
            let (mut continuity, mut model) = (Continuity::default(), Model::new());
            for step in 0..3000 {
                let tombstone = random
                    .one_in(rare)
                    .then(|| Tombstone { timestamp: random.below(1000) as i64, deletion_time: 0 });
                let is_known = !random.one_in(30);
                let at = random.below(model.len() as u64 + 1) as usize;
                match random.below(if step < 2000 { 8 } else { 12 }) {
                    0..4 if model.len() < WIDTH => {
                        continuity.insert(at, is_known, tombstone);
                        model.insert(at, (is_known, tombstone));
                    }
                    4 if at < model.len() => {
                        continuity.set_known_before(at, is_known);
                        model[at].0 = is_known;
                    }
                    5..7 if at < model.len() => {
                        continuity.set_tombstone(at, tombstone);
                        model[at].1 = tombstone;
                    }
                    7 => {
                        let right = continuity.split_off(at);
                        let right_model = model.split_off(at);
                        check(&continuity, &model);
                        check(&right, &right_model);
                        if random.one_in(2) {
                            continuity.append(model.len(), &right);
                            model.extend(right_model);
                        } else {
                            let left = std::mem::replace(&mut continuity, right);
                            let count = right_model.len();
                            continuity.append(count, &left);
                            model = right_model.into_iter().chain(model).collect();
                        }
                    }
                    _ if at < model.len() => {
                        continuity.remove(at);
                        model.remove(at);
                    }
                    _ => {}
                }
                check(&continuity, &model);
                check_plain(&continuity, &model, &mut random);
            }
        }
    }
}
