//! Counting and decay by hand, and what goes through at rates around the limit.

mod published;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::clock::Random;
use crate::error::{Error, Result};
use crate::policy::rate::{Excess, KeyLoad, Operation, PlannedRate, RatePolicy, Ruling};
use crate::policy::{FailureKind, PolicyFailure};
use crate::schema::table_schema::RateLimit;
use crate::schema::{Column, ColumnKind, DataType, TableId, TableOptions, TableSchema, Token};

fn table(id: u128, reads: Option<u32>, writes: Option<u32>) -> TableSchema {
    let limit = RateLimit { max_reads_per_second: reads, max_writes_per_second: writes };
    TableSchema {
        id: TableId(id),
        keyspace: "ks".into(),
        name: format!("t{id}"),
        columns: vec![Column {
            name: "pk".into(),
            ty: DataType::Int,
            kind: ColumnKind::PartitionKey { position: 0 },
        }],
        options: TableOptions { per_partition_rate_limit: limit, ..TableOptions::default() },
        drops: Vec::new(),
    }
}

fn limiter(seed: u64) -> Limiter {
    Limiter::new(seed, Arc::new(PublishedRates::new(seed)))
}

/// Asks with the limits of the table's own options.
fn admit(
    limiter: &mut Limiter,
    table: &TableSchema,
    token: Token,
    operation: Operation,
    now_us: i64,
) -> Result<()> {
    let limits = &table.options.per_partition_rate_limit;
    limiter.admit(table, limits, token, operation, now_us)
}

#[test]
fn counts_are_halved_each_second_and_gone_in_the_end() {
    let mut counters = Counters::new(1);
    for wanted in 1..=16 {
        assert_eq!(counters.account(7, 0), Some(wanted));
    }
    counters.advance(1);
    assert_eq!(counters.account(7, 0), Some(9));
    counters.advance(2);
    assert_eq!(counters.account(7, 0), Some(3));
    counters.advance(10);
    assert_eq!(counters.account(7, 0), Some(1));
    for _ in 0..1000 {
        let _ = counters.account(7, 0);
    }
    counters.advance(19);
    assert_eq!(counters.account(7, 0), Some(1));
}

/// What each window lost to lossy counting is taken off before that window's count is halved.
#[test]
fn windows_that_an_entry_missed_are_made_up_for_in_their_order() {
    let mut counters = Counters::new(1);
    let busy = |counters: &mut Counters, operations: u32| {
        (0..operations).for_each(|_| _ = counters.account(8, 0));
    };
    (0..20).for_each(|_| _ = counters.account(7, 0));
    busy(&mut counters, 30_000 - 20);
    counters.advance(1);
    busy(&mut counters, 50_000);
    counters.advance(1);
    // (20 - 3) / 2 is 8, and (8 - 5) / 2 is 1.
    assert_eq!(counters.account(7, 0), Some(2));
}

#[test]
fn labels_are_apart_and_old_windows_are_not_taken_for_new_ones() {
    let mut counters = Counters::new(2);
    for _ in 0..5 {
        let _ = counters.account(7, 0);
    }
    assert_eq!((counters.account(7, 1), counters.account(8, 0)), (Some(1), Some(1)));
    // Numbers of windows come round after 256; the sweep has met the entry long before.
    for _ in 0..256 {
        counters.advance(1);
    }
    assert_eq!(counters.account(7, 0), Some(1));
}

#[test]
fn a_million_keys_do_not_look_hot() {
    let mut counters = Counters::new(3);
    let mut random = Random::new(3);
    let salt = random.next_u64();
    for token in 0..1_000_000_u64 {
        let count = counters.account(token.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt, 0);
        assert!(count.is_none_or(|count| count == 1), "{token}: {count:?}");
    }
    let stats = counters.stats();
    assert_eq!((stats.allocations + stats.not_counted, stats.lookups), (1_000_000, 0));
    assert!(stats.probes >= 1_000_000, "{stats:?}");
    // Between them, a hot key keeps its count but for what lossy counting takes.
    let mut counters = Counters::new(4);
    let mut last = 0;
    for token in 0..100_000_u64 {
        let _ = counters.account(token.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0);
        last = counters.account(7, 1).unwrap_or(last);
    }
    assert!((99_900..=100_000).contains(&last), "{last}");
}

