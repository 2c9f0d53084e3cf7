//! ALTER TABLE: columns that are added, dropped and named anew while the table is read and written.
//!
//! The catalog changes in a single store. Then the shards take the new definition, and only then
//! anybody can see it: no write meets a shard that does not know its columns, and no file follows
//! a definition that a crash takes back. A drop counts from a moment at which no shard takes writes
//! to the column any more, so that each value that was acknowledged goes with it. Files and memory
//! stay as they are: `schema::table_schema` says why they still mean the same,
//! `reader::DroppedCells` who leaves out what is gone.

use futures::future::BoxFuture;

use super::options::AlteredTable;
use crate::database::catalog::shared;
use crate::database::database::Database;
use crate::database::shard::Shard;
use crate::error::{Error, Result};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{Column, ColumnDrop, ColumnId, ColumnKind, DataType, TableSchema};

/// What is changed about the columns of a table: all that it names, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnChange {
    /// Adds columns, of which rows have no value yet. `if_not_exists` passes over those that are
    /// there.
    Add { columns: Vec<NewColumn>, if_not_exists: bool },
    /// Drops columns and their values. `if_exists` passes over those that are not there. When a
    /// column is back, cells with a timestamp, µs, up to `timestamp` stay dead: up to that of the
    /// change where there is none. Newer ones may go as well while the column is gone.
    Drop { columns: Vec<String>, if_exists: bool, timestamp: Option<i64> },
    /// Gives columns of the primary key other names, each from the first to the second.
    /// `if_exists` passes over those that are not there.
    Rename { columns: Vec<(String, String)>, if_exists: bool },
}

/// A column to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewColumn {
    pub name: String,
    pub ty: DataType,
    /// One value a partition, and not one a row.
    pub is_static: bool,
}

impl Database {
    /// Changes columns of a table; answers it as it is from then on.
    ///
    /// Reads and writes go on. One that was planned before and names a column that is dropped is
    /// refused with `Invalid`. A column that is added again under its name has no old values: cells
    /// with a timestamp up to that of the drop stay dead, whenever they are written.
    ///
    /// Errors: `NotFound`; `Exists`; `Invalid` for key columns that would be dropped, others that
    /// would be renamed, a column that comes back with another type, and attached tables; `Io`, and
    /// the table is as before; `Unavailable` when it is not known what the next start finds: until
    /// it is done again, columns that were to be dropped take no writes.
    pub fn alter_columns(
        &self,
        keyspace: &str,
        name: &str,
        change: ColumnChange,
    ) -> BoxFuture<'static, Result<AlteredTable>> {
        let database = self.clone();
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        self.uninterrupted(async move { database.change_columns(&keyspace, &name, change).await })
    }

    async fn change_columns(
        &self,
        keyspace: &str,
        name: &str,
        change: ColumnChange,
    ) -> Result<AlteredTable> {
        let catalog = self.catalog();
        let hint = "its files say which columns it has; DETACH and ATTACH it with others";
        let old = catalog.own_table(keyspace, name, hint)?.clone();
        let changed = |dropped_at| changed(&old, &change, dropped_at).map(shared);
        let new = changed(self.timestamp_us())?;
        if new == old {
            return Ok(AlteredTable { schema: old, shards_closed: 0 });
        }
        let is_leaving =
            |id: &ColumnId| new.column(*id).is_dropped() && !old.column(*id).is_dropped();
        let leaving: Vec<ColumnId> = old.ids().filter(is_leaving).collect();
        if !leaving.is_empty() {
            self.refuse_columns(&old, &leaving).await?;
        }
        let new = changed(self.timestamp_us())?;
        let mut published = catalog.changed();
        published.add_table(new.clone());
        if let Err(error) = self.store_catalog(&published).await {
            // What is written to a column would go with it where the next start does not find it.
            if !leaving.is_empty() && !matches!(error, Error::Unavailable(_)) {
                self.refuse_columns(&old, &[]).await?;
            }
            return Err(error);
        }
        let altered = self.set_schema(new).await;
        self.replace_catalog(published);
        altered
    }

    /// Has every shard refuse writes to these columns, and to no others.
    async fn refuse_columns(&self, table: &SchemaRef, columns: &[ColumnId]) -> Result<()> {
        let (id, columns) = (table.id, columns.to_vec());
        let refuse = move |shard: &Shard| shard.refuse_columns(id, columns.clone());
        self.of_shards("refuse columns", refuse).await?;
        Ok(())
    }
}

