//! Segments that are missing, cut, empty or damaged: what is told, and what is salvaged.

use super::*;
use crate::ledger::Ledger;

fn ledger_path() -> PathBuf {
    PathBuf::from("/data/ledger/0-of-1")
}

/// A log that is recorded in a ledger.
async fn open_watched(disk: &SimulatedDisk) -> (Rc<Commitlog>, Rc<Ledger>) {
    let ledger = Ledger::open(disk.shared(), &ledger_path()).await.unwrap();
    let options = CommitlogOptions { ledger: Some(ledger.clone()), ..options(Durability::Sync) };
    let clock = SimulatedClock::new(START_US);
    (Commitlog::open(disk.shared(), clock, options).await.unwrap(), ledger)
}

/// What a start after a crash finds: records, damage by segment and offset, and words for it.
async fn found(disk: &SimulatedDisk, recovery: Recovery) -> (Records, Vec<Damaged>) {
    let ledger = Ledger::open(disk.shared(), &ledger_path()).await.unwrap();
    let mut records = Vec::new();
    let known = ledger.known().segments;
    let mut take = |position, mutation| {
        records.push((position, mutation));
        Ok(())
    };
    let summary = replay_with(disk, recovery, &known, &mut take).await.unwrap();
    (records, summary.damaged)
}

/// Records over several segments; table 2 wrote only into the first.
async fn fill(log: &Rc<Commitlog>) -> Vec<ReplayPosition> {
    let mut positions = vec![append(log, &mutation(2, 0, 10)).await.unwrap()];
    for number in 1..60 {
        positions.push(append(log, &mutation(1, number, 3000)).await.unwrap());
    }
    positions
}

fn segments(positions: &[ReplayPosition]) -> Vec<u64> {
    let mut ids: Vec<u64> = positions.iter().map(|position| position.segment).collect();
    ids.dedup();
    assert!(ids.len() > 3, "{ids:?}");
    ids
}

async fn cut(disk: &SimulatedDisk, id: u64, bytes: u64) {
    let path = segment::path(&directory(), id);
    let options = OpenOptions { access: crate::disk::Access::ReadWrite, data_sync: true };
    disk.open(&path, options).await.unwrap().truncate(bytes).await.unwrap();
}

#[test]
fn a_segment_that_is_missing_or_cut_is_told() {
    for bytes in [None, Some(0), Some(BLOCK_BYTES as u64), Some(5000)] {
        run(async {
            let disk = SimulatedDisk::new(1);
            let (log, _) = open_watched(&disk).await;
            let positions = fill(&log).await;
            let ids = segments(&positions);
            let disk = disk.power_cut();
            assert!(found(&disk, Recovery::Refuse).await.1.is_empty());
            for (nth, id) in ids.iter().enumerate() {
                let disk = disk.clone();
                let whole = read_file(&disk, &segment::path(&directory(), *id)).await.unwrap();
                match bytes {
                    Some(bytes) => cut(&disk, *id, bytes).await,
                    None => disk.remove(&segment::path(&directory(), *id)).await.unwrap(),
                }
                let (records, damaged) = found(&disk, Recovery::Refuse).await;
                let told: Vec<u64> = damaged.iter().map(|damaged| damaged.segment).collect();
                assert_eq!(told, [*id], "segment {nth} cut to {bytes:?}");
                assert!(matches!(damaged[0].error, Error::Corrupt(_)), "{:?}", damaged[0]);
                // Nothing of the other segments is kept back.
                let others = positions.iter().filter(|position| position.segment != *id);
                let found: Vec<_> = records.iter().map(|(position, _)| *position).collect();
                assert!(others.clone().all(|position| found.contains(position)));
                if bytes.is_none() {
                    let path = segment::path(&directory(), *id);
                    disk.open(&path, OpenOptions::CREATE).await.unwrap();
                }
                overwrite(&disk, &segment::path(&directory(), *id), &whole).await;
            }
        });
    }
}

