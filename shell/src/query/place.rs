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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse::statement::split;

    /// Line, column and length of where an error is.
    fn place_of(text: &str, kind: ErrorKind, message: &str) -> Option<(u64, u64, u64)> {
        let statement = split(text).unwrap().remove(0);
        let placed = place(&statement, QueryError::new(kind, message));
        assert_eq!((placed.kind, &*placed.message), (kind, message), "{text}");
        placed.span.map(|span| (span.line, span.column, span.length))
    }

    #[test]
    fn an_error_is_where_the_first_name_stands_that_is_in_the_text() {
        let select = "SELECT tmep FROM w";
        for (text, message, wanted) in [
            (select, "column 'tmep' does not exist", (1, 8, 4)),
            (select, "column 'TMEP' does not exist", (1, 8, 4)),
            (select, "table 'w' has no column 'tmep'", (1, 18, 1)),
            (select, "column 'other' is none of 'w'", (1, 18, 1)),
            // What stands between two names is none.
            (select, "'a' tmep 'b'", (1, 1, 18)),
            ("SELECT 'abc' + 1", "'abc' is no number", (1, 8, 5)),
            ("SELECT 'a', a FROM w", "'a' is no number", (1, 13, 1)),
            ("SELECT \"Tmep\" FROM w", "column 'Tmep' does not exist", (1, 8, 6)),
            ("SELECT \"Tmep\" FROM w", "column 'tmep' does not exist", (1, 1, 20)),
            ("SELECT a\nFROM\n  tmep", "table 'tmep' does not exist", (3, 3, 4)),
        ] {
            let found = place_of(text, ErrorKind::NotFound, message);
            assert_eq!(found, Some(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn an_error_without_a_name_is_where_that_stands_which_it_is_about() {
        let insert = "INSERT INTO t (k) VALUES (1) USING TTL 5";
        for (text, message, wanted) in [
            ("SELECT a + b, b / 0", "Divide by zero error", (1, 17, 1)),
            ("SELECT a - 5 % 0", "division by zero", (1, 14, 1)),
            ("SELECT a / b * 2", "Arithmetic overflow", (1, 10, 1)),
            ("SELECT a % b - 1", "an overflow", (1, 14, 1)),
            ("SELECT a % b + 1", "an overflow", (1, 14, 1)),
            (insert, "a time to live of 5 seconds is too long", (1, 40, 1)),
            (insert, "the TTL is too long", (1, 40, 1)),
            ("INSERT INTO t (k) VALUES (1) USING TTL", "no ttl", (1, 36, 3)),
            // There is no such thing in the text.
            ("SELECT a + b", "division by zero", (1, 1, 12)),
            ("SELECT a", "an overflow", (1, 1, 8)),
            ("SELECT a", "a time to live is too long", (1, 1, 8)),
            // Of several lines the first.
            ("  SELECT a \n FROM t", "it is wrong", (1, 3, 8)),
        ] {
            let found = place_of(text, ErrorKind::Invalid, message);
            assert_eq!(found, Some(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn what_no_text_is_to_blame_for_has_a_place_only_by_its_name() {
        let text = "SELECT a FROM t";
        for (kind, is_of_text) in [
            (ErrorKind::Syntax, true),
            (ErrorKind::Invalid, true),
            (ErrorKind::NotFound, true),
            (ErrorKind::Exists, true),
            (ErrorKind::Unsupported, true),
            (ErrorKind::Denied, true),
            (ErrorKind::Overloaded, false),
            (ErrorKind::Timeout, false),
            (ErrorKind::Unavailable, false),
            (ErrorKind::Corrupt, false),
            (ErrorKind::Io, false),
            (ErrorKind::Internal, false),
        ] {
            let nameless = place_of(text, kind, "it did not work");
            assert_eq!(nameless, is_of_text.then_some((1, 1, 15)), "{kind:?}");
            assert_eq!(place_of(text, kind, "table 't' is away"), Some((1, 15, 1)), "{kind:?}");
        }
    }

    #[test]
    fn a_place_that_is_known_is_kept_and_widened_to_its_token() {
        let statement = split("SELECT tmep FROM w").unwrap().remove(0);
        for (column, length, wanted) in [(8, 1, 4), (8, 4, 4), (8, 9, 9), (9, 1, 1), (18, 1, 1)] {
            let span = Span { line: 1, column, length };
            // It names something else.
            let placed = place(&statement, QueryError::invalid("'w' is wrong").at(span));
            assert_eq!(placed.span, Some(Span { length: wanted, ..span }), "{column} {length}");
        }
    }
}
