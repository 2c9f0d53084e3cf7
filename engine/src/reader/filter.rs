//! Comparisons with constants, judged on a row before anything is made of it.
//!
//! Invariant: a row that is left out fails one of the comparisons, as SQL has them: nothing
//! compares with null. A row that is kept may fail them too: types whose order in SQL is another
//! than that of their bytes, and bytes that are no value, are for whoever looks at the values.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

use super::condition::{Comparator, Comparison};
use crate::mutation::{FlatRow, Row};
use crate::schema::varint::sign_extended;
use crate::schema::{Column, ColumnId, ColumnKind, DataType, PartitionKey, TableSchema, Value};

/// Numbers of a set lie this close together where a set of bits has them: 2 MiB.
const SET_BITS_MAX: i128 = 1 << 24;

/// See the head of this file. Copies share the number of rows that were left out.
#[derive(Debug, Clone)]
pub struct RowFilter {
    /// Of the one column of the partition key.
    partition: Option<Test>,
    /// Of regular columns, sorted, one for each.
    tests: Arc<[(ColumnId, Test)]>,
    left_out: Arc<AtomicU64>,
}

/// What values of a column are let through.
#[derive(Debug, Clone)]
enum Test {
    /// Both ends included.
    Number(Form, i128, i128),
    Among(Form, Arc<NumberSet>),
    Bytes(Bound<Box<[u8]>>, Bound<Box<[u8]>>),
}

/// Numbers that lie close together.
#[derive(Debug)]
struct NumberSet {
    first: i128,
    /// Bit `n` stands for `first + n`.
    bits: Box<[u64]>,
}

impl NumberSet {
    /// `None` where they lie too far apart.
    fn of(numbers: impl Iterator<Item = i128>, (first, last): (i128, i128)) -> Option<Self> {
        let span = last.checked_sub(first)?.checked_add(1)?;
        if !(1..=SET_BITS_MAX).contains(&span) {
            return None;
        }
        let mut bits = vec![0; (span as usize).div_ceil(64)].into_boxed_slice();
        for number in numbers {
            debug_assert!((first..=last).contains(&number), "{number} of {first} to {last}");
            let at = (number - first) as usize;
            bits[at / 64] |= 1 << (at % 64);
        }
        Some(NumberSet { first, bits })
    }

    #[inline]
    fn has(&self, number: i128) -> bool {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let word = at.and_then(|at| Some((at, self.bits.get(at / 64)?)));
        word.is_some_and(|(at, word)| word >> (at % 64) & 1 == 1)
    }

    fn numbers(&self) -> impl Iterator<Item = i128> + Clone {
        let all = (self.first..).take(64 * self.bits.len());
        all.filter(|number| self.has(*number))
    }
}

/// How bytes are read as a number that has the order of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Two's complement, big-endian, of so many bytes.
    Signed(u8),
    /// Days, biased by 2^31.
    Date,
    /// A decimal of this scale.
    Decimal(i8),
}

impl Form {
    fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::TinyInt => Form::Signed(1),
            DataType::SmallInt => Form::Signed(2),
            DataType::Int => Form::Signed(4),
            DataType::BigInt | DataType::Timestamp | DataType::Time => Form::Signed(8),
            DataType::Date => Form::Date,
            DataType::Decimal { scale, .. } => Form::Decimal(*scale),
            _ => return None,
        })
    }

    /// `None` for what is no value of the form.
    #[inline]
    fn number(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Form::Signed(4) => Some(i128::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            Form::Signed(8) => Some(i128::from(i64::from_be_bytes(bytes.try_into().ok()?))),
            Form::Signed(length) => {
                let is_whole = bytes.len() == usize::from(length);
                is_whole.then(|| sign_extended(bytes)).flatten()
            }
            Form::Date => Some(i128::from(u32::from_be_bytes(bytes.try_into().ok()?))),
            Form::Decimal(scale) => {
                let (own, unscaled) = bytes.split_first_chunk::<4>()?;
                let is_alike = i32::from_be_bytes(*own) == i32::from(scale);
                is_alike.then(|| sign_extended(unscaled)).flatten()
            }
        }
    }
}

impl Test {
    /// One of these numbers.
    fn among(form: Form, numbers: impl Iterator<Item = i128> + Clone) -> Self {
        let (Some(first), Some(last)) = (numbers.clone().min(), numbers.clone().max()) else {
            // None of them all.
            return Test::Number(form, i128::MAX, i128::MIN);
        };
        match NumberSet::of(numbers, (first, last)) {
            Some(set) => Test::Among(form, Arc::new(set)),
            None => Test::Number(form, first, last),
        }
    }

