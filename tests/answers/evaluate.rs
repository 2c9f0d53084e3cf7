//! The naive model: queries over vectors of rows, by nested loops, without any plan.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::aggregate::aggregate;
use super::ast::*;
use super::scalar;
use super::value::{Value, compare, sort_order};
use super::window::window;

pub type Row = Vec<Value>;

/// Why a query has no answer. The message is for people; that there is none is what counts.
pub type Outcome<T> = Result<T, String>;

/// Rows, and what their columns are called: alias of the table, and name.
#[derive(Debug, Clone, Default)]
pub struct Relation {
    pub columns: Vec<(String, String)>,
    pub rows: Vec<Row>,
}

/// A row, and those of the queries around.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub columns: &'a [(String, String)],
    pub row: &'a [Value],
    pub outer: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn find(&self, table: &str, name: &str) -> &Value {
        let is_it = |(alias, column): &&(String, String)| alias == table && column == name;
        match self.columns.iter().position(|column| is_it(&column)) {
            Some(at) => &self.row[at],
            None => match self.outer {
                Some(outer) => outer.find(table, name),
                None => panic!("the model does not know {table}.{name}"),
            },
        }
    }
}

/// Where an expression stands.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub scope: Scope<'a>,
    /// The rows that an aggregate is over.
    pub group: Option<&'a [Row]>,
    /// All rows of the select, and which this one is, for window functions.
    pub window: Option<(&'a [Row], usize)>,
}

/// The answer of a query before LIMIT and OFFSET are applied; `keys` are what it is sorted by.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Rows in order; those with equal keys in any.
    pub rows: Vec<(Row, Row)>,
    pub order: Vec<Order>,
}

/// Tables by name, those of WITH included.
#[derive(Clone)]
pub struct Model {
    pub tables: BTreeMap<String, Relation>,
}

impl Model {
    /// All rows of a query, sorted, without its LIMIT.
    pub fn answer(&self, query: &Query, outer: Option<&Scope<'_>>) -> Outcome<Answer> {
        let mut with = None;
        for (name, query) in &query.with {
            let model = with.get_or_insert_with(|| self.clone());
            let relation = model.relation(query, name, outer)?;
            model.tables.insert(name.clone(), relation);
        }
        let model = with.as_ref().unwrap_or(self);
        let mut rows = match &query.body {
            Body::Select(select) => model.select(select, &query.order, outer)?,
            Body::Set(operation, all, left, right) => {
                let (left, right) = (model.rows(left, outer)?, model.rows(right, outer)?);
                let rows = combine(*operation, *all, left, right);
                model.with_keys(query, rows, outer)?
            }
        };
        rows.sort_by(|(_, a), (_, b)| compare_keys(&query.order, a, b));
        Ok(Answer { rows, order: query.order.clone() })
    }

    /// The rows of a query within another.
    pub fn rows(&self, query: &Query, outer: Option<&Scope<'_>>) -> Outcome<Vec<Row>> {
        let rows = self.answer(query, outer)?.rows.into_iter().map(|(row, _)| row);
        Ok(rows.skip(query.offset).take(query.limit.unwrap_or(usize::MAX)).collect())
    }

    fn relation(&self, query: &Query, alias: &str, outer: Option<&Scope<'_>>) -> Outcome<Relation> {
        let columns = query.names().into_iter().map(|name| (alias.to_owned(), name)).collect();
        Ok(Relation { columns, rows: self.rows(query, outer)? })
    }

    /// Rows of a set operation with the keys of its ORDER BY, which names columns.
    fn with_keys(
        &self,
        query: &Query,
        rows: Vec<Row>,
        outer: Option<&Scope<'_>>,
    ) -> Outcome<Vec<(Row, Row)>> {
        let columns: Vec<(String, String)> =
            query.names().into_iter().map(|name| (String::new(), name)).collect();
        rows.into_iter()
            .map(|row| {
                let scope = Scope { columns: &columns, row: &row, outer };
                let place = Place { scope, group: None, window: None };
                let keys = self.keys(&query.order, &place)?;
                Ok((row, keys))
            })
            .collect()
    }

    fn keys(&self, order: &[Order], place: &Place<'_>) -> Outcome<Row> {
        order.iter().map(|order| self.value(&order.expr, place)).collect()
    }

    fn each(&self, exprs: &[Expr], place: &Place<'_>) -> Outcome<Row> {
        exprs.iter().map(|expr| self.value(expr, place)).collect()
    }

