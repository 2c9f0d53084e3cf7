//! Reads enter a shard here: admission, then the table streams.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::mpsc;

use super::Shard;
use crate::admission::{Account, LevelId, Permit, QueuePlace, Terms};
use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::io::{self, Flow};
use crate::policy::admission::ReadClass;
use crate::policy::rate::Operation;
use crate::probe::{self, Count, timer};
use crate::runtime;
use crate::schema::table_schema::SchemaRef;
use crate::table::{Partitions, ReadCommand, Reading, Sent, Table, Told, Whole};

/// What the client of a read is told that somebody ended.
const KILLED: &str = "the read was ended by KILL READ";
/// How far a read came that has no turn yet.
pub(super) const QUEUED: &str = "a read waited for its turn";
/// What waited for longer than it may has done so by this much at least.
pub(super) const A_MOMENT: Duration = Duration::from_millis(1);

/// How something comes to its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::database) struct Arrival {
    /// For so long it was on its way.
    pub(in crate::database) waited_ns: u64,
    /// Its caller has counted it against the limit of its partition.
    pub(in crate::database) is_counted: bool,
}

/// On what terms a read was let in.
pub(super) struct ReadTerms {
    class: ReadClass,
    level: LevelId,
    deadline: Option<Deadline>,
    schema: SchemaRef,
}

/// How far a read came that was not answered at once.
#[expect(clippy::large_enum_variant, reason = "one a read, and it moves into its task")]
pub(super) enum Stage {
    /// It waits for its turn; its caller may count it among those that do.
    Queued(ReadCommand, Option<QueuePlace>),
    Reading(Reading, Permit),
}

/// What came of a read that was let in.
#[expect(clippy::large_enum_variant, reason = "one a read, and taken apart at once")]
pub(super) enum Begun {
    Whole(Whole),
    GoesOn(ReadTerms, Stage),
}

impl Shard {
    /// Counts a read of each partition that is named.
    ///
    /// Errors: `RateLimited`; `Invalid` for a partition of another shard.
    fn admit_partitions(
        &self,
        table: &Table,
        partitions: &Partitions,
        is_counted: bool,
    ) -> Result<()> {
        match partitions {
            Partitions::Keys(keys) => keys.iter().try_for_each(|key| {
                self.check_owned(key)?;
                self.admit_unless(is_counted, table, (key, Operation::Read))
            }),
            Partitions::Shard(_) | Partitions::Owned { .. } | Partitions::Tokens { .. } => Ok(()),
        }
    }

