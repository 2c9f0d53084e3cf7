//! Rows on their way to a client, and from it.
//!
//! Invariant: a result is pulled as fast as the client reads; nothing is collected on the way.
//! Dropping the response stream drops the statement.

use std::future::ready;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::{Response, Status};

use super::error::invalid;
use super::incoming;
use super::kept::Sent;
use super::outgoing::Compression;
use super::running::Rows;
use crate::query::column_bytes;

/// Rows of about so many bytes are one message: clients take 4 MiB by default.
const MESSAGE_BYTES: usize = 2 << 20;

/// Most rows of parameters that may be bound at once.
const PARAMETER_ROWS_MAX: usize = 1_000_000;
/// Most bytes of parameters that may be bound at once.
const PARAMETER_BYTES_MAX: usize = 256 << 20;

/// Answer of a DoGet.
pub(super) type DoGet = BoxStream<'static, Result<FlightData, Status>>;

/// Rows of a statement as the answer of a DoGet.
pub(super) fn encode(sent: Sent, rows: Rows, mut encoder: Encoder) -> Response<DoGet> {
    let pieces = rows.flat_map(|batch| {
        let of_batch = |batch| pieces(&batch).into_iter().map(Ok).collect();
        stream::iter(batch.map_or_else(|status| vec![Err(status)], of_batch))
    });
    // No message without rows.
    let pieces = pieces.try_filter(|piece| ready(piece.num_rows() > 0));
    let messages = pieces.map(move |piece| encoder.message(&piece?));
    Response::new(stream::iter([Ok(sent.message)]).chain(messages).boxed())
}

/// A batch in pieces of about [`MESSAGE_BYTES`].
pub(super) fn pieces(batch: &RecordBatch) -> Vec<RecordBatch> {
    if batch.num_rows() <= 1 {
        return vec![batch.clone()];
    }
    let bytes: usize = batch.columns().iter().map(column_bytes).sum();
    let count = bytes.div_ceil(MESSAGE_BYTES).clamp(1, batch.num_rows().max(1));
    if count == 1 {
        return vec![batch.clone()];
    }
    let rows = batch.num_rows().div_ceil(count);
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| batch.slice(start, rows.min(batch.num_rows() - start))).collect()
}

/// Writes the batches of one stream.
#[derive(Default)]
pub(super) struct Encoder {
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl Encoder {
    pub(super) fn new(compression: Compression) -> Self {
        let options = IpcWriteOptions::default().try_with_compression(compression.codec());
        let options = options.expect("Arrow's current format has these codecs");
        Encoder { options, context: IpcWriteContext::default() }
    }

    /// The message of a piece of a batch.
    ///
    /// Errors: INTERNAL for rows that cannot be encoded.
    pub(super) fn message(&mut self, piece: &RecordBatch) -> Result<FlightData, Status> {
        // What leaves has no dictionaries.
        let mut dictionaries = DictionaryTracker::new(false);
        let (_, encoded) = IpcDataGenerator::default()
            .encode(piece, &mut dictionaries, &self.options, &mut self.context)
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(encoded.into())
    }
}

/// Rows that keep `holder` until they are all read or nobody reads them any more.
pub(super) fn hold(rows: Rows, holder: impl Send + 'static) -> Rows {
    stream::unfold((rows, holder), |(mut rows, holder)| async move {
        rows.next().await.map(|batch| (batch, (rows, holder)))
    })
    .boxed()
}

/// One batch at hand as the answer of a DoGet.
pub(super) fn encode_batch(batch: RecordBatch) -> Response<DoGet> {
    let schema = batch.schema();
    let batches = stream::iter([Ok(batch)]);
    let encoded = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    Response::new(encoded.map_err(Status::from).boxed())
}

/// Batches that a client sends.
pub(super) fn decode(
    data: PeekableFlightDataStream,
) -> BoxStream<'static, Result<RecordBatch, Status>> {
    incoming::batches(data.map_err(FlightError::from)).map_ok(|(rows, _)| rows).boxed()
}

/// The rows of parameters that a client sends; None when it sends none.
pub(super) async fn decode_parameters(
    data: PeekableFlightDataStream,
) -> Result<Option<RecordBatch>, Status> {
    let mut batches: Vec<RecordBatch> = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    let mut stream = decode(data);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
        if rows > PARAMETER_ROWS_MAX || bytes > PARAMETER_BYTES_MAX {
            return Err(invalid(format!(
                "too many parameters: at most {PARAMETER_ROWS_MAX} rows and \
                 {PARAMETER_BYTES_MAX} bytes at once; an ingest takes any number"
            )));
        }
        batches.push(batch);
    }
    match batches.as_slice() {
        [] => Ok(None),
        [batch] if batch.num_columns() == 0 => Ok(None),
        [first, ..] => concat_batches(&first.schema(), &batches)
            .map(Some)
            .map_err(|error| invalid(format!("the parameters do not fit together: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow_flight::utils::flight_data_to_arrow_batch;

    use super::*;

    #[test]
    fn the_pieces_of_a_batch_are_all_of_its_rows_in_their_order() {
        for (rows, bytes_of_row) in [
            (0, 0),
            (1, 10),
            (1000, 10),
            (1, 2 * MESSAGE_BYTES),
            (2, MESSAGE_BYTES - 1),
            (3, MESSAGE_BYTES),
            (5, MESSAGE_BYTES / 2),
            (7, MESSAGE_BYTES / 3),
            (64, 100_000),
            (101, 50_000),
        ] {
            let text = |row: usize| format!("{row} {}", "x".repeat(bytes_of_row));
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(text)));
            let batch = RecordBatch::try_from_iter([("v", texts)]).unwrap();
            let found = pieces(&batch);
            let all = concat_batches(&batch.schema(), &found).unwrap();
            assert!(all == batch, "{} of {rows} rows of {bytes_of_row} bytes", all.num_rows());
            // About as long as a message: at most one row more.
            for piece in found {
                let bytes: usize = piece.columns().iter().map(column_bytes).sum();
                assert!(bytes <= MESSAGE_BYTES + bytes_of_row + 1000, "{bytes} bytes");
            }
        }
    }
    /// What shrinks is told so in the message itself: a reader asks for nothing.
    #[test]
    fn rows_read_back_however_they_are_packed_and_what_repeats_takes_less() {
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..5000).map(|n| format!("row {}", n % 7))));
        let batch = RecordBatch::try_from_iter([("v", texts)]).unwrap();
        let bytes = [Compression::None, Compression::Lz4, Compression::Zstd].map(|compression| {
            let mut encoder = Encoder::new(compression);
            let sent = encoder.message(&batch).unwrap();
            let again = encoder.message(&batch).unwrap();
            assert_eq!(sent.data_body, again.data_body, "{compression:?}: a stream has many");
            let schema = batch.schema();
            let read = flight_data_to_arrow_batch(&sent, schema, &HashMap::new()).unwrap();
            assert_eq!(read, batch, "{compression:?}");
            sent.data_body.len()
        });
        let [plain, lz4, zstd] = bytes;
        assert!(lz4 < plain / 2 && zstd < plain / 2, "{bytes:?}");
    }
}
