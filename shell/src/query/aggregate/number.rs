//! Sums and averages of integers and decimals, in as many bits as they need.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Decimal256Array, Int64Array,
    PrimitiveArray,
};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type, i256,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};

use super::fold::Fold;

/// Type of a sum on its way: its scale is that of the input, which is not written there.
const SUM_TYPE: DataType = DataType::Decimal256(76, 0);

/// See the head of this file.
#[derive(Debug)]
pub struct Numbers {
    input: DataType,
    output: DataType,
    is_average: bool,
    /// By how many digits the output's scale is above the input's.
    shift: u32,
}

impl Numbers {
    /// `None` where the output is no number of this kind.
    pub fn new(input: &DataType, output: &DataType, is_average: bool) -> Option<Self> {
        let scale = |ty: &DataType| match ty {
            DataType::Int64 | DataType::UInt64 => Some(0),
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => Some(*scale),
            _ => None,
        };
        let shift = match (output, scale(input)?) {
            (DataType::Float64, 0) if is_average => 0,
            (output, scale_of_input) => i32::from(scale(output)?) - i32::from(scale_of_input),
        };
        let shift = u32::try_from(shift).ok()?;
        Some(Numbers { input: input.clone(), output: output.clone(), is_average, shift })
    }

    fn too_great(&self) -> DataFusionError {
        let what = if self.is_average { "an average" } else { "a sum" };
        match &self.output {
            DataType::Int64 | DataType::UInt64 => exec_datafusion_err!(
                "{what} is out of range for bigint: sum(CAST(… AS decimal(38, 0))) holds more"
            ),
            DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
                exec_datafusion_err!("{what} does not fit decimal({precision}, {scale})")
            }
            other => exec_datafusion_err!("{what} does not fit {other}"),
        }
    }

    /// The average of some integers.
    fn double(&self, state: &Sum) -> Result<Option<f64>> {
        if state.count == 0 {
            return Ok(None);
        }
        let average = state.total().and_then(|total| double_average(total, state.count));
        average.map(Some).ok_or_else(|| self.too_great())
    }

    /// The result of some values.
    fn result(&self, state: &Sum) -> Result<Option<i256>> {
        if state.count == 0 {
            return Ok(None);
        }
        let total = state.total().ok_or_else(|| self.too_great())?;
        let result = match self.is_average {
            true => average(total, state.count, self.shift),
            false => ten_to(self.shift).and_then(|power| total.checked_mul(power)),
        };
        let fits = |number: &i256| match &self.output {
            DataType::Int64 => number.to_i128().is_some_and(|n| i64::try_from(n).is_ok()),
            DataType::UInt64 => number.to_i128().is_some_and(|n| u64::try_from(n).is_ok()),
            DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _) => {
                ten_to(u32::from(*precision))
                    .is_none_or(|bound| *number < bound && *number > bound.wrapping_neg())
            }
            _ => false,
        };
        result.filter(fits).map(Some).ok_or_else(|| self.too_great())
    }
}

/// `total / count` with `shift` more digits, rounded half away from zero.
fn average(total: i256, count: i64, shift: u32) -> Option<i256> {
    let count = i256::from_i128(i128::from(count));
    let power = ten_to(shift)?;
    let (whole, rest) = (total.checked_div(count)?, total.checked_rem(count)?);
    // Less than the count, so that nothing is lost here.
    let rest = rest.checked_mul(power)?;
    let (fraction, rest) = (rest.checked_div(count)?, rest.checked_rem(count)?);
    let two = i256::from_i128(2);
    let is_up = rest.wrapping_abs().checked_mul(two)? >= count;
    let up = match (is_up, total < i256::ZERO) {
        (false, _) => i256::ZERO,
        (true, false) => i256::ONE,
        (true, true) => i256::MINUS_ONE,
    };
    whole.checked_mul(power)?.checked_add(fraction)?.checked_add(up)
}

