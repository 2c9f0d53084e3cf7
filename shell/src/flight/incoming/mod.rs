//! Rows of Arrow as clients send them.
//!
//! Arrow's reader takes what a message says for true: it takes memory for what its buffers say that
//! they unpack to, which ends the process where there is not so much, and it panics at lengths that
//! do not fit. So messages are looked at before they are read, and a panic of the reader is an
//! error of the message.
//!
//! Invariant: no message makes the service take more than [`UNPACKED_BYTES_MAX`], or have more rows
//! than its bytes have bits, and none ends more than its own call.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::{fb_to_schema, try_schema_from_ipc_buffer};
use arrow::ipc::reader::{StreamReader, read_dictionary, read_record_batch};
use arrow_flight::FlightData;
use arrow_flight::error::FlightError;
use arrow_ipc::{CompressionType, Message, MessageHeader, root_as_message};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use prost::bytes::Bytes;
use tonic::Status;

use super::error::invalid;

/// Most that the buffers of a message may unpack to, bytes together.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;
/// Rows that a message may have without a byte: of columns that are null as a whole.
const BARE_ROWS_MAX: u64 = 64 << 10;
/// What a packed buffer begins with: the bytes that it unpacks to, and the mark of one that is not
/// packed after all.
const LENGTH_BYTES: usize = 8;
const NOT_PACKED: i64 = -1;
/// What buffers begin on a multiple of, bytes.
const ALIGN: usize = 64;
/// Marks of a stream of IPC: of a message, and of its end.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// What a client is told whose messages cannot be read.
pub(super) fn no_rows(why: impl std::fmt::Display) -> Status {
    invalid(format!("what was sent are no rows of Arrow: {why}"))
}

/// Reads, and takes a panic for an error.
pub(super) fn caught<T>(read: impl FnOnce() -> T) -> Result<T, Status> {
    // What the reader had in hand is never used again.
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| no_rows("lengths in it do not fit together"))
}

/// Batches as a client sends them, each with the metadata of its message.
pub(super) fn batches(
    data: impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
) -> BoxStream<'static, Result<(RecordBatch, Bytes), Status>> {
    // An error ends it: the reader may have stopped halfway, and the messages may never end.
    stream::try_unfold((Box::pin(data), Reader::default()), async |(mut data, mut reader)| {
        while let Some(message) = data.next().await {
            if let Some(rows) = reader.read(message?)? {
                return Ok(Some((rows, (data, reader))));
            }
        }
        Ok(None)
    })
    .boxed()
}

/// Reads the messages of one stream.
#[derive(Default)]
struct Reader {
    /// What the stream says of its columns, once it has.
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Reader {
    /// The rows of a message, if it has any, and its metadata.
    ///
    /// Errors: INVALID_ARGUMENT for a message that cannot be read.
    fn read(&mut self, data: FlightData) -> Result<Option<(RecordBatch, Bytes)>, Status> {
        let FlightData { data_header, data_body, app_metadata, .. } = data;
        // The one with the command may come before the schema, on its own.
        if data_header.is_empty() {
            return Ok(None);
        }
        let message = message(&data_header)?;
        check_message(&message, &data_body)?;
        let read = caught(|| self.rows_of(&message, data_body))?;
        Ok(read.map_err(no_rows)?.map(|rows| (rows, app_metadata)))
    }

    /// What a message that was checked says: a schema, values of a dictionary, or rows.
    fn rows_of(
        &mut self,
        message: &Message<'_>,
        body: Bytes,
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let version = message.version();
        if let Some(schema) = message.header_as_schema() {
            self.schema = Some(Arc::new(fb_to_schema(schema)));
            self.dictionaries.clear();
            return Ok(None);
        }
        if message.header_type() == MessageHeader::NONE {
            return Ok(None);
        }
        let Some(schema) = &self.schema else {
            return Err(ArrowError::IpcError("they come before their schema".to_owned()));
        };
        if let Some(values) = message.header_as_dictionary_batch() {
            let body = aligned(body);
            read_dictionary(&body, values, schema, &mut self.dictionaries, &version)?;
            return Ok(None);
        }
        let Some(rows) = message.header_as_record_batch() else {
            let name = message.header_type().variant_name().unwrap_or("of no kind");
            return Err(ArrowError::IpcError(format!("a message that is {name}")));
        };
        let (body, schema) = (aligned(body), Arc::clone(schema));
        read_record_batch(&body, rows, schema, &self.dictionaries, None, &version).map(Some)
    }
}

/// The bytes of a message's body, where Arrow's buffers may begin. They are copied where they are
/// not so already.
fn aligned(body: Bytes) -> Buffer {
    match (body.as_ptr() as usize).is_multiple_of(ALIGN) {
        true => Buffer::from(body),
        false => Buffer::from(body.as_ref()),
    }
}

/// The rows of an IPC stream of one batch.
///
/// Errors: INVALID_ARGUMENT for bytes that are no such stream.
pub(super) fn read_rows(bytes: &[u8]) -> Result<Option<RecordBatch>, Status> {
    check_stream(bytes)?;
    caught(|| StreamReader::try_new(bytes, None)?.next().transpose())?.map_err(no_rows)
}

/// A schema as an IPC message.
///
/// Errors: INVALID_ARGUMENT for bytes that are no such message.
pub(super) fn read_schema(bytes: &[u8]) -> Result<Schema, Status> {
    caught(|| try_schema_from_ipc_buffer(bytes))?.map_err(no_rows)
}

/// Checks the messages of an IPC stream.
fn check_stream(mut bytes: &[u8]) -> Result<(), Status> {
    let truncated = || no_rows("it ends within a message");
    loop {
        bytes = bytes.strip_prefix(&CONTINUATION).unwrap_or(bytes);
        let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(()) };
        let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| truncated())?;
        if length == 0 {
            return Ok(());
        }
        let (header, rest) = rest.split_at_checked(length).ok_or_else(truncated)?;
        let message = message(header)?;
        let length = usize::try_from(message.bodyLength()).map_err(|_| truncated())?;
        let (body, rest) = rest.split_at_checked(length).ok_or_else(truncated)?;
        check_message(&message, body)?;
        bytes = rest;
    }
}

