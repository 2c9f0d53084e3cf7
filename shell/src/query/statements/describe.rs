//! `DESCRIBE t`: the columns of a table with their types and roles, and its options; the columns of
//! a view, and its query.
//! `DESCRIBE TABLE t` and its like: the statements that make it.
//!
//! Invariant: an option stands as `WITH` takes it, so what is shown can be typed.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef as ArrowSchemaRef};
use sqlparser::tokenizer::Token;
use tidegate_engine::{Catalog, ClusteringOrder, ColumnKind, TableSchema, View};

use super::definition::option_text::options;
use super::definition::text;
use super::definition::user_type::find_type;
use super::{OwnStatement, Read};
use crate::output::TEXT_FORM;
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::{Outcome, batch, text_schema};
use crate::query::parse::{Cursor, Name, TableName};
use crate::query::scan::catalog::CATALOG;
use crate::query::session::Session;
use crate::query::system::SYSTEM_KEYSPACE;

/// Name, type or value, and kind of a column or option.
type Row = [String; 3];

/// Schema of the rows: `name`, `definition` (a type, or an option's value) and `kind`.
fn schema() -> ArrowSchemaRef {
    text_schema(&["name", "definition", "kind"])
}

/// What is described.
#[derive(Debug)]
pub enum Describe {
    Columns(TableName),
    Table(TableName),
    Type(TableName),
    View(TableName),
    /// The one in use without a name.
    Keyspace(Option<Name>),
    Schema,
}

impl Read for Describe {
    /// `[keyspace.]table`, `TABLE [keyspace.]table`, `TYPE [keyspace.]type`, `VIEW
    /// [keyspace.]view`, `KEYSPACE [keyspace]` or `[FULL] SCHEMA`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let is_last = cursor.rest().len() == 1;
        let is_named = !is_last && cursor.peek_nth(1) != Some(&Token::Period);
        if is_last && cursor.take_word("schema") || cursor.take_words(&["full", "schema"]) {
            return Ok(Describe::Schema);
        }
        if is_last && cursor.take_word("keyspace") {
            return Ok(Describe::Keyspace(None));
        }
        if is_named && cursor.take_word("table") {
            return Ok(Describe::Table(cursor.table_name()?));
        }
        if is_named && cursor.take_word("type") {
            return Ok(Describe::Type(cursor.table_name()?));
        }
        if is_named && cursor.take_word("view") {
            return Ok(Describe::View(cursor.table_name()?));
        }
        if is_named && cursor.take_word("keyspace") {
            return Ok(Describe::Keyspace(Some(cursor.name("a keyspace name")?)));
        }
        Ok(Describe::Columns(cursor.table_name()?))
    }
}

/// Schema of statements, which printers for people and pipes write as they are.
fn statement_schema() -> ArrowSchemaRef {
    let fields = text_schema(&["create_statement"]).fields().clone();
    let (name, form) = TEXT_FORM;
    let metadata = [(name.to_owned(), form.to_owned())].into();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

impl Describe {
    /// The statements that make what is described.
    fn statements(&self, session: &Session) -> Result<Vec<String>> {
        let catalog = session.database.catalog();
        Ok(match self {
            Describe::Columns(_) => Vec::new(),
            Describe::Table(name) => vec![text::table(&*session.table(name)?)],
            Describe::Type(name) => {
                vec![text::user_type(&find_type(&catalog, &session.keyspace(), name)?)]
            }
            Describe::View(name) => vec![text::view(view(session, &catalog, name)?)],
            Describe::Keyspace(name) => {
                let keyspace = name.as_ref().map(|name| name.value.clone());
                let keyspace = keyspace.unwrap_or_else(|| session.keyspace());
                if !catalog.has_keyspace(&keyspace) {
                    let error = QueryError::not_found("keyspace", &keyspace, catalog.keyspaces());
                    return Err(name.as_ref().map_or(error.clone(), |name| error.at(name.span)));
                }
                let mut all = text::keyspace(&catalog, &keyspace);
                all.extend(text::views(catalog.views(&keyspace)));
                all
            }
            Describe::Schema => {
                let keyspaces = catalog.keyspaces().flat_map(|name| text::keyspace(&catalog, name));
                // A view may read tables of any keyspace.
                keyspaces.chain(text::views(catalog.all_views())).collect()
            }
        })
    }
}

impl OwnStatement for Describe {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    /// One row a column, then one an option. Tables of `system` have no options. Of statements one
    /// row each.
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let Describe::Columns(name) = self else {
            let statements = StringArray::from_iter_values(self.statements(session)?);
            let batch = batch(statement_schema(), vec![Arc::new(statements)])?;
            return Ok(Outcome::batches(statement_schema(), vec![batch]));
        };
        let keyspace = name.keyspace.as_ref().map(|keyspace| keyspace.value.clone());
        if keyspace.unwrap_or_else(|| session.keyspace()) == SYSTEM_KEYSPACE {
            return outcome(system_columns(session, name).await?);
        }
        let catalog = session.database.catalog();
        if let Ok(view) = view(session, &catalog, name) {
            return outcome(view_rows(session, view).await?);
        }
        let table = session.table(name)?;
        let mut rows = columns(&table);
        let options = options(&table.options).into_iter();
        rows.extend(options.map(|(name, value)| [name.to_owned(), value, "option".to_owned()]));
        outcome(rows)
    }

    async fn schema(&self, _session: &Session) -> Result<ArrowSchemaRef> {
        Ok(match self {
            Describe::Columns(_) => schema(),
            _ => statement_schema(),
        })
    }

    fn is_query(&self) -> bool {
        true
    }
}

