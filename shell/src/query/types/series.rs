//! `generate_series` and `range` in FROM, over instants.
//!
//! Literals have the unit that their digits need, and DataFusion's functions take instants in
//! nanoseconds.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;

const NAMES: [&str; 2] = ["generate_series", "range"];

/// See the head of this file.
#[derive(Debug)]
struct InNanoseconds(Arc<dyn TableFunctionImpl>);

impl TableFunctionImpl for InNanoseconds {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs().iter().map(in_nanoseconds).collect::<Result<Vec<Expr>>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

/// Errors: an instant that nanoseconds do not reach: before 1678 or after 2261.
fn in_nanoseconds(expr: &Expr) -> Result<Expr> {
    let Expr::Literal(scalar, metadata) = expr else { return Ok(expr.clone()) };
    let ArrowType::Timestamp(_, zone) = scalar.data_type() else { return Ok(expr.clone()) };
    let scalar = scalar.cast_to(&ArrowType::Timestamp(TimeUnit::Nanosecond, zone))?;
    Ok(Expr::Literal(scalar, metadata.clone()))
}

/// The functions with their names, in place of those of a state.
pub fn functions(state: &SessionState) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let wrapped = |name| {
        let function = state.table_functions().get(name)?;
        let wrapped: Arc<dyn TableFunctionImpl> =
            Arc::new(InNanoseconds(Arc::clone(function.function())));
        Some((name, wrapped))
    };
    NAMES.into_iter().filter_map(wrapped).collect()
}
