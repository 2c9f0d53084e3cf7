//! `l = l + [1]`, `m['k'] = 1`, `u.f = 1` and `DELETE m['k'], u.f`: taken out of the tokens of a
//! write, because SQL has no such assignments.
//!
//! Not here: the expressions in them (`operand.rs`), whether the columns have elements
//! (`query/write/element.rs`).

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::operand::{Depths, OperandTokens, split};
use crate::query::error::Result;
use crate::query::parse::ast::{ElementHow, ElementWrite, Elements, Name, TableName};
use crate::query::parse::cursor::Cursor;
use crate::query::parse::statement::{is_word, synthetic};

/// Words that end the assignments of an UPDATE.
const ENDS: [&str; 5] = ["where", "from", "returning", "order", "limit"];

/// Changes and the tokens of their expressions, while they are collected.
#[derive(Default)]
pub struct Found {
    changes: Vec<ElementWrite>,
    operands: OperandTokens,
}

impl Found {
    fn operand(&mut self, tokens: &[TokenWithSpan]) -> usize {
        self.operands.add(tokens)
    }

    fn add(&mut self, column: Name, how: ElementHow) {
        self.changes.push(ElementWrite { column, how });
    }

    /// Parses the expressions.
    ///
    /// Errors: `Syntax` in one of them.
    pub fn parse(self) -> Result<Elements> {
        Ok(Elements { changes: self.changes, operands: self.operands.parse()? })
    }
}

/// Takes the assignments of elements out of an UPDATE. When no others are left, the rest is a
/// DELETE with the same conditions.
///
/// Errors: `Syntax` for a change without an operand.
pub fn take_assignments(
    tokens: Vec<TokenWithSpan>,
    table: &TableName,
) -> Result<(Vec<TokenWithSpan>, Found)> {
    let mut found = Found::default();
    let mut depths = Depths::default();
    let Some(set) = tokens.iter().position(|t| depths.is_outside(t) && is_word(&t.token, "set"))
    else {
        return Ok((tokens, found));
    };
    let mut depths = Depths::default();
    let is_end = |token: &Token| ENDS.iter().any(|word| is_word(token, word));
    let end = tokens[set + 1..]
        .iter()
        .position(|token| depths.is_outside(token) && is_end(&token.token))
        .map_or(tokens.len(), |at| set + 1 + at);
    let alias = tokens[..set].last().and_then(word);
    let mut plain: Vec<&[TokenWithSpan]> = Vec::new();
    for assignment in split(&tokens[set + 1..end], &Token::Comma) {
        let is_qualifier = |name: &str| name == table.table.value || Some(name) == alias.as_deref();
        if !take_assignment(assignment, is_qualifier, &mut found)? {
            plain.push(assignment);
        }
    }
    if found.changes.is_empty() {
        return Ok((tokens, found));
    }
    let mut kept = match plain.is_empty() {
        true => [&synthetic("DELETE FROM")?, &tokens[1..set]].concat(),
        false => tokens[..=set].to_vec(),
    };
    for (number, assignment) in plain.into_iter().enumerate() {
        if number > 0 {
            kept.push(TokenWithSpan { token: Token::Comma, span: assignment[0].span });
        }
        kept.extend_from_slice(assignment);
    }
    kept.extend_from_slice(&tokens[end..]);
    Ok((kept, found))
}

/// Reads one assignment; false when it is an ordinary one.
fn take_assignment(
    tokens: &[TokenWithSpan],
    is_qualifier: impl Fn(&str) -> bool,
    found: &mut Found,
) -> Result<bool> {
    let mut depths = Depths::default();
    let equals = tokens.iter().position(|t| depths.is_outside(t) && t.token == Token::Eq);
    let Some(equals) = equals else { return Ok(false) };
    let (left, right) = (&tokens[..equals], &tokens[equals + 1..]);
    let mut cursor = Cursor::new(left);
    let Ok(column) = cursor.name("a column name") else { return Ok(false) };
    let missing = || {
        let mut cursor = Cursor::new(tokens);
        cursor.skip_to(tokens.len());
        cursor.expected("a value")
    };
    match cursor.rest() {
        [] => {
            let is_column = |token: &TokenWithSpan| word(token).as_ref() == Some(&column.value);
            let how = match right {
                [first, sign, operand @ ..] if is_column(first) && !operand.is_empty() => {
                    match sign.token {
                        Token::Plus => ElementHow::Add(found.operand(operand)),
                        Token::Minus => ElementHow::Remove(found.operand(operand)),
                        _ => return Ok(false),
                    }
                }
                [operand @ .., sign, last]
                    if is_column(last) && sign.token == Token::Plus && !operand.is_empty() =>
                {
                    ElementHow::Prepend(found.operand(operand))
                }
                _ => return Ok(false),
            };
            found.add(column, how);
        }
        [open, key @ .., close]
            if open.token == Token::LBracket
                && close.token == Token::RBracket
                && !key.is_empty() =>
        {
            if right.is_empty() {
                return Err(missing());
            }
            let (key, value) = (found.operand(key), found.operand(right));
            found.add(column, ElementHow::Put { key, value });
        }
        [period, _] if period.token == Token::Period && !is_qualifier(&column.value) => {
            cursor.take(&Token::Period);
            let name = cursor.name("a field")?;
            if right.is_empty() {
                return Err(missing());
            }
            let value = found.operand(right);
            found.add(column, ElementHow::PutField { name, value });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads what a DELETE names before FROM: columns, and elements of them.
///
/// Errors: `Syntax`.
pub fn deleted_columns(cursor: &mut Cursor<'_>) -> Result<(Vec<Name>, Found)> {
    let mut found = Found::default();
    let mut columns = Vec::new();
    loop {
        let column = cursor.name("a column name or FROM")?;
        if cursor.take(&Token::LBracket) {
            let mut depths = Depths::default();
            let rest = cursor.rest();
            let close = rest
                .iter()
                .position(|token| depths.is_outside(token) && token.token == Token::RBracket);
            match close {
                Some(close) if close > 0 => {
                    let key = found.operand(&rest[..close]);
                    found.add(column, ElementHow::Delete { key });
                    cursor.skip_to(cursor.position() + close + 1);
                }
                _ => return Err(cursor.expected("a key and ']'")),
            }
        } else if cursor.take(&Token::Period) {
            let name = cursor.name("a field")?;
            found.add(column, ElementHow::DeleteField { name });
        } else {
            columns.push(column);
        }
        if !cursor.take(&Token::Comma) {
            return Ok((columns, found));
        }
    }
}

/// A bare or quoted name as it is looked up.
fn word(token: &TokenWithSpan) -> Option<String> {
    Cursor::new(std::slice::from_ref(token)).name("a name").ok().map(|name| name.value)
}
