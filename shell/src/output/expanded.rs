//! Results as records: a line a column, under a line that numbers the row.
//!
//! Invariant: on a screen no line is wider than it. Long values go on below, aligned, and end after
//! [`VALUE_LINES_MAX`] lines with how much is missing; elsewhere they are written whole.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::cell::{Cells, printable};
use super::printer::{Page, Printer};
use crate::text::width::{shortened, width, wrapped};

/// Lines of one value on a screen.
const VALUE_LINES_MAX: usize = 40;
/// A value is not squeezed into less than this.
const VALUE_COLUMNS_MIN: usize = 4;

pub(super) struct ExpandedPrinter {
    names: Vec<String>,
    name_columns: usize,
    /// Columns of the screen; None = there is none.
    columns: Option<usize>,
    rows: u64,
    /// Lines that are left of the page.
    lines_left: usize,
    is_full: bool,
}

impl ExpandedPrinter {
    pub(super) fn new(schema: &Schema, page: Option<Page>) -> Self {
        let columns = page.map(|page| page.columns);
        let lines_left = page.and_then(|page| page.lines).unwrap_or(usize::MAX);
        let names = schema.fields().iter().map(|field| printable(field.name()).replace('\n', " "));
        let mut names: Vec<String> = names.collect();
        if let Some(columns) = columns {
            for name in &mut names {
                *name = shortened(name, (columns / 3).max(VALUE_COLUMNS_MIN)).into_owned();
            }
        }
        let name_columns = names.iter().map(|name| width(name)).max().unwrap_or(0);
        ExpandedPrinter { names, name_columns, columns, rows: 0, lines_left, is_full: false }
    }

    /// Writes one row, given as the text of its columns, if the page has room for it.
    pub(super) fn write_row(&mut self, out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
        let values: Vec<String> = cells.iter().map(|cell| self.value(cell)).collect();
        let lines = 1 + values.iter().map(|value| value.lines().count().max(1)).sum::<usize>();
        // One row is shown however high it is.
        self.is_full |= self.rows > 0 && lines > self.lines_left;
        if self.is_full {
            return Ok(());
        }
        self.lines_left = self.lines_left.saturating_sub(lines);
        self.rows += 1;
        let mut head = format!("-[ row {} ]", self.rows);
        let across = self.columns.unwrap_or(0).max(self.name_columns + 3);
        head.extend(std::iter::repeat_n('-', across.saturating_sub(head.len())));
        writeln!(out, "{head}")?;
        for (name, value) in self.names.iter().zip(&values) {
            let padding = " ".repeat(self.name_columns - width(name));
            let mut lines = value.lines();
            let first = format!("{name}{padding} | {}", lines.next().unwrap_or(""));
            writeln!(out, "{}", first.trim_end())?;
            for line in lines {
                writeln!(out, "{} | {line}", " ".repeat(self.name_columns))?;
            }
        }
        Ok(())
    }

    fn value(&self, cell: &str) -> String {
        let Some(columns) = self.columns else { return cell.to_owned() };
        let room = columns.saturating_sub(self.name_columns + 3).max(VALUE_COLUMNS_MIN);
        // A value of megabytes is not wrapped to be thrown away.
        let most = room * VALUE_LINES_MAX * char::MAX.len_utf8();
        let head = &cell[..cell.floor_char_boundary(most)];
        let text = wrapped(head, room, "");
        let shown: Vec<&str> = text.lines().take(VALUE_LINES_MAX).collect();
        if shown.len() == text.lines().count() && head.len() == cell.len() {
            return text;
        }
        let letters: usize = shown.iter().map(|line| line.chars().count()).sum();
        let missing = cell.chars().count().saturating_sub(letters);
        let note = format!("… about {missing} characters more");
        format!("{}\n{}", shown.join("\n"), shortened(&note, room))
    }
}

