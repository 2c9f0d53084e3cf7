//! Writes that depend on what is there: one step of reading, judging and writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::join_all;

use super::*;
use crate::clock::SimulatedClock;
use crate::commitlog::Durability;
use crate::database::{ConditionalWrite, Decision, WriteBatch};
use crate::error::Error;
use crate::reader::{Comparator, Comparison, Condition, RowCondition};

const V: ColumnId = ColumnId(2);

async fn open(durability: Durability) -> (tempfile::TempDir, Database, SchemaRef) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { durability, shards: Some(2), ..Options::new(directory.path()) };
    let database = Database::open(options).await.unwrap();
    let mut definition = definition();
    definition.columns.push(column("s", DataType::Text, ColumnKind::Static));
    let schema = database.create_table(definition, false).await.unwrap();
    (directory, database, schema)
}

fn on_row(schema: &SchemaRef, at: i32, condition: Condition) -> Vec<RowCondition> {
    vec![RowCondition { row: Some(ck(schema, at)), condition }]
}

fn compares(comparator: Comparator) -> Condition {
    Condition::All(vec![Comparison { column: V, comparator }])
}

fn equals(value: i64) -> Condition {
    compares(Comparator::Equal(Some(Value::BigInt(value))))
}

async fn write_if(
    database: &Database,
    mutation: Mutation,
    conditions: Vec<RowCondition>,
) -> crate::error::Result<Decision> {
    database.write_if(ConditionalWrite { mutation, conditions }).await
}

/// Inserts where nothing is, or says what is there.
async fn insert_new(
    database: &Database,
    schema: &SchemaRef,
    (pk, at, value): (&str, i32, i64),
) -> Decision {
    let mutation = insert(schema, pk, at, value, database.timestamp_us());
    write_if(database, mutation, on_row(schema, at, Condition::NotExists)).await.unwrap()
}

fn values_of(decision: &Decision) -> Vec<Option<Value>> {
    let value = |row: &Option<crate::reader::RowValues>| row.as_ref()?.value("v").unwrap();
    decision.rows.iter().map(value).collect()
}

#[tokio::test]
async fn a_row_is_inserted_once_wherever_it_lies() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    assert!(insert_new(&database, &schema, ("a", 1, 10)).await.is_applied());
    for source in ["memtable", "SSTable", "cache"] {
        if source == "SSTable" {
            database.flush(None).await.unwrap();
            database.invalidate_cache(None).await.unwrap();
        }
        let refused = insert_new(&database, &schema, ("a", 1, 20)).await;
        assert!(!refused.is_applied(), "{source}");
        assert_eq!(values_of(&refused), [Some(Value::BigInt(10))], "{source}");
        let beside = insert_new(&database, &schema, ("a", 2, 20)).await;
        assert_eq!(beside.is_applied(), source == "memtable", "{source}");
    }
    let mut deletion = WriteBatch::new(database.timestamp_us());
    deletion.delete(&schema, (key(&schema, "a"), ck(&schema, 1)));
    database.write(deletion).await.unwrap();
    let again = insert_new(&database, &schema, ("a", 1, 30)).await;
    assert!(again.is_applied() && values_of(&again) == [None]);
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [30, 20]);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_static_row_alone_is_no_row() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    let mut of_partition = Mutation::new(schema.id, key(&schema, "a"));
    let cells = vec![(ColumnId(3), Cell::live(1, *b"static"))];
    of_partition.static_row = Some(Row { cells, ..Row::default() });
    database.apply(of_partition).await.unwrap();
    for source in ["memtable", "SSTable", "cache"] {
        if source == "SSTable" {
            database.flush(None).await.unwrap();
            database.invalidate_cache(None).await.unwrap();
        }
        let update = insert(&schema, "a", 1, 10, database.timestamp_us());
        let there = write_if(&database, update, on_row(&schema, 1, Condition::Exists)).await;
        assert!(!there.unwrap().is_applied(), "{source}");
    }
    assert!(insert_new(&database, &schema, ("a", 1, 10)).await.is_applied());
    assert!(!insert_new(&database, &schema, ("a", 1, 20)).await.is_applied());
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_row_that_has_expired_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let options = Options { clock: clock.clone(), ..Options::new(directory.path()) };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let mut batch = WriteBatch::new(database.timestamp_us()).time_to_live(5);
    let row = (key(&schema, "a"), ck(&schema, 1));
    batch.insert(&schema, row, &[("v", Some(Value::BigInt(1)))]).unwrap();
    let write = ConditionalWrite::new(batch, on_row(&schema, 1, Condition::NotExists)).unwrap();
    assert!(database.write_if(write.clone()).await.unwrap().is_applied());
    assert!(!database.write_if(write).await.unwrap().is_applied());
    clock.advance(std::time::Duration::from_secs(6));
    assert!(insert_new(&database, &schema, ("a", 1, 2)).await.is_applied());
    database.close().await.unwrap();
}

