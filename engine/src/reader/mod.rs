//! Things that move rows upward: merging sources, dropping dead data.
//!
//! Every reader takes and gives a fragment stream in one direction and does not know which; only
//! the sources below turn round.

mod condition;
mod dropped;
mod filter;
mod merge;
mod query;
mod row_values;
mod uncovered;

pub use condition::{Comparator, Comparison, Condition, RowCondition, RowState};
pub use dropped::DroppedCells;
pub use filter::RowFilter;
pub use merge::MergeSource;
pub use query::{LiveContent, LiveRows, QueryReader, TakeRows, see_row};
pub use row_values::{RowKey, RowValues};
pub use uncovered::Uncovered;
