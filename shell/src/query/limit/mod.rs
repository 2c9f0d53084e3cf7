//! How large a result may become, and the warnings that a session keeps.

mod result;
mod warnings;

pub use result::ResultLimits;
pub use warnings::{Warning, Warnings};
