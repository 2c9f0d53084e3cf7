//! What a scan reads of each row, and what of that leaves it.
//!
//! Invariant: a batch has the columns, then the stamps; of both those of the output come first.

use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::common::{Result, internal_err};
use tidegate_engine::batch::{Stamp, read_schema};
use tidegate_engine::{ColumnId, TableSchema};

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Selection {
    columns: Vec<ColumnId>,
    output_columns: usize,
    stamps: Vec<Stamp>,
    output_stamps: usize,
}

impl Selection {
    /// What stands at these places of a table's columns, with these stamps behind them, is output.
    ///
    /// Errors: `Internal` for a column behind a stamp, which no rule of the planner asks for.
    pub fn of(table: &TableSchema, stamps: &[Stamp], places: &[usize]) -> Result<Self> {
        let all: Vec<ColumnId> = table.ids().collect();
        if !places.is_sorted_by_key(|place| *place >= all.len()) {
            return internal_err!("a scan is asked for the places {places:?} in this order");
        }
        let columns: Vec<ColumnId> =
            places.iter().filter_map(|place| all.get(*place)).copied().collect();
        let stamps: Vec<Stamp> =
            places[columns.len()..].iter().map(|place| stamps[place - all.len()]).collect();
        let (output_columns, output_stamps) = (columns.len(), stamps.len());
        Ok(Selection { columns, output_columns, stamps, output_stamps })
    }

    /// What another node selects: of both, the first ones are output.
    pub fn of_parts(
        (columns, output_columns): (Vec<ColumnId>, usize),
        (stamps, output_stamps): (Vec<Stamp>, usize),
    ) -> Self {
        debug_assert!(output_columns <= columns.len() && output_stamps <= stamps.len());
        Selection { columns, output_columns, stamps, output_stamps }
    }

    /// How many of the stamps are output.
    pub fn output_stamps(&self) -> usize {
        self.output_stamps
    }

    /// A predicate needs a column.
    pub fn need(&mut self, id: ColumnId) {
        if !self.columns.contains(&id) {
            self.columns.push(id);
        }
    }

    /// A predicate needs a stamp.
    pub fn need_stamp(&mut self, stamp: Stamp) {
        if !self.stamps.contains(&stamp) {
            self.stamps.push(stamp);
        }
    }

    /// All columns that are read.
    pub fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    /// All stamps that are read.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// The columns of the output, with which it begins.
    pub fn output(&self) -> &[ColumnId] {
        &self.columns[..self.output_columns]
    }

    /// The schema of what is read.
    pub fn read_schema(&self, table: &TableSchema) -> ArrowSchemaRef {
        read_schema(table, &self.columns, &self.stamps)
    }

    /// The schema of the output.
    pub fn schema(&self, table: &TableSchema) -> ArrowSchemaRef {
        read_schema(table, self.output(), &self.stamps[..self.output_stamps])
    }

    /// The places of the output among what is read.
    pub fn places(&self) -> Vec<usize> {
        let stamps = self.columns.len()..self.columns.len() + self.output_stamps;
        (0..self.output_columns).chain(stamps).collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::batch::StampKind;
    use tidegate_engine::{Column, ColumnKind, DataType, TableId, TableOptions};

    use super::*;

    /// `pk | v, w`
    fn table() -> TableSchema {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", ColumnKind::PartitionKey { position: 0 }),
                column("v", ColumnKind::Regular),
                column("w", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn names(schema: &ArrowSchemaRef) -> Vec<&str> {
        schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    #[test]
    fn what_a_predicate_needs_stands_behind_the_output_of_columns_and_of_stamps() {
        let table = table();
        let [pk, v, w] = ["pk", "v", "w"].map(|name| table.find(name).unwrap().0);
        let kinds = [StampKind::WriteTime, StampKind::TimeToLive];
        let [written, lives] = kinds.map(|kind| Stamp { column: v, kind });
        let mut selection = Selection::of(&table, &[written, lives], &[2, 0, 4]).unwrap();
        let output = ["w", "pk", "ttl(v)"];
        assert_eq!((selection.output(), selection.stamps()), (&[w, pk][..], &[lives][..]));
        assert_eq!(selection.places(), [0, 1, 2]);
        assert_eq!(names(&selection.schema(&table)), output);
        assert_eq!(names(&selection.read_schema(&table)), output);
        // What is there already is needed no second time.
        for id in [v, pk, v, w] {
            selection.need(id);
        }
        for stamp in [written, lives, written] {
            selection.need_stamp(stamp);
        }
        assert_eq!((selection.columns(), selection.output()), (&[w, pk, v][..], &[w, pk][..]));
        assert_eq!((selection.stamps(), selection.output_stamps()), (&[lives, written][..], 1));
        assert_eq!(selection.places(), [0, 1, 3]);
        assert_eq!(names(&selection.schema(&table)), output);
        let read = ["w", "pk", "v", "ttl(v)", "writetime(v)"];
        assert_eq!(names(&selection.read_schema(&table)), read);
        // On another node it is the same.
        let columns = (selection.columns().to_vec(), 2);
        let again = Selection::of_parts(columns, (selection.stamps().to_vec(), 1));
        assert_eq!((again.output(), again.places()), (selection.output(), selection.places()));
        assert_eq!(names(&again.schema(&table)), output);
    }

    #[test]
    fn stamps_are_asked_for_behind_all_columns_or_not_at_all() {
        let table = table();
        let column = table.find("w").unwrap().0;
        let stamps = [Stamp { column, kind: StampKind::WriteTime }];
        for (places, is_taken) in [
            (&[][..], true),
            (&[0, 1, 2], true),
            (&[2, 1], true),
            (&[3], true),
            (&[2, 3], true),
            (&[3, 2], false),
            (&[0, 3, 1], false),
        ] {
            let found = Selection::of(&table, &stamps, places);
            assert_eq!(found.is_ok(), is_taken, "{places:?}");
            if let Ok(found) = found {
                let counts = (found.output().len(), found.output_stamps());
                assert_eq!(counts.0 + counts.1, places.len(), "{places:?}");
                assert_eq!(counts.1, usize::from(places.contains(&3)), "{places:?}");
                assert_eq!(found.schema(&table).fields().len(), places.len(), "{places:?}");
            }
        }
    }
}