    fn source(&self, source: &Source, outer: Option<&Scope<'_>>) -> Outcome<Relation> {
        match source {
            Source::Table(name, alias) => {
                let table = &self.tables[name];
                let rename = |(_, name): &(String, String)| (alias.clone(), name.clone());
                let columns = table.columns.iter().map(rename).collect();
                Ok(Relation { columns, rows: table.rows.clone() })
            }
            Source::Query(query, alias) => self.relation(query, alias, outer),
            Source::Join(kind, left, right, on) => {
                let (left, right) = (self.source(left, outer)?, self.source(right, outer)?);
                self.join(*kind, &left, &right, on.as_ref(), outer)
            }
        }
    }

    fn join(
        &self,
        kind: JoinKind,
        left: &Relation,
        right: &Relation,
        on: Option<&Expr>,
        outer: Option<&Scope<'_>>,
    ) -> Outcome<Relation> {
        let columns = [left.columns.clone(), right.columns.clone()].concat();
        let mut rows = Vec::new();
        let mut is_right_met = vec![false; right.rows.len()];
        let nulls = |relation: &Relation| vec![Value::Null; relation.columns.len()];
        for left_row in &left.rows {
            let mut is_met = false;
            for (at, right_row) in right.rows.iter().enumerate() {
                let row = [left_row.clone(), right_row.clone()].concat();
                let holds = match on {
                    Some(on) => {
                        let scope = Scope { columns: &columns, row: &row, outer };
                        self.holds(on, &Place { scope, group: None, window: None })?
                    }
                    None => true,
                };
                if holds {
                    (is_met, is_right_met[at]) = (true, true);
                    rows.push(row);
                }
            }
            if !is_met && matches!(kind, JoinKind::Left | JoinKind::Full) {
                rows.push([left_row.clone(), nulls(right)].concat());
            }
        }
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            let unmet = right.rows.iter().zip(is_right_met).filter(|(_, is_met)| !is_met);
            rows.extend(unmet.map(|(row, _)| [nulls(left), row.clone()].concat()));
        }
        Ok(Relation { columns, rows })
    }

    fn select(
        &self,
        select: &Select,
        order: &[Order],
        outer: Option<&Scope<'_>>,
    ) -> Outcome<Vec<(Row, Row)>> {
        let source = match &select.source {
            Some(source) => self.source(source, outer)?,
            None => Relation { columns: Vec::new(), rows: vec![Vec::new()] },
        };
        let mut rows = Vec::new();
        for row in &source.rows {
            let scope = Scope { columns: &source.columns, row, outer };
            let holds = match &select.condition {
                Some(condition) => {
                    self.holds(condition, &Place { scope, group: None, window: None })?
                }
                None => true,
            };
            if holds {
                rows.push(row.clone());
            }
        }
        let mut found = Vec::new();
        let mut give = |place: &Place<'_>| -> Outcome<()> {
            let exprs: Vec<Expr> = select.items.iter().map(|(expr, _)| expr.clone()).collect();
            let row = self.each(&exprs, place)?;
            let keys = self.order_keys(select, order, &row, place)?;
            found.push((row, keys));
            Ok(())
        };
        if select.is_grouped {
            for group in self.groups(select, &source.columns, &rows, outer)? {
                let empty = vec![Value::Null; source.columns.len()];
                let row = group.first().unwrap_or(&empty);
                let scope = Scope { columns: &source.columns, row, outer };
                let place = Place { scope, group: Some(&group), window: None };
                let holds = match &select.having {
                    Some(having) => self.holds(having, &place)?,
                    None => true,
                };
                if holds {
                    give(&place)?;
                }
            }
        } else {
            for (at, row) in rows.iter().enumerate() {
                let scope = Scope { columns: &source.columns, row, outer };
                give(&Place { scope, group: None, window: Some((&rows, at)) })?;
            }
        }
        if select.distinct {
            let mut kept: Vec<(Row, Row)> = Vec::new();
            for (row, keys) in found {
                if !kept.iter().any(|(known, _)| is_equal_row(known, &row)) {
                    kept.push((row, keys));
                }
            }
            return Ok(kept);
        }
        Ok(found)
    }

    /// Keys without a table are columns of the result.
    fn order_keys(
        &self,
        select: &Select,
        order: &[Order],
        row: &Row,
        place: &Place<'_>,
    ) -> Outcome<Row> {
        let key = |order: &Order| match &order.expr {
            Expr::Column(table, name) if table.is_empty() => {
                let at = select.items.iter().position(|(_, item)| item == name);
                Ok(row[at.expect("ORDER BY names a column of the result")].clone())
            }
            expr => self.value(expr, place),
        };
        order.iter().map(key).collect()
    }

    fn groups(
        &self,
        select: &Select,
        columns: &[(String, String)],
        rows: &[Row],
        outer: Option<&Scope<'_>>,
    ) -> Outcome<Vec<Vec<Row>>> {
        if select.group.is_empty() {
            return Ok(vec![rows.to_vec()]);
        }
        let mut groups: Vec<(Row, Vec<Row>)> = Vec::new();
        for row in rows {
            let scope = Scope { columns, row, outer };
            let key = self.each(&select.group, &Place { scope, group: None, window: None })?;
            match groups.iter_mut().find(|(known, _)| is_equal_row(known, &key)) {
                Some((_, group)) => group.push(row.clone()),
                None => groups.push((key, vec![row.clone()])),
            }
        }
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }

    fn holds(&self, condition: &Expr, place: &Place<'_>) -> Outcome<bool> {
        Ok(self.truth(condition, place)? == Some(true))
    }

    /// The truth of a condition; `None` is unknown.
    fn truth(&self, condition: &Expr, place: &Place<'_>) -> Outcome<Option<bool>> {
        match self.value(condition, place)? {
            Value::Bool(bool) => Ok(Some(bool)),
            Value::Null => Ok(None),
            other => panic!("{other:?} is no condition"),
        }
    }

    /// The value of an expression.
    pub fn value(&self, expr: &Expr, place: &Place<'_>) -> Outcome<Value> {
        let truth = |truth: Option<bool>| truth.map_or(Value::Null, Value::Bool);
        Ok(match expr {
            Expr::Column(table, name) => place.scope.find(table, name).clone(),
            Expr::Literal(literal) => literal.value.clone(),
            Expr::Unary(unary, inner) => scalar::unary(*unary, &self.value(inner, place)?)?,
            Expr::Binary(Binary::Or, left, right, _) => {
                let (left, right) = (self.truth(left, place)?, self.truth(right, place)?);
                truth(or(left, right))
            }
            Expr::Binary(Binary::And, left, right, _) => {
                let (left, right) = (self.truth(left, place)?, self.truth(right, place)?);
                truth(and(left, right))
            }
            Expr::Binary(binary, left, right, ty) => {
                let (left, right) = (self.value(left, place)?, self.value(right, place)?);
                scalar::binary(*binary, &left, &right, *ty)?
            }
            Expr::Between { value, low, high, negated } => {
                let value = self.value(value, place)?;
                let (low, high) = (self.value(low, place)?, self.value(high, place)?);
                let is_above = compare(&value, &low).map(Ordering::is_ge);
                let is_below = compare(&value, &high).map(Ordering::is_le);
                truth(negate(and(is_above, is_below), *negated))
            }
            Expr::In { value, list, negated } => {
                let value = [self.value(value, place)?];
                let list: Outcome<Vec<Row>> =
                    list.iter().map(|item| Ok(vec![self.value(item, place)?])).collect();
                truth(negate(is_in(&value, &list?), *negated))
            }
            Expr::Row(binary, left, right) => {
                truth(compare_rows(*binary, &self.each(left, place)?, &self.each(right, place)?))
            }
            Expr::InRows { row, list, negated } => {
                let row = self.each(row, place)?;
                let list: Outcome<Vec<Row>> =
                    list.iter().map(|item| self.each(item, place)).collect();
                truth(negate(is_in(&row, &list?), *negated))
            }
            Expr::InQuery { row, query, negated } => {
                let row = self.each(row, place)?;
                let list = self.rows(query, Some(&place.scope))?;
                truth(negate(is_in(&row, &list), *negated))
            }
            Expr::Every { value, binary, query, is_all } => {
                let value = [self.value(value, place)?];
                let rows = self.rows(query, Some(&place.scope))?;
                let met = rows.iter().map(|row| compare_rows(*binary, &value, row));
                truth(match is_all {
                    true => met.fold(Some(true), and),
                    false => met.fold(Some(false), or),
                })
            }
            Expr::Exists(query, negated) => {
                Value::Bool(self.rows(query, Some(&place.scope))?.is_empty() == *negated)
            }
            Expr::Scalar(query) => match self.rows(query, Some(&place.scope))?.as_slice() {
                [] => Value::Null,
                [row] => row[0].clone(),
                _ => return Err("more than one row".into()),
            },
            Expr::Like { value, pattern, negated, ignore_case } => {
                let value = self.value(value, place)?;
                truth(negate(scalar::like(&value, pattern, *ignore_case), *negated))
            }
            Expr::Case { value, arms, otherwise } => {
                return self.case(value.as_deref(), arms, otherwise.as_deref(), place);
            }
            Expr::Cast(inner, ty, is_try) => match scalar::cast(&self.value(inner, place)?, *ty) {
                Err(_) if *is_try => Value::Null,
                cast => cast?,
            },
            Expr::Call(function, arguments) => {
                scalar::call(*function, &self.each(arguments, place)?)?
            }
            Expr::Part(part, inner, zone) => scalar::part(*part, &self.value(inner, place)?, zone),
            Expr::Aggregate(of) => {
                aggregate(self, of, place.group.expect("an aggregate has a group"), place)?
            }
            Expr::Window(of) => window(self, of, place.window.expect("a window has rows"), place)?,
        })
    }

    fn case(
        &self,
        value: Option<&Expr>,
        arms: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        place: &Place<'_>,
    ) -> Outcome<Value> {
        let value = value.map(|value| self.value(value, place)).transpose()?;
        for (when, then) in arms {
            let is_met = match &value {
                Some(value) => compare(value, &self.value(when, place)?) == Some(Ordering::Equal),
                None => self.holds(when, place)?,
            };
            if is_met {
                return self.value(then, place);
            }
        }
        otherwise.map_or(Ok(Value::Null), |otherwise| self.value(otherwise, place))
    }
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn negate(truth: Option<bool>, negated: bool) -> Option<bool> {
    truth.map(|truth| truth != negated)
}

