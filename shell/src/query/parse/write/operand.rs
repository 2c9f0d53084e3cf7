//! Expressions within what SQL does not know, such as `m['k'] = 1 + 1` and `IF v > ?`: they become
//! one SELECT, so that constants, functions and parameters mean what they mean elsewhere.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::query::error::Result;
use crate::query::parse::ast::{Operand, Operands};
use crate::query::parse::statement::{span_of, synthetic};

/// The tokens of expressions, while they are collected.
#[derive(Default)]
pub struct OperandTokens(Vec<Vec<TokenWithSpan>>);

impl OperandTokens {
    /// Takes one, which has a token at least; its number.
    pub fn add(&mut self, tokens: &[TokenWithSpan]) -> usize {
        self.0.push(tokens.to_vec());
        self.0.len() - 1
    }

    /// Parses the expressions.
    ///
    /// Errors: `Syntax` in one of them.
    pub fn parse(self) -> Result<Operands> {
        let mut list = Vec::new();
        let mut tokens = synthetic("SELECT")?;
        for (number, operand) in self.0.iter().enumerate() {
            let (first, last) = (&operand[0], &operand[operand.len() - 1]);
            let mut span = span_of(&first.span);
            if first.span.start.line == last.span.end.line {
                span.length = last.span.end.column.saturating_sub(first.span.start.column).max(1);
            }
            let parameter = match &first.token {
                Token::Placeholder(name) if operand.len() == 1 => {
                    name.strip_prefix('$').and_then(|digits| digits.parse().ok())
                }
                _ => None,
            };
            list.push(Operand { span, parameter });
            if number > 0 {
                tokens.push(TokenWithSpan { token: Token::Comma, span: first.span });
            }
            tokens.extend_from_slice(operand);
            // Two operands may be the same; their columns need different names.
            tokens.extend(synthetic(&format!("AS operand_{number}"))?);
        }
        let select = (!list.is_empty()).then(|| crate::query::parse::sql(&tokens)).transpose()?;
        Ok(Operands { list, select })
    }
}

/// How deep in brackets of all kinds a walk over tokens is.
#[derive(Default)]
pub struct Depths(usize);

impl Depths {
    /// Whether the next token stands outside of all brackets that were opened since the start; the
    /// one that closes more than was opened does.
    pub fn is_outside(&mut self, token: &TokenWithSpan) -> bool {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.0 += 1;
                false
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let is_outside = self.0 == 0;
                self.0 = self.0.saturating_sub(1);
                is_outside
            }
            _ => self.0 == 0,
        }
    }
}

/// Parts between separators that stand outside of brackets.
pub fn split<'a>(tokens: &'a [TokenWithSpan], separator: &Token) -> Vec<&'a [TokenWithSpan]> {
    let mut depths = Depths::default();
    tokens.split(|token| depths.is_outside(token) && token.token == *separator).collect()
}