/// A shard refuses millions of operations a second; a count that stood still below that would let
/// through a part of them beyond the limit.
#[test]
fn counts_go_on_at_the_rate_at_which_a_shard_refuses() {
    let mut counters = Counters::new(5);
    let mut last = 0;
    for _ in 0..3 {
        for _ in 0..2_000_000 {
            last = counters.account(7, 0).unwrap_or(last);
        }
        counters.advance(1);
    }
    // 2 + 1 + 0.5 millions, less what lossy counting takes.
    assert!((3_490_000..=3_500_000).contains(&last), "{last}");
}

/// Operations that went through in each second, at `rates` a second.
fn accepted(policy: Option<Box<dyn RatePolicy>>, limit: u32, rates: &[u64]) -> Vec<u64> {
    let table = table(1, Some(limit), None);
    let mut limiter = limiter(9);
    limiter.set_policy(policy.map(|policy| ("p".into(), policy)));
    let run = |(second, rate): (usize, &u64)| {
        (0..*rate)
            .filter(|n| {
                let now_us = 1_000_000 * (1000 + second as u64) + n * 1_000_000 / rate;
                admit(&mut limiter, &table, Token(7), Operation::Read, now_us as i64).is_ok()
            })
            .count() as u64
    };
    rates.iter().enumerate().map(run).collect()
}

#[test]
fn what_goes_through_is_the_limit_whatever_the_rate() {
    let limit = 200;
    for (rate, low, high) in
        [(100, 1.0, 1.0), (200, 0.97, 1.0), (288, 0.9, 1.2), (400, 0.9, 1.15), (4000, 0.9, 1.15)]
    {
        let seconds = accepted(None, limit, &[rate; 40]);
        let steady: u64 = seconds[10..].iter().sum();
        let share = steady as f64 / 30.0 / f64::from(limit.min(rate as u32));
        assert!((low..=high).contains(&share), "{rate}: {share} {seconds:?}");
    }
    // A burst from nothing has more in its first second, and is held then.
    let burst = accepted(None, limit, &[2000; 4]);
    assert!((800..=1100).contains(&burst[0]) && burst[3] < 300, "{burst:?}");
    // A pause decays: the next second has its share again.
    let pause = accepted(None, limit, &[2000, 2000, 2000, 0, 0, 0, 0, 0, 0, 0, 0, 200]);
    assert_eq!(pause[11], 200, "{pause:?}");
}

#[test]
fn reads_and_writes_and_tables_are_apart() {
    let mut limiter = limiter(1);
    let (one, two) = (table(1, Some(5), Some(500)), table(2, None, Some(5)));
    let mut run = |table: &TableSchema, operation: Operation| {
        let ended: Vec<Result<()>> =
            (0..400).map(|_| admit(&mut limiter, table, Token(7), operation, 5_000_000)).collect();
        let refused = ended.iter().filter(|ended| ended.is_err()).count();
        (refused, ended.into_iter().find_map(Result::err))
    };
    let (refused, error) = run(&one, Operation::Read);
    assert!(refused > 300, "{refused}");
    let error = error.expect("a refusal");
    assert!(error.is_retryable());
    let text = "too many reads of one partition of ks.t1: its limit is 5 a second";
    assert_eq!(error.to_string(), text);
    assert_eq!(run(&one, Operation::Write).0, 0);
    assert_eq!(run(&two, Operation::Read).0, 0);
    assert!(run(&two, Operation::Write).0 > 300);
    let stats = limiter.stats();
    assert_eq!((stats.reads_counted, stats.writes_counted), (400, 800));
    assert!(stats.reads_refused == refused as u64 && stats.writes_refused > 300, "{stats:?}");
    // Other partitions of a limited table go on.
    assert!(admit(&mut limiter, &one, Token(8), Operation::Read, 5_000_000).is_ok());
    // A limit of nothing lets nothing through.
    let none = table(3, Some(0), None);
    let through =
        (0..50).filter(|_| admit(&mut limiter, &none, Token(1), Operation::Read, 1).is_ok());
    assert_eq!(through.count(), 0);
}

