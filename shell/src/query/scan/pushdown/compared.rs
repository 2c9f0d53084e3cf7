//! Conditions that compare a regular column with a constant, for shards to judge by bytes of rows.

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::schema::{ColumnKind, TableSchema};
use tidegate_engine::{Comparator, Comparison};

use super::condition::{is_plain, literal};
use super::conjuncts;

/// What of these conditions, all of which must hold, are such comparisons. A scan checks them all
/// the same: shards leave out what fails for sure.
pub fn comparisons(schema: &TableSchema, conditions: &[Expr]) -> Vec<Comparison> {
    let conditions = conditions.iter().flat_map(conjuncts);
    conditions.filter_map(|condition| comparison(schema, condition)).collect()
}

fn comparison(schema: &TableSchema, condition: &Expr) -> Option<Comparison> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (column, constant, op) = match (&**left, &**right) {
        (Expr::Column(column), constant @ Expr::Literal(..)) => (column, constant, *op),
        (constant @ Expr::Literal(..), Expr::Column(column)) => (column, constant, op.swap()?),
        _ => return None,
    };
    let (id, column) = schema.find(&column.name)?;
    let is_decimal = matches!(column.ty, tidegate_engine::DataType::Decimal { .. });
    if column.kind != ColumnKind::Regular || !is_plain(&column.ty) && !is_decimal {
        return None;
    }
    let value = literal(column, constant)?;
    let comparator = match op {
        Operator::Eq => Comparator::Equal(Some(value)),
        Operator::Lt => Comparator::Less(value),
        Operator::LtEq => Comparator::LessOrEqual(value),
        Operator::Gt => Comparator::Greater(value),
        Operator::GtEq => Comparator::GreaterOrEqual(value),
        _ => return None,
    };
    Some(Comparison { column: id, comparator })
}
