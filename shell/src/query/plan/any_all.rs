//! `x < ANY (query)` and `x < ALL (query)`.
//!
//! DataFusion 55 makes of them whether there is a row for which the comparison holds, and one for
//! which it is null. It does so after operands have got their types, and takes the query's column
//! for one around it that has the same name. So the column gets a name of its own here, and the
//! rule comes first.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::{AnalyzerRule, OptimizerContext, OptimizerRule};

/// Name of what something is compared with.
const SET: &str = "__set";

/// See the head of this file.
#[derive(Debug)]
pub(in crate::query) struct AsExistence;

impl AnalyzerRule for AsExistence {
    fn name(&self) -> &str {
        "any_all_as_existence"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let name = |plan: LogicalPlan| plan.map_expressions(|expr| expr.transform_up(name_value));
        let named = plan.transform_up_with_subqueries(name)?;
        match named.transformed {
            true => {
                RewriteSetComparison::new().rewrite(named.data, &OptimizerContext::new()).data()
            }
            false => Ok(named.data),
        }
    }
}

fn name_value(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::SetComparison(mut comparison) = expr else { return Ok(Transformed::no(expr)) };
    let query = &comparison.subquery.subquery;
    let values = query.schema().columns();
    // What has several columns is refused as it is.
    if let [value] = &values[..] {
        let named = Expr::Column(value.clone()).alias(SET);
        let query = LogicalPlanBuilder::from(query.as_ref().clone()).project([named])?;
        comparison.subquery.subquery = query.build()?.into();
    }
    Ok(Transformed::yes(Expr::SetComparison(comparison)))
}
