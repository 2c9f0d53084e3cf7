//! A program in a pseudo-terminal: keys in, screen bytes out.
//!
//! Invariant: every wait is bounded; a program that hangs fails its test and is killed.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Longest silence while output is expected.
const QUIET_SECONDS_MAX: u64 = 60;
/// Silence after which the program is taken to be busy with what it was given.
const SETTLE_MS: u64 = 700;

pub struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    /// Everything seen so far.
    seen: String,
    /// Bytes of `seen` that were expected already.
    consumed: usize,
    /// Columns and lines.
    size: (u16, u16),
    /// Bytes of `seen` that were there when the screen was last cleared.
    cleared: usize,
}

/// What a person sees.
#[derive(Debug)]
pub struct Screen {
    /// Lines without the space at their ends, empty ones at the end left out.
    pub text: String,
    /// Whether a line was too long and goes on in the next.
    pub wraps: bool,
}

impl Terminal {
    /// Starts `command` as the leader of a session of its own on a new terminal.
    pub fn start(command: Command) -> Self {
        Terminal::start_sized(command, (200, 50))
    }

    /// As `start`, with so many columns and lines.
    pub fn start_sized(mut command: Command, size: (u16, u16)) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = File::from(rustix::fs::open(name, flags, Mode::empty()).unwrap());
        let winsize = Winsize { ws_row: size.1, ws_col: size.0, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&side, winsize).unwrap();
        command
            .stdin(Stdio::from(side.try_clone().unwrap()))
            .stdout(Stdio::from(side.try_clone().unwrap()))
            .stderr(Stdio::from(side));
        take_terminal(&mut command);
        let child = command.spawn().unwrap();
        // Only the child may keep the other side open, so that its end is seen.
        drop(command);

        let keys = File::from(keys);
        let mut source = keys.try_clone().unwrap();
        let (sender, screen) = sync_channel(1024);
        std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = source.read(&mut buffer) {
                    if sender.send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
            })
            .unwrap();
        Terminal { child, keys, screen, seen: String::new(), consumed: 0, size, cleared: 0 }
    }

    /// Presses keys.
    pub fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `wanted` is on the screen, after what was expected before.
    pub fn expect(&mut self, wanted: &str) {
        loop {
            if let Some(at) = self.seen[self.consumed..].find(wanted) {
                self.consumed += at + wanted.len();
                return;
            }
            match self.screen.recv_timeout(Duration::from_secs(QUIET_SECONDS_MAX)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!(
                    "{error} while waiting for {wanted:?} after byte {} of:\n{:?}",
                    self.consumed, self.seen
                ),
            }
        }
    }

    /// Waits until the editor takes keys. Its prompt alone is no sign: it is drawn at every key.
    pub fn prompt(&mut self) {
        self.expect("\x1b[?2004h");
        self.expect("tg> ");
    }

    /// Waits until the screen has been quiet for a moment.
    pub fn settle(&mut self) {
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(SETTLE_MS)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// What the screen shows of what came since `clear`, on a screen high enough for all of it.
    pub fn screen(&self) -> Screen {
        const LINES: u16 = 2000;
        let mut parser = vt100::Parser::new(
            NonZero::new(LINES).expect("not zero"),
            NonZero::new(self.size.0).expect("a terminal has columns"),
            0,
        );
        parser.process(&self.seen.as_bytes()[self.cleared..]);
        let screen = parser.screen();
        let lines: Vec<String> = screen.rows(0, self.size.0).map(|l| l.trim_end().into()).collect();
        let used = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        assert!(used < usize::from(LINES), "the test's screen is too small");
        let wraps = (0..LINES).any(|row| screen.row_wrapped(row));
        Screen { text: lines[..used].join("\n"), wraps }
    }

    /// Forgets what is on the screen.
    pub fn clear(&mut self) {
        self.cleared = self.seen.len();
    }

    /// Everything that was on the screen.
    pub fn seen(&self) -> &str {
        &self.seen
    }

    /// Waits until the program ends and returns its exit code.
    pub fn wait(&mut self) -> i32 {
        loop {
            match self.screen.recv_timeout(Duration::from_secs(QUIET_SECONDS_MAX)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the program does not end; the screen:\n{}", self.seen)
                }
            }
        }
        self.child.wait().unwrap().code().expect("an exit code")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ends a program whose test failed; one that has ended already gives an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(unsafe_code, reason = "a child takes its terminal between fork and exec")]
fn take_terminal(command: &mut Command) {
    // SAFETY: both calls are plain system calls, which may be made between fork and exec; stdin is
    // the terminal by then.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
}
