//! Rows in expressions, `(a, b) > (1, 'x')`, taken apart before they are planned; and columns of
//! one name in one SELECT, told apart. ANY and ALL of a query, where they are IN and NOT IN.
//!
//! DataFusion makes a struct of a row, whose fields must have the types of the other's, takes
//! literals and names in it only, and no query of several columns after IN. What a row means is
//! said by its parts: `(a, b) = (x, y)` is `a = x AND b = y`, and an order is one of the first part
//! that differs. Rows within rows are their parts: `((a, b), c)` compares as `(a, b, c)`.
//!
//! Invariant: a comparison of n parts becomes conditions of about 2·log n levels, and one within
//! another is copied at most [`COPIED_MAX`] times with all its parts. So the tree stays about as
//! deep as `depth` says.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, Select, SelectItem, UnaryOperator, Value,
    VisitMut, VisitorMut, visit_expressions,
};

use super::{clauses, far_instant};
use crate::query::error::{ErrorKind, QueryError, Result};

/// The function that names a cast by what it casts to.
pub const NAMED_CAST: &str = "named_cast";
/// The function that a row before IN and the query after it are arguments of.
pub const ROW_IN: &str = "row_in";
/// Most parts that comparisons of rows copy of expressions with rows within them. An order has each
/// several times, so that there would be no end of copies of copies.
const COPIED_MAX: usize = 1 << 16;

/// Takes rows apart that are compared; whether there is a call of [`ROW_IN`] then.
///
/// Errors: `Invalid` for rows of different lengths; `Syntax` beyond [`COPIED_MAX`]; `Unsupported`
/// for SIMILAR TO, TOP and FETCH … WITH TIES.
pub fn take_apart(statement: &mut SqlStatement) -> Result<bool> {
    let mut rows = Rows { left: COPIED_MAX, has_query: false };
    visit(statement, &mut rows)?;
    Ok(rows.has_query)
}

/// Gives columns of one SELECT that would have one name different ones: `count(*)`, `count(*)_1`.
/// `all` names every expression by its text, and casts by what they cast to: the planner names a
/// cast after what it casts, also in GROUP BY.
pub fn tell_apart(statement: &mut SqlStatement, all: bool) -> Result<()> {
    visit(statement, &mut Names { all })
}

fn visit(
    statement: &mut SqlStatement,
    visitor: &mut impl VisitorMut<Break = QueryError>,
) -> Result<()> {
    match statement {
        SqlStatement::Statement(inner) => match VisitMut::visit(&mut **inner, visitor) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        },
        SqlStatement::Explain(explain) => visit(&mut explain.statement, visitor),
        _ => Ok(()),
    }
}

struct Rows {
    /// Parts of expressions that may still be copied.
    left: usize,
    /// Whether a row is looked for in a query.
    has_query: bool,
}

