//! Statements about who may use how much: service levels, statements and reads
//! under way.

pub mod query;
pub mod read;
pub mod service_level;
