//! Results as a drawn table, in the shape of Arrow's own pretty printer.
//!
//! Invariant: column widths are decided by the first [`SAMPLE_ROWS_MAX`] rows and then stay. On a
//! screen a table is never wider than it: text is shortened, numbers and times never are, and a
//! result that does not fit even so is written as records (`expanded`). Elsewhere nothing is cut.
//! Control characters of the data are written as escapes, so no value can steer the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::cell::{Cells, printable};
use super::expanded::ExpandedPrinter;
use super::printer::{Page, Printer};
use crate::text::width::{shortened, width};

/// Rows held back to decide the widths.
pub const SAMPLE_ROWS_MAX: usize = 1000;
/// Bytes of text held back to decide the widths, however few rows that is.
pub const SAMPLE_BYTES_MAX: usize = 4 << 20;
/// A column of text is not made narrower than this to fit a screen.
const TEXT_COLUMNS_MIN: usize = 8;

pub(super) struct TablePrinter {
    schema: SchemaRef,
    /// The screen; None = there is none, and nothing is cut.
    page: Option<Page>,
    /// Rows held back; empty once `drawn` is known.
    sample: Vec<Vec<String>>,
    sample_bytes: usize,
    drawn: Option<Drawn>,
    /// Lines that are left of the page.
    lines_left: usize,
    shown: u64,
    is_full: bool,
}

/// How the result is drawn, once that is decided.
enum Drawn {
    Table(Columns),
    /// As records: the screen is too narrow.
    Records(ExpandedPrinter),
}

/// How the columns of a table are drawn.
struct Columns {
    widths: Vec<usize>,
    /// Which stand at the right.
    right: Vec<bool>,
    /// Which are shortened to their width; others push the line out.
    cut: Vec<bool>,
}

impl TablePrinter {
    pub(super) fn new(schema: SchemaRef, page: Option<Page>) -> Self {
        let lines_left = page.and_then(|page| page.lines).unwrap_or(usize::MAX);
        TablePrinter {
            schema,
            page,
            sample: Vec::new(),
            sample_bytes: 0,
            drawn: None,
            lines_left,
            shown: 0,
            is_full: false,
        }
    }

    /// Decides the widths and writes the head and the rows held back.
    fn start(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<String> = self.schema.fields().iter().map(|f| printable(f.name())).collect();
        let sample = std::mem::take(&mut self.sample);
        let Some(widths) = self.widths(&names, &sample) else {
            let mut records = ExpandedPrinter::new(&self.schema, self.page);
            for row in &sample {
                records.write_row(out, row)?;
            }
            self.drawn = Some(Drawn::Records(records));
            return Ok(());
        };
        rule(out, &widths)?;
        let heads = (vec![false; names.len()], vec![true; names.len()]);
        let mut columns = Columns { widths, right: heads.0, cut: heads.1 };
        write_row(out, &names, &columns, height(&names))?;
        rule(out, &columns.widths)?;
        (columns.right, columns.cut) = (self.right_aligned(), self.cut());
        self.drawn = Some(Drawn::Table(columns));
        sample.iter().try_for_each(|row| self.draw(out, row))
    }

    /// Writes a row of a result whose shape is decided, if the page has room for it.
    fn draw(&mut self, out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
        match &mut self.drawn {
            Some(Drawn::Records(records)) => records.write_row(out, cells),
            Some(Drawn::Table(columns)) => {
                let lines = height(cells);
                // One row is shown however high it is.
                self.is_full |= self.shown > 0 && lines > self.lines_left;
                if self.is_full {
                    return Ok(());
                }
                self.lines_left = self.lines_left.saturating_sub(lines);
                self.shown += 1;
                write_row(out, cells, columns, lines)
            }
            None => unreachable!("the shape is decided before the first row is drawn"),
        }
    }

    /// Rows to hold back: a page more than full tells that there are more.
    fn sample_rows_max(&self) -> usize {
        let lines = self.page.and_then(|page| page.lines);
        lines.map_or(SAMPLE_ROWS_MAX, |lines| (lines + 1).min(SAMPLE_ROWS_MAX))
    }

