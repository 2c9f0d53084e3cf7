//! What each strategy chooses of which SSTables.

use crate::compaction::{Choice, Facts, FileFacts, Reason, choose, major};
use crate::schema::{CompactionClass, CompactionOptions, Thousandths, Token, WindowUnit};

const MIB: u64 = 1 << 20;
pub(super) const NOW: i64 = 1_000_000;

/// An SSTable of `mib` MiB over all tokens, whose timestamps follow from its number.
pub(super) fn file(number: u64, mib: u64) -> FileFacts {
    let timestamp = number as i64 * 10;
    FileFacts {
        number,
        bytes: mib * MIB,
        partitions: mib,
        rows: mib * 100,
        level: 0,
        run: number,
        min_timestamp: timestamp,
        max_timestamp: timestamp + 5,
        first: Token(-100),
        last: Token(100),
        droppable: 0.0,
        is_expired: false,
        has_dropped: false,
        age_seconds: 0,
    }
}

pub(super) fn files(sizes: &[u64]) -> Vec<FileFacts> {
    (1..).zip(sizes).map(|(number, mib)| file(number, *mib)).collect()
}

fn asked(files: &[FileFacts], options: CompactionOptions) -> Option<Choice> {
    choose(&Facts { files, options: &options, now_seconds: NOW })
}

fn inputs(files: &[FileFacts], options: CompactionOptions) -> Vec<u64> {
    asked(files, options).map_or_else(Vec::new, |choice| choice.inputs)
}

pub(super) fn of_class(class: CompactionClass) -> CompactionOptions {
    CompactionOptions { class, ..CompactionOptions::default() }
}

#[test]
fn size_tiered_merges_the_fullest_tier() {
    let default = of_class(CompactionClass::SizeTiered);
    let none: &[u64] = &[];
    let table: [(&str, &[u64], &[u64]); 7] = [
        ("nothing", &[], none),
        ("three are too few", &[100, 100, 100], none),
        ("four of a size", &[100, 110, 90, 100], &[1, 2, 3, 4]),
        ("all below the least size are one tier", &[1, 40, 10, 2], &[1, 2, 3, 4]),
        ("one that is too large stays", &[100, 100, 100, 100, 151], &[1, 2, 3, 4]),
        ("a tier grows by its average", &[100, 100, 100, 149], &[1, 2, 3, 4]),
        ("the fullest one", &[100, 100, 100, 100, 1000, 1000, 1000, 1000, 1000], &[5, 6, 7, 8, 9]),
    ];
    for (what, sizes, wanted) in table {
        assert_eq!(inputs(&files(sizes), default), wanted, "{what}");
    }
    let equal = files(&[1000, 1000, 1000, 1000, 100, 100, 100, 100]);
    assert_eq!(inputs(&equal, default), [5, 6, 7, 8], "of equals that of smaller SSTables");
    let choice = asked(&files(&[100; 4]), default).unwrap();
    assert_eq!((choice.level, choice.cut_bytes, choice.reason), (0, None, Reason::Tier));
}

#[test]
fn size_tiered_keeps_to_its_options() {
    let default = of_class(CompactionClass::SizeTiered);
    let many = files(&[100; 40]);
    assert_eq!(inputs(&many, default).len(), 32);
    let few = CompactionOptions { min_threshold: 2, max_threshold: 3, ..default };
    assert_eq!(inputs(&files(&[100, 100]), few), [1, 2]);
    assert_eq!(inputs(&many, few), [1, 2, 3]);
    let narrow = CompactionOptions {
        bucket_low: Thousandths(950),
        bucket_high: Thousandths(1050),
        ..default
    };
    assert_eq!(inputs(&files(&[100, 110, 90, 100]), narrow), [0; 0]);
    let exact = CompactionOptions { min_sstable_bytes: 0, ..default };
    assert_eq!(inputs(&files(&[1, 40, 10, 2]), exact), [0; 0]);
    let off = CompactionOptions { is_enabled: false, ..default };
    assert_eq!(asked(&many, off), None);
}

