//! What all statements may say of their own run: `USING TIMEOUT 1s` and `USING SERVICE LEVEL x`.
//!
//! Both stand behind USING, alone or joined by AND to each other, to TTL and to TIMESTAMP.

use std::time::Duration;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::Name;
use super::cursor::Cursor;
use super::duration::duration;
use super::token::{is_word, span_of};
use crate::query::error::{ErrorKind, QueryError, Result};

/// First words of the statements that take it. What one statement of a batch says is said of all.
const TAKERS: [&str; 8] =
    ["select", "insert", "update", "delete", "with", "explain", "begin", "copy"];

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// How long the statement may take.
    pub timeout: Option<Timeout>,
    /// The name of its service level.
    pub level: Option<Name>,
}

/// How long a statement may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    Given(Duration),
    /// The parameter `$n`, a text such as `500ms`.
    Parameter(usize),
}

/// The duration that a text says; none where it says none, or no time at all.
pub fn timeout_of(text: &str) -> Option<Duration> {
    let token = Token::SingleQuotedString(text.to_owned());
    let tokens = [TokenWithSpan { token, span: sqlparser::tokenizer::Span::empty() }];
    duration(&tokens).map(|(within, _)| within).filter(|within| !within.is_zero())
}

/// Takes what a statement says of its run out of its tokens, whose parameters are numbered.
///
/// Errors: `Syntax` for what is no duration or no name.
pub fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Said> {
    if !is_taker(tokens) {
        return Ok(Said::default());
    }
    let level = take_level(tokens)?;
    Ok(Said { timeout: take_timeout(tokens)?, level })
}

/// Whether a statement is one of those that a timeout ends.
pub fn is_taker(tokens: &[TokenWithSpan]) -> bool {
    tokens.first().is_some_and(|first| TAKERS.iter().any(|word| is_word(&first.token, word)))
}

