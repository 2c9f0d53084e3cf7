//! Rows that wait until all rows of their ingest are checked: first in memory, then in a file.
//!
//! The file has no name, so that the kernel frees it whatever becomes of the process. It lies in
//! the data directory, because the rows will need that room there anyway.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use futures::{Stream, StreamExt, stream};
use tonic::Status;

use crate::flight::error::refusal;

/// When to come again where the file cannot be written.
const RETRY: Duration = Duration::from_secs(10);
/// Bytes of batches that stay in memory; those behind them go to the file.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Batches of one schema, in their order.
pub(super) struct CheckedRows {
    folder: PathBuf,
    memory_bytes_max: usize,
    memory_bytes: usize,
    in_memory: Vec<RecordBatch>,
    /// An Arrow IPC stream of the batches behind those in memory.
    in_file: Option<StreamWriter<BufWriter<File>>>,
}

impl CheckedRows {
    /// No rows yet; `folder` takes the file.
    pub(super) fn new(folder: &Path) -> Self {
        CheckedRows::with_memory(folder, MEMORY_BYTES_MAX)
    }

    fn with_memory(folder: &Path, memory_bytes_max: usize) -> Self {
        let folder = folder.to_owned();
        CheckedRows {
            folder,
            memory_bytes_max,
            memory_bytes: 0,
            in_memory: Vec::new(),
            in_file: None,
        }
    }

    /// Adds a batch.
    ///
    /// Errors: RESOURCE_EXHAUSTED where the file cannot be made or written, as on a full disk.
    pub(super) async fn push(&mut self, batch: RecordBatch) -> Result<(), Status> {
        let bytes = batch.get_array_memory_size();
        if self.in_file.is_none() && self.memory_bytes + bytes <= self.memory_bytes_max {
            self.memory_bytes += bytes;
            self.in_memory.push(batch);
            return Ok(());
        }
        let (writer, folder) = (self.in_file.take(), self.folder.clone());
        let written = blocking(move || {
            let mut writer = match writer {
                Some(writer) => writer,
                None => {
                    let file = BufWriter::new(tempfile::tempfile_in(folder)?);
                    StreamWriter::try_new(file, batch.schema_ref())?
                }
            };
            writer.write(&batch)?;
            Ok(writer)
        });
        self.in_file = Some(written.await.map_err(|error| self.refused(&error))?);
        Ok(())
    }

    /// All batches, in the order in which they came.
    ///
    /// Errors: as [`push`](Self::push); items: INTERNAL where the file cannot be read back.
    pub(super) fn into_stream(
        mut self,
    ) -> Result<impl Stream<Item = Result<RecordBatch, Status>> + Send + Unpin, Status> {
        let in_file = self.in_file.take().map(reopened).transpose();
        let in_file = in_file.map_err(|error| self.refused(&error))?;
        let unread = move |error: ArrowError| {
            Status::internal(format!(
                "the rows of this ingest cannot be read back from a file in {}: {error}",
                self.folder.display()
            ))
        };
        let rest = stream::unfold(in_file, |reader| async {
            let mut reader = reader?;
            let read = blocking(move || Ok((reader.next(), reader))).await;
            match read {
                Ok((batch, reader)) => batch.map(|batch| (batch, Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        });
        let rest = rest.map(move |batch| batch.map_err(&unread));
        Ok(stream::iter(self.in_memory.into_iter().map(Ok)).chain(rest).boxed())
    }

    fn refused(&self, error: &ArrowError) -> Status {
        let text = format!(
            "an ingest that replaces a table waits in a file in {} until every row is checked, and \
             that failed: {error}. The table is as it was: make room there, or send at most {} MiB",
            self.folder.display(),
            self.memory_bytes_max >> 20
        );
        refusal(text, RETRY)
    }
}

/// The same file, to be read from its start.
fn reopened(
    writer: StreamWriter<BufWriter<File>>,
) -> Result<StreamReader<BufReader<File>>, ArrowError> {
    let mut file = writer.into_inner()?.into_inner().map_err(|error| error.into_error())?;
    file.flush()?;
    file.rewind()?;
    StreamReader::try_new(BufReader::new(file), None)
}

/// Does what waits for a disk on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArrowError> + Send + 'static,
) -> Result<T, ArrowError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ArrowError::ExternalError(Box::new(error))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, StringArray};
    use futures::TryStreamExt;
    use tonic::Code;

    use super::*;

    fn batch(number: i32) -> RecordBatch {
        let numbers = Arc::new(Int32Array::from(vec![Some(number), None])) as ArrayRef;
        let texts = Arc::new(StringArray::from(vec![Some("x".repeat(1000)), None])) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true)])
            .unwrap()
            .slice(0, 1 + (number % 2) as usize)
    }

    #[tokio::test]
    async fn rows_come_back_in_their_order_from_memory_and_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let batches: Vec<_> = (0..20).map(batch).collect();
        let bytes = batches[0].get_array_memory_size();
        for room in [0, 3, 19, 20] {
            let mut rows = CheckedRows::with_memory(folder.path(), room * bytes);
            for batch in &batches {
                rows.push(batch.clone()).await.unwrap();
            }
            assert_eq!(rows.in_memory.len(), room);
            assert_eq!(rows.in_file.is_some(), room < 20);
            let found: Vec<_> = rows.into_stream().unwrap().try_collect().await.unwrap();
            assert_eq!(found, batches, "{room} in memory");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a file is left");
        }
        let none = CheckedRows::new(folder.path()).into_stream().unwrap();
        assert_eq!(none.count().await, 0);
    }

    /// Of two rows with one key the later wins: a batch that fits must not pass one that did not.
    #[tokio::test]
    async fn a_short_batch_stays_behind_a_long_one_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let long = Arc::new(StringArray::from(vec!["x".repeat(100_000)])) as ArrayRef;
        let numbers = Arc::new(Int32Array::from(vec![7])) as ArrayRef;
        let columns = [("n", numbers, true), ("t", long, true)];
        let long = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let batches = [batch(1), long, batch(3)];
        let room = 3 * batches[0].get_array_memory_size();
        let mut rows = CheckedRows::with_memory(folder.path(), room);
        for batch in &batches {
            rows.push(batch.clone()).await.unwrap();
        }
        let found: Vec<_> = rows.into_stream().unwrap().try_collect().await.unwrap();
        assert_eq!(found, batches);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_made_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = CheckedRows::with_memory(&folder.path().join("gone"), 0);
        let error = rows.push(batch(1)).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert!(error.message().contains("The table is as it was"), "{error}");
    }
}
