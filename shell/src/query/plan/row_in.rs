//! `(a, b) IN (query)` as EXISTS: whether the query has a row whose values are those.
//!
//! DataFusion takes one column after IN. The parser makes `row_in(negated, EXISTS (query), a, b)`
//! of such a condition, so that `a` and `b` are looked up where they stand and names in the query
//! where these stand. Then the comparison is put into the query here, before types are asked for.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{
    Column, DFSchema, ExprSchema, Result, ScalarValue, internal_err, plan_err,
};
use datafusion::logical_expr::expr::{Exists, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};

use crate::query::parse::ROW_IN;
use crate::query::types::rewrite::expressions_of;

/// What the columns of the query are called beside the values.
const PART: &str = "__row";

/// The function that the parser writes.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(RowIn { signature: Signature::variadic_any(Volatility::Immutable) })
}

/// Replaces the calls of the function in a plan.
///
/// Errors: `Plan` where the query has another number of columns than there are values.
pub fn resolve(plan: LogicalPlan) -> Result<LogicalPlan> {
    let change = |expr: Expr, schema: &DFSchema| match expr {
        Expr::ScalarFunction(call) if call.func.name() == ROW_IN => {
            existence(call, schema).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    };
    plan.transform_up_with_subqueries(|node| expressions_of(node, &change)).data()
}

/// An expression of what is around a query, as it stands in that query; `schema` is what is around.
pub fn as_outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = |part: Expr| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    };
    expr.transform_up(outer).data()
}

/// A query as it stands in an expression.
pub fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Default::default() }
}

fn existence(call: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let mut args = call.args.into_iter();
    let (Some(Expr::Literal(ScalarValue::Boolean(Some(negated)), _)), Some(Expr::Exists(exists))) =
        (args.next(), args.next())
    else {
        return internal_err!("{ROW_IN} takes whether it is negated, a query, and values");
    };
    let plan = Arc::unwrap_or_clone(exists.subquery.subquery);
    let (columns, wanted) = (plan.schema().columns(), args.len());
    if columns.len() != wanted {
        let found = columns.len();
        return plan_err!("a row of {wanted} values is looked for in a query of {found} columns");
    }
    let name = |n: usize| format!("{PART}_{n}");
    let parts = columns.into_iter().enumerate();
    let parts = parts.map(|(n, column)| Expr::Column(column).alias(name(n)));
    let plan = LogicalPlanBuilder::from(plan).project(parts)?;
    let same = args.enumerate().map(|(n, value)| {
        let part = Expr::Column(Column::new_unqualified(name(n)));
        Ok(part.eq(as_outer(value, schema)?))
    });
    let same = joined(same.collect::<Result<_>>()?);
    // NOT IN is true where no row is the same and none may be: a null may be anything.
    let same = if negated { Expr::IsNotFalse(Box::new(same)) } else { same };
    let subquery = subquery(plan.filter(same)?.build()?);
    Ok(Expr::Exists(Exists { subquery, negated }))
}

/// All conditions, as a tree that is not deep.
fn joined(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() > 1 {
        let right = joined(conditions.split_off(conditions.len() / 2));
        return joined(conditions).and(right);
    }
    conditions.pop().unwrap_or_default()
}

/// Stands for the condition until [`resolve`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct RowIn {
    signature: Signature,
}

impl ScalarUDFImpl for RowIn {
    fn name(&self) -> &str {
        ROW_IN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{ROW_IN} is no function: write (a, b) IN (SELECT …)")
    }
}