/// `total / count` as a double, for what a double does not hold is far below a half of its last
/// digit; `None` beyond 128 bits, which no sum of 64 bits reaches.
fn double_average(total: i256, count: i64) -> Option<f64> {
    let total = total.to_i128()?;
    let divisor = count as f64;
    if total.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS {
        return Some(total as f64 / divisor);
    }
    let (whole, rest) = (total / i128::from(count), total % i128::from(count));
    Some(whole as f64 + rest as f64 / divisor)
}

/// 10^`exponent`; `None` beyond 256 bits.
fn ten_to(exponent: u32) -> Option<i256> {
    i256::from_i128(10).checked_pow(exponent)
}

/// A number of one of two widths.
pub enum Number {
    Narrow(i128),
    Wide(i256),
}

/// A sum and of how many values. Most fit 128 bits, which are faster.
#[derive(Debug, Clone)]
pub struct Sum {
    low: i128,
    high: i256,
    count: i64,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { low: 0, high: i256::ZERO, count: 0 }
    }
}

impl Sum {
    fn total(&self) -> Option<i256> {
        self.high.checked_add(i256::from_i128(self.low))
    }

    /// Adds; `None` beyond 256 bits.
    fn add(&mut self, number: i128) -> Option<()> {
        match self.low.checked_add(number) {
            Some(sum) => self.low = sum,
            None => {
                self.high = self.total()?;
                self.low = number;
            }
        }
        Some(())
    }

    fn add_wide(&mut self, number: i256) -> Option<()> {
        self.high = self.high.checked_add(number)?;
        Some(())
    }
}

impl Fold for Numbers {
    type Item = Number;
    type State = Sum;
    const SLIDES: bool = true;

    fn items<'a>(&self, array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> Number + 'a>> {
        if *array.data_type() != self.input {
            return internal_err!("{} was to be summed, not {}", self.input, array.data_type());
        }
        Ok(match array.data_type() {
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>();
                Box::new(|row| Number::Narrow(values.value(row).into()))
            }
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>();
                Box::new(|row| Number::Narrow(values.value(row).into()))
            }
            DataType::Decimal128(..) => {
                let values = array.as_primitive::<Decimal128Type>();
                Box::new(|row| Number::Narrow(values.value(row)))
            }
            DataType::Decimal256(..) => {
                let values = array.as_primitive::<Decimal256Type>();
                Box::new(|row| Number::Wide(values.value(row)))
            }
            other => return internal_err!("{other} has no exact sum"),
        })
    }

    fn input_type(&self) -> DataType {
        self.input.clone()
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![SUM_TYPE, DataType::Int64]
    }

    fn add(&self, state: &mut Sum, item: Number) -> Result<()> {
        state.count += 1;
        let added = match item {
            Number::Narrow(number) => state.add(number),
            Number::Wide(number) => state.add_wide(number),
        };
        added.ok_or_else(|| self.too_great())
    }

    fn remove(&self, state: &mut Sum, item: Number) -> Result<()> {
        state.count -= 1;
        // No decimal is the least number of its width, which alone has no opposite.
        let removed = match item {
            Number::Narrow(number) => number.checked_neg().and_then(|number| state.add(number)),
            Number::Wide(number) => state.add_wide(number.wrapping_neg()),
        };
        removed.ok_or_else(|| self.too_great())
    }

    fn merge(&self, state: &mut Sum, other: Sum) -> Result<()> {
        state.count += other.count;
        let merged = state.add(other.low).and_then(|()| state.add_wide(other.high));
        merged.ok_or_else(|| self.too_great())
    }

    fn states(&self, states: Vec<Sum>) -> Result<Vec<ArrayRef>> {
        let totals: Result<Vec<i256>> =
            states.iter().map(|sum| sum.total().ok_or_else(|| self.too_great())).collect();
        let totals = Decimal256Array::from_iter_values(totals?).with_data_type(SUM_TYPE);
        let counts = Int64Array::from_iter_values(states.iter().map(|sum| sum.count));
        Ok(vec![Arc::new(totals), Arc::new(counts)])
    }

    fn read<'a>(&self, arrays: &'a [ArrayRef]) -> Result<Box<dyn Fn(usize) -> Sum + 'a>> {
        let [totals, counts] = arrays else {
            return internal_err!("a sum has two parts, not {}", arrays.len());
        };
        let totals = totals.as_primitive::<Decimal256Type>();
        let counts = counts.as_primitive::<Int64Type>();
        Ok(Box::new(|row| {
            let total = totals.value(row);
            let (low, high) = match total.to_i128() {
                Some(low) => (low, i256::ZERO),
                None => (0, total),
            };
            Sum { low, high, count: counts.value(row) }
        }))
    }

    fn finish(&self, states: Vec<Sum>) -> Result<ArrayRef> {
        if self.output == DataType::Float64 {
            let doubles = states.iter().map(|state| self.double(state));
            return Ok(array::<Float64Type>(doubles.collect::<Result<_>>()?));
        }
        let results: Result<Vec<Option<i256>>> =
            states.iter().map(|state| self.result(state)).collect();
        let results = results?.into_iter();
        let narrow = |number: i256| number.to_i128().unwrap_or_default();
        Ok(match &self.output {
            DataType::Int64 => {
                array::<Int64Type>(results.map(|n| n.map(|n| narrow(n) as i64)).collect())
            }
            DataType::UInt64 => {
                array::<UInt64Type>(results.map(|n| n.map(|n| narrow(n) as u64)).collect())
            }
            DataType::Decimal128(..) => {
                let numbers: Decimal128Array = results.map(|n| n.map(narrow)).collect();
                Arc::new(numbers.with_data_type(self.output.clone()))
            }
            _ => {
                let numbers: Decimal256Array = results.collect();
                Arc::new(numbers.with_data_type(self.output.clone()))
            }
        })
    }
}