#[test]
fn a_segment_that_is_too_long_is_told_and_loses_nothing() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, _) = open_watched(&disk).await;
        let positions = fill(&log).await;
        let ids = segments(&positions);
        let disk = disk.power_cut();
        let bytes = read_file(&disk, &segment::path(&directory(), ids[1])).await.unwrap().len();
        cut(&disk, ids[1], (bytes + BLOCK_BYTES) as u64).await;
        let (records, damaged) = found(&disk, Recovery::Refuse).await;
        let told: Vec<u64> = damaged.iter().map(|damaged| damaged.segment).collect();
        assert_eq!(told, [ids[1]]);
        let text = damaged[0].error.to_string();
        assert!(text.contains(&format!("a commitlog segment of {bytes} bytes")), "{text}");
        let found: Vec<_> = records.iter().map(|(position, _)| *position).collect();
        assert_eq!(found, positions);
    });
}

#[test]
fn a_tail_of_zeros_is_noticed_because_the_next_segment_knows_the_end() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, _) = open_watched(&disk).await;
        let positions = fill(&log).await;
        let ids = segments(&positions);
        let last = positions.iter().rfind(|position| position.segment == ids[0]).unwrap();
        let path = segment::path(&directory(), ids[0]);
        let mut content = read_file(&disk, &path).await.unwrap();
        // No block is left behind the hole that could vouch for it.
        let from = last.offset as usize / BLOCK_BYTES * BLOCK_BYTES;
        content[from..].fill(0);
        overwrite(&disk, &path, &content).await;
        let (_, damaged) = found(&disk, Recovery::Refuse).await;
        let told: Vec<_> = damaged.iter().map(|damaged| (damaged.segment, damaged.from)).collect();
        assert_eq!(told, [(ids[0], from as u32)]);
        assert!(damaged[0].error.to_string().contains(&format!("segment {}", ids[1])));
    });
}

#[test]
fn segments_that_were_released_are_not_missed() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, ledger) = open_watched(&disk).await;
        let positions = fill(&log).await;
        let ids = segments(&positions);
        log.mark_flushed(TableId(1), *positions.last().unwrap()).await.unwrap();
        drop(ledger);
        let last = *positions.last().unwrap();
        let flushed = Some((last.segment, last.offset));
        let after = disk.power_cut();
        let known = Ledger::open(after.shared(), &ledger_path()).await.unwrap().known().segments;
        let (_, damaged) = found(&after, Recovery::Refuse).await;
        assert!(!damaged.is_empty(), "the power went before the files' names did");
        // Whoever comes back to a file that went knows whose records it held: nobody's.
        for damaged in damaged {
            let entry = &known[&damaged.segment];
            assert!(!entry.may_hold((damaged.segment, 0), TableId(1), flushed), "{damaged:?}");
        }
        check_rest(&after, ids[0]).await;
    });
}

async fn check_rest(disk: &SimulatedDisk, first: u64) {
    // Table 2 wrote into the first segment only, and nothing of it was flushed.
    let ledger = Ledger::open(disk.shared(), &ledger_path()).await.unwrap();
    let known = ledger.known().segments;
    assert!(known[&first].may_hold((first, 0), TableId(2), None));
    let later = known.iter().filter(|(id, entry)| **id > first && entry.tables.is_some());
    for (id, entry) in later {
        assert!(!entry.may_hold((*id, 0), TableId(2), None), "segment {id}");
    }
    disk.remove(&segment::path(&directory(), first)).await.unwrap();
    let (_, damaged) = found(disk, Recovery::Refuse).await;
    assert!(damaged.iter().any(|damaged| damaged.segment == first));
}

#[test]
fn a_log_that_was_closed_leaves_nothing_to_be_missed() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, _) = open_watched(&disk).await;
        let positions = fill(&log).await;
        for table in [1, 2] {
            log.mark_flushed(TableId(table), *positions.last().unwrap()).await.unwrap();
        }
        log.close().await.unwrap();
        assert_eq!(segment_files(&disk).await, Vec::<String>::new());
        let (records, damaged) = found(&disk, Recovery::Refuse).await;
        assert!(records.is_empty() && damaged.is_empty(), "{damaged:?}");
        let ledger = Ledger::open(disk.shared(), &ledger_path()).await.unwrap();
        assert!(ledger.known().segments.is_empty() && ledger.segment_max() > 0);
    });
}

