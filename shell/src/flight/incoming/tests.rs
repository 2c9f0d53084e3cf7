//! Messages that are right, and messages whose lengths lie.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, NullArray, StringArray};
use arrow::datatypes::Int32Type;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_flight::encode::FlightDataEncoderBuilder;
use futures::{TryStreamExt, stream};
use tonic::Code;

use super::*;

fn batch() -> RecordBatch {
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter((0..3000).map(|n| (n % 9 > 0).then_some(n))));
    let texts = (0..3000).map(|n| format!("row {}", n % 7));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let none: ArrayRef = Arc::new(NullArray::new(3000));
    RecordBatch::try_from_iter([("n", numbers), ("t", texts), ("none", none)]).unwrap()
}

const CODECS: [Option<CompressionType>; 3] =
    [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

fn options(codec: Option<CompressionType>) -> IpcWriteOptions {
    IpcWriteOptions::default().try_with_compression(codec).unwrap()
}

async fn sent(codec: Option<CompressionType>) -> Vec<FlightData> {
    let rows = stream::iter([Ok(batch())]);
    let encoder = FlightDataEncoderBuilder::new().with_options(options(codec));
    encoder.build(rows).try_collect().await.unwrap()
}

async fn read(messages: Vec<FlightData>) -> Result<Vec<RecordBatch>, Status> {
    let messages = stream::iter(messages.into_iter().map(Ok));
    batches(messages).map_ok(|(rows, _)| rows).try_collect().await
}

#[tokio::test]
async fn rows_are_read_however_they_are_packed() {
    for codec in CODECS {
        assert_eq!(read(sent(codec).await).await.unwrap(), [batch()], "{codec:?}");
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batch().schema(), options(codec))
                .unwrap();
        writer.write(&batch()).unwrap();
        let stream = writer.into_inner().unwrap();
        assert_eq!(read_rows(&stream).unwrap(), Some(batch()), "{codec:?}");
        for length in (0..stream.len()).step_by(7) {
            let error = read_rows(&stream[..length]).map(|rows| rows.map(|rows| rows.num_rows()));
            assert!(!matches!(error, Ok(Some(_))) || length > stream.len() - 16, "{length}");
        }
    }
}

/// A buffer may say that it unpacks to all that there is, and more.
#[tokio::test]
async fn a_batch_that_unpacks_to_too_much_is_refused_before_memory_is_taken() {
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let whole = sent(Some(codec)).await;
        for length in [i64::MAX, 1 << 40, (UNPACKED_BYTES_MAX + 1) as i64, -2] {
            let mut messages = whole.clone();
            let mut body = messages[1].data_body.to_vec();
            body[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            messages[1].data_body = body.into();
            let error = read(messages).await.unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            let says = if length < 0 { "unpacks to -2 bytes" } else { "at most 268435456" };
            assert!(error.message().contains(says), "{length}: {error}");
        }
    }
}

/// A frame of LZ4 is unpacked to its end, whatever was said of its length.
#[test]
fn the_most_that_a_frame_of_lz4_unpacks_to_follows_from_its_blocks() {
    let frame = |blocks: &[(u32, bool)], flags: u8| {
        let mut frame = [&0x184D_2204_u32.to_le_bytes()[..], &[0x40 | flags, 0x40]].concat();
        frame.extend(vec![0; if flags & 8 != 0 { 8 } else { 0 } + 1]);
        for (length, is_bare) in blocks {
            frame.extend((length | u32::from(*is_bare) << 31).to_le_bytes());
            frame.extend(vec![0; *length as usize + if flags & 16 != 0 { 4 } else { 0 }]);
        }
        frame.extend([0; 4]);
        frame.extend(vec![0; if flags & 4 != 0 { 4 } else { 0 }]);
        frame
    };
    for flags in [0, 4, 8, 16, 4 | 8 | 16] {
        let blocks = [(10, false), (1000, false), (500, true)];
        assert_eq!(lz4_bytes_max(&frame(&blocks, flags)), Some(2550 + 65536 + 500), "{flags}");
    }
    let two = [frame(&[(1, false)], 0), frame(&[(2, false)], 4)].concat();
    assert_eq!(lz4_bytes_max(&two), Some(3 * 255));
    assert_eq!(lz4_bytes_max(&two[..two.len() - 1]), None, "it is cut off");
    assert_eq!(lz4_bytes_max(b"no frame"), None);
    assert_eq!(lz4_bytes_max(b""), Some(0));
}

#[tokio::test]
async fn lengths_that_do_not_fit_are_an_error_of_their_message() {
    let whole = sent(None).await;
    for (what, length) in [("cut off", 100), ("without its body", 0)] {
        let mut messages = whole.clone();
        messages[1].data_body.truncate(length);
        let error = read(messages).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{what}");
        assert!(error.message().contains("a buffer of"), "{what}: {error}");
    }
    let nothing = vec![FlightData { data_header: Bytes::from_static(b"rows"), ..whole[0].clone() }];
    assert_eq!(read(nothing).await.unwrap_err().code(), Code::InvalidArgument);
    // A column that is null as a whole has no bytes that say how long it is.
    let none: ArrayRef = Arc::new(NullArray::new(BARE_ROWS_MAX as usize + 1));
    let many = RecordBatch::try_from_iter([("none", none)]).unwrap();
    let rows = stream::iter([Ok(many)]);
    let many = FlightDataEncoderBuilder::new().build(rows).try_collect().await.unwrap();
    assert!(read(many).await.unwrap_err().message().contains("65537 rows in 0 bytes"));
}

/// Rows before their schema, dictionaries and all, and messages of no kind that has rows.
#[tokio::test]
async fn messages_are_read_in_the_order_of_a_stream() {
    let keys = ["a", "b", "a", "c"].into_iter().collect::<DictionaryArray<Int32Type>>();
    let rows = RecordBatch::try_from_iter([("k", Arc::new(keys) as ArrayRef)]).unwrap();
    let encoder = FlightDataEncoderBuilder::new()
        .with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend);
    let encoder = encoder.build(stream::iter([Ok(rows.clone()), Ok(rows.clone())]));
    let messages: Vec<FlightData> = encoder.try_collect().await.unwrap();
    assert_eq!(read(messages.clone()).await.unwrap(), [rows.clone(), rows]);
    for behind in 1..messages.len() {
        let error = read(messages[behind..].to_vec()).await.unwrap_err();
        assert!(error.message().contains("before their schema"), "{behind}: {error}");
    }
    // Nothing is read behind an error, as of a stream that was cut.
    let torn = [messages[1].clone()].into_iter().chain(messages).map(Ok);
    let read: Vec<_> = batches(stream::iter(torn)).collect().await;
    assert!(matches!(&read[..], [Err(_)]), "{read:?}");
    let broken = || Err(FlightError::DecodeError("again".to_owned()));
    let read: Vec<_> = batches(stream::repeat_with(broken)).collect().await;
    assert!(matches!(&read[..], [Err(_)]), "{read:?}");
}

/// What the reader panics at says so, and the stream has ended.
#[test]
fn a_panic_of_the_reader_is_an_error_of_the_message() {
    let error = caught(|| -> () { panic!("told to") }).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(caught(|| 5).unwrap(), 5);
}
