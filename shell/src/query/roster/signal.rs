//! How far a statement is, and whether somebody ended it.
//!
//! A signal stays in its place of the roster and serves one statement after another. So nothing is
//! allocated for a statement. A statement is ended by its number: who comes too late ends nothing.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use futures::stream::BoxStream;
use futures::task::AtomicWaker;

use crate::query::error::{ErrorKind, QueryError, Result};

/// Rows of a statement on their way.
pub(super) type Rows = BoxStream<'static, Result<RecordBatch>>;

/// How far a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Planning,
    Running,
    /// Its client has rows to take.
    Sending,
    /// Somebody ended it, and it does not know yet.
    Ending,
}

impl State {
    const ALL: [State; 4] = [State::Planning, State::Running, State::Sending, State::Ending];

    pub fn name(self) -> &'static str {
        match self {
            State::Planning => "planning",
            State::Running => "running",
            State::Sending => "sending",
            State::Ending => "ending",
        }
    }
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Signal {
    /// Of the statement that has it.
    number: AtomicU64,
    /// The last statement that was ended. It never decreases, as numbers of a place do not.
    ended: AtomicU64,
    state: AtomicU8,
    /// Rows that were given.
    given: AtomicU64,
    waker: AtomicWaker,
    /// The rows of the statement, so that who ends it can drop them while its client takes none.
    rows: Mutex<Option<Rows>>,
}

impl Signal {
    /// A statement begins.
    pub fn begin(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.given.store(0, Ordering::Relaxed);
        self.set(State::Planning);
    }

    /// The statement is over.
    pub fn clear(&self) {
        self.waker.take();
        let rows = self.rows().take();
        drop(rows);
    }

    pub fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub fn give(&self, rows: u64) {
        self.given.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    pub fn state(&self, number: u64) -> State {
        match self.is_ended(number) {
            true => State::Ending,
            false => State::ALL[usize::from(self.state.load(Ordering::Relaxed))],
        }
    }

    pub fn rows(&self) -> MutexGuard<'_, Option<Rows>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wake_by(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    pub fn is_ended(&self, number: u64) -> bool {
        self.ended.load(Ordering::SeqCst) == number
    }

    /// Ends the statement of this number, if it still runs. What it reads ends at once, also where
    /// its client takes no rows.
    pub fn end(&self, number: u64) {
        self.ended.fetch_max(number, Ordering::SeqCst);
        // Whoever holds the rows looks for the end when it has let go of them.
        if let Ok(mut rows) = self.rows.try_lock()
            && self.number.load(Ordering::Relaxed) == number
        {
            let rows = rows.take();
            drop(rows);
        }
        self.waker.wake();
    }
}

/// What the client of a statement is told that somebody ended.
pub(super) fn ended(number: u64) -> QueryError {
    let message = format!("the statement was ended by KILL QUERY {number}");
    QueryError::new(ErrorKind::Unavailable, message)
}
