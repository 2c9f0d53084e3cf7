//! Conditions of a statement on the key columns of its table.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Column as PlanColumn, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::{ColumnId, TableSchema};

use super::lookup::want;
use super::shape::{Condition, Operand};
use super::value::{compared, compared_type};
use crate::query::scan::pushdown::is_ordered_alike;

/// Conditions that name a partition, all of which must hold.
pub struct Conditions(Vec<(ColumnId, Operator, Operand)>);

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
        is_named.then_some(Conditions(conditions))
    }

    /// The conditions as the planner would hand them to a scan.
    pub fn filters(&self, table: &TableSchema, values: &[ScalarValue]) -> Option<Vec<Expr>> {
        let filter = |(id, operator, operand): &(ColumnId, Operator, Operand)| {
            let column = table.column(*id);
            let value = Expr::Literal(compared(operand, values, column)?, None);
            let column = Expr::Column(PlanColumn::from_name(&column.name));
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(column), *operator, Box::new(value))))
        };
        self.0.iter().map(filter).collect()
    }
}
