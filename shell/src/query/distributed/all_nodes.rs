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
    /// The cluster of which all nodes change their definitions; `None` where this one changes its
    /// own.
    pub(in crate::query) fn cluster_to_define(&self) -> Option<&Arc<Cluster>> {
        let cluster = self.options.cluster.as_ref()?;
        let is_alone = is_alone(self.context.state_ref().read().config_options());
        (!is_alone).then_some(cluster)
    }

    /// Whether all nodes of a cluster run a statement.
    pub(in crate::query) fn is_run_on_all(&self, statement: &Statement, command: &Command) -> bool {
        self.options.cluster.is_some()
            && statement.is_of_all_nodes()
            && !command.defines_by_itself()
            && self.cluster_to_define().is_some()
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
        statement: &Statement,
        command: Command,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        if !values.is_empty() {
            return Err(QueryError::unsupported("a definition takes no parameters in a cluster")
                .with_help("write the values: every node runs the same text"));
        }
        let text = |_: &Outcome| Some(statement.with_passwords().to_owned());
        self.definer().define(self.run_command(command, values), text).await
    }
}
