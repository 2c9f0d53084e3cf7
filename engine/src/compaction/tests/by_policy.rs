//! What a policy may choose, and who chooses where it may not.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::strategies::{NOW, file, files};
use crate::compaction::{Choice, Facts, FileFacts, Reason, Shapes, choose_by};
use crate::policy::compaction::{
    Chooser, CompactionPolicy, Pick, SstableFacts, TableFacts, TableStrategy, WantedMerge,
};
use crate::policy::{FailureKind, PolicyFailure};
use crate::schema::{CompactionClass, CompactionOptions, Token};

const MIB: u64 = 1 << 20;

/// What a policy is told once.
type Told = (TableFacts, Vec<SstableFacts>);

/// Answers in turn, then fails; and what it was told last.
#[derive(Default, Clone)]
struct Script {
    answers: Rc<RefCell<VecDeque<Pick>>>,
    seen: Rc<RefCell<Option<Told>>>,
}

impl CompactionPolicy for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn pick(
        &mut self,
        table: &TableFacts,
        sstables: &[SstableFacts],
    ) -> Result<Pick, PolicyFailure> {
        *self.seen.borrow_mut() = Some((table.clone(), sstables.to_vec()));
        self.answers.borrow_mut().pop_front().ok_or_else(|| PolicyFailure {
            kind: FailureKind::Trap,
            message: "on purpose".into(),
            backtrace: Vec::new(),
        })
    }
}

fn governed(answers: impl IntoIterator<Item = Pick>) -> (Chooser, Script) {
    let (chooser, script) = (Chooser::default(), Script::default());
    script.answers.borrow_mut().extend(answers);
    chooser.set(Some(("p".to_owned(), Box::new(script.clone()))));
    (chooser, script)
}

fn asked(chooser: &Chooser, files: &[FileFacts], options: CompactionOptions) -> Option<Choice> {
    let facts = Facts { files, options: &options, now_seconds: NOW };
    choose_by(chooser, || "k.t".to_owned(), &facts, &Shapes::default())
}

fn wanted(inputs: &[u64]) -> WantedMerge {
    WantedMerge { inputs: inputs.to_vec(), level: 0, split_bytes: 0, is_incremental: false }
}

/// Disjoint, in the order of their numbers.
fn side_by_side(count: i64) -> Vec<FileFacts> {
    let beside = |at: i64| FileFacts {
        first: Token(at * 10),
        last: Token(at * 10 + 5),
        ..file(at as u64 + 1, 100)
    };
    (0..count).map(beside).collect()
}

#[test]
fn a_policy_is_told_what_is_there_and_chooses() {
    let job =
        WantedMerge { inputs: vec![3, 1], level: 2, split_bytes: 5 * MIB, is_incremental: true };
    let (chooser, script) = governed([Pick::Merge(job), Pick::Nothing, Pick::Strategy]);
    let all = [
        FileFacts {
            level: 1,
            run: 9,
            first: Token(-7),
            last: Token(8),
            droppable: 0.25,
            age_seconds: 12,
            ..file(1, 100)
        },
        FileFacts { is_expired: true, ..file(2, 1) },
        FileFacts { age_seconds: -3, ..file(3, 100) },
    ];
    let options = CompactionOptions { class: CompactionClass::Leveled, ..Default::default() };
    let choice = asked(&chooser, &all, options).expect("the merge is legal");
    assert_eq!((choice.inputs, choice.level), (vec![1, 3], 2));
    assert_eq!((choice.cut_bytes, choice.is_incremental), (Some(5 * MIB), true));
    assert_eq!((choice.reason, choice.reason.name()), (Reason::Policy, "policy"));
    let (table, sstables) = script.seen.take().expect("it was asked");
    assert_eq!((&*table.name, table.now_seconds), ("k.t", NOW as u64));
    assert_eq!(table.strategy, TableStrategy::Leveled);
    assert_eq!((table.min_threshold, table.max_threshold), (4, 32));
    assert_eq!(table.sstable_bytes, options.sstable_bytes);
    let first = SstableFacts {
        number: 1,
        run: 9,
        level: 1,
        bytes: 100 * MIB,
        partitions: 100,
        rows: 10_000,
        first_token: -7,
        last_token: 8,
        min_timestamp: 10,
        max_timestamp: 15,
        droppable_per_mille: 250,
        age_seconds: 12,
    };
    assert_eq!(sstables[0], first);
    assert_eq!((sstables[1].droppable_per_mille, sstables[2].age_seconds), (1000, 0));
    // Nothing, though the strategy wants something; then the strategy.
    let many = files(&[100; 4]);
    let tiered = CompactionOptions::default();
    assert_eq!(asked(&chooser, &many, tiered), None);
    assert_eq!(asked(&chooser, &many, tiered).map(|choice| choice.reason), Some(Reason::Tier));
    let status = chooser.status();
    assert_eq!((status.asked, status.merges, status.refused), (3, 1, 0));
}

