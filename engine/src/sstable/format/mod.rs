//! What the bytes of an SSTable mean: each component, and the rows within the data.
//!
//! Nothing here opens a file or knows how one is read. The reader, the writer and `inspect` all
//! start here.

pub(crate) mod cardinality;
pub(crate) mod class_name;
pub(crate) mod codec;
pub(crate) mod coding;
pub(crate) mod component;
pub(crate) mod compression_info;
pub(crate) mod info;
pub(crate) mod integrity;
pub(crate) mod layout;
pub(crate) mod prefix;
pub(crate) mod scylla;
pub(crate) mod statistics;
pub(crate) mod type_name;
pub(crate) mod unfiltered;