#[test]
fn small_sstables_of_a_table_at_rest_become_one() {
    let default = of_class(CompactionClass::SizeTiered);
    let aged = |sizes: &[u64], age_seconds| {
        let files = files(sizes).into_iter();
        files.map(|file| FileFacts { age_seconds, ..file }).collect::<Vec<_>>()
    };
    assert_eq!(inputs(&aged(&[1, 40], 59), default), [0; 0]);
    assert_eq!(inputs(&aged(&[1, 40], 60), default), [1, 2]);
    assert_eq!(inputs(&aged(&[40], 60), default), [0; 0]);
    assert_eq!(inputs(&aged(&[60, 60], 60), default), [0; 0], "they are not small");
    let mut one_is_new = aged(&[1, 2, 3], 60);
    one_is_new[2].age_seconds = 0;
    assert_eq!(inputs(&one_is_new, default), [0; 0]);
}

pub(super) fn at_level(number: u64, level: u32, mib: u64, (first, last): (i64, i64)) -> FileFacts {
    FileFacts { level, first: Token(first), last: Token(last), ..file(number, mib) }
}

fn leveled() -> CompactionOptions {
    CompactionOptions { sstable_bytes: 10 * MIB, ..of_class(CompactionClass::Leveled) }
}

#[test]
fn leveled_brings_flushes_to_level_1_with_what_they_meet() {
    let mut all = files(&[3, 3, 3]);
    assert_eq!(asked(&all, leveled()), None, "three are too few");
    all.push(file(4, 3));
    all.push(at_level(5, 1, 10, (50, 90)));
    all.push(at_level(6, 1, 10, (101, 200)));
    let choice = asked(&all, leveled()).unwrap();
    assert_eq!(choice.inputs, [1, 2, 3, 4, 5]);
    assert_eq!((choice.level, choice.cut_bytes), (1, Some(10 * MIB)));
    // Less than one SSTable of level 1 stays where it is.
    let choice = asked(&files(&[1; 4]), leveled()).unwrap();
    assert_eq!((choice.inputs.len(), choice.level, choice.cut_bytes), (4, 0, None));
}

#[test]
fn leveled_takes_along_what_only_one_of_the_flushes_meets() {
    let next = [at_level(5, 1, 10, (5, 20)), at_level(6, 1, 10, (30, 40))];
    for meeting in 1..=4_u64 {
        let tokens = |number: u64| if number == meeting { (0, 9) } else { (50, 59) };
        let flushed = (1..=4).map(|number| at_level(number, 0, 3, tokens(number)));
        let all: Vec<FileFacts> = flushed.chain(next.clone()).collect();
        assert_eq!(inputs(&all, leveled()), [1, 2, 3, 4, 5], "{meeting}");
    }
}

#[test]
fn leveled_empties_the_deepest_level_that_is_too_full() {
    // Level 1 holds 100 MiB, level 2 ten times that.
    let mut all: Vec<FileFacts> =
        (0..11).map(|n| at_level(n + 1, 1, 10, (n as i64 * 10, n as i64 * 10 + 9))).collect();
    all.push(at_level(20, 2, 10, (0, 14)));
    all.push(at_level(21, 2, 10, (15, 25)));
    // The third meets one of level 2, from the fourth on they meet none.
    let choice = asked(&all, leveled()).unwrap();
    assert_eq!((choice.inputs, choice.level), (vec![4], 2));
    all.retain(|file| file.level != 1 || file.number < 4);
    assert_eq!(asked(&all, leveled()), None, "there is room again");
    let full: Vec<FileFacts> =
        (0..4).map(|n| at_level(n + 1, 1, 30, (10 * n as i64, 10 * n as i64 + 9))).collect();
    let next = [at_level(20, 2, 10, (0, 14)), at_level(21, 2, 10, (15, 39))];
    let choice = asked(&[full, next.to_vec()].concat(), leveled()).unwrap();
    assert_eq!(choice.inputs, [1, 20], "the first of those that meet least");
}

#[test]
fn leveled_merges_by_size_when_it_is_behind() {
    let choice = asked(&files(&[1; 40]), leveled()).unwrap();
    assert_eq!((choice.inputs.len(), choice.level, choice.reason), (32, 0, Reason::Tier));
}

/// An SSTable whose newest data is of this second.
fn of_second(number: u64, second: i64) -> FileFacts {
    let max_timestamp = second * 1_000_000;
    FileFacts { min_timestamp: max_timestamp - 1, max_timestamp, ..file(number, 1) }
}

