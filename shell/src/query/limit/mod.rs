//! How large a result may become, what its reads may meet, and the warnings that a session keeps.

mod held;
mod result;
mod tombstones;
mod warnings;

pub use result::ResultLimits;
pub use tombstones::warn_of_tombstones;
pub use warnings::{Warning, Warnings};
