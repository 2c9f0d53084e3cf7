//! Classes of I/O, and the one that the running task belongs to.

use std::cell::Cell;
use std::future::Future;
use std::str::FromStr;

use super::fair_queue::Flow;
use crate::error::{Error, Result};
use crate::scoped::{Within, scoped};

/// Whose request it is. The order is that of `wit/v0.1/io-priority.wit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Reads that somebody waits for, and all that no other class is said for.
    Query,
    /// Records of the commitlog, its segments, and the ledger.
    Commitlog,
    /// Memtables that become SSTables.
    Flush,
    /// SSTables that are merged.
    Compaction,
    /// Imports, attachments, recordings of traces, what happens when a database opens.
    Maintenance,
}

thread_local! {
    /// That of the task that is polled.
    static CURRENT: Cell<Class> = const { Cell::new(Class::Query) };
    /// Its flow within the class.
    static FLOW: Cell<Flow> = Cell::new(Flow::default());
}

impl Class {
    pub const COUNT: usize = 5;
    /// By [`index`](Self::index).
    pub const ALL: [Class; Class::COUNT] =
        [Class::Query, Class::Commitlog, Class::Flush, Class::Compaction, Class::Maintenance];

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        match self {
            Class::Query => "query",
            Class::Commitlog => "commitlog",
            Class::Flush => "flush",
            Class::Compaction => "compaction",
            Class::Maintenance => "maintenance",
        }
    }

    /// Its shares, unless they are set.
    pub fn default_shares(self) -> u32 {
        match self {
            Class::Query | Class::Commitlog => 1000,
            Class::Flush => 200,
            Class::Compaction | Class::Maintenance => 100,
        }
    }

    /// The class of the task that runs on this thread.
    pub fn current() -> Class {
        CURRENT.get()
    }
}

impl FromStr for Class {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Class::ALL.into_iter().find(|class| class.name() == text);
        let names = || Class::ALL.map(Class::name).join(", ");
        found.ok_or_else(|| Error::invalid(format!("'{text}' is no class of I/O: {}", names())))
    }
}

/// Runs a future whose requests belong to `class`. Tasks that it spawns do not: each says its own.
pub fn run_as<F: Future>(class: Class, future: F) -> impl Future<Output = F::Output> {
    scoped(future, Within::new(class, |class| CURRENT.replace(class)))
}

/// Runs a future whose requests belong to a flow of their class. Tasks that it spawns do not.
pub fn run_in<F: Future>(flow: Flow, future: F) -> impl Future<Output = F::Output> {
    scoped(future, Within::new(flow, |flow| FLOW.replace(flow)))
}

impl Flow {
    /// The flow of the task that runs on this thread.
    pub fn current() -> Flow {
        FLOW.get()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn classes_have_names_and_places() {
        for (at, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!((class.index(), class.name().parse::<Class>().unwrap()), (at, class));
        }
        let error = "disk".parse::<Class>().expect_err("no class").to_string();
        assert!(error.contains("query, commitlog, flush, compaction, maintenance"), "{error}");
    }

    #[test]
    fn a_flow_is_that_of_its_own_future_only() {
        let flow = |id| Flow { id, shares: 7 };
        let seen = run_in(flow(1), async {
            let inner = run_in(flow(2), async { Flow::current() }).await;
            (inner, Flow::current())
        });
        assert_eq!(seen.now_or_never(), Some((flow(2), flow(1))));
        assert_eq!(Flow::current(), Flow::default());
    }

    #[test]
    fn a_class_is_that_of_its_own_future_only() {
        let seen = run_as(Class::Flush, async {
            let inner = run_as(Class::Maintenance, async { Class::current() }).await;
            (inner, Class::current())
        });
        assert_eq!(seen.now_or_never(), Some((Class::Maintenance, Class::Flush)));
        assert_eq!(Class::current(), Class::Query);
        let panics = run_as(Class::Flush, async { panic!("as a task may") });
        let caught = std::panic::AssertUnwindSafe(panics).catch_unwind().now_or_never();
        let caught: Option<Result<(), _>> = caught;
        assert!(caught.is_some_and(|result| result.is_err()) && Class::current() == Class::Query);
    }
}
