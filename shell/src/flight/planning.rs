//! Long statements are parsed and planned apart from short ones.
//!
//! Invariant: what plans a statement of over [`SHORT_BYTES_MAX`] runs on a thread that serves no
//! other call. At most half of the processors plan long queries at once, and [`WRITES_MAX`] threads
//! plan and do long writes, which wait for disks as well, of at most [`LONG_BYTES_MAX`] together;
//! the others wait, and beyond [`WAITING_MAX`] are refused. A text of over [`STATEMENT_BYTES_MAX`]
//! is refused before anything is made of it.

use std::future::Future;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tonic::Status;

use super::error::{invalid, refusal};
use crate::query::TraceParent;
use crate::text::{Token, TokenKind, lex};

/// Longest statement that is planned where its call came in.
const SHORT_BYTES_MAX: usize = 32 << 10;
/// Longest statement. Planning takes some hundred times the memory of the text.
const STATEMENT_BYTES_MAX: usize = 8 << 20;
/// All texts that are planned at once apart from short ones.
const LONG_BYTES_MAX: usize = 8 << 20;
/// Long writes that are planned and done at once.
const WRITES_MAX: usize = 4;
/// Long statements that wait.
const WAITING_MAX: usize = 64;
/// When to come again where so many wait.
const RETRY: Duration = Duration::from_secs(1);
const KIB: usize = 1 << 10;

/// What is asked of a statement before it is parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    bytes: usize,
    is_write: bool,
}

impl Size {
    /// Of a text, whose first word says whether it writes.
    pub(super) fn of(text: &str) -> Self {
        let is_blank = |token: &Token| matches!(token.kind, TokenKind::Space | TokenKind::Comment);
        let first = lex(text).find(|token| !is_blank(token));
        let word = first.map_or("", |token| &text[token.range]);
        let writes = ["insert", "update", "delete", "begin"];
        let is_write = writes.iter().any(|known| word.eq_ignore_ascii_case(known));
        Size { bytes: text.len(), is_write }
    }
}

