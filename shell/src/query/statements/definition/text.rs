//! The statements that make what there is: keyspaces, user types, tables and views, in an order in
//! which they run.
//!
//! Invariant: what runs them has the same definitions; options that are those of a new table are
//! left out.

use std::fmt::Write;

use tidegate_engine::schema::named;
use tidegate_engine::{
    Catalog, ClusteringOrder, Column, ColumnKind, DataType, TableOptions, TableSchema, UserType,
    View,
};

use super::option_text::options;

/// `CREATE TABLE`.
pub fn table(table: &TableSchema) -> String {
    let mut text = format!("CREATE TABLE {}.{} (\n", named(&table.keyspace), named(&table.name));
    for column in table.present_columns() {
        let is_static = if column.kind == ColumnKind::Static { " STATIC" } else { "" };
        let _ = writeln!(text, "    {} {}{is_static},", named(&column.name), column.ty.sql_name());
    }
    let names = |columns: &mut dyn Iterator<Item = &Column>| {
        columns.map(|column| named(&column.name)).collect::<Vec<_>>().join(", ")
    };
    let mut key = names(&mut table.partition_key());
    if table.partition_key().count() > 1 {
        key = format!("({key})");
    }
    let clustering = names(&mut table.clustering_key());
    let separator = if clustering.is_empty() { "" } else { ", " };
    let _ = write!(text, "    PRIMARY KEY ({key}{separator}{clustering})\n)");
    let mut with = Vec::new();
    if table.clustering_key().any(|column| column.clustering_order() == ClusteringOrder::Descending)
    {
        let order = table.clustering_key().map(|column| {
            let order = match column.clustering_order() {
                ClusteringOrder::Ascending => "ASC",
                ClusteringOrder::Descending => "DESC",
            };
            format!("{} {order}", named(&column.name))
        });
        let order = order.collect::<Vec<_>>().join(", ");
        with.push(format!("CLUSTERING ORDER BY ({order})"));
    }
    let usual = options(&TableOptions::default());
    let differing = options(&table.options).into_iter().filter(|option| !usual.contains(option));
    with.extend(differing.map(|(name, value)| format!("{name} = {value}")));
    if !with.is_empty() {
        let _ = write!(text, " WITH {}", with.join("\n    AND "));
    }
    text.push(';');
    text
}

/// `CREATE TYPE`.
pub fn user_type(ty: &UserType) -> String {
    let fields =
        ty.fields.iter().map(|(name, ty)| format!("    {} {}", named(name), ty.sql_name()));
    let fields = fields.collect::<Vec<_>>().join(",\n");
    format!("CREATE TYPE {}.{} (\n{fields}\n);", named(&ty.keyspace), named(&ty.name))
}

/// `CREATE VIEW`.
pub fn view(view: &View) -> String {
    format!("CREATE VIEW {}.{} AS\n{};", named(&view.keyspace), named(&view.name), view.query)
}

/// The views among `wanted`, each behind those that it reads.
pub fn views<'a>(wanted: impl Iterator<Item = &'a View>) -> Vec<String> {
    let (mut left, mut all): (Vec<&View>, _) = (wanted.collect(), Vec::new());
    while !left.is_empty() {
        // No view reads itself through others, so one of them needs none that is left.
        let needs = |view: &View| left.iter().any(|other| view.reads(&other.keyspace, &other.name));
        let next = left.iter().position(|view| !needs(view));
        all.push(self::view(left.remove(next.unwrap_or(0))));
    }
    all
}

/// A keyspace with its types and tables; those that are attached come from files.
pub fn keyspace(catalog: &Catalog, name: &str) -> Vec<String> {
    let mut all = vec![format!("CREATE KEYSPACE IF NOT EXISTS {};", named(name))];
    let mut left: Vec<&UserType> = catalog.types(name).collect();
    while !left.is_empty() {
        // Types hold no circles, so one of them needs none of the others.
        let needs = |ty: &UserType, other: &UserType| {
            ty.fields.iter().any(|(_, field)| holds(field, &other.name))
        };
        let next = left.iter().position(|ty| !left.iter().any(|other| needs(ty, other)));
        all.push(user_type(left.remove(next.unwrap_or(0))));
    }
    let own = catalog.tables(name).filter(|table| !catalog.is_attached(name, &table.name));
    all.extend(own.map(|own| table(own)));
    all
}

/// Whether a value of the type may hold one of the user type of that name.
fn holds(ty: &DataType, name: &str) -> bool {
    match ty {
        DataType::User(user) => {
            user.name == name || user.fields.iter().any(|(_, field)| holds(field, name))
        }
        DataType::Frozen(inner) | DataType::List(inner) | DataType::Set(inner) => {
            holds(inner, name)
        }
        DataType::Map(key, value) => holds(key, name) || holds(value, name),
        DataType::Tuple(fields) => fields.iter().any(|field| holds(field, name)),
        _ => false,
    }
}
