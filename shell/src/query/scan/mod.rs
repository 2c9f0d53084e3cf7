//! Reads: the engine's tables as DataFusion sees them, from conditions to slices to batches.

pub mod catalog;
pub mod metrics;
mod order;
mod partition_limit;
mod provider;
pub mod pushdown;
mod scan;
mod scan_parts;
mod selection;
mod source;
pub mod text;
pub mod token;
mod turned;
pub mod views;
mod wanted;

pub use partition_limit::PartitionLimit;
pub use provider::TideTable;
pub use scan::TideScan;
pub use scan_parts::ScanParts;
pub use selection::Selection;
pub use source::{OnlyShard, Source};
pub use text::slices_text;
pub use wanted::{Listener, WantedKeys, WantedValues};
