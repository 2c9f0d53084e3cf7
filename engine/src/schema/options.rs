//! Options of tables that have parts of their own: thresholds of large data, compression, damage.
//!
//! Not here: the list of a table's options (`table_schema`), and what acts on them.

use serde::{Deserialize, Serialize};

use crate::config::{
    COMPRESSION_CHUNK_BYTES_DEFAULT, COMPRESSION_CHUNK_BYTES_MAX, COMPRESSION_CHUNK_BYTES_MIN,
    LARGE_CELL_BYTES_DEFAULT, LARGE_COLLECTION_ELEMENTS_DEFAULT, LARGE_PARTITION_BYTES_DEFAULT,
    LARGE_PARTITION_ROWS_DEFAULT, LARGE_ROW_BYTES_DEFAULT,
};
use crate::error::{Error, Result};

/// Highest level of Zstandard.
const ZSTD_LEVEL_MAX: i32 = 22;

/// From which size on things are large: what is greater is counted, recorded and warned of when an
/// SSTable is written. Nothing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeDataThresholds {
    /// Bytes of a partition in the data file, before compression.
    pub partition_bytes: u64,
    /// Bytes of a row there.
    pub row_bytes: u64,
    /// Bytes of the value of a cell, or of all paths and values of a multi-cell column.
    pub cell_bytes: u64,
    /// Clustering rows of a partition.
    pub partition_rows: u64,
    /// Cells of a multi-cell column.
    pub collection_elements: u64,
}

impl Default for LargeDataThresholds {
    fn default() -> Self {
        LargeDataThresholds {
            partition_bytes: LARGE_PARTITION_BYTES_DEFAULT,
            row_bytes: LARGE_ROW_BYTES_DEFAULT,
            cell_bytes: LARGE_CELL_BYTES_DEFAULT,
            partition_rows: LARGE_PARTITION_ROWS_DEFAULT,
            collection_elements: LARGE_COLLECTION_ELEMENTS_DEFAULT,
        }
    }
}

/// Thresholds of one table; those of the database where absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LargeDataOptions {
    pub partition_bytes: Option<u64>,
    pub row_bytes: Option<u64>,
    pub cell_bytes: Option<u64>,
    pub partition_rows: Option<u64>,
    pub collection_elements: Option<u64>,
}

impl LargeDataOptions {
    /// The table's thresholds in a database with these.
    pub fn over(&self, database: LargeDataThresholds) -> LargeDataThresholds {
        LargeDataThresholds {
            partition_bytes: self.partition_bytes.unwrap_or(database.partition_bytes),
            row_bytes: self.row_bytes.unwrap_or(database.row_bytes),
            cell_bytes: self.cell_bytes.unwrap_or(database.cell_bytes),
            partition_rows: self.partition_rows.unwrap_or(database.partition_rows),
            collection_elements: self.collection_elements.unwrap_or(database.collection_elements),
        }
    }
}

/// What becomes of damaged files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCorruption {
    /// A file that cannot be opened keeps its table from being opened; damage that a read meets
    /// ends the read.
    #[default]
    Fail,
    /// A file that cannot be opened is left out. Where a read meets damage it goes on at the next
    /// block of the partition, or at the next partition, that the index names: rows may be missing,
    /// and what other files have of them may show. Nothing is deleted.
    Skip,
}

/// A way to compress the chunks of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compressor {
    /// u32 (little-endian) length of the content, then a raw LZ4 block.
    Lz4,
    /// A raw Snappy block.
    Snappy,
    /// A zlib stream.
    Deflate,
    /// One Zstandard frame.
    Zstd,
}

impl Compressor {
    pub const ALL: [Compressor; 4] =
        [Compressor::Lz4, Compressor::Snappy, Compressor::Deflate, Compressor::Zstd];

