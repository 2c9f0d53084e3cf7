//! Builds one Arrow column from stored values.
//!
//! A collection, tuple or user type comes either as one frozen value or as the cells of a
//! multi-cell column; both give the same Arrow values. Empty bytes of a type that has no empty
//! value are null, as Cassandra shows them, and so is a multi-cell column without live cells.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, ListArray, MapArray, NullBufferBuilder, StringBuilder, StructArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Decimal256Type, FieldRef, Fields,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64NanosecondType, TimestampMillisecondType,
};

use super::bytes::{BytesBuilder, Wrong};
use super::fixed::FixedBuilder;
use super::types::{
    NARROW_DIGITS_MAX, VARINT_DIGITS_MAX, arrow_type, element_field, entries_field, struct_fields,
};
use super::wide;
use crate::mutation::{CellPath, MultiCell};
use crate::schema::value::{duration, format_uuid};
use crate::schema::varint::sign_extended;
use crate::schema::{DataType, counter, frozen};

const LENGTH: Wrong = "wrong length";
const TOO_MANY: Wrong = "too many elements for one batch";

/// See the head of this file.
pub(super) enum ColumnBuilder {
    Boolean(BooleanBuilder),
    TinyInt(FixedBuilder<Int8Type>),
    SmallInt(FixedBuilder<Int16Type>),
    Int(FixedBuilder<Int32Type>),
    BigInt(FixedBuilder<Int64Type>),
    Counter(FixedBuilder<Int64Type>),
    Float(FixedBuilder<Float32Type>),
    Double(FixedBuilder<Float64Type>),
    Decimal(FixedBuilder<Decimal128Type>, Digits),
    WideDecimal(FixedBuilder<Decimal256Type>, u8, i8),
    Varint(FixedBuilder<Decimal256Type>),
    Text(BytesBuilder),
    Uuid(StringBuilder),
    Inet(StringBuilder),
    Blob(BytesBuilder),
    Date(FixedBuilder<Date32Type>),
    Time(FixedBuilder<Time64NanosecondType>),
    Timestamp(FixedBuilder<TimestampMillisecondType>),
    Duration(FixedBuilder<IntervalMonthDayNanoType>),
    List(Box<ListBuilder>),
    Map(Box<MapBuilder>),
    Struct(Box<StructBuilder>),
}

/// What values a column of decimals takes.
pub(super) struct Digits {
    scale: i32,
    /// Values without their point are nearer to zero than this.
    limit: u128,
}

/// Where the elements of each list or map end, and which of them are null.
struct Extents {
    offsets: Vec<i32>,
    present: NullBufferBuilder,
}

impl Extents {
    fn new() -> Self {
        Extents { offsets: vec![0], present: NullBufferBuilder::new(0) }
    }

    fn null(&mut self) {
        self.offsets.push(self.offsets[self.offsets.len() - 1]);
        self.present.append_null();
    }

    fn add(&mut self, count: usize) -> Result<(), Wrong> {
        let count = i32::try_from(count).map_err(|_| TOO_MANY)?;
        let end = self.offsets[self.offsets.len() - 1].checked_add(count).ok_or(TOO_MANY)?;
        self.offsets.push(end);
        self.present.append_non_null();
        Ok(())
    }

    /// Of cells without a whole: none of them is no value.
    fn add_or_null(&mut self, count: usize) -> Result<(), Wrong> {
        if count > 0 {
            return self.add(count);
        }
        self.null();
        Ok(())
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, NullBufferBuilder) {
        let Extents { offsets, present } = std::mem::replace(self, Extents::new());
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), present)
    }
}

/// Lists and sets.
pub(super) struct ListBuilder {
    field: FieldRef,
    extents: Extents,
    elements: ColumnBuilder,
    /// Of a set: the type of its elements, which are the paths of its cells.
    path: Option<DataType>,
}

/// Maps.
pub(super) struct MapBuilder {
    field: FieldRef,
    fields: Fields,
    extents: Extents,
    key: DataType,
    keys: ColumnBuilder,
    values: ColumnBuilder,
}