impl VisitorMut for Rows {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        match clauses::form(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        if matches!(expr, Expr::SimilarTo { .. }) {
            // DataFusion takes the pattern for a regular expression, where `%` and `_` stand for
            // themselves and the whole text need not match.
            let error = QueryError::unsupported("SIMILAR TO is not offered");
            let help = "LIKE takes patterns of % and _, and ~ takes a regular expression";
            return ControlFlow::Break(error.with_help(help));
        }
        far_instant::reach(expr);
        take_as_in(expr);
        match self.parts(expr) {
            Ok(Some(parts)) => {
                *expr = parts;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        // What is no name or literal is not taken in a row, but as an argument.
        if let Expr::Tuple(values) = expr
            && !matches!(
                values.first(),
                None | Some(Expr::Identifier(_) | Expr::Value(_) | Expr::CompoundIdentifier(_))
            )
        {
            *expr = call("struct", std::mem::take(values));
        }
        ControlFlow::Continue(())
    }
}

/// `x = ANY (query)` is `x IN (query)`, and `x <> ALL (query)` is `x NOT IN (query)`.
fn take_as_in(expr: &mut Expr) {
    let (left, right, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return,
    };
    if !matches!(**right, Expr::Subquery(_)) {
        return;
    }
    let take = |expr: &mut Expr| std::mem::replace(expr, Expr::value(Value::Null));
    let (left, Expr::Subquery(subquery)) = (Box::new(take(left)), take(right)) else { return };
    *expr = Expr::InSubquery { expr: left, subquery, negated };
}

fn call(name: &str, values: Vec<Expr>) -> Expr {
    let argument = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: values.into_iter().map(argument).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

impl Rows {
    /// A comparison of rows as one of their parts; `None` for anything else.
    fn parts(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        use BinaryOperator::{And, Eq, GtEq, LtEq, Or};
        Ok(Some(match expr {
            Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
                (Some(left), Some(right)) => return self.compared(left, op, right),
                _ => return Ok(None),
            },
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                let (Some(left), Some(right)) = (row(left), row(right)) else { return Ok(None) };
                let pairs = pairs(left, right)?;
                self.copy(&pairs, 1)?;
                let same = pairs.into_iter().map(|(left, right)| {
                    Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right.clone()))
                });
                let same = joined(same.collect(), &And);
                if matches!(expr, Expr::IsDistinctFrom(..)) { not(same) } else { same }
            }
            Expr::Between { expr, negated, low, high } => {
                let (Some(value), Some(low), Some(high)) = (row(expr), row(low), row(high)) else {
                    return Ok(None);
                };
                let above = self.compared(value, &GtEq, low)?;
                let below = self.compared(value, &LtEq, high)?;
                let (Some(above), Some(below)) = (above, below) else { return Ok(None) };
                let within = joined(vec![above, below], &And);
                if *negated { not(within) } else { within }
            }
            Expr::InList { expr, list, negated } => {
                let Some(value) = row(expr) else { return Ok(None) };
                let mut found = Vec::with_capacity(list.len());
                for item in list {
                    let Some(item) = row(item) else { return Ok(None) };
                    found.extend(self.compared(value, &Eq, item)?);
                }
                let found = joined(found, &Or);
                if *negated { not(found) } else { found }
            }
            Expr::InSubquery { expr, subquery, negated } => match row(expr) {
                Some(value) => {
                    self.has_query = true;
                    among(value, subquery, *negated)
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// `None` for an operator that does not compare.
    fn compared(
        &mut self,
        left: &[Expr],
        op: &BinaryOperator,
        right: &[Expr],
    ) -> Result<Option<Expr>> {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
        let pairs = pairs(left, right)?;
        let (strict, loose) = match op {
            Eq | NotEq => {
                self.copy(&pairs, 1)?;
                let each = pairs.into_iter().map(|pair| binary(pair, op)).collect();
                return Ok(Some(joined(each, if *op == Eq { &And } else { &Or })));
            }
            Lt | LtEq => (Lt, LtEq),
            Gt | GtEq => (Gt, GtEq),
            _ => return Ok(None),
        };
        let [first, _, ..] = pairs[..] else {
            self.copy(&pairs, 1)?;
            return Ok(pairs.into_iter().map(|pair| binary(pair, op)).next());
        };
        self.copy(&pairs, 2 + pairs.len().ilog2() as usize)?;
        // The first part alone says which slice to read.
        let bound = binary(first, &loose);
        Ok(Some(joined(vec![bound, order(&pairs, &strict, op)], &And)))
    }

    /// Counts what so many copies of each part take, where rows are within it.
    ///
    /// Errors: `Syntax` where that is too much.
    fn copy(&mut self, pairs: &[Pair<'_>], copies: usize) -> Result<()> {
        for part in pairs.iter().flat_map(|(left, right)| [left, right]) {
            let (mut parts, mut has_row) = (0, false);
            let _: ControlFlow<()> = visit_expressions(*part, |inner| {
                parts += 1;
                has_row |= matches!(inner, Expr::Tuple(_));
                ControlFlow::Continue(())
            });
            if has_row {
                self.left = self.left.checked_sub(parts * copies).ok_or_else(|| {
                    let message = "the statement has too many rows within rows";
                    QueryError::new(ErrorKind::Syntax, message)
                })?;
            }
        }
        Ok(())
    }
}

/// `(a, b) IN (SELECT …)` as a call of [`ROW_IN`], which the planner makes an EXISTS of.
fn among(value: &[Expr], subquery: &Query, negated: bool) -> Expr {
    let subquery = Box::new(subquery.clone());
    let exists = Expr::Exists { subquery, negated: false };
    let negated = Expr::value(Value::Boolean(negated));
    call(ROW_IN, [negated, exists].into_iter().chain(value.iter().cloned()).collect())
}

fn row(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) if !values.is_empty() => Some(values),
        Expr::Nested(inner) => row(inner),
        _ => None,
    }
}

/// Parts of two rows that stand side by side.
type Pair<'a> = (&'a Expr, &'a Expr);

/// The parts of two rows, those of rows within both of them in their place.
///
/// Errors: `Invalid` for rows of different lengths.
fn pairs<'a>(left: &'a [Expr], right: &'a [Expr]) -> Result<Vec<Pair<'a>>> {
    let mut found = Vec::with_capacity(left.len());
    pair_up(left, right, &mut found)?;
    Ok(found)
}

fn pair_up<'a>(left: &'a [Expr], right: &'a [Expr], found: &mut Vec<Pair<'a>>) -> Result<()> {
    if left.len() != right.len() {
        let (left, right) = (left.len(), right.len());
        let message = format!("a row of {left} values is compared with one of {right}");
        return Err(QueryError::invalid(message));
    }
    for pair in left.iter().zip(right) {
        match (row(pair.0), row(pair.1)) {
            (Some(left), Some(right)) => pair_up(left, right, found)?,
            _ => found.push(pair),
        }
    }
    Ok(())
}

/// The first half decides, or where it is the same, the second; `last` compares the last part.
fn order(pairs: &[Pair<'_>], strict: &BinaryOperator, last: &BinaryOperator) -> Expr {
    use BinaryOperator::{And, Eq, Or};
    if let [pair] = pairs {
        return binary(*pair, last);
    }
    let (half, rest) = pairs.split_at(pairs.len() / 2);
    let same = joined(half.iter().map(|pair| binary(*pair, &Eq)).collect(), &And);
    let by_rest = joined(vec![same, order(rest, strict, last)], &And);
    joined(vec![order(half, strict, strict), by_rest], &Or)
}

fn binary((left, right): Pair<'_>, op: &BinaryOperator) -> Expr {
    operation(left.clone(), op, right.clone())
}

fn operation(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::BinaryOp { left, op: op.clone(), right }
}

/// All conditions with an operator between them, as a tree that is not deep.
fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    if conditions.len() > 1 {
        let right = joined(conditions.split_off(conditions.len() / 2), op);
        let left = joined(conditions, op);
        return operation(left, op, right);
    }
    conditions.pop().unwrap_or_else(|| Expr::value(Value::Null))
}

fn not(expr: Expr) -> Expr {
    let expr = Box::new(Expr::Nested(Box::new(expr)));
    Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr }))
}

