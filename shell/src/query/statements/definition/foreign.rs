//! Options of Cassandra and ScyllaDB that say nothing here: they are read, left out, and named in a
//! note, so that a schema which cqlsh has printed runs.

use sqlparser::tokenizer::Token;

use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::parse::statement::is_word;

/// Of tables.
const OF_TABLES: [&str; 26] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "auto_repair",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "crc_check_chance",
    "dclocal_read_repair_chance",
    "extensions",
    "id",
    "in_memory",
    "incremental_backups",
    "index_interval",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "paxos_grace_seconds",
    "populate_io_cache_on_flush",
    "read_repair",
    "read_repair_chance",
    "scylla_encryption_options",
    "speculative_retry",
    "storage",
    "synchronous_updates",
    "tombstone_gc",
];

/// Within `compaction` and `compression`.
const WITHIN: [&str; 20] = [
    "base_shard_count",
    "base_time_seconds",
    "crc_check_chance",
    "expired_sstable_check_frequency_seconds",
    "flush_compression",
    "log",
    "log_all",
    "max_sstable_age_days",
    "max_sstables_to_compact",
    "max_window_size_seconds",
    "min_compress_ratio",
    "only_purge_repaired_tombstones",
    "overlap_inclusion_method",
    "provide_overlapping_tombstones",
    "scaling_parameters",
    "sstable_growth",
    "target_sstable_size",
    "timestamp_resolution",
    "unchecked_tombstone_compaction",
    "unsafe_aggressive_sstable_expiration",
];

/// What was read and is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored(Vec<String>);

impl Ignored {
    /// Takes `name`'s value, where it is an option of tables.
    pub fn take_table_option(&mut self, name: &str, cursor: &mut Cursor<'_>) -> Result<bool> {
        let is_known = OF_TABLES.contains(&name);
        if is_known {
            skip_value(cursor)?;
            self.add(name);
        }
        Ok(is_known)
    }

    /// Takes `name`'s value, where it stands within the option `within`.
    pub fn take_within(
        &mut self,
        (within, name): (&str, &str),
        cursor: &mut Cursor<'_>,
    ) -> Result<bool> {
        let is_known = WITHIN.contains(&name);
        if is_known {
            cursor.option_value()?;
            self.add(format!("'{name}' of {within}"));
        }
        Ok(is_known)
    }

    /// Takes all options of a keyspace.
    pub fn take_keyspace_options(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        loop {
            let name = cursor.name("an option")?;
            cursor.expect(&Token::Eq)?;
            skip_value(cursor)?;
            self.add(name.value);
            if !cursor.take_word("and") {
                return Ok(());
            }
        }
    }

    pub fn add(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    /// The outcome with a note of what was left out, and why.
    pub fn noted(&self, outcome: Outcome, why: &str) -> Outcome {
        if self.0.is_empty() {
            return outcome;
        }
        let note = format!("left out, because {why}: {}", self.0.join(", "));
        Outcome { note: Some(note), ..outcome }
    }
}

/// `COMPACT STORAGE`, which cannot be left out: it changes what columns there are.
///
/// Errors: `Unsupported` where it stands.
pub fn refuse_compact_storage(cursor: &mut Cursor<'_>) -> Result<()> {
    let span = cursor.span();
    if !cursor.take_words(&["compact", "storage"]) {
        return Ok(());
    }
    let error = QueryError::unsupported("COMPACT STORAGE is not offered").at(span);
    Err(error.with_help("leave it out: the columns that are declared are those of the table"))
}

/// A value of any form, up to AND or to the end.
pub fn skip_value(cursor: &mut Cursor<'_>) -> Result<()> {
    let (mut depth, mut taken) = (0_usize, 0_usize);
    while let Some(token) = cursor.peek() {
        match token {
            Token::LBrace | Token::LBracket | Token::LParen => depth += 1,
            Token::RBrace | Token::RBracket | Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && is_word(token, "and") => break,
            _ => {}
        }
        taken += 1;
        cursor.skip_to(cursor.position() + 1);
    }
    match (taken, depth) {
        (0, _) => Err(cursor.expected("a value")),
        (_, 0) => Ok(()),
        _ => Err(cursor.expected("'}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order() {
        assert!(OF_TABLES.is_sorted() && WITHIN.is_sorted());
    }
}
