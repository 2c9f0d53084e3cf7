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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Decimal128Array, Float64Array, Int64Array, StringArray};
    use datafusion::arrow::compute::cast;
    use datafusion::arrow::util::display::array_value_to_string;

    use super::*;
    use crate::query::aggregate::extreme::{Floats, Named};
    use crate::query::aggregate::number::Numbers;
    use crate::query::types::identifier::Kind;

    const ROWS: usize = 12;
    /// Of the last group there is no row.
    const GROUP_COUNT: usize = 4;
    const VALUES: [Option<i64>; ROWS] = [
        Some(5),
        None,
        Some(-3),
        Some(7),
        Some(2),
        Some(9),
        None,
        Some(1),
        Some(8),
        Some(4),
        Some(-6),
        Some(10),
    ];
    const GROUPS: [usize; ROWS] = [0, 1, 0, 2, 1, 0, 2, 2, 1, 0, 1, 2];

    /// Lets through 5 and 9, 8 and −6, 7 and 1.
    fn filter() -> BooleanArray {
        let no = |row: usize| [2, 9].contains(&row);
        let unknown = |row: usize| [4, 11].contains(&row);
        (0..ROWS).map(|row| (!unknown(row)).then(|| !no(row))).collect()
    }

    fn texts(array: &ArrayRef) -> Vec<String> {
        (0..array.len()).map(|row| array_value_to_string(array, row).unwrap()).collect()
    }

    /// Adds the rows from one on to another.
    fn add<F: Fold>(many: &mut Many<F>, values: &ArrayRef, from: usize, to: usize) {
        let part = [values.slice(from, to - from)];
        let filter = filter().slice(from, to - from);
        many.update_batch(&part, &GROUPS[from..to], Some(&filter), GROUP_COUNT).unwrap();
    }

    /// In two batches, of which the first has so many rows; the first groups leave before others.
    fn in_batches<F: Fold>(fold: F, values: &ArrayRef, first: usize) -> Vec<String> {
        let mut many = Many::new(fold);
        add(&mut many, values, 0, first);
        add(&mut many, values, first, ROWS);
        let mut found = texts(&many.evaluate(EmitTo::First(1 + first % 3)).unwrap());
        found.extend(texts(&many.evaluate(EmitTo::All).unwrap()));
        found
    }

    /// What is known of each batch goes to another, which has the groups the other way round.
    fn by_states<F: Fold>(fold: &impl Fn() -> F, values: &ArrayRef, first: usize) -> Vec<String> {
        let mut last = Many::new(fold());
        for (from, to) in [(0, first), (first, ROWS)] {
            let mut many = Many::new(fold());
            add(&mut many, values, from, to);
            let states = many.state(EmitTo::All).unwrap();
            last.merge_batch(&states, &[3, 2, 1, 0], GROUP_COUNT).unwrap();
        }
        let mut found = texts(&last.evaluate(EmitTo::All).unwrap());
        found.reverse();
        found
    }

    /// Each row is a state of its own.
    fn by_rows<F: Fold>(fold: &impl Fn() -> F, values: &ArrayRef) -> Vec<String> {
        let rows = std::slice::from_ref(values);
        let states = Many::new(fold()).convert_to_state(rows, Some(&filter())).unwrap();
        let mut many = Many::new(fold());
        many.merge_batch(&states, &GROUPS, GROUP_COUNT).unwrap();
        texts(&many.evaluate(EmitTo::All).unwrap())
    }

    fn arrays(values: &[ScalarValue]) -> Vec<ArrayRef> {
        values.iter().map(|value| value.to_array().unwrap()).collect()
    }

    /// One group after another, of whose rows each comes as a state.
    fn one_by_one<F: Fold>(fold: &impl Fn() -> F, values: &ArrayRef) -> Vec<String> {
        let of_group = |group: usize| {
            let mut whole = One::new(fold());
            let is_wanted = |row: &usize| GROUPS[*row] == group && is_true(&filter(), *row);
            for row in (0..ROWS).filter(is_wanted) {
                let mut part = One::new(fold());
                part.update_batch(&[values.slice(row, 1)]).unwrap();
                whole.merge_batch(&arrays(&part.state().unwrap())).unwrap();
            }
            let result = whole.evaluate().unwrap();
            texts(&result.to_array().unwrap()).remove(0)
        };
        (0..GROUP_COUNT).map(of_group).collect()
    }

    fn check<F: Fold>(fold: impl Fn() -> F, values: &ArrayRef, wanted: [&str; GROUP_COUNT]) {
        let what = format!("{:?}", fold());
        for first in 0..=ROWS {
            assert_eq!(in_batches(fold(), values, first), wanted, "{what}, after {first}");
            assert_eq!(by_states(&fold, values, first), wanted, "{what}, after {first}");
        }
        assert_eq!(by_rows(&fold, values), wanted, "{what}, by rows");
        assert_eq!(one_by_one(&fold, values), wanted, "{what}, one by one");
    }

    #[test]
    fn groups_are_the_same_however_their_rows_come_together() {
        let integers = Arc::new(Int64Array::from(VALUES.to_vec())) as ArrayRef;
        let int = DataType::Int64;
        let sum = || Numbers::new(&int, &int, false).unwrap();
        check(sum, &integers, ["14", "2", "8", ""]);
        let average = || Numbers::new(&int, &DataType::Float64, true).unwrap();
        check(average, &integers, ["7.0", "1.0", "4.0", ""]);

        let cents = VALUES.map(|value| value.map(|value| i128::from(value) * 100));
        let decimals = Decimal128Array::from(cents.to_vec());
        let decimals = Arc::new(decimals.with_precision_and_scale(9, 2).unwrap()) as ArrayRef;
        let (own, wide) = (DataType::Decimal128(9, 2), DataType::Decimal128(19, 2));
        let sum = || Numbers::new(&own, &wide, false).unwrap();
        check(sum, &decimals, ["14.00", "2.00", "8.00", ""]);
        let wide = DataType::Decimal128(13, 6);
        let average = || Numbers::new(&own, &wide, true).unwrap();
        check(average, &decimals, ["7.000000", "1.000000", "4.000000", ""]);

        let doubles = VALUES.map(|value| value.map(|value| value as f64)).to_vec();
        let doubles = Arc::new(Float64Array::from(doubles)) as ArrayRef;
        for ty in [DataType::Float32, DataType::Float64] {
            let floats = cast(&doubles, &ty).unwrap();
            check(|| Floats::new(ty.clone(), false), &floats, ["5.0", "-6.0", "1.0", ""]);
            check(|| Floats::new(ty.clone(), true), &floats, ["9.0", "8.0", "7.0", ""]);
        }

        let address = |value: i64| format!("10.0.0.{}", value + 10);
        let addresses = VALUES.iter().map(|value| value.map(address));
        let addresses = Arc::new(addresses.collect::<StringArray>()) as ArrayRef;
        let named = |is_max| Named { kind: Kind::Inet, is_max };
        check(|| named(false), &addresses, ["10.0.0.15", "10.0.0.4", "10.0.0.11", ""]);
        check(|| named(true), &addresses, ["10.0.0.19", "10.0.0.18", "10.0.0.17", ""]);
    }

    #[test]
    fn distinct_values_count_once_in_whichever_parts_they_come_and_leave_with_their_last_copy() {
        let values = [Some(5), Some(5), None, Some(5), Some(7), Some(7), None, Some(-2), Some(5)];
        let array = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let ty = DataType::Int64;
        let distinct = || Distinct::new(Numbers::new(&ty, &ty, false).unwrap());
        for first in 0..=values.len() {
            let parts = [array.slice(0, first), array.slice(first, values.len() - first)];
            let mut merged = distinct();
            for part in &parts {
                let mut of_part = distinct();
                of_part.update_batch(std::slice::from_ref(part)).unwrap();
                merged.merge_batch(&arrays(&of_part.state().unwrap())).unwrap();
            }
            let sum = merged.evaluate().unwrap();
            assert_eq!(sum, ScalarValue::Int64(Some(10)), "in parts, after {first}");

            let mut moving = distinct();
            moving.update_batch(std::slice::from_ref(&array)).unwrap();
            moving.retract_batch(&parts[..1]).unwrap();
            let mut left: Vec<i64> = values[first..].iter().copied().flatten().collect();
            left.sort_unstable();
            left.dedup();
            let wanted = (!left.is_empty()).then(|| left.iter().sum::<i64>());
            let sum = moving.evaluate().unwrap();
            assert_eq!(sum, ScalarValue::Int64(wanted), "without the first {first}");
        }
        let gone = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
        assert!(distinct().retract_batch(&[gone]).is_err());
    }
}
