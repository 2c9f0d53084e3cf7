//! The reads under way: who reads what, for how long, with how much, and who may end them.
//!
//! Reads of single rows are not among them: they are answered in the turn in which they come, or
//! wait for one page.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::admission::level::LevelId;
use crate::policy::admission::{ReadClass, WorkClass};
use crate::schema::table_schema::SchemaRef;

/// What a read does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadState {
    /// It waits for its turn.
    Queued,
    /// It computes, or waits for the disk.
    Running,
    /// It waits for memory.
    Memory,
    /// Its client takes nothing, or it waits to go on after that.
    Client,
}

impl ReadState {
    pub fn as_str(self) -> &'static str {
        match self {
            ReadState::Queued => "queued",
            ReadState::Running => "running",
            ReadState::Memory => "waits for memory",
            ReadState::Client => "waits for its client",
        }
    }
}

/// A read as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadStatus {
    /// Names it on its shard.
    pub number: u64,
    pub table: String,
    pub level: LevelId,
    pub class: &'static str,
    pub state: ReadState,
    /// Since it came.
    pub age_us: u64,
    pub memory_bytes: u64,
}

/// One read.
pub(in crate::admission) struct Read {
    class: ReadClass,
    level: LevelId,
    schema: SchemaRef,
    since_ns: u64,
    pub state: Cell<ReadState>,
    pub memory_bytes: Cell<u64>,
    killed: Notify,
}

/// All reads under way on a shard.
#[derive(Default)]
pub(in crate::admission) struct Reads {
    next: Cell<u64>,
    all: RefCell<BTreeMap<u64, Rc<Read>>>,
}

impl Reads {
    /// A read comes; it is among all until the result is dropped.
    pub fn note(
        self: &Rc<Self>,
        class: ReadClass,
        level: LevelId,
        schema: SchemaRef,
        since_ns: u64,
    ) -> NotedRead {
        let number = self.next.get();
        self.next.set(number + 1);
        let (state, memory_bytes) = (Cell::new(ReadState::Queued), Cell::new(0));
        let killed = Notify::new();
        let read = Rc::new(Read { class, level, schema, since_ns, state, memory_bytes, killed });
        self.all.borrow_mut().insert(number, read.clone());
        NotedRead { reads: self.clone(), number, read }
    }

    /// Asks a read to end; false where there is none of that number.
    pub fn kill(&self, number: u64) -> bool {
        let all = self.all.borrow();
        let read = all.get(&number);
        // Also where it does not listen at the moment.
        read.inspect(|read| read.killed.notify_one()).is_some()
    }

    /// All of them, in the order in which they came.
    pub fn statuses(&self, now_ns: u64) -> Vec<ReadStatus> {
        let status = |(number, read): (&u64, &Rc<Read>)| ReadStatus {
            number: *number,
            table: read.schema.full_name(),
            level: read.level,
            class: WorkClass::from(read.class).as_str(),
            state: read.state.get(),
            age_us: now_ns.saturating_sub(read.since_ns) / 1000,
            memory_bytes: read.memory_bytes.get(),
        };
        self.all.borrow().iter().map(status).collect()
    }
}

/// A read that is among all.
pub struct NotedRead {
    reads: Rc<Reads>,
    number: u64,
    pub(in crate::admission) read: Rc<Read>,
}

impl NotedRead {
    /// Comes when somebody wants the read to end.
    pub async fn killed(&self) {
        self.read.killed.notified().await;
    }
}

impl Drop for NotedRead {
    fn drop(&mut self) {
        self.reads.all.borrow_mut().remove(&self.number);
    }
}