fn array<T: ArrowPrimitiveType>(values: Vec<Option<T::Native>>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_rounded_half_away_from_zero() {
        let average = |total: i128, count, shift| {
            average(i256::from_i128(total), count, shift).and_then(|n| n.to_i128())
        };
        assert_eq!(average(2, 3, 4), Some(6667));
        assert_eq!(average(-2, 3, 4), Some(-6667));
        assert_eq!(average(1, 2, 0), Some(1));
        assert_eq!(average(-1, 2, 0), Some(-1));
        assert_eq!(average(1, 3, 0), Some(0));
        assert_eq!(average(7, 1, 2), Some(700));
    }

    #[test]
    fn averages_of_integers_are_those_of_their_exact_sum() {
        let average = |total: i128, count| double_average(i256::from_i128(total), count);
        assert_eq!(average(3, 3), Some(1.0));
        assert_eq!(average(-7, 2), Some(-3.5));
        assert_eq!(average((1 << 53) + 1, 2), Some(4_503_599_627_370_496.5));
        assert_eq!(average(-(1 << 53) - 1, 2), Some(-4_503_599_627_370_496.5));
        assert_eq!(average(i128::from(i64::MAX) * 1000, 1000), Some(9_223_372_036_854_775_807.0));
        assert_eq!(double_average(i256::MAX, 1), None);
    }

    #[test]
    fn a_sum_goes_beyond_128_bits_and_back() {
        let ty = DataType::Decimal128(38, 0);
        let numbers = Numbers::new(&ty, &ty, false).unwrap();
        let mut sum = Sum::default();
        let great = 10i128.pow(38) - 1;
        for _ in 0..5 {
            numbers.add(&mut sum, Number::Narrow(great)).unwrap();
        }
        assert!(numbers.result(&sum).is_err());
        for _ in 0..4 {
            numbers.remove(&mut sum, Number::Narrow(great)).unwrap();
        }
        assert_eq!(numbers.result(&sum).unwrap(), Some(i256::from_i128(great)));
        let arrays = numbers.states(vec![sum]).unwrap();
        let back = numbers.read(&arrays).unwrap()(0);
        assert_eq!(numbers.result(&back).unwrap(), Some(i256::from_i128(great)));
    }
}
