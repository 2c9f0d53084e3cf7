//! How many tombstones a read may meet for a page of rows.
//!
//! A read that finds little among much that is deleted takes the disk and the processor of reads
//! that find something, and its client cannot see why it is slow.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use crate::config::{BATCH_ROWS_MAX, TOMBSTONES_MAX, TOMBSTONES_WARN};
use crate::error::{Error, Result};
use crate::schema::table_schema::SchemaRef;

/// Seconds until the log is warned of a table again.
const WARN_AGAIN_SECONDS: i32 = 60;

/// Tombstones, and rows of which nothing is left, between two batches of a read; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// From so many on the log is warned, once a minute for a table.
    pub warn: u64,
    /// A read that meets more ends with an error.
    pub max: u64,
}

impl Default for TombstoneLimits {
    fn default() -> Self {
        TombstoneLimits { warn: TOMBSTONES_WARN, max: TOMBSTONES_MAX }
    }
}

/// The limits of one table, and when the log was told last.
#[derive(Debug)]
pub(in crate::table) struct TombstoneWatch {
    limits: TombstoneLimits,
    warned_at: Cell<Option<i32>>,
}

impl From<TombstoneLimits> for TombstoneWatch {
    fn from(limits: TombstoneLimits) -> Self {
        TombstoneWatch { limits, warned_at: Cell::new(None) }
    }
}

impl TombstoneWatch {
    /// A read has met so many since its last batch, and has so many rows for the next one.
    ///
    /// Errors: `Invalid` where these are more than a page may have.
    #[inline]
    pub fn check(&self, met: u64, rows: usize, table: impl FnOnce() -> String) -> Result<()> {
        let TombstoneLimits { max, .. } = self.limits;
        if max == 0 || met <= max {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a read of {} met {met} tombstones for {rows} rows, and {max} are most for a page: \
             leave out by a condition what is deleted, have it purged (COMPACT), or allow more \
             (--tombstones-max)",
            table()
        )))
    }

    /// Whether a page met so many that somebody is to know.
    #[inline]
    fn is_many(&self, met: u64) -> bool {
        self.limits.warn > 0 && met >= self.limits.warn
    }

    /// A page of a read is done.
    #[inline]
    pub fn note(
        &self,
        met: u64,
        rows: usize,
        now_seconds: i32,
        table: impl FnOnce() -> String,
    ) -> bool {
        if !self.is_many(met) {
            return false;
        }
        let is_recent = |at: i32| now_seconds.saturating_sub(at) < WARN_AGAIN_SECONDS;
        if self.warned_at.get().is_some_and(is_recent) {
            return false;
        }
        self.warned_at.set(Some(now_seconds));
        let table = table();
        tracing::warn!(table, met, rows, "a read met many tombstones for a page of rows");
        true
    }
}

/// A page that met so many tombstones that the log is warned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TombstonePage {
    /// Full name of the table.
    pub table: String,
    /// Tombstones, and rows of which nothing was left.
    pub met: u64,
    pub rows: usize,
}

/// Of the pages of one or several reads that met many tombstones, the one that met most. Whoever
/// reads gives it to the read ([`BatchStream::noting`](crate::BatchStream::noting)).
#[derive(Debug, Default)]
pub struct ManyTombstones(Mutex<Option<TombstonePage>>);

impl ManyTombstones {
    /// The page; `None` where no page met many.
    pub fn most(&self) -> Option<TombstonePage> {
        self.0.lock().expect("nobody panics while noting a page").clone()
    }

    /// Another page met many.
    pub(crate) fn note(&self, other: TombstonePage) {
        debug_assert!(other.met > 0, "a page of {} is noted that met nothing", other.table);
        let mut page = self.0.lock().expect("nobody panics while noting a page");
        if page.as_ref().is_none_or(|page| page.met < other.met) {
            *page = Some(other);
        }
    }
}

/// What a read met since its last batch.
pub(super) struct Page {
    watch: Rc<TombstoneWatch>,
    schema: SchemaRef,
    met: u64,
    now_seconds: i32,
}