/// Gives every key it hears of two operations a second, and breaks when told.
#[derive(Default)]
struct Planner {
    breaks: bool,
    /// Most keys that it heard of at once.
    keys_max: Rc<Cell<usize>>,
}

impl RatePolicy for Planner {
    fn name(&self) -> &str {
        "planner"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn exceeded(&mut self, _: &Excess) -> std::result::Result<Ruling, PolicyFailure> {
        let kind = FailureKind::Trap;
        match self.breaks {
            false => Ok(false.into()),
            true => Err(PolicyFailure { kind, message: "x".into(), backtrace: Vec::new() }),
        }
    }

    fn plan(
        &mut self,
        _: u64,
        loads: &[KeyLoad],
        planned: &mut Vec<PlannedRate>,
    ) -> std::result::Result<(), PolicyFailure> {
        self.keys_max.set(self.keys_max.get().max(loads.len()));
        let rate = |load: &KeyLoad| PlannedRate { key: load.key, rate_milli: 2_000, burst: 1 };
        planned.extend(loads.iter().map(rate));
        Ok(())
    }
}

#[test]
fn a_plan_gives_a_key_a_limit_of_its_own() {
    let seconds = accepted(Some(Box::new(Planner::default())), 10, &[100; 5]);
    // 10 of the first second, then one of the burst and two a second.
    assert_eq!(seconds[0], 10);
    assert!(seconds[1..].iter().all(|second| (2..=3).contains(second)), "{seconds:?}");
}

#[test]
fn a_new_plan_does_not_fill_a_bucket() {
    let rate = PlannedRate { key: 7, rate_milli: 1_000, burst: 10 };
    let mut buckets = bucket::Buckets::default();
    buckets.replace(&[rate], 0);
    assert!((0..10).all(|_| buckets.take(7, 0) == Some(true)), "a burst of ten");
    assert_eq!(buckets.take(7, 0), Some(false));
    // A second later the same plan comes again: one token, not ten.
    buckets.replace(&[rate], 1_000_000);
    assert_eq!((buckets.take(7, 1_000_000), buckets.take(7, 1_000_000)), (Some(true), Some(false)));
}

#[test]
fn a_plan_of_a_smaller_burst_takes_what_is_beyond_it() {
    let mut buckets = bucket::Buckets::default();
    buckets.replace(&[PlannedRate { key: 7, rate_milli: 1_000, burst: 10 }], 0);
    buckets.replace(&[PlannedRate { key: 7, rate_milli: 1_000, burst: 2 }], 0);
    let taken: Vec<_> = (0..3).map(|_| buckets.take(7, 0)).collect();
    assert_eq!(taken, [Some(true), Some(true), Some(false)]);
}

#[test]
fn a_plan_ends_with_its_policy() {
    let table = table(1, Some(100), None);
    let mut limiter = limiter(9);
    let planner = || -> Box<dyn RatePolicy> { Box::new(Planner::default()) };
    limiter.set_policy(Some(("first".into(), planner())));
    let read =
        |limiter: &mut Limiter, now_us| admit(limiter, &table, Token(7), Operation::Read, now_us);
    for _ in 0..120 {
        let _ = read(&mut limiter, 1_000_000);
    }
    // In the next second the plan holds: a burst of one, far below the limit.
    assert!(read(&mut limiter, 2_000_000).is_ok() && read(&mut limiter, 2_000_001).is_err());
    limiter.set_policy(Some(("second".into(), planner())));
    assert!(read(&mut limiter, 2_000_002).is_ok(), "the plan of a policy that left holds on");
}

#[test]
fn a_bucket_counts_time_that_brings_less_than_a_thousandth() {
    let rate = PlannedRate { key: 7, rate_milli: 300, burst: 1 };
    let mut buckets = bucket::Buckets::default();
    buckets.replace(&[rate], 0);
    assert_eq!(buckets.take(7, 0), Some(true));
    // Each 5 ms bring one and a half thousandths; a token takes three seconds and a third.
    let first = (1..).map(|turn| turn * 5_000).find(|now| buckets.take(7, *now) == Some(true));
    assert_eq!(first, Some(3_335_000));
}

#[test]
fn limits_of_tables_count_apart_for_reads_and_writes() {
    let planner = Planner::default();
    let keys_max = planner.keys_max.clone();
    let mut limiter = limiter(9);
    limiter.set_policy(Some(("planner".into(), Box::new(planner))));
    let tables = [table(1, Some(2), None), table(2, None, Some(2)), table(3, Some(2), None)];
    // One token everywhere, far beyond each limit.
    for second in 1..4 {
        for _ in 0..50 {
            for (table, operation) in
                tables.iter().zip([Operation::Read, Operation::Write, Operation::Read])
            {
                let _ = admit(&mut limiter, table, Token(7), operation, second * 1_000_000);
            }
        }
    }
    assert_eq!(keys_max.get(), 3, "a key for each table");
}

#[test]
fn a_policy_is_told_of_a_bounded_number_of_keys() {
    let planner = Planner::default();
    let keys_max = planner.keys_max.clone();
    let table = table(1, Some(2), None);
    let mut limiter = limiter(9);
    limiter.set_policy(Some(("planner".into(), Box::new(planner))));
    for second in 1..4 {
        for token in 0..200 {
            for _ in 0..6 {
                let now_us = second * 1_000_000;
                let _ = admit(&mut limiter, &table, Token(token), Operation::Read, now_us);
            }
        }
    }
    assert_eq!(keys_max.get(), bucket::BUCKETS_MAX);
}

/// Lets all through, says for how many more, and counts what it is asked.
struct Holder {
    holds_for: u8,
    asked: Rc<Cell<u64>>,
}

impl RatePolicy for Holder {
    fn name(&self) -> &str {
        "holder"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn exceeded(&mut self, _: &Excess) -> std::result::Result<Ruling, PolicyFailure> {
        self.asked.set(self.asked.get() + 1);
        Ok(Ruling { goes_through: true, holds_for: self.holds_for })
    }

    fn plan(
        &mut self,
        _: u64,
        _: &[KeyLoad],
        _: &mut Vec<PlannedRate>,
    ) -> std::result::Result<(), PolicyFailure> {
        Ok(())
    }
}

#[test]
fn an_answer_holds_for_as_many_operations_as_its_policy_says() {
    let table = table(1, Some(10), None);
    let asked_for = |holds_for, keys: i64| {
        let asked = Rc::new(Cell::new(0));
        let mut limiter = limiter(9);
        let holder = Holder { holds_for, asked: asked.clone() };
        limiter.set_policy(Some(("holder".into(), Box::new(holder))));
        for number in 0..keys * 110 {
            let token = Token(number % keys);
            admit(&mut limiter, &table, token, Operation::Read, 1_000_000).unwrap();
        }
        assert_eq!(limiter.stats().asked, asked.get(), "what is held is not asked");
        asked.get()
    };
    assert_eq!(asked_for(0, 1), 100);
    assert_eq!(asked_for(9, 1), 10, "one of ten");
    assert_eq!(asked_for(255, 1), 1);
    assert_eq!(asked_for(9, 3), 30, "of each key");
}

#[test]
fn an_answer_ends_with_its_second_and_with_its_policy() {
    let table = table(1, Some(10), None);
    let holder = || {
        let asked = Rc::new(Cell::new(0));
        (asked.clone(), Holder { holds_for: 255, asked })
    };
    let mut limiter = limiter(9);
    let (first, policy) = holder();
    limiter.set_policy(Some(("first".into(), Box::new(policy))));
    let read = |limiter: &mut Limiter, now_us| {
        admit(limiter, &table, Token(7), Operation::Read, now_us).unwrap();
    };
    (0..50).for_each(|_| read(&mut limiter, 1_000_000));
    assert_eq!(first.get(), 1);
    // Half of the 50 are still counted.
    read(&mut limiter, 2_000_000);
    assert_eq!(first.get(), 2, "the answer of a second that is over");
    let (second, policy) = holder();
    limiter.set_policy(Some(("second".into(), Box::new(policy))));
    read(&mut limiter, 2_000_001);
    assert_eq!((first.get(), second.get()), (2, 1), "the answer of a policy that left");
}

#[test]
fn a_policy_that_fails_is_put_out_and_the_native_one_decides() {
    let table = table(1, Some(5), None);
    let mut limiter = limiter(9);
    let planner = Planner { breaks: true, ..Planner::default() };
    limiter.set_policy(Some(("planner".into(), Box::new(planner))));
    let ended: Vec<Result<()>> = (0..200)
        .map(|_| admit(&mut limiter, &table, Token(7), Operation::Read, 5_000_000))
        .collect();
    assert!(
        ended[..10].iter().all(Result::is_ok),
        "the native policy lets twice the limit through"
    );
    let is_limited = |ended: &Result<()>| matches!(ended, Err(Error::RateLimited { .. }));
    assert!(ended.iter().filter(|ended| is_limited(ended)).count() > 100);
    assert_eq!((limiter.policy().name(), limiter.name()), ("decaying", Some("planner")));
    assert_eq!(limiter.failure().map(|failure| failure.kind), Some(FailureKind::Trap));
}

/// Fails at a question of one kind, and refuses all else.
struct Failing {
    at_plan: bool,
}

impl Failing {
    fn fail(message: &str) -> PolicyFailure {
        let (kind, message) = (FailureKind::Trap, message.to_owned());
        PolicyFailure { kind, message, backtrace: Vec::new() }
    }
}

impl RatePolicy for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn exceeded(&mut self, _: &Excess) -> std::result::Result<Ruling, PolicyFailure> {
        match self.at_plan {
            true => Ok(false.into()),
            false => Err(Failing::fail("at an answer")),
        }
    }