fn take_level(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<Name>> {
    let is_level = |at: &usize| {
        let words = ["service", "level"].iter().enumerate();
        let is_there = |(n, word): (usize, &&str)| {
            tokens.get(at + n).is_some_and(|token| is_word(&token.token, word))
        };
        words.into_iter().all(is_there) && follows_using(tokens, *at)
    };
    let Some(at) = (1..tokens.len()).find(is_level) else { return Ok(None) };
    let mut cursor = Cursor::new(tokens);
    cursor.skip_to(at + 2);
    let name = cursor.name("the name of a service level")?;
    take_out(tokens, at, at + 3);
    Ok(Some(name))
}

fn take_timeout(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<Timeout>> {
    let is_timeout =
        |at: &usize| is_word(&tokens[*at].token, "timeout") && follows_using(tokens, *at);
    let Some(at) = (1..tokens.len()).find(is_timeout) else { return Ok(None) };
    let value = tokens.get(at + 1).unwrap_or(&tokens[at]);
    if let Token::Placeholder(name) = &value.token
        && let Some(number) = name.strip_prefix('$').and_then(|digits| digits.parse().ok())
    {
        take_out(tokens, at, at + 2);
        return Ok(Some(Timeout::Parameter(number)));
    }
    let found = duration(&tokens[at + 1..]).filter(|(within, _)| !within.is_zero());
    let (within, length) = found.ok_or_else(|| no_duration(value))?;
    take_out(tokens, at, at + 1 + length);
    Ok(Some(Timeout::Given(within)))
}

/// Whether what stands at `at` is said behind USING, first or behind others.
fn follows_using(tokens: &[TokenWithSpan], mut at: usize) -> bool {
    let is_at = |at: Option<usize>, word| {
        at.and_then(|at| tokens.get(at)).is_some_and(|token| is_word(&token.token, word))
    };
    // Where the one before AND begins: TTL 5 AND, TIMEOUT 5 s AND, SERVICE LEVEL x AND.
    let one_before = |at: usize| {
        let two = ["ttl", "timestamp", "timeout"].iter();
        let is_two = two.into_iter().any(|word| is_at(at.checked_sub(3), word));
        let is_three = is_at(at.checked_sub(4), "timeout")
            || is_at(at.checked_sub(4), "service") && is_at(at.checked_sub(3), "level");
        match (is_two, is_three) {
            (true, _) => Some(at - 3),
            (_, true) => Some(at - 4),
            _ => None,
        }
    };
    loop {
        if is_at(at.checked_sub(1), "using") {
            return true;
        }
        if !is_at(at.checked_sub(1), "and") {
            return false;
        }
        let Some(before) = one_before(at) else { return false };
        at = before;
    }
}

/// Takes tokens out of a list behind USING, with the AND or the USING that is then too many.
fn take_out(tokens: &mut Vec<TokenWithSpan>, start: usize, end: usize) {
    let is_and = |at: usize| tokens.get(at).is_some_and(|token| is_word(&token.token, "and"));
    let (start, end) = match (is_and(start - 1), is_and(end)) {
        (true, _) => (start - 1, end),
        (false, true) => (start, end + 1),
        (false, false) => (start - 1, end),
    };
    tokens.drain(start..end);
}

fn no_duration(found: &TokenWithSpan) -> QueryError {
    let message = format!("TIMEOUT takes a duration, not '{}'", found.token);
    let error = QueryError::new(ErrorKind::Syntax, message).at(span_of(&found.span));
    error.with_help("write a number with a unit: 500ms, 2s, 1m30s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse::statement::split;

    #[test]
    fn the_clauses_are_taken_out_and_the_rest_stays() {
        let ms = Duration::from_millis;
        let using = |text: &str| format!("SELECT a FROM t USING {text}");
        let select = "SELECT a FROM t".to_owned();
        let ttl = "UPDATE t USING TTL 5 SET a = 1".to_owned();
        for (text, timeout, level, left) in [
            (using("TIMEOUT 500ms"), Some(500), None, &select),
            (using("TIMEOUT '2s'"), Some(2000), None, &select),
            ("select a from t using timeout 1m30s".into(), Some(90_000), None, &select),
            (using("SERVICE LEVEL Gold"), None, Some("gold"), &select),
            (using("SERVICE LEVEL gold AND TIMEOUT 5ms"), Some(5), Some("gold"), &select),
            (using("TIMEOUT 5ms AND service level \"Gold\""), Some(5), Some("Gold"), &select),
            (using("TIMEOUT '5ms' AND SERVICE LEVEL gold"), Some(5), Some("gold"), &select),
            ("UPDATE t USING TTL 5 AND TIMEOUT 1s SET a = 1".into(), Some(1000), None, &ttl),
            ("UPDATE t USING TIMEOUT 1s AND TTL 5 SET a = 1".into(), Some(1000), None, &ttl),
            (
                "UPDATE t USING TIMEOUT 1s AND SERVICE LEVEL x AND TTL 5 SET a = 1".into(),
                Some(1000),
                Some("x"),
                &ttl,
            ),
            (
                "INSERT INTO t VALUES (1) USING TTL 5 AND TIMESTAMP 7 AND TIMEOUT 10ms".into(),
                Some(10),
                None,
                &"INSERT INTO t VALUES ( 1 ) USING TTL 5 AND TIMESTAMP 7".into(),
            ),
            ("SELECT timeout FROM t".into(), None, None, &"SELECT timeout FROM t".into()),
            (
                "BEGIN BATCH USING TIMESTAMP 5 AND SERVICE LEVEL x UPDATE t SET a = 1; APPLY BATCH"
                    .into(),
                None,
                Some("x"),
                &"BEGIN BATCH USING TIMESTAMP 5 UPDATE t SET a = 1 ; APPLY BATCH".into(),
            ),
            (
                "COPY t FROM 'f' USING SERVICE LEVEL x AND TIMEOUT 1s".into(),
                Some(1000),
                Some("x"),
                &"COPY t FROM 'f'".into(),
            ),
            (
                "SELECT * FROM a JOIN b USING (timeout)".into(),
                None,
                None,
                &"SELECT * FROM a JOIN b USING ( timeout )".into(),
            ),
            (
                "SELECT a FROM t WHERE a = 1 AND timeout = 5".into(),
                None,
                None,
                &"SELECT a FROM t WHERE a = 1 AND timeout = 5".into(),
            ),
            (
                "SELECT a service FROM t WHERE a AND service level".into(),
                None,
                None,
                &"SELECT a service FROM t WHERE a AND service level".into(),
            ),
        ] {
            let statement = split(&text).unwrap().remove(0);
            let tokens = statement.tokens().iter().map(|token| token.token.to_string());
            let left_over = tokens.collect::<Vec<_>>().join(" ");
            assert_eq!(left_over.to_lowercase(), left.to_lowercase(), "{text}");
            let said = statement.said();
            assert_eq!(said.timeout, timeout.map(ms).map(Timeout::Given), "{text}");
            assert_eq!(said.level.as_ref().map(|name| &*name.value), level, "{text}");
        }
    }

    #[test]
    fn a_parameter_keeps_its_number() {
        for (text, number, count, left) in [
            ("SELECT a FROM t WHERE b = ? USING TIMEOUT ?", 2, 2, "SELECT a FROM t WHERE b = $1"),
            ("UPDATE t USING TIMEOUT ? SET a = ?", 1, 2, "UPDATE t SET a = $2"),
            ("UPDATE t USING TTL ? AND TIMEOUT $3 SET a = 1", 0, 0, ""),
            (
                "UPDATE t USING TTL $1 AND TIMEOUT $3 SET a = $2",
                3,
                3,
                "UPDATE t USING TTL $1 SET a = $2",
            ),
        ] {
            let Ok(mut statements) = split(text) else {
                assert_eq!(number, 0, "{text}");
                continue;
            };
            let statement = statements.remove(0);
            assert_eq!(statement.said().timeout, Some(Timeout::Parameter(number)), "{text}");
            assert_eq!(statement.parameter_count(), count, "{text}");
            let tokens = statement.tokens().iter().map(|token| token.token.to_string());
            assert_eq!(tokens.collect::<Vec<_>>().join(" "), left);
        }
        assert_eq!(timeout_of("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!((timeout_of("0s"), timeout_of("soon"), timeout_of("")), (None, None, None));
    }

    #[test]
    fn what_is_no_duration_and_no_name_is_said_with_its_place() {
        for text in ["TIMEOUT", "TIMEOUT 5", "TIMEOUT 0s", "TIMEOUT 5parsecs"] {
            let error = split(&format!("SELECT a FROM t USING {text}")).unwrap_err();
            assert!(error.help.is_some() && error.span.is_some(), "{text}: {error}");
        }
        assert!(split("SELECT a FROM t USING TIMEOUT soon").unwrap_err().help.is_some());
        for text in ["SERVICE LEVEL", "SERVICE LEVEL 5", "SERVICE LEVEL AND TIMEOUT 5s"] {
            let text = format!("SELECT a FROM t USING {text}");
            match split(&text) {
                Err(error) => assert!(error.span.is_some(), "{text}: {error}"),
                // A level may be called so; what stands behind it has lost its AND.
                Ok(statements) => assert!(statements[0].said().timeout.is_none(), "{text}"),
            }
        }
    }
}