    /// What a comparison says of the values of a column; `None` where that cannot be told from
    /// their bytes.
    fn of(ty: &DataType, comparator: &Comparator) -> Option<Self> {
        if let (Comparator::In(values), Some(form)) = (comparator, Form::of(ty)) {
            // Null equals nothing.
            let numbers = values.iter().flatten().map(|value| form.number(&value.to_bytes()));
            let numbers = numbers.collect::<Option<Vec<i128>>>()?;
            return Some(Test::among(form, numbers.iter().copied()));
        }
        let (value, order) = match comparator {
            Comparator::Equal(Some(value)) => (value, Ordering::Equal),
            Comparator::Less(value) | Comparator::LessOrEqual(value) => (value, Ordering::Less),
            Comparator::Greater(value) | Comparator::GreaterOrEqual(value) => {
                (value, Ordering::Greater)
            }
            Comparator::Equal(None) | Comparator::NotEqual(_) | Comparator::In(_) => return None,
        };
        let is_strict = matches!(comparator, Comparator::Less(_) | Comparator::Greater(_));
        if let Some(form) = Form::of(ty) {
            let number = form.number(&value.to_bytes())?;
            let step = i128::from(is_strict);
            return Some(match order {
                Ordering::Less => Test::Number(form, i128::MIN, number.checked_sub(step)?),
                Ordering::Equal => Test::Number(form, number, number),
                Ordering::Greater => Test::Number(form, number.checked_add(step)?, i128::MAX),
            });
        }
        let bytes: Box<[u8]> = match value {
            Value::Text(text) if *ty == DataType::Text => text.as_bytes().into(),
            Value::Blob(bytes) if *ty == DataType::Blob => bytes.as_slice().into(),
            _ => return None,
        };
        let end = |bytes| if is_strict { Bound::Excluded(bytes) } else { Bound::Included(bytes) };
        Some(match order {
            Ordering::Less => Test::Bytes(Bound::Unbounded, end(bytes)),
            Ordering::Equal => Test::Bytes(Bound::Included(bytes.clone()), Bound::Included(bytes)),
            Ordering::Greater => Test::Bytes(end(bytes), Bound::Unbounded),
        })
    }

    /// Whether bytes may be those of a value that lies between.
    #[inline]
    fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            // Empty bytes are null where a type has no empty value.
            Test::Number(..) if bytes.is_empty() => false,
            Test::Number(form, low, high) => {
                form.number(bytes).is_none_or(|number| (*low..=*high).contains(&number))
            }
            Test::Among(..) if bytes.is_empty() => false,
            Test::Among(form, set) => form.number(bytes).is_none_or(|number| set.has(number)),
            Test::Bytes(low, high) => {
                let is_above = match low {
                    Bound::Included(low) => bytes >= &**low,
                    Bound::Excluded(low) => bytes > &**low,
                    Bound::Unbounded => true,
                };
                is_above
                    && match high {
                        Bound::Included(high) => bytes <= &**high,
                        Bound::Excluded(high) => bytes < &**high,
                        Bound::Unbounded => true,
                    }
            }
        }
    }

    /// What both say, of one column.
    fn and(self, other: Test) -> Test {
        match (self, other) {
            (Test::Number(form, low, high), Test::Number(other, other_low, other_high)) => {
                debug_assert_eq!(form, other, "a column has one type");
                Test::Number(form, low.max(other_low), high.min(other_high))
            }
            (Test::Among(form, set), other) | (other, Test::Among(form, set)) => {
                let is_in = |number: &i128| match &other {
                    Test::Number(_, low, high) => (*low..=*high).contains(number),
                    Test::Among(_, other) => other.has(*number),
                    Test::Bytes(..) => true,
                };
                Test::among(form, set.numbers().filter(is_in))
            }
            // One end each, mostly: what is said twice is said by the first.
            (Test::Bytes(low, high), Test::Bytes(other_low, other_high)) => {
                let first = |own, other| if own == Bound::Unbounded { other } else { own };
                Test::Bytes(first(low, other_low), first(high, other_high))
            }
            (own, _) => own,
        }
    }
}

