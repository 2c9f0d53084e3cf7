//! Which rules plan a statement: DataFusion's, and ours where its answers are not exact.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use super::filter::InForm;
use super::instant::CompareExactly;
use super::join::HangJoinCurtains;
use super::multiset::CountCopies;
use super::rewrite::expressions_of;
use super::union::{DrawCurtains, HangCurtains};
use super::zero::OneZero;
use super::{arithmetic, compare, frame, identifier, instant, number};

/// The rule that computes constants and looks through casts.
const CONSTANT_RULE: &str = "simplify_expressions";
/// The rule that takes filters towards the tables and merges their conditions.
const FILTER_RULE: &str = "push_down_filter";
/// What the names of those rules begin with that move filters of a physical plan.
const MOVED_FILTERS: &str = "FilterPushdown";
/// The rule that plans sorts and drops their keys.
const SORT_RULE: &str = "EnsureRequirements";

/// What a statement means: types of operands, and what is compared with what.
pub fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(ReadOperands)];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(CountCopies));
    rules.push(Arc::new(CheckOperators));
    // After the copies of rows are numbered.
    rules.push(Arc::new(OneZero));
    rules
}

/// Says what operands are before they get a common type. Each change is of one operator, by the types of
/// its operands, and leaves its own type alone; so all are made in one walk.
#[derive(Debug)]
struct ReadOperands;

impl AnalyzerRule for ReadOperands {
    fn name(&self) -> &str {
        "read_operands"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let of_operator = |expr, schema: &DFSchema| {
            number::beside_float(expr, schema)?
                .transform_data(|expr| instant::refine(expr, schema))?
                .transform_data(|expr| compare::as_doubles(expr, schema))?
                .transform_data(|expr| identifier::compare_all(expr, schema))?
                .transform_data(|expr| frame::as_groups(expr, schema))
        };
        let change = |expr, schema: &DFSchema| {
            compare::nullif(expr, schema, |equality| of_operator(equality, schema))?
                .transform_data(|expr| of_operator(expr, schema))
        };
        let of_node = |plan| expressions_of(plan, &change)?.transform_data(identifier::of_plan);
        plan.transform_up_with_subqueries(of_node).data()
    }
}

/// Replaces operators whose operands have a common type, where DataFusion's are not exact.
#[derive(Debug)]
struct CheckOperators;

impl AnalyzerRule for CheckOperators {
    fn name(&self) -> &str {
        "check_operators"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let change = |expr, schema: &DFSchema| {
            compare::both_zeros(expr, schema)?
                .transform_data(|expr| instant::hide(expr, schema))?
                .transform_data(|expr| arithmetic::check(expr, schema))
        };
        plan.transform_up_with_subqueries(|plan| expressions_of(plan, &change)).data()
    }
}

/// Errors: `Internal` where a rule that ours go with is not there.
pub fn optimizer() -> Result<Vec<Arc<dyn OptimizerRule + Send + Sync>>> {
    let mut rules = Optimizer::new().rules;
    let at = place(rules.iter().map(|rule| rule.name()), CONSTANT_RULE)?;
    rules.insert(at + 1, Arc::new(CompareExactly));
    let at = place(rules.iter().map(|rule| rule.name()), FILTER_RULE)?;
    rules[at] = Arc::new(InForm(Arc::clone(&rules[at])));
    Ok(rules)
}

/// DataFusion 55.2 moves filters of a physical plan to the first column of the name that they have,
/// so that of two joined columns `id` the wrong one is filtered. What may be moved was moved in the
/// logical plan, and a scan takes no filters that are known while it runs. So those rules stay out.
/// <https://github.com/apache/datafusion/pull/25259> mends them in a later release.
///
/// Errors: `Internal` where a rule that ours go with is not there.
pub fn physical() -> Result<Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with(MOVED_FILTERS));
    let at = place(rules.iter().map(|rule| rule.name()), SORT_RULE)?;
    rules.insert(at + 1, Arc::new(DrawCurtains));
    rules.insert(at, Arc::new(HangCurtains));
    rules.insert(at, Arc::new(HangJoinCurtains));
    Ok(rules)
}

fn place<'a>(mut names: impl Iterator<Item = &'a str>, wanted: &str) -> Result<usize> {
    let place = names.position(|name| name == wanted);
    place.ok_or_else(|| DataFusionError::Internal(format!("the planner has no rule {wanted}")))
}
