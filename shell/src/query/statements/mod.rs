//! Statements: the parser, runner, help and completion of each.
//!
//! [`STATEMENTS`] has a row for each. The first words of a text pick the row (`dispatch.rs`), and
//! the row says who reads the rest. A statement of our own is a type of this folder: it parses
//! itself ([`Read`]) and runs itself ([`OwnStatement`]). All other SQL goes to DataFusion.

mod access;
mod attach;
mod batch;
mod cache;
mod compact;
mod copy;
mod definition;
mod describe;
mod dispatch;
mod flush;
mod io;
mod list;
mod load;
mod policy;
mod row;
mod show;
mod snapshot;
mod watch;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast;

pub use dispatch::parse;
pub use list::{STATEMENTS, continuations, row_of_words};
pub use policy::PolicyUpload;
pub use row::{Continues, Help, StatementRow, Tab, Topic};

use super::access::Need;
use super::error::Result;
use super::outcome::Outcome;
use super::parse::{Batch, Cursor, TableName, Write};
use super::session::Session;

/// One parsed statement.
#[derive(Debug, Clone)]
pub enum Command {
    /// SELECT, VALUES, EXPLAIN of those, SET, and what else DataFusion plans without writing.
    Query(SqlStatement),
    Write(Write),
    /// EXPLAIN of a write: shows what it would do.
    ExplainWrite(Write),
    Batch(Arc<Batch>),
    Own(Arc<dyn OwnStatement>),
}

/// A statement of our own, after parsing.
#[async_trait]
pub trait OwnStatement: Any + Debug + Send + Sync {
    /// Runs it to its end.
    ///
    /// Errors: with a place in the text wherever there is one.
    async fn run(&self, session: &Session) -> Result<Outcome>;

    /// Schema of its rows; without fields where it gives none.
    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(Arc::new(Schema::empty()))
    }

    /// What its caller needs; what a plan of it reads follows from the plan.
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::administration()]
    }

    /// Whether it returns rows and changes neither data nor the session.
    fn is_query(&self) -> bool {
        false
    }

    /// The table that it drops.
    fn table_to_drop(&self) -> Option<&TableName> {
        None
    }
}

/// How a row of [`STATEMENTS`] parses a statement.
pub trait Read: OwnStatement + Sized {
    /// Reads what follows the first words.
    ///
    /// Errors: `Syntax` or `Invalid`, at the unexpected token.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self>;
}

impl Command {
    /// Whether the statement returns rows and changes neither data nor the session.
    pub fn is_query(&self) -> bool {
        match self {
            Command::Query(sql) => is_query(sql),
            Command::Write(_) | Command::Batch(_) => false,
            Command::ExplainWrite(_) => true,
            Command::Own(own) => own.is_query(),
        }
    }
}

fn is_query(sql: &SqlStatement) -> bool {
    use ast::Statement as Ast;
    match sql {
        SqlStatement::Explain(explain) => is_query(&explain.statement),
        SqlStatement::Statement(inner) => matches!(
            **inner,
            Ast::Query(_)
                | Ast::ShowVariable { .. }
                | Ast::ShowVariables { .. }
                | Ast::ShowTables { .. }
                | Ast::ShowColumns { .. }
                | Ast::ShowFunctions { .. }
        ),
        _ => false,
    }
}