#[test]
fn a_merge_that_is_not_legal_is_not_made_and_the_strategy_decides() {
    let disjoint = side_by_side(6);
    let with = |change: fn(&mut WantedMerge)| {
        let mut wanted = wanted(&[1, 2, 3]);
        change(&mut wanted);
        wanted
    };
    let crowd = files(&[100; 63]);
    for (what, merge, part) in [
        ("of nothing", wanted(&[]), "no SSTables"),
        ("of one that is not there", wanted(&[1, 7]), "SSTable 7 is none"),
        ("of one twice", wanted(&[2, 1, 2]), "SSTable 2 is named twice"),
        ("too deep", with(|wanted| wanted.level = 9), "the deepest is 8"),
        ("into crumbs", with(|wanted| wanted.split_bytes = 1000), "the least is 1048576"),
        ("incremental, uncut", with(|wanted| wanted.is_incremental = true), "cut nowhere"),
        ("of one", wanted(&[4]), "nothing of SSTable 4 can go"),
        ("that changes nothing", with(|wanted| wanted.split_bytes = 100 * MIB), "become as many"),
        ("into many", with(|wanted| wanted.split_bytes = 1 << 20), "become 300"),
        ("of many", wanted(&(1..=1025).collect::<Vec<_>>()), "the most is 1024"),
    ] {
        let (chooser, _) = governed([Pick::Merge(merge)]);
        assert_eq!(
            asked(&chooser, &disjoint, CompactionOptions::default()).unwrap().reason,
            Reason::Tier
        );
        let status = chooser.status();
        assert_eq!((status.asked, status.merges, status.refused), (1, 1, 1), "{what}");
        let told = status.last_refused.expect("it is told");
        assert!(told.contains(part), "{what}: {told}");
        assert!(chooser.has_policy(), "a merge that is not legal is no failure");
    }
    // As many streams as a merge has, of SSTables of which each meets all.
    let all: Vec<u64> = crowd.iter().map(|file| file.number).collect();
    let (chooser, _) = governed([Pick::Merge(wanted(&all))]);
    assert_eq!(asked(&chooser, &crowd, CompactionOptions::default()).unwrap().inputs, all);
}

