//! Collects live rows into an Arrow batch, a builder a column.
//!
//! Not here: how stored values become those of one Arrow column (`column.rs`).

use std::rc::Rc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::column::ColumnBuilder;
use super::types::arrow_schema;
use crate::error::{Error, Result};
use crate::mutation::{FlatRow, Row};
use crate::reader::{LiveContent, LiveRow};
use crate::schema::order::{decode_component, decode_plain};
use crate::schema::table_schema::SchemaRef as TableSchemaRef;
use crate::schema::{
    ClusteringOrder, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableSchema,
};

/// See the head of this file.
pub struct BatchBuilder {
    schema: TableSchemaRef,
    arrow: SchemaRef,
    columns: Vec<OutputColumn>,
    now_seconds: i32,
    rows: usize,
    /// Where the components of the partition key go.
    partition: Vec<(u16, usize)>,
    /// The partition key last split, since neighbours mostly share it.
    last_partition: Option<Rc<PartitionKey>>,
    partition_components: Vec<Vec<u8>>,
    /// The clustering columns in key order, up to the last that is wanted.
    clustering: Vec<ClusteringPart>,
    /// Room for a component.
    component: Vec<u8>,
    statics: Vec<ValueColumn>,
    /// Sorted by column, as the cells of a row are.
    regular: Vec<ValueColumn>,
}

struct OutputColumn {
    id: ColumnId,
    builder: ColumnBuilder,
}

struct ClusteringPart {
    ty: DataType,
    order: ClusteringOrder,
    /// Places among the columns.
    outputs: Vec<usize>,
}

/// A static or regular column.
#[derive(Clone, Copy)]
struct ValueColumn {
    id: ColumnId,
    is_multi_cell: bool,
    /// Its place among the columns.
    output: usize,
}

impl BatchBuilder {
    /// A builder for the named columns, in that order; values as of `now_seconds`.
    pub fn new(schema: TableSchemaRef, columns: &[ColumnId], now_seconds: i32) -> Self {
        let part = |column: &Column| ClusteringPart {
            ty: column.ty.clone(),
            order: column.clustering_order(),
            outputs: Vec::new(),
        };
        let mut clustering: Vec<ClusteringPart> = schema.clustering_key().map(part).collect();
        let (mut partition, mut statics, mut regular) = (Vec::new(), Vec::new(), Vec::new());
        for (output, id) in columns.iter().copied().enumerate() {
            let column = schema.column(id);
            let value = ValueColumn { id, is_multi_cell: column.ty.is_multi_cell(), output };
            match column.kind {
                ColumnKind::PartitionKey { position } => partition.push((position, output)),
                ColumnKind::ClusteringKey { position, .. } => {
                    clustering[usize::from(position)].outputs.push(output);
                }
                ColumnKind::Static => statics.push(value),
                ColumnKind::Regular => regular.push(value),
            }
        }
        let wanted = clustering.iter().rposition(|part| !part.outputs.is_empty());
        clustering.truncate(wanted.map_or(0, |last| last + 1));
        regular.sort_by_key(|column| column.id);
        let output = |id: &ColumnId| OutputColumn {
            id: *id,
            builder: ColumnBuilder::new(&schema.column(*id).ty),
        };
        BatchBuilder {
            arrow: arrow_schema(&schema, columns),
            columns: columns.iter().map(output).collect(),
            schema,
            now_seconds,
            rows: 0,
            partition,
            last_partition: None,
            partition_components: Vec::new(),
            clustering,
            component: Vec::new(),
            statics,
            regular,
        }
    }

    /// Rows collected since the last `finish`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row.
    ///
    /// Errors: `Invalid` when stored bytes are no value of their column's type.
    pub fn push(&mut self, live: LiveRow<'_>) -> Result<()> {
        if !self.partition.is_empty() {
            self.push_partition(live.partition)?;
        }
        match live.content {
            LiveContent::Flat(flat) => {
                self.push_clustering(flat.key())?;
                self.push_flat(flat)?;
            }
            LiveContent::Row { key, row } => {
                self.push_clustering(key.as_ordered())?;
                self.push_row(Some(row))?;
            }
            LiveContent::StaticOnly => {
                self.push_clustering(&[])?;
                self.push_row(None)?;
            }
        }
        for column in &self.statics {
            push_value(
                &mut self.columns,
                &self.schema,
                *column,
                live.static_row,
                self.now_seconds,
            )?;
        }
        self.rows += 1;
        Ok(())
    }

