//! CREATE VIEW and DROP VIEW.
//!
//! A view is kept as the text of its query, in which each table stands with its keyspace. So it
//! reads the same tables whoever asks, in whatever keyspace.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as SqlStatement;
use datafusion::sql::resolve::resolve_table_references;
use sqlparser::ast::{self, ObjectName, ObjectNamePart, VisitMut, VisitorMut};
use tidegate_engine::{Permission, Resource, View};

use super::query::query;
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::statement::synthetic;
use crate::query::parse::{Cursor, PARTITION_LIMIT, TableName, sql};
use crate::query::session::Session;
use crate::query::statements::{AnyStatement, OwnStatement, Read};

#[derive(Debug)]
pub struct CreateView {
    name: TableName,
    if_not_exists: bool,
    or_replace: bool,
    query: SqlStatement,
}

impl Read for CreateView {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = cursor.table_name()?;
        cursor.expect_word("as")?;
        let help = "leave the condition out: whoever reads the view can say it";
        let query = query(cursor, help)?;
        Ok(CreateView { name, if_not_exists, or_replace: false, query })
    }
}

/// Reads what follows CREATE OR REPLACE VIEW.
///
/// Errors: as of [`Read::read`].
pub fn read_or_replace(cursor: &mut Cursor<'_>) -> Result<Arc<dyn AnyStatement>> {
    Ok(Arc::new(CreateView { or_replace: true, ..CreateView::read(cursor)? }))
}

impl OwnStatement for CreateView {
    fn needs(&self, session: &Session) -> Vec<Need> {
        let keyspace = session.keyspace_of(&self.name);
        let is_there = session.database.catalog().view(&keyspace, &self.name.table.value).is_some();
        let mut needs = vec![Need::new(Permission::Create, Resource::Keyspace(keyspace))];
        if is_there && self.or_replace {
            needs.push(Need::on_table(Permission::Drop, session, &self.name));
        }
        needs
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let keyspace = session.keyspace_of(&self.name);
        let name = &self.name.table.value;
        let is_there = session.database.catalog().view(&keyspace, name).is_some();
        if is_there && self.if_not_exists {
            return Ok(Outcome::message(format!("View {keyspace}.{name} exists already.")));
        }
        let (query, reads) = with_keyspaces(session, self.query.clone())?;
        self.check(session, &query).await?;
        let owner = session.caller().role().map(str::to_owned);
        let view = View { keyspace, name: name.clone(), query, owner, reads };
        let (full_name, resource) = (view.full_name(), Resource::table(&view.keyspace, &view.name));
        let created = session.database.create_view(view, self.or_replace).await;
        created.map_err(|error| QueryError::from(error).at(self.name.table.span))?;
        session.hand_over(&resource).await?;
        let done = if is_there { "replaced" } else { "created" };
        Ok(Outcome::message(format!("View {full_name} {done}.")))
    }
}

impl CreateView {
    /// Plans the text that is kept, with the rights of whoever makes the view.
    ///
    /// Errors: those of planning; `Invalid` for two columns of one name; `Unsupported` for PER
    /// PARTITION LIMIT, which is that of a whole statement.
    async fn check(&self, session: &Session, text: &str) -> Result<()> {
        if text.contains(PARTITION_LIMIT) {
            let error = QueryError::unsupported("a view takes no PER PARTITION LIMIT");
            return Err(error.at(self.name.table.span).with_help(
                "row_number() OVER (PARTITION BY pk ORDER BY ck) numbers the rows of each \
                 partition",
            ));
        }
        // What is planned is the text as it was written, whose places errors can name.
        session.plan(self.query.clone()).await?;
        let plan = session.plan(sql(&synthetic(text)?)?).await?;
        let (columns, _) = session.result_of(&plan).await?;
        let mut names = HashSet::new();
        match columns.fields().iter().find(|field| !names.insert(field.name())) {
            None => Ok(()),
            Some(field) => {
                let message = format!("the view would have column '{}' twice", field.name());
                let help = "give one of them another name: SELECT a, b AS c …";
                Err(QueryError::invalid(message).with_help(help))
            }
        }
    }
}

