//! Groups and windows within partitions: what a shard reads is grouped as it comes.
//!
//! Each partition comes from one stream, and its rows come together, in clustering order. So groups
//! by all columns of the partition key, and perhaps by more, are complete within a stream: they are
//! neither hashed to other streams nor sorted, and a group ends with its partition. The same goes
//! for windows with such a `PARTITION BY`, whose order a direction of reading may give.
//!
//! The planner knows no order in which only equal rows stand together. So a scan is said to be
//! sorted by the key ([`TideScan::by_partitions`]), and its streams are said to be made by a hash
//! ([`Told::Hashed`], `EachPartition` in a plan). Neither is true, and whoever compares keys of two
//! streams would err, say a merge or a join. So above the last group or window stands
//! [`Told::Neither`] (`AllPartitions`), and nobody above it is told anything. Between the two are
//! only operators that keep rows of a stream in order, and groups and windows within partitions.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, WindowExpr, replace_children_if_necessary};

use crate::query::plan::union::{Curtain, Told};
use crate::query::scan::TideScan;

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// Goes before streams are divided and sorted.
#[derive(Debug)]
pub struct ByPartition;

impl PhysicalOptimizerRule for ByPartition {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let streams = config.execution.target_partitions;
        let change = |plan: Plan| {
            Ok(match by_partition(&plan, streams)? {
                Some(changed) => Transformed::new(changed, true, TreeNodeRecursion::Jump),
                None => Transformed::no(plan),
            })
        };
        plan.transform_down(change).data()
    }

    fn name(&self) -> &str {
        "group_by_partition"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same plan, made so as the head of this file says; `None` where it is not of that kind.
fn by_partition(plan: &Plan, streams: usize) -> Result<Option<Plan>> {
    if Grouping::of(plan).is_none() && windows(plan).is_none() {
        return Ok(None);
    }
    let Some(known) = Known::of(plan) else { return Ok(None) };
    // The planner would divide what has fewer streams than it may have, and merge what has more
    // than the one.
    let own = known.scan.properties().partitioning.partition_count();
    if own < streams || own > 1 && streams == 1 {
        return Ok(None);
    }
    let Some(scan) = known.scan.by_partitions(&known.wanted)? else { return Ok(None) };
    Curtain::hang(rebuilt(plan, &scan)?, Told::Neither, true).map(Some)
}

/// Groups that are made in one or in two steps.
struct Grouping<'a> {
    /// The step that reads the input.
    first: &'a AggregateExec,
    /// The one that gives the groups.
    last: &'a AggregateExec,
}

impl<'a> Grouping<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        let last = plan.downcast_ref::<AggregateExec>()?;
        let first = match last.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => last,
            AggregateMode::Final | AggregateMode::FinalPartitioned => {
                let first = last.input().downcast_ref::<AggregateExec>()?;
                (*first.mode() == AggregateMode::Partial).then_some(first)?
            }
            _ => return None,
        };
        let groups = first.group_expr();
        (groups.is_single() && !groups.is_true_no_grouping()).then_some(Grouping { first, last })
    }

    fn keys(&self) -> Vec<Expr> {
        self.first.group_expr().input_exprs()
    }

    /// The same in one step, each stream by itself.
    fn over(&self, input: Plan) -> Result<Plan> {
        let first = self.first;
        let input = Curtain::hang(input, Told::Hashed(self.keys()), true)?;
        let grouped = AggregateExec::try_new(
            AggregateMode::SinglePartitioned,
            first.group_expr().clone(),
            first.aggr_expr().to_vec(),
            first.filter_expr().to_vec(),
            input,
            first.input_schema(),
        )?;
        Ok(Arc::new(grouped.with_limit_options(self.last.limit_options())))
    }
}

/// The functions of an operator of windows.
fn windows(plan: &Plan) -> Option<&[Arc<dyn WindowExpr>]> {
    if let Some(plan) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return Some(plan.window_expr());
    }
    Some(plan.downcast_ref::<WindowAggExec>()?.window_expr())
}

/// A plan that is made of a scan, and of operators that see its rows as it gives them.
pub(super) struct Known<'a> {
    pub(super) scan: &'a TideScan,
    /// What the columns of the output are of the columns of the scan; `None` for what is computed
    /// of several rows.
    columns: Vec<Option<Expr>>,
    /// The orders that groups and windows want within partitions.
    wanted: Vec<Vec<PhysicalSortExpr>>,
    /// Whether its rows are those of the scan, without groups or windows.
    pub(super) are_rows: bool,
}

