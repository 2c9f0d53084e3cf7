//! What is acknowledged before it is written.

use super::*;

/// Writers that are ahead of the disk wait at last: what waits in memory is limited.
#[test]
fn writes_ahead_of_the_disk_are_acknowledged_early_up_to_a_limit() {
    const BYTES: usize = 256 << 10;
    for durability in [Durability::None, Durability::Periodic { ms: 1000 }] {
        run(async {
            let disk = SimulatedDisk::new(1);
            let options = CommitlogOptions { segment_bytes: 64 << 20, ..options(durability) };
            let clock = SimulatedClock::new(START_US);
            let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
            // No other task has a turn meanwhile, so nothing is written.
            let mut waiting = Vec::new();
            let mut early = 0;
            for number in 0..100 {
                let (_, durable) = log.append(&mutation(1, number, BYTES)).unwrap();
                match durable.is_there() {
                    true => early += 1,
                    false => waiting.push(durable),
                }
            }
            let early_bytes = early * BYTES;
            let is_limited = (7 << 20..10 << 20).contains(&early_bytes);
            assert!(is_limited, "{durability:?}: {early_bytes} bytes wait in memory");
            for durable in waiting {
                durable.await.unwrap();
            }
            log.close().await.unwrap();
            assert_eq!(replayed(&disk.power_cut()).await.0.len(), 100);
        });
    }
}
