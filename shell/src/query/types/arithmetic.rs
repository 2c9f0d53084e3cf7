//! `+`, `-`, `*` of integers and decimals that fail instead of wrapping round, and decimal division
//! that rounds.
//!
//! DataFusion's operators on integers wrap (it has checked ones, but nothing plans them:
//! <https://github.com/apache/datafusion/issues/3520>), decimals may end with more digits than
//! their type has (<https://github.com/apache/datafusion/issues/16406>), and a decimal quotient is
//! cut off. Where the types of the operands leave no room for that the operators stay; elsewhere a
//! function of ours stands in their place, under their names.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, Decimal256Type, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_datafusion_err, internal_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::physical_expr_common::datum::apply;

/// Puts a function of ours in the place of an operator that needs it; goes after operands got a
/// common type.
pub fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let wanted = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(*op) => {
            let types = type_of(left, schema).and_then(|a| {
                let b = type_of(right, schema)?;
                let ty = BinaryTypeCoercer::new(&a, op, &b).get_result_type()?;
                Ok((a, b, ty))
            });
            match types {
                Ok((a, b, ty)) if needs_check(&expr, [&a, &b], &ty, schema) => Some((*op, ty)),
                _ => None,
            }
        }
        // The least integer has no opposite.
        Expr::Negative(inner) => match type_of(inner, schema) {
            Ok(ty) if ty.is_signed_integer() && !fits(magnitude(inner, schema), &ty) => {
                Some((Operator::Minus, ty))
            }
            _ => None,
        },
        _ => None,
    };
    let Some((op, ty)) = wanted else { return Ok(Transformed::no(expr)) };
    let args = match expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => vec![*left, *right],
        Expr::Negative(inner) => vec![lit(ScalarValue::new_zero(&ty)?), *inner],
        other => return Ok(Transformed::no(other)),
    };
    let function = Arc::new(ScalarUDF::from(Checked::new(op, ty, &args)));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
}

/// The operators as another node finds them, by their names.
pub fn sent() -> Vec<ScalarUDF> {
    let operators = [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide];
    let checked = |op| ScalarUDF::from(Checked::new(op, DataType::Null, &[]));
    operators.into_iter().map(checked).collect()
}

/// Whether a function is one of those, of any type.
pub fn is_sent(function: &ScalarUDF) -> bool {
    function.inner().is::<Checked>()
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
}

/// The type of an expression; that of an operator of ours without a look at what is below it.
fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    match Checked::of(expr) {
        Some(checked) => Ok(checked.ty.clone()),
        None => expr.get_type(schema),
    }
}

/// Whether an operator of such operands could give what its type does not hold.
fn needs_check(expr: &Expr, operands: [&DataType; 2], ty: &DataType, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { op, .. }) = expr else { return false };
    match ty {
        DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _) => {
            let is_full = *precision == full_precision(ty);
            operands.iter().all(|ty| ty.is_decimal()) && (is_full || *op == Operator::Divide)
        }
        ty if ty.is_integer() => {
            let all_integers = operands.iter().all(|ty| ty.is_integer());
            // A quotient of integers is checked by DataFusion.
            all_integers && *op != Operator::Divide && !fits(magnitude(expr, schema), ty)
        }
        _ => false,
    }
}

fn full_precision(ty: &DataType) -> u8 {
    if matches!(ty, DataType::Decimal256(..)) { 76 } else { 38 }
}

/// Whether every integer up to 2^`bits` and its opposite are of the type; unsigned types hold no
/// opposites.
fn fits(bits: u32, ty: &DataType) -> bool {
    ty.is_signed_integer() && bits < width(ty) - 1
}

fn width(ty: &DataType) -> u32 {
    match ty {
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 => 32,
        _ => 64,
    }
}

/// A number n such that no value of an integer expression is beyond ±2^n.
fn magnitude(expr: &Expr, schema: &DFSchema) -> u32 {
    let of_type = |ty: &DataType| if ty.is_signed_integer() { width(ty) - 1 } else { width(ty) };
    match expr {
        Expr::Literal(scalar, _) => match scalar.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(value))) => {
                u64::BITS - value.unsigned_abs().saturating_sub(1).leading_zeros()
            }
            _ => 64,
        },
        Expr::Cast(cast) if cast.field.data_type().is_integer() => {
            let of_target = of_type(cast.field.data_type());
            of_target.min(magnitude(&cast.expr, schema))
        }
        Expr::Alias(alias) => magnitude(&alias.expr, schema),
        Expr::Negative(inner) => magnitude(inner, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (magnitude(left, schema), magnitude(right, schema));
            match op {
                Operator::Plus | Operator::Minus => left.max(right) + 1,
                Operator::Multiply => left + right,
                Operator::Modulo => right,
                Operator::Divide => left,
                _ => 64,
            }
        }
        other => match type_of(other, schema) {
            Ok(ty) if ty.is_integer() => of_type(&ty),
            _ => 64,
        },
    }
}

