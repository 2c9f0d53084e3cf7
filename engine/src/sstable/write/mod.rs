//! Writing one SSTable: fragments in order become its components.

mod data_writer;
mod large_data;
mod writer;

pub use writer::{ORIGIN_COMPACTION, SstableWriter, WriterOptions, link_files, remove_files};
