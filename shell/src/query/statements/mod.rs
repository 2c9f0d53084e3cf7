//! Statements: the parser, runner, help and completion of each.
//!
//! [`STATEMENTS`] has a row for each. The first words of a text pick the row (`dispatch.rs`), and
//! the row says who reads the rest. A statement of our own is a type of this folder: it parses
//! itself ([`Read`]) and runs itself ([`OwnStatement`]). All other SQL goes to DataFusion.

mod access;
mod attach;
mod batch;
mod cache;
mod copy;
mod definition;
mod describe;
mod dispatch;
mod find;
mod flush;
mod list;
mod load;
mod policy;
mod row;
mod show;
mod storage;
mod tabs;
mod watch;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::parser::Statement as SqlStatement;
use futures::FutureExt;
use futures::future::BoxFuture;
use sqlparser::ast;

pub(super) use definition::text as definition_text;
pub(crate) use dispatch::create_policy;
pub use dispatch::parse;
pub use find::{continuations, row_of_words};
pub use list::STATEMENTS;
pub(crate) use policy::CreatePolicy;
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
    Own(Arc<dyn AnyStatement>),
}

/// A statement of our own, after parsing.
pub trait OwnStatement: Any + Debug + Send + Sync {
    /// Runs it to its end.
    ///
    /// Errors: with a place in the text wherever there is one.
    fn run(&self, session: &Session) -> impl Future<Output = Result<Outcome>> + Send;

    /// Schema of its rows; without fields where it gives none.
    fn schema(&self, _session: &Session) -> impl Future<Output = Result<SchemaRef>> + Send {
        async { Ok(Arc::new(Schema::empty())) }
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

    /// Whether it sees to the other nodes of a cluster itself, where definitions are of all.
    fn defines_by_itself(&self) -> bool {
        false
    }
}

/// An [`OwnStatement`] of whichever type.
///
/// `async_trait` on that trait would do the same in fewer lines. But it bounds the lifetimes of
/// each body, and below such bounds the compiler keeps nothing of what it learned: that a plan of
/// DataFusion is `Send` it then proves anew for each statement, which takes seconds.
pub trait AnyStatement: Any + Debug + Send + Sync {
    /// As [`OwnStatement::run`].
    fn run_any<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Result<Outcome>>;

    /// As [`OwnStatement::schema`].
    fn schema_any<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Result<SchemaRef>>;

    /// As [`OwnStatement::needs`].
    fn needs(&self, session: &Session) -> Vec<Need>;

    /// As [`OwnStatement::is_query`].
    fn is_query(&self) -> bool;

    /// As [`OwnStatement::table_to_drop`].
    fn table_to_drop(&self) -> Option<&TableName>;

    /// As [`OwnStatement::defines_by_itself`].
    fn defines_by_itself(&self) -> bool;
}

impl<T: OwnStatement> AnyStatement for T {
    fn run_any<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Result<Outcome>> {
        self.run(session).boxed()
    }

    fn schema_any<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Result<SchemaRef>> {
        self.schema(session).boxed()
    }

    fn needs(&self, session: &Session) -> Vec<Need> {
        OwnStatement::needs(self, session)
    }

    fn is_query(&self) -> bool {
        OwnStatement::is_query(self)
    }

    fn table_to_drop(&self) -> Option<&TableName> {
        OwnStatement::table_to_drop(self)
    }

    fn defines_by_itself(&self) -> bool {
        OwnStatement::defines_by_itself(self)
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

    /// As [`OwnStatement::defines_by_itself`].
    pub(in crate::query) fn defines_by_itself(&self) -> bool {
        matches!(self, Command::Own(own) if own.defines_by_itself())
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
