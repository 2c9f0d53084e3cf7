//! Codecs of compressed chunks: the one module that names `lz4_flex`, `snap`, `flate2` and `zstd`.
//!
//! Invariant: the output has exactly the requested length, whatever the bytes say, and no length
//! within them sizes an allocation. Not here: places of chunks and their checksums.

use std::cell::RefCell;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use crate::schema::Compression;

/// How the chunks of a file are compressed.
pub(crate) use crate::schema::Compressor as Codec;

/// Decoders that a thread makes once. Zstandard's asks the processor what it can do, which a
/// virtual machine answers in many µs, so one a chunk would cost more than the chunk.
struct Decoders {
    deflate: Decompress,
    zstd: zstd::bulk::Decompressor<'static>,
}

thread_local! {
    static DECODERS: RefCell<Option<Decoders>> = const { RefCell::new(None) };
}

impl Decoders {
    /// Errors: in words, when there is no memory for them.
    fn new() -> Result<Self, String> {
        let zstd = zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?;
        Ok(Decoders { deflate: Decompress::new(true), zstd })
    }

    /// Runs `work` with those of this thread. It must not decompress in turn.
    fn with<R>(work: impl FnOnce(&mut Self) -> Result<R, String>) -> Result<R, String> {
        DECODERS.with_borrow_mut(|decoders| {
            if decoders.is_none() {
                *decoders = Some(Decoders::new()?);
            }
            work(decoders.as_mut().expect("made above"))
        })
    }

    fn deflate(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, String> {
        let stream = &mut self.deflate;
        stream.reset(true);
        let status = stream.decompress(stored, out, FlushDecompress::Finish);
        if status.map_err(|error| error.to_string())? != Status::StreamEnd {
            return Err(format!("a stream that goes on after {} bytes", stream.total_out()));
        }
        Ok(usize::try_from(stream.total_out()).unwrap_or(usize::MAX))
    }
}

/// Level of Zstandard where none is asked for, as in Cassandra.
const ZSTD_LEVEL_DEFAULT: i32 = 3;

impl Codec {
    /// All that are readable, as an error lists them.
    pub(super) const NAMES: &str = "LZ4, Snappy, Deflate and Zstd";

    pub(crate) fn name(self) -> &'static str {
        match self {
            Codec::Lz4 => "LZ4",
            Codec::Snappy => "Snappy",
            Codec::Deflate => "Deflate",
            Codec::Zstd => "Zstd",
        }
    }

    /// Fills `out` with what `stored` holds.
    ///
    /// Errors: in words, when `stored` is damaged or holds more or less than `out`.
    pub(crate) fn decompress(self, stored: &[u8], out: &mut [u8]) -> Result<(), String> {
        let wanted = out.len();
        let length = match self {
            Codec::Lz4 => {
                let (length, block) =
                    stored.split_first_chunk::<4>().ok_or("no room for a length")?;
                let length = u32::from_le_bytes(*length) as usize;
                if length != wanted {
                    return Err(format!("a length of {length}"));
                }
                lz4_flex::block::decompress_into(block, out).map_err(|error| error.to_string())?
            }
            Codec::Snappy => {
                let length =
                    snap::raw::decompress_len(stored).map_err(|error| error.to_string())?;
                if length != wanted {
                    return Err(format!("a length of {length}"));
                }
                let mut decoder = snap::raw::Decoder::new();
                decoder.decompress(stored, out).map_err(|error| error.to_string())?
            }
            Codec::Deflate => Decoders::with(|decoders| decoders.deflate(stored, out))?,
            Codec::Zstd => Decoders::with(|decoders| {
                let length = decoders.zstd.decompress_to_buffer(stored, out);
                length.map_err(|error| error.to_string())
            })?,
        };
        if length != wanted {
            return Err(format!("{length} bytes"));
        }
        Ok(())
    }
}

