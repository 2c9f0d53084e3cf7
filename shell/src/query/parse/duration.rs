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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_counts_as_long_as_it_is_and_all_are_added() {
        const SECOND: u64 = 1_000_000_000;
        for (text, ns) in [
            ("1ns", 1),
            ("2us", 2_000),
            ("3µs", 3_000),
            ("4ms", 4_000_000),
            ("5s", 5 * SECOND),
            ("6m", 360 * SECOND),
            ("7h", 7 * 3600 * SECOND),
            ("8d", 8 * 86_400 * SECOND),
            ("1H30M", 5400 * SECOND),
            ("1d1h1m1s1ms", 90_061 * SECOND + 1_000_000),
            ("213503d", 213_503 * 86_400 * SECOND),
        ] {
            assert_eq!(duration_of_text(text), Some(Duration::from_nanos(ns)), "{text}");
        }
        let wrong = ["5", "s", "5 s", "-5s", "1.5s", "5x", "1m30", "213504d", "106752d106752d"];
        for text in wrong.into_iter().chain(["18446744073709551616ns"]) {
            assert_eq!(duration_of_text(text), None, "{text}");
        }
    }
}
