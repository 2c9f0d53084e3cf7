//! The two zeros of floats, which are equal and yet two values: sorts and windows see one.
//!
//! DataFusion 55.2 takes -0.0 and 0.0 for equal where it compares, groups and hashes: in `=`,
//! joins, GROUP BY, DISTINCT, set operations. Its sorts and windows go by the bits: they order the
//! zeros, so that no later key breaks the tie, and rows with one and the other are no peers. So
//! does `count(DISTINCT …)` beside other aggregates. Here what they look at is replaced by
//! [`PlainZero`] of it. What a query gives back stays as it is.
//!
//! The last key of a sort has no tie to break and stays. So `ORDER BY c` is still read in the order
//! of a clustering column `c`, where -0.0 is before 0.0: one of the orders that are right. Windows
//! get that order, too, since the function keeps it.
//!
//! `ORDER BY c, d` is another matter where both are clustering columns. The table has all rows of
//! -0.0 before those of 0.0, whatever is in `d`, which is not what was asked for. Such a query
//! sorts what it read. A page of it is dearer, but only where a float is not the last key.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Keys of windows and of aggregates that have an order, and what is counted once each; goes after
/// operands got a common type and copies of rows were numbered.
pub fn in_expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::WindowFunction(mut window) => {
            let mut is_changed = false;
            let keys = window.params.partition_by.iter_mut();
            let order = window.params.order_by.iter_mut().map(|sort| &mut sort.expr);
            for key in keys.chain(order) {
                is_changed |= plain(key, schema);
            }
            Transformed::new_transformed(Expr::WindowFunction(window), is_changed)
        }
        Expr::AggregateFunction(mut function) => {
            let mut is_changed = before_last(&mut function.params.order_by, schema);
            // What it counts does not come out.
            if function.params.distinct && function.func.name() == "count" {
                for counted in &mut function.params.args {
                    is_changed |= plain(counted, schema);
                }
            }
            Transformed::new_transformed(Expr::AggregateFunction(function), is_changed)
        }
        other => Transformed::no(other),
    })
}

/// Keys of ORDER BY, also where it chooses rows for DISTINCT ON; goes with [`in_expression`].
pub fn in_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            let is_changed = before_last(&mut sort.expr, &schema);
            Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            let order = on.sort_expr.as_mut();
            let is_changed = order.is_some_and(|order| before_last(order, &schema));
            let plan = LogicalPlan::Distinct(Distinct::On(on));
            Transformed::new_transformed(plan, is_changed)
        }
        other => Transformed::no(other),
    })
}

/// All keys but the last; whether one was replaced.
fn before_last(order: &mut [Sort], schema: &DFSchema) -> bool {
    let Some((_, keys)) = order.split_last_mut() else { return false };
    keys.iter_mut().fold(false, |is_changed, sort| plain(&mut sort.expr, schema) | is_changed)
}

/// Replaces a key that is a float; whether it was.
fn plain(key: &mut Expr, schema: &DFSchema) -> bool {
    let is_float = matches!(key.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
    if is_float {
        let function = Arc::new(ScalarUDF::from(PlainZero::new()));
        let args = vec![std::mem::take(key)];
        *key = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
    }
    is_float
}

/// A float, with 0.0 for -0.0.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PlainZero {
    signature: Signature,
}

impl PlainZero {
    fn new() -> Self {
        PlainZero { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for PlainZero {
    fn name(&self) -> &str {
        "plain_zero"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [ty] => Ok(ty.clone()),
            _ => internal_err!("plain_zero takes one float"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [field] = args.arg_fields else { return internal_err!("plain_zero takes one float") };
        Ok(Arc::new(Field::new(self.name(), field.data_type().clone(), field.is_nullable())))
    }

    /// What is in order stays so; two values may become one.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("plain_zero takes one float");
        };
        let array = value.to_array(args.number_rows)?;
        // -0.0 + 0.0 is 0.0; NaN keeps its bits in sorts, which know but one.
        let array: ArrayRef = match array.data_type() {
            DataType::Float32 => {
                let floats: Float32Array =
                    array.as_primitive::<Float32Type>().unary(|value| value + 0.0);
                Arc::new(floats)
            }
            DataType::Float64 => {
                let floats: Float64Array =
                    array.as_primitive::<Float64Type>().unary(|value| value + 0.0);
                Arc::new(floats)
            }
            other => return internal_err!("{other} is no float"),
        };
        Ok(ColumnarValue::Array(array))
    }
}
