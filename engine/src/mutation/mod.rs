//! What a write is and what a read streams: cells, rows, tombstones, positions and fragments.
//!
//! Reconciliation is Cassandra's: the higher timestamp wins; at equal timestamps a deletion beats a
//! value, an expiring value beats a plain one, and between values the greater bytes win. Elements
//! of multi-cell columns are reconciled one by one; of a counter what each node counted.

pub mod cell;
pub mod codec;
pub mod direction;
pub mod flat;
pub mod fragment;
pub mod multi_cell;
pub mod point_read;
pub mod position;
pub mod range_tombstone;
pub mod row;
mod row_view;
pub mod slice;
pub mod tombstone;
mod write;

pub use cell::{Cell, CellState};
pub use direction::Direction;
pub(crate) use flat::{FlatCell, FlatState, NO_COLUMN};
pub use flat::{FlatRow, FlatValues};
pub(crate) use fragment::StreamCheck;
pub use fragment::{Filled, Fragment, FragmentSink, FragmentSource};
pub use multi_cell::{CellPath, MultiCell};
pub use point_read::PointRead;
pub use position::{ClusteringRange, Position, Weight};
pub use range_tombstone::{RangeTombstone, RangeTombstoneList};
pub use row::{Liveness, Row};
pub(crate) use row_view::{RowForm, RowView, ViewRoom};
pub use slice::{PartitionRange, Slice};
pub use tombstone::Tombstone;
pub use write::Mutation;
