//! Lists, maps and structs for formats that cannot hold every one of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, StringBuilder, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The batch with every column that holds others as the text that a drawn table has of it.
///
/// Errors: those of Arrow for a type that it cannot show.
pub(super) fn as_text(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    changed(batch, |column| {
        if !column.data_type().is_nested() {
            return Ok(Arc::clone(column));
        }
        let values = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
        let mut text = StringBuilder::new();
        for row in 0..column.len() {
            match column.is_null(row) {
                true => text.append_null(),
                false => text.append_value(values.value(row).try_to_string()?),
            }
        }
        Ok(Arc::new(text.finish()))
    })
}

/// The batch with the keys of maps as text, as JSON wants them, however deep the maps are; bytes as
/// hexadecimal digits.
///
/// Errors: those of Arrow for keys that cannot be text.
pub(super) fn with_text_keys(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    changed(batch, |column| {
        let wanted = text_keys(column.data_type());
        if wanted == *column.data_type() {
            return Ok(Arc::clone(column));
        }
        cast(&make_array(with_hex_keys(column.to_data())?), &wanted)
    })
}

/// The array with those keys of maps that are bytes as text.
fn with_hex_keys(data: ArrayData) -> Result<ArrayData, ArrowError> {
    let is_map = matches!(data.data_type(), DataType::Map(..));
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        let mut child = with_hex_keys(child.clone())?;
        if is_map && let Some(keys) = child.child_data().first() {
            let keys = make_array(keys.clone());
            let is_bytes = matches!(
                keys.data_type(),
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView
            );
            if is_bytes {
                let formatter = ArrayFormatter::try_new(&keys, &FormatOptions::default())?;
                let mut text = StringBuilder::new();
                for row in 0..keys.len() {
                    text.append_value(formatter.value(row).try_to_string()?);
                }
                let mut parts = child.child_data().to_vec();
                parts[0] = text.finish().into_data();
                child = with_children(child, parts)?;
            }
        }
        children.push(child);
    }
    with_children(data, children)
}

/// The array with other arrays inside, whose types become part of its own.
fn with_children(data: ArrayData, children: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
    let mut types = children.iter().map(|child| child.data_type().clone());
    let mut of = |field: &FieldRef| -> FieldRef {
        let ty = types.next().unwrap_or_else(|| field.data_type().clone());
        Arc::new(field.as_ref().clone().with_data_type(ty))
    };
    let ty = match data.data_type() {
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::Map(field, sorted) => DataType::Map(of(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        other => other.clone(),
    };
    data.into_builder().data_type(ty).child_data(children).build()
}

fn changed(
    batch: &RecordBatch,
    change: impl Fn(&ArrayRef) -> Result<ArrayRef, ArrowError>,
) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| column.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(&columns);
    let fields: Vec<Field> = fields
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn text_keys(ty: &DataType) -> DataType {
    let of = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(text_keys(field.data_type())))
    };
    match ty {
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else { return ty.clone() };
            let is_text = |ty: &DataType| {
                matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            };
            let field = |(i, field): (usize, &FieldRef)| match i {
                0 if is_text(field.data_type()) => Arc::clone(field),
                0 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
                _ => of(field),
            };
            let fields = DataType::Struct(fields.iter().enumerate().map(field).collect());
            DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(fields)), *sorted)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use arrow::array::{Int32Builder, ListBuilder, MapBuilder};

    use super::*;

    /// A list of maps from numbers to lists, and a plain column.
    pub(in crate::output) fn sample() -> RecordBatch {
        let values = ListBuilder::new(Int32Builder::new());
        let maps = MapBuilder::new(None, Int32Builder::new(), values);
        let mut lists = ListBuilder::new(maps);
        lists.values().keys().append_value(7);
        lists.values().values().append_value([Some(1), None]);
        lists.values().append(true).unwrap();
        lists.append(true);
        lists.append(false);
        let plain: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1, 2]));
        let nested: ArrayRef = Arc::new(lists.finish());
        RecordBatch::try_from_iter([("a", plain), ("b", nested)]).unwrap()
    }
}
