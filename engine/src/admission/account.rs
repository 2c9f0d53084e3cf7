//! The account of the read that runs: long buffers are charged to it where they are allocated.
//!
//! Whatever polls a read says whose account that is; a buffer takes it when it first holds bytes,
//! and keeps it. Work that is no read has none, and its buffers are charged to nobody.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Who is told what an account holds.
pub(super) trait Keeper {
    /// A buffer has `after` bytes instead of `before`.
    fn change(&self, before: u64, after: u64);
}

/// Buffers of one read.
pub struct Account {
    bytes: Cell<u64>,
    keeper: Box<dyn Keeper>,
}

thread_local! {
    /// Of the read that is polled.
    static CURRENT: RefCell<Option<Rc<Account>>> = const { RefCell::new(None) };
}

impl Account {
    pub(super) fn new(keeper: Box<dyn Keeper>) -> Rc<Self> {
        Rc::new(Account { bytes: Cell::new(0), keeper })
    }

    /// Bytes of all its buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Makes it that of what runs on this thread, until the result is dropped.
    pub(super) fn enter(self: &Rc<Self>) -> Entered {
        Entered(CURRENT.replace(Some(self.clone())))
    }
}

/// Brings back the account before.
pub(super) struct Entered(Option<Rc<Account>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
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
