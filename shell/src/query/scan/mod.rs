//! Reads: the engine's tables as DataFusion sees them, from conditions to slices to batches.

pub mod catalog;
pub mod metrics;
mod part;
mod partition_limit;
mod provider;
pub mod pushdown;
mod scan;
mod selection;
pub mod text;
pub mod token;
pub mod views;
mod wanted;

pub use part::OnlyShard;
pub use partition_limit::PartitionLimit;
pub use provider::TideTable;
pub use scan::TideScan;
pub use text::slices_text;
pub use wanted::{Listener, WantedKeys, WantedValues};