impl<'a> Known<'a> {
    pub(super) fn of(plan: &'a Plan) -> Option<Self> {
        if let Some(scan) = plan.downcast_ref::<TideScan>() {
            let schema = scan.schema();
            let column = |(at, name): (usize, &str)| Some(Arc::new(Column::new(name, at)) as Expr);
            let names = schema.fields().iter().map(|field| field.name().as_str());
            let columns = names.enumerate().map(column).collect();
            return Some(Known { scan, columns, wanted: Vec::new(), are_rows: true });
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let below = Known::of(projection.input())?;
            let columns = projection.expr().iter().map(|column| below.seen(&column.expr));
            return Some(Known { columns: columns.collect(), ..below });
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let below = Known::of(filter.input())?;
            let columns = match filter.projection() {
                None => below.columns,
                Some(places) => places.iter().map(|at| below.columns[*at].clone()).collect(),
            };
            return Some(Known { columns, ..below });
        }
        if let Some(functions) = windows(plan) {
            let [input] = plan.children()[..] else { return None };
            return Known::of(input)?.windowed(functions);
        }
        let grouping = Grouping::of(plan)?;
        let below = Known::of(grouping.first.input())?;
        let keys = grouping.keys();
        let groups = below.has_keys(&keys).then(|| keys.iter().map(|key| below.seen(key)))?;
        let functions = grouping.last.aggr_expr();
        let columns = groups.chain(functions.iter().map(|_| None)).collect();
        let orders = functions.iter().map(|function| below.order(&keys, function.order_bys()));
        let wanted = below.wanted.iter().cloned().chain(orders.flatten()).collect();
        Some(Known { columns, wanted, are_rows: false, ..below })
    }

    fn windowed(mut self, functions: &[Arc<dyn WindowExpr>]) -> Option<Self> {
        let is_within = |function: &Arc<dyn WindowExpr>| self.has_keys(function.partition_by());
        // All functions of an operator have the same order.
        let first = functions.first().filter(|_| functions.iter().all(is_within))?;
        let order = self.order(first.partition_by(), first.order_by());
        self.wanted.extend(order);
        self.columns.extend(functions.iter().map(|_| None));
        self.are_rows = false;
        Some(self)
    }

    /// The order of the scan that is wanted within groups by these keys, where the partitions are
    /// the groups.
    fn order(&self, keys: &[Expr], order: &[PhysicalSortExpr]) -> Option<Vec<PhysicalSortExpr>> {
        let is_by_key = self.scan.key_columns()?.len() == keys.len();
        self.sorted(order).filter(|order| is_by_key && !order.is_empty())
    }

    /// An order of the output as one of the scan.
    pub(super) fn sorted(&self, order: &[PhysicalSortExpr]) -> Option<Vec<PhysicalSortExpr>> {
        let of_scan = |sort: &PhysicalSortExpr| {
            Some(PhysicalSortExpr { expr: self.seen(&sort.expr)?, options: sort.options })
        };
        order.iter().map(of_scan).collect()
    }

    /// An expression over the output as one over the scan.
    fn seen(&self, expr: &Expr) -> Option<Expr> {
        let mut is_seen = true;
        let of_scan = |expr: Expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            Ok(match self.columns.get(column.index()).cloned().flatten() {
                Some(seen) => Transformed::new(seen, true, TreeNodeRecursion::Jump),
                None => {
                    is_seen = false;
                    Transformed::no(expr)
                }
            })
        };
        let seen = Arc::clone(expr).transform_down(of_scan).data().ok()?;
        is_seen.then_some(seen)
    }

    /// Whether all columns of the partition key are among these expressions.
    fn has_keys(&self, exprs: &[Expr]) -> bool {
        let seen: Vec<Expr> = exprs.iter().filter_map(|expr| self.seen(expr)).collect();
        let key = self.scan.key_columns();
        key.is_some_and(|key| key.iter().all(|column| seen.contains(column)))
    }
}

/// A plan of which [`Known`] is known, over another scan.
pub(super) fn rebuilt(plan: &Plan, scan: &TideScan) -> Result<Plan> {
    if plan.is::<TideScan>() {
        return Ok(Arc::new(scan.clone()));
    }
    if let Some(grouping) = Grouping::of(plan) {
        return grouping.over(rebuilt(grouping.first.input(), scan)?);
    }
    let [input] = plan.children()[..] else {
        return Err(DataFusionError::Internal(format!("{} has no one input", plan.name())));
    };
    let input = rebuilt(input, scan)?;
    let input = match windows(plan) {
        Some(functions) => {
            let keys = functions[0].partition_by().to_vec();
            Curtain::hang(input, Told::Hashed(keys), true)?
        }
        None => input,
    };
    replace_children_if_necessary(Arc::clone(plan), vec![input])
}
