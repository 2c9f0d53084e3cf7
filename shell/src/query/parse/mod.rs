//! Tokens to what they ask for: what statements are read with, writes, and the way to DataFusion.
//!
//! DataFusion's parser gets the tokens of the text, so that every error points into the text as it
//! was written. Not here: which statement begins with which words (`statements/list.rs`).

mod ast;
mod balance;
mod clauses;
mod cursor;
mod depth;
pub mod dialect;
mod duration;
mod far_instant;
mod partition_limit;
mod row_value;
pub mod said;
pub mod statement;
mod token;
mod type_name;
mod write;

use std::borrow::Cow;

use datafusion::sql::parser::{DFParserBuilder, Statement as SqlStatement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

pub use ast::{
    Batch, ElementHow, ElementWrite, Elements, If, IfComparison, IfKind, IfOperator, Name, Operand,
    Operands, TableName, Using, UsingValue, Write, WriteKind,
};
pub use balance::balance;
pub use cursor::Cursor;
pub use depth::check as check_depth;
pub use duration::duration_of_text;
pub use partition_limit::PARTITION_LIMIT;
pub use row_value::{NAMED_CAST, ROW_IN, take_apart, tell_apart};
pub use type_name::{TypeName, type_name, unknown as unknown_type};
pub use write::{using_value, write};

use super::error::{ErrorKind, QueryError, Result, Span};
use super::replay::REPLAY_FUNCTION;
use statement::{DIALECT, is_word, span_of};

/// Digits of the longest number that can be a decimal.
const DECIMAL_DIGITS_MAX: usize = 76;
/// Most characters of a number that an error shows.
const SHOWN_MAX: usize = 40;

/// Hands tokens to DataFusion's parser.
pub fn sql(tokens: &[TokenWithSpan]) -> Result<SqlStatement> {
    // The parser has no place for "found: EOF"; it is right after the last token.
    let at_end = |error: QueryError| match (error.span, tokens.last()) {
        (None, Some(last)) => {
            let end = last.span.end;
            error.at(Span { line: end.line, column: end.column, length: 1 })
        }
        _ => error,
    };
    let tokens = partition_limit::with_call(without_allow_filtering(tokens))?;
    let tokens = &tokens;
    let tokens = &with_named_arguments(tokens);
    let mut parser = DFParserBuilder::new(with_doubles(tokens)?)
        .with_dialect(&DIALECT)
        .with_recursion_limit(depth::RECURSIONS_MAX)
        .build()
        .map_err(QueryError::from)?;
    let mut statements = parser.parse_statements().map_err(|error| at_end(error.into()))?;
    match (statements.pop_front(), statements.pop_front()) {
        (Some(statement), None) => Ok(statement),
        _ => Err(QueryError::new(ErrorKind::Syntax, "expected one statement")),
    }
}

/// Leaves `ALLOW FILTERING` out at the end: conditions that no key says are always checked.
fn without_allow_filtering(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    match tokens {
        [rest @ .., allow, filtering]
            if is_word(&allow.token, "allow") && is_word(&filtering.token, "filtering") =>
        {
            rest
        }
        all => all,
    }
}

/// Writes `name => value` among the arguments of `replay_policy` as the text `'name=value'`,
/// because the planner takes no named arguments of table functions.
fn with_named_arguments(tokens: &[TokenWithSpan]) -> Cow<'_, [TokenWithSpan]> {
    if !tokens.iter().any(|token| is_word(&token.token, REPLAY_FUNCTION)) {
        return Cow::Borrowed(tokens);
    }
    let mut all: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Depth of parentheses since the function's own.
    let mut depth = 0;
    let mut rest = tokens.iter();
    while let Some(token) = rest.next() {
        let follows_name = || all.last().is_some_and(|last| is_word(&last.token, REPLAY_FUNCTION));
        match &token.token {
            Token::LParen if depth > 0 || follows_name() => depth += 1,
            Token::RParen if depth > 0 => depth -= 1,
            Token::Word(name) if depth == 1 => {
                let mut ahead = rest.clone();
                let (arrow, value) = (ahead.next(), ahead.next());
                if let (Some(Token::RArrow), Some(value)) =
                    (arrow.map(|arrow| &arrow.token), value.and_then(|value| plain(&value.token)))
                {
                    let text = format!("{}={value}", name.value.to_lowercase());
                    let token =
                        TokenWithSpan { token: Token::SingleQuotedString(text), span: token.span };
                    all.push(token);
                    rest = ahead;
                    continue;
                }
            }
            _ => {}
        }
        all.push(token.clone());
    }
    Cow::Owned(all)
}

/// The text of a value that needs no planning.
fn plain(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedString(text) | Token::Number(text, _) => Some(text),
        Token::Word(word) => Some(&word.value),
        _ => None,
    }
}

/// Writes numbers with an exponent, which are doubles, so that the planner takes them for doubles.
/// Numbers with a point and no exponent are decimals. There is no decimal −0.0: a zero with a sign
/// stands in parentheses, so that it becomes one only where it is no double.
///
/// Errors: `Invalid` at a number that is greater than every double.
fn with_doubles(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let is_double = |text: &str| text.contains(['e', 'E']) || text.len() > DECIMAL_DIGITS_MAX;
    let mut all = Vec::with_capacity(tokens.len());
    for token in tokens {
        match &token.token {
            Token::Number(text, _) if is_double(text) => {
                if text.parse::<f64>().is_ok_and(f64::is_infinite) {
                    let message = format!("{} does not fit a double", shortened(text));
                    let error = QueryError::invalid(message).at(span_of(&token.span));
                    return Err(error.with_help("an infinity is written 'Infinity'::double"));
                }
                let double = [
                    Token::make_keyword("CAST"),
                    Token::LParen,
                    Token::SingleQuotedString(text.clone()),
                    Token::make_keyword("AS"),
                    Token::make_keyword("DOUBLE"),
                    Token::RParen,
                ];
                // All stand where the number stands, so that errors point there.
                all.extend(double.map(|part| TokenWithSpan { token: part, span: token.span }));
            }
            Token::Number(text, _) if text.contains('.') && is_zero(text) && has_sign(&all) => {
                for part in [Token::LParen, token.token.clone(), Token::RParen] {
                    all.push(TokenWithSpan { token: part, span: token.span });
                }
            }
            _ => all.push(token.clone()),
        }
    }
    Ok(all)
}

/// The first digits of a number that is long.
fn shortened(number: &str) -> String {
    match number.get(..SHOWN_MAX) {
        Some(start) if number.len() > SHOWN_MAX => format!("{start}…"),
        _ => number.to_owned(),
    }
}

fn is_zero(number: &str) -> bool {
    number.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

fn has_sign(before: &[TokenWithSpan]) -> bool {
    before.last().is_some_and(|last| last.token == Token::Minus)
}
