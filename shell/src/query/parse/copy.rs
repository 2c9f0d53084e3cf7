//! COPY … FROM and COPY … TO.

use sqlparser::tokenizer::Token;

use super::command::{Command, CopyFrom, CopyOptions, CopyTo, Format, OnError};
use super::cursor::Cursor;
use super::sql;
use crate::query::error::{QueryError, Result};
use crate::query::statement::synthetic;

const OPTIONS: [&str; 7] =
    ["format", "header", "null", "delimiter", "on_error", "reject_file", "ttl"];

/// After `COPY`.
pub fn copy(cursor: &mut Cursor<'_>) -> Result<Command> {
    if cursor.peek() == Some(&Token::LParen) {
        let query = balanced(cursor)?;
        let source = sql(query)?;
        cursor.expect_word("to")?;
        return copy_to(cursor, source);
    }
    let table = cursor.table_name()?;
    let columns = if cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesised(|cursor| cursor.name("a column name"))?
    } else {
        Vec::new()
    };
    if cursor.take_word("to") {
        let names: Vec<String> = columns.iter().map(|name| quoted(&name.value)).collect();
        let list = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
        let from = match &table.keyspace {
            Some(keyspace) => {
                format!("{}.{}", quoted(&keyspace.value), quoted(&table.table.value))
            }
            None => quoted(&table.table.value),
        };
        let source = sql(&synthetic(&format!("SELECT {list} FROM {from}"))?)?;
        return copy_to(cursor, source);
    }
    if !cursor.take_word("from") {
        return Err(cursor.expected("FROM or TO"));
    }
    let (file, file_span) = cursor.string("a file name in quotes")?;
    let options = options(cursor, &file)?;
    Ok(Command::CopyFrom(CopyFrom { table, columns, file, file_span, options }))
}

fn copy_to(cursor: &mut Cursor<'_>, source: datafusion::sql::parser::Statement) -> Result<Command> {
    let (file, file_span) = cursor.string("a file name in quotes")?;
    let options = options(cursor, &file)?;
    Ok(Command::CopyTo(CopyTo { source, file, file_span, options }))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The tokens inside a pair of parentheses.
fn balanced<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [sqlparser::tokenizer::TokenWithSpan]> {
    let tokens = cursor.rest();
    let mut depth = 0;
    for (n, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            cursor.skip_to(cursor.position() + n + 1);
            return Ok(&tokens[1..n]);
        }
    }
    cursor.skip_to(cursor.position() + tokens.len());
    Err(cursor.expected("')'"))
}

/// `[WITH] (NAME value, NAME = value, …)`; the format follows the file's name by default.
fn options(cursor: &mut Cursor<'_>, file: &str) -> Result<CopyOptions> {
    let is_parquet = file.to_lowercase().ends_with(".parquet");
    let mut options = CopyOptions {
        format: if is_parquet { Format::Parquet } else { Format::Csv },
        header: true,
        null: String::new(),
        delimiter: b',',
        on_error: OnError::Abort,
        reject_file: None,
        ttl: None,
    };
    let with = cursor.take_word("with");
    if with || cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesised(|cursor| option(cursor, &mut options))?;
    }
    Ok(options)
}

fn option(cursor: &mut Cursor<'_>, options: &mut CopyOptions) -> Result<()> {
    let name = cursor.name("an option")?;
    cursor.take(&Token::Eq);
    let span = cursor.span();
    // HEADER alone means HEADER true.
    let value =
        if name.value == "header" && matches!(cursor.peek(), Some(Token::Comma | Token::RParen)) {
            "true".to_owned()
        } else {
            cursor.option_value()?
        };
    let wrong = |wanted: &str| {
        QueryError::invalid(format!("option {} takes {wanted}, not '{value}'", name.value)).at(span)
    };
    let word = value.to_lowercase();
    match name.value.as_str() {
        "format" => {
            options.format = match word.as_str() {
                "csv" => Format::Csv,
                "parquet" => Format::Parquet,
                _ => return Err(wrong("csv or parquet")),
            }
        }
        "header" => {
            options.header = match word.as_str() {
                "true" | "on" => true,
                "false" | "off" => false,
                _ => return Err(wrong("true or false")),
            }
        }
        "null" => options.null = value,
        "delimiter" => {
            options.delimiter = match value.as_bytes() {
                [byte] => *byte,
                b"\\t" => b'\t',
                _ => return Err(wrong("one character")),
            }
        }
        "on_error" => {
            options.on_error = match word.as_str() {
                "abort" => OnError::Abort,
                "skip" => OnError::Skip,
                _ => return Err(wrong("abort or skip")),
            }
        }
        "reject_file" => options.reject_file = Some(value),
        "ttl" => options.ttl = Some(value.parse().map_err(|_| wrong("a number of seconds"))?),
        unknown => {
            let error = QueryError::not_found("option", unknown, OPTIONS).at(name.span);
            let help = format!("options are {}", OPTIONS.join(", ").to_uppercase());
            return Err(if error.help.is_some() { error } else { error.with_help(help) });
        }
    }
    Ok(())
}
