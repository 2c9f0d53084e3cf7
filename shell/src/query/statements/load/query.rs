//! KILL QUERY: ends a statement that SHOW QUERIES lists.
//!
//! What it has written stays. A role may end its own statements.

use crate::query::access::Need;
use crate::query::error::{QueryError, Result, Span};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// Of this number.
#[derive(Debug)]
pub struct KillQuery {
    number: u64,
    span: Span,
}

impl Read for KillQuery {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let span = cursor.span();
        Ok(KillQuery { number: cursor.natural("the number of a statement")?, span })
    }
}

impl OwnStatement for KillQuery {
    /// Whose statement it is says what it needs.
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let KillQuery { number, span } = self;
        let roster = &session.options.roster;
        let member = roster.member_of(*number);
        // Who may end no statement of others is not told which numbers there are.
        if member.is_none_or(|member| member.caller != *session.caller()) {
            session.allow(&[Need::administration()])?;
        }
        if roster.end(*number) {
            return Ok(Outcome::message(format!("Query {number} is ended.")));
        }
        let error = QueryError::invalid(format!("no query {number} runs")).at(*span);
        Err(error.with_help("SHOW QUERIES lists those that do"))
    }
}
