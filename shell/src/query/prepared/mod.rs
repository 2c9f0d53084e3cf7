//! Statements that are read once and run often.
//!
//! What is made of a text does not depend on the values that are bound to it: its tokens, what the
//! short path takes of it, its logical plan, the types of its parameters. A prepared statement
//! keeps them, and each run fills in values.
//!
//! | statement | what a run does |
//! |---|---|
//! | one that the short path takes | values become a `ReadCommand` or mutations |
//! | another query | values replace the parameters of the kept logical plan, which is then optimised: rules of ours look at values |
//! | another write | is planned with its values |
//!
//! Invariant: what is kept was made under the catalog and the settings that a run finds. Any DDL,
//! of any session, makes a new catalog, and with it everything is made anew. A plan that reads more
//! than tables of the engine is not kept: what such tables hold may belong to the plan.
//!
//! `plans` bounds what is kept for texts, `session` runs, `rows` runs a query by the key of a row
//! for many keys.

mod plans;
mod rows;
mod session;

use std::sync::{Arc, OnceLock, RwLock};

use tidegate_engine::Catalog;

pub use plans::Plans;

use super::outcome::Description;
use super::parse::statement::Statement;
use super::roster::Shown;
use super::short::Short;
use super::sketch::Sketched;

/// See the head of this file.
pub struct Prepared {
    statement: Statement,
    /// Its text, and the keyspace of its unqualified names.
    shown: Arc<Shown>,
    /// Whether it changes the session that runs it.
    changes_session: bool,
    made: RwLock<Arc<Made>>,
}

impl Prepared {
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// As [`Statement::changes_session`], which looks through the table of statements each time.
    pub fn changes_session(&self) -> bool {
        self.changes_session
    }
}

/// What was made of a statement.
pub struct Made {
    catalog: Arc<Catalog>,
    /// Of the settings.
    stamp: u64,
    short: Option<Short>,
    /// Made when it is first needed.
    sketch: OnceLock<Sketched>,
    /// Without values.
    description: OnceLock<Description>,
}

impl Made {
    /// What the short path takes of the statement; `None` where the planner has to look at it.
    pub fn short(&self) -> Option<&Short> {
        self.short.as_ref()
    }
}