    /// Cassandra's name of the class, without its package.
    pub fn class(self) -> &'static str {
        match self {
            Compressor::Lz4 => "LZ4Compressor",
            Compressor::Snappy => "SnappyCompressor",
            Compressor::Deflate => "DeflateCompressor",
            Compressor::Zstd => "ZstdCompressor",
        }
    }

    /// The compressor of a class, named with or without its package.
    pub fn of_class(class: &str) -> Option<Self> {
        let name = class.rsplit('.').next()?;
        Compressor::ALL.into_iter().find(|compressor| compressor.class() == name)
    }
}

/// How a table's new data files are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    pub compressor: Compressor,
    /// Bytes of data in a chunk, a power of two. A point read decompresses one chunk at least.
    pub chunk_bytes: u32,
    /// Level of Zstandard, 1 to 22; others have none.
    pub level: Option<i32>,
}

impl Compression {
    pub fn new(compressor: Compressor) -> Self {
        Compression { compressor, chunk_bytes: COMPRESSION_CHUNK_BYTES_DEFAULT, level: None }
    }

    /// Errors: `Invalid` for a length of chunks or a level that is not possible.
    pub fn validate(&self) -> Result<()> {
        let lengths = COMPRESSION_CHUNK_BYTES_MIN..=COMPRESSION_CHUNK_BYTES_MAX;
        if !self.chunk_bytes.is_power_of_two() || !lengths.contains(&self.chunk_bytes) {
            return Err(Error::invalid(format!(
                "chunks are {} to {} KiB long, a power of two",
                lengths.start() >> 10,
                lengths.end() >> 10
            )));
        }
        match self.level {
            Some(_) if self.compressor != Compressor::Zstd => Err(Error::invalid(format!(
                "{} has no compression_level: ZstdCompressor has",
                self.compressor.class()
            ))),
            Some(level) if !(1..=ZSTD_LEVEL_MAX).contains(&level) => Err(Error::invalid(format!(
                "compression_level of ZstdCompressor is between 1 and {ZSTD_LEVEL_MAX}"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_own_thresholds_and_else_those_of_the_database() {
        let database = LargeDataThresholds {
            partition_bytes: 1,
            row_bytes: 2,
            cell_bytes: 3,
            partition_rows: 4,
            collection_elements: 5,
        };
        assert_eq!(LargeDataOptions::default().over(database), database);
        let all = LargeDataOptions {
            partition_bytes: Some(10),
            row_bytes: Some(20),
            cell_bytes: Some(30),
            partition_rows: Some(40),
            collection_elements: Some(50),
        };
        let own = LargeDataThresholds {
            partition_bytes: 10,
            row_bytes: 20,
            cell_bytes: 30,
            partition_rows: 40,
            collection_elements: 50,
        };
        assert_eq!(all.over(database), own);
        let some = LargeDataOptions { row_bytes: Some(20), ..LargeDataOptions::default() };
        assert_eq!(some.over(database), LargeDataThresholds { row_bytes: 20, ..database });
    }

    #[test]
    fn chunks_and_levels_end_where_they_say() {
        let chunks = |chunk_bytes| {
            let compression = Compression { chunk_bytes, ..Compression::new(Compressor::Lz4) };
            compression.validate().is_ok()
        };
        for (bytes, is_possible) in [
            (512, false),
            (1024, true),
            (1025, false),
            (3072, false),
            (1 << 20, true),
            (2 << 20, false),
            (0, false),
        ] {
            assert_eq!(chunks(bytes), is_possible, "{bytes}");
        }
        for compressor in Compressor::ALL {
            for level in [0, 1, 22, 23] {
                let compression =
                    Compression { level: Some(level), ..Compression::new(compressor) };
                let is_possible = compressor == Compressor::Zstd && (1..=22).contains(&level);
                assert_eq!(compression.validate().is_ok(), is_possible, "{compression:?}");
            }
            assert!(Compression::new(compressor).validate().is_ok());
            let class = format!("org.apache.cassandra.io.compress.{}", compressor.class());
            assert_eq!(Compressor::of_class(&class), Some(compressor));
        }
    }
}
