//! The engine's one error type, sorted by what the caller can do about it.
//!
//! Invariant: a bug is never an `Error`; it is an assertion that stops the process, because
//! crashing beats corrupting and replay recovers. Not here: errors of SQL text (`shell/query`).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Result of every fallible engine call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by what the caller should do next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The request itself is wrong; repeating it cannot help. Fix the request.
    #[error("{0}")]
    Invalid(String),
    /// A named thing (table, keyspace, column, policy) does not exist.
    #[error("{kind} '{name}' does not exist")]
    NotFound { kind: &'static str, name: String },
    /// A named thing exists already.
    #[error("{kind} '{name}' exists already")]
    Exists { kind: &'static str, name: String },
    /// Bytes on disk are not what was written. Restore the file or drop it; nothing was deleted.
    #[error("{}", .0)]
    Corrupt(Box<Corruption>),
    /// The disk refused an operation. `is_retryable` tells whether trying again can help.
    #[error("{operation} {}: {message}", .path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        /// Raw errno where there is one (28 = ENOSPC).
        code: Option<i32>,
        message: String,
    },
    /// There is too much work. Retry later.
    #[error("overloaded: {0}")]
    Overloaded(Overload),
    /// One partition is asked more often than its table allows. Retry later, or ask less often.
    #[error("too many {operation}s of one partition of {table}: its limit is {limit} a second")]
    RateLimited {
        table: Arc<str>,
        operation: &'static str,
        /// Operations a second.
        limit: u32,
    },
    /// The deadline passed before the work was done. Retry if it still matters.
    #[error(
        "timed out: {what} when its {within:?} were over: allow more time, or ask for less at once"
    )]
    Timeout {
        /// How far it came.
        what: &'static str,
        within: Duration,
    },
    /// A policy component was refused or failed while loading; the engine goes on unchanged.
    #[error("policy '{name}': {message}")]
    Policy { name: String, message: String },
    /// The data directory cannot be used by this process (lock held, newer format).
    #[error("{0}")]
    Unavailable(String),
    /// The shard can no longer accept writes (a failed sync poisoned its commitlog). Reads go on;
    /// reopen the database to recover.
    #[error("shard {shard} refuses writes: {reason}")]
    Poisoned { shard: u32, reason: String },
    /// The database or shard has been closed.
    #[error("the database is closed")]
    Closed,
}

/// Why work is refused where there is too much of it. Under overload most answers are refusals, so
/// one is a small value: it becomes text when somebody reads it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// Load shedding refuses a part of what comes.
    #[error("some {what} are refused while the load is high: try again later")]
    Shed { what: &'static str },
    /// The queue is at its limit.
    #[error(
        "{queued} {whose} wait for a turn, which is most: try again later, or run fewer at once"
    )]
    QueueFull { queued: u32, whose: Whose },
    /// One of an interactive level waited for too long, and no other has begun since.
    #[error(
        "{whose} waited for over {most:?} for a turn, and no other has begun since: interactive \
         ones are not kept waiting; try again later, or give the level more shares"
    )]
    Interactive { most: Duration, whose: Whose },
    /// It waited for too long itself.
    #[error("waited {} ms for a turn among {whose}: {why}", .waited_us / 1000)]
    Waited { waited_us: u64, whose: Whose, why: &'static str },
    /// It would stand behind others for half of the time that it has, or more.
    #[error(
        "it would wait for {} ms behind other {whose}, half of its time or more: allow more time, \
         or try again later",
        .wait_us / 1000
    )]
    Behind { wait_us: u64, whose: Whose },
    /// A write waited for too long until memtables had room.
    #[error("a write waited {} ms for memory", .waited_us / 1000)]
    NoMemory { waited_us: u64 },
    /// What is short, in words, where that is rare.
    #[error("{0}")]
    Short(Box<str>),
}

/// Work that goes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// What kind of reads, or writes.
    pub reads: &'static str,
    /// Name of their service level.
    pub level: Arc<str>,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Whose { reads, level } = self;
        write!(f, "{reads} of service level '{level}'")
    }
}

// Answers carry it: it stays as small as its rarest kind.
const _: () = assert!(size_of::<Error>() <= 80);

/// Where bytes on disk differ from what must stand there.
#[derive(Debug, Clone)]
pub struct Corruption {
    pub file: PathBuf,
    /// Byte offset within the file.
    pub offset: u64,
    /// What was expected there, in words or hex.
    pub wanted: String,
    /// What was found instead.
    pub found: String,
    /// What can be done about it, in words; empty where only the file's own content would help.
    pub remedy: String,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "corrupt file {} at offset {}: wanted {}, found {}",
            self.file.display(),
            self.offset,
            self.wanted,
            self.found
        )?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, ": {}", self.remedy) }
    }
}

