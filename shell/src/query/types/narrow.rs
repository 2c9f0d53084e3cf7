//! Casts to floats that fail instead of giving an infinity: `CAST('1e400' AS double)`,
//! `CAST(1e39 AS float)`.
//!
//! Arrow's casts give the nearest float, and that of a number beyond all floats is infinite. What
//! says that it is infinite stays so.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options, nullif};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

use super::literal::says_infinity;

/// Puts a function of ours in the place of such a cast; goes after operands got a common type.
pub fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, field, is_try) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return Ok(Transformed::no(expr)),
    };
    let to = field.data_type().clone();
    let is_narrow = |from: &DataType| match to {
        DataType::Float64 => from.is_string(),
        DataType::Float32 => {
            from.is_string() || matches!(from, DataType::Float64 | DataType::Decimal256(..))
        }
        _ => false,
    };
    if !to.is_floating() || !is_narrow(&inner.get_type(schema)?) || is_literal_of(inner, &to) {
        return Ok(Transformed::no(expr));
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::from(Narrow { to, is_try, signature }));
    let inner = match expr {
        Expr::Cast(cast) => cast.expr,
        Expr::TryCast(cast) => cast.expr,
        other => Box::new(other),
    };
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))))
}

/// Whether a text is written that is such a float: others look for what is cast.
fn is_literal_of(expr: &Expr, to: &DataType) -> bool {
    let Expr::Literal(scalar, _) = expr else { return false };
    let text = scalar.try_as_str().flatten();
    text.is_some_and(|text| match scalar.cast_to(to) {
        Ok(ScalarValue::Float32(Some(value))) => value.is_finite() || says_infinity(text),
        Ok(ScalarValue::Float64(Some(value))) => value.is_finite() || says_infinity(text),
        _ => false,
    })
}

/// A cast to a float.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Narrow {
    to: DataType,
    /// Whether what does not fit is null.
    is_try: bool,
    signature: Signature,
}

/// The casts as another node finds them, by their names.
pub fn sent() -> Vec<ScalarUDF> {
    let signature = || Signature::any(1, Volatility::Immutable);
    let cast =
        |is_try| ScalarUDF::from(Narrow { to: DataType::Null, is_try, signature: signature() });
    [false, true].map(cast).into()
}

/// Whether a function is one of those, of any type.
pub fn is_sent(function: &ScalarUDF) -> bool {
    function.inner().is::<Narrow>()
}

impl ScalarUDFImpl for Narrow {
    fn name(&self) -> &str {
        if self.is_try { "try_float" } else { "float" }
    }

    /// The planner names a cast after what it casts.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [arg] => Ok(arg.schema_name().to_string()),
            _ => internal_err!("a cast has one argument"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Where another node has planned it, its type came with the expression.
        let to = args.return_field.data_type();
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.cast(array, to)?),
            ColumnarValue::Scalar(scalar) => {
                let array = self.cast(&scalar.to_array()?, to)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}

impl Narrow {
    fn cast(&self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let options = CastOptions { safe: self.is_try, ..CastOptions::default() };
        let floats = cast_with_options(array, to, &options)?;
        let is_infinite = |row: usize| match floats.data_type() {
            DataType::Float32 => floats.as_primitive::<Float32Type>().value(row).is_infinite(),
            _ => floats.as_primitive::<Float64Type>().value(row).is_infinite(),
        };
        let mut too_great = Vec::new();
        for row in (0..floats.len()).filter(|row| floats.is_valid(*row) && is_infinite(*row)) {
            if !says_so(array, row)? {
                too_great.push(row);
            }
        }
        let Some(first) = too_great.first() else { return Ok(floats) };
        if !self.is_try {
            let text = cast(&array.slice(*first, 1), &DataType::Utf8)?;
            let (text, ty) = (text.as_string::<i32>().value(0), type_name(to));
            return exec_err!("'{text}' is out of range for {ty}");
        }
        let is_out = (0..floats.len()).map(|row| too_great.binary_search(&row).is_ok());
        Ok(nullif(&floats, &is_out.collect::<Vec<bool>>().into())?)
    }
}

fn type_name(to: &DataType) -> &'static str {
    if *to == DataType::Float32 { "float" } else { "double" }
}

/// Whether what is cast is infinite itself.
fn says_so(array: &ArrayRef, row: usize) -> Result<bool> {
    Ok(match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).is_infinite(),
        ty if ty.is_string() => {
            let text = cast(&array.slice(row, 1), &DataType::Utf8)?;
            says_infinity(text.as_string::<i32>().value(0))
        }
        _ => false,
    })
}
