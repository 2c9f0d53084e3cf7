//! Plans an INSERT or UPDATE: its input, without the planner's casts.
//!
//! The planner casts what is inserted to the types of the columns. Such a cast is told from one
//! that the statement has by counting both, and gives way to a conversion that changes nothing
//! (`assign`).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Column as PlanColumn, DFSchema};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast;
use tidegate_engine::batch::{arrow_schema, arrow_type};
use tidegate_engine::{Column, ColumnId, ColumnKind, DataType, TableSchema};

use super::column::find_column;
use crate::query::error::{QueryError, Result};
use crate::query::parse::{Name, Write};
use crate::query::types::assign;
use crate::query::types::number;

/// The columns of an INSERT: those that it names, or all.
///
/// Errors: `NotFound` at a name; `Invalid` where a key column is missing. One that writes static
/// columns alone needs no clustering key.
pub fn names(write: &Write, table: &TableSchema, columns: &[Name]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in columns {
        find_column(table, name)?;
        names.push(name.value.clone());
    }
    if columns.is_empty() {
        names.extend(table.present_columns().map(|column| column.name.clone()));
    }
    let is_named = |name: &str| names.iter().any(|known| known == name);
    if let Some(missing) = missing_key(table, |column| is_named(&column.name)) {
        return Err(QueryError::invalid(format!(
            "INSERT into {} lacks key column '{}'",
            table.full_name(),
            missing.name
        ))
        .at(write.table.table.span));
    }
    Ok(names)
}

/// The first column that rows of the named columns lack for their key. Those of static columns
/// alone need no clustering key.
pub fn missing_key(table: &TableSchema, is_named: impl Fn(&Column) -> bool) -> Option<&Column> {
    let named = || table.present_columns().filter(|column| is_named(column));
    let is_static_alone = named().any(|column| column.kind == ColumnKind::Static)
        && named().all(|column| {
            matches!(column.kind, ColumnKind::Static | ColumnKind::PartitionKey { .. })
        });
    let is_wanted = |kind: ColumnKind| match kind {
        ColumnKind::PartitionKey { .. } => true,
        ColumnKind::ClusteringKey { .. } => !is_static_alone,
        ColumnKind::Static | ColumnKind::Regular | ColumnKind::Dropped { .. } => false,
    };
    table.present_columns().find(|column| is_wanted(column.kind) && !is_named(column))
}

/// The query of an INSERT … SELECT.
pub fn selected(statement: &SqlStatement) -> Option<SqlStatement> {
    let SqlStatement::Statement(inner) = statement else { return None };
    let ast::Statement::Insert(insert) = &**inner else { return None };
    let source = insert.source.as_ref()?;
    if matches!(&*source.body, ast::SetExpr::Values(_)) {
        return None;
    }
    Some(SqlStatement::Statement(Box::new(ast::Statement::Query(source.clone()))))
}

/// The rows of a query as rows of the columns `names`.
///
/// Errors: `Invalid` where their numbers differ.
pub fn of_query(plan: LogicalPlan, table: &TableSchema, names: &[String]) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    if schema.fields().len() != names.len() {
        return Err(QueryError::invalid(format!(
            "the query has {} columns instead of {}: {}",
            schema.fields().len(),
            names.len(),
            names.join(", ")
        )));
    }
    let columns: Vec<Expr> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let value = Expr::Column(PlanColumn::from(schema.qualified_field(at)));
            to_column(value, table, name, &schema).alias(name)
        })
        .collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}

/// The types of the parameters that a query gives as they are, for the columns `names`: each by its
/// name and its column.
pub fn parameters(
    query: &LogicalPlan,
    table: &TableSchema,
    names: &[String],
) -> Vec<(String, ArrowType)> {
    let mut found = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let Some((_, column)) = table.find(name) else { continue };
        let mut given = Vec::new();
        given_at(query, at, &mut given);
        found.extend(given.into_iter().map(|id| (id, arrow_type(&column.ty))));
    }
    found
}

/// The parameters that are the values of a column of a plan.
fn given_at(plan: &LogicalPlan, at: usize, found: &mut Vec<String>) {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut expr = projection.expr.get(at);
            while let Some(Expr::Alias(alias)) = expr {
                expr = Some(&alias.expr);
            }
            match expr {
                Some(Expr::Placeholder(parameter)) if parameter.field.is_none() => {
                    found.push(parameter.id.clone());
                }
                Some(Expr::Column(column)) => {
                    let place = projection.input.schema().maybe_index_of_column(column);
                    place.into_iter().for_each(|at| given_at(&projection.input, at, found));
                }
                _ => {}
            }
        }
        LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            plan.inputs().into_iter().for_each(|input| given_at(input, at, found));
        }
        _ => {}
    }
}

/// A value as the column of that name takes it.
fn to_column(value: Expr, table: &TableSchema, name: &str, schema: &DFSchema) -> Expr {
    let Some((_, column)) = table.find(name) else { return value };
    match value.get_type(schema) {
        Ok(ty) if ty == arrow_type(&column.ty) => value,
        _ => assign::to_column(value, column),
    }
}

