//! What of a table a plan reads, where that is known from more than the conditions on it.

mod below;
mod divided;
mod extreme_row;
mod look_up;
mod one_row;
pub mod partition_limit;
pub mod stamp;

pub use divided::divided;
pub use extreme_row::ExtremeRow;
pub use look_up::{LookUp, few_to_left};
pub use one_row::OneRow;
