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
}
