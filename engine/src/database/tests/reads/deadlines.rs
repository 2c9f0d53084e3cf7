//! Reads and writes that are wanted until some time.

use std::time::Duration;

use super::*;
use crate::admission::Terms;
use crate::clock::Deadline;
use crate::commitlog::Durability;
use crate::error::Error;

async fn open(directory: &std::path::Path) -> (Database, SchemaRef) {
    let options =
        Options { durability: Durability::None, shards: Some(1), ..Options::new(directory) };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    (database, schema)
}

fn after(database: &Database, within: Duration) -> Deadline {
    Deadline::after(within, &**database.clock())
}

fn until(deadline: Deadline) -> Terms {
    Terms { deadline: Some(deadline), ..Terms::default() }
}

#[tokio::test]
async fn what_comes_too_late_is_not_begun() {
    let directory = tempfile::tempdir().unwrap();
    let (database, schema) = open(directory.path()).await;
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    let over = after(&database, Duration::ZERO);
    let ample = after(&database, Duration::from_secs(3600));
    let whole = read_of(&schema, "a", Slice::full(Direction::Forward), None);
    let read = async |deadline| -> Result<Vec<RecordBatch>, Error> {
        database.read(ReadCommand { deadline: Some(deadline), ..whole.clone() }).try_collect().await
    };
    match read(over).await {
        Err(Error::Timeout { what, .. }) => assert_eq!(what, "a read waited for its turn"),
        other => panic!("a read behind its deadline: {other:?}"),
    }
    assert_eq!(read(ample).await.unwrap().len(), 1);
    let write = |at| vec![insert(&schema, "a", at, 1, 1), insert(&schema, "b", at, 1, 1)];
    for (number, writes) in [(2, write(2)), (3, vec![insert(&schema, "a", 3, 1, 1)])] {
        let written = database.under(until(over)).apply_many(writes).await;
        assert!(matches!(written, Err(Error::Timeout { .. })), "{number}: {written:?}");
    }
    assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 1);
    assert_eq!(count_rows(&database, &schema, "b").await.unwrap(), 0);
    database.under(until(ample)).apply_many(write(4)).await.unwrap();
    assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 2);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_read_that_is_not_done_in_time_says_so_behind_what_it_sent() {
    let directory = tempfile::tempdir().unwrap();
    let (database, schema) = open(directory.path()).await;
    let many = (0..50_000).map(|at| insert(&schema, "a", at, 1, 1)).collect();
    database.apply_many(many).await.unwrap();
    let whole = read_of(&schema, "a", Slice::full(Direction::Forward), None);
    let deadline = Some(after(&database, Duration::from_secs(1)));
    let mut read = database.read(ReadCommand { deadline, ..whole.clone() });
    assert!(read.next().await.unwrap().is_ok(), "it has begun");
    // Until then nobody takes anything.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut rows = 0;
    let error = loop {
        match read.next().await {
            Some(Ok(batch)) => rows += batch.num_rows(),
            Some(Err(error)) => break error,
            None => panic!("a read that was ended passes for a whole one"),
        }
    };
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("its 1s were over"), "{error}");
    assert!(rows < 50_000, "{rows}");
    // Its turn is another's.
    let all: Vec<RecordBatch> = database.read(whole).try_collect().await.unwrap();
    assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>(), 50_000);
    database.close().await.unwrap();
}