#[test]
fn time_windows_are_closed_by_one_merge() {
    let hours = CompactionOptions {
        window_unit: WindowUnit::Hours,
        window_size: 2,
        ..of_class(CompactionClass::TimeWindow)
    };
    let window = 7200;
    let mut all = vec![of_second(1, 10), of_second(2, 20), of_second(3, window)];
    let choice = asked(&all, hours).unwrap();
    assert_eq!((choice.inputs, choice.reason), (vec![1, 2], Reason::Window));
    all.remove(0);
    assert_eq!(asked(&all, hours), None, "one SSTable a window is left");
    // The newest window is merged by size.
    all.extend([of_second(4, window + 1), of_second(5, window + 2)]);
    assert_eq!(asked(&all, hours), None);
    all.push(of_second(6, 2 * window - 1));
    assert_eq!(inputs(&all, hours), [3, 4, 5, 6]);
    // Times before the epoch have windows, too.
    let old = [of_second(1, -1), of_second(2, -window), of_second(3, 0)];
    assert_eq!(inputs(&old, hours), [1, 2]);
}

#[test]
fn what_has_expired_goes_first_unless_it_covers_something_older() {
    let default = of_class(CompactionClass::SizeTiered);
    let mut all = files(&[100; 5]);
    all[0] = FileFacts { is_expired: true, age_seconds: 600, ..all[0].clone() };
    let choice = asked(&all, default).unwrap();
    assert_eq!((choice.inputs, choice.reason), (vec![1], Reason::Expired));
    all[0].age_seconds = 599;
    assert_eq!(asked(&all, default).unwrap().reason, Reason::Tier);
    all[0].age_seconds = 600;
    all[4].min_timestamp = all[0].max_timestamp;
    assert_eq!(asked(&all, default).unwrap().reason, Reason::Tier);
    // Of other partitions it is not in the way.
    (all[4].first, all[4].last) = (Token(101), Token(102));
    assert_eq!(asked(&all, default).unwrap().reason, Reason::Expired);
}

#[test]
fn an_sstable_of_many_tombstones_is_rewritten_alone() {
    let default = of_class(CompactionClass::SizeTiered);
    let day = i64::from(default.tombstone_interval_seconds);
    let mut all = files(&[100, 300]);
    let ripe =
        |file: &FileFacts, droppable| FileFacts { droppable, age_seconds: day, ..file.clone() };
    all[0] = ripe(&all[0], 0.2);
    assert_eq!(asked(&all, default), None, "the threshold is to be passed");
    all[0].droppable = 0.21;
    let choice = asked(&all, default).unwrap();
    assert_eq!((choice.inputs, choice.reason), (vec![1], Reason::Tombstones));
    all[0].age_seconds = day - 1;
    assert_eq!(asked(&all, default), None);
    all[1] = ripe(&all[1], 0.9);
    assert_eq!(asked(&all, default), None, "the older one may have what it covers");
    let later = CompactionOptions { tombstone_threshold: Thousandths(950), ..default };
    (all[1].first, all[1].last) = (Token(200), Token(300));
    assert_eq!(inputs(&all, default), [2]);
    assert_eq!(asked(&all, later), None);
    // A leveled table keeps it on its level.
    all[1].level = 3;
    let choice = asked(&all, leveled()).unwrap();
    assert_eq!((choice.inputs, choice.level, choice.cut_bytes), (vec![2], 3, Some(10 * MIB)));
}

