//! The query at the end of a definition.

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::tokenizer::Token;

use crate::query::error::{QueryError, Result};
use crate::query::parse::statement::is_word;
use crate::query::parse::{Cursor, sql};

/// Words that a query begins with, beside a parenthesis.
const FIRST: [&str; 3] = ["select", "with", "values"];

/// Reads the rest of a statement as a query without parameters.
///
/// Errors: `Syntax`; `Unsupported` at a parameter, with `help`.
pub fn query(cursor: &mut Cursor<'_>, help: &str) -> Result<SqlStatement> {
    let is_query = cursor.peek().is_some_and(|first| {
        *first == Token::LParen || FIRST.iter().any(|word| is_word(first, word))
    });
    if !is_query {
        return Err(cursor.expected("SELECT"));
    }
    let (start, rest) = (cursor.position(), cursor.rest());
    let is_parameter = |token: &Token| matches!(token, Token::Placeholder(_));
    if let Some(place) = rest.iter().position(|token| is_parameter(&token.token)) {
        cursor.skip_to(start + place);
        let error = QueryError::unsupported("a definition takes no parameters");
        return Err(error.at(cursor.span()).with_help(help));
    }
    cursor.skip_to(start + rest.len());
    sql(rest)
}