#[test]
fn behind_damage_the_next_chunk_is_read_and_the_rest_is_named() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, _) = open_watched(&disk).await;
        // A record that runs over blocks, and holds what looks like a log itself.
        let mut planted = mutation(1, 3, 9000);
        let mut decoy = Vec::new();
        crate::mutation::codec::encode(&mutation(1, 77, 10), &mut decoy);
        let row = planted.static_row.as_mut().unwrap();
        let frame = [&(decoy.len() as u32).to_be_bytes()[..]; 1].concat();
        let crc = crate::checksum::crc32(&frame).to_be_bytes();
        let one = [&frame[..], &crc, &decoy].concat();
        row.cells = vec![(ColumnId(0), Value::live(3, one.repeat(300)))];
        let mut positions = Vec::new();
        for number in 0..8 {
            let record = if number == 3 { planted.clone() } else { mutation(1, number, 100) };
            positions.push(append(&log, &record).await.unwrap());
        }
        let path = path_of(positions[0]);
        let ends: Vec<u32> = positions[1..].iter().map(|position| position.offset).collect();
        for (damaged, end) in ends.iter().enumerate() {
            let at = positions[damaged].offset;
            disk.corrupt(&path, u64::from(at) + 30, 1);
            let (records, told) = found(&disk, Recovery::SkipDamagedLog).await;
            let kept: Vec<_> = records.iter().map(|(position, _)| *position).collect();
            let wanted: Vec<_> =
                positions.iter().copied().filter(|position| position.offset != at).collect();
            assert_eq!(kept, wanted, "record {damaged}");
            assert!(records.iter().all(|(_, record)| number_of(record) != 77));
            assert_eq!((told.len(), told[0].from), (1, at), "{told:?}");
            assert_eq!(
                told[0].left_out,
                std::iter::once(at..*end).collect::<Vec<_>>(),
                "{damaged}"
            );
            disk.corrupt(&path, u64::from(at) + 30, 1);
        }
        // The header tells nothing that the name does not.
        disk.corrupt(&path, 5, 1);
        assert_eq!(found(&disk, Recovery::SkipDamagedLog).await.0.len(), 8);
    });
}

#[test]
fn records_that_two_damaged_places_leave_are_all_found() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, _) = open_watched(&disk).await;
        let mut positions = Vec::new();
        for number in 0..12 {
            positions.push(append(&log, &mutation(1, number, 100)).await.unwrap());
        }
        let path = path_of(positions[0]);
        for damaged in [2, 3, 7] {
            disk.corrupt(&path, u64::from(positions[damaged].offset) + 30, 1);
        }
        let (records, told) = found(&disk, Recovery::SkipDamagedLog).await;
        let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
        assert_eq!(numbers, [0, 1, 4, 5, 6, 8, 9, 10, 11]);
        let ranges =
            [positions[2].offset..positions[4].offset, positions[7].offset..positions[8].offset];
        assert_eq!(told[0].left_out, ranges);
    });
}

/// A table whose last record of a segment is lost must not look as if it lacked nothing.
#[test]
fn a_record_that_runs_into_damage_is_lost_from_where_it_begins() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, _) = open_watched(&disk).await;
        let mut positions = Vec::new();
        for number in 0..6 {
            // Every second one takes three blocks.
            let bytes = if number % 2 == 0 { 100 } else { 9000 };
            positions.push(append(&log, &mutation(1, number, bytes)).await.unwrap());
        }
        let path = path_of(positions[0]);
        let of = |number: usize| positions[number].offset..positions[number + 1].offset;
        let damage_second_block = |number: usize| {
            disk.corrupt(&path, u64::from(positions[number].offset) + 5000, 1);
        };
        damage_second_block(3);
        for recovery in [Recovery::Refuse, Recovery::SkipDamagedLog] {
            let (_, told) = found(&disk, recovery).await;
            assert_eq!((told.len(), told[0].from), (1, of(3).start), "{recovery:?}: {told:?}");
        }
        let (_, told) = found(&disk, Recovery::SkipDamagedLog).await;
        assert_eq!(told[0].left_out, [of(3)]);
        damage_second_block(1);
        let (records, told) = found(&disk, Recovery::SkipDamagedLog).await;
        let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
        assert_eq!(numbers, [0, 2, 4, 5]);
        assert_eq!(told[0].left_out, [of(1), of(3)], "all of both records");
    });
}

