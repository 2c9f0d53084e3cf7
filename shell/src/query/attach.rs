//! ATTACH, DETACH and IMPORT of SSTables that other products wrote.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tidegate_engine::{AttachProgress, AttachedFile, Attachment, Import, ImportProgress};

use super::error::{QueryError, Result, Span};
use super::outcome::Outcome;
use super::parse::{Attach, ImportSstables, TableName};
use super::run::batch;
use super::session::{Progress, Session};

/// One row an SSTable: its data file, what became of it, and why.
pub fn files_schema() -> SchemaRef {
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

pub async fn attach(session: &Session, attach: &Attach) -> Result<Outcome> {
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

pub async fn detach(session: &Session, name: &TableName) -> Result<Outcome> {
    let (keyspace, table) = names(session, name);
    let detached = session.database.detach(&keyspace, &table).await;
    detached.map_err(|error| QueryError::from(error).at(name.table.span))?;
    Ok(Outcome::message(format!("Table {keyspace}.{table} detached; its files are untouched.")))
}

pub async fn import(session: &Session, import: &ImportSstables) -> Result<Outcome> {
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
