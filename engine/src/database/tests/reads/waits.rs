//! What waited for its shard for too long is refused before it begins.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;

use crate::admission::{LevelOptions, Terms, Workload};
use crate::clock::{Deadline, SimulatedClock};
use crate::database::Scan;
use crate::database::tests::limits::{open, run};
use crate::database::tests::*;
use crate::disk::SimulatedDisk;
use crate::error::{Error, Overload};

const WITHIN: Duration = Duration::from_millis(100);

/// Asks, lets the shard come to it after so long, and waits for the answer.
async fn after<T>(
    clock: &SimulatedClock,
    wait: Duration,
    question: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut question = pin!(question);
    assert!(question.as_mut().now_or_never().is_none(), "its shard has not run yet");
    clock.advance(wait);
    question.await
}

fn why(refused: Result<impl std::fmt::Debug, Error>) -> (&'static str, &'static str) {
    match refused {
        Err(Error::Overloaded(Overload::Waited { whose, why, .. })) => (whose.reads, why),
        other => panic!("it waited for too long: {other:?}"),
    }
}

#[test]
fn what_has_little_of_its_time_left_is_not_begun() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
        let terms = || {
            let deadline = Some(Deadline::after(WITHIN, &*clock));
            Terms { deadline, ..Terms::default() }
        };
        let key = || (key(&schema, "a"), ck(&schema, 1));
        for (wait, is_served) in [(WITHIN / 2, true), (WITHIN * 3 / 4, false)] {
            let get = after(&clock, wait, database.under(terms()).get(&schema, key())).await;
            let keys = vec![key().into(), key().into()];
            let gets = after(&clock, wait, database.under(terms()).get_many(&schema, keys)).await;
            let whole = read_of(&schema, "a", Slice::full(Direction::Forward), None);
            let read = database.read(ReadCommand { deadline: terms().deadline, ..whole });
            let read = after(&clock, wait, read.try_collect::<Vec<_>>()).await;
            let write = insert(&schema, "b", i32::from(is_served), 1, 1);
            let write = after(&clock, wait, database.under(terms()).apply(write)).await;
            let (b, c) = (insert(&schema, "b", 7, 1, 1), insert(&schema, "c", 7, 1, 1));
            let writes = after(&clock, wait, database.under(terms()).apply_many(vec![b, c])).await;
            let parts = || vec![insert(&schema, "b", 8, 1, 1), insert(&schema, "d", 8, 1, 1)];
            let apart = database.under(terms()).apply_by_partition(parts());
            let apart = after(&clock, wait, apart).await;
            let logged = database.under(terms()).apply_logged(parts());
            let logged = after(&clock, wait, logged).await;
            if is_served {
                assert!(get.unwrap().is_some() && gets.unwrap().iter().all(Option::is_some));
                assert_eq!(read.unwrap().len(), 1);
                for written in [write, writes, apart, logged] {
                    written.unwrap();
                }
                continue;
            }
            for (reads, refused) in [
                ("reads of partitions", why(get)),
                ("reads of partitions", why(gets)),
                ("reads of partitions", why(read)),
                ("writes", why(write)),
                ("writes", why(writes)),
                ("writes", why(apart)),
                ("writes", why(logged)),
            ] {
                assert_eq!(refused.0, reads);
                assert!(refused.1.contains("time that is left"), "{refused:?}");
            }
        }
        let report = database.admission_report().await.unwrap();
        let keys = report.iter().find(|class| class.class == "keys").unwrap().status;
        assert_eq!((keys.running, keys.memory_bytes, keys.refused), (0, 0, 3));
        assert_eq!(count_rows(&database, &schema, "b").await.unwrap(), 3, "none was half done");
        assert_eq!(count_rows(&database, &schema, "d").await.unwrap(), 1);
        database.close().await.unwrap();
    });
}

#[test]
fn interactive_work_does_not_wait_for_its_shard_for_long() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
        for (name, workload) in [
            ("person", Some(Workload::Interactive)),
            ("bulk", Some(Workload::Batch)),
            ("any", None),
        ] {
            let options = LevelOptions { workload, ..LevelOptions::default() };
            database.create_service_level(name, options, false).await.unwrap();
            let level = database.catalog().service_level(name).unwrap().id;
            let under = database.under(Terms { level, deadline: None });
            for (ms, is_served) in [(40, true), (60, workload != Some(Workload::Interactive))] {
                let wait = Duration::from_millis(ms);
                let row = (key(&schema, "a"), ck(&schema, 1));
                let get = after(&clock, wait, under.get(&schema, row)).await;
                let scan = Scan::new(&schema).partition(key(&schema, "a")).level(level);
                let scan = after(&clock, wait, database.scan(scan).try_collect::<Vec<_>>()).await;
                let write = insert(&schema, "a", 1, 1, 1);
                let write = after(&clock, wait, under.apply(write)).await;
                if is_served {
                    assert!(get.unwrap().is_some() && scan.unwrap().len() == 1, "{name}");
                    write.unwrap();
                    continue;
                }
                for refused in [why(get), why(scan), why(write)] {
                    assert!(refused.1.contains("not kept waiting"), "{name}: {refused:?}");
                }
            }
        }
        let (_, _, person) =
            database.service_level_report().await.unwrap().into_iter().nth(3).unwrap();
        assert_eq!((person.refused, person.admitted), (3, 2), "{person:?}");
        database.close().await.unwrap();
    });
}
