//! `IF NOT EXISTS`, `IF EXISTS` and `IF v = 1 AND w IN (2, 3)` at the end of a write: taken out of
//! the tokens, because SQL has no such clause.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::operand::{Depths, OperandTokens, split};
use crate::query::error::{QueryError, Result, Span};
use crate::query::parse::ast::{If, IfComparison, IfKind, IfOperator};
use crate::query::parse::cursor::Cursor;
use crate::query::parse::statement::{is_value, is_word, span_of};

/// Words behind which a column may be called `if`.
const BEFORE_NAMES: [&str; 9] =
    ["where", "and", "or", "not", "set", "in", "like", "between", "select"];

/// Takes the clause out of a write, if it has one: the tokens before it, and what it says.
///
/// Errors: `Syntax`; `Unsupported` for comparisons that no condition makes.
pub fn take_if(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Option<If>)> {
    let Some(at) = place(&tokens) else { return Ok((tokens, None)) };
    let span = span_of(&tokens[at].span);
    let mut cursor = Cursor::new(&tokens);
    cursor.skip_to(at + 1);
    let kind = if cursor.take_words(&["not", "exists"]) {
        cursor.expect_end()?;
        IfKind::NotExists
    } else if cursor.take_word("exists") {
        cursor.expect_end()?;
        IfKind::Exists
    } else {
        comparisons(&tokens[at + 1..], &cursor)?
    };
    let mut tokens = tokens;
    tokens.truncate(at);
    Ok((tokens, Some(If { span, kind })))
}

/// Where the clause begins: behind a value, a name or a bracket, and outside of all brackets.
fn place(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depths = Depths::default();
    let mut before: Option<&Token> = None;
    tokens.iter().position(|token| {
        let is_outside = depths.is_outside(token);
        let follows_value = match before.replace(&token.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                !BEFORE_NAMES.iter().any(|known| word.value.eq_ignore_ascii_case(known))
            }
            Some(Token::Word(_) | Token::RParen | Token::RBracket | Token::RBrace) => true,
            Some(token) => is_value(token),
            None => false,
        };
        is_outside && follows_value && is_word(&token.token, "if")
    })
}

/// Reads `column operator value AND …`; `start` stands behind IF.
fn comparisons(tokens: &[TokenWithSpan], start: &Cursor<'_>) -> Result<IfKind> {
    let mut operands = OperandTokens::default();
    let mut all = Vec::new();
    for part in split_at_and(tokens) {
        if part.is_empty() {
            return Err(start.expected("EXISTS, NOT EXISTS or a comparison"));
        }
        all.push(comparison(part, &mut operands)?);
    }
    Ok(IfKind::Compare { comparisons: all, operands: operands.parse()? })
}

fn split_at_and(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let mut depths = Depths::default();
    tokens.split(|token| depths.is_outside(token) && is_word(&token.token, "and")).collect()
}

fn comparison(tokens: &[TokenWithSpan], operands: &mut OperandTokens) -> Result<IfComparison> {
    let mut cursor = Cursor::new(tokens);
    let column = cursor.name("EXISTS, NOT EXISTS or a column to compare")?;
    if matches!(cursor.peek(), Some(Token::LBracket | Token::Period)) {
        return Err(unsupported("IF compares whole columns, and not parts of them", column.span)
            .with_help("compare another column, or keep the part in a column of its own"));
    }
    if cursor.take_word("in") {
        let [open, inner @ .., close] = cursor.rest() else {
            return Err(cursor.expected("a list of values in parentheses"));
        };
        if open.token != Token::LParen || close.token != Token::RParen {
            return Err(cursor.expected("a list of values in parentheses"));
        }
        let values = match inner {
            [] => Vec::new(),
            inner => split(inner, &Token::Comma),
        };
        if values.iter().any(|value| value.is_empty()) {
            return Err(cursor.expected("values between the commas"));
        }
        let operands = values.into_iter().map(|value| operands.add(value)).collect();
        return Ok(IfComparison { column, operator: IfOperator::In, operands });
    }
    let operator = match cursor.peek() {
        Some(Token::Eq) => IfOperator::Equal,
        Some(Token::Neq) => IfOperator::NotEqual,
        Some(Token::Lt) => IfOperator::Less,
        Some(Token::LtEq) => IfOperator::LessOrEqual,
        Some(Token::Gt) => IfOperator::Greater,
        Some(Token::GtEq) => IfOperator::GreaterOrEqual,
        _ => return Err(cursor.expected("=, !=, <, <=, >, >= or IN")),
    };
    cursor.skip_to(cursor.position() + 1);
    match cursor.rest() {
        [] => Err(cursor.expected("a value")),
        value => Ok(IfComparison { column, operator, operands: vec![operands.add(value)] }),
    }
}

fn unsupported(message: &str, span: Span) -> QueryError {
    QueryError::unsupported(message).at(span)
}
