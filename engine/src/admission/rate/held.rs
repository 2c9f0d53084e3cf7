//! Answers of a policy that hold for some more operations on the same key, so that not each of
//! those costs a call into a component.
//!
//! Invariant: an answer holds within the second in which it was given, and no longer than its
//! policy is in charge.

use crate::policy::rate::Ruling;

/// Keys whose answers are held. Of two with the same place, the later one is.
const PLACES: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    key: u64,
    /// Operations that the answer still holds for.
    left: u8,
    goes_through: bool,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct HeldAnswers {
    /// Made with the first answer that is held: a policy that holds none pays nothing.
    places: Vec<Place>,
}

/// Keys are hashes.
fn place_of(key: u64) -> usize {
    key as usize % PLACES
}

impl HeldAnswers {
    /// Keeps an answer about `key` for as many operations as it says.
    pub fn hold(&mut self, key: u64, Ruling { goes_through, holds_for }: Ruling) {
        if holds_for == 0 {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![Place::default(); PLACES];
        }
        self.places[place_of(key)] = Place { key, left: holds_for, goes_through };
    }

    /// Whether an operation on `key` goes through, by an answer that holds for it.
    #[inline]
    pub fn take(&mut self, key: u64) -> Option<bool> {
        let place = self.places.get_mut(place_of(key))?;
        if place.key != key || place.left == 0 {
            return None;
        }
        place.left -= 1;
        Some(place.goes_through)
    }

    /// No answer holds any more.
    pub fn forget(&mut self) {
        self.places.fill(Place::default());
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
    }
}
