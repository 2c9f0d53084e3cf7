//! From a way to fold values to DataFusion's accumulators: of one group, of many, of distinct
//! values.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// A way to fold values into one.
pub trait Fold: Debug + Send + Sync + 'static {
    /// What is read of an array's row.
    type Item;
    /// What is known of the values so far; the default is that of none.
    type State: Default + Clone + Debug + Send + Sync;
    /// Whether values can be taken out again.
    const SLIDES: bool;

    /// Reads rows of an array of the input's type; nulls are never asked for.
    ///
    /// Errors: `Internal` for another type.
    fn items<'a>(&self, array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> Self::Item + 'a>>;

    fn input_type(&self) -> DataType;

    fn state_types(&self) -> Vec<DataType>;

    fn add(&self, state: &mut Self::State, item: Self::Item) -> Result<()>;

    /// Takes a value out that was added.
    fn remove(&self, state: &mut Self::State, item: Self::Item) -> Result<()>;

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()>;

    /// Arrays of `state_types`, a row a state.
    fn states(&self, states: Vec<Self::State>) -> Result<Vec<ArrayRef>>;

    /// Reads rows of arrays of `state_types`.
    fn read<'a>(&self, arrays: &'a [ArrayRef]) -> Result<Box<dyn Fn(usize) -> Self::State + 'a>>;

    /// Results, a row a state.
    fn finish(&self, states: Vec<Self::State>) -> Result<ArrayRef>;
}

/// One group.
#[derive(Debug)]
pub struct One<F: Fold> {
    fold: F,
    state: F::State,
}

impl<F: Fold> One<F> {
    pub fn new(fold: F) -> Self {
        One { fold, state: F::State::default() }
    }

    fn each(
        &mut self,
        values: &[ArrayRef],
        step: impl Fn(&F, &mut F::State, F::Item) -> Result<()>,
    ) -> Result<()> {
        let array = &*values[0];
        let item = self.fold.items(array)?;
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            step(&self.fold, &mut self.state, item(row))?;
        }
        Ok(())
    }
}

impl<F: Fold> Accumulator for One<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, F::add)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.fold.finish(vec![self.state.clone()])?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let arrays = self.fold.states(vec![self.state.clone()])?;
        arrays.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let read = self.fold.read(states)?;
        (0..states[0].len()).try_for_each(|row| self.fold.merge(&mut self.state, read(row)))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, F::remove)
    }

    fn supports_retract_batch(&self) -> bool {
        F::SLIDES
    }
}

/// Many groups.
#[derive(Debug)]
pub struct Many<F: Fold> {
    fold: F,
    states: Vec<F::State>,
}

impl<F: Fold> Many<F> {
    pub fn new(fold: F) -> Self {
        Many { fold, states: Vec::new() }
    }
}

impl<F: Fold> GroupsAccumulator for Many<F> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.states.resize_with(total_num_groups, F::State::default);
        let array = &*values[0];
        let item = self.fold.items(array)?;
        for (row, group) in group_indices.iter().enumerate() {
            if array.is_valid(row) && opt_filter.is_none_or(|filter| is_true(filter, row)) {
                self.fold.add(&mut self.states[*group], item(row))?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.fold.finish(emit_to.take_needed(&mut self.states))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.fold.states(emit_to.take_needed(&mut self.states))
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.states.resize_with(total_num_groups, F::State::default);
        let read = self.fold.read(values)?;
        for (row, group) in group_indices.iter().enumerate() {
            self.fold.merge(&mut self.states[*group], read(row))?;
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let array = &*values[0];
        let item = self.fold.items(array)?;
        let mut states = vec![F::State::default(); array.len()];
        for (row, state) in states.iter_mut().enumerate() {
            if array.is_valid(row) && opt_filter.is_none_or(|filter| is_true(filter, row)) {
                self.fold.add(state, item(row))?;
            }
        }
        self.fold.states(states)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.states.capacity() * size_of::<F::State>()
    }
}

fn is_true(filter: &BooleanArray, row: usize) -> bool {
    filter.is_valid(row) && filter.value(row)
}

/// Each value of one group once. What another needs of it is the values.
#[derive(Debug)]
pub struct Distinct<F: Fold> {
    fold: F,
    /// Of every value once.
    state: F::State,
    /// Values and how often they are there.
    values: HashMap<ScalarValue, usize>,
    bytes: usize,
}

impl<F: Fold> Distinct<F> {
    pub fn new(fold: F) -> Self {
        Distinct { fold, state: F::State::default(), values: HashMap::new(), bytes: 0 }
    }
}

impl<F: Fold> Accumulator for Distinct<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = &values[0];
        let item = self.fold.items(array)?;
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            match self.values.entry(ScalarValue::try_from_array(array, row)?) {
                Entry::Occupied(mut copies) => *copies.get_mut() += 1,
                Entry::Vacant(first) => {
                    self.bytes += first.key().size();
                    first.insert(1);
                    self.fold.add(&mut self.state, item(row))?;
                }
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = &values[0];
        let item = self.fold.items(array)?;
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            match self.values.entry(ScalarValue::try_from_array(array, row)?) {
                Entry::Occupied(last) if *last.get() == 1 => {
                    self.bytes -= last.key().size();
                    last.remove();
                    self.fold.remove(&mut self.state, item(row))?;
                }
                Entry::Occupied(mut copies) => *copies.get_mut() -= 1,
                Entry::Vacant(_) => return internal_err!("a value leaves a frame it is not in"),
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        F::SLIDES
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.fold.finish(vec![self.state.clone()])?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.values.keys().cloned().collect();
        let list = ScalarValue::new_list_nullable(&values, &self.fold.input_type());
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states[0].as_list_opt::<i32>() else {
            return internal_err!("distinct values are a list, not {}", states[0].data_type());
        };
        lists.iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }
}