#[test]
fn a_merge_must_gain_something() {
    let disjoint = side_by_side(4);
    let choose = |files: &[FileFacts], merge: WantedMerge| {
        let (chooser, _) = governed([Pick::Merge(merge)]);
        let options = CompactionOptions { min_threshold: 32, ..CompactionOptions::default() };
        asked(&chooser, files, options).is_some()
    };
    let cut = |mib: u64, level| WantedMerge { split_bytes: mib * MIB, level, ..wanted(&[1, 2, 3]) };
    assert!(!choose(&disjoint, cut(100, 0)), "three would become three");
    assert!(!choose(&disjoint, cut(99, 0)) && !choose(&disjoint, cut(99, 1)), "or four");
    assert!(choose(&disjoint, cut(150, 0)), "fewer");
    assert!(choose(&disjoint, cut(100, 1)), "deeper");
    assert!(choose(&files(&[100; 3]), cut(100, 0)), "less overlap");
    let deep: Vec<FileFacts> =
        disjoint.iter().map(|file| FileFacts { level: 2, ..file.clone() }).collect();
    assert!(!choose(&deep, cut(100, 2)) && !choose(&deep, cut(100, 1)), "as deep, or less");
    assert!(!choose(&deep, cut(150, 1)), "fewer, and less deep");
    let one = |change: fn(&mut FileFacts)| {
        let mut only = FileFacts { age_seconds: 60, ..file(1, 100) };
        change(&mut only);
        choose(&[only], wanted(&[1]))
    };
    assert!(!one(|_| {}), "nothing can go");
    assert!(one(|file| file.droppable = 0.001) && one(|file| file.has_dropped = true));
    assert!(!one(|file| (file.droppable, file.age_seconds) = (0.9, 59)), "too young");
    let older = [FileFacts { droppable: 0.5, age_seconds: 99, ..file(2, 100) }, file(1, 100)];
    assert!(!choose(&older, wanted(&[2])), "an older one may need its tombstones");
    // Level 1 is disjoint, whoever chooses.
    let full = [file(1, 100), file(2, 100), FileFacts { level: 1, ..file(3, 100) }];
    let down = WantedMerge { level: 1, ..wanted(&[1, 2]) };
    assert!(!choose(&full, down.clone()), "what is there on level 1 overlaps it");
    assert!(choose(&full, WantedMerge { inputs: vec![1, 2, 3], ..down }));
}

/// Apart, each step gains something; together they lead back.
#[test]
fn a_policy_that_goes_round_is_stopped_until_there_is_new_data() {
    // A and C become one around B, and then all three are cut again.
    let apart = side_by_side(3);
    let around = [
        FileFacts { first: apart[0].first, last: apart[2].last, bytes: 200 * MIB, ..file(4, 200) },
        apart[1].clone(),
    ];
    let round = [
        (&apart[..], wanted(&[1, 3])),
        (&around[..], WantedMerge { split_bytes: 100 * MIB, ..wanted(&[2, 4]) }),
    ];
    let mut shapes = Shapes::default();
    let choose = |shapes: &Shapes, files: &[FileFacts], merge: &WantedMerge| {
        let (chooser, _) = governed([Pick::Merge(merge.clone())]);
        let options = CompactionOptions { min_threshold: 32, ..CompactionOptions::default() };
        let facts = Facts { files, options: &options, now_seconds: NOW };
        let choice = choose_by(&chooser, || "k.t".to_owned(), &facts, shapes);
        (choice.is_some(), chooser.status().last_refused.unwrap_or_default())
    };
    for (files, merge) in &round {
        assert!(choose(&shapes, files, merge).0, "the first time");
        shapes.leave(files);
    }
    for (files, merge) in &round {
        // In whatever order they stand.
        let turned: Vec<FileFacts> = files.iter().rev().cloned().collect();
        for files in [*files, &turned[..]] {
            let (is_chosen, told) = choose(&shapes, files, merge);
            assert!(!is_chosen && told.contains("merges go round"), "{told}");
        }
    }
    shapes.clear();
    assert!(choose(&shapes, round[0].0, &round[0].1).0, "there is new data");
}

