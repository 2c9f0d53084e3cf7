//! What must be alike on two nodes before one answers the other: the table of a read or a write,
//! and all definitions before one changes.
//!
//! Numbers that each node gives by itself are left out: ids of tables, and when a column was
//! dropped.

use serde_json::{Value, json};
use tidegate_engine::{Catalog, TableSchema};

/// Of a table: name, columns in their order, kinds and types. Options are each node's own matter.
pub(crate) fn of_table(table: &TableSchema) -> [u8; 32] {
    let columns = table.columns.iter().map(|column| {
        json!([column.name, column.ty.sql_name().to_string(), format!("{:?}", column.kind)])
    });
    let text = json!([table.keyspace, table.name, columns.collect::<Vec<Value>>()]).to_string();
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// Of all keyspaces, tables, types and views.
pub(crate) fn of_catalog(catalog: &Catalog) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut put = |kind: &str, text: &str| {
        hasher.update(&(kind.len() as u64).to_be_bytes());
        hasher.update(kind.as_bytes());
        hasher.update(&(text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    for keyspace in catalog.keyspaces() {
        put("keyspace", keyspace);
        for ty in catalog.types(keyspace) {
            put("type", &format!("{ty:?}"));
        }
    }
    let own =
        |table: &&std::sync::Arc<TableSchema>| !catalog.is_attached(&table.keyspace, &table.name);
    for table in catalog.all_tables().filter(own) {
        put("table", &tidegate_engine::hex::Hex(&of_table(table)).to_string());
    }
    for view in catalog.all_views() {
        put("view", &format!("{view:?}"));
    }
    *hasher.finalize().as_bytes()
}
