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

mod administer;
mod aggregate;
mod any_all;
mod arithmetic;
pub(crate) mod assign;
mod attach;
mod braces;
mod catalog;
mod choice;
mod compare;
mod copy_from;
mod copy_to;
mod csv_record;
mod ddl;
mod deep;
mod definition;
mod describe;
mod dialect;
mod element;
mod error;
mod explain_policy;
mod filter;
mod fragments;
mod frame;
mod heading;
mod identifier;
mod identifier_within;
mod insert;
mod instant;
mod join;
mod literal;
mod memory;
mod multiset;
mod named_cast;
mod number;
mod outcome;
mod parameter;
mod parse;
mod place;
mod provider;
mod pushdown;
mod replay;
mod rewrite;
mod row_in;
mod rules;
mod run;
mod scan;
mod session;
mod setting;
pub(crate) mod stamp;
mod statement;
mod system;
mod system_files;
mod time_uuid;
mod union;
mod values;
mod write;
mod zero;

#[cfg(test)]
mod tests;

pub use datafusion::arrow;
pub use error::{ErrorKind, QueryError, Result, Span, nearest};
pub use memory::QueryMemory;
pub use outcome::{Description, Outcome, OutcomeKind, RowStream, count_schema};
pub use parameter::fit;
pub use replay::{load_candidate, load_trace, read_component, replay_row, replay_schema};
pub use session::{Progress, ProgressSink, Session, SessionOptions};
pub use statement::{Statement, is_complete, split};
