//! A warning for a statement whose reads met many tombstones for a page of rows.
//!
//! The log is warned of a table; here whoever sent the statement learns which one it was.

use tidegate_engine::{ManyTombstones, TombstonePage};

use super::warnings::{About, Warnings};
use crate::query::parse::statement::Statement;

/// Warns where the reads of a statement, which have ended, met many.
pub fn warn_of_tombstones(statement: &Statement, met: &ManyTombstones, warnings: &Warnings) {
    if let Some(TombstonePage { table, met, rows }) = met.most() {
        let text = format!(
            "a read of {table} met {met} tombstones for a page of {rows} rows: leave out by a \
             condition what is deleted, or have it purged (COMPACT)"
        );
        warnings.add(statement, About::Tombstones, text);
    }
}
