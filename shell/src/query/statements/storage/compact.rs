//! COMPACT: all SSTables of a table become one on each shard; and CANCEL COMPACTION.

use std::time::Duration;

use tidegate_engine::TableId;

use crate::query::error::{QueryError, Result, Span};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, TableName};
use crate::query::session::{Progress, Session};
use crate::query::statements::{OwnStatement, Read};

/// How often whoever waits is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Of one table.
#[derive(Debug)]
pub struct Compact(TableName);

impl Read for Compact {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.take_word("table");
        Ok(Compact(cursor.table_name()?))
    }
}

impl OwnStatement for Compact {
    /// Waits for the end. Whoever stops waiting does not stop it: CANCEL COMPACTION does.
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = session.table(&self.0)?;
        let compact = session.database.compact(table.id);
        tokio::pin!(compact);
        loop {
            tokio::select! {
                biased;
                compacted = &mut compact => {
                    compacted.map_err(|error| QueryError::from(error).at(self.0.table.span))?;
                    break;
                }
                () = tokio::time::sleep(TOLD_EVERY) => tell(session, table.id).await?,
            }
        }
        let sstables = sstables_of(session, table.id).await?;
        let name = table.full_name();
        let message = match sstables {
            1 => format!("Table {name} compacted: 1 SSTable."),
            count => format!("Table {name} compacted: {count} SSTables."),
        };
        Ok(Outcome::message(message))
    }
}

/// Tells how far the compactions of a table are.
async fn tell(session: &Session, table: TableId) -> Result<()> {
    let Some(sink) = &session.options.progress else { return Ok(()) };
    let catalog = session.database.catalog();
    let Some(schema) = catalog.all_tables().find(|schema| schema.id == table) else {
        return Ok(());
    };
    let mut progress = Progress { rows: 0, bytes: 0, bytes_max: 0 };
    for job in session.database.compactions().await? {
        if job.keyspace == schema.keyspace && job.table == schema.name {
            progress.bytes += (job.input_bytes as f64 * job.done) as u64;
            progress.bytes_max += job.input_bytes;
        }
    }
    sink(progress);
    Ok(())
}

async fn sstables_of(session: &Session, table: TableId) -> Result<u64> {
    let catalog = session.database.catalog();
    let schema = catalog.all_tables().find(|schema| schema.id == table);
    let reports = session.database.table_report().await?;
    let of_table = reports.iter().filter(|report| {
        schema.is_some_and(|own| own.keyspace == report.keyspace && own.name == report.table)
    });
    Ok(of_table.map(|report| report.sstables).sum())
}

/// CANCEL COMPACTION, of the number that SHOW COMPACTIONS gives.
#[derive(Debug)]
pub struct CancelCompaction {
    number: u64,
    span: Span,
}

impl Read for CancelCompaction {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let span = cursor.span();
        Ok(CancelCompaction { number: cursor.natural("the number of a compaction")?, span })
    }
}

impl OwnStatement for CancelCompaction {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let CancelCompaction { number, span } = self;
        if !session.database.cancel_compaction(*number).await? {
            let error = QueryError::invalid(format!("no compaction {number} runs")).at(*span);
            return Err(error.with_help("SHOW COMPACTIONS lists those that do"));
        }
        Ok(Outcome::message(format!("Compaction {number} is cancelled.")))
    }
}
