//! The state of a shard's compactions, and what is told of them. Not here: decisions and actions
//! (`compacting.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::compaction::{Choice, Progress, Purged, Reason};
use crate::error::Result;
use crate::policy::compaction::Chooser;
use crate::schema::TableId;
use crate::table::Table;

/// See the head of this file.
#[derive(Default)]
pub(in crate::database) struct Compacting {
    /// Where a policy may choose.
    pub(super) chooser: Rc<Chooser>,
    pub(super) is_running: Cell<bool>,
    pub(super) running: RefCell<Option<Rc<Job>>>,
    /// What somebody asked for and that waits.
    pub(super) asked: RefCell<VecDeque<Request>>,
    /// Told when a compaction has ended.
    pub(super) ended: Notify,
    /// Tables that wait after a failure: until when by the monotonic clock, and the pause.
    pub(super) pauses: RefCell<BTreeMap<TableId, (u64, Duration)>>,
    /// When the shard had its tables.
    pub(super) started_ns: Cell<u64>,
    /// Shares of the disk by backlog.
    pub(super) shares: Cell<u32>,
    /// When they followed it last.
    pub(super) shared_ns: Cell<u64>,
    /// When every table was asked last.
    pub(super) asked_all_ns: Cell<u64>,
    /// Compactions that were begun.
    pub(super) count: Cell<u64>,
    /// Those that ended, the latest at the end.
    pub(super) history: RefCell<VecDeque<CompactionRecord>>,
    /// No log of an earlier run will be read again: what is dead there stays dead.
    pub(super) may_purge: Cell<bool>,
}

/// All of a table is to be merged.
pub(super) struct Request {
    pub(super) table: Rc<Table>,
    pub(super) done: oneshot::Sender<Result<()>>,
}

/// A compaction that runs.
pub(in crate::database) struct Job {
    pub(in crate::database) number: u64,
    pub(in crate::database) table: Rc<Table>,
    pub(in crate::database) choice: Choice,
    pub(in crate::database) input_bytes: u64,
    pub(in crate::database) progress: Rc<Progress>,
    /// Wall clock, microseconds, and by the monotonic clock.
    pub(in crate::database) started_us: i64,
    pub(in crate::database) started_ns: u64,
}

/// A compaction that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRecord {
    /// Unique among the compactions of all shards since the start.
    pub number: u64,
    pub keyspace: String,
    pub table: String,
    pub shard: u32,
    pub reason: Reason,
    /// Wall clock, microseconds since the epoch.
    pub started_us: i64,
    pub ended_us: i64,
    /// Numbers of the SSTables and bytes of their data.
    pub inputs: Vec<u64>,
    pub input_bytes: u64,
    pub outputs: Vec<u64>,
    pub output_bytes: u64,
    pub purged: Purged,
    pub end: CompactionEnd,
}

/// How a compaction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionEnd {
    Done,
    Cancelled,
    /// Why it failed, in words.
    Failed(String),
}
