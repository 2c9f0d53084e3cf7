//! Functions that look for a number in a list: `array_has(doubles, 0.5)`.
//!
//! A number with a point is a decimal, and DataFusion 55.2 finds no type that a decimal and doubles
//! have in common, nor two decimals of other digits. Here both have one before the function sees
//! them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef,
};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

/// The functions whose second argument is sought in the first.
const NAMES: [&str; 6] = [
    "array_has",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_append",
];

/// Those of `functions` that seek, with arguments of one width.
pub fn widened<'a>(functions: impl Iterator<Item = &'a Arc<ScalarUDF>>) -> Vec<ScalarUDF> {
    let mut found: Vec<_> =
        functions.filter(|function| NAMES.contains(&function.name())).cloned().collect();
    found.sort_by(|a, b| a.name().cmp(b.name()));
    // A registry has a function once for each of its names.
    found.dedup_by(|a, b| a.name() == b.name());
    let signature = || Signature::user_defined(Volatility::Immutable);
    found
        .into_iter()
        .map(|inner| ScalarUDF::from(Seeking { inner, signature: signature() }))
        .collect()
}

/// The type in which the elements of a list and a number are compared; `None` where DataFusion
/// knows one.
fn common(element: &DataType, sought: &DataType) -> Option<DataType> {
    if element.is_floating() && sought.is_decimal() {
        return Some(element.clone());
    }
    if !element.is_decimal() || element == sought {
        return None;
    }
    if sought.is_floating() {
        return Some(DataType::Float64);
    }
    let ((own_whole, own_scale), (whole, scale)) = (digits(element)?, digits(sought)?);
    let scale = own_scale.max(scale);
    let precision = u8::try_from(own_whole.max(whole) + i16::from(scale)).ok()?;
    if precision <= DECIMAL128_MAX_PRECISION {
        return Some(DataType::Decimal128(precision, scale));
    }
    (precision <= DECIMAL256_MAX_PRECISION).then_some(DataType::Decimal256(precision, scale))
}

/// Digits before the point of an exact number, and behind it.
fn digits(ty: &DataType) -> Option<(i16, i8)> {
    Some(match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (i16::from(*precision) - i16::from(*scale), *scale)
        }
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 | DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Seeking {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Seeking {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let mut types = arg_types.to_vec();
        if let [list, sought, ..] = &mut types[..]
            && let DataType::List(element) = &*list
            && let Some(common) = common(element.data_type(), sought)
        {
            let element = (**element).clone().with_data_type(common.clone());
            (*list, *sought) = (DataType::List(Arc::new(element)), common);
            return Ok(types);
        }
        let field = |ty: DataType| -> FieldRef { Arc::new(Field::new("argument", ty, true)) };
        let fields: Vec<FieldRef> = types.into_iter().map(field).collect();
        let fields = fields_with_udf(&fields, &*self.inner)?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sought_in_a_type_that_loses_no_digit_of_either() {
        use DataType::{Decimal128 as D, Decimal256 as W, Float32, Float64, Int8, Int64, Utf8};
        for (element, sought, wanted) in [
            (Float64, D(2, 1), Some(Float64)),
            (Float32, D(2, 1), Some(Float32)),
            (Float64, W(60, 1), Some(Float64)),
            (D(5, 2), Float32, Some(Float64)),
            (D(5, 2), Float64, Some(Float64)),
            (D(5, 2), D(4, 3), Some(D(6, 3))),
            (D(4, 3), D(5, 2), Some(D(6, 3))),
            (D(5, 2), D(3, 2), Some(D(5, 2))),
            (D(5, 2), Int8, Some(D(5, 2))),
            (D(4, 2), Int8, Some(D(5, 2))),
            (D(5, 2), Int64, Some(D(22, 2))),
            // The last that fits a width, and the first that does not.
            (D(20, 0), D(18, 18), Some(D(38, 18))),
            (D(21, 0), D(18, 18), Some(W(39, 18))),
            (D(38, 0), D(38, 38), Some(W(76, 38))),
            (W(76, 0), D(2, 1), None),
            // DataFusion knows these.
            (D(5, 2), D(5, 2), None),
            (Float64, Int64, None),
            (Int64, D(2, 1), None),
            (D(5, 2), Utf8, None),
        ] {
            assert_eq!(common(&element, &sought), wanted, "{sought} in {element}");
        }
    }
}
