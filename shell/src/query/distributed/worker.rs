//! What a node needs to run a part of another's query: the functions of a session, its memory and
//! the database.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};

use super::channels::Channels;
use super::codec::TideCodec;
use super::functions::of_rules;
use crate::cluster::Cluster;
use crate::query::engine::Engine;
use crate::query::setting::Settings;

/// How the sessions of a node divide their queries.
#[derive(Clone)]
pub(in crate::query) struct Distributed {
    channels: Channels,
    engine: Engine,
}

impl Distributed {
    /// Errors: for an address that is none.
    pub fn new(cluster: Arc<Cluster>, engine: Engine) -> Result<Self> {
        Ok(Distributed { channels: Channels::new(cluster)?, engine })
    }

    pub fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Runs parts of others' queries, with the functions that a context has.
    pub fn worker(&self, context: &SessionContext) -> Worker {
        let (template, own) = (context.state(), self.clone());
        let runtime = Arc::clone(template.runtime_env());
        let session = move |query: WorkerQueryContext| {
            let state = own.state_of(&template, query);
            async move { Ok(state) }
        };
        Worker::from_session_builder(session).with_runtime_env(runtime)
    }

    /// Parts of this node's own queries run here, without a message.
    pub fn run_here(&self, worker: Worker, context: &SessionContext) {
        let own = self.channels.cluster().own().0 as usize;
        let local = worker.to_local_worker_context(self.channels.urls()[own].clone());
        let state = context.state_ref();
        state.write().config_mut().set_extension(Arc::new(local));
    }

    fn state_of(&self, template: &SessionState, query: WorkerQueryContext) -> SessionState {
        let scalar = template.scalar_functions().values().cloned();
        let scalar = scalar.chain(of_rules().into_iter().map(Arc::new)).collect();
        let builder = query
            .builder
            .with_scalar_functions(scalar)
            .with_aggregate_functions(template.aggregate_functions().values().cloned().collect())
            .with_window_functions(template.window_functions().values().cloned().collect())
            .with_distributed_user_codec(TideCodec::new(self.engine.clone()))
            .with_distributed_channel_resolver(self.channels.clone());
        let mut state = builder.build();
        let options = state.config_mut().options_mut();
        options.extensions.insert(Settings::default());
        options.execution = template.config_options().execution.clone();
        state
    }
}
