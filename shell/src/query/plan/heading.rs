//! Headings of a query's columns: what stands in its text. The planner's own names tell types and
//! tables (`Int64(1)`, `max(weather.temp)`).
//!
//! Invariant: only names change, and no two columns get one name.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::ops::ControlFlow;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast::{self, SelectItem, SetExpr, Statement};

/// Most characters of a heading; what is longer is cut.
const CHARACTERS_MAX: usize = 64;

/// What the text says of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heading {
    /// A column of a table or a name that was given: the planner has it.
    Known,
    Text(String),
    /// As many columns as there are.
    Wildcard,
}

/// Headings of the columns that a query selects; none where it is no SELECT.
pub fn headings(statement: &SqlStatement) -> Vec<Heading> {
    let SqlStatement::Statement(statement) = statement else { return Vec::new() };
    let Statement::Query(query) = &**statement else { return Vec::new() };
    first_select(&query.body).into_iter().flatten().map(heading).collect()
}

/// What the SELECT selects that names the columns.
fn first_select(body: &SetExpr) -> Option<&[SelectItem]> {
    let mut body = body;
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(&select.projection),
            SetExpr::Query(query) => &query.body,
            SetExpr::SetOperation { left, .. } => left,
            _ => return None,
        }
    }
}

fn heading(item: &SelectItem) -> Heading {
    match item {
        SelectItem::UnnamedExpr(ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)) => {
            Heading::Known
        }
        SelectItem::UnnamedExpr(expr) => Heading::Text(start_of(expr)),
        SelectItem::ExprWithAlias { .. } => Heading::Known,
        _ => Heading::Wildcard,
    }
}

/// The text of an expression, cut where it is long. No more of it is written than that.
fn start_of(expr: &ast::Expr) -> String {
    let mut start = Start { text: String::new(), left: CHARACTERS_MAX };
    let has_double = ast::visit_expressions(expr, |part| match double(part) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    let written = if has_double.is_break() {
        let mut expr = expr.clone();
        let _: ControlFlow<()> = ast::visit_expressions_mut(&mut expr, |part| {
            if let Some(number) = double(part) {
                *part = ast::Expr::value(number);
            }
            ControlFlow::Continue(())
        });
        write!(start, "{expr}")
    } else {
        write!(start, "{expr}")
    };
    if written.is_err() {
        start.text.pop();
        start.text.push('…');
    }
    start.text
}

/// A number with an exponent, of which the parser was told as a cast of a text. That text stands
/// where the number stands, so it is shorter than a text with its quotes.
fn double(expr: &ast::Expr) -> Option<ast::Value> {
    let ast::Expr::Cast { expr, .. } = expr else { return None };
    let ast::Expr::Value(ast::ValueWithSpan { value, span }) = &**expr else { return None };
    let ast::Value::SingleQuotedString(text) = value else { return None };
    let is_bare = span.end.column.checked_sub(span.start.column) == Some(text.len() as u64);
    is_bare.then(|| ast::Value::Number(text.clone(), false))
}

/// The first characters of what is written; an error ends the writing.
struct Start {
    text: String,
    left: usize,
}

impl Write for Start {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for character in more.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

/// The same query under headings. Of columns with one text the first has it.
pub fn with_headings(plan: LogicalPlan, headings: &[Heading]) -> Result<LogicalPlan> {
    let schema = plan.schema();
    let count = schema.fields().len();
    let wildcards = headings.iter().filter(|heading| **heading == Heading::Wildcard).count();
    let spread = match (count + wildcards).checked_sub(headings.len()) {
        Some(spread) if wildcards == 1 || spread == 0 && wildcards == 0 => spread,
        _ => return Ok(plan),
    };
    let mut texts = Vec::with_capacity(count);
    for heading in headings {
        match heading {
            Heading::Known => texts.push(None),
            Heading::Text(text) => texts.push(Some(text.as_str())),
            Heading::Wildcard => texts.extend((0..spread).map(|_| None)),
        }
    }
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let mut taken: HashSet<&str> = names.collect();
    for text in &mut texts {
        text.take_if(|text| !taken.insert(text));
    }
    if texts.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = schema
        .iter()
        .zip(texts)
        .map(|(field, text)| {
            let column = Expr::Column(Column::from(field));
            text.map_or(column.clone(), |text| column.alias(text))
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
