//! `token(a, b)`: the place of a partition on the ring, of all columns of its key in order.
//!
//! Fields of tables say their types and their places in the key, so that a call which would give
//! the place of no partition is refused. Values alone have no types: those of `token(5)` are those
//! of the columns that it is compared with.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidegate_engine::batch::value_at;
use tidegate_engine::{DataType, PartitionKey, Value};

use crate::query::types::assign;
use crate::query::types::collection::named_type;

const TOKEN: &str = "token";

/// The function that statements call.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(TokenOf { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TokenOf {
    signature: Signature,
}

impl ScalarUDFImpl for TokenOf {
    fn name(&self) -> &str {
        TOKEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Int64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(TOKEN, ArrowType::Int64, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // The planner may put what equals a key column in a join into its place.
        let types = named_types(&args.arg_fields)?;
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let token = |row: usize| {
            let values = arrays.iter().zip(&types).map(|(array, ty)| value_at(array, row, ty));
            let values: Option<Vec<Value>> = values.collect::<Result<_, _>>()?;
            values.map(|values| PartitionKey::of_values(&values)).transpose()
        };
        let tokens = (0..args.number_rows).map(|row| Ok(token(row)?.map(|key| key.token().0)));
        let tokens: Result<Int64Array, tidegate_engine::Error> = tokens.collect();
        let tokens = tokens.map_err(|error| exec_datafusion_err!("{error}"))?;
        Ok(ColumnarValue::Array(Arc::new(tokens)))
    }
}

/// The types of columns that are a partition key, all of it and in order.
///
/// Errors: `Plan` where they are none.
fn key_types(fields: &[FieldRef]) -> Result<Vec<DataType>> {
    let is_place = |(at, field): (usize, &FieldRef)| {
        let place = field.metadata().get("tidegate.key");
        place.is_some_and(|place| *place == format!("{at}/{}", fields.len()))
    };
    if fields.is_empty() || !fields.iter().enumerate().all(is_place) {
        return plan_err!(
            "token() takes the columns of a table's partition key, all of them and in order; one \
             of values stands beside one of columns, as in token(pk) > token(5)"
        );
    }
    named_types(fields)
}

/// Errors: `Plan` for fields of user types.
fn named_types(fields: &[FieldRef]) -> Result<Vec<DataType>> {
    let types: Option<Vec<DataType>> = fields.iter().map(|field| named_type(field)).collect();
    match types {
        Some(types) => Ok(types),
        None => plan_err!("token() takes no columns of user types"),
    }
}

/// The arguments of a call.
pub(super) fn arguments(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == TOKEN => Some(args),
        _ => None,
    }
}

/// The arguments of a call in a physical plan.
pub(super) fn call(expr: &Arc<dyn PhysicalExpr>) -> Option<&[Arc<dyn PhysicalExpr>]> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    (call.name() == TOKEN).then(|| call.args())
}

fn types_of(args: &[Expr], schema: &DFSchema) -> Result<Vec<DataType>> {
    let fields = args.iter().map(|arg| Ok(arg.to_field(schema)?.1));
    key_types(&fields.collect::<Result<Vec<_>>>()?)
}

/// Computes calls of values that stand beside one of columns.
///
/// Errors: `Plan` where the values are none of the columns' types.
pub fn beside_columns(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let with = |one: &Expr, other: &mut Expr| -> Result<bool> {
        let (Some(columns), Some(values)) = (arguments(one), arguments(other)) else {
            return Ok(false);
        };
        if values.iter().any(|value| value.any_column_refs()) {
            return Ok(false);
        }
        let Ok(types) = types_of(columns, schema) else { return Ok(false) };
        *other = lit(token(values, &types)?);
        Ok(true)
    };
    Ok(match expr {
        Expr::BinaryExpr(mut binary) => {
            let BinaryExpr { left, right, .. } = &mut binary;
            let is_changed = with(left, right)? || with(right, left)?;
            Transformed::new_transformed(Expr::BinaryExpr(binary), is_changed)
        }
        Expr::Between(mut between) => {
            let is_changed =
                with(&between.expr, &mut between.low)? | with(&between.expr, &mut between.high)?;
            Transformed::new_transformed(Expr::Between(between), is_changed)
        }
        other => Transformed::no(other),
    })
}

/// The place of the partition with constants of these types as its key.
fn token(constants: &[Expr], types: &[DataType]) -> Result<i64> {
    if constants.len() != types.len() {
        let (given, wanted) = (constants.len(), types.len());
        return plan_err!("token() of {given} values beside one of {wanted} columns");
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let value = |(constant, ty): (&Expr, &DataType)| {
        let constant = simplifier.coerce(constant.clone(), &DFSchema::empty())?;
        let Expr::Literal(constant, _) = simplifier.simplify(constant)? else {
            return plan_err!("token() beside one of columns takes constants");
        };
        let none =
            |reason: String| plan_err!("token() of a value that is none of the column: {reason}");
        let scalar = match assign::scalar(&constant, ty) {
            Ok(scalar) => scalar,
            Err(reason) => return none(reason),
        };
        match value_at(&scalar.to_array()?, 0, ty) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => none("NULL is part of no key".to_owned()),
            Err(error) => none(error.to_string()),
        }
    };
    let values: Vec<Value> = constants.iter().zip(types).map(value).collect::<Result<_>>()?;
    match PartitionKey::of_values(&values) {
        Ok(key) => Ok(key.token().0),
        Err(error) => plan_err!("token(): {error}"),
    }
}

/// Refuses calls that would give the place of no partition.
///
/// Errors: `Plan`.
pub fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    match arguments(expr) {
        Some(args) => types_of(args, schema).map(|_| ()),
        None => Ok(()),
    }
}
