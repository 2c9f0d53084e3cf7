//! Arrow batches written as text, while they arrive.
//!
//! Invariant: no printer holds more rows than [`table::SAMPLE_ROWS_MAX`], whatever the result's
//! size. Not here: where the batches come from (`query`), and the lines a person reads around a
//! result (`session`).

mod cell;
mod csv;
mod expanded;
mod json;
mod nested;
pub mod plot;
mod printer;
pub mod progress;
mod table;
mod text;

use std::fmt;
use std::io::{self, BufWriter, Stdout};
use std::str::FromStr;

use arrow::datatypes::SchemaRef;
use tidegate_engine::os;

pub use printer::{Page, Printer};
pub use text::TEXT_FORM;

/// Bytes of output gathered before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Stdout, for results.
pub fn stdout() -> BufWriter<Stdout> {
    BufWriter::with_capacity(BUFFER_BYTES, io::stdout())
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A drawn table, for people; on a screen that is too narrow for it, records.
    #[default]
    Table,
    /// A line a column, for people.
    Expanded,
    /// Comma separated values with a header line.
    Csv,
    /// One JSON object a line.
    Json,
}

impl Mode {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Table => "table",
            Mode::Expanded => "expanded",
            Mode::Csv => "csv",
            Mode::Json => "json",
        }
    }

    /// Whether people read this: statements, row counts and times stand around the results.
    pub fn is_for_people(self) -> bool {
        matches!(self, Mode::Table | Mode::Expanded)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "table" => Ok(Mode::Table),
            "expanded" => Ok(Mode::Expanded),
            "csv" => Ok(Mode::Csv),
            "json" => Ok(Mode::Json),
            _ => Err(format!("no output mode '{text}': choose table, expanded, csv or json")),
        }
    }
}

/// How many rows of a result are shown before it is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLimit {
    /// As many as fit the screen.
    Screen,
    All,
    /// This many.
    First(u64),
}

/// Columns and lines of the terminal that stdout is, if it is one.
pub fn screen() -> Option<(usize, usize)> {
    let (columns, lines) = os::terminal_size()?;
    Some((usize::from(columns), usize::from(lines)))
}

/// A printer of results of `schema` in `mode`; `page` is the screen that it writes to, if any.
///
/// Text, as [`TEXT_FORM`] in the metadata of a schema says, is written as it is, but in JSON.
pub fn printer(mode: Mode, schema: SchemaRef, page: Option<Page>) -> Box<dyn Printer> {
    let (name, form) = TEXT_FORM;
    let is_text = schema.metadata().get(name).is_some_and(|found| found == form);
    match mode {
        Mode::Table | Mode::Expanded | Mode::Csv if is_text => Box::new(text::TextPrinter),
        Mode::Table => Box::new(table::TablePrinter::new(schema, page)),
        Mode::Expanded => Box::new(expanded::ExpandedPrinter::new(&schema, page)),
        Mode::Csv => Box::new(self::csv::CsvPrinter::new(schema)),
        Mode::Json => Box::new(json::JsonPrinter::new()),
    }
}
