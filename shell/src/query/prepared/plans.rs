//! Prepared statements by their text.
//!
//! Invariant: at most [`STATEMENTS_MAX`] are kept, of at most [`TEXT_BYTES_MAX`] together, for a
//! plan takes some hundred times the memory of its text. What was used longest ago goes first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Prepared;
use crate::query::parse::statement::Statement;
use crate::query::session::Session;

/// Most statements that are kept.
const STATEMENTS_MAX: usize = 1024;
/// Most bytes of their texts together.
const TEXT_BYTES_MAX: usize = 512 << 10;
/// Longest text that is kept, bytes.
const LONGEST_TEXT_BYTES: usize = 16 << 10;

/// See the head of this file.
pub struct Plans {
    hasher: RandomState,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_hash: HashMap<u64, Entry>,
    /// Of the texts.
    bytes: usize,
    /// Counts the uses of all.
    uses: u64,
}

struct Entry {
    /// Of the settings of its sessions.
    stamp: u64,
    text: String,
    prepared: Arc<Prepared>,
    /// When it was used last.
    used: u64,
}

impl Default for Plans {
    fn default() -> Self {
        Plans::new()
    }
}

impl Plans {
    /// Without any statement.
    pub fn new() -> Self {
        Plans { hasher: RandomState::new(), kept: Mutex::default() }
    }

    /// The statement of this text that was kept for sessions with the settings of this one.
    pub fn get(&self, session: &Session, text: &str, keyspace: &str) -> Option<Arc<Prepared>> {
        let stamp = session.stamp.value();
        let hash = self.hasher.hash_one((stamp, keyspace, text));
        let mut kept = self.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let entry = kept.by_hash.get_mut(&hash)?;
        let is_same =
            entry.stamp == stamp && entry.text == text && entry.prepared.shown.keyspace == keyspace;
        is_same.then(|| {
            entry.used = uses;
            Arc::clone(&entry.prepared)
        })
    }

    /// Prepares the one statement of `text` and keeps it, unless it is too long.
    pub fn keep(
        &self,
        session: &Session,
        text: &str,
        statement: Statement,
        keyspace: &str,
    ) -> Arc<Prepared> {
        let stamp = session.stamp.value();
        let prepared = Arc::new(session.prepare(statement, keyspace));
        if text.len() <= LONGEST_TEXT_BYTES {
            let hash = self.hasher.hash_one((stamp, keyspace, text));
            let (text, prepared) = (text.to_owned(), Arc::clone(&prepared));
            self.lock().insert(hash, Entry { stamp, text, prepared, used: 0 });
        }
        prepared
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no one panics while holding prepared statements")
    }
}

impl Kept {
    fn insert(&mut self, hash: u64, entry: Entry) {
        self.uses += 1;
        self.bytes += entry.text.len();
        let entry = Entry { used: self.uses, ..entry };
        if let Some(before) = self.by_hash.insert(hash, entry) {
            self.bytes -= before.text.len();
        }
        while self.by_hash.len() > STATEMENTS_MAX || self.bytes > TEXT_BYTES_MAX {
            let oldest = self.by_hash.iter().min_by_key(|(_, entry)| entry.used);
            let Some(hash) = oldest.map(|(hash, _)| *hash) else { break };
            if let Some(gone) = self.by_hash.remove(&hash) {
                self.bytes -= gone.text.len();
            }
        }
    }
}
