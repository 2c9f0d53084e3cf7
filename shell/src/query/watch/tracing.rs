//! Whether a session traces its statements, and the trace of the last one.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_engine::probe::Detail;

use super::record::Record;

/// How much a session traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracingMode {
    Off,
    /// The phases of a statement, and the counters of its reads on each shard.
    Compact,
    /// All steps.
    On,
}

impl TracingMode {
    const ALL: [TracingMode; 3] = [TracingMode::Off, TracingMode::Compact, TracingMode::On];

    pub fn name(self) -> &'static str {
        match self {
            TracingMode::Off => "off",
            TracingMode::Compact => "compact",
            TracingMode::On => "on",
        }
    }

    /// What is to be kept of a statement.
    pub(super) fn detail(self) -> Detail {
        match self {
            TracingMode::Off => Detail::Counts,
            TracingMode::Compact => Detail::Phases,
            TracingMode::On => Detail::Steps,
        }
    }
}

/// See the head of this file. The journal keeps the trace, and the session only its number; where
/// the trace has to leave the journal before it is taken, the journal hands it over.
#[derive(Debug)]
pub struct Tracing {
    /// Whose statements these are.
    name: Arc<str>,
    /// Its place among the modes.
    mode: AtomicU8,
    /// Number of the last trace; 0 where it was taken, or never made.
    last: AtomicU64,
    kept: Mutex<Option<Box<Record>>>,
}

impl Tracing {
    /// That of a session of this name. It is off.
    pub fn new(name: &str) -> Arc<Self> {
        let (mode, last) = (AtomicU8::new(TracingMode::Off as u8), AtomicU64::new(0));
        Arc::new(Tracing { name: name.into(), mode, last, kept: Mutex::default() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn mode(&self) -> TracingMode {
        TracingMode::ALL[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    pub fn set(&self, mode: TracingMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// That of a session that begins as this one is; `None` for the same name.
    pub fn copied(&self, name: Option<&str>) -> Arc<Self> {
        let own = Tracing::new(name.unwrap_or(&self.name));
        own.set(self.mode());
        own
    }

    // The journal calls these with its lock held, so they order nothing.

    pub(super) fn set_last(&self, number: u64) {
        self.last.store(number, Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    pub(super) fn take_last(&self) -> Option<u64> {
        let last = self.last.swap(0, Ordering::Relaxed);
        (last > 0).then_some(last)
    }

    pub(super) fn keep(&self, last: Record) {
        *self.kept.lock().expect("no one panics while holding it") = Some(Box::new(last));
    }

    pub(super) fn take_kept(&self) -> Option<Record> {
        self.kept.lock().expect("no one panics while holding it").take().map(|kept| *kept)
    }
}