/// What both say, as far as both say something.
fn both<T>(own: Option<T>, other: Option<T>, and: impl FnOnce(T, T) -> T) -> Option<T> {
    match (own, other) {
        (Some(own), Some(other)) => Some(and(own, other)),
        (own, other) => own.or(other),
    }
}

/// Adds what is said of a column to what was said of it before.
fn add(tests: &mut Vec<(ColumnId, Test)>, id: ColumnId, test: Test) {
    match tests.iter_mut().find(|(own, _)| *own == id) {
        Some((_, own)) => *own = own.clone().and(test),
        None => tests.push((id, test)),
    }
}

/// Whether values of such a column are judged: those of regular columns, and the one that is the
/// partition key.
fn is_judged(schema: &TableSchema, kind: ColumnKind) -> bool {
    match kind {
        ColumnKind::Regular => true,
        ColumnKind::PartitionKey { .. } => schema.partition_key().count() == 1,
        _ => false,
    }
}

impl RowFilter {
    /// What these comparisons, all of which must hold, say of rows of a table; `None` where that is
    /// nothing that their bytes tell.
    pub fn of(schema: &TableSchema, comparisons: &[Comparison]) -> Option<Self> {
        let test = |Comparison { column: id, comparator }: &Comparison| {
            Some((*id, Test::of(&schema.columns.get(usize::from(id.0))?.ty, comparator)?))
        };
        RowFilter::of_tests(schema, comparisons.iter().filter_map(test))
    }

    /// Whether [`among`](Self::among) says something of a column.
    pub fn judges_numbers(schema: &TableSchema, column: ColumnId) -> bool {
        let Some(Column { ty, kind, .. }) = schema.columns.get(usize::from(column.0)) else {
            return false;
        };
        let is_integer =
            matches!(ty, DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt);
        is_integer && is_judged(schema, *kind)
    }

    /// That a column of integers has one of these values: a regular column, or the one of the
    /// partition key. `None` for another column.
    pub fn among(schema: &TableSchema, column: ColumnId, numbers: &[i64]) -> Option<Self> {
        let form = Form::of(&schema.columns.get(usize::from(column.0))?.ty)?;
        let test = Test::among(form, numbers.iter().copied().map(i128::from));
        RowFilter::judges_numbers(schema, column)
            .then(|| RowFilter::of_tests(schema, [(column, test)].into_iter()))?
    }

    fn of_tests(schema: &TableSchema, all: impl Iterator<Item = (ColumnId, Test)>) -> Option<Self> {
        let (mut partition, mut tests) = (None, Vec::<(ColumnId, Test)>::new());
        for (id, test) in all {
            match schema.column(id).kind {
                kind if !is_judged(schema, kind) => {}
                ColumnKind::Regular => add(&mut tests, id, test),
                // It is stored as its value is.
                _ => partition = both(partition, Some(test), Test::and),
            }
        }
        tests.sort_unstable_by_key(|(id, _)| *id);
        let is_once = tests.is_sorted_by(|(a, _), (b, _)| a < b);
        assert!(is_once, "a column of {} has one test: {tests:?}", schema.full_name());
        let left_out = Arc::default();
        let has_any = partition.is_some() || !tests.is_empty();
        has_any.then(|| RowFilter { partition, tests: tests.into(), left_out })
    }

    /// What both say of rows of one table, as far as both say something. Of two it has a number of
    /// its own.
    pub fn both(own: Option<Self>, other: Option<Self>) -> Option<Self> {
        both(own, other, RowFilter::and)
    }

    fn and(self, other: RowFilter) -> Self {
        let partition = both(self.partition, other.partition, Test::and);
        let mut tests = self.tests.to_vec();
        other.tests.iter().for_each(|(id, test)| add(&mut tests, *id, test.clone()));
        tests.sort_unstable_by_key(|(id, _)| *id);
        debug_assert!(tests.is_sorted_by(|(a, _), (b, _)| a < b), "a column has one test");
        RowFilter { partition, tests: tests.into(), left_out: Arc::default() }
    }

    /// The same for another read, with a number of its own.
    pub fn anew(&self) -> Self {
        RowFilter { left_out: Arc::default(), ..self.clone() }
    }

    /// Rows that were left out since this was asked last.
    pub fn take_left_out(&self) -> u64 {
        self.left_out.swap(0, Atomic::Relaxed)
    }

    /// Rows were left out.
    pub(crate) fn leave_out(&self, rows: u64) {
        self.left_out.fetch_add(rows, Atomic::Relaxed);
    }

