//! A full disk: whoever waits for room that does not come is told so, and so is who closes the log.

use futures::future::join_all;

use super::*;

const MODES: [Durability; 3] =
    [Durability::Sync, Durability::Periodic { ms: 10 }, Durability::None];

/// A log whose disk has no room for another segment.
async fn open_without_room(disk: &SimulatedDisk, durability: Durability) -> Rc<Commitlog> {
    let log = open(disk, durability).await;
    let used = disk.files().iter().map(|(_, bytes)| bytes).sum();
    disk.set_faults(Faults { capacity_bytes: Some(used), ..Faults::default() });
    log
}

/// Records 0 to 39, which take several segments; none of them has been waited for.
fn append_many(log: &Rc<Commitlog>) -> Vec<Durable> {
    (0..40).map(|number| log.append(&mutation(1, number, 3000)).unwrap().1).collect()
}

#[test]
fn whoever_waits_for_a_segment_that_cannot_be_made_is_told_so() {
    for durability in MODES {
        run(async {
            let disk = SimulatedDisk::new(1);
            let log = open_without_room(&disk, durability).await;
            let all = ended("a record", join_all(append_many(&log))).await;
            let refused: Vec<_> = all.iter().filter_map(|done| done.as_ref().err()).collect();
            assert!(!refused.is_empty() && refused.len() < all.len(), "{durability:?}: {all:?}");
            assert!(refused.iter().all(|error| error.is_disk_full()), "{refused:?}");
            let late = ended("a later record", append(&log, &mutation(1, 100, 10))).await;
            assert!(late.unwrap_err().is_disk_full(), "{durability:?}");
            disk.set_faults(Faults::default());
            let record = mutation(1, 101, 10);
            ended("a record for which there is room", append(&log, &record)).await.unwrap();
            ended("a sync", log.sync()).await.unwrap();
            // What was refused is not in the log.
            let kept = (0..).zip(&all).filter(|(_, done)| done.is_ok()).map(|(number, _)| number);
            let wanted: Vec<i64> = kept.chain([101]).collect();
            let (records, _) = replayed(&disk.power_cut()).await;
            let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
            assert_eq!(numbers, wanted, "{durability:?}");
        });
    }
}

/// Nobody looks at the records any more when a shard stops.
#[test]
fn a_log_that_is_closed_without_room_for_its_records_says_so() {
    for durability in MODES {
        run(async {
            let disk = SimulatedDisk::new(1);
            let log = open_without_room(&disk, durability).await;
            let waiting = append_many(&log);
            let closed = ended("the end of a log", log.close()).await;
            let error = closed.expect_err("records are lost");
            assert!(error.is_disk_full(), "{durability:?}: {error}");
            let all = ended("a record", join_all(waiting)).await;
            let kept = all.iter().filter(|done| done.is_ok()).count();
            assert!((1..all.len()).contains(&kept), "{durability:?}: {kept} of {}", all.len());
            if durability == Durability::Sync {
                assert_eq!(replayed(&disk.power_cut()).await.0.len(), kept);
            }
        });
    }
}
