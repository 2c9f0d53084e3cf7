//! Names of a statement as columns of a table, and what a run takes of its session.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType as ArrowType;
use tidegate_engine::{
    BatchStream, ColumnId, Database, ManyTombstones, ReadCommand, SchemaRef, TableSchema, Terms,
};

use crate::query::memory::QueryMemory;
use crate::query::parse::Name;
use crate::query::watch;

/// What a run takes of its session.
pub struct RunContext<'a> {
    pub memory: &'a QueryMemory,
    pub past_cache: bool,
    pub terms: Terms,
    /// Are told of pages that met many.
    pub tombstones: Arc<ManyTombstones>,
}

impl RunContext<'_> {
    /// Starts the one read of a statement that runs by this path.
    pub fn read(
        &self,
        path: &'static str,
        database: &Database,
        command: ReadCommand,
    ) -> BatchStream {
        let probe = watch::read_by(path, &command.schema);
        database.read_watched(command, probe).noting(Arc::clone(&self.tombstones))
    }

    /// How several reads of a table are started.
    pub fn reads(
        &self,
        table: &SchemaRef,
    ) -> impl Fn(&Database, ReadCommand) -> BatchStream + use<> {
        let (probe, tombstones) = (watch::read(table), Arc::clone(&self.tombstones));
        move |database, command| {
            database.read_watched(command, probe.clone()).noting(Arc::clone(&tombstones))
        }
    }
}

/// Notes that parameter `n` is wanted as `ty`; `None` where it is wanted twice, which the planner
/// judges.
pub fn want(types: &mut [ArrowType], n: usize, ty: ArrowType) -> Option<()> {
    let known = types.get_mut(n.checked_sub(1)?)?;
    if *known != ArrowType::Null {
        return None;
    }
    *known = ty;
    Some(())
}

/// The columns that are named, each once; all of the table where none is.
pub fn columns_of(table: &TableSchema, names: &[Name]) -> Option<Vec<ColumnId>> {
    if names.is_empty() {
        return Some(table.ids().collect());
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let (id, _) = table.find(&name.value)?;
        if columns.contains(&id) {
            return None;
        }
        columns.push(id);
    }
    Some(columns)
}
