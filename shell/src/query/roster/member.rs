//! A session as others see it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::query::access::Caller;

/// See the head of this file.
#[derive(Debug)]
pub struct Member {
    /// Counts the sessions of a service; 0 for one that is not listed.
    pub number: u64,
    /// What traces and slow statements call it.
    pub name: Arc<str>,
    pub caller: Caller,
    /// When it began, by the monotonic clock.
    pub started_ns: u64,
    last_ns: AtomicU64,
    statements: AtomicU64,
    said: Mutex<Said>,
}

/// What changes of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The service level of statements that name none; empty where nothing was set.
    pub service_level: String,
    /// Where its last call came from.
    pub peer: Option<IpAddr>,
    /// Open connections that it was used on; `None` where nobody counts them.
    pub connections: Option<u64>,
}

impl Member {
    /// Of a session of this name, which begins now.
    pub fn new(name: &str, caller: Caller, now_ns: u64) -> Self {
        Member {
            number: 0,
            name: name.into(),
            caller,
            started_ns: now_ns,
            last_ns: AtomicU64::new(now_ns),
            statements: AtomicU64::new(0),
            said: Mutex::default(),
        }
    }

    /// The same for another caller.
    pub fn of_caller(&self, caller: Caller) -> Self {
        let said = Mutex::new(self.said());
        let number = self.number;
        Member { number, said, ..Member::new(&self.name, caller, self.started_ns) }
    }

    /// The same with a number, by which it is listed.
    pub fn numbered(&self, number: u64, said: Said) -> Self {
        let said = Mutex::new(said);
        let caller = self.caller.clone();
        Member { number, said, ..Member::new(&self.name, caller, self.started_ns) }
    }

    /// A statement begins, so many times.
    pub(super) fn begin(&self, now_ns: u64, count: u64) {
        self.statements.fetch_add(count, Ordering::Relaxed);
        self.last_ns.store(now_ns, Ordering::Relaxed);
    }

    /// A call came.
    pub fn call(&self, now_ns: u64, peer: Option<IpAddr>, connections: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
        let mut said = self.lock();
        (said.peer, said.connections) = (peer, Some(connections));
    }

    /// So many connections are open that it was used on.
    pub fn set_connections(&self, connections: u64) {
        self.lock().connections = Some(connections);
    }

    /// Statements that name no service level have this one.
    pub fn set_service_level(&self, level: &str) {
        level.clone_into(&mut self.lock().service_level);
    }

    /// When its last call came, or its last statement began.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed)
    }

    /// Statements that it began.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    pub fn said(&self) -> Said {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("no one panics while holding what changes of a session")
    }
}
