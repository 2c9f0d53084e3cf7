//! Clauses of queries in the one form of them that DataFusion takes.
//!
//! Of `SELECT DISTINCT v + 1 … ORDER BY v + 1` DataFusion 55.2 takes the parts of the key for
//! columns that are missing among those selected. So a key that is selected becomes the number of
//! its column. `FETCH FIRST n ROWS ONLY` becomes `LIMIT n`. TOP, which DataFusion refuses, is
//! refused in words.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Distinct, Expr, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    visit_expressions_mut,
};

use crate::query::error::{QueryError, Result};

/// Brings the clauses of a query into form.
///
/// Errors: `Unsupported` for TOP, and for a FETCH that no LIMIT says.
pub fn form(query: &mut Query) -> Result<()> {
    if let SetExpr::Select(select) = &*query.body
        && select.top.is_some()
    {
        let error = QueryError::unsupported("TOP is not offered");
        return Err(error.with_help("write LIMIT n at the end of the query"));
    }
    fetch_as_limit(query)?;
    number_keys(query);
    Ok(())
}

fn fetch_as_limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        let error = QueryError::unsupported("FETCH takes a number of rows and ONLY");
        return Err(error.with_help("rank() OVER (ORDER BY …) in a query in FROM counts ties"));
    }
    let one = || Expr::value(Value::Number("1".to_owned(), false));
    let rows = fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            let (offset, limit_by) = (None, Vec::new());
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(rows), offset, limit_by });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return Err(QueryError::invalid("a query has LIMIT or FETCH, not both")),
    }
    Ok(())
}

/// Makes keys of ORDER BY that are selected numbers of their columns.
fn number_keys(query: &mut Query) {
    let SetExpr::Select(select) = &*query.body else { return };
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    for key in keys {
        if matches!(key.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
            continue;
        }
        let wanted = text_of(&key.expr, select);
        // Behind a `*` nobody knows the number yet.
        let known = select.projection.iter().map_while(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        let place = known.map(|expr| text_of(expr, select)).position(|text| text == wanted);
        if let Some(place) = place {
            key.expr = Expr::value(Value::Number((place + 1).to_string(), false));
        }
    }
}

/// The text of an expression; where there is one table only, without its name before columns.
fn text_of(expr: &Expr, select: &Select) -> String {
    let has_one_table = matches!(&select.from[..], [from] if from.joins.is_empty());
    let mut expr = expr.clone();
    if has_one_table {
        let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
            if let Expr::CompoundIdentifier(names) = part
                && names.len() == 2
                && let Some(name) = names.pop()
            {
                *part = Expr::Identifier(name);
            }
            ControlFlow::Continue(())
        });
    }
    expr.to_string()
}
