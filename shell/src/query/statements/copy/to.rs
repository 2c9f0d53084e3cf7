//! COPY … TO: the rows of a query into a CSV or Parquet file, batch by batch.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ArrowWriter;
use futures::StreamExt;

use super::options::{CopyOptions, CopyTo, Format};
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::session::{Progress, Session};

/// Bytes that a Parquet writer gathers before it ends a row group.
const ROW_GROUP_BYTES_MAX: usize = 64 << 20;

enum Writer {
    Csv(CsvWriter),
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
}

impl Writer {
    fn open(copy: &CopyTo, schema: SchemaRef, file: File) -> Result<Self, String> {
        let file = BufWriter::new(file);
        Ok(match copy.options.format {
            Format::Csv => Writer::Csv(CsvWriter::open(copy, &schema, file)?),
            Format::Parquet => {
                let writer = ArrowWriter::try_new(file, schema, None);
                Writer::Parquet(Box::new(writer.map_err(|error| error.to_string())?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        match self {
            Writer::Csv(writer) => writer.write(batch),
            Writer::Parquet(writer) => {
                writer.write(batch).map_err(|error| error.to_string())?;
                if writer.memory_size() >= ROW_GROUP_BYTES_MAX {
                    writer.flush().map_err(|error| error.to_string())?;
                }
                Ok(())
            }
        }
    }

    fn close(self) -> Result<(), String> {
        match self {
            Writer::Csv(mut writer) => writer.file.flush().map_err(|error| error.to_string()),
            Writer::Parquet(writer) => {
                writer.close().map(|_| ()).map_err(|error| error.to_string())
            }
        }
    }
}

/// Writes CSV of which every value comes back: a null is bare, a text that reads like a null, the
/// empty one among them, stands in quotes, and so does one that begins with a byte order mark.
struct CsvWriter {
    file: BufWriter<File>,
    delimiter: u8,
    null: String,
    line: Vec<u8>,
    text: String,
}

impl CsvWriter {
    fn open(copy: &CopyTo, schema: &SchemaRef, file: BufWriter<File>) -> Result<Self, String> {
        let CopyOptions { delimiter, null, header, .. } = copy.options.clone();
        let mut writer = CsvWriter { file, delimiter, null, line: Vec::new(), text: String::new() };
        if header {
            for field in schema.fields() {
                writer.text.clone_from(field.name());
                writer.field();
            }
            writer.end_line().map_err(|error| error.to_string())?;
        }
        Ok(writer)
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let options = FormatOptions::default();
        let columns: Result<Vec<_>, _> = batch
            .columns()
            .iter()
            .map(|column| Ok((column, ArrayFormatter::try_new(column.as_ref(), &options)?)))
            .collect();
        let columns = columns.map_err(|error: ArrowError| error.to_string())?;
        for row in 0..batch.num_rows() {
            for (column, values) in &columns {
                if column.is_null(row) {
                    self.line.extend_from_slice(self.null.as_bytes());
                    self.line.push(self.delimiter);
                    continue;
                }
                self.text.clear();
                values.value(row).write(&mut self.text).map_err(|error| error.to_string())?;
                self.field();
            }
            self.end_line().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Adds `text` and a delimiter to the line.
    fn field(&mut self) {
        let is_special = |byte: u8| matches!(byte, b'"' | b'\r' | b'\n') || byte == self.delimiter;
        // At the start of a file a reader takes it for a mark of the file's own.
        let has_mark = self.text.starts_with('\u{feff}');
        let is_null = self.text == self.null || self.text.is_empty();
        if is_null || has_mark || self.text.bytes().any(is_special) {
            self.line.push(b'"');
            self.line.extend_from_slice(self.text.replace('"', "\"\"").as_bytes());
            self.line.push(b'"');
        } else {
            self.line.extend_from_slice(self.text.as_bytes());
        }
        self.line.push(self.delimiter);
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        // In the place of the last delimiter; a row without columns has none.
        self.line.pop();
        self.line.push(b'\n');
        self.file.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

/// Runs the query and writes its rows; the count is of rows.
///
/// Errors: of the query, and `Io` naming the file.
pub async fn run(session: &Session, copy: &CopyTo) -> Result<Outcome> {
    session.check_local_files().map_err(|error| error.at(copy.file_span))?;
    let failed = |error: String| {
        QueryError::new(ErrorKind::Io, format!("cannot write '{}': {error}", copy.file))
            .at(copy.file_span)
    };
    // The query is planned first: a wrong query leaves no empty file.
    let mut rows = session.rows_of(copy.source.clone()).await?;
    let file = File::create(&copy.file).map_err(|error| failed(error.to_string()))?;
    let mut writer = Writer::open(copy, rows.schema(), file).map_err(failed)?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        writer.write(&batch).map_err(failed)?;
        count += batch.num_rows() as u64;
        bytes += batch.get_array_memory_size() as u64;
        if let Some(progress) = &session.options.progress {
            // How many come is not known.
            progress(Progress { rows: count, bytes, bytes_max: 0 });
        }
    }
    writer.close().map_err(failed)?;
    Ok(Outcome::count(count))
}
