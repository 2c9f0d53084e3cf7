//! `PER PARTITION LIMIT n` of CQL, which sqlparser does not know, as a call in LIMIT.
//!
//! `… PER PARTITION LIMIT 2 LIMIT 10` becomes `… LIMIT per_partition_limit(2, 10)`. All tokens that
//! are made stand where the clause stands, so that errors point there. Not here: what the call
//! means (`plan/access/partition_limit.rs`).

use std::borrow::Cow;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::Cursor;
use super::statement::{is_word, span_of};
use crate::query::error::{ErrorKind, QueryError, Result};

/// The function that stands in LIMIT for the clause.
pub const PARTITION_LIMIT: &str = "per_partition_limit";
const CLAUSE: [&str; 3] = ["per", "partition", "limit"];

/// Writes the clause of a statement as a call; without one the tokens are as they were.
///
/// Errors: `Unsupported` for a clause of a query within the statement; `Syntax` for two clauses,
/// one behind LIMIT, and one without a number.
pub fn with_call(tokens: &[TokenWithSpan]) -> Result<Cow<'_, [TokenWithSpan]>> {
    let places: Vec<usize> = (0..tokens.len()).filter(|at| is_clause(&tokens[*at..])).collect();
    let Some(&at) = places.first() else { return Ok(Cow::Borrowed(tokens)) };
    let wrong = |place: usize, kind, message: &str| {
        QueryError::new(kind, message).at(span_of(&tokens[place].span))
    };
    if let Some(second) = places.get(1) {
        return Err(wrong(*second, ErrorKind::Syntax, "PER PARTITION LIMIT stands twice"));
    }
    if depth_of(&tokens[..at]) > 0 {
        let message = "PER PARTITION LIMIT is not offered in a query within a statement";
        let error = wrong(at, ErrorKind::Unsupported, message);
        return Err(error.with_help(
            "row_number() OVER (PARTITION BY pk ORDER BY ck) numbers the rows of each partition",
        ));
    }
    if has_limit(&tokens[..at]) {
        let message = "PER PARTITION LIMIT stands before LIMIT";
        return Err(wrong(at, ErrorKind::Syntax, message));
    }
    let mut cursor = Cursor::new(tokens);
    cursor.skip_to(at + CLAUSE.len());
    let Some(Token::Number(..) | Token::Placeholder(_)) = cursor.peek() else {
        return Err(cursor.expected("a number of rows"));
    };
    let rows = &tokens[cursor.position()];
    cursor.skip_to(cursor.position() + 1);
    let mut limit = Vec::new();
    if cursor.take_word("limit") {
        let rest = cursor.rest();
        let ends = |token: &TokenWithSpan| ENDS.iter().any(|word| is_word(&token.token, word));
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        limit.extend_from_slice(&rest[..length]);
        cursor.skip_to(cursor.position() + length);
    }
    let made = |token: Token| TokenWithSpan { token, span: tokens[at].span };
    let mut all = tokens[..at].to_vec();
    all.push(made(Token::make_keyword("LIMIT")));
    all.push(made(Token::make_word(PARTITION_LIMIT, None)));
    all.extend([made(Token::LParen), rows.clone()]);
    if !matches!(&limit[..], [only] if is_word(&only.token, "all")) && !limit.is_empty() {
        all.push(made(Token::Comma));
        all.append(&mut limit);
    }
    all.push(made(Token::RParen));
    all.extend_from_slice(cursor.rest());
    Ok(Cow::Owned(all))
}

/// Words that may follow the rows of a LIMIT.
const ENDS: [&str; 3] = ["offset", "fetch", "for"];

fn is_clause(tokens: &[TokenWithSpan]) -> bool {
    tokens.len() >= CLAUSE.len()
        && tokens.iter().zip(CLAUSE).all(|(token, word)| is_word(&token.token, word))
}

/// How many parentheses are open behind these tokens.
fn depth_of(tokens: &[TokenWithSpan]) -> usize {
    tokens.iter().fold(0_usize, |depth, token| match token.token {
        Token::LParen => depth + 1,
        Token::RParen => depth.saturating_sub(1),
        _ => depth,
    })
}

/// Whether a LIMIT stands in no parentheses.
fn has_limit(tokens: &[TokenWithSpan]) -> bool {
    let is_limit = |at: &usize| is_word(&tokens[*at].token, "limit");
    (0..tokens.len()).filter(is_limit).any(|at| depth_of(&tokens[..at]) == 0)
}
