//! Where the parts of a row go in a batch of some columns of a table: found out once for these
//! columns, and shared by the reads of a thread that want the same.
//!
//! Invariant: a layout is that of one schema, which is told from others by its place in memory; a
//! layout keeps that place from being another's.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;

use super::stamp::{Stamp, read_schema};
use crate::schema::order::Plain;
use crate::schema::table_schema::SchemaRef as TableSchemaRef;
use crate::schema::{ClusteringOrder, Column, ColumnId, ColumnKind, DataType, TableSchema};

/// Layouts that a thread keeps, those used last.
const LAYOUTS_MAX: usize = 16;

thread_local! {
    static RECENT: RefCell<Vec<Rc<Layout>>> = const { RefCell::new(Vec::new()) };
}

/// See the head of this file.
pub(super) struct Layout {
    table: Weak<TableSchema>,
    columns: Vec<ColumnId>,
    stamps: Vec<Stamp>,
    pub(super) arrow: SchemaRef,
    /// Where the components of the partition key go.
    pub(super) partition: Vec<(u16, usize)>,
    /// The clustering columns in key order, up to the last that is wanted.
    pub(super) clustering: Vec<ClusteringPart>,
    pub(super) statics: Vec<ValueColumn>,
    /// Sorted by column, as the cells of a row are.
    pub(super) regular: Vec<ValueColumn>,
    /// Of static and of regular columns, each with its place among the columns.
    pub(super) static_stamps: Vec<(Stamp, usize)>,
    pub(super) regular_stamps: Vec<(Stamp, usize)>,
}

/// A component of the clustering key.
pub(super) struct ClusteringPart {
    pub(super) ty: DataType,
    pub(super) order: ClusteringOrder,
    /// How most of its values are decoded, where that is simple.
    pub(super) plain: Option<Plain>,
    /// Places among the columns.
    pub(super) outputs: Vec<usize>,
}

/// A static or regular column.
#[derive(Clone, Copy)]
pub(super) struct ValueColumn {
    pub(super) id: ColumnId,
    pub(super) is_multi_cell: bool,
    /// Its place among the columns.
    pub(super) output: usize,
}

impl Layout {
    /// The layout of these columns, in that order, with stamps behind them.
    pub(super) fn of(
        schema: &TableSchemaRef,
        columns: &[ColumnId],
        stamps: &[Stamp],
    ) -> Rc<Layout> {
        RECENT.with_borrow_mut(|recent| {
            let is_wanted = |layout: &Rc<Layout>| layout.is_of(schema, columns, stamps);
            if let Some(at) = recent.iter().position(is_wanted) {
                recent[..=at].rotate_right(1);
                return recent[0].clone();
            }
            recent.truncate(LAYOUTS_MAX - 1);
            recent.insert(0, Rc::new(Layout::new(schema, columns, stamps)));
            recent[0].clone()
        })
    }

    fn is_of(&self, schema: &TableSchemaRef, columns: &[ColumnId], stamps: &[Stamp]) -> bool {
        std::ptr::eq(self.table.as_ptr(), Arc::as_ptr(schema))
            && self.columns == columns
            && self.stamps == stamps
    }

    fn new(schema: &TableSchemaRef, columns: &[ColumnId], stamps: &[Stamp]) -> Self {
        let part = |column: &Column| ClusteringPart {
            ty: column.ty.clone(),
            order: column.clustering_order(),
            plain: Plain::of(&column.ty, column.clustering_order()),
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
                ColumnKind::Static | ColumnKind::Dropped { was_static: true } => {
                    statics.push(value);
                }
                ColumnKind::Regular | ColumnKind::Dropped { was_static: false } => {
                    regular.push(value);
                }
            }
        }
        let wanted = clustering.iter().rposition(|part| !part.outputs.is_empty());
        clustering.truncate(wanted.map_or(0, |last| last + 1));
        regular.sort_by_key(|column| column.id);
        let stamped = stamps.iter().copied().zip(columns.len()..);
        let (static_stamps, regular_stamps) = stamped.partition(|(stamp, _)| {
            let kind = schema.column(stamp.column).kind;
            matches!(kind, ColumnKind::Static | ColumnKind::Dropped { was_static: true })
        });
        Layout {
            table: Arc::downgrade(schema),
            columns: columns.to_vec(),
            stamps: stamps.to_vec(),
            arrow: read_schema(schema, columns, stamps),
            partition,
            clustering,
            statics,
            regular,
            static_stamps,
            regular_stamps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::StampKind;
    use super::super::tests::table;
    use super::*;

    #[test]
    fn a_layout_is_shared_by_who_wants_the_same_of_the_same_schema() {
        let (schema, other) = (table(&DataType::Int), table(&DataType::Int));
        let both = [ColumnId(0), ColumnId(1)];
        let layout = Layout::of(&schema, &both, &[]);
        assert!(Rc::ptr_eq(&layout, &Layout::of(&schema, &both, &[])));
        for (schema, columns) in
            [(&other, &both[..]), (&schema, &both[1..]), (&schema, &[ColumnId(1), ColumnId(0)][..])]
        {
            let own = Layout::of(schema, columns, &[]);
            assert!(!Rc::ptr_eq(&layout, &own));
            assert_eq!(own.columns, columns);
        }
        assert!(Rc::ptr_eq(&layout, &Layout::of(&schema, &both, &[])));
    }

    #[test]
    fn a_layout_is_told_from_those_with_stamps_of_other_columns_or_kinds() {
        let mut schema = TableSchema::clone(&table(&DataType::Int));
        let other = Column { name: "w".into(), ..schema.columns[1].clone() };
        schema.columns.push(other);
        let schema = TableSchemaRef::new(schema);
        let columns = [ColumnId(0)];
        let stamp = |column, kind| Stamp { column: ColumnId(column), kind };
        let all = [
            vec![],
            vec![stamp(1, StampKind::WriteTime)],
            vec![stamp(2, StampKind::WriteTime)],
            vec![stamp(2, StampKind::TimeToLive)],
            vec![stamp(1, StampKind::WriteTime), stamp(2, StampKind::WriteTime)],
        ];
        for _ in 0..2 {
            for stamps in &all {
                assert_eq!(Layout::of(&schema, &columns, stamps).stamps, *stamps);
            }
        }
    }

    #[test]
    fn a_thread_keeps_the_layouts_used_last() {
        let hot = table(&DataType::Int);
        let layout = Layout::of(&hot, &[], &[]);
        let tables: Vec<TableSchemaRef> =
            (0..2 * LAYOUTS_MAX).map(|_| table(&DataType::Int)).collect();
        let first = Rc::downgrade(&Layout::of(&tables[0], &[], &[]));
        for table in &tables {
            Layout::of(table, &[], &[]);
            assert!(Rc::ptr_eq(&layout, &Layout::of(&hot, &[], &[])));
        }
        assert!(first.upgrade().is_none());
        assert_eq!(RECENT.with_borrow(Vec::len), LAYOUTS_MAX);
        // Where a schema was that is gone there is no other one: no layout is taken for another's.
        drop(tables);
        for _ in 0..4 * LAYOUTS_MAX {
            let schema = table(&DataType::Text);
            let layout = Layout::of(&schema, &[ColumnId(1)], &[]);
            assert!(layout.table.upgrade().is_some_and(|table| Arc::ptr_eq(&table, &schema)));
        }
    }
}
