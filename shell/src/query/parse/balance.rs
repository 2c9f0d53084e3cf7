//! Long chains of OR and AND as trees of little depth, made by parentheses among their tokens.
//!
//! `a OR b OR c OR …` is a tree as deep as the chain is long, and the parser, the planner and the
//! destructors walk trees by recursion. Both operators may be grouped in any way, so the operands
//! of a long chain are put into parentheses by halves: ten thousand are fourteen levels.
//!
//! Invariant: only whole operands are grouped, those between two operators of the same chain. The
//! first and the last one stay outside, because where they begin and end is for the parser to say.

use std::borrow::Cow;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::depth::CLAUSES;
use super::statement::is_word;

/// Shortest chain that is grouped, operators.
const CHAIN_MIN: usize = 100;
/// Words besides [`CLAUSES`] that end an expression.
const ENDS: [&str; 11] = [
    "as",
    "join",
    "union",
    "except",
    "intersect",
    "using",
    "window",
    "fetch",
    "with",
    "returning",
    "into",
];

/// What is open: the statement, a pair of parentheses, or CASE … END.
#[derive(Default)]
struct Level {
    /// Places of the operators of the chain at hand.
    ors: Vec<usize>,
    ands: Vec<usize>,
    /// BETWEENs whose AND is to come.
    betweens: usize,
    is_case: bool,
}

/// Chains that are long enough, by the places of their operators.
struct Chains(Vec<Vec<usize>>);

impl Chains {
    fn end(&mut self, chain: &mut Vec<usize>) {
        let chain = std::mem::take(chain);
        if chain.len() >= CHAIN_MIN {
            self.0.push(chain);
        }
    }

    fn end_all(&mut self, level: &mut Level) {
        self.end(&mut level.ands);
        self.end(&mut level.ors);
        level.betweens = 0;
    }
}

/// The tokens with parentheses in long chains; as they are where there is none.
pub fn balance(tokens: &[TokenWithSpan]) -> Cow<'_, [TokenWithSpan]> {
    if tokens.len() < CHAIN_MIN {
        return Cow::Borrowed(tokens);
    }
    let Chains(chains) = find(tokens);
    if chains.is_empty() {
        return Cow::Borrowed(tokens);
    }
    let mut groups = Groups { opening: vec![0; tokens.len()], closing: vec![0; tokens.len()] };
    for chain in &chains {
        groups.halve(chain, 0, chain.len() - 1);
    }
    let mut all = Vec::with_capacity(tokens.len() + 2 * chains.iter().map(Vec::len).sum::<usize>());
    for (n, token) in tokens.iter().enumerate() {
        let parenthesis = |kind: Token| TokenWithSpan { token: kind, span: token.span };
        all.extend((0..groups.closing[n]).map(|_| parenthesis(Token::RParen)));
        all.extend((0..groups.opening[n]).map(|_| parenthesis(Token::LParen)));
        all.push(token.clone());
    }
    Cow::Owned(all)
}

fn find(tokens: &[TokenWithSpan]) -> Chains {
    let mut chains = Chains(Vec::new());
    let mut around: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for (n, token) in tokens.iter().enumerate() {
        let token = &token.token;
        let is_one_of = |words: &[&str]| words.iter().any(|word| is_word(token, word));
        match token {
            Token::LParen => around.push(std::mem::take(&mut level)),
            Token::RParen => {
                chains.end_all(&mut level);
                level = around.pop().unwrap_or_default();
            }
            Token::Comma => chains.end_all(&mut level),
            Token::Word(_) if is_word(token, "case") => {
                around.push(std::mem::take(&mut level));
                level.is_case = true;
            }
            Token::Word(_) if level.is_case && is_word(token, "end") => {
                chains.end_all(&mut level);
                level = around.pop().unwrap_or_default();
            }
            Token::Word(_) if is_word(token, "or") => {
                chains.end(&mut level.ands);
                level.ors.push(n);
            }
            Token::Word(_) if is_word(token, "and") => match level.betweens {
                0 => level.ands.push(n),
                _ => level.betweens -= 1,
            },
            Token::Word(_) if is_word(token, "between") => level.betweens += 1,
            Token::Word(_) if is_one_of(&CLAUSES) || is_one_of(&ENDS) => chains.end_all(&mut level),
            _ => {}
        }
    }
    chains.end_all(&mut level);
    chains
}

/// How many parentheses stand before each token.
struct Groups {
    opening: Vec<usize>,
    closing: Vec<usize>,
}

impl Groups {
    /// Groups the operands `from..to` of a chain; operand n stands between operators n and n + 1.
    fn halve(&mut self, chain: &[usize], from: usize, to: usize) {
        if to - from < 2 {
            return;
        }
        self.opening[chain[from] + 1] += 1;
        self.closing[chain[to]] += 1;
        let middle = from.midpoint(to);
        self.halve(chain, from, middle);
        self.halve(chain, middle, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::split;

    fn balanced(text: &str) -> String {
        let statements = split(text).unwrap();
        let tokens = balance(statements[0].tokens()).into_owned();
        tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Deepest level of parentheses.
    fn depth(text: &str) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        for c in text.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        assert_eq!(depth, 0, "{text:.80}");
        deepest
    }

    #[test]
    fn a_long_chain_becomes_shallow_and_keeps_its_operands() {
        for word in ["OR", "AND"] {
            let operands: Vec<String> = (0..10_000).map(|n| format!("a = {n}")).collect();
            let text = format!("SELECT 1 WHERE {} ORDER BY x", operands.join(&format!(" {word} ")));
            let after = balanced(&text);
            assert_eq!(depth(&after), 14);
            assert_eq!(after.replace("( ", "").replace(" )", ""), text);
            assert!(after.starts_with(&format!("SELECT 1 WHERE a = 0 {word} ( ")), "{after:.80}");
            assert!(after.ends_with(&format!(") {word} a = 9999 ORDER BY x")));
        }
    }

    #[test]
    fn groups_end_where_expressions_end() {
        let many = |operand: &str, word: &str| vec![operand; CHAIN_MIN].join(&format!(" {word} "));
        // An AND of BETWEEN belongs to no chain, nor do those of other operands.
        let between = balanced(&format!("SELECT 1 WHERE {}", many("a BETWEEN 1 AND 2", "AND")));
        assert!(!between.contains("1 ) AND 2") && !between.contains("AND ( 2"), "{between:.200}");
        for text in [
            format!("SELECT {} , {}", many("a", "OR"), many("b", "OR")),
            format!("SELECT CASE WHEN {} THEN {} END", many("a", "OR"), many("b", "OR")),
            format!("SELECT ( {} ) AND {}", many("a", "OR"), many("b", "AND")),
            format!("SELECT {} FROM t JOIN u ON {}", many("a", "OR"), many("b", "OR")),
        ] {
            let after = balanced(&text);
            assert!(!after.contains("a ) OR b") && !after.contains("b ) OR a"));
            for group in ["( a OR a )", "( b OR b )", "( b AND b )"] {
                assert!(!after.contains(group) || depth(&after) <= 9, "{after:.80}");
            }
            assert_eq!(
                after.replace("( ", "").replace(" )", ""),
                text.replace("( ", "").replace(" )", "")
            );
        }
        let short = "SELECT 1 WHERE a OR b OR c";
        assert_eq!(balanced(short), short);
    }
}
