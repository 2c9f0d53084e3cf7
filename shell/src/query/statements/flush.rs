//! FLUSH: memtables to SSTables.

use super::{OwnStatement, Read};
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, TableName};
use crate::query::session::Session;

/// Of one table, or of all.
#[derive(Debug)]
pub struct Flush(Option<TableName>);

impl Read for Flush {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Flush(cursor.table_name_or_end()?))
    }
}

impl OwnStatement for Flush {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = self.0.as_ref().map(|name| session.table(name)).transpose()?;
        session.database.flush(table.as_ref().map(|table| table.id)).await?;
        Ok(Outcome::message(match table {
            Some(table) => format!("Table {} flushed.", table.full_name()),
            None => "All tables flushed.".to_owned(),
        }))
    }
}