struct Names {
    all: bool,
}

impl VisitorMut for Names {
    type Break = QueryError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        if self.all && matches!(expr, Expr::Cast { .. }) {
            let cast = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = call(NAMED_CAST, vec![cast]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        let is_all = |item: &SelectItem| {
            !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
        };
        let has_all = select.projection.iter().any(is_all);
        let mut names = BTreeSet::new();
        for item in &mut select.projection {
            let (name, is_column) = match item {
                SelectItem::ExprWithAlias { alias, .. } => (alias.value.clone(), false),
                SelectItem::UnnamedExpr(expr) => match expr {
                    Expr::Identifier(name) => (name.value.to_lowercase(), true),
                    Expr::CompoundIdentifier(_) => continue,
                    other => (other.to_string().to_lowercase(), false),
                },
                _ => continue,
            };
            // Of all columns there may be each.
            if names.insert(name.clone()) && !(has_all && is_column) {
                if let (true, SelectItem::UnnamedExpr(expr)) = (self.all && !is_column, &*item) {
                    let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
                continue;
            }
            let free = (1usize..).map(|n| format!("{name}_{n}")).find(|new| !names.contains(new));
            let Some(free) = free else { continue };
            names.insert(free.clone());
            let alias = Ident::with_quote('"', free);
            match item {
                SelectItem::ExprWithAlias { alias: old, .. } => *old = alias,
                SelectItem::UnnamedExpr(expr) => {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}
