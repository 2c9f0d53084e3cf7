//! Where in a statement an error is, when what found it does not know.
//!
//! Invariant: every error that the text of a statement is to blame for gets a place; errors of the
//! disk, of limits and of other people's work get one only when they name something of the text.

use sqlparser::tokenizer::Token;

use super::error::{ErrorKind, QueryError, Span};
use super::parse::statement::{Statement, is_word, span_of};

/// Gives an error the place of what it names or, failing that, of what it is about.
pub(super) fn place(statement: &Statement, error: QueryError) -> QueryError {
    if error.span.is_some() {
        return statement.widen(error);
    }
    let named = error.message.split('\'').skip(1).step_by(2);
    if let Some(span) = named.filter_map(|name| statement.find_named(name)).next() {
        return error.at(span);
    }
    match error.kind {
        ErrorKind::Syntax
        | ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Exists
        | ErrorKind::Unsupported
        | ErrorKind::Denied => {
            let span = subject(statement, &error.message).unwrap_or_else(|| first_line(statement));
            error.at(span)
        }
        ErrorKind::Overloaded
        | ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Corrupt
        | ErrorKind::Io
        | ErrorKind::Internal => error,
    }
}

/// What a message without a name is about.
fn subject(statement: &Statement, message: &str) -> Option<Span> {
    let message = message.to_lowercase();
    let find = |wanted: &dyn Fn(&Token) -> bool| {
        let found = statement.tokens().iter().position(|token| wanted(&token.token))?;
        Some((found, span_of(&statement.tokens()[found].span)))
    };
    if message.contains("divide by zero") || message.contains("division by zero") {
        return find(&|token| matches!(token, Token::Div | Token::Mod)).map(|(_, span)| span);
    }
    if message.contains("parameters without values") {
        return find(&|token| matches!(token, Token::Placeholder(_))).map(|(_, span)| span);
    }
    if message.contains("overflow") {
        let is_arithmetic =
            |token: &Token| matches!(token, Token::Plus | Token::Minus | Token::Mul | Token::Div);
        return find(&is_arithmetic).map(|(_, span)| span);
    }
    if message.contains("time to live") || message.contains("ttl") {
        let (at, span) = find(&|token| is_word(token, "ttl"))?;
        let value = statement.tokens().get(at + 1).map(|token| span_of(&token.span));
        return Some(value.unwrap_or(span));
    }
    None
}

/// The first line of a statement.
fn first_line(statement: &Statement) -> Span {
    let start = span_of(&statement.tokens()[0].span);
    let line = statement.text().lines().next().unwrap_or("").trim_end();
    Span { length: (line.chars().count() as u64).max(1), ..start }
}
