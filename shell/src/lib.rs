//! What people and clients see of Tidegate: the shell and the Arrow Flight SQL service.
//!
//! Modules stand bottom-up: `allocator` is what the program takes memory from, `stderr` is what it
//! tells people beside results, `thread` has the stack that statements need, `memory` divides what
//! there is, `password` hashes, `token` makes secrets, `objects` keeps snapshots in object
//! storage, `text` and `output` know nothing of a database, `cluster` asks other nodes, `query`
//! turns SQL into reads and writes of the engine, `remote` is a database behind a service,
//! `session` runs pieces of text and prints what they give, `metrics` tells monitoring, `flight`
//! serves clients, `cli` reads the command line, `plugin` helps authors of policies, `sstable`
//! looks into files without a database, `repl` and `batch` feed a session, `iotune` measures a
//! disk, `restore` brings a snapshot back. Where it is built for a fuzzer, `fuzz` has what that
//! calls.

pub mod allocator;
mod stderr;
mod thread;
mod exit;
mod memory;
mod password;
mod token;
mod objects;
pub mod text;
pub mod output;
mod cluster;
pub mod query;
mod remote;
mod command;
mod session;
mod metrics;
pub mod flight;
pub mod cli;
mod plugin;
mod batch;
mod repl;
mod sstable;
mod iotune;
mod restore;
mod run;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;

pub use run::run;
