//! SNAPSHOT TO: a copy of everything beside the data directory, while the database serves.

use async_trait::async_trait;

use super::{OwnStatement, Read};
use crate::memory::Bytes;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;

/// To a directory that does not exist or is empty.
#[derive(Debug)]
pub struct SnapshotTo(String);

impl Read for SnapshotTo {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (directory, _) = cursor.string("the directory, such as '/backup/monday'")?;
        Ok(SnapshotTo(directory))
    }
}

#[async_trait]
impl OwnStatement for SnapshotTo {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        session.check_local_files()?;
        let made = session.database.snapshot(self.0.as_str()).await?;
        Ok(Outcome::message(format!(
            "Snapshot of {} in '{}': {}, {}.",
            counted(made.tables as u64, "table"),
            self.0,
            counted(made.sstables, "SSTable"),
            Bytes(usize::try_from(made.bytes).unwrap_or(usize::MAX))
        )))
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