async fn system_columns(session: &Session, name: &TableName) -> Result<Vec<Row>> {
    let catalog = session.context.catalog(CATALOG);
    let system = catalog.and_then(|catalog| catalog.schema(SYSTEM_KEYSPACE));
    let system = system.expect("every session has the keyspace system");
    let Some(table) = system.table(&name.table.value).await? else {
        let known = system.table_names();
        let known = known.iter().map(String::as_str);
        let error = QueryError::not_found("table", &name.table.value, known);
        return Err(error.at(name.table.span));
    };
    let schema = table.schema();
    let rows = schema
        .fields()
        .iter()
        .map(|field| [field.name().clone(), sql_name(field.data_type()), "column".to_owned()]);
    Ok(rows.collect())
}

/// Errors: `NotFound` at the name.
fn view<'a>(session: &Session, catalog: &'a Catalog, name: &TableName) -> Result<&'a View> {
    let keyspace = session.keyspace_of(name);
    catalog.view(&keyspace, &name.table.value).ok_or_else(|| {
        let known = catalog.views(&keyspace).map(|view| view.name.as_str());
        QueryError::not_found("view", &name.table.value, known).at(name.table.span)
    })
}

/// One row a column, then its owner and its query.
async fn view_rows(session: &Session, view: &View) -> Result<Vec<Row>> {
    let columns = session.view_schema(view).await?;
    let column = |field: &Arc<Field>| {
        let ty = field.metadata().get("tidegate.type").cloned();
        let ty = ty.unwrap_or_else(|| sql_name(field.data_type()));
        [field.name().clone(), ty, "column".to_owned()]
    };
    let mut rows: Vec<Row> = columns.fields().iter().map(column).collect();
    let row = |name: &str, value: &str| [name.to_owned(), value.to_owned(), "view".to_owned()];
    rows.extend(view.owner.as_ref().map(|owner| row("owner", owner)));
    rows.push(row("query", &view.query));
    Ok(rows)
}

fn outcome(rows: Vec<Row>) -> Result<Outcome> {
    let column = |n: usize| {
        let values = rows.iter().map(|row| row[n].as_str());
        Arc::new(StringArray::from_iter_values(values)) as ArrayRef
    };
    let batch = batch(schema(), vec![column(0), column(1), column(2)])?;
    Ok(Outcome::batches(schema(), vec![batch]))
}

fn columns(table: &TableSchema) -> Vec<Row> {
    let kind = |kind: ColumnKind| match kind {
        ColumnKind::PartitionKey { .. } => "partition key",
        ColumnKind::ClusteringKey { order: ClusteringOrder::Ascending, .. } => "clustering key",
        ColumnKind::ClusteringKey { order: ClusteringOrder::Descending, .. } => {
            "clustering key, descending"
        }
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
        ColumnKind::Dropped { .. } => "dropped",
    };
    let row = |column: &tidegate_engine::Column| {
        [column.name.clone(), column.ty.sql_name(), kind(column.kind).to_owned()]
    };
    table.present_columns().map(row).collect()
}

/// SQL's name of a type of Arrow, as tables of `system` have them.
fn sql_name(ty: &DataType) -> String {
    match ty {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 | DataType::UInt8 => "smallint".to_owned(),
        DataType::Int32 | DataType::UInt16 => "int".to_owned(),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "bigint".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "blob".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn types_of_the_system_have_names_of_types_that_hold_all_their_values() {
        for (ty, name) in [
            (DataType::Boolean, "boolean"),
            (DataType::Int8, "tinyint"),
            (DataType::UInt8, "smallint"),
            (DataType::Int16, "smallint"),
            (DataType::UInt16, "int"),
            (DataType::Int32, "int"),
            (DataType::UInt32, "bigint"),
            (DataType::Int64, "bigint"),
            (DataType::UInt64, "bigint"),
            (DataType::Float32, "float"),
            (DataType::Float64, "double"),
            (DataType::Utf8, "text"),
            (DataType::LargeUtf8, "text"),
            (DataType::Utf8View, "text"),
            (DataType::Binary, "blob"),
            (DataType::LargeBinary, "blob"),
            (DataType::BinaryView, "blob"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "timestamp"),
            (DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), "timestamp"),
            (DataType::Date32, "Date32"),
        ] {
            assert_eq!(sql_name(&ty), name, "{ty}");
        }
    }
}
