//! TRACING: whether the session traces its statements.

use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use crate::query::watch::TracingMode;

/// `TRACING ON`, `COMPACT` or `OFF`; without a word it says how it stands.
#[derive(Debug)]
pub struct Tracing(Option<TracingMode>);

impl Read for Tracing {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        if cursor.peek().is_none() {
            return Ok(Tracing(None));
        }
        for mode in [TracingMode::On, TracingMode::Compact, TracingMode::Off] {
            if cursor.take_word(mode.name()) {
                return Ok(Tracing(Some(mode)));
            }
        }
        Err(cursor.expected("ON, COMPACT or OFF"))
    }
}

impl OwnStatement for Tracing {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        if let Some(mode) = self.0 {
            session.watcher.tracing.set(mode);
        }
        Ok(Outcome::message(match session.watcher.tracing.mode() {
            TracingMode::Off => "Tracing is off.",
            TracingMode::Compact => "Tracing is compact: phases, and counters of each shard.",
            TracingMode::On => "Tracing is on: every step of each statement.",
        }))
    }
}
