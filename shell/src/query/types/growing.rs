//! Functions such as `repeat`, whose value can be many times as long as their arguments: the size
//! is computed before the value.
//!
//! DataFusion builds the value and takes the process down. A value takes at most [`VALUE_BYTES`],
//! the values of one call at most half of the memory of queries.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, StringViewArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// Most bytes of one value that is computed.
pub const VALUE_BYTES: u64 = 64 << 20;
/// The functions that are guarded.
const NAMES: [&str; 8] = [
    "repeat",
    "lpad",
    "rpad",
    "replace",
    "array_repeat",
    "array_resize",
    "range",
    "generate_series",
];

const NANOS_OF_DAY: i128 = 86_400_000_000_000;
/// Of the shortest month.
const DAYS_OF_MONTH: i128 = 28;

/// Whether a function of this name is guarded.
pub fn is_growing(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Those of `functions` that grow, guarded; a call makes `call_bytes` at most.
pub fn guarded<'a>(
    functions: impl Iterator<Item = &'a Arc<ScalarUDF>>,
    call_bytes: u64,
) -> Vec<ScalarUDF> {
    let mut found: Vec<_> =
        functions.filter(|function| is_growing(function.name())).cloned().collect();
    found.sort_by(|a, b| a.name().cmp(b.name()));
    // A registry has a function once for each of its names.
    found.dedup_by(|a, b| a.name() == b.name());
    found.into_iter().map(|inner| ScalarUDF::from(Guarded { inner, call_bytes })).collect()
}

/// A function that counts before it makes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Guarded {
    inner: Arc<ScalarUDF>,
    call_bytes: u64,
}

impl Guarded {
    /// Errors: the call would make more than it may.
    fn check(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let args: Result<Vec<Argument>> =
            args.args.iter().map(Argument::new).collect::<Result<_>>();
        let args = args?;
        let (mut whole, rows) = (0_u64, args.iter().map(Argument::rows).max().unwrap_or(1));
        for row in 0..rows {
            let bytes = value_bytes(self.name(), &args, row).unwrap_or(0);
            if bytes > VALUE_BYTES {
                return Err(exec_datafusion_err!(
                    "{}() would make a value of {bytes} bytes; a value that is computed has at \
                     most {VALUE_BYTES}",
                    self.name()
                ));
            }
            whole += bytes;
        }
        if whole > self.call_bytes {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{}() would make {whole} bytes for {rows} rows at once; half of that memory is {}",
                self.name(),
                self.call_bytes
            )));
        }
        Ok(())
    }
}

/// An argument, one value for all rows or one for each.
struct Argument {
    values: ArrayRef,
    is_constant: bool,
}

impl Argument {
    fn new(value: &ColumnarValue) -> Result<Argument> {
        Ok(match value {
            ColumnarValue::Array(values) => {
                Argument { values: Arc::clone(values), is_constant: false }
            }
            ColumnarValue::Scalar(value) => {
                Argument { values: value.to_array()?, is_constant: true }
            }
        }
        .readable())
    }

    /// Text as views and whole numbers as bigints; others as they are.
    fn readable(self) -> Argument {
        let ty = match self.values.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            ty if ty.is_integer() => DataType::Int64,
            _ => return self,
        };
        match cast(&self.values, &ty) {
            Ok(values) => Argument { values, ..self },
            Err(_) => self,
        }
    }

    fn rows(&self) -> usize {
        if self.is_constant { 1 } else { self.values.len() }
    }

    fn at(&self, row: usize) -> Option<usize> {
        let row = if self.is_constant { 0 } else { row };
        self.values.is_valid(row).then_some(row)
    }

    fn text(&self, row: usize) -> Option<&str> {
        let values: &StringViewArray = self.values.as_any().downcast_ref()?;
        self.at(row).map(|row| values.value(row))
    }

    fn number(&self, row: usize) -> Option<i64> {
        let values: &Int64Array = self.values.as_any().downcast_ref()?;
        self.at(row).map(|row| values.value(row))
    }

    /// About how many bytes a value has.
    fn bytes(&self, row: usize) -> u64 {
        match self.at(row) {
            Some(row) => ScalarValue::try_from_array(&self.values, row)
                .map_or(0, |value| value.size() as u64),
            None => 0,
        }
    }

    /// A moment as nanoseconds; days are moments too.
    fn nanos(&self, row: usize) -> Option<i128> {
        let row = self.at(row)?;
        let number = cast(&self.values, &DataType::Int64)
            .ok()
            .or_else(|| cast(&cast(&self.values, &DataType::Int32).ok()?, &DataType::Int64).ok())?;
        let number: &Int64Array = number.as_primitive_opt()?;
        let unit: i128 = match self.values.data_type() {
            DataType::Date32 => NANOS_OF_DAY,
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
            _ => return None,
        };
        Some(i128::from(number.value(row)) * unit)
    }

    /// The least that an interval can be, in nanoseconds, without its sign.
    fn interval(&self, row: usize) -> Option<i128> {
        let values: &IntervalMonthDayNanoArray = self.values.as_any().downcast_ref()?;
        let value = values.value(self.at(row)?);
        let days = i128::from(value.months) * DAYS_OF_MONTH + i128::from(value.days);
        Some((days * NANOS_OF_DAY + i128::from(value.nanoseconds)).abs())
    }
}

