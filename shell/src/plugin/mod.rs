//! `tidegate plugin`: what the author of a policy does without a database.
//!
//! Invariant: a command writes results to stdout and everything else to stderr; its exit code is 0
//! only when all is well.

mod check;
mod failure;
mod measure;
mod project;

use std::io::{self, Write};

use self::failure::Failure;
use crate::cli::PluginCommand;
use crate::exit::fail;
use crate::output::Mode;

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
