//! Conditions of a statement on the key columns of its table.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Column as PlanColumn, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::{ClusteringKey, ColumnId, PartitionKey, TableSchema};

use super::lookup::want;
use super::shape::{Condition, Operand};
use super::value::{compared, compared_type, plain_value};
use crate::query::scan::pushdown::{is_ordered_alike, is_plain};

/// Conditions that name a partition, all of which must hold.
pub struct Conditions {
    all: Vec<(ColumnId, Operator, Operand)>,
    exact: Option<Exact>,
}

/// Conditions that are nothing but `column = value`, of all columns of the partition key and of the
/// first of the clustering key, each once: which of them is about which column of the key.
struct Exact {
    partition: Vec<usize>,
    clustering: Vec<usize>,
}

impl Exact {
    fn of(table: &TableSchema, all: &[(ColumnId, Operator, Operand)]) -> Option<Self> {
        let is_taken = |(id, operator, _): &(ColumnId, Operator, Operand)| {
            *operator == Operator::Eq && is_plain(&table.column(*id).ty)
        };
        let place = |id: ColumnId| all.iter().position(|(named, ..)| *named == id);
        let partition: Vec<usize> =
            table.partition_key_ids().into_iter().map(place).collect::<Option<_>>()?;
        let clustering: Vec<usize> =
            table.clustering_key_ids().into_iter().map_while(place).collect();
        // Of two about one column, or one behind a column that is open, one has no place.
        let is_whole = partition.len() + clustering.len() == all.len();
        (is_whole && all.iter().all(is_taken)).then_some(Exact { partition, clustering })
    }
}

impl Conditions {
    /// Looks up the columns; `None` where one is no key column, where a value does not fit its
    /// column, or where no partition is named. `types` learns which parameters are wanted.
    pub fn of(
        table: &TableSchema,
        shapes: Vec<Condition>,
        types: &mut [ArrowType],
    ) -> Option<Self> {
        let mut conditions = Vec::with_capacity(shapes.len());
        for condition in shapes {
            let (id, column) = table.find(&condition.column.value)?;
            let ty = compared_type(column).filter(|_| column.is_key())?;
            let is_range = condition.operator != Operator::Eq;
            if is_range && !is_ordered_alike(&column.ty) {
                return None;
            }
            match &condition.value {
                Operand::Parameter(n) => want(types, *n, ty)?,
                constant => drop(compared(constant, &[], column)?),
            }
            conditions.push((id, condition.operator, condition.value));
        }
        let is_fixed = |wanted: ColumnId| {
            conditions.iter().any(|(id, op, _)| *id == wanted && *op == Operator::Eq)
        };
        let is_named = table.partition_key_ids().into_iter().all(is_fixed);
        let exact = Exact::of(table, &conditions);
        is_named.then_some(Conditions { all: conditions, exact })
    }

    /// The key that they name, and the prefix of a clustering key in it; `None` where they are
    /// other than equations, or where it takes a closer look at the values.
    pub fn key(
        &self,
        table: &TableSchema,
        values: &[ScalarValue],
    ) -> Option<(PartitionKey, ClusteringKey)> {
        let Exact { partition, clustering } = self.exact.as_ref()?;
        let value = |place: &usize| {
            let (id, _, operand) = &self.all[*place];
            plain_value(&compared(operand, values, table.column(*id))?)
        };
        let parts = |places: &[usize]| places.iter().map(value).collect::<Option<Vec<_>>>();
        let partition = PartitionKey::from_values(table, &parts(partition)?).ok()?;
        let clustering = ClusteringKey::from_values(table, &parts(clustering)?).ok()?;
        Some((partition, clustering))
    }

    /// Whether they are equations of the whole key of a row.
    pub fn name_a_row(&self, table: &TableSchema) -> bool {
        let clustering = self.exact.as_ref().map(|exact| exact.clustering.len());
        clustering == Some(table.clustering_key_ids().len())
    }

    /// The conditions as the planner would hand them to a scan.
    pub fn filters(&self, table: &TableSchema, values: &[ScalarValue]) -> Option<Vec<Expr>> {
        let filter = |(id, operator, operand): &(ColumnId, Operator, Operand)| {
            let column = table.column(*id);
            let value = Expr::Literal(compared(operand, values, column)?, None);
            let column = Expr::Column(PlanColumn::from_name(&column.name));
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(column), *operator, Box::new(value))))
        };
        self.all.iter().map(filter).collect()
    }
}
