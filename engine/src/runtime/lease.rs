//! Who may touch a shard's state: the shard's thread, or one caller while that sleeps.
//!
//! A shard's thread has the lease for as long as it polls its tasks, and gives it back before it
//! sleeps. A caller on another thread that finds the lease free takes it and answers one short
//! question itself. So a lone call costs no wake-up of a thread, which takes tens of microseconds
//! of two cores. Under load the shard's thread has the lease, and callers use the mailbox.
//!
//! This is delegation, turned round where that is cheaper: who asks works on the data of the one
//! who is asked, as in flat combining (Hendler, Incze, Shavit and Tzafrir, SPAA 2010).
//!
//! Invariant: the state and the tasks are touched by who holds the lease only. The mutex orders one
//! holder's work before the next one's, so `Rc`, `Cell` and `RefCell` in there see one thread at a
//! time. What belongs to a thread itself (its ring, its timers, its set of tasks) is never used by
//! a caller: tasks that its question starts, and work that has to wait, are deferred to the
//! shard's thread (`preempt.rs`).

use std::cell::UnsafeCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::preempt::Monitor;

/// See the head of this file.
pub(super) struct Lease<S> {
    held: Mutex<()>,
    /// The shard's thread waits for the lease: callers leave it alone, or it might wait for long.
    is_wanted: AtomicBool,
    /// What a caller works on; `None` before the shard serves, and from its end on.
    resident: UnsafeCell<Option<Resident<S>>>,
}

/// What lives on a shard.
struct Resident<S> {
    monitor: Rc<Monitor>,
    state: Rc<S>,
}

// SAFETY: `resident` is only touched by who holds `held`: `settle` and `leave` are called by tasks
// of the shard, which are polled within `during`, and `try_take` holds it for the closure. What the
// resident refers to is shared with those tasks alone, so it is touched within the lease too. The
// shard takes the resident out on its own thread before it ends.
#[expect(unsafe_code, reason = "a mutex guards what is reached through several owners")]
unsafe impl<S> Send for Lease<S> {}

// SAFETY: as above.
#[expect(unsafe_code, reason = "a mutex guards what is reached through several owners")]
unsafe impl<S> Sync for Lease<S> {}

impl<S> Lease<S> {
    pub(super) fn new() -> Arc<Self> {
        let (held, is_wanted) = (Mutex::new(()), AtomicBool::new(false));
        Arc::new(Lease { held, is_wanted, resident: UnsafeCell::new(None) })
    }

    /// Polls the shard's tasks under its lease, on its thread. It waits for a caller that has it.
    pub(super) fn during(&self, poll: &mut dyn FnMut()) {
        let _held = self.take();
        poll();
    }

    fn take(&self) -> MutexGuard<'_, ()> {
        if let Ok(held) = self.held.try_lock() {
            return held;
        }
        self.is_wanted.store(true, Ordering::Relaxed);
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(false, Ordering::Relaxed);
        held
    }

    /// From now on callers may take the lease. Called by a task of the shard.
    #[expect(unsafe_code, reason = "the lease is held by whoever polls this task")]
    pub(super) fn settle(&self, monitor: Rc<Monitor>, state: Rc<S>) {
        self.assert_held();
        // SAFETY: a task of the shard calls this, so its thread holds the lease.
        unsafe { *self.resident.get() = Some(Resident { monitor, state }) };
    }

    /// From now on no caller may. Called by a task of the shard.
    #[expect(unsafe_code, reason = "the lease is held by whoever polls this task")]
    pub(super) fn leave(&self) {
        self.assert_held();
        // SAFETY: a task of the shard calls this, so its thread holds the lease.
        let resident = unsafe { (*self.resident.get()).take() };
        drop(resident);
    }

    fn assert_held(&self) {
        assert!(self.held.try_lock().is_err(), "who is no task of the shard has not its lease");
    }

    /// Does something short in the shard's lease, where that is free and the shard serves.
    #[expect(unsafe_code, reason = "the lease is held here")]
    pub(super) fn try_take<T>(&self, work: impl FnOnce(&Rc<Monitor>, &Rc<S>) -> T) -> Option<T> {
        if self.is_wanted.load(Ordering::Relaxed) {
            return None;
        }
        let _held = self.held.try_lock().ok()?;
        // SAFETY: the lease is held until the end of this function, and `work` gets no more than
        // references that end before it.
        let resident = unsafe { (*self.resident.get()).as_ref() }?;
        Some(work(&resident.monitor, &resident.state))
    }
}
