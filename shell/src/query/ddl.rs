//! CREATE TABLE and CREATE TYPE to the engine's schema.

use tidegate_engine::{Catalog, Column, ColumnKind, TableId, TableSchema, UserType};

use super::error::{QueryError, Result, nearest};
use super::parse::{CreateTable, CreateType, TableName, unknown_type};

/// The user type of that name; without a keyspace it is one of `keyspace`.
fn find_type(catalog: &Catalog, keyspace: &str, name: &TableName) -> Result<UserType> {
    let keyspace = name.keyspace.as_ref().map_or(keyspace, |keyspace| &keyspace.value);
    let found = catalog.user_type(keyspace, &name.table.value).cloned();
    found.ok_or_else(|| {
        unknown_type(&name.table, catalog.types(keyspace).map(|ty| ty.name.as_str()))
    })
}

/// The type that a CREATE TYPE asks for.
///
/// Errors: `Invalid` at a field's type that is not there.
pub fn user_type(create: &CreateType, catalog: &Catalog, keyspace: &str) -> Result<UserType> {
    let find = |name: &TableName| find_type(catalog, keyspace, name);
    let field = |(name, ty): &(super::parse::Name, super::parse::TypeName)| {
        Ok((name.value.clone(), ty.resolve(&find)?))
    };
    let fields: Result<Vec<_>> = create.fields.iter().map(field).collect();
    Ok(UserType::new(keyspace, &create.name.table.value, fields?))
}

/// The schema that a CREATE TABLE asks for; its id is the engine's to give.
///
/// Errors: `Invalid` or `NotFound` at the column that is wrong.
pub fn table_schema(
    create: &CreateTable,
    catalog: &Catalog,
    keyspace: &str,
) -> Result<TableSchema> {
    let names: Vec<&str> = create.columns.iter().map(|column| column.name.value.as_str()).collect();
    let keys = create.partition_key.iter().chain(&create.clustering_key);
    for (n, key) in keys.clone().enumerate() {
        if !names.contains(&key.value.as_str()) {
            return Err(
                QueryError::not_found("key column", &key.value, names.iter().copied()).at(key.span)
            );
        }
        if keys.clone().take(n).any(|other| other.value == key.value) {
            return Err(
                QueryError::invalid(format!("'{}' is in the key twice", key.value)).at(key.span)
            );
        }
    }
    for (name, _) in &create.clustering_order {
        if !create.clustering_key.iter().any(|key| key.value == name.value) {
            let known = create.clustering_key.iter().map(|key| key.value.as_str());
            let error = QueryError::invalid(format!("'{}' is no clustering column", name.value))
                .at(name.span);
            return Err(match nearest(&name.value, known) {
                Some(near) => error.with_help(format!("did you mean '{near}'?")),
                None => error,
            });
        }
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    for (n, definition) in create.columns.iter().enumerate() {
        let name = &definition.name;
        if names[..n].contains(&name.value.as_str()) {
            return Err(QueryError::invalid(format!("column '{}' is defined twice", name.value))
                .at(name.span));
        }
        let kind = column_kind(create, n)?;
        let ty = definition.ty.resolve(&|name| find_type(catalog, keyspace, name))?;
        columns.push(Column { name: name.value.clone(), ty, kind });
    }
    let schema = TableSchema {
        id: TableId(0),
        keyspace: keyspace.to_owned(),
        name: create.name.table.value.clone(),
        columns,
        options: create.options.clone(),
    };
    schema.validate().map_err(|error| QueryError::from(error).at(create.name.table.span))?;
    Ok(schema)
}

fn column_kind(create: &CreateTable, n: usize) -> Result<ColumnKind> {
    let definition = &create.columns[n];
    let name = &definition.name.value;
    let place = |keys: &[super::parse::Name]| {
        keys.iter().position(|key| key.value == *name).map(|place| place as u16)
    };
    let kind = if let Some(position) = place(&create.partition_key) {
        ColumnKind::PartitionKey { position }
    } else if let Some(position) = place(&create.clustering_key) {
        let order = create.clustering_order.iter().find(|(column, _)| column.value == *name);
        let order = order.map_or(tidegate_engine::ClusteringOrder::Ascending, |(_, order)| *order);
        ColumnKind::ClusteringKey { position, order }
    } else if definition.is_static {
        return Ok(ColumnKind::Static);
    } else {
        return Ok(ColumnKind::Regular);
    };
    if definition.is_static {
        return Err(QueryError::invalid(format!("key column '{name}' cannot be static"))
            .at(definition.name.span));
    }
    Ok(kind)
}
