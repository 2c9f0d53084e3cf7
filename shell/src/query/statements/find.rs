//! Looking up rows of the table of statements: by a text, by what a person has typed so far.

use sqlparser::tokenizer::TokenWithSpan;

use super::list::STATEMENTS;
use super::row::{Offered, StatementRow};
use crate::query::parse::statement::is_word;

/// The row that reads these tokens, and how many first words it has.
pub(super) fn row_of(tokens: &[TokenWithSpan]) -> Option<(&'static StatementRow, usize)> {
    let is_at =
        |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    longest(STATEMENTS.iter(), is_at)
}

/// The row that Tab offers and these words, in capital letters, begin with.
pub fn row_of_words(words: &[String]) -> Option<(&'static StatementRow, usize)> {
    let is_at = |at: usize, word: &str| words.get(at).is_some_and(|found| found == word);
    longest(STATEMENTS.iter().filter(|row| row.is_offered()), is_at)
}

/// The row with most first words of which each is the one that stands there.
fn longest(
    rows: impl Iterator<Item = &'static StatementRow>,
    is_at: impl Fn(usize, &str) -> bool,
) -> Option<(&'static StatementRow, usize)> {
    let fits = |words: &str| words.split(' ').enumerate().all(|(at, word)| is_at(at, word));
    let fitting = rows.flat_map(|row| {
        let spellings = row.spellings().filter(|words| fits(words));
        spellings.map(move |words| (row, words.split(' ').count()))
    });
    fitting.max_by_key(|(_, words)| *words)
}

/// First words of the statements that errors offer.
pub(super) fn meant() -> impl Iterator<Item = &'static str> {
    let rows = STATEMENTS.iter().filter(|row| row.offered != Offered::Nowhere);
    rows.flat_map(StatementRow::spellings).filter_map(|words| words.split(' ').next())
}

/// What follows `words` in the first words of the rows that Tab offers, in the order of the table.
pub(super) fn rests(words: &[&str]) -> Vec<&'static str> {
    let rest = |row: &'static StatementRow| {
        words.iter().try_fold(row.words, |rest, word| rest.strip_prefix(word)?.strip_prefix(' '))
    };
    STATEMENTS.iter().filter(|row| row.is_offered()).filter_map(rest).collect()
}

/// Keywords that may follow `words`, which are in capital letters, in order. What only follows
/// another one of them is left out.
pub fn continuations(words: &[&str]) -> Vec<&'static str> {
    let all = rests(words);
    let follows =
        |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with(' '));
    let is_first = |one: &&str| !all.iter().any(|other| follows(one, other));
    let mut first: Vec<&str> = all.iter().copied().filter(is_first).collect();
    first.sort_unstable();
    first
}