impl Page {
    pub fn new(watch: &Rc<TombstoneWatch>, schema: &SchemaRef, now_seconds: i32) -> Self {
        Page { watch: Rc::clone(watch), schema: Arc::clone(schema), met: 0, now_seconds }
    }

    /// It met so many more, and has so many rows.
    ///
    /// Errors: `Invalid` where it met too many.
    #[inline]
    pub fn add(&mut self, met: u64, rows: usize) -> Result<()> {
        self.met += met;
        self.watch.check(self.met, rows, || self.schema.full_name())
    }

    /// A batch of so many rows is full, or the read is over. Returns the page where it met many.
    #[inline]
    pub fn end(&mut self, rows: usize) -> Option<TombstonePage> {
        debug_assert!(rows <= BATCH_ROWS_MAX, "a page of {rows} rows is more than a batch");
        let met = std::mem::take(&mut self.met);
        if !self.watch.is_many(met) {
            return None;
        }
        self.watch.note(met, rows, self.now_seconds, || self.schema.full_name());
        Some(TombstonePage { table: self.schema.full_name(), met, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_warned_once_a_minute() {
        let watch = TombstoneWatch::from(TombstoneLimits { warn: 10, max: 100 });
        let note = |met, now| watch.note(met, 1, now, || "t".to_owned());
        let told: Vec<bool> = [(9, 0), (10, 0), (500, 59), (10, 60), (10, 61)]
            .map(|(met, now)| note(met, now))
            .into();
        assert_eq!(told, [false, true, false, true, false]);
        let off = TombstoneWatch::from(TombstoneLimits { warn: 0, max: 0 });
        assert!(!off.note(u64::MAX, 1, 0, || unreachable!("nobody is told")));
        off.check(u64::MAX, 1, || unreachable!("there is no limit")).unwrap();
    }

    #[test]
    fn of_pages_with_many_the_one_that_met_most_is_kept() {
        let many = ManyTombstones::default();
        assert_eq!(many.most(), None);
        let page = |met, rows| TombstonePage { table: "ks.t".into(), met, rows };
        for (met, rows, wanted) in [(10, 1, (10, 1)), (12, 0, (12, 0)), (11, 5, (12, 0))] {
            many.note(page(met, rows));
            assert_eq!(many.most(), Some(page(wanted.0, wanted.1)));
        }
    }

    #[test]
    fn a_page_with_too_many_is_refused_with_figures() {
        let watch = TombstoneWatch::from(TombstoneLimits { warn: 10, max: 100 });
        watch.check(100, 5, || unreachable!("as many as may be")).unwrap();
        let text = watch.check(101, 5, || "ks.t".to_owned()).unwrap_err().to_string();
        assert!(text.contains("ks.t met 101 tombstones for 5 rows, and 100 are most"), "{text}");
    }

    #[test]
    fn what_a_page_met_counts_to_its_end_and_no_further() {
        let watch = Rc::new(TombstoneWatch::from(TombstoneLimits { warn: 10, max: 100 }));
        let schema = crate::table::tests::schema(false);
        let mut page = Page::new(&watch, &schema, 0);
        // What it meets step by step, its rows, and whether somebody is to know.
        let pages =
            [([4, 5], 7, false), ([5, 5], 7, true), ([60, 40], 0, true), ([0, 9], 1, false)];
        for (number, (met, rows, is_told)) in pages.into_iter().enumerate() {
            met.into_iter().for_each(|met| page.add(met, rows).unwrap());
            let told = page.end(rows);
            let met = met.into_iter().sum();
            let wanted = TombstonePage { table: "k.t".into(), met, rows };
            assert_eq!(told, is_told.then_some(wanted), "page {number}");
        }
        assert_eq!(page.end(0), None, "nothing is left of the pages before");
        page.add(100, 3).unwrap();
        let error = page.add(1, 3).unwrap_err().to_string();
        assert!(error.contains("k.t met 101 tombstones for 3 rows"), "{error}");
    }
}
