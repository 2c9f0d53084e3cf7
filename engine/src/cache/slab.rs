//! A slab: things by dense, reused numbers of half the size of a pointer.

use std::ops::{Index, IndexMut};

use crate::policy::SlotArray;

/// No number.
pub(super) const NONE: u32 = u32::MAX;

enum Place<T> {
    Taken(T),
    /// The number that became free before this one.
    Free(u32),
}

/// See the head of this file.
pub(super) struct Slab<T> {
    places: SlotArray<Place<T>>,
    free: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: SlotArray::default(), free: NONE }
    }
}

impl<T> Slab<T> {
    /// The number that the thing has until it is removed.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        let number = self.free;
        debug_assert!(number == NONE || number < self.places.len() as u32, "free is a place");
        if number == NONE {
            let number = self.places.len() as u32;
            debug_assert_ne!(number, NONE, "there are fewer things");
            self.places.push(Place::Taken(thing));
            return number;
        }
        let was = std::mem::replace(&mut self.places[number], Place::Taken(thing));
        let Place::Free(next) = was else { unreachable!("a free number is not taken") };
        self.free = next;
        number
    }

    /// The thing with a number, if there is one.
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        match self.places.get(number)? {
            Place::Taken(thing) => Some(thing),
            Place::Free(_) => None,
        }
    }

    /// See [`get`](Self::get).
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.places.get_mut(number)? {
            Place::Taken(thing) => Some(thing),
            Place::Free(_) => None,
        }
    }

    /// All things with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.places.len() as u32).filter_map(move |number| Some((number, self.get(number)?)))
    }

    /// Has the thing's place fetched.
    pub(super) fn prefetch(&self, number: u32) {
        self.places.prefetch(number);
    }

    pub(super) fn remove(&mut self, number: u32) -> T {
        let was = std::mem::replace(&mut self.places[number], Place::Free(self.free));
        let Place::Taken(thing) = was else { panic!("nothing has the number {number}") };
        self.free = number;
        thing
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        match &self.places[number] {
            Place::Taken(thing) => thing,
            Place::Free(_) => panic!("nothing has the number {number}"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        match &mut self.places[number] {
            Place::Taken(thing) => thing,
            Place::Free(_) => panic!("nothing has the number {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_taken_again() {
        let mut things = Slab::default();
        assert_eq!(["a", "b", "c"].map(|thing| things.insert(thing)), [0, 1, 2]);
        assert_eq!((things.remove(1), things.remove(0)), ("b", "a"));
        assert_eq!(["d", "e", "f"].map(|thing| things.insert(thing)), [0, 1, 3]);
        things[3] = "g";
        assert_eq!([0, 1, 2, 3].map(|number| things[number]), ["d", "e", "c", "g"]);
    }
}
