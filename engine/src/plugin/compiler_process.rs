//! What the compiling process itself does.

use std::io::{self, Read, Write};

use super::compiler::EXIT_REFUSED;
use super::component;
use super::host;
use crate::config::POLICY_COMPONENT_BYTES_MAX;

/// All that a compiling process does: reads a component from stdin to its end and writes its
/// machine code to stdout, or to stderr what is wrong with it. Returns the exit code.
pub fn compile_stdin() -> u8 {
    let mut component = Vec::new();
    let input = io::stdin().lock().take(POLICY_COMPONENT_BYTES_MAX as u64 + 1);
    let done = { input }.read_to_end(&mut component).map_err(|error| error.to_string());
    let code = done
        .and_then(|_| component::check(&component))
        .and_then(|_| host::precompile(&component).map_err(|error| format!("{error:#}")));
    let written = code.and_then(|code| {
        let mut out = io::stdout().lock();
        out.write_all(&code).and_then(|()| out.flush()).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => 0,
        Err(message) => {
            // Where nobody listens, the exit code says it.
            let _ = writeln!(io::stderr(), "{message}");
            EXIT_REFUSED
        }
    }
}