fn refused() -> QueryError {
    QueryError::unsupported("INSERT takes VALUES or SELECT")
}

/// How many casts are written around each of the VALUES of an INSERT, by rows.
///
/// Errors: `Unsupported` for another statement.
pub fn casts_of(statement: &SqlStatement) -> Result<Vec<Vec<usize>>> {
    let written = super::values::list(statement).ok_or_else(refused)?;
    let of_row = |row: &[ast::Expr]| row.iter().map(casts_written).collect();
    Ok(written.rows.iter().map(|row| of_row(&row.content)).collect())
}

/// The rows of the VALUES of a planned INSERT; `casts` are those of [`casts_of`].
///
/// Errors: `Unsupported` for another statement.
pub fn of_values(
    plan: LogicalPlan,
    casts: &[Vec<usize>],
    table: &TableSchema,
    names: &[String],
) -> Result<LogicalPlan> {
    let LogicalPlan::Dml(dml) = plan else { return Err(refused()) };
    let LogicalPlan::Projection(projection) = Arc::unwrap_or_clone(dml.input) else {
        return Err(refused());
    };
    let LogicalPlan::Values(values) = Arc::unwrap_or_clone(projection.input) else {
        return Err(refused());
    };
    let empty = DFSchema::empty();
    let rows = values.values.into_iter().zip(casts).map(|(row, casts)| {
        let parts = row.into_iter().zip(casts).zip(names);
        parts.map(|((value, casts), name)| to_column(uncast(value, *casts), table, name, &empty))
    });
    let rows: Vec<Vec<Expr>> = rows.map(Iterator::collect).collect();
    let ids: Vec<ColumnId> =
        names.iter().filter_map(|name| table.find(name).map(|(id, _)| id)).collect();
    let fields = arrow_schema(table, &ids).fields().clone();
    let fields = fields.iter().enumerate();
    // As the planner names them: an error of a null in a key says so.
    let fields =
        fields.map(|(n, field)| field.as_ref().clone().with_name(format!("column{}", n + 1)));
    let schema = DFSchema::from_unqualified_fields(fields.collect(), Default::default())?;
    let plan = LogicalPlan::Values(Values { schema: Arc::new(schema), values: rows });
    let columns = names.iter().enumerate().map(|(n, name)| {
        Expr::Column(PlanColumn::new_unqualified(format!("column{}", n + 1))).alias(name)
    });
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}

/// The input of a planned UPDATE. What is assigned keeps the type that it was written with.
///
/// Errors: those of planning.
pub fn of_update(
    plan: LogicalPlan,
    statement: &SqlStatement,
    table: &TableSchema,
) -> Result<LogicalPlan> {
    let (SqlStatement::Statement(inner), LogicalPlan::Projection(_)) = (statement, &plan) else {
        return Ok(plan);
    };
    let (ast::Statement::Update(update), LogicalPlan::Projection(projection)) = (&**inner, plan)
    else {
        unreachable!("only an UPDATE has a projection");
    };
    let assigned = |name: &str| {
        update.assignments.iter().find_map(|assignment| match &assignment.target {
            ast::AssignmentTarget::ColumnName(target) => {
                let ident = target.0.last()?.as_ident()?;
                (ident.value == name && table.find(name).is_some()).then_some(&assignment.value)
            }
            ast::AssignmentTarget::Tuple(_) => None,
        })
    };
    let exprs = projection.expr.into_iter().map(|expr| match expr {
        Expr::Alias(Alias { expr, relation, name, metadata }) => {
            let expr = match assigned(&name) {
                Some(written) => {
                    let value = uncast(*expr, casts_written(written));
                    Box::new(as_assigned(value, table, &name))
                }
                None => expr,
            };
            Expr::Alias(Alias { expr, relation, name, metadata })
        }
        other => other,
    });
    let projection = Projection::try_new(exprs.collect(), projection.input)?;
    Ok(LogicalPlan::Projection(projection))
}

/// A zero with a sign keeps it where it becomes a float.
fn as_assigned(value: Expr, table: &TableSchema, name: &str) -> Expr {
    let is_float = table
        .find(name)
        .is_some_and(|(_, column)| matches!(column.ty, DataType::Float | DataType::Double));
    let double = if is_float { number::double(&value) } else { None };
    double.unwrap_or(value)
}

/// Takes the planner's cast off a value, if there is one: one more than were written.
fn uncast(value: Expr, casts_written: usize) -> Expr {
    if casts(&value) <= casts_written {
        return value;
    }
    match value {
        Expr::Cast(cast) => *cast.expr,
        other => other,
    }
}

fn casts(value: &Expr) -> usize {
    match value {
        Expr::Cast(cast) => 1 + casts(&cast.expr),
        _ => 0,
    }
}

fn casts_written(written: &ast::Expr) -> usize {
    match written {
        ast::Expr::Cast { expr, .. } => 1 + casts_written(expr),
        ast::Expr::Nested(inner) => casts_written(inner),
        ast::Expr::TypedString(_) => 1,
        _ => 0,
    }
}