/// Tuples and user types.
pub(super) struct StructBuilder {
    fields: Fields,
    present: NullBufferBuilder,
    columns: Vec<ColumnBuilder>,
}

/// A path as a value of its type.
fn stored_path(path: &CellPath, ty: &DataType) -> Result<Vec<u8>, Wrong> {
    path.stored(ty).map_err(|_| "the path of a cell")
}

impl ListBuilder {
    fn push(&mut self, stored: Option<&[u8]>) -> Result<(), Wrong> {
        let Some(bytes) = stored.filter(|bytes| !bytes.is_empty()) else {
            self.extents.null();
            return Ok(());
        };
        let elements = frozen::elements(bytes, 1).ok_or("not a count and its elements")?;
        elements.iter().try_for_each(|element| self.elements.push(*element))?;
        self.extents.add(elements.len())
    }

    fn push_multi(&mut self, multi: &MultiCell, now: i32) -> Result<(), Wrong> {
        let mut count = 0;
        for (path, value) in multi.live_cells(now) {
            match &self.path {
                Some(ty) => self.elements.push(Some(&stored_path(path, ty)?))?,
                None => self.elements.push(Some(value))?,
            }
            count += 1;
        }
        self.extents.add_or_null(count)
    }

    fn finish(&mut self) -> Result<ArrayRef, Wrong> {
        let (offsets, mut present) = self.extents.finish();
        let elements = self.elements.finish()?;
        Ok(Arc::new(ListArray::new(self.field.clone(), offsets, elements, present.finish())))
    }
}

impl MapBuilder {
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Wrong> {
        if key.is_empty() && !matches!(self.key, DataType::Text | DataType::Blob) {
            return Err("a key without bytes");
        }
        self.keys.push(Some(key))?;
        self.values.push(value)
    }

    fn push(&mut self, stored: Option<&[u8]>) -> Result<(), Wrong> {
        let Some(bytes) = stored.filter(|bytes| !bytes.is_empty()) else {
            self.extents.null();
            return Ok(());
        };
        let elements = frozen::elements(bytes, 2).ok_or("not a count and its entries")?;
        for entry in elements.chunks_exact(2) {
            self.entry(entry[0].ok_or("a null key")?, entry[1])?;
        }
        self.extents.add(elements.len() / 2)
    }

    fn push_multi(&mut self, multi: &MultiCell, now: i32) -> Result<(), Wrong> {
        let mut count = 0;
        for (path, value) in multi.live_cells(now) {
            let key = stored_path(path, &self.key)?;
            self.entry(&key, Some(value))?;
            count += 1;
        }
        self.extents.add_or_null(count)
    }

    fn finish(&mut self) -> Result<ArrayRef, Wrong> {
        let (offsets, mut present) = self.extents.finish();
        let columns = vec![self.keys.finish()?, self.values.finish()?];
        let entries = StructArray::new(self.fields.clone(), columns, None);
        let (field, nulls) = (self.field.clone(), present.finish());
        Ok(Arc::new(MapArray::new(field, offsets, entries, nulls, false)))
    }
}

impl StructBuilder {
    fn put(&mut self, fields: Option<Vec<Option<&[u8]>>>) -> Result<(), Wrong> {
        match &fields {
            Some(_) => self.present.append_non_null(),
            None => self.present.append_null(),
        }
        let fields = fields.unwrap_or_else(|| vec![None; self.columns.len()]);
        self.columns.iter_mut().zip(fields).try_for_each(|(column, field)| column.push(field))
    }

    fn push(&mut self, stored: Option<&[u8]>) -> Result<(), Wrong> {
        let Some(bytes) = stored.filter(|bytes| !bytes.is_empty()) else { return self.put(None) };
        let fields = frozen::fields(bytes, self.columns.len()).ok_or("not its fields")?;
        self.put(Some(fields))
    }

