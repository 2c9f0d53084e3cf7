//! EXPLAIN of a query that nodes share: the stages that would run, and which node reads what.
//!
//! DataFusion writes down the plan of one node. What divides plans does not look into EXPLAIN.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion_distributed::{DistributedExec, display_plan_ascii};

/// Plans as `inner` does, and shows for EXPLAIN what it would run.
pub(super) struct Explaining {
    pub(super) inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl fmt::Debug for Explaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explaining")
    }
}

#[async_trait]
impl QueryPlanner for Explaining {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = self.inner.create_physical_plan(logical, session).await?;
        let LogicalPlan::Explain(explain) = logical else { return Ok(planned) };
        let Some(explained) = planned.downcast_ref::<ExplainExec>() else { return Ok(planned) };
        let is_final = |plan: &StringifiedPlan| plan.plan_type == PlanType::FinalPhysicalPlan;
        // The setting may leave out physical plans, and a format may have none.
        let Some(at) = explained.stringified_plans().iter().position(is_final) else {
            return Ok(planned);
        };
        let run = self.inner.create_physical_plan(&explain.plan, session).await?;
        if !run.is::<DistributedExec>() {
            return Ok(planned);
        }
        let mut plans = explained.stringified_plans().to_vec();
        let stages = display_plan_ascii(run.as_ref(), false);
        plans[at] = StringifiedPlan::new(PlanType::FinalPhysicalPlan, stages);
        Ok(Arc::new(ExplainExec::new(explained.schema(), plans, explained.verbose())))
    }
}
