//! `BEGIN [UNLOGGED | COUNTER] BATCH [USING TIMESTAMP n] statement; … APPLY BATCH`: reads it.
//!
//! Not here: what it does (`write/batch.rs`).

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::query::error::{QueryError, Result, Span};
use crate::query::parse::statement::{is_word, span_of};
use crate::query::parse::{Batch, Cursor, Write, balance, check_depth, using_value, write};

/// Reads a whole batch.
///
/// Errors: `Syntax`; `Unsupported` for what is no write; those of reading a write.
pub fn read(tokens: &[TokenWithSpan]) -> Result<Batch> {
    let mut cursor = Cursor::new(tokens);
    let span = cursor.span();
    cursor.expect_word("begin")?;
    let is_counter = cursor.take_word("counter");
    let is_logged = !is_counter && !cursor.take_word("unlogged");
    if is_logged {
        cursor.take_word("logged");
    }
    cursor.expect_word("batch")?;
    let timestamp = match cursor.take_words(&["using", "timestamp"]) {
        true => Some(using_value(&mut cursor)?),
        false => None,
    };
    let parts = statements(&mut cursor)?;
    if parts.len() > Batch::STATEMENTS_MAX {
        return Err(QueryError::unsupported(format!(
            "a batch has {} statements, {} at most are possible",
            parts.len(),
            Batch::STATEMENTS_MAX
        ))
        .at(span)
        .with_help("write several batches, or load many rows with COPY or an ingest"));
    }
    let writes = parts.into_iter().map(one).collect::<Result<Vec<Write>>>()?;
    let batch = Batch { span, is_logged, is_counter, timestamp, writes };
    check(&batch)?;
    Ok(batch)
}

/// The tokens of each statement, up to APPLY BATCH and the end.
fn statements<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<&'a [TokenWithSpan]>> {
    let mut parts = Vec::new();
    loop {
        while cursor.take(&Token::SemiColon) {}
        if cursor.take_words(&["apply", "batch"]) {
            cursor.expect_end()?;
            return Ok(parts);
        }
        let rest = cursor.rest();
        let is_end = |at: usize| match &rest[at].token {
            Token::SemiColon => true,
            token => {
                let behind = rest.get(at + 1).map(|behind| &behind.token);
                is_word(token, "apply") && behind.is_some_and(|behind| is_word(behind, "batch"))
            }
        };
        let Some(length) = (0..rest.len()).find(|at| is_end(*at)) else {
            cursor.skip_to(cursor.position() + rest.len());
            return Err(cursor.expected("'; APPLY BATCH'"));
        };
        parts.push(&rest[..length]);
        cursor.skip_to(cursor.position() + length);
    }
}

fn one(tokens: &[TokenWithSpan]) -> Result<Write> {
    let first = &tokens[0];
    let is_write = ["insert", "update", "delete"].iter().any(|word| is_word(&first.token, word));
    if !is_write {
        return Err(QueryError::unsupported("a batch takes INSERT, UPDATE and DELETE")
            .at(span_of(&first.span))
            .with_help("run other statements before the batch or after it"));
    }
    let tokens = &*balance(tokens);
    check_depth(tokens)?;
    write(tokens)
}

/// Refuses what does not go together.
fn check(batch: &Batch) -> Result<()> {
    let refuse = |message: &str, span: Span, help: &str| {
        Err(QueryError::invalid(message).at(span).with_help(help))
    };
    if batch.writes.is_empty() {
        return refuse("a batch without statements", batch.span, "write one before APPLY BATCH");
    }
    if batch.is_counter && batch.timestamp.is_some() {
        return refuse(
            "a counter batch takes no USING TIMESTAMP",
            batch.span,
            "leave it out: a counter goes on from what it holds now",
        );
    }
    let dated = batch.writes.iter().find(|write| write.using.timestamp.is_some());
    let condition = batch.writes.iter().find_map(|write| write.condition.as_ref());
    if let (Some(write), Some(_)) = (dated, batch.timestamp) {
        return refuse(
            "a batch and a statement of it both say a timestamp",
            write.table.table.span,
            "say it once: behind BEGIN BATCH, or in each statement",
        );
    }
    if let Some(condition) = condition
        && (dated.is_some() || batch.timestamp.is_some())
    {
        return refuse(
            "a batch with IF takes no USING TIMESTAMP",
            condition.span,
            "leave it out: the batch has to be newer than what it depends on, so the server gives it",
        );
    }
    Ok(())
}
