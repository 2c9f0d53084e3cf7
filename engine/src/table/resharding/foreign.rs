//! What a table knows of SSTables that were written under another number of shards. Not here: how
//! they go (`resharding.rs`), what shards tell each other of them (`handover.rs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::handover::Handovers;
use crate::sstable::Sstable;
use crate::sstable::manifest::Manifest;

/// A shard, and the number of shards of which it is one.
pub(in crate::table) type Log = (u32, u32);

/// What a table knows of SSTables of other shard counts, on one shard.
pub(in crate::table) struct Resharding {
    pub(in crate::table) board: Arc<Handovers>,
    /// What the board was told of the start.
    pub(in crate::table) has_begun: Cell<bool>,
    /// SSTables that this shard needs no more, and has not said so.
    pub(in crate::table) left: RefCell<Vec<Left>>,
    /// Manifests whose SSTables this shard removes when nobody needs them.
    pub(in crate::table) foreign: tokio::sync::Mutex<Vec<Foreign>>,
    /// SSTables that they name, or whose files are there.
    pub(in crate::table) foreign_count: Cell<u64>,
    /// By the run of what was rewritten here, the run of what became of it.
    pub(in crate::table) runs: RefCell<BTreeMap<u64, u64>>,
}

/// An SSTable that this shard needs no more.
#[derive(Clone)]
pub(in crate::table) struct Left {
    pub(in crate::table) number: u64,
    /// For readers that still have it.
    pub(in crate::table) sstable: Option<Rc<Sstable>>,
}

/// A manifest of another shard count.
pub(in crate::table) struct Foreign {
    pub(in crate::table) manifest: Manifest,
    /// Its SSTables that are not live any more and have files.
    pub(in crate::table) unneeded: Vec<u64>,
    /// Those that have none any more, which it was not told.
    pub(in crate::table) gone: Vec<u64>,
}

impl Resharding {
    /// `left`: SSTables of which this shard has nothing, or took what it has. `foreign`: manifests
    /// that this shard sees to.
    pub(in crate::table) fn new(
        board: Arc<Handovers>,
        left: Vec<u64>,
        foreign: Vec<Manifest>,
    ) -> Self {
        let count = foreign.iter().map(|manifest| manifest.live().len() as u64).sum();
        let left = left.into_iter().map(|number| Left { number, sstable: None });
        let foreign = foreign.into_iter().map(|manifest| Foreign {
            manifest,
            unneeded: Vec::new(),
            gone: Vec::new(),
        });
        Resharding {
            board,
            has_begun: Cell::new(false),
            left: RefCell::new(left.collect()),
            foreign: tokio::sync::Mutex::new(foreign.collect()),
            foreign_count: Cell::new(count),
            runs: RefCell::default(),
        }
    }

    /// Of a table that has none.
    pub(in crate::table) fn none() -> Self {
        Resharding::new(Handovers::new(1), Vec::new(), Vec::new())
    }

    /// The part of this shard was taken; readers may still have the SSTable.
    pub(in crate::table) fn leave(&self, sstable: Rc<Sstable>) {
        let number = sstable.info().generation;
        let is_new = self.left.borrow().iter().all(|left| left.number != number);
        assert!(is_new, "SSTable {number} is left for the second time");
        self.left.borrow_mut().push(Left { number, sstable: Some(sstable) });
    }

    /// SSTables that readers may have and that reads use no more.
    pub(in crate::table) fn of_readers(&self) -> Vec<Rc<Sstable>> {
        self.left.borrow().iter().filter_map(|left| left.sstable.clone()).collect()
    }
}

/// Whether the shard sees to a manifest of another shard count.
pub(in crate::table) fn sees_to(log: Log, (shard, shard_count): Log) -> bool {
    assert_ne!(log.1, shard_count, "shards {log:?} see to their own manifests");
    log.0 % shard_count == shard
}
