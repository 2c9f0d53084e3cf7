//! ATTACH SSTABLES and IMPORT SSTABLES.

use tidegate_engine::OnCorruption;

use super::command::{Attach, Command, ImportSstables};
use super::cursor::Cursor;
use crate::query::error::{QueryError, Result};

/// After `ATTACH`: `SSTABLES 'directory' AS [keyspace.]name [WITH (…)]`.
pub fn attach(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.expect_word("sstables")?;
    let (directory, directory_span) = cursor.string("a directory in quotes")?;
    cursor.expect_word("as")?;
    let name = cursor.table_name()?;
    let on_corruption = options(cursor)?;
    Ok(Command::Attach(Attach { directory, directory_span, name, on_corruption }))
}

/// After `IMPORT`: `SSTABLES 'directory' INTO [keyspace.]table [WITH (…)]`.
pub fn import(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.expect_word("sstables")?;
    let (directory, directory_span) = cursor.string("a directory in quotes")?;
    cursor.expect_word("into")?;
    let table = cursor.table_name()?;
    let on_corruption = options(cursor)?;
    Ok(Command::Import(ImportSstables { directory, directory_span, table, on_corruption }))
}

/// `[WITH] (ON_CORRUPTION = 'fail' | 'skip')`
fn options(cursor: &mut Cursor<'_>) -> Result<OnCorruption> {
    let mut on_corruption = OnCorruption::default();
    if !cursor.take_word("with") && cursor.peek().is_none() {
        return Ok(on_corruption);
    }
    cursor.parenthesised(|cursor| {
        let name = cursor.name("an option")?;
        if name.value != "on_corruption" {
            return Err(QueryError::not_found("option", &name.value, ["on_corruption"])
                .at(name.span)
                .with_help("the option is ON_CORRUPTION = 'fail' or 'skip'"));
        }
        cursor.take(&datafusion::sql::sqlparser::tokenizer::Token::Eq);
        let span = cursor.span();
        on_corruption = match cursor.option_value()?.to_lowercase().as_str() {
            "fail" => OnCorruption::Fail,
            "skip" => OnCorruption::Skip,
            other => {
                let message = format!("option on_corruption takes fail or skip, not '{other}'");
                return Err(QueryError::invalid(message).at(span));
            }
        };
        Ok(())
    })?;
    Ok(on_corruption)
}
