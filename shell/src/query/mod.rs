//! SQL: text to statements, statements to plans, plans to reads and writes of the engine.
//!
//! The one owner of DataFusion and sqlparser. Callers split text, run statements and pull batches:
//!
//! ```text
//! let session = Session::new(database, SessionOptions::default())?;
//! for statement in split(text)? {
//!     match session.run(&statement).await {
//!         Ok(outcome) => …,                       // Rows(stream) | Count(n) | Message(text)
//!         Err(error) => print!("{}", error.render(text)),
//!     }
//! }
//! ```
//! Arrow types cross this border (`query::arrow`), DataFusion types do not.

mod access;
mod aggregate;
mod conjunction;
mod distributed;
mod each;
mod engine;
mod error;
mod execute;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod limit;
mod memory;
mod outcome;
mod parameter;
mod parse;
mod place;
mod plan;
mod prepared;
mod replay;
mod roster;
mod run;
mod scan;
mod session;
mod setting;
mod short;
mod sketch;
mod statements;
mod system;
mod types;
mod watch;
mod write;

#[cfg(test)]
mod tests;

pub use access::{AuditEvent, Caller, Need};
pub use datafusion::arrow;
pub use error::{ErrorKind, QueryError, Result, Span, nearest};
pub use memory::QueryMemory;
pub use outcome::{
    Description, Outcome, OutcomeKind, RowStream, applied_count, column_bytes, count_schema,
    parts_of, without_unsaid,
};
pub use parameter::fit;
pub(crate) use parse::duration_of_text;
pub use parse::statement::{Statement, is_complete, split};
pub use prepared::{Plans, Prepared};
pub use replay::{load_candidate, load_trace, read_component, replay_row, replay_schema};
pub use session::{Progress, ProgressSink, Session, SessionOptions};
pub use short::Short;
pub use statements::{
    Continues, Help, PolicyUpload, STATEMENTS, StatementRow, Tab, Topic, continuations,
    row_of_words,
};
pub(crate) use statements::{CreatePolicy, create_policy};
pub(crate) use types::assign;
pub use watch::{Record, TraceParent, trace_text};
pub(crate) use write::in_flight::InFlight;
pub(crate) use write::stamp;