impl Printer for ExpandedPrinter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        let cells = Cells::new(batch)?;
        (0..batch.num_rows()).try_for_each(|row| self.write_row(out, &cells.row(row)))
    }

    fn stopped_at(&self) -> Option<u64> {
        self.is_full.then_some(self.rows)
    }

    fn finish(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn a_long_value_ends_with_how_much_is_missing() {
        let schema = Schema::new(vec![Field::new("note", DataType::Utf8, true)]);
        let text = "x".repeat(1_000_000);
        let mut out = Vec::new();
        ExpandedPrinter::new(&schema, Some(Page { columns: 40, lines: None }))
            .write_row(&mut out, std::slice::from_ref(&text))
            .unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().count(), 1 + VALUE_LINES_MAX + 1);
        assert!(out.lines().all(|line| width(line) <= 40), "{out}");
        let shown = 33 * VALUE_LINES_MAX;
        let note = format!("… about {} characters more", 1_000_000 - shown);
        assert!(out.ends_with(&format!("     | {note}\n")), "{out}");

        let mut whole = Vec::new();
        ExpandedPrinter::new(&schema, None)
            .write_row(&mut whole, std::slice::from_ref(&text))
            .unwrap();
        assert!(String::from_utf8(whole).unwrap().contains(&text));
    }

    #[test]
    fn a_page_is_full_by_lines_and_no_later_record_slips_in() {
        let schema = Schema::new(vec![Field::new("note", DataType::Utf8, true)]);
        // Records of two, four and two lines.
        let rows = ["x", "a\nb\nc", ""];
        for (lines, shown) in [(1, Some(1)), (5, Some(1)), (6, Some(2)), (7, Some(2)), (8, None)] {
            let page = Page { columns: 20, lines: Some(lines) };
            let mut printer = ExpandedPrinter::new(&schema, Some(page));
            let mut out = Vec::new();
            for row in rows {
                printer.write_row(&mut out, &[row.to_owned()]).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            assert_eq!(printer.stopped_at(), shown, "{lines} lines:\n{text}");
            let all = "-[ row 1 ]----------\nnote | x\n\
                       -[ row 2 ]----------\nnote | a\n     | b\n     | c\n\
                       -[ row 3 ]----------\nnote |\n";
            let places = ["-[ row 2", "-[ row 3"].map(|head| all.find(head).unwrap());
            let end = shown.map_or(all.len(), |shown| places[shown as usize - 1]);
            assert_eq!(text, &all[..end], "{lines} lines");
        }
    }

    #[test]
    fn a_value_of_just_as_many_lines_as_are_shown_is_whole() {
        let schema = Schema::new(vec![Field::new("note", DataType::Utf8, true)]);
        let shown = |letters: usize| {
            let page = Page { columns: 40, lines: None };
            let mut out = Vec::new();
            ExpandedPrinter::new(&schema, Some(page))
                .write_row(&mut out, &["x".repeat(letters)])
                .unwrap();
            String::from_utf8(out).unwrap()
        };
        // Behind the name and its line there are 33 columns.
        let most = 33 * VALUE_LINES_MAX;
        for (letters, missing) in [(most - 1, None), (most, None), (most + 1, Some(1))] {
            let text = shown(letters);
            assert_eq!(text.matches('x').count(), letters - missing.unwrap_or(0), "{letters}");
            let lines = 1 + VALUE_LINES_MAX + usize::from(missing.is_some());
            assert_eq!(text.lines().count(), lines, "{letters}:\n{text}");
            let note = text.contains("… about 1 characters more");
            assert_eq!(note, missing.is_some(), "{letters}:\n{text}");
        }
    }

    #[test]
    fn names_take_a_third_of_the_screen_and_all_end_in_one_column() {
        let long = "a_name_of_many_letters";
        let field = |name: &str| Field::new(name, DataType::Utf8, true);
        let schema = Schema::new([long, "日本", "two\nlines"].map(field).to_vec());
        let row = ["1", "2\n3", "4"].map(str::to_owned);
        let print = |page| {
            let mut out = Vec::new();
            ExpandedPrinter::new(&schema, page).write_row(&mut out, &row).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            print(Some(Page { columns: 36, lines: None })),
            "-[ row 1 ]--------------------------\n\
             a_name_of_m… | 1\n\
             日本         | 2\n             | 3\n\
             two lines    | 4\n"
        );
        // Where there is no screen they are whole.
        assert!(print(None).contains(&format!("{long} | 1\n")));
    }
}
