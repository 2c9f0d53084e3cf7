//! What a column of a plan is called one plan below.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The column of the input that stands behind a column of an alias or of a projection. `None` where
/// an expression makes it, and for all other plans.
pub(super) fn column_below(plan: &LogicalPlan, column: &Column) -> Option<Column> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let place = alias.schema.maybe_index_of_column(column)?;
            Some(Column::from(alias.input.schema().qualified_field(place)))
        }
        LogicalPlan::Projection(projection) => {
            let place = projection.schema.maybe_index_of_column(column)?;
            let mut expr = &projection.expr[place];
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            expr.try_as_col().cloned()
        }
        _ => None,
    }
}