fn message(header: &[u8]) -> Result<Message<'_>, Status> {
    root_as_message(header).map_err(no_rows)
}

/// See the head of this file. What a message says that holds no rows is left to the reader.
fn check_message(message: &Message<'_>, body: &[u8]) -> Result<(), Status> {
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(()) };
    let codec = batch.compression().map(|compression| compression.codec());
    let mut unpacked = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let end = range.and_then(|(offset, length)| offset.checked_add(length));
        let bytes = range.zip(end).and_then(|((offset, _), end)| body.get(offset..end));
        let bytes = bytes.ok_or_else(|| {
            no_rows(format!(
                "a buffer of {} bytes at {} in a message of {}",
                buffer.length(),
                buffer.offset(),
                body.len()
            ))
        })?;
        unpacked = unpacked.saturating_add(unpacked_bytes(bytes, codec)?);
    }
    if codec.is_some() && unpacked > UNPACKED_BYTES_MAX {
        return Err(invalid(format!(
            "a batch that unpacks to {unpacked} bytes, at most {UNPACKED_BYTES_MAX} are taken: send \
             rows in smaller batches"
        )));
    }
    let rows_max = unpacked.saturating_mul(8).max(BARE_ROWS_MAX);
    let nodes = batch.nodes().into_iter().flatten().map(|node| node.length());
    for rows in nodes.chain([batch.length()]) {
        if u64::try_from(rows).is_ok_and(|rows| rows <= rows_max) {
            continue;
        }
        return Err(no_rows(format!("{rows} rows in {unpacked} bytes")));
    }
    Ok(())
}

/// The most that a buffer takes in memory once it is read.
fn unpacked_bytes(bytes: &[u8], codec: Option<CompressionType>) -> Result<u64, Status> {
    let Some(codec) = codec.filter(|_| !bytes.is_empty()) else { return Ok(bytes.len() as u64) };
    let Some((length, packed)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(no_rows("a packed buffer without its length"));
    };
    match i64::from_le_bytes(*length) {
        NOT_PACKED => Ok(packed.len() as u64),
        length => {
            let length = u64::try_from(length)
                .map_err(|_| no_rows(format!("a buffer that unpacks to {length} bytes")))?;
            // The reader of LZ4 reads to the end, whatever the length says.
            let bytes_max = match codec {
                CompressionType::LZ4_FRAME => lz4_bytes_max(packed)
                    .ok_or_else(|| no_rows("a packed buffer is no frame of LZ4"))?,
                _ => 0,
            };
            Ok(length.max(bytes_max))
        }
    }
}

/// The most that frames of LZ4 unpack to: by the sizes of their blocks, which are not unpacked.
/// `None` for what is no frame.
///
/// ```text
/// frame: magic 4 | flags 1 | block size 1 | content size 8, if told | dictionary 4, if told |
///        checksum 1 | blocks | 0, 4 | checksum 4, if told
/// block: length 4, with a mark of what is not packed | bytes | checksum 4, if told
/// ```
/// Source: the description of the frame format, LZ4 1.6.
fn lz4_bytes_max(mut bytes: &[u8]) -> Option<u64> {
    const MAGIC: u32 = 0x184D_2204;
    const OF_BLOCK: u8 = 1 << 4;
    const CONTENT_SIZE: u8 = 1 << 3;
    const OF_CONTENT: u8 = 1 << 2;
    const DICTIONARY: u8 = 1;
    const IS_BARE: u32 = 1 << 31;
    /// A byte of a sequence stands for so many at most.
    const RATIO_MAX: u64 = 255;
    const CHECKSUM_BYTES: usize = 4;

    let number = |bytes: &mut &[u8]| -> Option<u32> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u32::from_le_bytes(*number))
    };
    let mut bytes_max = 0_u64;
    while !bytes.is_empty() {
        if number(&mut bytes)? != MAGIC {
            return None;
        }
        let ([flags, block], _) = bytes.split_first_chunk()?;
        let told = |flag: u8, length: usize| if flags & flag != 0 { length } else { 0 };
        // 64 KiB, 256 KiB, 1 MiB or 4 MiB.
        let block_bytes_max = match block >> 4 & 7 {
            size @ 4..=7 => 1_u64 << (8 + 2 * size),
            _ => return None,
        };
        bytes = bytes.get(2 + told(CONTENT_SIZE, 8) + told(DICTIONARY, 4) + 1..)?;
        loop {
            let length = number(&mut bytes)?;
            if length == 0 {
                break;
            }
            let packed = u64::from(length & !IS_BARE);
            let unpacked = if length & IS_BARE != 0 { packed } else { packed * RATIO_MAX };
            bytes_max = bytes_max.saturating_add(unpacked.min(block_bytes_max));
            bytes = bytes.get(packed as usize + told(OF_BLOCK, CHECKSUM_BYTES)..)?;
        }
        bytes = bytes.get(told(OF_CONTENT, CHECKSUM_BYTES)..)?;
    }
    Some(bytes_max)
}

#[cfg(test)]
mod tests;
