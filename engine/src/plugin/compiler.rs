//! Compiling in a process of its own, ended by limits on memory, processor time and time.
//!
//! What a component may cost the compiler is bounded by its structure before (`component.rs`), as
//! far as the compiler is known; the limits here are for what is not known of it. Invariant:
//! machine code is loaded only as it came, through a pipe, from a child that this process started.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::state::printable;
use crate::os;

/// Exit code of a compiler that found fault with the component.
pub(super) const EXIT_REFUSED: u8 = 3;
/// Bytes of machine code that are taken; a component of the largest size makes about 20 MiB.
const CODE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of what a compiler says that are kept.
const MESSAGE_BYTES_MAX: u64 = 4 << 10;

/// What one compilation may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Memory that can be written to.
    pub memory_bytes: u64,
    /// Processor time of all threads, at least 1.
    pub cpu_seconds: u64,
    /// Time on the clock.
    pub wait: Duration,
}

/// Twenty times what the largest harmless component takes.
impl Default for CompileLimits {
    fn default() -> Self {
        CompileLimits { memory_bytes: 512 << 20, cpu_seconds: 10, wait: Duration::from_secs(30) }
    }
}

/// The command of a program whose `main` does nothing but call [`compile_stdin`] and end with its
/// result. It must be of the same build as the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// All that its environment holds.
    pub environment: Vec<(OsString, OsString)>,
    pub limits: CompileLimits,
}

impl CompilerCommand {
    /// Machine code of a component.
    ///
    /// Errors: in words, what is wrong with the component, or which limit ended the compiler.
    pub(super) fn compile(&self, component: &[u8]) -> Result<Vec<u8>, String> {
        let command = self.program.display();
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child =
            child.map_err(|error| format!("starting the compiler {command}: {error}"))?;
        let limits = self.limits;
        // It waits for the component, so nothing was done without limits.
        let limited = os::limit_process(child.id(), limits.memory_bytes, limits.cpu_seconds);
        let talked = limited.and_then(|()| talk(&mut child, component.to_vec()));
        let said = talked.map(|talked| talked.recv_timeout(limits.wait));
        if !matches!(said, Ok(Ok(_))) {
            // It may have ended by itself.
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| format!("waiting for the compiler: {error}"))?;
        let unable = |error: io::Error| format!("talking to the compiler: {error}");
        let Ok(said) = said.map_err(unable)? else {
            let seconds = limits.wait.as_secs_f64();
            return Err(format!("compiling it took more than {seconds} s"));
        };
        let Said { code, message } = said.map_err(unable)?;
        if status.success() {
            if code.len() as u64 > CODE_BYTES_MAX {
                return Err(format!("it compiles to more than {CODE_BYTES_MAX} bytes"));
            }
            return Ok(code);
        }
        Err(self.explain(status, &printable(message.trim())))
    }

    fn explain(&self, status: ExitStatus, message: &str) -> String {
        let CompileLimits { memory_bytes, cpu_seconds, .. } = self.limits;
        if status.code() == Some(i32::from(EXIT_REFUSED)) {
            return message.to_owned();
        }
        if status.signal() == Some(os::SIGNAL_CPU_LIMIT) {
            return format!("compiling it took more than {cpu_seconds} s of processor time");
        }
        // What the allocator and the kernel say when there is no more.
        if ["memory allocation", "Cannot allocate memory"].iter().any(|end| message.contains(end)) {
            return format!("compiling it took more than {memory_bytes} bytes of memory");
        }
        format!("the compiler ended with {status}: {message}")
    }
}

/// What a compiler gave: machine code, or why there is none.
struct Said {
    code: Vec<u8>,
    message: String,
}

/// Hands over the component and takes what comes, on a thread: a pipe has no time limit.
fn talk(child: &mut Child, component: Vec<u8>) -> io::Result<mpsc::Receiver<io::Result<Said>>> {
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut input), Some(output), Some(errors)) = pipes else {
        unreachable!("all three are pipes")
    };
    let (sender, said) = mpsc::sync_channel(1);
    let talk = move || {
        match input.write_all(&component) {
            // It ended before it read all; its status says why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written?,
        }
        drop(input);
        let (mut code, mut message) = (Vec::new(), Vec::new());
        output.take(CODE_BYTES_MAX + 1).read_to_end(&mut code)?;
        errors.take(MESSAGE_BYTES_MAX).read_to_end(&mut message)?;
        Ok(Said { code, message: String::from_utf8_lossy(&message).into_owned() })
    };
    std::thread::Builder::new().name("policy compiler pipes".into()).spawn(move || {
        // Nobody waits any more when the time is over.
        let _ = sender.send(talk());
    })?;
    Ok(said)
}
