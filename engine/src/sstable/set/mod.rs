//! Which SSTables of a table are live, and what becomes of files that are not.

mod leftover;
pub mod manifest;
#[cfg(test)]
mod tests;

pub use leftover::{LOST, clear_unnamed};