/// A size, an age or a share that is just at its limit.
#[test]
fn limits_of_strategies_hold_to_the_byte() {
    let tiered = of_class(CompactionClass::SizeTiered);
    let none = [0_u64; 0];
    // One and a half times the average is too large; one byte less is not.
    let mut all = files(&[100, 100, 100, 150]);
    assert_eq!(inputs(&all, tiered), none);
    all[3].bytes -= 1;
    assert_eq!(inputs(&all, tiered), [1, 2, 3, 4]);
    // Of just the least size an SSTable is not small.
    let mut all = files(&[1, 1, 1, 50]);
    assert_eq!(inputs(&all, tiered), none);
    all[3].bytes -= 1;
    assert_eq!(inputs(&all, tiered), [1, 2, 3, 4]);

    // A level that holds just what it may hold gives nothing away, nor one a thousandth above.
    let mut all: Vec<FileFacts> =
        (0..10).map(|n| at_level(n + 1, 1, 10, (n as i64 * 10, n as i64 * 10 + 9))).collect();
    assert_eq!(asked(&all, leveled()), None);
    all[0].bytes += MIB / 10;
    assert_eq!(asked(&all, leveled()), None);
    all[0].bytes += MIB / 10;
    assert_eq!(asked(&all, leveled()).unwrap().level, 2);
    // The deepest level keeps what it has.
    let deep: Vec<FileFacts> = all.iter().map(|f| FileFacts { level: 8, ..f.clone() }).collect();
    let tiny = CompactionOptions { sstable_bytes: 1, fanout: 2, ..leveled() };
    assert_eq!(asked(&deep, tiny), None);
    // As large as one SSTable of level 1 is large enough to go there.
    let mut all = files(&[3, 3, 3, 1]);
    assert_eq!(asked(&all, leveled()).unwrap().level, 1);
    all[0].bytes -= 1;
    assert_eq!(asked(&all, leveled()).unwrap().level, 0);

    // Of SSTables as ripe as each other the oldest is rewritten.
    let day = i64::from(tiered.tombstone_interval_seconds);
    let apart = |n: u64| FileFacts {
        droppable: 0.5,
        age_seconds: day,
        first: Token(n as i64),
        last: Token(n as i64),
        ..file(n, 100 << n)
    };
    assert_eq!(inputs(&[apart(3), apart(2), apart(4)], tiered), [2]);
}

#[test]
fn a_major_merge_of_a_leveled_table_goes_where_there_is_room() {
    let of = |files: &[FileFacts], options: CompactionOptions| {
        major(&Facts { files, options: &options, now_seconds: NOW }).unwrap()
    };
    // Level 1 holds 100 MiB, level 2 ten times that, and so on.
    for (mib, level) in [(50, 1), (51, 2), (500, 2), (501, 3)] {
        let choice = of(&files(&[mib, mib]), leveled());
        assert_eq!((choice.level, choice.cut_bytes), (level, Some(10 * MIB)), "twice {mib}");
    }
    let tiny = CompactionOptions { sstable_bytes: 1, fanout: 2, ..leveled() };
    assert_eq!(of(&files(&[50, 50]), tiny).level, 8, "the deepest one takes all");
    // A part of the SSTables overlaps with the others: it stays on level 0.
    let choice = of(&files(&[1; 33]), leveled());
    assert_eq!((choice.inputs.len(), choice.level, choice.cut_bytes), (32, 0, None));
    let choice = of(&files(&[1; 32]), leveled());
    assert_eq!((choice.inputs.len(), choice.level), (32, 1));
    let expired = FileFacts { is_expired: true, ..file(1, 100) };
    assert_eq!(of(&[expired], leveled()).inputs, [1]);
}

#[test]
fn a_major_merge_takes_everything() {
    let of = |files: &[FileFacts], options: CompactionOptions| {
        major(&Facts { files, options: &options, now_seconds: NOW })
    };
    let tiered = of_class(CompactionClass::SizeTiered);
    assert_eq!(of(&[], tiered), None);
    assert_eq!(of(&files(&[100]), tiered), None, "there is nothing to merge");
    let dead = FileFacts { droppable: 0.01, ..file(1, 100) };
    assert_eq!(of(&[dead], tiered).unwrap().inputs, [1]);
    let dropped = FileFacts { has_dropped: true, ..file(1, 100) };
    assert_eq!(of(&[dropped], tiered).unwrap().inputs, [1]);
    let choice = of(&files(&[100, 1, 3000]), tiered).unwrap();
    assert_eq!((choice.inputs, choice.level, choice.cut_bytes), (vec![1, 2, 3], 0, None));
    let many: Vec<u64> = (1..=40).rev().collect();
    let choice = of(&files(&many), tiered).unwrap();
    assert_eq!(choice.inputs, (9..=40).collect::<Vec<_>>(), "the smallest first");
    let off = CompactionOptions { is_enabled: false, ..tiered };
    assert_eq!(of(&files(&[1, 1]), off).unwrap().reason, Reason::Asked);
    let choice = of(&files(&[50, 51]), leveled()).unwrap();
    assert_eq!((choice.level, choice.cut_bytes), (2, Some(10 * MIB)), "where there is room");
}

fn incremental() -> CompactionOptions {
    CompactionOptions { sstable_bytes: 100 * MIB, ..of_class(CompactionClass::Incremental) }
}