    fn push_multi(&mut self, multi: &MultiCell, now: i32) -> Result<(), Wrong> {
        let mut fields = vec![None; self.columns.len()];
        let mut has_any = false;
        for (path, value) in multi.live_cells(now) {
            let number = stored_path(path, &DataType::SmallInt)?;
            let number = i16::from_be_bytes(number.try_into().map_err(|_| LENGTH)?);
            let field = usize::try_from(number).ok().and_then(|number| fields.get_mut(number));
            *field.ok_or("it has a field that the type lacks")? = Some(value);
            has_any = true;
        }
        self.put(has_any.then_some(fields))
    }

    fn finish(&mut self) -> Result<ArrayRef, Wrong> {
        let present = self.present.finish();
        let columns: Result<_, Wrong> =
            self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        Ok(Arc::new(StructArray::new(self.fields.clone(), columns?, present)))
    }
}

impl ColumnBuilder {
    pub(super) fn new(ty: &DataType) -> Self {
        match ty {
            DataType::Boolean => ColumnBuilder::Boolean(BooleanBuilder::new()),
            DataType::TinyInt => ColumnBuilder::TinyInt(FixedBuilder::new(arrow_type(ty))),
            DataType::SmallInt => ColumnBuilder::SmallInt(FixedBuilder::new(arrow_type(ty))),
            DataType::Int => ColumnBuilder::Int(FixedBuilder::new(arrow_type(ty))),
            DataType::BigInt => ColumnBuilder::BigInt(FixedBuilder::new(arrow_type(ty))),
            DataType::Counter => ColumnBuilder::Counter(FixedBuilder::new(arrow_type(ty))),
            DataType::Float => ColumnBuilder::Float(FixedBuilder::new(arrow_type(ty))),
            DataType::Double => ColumnBuilder::Double(FixedBuilder::new(arrow_type(ty))),
            DataType::Decimal { precision, scale } if *precision <= NARROW_DIGITS_MAX => {
                let limit = 10u128.pow(u32::from(*precision));
                let digits = Digits { scale: i32::from(*scale), limit };
                ColumnBuilder::Decimal(FixedBuilder::new(arrow_type(ty)), digits)
            }
            DataType::Decimal { precision, scale } => {
                ColumnBuilder::WideDecimal(FixedBuilder::new(arrow_type(ty)), *precision, *scale)
            }
            DataType::Varint => ColumnBuilder::Varint(FixedBuilder::new(arrow_type(ty))),
            DataType::Text => ColumnBuilder::Text(BytesBuilder::default()),
            DataType::Uuid | DataType::TimeUuid => ColumnBuilder::Uuid(StringBuilder::new()),
            DataType::Inet => ColumnBuilder::Inet(StringBuilder::new()),
            DataType::Blob => ColumnBuilder::Blob(BytesBuilder::default()),
            DataType::Date => ColumnBuilder::Date(FixedBuilder::new(arrow_type(ty))),
            DataType::Time => ColumnBuilder::Time(FixedBuilder::new(arrow_type(ty))),
            DataType::Timestamp => ColumnBuilder::Timestamp(FixedBuilder::new(arrow_type(ty))),
            DataType::Duration => ColumnBuilder::Duration(FixedBuilder::new(arrow_type(ty))),
            DataType::Frozen(inner) => ColumnBuilder::new(inner),
            DataType::List(element) | DataType::Set(element) => {
                ColumnBuilder::List(Box::new(ListBuilder {
                    field: Arc::new(element_field(element)),
                    extents: Extents::new(),
                    elements: ColumnBuilder::new(element),
                    path: matches!(ty, DataType::Set(_)).then(|| (**element).clone()),
                }))
            }
            DataType::Map(key, value) => {
                let field = entries_field(key, value);
                let fields = match field.data_type() {
                    ArrowType::Struct(fields) => fields.clone(),
                    _ => Fields::empty(),
                };
                ColumnBuilder::Map(Box::new(MapBuilder {
                    field: Arc::new(field),
                    fields,
                    extents: Extents::new(),
                    key: (**key).clone(),
                    keys: ColumnBuilder::new(key),
                    values: ColumnBuilder::new(value),
                }))
            }
            DataType::Tuple(types) => {
                StructBuilder::of(ty, types.iter().map(ColumnBuilder::new).collect())
            }
            DataType::User(user) => {
                let columns = user.fields.iter().map(|(_, ty)| ColumnBuilder::new(ty));
                StructBuilder::of(ty, columns.collect())
            }
        }
    }

