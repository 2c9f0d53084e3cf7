//! EXCEPT ALL and INTERSECT ALL, which count how often a row is there.
//!
//! DataFusion 55.2 plans both as a join that only asks whether a row is on the other side: three
//! equal rows EXCEPT ALL one of them leave none, not two. Here the copies of a row are numbered on
//! both sides, and the number is one more column that must be equal: the third copy meets no
//! partner.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder, build_join_schema,
};

/// The column of numbers; the join's output does not have it.
const COPY: &str = "__tidegate_copy";

/// Numbers the copies of rows; goes after operands got a common type.
pub fn count_copies(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if is_of_set(&join) => Ok(Transformed::yes(counted(join)?)),
        plan => Ok(Transformed::no(plan)),
    }
}

/// Whether a join is a set operation with ALL. Before anything is optimised nothing else takes
/// nulls for equal, and without ALL there is a DISTINCT on the left, of whose rows there is one
/// copy anyway.
fn is_of_set(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(*join.left, LogicalPlan::Distinct(_))
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let left = numbered(&join.left, left_keys)?;
    let right = numbered(&join.right, right_keys)?;
    let copy = || Expr::Column(Column::new_unqualified(COPY));
    let mut on = join.on.clone();
    on.push((copy(), copy()));
    let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join.join_type)?);
    let (left, right) = (Arc::new(left), Arc::new(right));
    let join = LogicalPlan::Join(Join { left, right, on, schema, ..join });
    LogicalPlanBuilder::from(join).project(columns.into_iter().map(Expr::Column))?.build()
}

/// The plan with the number of each row among those with the same `keys`.
fn numbered(plan: &Arc<LogicalPlan>, keys: Vec<Expr>) -> Result<LogicalPlan> {
    let number = Expr::from(WindowFunction::new(row_number_udwf(), Vec::new()));
    let number = number.partition_by(keys).build()?.alias(COPY);
    LogicalPlanBuilder::from(Arc::clone(plan)).window([number])?.build()
}