    fn plan(
        &mut self,
        _: u64,
        _: &[KeyLoad],
        _: &mut Vec<PlannedRate>,
    ) -> std::result::Result<(), PolicyFailure> {
        match self.at_plan {
            true => Err(Failing::fail("at a plan")),
            false => Ok(()),
        }
    }
}

/// What became of a policy is told as long as no other one was put in charge.
#[test]
fn a_failure_is_told_until_somebody_else_is_put_in_charge() {
    let table = table(1, Some(5), None);
    let ask = |limiter: &mut Limiter, second: i64| {
        for _ in 0..50 {
            let _ = admit(limiter, &table, Token(7), Operation::Read, second * 1_000_000);
        }
    };
    for (at_plan, message) in [(false, "at an answer"), (true, "at a plan")] {
        for next in [Some("second"), None] {
            let case = format!("{message}, then {next:?}");
            let mut limiter = limiter(9);
            assert_eq!((limiter.failure(), limiter.name()), (None, None), "{case}");
            limiter.set_policy(Some(("first".into(), Box::new(Failing { at_plan }))));
            assert_eq!((limiter.failure(), limiter.policy().name()), (None, "failing"), "{case}");
            (1..=3).for_each(|second| ask(&mut limiter, second));
            let told = limiter.failure().map(|failure| failure.message.as_str());
            assert_eq!((told, limiter.name()), (Some(message), Some("first")), "{case}");
            assert_eq!(limiter.policy().name(), "decaying", "{case}");

            let planner = || -> Box<dyn RatePolicy> { Box::new(Planner::default()) };
            limiter.set_policy(next.map(|name| (name.to_owned(), planner())));
            let decides = if next.is_some() { "planner" } else { "decaying" };
            for second in 4..7 {
                assert_eq!((limiter.failure(), limiter.name()), (None, next), "{case}");
                assert_eq!(limiter.policy().name(), decides, "{case}");
                ask(&mut limiter, second);
            }
        }
    }
}