/// The text of a query, each table with its keyspace, and the tables and views that it reads.
///
/// Errors: `Unsupported` for a query that reads no table; `Invalid` for a name that stands for a
/// table and for a query of WITH.
fn with_keyspaces(
    session: &Session,
    mut query: SqlStatement,
) -> Result<(String, BTreeSet<(String, String)>)> {
    let catalog = session.database.catalog();
    let own = session.keyspace();
    let (tables, inner) = resolve_table_references(&query, true)?;
    let (mut reads, mut bare) = (BTreeSet::new(), HashSet::new());
    for table in &tables {
        let (keyspace, name) = (table.schema().unwrap_or(&own), table.table());
        let is_there = match table {
            TableReference::Bare { .. } => session.has_table(name),
            _ => true,
        };
        if !is_there {
            // The name of a function or a file; or planning says that there is no such table.
            continue;
        }
        if catalog.table(keyspace, name).is_some() || catalog.view(keyspace, name).is_some() {
            reads.insert((keyspace.to_owned(), name.to_owned()));
        }
        if matches!(table, TableReference::Bare { .. }) {
            bare.insert(name.to_owned());
            if inner.iter().any(|inner| inner.table() == name) {
                let message = format!("'{name}' is a table and a query of WITH");
                let error = QueryError::invalid(message);
                return Err(error.with_help("give the query of WITH another name"));
            }
        }
    }
    if reads.is_empty() {
        let error = QueryError::unsupported("the view would read no table");
        return Err(error.with_help(
            "a view reads a table of a keyspace other than system; CREATE TABLE … AS keeps rows \
             of any query",
        ));
    }
    if let SqlStatement::Statement(statement) = &mut query {
        let mut qualify = Qualify { bare: &bare, keyspace: &own };
        let _ = VisitMut::visit(&mut **statement, &mut qualify);
    }
    Ok((query.to_string(), reads))
}

/// Puts the keyspace before the names of tables that have none.
struct Qualify<'a> {
    bare: &'a HashSet<String>,
    keyspace: &'a str,
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(table)] = name.0.as_slice() {
            let value = match table.quote_style {
                Some(_) => table.value.clone(),
                None => table.value.to_lowercase(),
            };
            if self.bare.contains(&value) {
                let keyspace = ast::Ident::with_quote('"', self.keyspace);
                name.0.insert(0, ObjectNamePart::Identifier(keyspace));
            }
        }
        ControlFlow::Continue(())
    }
}

#[derive(Debug)]
pub struct DropView {
    name: TableName,
    if_exists: bool,
}

impl Read for DropView {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropView { name: cursor.table_name()?, if_exists })
    }
}

impl OwnStatement for DropView {
    fn needs(&self, session: &Session) -> Vec<Need> {
        vec![Need::on_table(Permission::Drop, session, &self.name)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let keyspace = session.keyspace_of(&self.name);
        let name = &self.name.table.value;
        let catalog = session.database.catalog();
        let view = catalog.view(&keyspace, name);
        if view.is_none() && !self.if_exists {
            let known = catalog.views(&keyspace).map(|view| view.name.as_str());
            let error = QueryError::not_found("view", name, known).at(self.name.table.span);
            return Err(match catalog.table(&keyspace, name) {
                Some(_) => error.with_help("it is a table: DROP TABLE"),
                None => error,
            });
        }
        let dropped = session.database.drop_view(&keyspace, name, self.if_exists).await;
        dropped.map_err(|error| QueryError::from(error).at(self.name.table.span))?;
        Ok(Outcome::message(match view {
            Some(view) => format!("View {} dropped.", view.full_name()),
            None => format!("There is no view {name}."),
        }))
    }
}
