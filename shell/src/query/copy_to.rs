//! COPY … TO: the rows of a query into a CSV or Parquet file, batch by batch.

use std::fs::File;
use std::io::BufWriter;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::csv::writer::Writer as CsvWriter;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::ArrowWriter;
use futures::StreamExt;

use super::error::{ErrorKind, QueryError, Result};
use super::outcome::Outcome;
use super::parse::{CopyTo, Format};
use super::session::Session;

enum Writer {
    Csv(CsvWriter<BufWriter<File>>),
    Parquet(ArrowWriter<BufWriter<File>>),
}

impl Writer {
    fn open(copy: &CopyTo, schema: SchemaRef, file: File) -> Result<Self, String> {
        let file = BufWriter::new(file);
        Ok(match copy.options.format {
            Format::Csv => Writer::Csv(
                WriterBuilder::new()
                    .with_header(copy.options.header)
                    .with_delimiter(copy.options.delimiter)
                    .with_null(copy.options.null.clone())
                    .build(file),
            ),
            Format::Parquet => Writer::Parquet(
                ArrowWriter::try_new(file, schema, None).map_err(|error| error.to_string())?,
            ),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        match self {
            Writer::Csv(writer) => writer.write(batch).map_err(|error| error.to_string()),
            Writer::Parquet(writer) => writer.write(batch).map_err(|error| error.to_string()),
        }
    }

    fn close(self) -> Result<(), String> {
        match self {
            Writer::Csv(writer) => {
                let mut file = writer.into_inner();
                std::io::Write::flush(&mut file).map_err(|error| error.to_string())
            }
            Writer::Parquet(writer) => {
                writer.close().map(|_| ()).map_err(|error| error.to_string())
            }
        }
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
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        writer.write(&batch).map_err(failed)?;
        count += batch.num_rows() as u64;
    }
    if count == 0
        && let Writer::Csv(writer) = &mut writer
    {
        // The header is written with the first batch.
        let empty = RecordBatch::new_empty(rows.schema());
        writer.write(&empty).map_err(|error| failed(error.to_string()))?;
    }
    writer.close().map_err(failed)?;
    Ok(Outcome::count(count))
}
