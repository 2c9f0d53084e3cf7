//! Collects live rows into an Arrow batch, a builder a column.
//!
//! Not here: how stored values become those of one Arrow column (`column.rs`).

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::column::ColumnBuilder;
use super::types::arrow_schema;
use crate::error::{Error, Result};
use crate::reader::{LiveContent, LiveRow};
use crate::schema::order::decode_component;
use crate::schema::table_schema::SchemaRef as TableSchemaRef;
use crate::schema::{ClusteringOrder, ColumnId, ColumnKind, DataType, TableSchema};

/// See the head of this file.
pub struct BatchBuilder {
    schema: TableSchemaRef,
    arrow: SchemaRef,
    columns: Vec<OutputColumn>,
    now_seconds: i32,
    rows: usize,
    /// The partition key last split, since neighbours mostly share it.
    last_partition: Option<std::rc::Rc<crate::schema::PartitionKey>>,
    partition_components: Vec<Vec<u8>>,
    clustering_components: Vec<Vec<u8>>,
    /// The clustering columns in key order, where some are wanted.
    clustering: Vec<(DataType, ClusteringOrder)>,
    /// How many of the components are those of the row at hand.
    clustering_count: usize,
}

struct OutputColumn {
    id: ColumnId,
    kind: ColumnKind,
    is_multi_cell: bool,
    builder: ColumnBuilder,
}

impl BatchBuilder {
    /// A builder for the named columns, in that order; values as of `now_seconds`.
    pub fn new(schema: TableSchemaRef, columns: &[ColumnId], now_seconds: i32) -> Self {
        let arrow = arrow_schema(&schema, columns);
        let is_clustering =
            |id: &ColumnId| matches!(schema.column(*id).kind, ColumnKind::ClusteringKey { .. });
        let clustering = match columns.iter().any(is_clustering) {
            true => schema.clustering_key().map(|c| (c.ty.clone(), c.clustering_order())).collect(),
            false => Vec::new(),
        };
        let columns = columns
            .iter()
            .map(|id| {
                let column = schema.column(*id);
                OutputColumn {
                    id: *id,
                    kind: column.kind,
                    is_multi_cell: column.ty.is_multi_cell(),
                    builder: ColumnBuilder::new(&column.ty),
                }
            })
            .collect();
        BatchBuilder {
            schema,
            arrow,
            columns,
            now_seconds,
            rows: 0,
            last_partition: None,
            partition_components: Vec::new(),
            clustering_components: vec![Vec::new(); clustering.len()],
            clustering,
            clustering_count: 0,
        }
    }

    /// Rows collected since the last `finish`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row.
    ///
    /// Errors: `Invalid` when stored bytes are no value of their column's type.
    pub fn push(&mut self, live: &LiveRow) -> Result<()> {
        let same = self
            .last_partition
            .as_ref()
            .is_some_and(|last| std::rc::Rc::ptr_eq(last, &live.partition));
        if !same {
            self.partition_components =
                live.partition.components(&self.schema)?.into_iter().map(<[u8]>::to_vec).collect();
            self.last_partition = Some(live.partition.clone());
        }
        match &live.content {
            LiveContent::Row { key, .. } => self.split_clustering(key.as_ordered())?,
            LiveContent::Flat(flat) => self.split_clustering(flat.key())?,
            LiveContent::StaticOnly => self.clustering_count = 0,
        }
        let mut cells = match &live.content {
            LiveContent::Flat(flat) => Some(flat.cursor()),
            LiveContent::Row { .. } | LiveContent::StaticOnly => None,
        };
        let now = self.now_seconds;
        for column in &mut self.columns {
            let id = column.id;
            let row = match (column.kind, &live.content) {
                (ColumnKind::Static, _) => live.static_row.as_deref(),
                (_, LiveContent::Row { row, .. }) => Some(&**row),
                (_, LiveContent::Flat(_) | LiveContent::StaticOnly) => None,
            };
            let pushed = match (column.kind, &mut cells) {
                (ColumnKind::PartitionKey { position }, _) => {
                    column.builder.push(part(&self.partition_components, position))
                }
                (ColumnKind::ClusteringKey { position, .. }, _) => {
                    let components = &self.clustering_components[..self.clustering_count];
                    column.builder.push(part(components, position))
                }
                _ if column.is_multi_cell => {
                    column.builder.push_multi(row.and_then(|row| row.multi_cell(id)), now)
                }
                (ColumnKind::Regular, Some(cells)) => {
                    column.builder.push(cells.find(id).and_then(|cell| cell.value_at(now)))
                }
                _ => {
                    let cell = row.and_then(|row| row.cell(id));
                    column.builder.push(cell.and_then(|cell| cell.value_at(now)))
                }
            };
            pushed.map_err(|wanted| wrong(&self.schema, id, wanted))?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Takes a clustering key apart, where that is wanted.
    fn split_clustering(&mut self, key: &[u8]) -> Result<()> {
        self.clustering_count = 0;
        let mut rest = key;
        for ((ty, order), out) in self.clustering.iter().zip(&mut self.clustering_components) {
            if rest.is_empty() {
                break;
            }
            out.clear();
            let taken = decode_component(ty, *order, rest, out)?;
            rest = &rest[taken..];
            self.clustering_count += 1;
        }
        Ok(())
    }

    /// The collected rows as a batch; the builder starts anew.
    ///
    /// Errors: `Invalid` when a key column has no value (a partition of static columns only).
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> =
            self.columns.iter_mut().map(|column| column.builder.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.arrow.clone(), arrays, &options)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

/// The stored value of a key column, if it has one.
fn part(parts: &[Vec<u8>], position: u16) -> Option<&[u8]> {
    parts.get(usize::from(position)).map(Vec::as_slice)
}

fn wrong(schema: &TableSchema, id: ColumnId, wanted: &'static str) -> Error {
    let column = schema.column(id);
    Error::invalid(format!(
        "a stored value of {}.{} is no {}: {wanted}",
        schema.full_name(),
        column.name,
        column.ty.sql_name()
    ))
}
