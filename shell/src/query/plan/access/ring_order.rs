//! Sorts by the token: streams of shards are in that order.
//!
//! DataFusion asks a scan for an order as far as columns of it are sorted by, and `token(…)` is
//! computed of them. So this rule asks for it through the projections, before sorts are planned.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::by_partition::{Known, rebuilt};
use crate::query::plan::union::Changed;

/// Goes before sorts are planned. A sort stays where it is, and finds its input sorted.
pub fn in_ring_order(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(Transformed::no(plan)) };
    let Some(known) = Known::of(sort.input()).filter(|known| known.are_rows) else {
        return Ok(Transformed::no(plan));
    };
    let scan = match known.sorted(sort.expr()) {
        Some(order) if known.scan.begins_with_token(&order) => known.scan.turned(&order)?,
        _ => None,
    };
    Ok(match scan {
        Some(scan) => {
            let input = rebuilt(sort.input(), &scan)?;
            Transformed::yes(replace_children_if_necessary(plan, vec![input])?)
        }
        None => Transformed::no(plan),
    })
}
