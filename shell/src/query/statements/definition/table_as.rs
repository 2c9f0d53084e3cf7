//! CREATE TABLE … AS SELECT: columns by the names and types of a query, rows by what it answers.
//!
//! Invariant: where the query or a write fails, or nobody waits for them any more, the table is
//! dropped again. A crash may leave it with a part of its rows, and who gives up while the table
//! itself is made may leave it empty.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as SqlStatement;
use tidegate_engine::batch::{arrow_type, column_type};
use tidegate_engine::{DataType, SchemaRef};

use super::query::query;
use super::table::{ColumnDefinition, CreateTable};
use super::user_type::find_type;
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name, TableName, TypeName};
use crate::query::session::Session;
use crate::query::statements::{AnyStatement, OwnStatement, Read};
use crate::query::types::collection::named_type_among;

const FORM: &str = "name the key before AS: \
                    CREATE TABLE t (PRIMARY KEY ((a), b)) AS SELECT a, b, c FROM …";

/// See the head of this file.
#[derive(Debug)]
struct CreateTableAs {
    table: CreateTable,
    query: SqlStatement,
}

/// Reads CREATE TABLE, with a query or without one.
///
/// Errors: as of [`Read::read`].
pub fn read(cursor: &mut Cursor<'_>) -> Result<Arc<dyn AnyStatement>> {
    let start = cursor.position();
    let table = CreateTable::definition(cursor)?;
    if !cursor.take_word("as") {
        cursor.skip_to(start);
        return Ok(Arc::new(CreateTable::read(cursor)?));
    }
    table.check_key(FORM)?;
    let help = "write the value, or create the table and fill it with INSERT INTO t SELECT …";
    let query = query(cursor, help)?;
    Ok(Arc::new(CreateTableAs { table, query }))
}

impl OwnStatement for CreateTableAs {
    fn needs(&self, session: &Session) -> Vec<Need> {
        OwnStatement::needs(&self.table, session)
    }

    /// The table is of all nodes, and its rows are written once.
    fn defines_by_itself(&self) -> bool {
        true
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let plan = session.plan(self.query.clone()).await?;
        let (answer, _) = session.result_of(&plan).await?;
        let create = self.table.with_columns(self.columns(session, &answer)?);
        let (table, is_new) = create.make_everywhere(session).await?;
        if !is_new {
            let note = format!("table {} exists already, and stays as it is", table.full_name());
            return Ok(Outcome { note: Some(note), ..Outcome::count(0) });
        }
        let unfilled = session.unfilled(table.clone());
        let name = &self.table.name;
        match fill(session, (&table, name), plan).await {
            Ok(count) => {
                unfilled.keep();
                Ok(self.table.noted(Outcome::count(count)))
            }
            Err(error) => Err(unfilled.take_back(error).await),
        }
    }
}

/// Writes the rows of a query, whose columns are those of the table; returns how many.
async fn fill(session: &Session, into: (&SchemaRef, &TableName), plan: LogicalPlan) -> Result<u64> {
    let names = into.0.present_columns().map(|column| column.name.clone()).collect();
    session.fill(into, plan, names).await
}

impl CreateTableAs {
    /// A column for each of the answer: of the type that the list gives it, or else its own.
    ///
    /// Errors: `NotFound` at a listed column that the query does not give; `Invalid` for two of one
    /// name, and for one whose values no column holds.
    fn columns(&self, session: &Session, answer: &Schema) -> Result<Vec<ColumnDefinition>> {
        let listed = &self.table.columns;
        let given = || answer.fields().iter().map(|field| field.name().as_str());
        if let Some(other) =
            listed.iter().find(|column| !given().any(|name| name == column.name.value))
        {
            let Name { value, span } = &other.name;
            return Err(QueryError::not_found("column", value, given()).at(*span));
        }
        let mut columns: Vec<ColumnDefinition> = Vec::with_capacity(answer.fields().len());
        for field in answer.fields() {
            let name = field.name();
            if columns.iter().any(|column| column.name.value == *name) {
                let error = QueryError::invalid(format!("the query gives column '{name}' twice"));
                return Err(error.with_help("give one of them another name: SELECT a, b AS c …"));
            }
            let mut same = listed.iter().filter(|column| column.name.value == *name);
            match same.next() {
                Some(column) => columns.push(column.clone()),
                None => columns.push(self.column(session, field)?),
            }
            // Which says that it is defined twice.
            columns.extend(same.cloned());
        }
        Ok(columns)
    }

    /// A column like one of the answer.
    fn column(&self, session: &Session, field: &Field) -> Result<ColumnDefinition> {
        let name = Name { value: field.name().clone(), span: self.table.name.table.span };
        let (catalog, keyspace) = (session.database.catalog(), session.keyspace());
        let find = |name: &TableName| find_type(&catalog, &keyspace, name);
        // A column of a table keeps its type; what is computed of it may still say that type.
        let kept = named_type_among(field, &find);
        let kept = kept.filter(|ty| arrow_type(ty) == *field.data_type());
        let ty = kept.or_else(|| column_type(field.data_type())).ok_or_else(|| {
            let (name, ty) = (field.name(), field.data_type());
            QueryError::invalid(format!("column '{name}' has type {ty}, which no table can hold"))
                .with_help(format!(
                    "CAST it to another type, or say its type in the list: ({name} bigint, \
                     PRIMARY KEY …)"
                ))
        })?;
        let ty = match ty {
            DataType::Counter => DataType::BigInt,
            ty => ty,
        };
        Ok(ColumnDefinition { name, ty: TypeName::Plain(ty), is_static: false })
    }
}
