//! Which plans are divided among nodes, and which node reads what.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedConfig, DistributedExt,
    DistributedLeafExec, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, SessionStateBuilderExt,
};
use datafusion_proto::bytes::physical_plan_to_bytes_with_extension_codec;

use super::channels::Channels;
use super::codec::TideCodec;
use super::explaining::Explaining;
use super::functions::Functions;
use crate::query::engine::Engine;
use crate::query::scan::TideScan;
use crate::query::setting::terms_under;

/// Names of settings that values depend on: a node computes with those that all begin with.
const COMPUTING: [&str; 2] =
    ["datafusion.execution.time_zone", "datafusion.execution.enable_ansi_mode"];

/// A session whose queries all nodes run.
pub(in crate::query) fn planned_by_all(
    mut builder: SessionStateBuilder,
    engine: &Engine,
    channels: Channels,
) -> SessionStateBuilder {
    let alike = computing(builder.config().get_or_insert_default().options());
    let urls = Arc::clone(channels.urls());
    let nodes = urls.len();
    let wanted = move |event: DesiredTaskCountEvent<'_>| {
        let scan = event.plan.downcast_ref::<TideScan>()?;
        // Few partitions are asked for by this node: to send a plan would take longer.
        Some(Ok(match scan.is_sent() && !scan.names_partitions() {
            true => DesiredTaskCountEventResponse::desired(nodes),
            false => DesiredTaskCountEventResponse::maximum(1),
        }))
    };
    let routed = move |event: RouteTasksEvent<'_>| {
        // One task a node, in the order of nodes.
        (event.task_count == urls.len()).then(|| Ok(RouteTasksEventResponse::new(urls.to_vec())))
    };
    let planner = Planner { engine: engine.clone(), alike, functions: OnceLock::new() };
    let mut builder = builder
        .with_distributed_worker_resolver(channels.clone())
        .with_distributed_channel_resolver(channels)
        .with_distributed_user_codec(TideCodec::new(engine.clone()))
        .with_distributed_desired_task_count_handler(wanted)
        .with_distributed_scale_up_leaf_node_handler(divided)
        .with_distributed_route_tasks_handler(routed)
        .with_query_planner(Arc::new(planner))
        .with_distributed_planner();
    let options = builder.config().get_or_insert_default().options_mut();
    if let Some(own) = options.extensions.get_mut::<DistributedConfig>() {
        // Nodes are near each other: bytes cost less than what packs them.
        own.compression = "none".to_owned();
    }
    if let Some(inner) = builder.query_planner().take() {
        *builder.query_planner() = Some(Arc::new(Explaining { inner }));
    }
    builder
}

/// A scan for each task, of what the task's node owns.
fn divided(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<TideScan>()?;
    if event.task_count < 2 {
        return None;
    }
    let terms = terms_under(event.session_config, &scan.catalog());
    let tasks = scan.of_tasks(event.task_count, terms).into_iter();
    let tasks = tasks.map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>);
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), tasks);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Plans as one node does, then says whether the plan can be sent.
struct Planner {
    engine: Engine,
    /// The settings that values depend on, as all nodes have them.
    alike: Vec<(String, Option<String>)>,
    /// Those of a session that has all of its own; sessions that are made of it have the same.
    functions: OnceLock<Arc<Functions>>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

/// Settings that values depend on.
fn computing(options: &ConfigOptions) -> Vec<(String, Option<String>)> {
    let entries = options.entries().into_iter();
    let entries = entries.filter(|entry| COMPUTING.contains(&entry.key.as_str()));
    entries.map(|entry| (entry.key, entry.value)).collect()
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::default();
        let plan = planner.create_physical_plan(logical, session).await?;
        if computing(session.config_options()) != self.alike {
            return Ok(plan);
        }
        let functions = self.functions.get_or_init(|| Arc::new(Functions::of(session)));
        let functions = Some(Arc::clone(functions));
        let codec = TideCodec { engine: self.engine.clone(), functions };
        // What is sent is encoded again, by parts: this is to see whether it can be.
        let sent = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &codec);
        match sent {
            Err(error) => {
                tracing::debug!(%error, "a plan is run by one node");
                Ok(plan)
            }
            Ok(_) => plan
                .transform_up(|node| {
                    Ok(match node.downcast_ref::<TideScan>() {
                        Some(scan) => Transformed::yes(Arc::new(scan.sent()) as _),
                        None => Transformed::no(node),
                    })
                })
                .data(),
        }
    }
}
