//! What compactions are told, and what they know of a table beside its files.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::compaction::{Choice, Progress, Shapes};

/// A compaction to be run.
pub struct CompactionOrder {
    pub choice: Choice,
    /// Wall clock, seconds since the epoch.
    pub now_seconds: i64,
    /// Whether no log of an earlier run may still bring old writes back.
    pub may_purge: bool,
    pub progress: Rc<Progress>,
}

/// What compactions know of a table's SSTables beside the files.
#[derive(Debug)]
pub(super) struct Compacting {
    /// Something has changed since the table was asked last.
    pub(super) is_due: Cell<bool>,
    /// Bytes that its strategy has before it; none where something has changed since.
    pub(super) backlog: Cell<Option<u64>>,
    /// Shapes that policies of compaction have left.
    pub(super) shapes: RefCell<Shapes>,
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
            backlog: Cell::new(None),
            shapes: RefCell::default(),
            set_aside: RefCell::default(),
            seen: RefCell::default(),
            inputs: RefCell::default(),
        }
    }
}

impl Compacting {
    /// The set of SSTables, or what is wanted of them, has changed.
    pub(super) fn note_change(&self) {
        self.is_due.set(true);
        self.backlog.set(None);
    }
}
