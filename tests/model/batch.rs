//! Batches of several partitions, and what is there of writes that were not told to be done: of a
//! batch all or nothing.

use tidegate_engine::{Database, Direction};

use crate::Player;
use crate::reference::{self, Range, Seen, Write};
use crate::world::{self, Tables, now};

impl Player {
    /// Writes to several partitions with one timestamp.
    fn draw_batch(&mut self) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..2 + self.random.below(4) {
            let write = self.draw_write();
            if writes.iter().all(|known| known.partition != write.partition) {
                writes.push(write);
            }
        }
        let timestamp = writes.iter().map(|write| write.timestamp).max().unwrap();
        writes.iter_mut().for_each(|write| write.timestamp = timestamp);
        self.last_timestamp = timestamp;
        writes
    }

    /// A batch, to its end.
    pub async fn write_batch(&mut self, database: &Database, tables: &Tables) {
        let writes = self.draw_batch();
        let mutations = writes.iter().map(|write| world::mutation(tables, write)).collect();
        let told = database.apply_logged(mutations).await;
        self.succeeds("a batch", &told);
        // A part of it may be visible.
        self.is_unclear |= told.is_err();
        self.met.batches += u64::from(told.is_ok());
        for write in writes {
            match &told {
                Ok(()) => self.reference.add(write),
                Err(_) => self.leave(write),
            }
        }
    }

    /// Leaves a batch under way, unless one was refused before.
    pub fn leave_batch(&mut self, database: &Database, tables: &Tables) {
        if self.unsure.values().flatten().any(|write| write.is_batched) {
            return;
        }
        let writes = self.draw_batch();
        let mutations = writes.iter().map(|write| world::mutation(tables, write)).collect();
        let batch = database.apply_logged(mutations);
        writes.into_iter().for_each(|write| self.leave(write));
        tokio::task::spawn_local(async move {
            let _ = batch.await;
        });
    }

    fn leave(&mut self, write: Write) {
        let unsure = self.unsure.entry(write.partition).or_default();
        unsure.push(Write { is_batched: true, ..write });
    }

    /// Finds out which of the unsure writes are there. Each is there whole or not at all, and those
    /// of a batch together. There is one such batch at most: where one is refused, the life ends.
    pub async fn settle(&mut self, database: &Database, tables: &Tables) {
        if !self.unsure.is_empty() {
            // Of a deletion that deletes nothing yet nobody can say whether it is there: nothing
            // may come that it would delete.
            self.floor = self.writes;
        }
        let unsure = std::mem::take(&mut self.unsure);
        let has_batch = unsure.values().flatten().any(|write| write.is_batched);
        let mut states = Vec::new();
        for (partition, unsure) in unsure {
            let slice = (&[Range::FULL][..], Direction::Forward);
            let before = now(&self.clock);
            let found =
                world::read(database, tables, partition, slice, (None, false)).await.unwrap();
            let known = self.reference.writes.get(&partition).cloned().unwrap_or_default();
            let seconds = before..=now(&self.clock);
            states.push(State { partition, known, unsure, found, seconds });
        }
        let of_all = |is_there| -> Result<Vec<(u64, Vec<Write>)>, &State> {
            states.iter().map(|state| state.explained(is_there).ok_or(state)).collect()
        };
        let options: &[bool] = if has_batch { &[true, false] } else { &[false] };
        let explained =
            options.iter().find_map(|is_there| Some((*is_there, of_all(*is_there).ok()?)));
        let Some((is_there, chosen)) = explained else {
            panic!("a batch is there in part, or a write is: {:#?}", of_all(false).err());
        };
        if has_batch {
            self.met.batches_survived += u64::from(is_there);
            self.met.batches_vanished += u64::from(!is_there);
        }
        let chosen: Vec<(i32, u64, Vec<Write>, u64)> = states
            .iter()
            .zip(chosen)
            .map(|(state, (bits, writes))| {
                (state.partition, u64::from(bits.count_ones()), writes, state.unsure.len() as u64)
            })
            .collect();
        for (partition, there, writes, all) in chosen {
            self.met.survived += there;
            self.met.vanished += all - there;
            self.reference.writes.insert(partition, writes);
        }
        self.scan(database, tables).await;
    }
}

/// What a partition shows after a start, and what may explain that.
#[derive(Debug)]
struct State {
    partition: i32,
    known: Vec<Write>,
    unsure: Vec<Write>,
    found: Vec<Seen>,
    seconds: std::ops::RangeInclusive<i32>,
}

impl State {
    /// Which of the unsure writes explain what is found, parts of the batch being there or not; and
    /// all writes then.
    fn explained(&self, is_batch_there: bool) -> Option<(u64, Vec<Write>)> {
        (0_u64..1 << self.unsure.len()).find_map(|bits| {
            let is_in = |at: usize| bits >> at & 1 == 1;
            let parts = || self.unsure.iter().enumerate();
            if parts().any(|(at, write)| write.is_batched && is_in(at) != is_batch_there) {
                return None;
            }
            let mut writes = self.known.clone();
            writes.extend(parts().filter(|(at, _)| is_in(*at)).map(|(_, write)| write.clone()));
            let explains = |now| reference::read(&writes, &[Range::FULL], now) == self.found;
            self.seconds.clone().any(explains).then_some((bits, writes))
        })
    }
}