/// Whether a row is in a list: unknown where a null hides whether it is.
#[expect(clippy::manual_try_fold, reason = "None is SQL's unknown, no failure")]
fn is_in(row: &[Value], list: &[Row]) -> Option<bool> {
    list.iter().fold(Some(false), |found, item| or(found, compare_rows(Binary::Equal, row, item)))
}

/// Rows as SQL compares them: all fields for equality, else the first that differs or is null.
#[expect(clippy::manual_try_fold, reason = "None is SQL's unknown, no failure")]
fn compare_rows(binary: Binary, left: &[Value], right: &[Value]) -> Option<bool> {
    let fields = || left.iter().zip(right).map(|(a, b)| compare(a, b));
    let is_equal = fields().fold(Some(true), |all, field| and(all, field.map(Ordering::is_eq)));
    match binary {
        Binary::Equal => return is_equal,
        Binary::Differs => return negate(is_equal, true),
        _ => {}
    }
    let first = fields().find(|field| *field != Some(Ordering::Equal));
    let order = first.unwrap_or(Some(Ordering::Equal))?;
    Some(scalar::is_met(binary, order))
}

/// Whether GROUP BY and DISTINCT take two rows for one.
pub fn is_equal_row(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| sort_order(a, b).is_eq())
}

/// Order of two rows by the keys of an ORDER BY.
pub fn compare_keys(order: &[Order], a: &[Value], b: &[Value]) -> Ordering {
    let each = order.iter().zip(a.iter().zip(b)).map(|(order, (a, b))| {
        let by_value = sort_order(a, b);
        let by_value = if order.descending { by_value.reverse() } else { by_value };
        match (order.nulls_first, a.is_null(), b.is_null()) {
            (Some(true), a, b) if a != b => b.cmp(&a),
            (Some(false), a, b) if a != b => a.cmp(&b),
            _ => by_value,
        }
    });
    each.fold(Ordering::Equal, Ordering::then)
}

fn combine(operation: SetOperation, all: bool, left: Vec<Row>, right: Vec<Row>) -> Vec<Row> {
    let mut rest = right;
    let mut take = |row: &Row| {
        let at = rest.iter().position(|other| is_equal_row(other, row));
        at.map(|at| rest.swap_remove(at)).is_some()
    };
    let mut rows: Vec<Row> = match (operation, all) {
        (SetOperation::Union, _) => [left, rest].concat(),
        (SetOperation::Intersect, true) => left.into_iter().filter(|row| take(row)).collect(),
        (SetOperation::Except, true) => left.into_iter().filter(|row| !take(row)).collect(),
        (SetOperation::Intersect, false) => {
            left.into_iter().filter(|row| rest.iter().any(|r| is_equal_row(r, row))).collect()
        }
        (SetOperation::Except, false) => {
            left.into_iter().filter(|row| !rest.iter().any(|r| is_equal_row(r, row))).collect()
        }
    };
    if !all {
        let mut kept: Vec<Row> = Vec::new();
        for row in rows {
            if !kept.iter().any(|known| is_equal_row(known, &row)) {
                kept.push(row);
            }
        }
        rows = kept;
    }
    rows
}
