//! INSERT, UPDATE and DELETE: from a plan to mutations, without reading the table.
//!
//! UPDATE and DELETE are planned and optimised as queries, so that names, types, constants and
//! conditions mean what they mean in SELECT; then the conditions must be said by keys and slices
//! alone. A condition that needs a read of the row is refused.

use datafusion::logical_expr::{Expr, LogicalPlan};
use tidegate_engine::batch::{
    ElementChange, Expiry, WriteOptions, change_elements, expiry, put_value,
};
use tidegate_engine::{
    Cell, ClusteringKey, ColumnId, ColumnKind, DataType, MultiCell, Mutation, PartitionKey,
    RangeTombstone, Row, TableSchema, Tombstone, Value,
};

use super::column::{find_column, scalar_value};
use super::element::Changes;
use crate::query::error::{QueryError, Result};
use crate::query::parse::{Name, TableName};
use crate::query::scan::pushdown::{self, Access, Keys, Part};
use crate::query::scan::slices_text;
use crate::query::types::literal;

/// What an UPDATE or DELETE touches.
#[derive(Debug, Clone)]
pub struct Target {
    pub access: Access,
    /// The assigned values of an UPDATE, in the order of SET; `None` is null.
    pub values: Vec<(ColumnId, Option<Value>)>,
}

/// Reads the target off the optimised input of an UPDATE or DELETE. `None` when the conditions
/// contradict each other.
///
/// Errors: `Invalid` for conditions that keys and slices cannot say, and for values that are not
/// constant.
pub fn target(
    schema: &TableSchema,
    plan: &LogicalPlan,
    assigned: &[Name],
    verb: &str,
) -> Result<Option<Target>> {
    let mut values = Vec::new();
    let mut plan = plan;
    let filters = loop {
        match plan {
            LogicalPlan::EmptyRelation(_) => return Ok(None),
            LogicalPlan::Projection(projection) => {
                for name in assigned {
                    values.push(assigned_value(schema, projection, name)?);
                }
                plan = &projection.input;
            }
            LogicalPlan::SubqueryAlias(alias) => plan = &alias.input,
            LogicalPlan::TableScan(scan) if scan.fetch.is_none() => break scan.filters.as_slice(),
            _ => return Err(keys_only(verb)),
        }
    };
    let whose = if verb == "UPDATE" { Keys::Named } else { Keys::Own };
    let access = pushdown::decide_apart(schema, filters, whose);
    if access.is_empty() {
        return Ok(None);
    }
    if access.keys.is_none() {
        let columns: Vec<&str> =
            schema.partition_key().map(|column| column.name.as_str()).collect();
        return Err(QueryError::invalid(format!(
            "{verb} needs the whole partition key of {}: {}",
            schema.full_name(),
            columns.join(", ")
        ))
        .with_help(format!(
            "add WHERE {}; a write does not search for rows",
            columns.iter().map(|name| format!("{name} = …")).collect::<Vec<_>>().join(" AND ")
        )));
    }
    if !access.residual.is_empty() {
        return Err(keys_only(verb).with_help(format!(
            "SELECT the keys where {} and write these",
            access.residual.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
        )));
    }
    Ok(Some(Target { access, values }))
}

fn keys_only(verb: &str) -> QueryError {
    QueryError::unsupported(format!(
        "{verb} takes conditions on the partition key and on a prefix of the clustering key only"
    ))
    .with_help("SELECT the keys first and write these; a write does not search for rows")
}

fn assigned_value(
    schema: &TableSchema,
    projection: &datafusion::logical_expr::Projection,
    name: &Name,
) -> Result<(ColumnId, Option<Value>)> {
    let (id, column) = find_column(schema, name)?;
    let place = projection.schema.index_of_column_by_name(None, &name.value);
    let mut expr = place.map(|place| &projection.expr[place]);
    while let Some(Expr::Alias(alias)) = expr {
        expr = Some(&alias.expr);
    }
    let Some(Expr::Literal(scalar, _)) = expr else {
        return Err(QueryError::unsupported(format!(
            "the new value of '{}' is not a constant",
            name.value
        ))
        .at(name.span)
        .with_help("UPDATE writes without reading: SET takes constants and parameters"));
    };
    let value = scalar_value(scalar, &column.ty).map_err(|error| {
        let message = format!("column '{}': {}", name.value, error.message);
        QueryError { message, ..error }.at(name.span)
    })?;
    Ok((id, value))
}

