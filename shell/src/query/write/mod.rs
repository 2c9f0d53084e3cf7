//! Writes: from what was parsed to values that fit their columns, and to mutations.

pub mod braces;
pub mod element;
pub mod insert;
pub(crate) mod stamp;
pub mod values;
mod write;

pub use write::{Target, delete, explain, find_column, target, update};
