//! Damage that reads of a table met: remembered by place, reported once, counted.
//!
//! Invariant: a log holds at most `DAMAGE_PLACES_MAX` places and only counts later ones. Nothing
//! here changes a file.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::DAMAGE_PLACES_MAX;
use crate::error::{Corruption, Error};

/// One place where bytes are not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    pub offset: u64,
    pub wanted: String,
    pub found: String,
    /// How often reads met it.
    pub count: u64,
    /// How many of them went on behind it; the others failed.
    pub skipped_count: u64,
    /// How often the file was made anew from others when the SSTable was opened, and nothing was
    /// lost.
    pub rebuilt_count: u64,
    /// The SSTable is left out of compactions because of it.
    pub is_set_aside: bool,
}

/// What became of the read that met damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Failed,
    Skipped,
    Rebuilt,
    SetAside,
}

/// The damage that one table on one shard has met since it was opened.
#[derive(Debug, Default)]
pub struct DamageLog {
    places: RefCell<BTreeMap<(PathBuf, u64), Damage>>,
    /// Met at places that are not remembered.
    unplaced_count: Cell<u64>,
}

impl DamageLog {
    /// Notes that damage was met, and whether the read goes on behind it. Other errors are none.
    pub fn add(&self, error: &Error, is_skipped: bool) {
        self.note(error, if is_skipped { End::Skipped } else { End::Failed });
    }

    /// Notes damage of a component that others made good: no row is lost. Other errors are none.
    pub fn add_rebuilt(&self, error: &Error) {
        self.note(error, End::Rebuilt);
    }

    /// Notes damage because of which the SSTable is left out of compactions. Other errors are none.
    pub fn add_set_aside(&self, error: &Error) {
        self.note(error, End::SetAside);
    }

    fn note(&self, error: &Error, end: End) {
        let Error::Corrupt(corruption) = error else { return };
        let Corruption { file, offset, wanted, found, .. } = &**corruption;
        let mut places = self.places.borrow_mut();
        let is_full = places.len() >= DAMAGE_PLACES_MAX;
        let place = (file.clone(), *offset);
        if is_full && !places.contains_key(&place) {
            self.unplaced_count.set(self.unplaced_count.get() + 1);
            return;
        }
        let damage = places.entry(place).or_insert_with(|| {
            match end {
                End::Failed | End::SetAside => {}
                End::Skipped => tracing::warn!(%error, "reads leave out a damaged part of a file"),
                End::Rebuilt => {
                    tracing::warn!(%error, "reads go on without a damaged component; no row is lost");
                }
            }
            Damage {
                file: file.clone(),
                offset: *offset,
                wanted: wanted.clone(),
                found: found.clone(),
                count: 0,
                skipped_count: 0,
                rebuilt_count: 0,
                is_set_aside: false,
            }
        });
        damage.count += 1;
        damage.skipped_count += u64::from(end == End::Skipped);
        damage.rebuilt_count += u64::from(end == End::Rebuilt);
        damage.is_set_aside |= end == End::SetAside;
        let Damage { count, skipped_count, rebuilt_count, .. } = *damage;
        assert!(
            skipped_count + rebuilt_count <= count,
            "{count} meetings, {skipped_count} skipped and {rebuilt_count} rebuilt"
        );
        let known = places.len();
        assert!(known <= DAMAGE_PLACES_MAX, "{known} places of damage are remembered");
    }

    /// The places, by file and offset.
    pub fn places(&self) -> Vec<Damage> {
        self.places.borrow().values().cloned().collect()
    }

    /// How often damage was met at places that are not remembered.
    pub fn unplaced_count(&self) -> u64 {
        self.unplaced_count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rebuilt_is_counted_apart() {
        let log = DamageLog::default();
        let error = Error::corrupt("f", 0, "a file", "none");
        log.add_rebuilt(&error);
        log.add_rebuilt(&error);
        log.add(&error, true);
        let [damage] = &log.places()[..] else { panic!("one place") };
        assert_eq!((damage.count, damage.skipped_count, damage.rebuilt_count), (3, 1, 2));
    }

    #[test]
    fn places_are_counted_and_limited() {
        let log = DamageLog::default();
        log.add(&Error::Closed, true);
        assert!(log.places().is_empty());
        let at = |offset: u64| Error::corrupt("f", offset, "CRC 1", "CRC 2");
        log.add(&at(7), true);
        log.add(&at(7), false);
        let [damage] = &log.places()[..] else { panic!("one place") };
        assert_eq!((damage.offset, damage.count, damage.skipped_count), (7, 2, 1));
        assert_eq!(damage.rebuilt_count, 0);
        assert_eq!((damage.wanted.as_str(), damage.found.as_str()), ("CRC 1", "CRC 2"));
        for offset in 0..2 * DAMAGE_PLACES_MAX as u64 {
            log.add(&at(offset), true);
        }
        assert_eq!(log.places().len(), DAMAGE_PLACES_MAX);
        assert_eq!(log.unplaced_count(), DAMAGE_PLACES_MAX as u64);
        log.add(&at(7), true);
        assert_eq!(log.unplaced_count(), DAMAGE_PLACES_MAX as u64);
    }

    #[test]
    fn what_is_set_aside_stays_so_and_is_no_loss_of_a_read() {
        let log = DamageLog::default();
        let error = Error::corrupt("f", 3, "CRC 1", "CRC 2");
        let told = || {
            let [damage] = &log.places()[..] else { panic!("one place") };
            let Damage { count, skipped_count, rebuilt_count, is_set_aside, .. } = *damage;
            (count, skipped_count, rebuilt_count, is_set_aside)
        };
        log.add(&error, false);
        assert_eq!(told(), (1, 0, 0, false));
        log.add_set_aside(&error);
        assert_eq!(told(), (2, 0, 0, true));
        log.add(&error, true);
        log.add_rebuilt(&error);
        assert_eq!(told(), (4, 1, 1, true), "later reads take nothing back");
        // Other errors are no damage, whoever met them; other files are other places.
        log.add_rebuilt(&Error::Closed);
        log.add_set_aside(&Error::Closed);
        assert_eq!(told().0, 4);
        log.add(&Error::corrupt("g", 3, "CRC 1", "CRC 2"), false);
        log.add(&Error::corrupt("f", 2, "CRC 1", "CRC 2"), false);
        let places: Vec<(PathBuf, u64)> =
            log.places().into_iter().map(|damage| (damage.file, damage.offset)).collect();
        let place = |file: &str, offset: u64| (PathBuf::from(file), offset);
        assert_eq!(places, [place("f", 2), place("f", 3), place("g", 3)]);
        assert_eq!(log.unplaced_count(), 0);
    }
}
