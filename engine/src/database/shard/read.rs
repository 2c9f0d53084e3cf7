//! Reads enter a shard here: admission, then the table streams.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, LocalBoxFuture, select};
use tokio::sync::mpsc;

use super::Shard;
use crate::admission::{LevelId, Permit};
use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::policy::admission::ReadClass;
use crate::policy::rate::Operation;
use crate::probe::{self, Count, Timer, timer};
use crate::schema::table_schema::SchemaRef;
use crate::table::{Partitions, ReadCommand, Sent, Table};

/// What the client of a read is told that somebody ended.
const KILLED: &str = "the read was ended by KILL READ";
/// How far a read came that has no turn yet.
const QUEUED: &str = "a read waited for its turn";
/// What waited for longer than it may has done so by this much at least.
const A_MOMENT: Duration = Duration::from_millis(1);

impl Shard {
    /// Counts a read of each partition that is named.
    ///
    /// Errors: `RateLimited`; `Invalid` for a partition of another shard.
    fn admit_partitions(&self, table: &Table, partitions: &Partitions) -> Result<()> {
        match partitions {
            Partitions::Keys(keys) => keys.iter().try_for_each(|key| {
                self.check_owned(key)?;
                self.admit(table, key, Operation::Read)
            }),
            Partitions::Shard(_) => Ok(()),
        }
    }

    /// Errors: `Timeout` where the deadline has passed; `what` says how far the work came.
    pub(super) fn check_time(&self, deadline: Option<Deadline>, what: &str) -> Result<()> {
        match deadline.filter(|deadline| deadline.has_passed(&*self.context.clock)) {
            None => Ok(()),
            Some(deadline) => Err(deadline.passed(what)),
        }
    }

    /// Sleeps until the deadline; for ever without one.
    pub(super) async fn sleep_until(&self, deadline: Option<Deadline>) {
        match deadline {
            Some(deadline) => self.context.sleep(deadline.left(&*self.context.clock)).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the turn of a read, as long as its level lets it.
    ///
    /// Errors: as [`Admission::turn`](crate::admission::Admission::turn).
    async fn wait_turn(
        &self,
        class: ReadClass,
        level: LevelId,
        (deadline, schema): (Option<Deadline>, &SchemaRef),
    ) -> Result<Permit> {
        if let Some(permit) = self.admission.turn_now(class, level) {
            return Ok(permit);
        }
        let terms = (level, deadline);
        let turn = pin!(self.admission.turn_of(class, terms, || schema.full_name()));
        let Some(most) = self.admission.wait_max(class, level) else { return turn.await };
        match select(turn, pin!(self.context.sleep(most + A_MOMENT))).await {
            Either::Left((permit, _)) => permit,
            Either::Right(((), turn)) => {
                self.admission.refuse_late(class);
                turn.await
            }
        }
    }

    /// Runs a read, see [`Table::stream`]; sets `is_complete` when all was sent. This is where
    /// reads enter, in the order of writes: load shedding, limits of partitions, then a turn.
    pub(in crate::database) fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        batches: mpsc::Sender<Result<Sent>>,
        is_complete: Arc<AtomicBool>,
    ) -> LocalBoxFuture<'static, ()> {
        async move {
            let now = self.now_seconds();
            let (deadline, level) = (command.deadline, command.level);
            let came = Cell::new(QUEUED);
            let closed = self.closed.notified();
            let class = match &command.partitions {
                Partitions::Keys(_) => ReadClass::Keys,
                Partitions::Shard(_) => ReadClass::Scan,
            };
            probe::note(|| asked(&command));
            let noted = self.admission.note(class, level, command.schema.clone());
            let read = async {
                self.check_open()?;
                self.check_time(deadline, came.get())?;
                let id = command.schema.id;
                let table = self.table(id)?;
                self.admission.admit_read(class)?;
                self.admit_partitions(&table, &command.partitions)?;
                let waiting = timer(Count::TimeAdmission);
                let mut permit = tokio::select! {
                    biased;
                    permit = self.wait_turn(class, level, (deadline, &command.schema)) => permit?,
                    () = batches.closed() => return Ok(()),
                };
                permit.show(&noted);
                note_turn(class, waiting);
                came.set("a read had not sent all its rows");
                // Meanwhile it may have been dropped.
                let table = self.table(id)?;
                let account = permit.account();
                let stream = table.stream(command, now, batches.clone(), &mut permit);
                self.admission.measured(class, account, stream).await;
                Ok(())
            };
            // A reader that takes nothing must not keep the shard from closing.
            let ended = tokio::select! {
                biased;
                () = closed => Err(Error::Closed),
                ended = read => ended,
                () = noted.killed() => Err(Error::Unavailable(KILLED.into())),
                () = self.sleep_until(deadline) => {
                    let error = deadline.map(|deadline| deadline.passed(came.get()));
                    Err(error.unwrap_or(Error::Closed))
                }
            };
            if came.get() == QUEUED
                && let Err(error @ Error::Timeout(_)) = &ended
            {
                self.admission.tell(class, level, error);
            }
            self.end_stream(ended, &batches, &is_complete).await;
        }
        .boxed_local()
    }

    /// Tells the receiver of a read how it ended.
    async fn end_stream(
        &self,
        ended: Result<()>,
        batches: &mpsc::Sender<Result<Sent>>,
        is_complete: &AtomicBool,
    ) {
        match ended {
            Ok(()) => is_complete.store(true, Ordering::Release),
            Err(error @ (Error::Timeout(_) | Error::Unavailable(_))) => {
                // It is told behind what was sent before, unless nobody takes that.
                tokio::select! {
                    biased;
                    _ = batches.send(Err(error)) => {}
                    () = self.closed.notified() => {}
                }
            }
            Err(error) => {
                // A receiver that is full sees a stream that was cut; one that is gone, nothing.
                let _ = batches.try_send(Err(error));
            }
        }
    }
}

/// A read has its turn, for which it waited as long as the timer ran.
fn note_turn(class: ReadClass, waited: Option<Timer>) {
    let Some(waited) = waited else { return };
    let us = waited.elapsed_us();
    let whose = match class {
        ReadClass::Keys => "reads by key",
        ReadClass::Scan => "scans",
    };
    probe::note(|| format!("has its turn among {whose} after {us} µs"));
}

/// What a read asks for, as a step tells it.
fn asked(command: &ReadCommand) -> String {
    let table = command.schema.full_name();
    let partitions = match &command.partitions {
        Partitions::Shard(_) => "all partitions".to_owned(),
        Partitions::Keys(keys) if keys.len() == 1 => "1 partition".to_owned(),
        Partitions::Keys(keys) => format!("{} partitions", keys.len()),
    };
    let is_reversed = command.slice.direction.is_reversed();
    let direction = if is_reversed { "reversed" } else { "forward" };
    let limit = command.row_limit.map_or(String::new(), |rows| format!(", {rows} rows at most"));
    let past_cache = if command.past_cache { ", past the caches" } else { "" };
    format!("asked for {partitions} of {table}, {direction}{limit}{past_cache}")
}
