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
//!
//! Of floats within lists, maps and rows DataFusion sees the bits everywhere. So these are replaced
//! where they are compared, grouped, joined and searched as well. What is compared with a constant
//! is an argument of [`EqualWithin`], by which a scan knows that it is.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray, MapArray, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction, Sort};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply_cmp;

use crate::query::types::collection::EQUAL_WITHIN;
use crate::query::types::instant::is_comparison;
use crate::query::types::number::holds;

/// Functions that look for their other arguments in the first.
const SEEKING: [&str; 5] =
    ["array_has", "array_has_all", "array_has_any", "array_position", "array_positions"];

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
        Expr::ScalarFunction(mut call) if SEEKING.contains(&call.func.name()) => {
            let args = call.args.iter_mut();
            let is_changed = args.fold(false, |is_changed, arg| plain(arg, schema) | is_changed);
            Transformed::new_transformed(Expr::ScalarFunction(call), is_changed)
        }
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => compare(binary, schema),
        Expr::InList(InList { expr, list, negated }) if has_floats(&expr, schema) => {
            let equal = list.into_iter().map(|item| equal_within((*expr).clone(), item));
            let Some(found) = equal.reduce(Expr::or) else {
                let list = Vec::new();
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            };
            Transformed::yes(if negated { !found } else { found })
        }
        other => Transformed::no(other),
    })
}

/// A comparison of values that hold floats.
fn compare(binary: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { mut left, op, mut right } = binary;
    if !has_floats(&left, schema) || !has_floats(&right, schema) {
        return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }));
    }
    let has_constant = !left.any_column_refs() || !right.any_column_refs();
    match op {
        Operator::Eq if has_constant => return Transformed::yes(equal_within(*left, *right)),
        Operator::NotEq if has_constant => return Transformed::yes(!equal_within(*left, *right)),
        _ => {}
    }
    let is_changed = plain(&mut left, schema) | plain(&mut right, schema);
    Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), is_changed)
}

fn equal_within(left: Expr, right: Expr) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::from(EqualWithin { signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right]))
}

/// Whether a value holds floats.
fn has_floats(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| ty.is_nested() && holds(&ty, &DataType::is_floating))
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
        LogicalPlan::Join(mut join) => {
            let mut is_changed = false;
            for (left, right) in &mut join.on {
                for (key, schema) in [(left, join.left.schema()), (right, join.right.schema())] {
                    is_changed |= has_floats(key, schema) && plain(key, schema);
                }
            }
            Transformed::new_transformed(LogicalPlan::Join(join), is_changed)
        }
        LogicalPlan::Aggregate(mut aggregate) => {
            let schema = Arc::clone(aggregate.input.schema());
            let mut is_changed = false;
            for key in &mut aggregate.group_expr {
                is_changed |= named_plain(key, &schema)?;
            }
            let plan = LogicalPlan::Aggregate(aggregate);
            match is_changed {
                true => Transformed::yes(plan.recompute_schema()?),
                false => Transformed::no(plan),
            }
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let schema = Arc::clone(input.schema());
            let mut is_changed = false;
            let mut columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
            for column in &mut columns {
                is_changed |= named_plain(column, &schema)?;
            }
            if !is_changed {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
            }
            let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
            Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(input))))
        }
        other => Transformed::no(other),
    })
}

/// Replaces what holds floats under the name that it had; whether it did.
fn named_plain(key: &mut Expr, schema: &DFSchema) -> Result<bool> {
    // Keys of several groupings stay.
    if matches!(key, Expr::GroupingSet(_)) || !has_floats(key, schema) {
        return Ok(false);
    }
    let (qualifier, field) = key.to_field(schema)?;
    if !plain(key, schema) {
        return Ok(false);
    }
    *key = std::mem::take(key).alias_qualified(qualifier, field.name());
    Ok(true)
}

/// All keys but the last; whether one was replaced.
fn before_last(order: &mut [Sort], schema: &DFSchema) -> bool {
    let Some((_, keys)) = order.split_last_mut() else { return false };
    keys.iter_mut().fold(false, |is_changed, sort| plain(&mut sort.expr, schema) | is_changed)
}

/// Replaces a key that is a float or holds some; whether it was.
fn plain(key: &mut Expr, schema: &DFSchema) -> bool {
    let is_plain = matches!(key, Expr::ScalarFunction(call) if call.func.inner().is::<PlainZero>());
    let is_float =
        !is_plain && key.get_type(schema).is_ok_and(|ty| holds(&ty, &DataType::is_floating));
    if is_float {
        let function = Arc::new(ScalarUDF::from(PlainZero::new()));
        let args = vec![std::mem::take(key)];
        *key = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
    }
    is_float
}

/// The functions that this puts in, as another node finds them, by their names.
pub fn sent() -> Vec<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    vec![ScalarUDF::from(PlainZero::new()), ScalarUDF::from(EqualWithin { signature })]
}

/// A float or what holds some, with 0.0 for -0.0.
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
        let plain = Field::new(self.name(), field.data_type().clone(), field.is_nullable());
        Ok(Arc::new(plain.with_metadata(field.metadata().clone())))
    }

    /// What is in order stays so; two values may become one.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("plain_zero takes one float");
        };
        plain_value(value)
    }
}

fn plain_value(value: &ColumnarValue) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(plain_of(array)?),
        ColumnarValue::Scalar(scalar) => {
            let array = plain_of(&scalar.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        }
    })
}

/// The values of an array, with 0.0 for each -0.0 in them.
fn plain_of(array: &ArrayRef) -> Result<ArrayRef> {
    // -0.0 + 0.0 is 0.0; NaN keeps its bits in sorts, which know but one.
    Ok(match array.data_type() {
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
        DataType::List(_) => {
            let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(field, offsets, plain_of(&values)?, nulls)?)
        }
        DataType::Map(..) => {
            let (field, offsets, entries, nulls, sorted) = array.as_map().clone().into_parts();
            let entries = plain_fields(&entries)?;
            Arc::new(MapArray::try_new(field, offsets, entries, nulls, sorted)?)
        }
        DataType::Struct(_) => Arc::new(plain_fields(array.as_struct())?),
        DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            let list = cast(array, &DataType::List(Arc::clone(field)))?;
            cast(&plain_of(&list)?, array.data_type())?
        }
        _ => Arc::clone(array),
    })
}

fn plain_fields(fields: &StructArray) -> Result<StructArray> {
    let columns = fields.columns().iter().map(plain_of).collect::<Result<_>>()?;
    Ok(StructArray::try_new(fields.fields().clone(), columns, fields.nulls().cloned())?)
}

/// Whether two values that hold floats are equal.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EqualWithin {
    signature: Signature,
}

impl ScalarUDFImpl for EqualWithin {
    fn name(&self) -> &str {
        EQUAL_WITHIN
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} = {}", left.schema_name(), right.schema_name())),
            _ => internal_err!("{EQUAL_WITHIN} takes two values"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[..] {
            [left, right] => apply_cmp(Operator::Eq, &plain_value(left)?, &plain_value(right)?),
            _ => internal_err!("{EQUAL_WITHIN} takes two values"),
        }
    }
}
