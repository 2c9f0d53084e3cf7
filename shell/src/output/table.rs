//! Results as a drawn table, in the shape of Arrow's own pretty printer.
//!
//! Invariant: column widths are decided by the first [`SAMPLE_ROWS_MAX`] rows and then stay; a
//! later wider value pushes its line out but is never cut. Control characters of the data are
//! written as escapes, so no value can steer the terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use unicode_width::UnicodeWidthStr;

use super::{Printer, as_io};

/// Rows held back to decide the widths.
pub const SAMPLE_ROWS_MAX: usize = 1000;
/// Bytes of text held back to decide the widths, however few rows that is.
pub const SAMPLE_BYTES_MAX: usize = 4 << 20;

pub(super) struct TablePrinter {
    schema: SchemaRef,
    /// Rows held back; empty once `widths` is known.
    sample: Vec<Vec<String>>,
    sample_bytes: usize,
    widths: Option<Vec<usize>>,
}

impl TablePrinter {
    pub(super) fn new(schema: SchemaRef) -> Self {
        TablePrinter { schema, sample: Vec::new(), sample_bytes: 0, widths: None }
    }

    /// Decides the widths and writes the head and the rows held back.
    fn start(&mut self, out: &mut dyn Write) -> io::Result<Vec<usize>> {
        let names: Vec<String> = self.schema.fields().iter().map(|f| printable(f.name())).collect();
        let mut widths: Vec<usize> = names.iter().map(|name| width(name)).collect();
        for row in &self.sample {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = (*most).max(width(cell));
            }
        }
        rule(out, &widths)?;
        let left = vec![false; names.len()];
        write_row(out, &names, &widths, &left)?;
        rule(out, &widths)?;
        let right = self.right_aligned();
        for row in std::mem::take(&mut self.sample) {
            write_row(out, &row, &widths, &right)?;
        }
        self.widths = Some(widths.clone());
        Ok(widths)
    }

    fn right_aligned(&self) -> Vec<bool> {
        self.schema.fields().iter().map(|field| field.data_type().is_numeric()).collect()
    }
}

impl Printer for TablePrinter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let options = FormatOptions::default().with_null("NULL").with_display_error(true);
        let formatters = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(as_io)?;
        let right = self.right_aligned();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                formatters.iter().map(|f| printable(&f.value(row).to_string())).collect();
            if let Some(widths) = &self.widths {
                write_row(out, &cells, widths, &right)?;
                continue;
            }
            self.sample_bytes += cells.iter().map(String::len).sum::<usize>();
            self.sample.push(cells);
            if self.sample.len() >= SAMPLE_ROWS_MAX || self.sample_bytes >= SAMPLE_BYTES_MAX {
                self.start(out)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.schema.fields().is_empty() {
            return Ok(());
        }
        match &self.widths {
            Some(widths) => rule(out, widths),
            None => {
                let is_empty = self.sample.is_empty();
                let widths = self.start(out)?;
                if is_empty { Ok(()) } else { rule(out, &widths) }
            }
        }
    }
}

fn rule(out: &mut dyn Write, widths: &[usize]) -> io::Result<()> {
    let mut line = String::from("+");
    for width in widths {
        line.extend(std::iter::repeat_n('-', width + 2));
        line.push('+');
    }
    line.push('\n');
    out.write_all(line.as_bytes())
}

fn write_row(
    out: &mut dyn Write,
    cells: &[String],
    widths: &[usize],
    right: &[bool],
) -> io::Result<()> {
    let height = cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(0).max(1);
    for line in 0..height {
        let mut text = String::from("|");
        for ((cell, &most), &right) in cells.iter().zip(widths).zip(right) {
            let part = cell.lines().nth(line).unwrap_or("");
            let padding = " ".repeat(most.saturating_sub(part.width()));
            if right {
                let _ = write!(text, " {padding}{part} |");
            } else {
                let _ = write!(text, " {part}{padding} |");
            }
        }
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Columns that the widest line of `cell` takes on a screen.
fn width(cell: &str) -> usize {
    cell.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// `text` with its control characters, line breaks excepted, as escapes.
fn printable(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn print(batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let mut printer = TablePrinter::new(batches[0].schema());
        for batch in batches {
            printer.write(&mut out, batch).unwrap();
        }
        printer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn batch(ids: Vec<i64>, names: Vec<Option<&str>>) -> RecordBatch {
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("id", Arc::new(Int64Array::from(ids)), true),
            ("name", Arc::new(StringArray::from(names)), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    #[test]
    fn numbers_stand_right_and_wide_letters_keep_the_lines_straight() {
        let text = print(&[batch(vec![7, 1000], vec![Some("日本"), None])]);
        assert_eq!(
            text,
            "+------+------+\n\
             | id   | name |\n\
             +------+------+\n\
             |    7 | 日本 |\n\
             | 1000 | NULL |\n\
             +------+------+\n"
        );
    }

    #[test]
    fn values_with_line_breaks_take_several_lines_and_no_value_steers_the_terminal() {
        let text = print(&[batch(vec![1], vec![Some("a\nbb\u{1b}[2J")])]);
        assert_eq!(
            text,
            "+----+-------------+\n\
             | id | name        |\n\
             +----+-------------+\n\
             |  1 | a           |\n\
             |    | bb\\u{1b}[2J |\n\
             +----+-------------+\n"
        );
    }

    #[test]
    fn an_empty_result_is_a_head() {
        let text = print(&[batch(vec![], vec![])]);
        assert_eq!(text, "+----+------+\n| id | name |\n+----+------+\n");
    }

    #[test]
    fn rows_flow_once_the_sample_is_full() {
        let rows = i64::try_from(SAMPLE_ROWS_MAX).unwrap();
        let first = batch((0..rows).collect(), vec![Some("x"); SAMPLE_ROWS_MAX]);
        let mut out = Vec::new();
        let mut printer = TablePrinter::new(first.schema());
        printer.write(&mut out, &first.slice(0, SAMPLE_ROWS_MAX - 1)).unwrap();
        assert!(out.is_empty(), "the widths are not known yet");
        printer.write(&mut out, &first.slice(SAMPLE_ROWS_MAX - 1, 1)).unwrap();
        assert_eq!(out.iter().filter(|b| **b == b'\n').count(), SAMPLE_ROWS_MAX + 3);
        assert!(printer.sample.is_empty());
        printer.write(&mut out, &batch(vec![123_456], vec![Some("a longer one")])).unwrap();
        printer.finish(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("| 123456 | a longer one |\n"), "a wide late value is not cut");
    }
}
