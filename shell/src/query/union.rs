//! Unions whose inputs have constants that differ: the planner is not told of them.
//!
//! DataFusion 55.2 takes a column that is constant in each input of a union out of the keys of a
//! sort above it, as if it were one constant: `SELECT 2 AS a, c … UNION ALL SELECT 1, c … ORDER BY
//! a, c` comes in the order of `c`. <https://github.com/apache/datafusion/pull/23528> mends it in a
//! later release. Until then such a union stands behind a [`Curtain`] while sorts are planned.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{AcrossPartitions, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// Goes before sorts are planned.
#[derive(Debug)]
pub struct HangCurtains;

impl PhysicalOptimizerRule for HangCurtains {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let differ = |plan: &Arc<dyn ExecutionPlan>| {
                let constants = plan.equivalence_properties().constants();
                let mut constants = constants.iter();
                constants.any(|c| c.across_partitions == AcrossPartitions::Heterogeneous)
            };
            if plan.is::<UnionExec>() && differ(&plan) {
                return Ok(Transformed::yes(Arc::new(Curtain::new(plan)) as _));
            }
            Ok(Transformed::no(plan))
        })
        .data()
    }

    fn name(&self) -> &str {
        "hide_constants_of_unions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Goes after sorts were planned.
#[derive(Debug)]
pub struct DrawCurtains;

impl PhysicalOptimizerRule for DrawCurtains {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<Curtain>() {
            Some(curtain) => Ok(Transformed::yes(Arc::clone(&curtain.input))),
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "show_constants_of_unions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Its input without the constants that differ between partitions.
#[derive(Debug)]
struct Curtain {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Curtain {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let mut properties = (**input.properties()).clone();
        properties.eq_properties.clear_per_partition_constants();
        Curtain { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for Curtain {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Curtain")
    }
}

impl ExecutionPlan for Curtain {
    fn name(&self) -> &str {
        "Curtain"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| {
            DataFusionError::Internal("a curtain hangs before one input".to_owned())
        })?;
        Ok(Arc::new(Curtain::new(input)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
