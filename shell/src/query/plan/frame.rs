//! Windows over an order of times of day or of bytes.
//!
//! DataFusion 55.2 refuses every RANGE frame over them, the default one included, since it knows no
//! distance between two such values (`extract_window_frame_target_type`). A frame without distances
//! needs none: it reaches from one end, or from the rows that sort like this one, to another such
//! place, and that is what the same frame of GROUPS does.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrameBound, WindowFrameUnits};

/// Turns such a frame into GROUPS; goes before operands get a common type.
pub fn as_groups(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
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