/// Expressions with more operators than this are named by a hash.
const NAMED_OPERATORS_MAX: usize = 32;

/// An operator that gives a value of its type or an error.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    op: Operator,
    ty: DataType,
    signature: Signature,
    /// Operators of ours in the expression when it was made, this one included.
    operators: usize,
    /// A hash of the expression when it was made. The planner asks every level of a chain for its
    /// name; where each wrote or hashed all below, a thousand additions would take minutes.
    digest: u64,
}

impl Checked {
    fn new(op: Operator, ty: DataType, args: &[Expr]) -> Self {
        let mut hasher = DefaultHasher::new();
        op.hash(&mut hasher);
        let mut operators = 1;
        for arg in args {
            match Checked::of(arg) {
                Some(inner) => {
                    inner.digest.hash(&mut hasher);
                    operators += inner.operators;
                }
                None => arg.hash(&mut hasher),
            }
        }
        let signature = Signature::any(2, Volatility::Immutable);
        Checked { op, ty, signature, operators, digest: hasher.finish() }
    }

    /// The operator of ours that an expression is, if it is one.
    fn of(expr: &Expr) -> Option<&Checked> {
        match expr {
            Expr::ScalarFunction(call) => call.func.inner().downcast_ref(),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.op {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_subtract",
            Operator::Multiply => "checked_multiply",
            _ => "rounded_divide",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        if self.operators > NAMED_OPERATORS_MAX {
            return Ok(format!("… {} … #{:016x}", self.op, self.digest));
        }
        Ok(format!("{} {} {}", args[0].schema_name(), self.op, args[1].schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Where another node has planned it, its type came with the expression.
        let ty = args.return_field.data_type();
        let (left, right) = (&args.args[0], &args.args[1]);
        let value = match self.op {
            Operator::Plus => apply(left, right, numeric::add)?,
            Operator::Minus => apply(left, right, numeric::sub)?,
            Operator::Multiply => apply(left, right, numeric::mul)?,
            _ => {
                let array = |value: &ColumnarValue| value.to_array(args.number_rows);
                ColumnarValue::Array(divide(&array(left)?, &array(right)?, ty)?)
            }
        };
        if ty.is_decimal() {
            check_digits(&value.to_array(args.number_rows)?, ty)?;
        }
        Ok(value)
    }
}

/// Errors: `Execution` for a number with more digits than its type has.
fn check_digits(array: &ArrayRef, ty: &DataType) -> Result<()> {
    let fits = match (array.data_type(), ty) {
        (DataType::Decimal128(..), DataType::Decimal128(precision, _)) => {
            let bound = 10i128.pow(u32::from(*precision));
            let values = array.as_primitive::<Decimal128Type>();
            values.iter().flatten().all(|value| value < bound && value > -bound)
        }
        (DataType::Decimal256(..), DataType::Decimal256(precision, _)) => {
            let bound = i256::from_i128(10).checked_pow(u32::from(*precision));
            let values = array.as_primitive::<Decimal256Type>();
            values.iter().flatten().all(|value| {
                bound.is_none_or(|bound| value < bound && value > bound.wrapping_neg())
            })
        }
        (found, wanted) => return internal_err!("{found} was computed, not {wanted}"),
    };
    if fits { Ok(()) } else { Err(too_great(ty)) }
}

fn too_great(ty: &DataType) -> datafusion::common::DataFusionError {
    let name = match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            format!("decimal({precision}, {scale})")
        }
        other => other.to_string(),
    };
    exec_datafusion_err!("a number is out of range for {name}: cast the operands to fewer digits")
}

/// Quotients of decimals, rounded half away from zero.
fn divide(left: &ArrayRef, right: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let scale = |ty: &DataType| match ty {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => i32::from(*scale),
        _ => 0,
    };
    let shift = scale(ty) + scale(right.data_type()) - scale(left.data_type());
    let (left, right) = (wide(left)?, wide(right)?);
    let quotients: Result<Vec<Option<i256>>> = left
        .into_iter()
        .zip(right)
        .map(|(left, right)| {
            let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
            if right == i256::ZERO {
                return Err(ArrowError::DivideByZero.into());
            }
            quotient(left, right, shift).map(Some).ok_or_else(|| too_great(ty))
        })
        .collect();
    Ok(match ty {
        DataType::Decimal128(..) => {
            let narrow = |number: i256| number.to_i128().ok_or_else(|| too_great(ty));
            let numbers: Result<Decimal128Array> =
                quotients?.into_iter().map(|number| number.map(narrow).transpose()).collect();
            Arc::new(numbers?.with_data_type(ty.clone()))
        }
        _ => {
            let numbers: Decimal256Array = quotients?.into_iter().collect();
            Arc::new(numbers.with_data_type(ty.clone()))
        }
    })
}

fn wide(array: &ArrayRef) -> Result<Vec<Option<i256>>> {
    Ok(match array.data_type() {
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>();
            values.iter().map(|value| value.map(i256::from_i128)).collect()
        }
        DataType::Decimal256(..) => array.as_primitive::<Decimal256Type>().iter().collect(),
        other => return internal_err!("{other} is no decimal"),
    })
}

/// `left * 10^shift / right`, rounded half away from zero; `None` beyond 256 bits.
fn quotient(left: i256, right: i256, shift: i32) -> Option<i256> {
    let ten = i256::from_i128(10);
    let mut right = right;
    if shift < 0 {
        right = right.mul_checked(ten.checked_pow(shift.unsigned_abs())?).ok()?;
    }
    let (mut whole, mut rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    for _ in 0..shift.max(0) {
        let next = rest.checked_mul(ten)?;
        whole = whole.checked_mul(ten)?.checked_add(next.checked_div(right)?)?;
        rest = next.checked_rem(right)?;
    }
    let is_up = rest.wrapping_abs().checked_mul(i256::from_i128(2))? >= right.wrapping_abs();
    let is_negative = (left < i256::ZERO) != (right < i256::ZERO);
    match (is_up, is_negative) {
        (false, _) => Some(whole),
        (true, false) => whole.checked_add(i256::ONE),
        (true, true) => whole.checked_sub(i256::ONE),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::col;

    use super::*;

    /// The name of a chain of so many operators: `first` of two columns, then additions.
    fn named(first: Operator, columns: [&str; 2], operators: usize) -> String {
        let mut expr = col(columns[0]);
        for number in 0..operators {
            let op = if number == 0 { first } else { Operator::Plus };
            let args = vec![expr, col(columns[1])];
            let function = ScalarUDF::from(Checked::new(op, DataType::Int64, &args));
            expr = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args));
        }
        expr.schema_name().to_string()
    }

    #[test]
    fn what_is_computed_differently_has_a_name_of_its_own() {
        assert_eq!(named(Operator::Minus, ["a", "b"], 2), "a - b + b");
        let most = NAMED_OPERATORS_MAX;
        let spelled = format!("a * b{}", " + b".repeat(most - 1));
        assert_eq!(named(Operator::Multiply, ["a", "b"], most), spelled);
        // Longer ones differ deep below, where their names do not reach.
        let long = |first, columns| named(first, columns, most + 8);
        let names = [
            long(Operator::Plus, ["a", "b"]),
            long(Operator::Minus, ["a", "b"]),
            long(Operator::Multiply, ["a", "b"]),
            long(Operator::Plus, ["b", "b"]),
            named(Operator::Plus, ["a", "b"], most + 9),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(name.starts_with("… + … #"), "{name}");
            assert!(!names[..at].contains(name), "{name} is two");
        }
        assert_eq!(names[0], long(Operator::Plus, ["a", "b"]));
    }

    #[test]
    fn quotients_are_rounded() {
        let quotient = |left: i128, right: i128, shift| {
            quotient(i256::from_i128(left), i256::from_i128(right), shift)?.to_i128()
        };
        assert_eq!(quotient(2, 3, 4), Some(6667));
        assert_eq!(quotient(-2, 3, 4), Some(-6667));
        assert_eq!(quotient(2, -3, 0), Some(-1));
        assert_eq!(quotient(1, 3, 0), Some(0));
        assert_eq!(quotient(15, 1, -1), Some(2));
        assert_eq!(quotient(1, 2, 0), Some(1));
        assert_eq!(quotient(10i128.pow(37), 10i128.pow(37), 38), Some(10i128.pow(38)));
        assert_eq!(quotient(10i128.pow(38), 7, 76), None);
    }
}
