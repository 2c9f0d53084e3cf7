//! Text to a command: the first words pick the reader of the rest, or the error.

use std::any::Any;
use std::sync::Arc;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::find;
use super::policy::CreatePolicy;
use super::row::Reader;
use super::show::Show;
use super::watch::summarize::Summarize;
use super::{Command, Read, batch};
use crate::query::error::{ErrorKind, QueryError, Result, nearest};
use crate::query::parse::statement::{Statement, is_word};
use crate::query::parse::{Cursor, balance, check_depth, sql, write};

/// What follows SHOW in statements that DataFusion plans.
const SHOWN_BY_SQL: &[&str] = &["all", "columns", "create", "functions", "time", "timezone"];

/// The statement as a CREATE POLICY; `None` of every other one, and of one that is wrong: whoever
/// runs it says how.
pub(crate) fn create_policy(statement: &Statement) -> Option<CreatePolicy> {
    let Ok(Command::Own(own)) = parse(statement) else { return None };
    let own: &dyn Any = own.as_ref();
    own.downcast_ref::<CreatePolicy>().cloned()
}

/// Parses one statement.
///
/// Errors: `Syntax`, with the place; `Unsupported` for known statements that are not offered.
pub fn parse(statement: &Statement) -> Result<Command> {
    parse_tokens(statement.tokens()).map_err(|error| statement.widen(error))
}

fn parse_tokens(tokens: &[TokenWithSpan]) -> Result<Command> {
    if find::row_of(tokens).is_some_and(|(row, _)| matches!(row.reader, Reader::Batch)) {
        return Ok(Command::Batch(Arc::new(batch::read(tokens)?)));
    }
    let tokens = &*balance(tokens);
    check_depth(tokens)?;
    let Some((row, words)) = find::row_of(tokens) else { return no_row(tokens) };
    let mut cursor = Cursor::new(tokens);
    let own = match row.reader {
        Reader::Own(read) => {
            cursor.skip_to(words);
            read(&mut cursor)?
        }
        Reader::Show(query) => {
            cursor.skip_to(words);
            Arc::new(Show(query))
        }
        Reader::Write => return Ok(Command::Write(write(tokens)?)),
        Reader::Batch => unreachable!("a batch was looked at before its parts are balanced"),
        Reader::Explain => return explain(tokens),
        Reader::Sql => return Ok(Command::Query(sql(tokens)?)),
        Reader::Refused(help) => {
            let first = tokens[..words].iter().map(|token| token.token.to_string());
            let message = format!("{} is not offered", first.collect::<Vec<_>>().join(" "));
            let error = QueryError::unsupported(message).at(cursor.span());
            return Err(match help {
                Some(help) => error.with_help(help),
                None => error,
            });
        }
    };
    cursor.expect_end()?;
    Ok(Command::Own(own))
}

/// EXPLAIN of a query, of SUMMARIZE or of a write.
fn explain(tokens: &[TokenWithSpan]) -> Result<Command> {
    let mut cursor = Cursor::new(tokens);
    cursor.expect_word("explain")?;
    let start = cursor.span();
    let analyze = cursor.take_word("analyze");
    cursor.take_word("verbose");
    let rest = cursor.rest();
    let is_write = find::row_of(rest).is_some_and(|(row, _)| matches!(row.reader, Reader::Write));
    if is_write && analyze {
        return Err(QueryError::unsupported("EXPLAIN ANALYZE would run the write")
            .at(start)
            .with_help("EXPLAIN without ANALYZE shows what it would do"));
    }
    if is_write {
        return Ok(Command::ExplainWrite(write(rest)?));
    }
    if cursor.take_word("summarize") {
        let explained = Summarize::read(&mut cursor)?.explained(analyze);
        cursor.expect_end()?;
        return Ok(Command::Own(Arc::new(explained)));
    }
    Ok(Command::Query(sql(tokens)?))
}

/// A query in parentheses, or a setting to show; or why there is no such statement.
fn no_row(tokens: &[TokenWithSpan]) -> Result<Command> {
    let mut cursor = Cursor::new(tokens);
    let first = &tokens[0].token;
    if *first == Token::LParen {
        return Ok(Command::Query(sql(tokens)?));
    }
    if is_word(first, "show") {
        known_to_show(&mut cursor)?;
        return Ok(Command::Query(sql(tokens)?));
    }
    if let Some(verb) = ["CREATE", "DROP", "ALTER"].into_iter().find(|verb| is_word(first, verb)) {
        cursor.skip_to(1);
        let rests = find::rests(&[verb]);
        let (last, others) = rests.split_last().expect("each of them begins a statement");
        return Err(cursor.expected(&format!("{} or {last}", others.join(", "))));
    }
    let message = format!("no statement begins with '{first}'");
    let error = QueryError::new(ErrorKind::Syntax, message).at(cursor.span());
    Err(match nearest(&first.to_string(), find::meant()) {
        Some(near) => error.with_help(format!("did you mean {near}?")),
        None => error,
    })
}

/// Whether there is such a thing to show.
///
/// Errors: `NotFound`, with what may have been meant; a setting, `SHOW a.b`, is none of ours.
fn known_to_show(cursor: &mut Cursor<'_>) -> Result<()> {
    let mut shown = find::rests(&["SHOW"]);
    shown.sort_unstable();
    let help = || format!("SHOW takes {}, or the name of a setting", shown.join(", "));
    cursor.skip_to(1);
    let Some(Token::Word(word)) = cursor.peek() else {
        return Err(cursor.expected("what to show").with_help(help()));
    };
    let is_setting = cursor.peek_nth(1) == Some(&Token::Period);
    if is_setting || SHOWN_BY_SQL.iter().any(|known| word.value.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let words = cursor.rest().iter().map(|token| token.token.to_string());
    let typed = words.take(2).collect::<Vec<_>>().join(" ");
    let near = nearest(&typed, shown.iter().copied());
    let near = near.or_else(|| nearest(&word.value, shown.iter().copied()));
    let message = format!("there is nothing to show by the name '{}'", word.value);
    let error = QueryError::new(ErrorKind::NotFound, message).at(cursor.span());
    Err(match near {
        Some(near) => error.with_help(format!("did you mean SHOW {near}?")),
        None => error.with_help(help()),
    })
}

impl Statement {
    /// Whether all nodes of a cluster run it, or none.
    pub(in crate::query) fn is_of_all_nodes(&self) -> bool {
        find::row_of(self.tokens()).is_some_and(|(row, _)| row.on_all_nodes)
    }

    /// Whether the statement changes the session it runs in.
    pub fn changes_session(&self) -> bool {
        find::row_of(self.tokens()).is_some_and(|(row, _)| row.changes_session)
    }
}
