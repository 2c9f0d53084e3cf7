//! Writes: from parsed statements to values that fit their columns, and to mutations.

pub mod batch;
pub mod braces;
mod column;
pub mod condition;
pub mod conditional;
mod counting;
pub mod element;
pub(crate) mod in_flight;
pub mod insert;
pub(crate) mod stamp;
pub mod values;
mod write;

pub use column::{find_column, scalar_value};
pub use write::{Target, delete, explain, target, update};