/// Runs of fragments of so many MiB each; numbers ascend, and a run has that of its first one.
fn runs(sizes: &[&[u64]]) -> Vec<FileFacts> {
    let mut files = Vec::new();
    for fragments in sizes {
        let run = files.len() as u64 + 1;
        for (at, mib) in (0..).zip(*fragments) {
            let number = files.len() as u64 + 1;
            let (first, last) = (Token(at * 10), Token(at * 10 + 9));
            files.push(FileFacts { run, first, last, ..file(number, *mib) });
        }
    }
    files
}

#[test]
fn incremental_merges_the_fullest_tier_of_runs() {
    let none: &[u64] = &[];
    type Case<'a> = (&'a str, &'a [&'a [u64]], &'a [u64]);
    let table: [Case<'_>; 7] = [
        ("nothing", &[], none),
        ("one run of many fragments", &[&[100; 9]], none),
        ("three runs are too few", &[&[100, 100], &[100, 100], &[100, 100]], none),
        ("four flushes", &[&[60], &[70], &[60], &[65]], &[1, 2, 3, 4]),
        (
            "four runs of a size, whatever their fragments are",
            &[&[100, 100], &[200], &[100, 90], &[100, 50, 50]],
            &[1, 2, 3, 4, 5, 6, 7, 8],
        ),
        (
            "a large run stays, though its fragments are as large as the others",
            &[&[100, 100, 100, 100], &[100], &[100], &[100], &[100]],
            &[5, 6, 7, 8],
        ),
        ("as SSTables they would be four", &[&[100, 100], &[100, 100]], none),
    ];
    for (what, sizes, wanted) in table {
        assert_eq!(inputs(&runs(sizes), incremental()), wanted, "{what}");
    }
    let choice = asked(&runs(&[&[60][..]; 4]), incremental()).unwrap();
    assert_eq!((choice.level, choice.cut_bytes), (0, Some(100 * MIB)));
    assert_eq!((choice.is_incremental, choice.reason), (true, Reason::Tier));
    let many = runs(&[&[30, 30][..]; 40]);
    assert_eq!(inputs(&many, incremental()).len(), 64, "32 runs at most");
    let off = CompactionOptions { is_enabled: false, ..incremental() };
    assert_eq!(asked(&many, off), None);
}

#[test]
fn incremental_merges_the_two_largest_tiers_above_its_goal() {
    let with = |goal| CompactionOptions {
        space_amplification_goal: Some(Thousandths(goal)),
        ..incremental()
    };
    // 60 and 600 MiB, and a small run that does not count.
    let all = runs(&[&[100; 6], &[60], &[1]]);
    assert_eq!(asked(&all, incremental()), None, "no goal is set");
    assert_eq!(asked(&all, with(1100)), None, "1.1 is not above 1.1");
    let choice = asked(&all, with(1099)).unwrap();
    assert_eq!((choice.inputs, choice.reason), (vec![1, 2, 3, 4, 5, 6, 7], Reason::Space));
    assert!(choice.is_incremental);
    // All runs of both tiers, and those of one tier first when there are enough.
    let all = runs(&[&[100; 6], &[60], &[61]]);
    assert_eq!(inputs(&all, with(1200)).len(), 8);
    let all = runs(&[&[100; 6], &[60], &[61], &[62], &[63]]);
    assert_eq!(inputs(&all, with(1200)), [7, 8, 9, 10]);
    assert_eq!(asked(&runs(&[&[100; 6]]), with(1001)), None, "one tier");
    assert_eq!(asked(&[], with(1001)), None);
}

#[test]
fn a_fragment_is_rewritten_within_its_run() {
    let mut all = runs(&[&[100; 3]]);
    all[1] = FileFacts { is_expired: true, age_seconds: 600, ..all[1].clone() };
    let choice = asked(&all, incremental()).unwrap();
    assert_eq!((choice.inputs, choice.reason), (vec![2], Reason::Expired));
    assert!(choice.is_incremental);
}

