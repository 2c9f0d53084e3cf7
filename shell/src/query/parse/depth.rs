//! How deep the tree of a statement will be, read off its tokens before anything is built.
//!
//! Invariant: the parser, the planner and the destructors walk trees by recursion; a statement
//! that passes here has at most [`DEPTH_MAX`] operators above one another, whether it is a long
//! chain (`1 + 1 + …`), a chain in parentheses or a chain of joins and unions. What threads that
//! run statements need for that is `STACK_BYTES` of `thread`.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::statement::{is_word, span_of};
use crate::query::error::{ErrorKind, QueryError, Result};

/// Most operators above one another.
const DEPTH_MAX: usize = 1000;

/// How often the parser may call itself: it does so a few times for each level that is counted
/// here.
pub const RECURSIONS_MAX: usize = 4 * DEPTH_MAX;
/// Levels of a pair of parentheses, and of a query within one.
const PARENTHESES: usize = 1;
const QUERY: usize = 4;

/// Most queries within conditions or values of one another; in FROM they count as any other level.
const VALUE_QUERIES_MAX: usize = 64;
/// As how many of them a query counts that a value is compared with ANY or ALL of, but for `= ANY`
/// and `<> ALL`, which are IN and NOT IN: the planner makes several of it (`rewrite_set_comparison`
/// of DataFusion 55).
const SET_COMPARISON: usize = 16;

/// Levels of EXPLAIN, and of INTERVAL after another: the parser answers these by calling itself
/// without a look at its stack.
const PREFIX: usize = 8;

/// Words that are operators.
const OPERATORS: [&str; 12] = [
    "and", "or", "xor", "not", "is", "in", "like", "ilike", "between", "div", "collate", "similar",
];
/// Words that make a tree of relations deeper.
const RELATIONS: [&str; 4] = ["join", "union", "except", "intersect"];
/// Words after which another expression begins.
pub const CLAUSES: [&str; 16] = [
    "select", "from", "where", "having", "qualify", "group", "order", "limit", "offset", "by",
    "on", "values", "set", "when", "then", "else",
];

/// What is open: the statement, a pair of parentheses, or CASE … END.
#[derive(Default)]
struct Level {
    /// Operators of the expression at hand.
    operators: usize,
    /// The deepest level inside that expression.
    inner: usize,
    /// The deepest expression before it.
    deepest: usize,
    relations: usize,
    in_from: bool,
    is_case: bool,
    /// Whether it is a query in parentheses.
    is_query: bool,
    /// As how many queries one here counts that is a value or part of a condition; 0 for any other.
    weight: usize,
    /// Queries of that kind within one another here.
    value_queries: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.relations + self.deepest.max(self.operators + self.inner)
    }

    fn next_expression(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inner);
        self.operators = 0;
        self.inner = 0;
    }
}

/// Errors: `Syntax` at the operator that is one too many.
pub fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut around: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for (n, token) in tokens.iter().enumerate() {
        let closes = match &token.token {
            Token::LParen => {
                let weight = weight(&tokens[..n], &level);
                around.push(std::mem::take(&mut level));
                level.weight = weight;
                continue;
            }
            word if is_word(word, "case") => {
                around.push(std::mem::take(&mut level));
                level.is_case = true;
                continue;
            }
            Token::RParen => true,
            word => level.is_case && is_word(word, "end"),
        };
        if closes {
            let own = if level.is_query { QUERY } else { PARENTHESES };
            let depth = level.depth() + own;
            let weight = if level.is_query { level.weight } else { 0 };
            let value_queries = level.value_queries + weight;
            level = around.pop().unwrap_or_default();
            level.inner = level.inner.max(depth);
            level.value_queries = level.value_queries.max(value_queries);
        } else {
            let follows = |word| n > 0 && is_word(&tokens[n - 1].token, word);
            let is_prefix = is_word(&token.token, "explain")
                || is_word(&token.token, "interval") && follows("interval");
            level.operators += if is_prefix { PREFIX } else { 0 };
            step(&mut level, &token.token);
        }
        if level.depth() > DEPTH_MAX {
            return Err(QueryError::new(
                ErrorKind::Syntax,
                format!(
                    "the statement is nested too deeply: over {DEPTH_MAX} operators and parentheses"
                ),
            )
            .at(span_of(&token.span))
            .with_help("write many alternatives as IN (…), many rows as VALUES (…), (…)"));
        }
        if level.value_queries > VALUE_QUERIES_MAX {
            return Err(QueryError::new(
                ErrorKind::Syntax,
                format!(
                    "the statement is nested too deeply: over {VALUE_QUERIES_MAX} queries within \
                     conditions of one another"
                ),
            )
            .at(span_of(&token.span))
            .with_help("write inner queries into FROM, or WITH name AS (…)"));
        }
    }
    Ok(())
}

