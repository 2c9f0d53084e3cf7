//! Which sizes segments can have, and the largest record of each size.

use super::*;
use crate::mutation::codec;

/// A record that takes so many bytes in a log.
fn record_of(bytes: usize) -> Mutation {
    let mut encoded = Vec::new();
    codec::encode(&mutation(1, 1, bytes - 64), &mut encoded);
    let record = mutation(1, 1, bytes - 64 + (bytes - encoded.len()));
    encoded.clear();
    codec::encode(&record, &mut encoded);
    assert_eq!(encoded.len(), bytes);
    record
}

#[test]
fn a_segment_has_whole_pages_four_at_least_and_less_than_four_gib() {
    const PAGE: usize = BLOCK_BYTES;
    for (bytes, is_possible) in [
        (0, false),
        (PAGE, false),
        (3 * PAGE, false),
        (4 * PAGE - 1, false),
        (4 * PAGE, true),
        (4 * PAGE + 1, false),
        (4 * PAGE + 512, false),
        (5 * PAGE, true),
        (1 << 32, false),
    ] {
        run(async {
            let disk = SimulatedDisk::new(1);
            let options = CommitlogOptions { segment_bytes: bytes, ..options(Durability::Sync) };
            let clock = SimulatedClock::new(START_US);
            match Commitlog::open(disk.shared(), clock, options).await {
                Ok(log) => {
                    assert!(is_possible, "{bytes}");
                    assert_eq!(log.bytes_on_disk(), bytes as u64);
                    log.close().await.unwrap();
                }
                Err(Error::Invalid(why)) => {
                    let wanted = format!("a commitlog segment cannot have {bytes} bytes");
                    assert!(!is_possible && why == wanted, "{why}");
                    assert!(disk.files().is_empty(), "nothing is made for {bytes}");
                }
                Err(other) => panic!("{bytes}: {other}"),
            }
        });
    }
}

/// In an empty segment, and in one that has a record already.
#[test]
fn the_largest_record_for_a_size_of_segments_is_taken_and_replayed() {
    for pages in [4, 5, 6, 16] {
        for durability in [Durability::Sync, Durability::Periodic { ms: 10 }, Durability::None] {
            run(async {
                let disk = SimulatedDisk::new(1);
                let segment_bytes = pages * BLOCK_BYTES;
                let options = CommitlogOptions { segment_bytes, ..options(durability) };
                let max = options.mutation_bytes_max();
                assert!(max <= segment_bytes / 2, "{pages} pages");
                let clock = SimulatedClock::new(START_US);
                let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
                let refused = log.append(&record_of(max + 1)).map(|_| ()).unwrap_err();
                let wanted = format!("a mutation of {} bytes; {max} is most", max + 1);
                assert!(matches!(&refused, Error::Invalid(why) if *why == wanted), "{refused}");
                let mut written = Vec::new();
                for number in 0..3 {
                    for record in [record_of(max), mutation(1, number, 10)] {
                        written.push((append(&log, &record).await.unwrap(), record));
                    }
                }
                log.close().await.unwrap();
                let (records, summary) = replayed(&disk.power_cut()).await;
                assert_eq!(records, written, "{pages} pages, {durability:?}");
                assert_eq!(summary.torn_tails, 0, "{pages} pages, {durability:?}");
            });
        }
    }
}
