//! COPY … FROM and COPY … TO.

mod csv_record;
mod from;
pub(super) mod options;
mod to;

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use tidegate_engine::Permission;
use tidegate_engine::schema::in_quotes;

use self::options::{CopyFrom, CopyTo, options};
use super::{OwnStatement, Read};
use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::statement::synthetic;
use crate::query::parse::{Cursor, sql};
use crate::query::session::Session;

#[derive(Debug)]
pub enum Copy {
    From(CopyFrom),
    To(CopyTo),
}

impl Read for Copy {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
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
            let names: Vec<String> = columns.iter().map(|name| in_quotes(&name.value)).collect();
            let list = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
            let from = match &table.keyspace {
                Some(keyspace) => {
                    format!("{}.{}", in_quotes(&keyspace.value), in_quotes(&table.table.value))
                }
                None => in_quotes(&table.table.value),
            };
            let source = sql(&synthetic(&format!("SELECT {list} FROM {from}"))?)?;
            return copy_to(cursor, source);
        }
        if !cursor.take_word("from") {
            return Err(cursor.expected("FROM or TO"));
        }
        let (file, file_span) = cursor.string("a file name in quotes")?;
        let options = options(cursor, &file)?;
        Ok(Copy::From(CopyFrom { table, columns, file, file_span, options }))
    }
}

impl OwnStatement for Copy {
    fn needs(&self, session: &Session) -> Vec<Need> {
        match self {
            Copy::From(from) => vec![Need::on_table(Permission::Modify, session, &from.table)],
            // What its query reads.
            Copy::To(_) => Vec::new(),
        }
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        match self {
            Copy::From(copy) => from::run(session, copy).await,
            Copy::To(copy) => to::run(session, copy).await,
        }
    }
}

fn copy_to(cursor: &mut Cursor<'_>, source: SqlStatement) -> Result<Copy> {
    let (file, file_span) = cursor.string("a file name in quotes")?;
    let options = options(cursor, &file)?;
    Ok(Copy::To(CopyTo { source, file, file_span, options }))
}

/// The tokens inside a pair of parentheses.
fn balanced<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [TokenWithSpan]> {
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
