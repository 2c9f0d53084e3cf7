//! What each strategy leaves of a load: all rows that live, in SSTables of its shape.

use super::*;
use crate::schema::WindowUnit;
use crate::sstable::SstableInfo;

#[test]
fn every_strategy_keeps_all_rows_and_its_shape() {
    for class in CompactionClass::ALL {
        run(async {
            let disk = SimulatedDisk::new(11);
            let world = open(&disk).await;
            let compaction = CompactionOptions {
                class,
                sstable_bytes: 1 << 20,
                min_sstable_bytes: 64 << 10,
                fanout: 2,
                window_unit: WindowUnit::Minutes,
                ..CompactionOptions::default()
            };
            let options = TableOptions { compaction, ..TableOptions::default() };
            let schema = TableSchema { options, ..definition() };
            let table = world.database.create_table(schema, false).await.unwrap();
            let mut wanted = std::collections::BTreeMap::new();
            for round in 0..40 {
                let timestamp = START_US + round * 20_000_000;
                let mut writes = Vec::new();
                for at in 0..3000 {
                    let (name, at) = (format!("p{}", (at * 7 + round) % 61), (at * 13) as i32);
                    wanted.insert((name.clone(), at), round);
                    writes.push(insert(&table, &name, at, round, timestamp));
                }
                world.database.apply_many(writes).await.unwrap();
                world.flush().await;
                world.clock.advance(Duration::from_secs(1));
            }
            world.settle().await;
            let columns = vec![ColumnId(2)];
            let read = ReadCommand { past_cache: true, columns, ..scan_of(&table, 0) };
            let mut found = values(&world.database, read).await;
            found.sort_unstable();
            let mut wanted: Vec<i64> = wanted.into_values().collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{class:?}");
            let reports = world.database.sstable_report().await.unwrap();
            let infos = reports.iter().map(|report| &report.status.info);
            check_shape(class, infos.collect());
            world.database.close().await.unwrap();
        });
    }
}

/// What each strategy promises of the SSTables of a table at rest.
fn check_shape(class: CompactionClass, infos: Vec<&SstableInfo>) {
    match class {
        CompactionClass::Incremental => {
            assert!((2..=12).contains(&infos.len()), "{} SSTables", infos.len());
            // A partition may be longer than a fragment is to be.
            let largest = infos.iter().map(|info| info.data_bytes).max().unwrap();
            assert!(largest < 3 << 19, "a fragment of {largest} bytes");
        }
        CompactionClass::SizeTiered => {
            assert!(infos.len() <= 8, "{} SSTables", infos.len());
        }
        CompactionClass::Leveled => {
            let deepest = infos.iter().map(|info| info.level).max().unwrap();
            assert!(deepest >= 1, "nothing has left level 0");
            for level in 1..=deepest {
                let mut one: Vec<_> = infos.iter().filter(|info| info.level == level).collect();
                one.sort_by(|a, b| a.first_key.cmp(&b.first_key));
                let is_disjoint = one.is_sorted_by(|a, b| a.last_key < b.first_key);
                assert!(is_disjoint, "level {level} overlaps: {one:?}");
            }
        }
        CompactionClass::TimeWindow => {
            let window = |info: &&SstableInfo| info.max_timestamp / 60_000_000;
            let mut windows: Vec<i64> = infos.iter().map(window).collect();
            windows.sort_unstable();
            let newest = *windows.last().unwrap();
            windows.retain(|window| *window != newest);
            assert!(windows.len() > 8, "{windows:?}");
            assert!(windows.is_sorted_by(|a, b| a < b), "two SSTables of one window: {windows:?}");
        }
    }
}

/// A row that lives for ten minutes.
fn short_lived(schema: &TableSchema, at: i32, now: i32) -> Mutation {
    let timestamp = i64::from(now) * 1_000_000;
    let mut mutation = Mutation::new(schema.id, key(schema, "a"));
    let row = Row {
        liveness: Some(Liveness::expiring(timestamp, 600, now + 600)),
        cells: vec![(ColumnId(2), Cell::expiring(timestamp, [0_u8; 8], 600, now + 600))],
        ..Row::default()
    };
    mutation.rows.push((ck(schema, at), row));
    mutation
}

#[test]
fn what_expires_leaves_the_disk_under_every_strategy() {
    for class in CompactionClass::ALL {
        run(async {
            let disk = SimulatedDisk::new(12);
            let world = open(&disk).await;
            let compaction = CompactionOptions {
                class,
                window_unit: WindowUnit::Minutes,
                window_size: 10,
                ..CompactionOptions::default()
            };
            let options =
                TableOptions { compaction, gc_grace_seconds: 60, ..TableOptions::default() };
            let schema = TableSchema { options, ..definition() };
            let table = world.database.create_table(schema, false).await.unwrap();
            let mut most = 0_u64;
            for minute in 0..150 {
                let now = world.clock.wall_seconds() as i32;
                let rows = (0..20).map(|at| short_lived(&table, minute * 20 + at, now)).collect();
                world.database.apply_many(rows).await.unwrap();
                world.flush().await;
                for _ in 0..600 {
                    world.clock.advance(Duration::from_millis(100));
                    tokio::task::yield_now().await;
                }
                let reports = world.database.sstable_report().await.unwrap();
                most = most.max(reports.iter().map(|report| report.status.info.rows).sum::<u64>());
            }
            // Ten minutes of life, one of grace, ten of a window, ten until it is looked at.
            assert!(most <= 40 * 20, "{class:?}: {most} rows at a time");
            let alive = world.values(true).await.len();
            assert!((180..=220).contains(&alive), "{class:?}: {alive} rows");
            assert_eq!(world.values(false).await.len(), alive);
            world.database.close().await.unwrap();
        });
    }
}
