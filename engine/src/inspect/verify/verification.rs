//! What a verification came to, and how it counts problems.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::inspect::json::Json;

/// Problems that are kept; more are counted.
pub const PROBLEMS_KEPT_MAX: usize = 50;

/// What a verification came to.
#[derive(Debug, Default)]
pub struct Verification {
    /// Directory and common part of the files' names.
    pub sstable: PathBuf,
    pub partitions: u64,
    /// Rows, static ones included, and range tombstone markers not.
    pub rows: u64,
    /// Bytes of uncompressed data that were walked.
    pub data_bytes: u64,
    /// What was not checked, and why.
    pub skipped: Vec<String>,
    /// What other products do otherwise, and what is not known here. None of it is damage.
    pub notes: Vec<String>,
    /// The first problems; each names a file and a place in it.
    pub problems: Vec<Error>,
    /// How many there were in all; the same one that is met again counts once.
    pub problem_count: u64,
    /// Place of the last one.
    last: Option<(PathBuf, u64)>,
}

impl Verification {
    /// Of the SSTable whose files' names begin so; nothing was found yet.
    pub(super) fn of(sstable: PathBuf) -> Self {
        Verification { sstable, ..Verification::default() }
    }

    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    /// The result as one line of JSON.
    pub fn to_json(&self) -> String {
        let texts = |texts: Vec<String>| Json::List(texts.into_iter().map(Json::Text).collect());
        let document = Json::Object(vec![
            ("sstable", Json::text(self.sstable.display().to_string())),
            ("status", Json::text(if self.is_sound() { "sound" } else { "damaged" })),
            ("partitions", Json::number(self.partitions)),
            ("rows", Json::number(self.rows)),
            ("data_bytes", Json::number(self.data_bytes)),
            ("problem_count", Json::number(self.problem_count)),
            ("problems", texts(self.problems.iter().map(ToString::to_string).collect())),
            ("not_checked", texts(self.skipped.clone())),
            ("notes", texts(self.notes.clone())),
        ]);
        document.to_line()
    }

    /// Adds a problem, once: whatever needs damaged bytes fails at the same place.
    pub(super) fn add(&mut self, problem: Error) {
        if let Error::Corrupt(corruption) = &problem {
            let is_known = self.problems.iter().any(|known| {
                matches!(known, Error::Corrupt(known)
                    if (&known.file, known.offset) == (&corruption.file, corruption.offset)
                        && (&known.wanted, &known.found) == (&corruption.wanted, &corruption.found))
            });
            let place = (corruption.file.clone(), corruption.offset);
            if is_known || self.last.as_ref() == Some(&place) && self.is_full() {
                return;
            }
            self.last = Some(place);
        }
        self.problem_count += 1;
        if !self.is_full() {
            self.problems.push(problem);
        }
    }

    /// Leaves one problem of those that were added since there were `count`.
    pub(super) fn keep_first_since(&mut self, count: u64) {
        self.problem_count = self.problem_count.min(count + 1);
        self.problems.truncate(self.problem_count.try_into().unwrap_or(usize::MAX));
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_KEPT_MAX
    }

    /// Statistics that are not those of the data and that products gather in different ways.
    pub(super) fn note_other_count(&mut self, path: &Path, wanted: &str, stated: &str) {
        self.notes.push(format!(
            "{}: it does not state {wanted}, but {stated}: products count it in different ways, and \
             reads do not need it",
            path.display()
        ));
    }

    /// The value, or nothing and a problem more.
    pub(super) fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(error);
                None
            }
        }
    }

    pub(super) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }
}

/// Told rows and bytes that were checked and bytes that there are, now and then.
pub type VerifyProgress<'a> = &'a mut dyn FnMut(u64, u64, u64);

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = PROBLEMS_KEPT_MAX as u64;

    fn problem(offset: u64, found: &str) -> Error {
        Error::corrupt("me-1-big-Data.db", offset, "sense", found)
    }

    #[test]
    fn the_first_problems_are_kept_and_all_are_counted_once() {
        let mut found = Verification::of(PathBuf::from("/db/me-1-big"));
        assert!(found.is_sound() && found.to_json().contains("\"status\": \"sound\""));
        for offset in 0..MOST + 10 {
            // Who reads the same bytes again meets the same.
            found.add(problem(offset, "none"));
            found.add(problem(offset, "none"));
        }
        assert!(!found.is_sound());
        assert_eq!((found.problems.len(), found.problem_count), (PROBLEMS_KEPT_MAX, MOST + 10));
        let json = found.to_json();
        assert!(json.contains("\"status\": \"damaged\""), "{json}");
        assert!(json.contains(&format!("\"problem_count\": {}", MOST + 10)), "{json}");
        let last = found.problems.last().unwrap().to_string();
        assert_eq!(last, problem(MOST - 1, "none").to_string(), "the first ones are kept");
    }

    #[test]
    fn two_things_at_one_place_are_two_problems_and_of_damaged_bytes_one_is_left() {
        let mut found = Verification::default();
        for (offset, what) in [(1, "none"), (1, "nonsense"), (1, "none"), (2, "none")] {
            found.add(problem(offset, what));
        }
        assert_eq!((found.problems.len(), found.problem_count), (3, 3));
        found.keep_first_since(3);
        assert_eq!((found.problems.len(), found.problem_count), (3, 3), "none came since");
        found.keep_first_since(1);
        assert_eq!((found.problems.len(), found.problem_count), (2, 2));
        assert_eq!(found.take(Ok(5)), Some(5));
        assert_eq!(found.take::<u32>(Err(problem(3, "none"))), None);
        assert_eq!((found.problems.len(), found.problem_count), (3, 3));
    }
}
