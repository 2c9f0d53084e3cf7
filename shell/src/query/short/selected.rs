//! What a SELECT of a partition gives: columns and stamps, in the order of its text.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef as ArrowSchemaRef};
use tidegate_engine::batch::{Stamp, read_schema};
use tidegate_engine::{ColumnId, TableSchema};

use super::lookup::columns_of;
use super::shape::Item;
use crate::query::error::{QueryError, Result};
use crate::query::parse::Name;

/// See the head of this file.
pub struct Selected {
    pub columns: Vec<ColumnId>,
    pub stamps: Vec<Stamp>,
    /// Where in what is read each of the result stands; `None` where it stands as it is wanted.
    places: Option<Vec<usize>>,
    pub schema: ArrowSchemaRef,
}

impl Selected {
    /// Looks up the names; `None` where one is not there, or is there twice, and for stamps that
    /// the planner refuses.
    pub fn of(table: &TableSchema, items: &[Item]) -> Option<Self> {
        let names: Vec<Name> = items.iter().filter_map(Item::column).cloned().collect();
        if names.len() == items.len() {
            let columns = columns_of(table, &names)?;
            let schema = read_schema(table, &columns, &[]);
            return Some(Selected { columns, stamps: Vec::new(), places: None, schema });
        }
        let (mut columns, mut stamps) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Item::Column(name) => columns.push(table.find(&name.value)?.0),
                Item::Stamp { kind, column, .. } => {
                    let stamp = Stamp { column: table.find(&column.value)?.0, kind: *kind };
                    let has_namesake = table.find(&stamp.name(table)).is_some();
                    stamp.check(table).ok().filter(|()| !has_namesake)?;
                    stamps.push(stamp);
                }
            }
        }
        let read = read_schema(table, &columns, &stamps);
        let (mut of_columns, mut of_stamps) = (0..columns.len(), columns.len()..);
        let place = |item: &Item| match item {
            Item::Column(_) => of_columns.next(),
            Item::Stamp { .. } => of_stamps.next(),
        };
        let places: Vec<usize> = items.iter().map_while(place).collect();
        let fields: Vec<Field> = items
            .iter()
            .zip(&places)
            .map(|(item, place)| match item {
                Item::Column(_) => read.field(*place).clone(),
                Item::Stamp { heading, .. } => read.field(*place).clone().with_name(heading),
            })
            .collect();
        let is_repeated = |at: usize| fields[..at].iter().any(|f| f.name() == fields[at].name());
        if (1..fields.len()).any(is_repeated) {
            return None;
        }
        let schema = Arc::new(Schema::new(fields));
        Some(Selected { columns, stamps, places: Some(places), schema })
    }

    /// Brings a batch that was read into the wanted form.
    pub fn form(&self) -> impl Fn(RecordBatch) -> Result<RecordBatch> + Send + use<> {
        let (schema, places) = (Arc::clone(&self.schema), self.places.clone());
        move |batch| {
            let Some(places) = &places else { return Ok(batch) };
            let columns = places.iter().map(|place| Arc::clone(batch.column(*place))).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let formed = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
            formed
                .map_err(|error| QueryError::from(datafusion::error::DataFusionError::from(error)))
        }
    }
}
