//! Single tokens: bare words, and where a token stands.

use sqlparser::tokenizer::{Span as TokenSpan, Token};

use crate::query::error::Span;

/// Whether `token` is the bare word `word`, letter case aside.
pub(in crate::query) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Whether `token` is a value: a number, text or bytes in any quotes, or a parameter.
pub(in crate::query) fn is_value(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
    )
}

/// A token's place as errors show it.
pub(in crate::query) fn span_of(span: &TokenSpan) -> Span {
    let length = if span.start.line == span.end.line {
        span.end.column.saturating_sub(span.start.column).max(1)
    } else {
        1
    };
    Span { line: span.start.line, column: span.start.column, length }
}
