//! Results as JSON, one object a line; null is written, so every line has every column. Keys of
//! maps are text.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;

use super::nested;
use super::printer::{Printer, as_io};

pub(super) struct JsonPrinter;

impl JsonPrinter {
    pub(super) fn new() -> Self {
        JsonPrinter
    }
}

impl Printer for JsonPrinter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let mut writer =
            WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out);
        writer.write(&nested::with_text_keys(batch).map_err(as_io)?).map_err(as_io)?;
        writer.finish().map_err(as_io)
    }

    fn finish(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Decimal128Array, StringArray};

    use super::*;

    #[test]
    fn keys_of_maps_become_text() {
        let mut out = Vec::new();
        JsonPrinter::new().write(&mut out, &nested::tests::sample()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"a\":1,\"b\":[{\"7\":[1,null]}]}\n{\"a\":2,\"b\":null}\n"
        );
    }

    #[test]
    fn keys_of_bytes_become_digits() {
        use arrow::array::{BinaryBuilder, Int32Builder, ListBuilder, MapBuilder};
        let maps = MapBuilder::new(None, BinaryBuilder::new(), Int32Builder::new());
        let mut lists = ListBuilder::new(maps);
        lists.append(false);
        lists.values().keys().append_value(b"\x00\xff");
        lists.values().values().append_value(7);
        lists.values().append(true).unwrap();
        lists.append(true);
        let column: ArrayRef = Arc::new(lists.finish());
        let batch = RecordBatch::try_from_iter([("m", column)]).unwrap();
        let mut out = Vec::new();
        JsonPrinter::new().write(&mut out, &batch).unwrap();
        let wanted = "{\"m\":null}\n{\"m\":[{\"00ff\":7}]}\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn every_row_is_one_line_with_every_column() {
        let decimal = Decimal128Array::from(vec![Some(1250), None]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(StringArray::from(vec![Some("x\"\n"), None]))),
            ("b", Arc::new(decimal.with_precision_and_scale(6, 2).unwrap())),
            ("c", Arc::new(BinaryArray::from(vec![Some(b"\x01\xff".as_slice()), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        let mut printer = JsonPrinter::new();
        printer.write(&mut out, &batch).unwrap();
        printer.finish(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"a\":\"x\\\"\\n\",\"b\":12.50,\"c\":\"01ff\"}\n{\"a\":null,\"b\":null,\"c\":null}\n"
        );
    }

    /// As in a user's type that has a map, or a map of maps.
    #[test]
    fn keys_become_text_however_deep_their_map_is() {
        use arrow::array::{BinaryBuilder, Int32Builder, MapBuilder, StructArray};
        use arrow::datatypes::Field;
        // {5: {00ff: 7}}
        let inner = MapBuilder::new(None, BinaryBuilder::new(), Int32Builder::new());
        let mut outer = MapBuilder::new(None, Int32Builder::new(), inner);
        outer.keys().append_value(5);
        outer.values().keys().append_value(b"\x00\xff");
        outer.values().values().append_value(7);
        outer.values().append(true).unwrap();
        outer.append(true).unwrap();
        let maps: ArrayRef = Arc::new(outer.finish());
        let field = Arc::new(Field::new("m", maps.data_type().clone(), true));
        let column: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&maps))]));
        let batch = RecordBatch::try_from_iter([("maps", maps), ("udt", column)]).unwrap();
        let mut out = Vec::new();
        JsonPrinter::new().write(&mut out, &batch).unwrap();
        let wanted = "{\"maps\":{\"5\":{\"00ff\":7}},\"udt\":{\"m\":{\"5\":{\"00ff\":7}}}}\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    /// A map of one entry, from a key to 7.
    fn one_entry(key: ArrayRef) -> ArrayRef {
        use arrow::array::{Int32Array, MapArray, StructArray};
        use arrow::buffer::OffsetBuffer;
        use arrow::datatypes::{DataType, Field, Fields};
        let fields = Fields::from(vec![
            Field::new("keys", key.data_type().clone(), false),
            Field::new("values", DataType::Int32, true),
        ]);
        let values: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let entries = StructArray::new(fields.clone(), vec![key, values], None);
        let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
        let offsets = OffsetBuffer::from_lengths([1]);
        Arc::new(MapArray::new(field, offsets, entries, None, false))
    }

    #[test]
    fn keys_of_every_type_become_text() {
        use arrow::array::{
            BooleanArray, Date32Array, Float64Array, Int8Array, Int64Array, LargeBinaryArray,
            TimestampMicrosecondArray,
        };
        let decimal = Decimal128Array::from(vec![1250]).with_precision_and_scale(6, 2).unwrap();
        let moment = TimestampMicrosecondArray::from(vec![1_700_000_000_123_456]);
        let cases: Vec<(ArrayRef, &str)> = vec![
            (Arc::new(StringArray::from(vec!["x\"y"])), "x\\\"y"),
            (Arc::new(Int8Array::from(vec![-5])), "-5"),
            (Arc::new(Int64Array::from(vec![i64::MIN])), "-9223372036854775808"),
            (Arc::new(BooleanArray::from(vec![true])), "true"),
            (Arc::new(Float64Array::from(vec![1.5])), "1.5"),
            (Arc::new(Date32Array::from(vec![19_000])), "2022-01-08"),
            (Arc::new(moment), "2023-11-14T22:13:20.123456"),
            (Arc::new(decimal), "12.50"),
            (Arc::new(BinaryArray::from(vec![b"\x00\xff".as_slice()])), "00ff"),
            (Arc::new(LargeBinaryArray::from(vec![b"\x00\xff".as_slice()])), "00ff"),
        ];
        for (key, wanted) in cases {
            let ty = key.data_type().clone();
            let batch = RecordBatch::try_from_iter([("m", one_entry(key))]).unwrap();
            let mut out = Vec::new();
            JsonPrinter::new().write(&mut out, &batch).unwrap();
            let line = format!("{{\"m\":{{\"{wanted}\":7}}}}\n");
            assert_eq!(String::from_utf8(out).unwrap(), line, "{ty}");
        }
    }
}
