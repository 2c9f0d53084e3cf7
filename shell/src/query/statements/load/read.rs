//! KILL READ: ends a read that SHOW READS lists.

use tidegate_engine::Error as EngineError;

use crate::query::error::{QueryError, Result, Span};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// Of this number.
#[derive(Debug)]
pub struct KillRead {
    number: u64,
    span: Span,
}

impl Read for KillRead {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let span = cursor.span();
        Ok(KillRead { number: cursor.natural("the number of a read")?, span })
    }
}

impl OwnStatement for KillRead {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let KillRead { number, span } = self;
        match session.database.kill_read(*number).await {
            Ok(()) => Ok(Outcome::message(format!("Read {number} is ended."))),
            Err(EngineError::NotFound { .. }) => {
                let error = QueryError::invalid(format!("no read {number} is under way")).at(*span);
                Err(error.with_help("SHOW READS lists those that are"))
            }
            Err(error) => Err(error.into()),
        }
    }
}
