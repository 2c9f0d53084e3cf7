//! Which SSTables of a table are merged, and how: several become few, and what is dead goes.
//!
//! ```text
//! facts of a set of SSTables -> choose -> inputs, level, cut      choose.rs, one file a strategy
//!              a policy may choose instead                        by_policy.rs
//!              what it would choose, merge after merge            backlog.rs: shares of I/O
//! streams of the inputs -> merge -> uncovered -> purge -> writer  merge.rs, chain.rs, purge.rs
//!                                     what a purge leaves out ->  remnant.rs
//! ```
//! A strategy is a pure function: the same facts give the same choice. The merge holds no more of a
//! partition than one row of it.
//!
//! Not here: exchanging files in the manifest (`table`), when a table is asked (`database`).

mod backlog;
mod by_policy;
mod chain;
mod choose;
mod facts;
mod incremental;
mod leveled;
mod merge;
mod progress;
mod purge;
mod remnant;
mod size_tiered;
#[cfg(test)]
mod tests;
mod time_window;

pub use backlog::{backlog, shares};
pub use by_policy::{Shapes, choose_by};
pub use choose::{choose, major};
pub use facts::{Choice, Facts, FileFacts, Reason};
pub(crate) use merge::note;
pub use merge::{Merge, Merged, Sink};
pub use progress::Progress;
pub use purge::{Others, Purge, Purged};