impl Error {
    /// A request that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::Invalid(message.into())
    }

    /// Bytes at `offset` of `file` are not what must stand there.
    pub fn corrupt(
        file: impl Into<PathBuf>,
        offset: u64,
        wanted: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Error::Corrupt(Box::new(Corruption {
            file: file.into(),
            offset,
            wanted: wanted.to_string(),
            found: found.to_string(),
            remedy: String::new(),
        }))
    }

    /// The same error, and what can be done about it where it is one of damage.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        if let Error::Corrupt(corruption) = &mut self {
            corruption.remedy = remedy.into();
        }
        self
    }

    /// An operating-system error of `operation` on `path`.
    pub fn io(operation: &'static str, path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        Error::Io {
            operation,
            path: path.into(),
            code: error.raw_os_error(),
            message: error.to_string(),
        }
    }

    /// Something is short, as the text says.
    pub fn short(text: impl Into<Box<str>>) -> Self {
        Error::Overloaded(Overload::Short(text.into()))
    }

    /// Whether the same request may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        let passes = matches!(
            self,
            Error::Overloaded(_) | Error::Timeout { .. } | Error::RateLimited { .. }
        );
        passes || self.is_shortage()
    }

    /// After how long the same request may succeed, where there was too much of something: about
    /// as long as a shortage of its kind takes to pass. `None` for all other errors.
    pub fn retry_after(&self) -> Option<Duration> {
        let ms = match self {
            Error::Overloaded(overload) => match overload {
                Overload::Shed { .. }
                | Overload::QueueFull { .. }
                | Overload::Interactive { .. }
                | Overload::Waited { .. }
                | Overload::Behind { .. } => 100,
                // A flush makes room.
                Overload::NoMemory { .. } => 500,
                Overload::Short(_) => 1_000,
            },
            // Limits are by the second.
            Error::RateLimited { .. } => 1_000,
            error if error.is_shortage() => 10_000,
            _ => return None,
        };
        Some(Duration::from_millis(ms))
    }

    /// Whether a file or folder was not there (ENOENT).
    pub fn is_missing_file(&self) -> bool {
        matches!(self, Error::Io { code: Some(2), .. })
    }

    /// Whether the disk lacks something that may be there later: room, or descriptors.
    pub fn is_shortage(&self) -> bool {
        self.is_disk_full() || self.lacks_descriptors()
    }

    /// Whether the process or the system had no descriptor for a file (EMFILE or ENFILE).
    pub fn lacks_descriptors(&self) -> bool {
        matches!(self, Error::Io { code: Some(23 | 24), .. })
    }

    /// The same error, saying for how long descriptors were waited for and what to do.
    pub fn after_waiting_for_descriptors(mut self, waited: Duration) -> Self {
        if let Error::Io { message, .. } = &mut self {
            let seconds = waited.as_secs();
            message.push_str(&format!(
                ", after {seconds} s of waiting: raise the limit of open files (ulimit -n) or \
                 close connections"
            ));
        }
        self
    }

    /// Whether the disk has no room left (ENOSPC or EDQUOT).
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Error::Io { code: Some(28 | 122), .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_there_later_is_told_from_a_broken_disk() {
        for (code, is_full, lacks_descriptors) in [
            // ENOSPC and EDQUOT, EMFILE and ENFILE.
            (Some(28), true, false),
            (Some(122), true, false),
            (Some(24), false, true),
            (Some(23), false, true),
            (Some(2), false, false),
            (Some(5), false, false),
            (None, false, false),
        ] {
            let (operation, path, message) = ("write", "/f".into(), "no".to_owned());
            let error = Error::Io { operation, path, code, message };
            let found = (error.is_disk_full(), error.lacks_descriptors());
            assert_eq!(found, (is_full, lacks_descriptors), "{code:?}");
            assert_eq!(error.is_shortage(), is_full || lacks_descriptors, "{code:?}");
            assert_eq!(error.is_retryable(), is_full || lacks_descriptors, "{code:?}");
        }
        let other = Error::Unavailable("full".to_owned());
        assert!(!other.is_disk_full() && !other.is_shortage());
    }

    fn whose() -> Whose {
        Whose { reads: "scans", level: "gold".into() }
    }

    /// Every kind of error: after how long it may pass, if at all.
    #[test]
    fn what_passes_by_itself_says_after_how_long() {
        let name = || "x".to_owned();
        let io = |code| {
            let (operation, path, message) = ("write", "/f".into(), "no".to_owned());
            Error::Io { operation, path, code: Some(code), message }
        };
        let most = Duration::from_millis(50);
        let overloads = [
            (Overload::Shed { what: "scans" }, 100),
            (Overload::QueueFull { queued: 7, whose: whose() }, 100),
            (Overload::Interactive { most, whose: whose() }, 100),
            (Overload::Waited { waited_us: 1, whose: whose(), why: "it is late" }, 100),
            (Overload::Behind { wait_us: 1, whose: whose() }, 100),
            (Overload::NoMemory { waited_us: 1 }, 500),
            (Overload::Short("no room".into()), 1_000),
        ];
        let overloads = overloads.map(|(overload, ms)| (Error::Overloaded(overload), Some(ms)));
        let others = [
            (Error::RateLimited { table: "ks.t".into(), operation: "read", limit: 5 }, Some(1_000)),
            (io(28), Some(10_000)),
            (io(122), Some(10_000)),
            (io(23), Some(10_000)),
            (io(24), Some(10_000)),
            (io(2), None),
            (io(5), None),
            (io(13), None),
            (Error::Timeout { what: "a read", within: most }, None),
            (Error::invalid("no"), None),
            (Error::NotFound { kind: "table", name: name() }, None),
            (Error::Exists { kind: "table", name: name() }, None),
            (Error::corrupt("/f", 0, "a", "b"), None),
            (Error::Policy { name: name(), message: name() }, None),
            (Error::Unavailable(name()), None),
            (Error::Poisoned { shard: 0, reason: name() }, None),
            (Error::Closed, None),
        ];
        for (error, ms) in overloads.into_iter().chain(others) {
            assert_eq!(error.retry_after(), ms.map(Duration::from_millis), "{error}");
            // Who ran out of time knows best for how long to wait.
            let is_timeout = matches!(error, Error::Timeout { .. });
            assert_eq!(error.is_retryable(), ms.is_some() || is_timeout, "{error}");
            let is_missing = matches!(error, Error::Io { code: Some(2), .. });
            assert_eq!(error.is_missing_file(), is_missing, "{error}");
        }
    }

    #[test]
    fn refusals_tell_whole_milliseconds_and_whose_work_it_is() {
        let refused = |overload| Error::Overloaded(overload).to_string();
        for (us, ms) in [(0, 0), (999, 0), (1_000, 1), (1_999, 1), (61_000_000, 61_000)] {
            for (told, wanted) in [
                (
                    Overload::Waited { waited_us: us, whose: whose(), why: "it is late" },
                    format!("waited {ms} ms for a turn among scans of service level 'gold': it is"),
                ),
                (
                    Overload::Behind { wait_us: us, whose: whose() },
                    format!("wait for {ms} ms behind other scans of service level 'gold', half"),
                ),
                (
                    Overload::NoMemory { waited_us: us },
                    format!("a write waited {ms} ms for memory"),
                ),
            ] {
                let told = refused(told);
                assert!(told.starts_with("overloaded: ") && told.contains(&wanted), "{told}");
            }
        }
        let told = refused(Overload::QueueFull { queued: 7, whose: whose() });
        assert!(told.contains("7 scans of service level 'gold' wait for a turn"), "{told}");
    }

    #[test]
    fn only_damage_has_a_remedy_and_only_the_disk_has_descriptors() {
        let damage = Error::corrupt("/f", 7, "a", "b").with_remedy("restore it");
        let wanted = "corrupt file /f at offset 7: wanted a, found b";
        assert_eq!(damage.to_string(), format!("{wanted}: restore it"));
        assert_eq!(Error::corrupt("/f", 7, "a", "b").to_string(), wanted);
        assert_eq!(Error::Closed.with_remedy("restore it").to_string(), Error::Closed.to_string());
        let source = std::io::Error::from_raw_os_error(24);
        let lacks = Error::io("open", "/f", &source);
        let plain = lacks.to_string();
        assert!(plain.starts_with("open /f: ") && lacks.lacks_descriptors(), "{plain}");
        for (waited, seconds) in [(999, 0), (1_000, 1), (10_999, 10)] {
            let waited = Duration::from_millis(waited);
            let told = lacks.clone().after_waiting_for_descriptors(waited).to_string();
            let wanted = format!("{plain}, after {seconds} s of waiting: raise the limit");
            assert!(told.starts_with(&wanted), "{told}");
            let closed = Error::Closed.after_waiting_for_descriptors(waited);
            assert_eq!(closed.to_string(), Error::Closed.to_string());
        }
    }

    #[test]
    fn each_error_says_what_it_is_about() {
        let name = || "x".to_owned();
        let within = Duration::from_millis(1500);
        for (error, wanted) in [
            (Error::invalid("no"), "no"),
            (Error::NotFound { kind: "table", name: name() }, "table 'x' does not exist"),
            (Error::Exists { kind: "role", name: name() }, "role 'x' exists already"),
            (Error::Policy { name: name(), message: "no".to_owned() }, "policy 'x': no"),
            (Error::Unavailable("no".to_owned()), "no"),
            (Error::Poisoned { shard: 3, reason: name() }, "shard 3 refuses writes: x"),
            (Error::Closed, "the database is closed"),
            (
                Error::RateLimited { table: "ks.t".into(), operation: "write", limit: 5 },
                "too many writes of one partition of ks.t: its limit is 5 a second",
            ),
            (
                Error::Timeout { what: "a read was under way", within },
                "timed out: a read was under way when its 1.5s were over: allow more time, or ask \
                 for less at once",
            ),
            (
                Error::Overloaded(Overload::Shed { what: "scans" }),
                "overloaded: some scans are refused while the load is high: try again later",
            ),
            (
                Error::Overloaded(Overload::Interactive { most: within, whose: whose() }),
                "overloaded: scans of service level 'gold' waited for over 1.5s for a turn, and no \
                 other has begun since: interactive ones are not kept waiting; try again later, or \
                 give the level more shares",
            ),
            (Error::short("no room"), "overloaded: no room"),
        ] {
            assert_eq!(error.to_string(), wanted);
        }
    }
}
