//! CREATE TABLE, TRUNCATE and DROP TABLE.

use sqlparser::tokenizer::Token;
use tidegate_engine::{
    Catalog, ClusteringOrder, Column, ColumnKind, Permission, Resource, SchemaRef, TableId,
    TableOptions, TableSchema,
};

use super::counter;
use super::foreign::Ignored;
use super::table_option::table_option;
use super::user_type::find_type;
use crate::query::access::Need;
use crate::query::error::{ErrorKind, QueryError, Result, nearest};
use crate::query::outcome::Outcome;
use crate::query::parse::statement::is_word;
use crate::query::parse::{Cursor, Name, TableName, TypeName, type_name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub name: TableName,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    pub partition_key: Vec<Name>,
    pub clustering_key: Vec<Name>,
    pub clustering_order: Vec<(Name, ClusteringOrder)>,
    pub options: TableOptions,
    ignored: Ignored,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: Name,
    pub ty: TypeName,
    pub is_static: bool,
}

impl Read for CreateTable {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let table = CreateTable::definition(cursor)?;
        table.check_key("add PRIMARY KEY ((partition columns), clustering columns)")?;
        Ok(table)
    }
}

impl CreateTable {
    /// Reads the definition, as far as it stands there: before AS the columns may be left out.
    ///
    /// Errors: as of `read`, but for a key that is not named.
    pub fn definition(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = cursor.table_name()?;
        let mut table = CreateTable {
            name,
            if_not_exists,
            columns: Vec::new(),
            partition_key: Vec::new(),
            clustering_key: Vec::new(),
            clustering_order: Vec::new(),
            options: TableOptions::default(),
            ignored: Ignored::default(),
        };
        if cursor.peek().is_some_and(|token| is_word(token, "as")) {
            return Ok(table);
        }
        cursor.definitions(|cursor| {
            if cursor.take_words(&["primary", "key"]) {
                primary_key(cursor, &mut table)
            } else {
                column(cursor, &mut table)
            }
        })?;
        if cursor.take_word("with") {
            option(cursor, &mut table)?;
            while cursor.take_word("and") {
                option(cursor, &mut table)?;
            }
        }
        Ok(table)
    }

    /// Errors: `Invalid` where no key is named; `help` says what to do.
    pub fn check_key(&self, help: &str) -> Result<()> {
        if !self.partition_key.is_empty() {
            return Ok(());
        }
        let name = &self.name.table;
        let error = QueryError::invalid(format!("table '{}' has no primary key", name.value));
        Err(error.at(name.span).with_help(help))
    }

    /// Makes the table; whether it was not there before. Its maker may do everything with it.
    ///
    /// Errors: `Exists`; `Invalid` or `NotFound` at the column that is wrong; `Io`.
    async fn make(&self, session: &Session) -> Result<(SchemaRef, bool)> {
        let made = session.make_table(self.schema(session)?, self.if_not_exists).await;
        made.map_err(|error| error.at(self.name.table.span))
    }

    /// As [`CreateTable::make`], on all nodes of a cluster.
    ///
    /// Errors: `Unavailable` as well, naming a node that did not make it.
    pub async fn make_everywhere(&self, session: &Session) -> Result<(SchemaRef, bool)> {
        let made = session.make_table_everywhere(self.schema(session)?, self.if_not_exists).await;
        made.map_err(|error| error.at(self.name.table.span))
    }

    fn schema(&self, session: &Session) -> Result<TableSchema> {
        table_schema(self, &session.database.catalog(), &session.keyspace_of(&self.name))
    }

    /// The same table with these columns.
    pub fn with_columns(&self, columns: Vec<ColumnDefinition>) -> Self {
        CreateTable { columns, ..self.clone() }
    }

    /// The outcome, with a note of the options that say nothing here.
    pub fn noted(&self, outcome: Outcome) -> Outcome {
        self.ignored.noted(outcome, "Tidegate has no such options")
    }
}

