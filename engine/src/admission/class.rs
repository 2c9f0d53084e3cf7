//! The reads of one class: their limits, the levels that share them, and what the interval brought.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::fail_fast::{FailFast, behind};
use super::lane::{Lane, Want};
use super::level::{LevelId, LevelOptions, Terms};
use super::semaphore::{Decision, Facts, Question, decide, divide};
use crate::clock::Deadline;
use crate::config::{LANE_BYTES_MIN, READ_MEMORY_WAIT};
use crate::error::{Error, Overload, Result, Whose};
use crate::policy::admission::{ReadClass, ReadLimits, ReadLoad, Shedding, WorkClass};
use crate::probe::Latencies;

/// Why a read is refused that waited.
const HOPELESS: &str = "the time that is left would not do; allow more time, or try again later";
const IMPATIENT: &str =
    "interactive ones are not kept waiting; try again later, or give the level more shares";

/// Who is next: given a turn `T`, a permit `P`, or memory `C`.
pub(super) enum Next<T, P, C> {
    /// A read that had a turn before.
    Returns(LevelId, oneshot::Sender<T>),
    Begins(LevelId, oneshot::Sender<Result<P>>),
    /// A read that runs gets so many bytes.
    Grows(LevelId, u64, oneshot::Sender<Result<C>>),
    /// It waited for too long.
    Leaves(oneshot::Sender<Result<P>>, Error),
    /// It gets no more memory.
    Starves(oneshot::Sender<Result<C>>, Error),
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub arrived: u64,
    pub admitted: u64,
    pub refused: u64,
    pub shed: u64,
}

/// See the head of this file.
pub(super) struct Class<T, P, C> {
    class: ReadClass,
    pub limits: ReadLimits,
    pub shedding: Shedding,
    /// Of all levels; the first is the one of whatever names none.
    lanes: Vec<Lane<T, P, C>>,
    /// Turns and bytes that no level has for itself.
    shared_turns: u64,
    shared_bytes: u64,
    pub totals: Totals,
    /// Thousandths of an arrival that are to be refused.
    shed_milli: u32,
    /// Totals when the interval began.
    before: Totals,
    running_most: u32,
    pub busy_ns: u64,
    pub latencies: Latencies,
}

impl<T, P, C> Class<T, P, C> {
    /// A class with one level.
    pub fn new(class: ReadClass, limits: ReadLimits, name: &Arc<str>) -> Self {
        let lane = Lane::new(LevelId::DEFAULT, name.clone(), LevelOptions::default());
        let mut made = Class {
            class,
            limits,
            shedding: Shedding::default(),
            lanes: vec![lane],
            shared_turns: 0,
            shared_bytes: 0,
            totals: Totals::default(),
            shed_milli: 0,
            before: Totals::default(),
            running_most: 0,
            busy_ns: 0,
            latencies: Latencies::default(),
        };
        made.set_limits(limits);
        made
    }

    /// Makes these the levels beside the first. Reads of others go on to their end.
    pub fn set_levels(&mut self, levels: &[(LevelId, Arc<str>, LevelOptions)]) {
        for lane in &mut self.lanes[1..] {
            lane.is_gone = true;
        }
        for (level, name, options) in levels {
            match self.lanes.iter_mut().find(|lane| lane.level == *level) {
                Some(lane) => (lane.is_gone, lane.options) = (false, *options),
                None => self.lanes.push(Lane::new(*level, name.clone(), *options)),
            }
        }
        self.lanes.retain(|lane| !lane.is_over());
        self.set_limits(self.limits);
    }

    /// Divides new limits among the levels.
    pub fn set_limits(&mut self, limits: ReadLimits) {
        self.limits = limits;
        let of = |lane: &Lane<T, P, C>| if lane.is_gone { 0 } else { lane.options.shares() };
        let shares: Vec<u32> = self.lanes.iter().map(of).collect();
        let (turns, left) = divide(u64::from(limits.running_max), &shares, 1);
        self.shared_turns = left;
        let least = LANE_BYTES_MIN.min(limits.memory_bytes_max / 16);
        let (parts, left) = divide(limits.memory_bytes_max, &shares, least);
        self.shared_bytes = left;
        for (lane, (turns, part)) in self.lanes.iter_mut().zip(turns.into_iter().zip(parts)) {
            lane.turns = u32::try_from(turns).unwrap_or(u32::MAX);
            lane.part = part;
        }
    }