    /// The width of each column; None when the screen is too narrow for a table.
    fn widths(&self, names: &[String], sample: &[Vec<String>]) -> Option<Vec<usize>> {
        let mut widths: Vec<usize> = names.iter().map(|name| cell_width(name)).collect();
        let mut values = vec![0; names.len()];
        for row in sample {
            for (most, cell) in values.iter_mut().zip(row) {
                *most = (*most).max(cell_width(cell));
            }
        }
        for (most, value) in widths.iter_mut().zip(&values) {
            *most = (*most).max(*value);
        }
        let Some(columns) = self.page.map(|page| page.columns) else { return Some(widths) };
        let drawn = |widths: &[usize]| widths.iter().map(|w| w + 3).sum::<usize>() + 1;
        if drawn(&widths) <= columns {
            return Some(widths);
        }
        // Text of several lines is a plan or a document: cut lines would make nonsense of it.
        if sample.iter().flatten().any(|cell| cell.contains('\n')) {
            return None;
        }
        let cut = self.cut();
        let floors: Vec<usize> = widths
            .iter()
            .zip(values)
            .zip(&cut)
            .map(|((wanted, value), cut)| {
                let least = if *cut { value.min(TEXT_COLUMNS_MIN) } else { value };
                // A heading may be cut as well, but not to nothing.
                (*wanted).min(least.max(TEXT_COLUMNS_MIN))
            })
            .collect();
        if drawn(&floors) > columns {
            return None;
        }
        for (wanted, floor) in widths.iter_mut().zip(&floors) {
            *wanted = (*wanted).min(columns).max(*floor);
        }
        while drawn(&widths) > columns {
            let widest = (0..widths.len()).filter(|n| widths[*n] > floors[*n]);
            let widest = widest.max_by_key(|n| widths[*n]).expect("the floors fit");
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn right_aligned(&self) -> Vec<bool> {
        self.schema.fields().iter().map(|field| field.data_type().is_numeric()).collect()
    }

    /// Which columns may be shortened: half a number or half a time is another one.
    fn cut(&self) -> Vec<bool> {
        let on_screen = self.page.is_some();
        let may = |ty: &arrow::datatypes::DataType| !ty.is_numeric() && !ty.is_temporal();
        self.schema.fields().iter().map(|f| on_screen && may(f.data_type())).collect()
    }
}

impl Printer for TablePrinter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let cells = Cells::new(batch)?;
        for row in 0..batch.num_rows() {
            if self.stopped_at().is_some() {
                return Ok(());
            }
            let cells = cells.row(row);
            if self.drawn.is_some() {
                self.draw(out, &cells)?;
                continue;
            }
            self.sample_bytes += cells.iter().map(String::len).sum::<usize>();
            self.sample.push(cells);
            let is_full = self.sample.len() >= self.sample_rows_max();
            if is_full || self.sample_bytes >= SAMPLE_BYTES_MAX {
                self.start(out)?;
            }
        }
        Ok(())
    }

