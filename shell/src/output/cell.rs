//! Values of a batch as the text that people read.

use std::io;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::printer::as_io;

const OPTIONS: FormatOptions<'static> =
    FormatOptions::new().with_null("NULL").with_display_error(true);

/// Formats the rows of one batch.
pub(super) struct Cells<'a> {
    formatters: Vec<ArrayFormatter<'a>>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(batch: &'a RecordBatch) -> io::Result<Self> {
        let formatters = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &OPTIONS))
            .collect::<Result<Vec<_>, _>>()
            .map_err(as_io)?;
        Ok(Cells { formatters })
    }

    /// Text of every column of a row; line breaks stay, other control characters are escapes.
    pub(super) fn row(&self, row: usize) -> Vec<String> {
        self.formatters.iter().map(|f| printable(&f.value(row).to_string())).collect()
    }
}

/// `text` with its control characters, line breaks excepted, as escapes.
pub(super) fn printable(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}
