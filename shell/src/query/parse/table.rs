//! CREATE TABLE: columns, key, clustering order and options; ALTER TABLE: options.

use sqlparser::tokenizer::Token;
use tidegate_engine::schema::{ClusteringOrder, TableOptions};

use super::command::{ColumnDefinition, Command, CreateTable, Name};
use super::cursor::Cursor;
use super::table_option::table_option;
use super::type_name::type_name;
use crate::query::error::{QueryError, Result};

/// After `CREATE TABLE`.
pub fn create_table(cursor: &mut Cursor<'_>) -> Result<Command> {
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
    };
    cursor.expect(&Token::LParen)?;
    cursor.comma_separated(|cursor| {
        if cursor.take_words(&["primary", "key"]) {
            primary_key(cursor, &mut table)
        } else {
            column(cursor, &mut table)
        }
    })?;
    cursor.expect(&Token::RParen)?;
    if cursor.take_word("with") {
        option(cursor, &mut table)?;
        while cursor.take_word("and") {
            option(cursor, &mut table)?;
        }
    }
    if table.partition_key.is_empty() {
        return Err(QueryError::invalid(format!(
            "table '{}' has no primary key",
            table.name.table.value
        ))
        .at(table.name.table.span)
        .with_help("add PRIMARY KEY ((partition columns), clustering columns)"));
    }
    Ok(Command::CreateTable(table))
}

/// After `ALTER TABLE`: `[keyspace.]name WITH option = value [AND …]`.
pub fn alter_table(cursor: &mut Cursor<'_>) -> Result<Command> {
    let name = cursor.table_name()?;
    cursor.expect_word("with")?;
    let mut options = vec![table_option(cursor)?];
    while cursor.take_word("and") {
        options.push(table_option(cursor)?);
    }
    Ok(Command::AlterTable { name, options })
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
    table_option(cursor)?.apply(&mut table.options);
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