fn column(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> Result<()> {
    let name = cursor.name("a column name or PRIMARY KEY")?;
    let ty = type_name(cursor)?;
    let mut is_static = false;
    loop {
        if cursor.take_word("static") {
            is_static = true;
        } else if cursor.take_words(&["primary", "key"]) {
            one_key_only(cursor, table)?;
            table.partition_key.push(name.clone());
        } else if !cursor.take_words(&["not", "null"]) {
            break;
        }
    }
    table.columns.push(ColumnDefinition { name, ty, is_static });
    Ok(())
}

fn one_key_only(cursor: &Cursor<'_>, table: &CreateTable) -> Result<()> {
    if table.partition_key.is_empty() {
        return Ok(());
    }
    Err(QueryError::invalid("the table has two primary keys").at(cursor.span()))
}

/// `((a, b), c, d)` or `(a, c, d)`.
fn primary_key(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> Result<()> {
    one_key_only(cursor, table)?;
    cursor.expect(&Token::LParen)?;
    table.partition_key = if cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesised(|cursor| cursor.name("a column name"))?
    } else {
        vec![cursor.name("a column name")?]
    };
    if cursor.take(&Token::Comma) {
        table.clustering_key = cursor.comma_separated(|cursor| cursor.name("a column name"))?;
    }
    cursor.expect(&Token::RParen)
}

/// `CLUSTERING ORDER BY (…)` or `name = value`.
fn option(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> Result<()> {
    if cursor.take_words(&["clustering", "order", "by"]) {
        table.clustering_order = cursor.parenthesised(order)?;
        return Ok(());
    }
    if let Some(option) = table_option(cursor, &mut table.ignored)? {
        option.apply(&mut table.options);
    }
    Ok(())
}

fn order(cursor: &mut Cursor<'_>) -> Result<(Name, ClusteringOrder)> {
    let name = cursor.name("a clustering column")?;
    let order = if cursor.take_word("desc") {
        ClusteringOrder::Descending
    } else {
        cursor.take_word("asc");
        ClusteringOrder::Ascending
    };
    Ok((name, order))
}

impl OwnStatement for CreateTable {
    fn needs(&self, session: &Session) -> Vec<Need> {
        let keyspace = Resource::Keyspace(session.keyspace_of(&self.name));
        vec![Need::new(Permission::Create, keyspace)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let (schema, is_new) = self.make(session).await?;
        let name = schema.full_name();
        if !is_new {
            return Ok(Outcome::message(format!("Table {name} exists already.")));
        }
        Ok(self.noted(Outcome::message(format!("Table {name} created."))))
    }
}

/// The schema that a CREATE TABLE asks for; its id is the engine's to give.
///
/// Errors: `Invalid` or `NotFound` at the column that is wrong.
fn table_schema(create: &CreateTable, catalog: &Catalog, keyspace: &str) -> Result<TableSchema> {
    let names: Vec<&str> = create.columns.iter().map(|column| column.name.value.as_str()).collect();
    let keys = create.partition_key.iter().chain(&create.clustering_key);
    for (n, key) in keys.clone().enumerate() {
        if !names.contains(&key.value.as_str()) {
            return Err(
                QueryError::not_found("key column", &key.value, names.iter().copied()).at(key.span)
            );
        }
        if keys.clone().take(n).any(|other| other.value == key.value) {
            return Err(
                QueryError::invalid(format!("'{}' is in the key twice", key.value)).at(key.span)
            );
        }
    }
    for (name, _) in &create.clustering_order {
        if !create.clustering_key.iter().any(|key| key.value == name.value) {
            let known = create.clustering_key.iter().map(|key| key.value.as_str());
            let error = QueryError::invalid(format!("'{}' is no clustering column", name.value))
                .at(name.span);
            return Err(match nearest(&name.value, known) {
                Some(near) => error.with_help(format!("did you mean '{near}'?")),
                None => error,
            });
        }
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    for (n, definition) in create.columns.iter().enumerate() {
        let name = &definition.name;
        if names[..n].contains(&name.value.as_str()) {
            return Err(QueryError::invalid(format!("column '{}' is defined twice", name.value))
                .at(name.span));
        }
        let kind = column_kind(create, n)?;
        let ty = definition.ty.resolve(&|name| find_type(catalog, keyspace, name))?;
        columns.push(Column { name: name.value.clone(), ty, kind });
    }
    let schema = TableSchema {
        id: TableId(0),
        keyspace: keyspace.to_owned(),
        name: create.name.table.value.clone(),
        columns,
        options: create.options.clone(),
        drops: Vec::new(),
    };
    schema.validate().map_err(|error| QueryError::from(error).at(create.name.table.span))?;
    counter::check(&schema.columns, schema.options.default_time_to_live)?;
    Ok(schema)
}

fn column_kind(create: &CreateTable, n: usize) -> Result<ColumnKind> {
    let definition = &create.columns[n];
    let name = &definition.name.value;
    let place =
        |keys: &[Name]| keys.iter().position(|key| key.value == *name).map(|place| place as u16);
    let kind = if let Some(position) = place(&create.partition_key) {
        ColumnKind::PartitionKey { position }
    } else if let Some(position) = place(&create.clustering_key) {
        let order = create.clustering_order.iter().find(|(column, _)| column.value == *name);
        let order = order.map_or(ClusteringOrder::Ascending, |(_, order)| *order);
        ColumnKind::ClusteringKey { position, order }
    } else if definition.is_static {
        return Ok(ColumnKind::Static);
    } else {
        return Ok(ColumnKind::Regular);
    };
    if definition.is_static {
        return Err(QueryError::invalid(format!("key column '{name}' cannot be static"))
            .at(definition.name.span));
    }
    Ok(kind)
}

#[derive(Debug)]
pub struct DropTable {
    name: TableName,
    if_exists: bool,
}

impl Read for DropTable {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropTable { name: cursor.table_name()?, if_exists })
    }
}

impl OwnStatement for DropTable {
    fn needs(&self, session: &Session) -> Vec<Need> {
        vec![Need::on_table(Permission::Drop, session, &self.name)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = match session.table(&self.name) {
            Ok(table) => table,
            Err(error) if self.if_exists && error.kind == ErrorKind::NotFound => {
                let name = &self.name.table.value;
                return Ok(Outcome::message(format!("There is no table {name}.")));
            }
            Err(error) => return Err(error),
        };
        session.database.drop_table(&table.keyspace, &table.name, self.if_exists).await?;
        Ok(Outcome::message(format!("Table {} dropped.", table.full_name())))
    }

    fn table_to_drop(&self) -> Option<&TableName> {
        Some(&self.name)
    }
}

#[derive(Debug)]
pub struct Truncate {
    name: TableName,
}

impl Read for Truncate {
    /// `[TABLE] [keyspace.]name`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.take_word("table");
        Ok(Truncate { name: cursor.table_name()? })
    }
}

impl OwnStatement for Truncate {
    fn needs(&self, session: &Session) -> Vec<Need> {
        vec![Need::on_table(Permission::Modify, session, &self.name)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = session.table(&self.name)?;
        let truncated = session.database.truncate_table(&table.keyspace, &table.name).await;
        truncated.map_err(|error| QueryError::from(error).at(self.name.table.span))?;
        Ok(Outcome::message(format!("Table {} truncated.", table.full_name())))
    }
}