/// A log of five records, and where the one with this number stands, of whose size, or its
/// checksum, a bit is another one: its block is whole, and its record is none.
async fn with_no_record(number: usize, byte: usize) -> (SimulatedDisk, u32) {
    let disk = SimulatedDisk::new(1);
    let (log, _) = open_watched(&disk).await;
    let mut positions = Vec::new();
    for number in 0..5 {
        positions.push(append(&log, &mutation(1, number, 100)).await.unwrap());
    }
    let (path, at) = (path_of(positions[0]), positions[number].offset);
    let mut content = read_file(&disk, &path).await.unwrap();
    let block = &mut content[at as usize..][..BLOCK_BYTES];
    let trailer = block::inspect(block, at).unwrap();
    block[byte] ^= 1;
    block::seal(block, at, trailer);
    overwrite(&disk, &path, &content).await;
    (disk, at)
}

#[test]
fn a_whole_block_without_a_record_is_told_where_it_stands() {
    run(async {
        for byte in [0, 5] {
            let (disk, at) = with_no_record(2, byte).await;
            let (records, told) = found(&disk, Recovery::Refuse).await;
            assert_eq!(records.len(), 2, "byte {byte}");
            assert_eq!((told.len(), told[0].from), (1, at), "byte {byte}: {told:?}");
        }
    });
}

#[test]
fn a_damaged_record_behind_which_nothing_is_left_is_named_to_the_end_of_the_log() {
    run(async {
        let (disk, at) = with_no_record(4, 0).await;
        let (records, told) = found(&disk, Recovery::SkipDamagedLog).await;
        let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!((told.len(), told[0].from), (1, at), "{told:?}");
        let lost = at..at + BLOCK_BYTES as u32;
        assert_eq!(told[0].left_out, [lost]);
    });
}

#[test]
fn a_segment_stays_until_the_ledger_knows_what_it_held() {
    run(async {
        let (disk, beside) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
        let ledger = Ledger::open(beside.shared(), &ledger_path()).await.unwrap();
        let options = CommitlogOptions { ledger: Some(ledger), ..options(Durability::Sync) };
        let clock = SimulatedClock::new(START_US);
        let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
        beside.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
        let positions = fill(&log).await;
        let last = *positions.last().unwrap();
        for table in [1, 2] {
            log.mark_flushed(TableId(table), last).await.unwrap();
        }
        let is_there =
            async |id: &u64| read_file(&disk, &segment::path(&directory(), *id)).await.is_ok();
        let ids = segments(&positions);
        for id in &ids {
            assert!(is_there(id).await, "segment {id} went, and the ledger was told nothing");
        }
        beside.set_faults(Faults::default());
        log.release_free().await;
        for id in &ids[..ids.len() - 1] {
            assert!(!is_there(id).await, "segment {id} stays though the ledger was told");
        }
    });
}

/// A start reads what earlier runs left while the log of its own run is being written.
#[test]
fn segments_of_the_run_that_reads_are_neither_read_nor_missed() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, ledger) = open_watched(&disk).await;
        let positions = fill(&log).await;
        let ids = segments(&positions);
        let known = ledger.known().segments;
        let (shared, folder) = (disk.shared(), directory());
        for (nth, before) in ids.iter().copied().enumerate().rev() {
            // With the segment, and without it and all behind it.
            for is_there in [true, false] {
                if !is_there {
                    disk.remove(&segment::path(&folder, before)).await.unwrap();
                }
                let mut found = Vec::new();
                let mut take = |position: ReplayPosition, _: Mutation| {
                    found.push(position);
                    Ok(())
                };
                let replay = Replay {
                    disk: &shared,
                    directory: &folder,
                    before,
                    known: &known,
                    recovery: Recovery::Refuse,
                };
                let summary = replay.run(&mut take).await.unwrap();
                let own = positions.iter().copied().filter(|position| position.segment < before);
                assert_eq!(found, own.collect::<Vec<_>>(), "before segment {nth}");
                assert_eq!(summary.paths.len(), nth, "before segment {nth}");
                assert!(summary.damaged.is_empty(), "before segment {nth}: {summary:?}");
            }
        }
    });
}

