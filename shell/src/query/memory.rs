//! Memory of queries: what they hold all together, and how many run at once.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use tidegate_engine::os;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{ErrorKind, QueryError, Result};

/// What a query takes that nobody counts: its plan and tasks, what its scans read ahead of files,
/// and batches between its operators.
const QUERY_BYTES: usize = 4 << 20;
/// Queries that may run at once however little memory there is.
const QUERIES_MIN: usize = 4;
/// How long a query waits until others end.
const WAIT: Duration = Duration::from_secs(60);

/// What all queries of the sessions that share it may hold in memory; sorts and groupings that need
/// more go to temporary files, anything else fails. So many run at once as there is memory for;
/// others wait for them, and are refused when that takes too long.
#[derive(Clone)]
pub struct QueryMemory {
    pool: Arc<dyn MemoryPool>,
    turns: Arc<Semaphore>,
    queries_max: usize,
    bytes: usize,
}

/// Being one of the queries that run.
pub struct QueryTurn {
    _permit: OwnedSemaphorePermit,
}

impl QueryMemory {
    /// Memory of `bytes`; by default a quarter of what the process may have.
    pub fn new(bytes: Option<usize>) -> Self {
        let bytes = bytes.unwrap_or_else(|| {
            let limit = os::memory_limit().map_or(1 << 30, |(bytes, _)| bytes);
            usize::try_from(limit / 4).unwrap_or(usize::MAX)
        });
        let queries_max = (bytes / QUERY_BYTES).clamp(QUERIES_MIN, Semaphore::MAX_PERMITS);
        QueryMemory {
            pool: Arc::new(FairSpillPool::new(bytes)),
            turns: Arc::new(Semaphore::new(queries_max)),
            queries_max,
            bytes,
        }
    }

    pub(super) fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.pool
    }

    /// What queries may hold all together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until the query may run.
    ///
    /// Errors: `Overloaded` when that takes too long.
    pub(super) async fn turn(&self) -> Result<QueryTurn> {
        self.turn_within(WAIT).await
    }

    async fn turn_within(&self, wait: Duration) -> Result<QueryTurn> {
        // Most queries need no clock. Nobody who waits is passed: permits go to them first.
        if let Ok(permit) = self.turns.clone().try_acquire_owned() {
            return Ok(QueryTurn { _permit: permit });
        }
        match tokio::time::timeout(wait, self.turns.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(QueryTurn { _permit: permit }),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(QueryError::new(
                ErrorKind::Overloaded,
                format!(
                    "{} queries run already, as many as there is memory for ({} MiB), and this one \
                     waited {} s for its turn",
                    self.queries_max,
                    self.bytes >> 20,
                    wait.as_secs()
                ),
            )
            .with_help("try again later, or give queries more memory (--memory, --query-memory)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn so_many_queries_run_as_there_is_memory_for() {
        let memory = QueryMemory::new(Some(24 << 20));
        let mut running = Vec::new();
        for _ in 0..6 {
            running.push(memory.turn().await.unwrap());
        }
        let error = memory.turn_within(Duration::ZERO).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Overloaded);
        let text = error.to_string();
        for part in ["6 queries run already", "24 MiB", "0 s", "--query-memory"] {
            assert!(text.contains(part), "{text}");
        }
        // One that ends lets the next one run.
        let waiting = memory.turn();
        running.pop();
        assert!(waiting.await.is_ok());
    }

    #[test]
    fn each_piece_of_memory_lets_one_query_more_run_and_four_run_always() {
        for (bytes, queries) in [
            (0, 4),
            (1, 4),
            (4 * QUERY_BYTES, 4),
            (5 * QUERY_BYTES - 1, 4),
            (5 * QUERY_BYTES, 5),
            (6 * QUERY_BYTES - 1, 5),
            (1000 * QUERY_BYTES, 1000),
        ] {
            let memory = QueryMemory::new(Some(bytes));
            assert_eq!(memory.turns.available_permits(), queries, "{bytes} bytes");
            assert_eq!((memory.queries_max, memory.bytes()), (queries, bytes));
        }
    }

    #[tokio::test]
    async fn sessions_that_share_memory_wait_for_each_other_and_a_refused_query_takes_no_turn() {
        let memory = QueryMemory::new(Some(0));
        let other = memory.clone();
        let mut running = Vec::new();
        for of in [&memory, &other, &memory, &other] {
            running.push(of.turn_within(Duration::ZERO).await.unwrap());
        }
        for of in [&memory, &other, &memory] {
            assert!(of.turn_within(Duration::ZERO).await.is_err());
        }
        for left in (0..4).rev() {
            running.pop();
            assert_eq!(running.len(), left);
            assert_eq!(other.turns.available_permits(), 4 - left);
        }
        let again = memory.turn_within(Duration::ZERO).await.unwrap();
        assert_eq!(other.turns.available_permits(), 3);
        drop(again);
        assert_eq!(other.turns.available_permits(), 4);
    }
}
