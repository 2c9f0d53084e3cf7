//! Which rules plan a statement: DataFusion's, and ours where its answers are not exact.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use super::arithmetic::CheckArithmetic;
use super::compare::{Compare, CompareFloats};
use super::filter::InForm;
use super::frame::RangeAsGroups;
use super::identifier::CompareIdentifiers;
use super::instant::{CompareExactly, HideCasts};
use super::join::HangJoinCurtains;
use super::multiset::CountCopies;
use super::number::NumberBesideFloat;
use super::union::{DrawCurtains, HangCurtains};
use super::zero::OneZero;

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
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> =
        vec![Arc::new(NumberBesideFloat), Arc::new(Compare), Arc::new(CompareIdentifiers)];
    rules.push(Arc::new(RangeAsGroups));
    // Operands have a common type from here on.
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(CountCopies));
    rules.push(Arc::new(CompareFloats));
    // After the copies of rows are numbered.
    rules.push(Arc::new(OneZero));
    rules.push(Arc::new(HideCasts));
    rules.push(Arc::new(CheckArithmetic));
    rules
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