#[test]
fn the_engine_decides_where_a_policy_lets_sstables_pile_up() {
    let overlapping = |count: u64| files(&vec![100; count as usize]);
    for (count, wanted) in [(64, None), (65, Some(Reason::Tier))] {
        let (chooser, _) = governed([Pick::Nothing]);
        let choice = asked(&chooser, &overlapping(count), CompactionOptions::default());
        assert_eq!(choice.map(|choice| choice.reason), wanted, "{count}");
        assert_eq!(chooser.status().asked, u64::from(wanted.is_none()));
    }
    // Where the strategy does not see them.
    let deep: Vec<FileFacts> =
        overlapping(70).into_iter().map(|file| FileFacts { level: 8, ..file }).collect();
    let leveled = CompactionOptions { class: CompactionClass::Leveled, ..Default::default() };
    let (chooser, _) = governed([Pick::Nothing]);
    assert_eq!(asked(&chooser, &deep, leveled).unwrap().inputs, (1..=32).collect::<Vec<_>>());
    // Side by side they cost a read nothing.
    let (chooser, _) = governed([Pick::Nothing]);
    assert_eq!(asked(&chooser, &side_by_side(500), CompactionOptions::default()), None);
    // What only takes room goes whatever a policy says.
    let expired = FileFacts { is_expired: true, age_seconds: 600, ..file(1, 100) };
    let (chooser, script) = governed([]);
    let choice = asked(&chooser, &[expired], CompactionOptions::default());
    assert_eq!(choice.map(|choice| choice.reason), Some(Reason::Expired));
    assert!(script.seen.take().is_none());
}

#[test]
fn a_policy_that_fails_is_asked_no_more_and_a_switched_off_table_is_not_asked() {
    let off = CompactionOptions { is_enabled: false, ..CompactionOptions::default() };
    let (chooser, _) = governed([]);
    let many = files(&[100; 4]);
    assert_eq!(asked(&chooser, &many, off), None);
    assert_eq!(chooser.status().asked, 0);
    for _ in 0..3 {
        let choice = asked(&chooser, &many, CompactionOptions::default());
        assert_eq!(choice.map(|choice| choice.reason), Some(Reason::Tier));
    }
    let status = chooser.status();
    assert_eq!((status.name.as_deref(), status.asked), (Some("p"), 1));
    assert_eq!(status.failure.map(|failure| failure.message), Some("on purpose".to_owned()));
    assert!(chooser.take_new() && !chooser.take_new(), "tables are asked once when it is set");
    chooser.set(None);
    assert!(chooser.take_new() && !chooser.has_policy());
    assert_eq!(chooser.status(), Default::default());
}

#[test]
fn a_merge_may_write_so_many_sstables_and_no_more() {
    for (mib, reason) in [(512, None), (513, Some("into 1026 SSTables, the most is 1024"))] {
        let cut = WantedMerge { split_bytes: MIB, ..wanted(&[1, 2]) };
        let (chooser, _) = governed([Pick::Merge(cut)]);
        let choice = asked(&chooser, &files(&[mib, mib]), CompactionOptions::default());
        let told = chooser.status().last_refused.unwrap_or_default();
        assert_eq!(choice.is_some(), reason.is_none(), "twice {mib} MiB: {told}");
        assert!(told.contains(reason.unwrap_or("")), "twice {mib} MiB: {told}");
    }
}

#[test]
fn a_policy_is_told_the_strategy_of_the_table_and_numbers_within_their_limits() {
    for (class, strategy) in [
        (CompactionClass::SizeTiered, TableStrategy::SizeTiered),
        (CompactionClass::Leveled, TableStrategy::Leveled),
        (CompactionClass::TimeWindow, TableStrategy::TimeWindow),
        (CompactionClass::Incremental, TableStrategy::Incremental),
    ] {
        let (chooser, script) = governed([Pick::Nothing]);
        let options =
            CompactionOptions { class, min_threshold: 3, max_threshold: 7, ..Default::default() };
        assert_eq!(asked(&chooser, &files(&[100]), options), None);
        let (table, _) = script.seen.take().expect("it was asked");
        assert_eq!(table.strategy, strategy);
        assert_eq!((table.min_threshold, table.max_threshold), (3, 7), "{class:?}");
    }
    for (droppable, per_mille) in
        [(-0.5, 0), (0.0, 0), (0.0009, 0), (0.5, 500), (0.9999, 999), (1.0, 1000), (7.0, 1000)]
    {
        for (age_seconds, told) in [(-1, 0), (0, 0), (59, 59), (i64::MAX, u32::MAX)] {
            let (chooser, script) = governed([Pick::Nothing]);
            let only = [FileFacts { droppable, age_seconds, ..file(1, 100) }];
            let (options, shapes) = (CompactionOptions::default(), Shapes::default());
            let facts = Facts { files: &only, options: &options, now_seconds: -1 };
            assert_eq!(choose_by(&chooser, || "k.t".to_owned(), &facts, &shapes), None);
            let (table, sstables) = script.seen.take().expect("it was asked");
            assert_eq!(table.now_seconds, 0, "a clock that stands before the epoch");
            assert_eq!(sstables[0].droppable_per_mille, per_mille, "{droppable}");
            assert_eq!(sstables[0].age_seconds, told, "{age_seconds}");
        }
    }
}

