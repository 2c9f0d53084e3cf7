//! The `tidegate` program: reads the command line and hands over to the library.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tidegate::allocator::{Allocator, keep_freed};
use tidegate::cli::Cli;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    keep_freed();
    let matches = Cli::command().get_matches();
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => ExitCode::from(tidegate::run(cli.with_inputs(&matches))),
        Err(error) => error.exit(),
    }
}
