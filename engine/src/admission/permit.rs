//! What a read has while it runs, its turn and what it is charged with, and who waits for that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::account::{Account, Keeper};
use super::class::{Class, Next};
use super::diagnosis::{NotedRead, Read, ReadState, ReadStatus, Reads, Scene, report};
use super::fail_fast::FailFast;
use super::lane::{Lane, Waiter, Want};
use super::level::LevelId;
use super::memory::{BatchCharge, ReadMemory, charged};
use crate::clock::{Clock, Deadline};
use crate::error::{Error, Result};
use crate::policy::admission::ReadClass;

/// Batches that a client may have before it takes one: those of the channel and the one on its way.
const BATCHES_HELD: usize = 3;
/// Time after which the log is told again who holds what.
const TELL_AGAIN_NS: u64 = 30_000_000_000;

/// The reads of one class.
pub(super) type ReadsOf = Class<Turn, Permit, Charge>;

/// What permits and those who wait have in common: the state of an admission point.
pub(super) struct Inner {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) memory: Arc<ReadMemory>,
    pub(super) fail_fast: Arc<FailFast>,
    pub(super) classes: [RefCell<ReadsOf>; ReadClass::COUNT],
    /// Somebody is handing out turns already.
    pub(super) handing: [Cell<bool>; ReadClass::COUNT],
    pub(super) next_id: Cell<u64>,
    pub(super) reads: Rc<Reads>,
    /// Thousandths of the last interval for which reads computed.
    pub(super) busy_per_mille: Cell<u64>,
    /// When the log was told who holds what.
    pub(super) told_ns: Cell<Option<u64>>,
}

impl Inner {
    pub(super) fn class(&self, class: ReadClass) -> &RefCell<ReadsOf> {
        &self.classes[class as usize]
    }

    /// The permit of a read for which the class has counted a turn.
    pub(super) fn permit(self: &Rc<Self>, class: ReadClass, level: LevelId) -> Permit {
        let level = self.class(class).borrow().known(level);
        Permit::new(self, class, level)
    }

    pub(super) fn told(&self, class: ReadClass, level: LevelId, error: Error) -> Error {
        self.tell(class, level, &error);
        error
    }

    pub(super) fn tell(&self, class: ReadClass, level: LevelId, problem: &Error) {
        let now_ns = self.clock.monotonic_ns();
        let is_recent = |told_ns: u64| now_ns.saturating_sub(told_ns) < TELL_AGAIN_NS;
        if self.told_ns.get().is_some_and(is_recent) {
            return;
        }
        self.told_ns.set(Some(now_ns));
        let reads = self.reads.statuses(now_ns);
        let class = self.class(class).borrow();
        let name = |read: &ReadStatus| {
            let lane = class.lanes().iter().find(|lane| lane.level == read.level);
            lane.map_or_else(|| read.level.0.to_string(), |lane| lane.name.to_string())
        };
        let names: Vec<String> = reads.iter().map(name).collect();
        let report = report(&Scene {
            problem: &problem.to_string(),
            reads: &reads,
            names: &names,
            busy_per_mille: self.busy_per_mille.get(),
            has_memory: class.free_bytes(level) >= class.base_bytes(),
            has_turns: class.has_turn(level),
        });
        tracing::warn!("a read got no further: {report}");
    }

    fn turn(self: &Rc<Self>, class: ReadClass, level: LevelId) -> Turn {
        Turn::new(self.clone(), class, level)
    }

    /// Bytes that the class has counted.
    pub(super) fn charge(self: &Rc<Self>, class: ReadClass, level: LevelId, bytes: u64) -> Charge {
        Charge::new(self.clone(), (class, level), bytes)
    }

    /// A read of a level holds so many bytes instead of those before.
    pub(super) fn change(
        self: &Rc<Self>,
        class: ReadClass,
        level: LevelId,
        before: u64,
        after: u64,
    ) {
        let mut state = self.class(class).borrow_mut();
        let lane = state.lane(level);
        lane.memory_bytes = lane.memory_bytes - before + after;
        drop(state);
        if after < before {
            self.hand_out(class);
        }
    }

