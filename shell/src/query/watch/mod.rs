//! What statements did: traces that a session asked for, and statements that took long.
//!
//! ```text
//! Session::run -> Watching     a statement that is watched: its `Watch` of the engine, and its end
//!                    |
//!                 Record       what is left of it
//!                    |
//!                 Journal      the last traces and the last slow statements of all sessions
//! ```
//! While a statement is planned and started its `Watch` is that of the thread ([`current`]). Scans
//! get it with their configuration, and what is planned between rows within [`watched`]. The place
//! of its call in the trace of a client is found likewise ([`TraceParent`]).
//!
//! Invariant: a record is whole when its rows have ended, or nobody takes more of them.

mod current;
pub mod journal;
mod parent;
mod record;
mod session;
mod text;
pub mod tracing;
mod watching;

pub use current::{current, note, read, read_by, watched};
pub use parent::TraceParent;
pub use record::Record;
pub(in crate::query) use record::kept;
pub use text::trace_text;
pub use tracing::TracingMode;
pub use watching::Watcher;
pub(in crate::query) use watching::Watching;
