//! Statements that look at what others do, and at what is stored.

pub mod summarize;
pub mod trace;
pub mod tracing;
