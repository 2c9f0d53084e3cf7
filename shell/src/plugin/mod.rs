//! `tidegate plugin`: what the author of a policy does without a database.
//!
//! Invariant: a command writes results to stdout and everything else to stderr; its exit code is 0
//! only when all is well.

mod check;
mod measure;
mod project;

use std::io::{self, Write};

use crate::cli::PluginCommand;
use crate::exit::fail;
use crate::output::Mode;
use crate::query::QueryError;

/// Why a command ended early.
enum Failure {
    /// In words for the author.
    Wrong(String),
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::Wrong(error.to_string())
    }
}

impl From<tidegate_engine::Error> for Failure {
    fn from(error: tidegate_engine::Error) -> Self {
        Failure::Wrong(error.to_string())
    }
}

/// Does what was asked for and returns the exit code.
pub fn run(command: &PluginCommand, mode: Mode) -> u8 {
    let mut out = io::stdout().lock();
    let done = match command {
        PluginCommand::New(new) => project::create(new, &mut out).map(|()| true),
        PluginCommand::Check(check) => check::run(check, &mut out),
        PluginCommand::Bench(bench) => measure::bench(bench, mode, &mut out).map(|()| true),
        PluginCommand::Replay(replay) => measure::replay(replay, mode, &mut out).map(|()| true),
    };
    let done = done.and_then(|is_well| out.flush().map(|()| is_well).map_err(Failure::Output));
    match done {
        Ok(is_well) => u8::from(!is_well),
        // Who read the output has left; that is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Output(error)) => fail(&format!("cannot write the output: {error}")),
        Err(Failure::Wrong(message)) => fail(&message),
    }
}