/// How many bytes the value of `row` takes, at most or about; `None` where nothing grows.
fn value_bytes(name: &str, args: &[Argument], row: usize) -> Option<u64> {
    let count = |n: usize| Some(u64::try_from(args.get(n)?.number(row)?).unwrap_or(0));
    match name {
        "repeat" => Some((args[0].text(row)?.len() as u64).saturating_mul(count(1)?)),
        "lpad" | "rpad" => {
            // A length is one of characters.
            let fill = args.get(2).and_then(|fill| fill.text(row)).unwrap_or(" ");
            let widest = fill.chars().map(char::len_utf8).max().unwrap_or(0) as u64;
            Some(count(1)?.saturating_mul(widest))
        }
        "replace" => {
            let (text, from, to) = (args[0].text(row)?, args[1].text(row)?, args[2].text(row)?);
            // Only what becomes longer can grow.
            let longer = to.len().checked_sub(from.len()).filter(|longer| *longer > 0)?;
            Some((text.len() + text.matches(from).count() * longer) as u64)
        }
        "array_repeat" => Some(args[0].bytes(row).saturating_mul(count(1)?)),
        "array_resize" => {
            let fill = args.get(2).map_or(8, |fill| fill.bytes(row));
            Some(fill.max(1).saturating_mul(count(1)?))
        }
        _ => Some(steps(args, row)?.saturating_mul(8)),
    }
}

/// How many values a range has.
fn steps(args: &[Argument], row: usize) -> Option<u64> {
    let (span, step) = match args {
        [stop] => (i128::from(stop.number(row)?), 1),
        [start, stop, rest @ ..] => match (start.number(row), stop.number(row)) {
            (Some(start), Some(stop)) => {
                let step = rest.first().map_or(Some(1), |step| step.number(row))?;
                (i128::from(stop) - i128::from(start), i128::from(step).abs())
            }
            _ => (stop.nanos(row)? - start.nanos(row)?, rest.first()?.interval(row)?),
        },
        [] => return None,
    };
    // A step of zero is the function's own error.
    let steps = span.abs().checked_div(step)?;
    Some(u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1))
}

