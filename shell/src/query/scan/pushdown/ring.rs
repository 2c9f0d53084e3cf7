//! Conditions on `token(…)`: where no condition names the partitions, they cut a stretch out of the
//! ring.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use tidegate_engine::schema::{TableSchema, Token};

use super::access::Access;
use crate::query::scan::token::arguments;

/// Takes those conditions out of what is checked row by row.
pub(super) fn decide(schema: &TableSchema, mut access: Access) -> Access {
    if access.keys.is_some() {
        return access;
    }
    let (mut min, mut max) = (Token::MIN.0, Token::MAX.0);
    let mut has_any = false;
    access.residual.retain(|expr| {
        let Some((least, greatest)) = stretch(schema, expr) else { return true };
        has_any = true;
        (min, max) = (min.max(least), max.min(greatest));
        false
    });
    access.tokens = has_any.then_some((Token(min), Token(max)));
    access
}

/// The least and the greatest token for which a condition holds: the first above the second where
/// it never does. `None` where it is no condition on the token of this table's key.
fn stretch(schema: &TableSchema, expr: &Expr) -> Option<(i64, i64)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (op, token) = match (is_token(schema, left), is_token(schema, right)) {
                (true, false) => (*op, number(right)?),
                (false, true) => (op.swap()?, number(left)?),
                _ => return None,
            };
            let none = (i64::MAX, i64::MIN);
            Some(match op {
                Operator::Eq => (token, token),
                Operator::GtEq => (token, i64::MAX),
                Operator::LtEq => (i64::MIN, token),
                Operator::Gt => token.checked_add(1).map_or(none, |token| (token, i64::MAX)),
                Operator::Lt => token.checked_sub(1).map_or(none, |token| (i64::MIN, token)),
                _ => return None,
            })
        }
        Expr::Between(Between { expr, negated: false, low, high }) if is_token(schema, expr) => {
            Some((number(low)?, number(high)?))
        }
        _ => None,
    }
}

/// Whether this is the token of the columns of the partition key, all of them and in order.
fn is_token(schema: &TableSchema, expr: &Expr) -> bool {
    let Some(columns) = arguments(expr) else { return false };
    let names = columns.iter().map(|column| match column {
        Expr::Column(column) => Some(column.name.as_str()),
        _ => None,
    });
    names.eq(schema.partition_key().map(|column| Some(column.name.as_str())))
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(token), _) => *token,
        _ => None,
    }
}
