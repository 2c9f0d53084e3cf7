//! Results as comma separated values: a header, then one line a row; null is an empty field. Lists,
//! maps and structs are fields of text.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;

use super::nested;
use super::printer::{Printer, as_io};

pub(super) struct CsvPrinter {
    schema: SchemaRef,
    header_written: bool,
}

impl CsvPrinter {
    pub(super) fn new(schema: SchemaRef) -> Self {
        CsvPrinter { schema, header_written: false }
    }
}

impl Printer for CsvPrinter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let mut writer = WriterBuilder::new().with_header(!self.header_written).build(out);
        self.header_written = true;
        writer.write(&nested::as_text(batch).map_err(as_io)?).map_err(as_io)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.header_written {
            return Ok(());
        }
        self.write(out, &RecordBatch::new_empty(self.schema.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn the_header_stands_once_and_commas_are_quoted() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Utf8, true),
        ]));
        let batch = RecordBatch::try_new(
            schema.clone(),
            vec![
                Arc::new(Int32Array::from(vec![Some(1), None])),
                Arc::new(StringArray::from(vec![Some("x,\"y\""), Some("é")])),
            ],
        )
        .unwrap();
        let mut out = Vec::new();
        let mut printer = CsvPrinter::new(schema.clone());
        printer.write(&mut out, &batch).unwrap();
        printer.write(&mut out, &batch.slice(0, 1)).unwrap();
        printer.finish(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "a,b\n1,\"x,\"\"y\"\"\"\n,é\n1,\"x,\"\"y\"\"\"\n");

        let mut out = Vec::new();
        let nested = nested::tests::sample();
        CsvPrinter::new(nested.schema()).write(&mut out, &nested).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a,b\n1,\"[{7: [1, ]}]\"\n2,\n");

        let mut out = Vec::new();
        CsvPrinter::new(schema).finish(&mut out).unwrap();
        assert_eq!(out, b"a,b\n", "an empty result still has its header");
    }
}
