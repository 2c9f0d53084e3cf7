//! Results that are text already: each row as it is, with a line between two.

use std::io::{self, Write};

use arrow::array::{Array, AsArray, RecordBatch};

use super::printer::Printer;

/// What the metadata of a schema says of a result that is text: its one column is not to be drawn.
pub const TEXT_FORM: (&str, &str) = ("tidegate.form", "text");

pub(super) struct TextPrinter;

impl Printer for TextPrinter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let texts = batch.column(0).as_string::<i32>();
        assert_eq!(texts.null_count(), 0, "text that is written as it is has no nulls");
        texts.iter().flatten().try_for_each(|text| writeln!(out, "{text}\n"))
    }

    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
