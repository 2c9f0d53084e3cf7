//! A program with Tidegate inside: writes, a reversed page, and work that runs where the data
//! lives.
//!
//! Run with `cargo run --release --example embed`. The data directory is temporary.

use futures::{FutureExt, TryStreamExt};
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, Database,
    Direction, Liveness, Mutation, Options, PartitionKey, Partitions, ReadCommand, Result, Row,
    Slice, TableId, TableOptions, TableSchema, Value,
};

fn definition() -> TableSchema {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: "reading".into(),
        columns: vec![
            column("sensor", DataType::Text, ColumnKind::PartitionKey { position: 0 }),
            column("at", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("value", DataType::Double, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let database = Database::open(Options::new(directory.path())).await?;
    run(&database).await?;
    database.close().await?;
    Ok(())
}

async fn run(database: &Database) -> Result<()> {
    let schema = database.create_table(definition(), false).await?;
    let key = PartitionKey::from_values(&schema, &[Value::Text("cellar".into())])?;

    // A thousand rows of one partition. Each write is on disk when `apply_many` returns; they share
    // their syncs.
    let mut writes = Vec::new();
    for at in 0..1000_i64 {
        let timestamp = database.timestamp_us();
        let value = (at as f64).sqrt();
        let mut mutation = Mutation::new(schema.id, key.clone());
        mutation.rows.push((
            ClusteringKey::from_values(&schema, &[Value::BigInt(at)])?,
            Row {
                liveness: Some(Liveness::at(timestamp)),
                cells: vec![(ColumnId(2), Cell::live(timestamp, value.to_be_bytes()))],
                ..Row::default()
            },
        ));
        writes.push(mutation);
    }
    database.apply_many(writes).await?;

    // The newest five, read backwards.
    let command = ReadCommand {
        schema: schema.clone(),
        partitions: Partitions::Keys(vec![key.clone()]),
        slice: Slice::full(Direction::Reversed),
        columns: vec![ColumnId(1), ColumnId(2)],
        row_limit: Some(5),
        past_cache: false,
    };
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await?;
    for batch in &batches {
        println!("{batch:#?}");
    }

    // A closure on the shard that owns the partition: no copy, no further hop.
    let id = schema.id;
    let stats = database
        .on_shard(&key, move |shard| async move { Ok(shard.table(id)?.stats()) }.boxed_local())
        .await??;
    println!("rows in the shard's memtable: {}", stats.memtable_rows);
    Ok(())
}
