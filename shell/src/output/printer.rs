//! What writes a result, and the room that it has.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

/// Writes one result: every batch in order, then the end.
pub trait Printer {
    /// Takes the next batch; it may be written at once or with a later one.
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()>;
    /// Writes what is still held back. Nothing may follow.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;
    /// How many rows were written, once the page is full and further rows are left out.
    fn stopped_at(&self) -> Option<u64> {
        None
    }
}

/// Room for a result on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Columns of the screen.
    pub columns: usize,
    /// Lines that the rows of the result may take; None = as many as they need.
    pub lines: Option<usize>,
}

/// The error of an output, of one that arrow met in writing to it.
pub(super) fn as_io(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}