#[tokio::test]
async fn conditions_are_judged_on_values_and_null_is_no_number() {
    let (_directory, database, schema) = open(Durability::Periodic { ms: 1000 }).await;
    database.apply(insert(&schema, "a", 1, 5, 1)).await.unwrap();
    let number = |value| Value::BigInt(value);
    let cases = [
        (1, Comparator::Equal(Some(number(5))), true),
        (1, Comparator::Equal(Some(number(6))), false),
        (1, Comparator::NotEqual(None), true),
        (1, Comparator::Less(number(6)), true),
        (1, Comparator::GreaterOrEqual(number(6)), false),
        (1, Comparator::In(vec![None, Some(number(5))]), true),
        // A row that is not there has null in all columns.
        (2, Comparator::Equal(None), true),
        (2, Comparator::Less(number(6)), false),
    ];
    for (at, comparator, wanted) in cases {
        let text = format!("{at} {comparator:?}");
        // Writes to another row, so that no case changes what the next one sees.
        let mutation = insert(&schema, "a", 9, 1, database.timestamp_us());
        let conditions = on_row(&schema, at, compares(comparator));
        let decision = write_if(&database, mutation, conditions).await.unwrap();
        assert_eq!(decision.is_applied(), wanted, "{text}");
    }
    let exists = |at| on_row(&schema, at, Condition::Exists);
    let touch = || insert(&schema, "a", 9, 2, database.timestamp_us());
    assert!(write_if(&database, touch(), exists(1)).await.unwrap().is_applied());
    assert!(!write_if(&database, touch(), exists(2)).await.unwrap().is_applied());
    // All conditions of all rows.
    let both = [exists(1), on_row(&schema, 9, equals(7))].concat();
    let decision = write_if(&database, touch(), both).await.unwrap();
    assert_eq!(
        (decision.is_applied(), values_of(&decision)),
        (false, vec![Some(number(5)), Some(number(2))],)
    );
    database.close().await.unwrap();
}

