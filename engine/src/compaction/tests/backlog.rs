//! What a table has before it, and the shares that follow.

use super::strategies::{NOW, at_level, file, files, of_class};
use crate::compaction::{Facts, FileFacts, backlog, shares};
use crate::schema::{CompactionClass, CompactionOptions};

const MIB: u64 = 1 << 20;

fn mib(files: &[FileFacts], options: CompactionOptions) -> u64 {
    backlog(&Facts { files, options: &options, now_seconds: NOW }) / MIB
}

#[test]
fn a_backlog_is_what_merges_would_read() {
    let tiered = of_class(CompactionClass::SizeTiered);
    for (what, sizes, wanted) in [
        ("nothing", &[][..], 0),
        ("three are too few", &[100, 100, 100], 0),
        ("four of a size", &[100, 100, 100, 100], 400),
        ("and what comes of it", &[100, 100, 100, 100, 400, 400, 400], 400 + 1600),
        ("one large one is left alone", &[100, 100, 100, 100, 4000], 400),
    ] {
        assert_eq!(mib(&files(sizes), tiered), wanted, "{what}");
    }
    let off = CompactionOptions { is_enabled: false, ..tiered };
    assert_eq!(mib(&files(&[100; 8]), off), 0);
    // What is expired is read once and gone.
    let expired = |number| FileFacts { is_expired: true, age_seconds: 600, ..file(number, 7) };
    let apart = |number: u64| FileFacts {
        min_timestamp: 100 * number as i64,
        max_timestamp: 100 * number as i64 + 1,
        ..expired(number)
    };
    assert_eq!(mib(&[apart(1), apart(2)], tiered), 14);
}

#[test]
fn every_strategy_comes_to_an_end() {
    let many = files(&[50; 40]);
    for class in CompactionClass::ALL {
        let options = CompactionOptions { sstable_bytes: 160 * MIB, ..of_class(class) };
        let found = mib(&many, options);
        assert!((2_000..=8_000).contains(&found), "{class:?}: {found} MiB of 2,000");
    }
    let leveled =
        CompactionOptions { sstable_bytes: 10 * MIB, ..of_class(CompactionClass::Leveled) };
    // A level that holds what it may has nothing before it.
    let settled: Vec<FileFacts> =
        (1..=10).map(|at| at_level(at, 1, 10, (at as i64 * 10, at as i64 * 10 + 9))).collect();
    assert_eq!(mib(&settled, leveled), 0);
    let full: Vec<FileFacts> =
        (1..=12).map(|at| at_level(at, 1, 10, (at as i64 * 10, at as i64 * 10 + 9))).collect();
    assert_eq!(mib(&full, leveled), 20, "two SSTables go a level down");
}

#[test]
fn shares_grow_with_the_backlog() {
    let memory = 1 << 30;
    let of = |times: f64| shares((times * memory as f64) as u64, memory);
    assert_eq!([of(0.0), of(1.5), of(15.75), of(30.0), of(500.0)], [100, 100, 550, 1000, 1000]);
    assert_eq!(shares(u64::MAX, 0), 1000);
}

/// Of so many SSTables a table has much before it in any case.
#[test]
fn of_many_sstables_two_merges_are_looked_ahead_and_of_fewer_all() {
    let tiered = of_class(CompactionClass::SizeTiered);
    // Eight merges of 32 each, and one of what comes of them.
    assert_eq!(mib(&files(&[50; 256]), tiered), 2 * 256 * 50);
    assert_eq!(mib(&files(&[50; 257]), tiered), 2 * 32 * 50);
    // Sixteen merges at most.
    let few = CompactionOptions { max_threshold: 4, ..tiered };
    assert_eq!(mib(&files(&[50; 256]), few), 16 * 4 * 50);
}
