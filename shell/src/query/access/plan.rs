//! What a plan reads, and whether its caller may.

use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use tidegate_engine::{Permission, Resource};

use super::{Caller, Need};
use crate::query::error::{ErrorKind, QueryError, Result};
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
    "views",
];

/// Those of which a role without the right to see what others do finds its own rows.
const OWN: &[&str] = &["queries", "sessions"];

impl Session {
    /// Errors: `Denied` where the caller may not read what the plan reads, also in subqueries, or
    /// not write what it writes.
    pub(in crate::query) fn allow_plan(&self, plan: &LogicalPlan) -> Result<()> {
        if *self.caller() == Caller::Owner {
            return Ok(());
        }
        let (mut needs, mut seen) = (Vec::new(), Vec::new());
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
            {
                needs.extend(need_of(&*provider));
                seen.extend(provider.downcast_ref::<TideTable>().cloned());
            }
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
        self.allow(&needs)?;
        seen.iter().try_for_each(|table| self.allow_owners(table))
    }

    /// Errors: `Denied` where a view on the way to a table may not read what it reads.
    fn allow_owners(&self, table: &TideTable) -> Result<()> {
        let catalog = self.database.catalog();
        let mut next = table.through();
        while let Some(through) = next {
            next = through.inner.as_deref();
            let Some(owner) = &through.owner else { continue };
            let read = next.map_or_else(|| resource(table), |inner| inner.view.clone());
            if !catalog.roles().may(owner, Permission::Select, &read) {
                let view = &through.view;
                let message = format!(
                    "{view} is a view that reads with the rights of role '{owner}', which has no \
                     SELECT on {read}"
                );
                let help = format!(
                    "GRANT SELECT ON {read} TO {owner}, or let another role replace the view"
                );
                return Err(QueryError::new(ErrorKind::Denied, message).with_help(help));
            }
        }
        Ok(())
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

fn resource(table: &TideTable) -> Resource {
    Resource::table(&table.table().keyspace, &table.table().name)
}

fn need_of(provider: &dyn TableProvider) -> Option<Need> {
    if let Some(table) = provider.downcast_ref::<TideTable>() {
        let named = table.through().map_or_else(|| resource(table), |view| view.view.clone());
        return Some(Need::new(Permission::Select, named));
    }
    let system = provider.downcast_ref::<SystemSource>()?;
    let is_free = [OPEN, OWN].iter().any(|names| names.contains(&system.name()));
    (!is_free).then(Need::view)
}
