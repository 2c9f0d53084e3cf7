//! Arrow batches written as text, while they arrive.
//!
//! Invariant: no printer holds more rows than [`table::SAMPLE_ROWS_MAX`], whatever the result's
//! size. Not here: where the batches come from (`query`), and the lines a person reads around a
//! result (`session`).

mod csv;
mod json;
mod nested;
pub mod plot;
pub mod progress;
mod table;

use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// Bytes of output gathered before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Stdout, for results.
pub fn stdout() -> BufWriter<Stdout> {
    BufWriter::with_capacity(BUFFER_BYTES, io::stdout())
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A drawn table, for people.
    #[default]
    Table,
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
            Mode::Csv => "csv",
            Mode::Json => "json",
        }
    }

    /// Whether people read this: statements, row counts and times stand around the results.
    pub fn is_for_people(self) -> bool {
        self == Mode::Table
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
            "csv" => Ok(Mode::Csv),
            "json" => Ok(Mode::Json),
            _ => Err(format!("no output mode '{text}': choose table, csv or json")),
        }
    }
}

/// Writes one result: every batch in order, then the end.
pub trait Printer {
    /// Takes the next batch; it may be written at once or with a later one.
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()>;
    /// Writes what is still held back. Nothing may follow.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// A printer of results of `schema` in `mode`.
pub fn printer(mode: Mode, schema: SchemaRef) -> Box<dyn Printer> {
    match mode {
        Mode::Table => Box::new(table::TablePrinter::new(schema)),
        Mode::Csv => Box::new(self::csv::CsvPrinter::new(schema)),
        Mode::Json => Box::new(json::JsonPrinter::new()),
    }
}

fn as_io(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}
