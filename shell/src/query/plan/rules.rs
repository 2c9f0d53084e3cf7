//! Which rules plan a statement: DataFusion's, and ours where its answers are not exact.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use super::access::partition_limit::LimitPartitions;
use super::access::stamp::ReadStamps;
use super::access::{ByPartition, ExtremeRow, LookUp, OneRow, few_to_left, in_ring_order};
use super::any_all::AsExistence;
use super::correlated::LiftCorrelated;
use super::filter::InForm;
use super::subquery_value::AsCounts;
use super::union::Changed;
use super::{frame, join, multiset, union, wide, zero};
use crate::query::conjunction::Shallow;
use crate::query::scan::token;
use crate::query::types::instant::CompareExactly;
use crate::query::types::rewrite::expressions_of;
use crate::query::types::{
    arithmetic, choice, collection, compare, identifier, instant, narrow, number,
};

/// The rule that computes constants and looks through casts.
const CONSTANT_RULE: &str = "simplify_expressions";
/// The rule that takes filters towards the tables and merges their conditions.
const FILTER_RULE: &str = "push_down_filter";
/// What the names of those rules begin with that move filters of a physical plan.
const MOVED_FILTERS: &str = "FilterPushdown";
/// The rule that chooses which side of a join is read first.
const JOIN_RULE: &str = "join_selection";
/// The rule that plans sorts and drops their keys.
const SORT_RULE: &str = "EnsureRequirements";

/// A rule that looks at every node of a plan, also within subqueries, inner ones first.
#[derive(Debug)]
struct OfNodes {
    name: &'static str,
    change: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
}

impl AnalyzerRule for OfNodes {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(self.change).data()
    }
}

/// The same of a physical plan.
#[derive(Debug)]
struct OfOperators {
    name: &'static str,
    change: fn(Arc<dyn ExecutionPlan>) -> Result<Changed>,
}

impl PhysicalOptimizerRule for OfOperators {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(self.change).data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a statement means: types of operands, and what is compared with what.
pub fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let rule = |name, change| -> Arc<dyn AnalyzerRule + Send + Sync> {
        Arc::new(OfNodes { name, change })
    };
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(ReadStamps),
        Arc::new(LimitPartitions),
        Arc::new(LiftCorrelated),
        Arc::new(AsExistence),
        Arc::new(AsCounts),
        rule("read_operands", read_operands),
    ];
    rules.extend(Analyzer::new().rules);
    rules.push(rule("count_copies", multiset::count_copies));
    // After the copies of rows are numbered: numbers have keys, too.
    rules.push(rule("check_operators", check_operators));
    rules
}

/// Says what operands are before they get a common type. Each change is of one operator, by the
/// types of its operands, and leaves its own type alone; so all are made in one walk.
fn read_operands(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let of_operator = |expr, schema: &DFSchema| {
        choice::flat(expr)
            .transform_data(|expr| token::beside_columns(expr, schema))?
            .transform_data(|expr| collection::compare_all(expr, schema))?
            .transform_data(|expr| number::beside_float(expr, schema))?
            .transform_data(|expr| instant::coarsen(expr, schema))?
            .transform_data(|expr| instant::refine(expr, schema))?
            .transform_data(|expr| compare::as_doubles(expr, schema))?
            .transform_data(|expr| identifier::compare_all(expr, schema))?
            .transform_data(|expr| identifier::within::compare_all(expr, schema))?
            .transform_data(|expr| frame::as_groups(expr, schema))?
            .transform_data(|expr| Ok(number::fold_of_null(expr, schema)))
    };
    let change = |expr, schema: &DFSchema| {
        let of_equality = |equality| of_operator(equality, schema);
        compare::nullif(expr, schema, of_equality)?
            .transform_data(|expr| compare::simple_case(expr, schema, of_equality))?
            .transform_data(|expr| of_operator(expr, schema))
    };
    expressions_of(plan, &change)?
        .transform_data(identifier::of_plan)?
        .transform_data(identifier::within::of_plan)
}

/// Replaces operators whose operands have a common type, and keys of orders, where DataFusion's are
/// not exact.
fn check_operators(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let change = |expr, schema: &DFSchema| {
        token::check(&expr, schema)?;
        compare::both_zeros(expr, schema)?
            .transform_data(|expr| instant::hide(expr, schema))?
            .transform_data(|expr| arithmetic::check(expr, schema))?
            .transform_data(|expr| narrow::check(expr, schema))?
            .transform_data(|expr| zero::in_expression(expr, schema))
    };
    expressions_of(plan, &change)?.transform_data(zero::in_node)
}

/// Errors: `Internal` where a rule that ours go with is not there.
pub fn optimizer() -> Result<Vec<Arc<dyn OptimizerRule + Send + Sync>>> {
    let mut rules = Optimizer::new().rules;
    let at = place(rules.iter().map(|rule| rule.name()), CONSTANT_RULE)?;
    rules.insert(at + 1, Arc::new(CompareExactly));
    let at = place(rules.iter().map(|rule| rule.name()), FILTER_RULE)?;
    rules[at] = Arc::new(InForm(Arc::clone(&rules[at])));
    rules.push(Arc::new(ExtremeRow));
    rules.push(Arc::new(OneRow));
    Ok(rules.into_iter().map(|rule| Arc::new(Shallow(rule)) as _).collect())
}

/// DataFusion 55.2 moves filters of a physical plan to the first column of the name that they have,
/// so that of two joined columns `id` the wrong one is filtered. What may be moved was moved in the
/// logical plan, and a scan takes no filters that are known while it runs. So those rules stay out.
/// <https://github.com/apache/datafusion/pull/25259> mends them in a later release.
///
/// Where nodes divide a plan, a join tells no scan of its keys: they may run on different ones.
///
/// Errors: `Internal` where a rule that ours go with is not there.
pub fn physical(are_divided: bool) -> Result<Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with(MOVED_FILTERS));
    let at = place(rules.iter().map(|rule| rule.name()), SORT_RULE)?;
    let rule = |name, change| Arc::new(OfOperators { name, change });
    rules.insert(at + 1, rule("show_constants_of_unions", union::draw_curtain));
    rules.insert(at, rule("hide_constants_of_unions", union::hang_curtain));
    rules.insert(at, rule("hide_from_joins", join::hang_curtains));
    if !are_divided {
        rules.insert(at, Arc::new(ByPartition));
        rules.insert(at, rule("sort_by_token", in_ring_order));
    }
    let at = place(rules.iter().map(|rule| rule.name()), JOIN_RULE)?;
    rules.insert(at + 1, rule("few_rows_to_left", few_to_left));
    rules.push(rule("measure_computed_columns", wide::measure));
    if !are_divided {
        rules.push(Arc::new(LookUp));
    }
    Ok(rules)
}

fn place<'a>(mut names: impl Iterator<Item = &'a str>, wanted: &str) -> Result<usize> {
    let place = names.position(|name| name == wanted);
    place.ok_or_else(|| DataFusionError::Internal(format!("the planner has no rule {wanted}")))
}