/// Mutations of an UPDATE: one a partition.
///
/// Errors: `Invalid` when a regular column is assigned without the full clustering key.
pub fn update(
    schema: &TableSchema,
    table: &TableName,
    target: &Target,
    changes: &Changes,
    options: &WriteOptions,
) -> Result<Vec<Mutation>> {
    let expiry = expiry(schema, options)?;
    let assigned = target.values.iter().map(|(id, _)| id);
    if let Some(id) = assigned.chain(changes.columns()).find(|id| schema.column(**id).is_key()) {
        return Err(QueryError::invalid(format!(
            "'{}' is part of the key: a key does not change",
            schema.column(*id).name
        ))
        .at(table.table.span)
        .with_help("DELETE the row and INSERT it with its new key"));
    }
    let (mut fixed, mut regular) = (Row::default(), Row::default());
    for (id, value) in &target.values {
        let column = schema.column(*id);
        let row = if column.kind == ColumnKind::Static { &mut fixed } else { &mut regular };
        put_value(row, *id, column, value.as_ref(), options, expiry)
            .map_err(|error| QueryError::invalid(format!("column '{}': {error}", column.name)))?;
    }
    put_changes(schema, changes, (&mut fixed, &mut regular), options, expiry)?;
    write_rows(schema, table, target, (fixed, regular), "UPDATE")
}

/// Puts changes of single elements into the static row or the regular one.
fn put_changes(
    schema: &TableSchema,
    changes: &Changes,
    (fixed, regular): (&mut Row, &mut Row),
    options: &WriteOptions,
    expiry: Option<Expiry>,
) -> Result<()> {
    for (id, change) in &changes.list {
        let column = schema.column(*id);
        let row = if column.kind == ColumnKind::Static { &mut *fixed } else { &mut *regular };
        change_elements(row, *id, column, change, options, expiry, changes.place_us)
            .map_err(|error| QueryError::invalid(format!("column '{}': {error}", column.name)))?;
    }
    Ok(())
}

/// Mutations of a DELETE: tombstones of partitions, ranges, rows or cells.
///
/// Errors: `Invalid` when regular columns are named without the full clustering key.
pub fn delete(
    schema: &TableSchema,
    table: &TableName,
    columns: &[Name],
    target: &Target,
    changes: &Changes,
    options: &WriteOptions,
) -> Result<Vec<Mutation>> {
    let deletion_time = options.now_seconds;
    let tombstone = Tombstone { timestamp: options.timestamp, deletion_time };
    if !columns.is_empty() || !changes.list.is_empty() {
        let (mut fixed, mut regular) = (Row::default(), Row::default());
        for name in columns {
            let (id, column) = find_column(schema, name)?;
            if column.is_key() {
                return Err(QueryError::invalid(format!(
                    "'{}' is part of the key: DELETE the whole row instead",
                    name.value
                ))
                .at(name.span));
            }
            if column.ty == DataType::Counter {
                let message = format!("column '{}': a counter does not go by itself", name.value);
                let help = "one that was deleted by itself would never count again: DELETE the row";
                return Err(QueryError::invalid(message).at(name.span).with_help(help));
            }
            let row = if column.kind == ColumnKind::Static { &mut fixed } else { &mut regular };
            match column.ty.is_multi_cell() {
                true => row.put_multi(id, MultiCell::deleted(tombstone)),
                false => row.put(id, Cell::deleted(options.timestamp, deletion_time)),
            }
        }
        put_changes(schema, changes, (&mut fixed, &mut regular), options, None)?;
        return write_rows(schema, table, target, (fixed, regular), "DELETE of columns");
    }
    let has_clustering = !schema.clustering_key_ids().is_empty();
    let row = Row { deletion: Some(tombstone), ..Row::default() };
    let of_part = |part: Part| {
        let mut mutation = Mutation::new(schema.id, PartitionKey::from_bytes([]));
        match &part.rows {
            Some(rows) if has_clustering => {
                mutation.rows = rows.iter().map(|key| (key.clone(), row.clone())).collect();
            }
            _ if part.is_whole_partition() => mutation.deletion = Some(tombstone),
            _ => {
                let ranges = part.ranges.iter().cloned();
                mutation.range_tombstones =
                    ranges.map(|range| RangeTombstone { range, tombstone }).collect();
            }
        }
        part.keys.into_iter().map(move |key| Mutation { key, ..mutation.clone() })
    };
    Ok(target.access.parts().into_iter().flat_map(of_part).collect())
}