/// Whichever of them fail, the first, the last or one between.
#[tokio::test]
async fn a_write_is_done_only_when_the_conditions_of_all_rows_hold() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    for at in 0..3 {
        database.apply(insert(&schema, "a", at, 5, 1)).await.unwrap();
    }
    for holding in 0..8_u32 {
        let condition = |at: i32| {
            let value = if holding & (1 << at) == 0 { 6 } else { 5 };
            RowCondition { row: Some(ck(&schema, at)), condition: equals(value) }
        };
        let conditions = (0..3).map(condition).collect();
        let mutation = insert(&schema, "a", 9, 7, database.timestamp_us());
        let decision = write_if(&database, mutation, conditions).await.unwrap();
        assert_eq!(decision.is_applied(), holding == 7, "those that hold: {holding:03b}");
        assert_eq!(values_of(&decision), vec![Some(Value::BigInt(5)); 3]);
        let found = count_rows(&database, &schema, "a").await.unwrap();
        assert_eq!(found, 3 + usize::from(holding == 7), "those that hold: {holding:03b}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_static_row_is_looked_at_without_the_rows_beside_it() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    let (shared, _) = schema.find("s").unwrap();
    let write = |text: &str| {
        let mut mutation = Mutation::new(schema.id, key(&schema, "a"));
        let mut row = Row::default();
        row.put(shared, Cell::live(database.timestamp_us(), text.as_bytes()));
        mutation.static_row = Some(row);
        mutation
    };
    let on_static = |condition| vec![RowCondition { row: None, condition }];
    let is = |text: Option<&str>| {
        let comparator = Comparator::Equal(text.map(|text| Value::Text(text.into())));
        on_static(Condition::All(vec![Comparison { column: shared, comparator }]))
    };
    database.apply(insert(&schema, "a", 1, 5, 1)).await.unwrap();
    let cases = [
        (is(Some("x")), "y", false),
        (on_static(Condition::Exists), "y", false),
        (on_static(Condition::NotExists), "x", true),
        (is(None), "y", false),
        (is(Some("x")), "y", true),
        (on_static(Condition::Exists), "z", true),
    ];
    for (conditions, text, wanted) in cases {
        database.flush(None).await.unwrap();
        let shown = format!("{conditions:?}");
        let decision = write_if(&database, write(text), conditions).await.unwrap();
        assert_eq!(decision.is_applied(), wanted, "{shown}");
    }
    // Static values stand beside the rows too.
    let beside = vec![RowCondition {
        row: Some(ck(&schema, 1)),
        condition: Condition::All(vec![Comparison {
            column: shared,
            comparator: Comparator::Equal(Some(Value::Text("z".into()))),
        }]),
    }];
    let update = insert(&schema, "a", 1, 6, database.timestamp_us());
    assert!(write_if(&database, update, beside).await.unwrap().is_applied());
    // A partition without anything else.
    let mut alone = write("only");
    alone.key = key(&schema, "b");
    let decision = write_if(&database, alone.clone(), on_static(Condition::NotExists)).await;
    assert!(decision.unwrap().is_applied());
    let decision = write_if(&database, alone, on_static(Condition::NotExists)).await.unwrap();
    assert!(!decision.is_applied() && decision.rows[0].is_some());
    database.close().await.unwrap();
}

/// A write with a timestamp of tomorrow hides what comes today, unless that depends on it.
#[tokio::test]
async fn what_is_applied_is_newer_than_what_it_has_read() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    let tomorrow = database.timestamp_us() + 86_400_000_000;
    database.apply(insert(&schema, "a", 1, 5, tomorrow)).await.unwrap();
    let update = |value| insert(&schema, "a", 1, value, database.timestamp_us());
    let decision = write_if(&database, update(6), on_row(&schema, 1, equals(5))).await.unwrap();
    assert_eq!(decision.applied_at_us, Some(tomorrow + 1));
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [6]);
    // Of the same moment, where the greater value would stand.
    let moment = tomorrow + 1;
    let decision =
        write_if(&database, insert(&schema, "a", 1, 4, moment), on_row(&schema, 1, equals(6)));
    assert_eq!(decision.await.unwrap().applied_at_us, Some(moment + 1));
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [4]);
    // Tombstones count as well: of a range, and of the partition.
    let mut deletion = Mutation::new(schema.id, key(&schema, "a"));
    let tombstone = |timestamp| Tombstone { timestamp, deletion_time: 1 };
    let range = ClusteringRange { start: Position::before(ck(&schema, 0)), end: Position::end() };
    let range = RangeTombstone { range, tombstone: tombstone(tomorrow + 100) };
    deletion.range_tombstones.push(range);
    database.apply(deletion).await.unwrap();
    database.flush(None).await.unwrap();
    database.invalidate_cache(None).await.unwrap();
    let decision = insert_new(&database, &schema, ("a", 1, 7)).await;
    assert_eq!(decision.applied_at_us, Some(tomorrow + 101));
    let mut deletion = Mutation::new(schema.id, key(&schema, "a"));
    deletion.deletion = Some(tombstone(tomorrow + 200));
    database.apply(deletion).await.unwrap();
    let decision = insert_new(&database, &schema, ("a", 1, 8)).await;
    assert_eq!(decision.applied_at_us, Some(tomorrow + 201));
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [8]);
    // And nothing is later than the latest.
    database.apply(insert(&schema, "a", 2, 5, i64::MAX)).await.unwrap();
    let late = write_if(&database, update(6), on_row(&schema, 2, Condition::Exists)).await;
    assert!(matches!(late, Err(Error::Invalid(_))), "{late:?}");
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_judged_is_refused() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    let write = || insert(&schema, "a", 1, 1, 1);
    let compare = |column, comparator| {
        on_row(&schema, 1, Condition::All(vec![Comparison { column, comparator }]))
    };
    let text = || Comparator::Equal(Some(Value::Text("x".into())));
    let no_row = vec![RowCondition { row: None, condition: equals(1) }];
    let part = vec![RowCondition { row: Some(ClusteringKey::empty()), condition: equals(1) }];
    let cases = [
        (Vec::new(), "has a condition"),
        (compare(V, text()), "wanted bigint"),
        (compare(ColumnId(0), text()), "part of the key"),
        (compare(ColumnId(77), text()), "no such column"),
        (no_row, "needs the key of a row"),
        (part, "a key of all its columns"),
    ];
    for (conditions, wanted) in cases {
        let refused = write_if(&database, write(), conditions).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains(wanted), "{refused}");
    }
    let nothing = Mutation::new(schema.id, key(&schema, "a"));
    let exists = on_row(&schema, 1, Condition::NotExists);
    assert!(write_if(&database, nothing, exists.clone()).await.unwrap().is_applied());
    let mut batch = WriteBatch::new(1);
    for pk in ["a", "b"] {
        batch.delete_partition(&schema, key(&schema, pk));
    }
    assert!(ConditionalWrite::new(batch, exists.clone()).is_err());
    database.close().await.unwrap();
    let closed = write_if(&database, write(), exists).await;
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

