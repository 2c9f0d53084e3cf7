//! ATTACH, DETACH and IMPORT of SSTables that other products wrote.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use sqlparser::tokenizer::Token;
use tidegate_engine::{
    AttachProgress, AttachedFile, Attachment, Import, ImportProgress, OnCorruption, OnUnknown,
};

use super::definition::table_option::{choice, on_corruption as on_corruption_of};
use super::{OwnStatement, Read};
use crate::query::error::{QueryError, Result, Span};
use crate::query::outcome::{Outcome, batch};
use crate::query::parse::{Cursor, TableName};
use crate::query::session::{Progress, Session};

/// ATTACH SSTABLES.
#[derive(Debug)]
pub struct Attach {
    directory: String,
    directory_span: Span,
    name: TableName,
    pub(super) on_corruption: OnCorruption,
    pub(super) on_unknown: OnUnknown,
}

impl Read for Attach {
    /// `SSTABLES 'directory' AS [keyspace.]name [WITH (…)]`. A look at what can be read: files of
    /// other versions are left out unless the statement says otherwise.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.expect_word("sstables")?;
        let (directory, directory_span) = cursor.string("a directory in quotes")?;
        cursor.expect_word("as")?;
        let name = cursor.table_name()?;
        let (on_corruption, on_unknown) = options(cursor, OnUnknown::Skip)?;
        Ok(Attach { directory, directory_span, name, on_corruption, on_unknown })
    }
}

impl OwnStatement for Attach {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        attach(session, self).await
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(files_schema())
    }
}

/// DETACH.
#[derive(Debug)]
pub struct Detach(TableName);

impl Read for Detach {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.take_word("table");
        Ok(Detach(cursor.table_name()?))
    }
}

impl OwnStatement for Detach {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let Detach(name) = self;
        let (keyspace, table) = names(session, name);
        let detached = session.database.detach(&keyspace, &table).await;
        detached.map_err(|error| QueryError::from(error).at(name.table.span))?;
        Ok(Outcome::message(format!("Table {keyspace}.{table} detached; its files are untouched.")))
    }
}

/// IMPORT SSTABLES.
#[derive(Debug)]
pub struct ImportSstables {
    directory: String,
    directory_span: Span,
    table: TableName,
    pub(super) on_corruption: OnCorruption,
    pub(super) on_unknown: OnUnknown,
}

impl Read for ImportSstables {
    /// `SSTABLES 'directory' INTO [keyspace.]table [WITH (…)]`. A copy is to be whole: files of
    /// other versions are an error unless the statement says otherwise.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.expect_word("sstables")?;
        let (directory, directory_span) = cursor.string("a directory in quotes")?;
        cursor.expect_word("into")?;
        let table = cursor.table_name()?;
        let (on_corruption, on_unknown) = options(cursor, OnUnknown::Fail)?;
        Ok(ImportSstables { directory, directory_span, table, on_corruption, on_unknown })
    }
}

impl OwnStatement for ImportSstables {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        import(session, self).await
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(files_schema())
    }
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
        cursor.take(&Token::Eq);
        if name.value == "on_corruption" {
            on_corruption = on_corruption_of(cursor)?;
        } else {
            on_unknown = choice(cursor, "on_unknown", (OnUnknown::Fail, OnUnknown::Skip))?;
        }
        Ok(())
    })?;
    Ok((on_corruption, on_unknown))
}

/// One row an SSTable: its data file, what became of it, and why.
fn files_schema() -> SchemaRef {
    let text = |name: &str, is_nullable| Field::new(name, DataType::Utf8, is_nullable);
    Arc::new(Schema::new(vec![text("file", false), text("status", false), text("error", true)]))
}

fn outcome(files: &[AttachedFile], done: &str) -> Result<Outcome> {
    let paths = files.iter().map(|file| file.path.display().to_string());
    let status = files.iter().map(|file| if file.error.is_some() { "left out" } else { done });
    let errors = files.iter().map(|file| file.error.as_ref().map(ToString::to_string));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(paths)),
        Arc::new(StringArray::from_iter_values(status)),
        Arc::new(errors.collect::<StringArray>()),
    ];
    Ok(Outcome::batches(files_schema(), vec![batch(files_schema(), columns)?]))
}

fn directory(session: &Session, text: &str, span: Span) -> Result<PathBuf> {
    session.check_local_files().map_err(|error| error.at(span))?;
    let path = std::path::absolute(text)
        .map_err(|error| QueryError::invalid(format!("'{text}': {error}")).at(span))?;
    if !path.is_dir() {
        return Err(QueryError::invalid(format!("'{text}' is no directory")).at(span));
    }
    Ok(path)
}

fn names(session: &Session, name: &TableName) -> (String, String) {
    let keyspace = name.keyspace.as_ref().map_or_else(|| session.keyspace(), |k| k.value.clone());
    (keyspace, name.table.value.clone())
}

async fn attach(session: &Session, attach: &Attach) -> Result<Outcome> {
    let directory = directory(session, &attach.directory, attach.directory_span)?;
    let (keyspace, name) = names(session, &attach.name);
    let (on_corruption, on_unknown) = (attach.on_corruption, attach.on_unknown);
    let sink = session.options.progress.clone();
    let progress = AttachProgress(sink.map(|sink| {
        let tell = move |rows, bytes| sink(Progress { rows, bytes, bytes_max: 0 });
        Arc::new(tell) as Arc<dyn Fn(u64, u64) + Send + Sync>
    }));
    let names = None;
    let attachment =
        Attachment { directory, names, keyspace, name, on_corruption, on_unknown, progress };
    let attached = session.database.attach(attachment).await.map_err(QueryError::from);
    let attached = attached.map_err(|error| match error.span {
        Some(_) => error,
        None => error.at(attach.directory_span),
    })?;
    let mut outcome = outcome(&attached.files, "attached")?;
    if !attached.notes.is_empty() {
        outcome.note = Some(attached.notes.join("\nnote: "));
    }
    Ok(outcome)
}

async fn import(session: &Session, import: &ImportSstables) -> Result<Outcome> {
    let directory = directory(session, &import.directory, import.directory_span)?;
    let schema = session.table(&import.table)?;
    let (keyspace, table) = (schema.keyspace.clone(), schema.name.clone());
    let (on_corruption, on_unknown) = (import.on_corruption, import.on_unknown);
    let order = Import { directory, keyspace, table, on_corruption, on_unknown };
    let sink = session.options.progress.clone();
    let mut tell = move |told: ImportProgress| {
        let Some(sink) = &sink else { return };
        let share = told.rows as f64 / told.rows_max.max(1) as f64;
        let bytes = (told.data_bytes as f64 * share.min(1.0)) as u64;
        sink(Progress { rows: told.rows, bytes, bytes_max: told.data_bytes });
    };
    let imported = session.database.import(order, &mut tell).await;
    let imported = imported.map_err(|error| QueryError::from(error).at(import.directory_span))?;
    let counts = imported.counts;
    let mut outcome = outcome(&imported.files, "imported")?;
    outcome.note = Some(format!(
        "{} partitions, {} rows and {} partition and range tombstones are in {}",
        counts.partitions,
        counts.rows,
        counts.tombstones,
        schema.full_name()
    ));
    Ok(outcome)
}
