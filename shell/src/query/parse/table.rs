//! CREATE TABLE: columns, key, clustering order and options.

use datafusion::sql::sqlparser::tokenizer::Token;
use tidegate_engine::schema::{ClusteringOrder, RateLimit, TableOptions};

use super::command::{ColumnDefinition, Command, CreateTable, Name};
use super::cursor::Cursor;
use super::type_name::type_name;
use crate::query::error::{QueryError, Result};

const OPTIONS: [&str; 6] = [
    "default_time_to_live",
    "gc_grace_seconds",
    "column_index_size_in_kb",
    "comment",
    "clustering",
    "per_partition_rate_limit",
];

/// What per_partition_rate_limit holds.
const RATES: [&str; 2] = ["max_reads_per_second", "max_writes_per_second"];

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
    let name = cursor.name("an option")?;
    cursor.expect(&Token::Eq)?;
    let span = cursor.span();
    let wrong = |wanted: &str| {
        QueryError::invalid(format!("option {} takes {wanted}", name.value)).at(span)
    };
    let whole = |cursor: &mut Cursor<'_>, wanted: &str| {
        cursor
            .number(wanted)
            .map_err(|_| wrong(wanted))
            .and_then(|value| i32::try_from(value).map_err(|_| wrong(wanted)))
            .and_then(|value| if value < 0 { Err(wrong(wanted)) } else { Ok(value) })
    };
    match name.value.as_str() {
        "default_time_to_live" => {
            table.options.default_time_to_live = whole(cursor, "a number of seconds")?;
        }
        "gc_grace_seconds" => {
            table.options.gc_grace_seconds = whole(cursor, "a number of seconds")?;
        }
        "column_index_size_in_kb" => {
            let kib = whole(cursor, "a number of KiB from 1 to 65536")?;
            if !(1..=65_536).contains(&kib) {
                return Err(wrong("a number of KiB from 1 to 65536"));
            }
            table.options.column_index_bytes = kib as u32 * 1024;
        }
        "comment" => table.options.comment = cursor.string("a text in quotes")?.0,
        "per_partition_rate_limit" => {
            table.options.per_partition_rate_limit = rate_limit(cursor)?;
        }
        unknown => {
            let error = QueryError::not_found("option", unknown, OPTIONS).at(name.span);
            let help = "options are CLUSTERING ORDER BY (…), default_time_to_live, \
                        gc_grace_seconds, column_index_size_in_kb, comment, \
                        per_partition_rate_limit";
            return Err(if error.help.is_some() { error } else { error.with_help(help) });
        }
    }
    Ok(())
}

/// `{'max_reads_per_second': n, 'max_writes_per_second': n}`, in CQL's form; names may be bare.
fn rate_limit(cursor: &mut Cursor<'_>) -> Result<RateLimit> {
    let mut limit = RateLimit::default();
    cursor.expect(&Token::LBrace)?;
    loop {
        let span = cursor.span();
        let name = cursor.option_value()?.to_lowercase();
        if !cursor.take(&Token::Colon) && !cursor.take(&Token::Eq) {
            return Err(cursor.expected("':'"));
        }
        let at = cursor.span();
        let rate = u32::try_from(cursor.number("operations a second")?)
            .map_err(|_| QueryError::invalid("operations a second are not negative").at(at))?;
        match name.as_str() {
            "max_reads_per_second" => limit.max_reads_per_second = Some(rate),
            "max_writes_per_second" => limit.max_writes_per_second = Some(rate),
            other => {
                let error = QueryError::not_found("limit", other, RATES).at(span);
                let help = format!("limits are {}", RATES.join(" and "));
                return Err(if error.help.is_some() { error } else { error.with_help(help) });
            }
        }
        if !cursor.take(&Token::Comma) {
            break;
        }
    }
    cursor.expect(&Token::RBrace)?;
    Ok(limit)
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
