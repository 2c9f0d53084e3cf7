//! The least and greatest of floats, and of UUIDs and addresses.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

use super::fold::Fold;
use crate::query::types::identifier::{Kind, order_of, text_of};

/// Floats; NaN is the greatest, −0.0 less than 0.0.
#[derive(Debug)]
pub struct Floats {
    ty: DataType,
    is_max: bool,
}

impl Floats {
    pub fn new(ty: DataType, is_max: bool) -> Self {
        Floats { ty, is_max }
    }
}

/// There are many NaN, which are one here.
fn compare(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(&right),
        (left, right) => left.cmp(&right),
    }
}

impl Fold for Floats {
    type Item = f64;
    type State = Option<f64>;
    const SLIDES: bool = false;

    fn items<'a>(&self, array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> f64 + 'a>> {
        Ok(match array.data_type() {
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>();
                Box::new(|row| values.value(row).into())
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                Box::new(|row| values.value(row))
            }
            other => return internal_err!("{other} is no float"),
        })
    }

    fn input_type(&self) -> DataType {
        self.ty.clone()
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![self.ty.clone()]
    }

    fn add(&self, state: &mut Option<f64>, item: f64) -> Result<()> {
        let wanted = if self.is_max { Ordering::Greater } else { Ordering::Less };
        if state.is_none_or(|best| compare(item, best) == wanted) {
            *state = Some(item);
        }
        Ok(())
    }

    fn remove(&self, _state: &mut Option<f64>, _item: f64) -> Result<()> {
        internal_err!("an extreme is not taken back")
    }

    fn merge(&self, state: &mut Option<f64>, other: Option<f64>) -> Result<()> {
        other.map_or(Ok(()), |item| self.add(state, item))
    }

    fn states(&self, states: Vec<Option<f64>>) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish(states)?])
    }

    fn read<'a>(&self, arrays: &'a [ArrayRef]) -> Result<Box<dyn Fn(usize) -> Option<f64> + 'a>> {
        let array = &*arrays[0];
        let item = self.items(array)?;
        Ok(Box::new(move |row| array.is_valid(row).then(|| item(row))))
    }

    fn finish(&self, states: Vec<Option<f64>>) -> Result<ArrayRef> {
        Ok(match self.ty {
            DataType::Float32 => {
                let floats = states.into_iter().map(|state| state.map(|value| value as f32));
                Arc::new(floats.collect::<Float32Array>())
            }
            _ => Arc::new(states.into_iter().collect::<Float64Array>()),
        })
    }
}

/// UUIDs and addresses, by their order.
#[derive(Debug, Clone)]
pub struct Named {
    pub kind: Kind,
    pub is_max: bool,
}

impl Fold for Named {
    /// The bytes that a value is ordered by; `None` for a text that names none.
    type Item = Option<Vec<u8>>;
    type State = Option<Vec<u8>>;
    const SLIDES: bool = false;

    fn items<'a>(&self, array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> Self::Item + 'a>> {
        let texts = cast(&array.slice(0, array.len()), &DataType::Utf8)?;
        let texts: StringArray = texts.as_string::<i32>().clone();
        let kind = self.kind;
        Ok(Box::new(move |row| order_of(kind, texts.value(row))))
    }

    fn input_type(&self) -> DataType {
        DataType::Utf8
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Utf8]
    }

    fn add(&self, state: &mut Self::State, item: Self::Item) -> Result<()> {
        let Some(item) = item else { return Ok(()) };
        if state.as_ref().is_none_or(|best| if self.is_max { item > *best } else { item < *best }) {
            *state = Some(item);
        }
        Ok(())
    }

    fn remove(&self, _state: &mut Self::State, _item: Self::Item) -> Result<()> {
        internal_err!("an extreme is not taken back")
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        self.add(state, other)
    }

    fn states(&self, states: Vec<Self::State>) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish(states)?])
    }

    fn read<'a>(&self, arrays: &'a [ArrayRef]) -> Result<Box<dyn Fn(usize) -> Self::State + 'a>> {
        let array = &*arrays[0];
        let item = self.items(array)?;
        Ok(Box::new(move |row| if array.is_valid(row) { item(row) } else { None }))
    }

    fn finish(&self, states: Vec<Self::State>) -> Result<ArrayRef> {
        let texts =
            states.into_iter().map(|state| state.and_then(|order| text_of(self.kind, &order)));
        Ok(Arc::new(texts.collect::<StringArray>()))
    }
}

