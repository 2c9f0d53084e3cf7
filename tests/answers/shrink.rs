//! Statements made smaller, a step at a time.

use super::ast::*;

/// Direct parts of an expression, subqueries left out.
fn children(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::Column(..) | Expr::Literal(_) | Expr::Exists(..) | Expr::Scalar(_) => Vec::new(),
        Expr::Unary(_, inner) | Expr::Cast(inner, ..) | Expr::Part(_, inner, _) => vec![inner],
        Expr::Binary(_, left, right, _) => vec![left, right],
        Expr::Between { value, low, high, .. } => vec![value, low, high],
        Expr::In { value, list, .. } => {
            let mut all: Vec<&mut Expr> = vec![value];
            all.extend(list);
            all
        }
        Expr::Row(_, left, right) => left.iter_mut().chain(right).collect(),
        Expr::InRows { row, list, .. } => row.iter_mut().chain(list.iter_mut().flatten()).collect(),
        Expr::InQuery { row, .. } => row.iter_mut().collect(),
        Expr::Every { value, .. } => vec![value],
        Expr::Like { value, .. } => vec![value],
        Expr::Case { value, arms, otherwise } => {
            let mut all: Vec<&mut Expr> = value.iter_mut().map(|value| &mut **value).collect();
            all.extend(arms.iter_mut().flat_map(|(when, then)| [when, then]));
            all.extend(otherwise.iter_mut().map(|otherwise| &mut **otherwise));
            all
        }
        Expr::Call(_, arguments) => arguments.iter_mut().collect(),
        Expr::Aggregate(aggregate) => {
            let parts = [&mut aggregate.argument, &mut aggregate.filter];
            parts.into_iter().flatten().map(|part| &mut **part).collect()
        }
        Expr::Window(window) => {
            let mut all: Vec<&mut Expr> = window.partition.iter_mut().collect();
            all.extend(window.order.iter_mut().map(|order| &mut order.expr));
            match &mut window.function {
                WindowFunction::Lag(expr, _)
                | WindowFunction::Lead(expr, _)
                | WindowFunction::FirstValue(expr)
                | WindowFunction::LastValue(expr)
                | WindowFunction::NthValue(expr, _)
                | WindowFunction::Over(_, Some(expr)) => all.push(expr),
                _ => {}
            }
            all
        }
    }
}

/// Calls `f` with an expression and everything in it.
pub fn visit(expr: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    f(expr);
    match expr {
        Expr::InQuery { query, .. }
        | Expr::Every { query, .. }
        | Expr::Exists(query, _)
        | Expr::Scalar(query) => visit_query(query, f),
        _ => {}
    }
    for child in children(expr) {
        visit(child, f);
    }
}

fn visit_source(source: &mut Source, f: &mut dyn FnMut(&mut Expr)) {
    match source {
        Source::Table(..) => {}
        Source::Query(query, _) => visit_query(query, f),
        Source::Join(_, left, right, on) => {
            visit_source(left, f);
            visit_source(right, f);
            on.iter_mut().for_each(|on| visit(on, f));
        }
    }
}

/// Calls `f` with every expression of a query.
pub fn visit_query(query: &mut Query, f: &mut dyn FnMut(&mut Expr)) {
    query.with.iter_mut().for_each(|(_, query)| visit_query(query, f));
    match &mut query.body {
        Body::Select(select) => {
            select.items.iter_mut().for_each(|(expr, _)| visit(expr, f));
            select.source.iter_mut().for_each(|source| visit_source(source, f));
            select.condition.iter_mut().for_each(|expr| visit(expr, f));
            select.group.iter_mut().for_each(|expr| visit(expr, f));
            select.having.iter_mut().for_each(|expr| visit(expr, f));
        }
        Body::Set(_, _, left, right) => {
            visit_query(left, f);
            visit_query(right, f);
        }
    }
    query.order.iter_mut().for_each(|order| visit(&mut order.expr, f));
}

/// Calls `f` with a query and all within it.
fn visit_queries(query: &mut Query, f: &mut dyn FnMut(&mut Query)) {
    f(query);
    query.with.iter_mut().for_each(|(_, query)| visit_queries(query, f));
    match &mut query.body {
        Body::Select(select) => {
            select.source.iter_mut().for_each(|source| queries_of_source(source, f));
        }
        Body::Set(_, _, left, right) => {
            visit_queries(left, f);
            visit_queries(right, f);
        }
    }
    let mut inner = |expr: &mut Expr| match expr {
        Expr::InQuery { query, .. }
        | Expr::Every { query, .. }
        | Expr::Exists(query, _)
        | Expr::Scalar(query) => f(query),
        _ => {}
    };
    visit_query(query, &mut inner);
}

fn queries_of_source(source: &mut Source, f: &mut dyn FnMut(&mut Query)) {
    match source {
        Source::Table(..) => {}
        Source::Query(query, _) => visit_queries(query, f),
        Source::Join(_, left, right, _) => {
            queries_of_source(left, f);
            queries_of_source(right, f);
        }
    }
}