/// Writes static cells and, to every row of the target, regular ones.
fn write_rows(
    schema: &TableSchema,
    table: &TableName,
    target: &Target,
    (fixed, regular): (Row, Row),
    verb: &str,
) -> Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for part in target.access.parts() {
        let rows: &[ClusteringKey] = match &part.rows {
            _ if regular.is_empty() && part.is_whole_partition() => &[],
            Some(rows) => rows,
            None => {
                let columns: Vec<&str> =
                    schema.clustering_key().map(|column| column.name.as_str()).collect();
                return Err(QueryError::invalid(format!(
                    "{verb} needs the whole primary key of {}",
                    schema.full_name()
                ))
                .at(table.table.span)
                .with_help(format!(
                    "give every clustering column a value: {}",
                    columns.join(", ")
                )));
            }
        };
        mutations.extend(part.keys.iter().map(|key| {
            let mut mutation = Mutation::new(schema.id, key.clone());
            if !fixed.is_empty() {
                mutation.static_row = Some(fixed.clone());
            }
            if !regular.is_empty() {
                mutation.rows = rows.iter().map(|key| (key.clone(), regular.clone())).collect();
            }
            mutation
        }));
    }
    Ok(mutations)
}

/// What a write would do, for EXPLAIN.
pub fn explain(
    schema: &TableSchema,
    verb: &str,
    target: Option<&Target>,
    columns: &[Name],
    changes: &Changes,
) -> String {
    let mut text = format!("{verb}: table={}", schema.full_name());
    let Some(target) = target else {
        return format!("{text}, nothing: the conditions exclude each other");
    };
    let keys = target.access.keys.as_ref().map_or(0, Vec::len);
    text.push_str(&format!(", partitions={keys} key{}", if keys == 1 { "" } else { "s" }));
    let has_clustering = !schema.clustering_key_ids().is_empty();
    let has_rows = target.access.parts().iter().all(|part| part.rows.is_some());
    let what = match has_rows {
        _ if !columns.is_empty() || !changes.list.is_empty() => "cells",
        true if has_clustering => "row tombstones",
        _ if target.access.is_whole_partition() => "partition tombstone",
        _ => "range tombstones",
    };
    text.push_str(&format!(", writes={what}"));
    if !target.access.is_whole_partition() {
        text.push_str(&format!(", slices={}", slices_text(schema, &target.access.ranges)));
    }
    for (id, value) in &target.values {
        let value = value.as_ref().map_or_else(|| "null".to_owned(), literal::text);
        text.push_str(&format!(", {}={value}", schema.column(*id).name));
    }
    for (id, change) in &changes.list {
        let (sign, value) = match change {
            ElementChange::Add(value) => ("+", literal::text(value)),
            ElementChange::Prepend(value) => ("+ before", literal::text(value)),
            ElementChange::Count(by) => ("+", by.to_string()),
            ElementChange::Remove(paths) => {
                ("-", paths.iter().map(literal::text).collect::<Vec<_>>().join(", "))
            }
        };
        text.push_str(&format!(", {} {sign} {value}", schema.column(*id).name));
    }
    text
}
