//! Unions whose inputs have constants that differ: the planner is not told of them.
//!
//! DataFusion 55.2 takes a column that is constant in each input of a union out of the keys of a
//! sort above it, as if it were one constant: `SELECT 2 AS a, c … UNION ALL SELECT 1, c … ORDER BY
//! a, c` comes in the order of `c`. <https://github.com/apache/datafusion/pull/23528> mends it in a
//! later release. Until then such a union stands behind a [`Curtain`] while sorts are planned.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{AcrossPartitions, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};

/// An operator of a physical plan, changed or not.
pub type Changed = Transformed<Arc<dyn ExecutionPlan>>;

/// Goes before sorts are planned.
pub fn hang_curtain(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    let differ = |plan: &Arc<dyn ExecutionPlan>| {
        let constants = plan.equivalence_properties().constants();
        constants.iter().any(|c| c.across_partitions == AcrossPartitions::Heterogeneous)
    };
    match plan.is::<UnionExec>() && differ(&plan) {
        true => {
            Ok(Transformed::yes(Curtain::hang(plan, Told::Equivalences(without_differing), false)?))
        }
        false => Ok(Transformed::no(plan)),
    }
}

/// Goes after sorts were planned.
pub fn draw_curtain(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    Ok(match plan.downcast_ref::<Curtain>() {
        Some(curtain) if !curtain.is_kept => Transformed::yes(Arc::clone(&curtain.input)),
        _ => Transformed::no(plan),
    })
}

/// What the planner is told of an input.
pub type View = fn(&EquivalenceProperties) -> Result<EquivalenceProperties>;

fn without_differing(known: &EquivalenceProperties) -> Result<EquivalenceProperties> {
    let mut told = known.clone();
    told.clear_per_partition_constants();
    Ok(told)
}

/// What of the properties of an input the planner is told otherwise.
#[derive(Debug, Clone)]
pub enum Told {
    Equivalences(View),
    /// That a hash of these keys divides it into streams.
    Hashed(Vec<Arc<dyn PhysicalExpr>>),
    /// Neither an order nor what divides it into streams.
    Neither,
}

/// Its input, of which the planner is told otherwise than the input tells.
#[derive(Debug)]
pub struct Curtain {
    input: Arc<dyn ExecutionPlan>,
    told: Told,
    /// Whether it still hangs when the plan runs.
    is_kept: bool,
    properties: Arc<PlanProperties>,
}

impl Curtain {
    /// A curtain before `input`, through which it is seen as it is `told`.
    ///
    /// Errors: those of a view.
    pub fn hang(
        input: Arc<dyn ExecutionPlan>,
        told: Told,
        is_kept: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let own = (**input.properties()).clone();
        let streams = own.partitioning.partition_count();
        let properties = match &told {
            Told::Equivalences(view) => {
                let seen = view(&own.eq_properties)?;
                own.with_eq_properties(seen)
            }
            Told::Hashed(keys) => own.with_partitioning(Partitioning::Hash(keys.clone(), streams)),
            Told::Neither => {
                let mut seen = own.eq_properties.clone();
                seen.clear_orderings();
                own.with_partitioning(Partitioning::UnknownPartitioning(streams))
                    .with_eq_properties(seen)
            }
        };
        Ok(Arc::new(Curtain { input, told, is_kept, properties: Arc::new(properties) }))
    }
}

impl DisplayAs for Curtain {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Told::Hashed(keys) = &self.told {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            write!(f, ": {}", keys.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for Curtain {
    fn name(&self) -> &str {
        match self.told {
            Told::Equivalences(_) => "Curtain",
            Told::Hashed(_) => "EachPartition",
            Told::Neither => "AllPartitions",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![!matches!(self.told, Told::Neither)]
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
        Curtain::hang(input, self.told.clone(), self.is_kept)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}