    pub(super) fn fresh_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    pub(super) fn waiter<T>(
        &self,
        deadline: Option<Deadline>,
        sender: oneshot::Sender<T>,
    ) -> Waiter<T> {
        Waiter { id: self.fresh_id(), since_ns: self.clock.monotonic_ns(), deadline, sender }
    }

    /// Puts somebody at the end of a queue; dropping the result takes it out again.
    pub(super) fn queue_up<T>(
        self: &Rc<Self>,
        class: ReadClass,
        level: LevelId,
        waiter: Waiter<T>,
        push: impl FnOnce(&mut Lane<Turn, Permit, Charge>, Waiter<T>),
    ) -> Place {
        let id = waiter.id;
        push(self.class(class).borrow_mut().lane(level), waiter);
        self.tell_callers(class);
        Place::new(self.clone(), (class, level), id)
    }

    /// Gives turns and memory to those who wait for as long as there are any.
    pub(super) fn hand_out(self: &Rc<Self>, class: ReadClass) {
        let handing = &self.handing[class as usize];
        // A turn that nobody takes comes back while it is handed out; this loop sees it.
        if handing.replace(true) {
            return;
        }
        // Mostly nobody waits, and the clock need not be asked.
        if !self.class(class).borrow().has_waiting() {
            handing.set(false);
            self.tell_callers(class);
            return;
        }
        let now_ns = self.clock.monotonic_ns();
        loop {
            let next = self.class(class).borrow_mut().next(now_ns);
            // A receiver that is gone gives back what it was sent.
            match next {
                None => break,
                Some(Next::Returns(level, sender)) => drop(sender.send(self.turn(class, level))),
                Some(Next::Begins(level, sender)) => {
                    drop(sender.send(Ok(self.permit(class, level))));
                }
                Some(Next::Grows(level, bytes, sender)) => {
                    drop(sender.send(Ok(self.charge(class, level, bytes))));
                }
                Some(Next::Leaves(sender, error)) => drop(sender.send(Err(error))),
                Some(Next::Starves(sender, error)) => drop(sender.send(Err(error))),
            }
        }
        handing.set(false);
        self.tell_callers(class);
    }

    /// Tells callers how the queues stand that they know of.
    fn tell_callers(&self, class: ReadClass) {
        if self.fail_fast.knows_queues(class) {
            let state = self.class(class).borrow();
            self.fail_fast.follow(class, |level| state.waits_since_ns(level));
        }
    }
}

/// A place in a queue.
pub(super) struct Place {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
    id: u64,
}

impl Place {
    pub(super) fn new(inner: Rc<Inner>, (class, level): (ReadClass, LevelId), id: u64) -> Self {
        Place { inner, class, level, id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.class(self.class).borrow_mut().lane(self.level).forget(self.id);
        // Those behind it may want less than it did.
        self.inner.hand_out(self.class);
    }
}

/// Being one of those that run.
pub(super) struct Turn {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
    /// Of its read, once that has one; a read without one computes.
    account: Option<Rc<Account>>,
}

impl Turn {
    /// One that its class has counted.
    pub(super) fn new(inner: Rc<Inner>, class: ReadClass, level: LevelId) -> Self {
        Turn { inner, class, level, account: None }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let computes = self.account.as_ref().is_none_or(|account| account.give_turn());
        let mut class = self.inner.class(self.class).borrow_mut();
        let lane = class.lane(self.level);
        lane.running -= 1;
        lane.computing -= u32::from(computes);
        drop(class);
        self.inner.hand_out(self.class);
    }
}

/// Memory that a read is charged with.
pub(super) struct Charge {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
    bytes: u64,
}

impl Charge {
    /// Of bytes that its class has counted.
    pub(super) fn new(inner: Rc<Inner>, (class, level): (ReadClass, LevelId), bytes: u64) -> Self {
        Charge { inner, class, level, bytes }
    }

    fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.inner.change(self.class, self.level, before, bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The level that an account belongs to.
struct OfLevel {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
}

impl Keeper for OfLevel {
    fn change(&self, before: u64, after: u64) {
        self.inner.change(self.class, self.level, before, after);
    }

    fn set_computes(&self, computes: bool) {
        let mut class = self.inner.class(self.class).borrow_mut();
        let lane = class.lane(self.level);
        match computes {
            true => lane.computing += 1,
            false => lane.computing -= 1,
        }
        drop(class);
        if !computes {
            self.inner.hand_out(self.class);
        }
    }
}

/// A read that was admitted; dropping it is its end.
pub struct Permit {
    id: u64,
    turn: Option<Turn>,
    charge: Charge,
    /// Of the batch that is built.
    building: Option<Charge>,
    /// Of other buffers, once it may have any.
    account: Option<Rc<Account>>,
    base_bytes: u64,
    /// Bytes of the last batches.
    held: [u64; BATCHES_HELD],
    /// When it was admitted, until its first batch is there.
    began_ns: Option<u64>,
    /// Where people see it.
    read: Option<Rc<Read>>,
}

impl Permit {
    /// Of a read for which its class has counted a turn.
    pub(super) fn new(inner: &Rc<Inner>, class: ReadClass, level: LevelId) -> Self {
        let base_bytes = inner.class(class).borrow().base_bytes();
        Permit {
            id: inner.fresh_id(),
            turn: Some(Turn::new(inner.clone(), class, level)),
            charge: Charge::new(inner.clone(), (class, level), base_bytes),
            building: None,
            account: None,
            base_bytes,
            held: [0; BATCHES_HELD],
            began_ns: Some(inner.clock.monotonic_ns()),
            read: None,
        }
    }

    /// Lets people see how the read fares.
    pub fn show(&mut self, noted: &NotedRead) {
        self.read = Some(noted.read.clone());
        self.show_state(ReadState::Running);
    }

    fn show_state(&self, state: ReadState) {
        let Some(read) = &self.read else { return };
        read.state.set(state);
        let building = self.building.as_ref().map_or(0, |building| building.bytes);
        read.memory_bytes.set(self.held_bytes() + building);
    }

    /// The account for buffers of the read, see [`Admission::measured`].
    pub fn account(&mut self) -> Rc<Account> {
        if let Some(account) = &self.account {
            return account.clone();
        }
        let (inner, class, level) = self.place();
        let account = Account::new(Box::new(OfLevel { inner, class, level }));
        self.account = Some(account.clone());
        self.keep_account();
        account
    }

    /// The turn that it has is that of its account.
    fn keep_account(&mut self) {
        if let (Some(turn), Some(account)) = (&mut self.turn, &self.account) {
            account.take_turn();
            turn.account = Some(account.clone());
        }
    }

    /// What it holds beside the batch that it builds.
    fn held_bytes(&self) -> u64 {
        self.charge.bytes + self.account.as_ref().map_or(0, |account| account.bytes())
    }

    /// Bytes that the next batch should end at, by the memory that is free: of all reads, and of
    /// those of its level.
    pub fn batch_bytes(&self) -> usize {
        let Charge { inner, class, level, .. } = &self.charge;
        inner.memory.batch_bytes(inner.class(*class).borrow().free_bytes(*level))
    }

    /// Memory for a batch of `bytes`. While it has to wait for that others may have the turn.
    ///
    /// Errors: `Overloaded` when that takes too long, or the read is ended for what its level
    /// holds.
    pub async fn charge_batch(&mut self, bytes: usize) -> Result<BatchCharge> {
        self.building = None;
        let building = self.grow(charged(bytes)).await?;
        self.building = Some(building);
        self.show_state(ReadState::Running);
        let inner = self.charge.inner.clone();
        if let Some(charge) = inner.memory.try_charge(bytes) {
            return Ok(charge);
        }
        self.give_turn(ReadState::Memory);
        let is_going = self.began_ns.is_none();
        let charge = inner.memory.charge(bytes, is_going, inner.clock.monotonic_ns()).await;
        self.step_in().await;
        charge
    }

    /// So many bytes more of what its level has.
    async fn grow(&mut self, bytes: u64) -> Result<Charge> {
        let (inner, class, level) = self.place();
        let want = Want { read: self.id, bytes, held: self.held_bytes() };
        let grown = inner.class(class).borrow_mut().grow(level, want);
        match grown {
            Ok(true) => return Ok(inner.charge(class, level, bytes)),
            Ok(false) => {}
            Err(error) => return Err(inner.told(class, level, error)),
        }
        self.give_turn(ReadState::Memory);
        let (sender, granted) = oneshot::channel();
        let waiter = inner.waiter(None, sender);
        let place = inner.queue_up(class, level, waiter, |lane, waiter| {
            lane.starving.push_back((want, waiter));
        });
        // Stepping aside may have freed what it waits for.
        inner.hand_out(class);
        let charge = granted.await;
        drop(place);
        let charge = charge.map_err(|_| Error::Closed).flatten();
        self.step_in().await;
        charge.map_err(|error| inner.told(class, level, error))
    }

    fn place(&self) -> (Rc<Inner>, ReadClass, LevelId) {
        (self.charge.inner.clone(), self.charge.class, self.charge.level)
    }

    /// A batch is ready, or with 0 bytes the end.
    pub fn answer(&mut self, batch_bytes: usize) {
        if let Some(began_ns) = self.began_ns.take() {
            let inner = &self.charge.inner;
            let us = inner.clock.monotonic_ns().saturating_sub(began_ns) / 1000;
            inner.class(self.charge.class).borrow_mut().latencies.add(us);
        }
        self.held.rotate_right(1);
        self.held[0] = batch_bytes as u64;
        self.charge.set(self.base_bytes + self.held.iter().sum::<u64>());
        self.building = None;
        self.show_state(ReadState::Running);
    }

    /// The whole answer is there, in the turn in which the read was admitted. Returns the ns that
    /// it took.
    pub fn answer_at_once(mut self) -> u64 {
        let Some(began_ns) = self.began_ns.take() else { return 0 };
        let inner = &self.charge.inner;
        let spent_ns = inner.clock.monotonic_ns().saturating_sub(began_ns);
        let mut class = inner.class(self.charge.class).borrow_mut();
        class.latencies.add(spent_ns / 1000);
        class.busy_ns += spent_ns;
        spent_ns
    }

    /// The client takes nothing: others may have the turn.
    pub fn step_aside(&mut self) {
        self.give_turn(ReadState::Client);
    }

    /// Others may have the turn.
    fn give_turn(&mut self, state: ReadState) {
        self.show_state(state);
        if let Some(turn) = self.turn.take() {
            let mut class = turn.inner.class(turn.class).borrow_mut();
            class.lane(turn.level).aside += 1;
            class.unbless(turn.level, self.id);
            drop(class);
            drop(turn);
        }
    }

    /// Waits for a turn again, before those that had none yet.
    pub async fn step_in(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let (inner, class, level) = self.place();
        let (sender, returned) = oneshot::channel();
        let waiter = inner.waiter(None, sender);
        let place =
            inner.queue_up(class, level, waiter, |lane, waiter| lane.returning.push_back(waiter));
        inner.hand_out(class);
        let turn = returned.await;
        drop(place);
        self.turn = Some(turn.expect("who waits to return is never sent away"));
        self.keep_account();
        inner.class(class).borrow_mut().lane(level).aside -= 1;
        self.show_state(ReadState::Running);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (inner, class, level) = self.place();
        let mut state = inner.class(class).borrow_mut();
        if self.turn.is_none() {
            state.lane(level).aside -= 1;
        }
        let was_blessed = state.unbless(level, self.id);
        drop(state);
        if was_blessed {
            inner.hand_out(class);
        }
    }
}