#[test]
fn a_major_merge_of_runs_takes_them_whole() {
    let of =
        |files: &[FileFacts]| major(&Facts { files, options: &incremental(), now_seconds: NOW });
    assert_eq!(of(&[]), None);
    assert_eq!(of(&runs(&[&[100; 3]])), None, "one run is as merged as can be");
    let mut dead = runs(&[&[100; 3]]);
    dead[2].droppable = 0.01;
    assert_eq!(of(&dead).unwrap().inputs, [1, 2, 3]);
    let choice = of(&runs(&[&[100; 3], &[1]])).unwrap();
    assert_eq!((choice.inputs, choice.cut_bytes), (vec![1, 2, 3, 4], Some(100 * MIB)));
    assert!(choice.is_incremental);
    let many: Vec<&[u64]> = [&[100, 100][..]].into_iter().chain([&[1, 1][..]; 32]).collect();
    assert_eq!(of(&runs(&many)).unwrap().inputs, (3..=66).collect::<Vec<_>>(), "small runs first");
}

#[test]
fn of_closed_windows_the_latest_is_merged_first_and_of_many_sstables_the_smallest() {
    let two_hours = CompactionOptions {
        window_unit: WindowUnit::Hours,
        window_size: 2,
        max_threshold: 3,
        ..of_class(CompactionClass::TimeWindow)
    };
    let window = 7200;
    let seconds = [1, 2, window, window + 1, window + 2, window + 3, 2 * window];
    let mut all: Vec<FileFacts> =
        (1..).zip(seconds).map(|(number, second)| of_second(number, second)).collect();
    all[2].bytes = 9 * MIB;
    assert_eq!(inputs(&all, two_hours), [4, 5, 6]);
    all.retain(|file| !(4..=6).contains(&file.number));
    assert_eq!(inputs(&all, two_hours), [1, 2], "then that before it");
}

#[test]
fn leveled_takes_the_oldest_of_many_flushes_that_are_of_no_one_size() {
    let few = CompactionOptions { max_threshold: 4, ..leveled() };
    let choice = asked(&files(&[1600, 800, 400, 200, 100]), few).unwrap();
    assert_eq!((choice.inputs, choice.level), (vec![1, 2, 3, 4], 1));
    assert_eq!(choice.reason, Reason::Level);
}

#[test]
fn an_sstable_that_is_rewritten_alone_stays_on_its_level_and_in_its_run() {
    for class in CompactionClass::ALL {
        let expired = |file: FileFacts| FileFacts { is_expired: true, age_seconds: 600, ..file };
        let all = [expired(at_level(1, 3, 100, (0, 9))), at_level(2, 3, 100, (10, 19))];
        let choice = asked(&all, of_class(class)).unwrap();
        assert_eq!((choice.inputs, choice.reason), (vec![1], Reason::Expired), "{class:?}");
        let is_run = class == CompactionClass::Incremental;
        assert_eq!(choice.is_incremental, is_run, "{class:?}");
        // Runs have no levels.
        assert_eq!(choice.level, if is_run { 0 } else { 3 }, "{class:?}");
        let is_cut = is_run || class == CompactionClass::Leveled;
        assert_eq!(choice.cut_bytes.is_some(), is_cut, "{class:?}");
    }
}

#[test]
fn a_merge_of_runs_takes_no_more_of_them_than_it_may() {
    let two = CompactionOptions {
        max_threshold: 2,
        space_amplification_goal: Some(Thousandths(1200)),
        ..incremental()
    };
    let choice = asked(&runs(&[&[100; 6], &[60], &[61], &[62]]), two).unwrap();
    assert_eq!((choice.inputs, choice.reason), (vec![7, 8], Reason::Space));
    // One run is merged where anything of it can go, of whichever fragment.
    let changes: [fn(&mut FileFacts); 3] = [
        |file| file.droppable = 0.01,
        |file| file.is_expired = true,
        |file| file.has_dropped = true,
    ];
    for change in changes {
        for at in 0..3 {
            let mut all = runs(&[&[100; 3]]);
            change(&mut all[at]);
            let facts = Facts { files: &all, options: &incremental(), now_seconds: NOW };
            assert_eq!(major(&facts).unwrap().inputs, [1, 2, 3], "fragment {at}");
        }
    }
}