    pub fn lanes(&self) -> &[Lane<T, P, C>] {
        &self.lanes
    }

    /// Where the reads of a level are: with those that name none, where there is no such level.
    fn at(&self, level: LevelId) -> usize {
        self.lanes.iter().position(|lane| lane.level == level).unwrap_or(0)
    }

    pub fn lane(&mut self, level: LevelId) -> &mut Lane<T, P, C> {
        let at = self.at(level);
        &mut self.lanes[at]
    }

    /// The level as this class has it.
    pub fn known(&self, level: LevelId) -> LevelId {
        self.lanes[self.at(level)].level
    }

    fn sum(&self, of: impl Fn(&Lane<T, P, C>) -> u64) -> u64 {
        self.lanes.iter().map(of).sum()
    }

    /// Reads that run.
    pub fn running(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.running).sum()
    }

    /// Reads that wait for their first turn.
    pub fn queued(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.queue.len() as u32).sum()
    }

    /// Reads whose clients take nothing, or that wait for memory.
    pub fn aside(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.aside).sum()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.sum(|lane| lane.memory_bytes)
    }

    /// Bytes that a read is charged with at least.
    pub fn base_bytes(&self) -> u64 {
        match self.class {
            ReadClass::Keys => 16 << 10,
            ReadClass::Scan => 256 << 10,
        }
    }

    fn reads(&self) -> &'static str {
        match self.class {
            ReadClass::Keys => "reads of partitions",
            ReadClass::Scan => "scans",
        }
    }

    /// Whose reads an error speaks of.
    fn whose(&self, at: usize) -> Whose {
        Whose { reads: self.reads(), level: self.lanes[at].name.clone() }
    }

    fn facts(&self, at: usize) -> Facts {
        let lane = &self.lanes[at];
        let borrowed = self.sum(|lane| u64::from(lane.running.saturating_sub(lane.turns)));
        let spare_turns = self.shared_turns.saturating_sub(borrowed);
        let of_lane = |lane: &Lane<T, P, C>| lane.memory_bytes.saturating_sub(lane.part);
        let by_others = self.sum(of_lane).saturating_sub(of_lane(lane));
        Facts {
            running: lane.running,
            computing: lane.computing,
            turns: lane.turns,
            spare_turns: u32::try_from(spare_turns).unwrap_or(u32::MAX),
            used: lane.memory_bytes,
            part: lane.part,
            spare: self.shared_bytes.saturating_sub(by_others),
            has_blessed: lane.blessed.is_some(),
        }
    }

    /// Bytes that reads of a level may have beside those that they have.
    pub fn free_bytes(&self, level: LevelId) -> u64 {
        self.facts(self.at(level)).free_bytes()
    }

    /// Whether a level may run one read more.
    pub fn has_turn(&self, level: LevelId) -> bool {
        self.facts(self.at(level)).has_turn()
    }

    /// A read comes.
    ///
    /// Errors: `Overloaded` when it is shed.
    pub fn arrive(&mut self) -> Result<()> {
        self.totals.arrived += 1;
        if !is_shed(self.shedding.per_mille, &mut self.shed_milli) {
            return Ok(());
        }
        self.totals.shed += 1;
        Err(Error::Overloaded(Overload::Shed { what: self.reads() }))
    }

    /// A read that came wants a turn; true when it begins at once, false when it has to wait.
    ///
    /// Errors: `Overloaded` when the queue is full, or its level sheds.
    pub fn enter(&mut self, level: LevelId) -> Result<bool> {
        if self.enter_now(level, false) {
            return Ok(true);
        }
        let at = self.at(level);
        let (queued, wait_max) = (self.lanes[at].queue.len(), self.lanes[at].wait_max());
        let overload = match wait_max {
            Some(most) if self.lanes[at].sheds => {
                Overload::Interactive { most, whose: self.whose(at) }
            }
            _ if queued >= self.limits.queued_max as usize => {
                let queued = u32::try_from(queued).unwrap_or(u32::MAX);
                Overload::QueueFull { queued, whose: self.whose(at) }
            }
            _ => return Ok(false),
        };
        self.count_refused(at);
        Err(Error::Overloaded(overload))
    }

    fn count_refused(&mut self, at: usize) {
        self.totals.refused += 1;
        self.lanes[at].totals.refused += 1;
    }

    /// As `enter`, for who does not wait: false leaves everything as it is. A brief read goes past
    /// those that wait until fewer reads compute.
    pub fn enter_now(&mut self, level: LevelId, is_brief: bool) -> bool {
        let at = self.at(level);
        let lane = &self.lanes[at];
        let is_next = match is_brief {
            // Where it may begin, those of the queue wait for nothing else.
            true => lane.returning.is_empty() && lane.starving.is_empty(),
            false => !lane.has_waiting(),
        };
        let begins = is_next && self.may_begin(at, is_brief);
        if begins {
            self.begin(at);
        }
        begins
    }

    /// Whether somebody waits for a turn or for memory.
    pub fn has_waiting(&self) -> bool {
        self.lanes.iter().any(Lane::has_waiting)
    }

    fn may_begin(&self, at: usize, is_brief: bool) -> bool {
        let bytes = self.base_bytes();
        decide(&self.facts(at), Question::Begin { bytes, is_brief }) == Decision::Yes
    }

    fn begin(&mut self, at: usize) {
        self.totals.admitted += 1;
        let base_bytes = self.base_bytes();
        let lane = &mut self.lanes[at];
        lane.totals.admitted += 1;
        lane.memory_bytes += base_bytes;
        lane.sheds = false;
        self.run(at);
    }

    fn run(&mut self, at: usize) {
        self.lanes[at].running += 1;
        self.lanes[at].computing += 1;
        self.running_most = self.running_most.max(self.running());
    }

    /// A read that runs wants more memory; true where it has it, false where it has to wait.
    ///
    /// Errors: `Overloaded` where it is ended for what its level holds.
    pub fn grow(&mut self, level: LevelId, want: Want) -> Result<bool> {
        let at = self.at(level);
        if !self.lanes[at].starving.is_empty() && self.lanes[at].blessed != Some(want.read) {
            return Ok(false);
        }
        self.try_grow(at, want)
    }

    /// As `grow`, for who is next.
    fn try_grow(&mut self, at: usize, want: Want) -> Result<bool> {
        let Want { read, bytes, held } = want;
        let facts = self.facts(at);
        let is_blessed = self.lanes[at].blessed == Some(read);
        let decision = decide(&facts, Question::More { bytes, held, is_blessed });
        match decision {
            Decision::Yes => {}
            Decision::Bless => self.lanes[at].blessed = Some(read),
            Decision::NoMemory | Decision::NoTurn => return Ok(false),
            Decision::Kill => {
                self.lanes[at].totals.killed += 1;
                let Facts { used, part, spare, .. } = facts;
                return Err(Error::short(format!(
                    "{} hold {used} bytes, where {part} are theirs and {spare} may be borrowed, \
                     and one that holds {held} of them was ended when it asked for {bytes} more: \
                     read less at once, run fewer at once, or give the level more shares",
                    self.whose(at)
                )));
            }
        }
        self.lanes[at].memory_bytes += bytes;
        Ok(true)
    }

    /// A read of a level ends or waits for its client: another one may go on beyond the limit.
    pub fn unbless(&mut self, level: LevelId, read: u64) -> bool {
        self.lane(level).blessed.take_if(|blessed| *blessed == read).is_some()
    }

    /// Takes who is next off its queue; a turn or memory was counted for it.
    pub fn next(&mut self, now_ns: u64) -> Option<Next<T, P, C>> {
        if let Some((at, error)) = (0..self.lanes.len()).find_map(|at| self.late(at, now_ns)) {
            let waiter = self.lanes[at].queue.pop_front().expect("one that is late waits");
            return Some(Next::Leaves(waiter.sender, error));
        }
        if let Some(grows) = (0..self.lanes.len()).find_map(|at| self.next_to_grow(at, now_ns)) {
            return Some(grows);
        }
        let returns = |at: &usize| {
            let is_next = !self.lanes[*at].returning.is_empty();
            is_next && decide(&self.facts(*at), Question::Return) == Decision::Yes
        };
        if let Some(at) = (0..self.lanes.len()).find(returns) {
            self.run(at);
            let waiter = self.lanes[at].returning.pop_front();
            return waiter.map(|waiter| Next::Returns(self.lanes[at].level, waiter.sender));
        }
        let begins = |at: &usize| {
            let lane = &self.lanes[*at];
            let is_next = lane.returning.is_empty() && lane.starving.is_empty();
            is_next && !lane.queue.is_empty() && self.may_begin(*at, false)
        };
        // Of several the one that has fewest turns for its shares.
        let turns = |at: &usize| {
            let lane = &self.lanes[*at];
            u64::from(lane.running) * 1_000_000 / u64::from(lane.options.shares().max(1))
        };
        let at = (0..self.lanes.len()).filter(begins).min_by_key(turns)?;
        if let Some(error) = self.hopeless(at, now_ns) {
            return self.lanes[at].queue.pop_front().map(|out| Next::Leaves(out.sender, error));
        }
        self.begin(at);
        let waiter = self.lanes[at].queue.pop_front();
        waiter.map(|waiter| Next::Begins(self.lanes[at].level, waiter.sender))
    }

    /// The first of a level that waits for memory, where it gets some or none any more.
    fn next_to_grow(&mut self, at: usize, now_ns: u64) -> Option<Next<T, P, C>> {
        let (want, waiter) = self.lanes[at].starving.front()?;
        let (want, since_ns) = (*want, waiter.since_ns);
        let wait_ns = u64::try_from(READ_MEMORY_WAIT.as_nanos()).unwrap_or(u64::MAX);
        let grows = match self.try_grow(at, want) {
            Ok(false) if now_ns.saturating_sub(since_ns) <= wait_ns => return None,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
            Ok(false) => {
                self.count_refused(at);
                Err(Error::short(format!(
                    "{} hold {} bytes, and this one waited {} s for its part: try again later, read \
                     less at once, or give the level more shares",
                    self.whose(at),
                    self.lanes[at].memory_bytes,
                    READ_MEMORY_WAIT.as_secs()
                )))
            }
        };
        let (_, waiter) = self.lanes[at].starving.pop_front()?;
        Some(match grows {
            Ok(()) => Next::Grows(self.lanes[at].level, want.bytes, waiter.sender),
            Err(error) => Next::Starves(waiter.sender, error),
        })
    }

    /// What the first of a queue is told when it waited for too long, and where it stands.
    fn late(&mut self, at: usize, now_ns: u64) -> Option<(usize, Error)> {
        self.lanes[at].queue.front()?;
        let waited_us = self.lanes[at].waited_us(now_ns);
        let is_late = |most_us: u64| most_us > 0 && waited_us > most_us;
        let wait_us = self.lanes[at].wait_max().map_or(0, |most| most.as_micros() as u64);
        let shed_us = u64::from(self.shedding.wait_ms_max) * 1000;
        let what = match () {
            () if is_late(wait_us) => {
                self.lanes[at].sheds = true;
                self.count_refused(at);
                IMPATIENT
            }
            () if is_late(self.limits.wait_us_max) => {
                self.count_refused(at);
                "try again later, or run fewer at once"
            }
            () if is_late(shed_us) => {
                self.totals.shed += 1;
                "try again later, or run fewer at once"
            }
            () => return None,
        };
        Some((at, self.waited(at, waited_us, what)))
    }

    /// What the first of a queue is told that would begin now, where its time would not do.
    fn hopeless(&mut self, at: usize, now_ns: u64) -> Option<Error> {
        let deadline = self.lanes[at].queue.front()?.deadline?;
        let waited_us = self.lanes[at].waited_us(now_ns);
        if !deadline.is_nearly_over(now_ns) {
            return None;
        }
        self.count_refused(at);
        Some(self.waited(at, waited_us, HOPELESS))
    }

    /// What work is told that waited for too long, for its shard or in it: as the first of a queue
    /// is.
    pub fn refuse_waited(
        &mut self,
        class: WorkClass,
        terms: &Terms,
        (waited_us, now_ns): (u64, u64),
    ) -> Option<Error> {
        let at = self.at(terms.level);
        let most = self.lanes[at].wait_max();
        let why = match most {
            _ if terms.deadline.is_some_and(|deadline| deadline.is_nearly_over(now_ns)) => HOPELESS,
            Some(most) if u128::from(waited_us) > most.as_micros() => IMPATIENT,
            _ => return None,
        };
        let mut whose = self.whose(at);
        if class == WorkClass::Write {
            // It is none of the reads, but one of the level's.
            self.lanes[at].totals.refused += 1;
            whose.reads = "writes";
        } else {
            self.count_refused(at);
        }
        Some(Error::Overloaded(Overload::Waited { waited_us, whose, why }))
    }

    /// What a read is told that comes now, where it would stand behind others for half of its time:
    /// cheaper than to let it wait for the same answer. Callers are told of the queue.
    pub fn refuse_behind(
        &mut self,
        level: LevelId,
        (deadline, now_ns): (Deadline, u64),
        callers: &FailFast,
    ) -> Option<Error> {
        let at = self.at(level);
        let since_ns = self.lanes[at].queue.front()?.since_ns;
        let waited_ns = now_ns.saturating_sub(since_ns);
        if !deadline.is_half_over_after(waited_ns, now_ns) {
            return None;
        }
        self.count_refused(at);
        let whose = self.whose(at);
        let error = behind(waited_ns, &whose);
        callers.tell(self.class, (self.lanes[at].level, whose), (since_ns, now_ns));
        Some(error)
    }

    /// Since when the first of a level waits for its first turn.
    pub fn waits_since_ns(&self, level: LevelId) -> Option<u64> {
        let lane = self.lanes.iter().find(|lane| lane.level == level)?;
        lane.queue.front().map(|waiter| waiter.since_ns)
    }

    /// Reads of a level came that their callers refused.
    pub fn count_refused_by_callers(&mut self, level: LevelId, times: u64) {
        self.totals.arrived += times;
        self.totals.refused += times;
        self.lane(level).totals.refused += times;
    }

    fn waited(&self, at: usize, waited_us: u64, why: &'static str) -> Error {
        Error::Overloaded(Overload::Waited { waited_us, whose: self.whose(at), why })
    }

    /// For which the first that waits does so.
    pub fn waited_us(&self, now_ns: u64) -> u64 {
        self.lanes.iter().map(|lane| lane.waited_us(now_ns)).max().unwrap_or(0)
    }

    /// Ends the interval: what it brought, and how many were shed.
    pub fn close_interval(&mut self) -> (ReadLoad, u64) {
        let (totals, before) = (self.totals, std::mem::replace(&mut self.before, self.totals));
        let load = ReadLoad {
            arrived: totals.arrived - before.arrived,
            admitted: totals.admitted - before.admitted,
            queued: self.queued(),
            running_most: self.running_most,
            refused: totals.refused - before.refused,
            memory_bytes: self.memory_bytes(),
            p50_us: self.latencies.percentile(50),
            p99_us: self.latencies.percentile(99),
            busy_us: std::mem::take(&mut self.busy_ns) / 1000,
        };
        self.latencies.clear();
        self.running_most = self.running();
        (load, totals.shed - before.shed)
    }

    /// Whether anything goes on.
    pub fn is_idle(&self) -> bool {
        self.running() == 0 && self.queued() == 0 && self.totals.arrived == self.before.arrived
    }
}

/// Picks `per_mille` of a thousand calls, evenly spread.
pub(super) fn is_shed(per_mille: u32, milli: &mut u32) -> bool {
    *milli += per_mille.min(1000);
    let is_shed = *milli >= 1000;
    *milli %= 1000;
    is_shed
}

/// A class as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassStatus {
    pub running: u32,
    pub queued: u32,
    /// Reads whose clients take nothing.
    pub aside: u32,
    pub memory_bytes: u64,
    /// Limits in force, zeros for writes: they have none of these.
    pub running_max: u32,
    pub memory_bytes_max: u64,
    pub queued_max: u32,
    pub wait_us_max: u64,
    pub shedding: Shedding,
    /// Since the start.
    pub arrived: u64,
    pub admitted: u64,
    pub refused: u64,
    pub shed: u64,
    /// Of the last interval in which there were any.
    pub p50_us: u64,
    pub p99_us: u64,
}
