//! The live SSTables of a table, and the handling of other files.

mod leftover;
pub mod manifest;
#[cfg(test)]
mod tests;

pub use leftover::{LOST, clear_unnamed};
