//! A place in a statement's tokens, with the small steps that all our statements are made of.
//!
//! Invariant: every error carries the span of the token that was not wanted.

use std::time::Duration;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{Name, TableName};
use super::duration::duration;
use super::token::{is_word, span_of};
use crate::query::error::{ErrorKind, QueryError, Result, Span};

pub struct Cursor<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(tokens: &'a [TokenWithSpan]) -> Self {
        Cursor { tokens, at: 0 }
    }

    pub fn peek(&self) -> Option<&'a Token> {
        self.peek_nth(0)
    }

    pub fn peek_nth(&self, n: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + n).map(|token| &token.token)
    }

    /// The place of the next token, or right after the last one.
    pub fn span(&self) -> Span {
        match (self.tokens.get(self.at), self.tokens.last()) {
            (Some(token), _) => span_of(&token.span),
            (None, Some(last)) => {
                Span { line: last.span.end.line, column: last.span.end.column, length: 1 }
            }
            (None, None) => Span { line: 1, column: 1, length: 1 },
        }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn skip_to(&mut self, position: usize) {
        self.at = position;
    }

    pub fn rest(&self) -> &'a [TokenWithSpan] {
        &self.tokens[self.at..]
    }

    /// "expected `wanted`, found …" at the next token.
    pub fn expected(&self, wanted: &str) -> QueryError {
        let found = match self.peek() {
            Some(token) => format!("'{token}'"),
            None => "the end of the statement".to_owned(),
        };
        QueryError::new(ErrorKind::Syntax, format!("expected {wanted}, found {found}"))
            .at(self.span())
    }

    /// Takes the next token if it is the bare word `word`.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| is_word(token, word));
        self.at += usize::from(found);
        found
    }

    /// Takes all of `words` or nothing.
    pub fn take_words(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(n, word)| self.peek_nth(n).is_some_and(|token| is_word(token, word)));
        if found {
            self.at += words.len();
        }
        found
    }

    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(&word.to_uppercase())) }
    }

    pub fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, token: &Token) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.expected(&format!("'{token}'"))) }
    }

    pub fn expect_end(&self) -> Result<()> {
        if self.at == self.tokens.len() {
            Ok(())
        } else {
            Err(self.expected("the end of the statement"))
        }
    }

    /// A name; `what` says of what, for the error.
    pub fn name(&mut self, what: &str) -> Result<Name> {
        let span = self.span();
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                let value = match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                };
                Ok(Name { value, span })
            }
            _ => Err(self.expected(what)),
        }
    }

    pub fn table_name(&mut self) -> Result<TableName> {
        let first = self.name("a table name")?;
        if self.take(&Token::Period) {
            let table = self.name("a table name")?;
            return Ok(TableName { keyspace: Some(first), table });
        }
        Ok(TableName { keyspace: None, table: first })
    }

    /// The name of a table, unless the statement is at its end.
    pub fn table_name_or_end(&mut self) -> Result<Option<TableName>> {
        self.peek().map(|_| self.table_name()).transpose()
    }

    pub fn string(&mut self, what: &str) -> Result<(String, Span)> {
        let span = self.span();
        match self.peek() {
            Some(Token::SingleQuotedString(text)) => {
                self.at += 1;
                Ok((text.clone(), span))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// A whole number, perhaps negative.
    pub fn number(&mut self, what: &str) -> Result<i64> {
        let negative = self.peek() == Some(&Token::Minus);
        match self.peek_nth(usize::from(negative)) {
            Some(Token::Number(digits, _)) => {
                let signed = format!("{}{digits}", if negative { "-" } else { "" });
                let value = signed.parse().map_err(|_| self.expected(what))?;
                self.at += 1 + usize::from(negative);
                Ok(value)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// A whole number that is not negative.
    pub fn natural(&mut self, what: &str) -> Result<u64> {
        let span = self.span();
        let number = self.number(what)?;
        let wrong = |_| QueryError::invalid(format!("{what} is not negative")).at(span);
        u64::try_from(number).map_err(wrong)
    }

    /// A number with a unit, or several in a string.
    pub fn duration(&mut self) -> Result<Duration> {
        let found = duration(self.rest());
        let (duration, length) = found.ok_or_else(|| self.expected("a duration, such as 50ms"))?;
        self.at += length;
        Ok(duration)
    }

    /// A string, a number or a bare word, as text: the value of an option.
    pub fn option_value(&mut self) -> Result<String> {
        let (text, taken) = match (self.peek(), self.peek_nth(1)) {
            (Some(Token::SingleQuotedString(text)), _) => (text.clone(), 1),
            (Some(Token::Word(word)), _) if word.quote_style.is_none() => (word.value.clone(), 1),
            (Some(Token::Number(digits, _)), _) => (digits.clone(), 1),
            (Some(Token::Minus), Some(Token::Number(digits, _))) => (format!("-{digits}"), 2),
            _ => return Err(self.expected("a value")),
        };
        self.at += taken;
        Ok(text)
    }

    /// `one, two, …`
    pub fn comma_separated<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.take(&Token::Comma) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// `(one, two, …)`, also with a comma behind the last one, as in CQL.
    pub fn definitions<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(&Token::LParen)?;
        let mut all = vec![one(self)?];
        while self.take(&Token::Comma) && self.peek() != Some(&Token::RParen) {
            all.push(one(self)?);
        }
        self.expect(&Token::RParen)?;
        Ok(all)
    }

    /// `(one, two, …)`
    pub fn parenthesised<T>(&mut self, one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(&Token::LParen)?;
        let all = self.comma_separated(one)?;
        self.expect(&Token::RParen)?;
        Ok(all)
    }
}
