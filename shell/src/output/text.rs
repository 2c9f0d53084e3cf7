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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::super::{Mode, printer};
    use super::*;

    #[test]
    fn text_is_written_as_it_is_but_for_programs_that_read_json() {
        let (name, form) = TEXT_FORM;
        let metadata = HashMap::from([(name.to_owned(), form.to_owned())]);
        let field = Field::new("cql", DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![field]).with_metadata(metadata));
        let column: ArrayRef = Arc::new(StringArray::from(vec!["CREATE x;", "a,\n b"]));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let print = |mode| {
            let mut out = Vec::new();
            let mut printer = printer(mode, batch.schema(), None);
            printer.write(&mut out, &batch).unwrap();
            printer.finish(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for mode in [Mode::Table, Mode::Expanded, Mode::Csv] {
            assert_eq!(print(mode), "CREATE x;\n\na,\n b\n\n", "{mode}");
        }
        assert_eq!(print(Mode::Json), "{\"cql\":\"CREATE x;\"}\n{\"cql\":\"a,\\n b\"}\n");
    }
}
