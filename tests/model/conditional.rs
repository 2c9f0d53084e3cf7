//! Writes that depend on what is there: one after another, and several at once, whose answers must
//! be those of some order.

use std::collections::BTreeSet;

use futures::future::join_all;
use tidegate_engine::{Database, Decision, Result};

use crate::reference::{Bound, Conditional, Key, Range, Seen, Wanted, Write, read};
use crate::world::{self, Tables, now};
use crate::{GRACE_LONG, Player};

/// Whether something holds of a row, or of the static row of its partition.
fn holds(wanted: &Wanted, row: Option<&Seen>, shared: Option<&String>) -> bool {
    match wanted {
        Wanted::NotExists => row.is_none(),
        Wanted::Exists => row.is_some(),
        Wanted::V(value) => row.and_then(|row| row.v) == *value,
        Wanted::VLess(value) => row.and_then(|row| row.v).is_some_and(|v| v < *value),
        Wanted::Shared(value) => shared == value.as_ref(),
    }
}

/// What a reader sees of a row and of its partition's static row.
fn state(writes: &[Write], key: Key, now: i32) -> (Option<Seen>, Option<String>) {
    let bound = |is_after| Bound { a: Some(key.a), b: Some(key.b), is_after };
    let range = Range { start: bound(false), end: bound(true) };
    let row = read(writes, &[range], now).pop();
    // A partition without rows shows its static row where all of it is asked for.
    let all = read(writes, &[Range::FULL], now);
    (row, all.into_iter().next().and_then(|seen| seen.s))
}

/// A conditional write, and what it wrote where it was applied.
type Told = (Conditional, Option<Write>);

/// Whether answers are those of this order.
fn explains(
    order: &[usize],
    (known, all, answers): (&[Write], &[Told], &[Decision]),
    now: i32,
) -> bool {
    let mut writes = known.to_vec();
    order.iter().all(|at| {
        let ((conditional, applied), answer) = (&all[*at], &answers[*at]);
        let (row, shared) = state(&writes, conditional.key, now);
        let is_expected = holds(&conditional.wanted, row.as_ref(), shared.as_ref());
        let v = answer.rows[0].as_ref().and_then(|row| world::number(row, "v"));
        let is_seen = matches!(conditional.wanted, Wanted::Shared(_))
            || v == row.as_ref().and_then(|row| row.v);
        writes.extend(applied.clone());
        is_expected == answer.is_applied() && is_seen
    })
}

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let longer = shorter.iter().flat_map(|order| {
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    });
    longer.collect()
}

impl Player {
    /// Some conditional writes to one partition at the same time.
    pub async fn write_if(&mut self, database: &Database, tables: &Tables) {
        // One that meets a newer one becomes newer still, by a time of the clock. What comes after
        // is old then, which only plays that purge nothing can bear.
        let may_meet = self.grace == GRACE_LONG && self.is_clean;
        let count = if may_meet { 1 + self.random.below(3) } else { 1 };
        let partition = self.random.below(2 * world::PARTITIONS as u64) as i32;
        if self.raised.contains(&partition) && !may_meet {
            return;
        }
        let all: Vec<Conditional> = (0..count).map(|_| self.draw_conditional(partition)).collect();
        let before = now(&self.clock);
        let answers = all.iter().map(|conditional| world::write_if(database, tables, conditional));
        let answers: Vec<Result<Decision>> = join_all(answers).await;
        if let [Err(error)] = &answers[..] {
            assert!(!self.is_clean, "a conditional write, without any fault: {error}");
            self.met.refused += 1;
            let write = all[0].write.clone();
            self.unsure.entry(partition).or_default().push(write);
            return;
        }
        let answers: Vec<Decision> = answers.into_iter().map(|answer| answer.unwrap()).collect();
        let applied = all.iter().zip(&answers).map(|(conditional, answer)| {
            let timestamp = answer.applied_at_us?;
            // Of a write that only empties a map the newest part comes just before the write.
            let own = world::mutation(tables, &conditional.write).newest_timestamp();
            let later = own.map_or(0, |own| timestamp - own);
            assert!(later >= 0, "a write became older: {conditional:?}, {answer:?}");
            let timestamp = conditional.write.timestamp + later;
            Some(Write { timestamp, ..conditional.write.clone() })
        });
        let applied: Vec<Option<Write>> = applied.collect();
        let all: Vec<(Conditional, Option<Write>)> = all.into_iter().zip(applied).collect();
        let known = self.reference.writes.get(&partition).cloned().unwrap_or_default();
        let told = (&known[..], &all[..], &answers[..]);
        let mut seconds = before..=now(&self.clock);
        let is_right =
            seconds.any(|now| orders(all.len()).iter().any(|order| explains(order, told, now)));
        assert!(is_right, "no order of {all:#?}\ngives {answers:#?}\non top of {known:#?}");
        for (conditional, applied) in all {
            let Some(write) = applied else {
                self.met.not_applied += 1;
                continue;
            };
            self.met.applied += 1;
            if write.timestamp > conditional.write.timestamp {
                self.raised.insert(partition);
            }
            self.reference.add(write);
        }
    }

    /// A write that comes in time, and a condition on one of its rows or another.
    pub fn draw_conditional(&mut self, partition: i32) -> Conditional {
        self.is_punctual = true;
        let mut write = self.draw_write();
        self.is_punctual = false;
        write.partition = partition;
        let key = self.draw_key();
        let known = self.reference.writes.get(&partition).map_or(&[][..], Vec::as_slice);
        let (row, shared) = state(known, key, now(&self.clock));
        let v = row.and_then(|row| row.v);
        let wanted = match self.random.below(6) {
            0 | 1 => Wanted::NotExists,
            2 => Wanted::Exists,
            // What is there, or what is not.
            3 => Wanted::V(v.filter(|_| !self.random.one_in(4))),
            4 => Wanted::VLess(self.random.next_u64() as i64),
            _ => Wanted::Shared(shared.filter(|_| !self.random.one_in(4))),
        };
        Conditional { write, key, wanted }
    }
}

/// Partitions in which something has a timestamp of the clock.
pub type Raised = BTreeSet<i32>;