#[test]
fn a_segment_that_the_disk_does_not_give_is_told_and_the_others_are_handed_out() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (log, ledger) = open_watched(&disk).await;
        let positions = fill(&log).await;
        let ids = segments(&positions);
        let known = ledger.known().segments;
        let (mut told, mut read) = (0, 0);
        for seed in 0..20 {
            let disk = disk.copy(seed);
            disk.set_faults(Faults { read_error_one_in: 3, ..Faults::default() });
            let mut found = Vec::new();
            let mut take = |position: ReplayPosition, _: Mutation| {
                found.push(position);
                Ok(())
            };
            let replayed = replay_with(&disk, Recovery::SkipDamagedLog, &known, &mut take).await;
            let summary = replayed.unwrap();
            for id in &ids {
                let of_segment = |all: &[ReplayPosition]| -> Vec<ReplayPosition> {
                    all.iter().copied().filter(|position| position.segment == *id).collect()
                };
                let given = of_segment(&found);
                match summary.damaged.iter().find(|damaged| damaged.segment == *id) {
                    Some(damaged) => {
                        let is_io = matches!(damaged.error, Error::Io { .. });
                        assert!(is_io && damaged.from == 0, "seed {seed}: {damaged:?}");
                        assert_eq!(given, [], "seed {seed}");
                        told += 1;
                    }
                    None => {
                        assert_eq!(given, of_segment(&positions), "seed {seed}");
                        read += 1;
                    }
                }
            }
        }
        assert!(told > 10 && read > 10, "{told} were told, {read} were read");
    });
}

/// No ledger knows of these segments: each has its own size in its header, and where the one before
/// it ends.
#[test]
fn a_segment_that_was_cut_is_told_by_its_own_header_or_by_the_next_one() {
    const BLOCK: u64 = BLOCK_BYTES as u64;
    const WHOLE: u64 = SEGMENT_BYTES as u64;
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let positions = fill(&log).await;
        let ids = segments(&positions);
        let disk = disk.power_cut();
        assert!(found(&disk, Recovery::Refuse).await.1.is_empty());
        for (nth, id) in ids.iter().enumerate() {
            let path = segment::path(&directory(), *id);
            let whole = read_file(&disk, &path).await.unwrap();
            for left in [0, BLOCK, 5 * BLOCK, WHOLE - BLOCK, WHOLE + BLOCK] {
                cut(&disk, *id, left).await;
                let (records, damaged) = found(&disk, Recovery::Refuse).await;
                let told: Vec<u64> = damaged.iter().map(|damaged| damaged.segment).collect();
                // Of an empty one that none follows nobody knows anything.
                let is_told = left > 0 || nth + 1 < ids.len();
                let wanted = if is_told { vec![*id] } else { Vec::new() };
                assert_eq!(told, wanted, "segment {nth} has {left} bytes");
                let words = format!("a commitlog segment of {WHOLE} bytes");
                let says = damaged.iter().any(|told| told.error.to_string().contains(&words));
                assert_eq!(says, left > 0, "segment {nth} has {left} bytes: {damaged:?}");
                let found: Vec<_> = records.iter().map(|(position, _)| *position).collect();
                let mut others = positions.iter().filter(|position| position.segment != *id);
                assert!(others.all(|position| found.contains(position)), "segment {nth}: {left}");
                cut(&disk, *id, WHOLE).await;
                overwrite(&disk, &path, &whole).await;
            }
        }
        assert!(found(&disk, Recovery::Refuse).await.1.is_empty());
    });
}
