//! Statements about who may use how much: service levels, and reads under way.

pub mod read;
pub mod service_level;