/// The definition after a change, which is the same where nothing is left to be done; cells of
/// columns that it drops are gone up to `dropped_at`, µs.
fn changed(old: &TableSchema, change: &ColumnChange, dropped_at: i64) -> Result<TableSchema> {
    let mut new = old.clone();
    match change {
        ColumnChange::Add { columns, if_not_exists } => {
            for column in columns {
                add(&mut new, column, *if_not_exists)?;
            }
        }
        ColumnChange::Drop { columns, if_exists, timestamp } => {
            let at = timestamp.unwrap_or(dropped_at);
            for column in columns {
                drop_column(&mut new, column, *if_exists, at)?;
            }
        }
        ColumnChange::Rename { columns, if_exists } => {
            for (from, to) in columns {
                rename(&mut new, from, to, *if_exists)?;
            }
        }
    }
    new.validate()?;
    Ok(new)
}

fn unknown(schema: &TableSchema, column: &str) -> Error {
    Error::NotFound { kind: "column", name: format!("{}.{column}", schema.full_name()) }
}

fn exists(schema: &TableSchema, column: &str) -> Error {
    Error::Exists { kind: "column", name: format!("{}.{column}", schema.full_name()) }
}

fn add(schema: &mut TableSchema, column: &NewColumn, if_not_exists: bool) -> Result<()> {
    let NewColumn { name, ty, is_static } = column;
    let kind = if *is_static { ColumnKind::Static } else { ColumnKind::Regular };
    let Some((id, known)) = schema.find_also_dropped(name) else {
        schema.columns.push(Column { name: name.clone(), ty: ty.clone(), kind });
        return Ok(());
    };
    let ColumnKind::Dropped { was_static } = known.kind else {
        return if if_not_exists { Ok(()) } else { Err(exists(schema, name)) };
    };
    if known.ty == DataType::Counter {
        return Err(Error::invalid(format!(
            "column '{name}' counted before it was dropped, and a counter does not come back: take \
             another name"
        )));
    }
    if known.ty != *ty || was_static != *is_static {
        let what = if was_static { " static" } else { "" };
        return Err(Error::invalid(format!(
            "column '{name}' was {}{what} before it was dropped, and files may still have its \
             values: add it as that, or take another name",
            known.ty.sql_name()
        )));
    }
    schema.columns[usize::from(id.0)].kind = kind;
    Ok(())
}

fn drop_column(schema: &mut TableSchema, name: &str, if_exists: bool, at: i64) -> Result<()> {
    let Some((id, column)) = schema.find(name) else {
        return if if_exists { Ok(()) } else { Err(unknown(schema, name)) };
    };
    if column.is_key() {
        return Err(Error::invalid(format!(
            "column '{name}' is part of the primary key, which stays: create another table and \
             copy the rows with INSERT … SELECT"
        )));
    }
    let was_static = column.kind == ColumnKind::Static;
    schema.columns[usize::from(id.0)].kind = ColumnKind::Dropped { was_static };
    let drop = ColumnDrop { column: id, at };
    match schema.drops.binary_search_by_key(&id, |drop| drop.column) {
        Ok(place) => schema.drops[place] = drop,
        Err(place) => schema.drops.insert(place, drop),
    }
    Ok(())
}

fn rename(schema: &mut TableSchema, from: &str, to: &str, if_exists: bool) -> Result<()> {
    let Some((id, column)) = schema.find(from) else {
        return if if_exists { Ok(()) } else { Err(unknown(schema, from)) };
    };
    if !column.is_key() {
        return Err(Error::invalid(format!(
            "column '{from}' is not part of the primary key, and files know it by its name: add \
             '{to}', copy the values, and drop '{from}'"
        )));
    }
    match schema.find_also_dropped(to) {
        None => {}
        Some((_, other)) if !other.is_dropped() => return Err(exists(schema, to)),
        Some(_) => {
            return Err(Error::invalid(format!(
                "a column '{to}' was dropped, and files may still have its values: take another name"
            )));
        }
    }
    schema.columns[usize::from(id.0)].name = to.to_owned();
    if let Some(limited) = schema.options.rate_limit_by.as_mut().filter(|name| *name == from) {
        *limited = to.to_owned();
    }
    Ok(())
}