/// Compresses one chunk after another.
pub(crate) struct ChunkEncoder {
    codec: Codec,
    snappy: snap::raw::Encoder,
    deflate: Option<Compress>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl ChunkEncoder {
    pub(crate) fn new(compression: Compression) -> Self {
        let codec = compression.compressor;
        let is = |other: Codec| codec == other;
        let level = compression.level.unwrap_or(ZSTD_LEVEL_DEFAULT);
        let zstd = || {
            let mut compressor = zstd::bulk::Compressor::new(level).expect("the level is in range");
            compressor.include_checksum(true).expect("a parameter that Zstandard has");
            compressor
        };
        ChunkEncoder {
            codec,
            snappy: snap::raw::Encoder::new(),
            deflate: is(Codec::Deflate)
                .then(|| Compress::new(flate2::Compression::default(), true)),
            zstd: is(Codec::Zstd).then(zstd),
        }
    }

    /// Appends the stored form of a chunk to `out`.
    pub(crate) fn compress(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        match self.codec {
            Codec::Lz4 => {
                out.extend_from_slice(&(content.len() as u32).to_le_bytes());
                let from = out.len();
                out.resize(from + lz4_flex::block::get_maximum_output_size(content.len()), 0);
                let length = lz4_flex::block::compress_into(content, &mut out[from..]);
                out.truncate(from + length.expect("there is room for the worst case"));
            }
            Codec::Snappy => {
                out.resize(start + snap::raw::max_compress_len(content.len()), 0);
                let length = self.snappy.compress(content, &mut out[start..]);
                out.truncate(start + length.expect("there is room for the worst case"));
            }
            Codec::Deflate => {
                let stream = self.deflate.as_mut().expect("made for this codec");
                stream.reset();
                out.reserve(content.len() + content.len() / 8 + 64);
                let status = stream.compress_vec(content, out, FlushCompress::Finish);
                let is_whole = status.is_ok_and(|status| status == Status::StreamEnd);
                assert!(is_whole, "there is room for the worst case");
            }
            Codec::Zstd => {
                let compressor = self.zstd.as_mut().expect("made for this codec");
                out.resize(start + zstd::zstd_safe::compress_bound(content.len()), 0);
                let length = compressor.compress_to_buffer(content, &mut out[start..]);
                out.truncate(start + length.expect("there is room for the worst case"));
            }
        }
        if cfg!(debug_assertions) {
            let mut again = vec![0; content.len()];
            let result = self.codec.decompress(&out[start..], &mut again);
            assert!(
                result.is_ok() && again == content,
                "a chunk of {} bytes is not what comes back: {result:?}",
                content.len()
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One chunk, compressed.
    pub(crate) fn compress(codec: Codec, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        ChunkEncoder::new(Compression::new(codec)).compress(content, &mut out);
        out
    }

    #[test]
    fn every_codec_gives_back_what_it_took_and_no_other_length() {
        let texts: [&[u8]; 4] = [b"", b"a", &[7; 5000], b"no repetition here"];
        for codec in Codec::ALL {
            for text in texts {
                let stored = compress(codec, text);
                let mut out = vec![0; text.len()];
                codec.decompress(&stored, &mut out).unwrap();
                assert_eq!(out, text, "{codec:?}");
                assert!(codec.decompress(&stored, &mut vec![0; text.len() + 1]).is_err());
                if let Some(shorter) = text.len().checked_sub(1) {
                    assert!(codec.decompress(&stored, &mut vec![0; shorter]).is_err());
                }
            }
        }
    }

    #[test]
    fn damaged_chunks_are_errors_or_other_bytes_but_never_panic() {
        let text: Vec<u8> = (0..3000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for codec in Codec::ALL {
            let stored = compress(codec, &text);
            let mut out = vec![0; text.len()];
            for at in 0..stored.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut damaged = stored.clone();
                    damaged[at] ^= flip;
                    let _ = codec.decompress(&damaged, &mut out);
                }
                // Of a damaged chunk nothing stays in the decoder.
                codec.decompress(&stored, &mut out).unwrap();
                assert_eq!(out, text, "{codec:?} {at}");
                assert!(codec.decompress(&stored[..at], &mut out).is_err(), "{codec:?} {at}");
            }
        }
    }

    #[test]
    fn classes_are_known_with_and_without_their_package() {
        let full = "org.apache.cassandra.io.compress.ZstdCompressor";
        assert_eq!(Codec::of_class(full), Some(Codec::Zstd));
        assert_eq!(Codec::of_class("SnappyCompressor"), Some(Codec::Snappy));
        assert_eq!(Codec::of_class("LZ4WithDictsCompressor"), None);
    }
}
