//! What people and clients see of Tidegate: the shell and the Arrow Flight SQL service.
//!
//! Modules stand bottom-up: `text` and `output` know nothing of a database, `query` turns SQL into
//! reads and writes of the engine, `session` runs pieces of text and prints what they give,
//! `flight` serves clients, `repl` and `batch` feed a session, `cli` reads the command line.

pub mod text;
pub mod output;
pub mod query;
mod session;
mod command;
pub mod flight;
mod batch;
mod repl;
pub mod cli;
mod run;

pub use run::run;
