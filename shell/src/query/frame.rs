//! Windows over an order of times of day or of bytes.
//!
//! DataFusion 55.2 refuses every RANGE frame over them, the default one included, since it knows no
//! distance between two such values (`extract_window_frame_target_type`). A frame without distances
//! needs none: it reaches from one end, or from the rows that sort like this one, to another such
//! place, and that is what the same frame of GROUPS does.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

/// Turns such frames into GROUPS; goes before operands get a common type.
#[derive(Debug)]
pub struct RangeAsGroups;

impl AnalyzerRule for RangeAsGroups {
    fn name(&self) -> &str {
        "range_as_groups"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            if !matches!(plan, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(plan));
            }
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            let changed = plan.map_expressions(|expr| {
                // The plan above knows the column by this name.
                let name = names.save(&expr);
                let changed = expr.transform_up(|expr| rewrite(expr, &schema))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })?;
            if changed.transformed {
                changed.map_data(LogicalPlan::recompute_schema)
            } else {
                Ok(changed)
            }
        })?;
        Ok(changed.data)
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let params = &window.params;
    let frame = &params.window_frame;
    let is_affected = match params.order_by.first() {
        Some(first) if frame.units == WindowFrameUnits::Range => {
            is_without_distance(&first.expr.get_type(schema)?)
                && has_no_distance(&frame.start_bound)
                && has_no_distance(&frame.end_bound)
        }
        _ => false,
    };
    if !is_affected {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    }
    window.params.window_frame.units = WindowFrameUnits::Groups;
    Ok(Transformed::yes(Expr::WindowFunction(window)))
}

/// Whether DataFusion knows no distance between two values of the type, which have an order.
fn is_without_distance(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Binary
            | DataType::BinaryView
            | DataType::LargeBinary
            | DataType::FixedSizeBinary(_)
    )
}

fn has_no_distance(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            distance.is_null()
        }
    }
}
