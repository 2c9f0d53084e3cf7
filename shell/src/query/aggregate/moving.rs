//! Sums and averages of doubles in frames that move.
//!
//! DataFusion 55.2 takes a value that leaves a frame off the sum (`SlidingSumAccumulator`,
//! `AvgAccumulator::retract_batch`). What a great value has swallowed stays lost, and an infinity
//! less itself is NaN. Here nothing is taken off: a frame has two parts, of which the older one
//! keeps the sum of what remains after each value that may leave.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

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
