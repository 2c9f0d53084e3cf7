//! What compactions know of a table beside its files. Not here: what they do (`compact.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// What compactions know of a table's SSTables beside the files.
#[derive(Debug)]
pub(super) struct Compacting {
    /// Something has changed since the table was asked last.
    pub(super) is_due: Cell<bool>,
    /// SSTables of which a part could not be read: they are merged no more.
    pub(super) set_aside: RefCell<BTreeSet<u64>>,
    /// When each was seen first, seconds since the epoch.
    pub(super) seen: RefCell<BTreeMap<u64, i64>>,
    /// What a merge reads at present.
    pub(super) inputs: RefCell<BTreeSet<u64>>,
}

impl Default for Compacting {
    fn default() -> Self {
        Compacting {
            is_due: Cell::new(true),
            set_aside: RefCell::default(),
            seen: RefCell::default(),
            inputs: RefCell::default(),
        }
    }
}
