//! What a plan reads, and whether its caller may.

use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use tidegate_engine::{Permission, Resource};

use super::{Caller, Need};
use crate::query::error::Result;
use crate::query::scan::TideTable;
use crate::query::session::Session;
use crate::query::sketch::Sketch;
use crate::query::system::SystemSource;

/// Tables of `system` that say what there is and how much of it. The others show keys, statements
/// or roles of others.
const OPEN: &[&str] = &[
    "admission",
    "cache",
    "columns",
    "compactions",
    "io",
    "memory",
    "metrics",
    "policies",
    "policy_exits",
    "row_cache",
    "service_levels",
    "sstables",
    "stalls",
    "tables",
];

impl Session {
    /// Errors: `Denied` where the caller may not read what the plan reads, also in subqueries, or
    /// not write what it writes.
    pub(in crate::query) fn allow_plan(&self, plan: &LogicalPlan) -> Result<()> {
        if *self.caller() == Caller::Owner {
            return Ok(());
        }
        let mut needs = Vec::new();
        plan.apply_with_subqueries(|node| {
            needs.extend(scan_needs(node));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if let LogicalPlan::Dml(dml) = plan {
            // Its scan of the table that it writes stands for the rows: nobody sees them.
            let target = source_as_provider(&dml.target).ok().and_then(|table| need_of(&*table));
            plan.apply(|node| {
                let need = scan_needs(node).filter(|need| Some(need) == target.as_ref());
                if let Some(need) = need
                    && let Some(at) = needs.iter().position(|known| *known == need)
                {
                    needs.remove(at);
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        self.allow(&needs)
    }

    /// As [`Session::allow_command`], of a statement that was read before, with its plan.
    pub(in crate::query) fn allow_sketch(&self, sketch: &Sketch) -> Result<()> {
        self.allow_command(&sketch.command)?;
        sketch.plan_of_query().map_or(Ok(()), |plan| self.allow_plan(plan))
    }
}

/// What a node of a plan needs by itself.
fn scan_needs(node: &LogicalPlan) -> Option<Need> {
    let LogicalPlan::TableScan(scan) = node else { return None };
    need_of(&*source_as_provider(&scan.source).ok()?)
}

fn need_of(provider: &dyn TableProvider) -> Option<Need> {
    if let Some(table) = provider.downcast_ref::<TideTable>() {
        let table = table.table();
        return Some(Need::new(Permission::Select, Resource::table(&table.keyspace, &table.name)));
    }
    let system = provider.downcast_ref::<SystemSource>()?;
    (!OPEN.contains(&system.name())).then(Need::view)
}
