//! The table that an ingest makes: its columns by the types of the rows, its key by what the client
//! says.

use arrow::datatypes::Schema;
use arrow_flight::sql::CommandStatementIngest;
use tidegate_engine::batch::column_type;
use tidegate_engine::{ClusteringOrder, Column, ColumnKind, TableId, TableOptions, TableSchema};
use tonic::Status;

use crate::flight::error::{engine_status, invalid};
use crate::flight::session::FlightSession;
use crate::flight::session::option::PRIMARY_KEY;

/// Key of the Arrow schema's metadata that names the primary key.
const PRIMARY_KEY_METADATA: &str = "tidegate.primary_key";

/// The primary key of a table: its partition columns, and its clustering columns with their order.
struct Key {
    partition: Vec<String>,
    clustering: Vec<(String, ClusteringOrder)>,
}

impl Key {
    /// Reads `partition, columns; clustering, columns`.
    fn parse(text: &str) -> Self {
        let names = |part: &str| -> Vec<String> {
            part.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect()
        };
        let (partition, clustering) = text.split_once(';').unwrap_or((text, ""));
        let ascending = |name| (name, ClusteringOrder::Ascending);
        let clustering = names(clustering).into_iter().map(ascending).collect();
        Key { partition: names(partition), clustering }
    }

    /// The key that a table has.
    fn of(table: &TableSchema) -> Self {
        let order = |column: &Column| match column.kind {
            ColumnKind::ClusteringKey { order, .. } => order,
            _ => ClusteringOrder::Ascending,
        };
        Key {
            partition: table.partition_key().map(|column| column.name.clone()).collect(),
            clustering: table
                .clustering_key()
                .map(|column| (column.name.clone(), order(column)))
                .collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.partition.iter().chain(self.clustering.iter().map(|(name, _)| name))
    }

    /// What a column is in a table with this key.
    fn kind(&self, name: &str) -> ColumnKind {
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        if let Some(at) = self.partition.iter().position(|key| key == name) {
            return ColumnKind::PartitionKey { position: place(at) };
        }
        match self.clustering.iter().position(|(key, _)| key == name) {
            Some(at) => {
                ColumnKind::ClusteringKey { position: place(at), order: self.clustering[at].1 }
            }
            None => ColumnKind::Regular,
        }
    }
}

/// The key of a new table: what the client says, else that of the table `before` it, which was
/// dropped or is about to be replaced. A key that is guessed would merge rows.
fn new_key(
    session: &FlightSession,
    command: &CommandStatementIngest,
    rows: &Schema,
    before: Option<&TableSchema>,
) -> Result<Key, Status> {
    let option = session.options.lock().ok().and_then(|all| all.get(PRIMARY_KEY).cloned());
    let said = command
        .options
        .get("primary_key")
        .or_else(|| rows.metadata().get(PRIMARY_KEY_METADATA))
        .cloned()
        .or(option);
    let is_column = |name: &String| rows.fields().iter().any(|field| field.name() == name);
    let ways = format!(
        "set the session option '{PRIMARY_KEY}' (with ADBC the connection option \
         'adbc.flight.sql.session.option.{PRIMARY_KEY}'), or '{PRIMARY_KEY_METADATA}' in the metadata \
         of the Arrow schema, to 'partition, columns; clustering, columns', or create the table first"
    );
    let key = match (said, before) {
        (Some(text), _) => Key::parse(&text),
        (None, Some(table)) => {
            let key = Key::of(table);
            if let Some(name) = key.names().find(|name| !is_column(name)) {
                return Err(invalid(format!(
                    "the rows have no column '{name}', which was in the primary key of '{}': {ways}",
                    table.full_name()
                )));
            }
            key
        }
        (None, None) => return Err(invalid(format!("a new table needs a primary key: {ways}"))),
    };
    if let Some(name) = key.names().find(|name| !is_column(name)) {
        return Err(invalid(format!(
            "the primary key names '{name}', which is no column of the rows"
        )));
    }
    Ok(key)
}

/// A schema for rows like these.
///
/// Errors: INVALID_ARGUMENT for rows that no table can hold.
pub(super) fn new_table(
    session: &FlightSession,
    command: &CommandStatementIngest,
    keyspace: String,
    rows: &Schema,
    before: Option<&TableSchema>,
) -> Result<TableSchema, Status> {
    let key = new_key(session, command, rows, before)?;
    let columns = rows.fields().iter().map(|field| {
        let ty = column_type(field.data_type()).ok_or_else(|| {
            invalid(format!(
                "column '{}' has type {}, which no table can hold",
                field.name(),
                field.data_type()
            ))
        })?;
        let kind = key.kind(field.name());
        Ok(Column { name: field.name().clone(), ty, kind })
    });
    let table = TableSchema {
        id: TableId(0),
        keyspace,
        name: command.table.clone(),
        columns: columns.collect::<Result<_, Status>>()?,
        options: TableOptions::default(),
        drops: Vec::new(),
    };
    table.validate().map_err(engine_status)?;
    Ok(table)
}
