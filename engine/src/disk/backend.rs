//! Which real disk shards use, and running them with it.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Once;

use super::tasks::Around;
use super::{Disk, blocking, uring};
use crate::error::{Error, Result};

/// Which real disk a shard uses (`--io=auto|uring|blocking`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// io_uring where it is permitted, else the pool.
    #[default]
    Auto,
    /// io_uring; an error where it is denied.
    Uring,
    /// A pool of threads that make blocking calls.
    Blocking,
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Backend::Auto),
            "uring" => Ok(Backend::Uring),
            "blocking" => Ok(Backend::Blocking),
            _ => Err(Error::invalid(format!("io is auto, uring or blocking, not '{text}'"))),
        }
    }
}

/// Runs a future on the calling thread with a real disk until it is done. `make` gets the disk and
/// the backend that was chosen, never `Auto`. Local tasks that are left are dropped at the end.
///
/// Errors: `Unavailable` when the backend cannot be started.
pub fn run<F: Future>(
    backend: Backend,
    make: impl FnOnce(Rc<dyn Disk>, Backend) -> F,
) -> Result<F::Output> {
    let chosen = choose(backend);
    let result = match chosen {
        Backend::Uring => uring::run(|disk| make(disk, chosen)),
        _ => blocking::run(|disk| make(disk, chosen)),
    };
    result.map_err(cannot_be_started)
}

/// As [`run`]; the future and its local tasks are polled, and those that are left are dropped,
/// within calls of `around`.
///
/// Errors: as `run`.
pub fn run_within<F>(
    backend: Backend,
    around: Rc<Around>,
    make: impl FnOnce(Rc<dyn Disk>, Backend) -> F + 'static,
) -> Result<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let chosen = choose(backend);
    let result = match chosen {
        Backend::Uring => uring::run_within(around, move |disk| make(disk, chosen)),
        _ => blocking::run_within(around, |disk| make(disk, chosen)),
    };
    result.map_err(cannot_be_started)
}

/// Io_uring where it is permitted, unless another backend is asked for.
fn choose(backend: Backend) -> Backend {
    match (backend, uring::support()) {
        (Backend::Auto, Ok(_)) | (Backend::Uring, _) => Backend::Uring,
        (Backend::Auto, Err(reason)) => {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                tracing::warn!(%reason, "io_uring cannot be used; a pool of threads does disk I/O");
            });
            Backend::Blocking
        }
        (Backend::Blocking, _) => Backend::Blocking,
    }
}

fn cannot_be_started(error: io::Error) -> Error {
    Error::Unavailable(format!("disk I/O cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_file, write_file_atomically};

    #[test]
    fn backends_have_names() {
        assert_eq!("auto".parse::<Backend>().unwrap(), Backend::Auto);
        assert_eq!("uring".parse::<Backend>().unwrap(), Backend::Uring);
        assert_eq!("blocking".parse::<Backend>().unwrap(), Backend::Blocking);
        assert!("fast".parse::<Backend>().is_err());
    }

    #[test]
    fn auto_finds_a_disk_that_works() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for backend in [Backend::Auto, Backend::Blocking] {
            let content = run(backend, |disk, chosen| {
                let path = path.clone();
                async move {
                    assert_ne!(chosen, Backend::Auto);
                    write_file_atomically(&*disk, &path, b"hello").await?;
                    read_file(&*disk, &path).await
                }
            });
            assert_eq!(content.unwrap().unwrap(), b"hello");
        }
    }
}
