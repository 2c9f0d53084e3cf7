//! Codecs of compressed chunks: the one module that names `lz4_flex`, `snap`, `flate2` and `zstd`.
//!
//! Invariant: what comes out has exactly the length that was asked for, whatever the bytes say; no
//! length within them is used to allocate. Not here: where chunks lie and their checksums.

use flate2::{Decompress, FlushDecompress, Status};

/// How the chunks of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// u32 (little-endian) length of the content, then a raw LZ4 block.
    Lz4,
    /// A raw Snappy block.
    Snappy,
    /// A zlib stream.
    Deflate,
    /// One Zstandard frame.
    Zstd,
}

impl Codec {
    /// All that are readable, as an error lists them.
    pub(super) const NAMES: &str = "LZ4, Snappy, Deflate and Zstd";

    /// The codec of a compressor class, named with or without its package.
    pub(super) fn of_class(class: &str) -> Option<Self> {
        match class.rsplit('.').next()? {
            "LZ4Compressor" => Some(Codec::Lz4),
            "SnappyCompressor" => Some(Codec::Snappy),
            "DeflateCompressor" => Some(Codec::Deflate),
            "ZstdCompressor" => Some(Codec::Zstd),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
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
    pub(super) fn decompress(self, stored: &[u8], out: &mut [u8]) -> Result<(), String> {
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
            Codec::Deflate => {
                let mut stream = Decompress::new(true);
                let status = stream.decompress(stored, out, FlushDecompress::Finish);
                if status.map_err(|error| error.to_string())? != Status::StreamEnd {
                    return Err(format!(
                        "a stream that goes on after {} bytes",
                        stream.total_out()
                    ));
                }
                usize::try_from(stream.total_out()).unwrap_or(usize::MAX)
            }
            Codec::Zstd => {
                zstd::bulk::decompress_to_buffer(stored, out).map_err(|error| error.to_string())?
            }
        };
        if length != wanted {
            return Err(format!("{length} bytes"));
        }
        Ok(())
    }

    /// Compresses one chunk, for tests: the engine writes uncompressed files.
    #[cfg(test)]
    pub(super) fn compress(self, content: &[u8]) -> Vec<u8> {
        match self {
            Codec::Lz4 => {
                let mut out = (content.len() as u32).to_le_bytes().to_vec();
                out.extend(lz4_flex::block::compress(content));
                out
            }
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(content).unwrap(),
            Codec::Deflate => {
                let mut stream = flate2::Compress::new(flate2::Compression::fast(), true);
                let mut out = Vec::with_capacity(content.len() + 1024);
                let finish = flate2::FlushCompress::Finish;
                let status = stream.compress_vec(content, &mut out, finish).unwrap();
                assert_eq!(status, Status::StreamEnd);
                out
            }
            Codec::Zstd => zstd::bulk::compress(content, 1).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const ALL: [Codec; 4] = [Codec::Lz4, Codec::Snappy, Codec::Deflate, Codec::Zstd];

    #[test]
    fn every_codec_gives_back_what_it_took_and_no_other_length() {
        let texts: [&[u8]; 4] = [b"", b"a", &[7; 5000], b"no repetition here"];
        for codec in ALL {
            for text in texts {
                let stored = codec.compress(text);
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
        for codec in ALL {
            let stored = codec.compress(&text);
            let mut out = vec![0; text.len()];
            for at in 0..stored.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut damaged = stored.clone();
                    damaged[at] ^= flip;
                    let _ = codec.decompress(&damaged, &mut out);
                }
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