/// One may end with the token with which the other begins: there they have a partition in common.
#[test]
fn sstables_that_touch_at_one_token_meet_and_keep_the_tombstones_of_each_other() {
    let tiered = of_class(CompactionClass::SizeTiered);
    let day = i64::from(tiered.tombstone_interval_seconds);
    let own = at_level(1, 0, 1, (10, 20));
    for (tokens, meets) in [
        ((0, 9), false),
        ((0, 10), true),
        ((10, 10), true),
        ((12, 15), true),
        ((0, 30), true),
        ((20, 20), true),
        ((20, 30), true),
        ((21, 30), false),
    ] {
        let older = FileFacts { min_timestamp: 0, ..at_level(2, 0, 100, tokens) };
        assert_eq!((own.meets(&older), older.meets(&own)), (meets, meets), "{tokens:?}");
        let expired = FileFacts { is_expired: true, age_seconds: 600, ..own.clone() };
        let dead = FileFacts { droppable: 0.9, age_seconds: day, ..own.clone() };
        let wanted: &[u64] = if meets { &[] } else { &[1] };
        for own in [expired, dead] {
            assert_eq!(inputs(&[own, older.clone()], tiered), wanted, "{tokens:?}");
        }
    }
}

#[test]
fn of_sstables_of_many_tombstones_that_with_most_is_rewritten() {
    let tiered = of_class(CompactionClass::SizeTiered);
    let day = i64::from(tiered.tombstone_interval_seconds);
    for most in 1..=3 {
        let apart = |n: u64| FileFacts {
            droppable: if n == most { 0.6 } else { 0.5 },
            age_seconds: day,
            first: Token(n as i64),
            last: Token(n as i64),
            ..file(n, 100 << n)
        };
        assert_eq!(inputs(&[apart(1), apart(2), apart(3)], tiered), [most]);
    }
}

#[test]
fn leveled_is_behind_with_one_flush_more_than_a_merge_takes() {
    for (count, level, reason) in [(32, 1, Reason::Level), (33, 0, Reason::Tier)] {
        let choice = asked(&files(&vec![1; count]), leveled()).unwrap();
        assert_eq!((choice.level, choice.reason), (level, reason), "{count}");
        assert_eq!(choice.inputs, (1..=32).collect::<Vec<_>>(), "{count}");
    }
}

/// A run is as old as its youngest fragment, and as large as all of them.
#[test]
fn small_runs_of_a_table_at_rest_become_one() {
    let aged = |sizes: &[&[u64]]| {
        let files = runs(sizes).into_iter();
        files.map(|file| FileFacts { age_seconds: 60, ..file }).collect::<Vec<_>>()
    };
    let all = aged(&[&[10, 10, 10], &[20]]);
    assert_eq!(inputs(&all, incremental()), [1, 2, 3, 4]);
    for at in 0..all.len() {
        let mut younger = all.clone();
        younger[at].age_seconds = 59;
        assert_eq!(inputs(&younger, incremental()), [0; 0], "{at}");
    }
    assert_eq!(inputs(&aged(&[&[30, 30], &[30, 30]]), incremental()), [0; 0], "they are not small");
}

/// What is deeper gives way first, so that there is room for what comes down.
#[test]
fn of_levels_that_are_too_full_the_deepest_gives_way_first_and_flushes_last() {
    // Level 1 holds 20 MiB, level 2 twice that, and so on.
    let options = CompactionOptions { fanout: 2, ..leveled() };
    let flushed = (0..4_u64).map(|n| at_level(n + 1, 0, 10, (0, 99)));
    let full = |level: u32, mib: u64| at_level(100 + u64::from(level), level, mib, (0, 99));
    for (levels, wanted) in [
        (&[][..], 0),
        (&[(1, 20), (2, 40), (3, 80)], 0),
        (&[(1, 21)], 1),
        (&[(1, 21), (2, 41)], 2),
        (&[(1, 21), (2, 41), (3, 81)], 3),
        (&[(1, 21), (2, 40), (3, 81)], 3),
        (&[(1, 2000), (2, 41), (3, 80)], 2),
        (&[(7, 1290), (8, 1 << 20)], 7),
    ] {
        let all: Vec<FileFacts> =
            flushed.clone().chain(levels.iter().map(|(level, mib)| full(*level, *mib))).collect();
        let choice = asked(&all, options).unwrap();
        assert_eq!((choice.level, choice.reason), (wanted + 1, Reason::Level), "{levels:?}");
        let has_flushes = choice.inputs.contains(&1);
        assert_eq!(has_flushes, wanted == 0, "{levels:?}: {:?}", choice.inputs);
        // And all of the next level that it meets.
        let met: Vec<u64> = levels
            .iter()
            .filter(|(level, _)| *level == wanted || *level == wanted + 1)
            .map(|(level, _)| 100 + u64::from(*level))
            .collect();
        let own: Vec<u64> = choice.inputs.iter().copied().filter(|n| *n >= 100).collect();
        assert_eq!(own, met, "{levels:?}");
    }
}