/// Where statements are planned.
pub(super) struct Planning {
    /// Threads that may plan long queries.
    queries: Arc<Semaphore>,
    /// Threads that may plan and do long writes.
    writes: Arc<Semaphore>,
    /// KiB of text that may be planned.
    room: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Planning {
    /// For a machine with so many processors.
    pub(super) fn new(processors: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Planning {
            queries: semaphore((processors / 2).max(1)),
            writes: semaphore(WRITES_MAX),
            room: semaphore(LONG_BYTES_MAX / KIB),
            waiting: semaphore(WAITING_MAX),
        }
    }

    /// For this machine.
    pub(super) fn of_machine() -> Self {
        Planning::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    }

    /// Does `work`, which parses and plans a text of that size. Work is large, so it moves to the
    /// heap at once and no more after that.
    ///
    /// Errors: INVALID_ARGUMENT for a text that is too long; RESOURCE_EXHAUSTED when too many wait;
    /// those of `work`.
    pub(super) fn run<T: Send + 'static>(
        &self,
        text: Size,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, Status>> {
        match text.bytes <= SHORT_BYTES_MAX {
            true => work.boxed(),
            false => self.run_long(text, work.boxed()).boxed(),
        }
    }

    /// As [`Planning::run`], of a long text.
    async fn run_long<T: Send + 'static>(
        &self,
        text: Size,
        work: BoxFuture<'static, Result<T, Status>>,
    ) -> Result<T, Status> {
        let Size { bytes: text_bytes, is_write } = text;
        if text_bytes > STATEMENT_BYTES_MAX {
            return Err(invalid(format!(
                "the statement takes {text_bytes} bytes, at most {STATEMENT_BYTES_MAX} are possible: \
                 bind values as parameters, ingest many rows, or join with a table that has the values"
            )));
        }
        let closed = |_| Status::unavailable("the service stops");
        let place = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| {
            let text = format!(
                "{WAITING_MAX} statements of over {SHORT_BYTES_MAX} bytes wait to be planned: try later"
            );
            refusal(text, RETRY)
        })?;
        let kib = u32::try_from(text_bytes.min(LONG_BYTES_MAX).div_ceil(KIB)).unwrap_or(u32::MAX);
        // Room comes last: only those hold it who work.
        let turns = if is_write { &self.writes } else { &self.queries };
        let turn = Arc::clone(turns).acquire_owned().await.map_err(closed)?;
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(closed)?;
        drop(place);
        let (runtime, parent) = (Handle::current(), TraceParent::current());
        let planned = tokio::task::spawn_blocking(move || {
            // Given back when the work is done, also when nobody waits for it any more.
            let _permits = (room, turn);
            TraceParent::within(parent.as_ref(), || runtime.block_on(work))
        });
        planned.await.map_err(|error| Status::internal(format!("planning ended early: {error}")))?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tonic::Code;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_statements_are_planned_one_after_another_on_threads_of_their_own() {
        let planning = Planning::new(2);
        let query = |bytes| Size { bytes, is_write: false };
        let here = std::thread::current().id();
        let at_work = Arc::new(AtomicUsize::new(0));
        let plan = |bytes| {
            let at_work = Arc::clone(&at_work);
            planning.run(query(bytes), async move {
                let together = at_work.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                std::thread::yield_now();
                at_work.fetch_sub(1, Ordering::SeqCst);
                Ok((together, std::thread::current().id()))
            })
        };
        let long = futures::future::join_all((0..20).map(|_| plan(SHORT_BYTES_MAX + 1))).await;
        for planned in long {
            let (together, thread) = planned.unwrap();
            assert_eq!(together, 0, "two processors: one long statement at once");
            assert_ne!(thread, here);
        }
        assert_eq!(plan(SHORT_BYTES_MAX).await.unwrap().1, std::thread::current().id());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_text_that_is_too_long_and_a_queue_that_is_too_long_are_refused() {
        let planning = Planning::new(2);
        let done = || async { Ok(()) };
        let query = |bytes| Size { bytes, is_write: false };
        let long = planning.run(query(STATEMENT_BYTES_MAX + 1), done()).await.unwrap_err();
        assert_eq!(long.code(), Code::InvalidArgument);
        assert!(planning.run(query(STATEMENT_BYTES_MAX), done()).await.is_ok());
        let _places =
            Arc::clone(&planning.waiting).try_acquire_many_owned(WAITING_MAX as u32).unwrap();
        let full = planning.run(query(SHORT_BYTES_MAX + 1), done()).await.unwrap_err();
        assert_eq!(full.code(), Code::ResourceExhausted);
        assert!(planning.run(query(SHORT_BYTES_MAX), done()).await.is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_write_does_not_wait_for_long_queries() {
        let planning = Planning::new(2);
        let _turn = Arc::clone(&planning.queries).try_acquire_owned().unwrap();
        let text = format!("  insert INTO t VALUES {}", "(1),".repeat(SHORT_BYTES_MAX));
        assert!(planning.run(Size::of(&text), async { Ok(()) }).await.is_ok());
        for (text, wanted) in [
            ("DELETE FROM t", true),
            ("BEGIN BATCH", true),
            ("Begin", true),
            ("Update t", true),
            ("iNSERT", true),
            ("INSERTS", false),
            ("(INSERT", false),
            ("EXPLAIN INSERT INTO t", false),
            ("CREATE TABLE t", false),
            ("", false),
            ("deleted", false),
            ("SELECT 1", false),
            ("/* x */ INSERT INTO t", true),
            ("-- x\n -- y\n/* a /* b */ c */\nupdate t", true),
            ("/* x */ SELECT 1 -- \nINSERT", false),
            ("/* INSERT", false),
            ("-- INSERT", false),
        ] {
            assert_eq!(Size::of(text).is_write, wanted, "{text}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn statements_that_wait_for_a_turn_hold_no_room() {
        let planning = Planning::new(2);
        let _turn = Arc::clone(&planning.queries).try_acquire_owned().unwrap();
        let query = Size { bytes: LONG_BYTES_MAX, is_write: false };
        let mut waiting = Box::pin(planning.run(query, async { Ok(()) }));
        assert!(futures::poll!(&mut waiting).is_pending());
        let write = Size { bytes: LONG_BYTES_MAX, is_write: true };
        assert!(planning.run(write, async { Ok(()) }).await.is_ok());
    }

    /// Else as many as may wait would be refused for ever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_statement_holds_is_given_back_whatever_becomes_of_it() {
        let planning = Planning::new(2);
        let Planning { queries, writes, room, waiting } = &planning;
        let free = || [queries, writes, room, waiting].map(|permits| permits.available_permits());
        let before = free();
        assert_eq!(before[3], WAITING_MAX);
        for is_write in [false, true] {
            let text = Size { bytes: LONG_BYTES_MAX, is_write };
            assert!(planning.run(text, async { Ok(()) }).await.is_ok());
            assert_eq!(free(), before, "it was done");
            let fails = async { Err::<(), _>(Status::aborted("x")) };
            assert_eq!(planning.run(text, fails).await.unwrap_err().code(), Code::Aborted);
            assert_eq!(free(), before, "it failed");
            let all = if is_write { WRITES_MAX as u32 } else { 1 };
            let turns = if is_write { writes } else { queries };
            let turns = Arc::clone(turns).try_acquire_many_owned(all).unwrap();
            let mut gives_up = Box::pin(planning.run(text, async { Ok(()) }));
            assert!(futures::poll!(&mut gives_up).is_pending());
            assert_eq!(free()[3], WAITING_MAX - 1);
            drop((gives_up, turns));
            assert_eq!(free(), before, "nobody waited for it any more");
        }
        let long = Size { bytes: SHORT_BYTES_MAX + 1, is_write: false };
        for number in 0..=WAITING_MAX {
            assert!(planning.run(long, async { Ok(()) }).await.is_ok(), "statement {number}");
        }
    }
}
