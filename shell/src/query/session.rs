//! One user's session: current keyspace, settings, and the running of statements.
//!
//! A session is `Send + Sync`; every REPL and every Flight SQL connection has its own. Statements of
//! one session may run at the same time; `USE` changes where later statements look for tables.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use tidegate_engine::Database;

use super::error::Result;
use super::outcome::{Description, Outcome};
use super::statement::{Statement, split};

/// How far a COPY FROM has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub rows: u64,
    pub bytes: u64,
    /// Size of the file.
    pub bytes_max: u64,
}

/// How a session is set up.
#[derive(Clone)]
pub struct SessionOptions {
    /// Keyspace of unqualified table names at the start.
    pub keyspace: String,
    /// Threads that one query may use; None = as many as there are shards.
    pub target_partitions: Option<usize>,
    /// Called by COPY FROM after every batch of rows, from the task that runs the statement.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions { keyspace: "default".to_owned(), target_partitions: None, progress: None }
    }
}

/// Runs statements against a database.
pub struct Session {
    database: Database,
    options: SessionOptions,
}

impl Session {
    /// A session in the keyspace of `options`.
    ///
    /// Errors: `NotFound` when that keyspace does not exist.
    pub fn new(database: Database, options: SessionOptions) -> Result<Self>;

    pub fn database(&self) -> &Database;
    /// The keyspace of unqualified names.
    pub fn keyspace(&self) -> String;
    /// What `USE` does.
    pub fn set_keyspace(&self, name: &str) -> Result<()>;

    /// Runs every statement of `text` in order; all but the last run to their end and their rows are
    /// dropped, the last one's outcome is returned. Text without a statement is an error.
    pub async fn execute(&self, text: &str) -> Result<Outcome>;

    /// Runs one statement. Writes are done when this returns, rows come while they are pulled.
    pub async fn run(&self, statement: &Statement) -> Result<Outcome>;

    /// Runs one statement with parameters: column i of `parameters` is `$i`. A write runs once a
    /// row and counts are summed; a query takes exactly one row.
    pub async fn run_with(&self, statement: &Statement, parameters: &RecordBatch) -> Result<Outcome>;

    /// Schema of the result and of the parameters, without running the statement.
    pub async fn describe(&self, statement: &Statement) -> Result<Description>;
}