#[test]
fn a_shape_is_what_a_merge_may_gain_and_not_what_each_merge_changes() {
    let before = side_by_side(3);
    let mut shapes = Shapes::default();
    shapes.leave(&before);
    let is_chosen = |change: fn(&mut FileFacts)| {
        let mut files = before.clone();
        change(&mut files[2]);
        let (chooser, _) = governed([Pick::Merge(wanted(&[1, 2]))]);
        let options = CompactionOptions { min_threshold: 32, ..CompactionOptions::default() };
        let facts = Facts { files: &files, options: &options, now_seconds: NOW };
        choose_by(&chooser, || "k.t".to_owned(), &facts, &shapes).is_some()
    };
    let gains: [fn(&mut FileFacts); 5] = [
        |file| file.first = Token(21),
        |file| file.last = Token(26),
        |file| file.level = 1,
        |file| file.rows -= 1,
        |file| file.partitions -= 1,
    ];
    for (at, change) in gains.into_iter().enumerate() {
        assert!(is_chosen(change), "{at}: it is another shape");
    }
    let others: [fn(&mut FileFacts); 5] = [
        |_| {},
        |file| file.number = 30,
        |file| file.run = 30,
        |file| file.bytes += 1,
        |file| file.age_seconds += 1,
    ];
    for (at, change) in others.into_iter().enumerate() {
        assert!(!is_chosen(change), "{at}: it is the same shape");
    }
}

#[test]
fn sstables_that_touch_at_one_token_overlap_for_policies_as_well() {
    let spread = |number: u64, level, (first, last): (i64, i64)| FileFacts {
        level,
        first: Token(first),
        last: Token(last),
        ..file(number, 100)
    };
    let options = CompactionOptions { min_threshold: 32, ..CompactionOptions::default() };
    // The engine decides by itself where 65 have one token in common.
    for (first, is_asked) in [(9, false), (10, false), (11, true)] {
        let crowd = (1..=64).map(|number| spread(number, 0, (0, 10)));
        let all: Vec<FileFacts> = crowd.chain([spread(65, 0, (first, 20))]).collect();
        let (chooser, _) = governed([Pick::Nothing]);
        assert_eq!(asked(&chooser, &all, options).is_none(), is_asked, "from {first}");
        assert_eq!(chooser.status().asked, u64::from(is_asked), "from {first}");
    }
    // Two SSTables that become two are fewer for the token that both have.
    let cut = WantedMerge { split_bytes: 100 * MIB, ..wanted(&[1, 2]) };
    for (first, gains) in [(10, true), (11, false)] {
        let (chooser, _) = governed([Pick::Merge(cut.clone())]);
        let both = [spread(1, 0, (0, 10)), spread(2, 0, (first, 20))];
        assert_eq!(asked(&chooser, &both, options).is_some(), gains, "from {first}");
    }
    // What is there on the level is in the way from the first token to the last, on each level.
    for level in [1, 8] {
        for (tokens, fits) in
            [((-9, -1), true), ((-9, 0), false), ((10, 19), false), ((11, 19), true)]
        {
            let (chooser, _) = governed([Pick::Merge(WantedMerge { level, ..wanted(&[1, 2]) })]);
            let flushed = [1, 2].map(|number| spread(number, 0, (0, 10)));
            let all = [&flushed[..], &[spread(3, level, tokens)]].concat();
            let choice = asked(&chooser, &all, options);
            assert_eq!(choice.is_some(), fits, "{tokens:?} of level {level}");
        }
    }
}

