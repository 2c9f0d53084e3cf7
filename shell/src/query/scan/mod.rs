//! Reads: the engine's tables as DataFusion sees them, from conditions to slices to batches.

pub mod catalog;
mod provider;
pub mod pushdown;
mod scan;

pub use scan::slices_text;
