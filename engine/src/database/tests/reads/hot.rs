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
