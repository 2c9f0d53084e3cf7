//! Statements that all nodes run, or none: those that define keyspaces, tables, types, views, roles
//! and service levels.
//!
//! ```text
//! lease at every node, in the order of the ring   one that is down, or has other definitions: none
//! the statement here, then at every other node    what fails here is done nowhere
//! the leases end
//! ```
//! Invariant: nobody else defines anything between the first step and the last, and each node has
//! the same definitions before the first. A node that fails behind the first keeps the others from
//! further definitions, and the error says what to run there.

use futures::future::join_all;
use tidegate_engine::{Error, NodeId, Result};

use super::peers::Cluster;
use super::wire::{DefineReply, DefineRequest};
use crate::token::random_key;

/// How often a node that fails is asked again.
const TRIES: usize = 3;

/// The leases of all nodes.
pub(crate) struct Defining<'a> {
    cluster: &'a Cluster,
    lease: Vec<u8>,
}

impl Cluster {
    fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes().len() as u32).map(NodeId)
    }

    /// Takes the lease of every node.
    ///
    /// Errors: `Unavailable` for a node that does not answer, that somebody else defines on, or
    /// whose definitions differ.
    pub(crate) async fn begin_defining(&self) -> Result<Defining<'_>> {
        let lease = random_key().map_err(Error::Unavailable)?.to_vec();
        let defining = Defining { cluster: self, lease };
        let mut known: Option<(NodeId, Vec<u8>)> = None;
        for node in self.all() {
            let asked = self.define(node, defining.step(None, false)).await;
            let digest = match asked {
                Ok(DefineReply { digest }) => digest,
                Err(error) => {
                    defining.end().await;
                    return Err(error);
                }
            };
            match &known {
                Some((first, other)) if *other != digest => {
                    let names = [*first, node].map(|node| &self.nodes()[node.0 as usize].0);
                    let [first, second] = names;
                    let error = Error::Unavailable(format!(
                        "the definitions of nodes '{first}' and '{second}' differ, so none is \
                         changed: compare DESCRIBE SCHEMA of both, SET tidegate.this_node_alone = \
                         true, and run there what is missing"
                    ));
                    defining.end().await;
                    return Err(error);
                }
                Some(_) => {}
                None => known = Some((node, digest)),
            }
        }
        Ok(defining)
    }
}

impl Defining<'_> {
    fn step(&self, text: Option<&str>, is_last: bool) -> DefineRequest {
        let (lease, text) = (self.lease.clone(), text.map(str::to_owned));
        DefineRequest { lease, text, is_last, ..DefineRequest::default() }
    }

    /// Runs a statement, which this node has run, at all others, with the rights of a role.
    ///
    /// Errors: `Unavailable` naming the nodes that did not run it.
    pub(crate) async fn run_elsewhere(
        &self,
        text: &str,
        keyspace: &str,
        role: Option<&str>,
    ) -> Result<()> {
        let failed = self.failed_elsewhere(text, keyspace, role).await;
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Error::Unavailable(format!(
                "{} has run the statement, but not all others did: {}; SET \
                 tidegate.this_node_alone = true there, and run it again",
                self.cluster.nodes()[self.cluster.own().0 as usize].0,
                failed.join("; ")
            ))),
        }
    }

    /// As [`Defining::run_elsewhere`]; what each of those said that did not run it.
    pub(crate) async fn failed_elsewhere(
        &self,
        text: &str,
        keyspace: &str,
        role: Option<&str>,
    ) -> Vec<String> {
        let own = self.cluster.own();
        let others = self.cluster.all().filter(|node| *node != own);
        let (keyspace, role) = (keyspace.to_owned(), role.map(str::to_owned));
        let step = DefineRequest { keyspace, role, ..self.step(Some(text), false) };
        let step = &step;
        let run = |node: NodeId| async move {
            let mut last = None;
            for _ in 0..TRIES {
                match self.cluster.define(node, step.clone()).await {
                    Ok(_) => return None,
                    Err(error) => last = Some(error),
                }
            }
            last
        };
        let ended = join_all(others.map(run)).await;
        ended.into_iter().flatten().map(|error| error.to_string()).collect()
    }

    /// Gives the leases back. One that cannot be given back ends by itself.
    pub(crate) async fn end(self) {
        let ends = self.cluster.all();
        let ends = ends.map(|node| self.cluster.define(node, self.step(None, true)));
        for ended in join_all(ends).await {
            if let Err(error) = ended {
                tracing::debug!(%error, "a lease ends by itself");
            }
        }
    }
}
