//! What a shell runs statements on: a database of this process, or a service.

use std::sync::Arc;

use tidegate_engine::Catalog;
use tidegate_engine::clock::{Clock, SystemClock};

use super::client::Remote;
use crate::query::{Outcome, QueryError, Record, Session, Statement};

/// Where statements run.
pub(crate) enum Backend {
    /// In this process.
    Local(Session),
    /// At a service, with a clock of this machine.
    Remote(Remote, Arc<dyn Clock>),
}

impl Backend {
    pub(crate) fn remote(remote: Remote) -> Self {
        Backend::Remote(remote, SystemClock::shared())
    }

    /// What a greeting says of it: how many shards, or where it is.
    pub(crate) fn description(&self) -> String {
        match self {
            Backend::Local(session) => match session.database().shard_count() {
                1 => "1 shard".to_owned(),
                shards => format!("{shards} shards"),
            },
            Backend::Remote(remote, _) => format!("connected to {}", remote.address()),
        }
    }

    /// The keyspace of unqualified names.
    pub(crate) fn keyspace(&self) -> String {
        match self {
            Backend::Local(session) => session.keyspace(),
            Backend::Remote(remote, _) => remote.keyspace(),
        }
    }

    /// What names there are.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        match self {
            Backend::Local(session) => session.database().catalog(),
            Backend::Remote(remote, _) => remote.catalog(),
        }
    }

    /// Before a prompt: a service is asked for names and keyspace.
    pub(crate) async fn refresh(&self) {
        if let Backend::Remote(remote, _) = self {
            remote.refresh().await;
        }
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        match self {
            Backend::Local(session) => session.database().clock(),
            Backend::Remote(_, clock) => clock,
        }
    }

    /// Runs a statement up to its first row.
    pub(crate) async fn run(&self, statement: &Statement) -> Result<Outcome, QueryError> {
        match self {
            Backend::Local(session) => session.run(statement).await,
            Backend::Remote(remote, _) => remote.run(statement).await,
        }
    }

    /// The trace of the statement that ended, if it was traced here; a service keeps its own.
    pub(crate) fn take_trace(&self) -> Option<Record> {
        match self {
            Backend::Local(session) => session.take_trace(),
            Backend::Remote(..) => None,
        }
    }
}