    /// Errors: `Timeout` where the deadline has passed; `what` says how far the work came.
    pub(super) fn check_time(&self, deadline: Option<Deadline>, what: &'static str) -> Result<()> {
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
    pub(super) async fn wait_turn(
        &self,
        class: ReadClass,
        level: LevelId,
        (deadline, schema): (Option<Deadline>, &SchemaRef),
    ) -> Result<Permit> {
        if let Some(permit) = self.turn_now(class, level) {
            return Ok(permit);
        }
        let waiting = timer(Count::TimeAdmission);
        let terms = (level, deadline);
        let turn = pin!(self.admission.turn_of(class, terms, || schema.full_name()));
        let turn = match self.admission.wait_max(class, level) {
            None => turn.await,
            Some(most) => match select(turn, pin!(self.context.sleep(most + A_MOMENT))).await {
                Either::Left((permit, _)) => permit,
                Either::Right(((), turn)) => {
                    self.admission.refuse_late(class);
                    turn.await
                }
            },
        };
        if let Some(waited) = waiting.filter(|_| turn.is_ok()) {
            note_turn(class, waited.elapsed_us());
        }
        turn
    }

    /// Runs what a read does when it has its turn: on the account of the read, and with the parts
    /// of the processor and of the disk that its level has.
    pub(super) fn working<F: Future>(
        &self,
        (class, level, account): (ReadClass, LevelId, Rc<Account>),
        work: F,
    ) -> impl Future<Output = F::Output> {
        let flow = Flow { id: level.0, shares: self.admission.shares(level) };
        let work = io::run_in(flow, self.admission.measured(class, account, work));
        runtime::in_group(level.0, work)
    }

    /// Lets a read in, in the order of writes: load shedding, then limits of partitions. What is
    /// refused here has no task and no channel, and has allocated nothing: under overload most
    /// reads are.
    ///
    /// Errors: `Timeout`, `Overloaded`, `RateLimited`, `Closed`; `NotFound` for a dropped table.
    fn enter_read(&self, command: &ReadCommand, arrival: Arrival) -> Result<Rc<Table>> {
        probe::note(|| asked(command));
        self.check_open()?;
        let class = class_of(&command.partitions);
        let in_time = self.check_time(command.deadline, QUEUED);
        in_time.inspect_err(|error| self.admission.tell(class, command.level, error))?;
        let table = self.table(command.schema.id)?;
        self.admission.admit_read(class)?;
        let terms = Terms { level: command.level, deadline: command.deadline };
        self.admission.check_wait(class.into(), &terms, arrival.waited_ns)?;
        self.admission.check_queue(class, &terms)?;
        self.admit_partitions(&table, &command.partitions, arrival.is_counted)?;
        Ok(table)
    }

    /// Lets a read in. It is answered at once where it has its turn, the row cache alone has its
    /// rows, and they fit one batch.
    ///
    /// Errors: as [`enter_read`](Self::enter_read), and those of [`Table::begin`] and of the read.
    pub(super) fn begin_read(
        &self,
        command: ReadCommand,
        arrival: Arrival,
        place: Option<QueuePlace>,
    ) -> Result<Begun> {
        let table = self.enter_read(&command, arrival)?;
        let terms = ReadTerms {
            class: class_of(&command.partitions),
            level: command.level,
            deadline: command.deadline,
            schema: command.schema.clone(),
        };
        let Some(permit) = self.turn_now(terms.class, terms.level) else {
            return Ok(Begun::GoesOn(terms, Stage::Queued(command, place)));
        };
        self.has_turn(place);
        let mut reading = table.begin(command, self.now_seconds())?;
        Ok(match reading.at_once()? {
            Some(whole) => {
                runtime::charge_group(terms.level.0, permit.answer_at_once());
                Begun::Whole(whole)
            }
            None => Begun::GoesOn(terms, Stage::Reading(reading, permit)),
        })
    }

    /// A turn for which a read does not wait.
    fn turn_now(&self, class: ReadClass, level: LevelId) -> Option<Permit> {
        let permit = self.admission.turn_now(class, level)?;
        note_turn(class, 0);
        Some(permit)
    }

    /// A read waits no more, which its caller may want to know.
    fn has_turn(&self, place: Option<QueuePlace>) {
        if let Some(place) = place {
            place.has_turn(self.context.clock.monotonic_ns());
        }
    }

    /// Goes on with a read that was let in, see [`Reading::stream`]; `told` says when all was sent.
    #[expect(clippy::manual_async_fn, reason = "an async fn would hold the read twice")]
    pub(super) fn stream(
        self: Rc<Self>,
        (terms, stage): (ReadTerms, Stage),
        (batches, told): (mpsc::Sender<Result<Sent>>, Arc<Told>),
    ) -> impl Future<Output = ()> {
        async move {
            let ReadTerms { class, level, deadline, schema } = terms;
            let came = Cell::new(QUEUED);
            let closed = self.closed.notified();
            let noted = self.admission.note(class, level, schema.clone());
            // A reader that takes nothing must not keep the shard from closing.
            let ended = tokio::select! {
                biased;
                () = closed => Err(Error::Closed),
                ended = async {
                    let (reading, mut permit) = match stage {
                        Stage::Reading(reading, permit) => (reading, permit),
                        Stage::Queued(command, place) => {
                            let permit = tokio::select! {
                                biased;
                                permit = self.wait_turn(class, level, (deadline, &schema)) => permit?,
                                () = batches.closed() => return Ok(()),
                            };
                            self.has_turn(place);
                            // Meanwhile it may have been dropped.
                            let table = self.table(schema.id)?;
                            (table.begin(command, self.now_seconds())?, permit)
                        }
                    };
                    permit.show(&noted);
                    came.set("a read had not sent all its rows");
                    let account = permit.account();
                    let stream = reading.stream((&batches, &told), &mut permit);
                    self.working((class, level, account), stream).await;
                    Ok(())
                } => ended,
                () = noted.killed() => Err(Error::Unavailable(KILLED.into())),
                () = self.sleep_until(deadline) => {
                    let error = deadline.map(|deadline| deadline.passed(came.get()));
                    Err(error.unwrap_or(Error::Closed))
                }
            };
            if came.get() == QUEUED
                && let Err(error @ Error::Timeout { .. }) = &ended
            {
                self.admission.tell(class, level, error);
            }
            self.end_stream(ended, &batches, &told).await;
        }
    }

    /// Tells the receiver of a read how it ended.
    async fn end_stream(
        &self,
        ended: Result<()>,
        batches: &mpsc::Sender<Result<Sent>>,
        told: &Told,
    ) {
        match ended {
            Ok(()) => told.is_complete.store(true, Ordering::Release),
            Err(error @ (Error::Timeout { .. } | Error::Unavailable(_))) => {
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

pub(in crate::database) fn class_of(partitions: &Partitions) -> ReadClass {
    match partitions {
        Partitions::Keys(_) => ReadClass::Keys,
        Partitions::Shard(_) | Partitions::Owned { .. } | Partitions::Tokens { .. } => {
            ReadClass::Scan
        }
    }
}

/// A read has its turn, for which it waited so many microseconds.
fn note_turn(class: ReadClass, us: u64) {
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
        Partitions::Owned { .. } => "all partitions of this node".to_owned(),
        Partitions::Tokens { min, max, .. } => {
            format!("partitions of tokens {} to {}", min.0, max.0)
        }
        Partitions::Keys(keys) if keys.len() == 1 => "1 partition".to_owned(),
        Partitions::Keys(keys) => format!("{} partitions", keys.len()),
    };
    let is_reversed = command.slice.direction.is_reversed();
    let direction = if is_reversed { "reversed" } else { "forward" };
    let limit = command.row_limit.map_or(String::new(), |rows| format!(", {rows} rows at most"));
    let past_cache = if command.past_cache { ", past the caches" } else { "" };
    format!("asked for {partitions} of {table}, {direction}{limit}{past_cache}")
}