/// What counts is what has to be rewritten for each byte that comes down.
#[test]
fn of_a_full_level_the_sstable_goes_down_that_meets_least_for_its_own_bytes() {
    let next = [at_level(20, 2, 10, (0, 9)), at_level(21, 2, 10, (10, 19))];
    for (own, wanted) in [
        // Ten for thirty, and twenty for eighty.
        ([(30, (0, 4)), (80, (5, 19))], vec![2, 20, 21]),
        ([(50, (0, 4)), (80, (5, 19))], vec![1, 20]),
        ([(40, (0, 4)), (80, (5, 19))], vec![1, 20]),
        ([(100, (0, 19)), (5, (50, 59))], vec![2]),
    ] {
        let level = (1..).zip(own).map(|(number, (mib, tokens))| at_level(number, 1, mib, tokens));
        let all: Vec<FileFacts> = level.chain(next.clone()).collect();
        let choice = asked(&all, leveled()).unwrap();
        assert_eq!((choice.inputs, choice.level), (wanted, 2), "{own:?}");
    }
}

#[test]
fn the_newest_window_goes_before_closed_ones_if_it_has_enough() {
    let hours = CompactionOptions {
        window_unit: WindowUnit::Hours,
        window_size: 1,
        ..of_class(CompactionClass::TimeWindow)
    };
    let closed = [of_second(1, 10), of_second(2, 20)];
    for (count, wanted) in [(0, &[][..]), (1, &[1, 2]), (3, &[1, 2]), (4, &[3, 4, 5, 6])] {
        let newest = (0..count).map(|n| of_second(3 + n as u64, 3600 + n));
        let all: Vec<FileFacts> = closed.iter().cloned().chain(newest).collect();
        assert_eq!(inputs(&all, hours), wanted, "{count} in the newest window");
    }
    // One SSTable between them is a window of its own.
    let apart = [of_second(1, 10), of_second(2, 3600), of_second(3, 7200)];
    assert_eq!(asked(&apart, hours), None);
}

/// A merge of several lets go of tombstones as well, and of more.
#[test]
fn what_a_strategy_wants_goes_before_tombstones_of_one_sstable_and_behind_what_has_expired() {
    for class in CompactionClass::ALL {
        let options = CompactionOptions { sstable_bytes: 10 * MIB, ..of_class(class) };
        let day = i64::from(options.tombstone_interval_seconds);
        let mut all = files(&[60, 60, 60, 60]);
        // Its tokens are its own, and nobody needs what it has dead.
        let apart = FileFacts { first: Token(200), last: Token(300), ..file(9, 5000) };
        let ripe = FileFacts { droppable: 0.9, age_seconds: day, level: 8, ..apart.clone() };
        all.push(ripe.clone());
        let choice = asked(&all, options).unwrap();
        assert_eq!(choice.inputs, [1, 2, 3, 4], "{class:?}");
        assert_eq!(inputs(&[ripe], options), [9], "{class:?}");
        all[4] = FileFacts { is_expired: true, age_seconds: 600, level: 8, ..apart };
        let choice = asked(&all, options).unwrap();
        assert_eq!((choice.inputs, choice.reason), (vec![9], Reason::Expired), "{class:?}");
    }
}

#[test]
fn each_reason_has_a_word_of_its_own() {
    for (reason, word) in [
        (Reason::Tier, "tier"),
        (Reason::Level, "level"),
        (Reason::Window, "window"),
        (Reason::Space, "space"),
        (Reason::Expired, "expired"),
        (Reason::Tombstones, "tombstones"),
        (Reason::Asked, "asked"),
        (Reason::Policy, "policy"),
        (Reason::Reshard, "reshard"),
    ] {
        assert_eq!(reason.name(), word);
        let all = files(&[1]);
        let choice = Choice::whole(&all, reason);
        assert_eq!(choice.is_resharding(), word == "reshard", "{word}");
    }
}
