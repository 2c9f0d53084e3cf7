//! Names of a statement as columns of a table, and what a run takes of its session.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType as ArrowType;
use tidegate_engine::probe::Watch;
use tidegate_engine::{
    BatchStream, ColumnId, Database, ManyTombstones, ReadCommand, SchemaRef, TableSchema, Terms,
};

use crate::query::memory::QueryMemory;
use crate::query::parse::Name;

/// What a run takes of its session.
pub struct RunContext<'a> {
    pub memory: &'a QueryMemory,
    pub past_cache: bool,
    pub terms: Terms,
    /// Is told what reads do.
    pub watch: Option<Arc<Watch>>,
    /// Are told of pages that met many.
    pub tombstones: Arc<ManyTombstones>,
}

impl RunContext<'_> {
    /// How reads of a table are started.
    pub fn reads(
        &self,
        table: &SchemaRef,
    ) -> impl Fn(&Database, ReadCommand) -> BatchStream + use<> {
        let probe = self.watch.as_ref().map(|watch| watch.read(Arc::clone(table) as _));
        let tombstones = Arc::clone(&self.tombstones);
        move |database, command| {
            let batches = match &probe {
                None => database.read(command),
                Some(probe) => database.read_watched(command, probe.clone()),
            };
            batches.noting(Arc::clone(&tombstones))
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