    /// Whether rows of a partition may satisfy all comparisons.
    #[inline]
    pub(crate) fn keeps_partition(&self, key: &PartitionKey) -> bool {
        self.partition.as_ref().is_none_or(|test| test.holds(key.as_bytes()))
    }

    /// Whether a row of a partition that was kept may satisfy all comparisons, as a reader at `now`
    /// (seconds) sees it.
    #[inline]
    pub(crate) fn keeps(&self, flat: &FlatRow, now: i32) -> bool {
        let mut tests = self.tests.iter();
        let Some(mut test) = tests.next() else { return true };
        for (id, value) in flat.values(now) {
            // What has no cell is null.
            if test.0 < id {
                return false;
            }
            if test.0 > id {
                continue;
            }
            if !value.is_some_and(|value| test.1.holds(value)) {
                return false;
            }
            match tests.next() {
                Some(next) => test = next,
                None => return true,
            }
        }
        false
    }

    /// The same for a row in its other form.
    pub(crate) fn keeps_row(&self, row: &Row, now: i32) -> bool {
        self.tests.iter().all(|(id, test)| {
            let value = row.cell(*id).and_then(|cell| cell.value_at(now));
            value.is_some_and(|value| test.holds(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;
    use crate::mutation::{Cell, Liveness};
    use crate::schema::{ClusteringOrder, TableId, TableOptions};

    const TYPES: [DataType; 6] = [
        DataType::TinyInt,
        DataType::BigInt,
        DataType::Date,
        DataType::Decimal { precision: 12, scale: 2 },
        DataType::Text,
        DataType::Double,
    ];

    fn schema() -> TableSchema {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let key = column("k", DataType::Int, ColumnKind::PartitionKey { position: 0 });
        let names = ["a", "b", "c", "d", "e", "f"];
        let regular = |(name, ty)| column(name, ty, ColumnKind::Regular);
        TableSchema {
            id: TableId(7),
            keyspace: "k".into(),
            name: "t".into(),
            columns: [key].into_iter().chain(names.into_iter().zip(TYPES).map(regular)).collect(),
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn value(random: &mut Random, ty: &DataType) -> Value {
        let number = random.below(5) as i64 - 2;
        match ty {
            DataType::TinyInt => Value::TinyInt(number as i8),
            DataType::BigInt => Value::BigInt(number << 40),
            DataType::Date => Value::Date(number as i32),
            DataType::Decimal { .. } => Value::Decimal { unscaled: number.into(), scale: 2 },
            DataType::Text => Value::Text("ab".repeat(number.unsigned_abs() as usize)),
            _ => Value::Double(number as f64),
        }
    }

    fn comparator(random: &mut Random, value: Value) -> Comparator {
        match random.below(6) {
            0 => Comparator::Equal(Some(value)),
            1 if !matches!(value, Value::Text(_)) => Comparator::In(vec![Some(value), None]),
            2 => Comparator::Less(value),
            3 => Comparator::LessOrEqual(value),
            4 => Comparator::Greater(value),
            _ => Comparator::GreaterOrEqual(value),
        }
    }

    /// Values of one type as SQL orders them.
    fn order(a: &Value, b: &Value) -> Ordering {
        match (a, b) {
            (Value::TinyInt(a), Value::TinyInt(b)) => a.cmp(b),
            (Value::BigInt(a), Value::BigInt(b)) => a.cmp(b),
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Decimal { unscaled: a, .. }, Value::Decimal { unscaled: b, .. }) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Double(a), Value::Double(b)) => a.total_cmp(b),
            other => panic!("{other:?} are not of one type"),
        }
    }

    fn holds(comparator: &Comparator, found: Option<&Value>) -> bool {
        let Some(found) = found else { return false };
        match comparator {
            Comparator::Equal(Some(value)) => order(found, value).is_eq(),
            Comparator::Less(value) => order(found, value).is_lt(),
            Comparator::LessOrEqual(value) => order(found, value).is_le(),
            Comparator::Greater(value) => order(found, value).is_gt(),
            Comparator::GreaterOrEqual(value) => order(found, value).is_ge(),
            Comparator::In(values) => values.iter().flatten().any(|v| order(found, v).is_eq()),
            other => panic!("{other:?} was not drawn"),
        }
    }

    /// What is left out fails; and of types that bytes tell, what fails is left out.
    #[test]
    fn just_what_fails_is_left_out_where_bytes_tell() {
        let (schema, mut random) = (schema(), Random::new(7));
        let (mut kept, mut left_out) = (0, 0);
        for round in 0..20_000 {
            let mut found: Vec<Option<Value>> = Vec::new();
            let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
            for (id, ty) in (1..).map(ColumnId).zip(&TYPES) {
                let drawn = (random.below(8) > 0).then(|| value(&mut random, ty));
                if let Some(drawn) = &drawn {
                    row.cells.push((id, Cell::live(1, drawn.to_bytes())));
                } else if random.below(2) == 0 {
                    row.cells.push((id, Cell::deleted(1, 1)));
                }
                found.push(drawn);
            }
            let count = 1 + random.below(3);
            let comparisons: Vec<Comparison> = (0..count)
                .map(|_| {
                    let at = random.below(TYPES.len() as u64) as usize;
                    let value = value(&mut random, &TYPES[at]);
                    let comparator = comparator(&mut random, value);
                    Comparison { column: ColumnId(at as u16 + 1), comparator }
                })
                .collect();
            let of = |comparison: &Comparison| found[usize::from(comparison.column.0) - 1].as_ref();
            let wanted = comparisons.iter().all(|one| holds(&one.comparator, of(one)));
            let filter = RowFilter::of(&schema, &comparisons);
            let keeps = filter.as_ref().is_none_or(|filter| {
                let flat = FlatRow::row(b"k", &row);
                let keeps = filter.keeps(&flat, 100);
                assert_eq!(filter.keeps_row(&row, 100), keeps, "round {round}: {row:?}");
                keeps
            });
            let columns = comparisons.iter().map(|one| one.column);
            let is_told = comparisons.iter().all(|one| one.column != ColumnId(6))
                // Of two lower ends of a text the first counts.
                && columns.filter(|column| *column == ColumnId(5)).count() < 2;
            assert!(keeps || !wanted, "round {round}: {comparisons:?} of {row:?}");
            assert!(!keeps || wanted || !is_told, "round {round}: {comparisons:?} of {row:?}");
            *(if keeps { &mut kept } else { &mut left_out }) += 1;
        }
        assert!(kept > 2000 && left_out > 2000, "{kept} rows kept, {left_out} left out");
    }

    #[test]
    fn bytes_that_are_no_value_are_kept_for_whoever_reads_them() {
        let schema = schema();
        let filter = |column, value| {
            let comparator = Comparator::Equal(Some(value));
            RowFilter::of(&schema, &[Comparison { column: ColumnId(column), comparator }]).unwrap()
        };
        let with = |column, bytes: &[u8]| {
            let cells = vec![(ColumnId(column), Cell::live(1, bytes))];
            FlatRow::row(b"k", &Row { liveness: Some(Liveness::at(1)), cells, ..Row::default() })
        };
        assert!(filter(2, Value::BigInt(1)).keeps(&with(2, &[1, 2, 3]), 1));
        assert!(!filter(2, Value::BigInt(1)).keeps(&with(2, &[]), 1), "it shows null");
        // Another scale may be the same number.
        let decimal = Value::Decimal { unscaled: 100, scale: 2 };
        let other = Value::Decimal { unscaled: 1, scale: 0 };
        assert!(filter(4, decimal).keeps(&with(4, &other.to_bytes()), 1));
    }

    /// Whether it keeps a row of the partition of this key, with this number in the first column.
    fn keeps(filter: &RowFilter, (key, number): (i32, i8)) -> bool {
        let cells = vec![(ColumnId(1), Cell::live(1, Value::TinyInt(number).to_bytes()))];
        let row = Row { liveness: Some(Liveness::at(1)), cells, ..Row::default() };
        let key = PartitionKey::from_bytes(Value::Int(key).to_bytes());
        filter.keeps_partition(&key) && filter.keeps(&FlatRow::row(b"k", &row), 100)
    }

    #[test]
    fn of_a_set_its_members_are_kept_and_of_two_what_both_have() {
        let schema = schema();
        let numbers: Vec<i64> = vec![-70, 3, 5, 64, 100];
        let of_row = RowFilter::among(&schema, ColumnId(1), &numbers).unwrap();
        let of_key = RowFilter::among(&schema, ColumnId(0), &[1 << 30, -7, 5]).unwrap();
        let range = |comparator| {
            RowFilter::of(&schema, &[Comparison { column: ColumnId(1), comparator }]).unwrap()
        };
        let above = range(Comparator::Greater(Value::TinyInt(3)));
        let both = of_row.clone().and(of_key.clone()).and(above.clone());
        let turned = above.and(of_key.clone()).and(of_row.clone());
        let none = of_row.clone().and(RowFilter::among(&schema, ColumnId(1), &[4]).unwrap());
        for number in i8::MIN..=i8::MAX {
            let is_member = numbers.contains(&i64::from(number));
            assert_eq!(keeps(&of_row, (0, number)), is_member, "{number}");
            for both in [&both, &turned] {
                assert_eq!(keeps(both, (5, number)), is_member && number > 3, "{number}");
            }
            assert!(!keeps(&none, (5, number)), "{number}");
        }
        // Far apart, they are a range.
        let kept = [-8, -7, 0, 1 << 30, (1 << 30) + 1].map(|key| keeps(&of_key, (key, 0)));
        assert_eq!(kept, [false, true, true, true, false]);
        assert!(RowFilter::among(&schema, ColumnId(5), &numbers).is_none(), "a text is no number");
        let nothing = RowFilter::among(&schema, ColumnId(1), &[]).unwrap();
        assert!(!keeps(&nothing, (5, 5)));
    }

    #[test]
    fn copies_share_the_number_of_rows_left_out_and_other_reads_have_their_own() {
        let schema = schema();
        let filter = RowFilter::among(&schema, ColumnId(1), &[1]).unwrap();
        let (copy, other) = (filter.clone(), filter.anew());
        copy.leave_out(3);
        filter.leave_out(2);
        other.leave_out(7);
        assert_eq!((filter.take_left_out(), copy.take_left_out()), (5, 0), "they are told once");
        assert_eq!((other.take_left_out(), other.take_left_out()), (7, 0));
        filter.leave_out(4);
        let of_key = RowFilter::among(&schema, ColumnId(0), &[5]).unwrap();
        let both = RowFilter::both(Some(filter.clone()), Some(of_key)).unwrap();
        assert_eq!((both.take_left_out(), filter.take_left_out()), (0, 4));
        let kept = [(5, 1), (5, 2), (6, 1)].map(|row| keeps(&both, row));
        assert_eq!(kept, [true, false, false]);
        for (own, other) in [(Some(filter.clone()), None), (None, Some(filter.clone()))] {
            let alone = RowFilter::both(own, other).unwrap();
            assert!(keeps(&alone, (6, 1)) && !keeps(&alone, (6, 2)), "one says all");
        }
        assert!(RowFilter::both(None, None).is_none());
    }

    /// The bytes of a key of several columns are those of all together.
    #[test]
    fn a_part_of_a_key_and_a_static_value_are_left_to_whoever_reads_them() {
        let mut composite = schema();
        let order = ClusteringOrder::Ascending;
        for (name, kind) in [
            ("p", ColumnKind::PartitionKey { position: 1 }),
            ("ck", ColumnKind::ClusteringKey { position: 0, order }),
            ("s", ColumnKind::Static),
        ] {
            composite.columns.push(Column { name: name.into(), ty: DataType::Text, kind });
        }
        let text = || Value::Text("m".into());
        let key = PartitionKey::from_values(&composite, &[Value::Int(1), text()]).unwrap();
        let comparator = Comparator::Equal(Some(Value::TinyInt(1)));
        let of_row = Comparison { column: ColumnId(1), comparator };
        let cells = vec![(ColumnId(1), Cell::live(1, Value::TinyInt(1).to_bytes()))];
        let row = Row { cells, ..Row::default() };
        for comparator in [
            Comparator::Equal(Some(text())),
            Comparator::LessOrEqual(text()),
            Comparator::GreaterOrEqual(text()),
        ] {
            for column in [7, 8, 9].map(ColumnId) {
                let both = [Comparison { column, comparator: comparator.clone() }, of_row.clone()];
                assert!(RowFilter::of(&composite, &both[..1]).is_none(), "{:?}", both[0]);
                let filter = RowFilter::of(&composite, &both).unwrap();
                assert!(filter.keeps_partition(&key) && filter.keeps_row(&row, 1), "{both:?}");
            }
        }
        assert!(RowFilter::among(&composite, ColumnId(0), &[1]).is_none());
        assert!(!RowFilter::judges_numbers(&composite, ColumnId(0)));
    }
}
