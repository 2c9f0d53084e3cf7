//! Whether a session traces its statements, and the trace of the last one.

use std::sync::atomic::{AtomicU8, Ordering};
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

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Tracing {
    /// Its place among the modes.
    mode: AtomicU8,
    last: Mutex<Option<Arc<Record>>>,
}

impl Tracing {
    pub fn mode(&self) -> TracingMode {
        TracingMode::ALL[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    pub fn set(&self, mode: TracingMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// That of a session that begins as this one is.
    pub fn copied(&self) -> Arc<Self> {
        let mode = AtomicU8::new(self.mode.load(Ordering::Relaxed));
        Arc::new(Tracing { mode, last: Mutex::default() })
    }

    pub(super) fn keep(&self, record: Arc<Record>) {
        *self.last.lock().expect("no one panics while holding it") = Some(record);
    }

    /// The trace of the statement that ended last, once.
    pub fn take(&self) -> Option<Arc<Record>> {
        self.last.lock().expect("no one panics while holding it").take()
    }
}
