//! A program with Tidegate inside: writes, a row by its key, a reversed page, and work that runs
//! where the data lives.
//!
//! Run with `cargo run --release --example embed`. The data directory is temporary.

use futures::{FutureExt, TryStreamExt};
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::{
    ClusteringOrder, Column, ColumnKind, DataType, Database, Options, PartitionKey, Result, RowKey,
    Scan, SchemaRef, TableId, TableOptions, TableSchema, Value, WriteBatch,
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
        drops: Vec::new(),
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

fn key(schema: &SchemaRef, at: i64) -> Result<RowKey> {
    RowKey::from_values(schema, &[Value::Text("cellar".into()), Value::BigInt(at)])
}

async fn run(database: &Database) -> Result<()> {
    let schema = database.create_table(definition(), false).await?;

    // A thousand rows of one partition. They are on disk when `write` returns, and they are seen
    // together.
    let mut batch = WriteBatch::new(database.timestamp_us());
    for at in 0..1000_i64 {
        let value = Value::Double((at as f64).sqrt());
        batch.insert(&schema, key(&schema, at)?, &[("value", Some(value))])?;
    }
    database.write(batch).await?;

    // One row by its key: a future, or a call that blocks, for threads that are no runtime's.
    let row = database.get(&schema, key(&schema, 144)?).await?;
    println!("value at 144: {:?}", row.map(|row| row.value("value")).transpose()?);
    let again = database.get(&schema, key(&schema, 225)?).wait()?;
    println!("value at 225: {:?}", again.map(|row| row.value("value")).transpose()?);
    let many = database.get_many(&schema, vec![key(&schema, 1)?, key(&schema, 5000)?]).await?;
    println!("there of two: {}", many.iter().flatten().count());

    // The newest five, read backwards, as Arrow.
    let newest = Scan::new(&schema).partition_of(&[Value::Text("cellar".into())])?;
    let newest = newest.reversed().limit(5).columns(&["at", "value"])?;
    let batches: Vec<RecordBatch> = database.scan(newest).try_collect().await?;
    for batch in &batches {
        println!("{batch:#?}");
    }

    // A closure on the shard that owns the partition: no copy, no further hop.
    let id = schema.id;
    let partition = PartitionKey::from_values(&schema, &[Value::Text("cellar".into())])?;
    let stats = database
        .on_shard(&partition, move |shard| {
            async move { Ok(shard.table(id)?.stats()) }.boxed_local()
        })
        .await??;
    println!("rows in the shard's memtable: {}", stats.memtable_rows);
    Ok(())
}