    /// Appends the stored bytes of one value.
    pub(super) fn push(&mut self, stored: Option<&[u8]>) -> Result<(), Wrong> {
        macro_rules! fixed {
            ($builder:expr, $convert:expr) => {
                match stored {
                    None | Some([]) => $builder.append_null(),
                    Some(bytes) => {
                        $builder.append_value($convert(bytes.try_into().map_err(|_| LENGTH)?))
                    }
                }
            };
        }
        macro_rules! other {
            ($builder:expr, $convert:expr) => {
                match stored {
                    None | Some([]) => $builder.append_null(),
                    Some(bytes) => $builder.append_value($convert(bytes)?),
                }
            };
        }
        match self {
            ColumnBuilder::Boolean(b) => fixed!(b, |[byte]: [u8; 1]| byte != 0),
            ColumnBuilder::TinyInt(b) => fixed!(b, i8::from_be_bytes),
            ColumnBuilder::SmallInt(b) => fixed!(b, i16::from_be_bytes),
            ColumnBuilder::Int(b) => fixed!(b, i32::from_be_bytes),
            ColumnBuilder::BigInt(b) => fixed!(b, i64::from_be_bytes),
            ColumnBuilder::Float(b) => fixed!(b, f32::from_be_bytes),
            ColumnBuilder::Double(b) => fixed!(b, f64::from_be_bytes),
            ColumnBuilder::Date(b) => {
                fixed!(b, |bytes| u32::from_be_bytes(bytes).wrapping_sub(1 << 31) as i32)
            }
            ColumnBuilder::Time(b) => fixed!(b, i64::from_be_bytes),
            ColumnBuilder::Timestamp(b) => fixed!(b, i64::from_be_bytes),
            ColumnBuilder::Text(b) | ColumnBuilder::Blob(b) => b.push(stored)?,
            ColumnBuilder::Counter(b) => match stored {
                None => b.append_null(),
                Some(context) => b.append_value(counter::total(context).ok_or("no shards")?),
            },
            ColumnBuilder::Uuid(b) => {
                other!(b, |bytes: &[u8]| Ok::<_, Wrong>(format_uuid(
                    bytes.try_into().map_err(|_| LENGTH)?
                )));
            }
            ColumnBuilder::Inet(b) => other!(b, address),
            ColumnBuilder::Decimal(b, digits) => other!(b, |bytes| decimal(bytes, digits)),
            ColumnBuilder::WideDecimal(b, precision, scale) => other!(b, |bytes: &[u8]| {
                let (own, unscaled) = bytes.split_first_chunk::<4>().ok_or(LENGTH)?;
                let unscaled = wide::from_bytes(unscaled).ok_or(LENGTH)?;
                let shift = i64::from(*scale) - i64::from(i32::from_be_bytes(*own));
                wide::rescale(unscaled, shift)
                    .filter(|value| wide::has_digits(*value, *precision))
                    .ok_or("does not fit the column's digits")
            }),
            ColumnBuilder::Varint(b) => other!(b, |bytes| {
                wide::from_bytes(bytes)
                    .filter(|value| wide::has_digits(*value, VARINT_DIGITS_MAX))
                    .ok_or("over 76 digits, which SQL does not show")
            }),
            ColumnBuilder::Duration(b) => other!(b, |bytes| {
                let (months, days, nanoseconds) = duration(bytes).ok_or("not three numbers")?;
                Ok::<_, Wrong>(IntervalMonthDayNano { months, days, nanoseconds })
            }),
            ColumnBuilder::List(list) => list.push(stored)?,
            ColumnBuilder::Map(map) => map.push(stored)?,
            ColumnBuilder::Struct(fields) => fields.push(stored)?,
        }
        Ok(())
    }