#[test]
fn an_sstable_is_merged_alone_for_whatever_can_go_of_it() {
    let options = CompactionOptions { min_threshold: 32, ..CompactionOptions::default() };
    let is_chosen = |change: fn(&mut FileFacts), others: &[FileFacts]| {
        let mut own = FileFacts { age_seconds: 60, ..file(2, 100) };
        change(&mut own);
        let (chooser, _) = governed([Pick::Merge(wanted(&[2]))]);
        asked(&chooser, &[others, &[own]].concat(), options).is_some()
    };
    let changes: [fn(&mut FileFacts); 3] = [
        |file| file.droppable = 0.001,
        |file| file.is_expired = true,
        |file| file.has_dropped = true,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert!(is_chosen(change, &[]), "{at}");
        // What went with its column goes, whatever others have.
        assert_eq!(is_chosen(change, &[file(1, 100)]), at == 2, "{at}");
    }
}

#[test]
fn of_sstables_that_a_policy_lets_pile_up_the_smallest_are_merged() {
    let sizes: Vec<u64> = (1..=70).rev().collect();
    let deep: Vec<FileFacts> =
        files(&sizes).into_iter().map(|file| FileFacts { level: 8, ..file }).collect();
    for (max_threshold, from) in [(32, 39), (2, 69), (1, 69)] {
        let options = CompactionOptions {
            class: CompactionClass::Leveled,
            max_threshold,
            ..CompactionOptions::default()
        };
        let (chooser, _) = governed([Pick::Nothing]);
        let choice = asked(&chooser, &deep, options).unwrap();
        assert_eq!(choice.inputs, (from..=70).collect::<Vec<_>>(), "{max_threshold} at most");
        assert_eq!((choice.level, choice.cut_bytes, choice.is_incremental), (0, None, false));
    }
}

/// A deepest level, a shortest piece, and as many inputs as a merge may have.
#[test]
fn what_is_just_within_its_limit_is_merged_as_a_policy_wants_it() {
    let options = CompactionOptions { min_threshold: 32, ..CompactionOptions::default() };
    let many: Vec<u64> = (1..=1024).collect();
    let small: Vec<FileFacts> =
        side_by_side(1024).into_iter().map(|file| FileFacts { bytes: MIB / 2, ..file }).collect();
    let level = |level| WantedMerge { level, ..wanted(&[1, 2]) };
    let split = |split_bytes| WantedMerge { split_bytes, ..wanted(&[1, 2]) };
    for (what, merge, is_legal) in [
        ("all of them", wanted(&many), true),
        ("and one more", wanted(&[&many[..], &[1025]].concat()), false),
        ("the deepest level", level(8), true),
        ("one below it", level(9), false),
        ("one piece of its least size", split(MIB), true),
        ("one byte less", split(MIB - 1), false),
        ("a run", WantedMerge { is_incremental: true, ..split(MIB) }, true),
        ("a run in one piece", WantedMerge { is_incremental: true, ..split(0) }, false),
    ] {
        let (chooser, _) = governed([Pick::Merge(merge.clone())]);
        let choice = asked(&chooser, &small, options);
        // Small ones of a table in use are no tier.
        let choice = choice.filter(|choice| choice.reason == Reason::Policy);
        assert_eq!(choice.is_some(), is_legal, "{what}");
        assert_eq!(chooser.status().refused, u64::from(!is_legal), "{what}");
        let Some(choice) = choice else { continue };
        assert_eq!((choice.inputs, choice.level), (merge.inputs, merge.level), "{what}");
        assert_eq!(choice.is_incremental, merge.is_incremental, "{what}");
        let cut = Some(merge.split_bytes).filter(|bytes| *bytes > 0);
        assert_eq!(choice.cut_bytes, cut, "{what}");
    }
}
