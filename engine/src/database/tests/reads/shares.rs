//! What service levels get of a shard's thread, in simulated time.

use std::cell::Cell;
use std::pin::pin;

use futures::future::{Either, select};

use crate::admission::LevelOptions;
use crate::database::Scan;
use crate::database::tests::limits::{open, run};
use crate::database::tests::*;
use crate::disk::SimulatedDisk;

const ROWS: i32 = 30_000;

#[test]
fn a_scan_with_fewer_shares_gets_as_much_less_of_the_thread() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        for pk in ["a", "b"] {
            let all = (0..ROWS).map(|at| insert(&schema, pk, at, 1, 1)).collect();
            database.apply_many(all).await.unwrap();
        }
        for (shares, least, most) in [([1000, 1000], 0.7, 1.0), ([1000, 100], 0.0, 0.35)] {
            let mut levels = Vec::new();
            for (at, shares) in shares.into_iter().enumerate() {
                let name = format!("l{at}");
                let options = LevelOptions { shares: Some(shares), ..LevelOptions::default() };
                database.create_service_level(&name, options, false).await.unwrap();
                levels.push(database.catalog().service_level(&name).unwrap().id);
            }
            let counts = [Cell::new(0), Cell::new(0)];
            let read = async |at: usize| {
                let scan = Scan::new(&schema).partition(key(&schema, ["a", "b"][at]));
                let mut read = pin!(database.scan(scan.level(levels[at])));
                while let Some(batch) = read.next().await {
                    counts[at].set(counts[at].get() + batch.unwrap().num_rows());
                }
            };
            let (mut one, mut other) = (Box::pin(read(0)), Box::pin(read(1)));
            let is_first = matches!(select(&mut one, &mut other).await, Either::Left(_));
            drop((one, other));
            assert!(is_first || shares[1] == shares[0], "who has more shares is done first");
            let [first, second] = counts.map(|count| count.get() as f64 / f64::from(ROWS));
            let behind = first.min(second);
            assert!((least..=most).contains(&behind), "{shares:?}: {first} and {second}");
            for at in 0..2 {
                database.drop_service_level(&format!("l{at}"), false).await.unwrap();
            }
        }
        database.close().await.unwrap();
    });
}