    fn push_partition(&mut self, key: &Rc<PartitionKey>) -> Result<()> {
        if !self.last_partition.as_ref().is_some_and(|last| Rc::ptr_eq(last, key)) {
            let components = key.components(&self.schema)?;
            self.partition_components = components.into_iter().map(<[u8]>::to_vec).collect();
            self.last_partition = Some(key.clone());
        }
        for (position, output) in &self.partition {
            let component = self.partition_components.get(usize::from(*position));
            let stored = component.map(Vec::as_slice);
            push_stored(&mut self.columns, &self.schema, *output, stored)?;
        }
        Ok(())
    }

    /// Takes a clustering key apart, as far as that is wanted.
    fn push_clustering(&mut self, key: &[u8]) -> Result<()> {
        let mut rest = key;
        let mut room = [0; 8];
        for ClusteringPart { ty, order, outputs } in &self.clustering {
            let stored = if rest.is_empty() {
                None
            } else if let Some((stored, taken)) = decode_plain(ty, *order, rest, &mut room) {
                rest = &rest[taken..];
                Some(stored)
            } else {
                self.component.clear();
                let taken = decode_component(ty, *order, rest, &mut self.component)?;
                rest = &rest[taken..];
                Some(self.component.as_slice())
            };
            for output in outputs {
                push_stored(&mut self.columns, &self.schema, *output, stored)?;
            }
        }
        Ok(())
    }

    /// Goes once over the cells, which come in the order of columns.
    fn push_flat(&mut self, flat: &FlatRow) -> Result<()> {
        let (columns, schema, now) = (&mut self.columns, &self.schema, self.now_seconds);
        let mut wanted = self.regular.iter();
        let mut next = wanted.next();
        for (id, value) in flat.values(now) {
            while let Some(column) = next
                && column.id <= id
            {
                let stored = if column.id == id { value } else { None };
                push_stored(columns, schema, column.output, stored)?;
                next = wanted.next();
            }
            if next.is_none() {
                break;
            }
        }
        for column in next.into_iter().chain(wanted) {
            push_stored(columns, schema, column.output, None)?;
        }
        Ok(())
    }

    fn push_row(&mut self, row: Option<&Row>) -> Result<()> {
        for column in &self.regular {
            push_value(&mut self.columns, &self.schema, *column, row, self.now_seconds)?;
        }
        Ok(())
    }

    /// The collected rows as a batch; the builder starts anew.
    ///
    /// Errors: `Invalid` when a key column has no value (a partition of static columns only), or
    /// stored text is none.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let finish = |column: &mut OutputColumn| {
            let finished = column.builder.finish();
            finished.map_err(|wanted| wrong(&self.schema, column.id, wanted))
        };
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(finish).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.arrow.clone(), arrays, &options)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

/// Appends what a row has of a static or regular column.
fn push_value(
    columns: &mut [OutputColumn],
    schema: &TableSchema,
    column: ValueColumn,
    row: Option<&Row>,
    now: i32,
) -> Result<()> {
    if column.is_multi_cell {
        let multi = row.and_then(|row| row.multi_cell(column.id));
        let pushed = columns[column.output].builder.push_multi(multi, now);
        return pushed.map_err(|wanted| wrong(schema, column.id, wanted));
    }
    let cell = row.and_then(|row| row.cell(column.id));
    push_stored(columns, schema, column.output, cell.and_then(|cell| cell.value_at(now)))
}

/// Appends a stored value, or null.
#[inline]
fn push_stored(
    columns: &mut [OutputColumn],
    schema: &TableSchema,
    output: usize,
    stored: Option<&[u8]>,
) -> Result<()> {
    let column = &mut columns[output];
    column.builder.push(stored).map_err(|wanted| wrong(schema, column.id, wanted))
}

#[cold]
fn wrong(schema: &TableSchema, id: ColumnId, wanted: &'static str) -> Error {
    let column = schema.column(id);
    Error::invalid(format!(
        "a stored value of {}.{} is no {}: {wanted}",
        schema.full_name(),
        column.name,
        column.ty.sql_name()
    ))
}
