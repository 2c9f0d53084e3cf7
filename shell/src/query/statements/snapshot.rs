//! SNAPSHOT TO: a copy of everything beside the data directory, while the database serves.

use std::path::Path;

use super::{OwnStatement, Read};
use crate::memory::Bytes;
use crate::query::access::{AuditEvent, Need};
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;
use crate::text::named;

/// Most characters of the name of a snapshot that a client asks for.
const NAME_MAX: usize = 100;

/// To a directory that does not exist or is empty.
#[derive(Debug)]
pub struct SnapshotTo(String);

impl Read for SnapshotTo {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (directory, _) = cursor.string("the directory, such as '/backup/monday'")?;
        Ok(SnapshotTo(directory))
    }
}

impl OwnStatement for SnapshotTo {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        session.check_local_files()?;
        made(session, Path::new(&self.0)).await.map(Outcome::message)
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
    Ok(format!(
        "Snapshot of {} in '{}': {}, {}.",
        counted(made.tables as u64, "table"),
        directory.display(),
        counted(made.sstables, "SSTable"),
        Bytes(usize::try_from(made.bytes).unwrap_or(usize::MAX))
    ))
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
