//! ATTACH SSTABLES and IMPORT SSTABLES.

use tidegate_engine::{OnCorruption, OnUnknown};

use super::command::{Attach, Command, ImportSstables};
use super::cursor::Cursor;
use super::table_option::choice;
use crate::query::error::{QueryError, Result};

/// After `ATTACH`: `SSTABLES 'directory' AS [keyspace.]name [WITH (…)]`. A look at what can be
/// read: files of other versions are left out unless the statement says otherwise.
pub fn attach(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.expect_word("sstables")?;
    let (directory, directory_span) = cursor.string("a directory in quotes")?;
    cursor.expect_word("as")?;
    let name = cursor.table_name()?;
    let (on_corruption, on_unknown) = options(cursor, OnUnknown::Skip)?;
    Ok(Command::Attach(Attach { directory, directory_span, name, on_corruption, on_unknown }))
}

/// After `IMPORT`: `SSTABLES 'directory' INTO [keyspace.]table [WITH (…)]`. A copy is to be whole:
/// files of other versions are an error unless the statement says otherwise.
pub fn import(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.expect_word("sstables")?;
    let (directory, directory_span) = cursor.string("a directory in quotes")?;
    cursor.expect_word("into")?;
    let table = cursor.table_name()?;
    let (on_corruption, on_unknown) = options(cursor, OnUnknown::Fail)?;
    let import = ImportSstables { directory, directory_span, table, on_corruption, on_unknown };
    Ok(Command::Import(import))
}

/// `[WITH] (ON_CORRUPTION = 'fail' | 'skip', ON_UNKNOWN = 'fail' | 'skip')`, either or both.
fn options(cursor: &mut Cursor<'_>, unknown: OnUnknown) -> Result<(OnCorruption, OnUnknown)> {
    let mut on_corruption = OnCorruption::default();
    let mut on_unknown = unknown;
    if !cursor.take_word("with") && cursor.peek().is_none() {
        return Ok((on_corruption, on_unknown));
    }
    cursor.parenthesised(|cursor| {
        let name = cursor.name("an option")?;
        if !matches!(name.value.as_str(), "on_corruption" | "on_unknown") {
            let known = ["on_corruption", "on_unknown"];
            return Err(QueryError::not_found("option", &name.value, known)
                .at(name.span)
                .with_help("the options are ON_CORRUPTION and ON_UNKNOWN, each 'fail' or 'skip'"));
        }
        cursor.take(&sqlparser::tokenizer::Token::Eq);
        if name.value == "on_corruption" {
            on_corruption = super::table_option::on_corruption(cursor)?;
        } else {
            on_unknown = choice(cursor, "on_unknown", (OnUnknown::Fail, OnUnknown::Skip))?;
        }
        Ok(())
    })?;
    Ok((on_corruption, on_unknown))
}
