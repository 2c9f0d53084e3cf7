//! What of a table a plan reads, where that is known from more than the conditions on it.

mod below;
mod by_partition;
mod divided;
mod extreme_row;
mod look_up;
mod one_row;
pub mod partition_limit;
mod ring_order;
pub mod stamp;

pub use by_partition::ByPartition;
pub use divided::divided;
pub use extreme_row::ExtremeRow;
pub use look_up::{LookUp, few_to_left};
pub use one_row::OneRow;
pub use ring_order::in_ring_order;
