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

#[cfg(test)]
mod tests {
    use tidegate_engine::{
        ClusteringOrder, Column, ColumnDrop, ColumnId, ColumnKind, DataType, TableId, TableOptions,
    };

    use super::*;

    fn column(name: &str, kind: ColumnKind) -> Column {
        Column { name: name.into(), ty: DataType::Int, kind }
    }

    /// `p | c | v, w`, all of them int.
    fn table() -> TableSchema {
        let order = ClusteringOrder::Ascending;
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("p", ColumnKind::PartitionKey { position: 0 }),
                column("c", ColumnKind::ClusteringKey { position: 0, order }),
                column("v", ColumnKind::Regular),
                column("w", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    type Change = (&'static str, fn(&mut TableSchema));

    #[test]
    fn tables_are_alike_where_values_mean_the_same() {
        let of_a_nodes_own: [Change; 3] = [
            ("number", |table| table.id = TableId(2)),
            ("options", |table| table.options.default_time_to_live = 7),
            ("drops", |table| table.drops.push(ColumnDrop { column: ColumnId(2), at: 5 })),
        ];
        for (what, change) in of_a_nodes_own {
            let mut changed = table();
            change(&mut changed);
            assert_ne!(changed, table(), "{what}");
            assert_eq!(of_table(&changed), of_table(&table()), "{what}");
        }
        let others: [Change; 10] = [
            ("keyspace", |table| table.keyspace = "other".into()),
            ("name", |table| table.name = "u".into()),
            ("name of a column", |table| table.columns[3].name = "x".into()),
            ("type", |table| table.columns[2].ty = DataType::BigInt),
            ("kind", |table| table.columns[2].kind = ColumnKind::Static),
            ("drop", |table| table.columns[2].kind = ColumnKind::Dropped { was_static: false }),
            ("order", |table| {
                let order = ClusteringOrder::Descending;
                table.columns[1].kind = ColumnKind::ClusteringKey { position: 0, order };
            }),
            ("places of columns", |table| table.columns.swap(2, 3)),
            ("a column more", |table| table.columns.push(column("x", ColumnKind::Regular))),
            ("a column less", |table| table.columns.truncate(3)),
        ];
        for (what, change) in others {
            let mut changed = table();
            change(&mut changed);
            assert_ne!(of_table(&changed), of_table(&table()), "{what}");
        }
    }
}