/// As how many queries one counts whose parenthesis follows `before`: none as part of FROM, WITH or
/// a union.
fn weight(before: &[TokenWithSpan], around: &Level) -> usize {
    let word = |token: &TokenWithSpan, words: &[&str]| {
        words.iter().any(|word| is_word(&token.token, word))
    };
    let is_value = match before {
        [] => false,
        [.., last] if last.token == Token::LParen => return around.weight,
        [.., last] if last.token == Token::Comma => !around.in_from,
        [.., union, all] if word(all, &["all", "distinct"]) => !word(union, &RELATIONS),
        [.., last] => {
            last.token != Token::RParen
                && !word(last, &["from", "lateral", "as", "into", "explain", "analyze", "verbose"])
                && !word(last, &RELATIONS)
        }
    };
    let is_set_comparison = match before {
        [.., op, any] if word(any, &["any", "some"]) => op.token != Token::Eq,
        [.., op, all] if word(all, &["all"]) => op.token != Token::Neq,
        _ => false,
    };
    match (is_value, is_set_comparison) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => SET_COMPARISON,
    }
}

fn step(level: &mut Level, token: &Token) {
    let is_one_of = |words: &[&str]| words.iter().any(|word| is_word(token, word));
    match token {
        Token::Comma => {
            level.relations += usize::from(level.in_from);
            level.next_expression();
        }
        Token::Word(_) if is_one_of(&OPERATORS) => level.operators += 1,
        Token::Word(_) if is_one_of(&RELATIONS) => {
            level.relations += 1;
            level.next_expression();
        }
        Token::Word(_) if is_one_of(&CLAUSES) => {
            level.is_query |= is_word(token, "select");
            let stays = level.in_from && is_word(token, "on");
            level.in_from = stays || is_word(token, "from");
            level.next_expression();
        }
        Token::Word(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::RBracket => {}
        // All that is left is punctuation: operators, casts, subscripts.
        _ => level.operators += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::split;

    fn check_text(text: &str) -> Result<()> {
        check(split(text).unwrap()[0].tokens())
    }

    #[test]
    fn chains_are_counted_through_parentheses() {
        let chain = |n: usize, operator: &str| vec!["1"; n + 1].join(operator);
        for (text, is_good) in [
            (format!("SELECT {}", chain(1000, "+")), true),
            (format!("SELECT {}", chain(1001, "+")), false),
            (format!("SELECT {}", chain(1001, " AND ")), false),
            (format!("SELECT {}", chain(1001, "::int = ")), false),
            (format!("SELECT ({}) + {}", chain(600, "+"), chain(300, "+")), true),
            (format!("SELECT ({}) + {}", chain(600, "+"), chain(400, "+")), false),
            (format!("SELECT {}, {}", chain(600, "+"), chain(600, "+")), true),
            (
                format!("SELECT CASE WHEN 1 THEN {} END + {}", chain(600, "+"), chain(400, "+")),
                false,
            ),
            (format!("SELECT {} WHERE {}", chain(600, "+"), chain(600, "+")), true),
            (format!("SELECT 1 WHERE 1 IN ({})", chain(5000, ",")), true),
            (format!("INSERT INTO t VALUES (-{})", chain(5000, "),(-")), true),
            (format!("SELECT {}", chain(1001, " UNION ALL SELECT ")), false),
            (format!("SELECT 1 FROM a{}", ", a".repeat(1001)), false),
            (format!("SELECT CASE{} END", " WHEN 1 = 1 THEN 1".repeat(2000)), true),
        ] {
            assert_eq!(check_text(&text).is_ok(), is_good, "{:.60}…", text);
        }
    }

    #[test]
    fn queries_in_conditions_are_counted_and_those_in_from_are_not() {
        let nested = |n: usize, open: &str| {
            let inner = (0..n).fold("SELECT 1".to_owned(), |inner, _| format!("{open}({inner})"));
            check_text(&inner)
        };
        for open in ["SELECT 1 WHERE 1 IN ", "SELECT ", "SELECT * FROM t WHERE a = 1 AND k > "] {
            assert!(nested(64, open).is_ok(), "{open}");
            let error = nested(65, open).unwrap_err();
            assert!(error.message.contains("queries within conditions"), "{error}");
        }
        let open = "SELECT 1 WHERE 1 < ANY ";
        assert!(nested(4, open).is_ok());
        assert!(nested(5, open).is_err());
        assert!(nested(64, "SELECT 1 WHERE 1 = ANY ").is_ok());
        assert!(nested(64, "SELECT 1 WHERE 1 <> ALL ").is_ok());
        for open in
            ["SELECT * FROM ", "SELECT * FROM a JOIN ", "SELECT * FROM a, ", "SELECT 1 UNION ALL "]
        {
            assert!(nested(60, open).is_ok(), "{open}");
        }
    }

    #[test]
    fn the_error_points_at_the_operator_too_many() {
        let error = check_text(&format!("SELECT 1{}", "+1".repeat(1001))).unwrap_err();
        assert!(error.message.contains("nested too deeply"), "{error}");
        assert_eq!(error.span.unwrap().column, 9 + 2000);
    }
}
