//! Statements of a session in a cluster: which of them all nodes run, and which none can.

use std::sync::Arc;

use datafusion::common::ScalarValue;

use crate::cluster::Cluster;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::statement::Statement;
use crate::query::session::Session;
use crate::query::setting::{is_alone, set_alone};
use crate::query::statements::Command;

impl Session {
    /// The cluster of which all nodes run a statement; `None` where this one runs it by itself.
    pub(in crate::query) fn cluster_of(&self, statement: &Statement) -> Option<&Arc<Cluster>> {
        let cluster = self.options.cluster.as_ref()?;
        let is_of_all = statement.is_of_all_nodes()
            && !is_alone(self.context.state_ref().read().config_options());
        is_of_all.then_some(cluster)
    }

    /// Definitions change on this node alone from now on.
    pub fn stay_alone(&self) {
        let state = self.context.state_ref();
        set_alone(state.write().config_mut().options_mut());
    }

    /// Runs a statement here, then at all other nodes.
    ///
    /// Errors: those of the statement, and then no node has run it; `Unavailable` naming a node
    /// that is down or has other definitions.
    pub(in crate::query) async fn run_on_all(
        &self,
        cluster: &Cluster,
        statement: &Statement,
        command: Command,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        if !values.is_empty() {
            return Err(QueryError::unsupported("a definition takes no parameters in a cluster")
                .with_help("write the values: every node runs the same text"));
        }
        let defining = cluster.begin_defining().await?;
        let mut outcome = self.run_command(command, values).await;
        if outcome.is_ok() {
            let (keyspace, role) = (self.keyspace(), self.caller().role());
            let text = statement.with_passwords();
            let elsewhere = defining.run_elsewhere(text, &keyspace, role).await;
            if let Err(error) = elsewhere {
                outcome = Err(error.into());
            }
        }
        defining.end().await;
        outcome
    }

    /// Errors: `Unsupported` in a cluster, for what one node would do by itself.
    pub(crate) fn check_alone(&self, what: &str, instead: &str) -> Result<()> {
        match self.options.cluster {
            None => Ok(()),
            Some(_) => {
                let message = format!("{what} is not offered in a cluster");
                Err(QueryError::unsupported(message).with_help(instead))
            }
        }
    }
}