    fn stopped_at(&self) -> Option<u64> {
        match &self.drawn {
            Some(Drawn::Records(records)) => records.stopped_at(),
            _ => self.is_full.then_some(self.shown),
        }
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.schema.fields().is_empty() {
            return Ok(());
        }
        let mut is_empty = false;
        if self.drawn.is_none() {
            is_empty = self.sample.is_empty();
            self.start(out)?;
        }
        match &self.drawn {
            Some(Drawn::Table(columns)) if !is_empty => rule(out, &columns.widths),
            _ => Ok(()),
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

/// Writes one row, which takes so many lines.
fn write_row(
    out: &mut dyn Write,
    cells: &[String],
    columns: &Columns,
    lines: usize,
) -> io::Result<()> {
    let Columns { widths, right, cut } = columns;
    let mut parts: Vec<_> = cells.iter().map(|cell| cell.lines()).collect();
    for _ in 0..lines {
        let mut text = String::from("|");
        for (n, cell) in parts.iter_mut().enumerate() {
            let whole = cell.next().unwrap_or("");
            let part = if cut[n] { shortened(whole, widths[n]) } else { Cow::Borrowed(whole) };
            let padding = " ".repeat(widths[n].saturating_sub(width(&part)));
            if right[n] {
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

/// Lines that a row takes.
fn height(cells: &[String]) -> usize {
    cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(0).max(1)
}

/// Columns that the widest line of `cell` takes on a screen.
fn cell_width(cell: &str) -> usize {
    cell.lines().map(width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn print(batches: &[RecordBatch]) -> String {
        print_in(None, batches)
    }

    fn print_in(columns: Option<usize>, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let mut printer = TablePrinter::new(
            batches[0].schema(),
            columns.map(|columns| Page { columns, lines: None }),
        );
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

    /// Of what does not fit only texts are cut: half a moment is another one.
    #[test]
    fn moments_are_shown_whole_however_narrow_the_screen_is() {
        let moments = Arc::new(TimestampMicrosecondArray::from(vec![1_700_000_000_123_456]));
        let (days, texts) = (Arc::new(Date32Array::from(vec![19_000])), "x".repeat(60));
        let columns: [(&str, ArrayRef); 3] =
            [("at", moments), ("day", days), ("text", Arc::new(StringArray::from(vec![texts])))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        for columns in [80, 60, 50, 40] {
            let shown = print_in(Some(columns), std::slice::from_ref(&batch));
            assert!(shown.contains("2023-11-14T22:13:20.123456"), "{columns}: {shown}");
            assert!(shown.contains("2022-01-08"), "{columns}: {shown}");
        }
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
        let mut printer = TablePrinter::new(first.schema(), None);
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

    #[test]
    fn on_a_screen_text_is_shortened_and_numbers_are_not() {
        let rows = batch(vec![1_234_567_890], vec![Some("the quick brown fox jumps")]);
        let text = print_in(Some(30), std::slice::from_ref(&rows));
        assert_eq!(
            text,
            "+------------+---------------+\n\
             | id         | name          |\n\
             +------------+---------------+\n\
             | 1234567890 | the quick br… |\n\
             +------------+---------------+\n"
        );
        assert!(text.lines().all(|line| width(line) <= 30));
        assert!(print_in(None, &[rows]).contains("the quick brown fox jumps"));
    }

    #[test]
    fn a_result_too_wide_for_the_screen_becomes_records() {
        let rows = batch(vec![1, 2], vec![Some("one two three four"), None]);
        assert_eq!(
            print_in(Some(14), &[rows]),
            "-[ row 1 ]----\n\
             id   | 1\n\
             name | one two\n     \
                  | three\n     \
                  | four\n\
             -[ row 2 ]----\n\
             id   | 2\n\
             name | NULL\n"
        );
    }

    #[test]
    fn text_of_several_lines_is_wrapped_and_not_cut() {
        let text = print_in(
            Some(40),
            &[batch(vec![1], vec![Some(&format!("plan\n  {}", "x ".repeat(30)))])],
        );
        assert_eq!(text.matches('x').count(), 30, "{text}");
        assert!(text.lines().all(|line| width(line) <= 40), "{text}");
    }

    #[test]
    fn a_full_page_ends_the_table() {
        let page = |lines| Some(Page { columns: 40, lines: Some(lines) });
        let rows = batch((0..5).collect(), vec![Some("x"); 5]);
        for (lines, shown) in [(3, Some(3)), (4, Some(4)), (5, None), (6, None)] {
            let mut out = Vec::new();
            let mut printer = TablePrinter::new(rows.schema(), page(lines));
            printer.write(&mut out, &rows).unwrap();
            printer.finish(&mut out).unwrap();
            assert_eq!(printer.stopped_at(), shown, "{lines} lines");
            let drawn = out.iter().filter(|b| **b == b'\n').count() as u64;
            assert_eq!(drawn, 4 + shown.unwrap_or(5), "{lines} lines");
        }
        // Records take more lines each.
        let narrow = Some(Page { columns: 14, lines: Some(6) });
        let rows = batch(vec![1, 2, 3], vec![Some("one two three four"); 3]);
        let mut out = Vec::new();
        let mut printer = TablePrinter::new(rows.schema(), narrow);
        printer.write(&mut out, &rows).unwrap();
        printer.finish(&mut out).unwrap();
        assert_eq!(printer.stopped_at(), Some(1), "{}", String::from_utf8_lossy(&out));
    }

    #[test]
    fn a_page_is_full_by_lines_and_no_later_row_slips_in() {
        // Rows of one, three and one lines.
        let rows = batch(vec![1, 2, 3], vec![Some("x"), Some("a\nb\nc"), Some("y")]);
        // One row is shown however high it is.
        let high = rows.slice(1, 2);
        for (rows, lines, shown, drawn) in [
            (&rows, 1, Some(1), 1),
            (&rows, 3, Some(1), 1),
            (&rows, 4, Some(2), 4),
            (&rows, 5, None, 5),
            (&high, 2, Some(1), 3),
            (&high, 3, Some(1), 3),
            (&high, 4, None, 4),
        ] {
            let mut out = Vec::new();
            let page = Page { columns: 40, lines: Some(lines) };
            let mut printer = TablePrinter::new(rows.schema(), Some(page));
            printer.write(&mut out, rows).unwrap();
            printer.finish(&mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(printer.stopped_at(), shown, "{lines} lines:\n{text}");
            // Three of the head, one of the end.
            assert_eq!(text.lines().count(), 4 + drawn, "{lines} lines:\n{text}");
        }
    }

    /// Also those that UTF-8 writes in two bytes: U+009B begins an escape on some terminals.
    #[test]
    fn no_control_character_of_a_value_or_a_heading_reaches_the_screen() {
        let is_one = |c: &char| c.is_control() && *c != '\n';
        let controls: String = ('\0'..='\u{ff}').filter(is_one).collect();
        assert_eq!(controls.chars().count(), 64);
        let value: ArrayRef = Arc::new(StringArray::from(vec![controls.as_str()]));
        let batch = RecordBatch::try_from_iter([(controls.as_str(), value)]).unwrap();
        let table = print(std::slice::from_ref(&batch));
        let mut records = Vec::new();
        ExpandedPrinter::new(&batch.schema(), None).write(&mut records, &batch).unwrap();
        for text in [table, String::from_utf8(records).unwrap()] {
            assert!(!text.chars().any(|c| is_one(&c)), "{text:?}");
            for escape in ["\\u{0}", "\\t", "\\u{1b}", "\\u{7f}", "\\u{9b}", "\\u{9f}"] {
                assert_eq!(text.matches(escape).count(), 2, "{escape}: {text}");
            }
        }
    }

    /// Else a thousand rows of megabytes would be held back.
    #[test]
    fn a_few_long_rows_fill_the_sample() {
        let long = "x".repeat(SAMPLE_BYTES_MAX / 2);
        let rows = batch(vec![1, 2], vec![Some(long.as_str()); 2]);
        let mut out = Vec::new();
        let mut printer = TablePrinter::new(rows.schema(), None);
        printer.write(&mut out, &rows.slice(0, 1)).unwrap();
        assert!(out.is_empty(), "there is room for more");
        printer.write(&mut out, &rows.slice(1, 1)).unwrap();
        assert!(out.len() > SAMPLE_BYTES_MAX && printer.sample.is_empty());
    }

    #[test]
    fn a_table_that_just_fits_is_drawn_and_one_column_less_makes_records() {
        let long = "the quick brown fox jumps";
        let rows = batch(vec![1_234_567_890], vec![Some(long)]);
        // Beside the number stand 25 letters, of which at least 8 are shown.
        for (columns, letters) in [(43, 25), (42, 25), (41, 24), (26, 9), (25, 8)] {
            let text = print_in(Some(columns), std::slice::from_ref(&rows));
            let name = shortened(long, letters);
            assert!(text.contains(&format!("| 1234567890 | {name} |\n")), "{columns}:\n{text}");
            let wide = columns.min(42);
            assert!(text.lines().all(|line| width(line) == wide), "{columns}:\n{text}");
        }
        for columns in [24, 17] {
            let text = print_in(Some(columns), std::slice::from_ref(&rows));
            assert!(text.starts_with("-[ row 1 ]-"), "{columns}:\n{text}");
            assert!(text.contains("id   | 1234567890\n"), "{columns}:\n{text}");
        }
        // Text of several lines is never cut, and needs no records where it fits.
        let lines = batch(vec![1], vec![Some("ab\ncdef")]);
        let drawn = "| id | name |\n+----+------+\n|  1 | ab   |\n|    | cdef |\n";
        assert!(print_in(Some(13), std::slice::from_ref(&lines)).contains(drawn));
        assert!(print_in(Some(12), std::slice::from_ref(&lines)).starts_with("-[ row 1 ]-"));
    }

    #[test]
    fn a_heading_is_cut_to_the_screen_and_has_as_many_lines_as_it_wants() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let long = RecordBatch::try_from_iter([("a_number_with_a_long_name", numbers)]).unwrap();
        assert_eq!(
            print_in(Some(20), std::slice::from_ref(&long)),
            "+------------------+\n\
             | a_number_with_a… |\n\
             +------------------+\n\
             |                7 |\n\
             +------------------+\n"
        );
        assert!(print(&[long]).contains("| a_number_with_a_long_name |\n"));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let high = RecordBatch::try_from_iter([("two\nlines", texts)]).unwrap();
        assert_eq!(
            print(&[high]),
            "+-------+\n| two   |\n| lines |\n+-------+\n| x     |\n+-------+\n"
        );
    }
}
