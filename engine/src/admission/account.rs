//! The account of the read that runs: long buffers are charged to it where they are allocated, and
//! its time on the processor is counted.
//!
//! Whatever polls a read says whose account that is; a buffer takes it when it first holds bytes,
//! and keeps it. Work that is no read has none, and its buffers are charged to nobody.
//!
//! A read computes from the moment when it has its turn until it waits for something else, or has
//! computed for [`SHORT_READ_NS`]. Its level is told when that changes: few of its reads compute at
//! once (`semaphore.rs`), so that each is done soon.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::config::SHORT_READ_NS;
use crate::scoped::{Scope, Within};

/// Who is told what an account holds.
pub(super) trait Keeper {
    /// A buffer has `after` bytes instead of `before`.
    fn change(&self, before: u64, after: u64);
    /// The read computes from now on, or no longer.
    fn set_computes(&self, computes: bool);
}

/// Buffers of one read.
pub struct Account {
    bytes: Cell<u64>,
    /// Whether its read has a turn.
    has_turn: Cell<bool>,
    /// Whether its level counts it among those that compute; only with a turn.
    computes: Cell<bool>,
    /// Time on the processor so far.
    spent_ns: Cell<u64>,
    keeper: Box<dyn Keeper>,
}

thread_local! {
    /// Of the read that is polled.
    static CURRENT: RefCell<Option<Rc<Account>>> = const { RefCell::new(None) };
    /// Whether the task that is polled gave up the rest of its turn, and waits for nothing else.
    static YIELDS: Cell<bool> = const { Cell::new(false) };
}

/// The task that is polled waits for its next turn, or for that no longer.
pub fn set_yields(yields: bool) {
    YIELDS.set(yields);
}

impl Account {
    pub(super) fn new(keeper: Box<dyn Keeper>) -> Rc<Self> {
        Rc::new(Account {
            bytes: Cell::new(0),
            has_turn: Cell::new(false),
            computes: Cell::new(false),
            spent_ns: Cell::new(0),
            keeper,
        })
    }

    /// Its read was given a turn, and counts among those that compute.
    pub(super) fn take_turn(&self) {
        self.has_turn.set(true);
        self.computes.set(true);
    }

    /// Its read gives its turn back; whether it counts among those that compute.
    pub(super) fn give_turn(&self) -> bool {
        self.has_turn.set(false);
        self.computes.replace(false)
    }

    pub(super) fn spend(&self, spent_ns: u64) {
        self.spent_ns.set(self.spent_ns.get().saturating_add(spent_ns));
    }

    /// A poll begins, or is over.
    fn poll(&self, begins: bool) {
        let is_short = self.spent_ns.get() < SHORT_READ_NS;
        let computes = is_short && self.has_turn.get() && (begins || YIELDS.get());
        YIELDS.set(false);
        if self.computes.replace(computes) != computes && self.has_turn.get() {
            self.keeper.set_computes(computes);
        }
    }

    /// Bytes of all its buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}

/// What holds while the read of an account is polled.
pub(super) fn on_account(account: Rc<Account>) -> impl Scope {
    (account.clone(), Within::new(Some(account), |account| CURRENT.replace(account)))
}

impl Scope for Rc<Account> {
    fn enter(&mut self) {
        self.poll(true);
    }

    fn leave(&mut self) {
        self.poll(false);
    }
}

/// What one buffer is charged with; dropping it gives it back.
#[derive(Default)]
pub struct BufferCharge {
    account: Option<Rc<Account>>,
    bytes: u64,
}

impl BufferCharge {
    /// The buffer has so many bytes now.
    pub fn set(&mut self, bytes: u64) {
        if bytes == self.bytes {
            return;
        }
        if self.account.is_none() {
            self.account = CURRENT.with_borrow(Clone::clone);
        }
        let Some(account) = &self.account else { return };
        let before = std::mem::replace(&mut self.bytes, bytes);
        account.bytes.set(account.bytes.get() - before + bytes);
        account.keeper.change(before, bytes);
    }
}

impl Drop for BufferCharge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::scoped::scoped;

    type Changes = Rc<RefCell<Vec<(u64, u64)>>>;

    impl Keeper for Changes {
        fn change(&self, before: u64, after: u64) {
            self.borrow_mut().push((before, after));
        }

        fn set_computes(&self, _: bool) {}
    }

    #[test]
    fn a_buffer_stays_on_the_account_of_the_read_that_filled_it_first() {
        let (told, other_told) = (Changes::default(), Changes::default());
        let account = Account::new(Box::new(told.clone()));
        let other = Account::new(Box::new(other_told.clone()));
        let mut charge = BufferCharge::default();
        // Work that is no read has no account.
        charge.set(50);
        let during = |account: &Rc<Account>, charge: &mut BufferCharge, bytes| {
            let polled = scoped(async { charge.set(bytes) }, on_account(account.clone()));
            assert!(polled.now_or_never().is_some());
        };
        during(&account, &mut charge, 100);
        during(&account, &mut charge, 100);
        during(&other, &mut charge, 300);
        charge.set(200);
        assert_eq!((account.bytes(), other.bytes()), (200, 0));
        let mut second = BufferCharge::default();
        during(&account, &mut second, 7);
        assert_eq!(account.bytes(), 207);
        drop((charge, second));
        assert_eq!((account.bytes(), other.bytes()), (0, 0));
        let wanted = [(0, 100), (100, 300), (300, 200), (0, 7), (200, 0), (7, 0)];
        assert_eq!(*told.borrow(), wanted);
        assert!(other_told.borrow().is_empty());
    }
}
