//! INSERT, UPDATE and DELETE, with their conditions and changes of elements.

mod condition;
mod element;
mod operand;
mod write;

pub use write::{using_value, write};
