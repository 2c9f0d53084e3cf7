//! SNAPSHOT TO: a copy of everything beside the data directory or in object storage, while the
//! database serves.

use std::path::Path;

use tidegate_engine::Snapshot;
use tidegate_engine::schema::named;

use crate::memory::Bytes;
use crate::objects::{Moved, Place};
use crate::query::access::{AuditEvent, Need};
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::{Progress, Session};
use crate::query::statements::{OwnStatement, Read};

/// Most characters of the name of a snapshot that a client asks for.
const NAME_MAX: usize = 100;

/// To a directory that does not exist or is empty, or to a place in object storage.
#[derive(Debug)]
pub struct SnapshotTo(String);

impl Read for SnapshotTo {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (to, _) = cursor
            .string("the directory or place, such as '/backup/monday' or 's3://bucket/monday'")?;
        Ok(SnapshotTo(to))
    }
}

impl OwnStatement for SnapshotTo {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        session.check_local_files()?;
        let made = match Place::is_one(&self.0) {
            true => sent(session, &self.0).await,
            false => made(session, Path::new(&self.0)).await,
        };
        made.map(Outcome::message)
    }
}

impl Session {
    /// Makes a snapshot of that name in the folder that takes those of clients, and says so.
    ///
    /// Errors: `Denied`; `Invalid` for a name that is more than the name of a folder; `Unsupported`
    /// where no folder takes them; those of the engine.
    pub async fn snapshot_in(&self, folder: Option<&Path>, name: &str) -> Result<String> {
        let make = async {
            self.allow(&[Need::administration()])?;
            check_name(name)?;
            let folder = folder.ok_or_else(|| {
                QueryError::unsupported("the service has no folder for snapshots").with_help(
                    "start it with serve --snapshots DIR, on the file system of the data",
                )
            })?;
            made(self, &folder.join(name)).await
        };
        let ended = make.await;
        let what = format!("SNAPSHOT TO {}", named(name));
        self.audit_ended(AuditEvent::Administration, &what, &ended);
        ended
    }
}

/// Errors: `Invalid` for what could name another place than in the folder.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= NAME_MAX
        && name.chars().all(is_plain);
    if is_name {
        return Ok(());
    }
    let name: String = name.chars().take(NAME_MAX).collect();
    Err(QueryError::invalid(format!("'{name}' is no name of a snapshot")).with_help(format!(
        "it begins with a letter or digit, and has letters, digits, '.', '-' and '_', {NAME_MAX} at \
         most"
    )))
}

/// Makes a snapshot, and says so.
async fn made(session: &Session, directory: &Path) -> Result<String> {
    let made = session.database.snapshot(directory).await?;
    Ok(told(&made, &directory.display().to_string(), made.bytes))
}

/// Sends a snapshot to a place in object storage, and says so.
async fn sent(session: &Session, text: &str) -> Result<String> {
    let place = Place::of(text).map_err(QueryError::invalid)?;
    let export = session.database.export().await?;
    let sink = session.options.progress.clone();
    let tell = move |Moved { bytes, bytes_max, .. }: Moved| {
        if let Some(sink) = &sink {
            sink(Progress { rows: 0, bytes, bytes_max });
        }
    };
    let sent = place.send(export.folder(), &tell).await;
    let made = export.snapshot().clone();
    // The snapshot is there, or the error says why not, whatever becomes of its source.
    if let Err(error) = export.remove().await {
        tracing::warn!(%error, "an export stays until the next opening");
    }
    let moved = sent.map_err(|error| QueryError::new(ErrorKind::Io, error))?;
    Ok(told(&made, &place.to_string(), moved.bytes))
}

fn told(made: &Snapshot, place: &str, bytes: u64) -> String {
    format!(
        "Snapshot of {} in '{place}': {}, {}.",
        counted(made.tables as u64, "table"),
        counted(made.sstables, "SSTable"),
        Bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
    )
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_folder() {
        for name in ["monday", "2026-11-26", "a.b_c", "x"] {
            check_name(name).unwrap();
        }
        for name in ["", ".", "..", "a/b", "/a", "a b", "-a", "ä", "a\0", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
