//! Sums, averages and spreads of doubles in frames that move.
//!
//! DataFusion 55.2 takes a value that leaves a frame off the sum (`SlidingSumAccumulator`,
//! `AvgAccumulator::retract_batch`). What a great value has swallowed stays lost, and an infinity
//! less itself is NaN. Here nothing is taken off: a frame has two parts, of which the older one
//! keeps the sum of what remains after each value that may leave. Variances and their like are
//! taken back in the same way there, and keep a state here instead of a sum.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::PhysicalExpr;

/// See the head of this file. Each value is added twice, however wide the frame is.
#[derive(Debug, Default)]
pub struct MovingDoubles {
    is_average: bool,
    /// Sums of the older values from one on; the last is that of all of them, and leaves first.
    older: Vec<f64>,
    newer: Vec<f64>,
    sum_of_newer: f64,
}

impl MovingDoubles {
    pub fn new(is_average: bool) -> Self {
        MovingDoubles { is_average, ..MovingDoubles::default() }
    }

    fn leave(&mut self) -> Result<()> {
        if self.older.is_empty() {
            let mut sum = 0.0;
            while let Some(value) = self.newer.pop() {
                sum += value;
                self.older.push(sum);
            }
            self.sum_of_newer = 0.0;
        }
        match self.older.pop() {
            Some(_) => Ok(()),
            None => internal_err!("a value leaves a frame it is not in"),
        }
    }
}

fn doubles(array: &ArrayRef) -> Result<&PrimitiveArray<Float64Type>> {
    match array.as_primitive_opt() {
        Some(doubles) => Ok(doubles),
        None => internal_err!("{} was to be summed, not {}", DataType::Float64, array.data_type()),
    }
}

impl Accumulator for MovingDoubles {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in doubles(&values[0])?.iter().flatten() {
            self.newer.push(value);
            self.sum_of_newer += value;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // Values leave in the order in which they came.
        let count = values[0].len() - values[0].null_count();
        (0..count).try_for_each(|_| self.leave())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.older.len() + self.newer.len();
        let sum = self.older.last().copied().unwrap_or_default() + self.sum_of_newer;
        let result = if self.is_average { sum / count as f64 } else { sum };
        Ok(ScalarValue::Float64((count > 0).then_some(result)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame that moves has one accumulator")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame that moves has one accumulator")
    }
}

/// Functions that keep what they know of some values in a state; see the head of this file.
#[derive(Debug)]
pub struct MovingStates {
    fresh: Fresh,
    /// States of the older rows from one on; the last is that of all of them, and leaves first.
    older: Vec<Vec<ScalarValue>>,
    /// The arguments of each newer row.
    newer: Vec<Vec<ScalarValue>>,
    of_newer: Box<dyn Accumulator>,
}

/// What makes an accumulator of no values.
#[derive(Debug)]
struct Fresh {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Fresh {
    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

impl MovingStates {
    pub fn new(function: &Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Result<Self> {
        let fresh = Fresh {
            function: Arc::clone(function),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            name: args.name.to_owned(),
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        };
        let of_newer = fresh.accumulator()?;
        Ok(MovingStates { fresh, older: Vec::new(), newer: Vec::new(), of_newer })
    }

    fn leave(&mut self) -> Result<()> {
        if self.older.is_empty() {
            let mut state = self.fresh.accumulator()?;
            while let Some(row) = self.newer.pop() {
                state.update_batch(&arrays(&row)?)?;
                self.older.push(state.state()?);
            }
            self.of_newer = self.fresh.accumulator()?;
        }
        match self.older.pop() {
            Some(_) => Ok(()),
            None => internal_err!("a row leaves a frame it is not in"),
        }
    }
}

/// Each value as an array of its own.
fn arrays(values: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
    values.iter().map(ScalarValue::to_array).collect()
}

impl Accumulator for MovingStates {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values.first().map_or(0, |values| values.len()) {
            let value = |array: &ArrayRef| ScalarValue::try_from_array(array, row);
            self.newer.push(values.iter().map(value).collect::<Result<_>>()?);
        }
        self.of_newer.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // Rows leave in the order in which they came.
        let count = values.first().map_or(0, |values| values.len());
        (0..count).try_for_each(|_| self.leave())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut all = self.fresh.accumulator()?;
        if let Some(state) = self.older.last() {
            all.merge_batch(&arrays(state)?)?;
        }
        if !self.newer.is_empty() {
            all.merge_batch(&arrays(&self.of_newer.state()?)?)?;
        }
        all.evaluate()
    }

    fn size(&self) -> usize {
        // States and rows have at most so many values.
        const VALUES: usize = 6;
        let rows = self.older.capacity() + self.newer.capacity();
        size_of_val(self)
            + rows * (size_of::<Vec<ScalarValue>>() + VALUES * size_of::<ScalarValue>())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame that moves has one accumulator")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame that moves has one accumulator")
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    /// Frames grow, stand and shrink by several rows at once, with nulls and down to none.
    #[test]
    fn a_moving_sum_is_that_of_the_values_that_are_left() {
        let values: Vec<Option<f64>> =
            (0..40).map(|row| (row % 5 != 3).then(|| f64::from(row * row % 17 - 8))).collect();
        let array = Arc::new(Float64Array::from(values.clone())) as ArrayRef;
        for (added, taken) in [(1, 1), (1, 2), (2, 1), (3, 2), (5, 5), (7, 3), (3, 7)] {
            for is_average in [false, true] {
                let mut moving = MovingDoubles::new(is_average);
                let (mut from, mut to) = (0, 0);
                while from < values.len() {
                    let more = added.min(values.len() - to);
                    moving.update_batch(&[array.slice(to, more)]).unwrap();
                    to += more;
                    // Every fourth time nothing leaves.
                    let less = if to % 4 == 0 && more > 0 { 0 } else { taken.min(to - from) };
                    moving.retract_batch(&[array.slice(from, less)]).unwrap();
                    from += less;
                    let frame: Vec<f64> = values[from..to].iter().copied().flatten().collect();
                    let sum: f64 = frame.iter().sum();
                    let result = if is_average { sum / frame.len() as f64 } else { sum };
                    let wanted = (!frame.is_empty()).then_some(result);
                    let found = moving.evaluate().unwrap();
                    let what = format!("{added} come and {taken} leave: rows {from} to {to}");
                    assert_eq!(found, ScalarValue::Float64(wanted), "{what}, {is_average}");
                }
                let one = Arc::new(Float64Array::from(vec![1.0])) as ArrayRef;
                assert!(moving.retract_batch(&[one]).is_err(), "there is none to leave");
            }
        }
    }
}