/// UUIDs and addresses of a frame that moves.
#[derive(Debug)]
pub struct SlidingNamed {
    fold: Named,
    /// Those that are the best once all before them have left, rising or falling. Each has its
    /// number among all that came.
    best: VecDeque<(u64, Vec<u8>)>,
    came: u64,
    left: u64,
}

impl SlidingNamed {
    pub fn new(fold: Named) -> Self {
        SlidingNamed { fold, best: VecDeque::new(), came: 0, left: 0 }
    }

    fn push(&mut self, item: Vec<u8>) {
        let is_max = self.fold.is_max;
        let is_beaten = |last: &Vec<u8>| if is_max { *last <= item } else { *last >= item };
        while self.best.back().is_some_and(|(_, last)| is_beaten(last)) {
            self.best.pop_back();
        }
        self.best.push_back((self.came, item));
    }

    fn result(&self) -> Result<ScalarValue> {
        let best = self.best.front().map(|(_, order)| order.clone());
        ScalarValue::try_from_array(&self.fold.finish(vec![best])?, 0)
    }
}

impl Accumulator for SlidingNamed {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = &*values[0];
        let item = self.fold.items(array)?;
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            if let Some(item) = item(row) {
                self.push(item);
            }
            self.came += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // Values leave in the order in which they came.
        self.left += (values[0].len() - values[0].null_count()) as u64;
        while self.best.front().is_some_and(|(number, _)| *number < self.left) {
            self.best.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.result()
    }

    fn size(&self) -> usize {
        let orders = self.best.iter().map(|(_, order)| order.capacity());
        size_of_val(self)
            + self.best.capacity() * size_of::<(u64, Vec<u8>)>()
            + orders.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.result()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a frame of at most so many rows has at each row.
    fn moved(values: &[Option<&str>], width: usize, is_max: bool) -> Vec<Option<String>> {
        let mut moving = SlidingNamed::new(Named { kind: Kind::Inet, is_max });
        let array: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let mut found = Vec::new();
        for row in 0..values.len() {
            moving.update_batch(&[array.slice(row, 1)]).unwrap();
            if row >= width {
                moving.retract_batch(&[array.slice(row - width, 1)]).unwrap();
            }
            match moving.evaluate().unwrap() {
                ScalarValue::Utf8(text) => found.push(text),
                other => panic!("{other} is no text"),
            }
        }
        found
    }

    /// Addresses twice and none, and a text that names none.
    #[test]
    fn the_extremes_of_a_moving_frame_are_those_of_its_values() {
        let names = ["10.0.0.1", "9.0.0.1", "no address", "10.0.0.1", "9.0.0.2", "9.0.0.1"];
        let mut values: Vec<Option<&str>> = names.map(Some).to_vec();
        values.extend([None, None, None, Some("9.0.0.1"), None, Some("no address")]);
        values.extend(names.map(Some).into_iter().rev());
        for width in 1..=4 {
            for is_max in [false, true] {
                let of_frame = |row: usize| {
                    let frame = &values[(row + 1).saturating_sub(width)..=row];
                    let orders =
                        frame.iter().flatten().filter_map(|text| order_of(Kind::Inet, text));
                    let best = if is_max { orders.max() } else { orders.min() };
                    best.and_then(|order| text_of(Kind::Inet, &order))
                };
                let wanted: Vec<Option<String>> = (0..values.len()).map(of_frame).collect();
                let found = moved(&values, width, is_max);
                assert_eq!(found, wanted, "{width} rows, the greatest: {is_max}");
            }
        }
    }
}
