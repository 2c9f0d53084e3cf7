//! Sessions and their statements in the roster.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use super::list::Shown;
use super::member::{Member, Said};
use super::running::{Running, is_within};
use crate::query::error::Result;
use crate::query::outcome::{Outcome, OutcomeKind};
use crate::query::parse::statement::Statement;
use crate::query::session::Session;

impl Session {
    /// This session as others see it.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// The same session, which others see by this number until it is dropped. A client has a peer.
    pub fn listed(self, number: u64, peer: Option<IpAddr>) -> Session {
        let service_level = self.service_level();
        let connections = peer.map(|_| 0);
        let said = Said { service_level, peer, connections };
        let member = Arc::new(self.member.numbered(number, said));
        self.options.roster.add(&member);
        self.seen_as(member)
    }

    /// The same session, which others see so.
    pub(in crate::query) fn seen_as(self, member: Arc<Member>) -> Session {
        // Tables that show to each what is theirs find it there.
        self.context.state_ref().write().config_mut().set_extension(Arc::clone(&member));
        Session { member, ..self }
    }

    /// A statement begins; `None` within another one.
    pub(in crate::query) fn begin(&self, shown: impl FnOnce() -> Arc<Shown>) -> Option<Running> {
        self.begin_many(shown, 1)
    }

    /// As [`Session::begin`], of a statement that runs so many times at once.
    pub(in crate::query) fn begin_many(
        &self,
        shown: impl FnOnce() -> Arc<Shown>,
        count: u64,
    ) -> Option<Running> {
        if is_within() {
            return None;
        }
        let now_ns = self.database.clock().monotonic_ns();
        self.member.begin(now_ns, count);
        Some(Running::new(self.options.roster.begin(shown(), &self.member, now_ns)))
    }

    /// What is shown of a statement that nobody prepared.
    pub(in crate::query) fn shown(&self, statement: &Statement) -> Arc<Shown> {
        let (text, keyspace) = (Arc::clone(statement.shared_text()), self.keyspace());
        Arc::new(Shown { text, keyspace })
    }

    /// Runs a statement that others see and may end, and that is watched where somebody wants to
    /// know what it does. It is pinned where its caller is, for on the heap it would cost more than
    /// all that is done here.
    ///
    /// Errors: its own; `Unavailable` where somebody ended it.
    pub(in crate::query) async fn attended<F>(
        &self,
        statement: &Statement,
        shown: impl FnOnce() -> Arc<Shown>,
        run: Pin<&mut F>,
    ) -> Result<Outcome>
    where
        F: Future<Output = Result<Outcome>>,
    {
        let running = self.begin(shown);
        match self.watching(statement) {
            Some(watching) => watching.run(pin!(listed(running, run))).await,
            None => listed(running, run).await,
        }
    }

    /// Does work that no text says, such as an ingest, as a statement that others see and may end.
    ///
    /// Errors: `Unavailable` where somebody ended it.
    pub async fn attend_work<T>(
        &self,
        text: String,
        keyspace: String,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        let running = self.begin(|| Arc::new(Shown { text: text.into(), keyspace }));
        let work = pin!(work);
        match running {
            Some(running) => running.unless_ended(work).await,
            None => Ok(work.await),
        }
    }
}

/// Runs a statement; an outcome with rows is in the roster until they end.
async fn listed<F>(running: Option<Running>, run: Pin<&mut F>) -> Result<Outcome>
where
    F: Future<Output = Result<Outcome>>,
{
    let Some(running) = running else { return run.await };
    let mut outcome = running.unless_ended(run).await??;
    if matches!(outcome.kind, OutcomeKind::Rows(_)) {
        outcome.running = Some(running);
    }
    Ok(outcome)
}

/// Work that gives no outcome, such as planning, within the roster.
pub(in crate::query) async fn planned<T, F>(
    running: Option<Running>,
    work: Pin<&mut F>,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    match running {
        Some(running) => running.unless_ended(work).await?,
        None => work.await,
    }
}