/// Sixty-four clients want the same row, for row after row, while others write to the partition.
async fn race(durability: Durability) {
    let (_directory, database, schema) = open(durability).await;
    let rounds = 12;
    let winners = Arc::new((0..rounds).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let clients = (0..64).map(|client| {
        let (database, schema, winners) = (database.clone(), schema.clone(), winners.clone());
        tokio::spawn(async move {
            for round in 0..rounds as i32 {
                let decision = insert_new(&database, &schema, ("a", round, client)).await;
                let winner = &winners[round as usize];
                if decision.is_applied() {
                    winner.fetch_add(1, Ordering::Relaxed);
                } else {
                    assert_ne!(values_of(&decision), [None], "round {round} was lost to nobody");
                }
            }
        })
    });
    let writers = (0..4).map(|writer| {
        let (database, schema) = (database.clone(), schema.clone());
        tokio::spawn(async move {
            for number in 0..20 {
                let at = |row| 1000 + 100 * writer + row;
                let stamp = database.timestamp_us();
                let writes = (0..5).map(|row| insert(&schema, "a", at(row), number, stamp));
                database.apply_many(writes.collect()).await.unwrap();
                database.apply(insert(&schema, "a", at(9), number, stamp)).await.unwrap();
            }
        })
    });
    for task in clients.chain(writers).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let won: Vec<u32> = winners.iter().map(|winner| winner.load(Ordering::Relaxed)).collect();
    assert_eq!(won, vec![1; rounds], "each row has exactly one winner");
    assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), rounds + 4 * 6);
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_clients_one_wins_each_row() {
    race(Durability::Sync).await;
    race(Durability::None).await;
}

/// Each client adds to one number by comparing and setting; nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_step_of_a_counter_is_lost() {
    for durability in [Durability::Sync, Durability::Periodic { ms: 1000 }] {
        let (_directory, database, schema) = open(durability).await;
        database.apply(insert(&schema, "a", 1, 0, 1)).await.unwrap();
        let clients = (0..8).map(|_| async {
            let (mut seen, mut steps) = (0, 0);
            while steps < 10 {
                let mutation = insert(&schema, "a", 1, seen + 1, database.timestamp_us());
                let conditions = on_row(&schema, 1, equals(seen));
                let decision = write_if(&database, mutation, conditions).await.unwrap();
                steps += i32::from(decision.is_applied());
                seen = match values_of(&decision)[..] {
                    [Some(Value::BigInt(seen))] => seen + i64::from(decision.is_applied()),
                    ref other => panic!("no number: {other:?}"),
                };
            }
        });
        join_all(clients).await;
        let left = rows(&database, &schema, Slice::full(Direction::Forward), None).await;
        assert_eq!(left, [80], "{durability:?}");
        database.close().await.unwrap();
    }
}

/// Batches that write to two partitions in turn, and conditional writes to both: nobody waits for
/// somebody who waits for him.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_and_conditional_writes_do_not_wait_for_each_other() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    let (database, schema) = (&database, &schema);
    let batches = (0..4).map(|_| async move {
        for number in 0..25 {
            let stamp = database.timestamp_us();
            let rows = ["a", "b", "a", "b"].map(|pk| insert(schema, pk, 1, number, stamp));
            database.apply_many(rows.into()).await.unwrap();
        }
    });
    let conditional = ["a", "b", "a", "b"].map(|pk| async move {
        for number in 0..25 {
            let condition = compares(Comparator::NotEqual(Some(Value::BigInt(-1))));
            let mutation = insert(schema, pk, 2, number, database.timestamp_us());
            let decision = write_if(database, mutation, on_row(schema, 1, condition)).await;
            assert!(decision.unwrap().is_applied());
        }
    });
    let all = futures::future::join(join_all(batches), join_all(conditional));
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), all).await;
    assert!(ended.is_ok(), "writes wait for each other for ever");
    database.close().await.unwrap();
}

/// Who gives up leaves the partition to the others.
#[tokio::test]
async fn a_client_that_goes_leaves_nothing_held() {
    let (_directory, database, schema) = open(Durability::Sync).await;
    for turns in 0..20 {
        let mutation = insert(&schema, "a", turns, 1, database.timestamp_us());
        let conditions = on_row(&schema, turns, Condition::NotExists);
        let mut deciding = Box::pin(write_if(&database, mutation, conditions));
        for _ in 0..turns {
            if futures::poll!(&mut deciding).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(deciding);
        let after = insert_new(&database, &schema, ("a", 1000 + turns, 1)).await;
        assert!(after.is_applied());
    }
    database.close().await.unwrap();
}
