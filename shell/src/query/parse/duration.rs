//! Durations as people write them: numbers with units, such as 500ms and 1m30s.

use std::time::Duration;

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Nanoseconds of the units of a duration.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The duration that tokens begin with, and how many of them it is.
pub fn duration(tokens: &[TokenWithSpan]) -> Option<(Duration, usize)> {
    let (text, length) = match tokens {
        [TokenWithSpan { token: Token::SingleQuotedString(text), .. }, ..] => (text.clone(), 1),
        [
            TokenWithSpan { token: Token::Number(number, _), span },
            TokenWithSpan { token: Token::Word(unit), span: next },
            ..,
        ] if next.start == span.end => (format!("{number}{}", unit.value), 2),
        _ => return None,
    };
    Some((duration_of_text(&text)?, length))
}

/// The duration of a text: numbers with units, one after another.
pub fn duration_of_text(text: &str) -> Option<Duration> {
    let (mut rest, mut all) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let length = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = rest[..length].to_lowercase();
        let (_, scale) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        all = all.checked_add(number.checked_mul(scale)?)?;
        rest = &rest[length..];
    }
    Some(Duration::from_nanos(all))
}
