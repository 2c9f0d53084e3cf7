//! Things that move rows upward: merging sources, dropping dead data.
//!
//! Every reader takes and gives a fragment stream in one direction and does not know which; only
//! the sources below turn round.

mod merge;
mod query;
mod uncovered;

pub use merge::MergeSource;
pub use query::{LiveContent, LiveRows, QueryReader, TakeRows};
pub use uncovered::Uncovered;