/// Leaves a clause of a query out; `false` when there is no such step.
fn cut_query(query: &mut Query, step: usize) -> bool {
    let removed = |present: bool| present;
    match step {
        0 => return removed(query.limit.take().is_some()),
        1 => return removed(std::mem::take(&mut query.offset) > 0),
        2 => return query.order.pop().is_some(),
        3 if !query.order.is_empty() => {
            query.order.remove(0);
            return true;
        }
        _ => {}
    }
    let Body::Select(select) = &mut query.body else {
        if let Body::Set(_, _, left, right) = &query.body {
            let side = match step {
                4 => (**left).clone(),
                5 => (**right).clone(),
                _ => return false,
            };
            *query = side;
            return true;
        }
        return false;
    };
    match step {
        4 => select.condition.take().is_some(),
        5 => select.having.take().is_some(),
        6 => std::mem::take(&mut select.distinct),
        7..10 => {
            let side = match (&select.source, step) {
                (Some(Source::Join(_, left, _, _)), 7) => (**left).clone(),
                (Some(Source::Join(_, _, right, _)), 8) => (**right).clone(),
                (Some(Source::Join(JoinKind::Cross, ..)), _) => return false,
                (Some(Source::Join(_, left, right, on)), _) => {
                    Source::Join(JoinKind::Inner, left.clone(), right.clone(), on.clone())
                }
                _ => return false,
            };
            let is_new = select.source.as_ref() != Some(&side);
            select.source = Some(side);
            is_new
        }
        10..16 => {
            let at = step - 10;
            let is_there = at < select.items.len() && select.items.len() > 1;
            if is_there {
                select.items.remove(at);
            }
            is_there
        }
        16..19 => {
            let at = step - 16;
            let is_there = at < select.group.len();
            if is_there {
                select.group.remove(at);
            }
            is_there
        }
        _ => false,
    }
}

const QUERY_STEPS: usize = 19;

/// Everything that is one step smaller; not all of it is a query.
pub fn smaller(query: &Query) -> Vec<Query> {
    let mut found = Vec::new();
    let mut queries = 0;
    visit_queries(&mut query.clone(), &mut |_| queries += 1);
    for at in 0..queries {
        for step in 0..QUERY_STEPS {
            let mut copy = query.clone();
            let (mut seen, mut is_cut) = (0, false);
            visit_queries(&mut copy, &mut |query| {
                if seen == at {
                    is_cut = cut_query(query, step);
                }
                seen += 1;
            });
            if is_cut {
                found.push(copy);
            }
        }
    }
    let mut exprs = Vec::new();
    visit_query(&mut query.clone(), &mut |expr| {
        exprs.push((children(expr).len(), droppable(expr)));
    });
    for (at, (children_count, droppable)) in exprs.iter().enumerate() {
        for child in 0..children_count + droppable {
            let mut copy = query.clone();
            let mut seen = 0;
            visit_query(&mut copy, &mut |expr| {
                if seen == at {
                    if child < *children_count {
                        let part = children(expr)[child].clone();
                        *expr = part;
                    } else {
                        drop_part(expr, child - children_count);
                    }
                }
                seen += 1;
            });
            found.push(copy);
        }
    }
    found
}

/// Whether a query is one, as far as the model would not notice: what groups has groups or
/// aggregates, an order has no number alone, and columns have names of their own.
pub fn is_whole(query: &Query) -> bool {
    let mut is_whole = true;
    visit_queries(&mut query.clone(), &mut |query| {
        is_whole &= !query.order.iter().any(|order| matches!(order.expr, Expr::Literal(_)));
        let names = query.names();
        is_whole &= names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len();
        let Body::Select(select) = &mut query.body else { return };
        let mut has_aggregate = false;
        select.items.iter_mut().for_each(|(expr, _)| {
            visit(expr, &mut |expr| has_aggregate |= matches!(expr, Expr::Aggregate(_)));
        });
        let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(_));
        is_whole &= !select.group.iter().any(is_literal);
        is_whole &= !select.is_grouped || has_aggregate || !select.group.is_empty();
        let is_named_so = |(expr, name): &(Expr, String)| match expr {
            Expr::Column(_, column) => {
                column == name || name.starts_with(['r', 's', 'd', 'g', 'w'])
            }
            _ => true,
        };
        is_whole &= select.items.iter().all(is_named_so);
    });
    is_whole
}

/// How many parts an expression can do without.
fn droppable(expr: &Expr) -> usize {
    match expr {
        Expr::In { list, .. } if list.len() > 1 => list.len(),
        Expr::InRows { list, .. } if list.len() > 1 => list.len(),
        Expr::Case { arms, otherwise, .. } => {
            (if arms.len() > 1 { arms.len() } else { 0 }) + usize::from(otherwise.is_some())
        }
        Expr::Aggregate(aggregate) => usize::from(aggregate.filter.is_some()),
        Expr::Window(window) => window.partition.len(),
        _ => 0,
    }
}

fn drop_part(expr: &mut Expr, at: usize) {
    match expr {
        Expr::In { list, .. } => drop(list.remove(at)),
        Expr::InRows { list, .. } => drop(list.remove(at)),
        Expr::Case { arms, otherwise, .. } => {
            if arms.len() > 1 && at < arms.len() {
                arms.remove(at);
            } else {
                *otherwise = None;
            }
        }
        Expr::Aggregate(aggregate) => aggregate.filter = None,
        Expr::Window(window) => drop(window.partition.remove(at)),
        _ => {}
    }
}
