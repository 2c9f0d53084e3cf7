//! Which partitions are asked most, as the database tells it.

use std::time::Duration;

use crate::admission::rate::HotPartition;
use crate::database::tests::limits::{open, run};
use crate::database::tests::*;
use crate::disk::SimulatedDisk;
use crate::error::Error;

#[test]
fn operations_and_refusals_are_told_by_partition_and_forgotten_with_time() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let mut limited = definition();
        limited.options.per_partition_rate_limit.max_reads_per_second = Some(1);
        let schema = database.create_table(limited, false).await.unwrap();
        for at in 0..8 {
            database.apply(insert(&schema, "hot", at, 1, 1)).await.unwrap();
        }
        let batch = (0..5).map(|at| insert(&schema, "warm", at, 1, 1)).collect();
        database.apply_many(batch).await.unwrap();
        let mut refused = 0;
        for number in 0..100 {
            let outcome = match number % 2 {
                0 => {
                    let key = (key(&schema, "hot"), ck(&schema, 1));
                    database.get(&schema, key).await.map(|_| ())
                }
                _ => {
                    let all = read_of(&schema, "hot", Slice::full(Direction::Forward), None);
                    database.read(all).try_for_each(async |_| Ok(())).await
                }
            };
            match outcome {
                Ok(()) => {}
                Err(Error::RateLimited { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(refused > 50, "{refused} of a hundred at once were refused");
        let told: Vec<HotPartition> =
            database.hot_partitions().await.unwrap().into_iter().map(|told| told.hot).collect();
        let hot = HotPartition {
            table: schema.id,
            key: key(&schema, "hot"),
            reads: 100,
            writes: 8,
            refused,
            missed_max: 0,
        };
        let warm = HotPartition {
            key: key(&schema, "warm"),
            reads: 0,
            writes: 5,
            refused: 0,
            ..hot.clone()
        };
        assert_eq!(told, [hot, warm]);
        clock.advance(Duration::from_secs(11));
        while database.hot_partitions().await.unwrap()[0].hot.reads == 100 {
            tokio::task::yield_now().await;
        }
        let halved = &database.hot_partitions().await.unwrap()[0].hot;
        assert_eq!((halved.reads, halved.writes), (50, 4));
        database.drop_table(&schema.keyspace, &schema.name, false).await.unwrap();
        assert!(database.hot_partitions().await.unwrap().is_empty(), "its table is gone");
        database.close().await.unwrap();
    });
}

/// A partition that is hammered costs its callers, not its shard, and is told of all the same.
#[test]
fn callers_refuse_what_is_far_beyond_the_limit() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let mut limited = definition();
        limited.options.per_partition_rate_limit.max_reads_per_second = Some(10);
        limited.options.per_partition_rate_limit.max_writes_per_second = Some(10);
        let schema = database.create_table(limited, false).await.unwrap();
        let mut refused = [0_u32; 3];
        for number in 0..30_000 {
            let ended = match number % 3 {
                0 => {
                    let key = (key(&schema, "hot"), ck(&schema, 1));
                    database.get(&schema, key).await.map(|_| ())
                }
                1 => {
                    let all = read_of(&schema, "hot", Slice::full(Direction::Forward), None);
                    database.read(all).try_for_each(async |_| Ok(())).await
                }
                _ => database.apply(insert(&schema, "hot", 1, 1, 1)).await,
            };
            match ended {
                Ok(()) => {}
                Err(Error::RateLimited { limit: 10, .. }) => refused[number % 3] += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(refused.iter().all(|refused| *refused > 9_800), "{refused:?}");
        let told = database.hot_partitions().await.unwrap()[0].hot.clone();
        assert_eq!((told.reads, told.writes), (20_000, 10_000));
        assert_eq!(told.refused, u64::from(refused.iter().sum::<u32>()));
        let report = database.rate_report().await.unwrap().remove(0);
        assert_eq!((report.reads, report.writes), (20_000, 10_000));
        assert_eq!(report.reads_refused, u64::from(refused[0] + refused[1]));
        assert_eq!(report.writes_refused, u64::from(refused[2]));
        let came: u64 =
            database.admission_report().await.unwrap().iter().map(|row| row.status.arrived).sum();
        assert!(came < 3_000, "{came} of 30,000 came to the shard");
        // Another limit holds at once.
        let name = (schema.keyspace.clone(), schema.name.clone());
        let free =
            |options: &mut TableOptions| options.per_partition_rate_limit = Default::default();
        database.alter_table(&name.0, &name.1, free).await.unwrap();
        let schema = database.catalog().table(&name.0, &name.1).unwrap().clone();
        for _ in 0..20 {
            let row = (key(&schema, "hot"), ck(&schema, 1));
            assert!(database.get(&schema, row).await.unwrap().is_some());
            database.apply(insert(&schema, "hot", 1, 1, 1)).await.unwrap();
        }
        database.close().await.unwrap();
        let row = (key(&schema, "hot"), ck(&schema, 1));
        assert!(matches!(database.get(&schema, row).await, Err(Error::Closed)));
    });
}