    /// Appends what is live at `now` (seconds) of a multi-cell column.
    pub(super) fn push_multi(&mut self, multi: Option<&MultiCell>, now: i32) -> Result<(), Wrong> {
        let Some(multi) = multi else { return self.push(None) };
        match self {
            ColumnBuilder::List(list) => list.push_multi(multi, now),
            ColumnBuilder::Map(map) => map.push_multi(multi, now),
            ColumnBuilder::Struct(fields) => fields.push_multi(multi, now),
            _ => Err("it has elements"),
        }
    }

    /// The values as an array; the builder starts anew.
    ///
    /// Errors: one of them is none of its type.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, Wrong> {
        Ok(match self {
            ColumnBuilder::Boolean(b) => Arc::new(b.finish()),
            ColumnBuilder::TinyInt(b) => b.finish(),
            ColumnBuilder::SmallInt(b) => b.finish(),
            ColumnBuilder::Int(b) => b.finish(),
            ColumnBuilder::BigInt(b) | ColumnBuilder::Counter(b) => b.finish(),
            ColumnBuilder::Float(b) => b.finish(),
            ColumnBuilder::Double(b) => b.finish(),
            ColumnBuilder::Decimal(b, ..) => b.finish(),
            ColumnBuilder::WideDecimal(b, ..) | ColumnBuilder::Varint(b) => b.finish(),
            ColumnBuilder::Uuid(b) | ColumnBuilder::Inet(b) => Arc::new(b.finish()),
            ColumnBuilder::Text(b) => b.finish_text()?,
            ColumnBuilder::Blob(b) => b.finish_bytes(),
            ColumnBuilder::Date(b) => b.finish(),
            ColumnBuilder::Time(b) => b.finish(),
            ColumnBuilder::Timestamp(b) => b.finish(),
            ColumnBuilder::Duration(b) => b.finish(),
            ColumnBuilder::List(list) => list.finish()?,
            ColumnBuilder::Map(map) => map.finish()?,
            ColumnBuilder::Struct(fields) => fields.finish()?,
        })
    }
}

impl StructBuilder {
    fn of(ty: &DataType, columns: Vec<ColumnBuilder>) -> ColumnBuilder {
        ColumnBuilder::Struct(Box::new(StructBuilder {
            fields: struct_fields(ty),
            present: NullBufferBuilder::new(0),
            columns,
        }))
    }
}

fn address(bytes: &[u8]) -> Result<String, Wrong> {
    let address: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).map_err(|_| LENGTH)?.into(),
        16 => <[u8; 16]>::try_from(bytes).map_err(|_| LENGTH)?.into(),
        _ => return Err(LENGTH),
    };
    Ok(address.to_string())
}

#[inline]
fn decimal(bytes: &[u8], digits: &Digits) -> Result<i128, Wrong> {
    let (own, unscaled) = bytes.split_first_chunk::<4>().ok_or(LENGTH)?;
    let unscaled = sign_extended(unscaled).ok_or(LENGTH)?;
    let own = i32::from_be_bytes(*own);
    // Almost all have the scale of their column.
    let value = match own == digits.scale {
        true => unscaled,
        false => rescale(unscaled, i64::from(digits.scale) - i64::from(own))
            .ok_or("does not fit the column's scale")?,
    };
    match value.unsigned_abs() < digits.limit {
        true => Ok(value),
        false => Err("does not fit the column's precision"),
    }
}

/// Multiplies by 10^shift without loss.
pub(super) fn rescale(unscaled: i128, shift: i64) -> Option<i128> {
    if unscaled == 0 {
        return Some(0);
    }
    let power = 10i128.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?)?;
    if shift >= 0 {
        unscaled.checked_mul(power)
    } else {
        (unscaled % power == 0).then_some(unscaled / power)
    }
}
