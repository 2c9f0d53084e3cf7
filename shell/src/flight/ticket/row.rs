//! A row of parameters in few bytes: every call of an execution carries it.
//!
//! ```text
//! columns 1 | type of each 1 | the row, as `arrow::row` has it
//! ```
//!
//! As a stream of Arrow IPC it has some 600 bytes more, which are made, hashed and sent three
//! times. Rows of other types, and several rows, are such streams. Names of parameters mean
//! nothing, so what is read has `$1` and so on.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

/// Most columns.
const COLUMNS_MAX: usize = 64;

/// Types by their numbers, which clients carry: new ones come last.
static TYPES: LazyLock<[DataType; 16]> = LazyLock::new(|| {
    use DataType as T;
    [
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float32,
        T::Float64,
        T::Utf8,
        T::Binary,
        T::Date32,
        T::Time64(TimeUnit::Nanosecond),
        T::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
    ]
});

/// The one row of a batch; `None` where it is no row of such types, or several.
pub(super) fn write(rows: &RecordBatch) -> Option<Vec<u8>> {
    if rows.num_rows() != 1 || !(1..=COLUMNS_MAX).contains(&rows.num_columns()) {
        return None;
    }
    let number = |ty: &DataType| TYPES.iter().position(|known| known == ty);
    let types = rows.columns().iter().map(|column| number(column.data_type()));
    let types = types.collect::<Option<Vec<usize>>>()?;
    let encoded = converter(&types).ok()?.convert_columns(rows.columns()).ok()?;
    let row = encoded.row(0);
    let mut bytes = Vec::with_capacity(1 + types.len() + row.data().len());
    bytes.push(types.len() as u8);
    bytes.extend(types.iter().map(|number| *number as u8));
    bytes.extend_from_slice(row.data());
    Some(bytes)
}

/// The batch of a row that [`write`] wrote.
///
/// Errors: for what it did not write, where it does not panic.
pub(super) fn read(bytes: &[u8]) -> Result<RecordBatch, ArrowError> {
    let torn = || ArrowError::ParseError("a row of parameters that is cut off".to_owned());
    let (count, rest) = bytes.split_first().ok_or_else(torn)?;
    let (types, row) = rest.split_at_checked(usize::from(*count)).ok_or_else(torn)?;
    let types: Vec<usize> = types.iter().copied().map(usize::from).collect();
    let converter = converter(&types)?;
    let parser = converter.parser();
    let columns = converter.convert_rows([parser.parse(row)])?;
    let fields = columns.iter().enumerate().map(|(n, column)| {
        Field::new(format!("${}", n + 1), column.data_type().clone(), column.null_count() > 0)
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}

fn converter(types: &[usize]) -> Result<RowConverter, ArrowError> {
    let field = |number: &usize| TYPES.get(*number).cloned().map(SortField::new);
    let fields = types.iter().map(field).collect::<Option<Vec<_>>>();
    let unknown = || ArrowError::ParseError("a parameter of a type that is not known".to_owned());
    RowConverter::new(fields.ok_or_else(unknown)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int64Array, NullArray,
        StringArray, TimestampMillisecondArray, new_null_array,
    };

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate();
        let named = named.map(|(n, column)| (format!("${}", n + 1), column));
        RecordBatch::try_from_iter(named).unwrap()
    }

    #[test]
    fn a_row_reads_back_as_it_was_written() {
        let floats = [f64::NAN, -0.0, 1.5, f64::NEG_INFINITY];
        let of_float = |value| vec![Arc::new(Float64Array::from(vec![value])) as ArrayRef];
        let texts = ["", "a\u{0}b;ü", &"x".repeat(1000)];
        let of_text = |text| vec![Arc::new(StringArray::from(vec![text])) as ArrayRef];
        let zoned = TimestampMillisecondArray::from(vec![-7]).with_timezone("UTC");
        let other: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![i64::MIN])),
            Arc::new(BooleanArray::from(vec![true])),
            Arc::new(BinaryArray::from_vec(vec![b"\x00\xff"])),
            Arc::new(Float32Array::from(vec![-1.25])),
            Arc::new(zoned),
        ];
        let nulls: Vec<ArrayRef> = TYPES.iter().map(|ty| new_null_array(ty, 1)).collect();
        let all = floats.map(of_float).into_iter().chain(texts.map(of_text));
        for columns in all.chain([other, nulls]) {
            let rows = batch(columns);
            let bytes = write(&rows).unwrap();
            // NaN equals nothing, so the bits are compared.
            assert_eq!(format!("{:?}", read(&bytes).unwrap()), format!("{rows:?}"));
        }
    }

    #[test]
    fn what_is_no_row_of_plain_types_is_not_written() {
        let two = batch(vec![Arc::new(Int64Array::from(vec![1, 2]))]);
        let none = batch(vec![Arc::new(NullArray::new(1))]);
        let wide: Vec<_> = (0..=COLUMNS_MAX).map(|_| new_null_array(&DataType::Int8, 1)).collect();
        for rows in [two.slice(0, 0), two, none, batch(wide)] {
            assert_eq!(write(&rows), None, "{}", rows.schema());
        }
        for bytes in [&b""[..], b"\x02\x00", b"\x01\xff\x00"] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