impl ScalarUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args)?;
        self.inner.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::IntervalMonthDayNano;

    use super::*;

    fn bytes(name: &str, values: &[ScalarValue], row: usize) -> Option<u64> {
        let argument = |value: &ScalarValue| Argument::new(&ColumnarValue::Scalar(value.clone()));
        let args: Vec<Argument> = values.iter().map(|value| argument(value).unwrap()).collect();
        value_bytes(name, &args, row)
    }

    fn text(text: &str) -> ScalarValue {
        ScalarValue::from(text)
    }

    fn number(number: i64) -> ScalarValue {
        ScalarValue::Int64(Some(number))
    }

    #[test]
    fn what_becomes_of_a_text_is_counted_before_it_is_made() {
        let (none, no_text) = (ScalarValue::Int64(None), ScalarValue::Utf8(None));
        for (name, args, wanted) in [
            ("repeat", vec![text("añ"), number(3)], Some(9)),
            ("repeat", vec![text("añ"), number(0)], Some(0)),
            ("repeat", vec![text("añ"), number(-1)], Some(0)),
            ("repeat", vec![text("añ"), number(i64::MAX)], Some(u64::MAX)),
            ("repeat", vec![text("a"), none.clone()], None),
            ("repeat", vec![no_text.clone(), number(3)], None),
            ("repeat", vec![text("a"), ScalarValue::Int32(Some(5))], Some(5)),
            ("repeat", vec![ScalarValue::Utf8View(Some("ab".into())), number(2)], Some(4)),
            ("lpad", vec![text("x"), number(5)], Some(5)),
            ("rpad", vec![text("x"), number(5)], Some(5)),
            ("lpad", vec![text("x"), number(5), text("aé")], Some(10)),
            ("rpad", vec![text("x"), number(5), text("€a")], Some(15)),
            ("rpad", vec![text("x"), number(-5), text("€a")], Some(0)),
            ("replace", vec![text("aXbX"), text("X"), text("YYY")], Some(8)),
            ("replace", vec![text("ab"), text("X"), text("YYY")], Some(2)),
            ("replace", vec![text("ab"), text(""), text("YY")], Some(8)),
            // These do not grow.
            ("replace", vec![text("aXbX"), text("X"), text("Y")], None),
            ("replace", vec![text("aXbX"), text("bX"), text("")], None),
            ("replace", vec![no_text, text("X"), text("YY")], None),
            ("array_resize", vec![none.clone(), number(10)], Some(80)),
            ("array_resize", vec![none.clone(), number(10), none.clone()], Some(10)),
            ("array_repeat", vec![none, number(10)], Some(0)),
        ] {
            assert_eq!(bytes(name, &args, 0), wanted, "{name} of {args:?}");
            // What is constant is so in each row.
            assert_eq!(bytes(name, &args, 5), wanted, "{name} of {args:?}");
        }
    }

    #[test]
    fn the_values_of_a_range_are_counted_in_either_direction_and_every_unit() {
        const DAY: i64 = 86_400_000_000_000;
        let every = |months, days, nanoseconds| {
            let interval = IntervalMonthDayNano::new(months, days, nanoseconds);
            ScalarValue::IntervalMonthDayNano(Some(interval))
        };
        let date = |days| ScalarValue::Date32(Some(days));
        let millis = |at| ScalarValue::TimestampMillisecond(Some(at), None);
        for (args, wanted) in [
            (vec![number(10)], Some(11)),
            (vec![number(1), number(10)], Some(10)),
            (vec![number(1), number(10), number(3)], Some(4)),
            (vec![number(1), number(10), number(4)], Some(3)),
            (vec![number(10), number(1), number(-3)], Some(4)),
            (vec![number(5), number(5)], Some(1)),
            (vec![number(1), number(10), number(0)], None),
            (vec![number(1), number(10), ScalarValue::Int64(None)], None),
            (vec![ScalarValue::Int64(None), number(10)], None),
            (vec![date(-3), date(7), every(0, 1, 0)], Some(11)),
            (vec![date(7), date(-3), every(0, -1, 0)], Some(11)),
            // A month has 28 days at least.
            (vec![date(0), date(280), every(1, 0, 0)], Some(11)),
            (vec![date(0), date(290), every(1, 1, 0)], Some(11)),
            (vec![date(0), date(1), every(0, 0, DAY / 24)], Some(25)),
            (vec![date(0), date(1), every(0, 0, 0)], None),
            (vec![millis(0), millis(10_000), every(0, 0, 1_000_000_000)], Some(11)),
            (
                vec![
                    ScalarValue::TimestampSecond(Some(-5), None),
                    ScalarValue::TimestampMicrosecond(Some(5_000_000), None),
                    every(0, 0, 1_000_000_000),
                ],
                Some(11),
            ),
            (
                vec![
                    ScalarValue::TimestampNanosecond(Some(0), None),
                    ScalarValue::TimestampNanosecond(Some(10), None),
                    every(0, 0, 1),
                ],
                Some(11),
            ),
            (vec![], None),
        ] {
            for name in ["range", "generate_series"] {
                let wanted = wanted.map(|values: u64| 8 * values);
                assert_eq!(bytes(name, &args, 0), wanted, "{name} of {args:?}");
            }
        }
        let all = [number(i64::MIN), number(i64::MAX)];
        assert_eq!(bytes("range", &all, 0), Some(u64::MAX));
    }
}
