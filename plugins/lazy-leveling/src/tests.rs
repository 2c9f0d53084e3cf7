//! What is chosen of which runs, and what years of flushes come to.

use super::*;

const MIB: u64 = 1 << 20;

fn table() -> Table {
    Table { sstable_bytes: 160 * MIB, ..Table::default() }
}

/// SSTables of so many MiB, each a run by itself.
fn files(sizes: &[u64]) -> Vec<Sstable> {
    let file =
        |(id, mib): (u64, &u64)| Sstable { id, run: id, bytes: mib * MIB, ..Sstable::default() };
    (1..).zip(sizes).map(file).collect()
}

fn inputs(policy: &mut LazyLeveling, sstables: &[Sstable]) -> Vec<u64> {
    match policy.pick(&table(), sstables) {
        Choice::Merge(mut job) => {
            assert!(job.incremental && job.level == 0 && job.split_bytes == 160 * MIB);
            job.inputs.sort_unstable();
            job.inputs
        }
        choice => {
            assert_eq!(choice, Choice::Nothing);
            Vec::new()
        }
    }
}

fn policy() -> LazyLeveling {
    LazyLeveling::new(&Setup::default()).unwrap()
}

#[test]
fn full_tiers_become_one_run_and_the_large_one_waits() {
    let none: &[u64] = &[];
    let cases: [(&str, &[u64], &[u64]); 7] = [
        ("nothing", &[], none),
        ("one", &[5], none),
        ("three are too few", &[5, 5, 5], none),
        ("four of a size", &[5, 5, 5, 5], &[1, 2, 3, 4]),
        ("four beside a large one", &[5, 5, 5, 5, 1000], &[1, 2, 3, 4]),
        ("what stands beside it is a quarter", &[60, 70, 80, 50, 1000], &[1, 2, 3, 4, 5]),
        ("two tiers, none full", &[5, 5, 5, 30, 30, 1000], none),
    ];
    for (what, sizes, wanted) in cases {
        assert_eq!(inputs(&mut policy(), &files(sizes)), wanted, "{what}");
    }
}

#[test]
fn sstables_of_a_run_stay_together() {
    let mut sstables = files(&[100, 100, 100, 100, 3, 3, 3, 3]);
    sstables[..4].iter_mut().for_each(|file| file.run = 1);
    assert_eq!(inputs(&mut policy(), &sstables), [5, 6, 7, 8]);
    // Too many for one merge: the smallest runs go first.
    let many = files(&[1; 200]);
    assert_eq!(inputs(&mut policy(), &many).len(), RUNS_MAX);
}

#[test]
fn parameters_out_of_range_are_refused() {
    for (name, value) in [("ratio", "1"), ("ratio", "33"), ("tiers", "4")] {
        let params = vec![(name.to_string(), value.to_string())];
        let refused = LazyLeveling::new(&Setup { params, ..Setup::default() }).unwrap_err();
        assert!(refused.contains(name), "{refused}");
    }
}

/// A thousand flushes of rows that are all new: runs stay few. A row is written once a tier, and in the
/// largest run each time that grew by a quarter.
#[test]
fn runs_stay_few_and_rewrites_too() {
    let (mut policy, mut sstables, mut id) = (policy(), Vec::new(), 0);
    let (mut flushed, mut written, mut most) = (0, 0, 0);
    for _ in 0..1000 {
        id += 1;
        sstables.push(Sstable { id, run: id, bytes: 10 * MIB, ..Sstable::default() });
        flushed += 10 * MIB;
        for step in 0.. {
            assert!(step < 10, "merges of {} SSTables do not end", sstables.len());
            let Choice::Merge(job) = policy.pick(&table(), &sstables) else { break };
            let is_input = |file: &mut Sstable| job.inputs.contains(&file.id);
            let merged: Vec<Sstable> = sstables.extract_if(.., is_input).collect();
            assert_eq!(merged.len(), job.inputs.len(), "each input is there");
            let mut left: u64 = merged.iter().map(|file| file.bytes).sum();
            written += left;
            let run = id + 1;
            while left > 0 {
                id += 1;
                let bytes = left.min(job.split_bytes);
                left -= bytes;
                sstables.push(Sstable { id, run, bytes, ..Sstable::default() });
            }
        }
        let runs = runs_of(&sstables);
        most = most.max(runs.len());
    }
    let amplification = written as f64 / flushed as f64;
    assert!(most <= 14, "{most} runs");
    assert!((3.0..8.0).contains(&amplification), "each byte is written {amplification} times");
}
